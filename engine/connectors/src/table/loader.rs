//! The thread that reads the table, again and again, and hands what differs to the task that polls.
//!
//! A poll may not wait for a database: a barrier would wait with it. So the waiting is done here, on a thread of the connector's own,
//! which ends when nobody takes what it hands over, in the middle of an answer too.

use super::config::TableConfig;
use super::database::{self, Failure, Scan, Version};
use super::differ::Differ;
use super::sqlite::Halt;
use arrow::array::RecordBatch;
use std::sync::Arc;
use std::time::Duration;
use tidegate_api::{Clock, Counter, Error, Result};
use tokio::sync::mpsc::{Receiver, Sender, channel};

/// What it hands over.
pub(super) enum Message {
    /// Changes, under the source's schema.
    Rows(RecordBatch),
    /// The table is as the database had it when this reading began.
    Loaded,
    /// It has given up.
    Failed(Error),
}

/// Batches that wait to be taken.
const AHEAD: usize = 2;
const FIRST_PAUSE: Duration = Duration::from_millis(200);
const LONGEST_PAUSE: Duration = Duration::from_secs(10);

/// The other end of a loader. It ends when this is dropped; nobody waits for that.
pub(super) struct Loading {
    pub(super) messages: Receiver<Message>,
    halt: Halt,
}

impl Drop for Loading {
    fn drop(&mut self) {
        self.halt.halt();
    }
}

/// What a loader needs beside the table's options.
pub(super) struct Loader {
    pub(super) config: Arc<TableConfig>,
    pub(super) scan: Scan,
    pub(super) clock: Arc<dyn Clock>,
    /// Attempts that failed.
    pub(super) retries: Counter,
}

/// Starts a loader. `differ` makes what compares its rows.
///
/// # Errors
/// `External` when the system has no thread.
pub(super) fn start(loader: Loader, differ: impl FnOnce(Sender<Message>) -> Result<Differ>) -> Result<Loading> {
    let (sender, messages) = channel(AHEAD);
    let differ = differ(sender.clone())?;
    let halt = Halt::default();
    let theirs = halt.clone();
    let name = format!("table {}", loader.config.dataset);
    let started = std::thread::Builder::new().name(name).spawn(move || {
        let runtime = match database::runtime() {
            Ok(runtime) => runtime,
            Err(error) => return drop(sender.blocking_send(Message::Failed(error))),
        };
        runtime.block_on(async {
            // Whatever it waits for, it stops when nobody takes its rows any more.
            tokio::select! {
                () = sender.closed() => {}
                () = loader.run(differ, &sender, &theirs) => {}
            }
        });
        // A name that is being resolved is not waited for.
        runtime.shutdown_timeout(Duration::ZERO);
    });
    started.map_err(|error| Error::external("no thread to read a table").caused_by(error))?;
    Ok(Loading { messages, halt })
}

impl Loader {
    async fn run(&self, mut differ: Differ, out: &Sender<Message>, halt: &Halt) {
        if let Err(error) = self.read_on(&mut differ, halt).await {
            let _ = out.send(Message::Failed(error)).await;
        }
    }

    /// Reads until nobody wants it, or it cannot go on. Once, if that is enough.
    async fn read_on(&self, differ: &mut Differ, halt: &Halt) -> Result<()> {
        // When what was handed over was true; before the first reading, since when the stream waits.
        let mut true_at = self.clock.monotonic();
        let (mut has_loaded, mut failed) = (false, 0u32);
        // The newest version so far, and when all rows were read.
        let (mut newest, mut all_at): (Option<Version>, Duration) = (None, true_at);
        loop {
            if differ.settle().await.is_err() {
                return Ok(());
            }
            let begun = self.clock.monotonic();
            differ.begin();
            let is_due = self.config.version.as_ref().is_none_or(|(_, full)| begun.saturating_sub(all_at) >= *full);
            let since = newest.as_ref().filter(|_| !is_due);
            let is_all = since.is_none();
            let read = match database::scan(&self.config, &self.scan, since, differ, halt).await {
                Ok(version) => differ.end().await.map(|()| version),
                Err(failure) => Err(failure),
            };
            let error = match read {
                Ok(version) => {
                    newest = version;
                    if is_all {
                        all_at = begun;
                    }
                    if failed > 0 {
                        tracing::info!(dataset = self.config.dataset, rows = differ.rows(), "the table is read again");
                    }
                    (true_at, has_loaded, failed) = (begun, true, 0);
                    let Some(refresh) = self.config.refresh else { return Ok(()) };
                    let took = self.clock.monotonic().saturating_sub(begun);
                    tokio::time::sleep(refresh.saturating_sub(took)).await;
                    continue;
                }
                // The rest is read when there is room, in another state of the database; what was handed over stays so.
                Err(Failure::Held) => continue,
                Err(Failure::Stopped) => return Ok(()),
                Err(Failure::Final(error)) => return Err(error),
                Err(Failure::Refused(error)) if !has_loaded => return Err(error),
                Err(Failure::Refused(error) | Failure::Away(error)) => error,
            };
            failed += 1;
            self.retries.add(1);
            let stale = self.clock.monotonic().saturating_sub(true_at);
            if stale >= self.config.max_staleness {
                let (most, attempts) = (self.config.max_staleness, failed);
                let since = if has_loaded { "the table was read last" } else { "the run began" };
                return Err(Error::external(format!(
                    "{attempts} attempts in a row failed, and it is {stale:.0?} since {since}; `maxStaleness` is {most:?}: {error}"
                )));
            }
            if has_loaded {
                tracing::warn!(%error, dataset = self.config.dataset, attempt = failed, ?stale, "the table stays as it is; it will be read again");
            } else {
                tracing::warn!(%error, dataset = self.config.dataset, attempt = failed, "the table is not there yet; it will be asked for again");
            }
            let pause = FIRST_PAUSE.saturating_mul(1 << (failed - 1).min(8)).min(LONGEST_PAUSE);
            tokio::time::sleep(pause.min(self.config.max_staleness.saturating_sub(stale).max(FIRST_PAUSE))).await;
        }
    }
}

//! Reads a source to its end, as a task of one would.

use arrow::datatypes::SchemaRef;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;
use tidegate_api::{
    BadRow, Chunk, Clock, Error, ErrorKind, InlineSource, PollRequest, Result, Retry, RunIdentity, SourceCtx, SourceReader, SourceRequest,
    SplitId, SplitState, SystemClock,
};

const MAX_ROWS: usize = 8192;
const MAX_BYTES: usize = 2 << 20;
/// How long a poll may wait for rows.
const WAIT: Duration = Duration::from_millis(200);
/// How often in a row a source may ask for another attempt.
const ATTEMPTS: u32 = 5;
/// How much of a bad row is shown.
const MAX_RAW: usize = 200;

/// A source being read.
pub(super) struct Drain<'a> {
    source: &'a dyn InlineSource,
    schema: SchemaRef,
    reader: Box<dyn SourceReader>,
    /// Splits that are not finished yet.
    open: BTreeSet<SplitId>,
    found: usize,
    cursor: Option<Vec<u8>>,
    /// Nothing will be found any more.
    complete: bool,
    looked: Duration,
    left: u64,
}

impl<'a> Drain<'a> {
    /// Plans, finds the splits, and opens a reader on them.
    pub(super) fn open(source: &'a dyn InlineSource, identity: &RunIdentity, limit: Option<u64>) -> Result<Drain<'a>> {
        let request = SourceRequest::all();
        let plan = source.plan(&request)?;
        let found = attempt(|| source.discover(None))?;
        let open: BTreeSet<SplitId> = found.added.iter().map(|split| split.id.clone()).collect();
        let context = SourceCtx::new(identity.clone()).with_start(found.added).with_request(request.with_pinned(plan.pinned.clone()));
        let reader = source.open(context)?;
        Ok(Drain {
            source,
            schema: plan.schema,
            reader,
            found: open.len(),
            open,
            cursor: found.cursor,
            complete: found.complete,
            looked: SystemClock.monotonic(),
            left: limit.unwrap_or(u64::MAX),
        })
    }

    /// The schema of its rows.
    pub(super) fn schema(&self) -> SchemaRef {
        self.schema.clone()
    }

    /// How many splits were found.
    pub(super) fn splits(&self) -> usize {
        self.found
    }

    /// More chunks; none at the end, or when enough rows were read.
    pub(super) fn next(&mut self) -> Result<Option<Vec<Chunk>>> {
        if self.left == 0 || (self.open.is_empty() && self.complete) {
            return Ok(None);
        }
        self.look_again()?;
        let max_rows = usize::try_from(self.left).map_or(MAX_ROWS, |left| left.min(MAX_ROWS));
        let request = PollRequest { max_rows, max_bytes: MAX_BYTES, wait: WAIT };
        let reader = &mut self.reader;
        let polled = attempt(|| reader.poll(request))?;
        let rows: usize = polled.chunks.iter().map(|chunk| chunk.rows.num_rows()).sum();
        self.left = self.left.saturating_sub(rows as u64);
        for (split, state) in polled.states {
            if state == SplitState::Finished {
                self.open.remove(&split);
            }
        }
        if polled.chunks.is_empty()
            && let Some(after) = polled.retry_after
            && !(self.open.is_empty() && self.complete)
        {
            pause(after.min(Duration::from_secs(1)));
        }
        Ok(Some(polled.chunks))
    }

    /// Looks for new splits, as often as the source wants.
    fn look_again(&mut self) -> Result<()> {
        let now = SystemClock.monotonic();
        let Some(every) = self.source.discover_every().filter(|every| !self.complete && now.saturating_sub(self.looked) >= *every) else {
            return Ok(());
        };
        tracing::debug!(?every, "looking for new splits");
        self.looked = now;
        let found = attempt(|| self.source.discover(self.cursor.as_deref()))?;
        self.complete = found.complete;
        self.cursor = found.cursor.or_else(|| self.cursor.take());
        let added: BTreeMap<_, _> = found.added.into_iter().map(|split| (split.id.clone(), split)).collect();
        self.found += added.len();
        self.open.extend(added.keys().cloned());
        if added.is_empty() { Ok(()) } else { self.reader.assign(added.into_values().collect()) }
    }
}

/// Makes a call that asks to be made again, some times.
pub(super) fn attempt<T>(mut call: impl FnMut() -> Result<T>) -> Result<T> {
    let mut attempts = 1;
    loop {
        match (call(), attempts) {
            (Err(error), 1..ATTEMPTS) => match error.kind() {
                ErrorKind::External { retry: Retry::After(after) } => {
                    eprintln!("{error}; trying again");
                    pause(after);
                    attempts += 1;
                }
                _ => return Err(error),
            },
            (answer, _) => return answer,
        }
    }
}

#[allow(clippy::disallowed_methods, reason = "a command by itself has nothing else to do")]
fn pause(time: Duration) {
    std::thread::sleep(time);
}

/// Says on stderr what is wrong with a row.
pub(super) fn show_bad(bad: &BadRow) {
    let raw = String::from_utf8_lossy(&bad.raw);
    let shown: String = raw.chars().take(MAX_RAW).collect();
    let more = if shown.len() < raw.len() { "…" } else { "" };
    let column = bad.column.as_ref().map(|column| format!(", column `{column}`")).unwrap_or_default();
    let place = match (&bad.split, &bad.position) {
        (Some(split), Some(position)) => format!(" at {split}:{position}"),
        _ => String::new(),
    };
    eprintln!("bad row ({}{column}){place}: {}: {shown}{more}", bad.reason.label(), bad.message);
}

/// An answer that is not of this command's kind.
pub(super) fn later(what: &str) -> Error {
    Error::internal(format!("the sink answers a {what} later, and nothing waits for it here"))
}

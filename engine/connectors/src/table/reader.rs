//! What the task polls: hands on what the loader has.

use super::loader::{Loading, Message};
use super::source::SPLIT;
use arrow::array::RecordBatch;
use std::time::Duration;
use tidegate_api::{Chunk, Error, PollRequest, Polled, Position, Result, SourceReader, Split, SplitId, SplitState};
use tokio::sync::mpsc::error::TryRecvError;

/// How soon a poll that found nothing is repeated.
const PAUSE: Duration = Duration::from_millis(20);
/// The same when nothing will ever come.
const NEVER: Duration = Duration::from_secs(3600);

/// Reads the one split of a table.
pub(super) struct TableReader {
    split: SplitId,
    /// None if the split is another task's, or the table was read once and that was it.
    loading: Option<Loading>,
    /// The rest of a batch.
    rest: Option<RecordBatch>,
    /// Readings that are complete. Nothing goes on from there; it is a place for messages.
    readings: u64,
    reads_once: bool,
    dataset: String,
}

impl TableReader {
    pub(super) fn new(loading: Option<Loading>, reads_once: bool, dataset: String) -> Self {
        TableReader { split: SplitId::new(SPLIT), loading, rest: None, readings: 0, reads_once, dataset }
    }

    fn chunk(&self, rows: RecordBatch) -> Chunk {
        Chunk::new(self.split.clone(), rows, Position::number(self.readings))
    }
}

impl SourceReader for TableReader {
    fn assign(&mut self, splits: Vec<Split>) -> Result<()> {
        match splits.is_empty() {
            true => Ok(()),
            false => Err(Error::internal("a table has one split, and it is assigned when it is opened")),
        }
    }

    fn poll(&mut self, request: PollRequest) -> Result<Polled> {
        let mut polled = Polled::default();
        let (most, mut rows, mut bytes) = (request.max_rows.max(1), 0, 0);
        while rows < most && (rows == 0 || bytes < request.max_bytes) {
            if let Some(batch) = self.rest.take() {
                let part = batch.slice(0, batch.num_rows().min(most - rows));
                if part.num_rows() < batch.num_rows() {
                    self.rest = Some(batch.slice(part.num_rows(), batch.num_rows() - part.num_rows()));
                }
                rows += part.num_rows();
                bytes += part.get_array_memory_size();
                polled.chunks.push(self.chunk(part));
                continue;
            }
            let Some(loading) = &mut self.loading else {
                polled.retry_after = Some(NEVER);
                break;
            };
            match loading.messages.try_recv() {
                Ok(Message::Rows(batch)) => self.rest = Some(batch),
                Ok(Message::Loaded) => {
                    self.readings += 1;
                    polled.states.push((self.split.clone(), SplitState::CaughtUp));
                    if self.reads_once {
                        self.loading = None;
                    }
                    break;
                }
                Ok(Message::Failed(error)) => return Err(error),
                Err(TryRecvError::Empty) => {
                    polled.retry_after = (rows == 0).then_some(PAUSE);
                    break;
                }
                Err(TryRecvError::Disconnected) => {
                    return Err(Error::internal(format!("what reads the table `{}` has ended without a word", self.dataset)));
                }
            }
        }
        Ok(polled)
    }
}

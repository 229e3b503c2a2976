//! One partition being read: what was taken of its queue becomes chunks, and its position moves over what holds no rows.

use super::ahead::Queue;
use super::listener::Listener;
use super::place::{Assigned, Place};
use super::run::{Decoding, Run};
use crate::decode::MessageDecoder;
use arrow::array::RecordBatch;
use rdkafka::error::KafkaError;
use rdkafka::message::{BorrowedMessage, Message as _, OwnedMessage};
use std::time::Duration;
use tidegate_api::{Chunk, Error, ErrorKind, Result, Retry};

/// A partition of this task.
pub(super) struct Part {
    pub(super) assigned: Assigned,
    /// The offset behind everything that was decoded.
    pub(super) next: i64,
    /// `None` once it has ended.
    pub(super) queue: Option<Queue>,
    /// Whether everything there is was handed over, as far as was heard.
    pub(super) caught_up: bool,
    /// Whether its broker may be out of reach, so that nothing heard says nothing.
    pub(super) doubted: bool,
    /// Whether it was told that this one is not caught up, for no better reason than that doubt.
    pub(super) held: bool,
    decoder: MessageDecoder,
    /// What was taken and could not be decoded yet, since somebody who is asked for it did not answer.
    kept: Vec<OwnedMessage>,
    /// Rows that found no room in the poll they were decoded in.
    rest: Option<Run>,
    /// What came behind the rows that were decoded last.
    behind: Option<Behind>,
}

/// What stands behind rows.
#[derive(Debug)]
enum Behind {
    /// The end of the partition, for now: at this offset, if it was told.
    End(Option<i64>),
    /// A row that the source does not read, since it ends before.
    Beyond,
    /// The client's word that something is wrong.
    Trouble(KafkaError),
}

/// What became of a partition in one poll.
#[derive(Default)]
pub(super) struct Turn {
    pub(super) chunk: Option<Chunk>,
    /// How many bytes were taken.
    pub(super) bytes: usize,
    /// Whether its queue was found empty.
    pub(super) drained: bool,
    /// Whether anything came that only a reachable broker can have said.
    pub(super) heard: bool,
    /// Whether the end was reached, and nothing came since.
    pub(super) at_end: bool,
    /// Whether a source that ends has read all of it.
    pub(super) finished: bool,
    pub(super) trouble: Option<KafkaError>,
    /// Why nothing was decoded of what was taken, which is tried again with the next turn.
    pub(super) waits: Option<Error>,
}

impl Part {
    pub(super) fn new(assigned: Assigned, decoder: MessageDecoder) -> Self {
        let next = assigned.place.offset;
        Part {
            assigned,
            next,
            queue: None,
            caught_up: false,
            doubted: false,
            held: false,
            decoder,
            kept: Vec::new(),
            rest: None,
            behind: None,
        }
    }

    /// Whether a source that ends has nothing to read here.
    pub(super) fn is_behind_its_end(&self) -> bool {
        self.assigned.details.end.is_some_and(|end| self.next >= end)
    }

    /// Gives up the queue. What was taken of it and not decoded comes again, so it is forgotten with what stood behind it.
    pub(super) fn let_go(&mut self) {
        (self.queue, self.doubted) = (None, false);
        if !self.kept.is_empty() {
            (self.kept, self.behind) = (Vec::new(), None);
        }
    }

    /// Whether everything taken was handed over.
    pub(super) fn is_handed_over(&self) -> bool {
        self.kept.is_empty() && self.rest.is_none() && self.behind.is_none()
    }

    /// Takes about so much of the queue and hands over at most so many rows.
    pub(super) fn read(&mut self, decoding: &Decoding, listener: &Listener, most_rows: usize, most_bytes: usize) -> Result<Turn> {
        let mut turn = Turn::default();
        if !self.kept.is_empty() {
            self.decode_kept(decoding, &mut turn)?;
        } else if self.is_handed_over() {
            self.take(decoding, listener, most_rows, most_bytes, &mut turn)?;
        }
        if turn.waits.is_some() {
            turn.drained = false;
            return Ok(turn);
        }
        if let Some(run) = &mut self.rest {
            let handed = run.hand(most_rows)?;
            self.assigned.place = handed.next.unwrap_or(Place::at(self.next));
            if handed.next.is_none() {
                self.rest = None;
            }
            let mut chunk = Chunk::new(self.assigned.id.clone(), handed.rows, self.assigned.place.position());
            chunk.ordinals = handed.ordinals;
            chunk.filtered = handed.tombstones;
            chunk.bad = handed.bad;
            chunk.bad.iter_mut().for_each(|bad| bad.split = Some(self.assigned.id.clone()));
            turn.chunk = Some(chunk);
        }
        if self.rest.is_some() {
            turn.drained = false;
            return Ok(turn);
        }
        match self.behind.take() {
            None => {}
            Some(Behind::End(told)) => {
                turn.at_end = true;
                let told = told.or(self.assigned.details.end);
                self.move_on(told.unwrap_or(self.next), decoding, &mut turn);
            }
            Some(Behind::Beyond) => self.move_on(self.assigned.details.end.unwrap_or(self.next), decoding, &mut turn),
            Some(Behind::Trouble(error)) => turn.trouble = Some(error),
        }
        turn.finished = self.is_behind_its_end();
        Ok(turn)
    }

    /// Moves the position over what holds no rows.
    fn move_on(&mut self, to: i64, decoding: &Decoding, turn: &mut Turn) {
        if to <= self.next {
            return;
        }
        self.next = to;
        self.assigned.place = Place::at(to);
        let position = self.assigned.place.position();
        match &mut turn.chunk {
            Some(chunk) => chunk.position = position,
            none => {
                let nothing = RecordBatch::new_empty(decoding.schema());
                *none = Some(Chunk::new(self.assigned.id.clone(), nothing, position));
            }
        }
    }

    fn take(&mut self, decoding: &Decoding, listener: &Listener, most_rows: usize, most_bytes: usize, turn: &mut Turn) -> Result<()> {
        let Some(queue) = &self.queue else {
            turn.drained = true;
            return Ok(());
        };
        let mut taken = Vec::new();
        while taken.len() < most_rows && turn.bytes < most_bytes {
            match queue.poll(Duration::ZERO) {
                None => {
                    turn.drained = true;
                    break;
                }
                Some(Ok(message)) => {
                    turn.heard = true;
                    if self.assigned.details.end.is_some_and(|end| message.offset() >= end) {
                        self.behind = Some(Behind::Beyond);
                        break;
                    }
                    turn.bytes += message.payload_len() + message.key_len();
                    taken.push(message);
                }
                Some(Err(KafkaError::PartitionEOF(_))) => {
                    turn.heard = true;
                    self.behind = Some(Behind::End(listener.take_end()));
                    break;
                }
                Some(Err(error)) => {
                    self.behind = Some(Behind::Trouble(error));
                    break;
                }
            }
        }
        let Some(next) = taken.last().map(|last| last.offset() + 1) else { return Ok(()) };
        match attempt(decoding, &mut self.decoder, &taken, self.assigned.place)? {
            Ok(run) => (self.rest, self.next) = (Some(run), next),
            Err(waits) => {
                // Copies: the client's own would be a part of its queue for as long as somebody does not answer.
                self.kept = taken.iter().map(BorrowedMessage::detach).collect();
                turn.waits = Some(waits);
            }
        }
        Ok(())
    }

    /// Tries again to decode what was taken before.
    fn decode_kept(&mut self, decoding: &Decoding, turn: &mut Turn) -> Result<()> {
        let Some(next) = self.kept.last().map(|last| last.offset() + 1) else { return Ok(()) };
        match attempt(decoding, &mut self.decoder, &self.kept, self.assigned.place)? {
            Ok(run) => {
                (self.rest, self.next) = (Some(run), next);
                self.kept = Vec::new();
            }
            Err(waits) => turn.waits = Some(waits),
        }
        Ok(())
    }
}

/// Decodes messages; the inner error is that of somebody who may be asked again, and costs nothing.
fn attempt<M: rdkafka::Message>(
    decoding: &Decoding,
    decoder: &mut MessageDecoder,
    taken: &[M],
    first: Place,
) -> Result<Result<Run, Error>> {
    match decoding.run(decoder, taken, first) {
        Err(error) if matches!(error.kind(), ErrorKind::External { retry: Retry::After(_) }) => Ok(Err(error)),
        run => run.map(Ok),
    }
}

//! The one type that flows through edges.

use crate::{Epoch, EventTime};
use arrow::array::RecordBatch;

/// What an edge carries, in order.
#[derive(Debug, Clone)]
pub enum Event {
    /// Rows.
    Batch(RecordBatch),
    /// A promise about rows still to come.
    Watermark(Watermark),
    /// The border between two epochs.
    Barrier(Barrier),
    /// Nothing follows on this edge.
    EndOfStream,
}

/// What a producer promises about event time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Watermark {
    /// No more rows with a time before this one, except late ones.
    At(EventTime),
    /// This input has nothing to say for now; leave it out of the minimum.
    Idle,
}

/// Separates the rows of `epoch` (before it) from those of the next (after it).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Barrier {
    /// The epoch that this barrier closes.
    pub epoch: Epoch,
    /// What follows.
    pub kind: BarrierKind,
    /// The value of `now()` in the epoch that follows, microseconds since 1970.
    pub now: EventTime,
}

/// What happens after a barrier.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BarrierKind {
    /// Rows go on.
    Checkpoint,
    /// All sources have ended; operators have flushed; nothing but `EndOfStream` follows.
    Drain,
    /// A stop: open windows stay in state; nothing but `EndOfStream` follows.
    Suspend,
}

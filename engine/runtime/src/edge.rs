//! An edge joins one producing task and one consuming task.
//!
//! Events travel through an unbounded channel; what bounds it is credit: the rows and bytes of batches under way. A batch that
//! does not fit the rest of the capacity waits with the producer, and one larger than the capacity passes only through an empty
//! edge. Watermarks, barriers and the end carry no credit, so control never waits for room; but a producer whose consumer leaves
//! very many events unread keeps its newest watermark back, since they would pile up behind a held input. Receiving gives the credit back and
//! wakes the producer; sending wakes the consumer. A held input is simply not read.
//!
//! Each half belongs to one thread. Neither ever blocks.

use crate::signal::Signal;
use crossbeam_channel::{Receiver, Sender, TryRecvError, unbounded};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use tidegate_api::Event;

/// How much may be under way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Capacity {
    /// Rows.
    pub rows: usize,
    /// Bytes.
    pub bytes: usize,
}

impl Capacity {
    /// The share of each of `inputs` edges into one task.
    #[must_use]
    pub fn divided(self, inputs: usize) -> Capacity {
        let inputs = inputs.max(1);
        Capacity { rows: (self.rows / inputs).max(1), bytes: (self.bytes / inputs).max(1) }
    }
}

#[derive(Debug)]
struct Credit {
    capacity: Capacity,
    rows: AtomicUsize,
    bytes: AtomicUsize,
    /// The producer keeps a watermark back and wants to know when there is less to read.
    crowded: AtomicBool,
}

/// With so many events unread a producer keeps watermarks back.
const CROWD: usize = 256;

/// A message and the credit it holds.
#[derive(Debug)]
struct Parcel {
    event: Event,
    rows: usize,
    bytes: usize,
}

/// The producing half.
#[derive(Debug)]
pub struct EdgeSender {
    channel: Sender<Parcel>,
    credit: Arc<Credit>,
    consumer: Signal,
}

/// The consuming half.
#[derive(Debug)]
pub struct EdgeReceiver {
    channel: Receiver<Parcel>,
    credit: Arc<Credit>,
    producer: Signal,
}

/// Makes an edge between the tasks behind the two signals.
pub(crate) fn edge(capacity: Capacity, producer: Signal, consumer: Signal) -> (EdgeSender, EdgeReceiver) {
    let (sender, receiver) = unbounded();
    let credit = Arc::new(Credit { capacity, rows: AtomicUsize::new(0), bytes: AtomicUsize::new(0), crowded: AtomicBool::new(false) });
    (EdgeSender { channel: sender, credit: Arc::clone(&credit), consumer }, EdgeReceiver { channel: receiver, credit, producer })
}

/// Makes an edge that wakes nobody, for benches and tests.
pub fn unsignalled(capacity: Capacity) -> (EdgeSender, EdgeReceiver) {
    edge(capacity, Signal::new(), Signal::new())
}

impl EdgeSender {
    /// Whether a batch of this size may be sent now.
    pub fn has_room(&self, rows: usize, bytes: usize) -> bool {
        let used_rows = self.credit.rows.load(Ordering::Acquire);
        let used_bytes = self.credit.bytes.load(Ordering::Acquire);
        let Capacity { rows: most_rows, bytes: most_bytes } = self.credit.capacity;
        (used_rows == 0 && used_bytes == 0) || (used_rows + rows <= most_rows && used_bytes.saturating_add(bytes) <= most_bytes)
    }

    /// Whether so much is unread that a watermark had better wait for a newer one. The consumer wakes the producer when that is over.
    pub fn is_crowded(&self) -> bool {
        if self.channel.len() < CROWD {
            return false;
        }
        // Said before the second look: if the consumer has read everything in between, either it sees the flag or we see the room.
        self.credit.crowded.store(true, Ordering::SeqCst);
        self.channel.len() >= CROWD
    }

    /// Sends an event that holds this much credit (none for control events). The caller has asked [`EdgeSender::has_room`];
    /// only this half takes credit, so the answer still holds. A consumer that is gone swallows the event: the run is ending.
    pub fn send(&self, event: Event, rows: usize, bytes: usize) {
        self.credit.rows.fetch_add(rows, Ordering::AcqRel);
        self.credit.bytes.fetch_add(bytes, Ordering::AcqRel);
        let _ = self.channel.send(Parcel { event, rows, bytes });
        self.consumer.raise();
    }
}

impl EdgeReceiver {
    /// The next event, if there is one. A producer that vanished without `EndOfStream` looks like one that is silent: the run
    /// is ending, and whoever ends it says why.
    pub fn receive(&self) -> Option<Event> {
        match self.channel.try_recv() {
            Ok(parcel) => {
                if parcel.rows > 0 || parcel.bytes > 0 {
                    self.credit.rows.fetch_sub(parcel.rows, Ordering::AcqRel);
                    self.credit.bytes.fetch_sub(parcel.bytes, Ordering::AcqRel);
                    self.producer.raise();
                }
                if self.credit.crowded.load(Ordering::SeqCst) && self.channel.len() < CROWD / 2 {
                    self.credit.crowded.store(false, Ordering::SeqCst);
                    self.producer.raise();
                }
                Some(parcel.event)
            }
            Err(TryRecvError::Empty | TryRecvError::Disconnected) => None,
        }
    }

    /// Rows under way.
    pub fn rows(&self) -> usize {
        self.credit.rows.load(Ordering::Acquire)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::{ArrayRef, Int64Array, RecordBatch};
    use tidegate_api::{EventTime, Watermark};

    fn batch(rows: i64) -> Event {
        let column: ArrayRef = Arc::new(Int64Array::from_iter_values(0..rows));
        Event::Batch(RecordBatch::try_from_iter([("n", column)]).unwrap())
    }

    fn small() -> Capacity {
        Capacity { rows: 10, bytes: 1000 }
    }

    #[test]
    fn credit_bounds_what_is_under_way_and_comes_back_when_read() {
        let (sender, receiver) = unsignalled(small());
        assert!(sender.has_room(6, 48));
        sender.send(batch(6), 6, 48);
        assert!(!sender.has_room(5, 40));
        assert!(sender.has_room(4, 32));
        assert!(!sender.has_room(1, 990));
        assert!(matches!(receiver.receive(), Some(Event::Batch(_))));
        assert!(sender.has_room(5, 40));
    }

    #[test]
    fn a_batch_over_the_capacity_passes_only_through_an_empty_edge() {
        let (sender, receiver) = unsignalled(small());
        assert!(sender.has_room(50, 400));
        sender.send(batch(1), 1, 8);
        assert!(!sender.has_room(50, 400));
        receiver.receive();
        assert!(sender.has_room(50, 400));
        sender.send(batch(50), 50, 400);
        assert!(!sender.has_room(1, 8));
    }

    #[test]
    fn control_events_need_no_room_and_keep_their_order() {
        let (sender, receiver) = unsignalled(small());
        sender.send(batch(50), 50, 400);
        sender.send(Event::Watermark(Watermark::At(EventTime(1))), 0, 0);
        sender.send(Event::EndOfStream, 0, 0);
        assert!(matches!(receiver.receive(), Some(Event::Batch(_))));
        assert!(matches!(receiver.receive(), Some(Event::Watermark(Watermark::At(EventTime(1))))));
        assert!(matches!(receiver.receive(), Some(Event::EndOfStream)));
        assert!(receiver.receive().is_none());
    }

    #[test]
    fn both_ends_wake_each_other() {
        let (producer, consumer) = (Signal::new(), Signal::new());
        let (sender, receiver) = edge(small(), producer.clone(), consumer.clone());
        assert!(producer.take() && consumer.take());
        sender.send(batch(1), 1, 8);
        assert!(consumer.take() && !producer.take());
        receiver.receive();
        assert!(producer.take() && !consumer.take());
    }

    #[test]
    fn capacity_is_divided_among_inputs_and_never_nothing() {
        assert_eq!(Capacity { rows: 10, bytes: 2 }.divided(4), Capacity { rows: 2, bytes: 1 });
    }
}

//! What a task reads: the consuming halves of its edges, in turn, those held for a barrier left alone.

use crate::align::{Aligned, Alignment};
use crate::edge::EdgeReceiver;
use crate::watermark::WatermarkMerge;
use tidegate_api::{Barrier, Counter, Event, Result, Watermark};

/// One edge into a task.
#[derive(Debug)]
pub(crate) struct InEdge {
    pub(crate) receiver: EdgeReceiver,
    /// Which input of the operator it feeds.
    pub(crate) input: usize,
    pub(crate) received: Counter,
}

/// All edges into a task.
#[derive(Debug)]
pub(crate) struct Inputs {
    edges: Vec<InEdge>,
    align: Alignment,
    merge: WatermarkMerge,
    next: usize,
}

/// What reading brought.
#[derive(Debug)]
pub(crate) enum Incoming {
    /// Rows for an input.
    Batch(usize, arrow::array::RecordBatch),
    /// The merged watermark of all inputs changed.
    Watermark(Watermark),
    /// A barrier has arrived everywhere; call [`Inputs::release`] when it is dealt with.
    Barrier(Barrier),
    /// Every input has ended.
    End,
    /// Something arrived that changes nothing yet.
    Nothing,
}

impl Inputs {
    pub(crate) fn new(edges: Vec<InEdge>) -> Self {
        let count = edges.len();
        Inputs { edges, align: Alignment::new(count), merge: WatermarkMerge::new(count), next: 0 }
    }

    /// Takes the next event of an edge that may be read; `None` if there is none.
    pub(crate) fn read(&mut self) -> Result<Option<Incoming>> {
        for offset in 0..self.edges.len() {
            let at = (self.next + offset) % self.edges.len();
            if !self.align.may_read(at) {
                continue;
            }
            let edge = &self.edges[at];
            let Some(event) = edge.receiver.receive() else { continue };
            self.next = at + 1;
            let incoming = match event {
                Event::Batch(batch) => {
                    edge.received.add(batch.num_rows() as u64);
                    Incoming::Batch(edge.input, batch)
                }
                Event::Watermark(watermark) => self.merge.update(at, watermark).map_or(Incoming::Nothing, Incoming::Watermark),
                Event::Barrier(barrier) => self.align.on_barrier(at, barrier)?.into(),
                Event::EndOfStream => self.align.on_end(at)?.into(),
            };
            return Ok(Some(incoming));
        }
        Ok(None)
    }

    /// The barrier has been dealt with. Answers whether every input has ended.
    pub(crate) fn release(&mut self) -> bool {
        self.align.release() == Aligned::Ended
    }

    /// The merged watermark.
    pub(crate) fn reached(&self) -> tidegate_api::EventTime {
        self.merge.reached()
    }
}

impl From<Aligned> for Incoming {
    fn from(aligned: Aligned) -> Self {
        match aligned {
            Aligned::Waiting => Incoming::Nothing,
            Aligned::Complete(barrier) => Incoming::Barrier(barrier),
            Aligned::Ended => Incoming::End,
        }
    }
}

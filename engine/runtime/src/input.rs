//! What a task reads: the consuming halves of its edges, in turn, those held for a barrier left alone.

use crate::align::{Aligned, Alignment};
use crate::edge::EdgeReceiver;
use crate::planted::Planted;
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
    /// What each input of several promises by itself.
    apart: Vec<Apart>,
    told: Option<(usize, Watermark)>,
    next: usize,
    planted: Planted,
}

/// The edges of one input.
#[derive(Debug)]
struct Apart {
    edges: Vec<usize>,
    merge: WatermarkMerge,
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
        let inputs = edges.iter().map(|edge| edge.input + 1).max().unwrap_or(0);
        let apart = |input: usize| {
            let edges: Vec<usize> = (0..count).filter(|at| edges[*at].input == input).collect();
            Apart { merge: WatermarkMerge::new(edges.len()), edges }
        };
        let apart = if inputs > 1 { (0..inputs).map(apart).collect() } else { Vec::new() };
        Inputs {
            edges,
            align: Alignment::new(count),
            merge: WatermarkMerge::new(count),
            apart,
            told: None,
            next: 0,
            planted: Planted::None,
        }
    }

    /// Plants a mistake, for the simulator.
    pub(crate) fn planting(mut self, planted: Planted) -> Self {
        self.planted = planted;
        self
    }

    /// Takes the next event of an edge that may be read; `None` if there is none.
    pub(crate) fn read(&mut self) -> Result<Option<Incoming>> {
        self.read_unless(|_| false)
    }

    /// The same, leaving alone the inputs that are held, unless a barrier is under way.
    pub(crate) fn read_unless(&mut self, held: impl Fn(usize) -> bool) -> Result<Option<Incoming>> {
        if let Some(watermark) = self.merge.rest() {
            return Ok(Some(Incoming::Watermark(watermark)));
        }
        let heeded = !self.align.is_pending();
        for offset in 0..self.edges.len() {
            let at = (self.next + offset) % self.edges.len();
            let leaks = self.planted.is(Planted::BarrierNotAligned) && self.align.is_held(at);
            if !(self.align.may_read(at) || leaks) || (heeded && held(self.edges[at].input)) {
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
                Event::Watermark(watermark) => {
                    let input = edge.input;
                    if let Some(apart) = self.apart.get_mut(input)
                        && let Some(place) = apart.edges.iter().position(|edge| *edge == at)
                    {
                        let first = apart.merge.update(place, watermark);
                        let last = std::iter::from_fn(|| apart.merge.rest()).last();
                        self.told = last.or(first).map(|watermark| (input, watermark));
                    }
                    self.merge.update(at, watermark).map_or(Incoming::Nothing, Incoming::Watermark)
                }
                Event::Barrier(barrier) => self.align.on_barrier(at, barrier)?.into(),
                Event::EndOfStream => self.align.on_end(at)?.into(),
            };
            return Ok(Some(incoming));
        }
        Ok(None)
    }

    /// What one input of several has promised by itself with the event that was read last.
    pub(crate) fn told(&mut self) -> Option<(usize, Watermark)> {
        self.told.take()
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

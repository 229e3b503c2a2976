//! What a task sends: batches routed to targets, and control to all of them, in order.
//!
//! Every target has a queue of its own and every queue is flushed for itself, so a full edge never keeps another from getting
//! its rows or its barrier. Small batches (the splits of an exchange) are gathered until they make a batch worth sending; what is
//! gathered leaves before any barrier, before the end, and when the task has nothing else to do. Meanwhile watermarks wait
//! behind the gathered rows and only the newest is kept: a promise may come late, never early.

use crate::edge::EdgeSender;
use crate::exchange::Exchange;
use crate::planted::Planted;
use crate::size::batch_bytes;
use arrow::array::RecordBatch;
use arrow::compute::concat_batches;
use std::collections::VecDeque;
use tidegate_api::{Barrier, Counter, Event, EventTime, Result, Watermark};

/// Gathered rows leave at the latest after this many turns of the task.
const PATIENCE: u32 = 32;
/// A batch smaller than this share of a full one is gathered; copying a larger one costs more than the consumer saves.
const SMALL: usize = 8;

/// How an edge's rows find their target.
#[derive(Debug)]
pub(crate) enum Router {
    /// There is one target.
    One,
    /// By key.
    Hash(Exchange),
    /// In turn; the next.
    RoundRobin(usize),
    /// To all.
    Broadcast,
}

#[derive(Debug)]
struct Outlet {
    sender: EdgeSender,
    queue: VecDeque<Queued>,
    gathered: Vec<RecordBatch>,
    gathered_rows: usize,
    gathered_bytes: usize,
    gathered_turns: u32,
    /// The newest promise that waits behind what is gathered.
    promise: Option<EventTime>,
    /// Whether `Idle` waits behind it. It takes no promise back, so it never takes the place of one.
    idle: bool,
}

#[derive(Debug)]
struct Queued {
    event: Event,
    rows: usize,
    bytes: usize,
}

/// All producing halves of one edge of one task.
#[derive(Debug)]
pub(crate) struct OutEdge {
    router: Router,
    outlets: Vec<Outlet>,
    sent: Counter,
}

impl OutEdge {
    pub(crate) fn new(router: Router, senders: Vec<EdgeSender>, sent: Counter) -> Self {
        let outlets = senders.into_iter().map(|sender| Outlet {
            sender,
            queue: VecDeque::new(),
            gathered: Vec::new(),
            gathered_rows: 0,
            gathered_bytes: 0,
            gathered_turns: 0,
            promise: None,
            idle: false,
        });
        OutEdge { router, outlets: outlets.collect(), sent }
    }
}

/// All that a task sends through.
#[derive(Debug)]
pub(crate) struct Outputs {
    edges: Vec<OutEdge>,
    batch_rows: usize,
    batch_bytes: usize,
    /// Rows gathered for all targets of an edge, at most about.
    gathers: usize,
    said: Watermark,
    reached: EventTime,
    planted: Planted,
}

impl Outputs {
    pub(crate) fn new(edges: Vec<OutEdge>, batch_rows: usize, batch_bytes: usize) -> Self {
        let gathers = usize::MAX;
        Outputs {
            edges,
            batch_rows,
            batch_bytes,
            gathers,
            said: Watermark::At(EventTime::MIN),
            reached: EventTime::MIN,
            planted: Planted::None,
        }
    }

    /// Plants a mistake, for the simulator.
    pub(crate) fn planting(mut self, planted: Planted) -> Self {
        self.planted = planted;
        self
    }

    /// Limits what is gathered for all targets of an edge to about this many batches: with very many targets a batch for each of
    /// them would be more rows than a barrier should wait for.
    #[must_use]
    pub(crate) fn gathering(mut self, batches: usize) -> Self {
        self.gathers = self.batch_rows.saturating_mul(batches);
        self
    }

    /// Sends rows over an edge.
    pub(crate) fn push(&mut self, edge: usize, batch: RecordBatch) -> Result<()> {
        let rows = batch.num_rows();
        if rows == 0 {
            return Ok(());
        }
        let bytes = batch_bytes(&batch);
        let small = Small { rows: self.batch_rows, bytes: self.batch_bytes };
        let OutEdge { router, outlets, .. } = &mut self.edges[edge];
        match router {
            Router::One => outlets[0].push(batch, bytes, small),
            Router::RoundRobin(next) => {
                let target = *next % outlets.len();
                *next = target + 1;
                outlets[target].push(batch, bytes, small)
            }
            Router::Broadcast => outlets.iter_mut().try_for_each(|outlet| outlet.push(batch.clone(), bytes, small)),
            Router::Hash(exchange) => {
                let mut outcome = Ok(());
                exchange.split(batch, |target, part| {
                    let share = bytes * part.num_rows() / rows;
                    if outcome.is_ok() {
                        outcome = outlets[target].push(part, share, small);
                    }
                })?;
                outcome?;
                if outlets.iter().map(|outlet| outlet.gathered_rows).sum::<usize>() > self.gathers {
                    outlets.iter_mut().try_for_each(Outlet::settle)?;
                }
                Ok(())
            }
        }
    }

    /// Promises something to every target, unless it was promised before. A promise never moves back.
    pub(crate) fn watermark(&mut self, watermark: Watermark) {
        let watermark = match watermark {
            Watermark::At(at) => {
                self.reached = self.reached.max(at);
                Watermark::At(self.reached)
            }
            Watermark::Idle => Watermark::Idle,
        };
        if watermark == self.said {
            return;
        }
        self.said = watermark;
        for outlet in self.edges.iter_mut().flat_map(|edge| &mut edge.outlets) {
            match watermark {
                Watermark::At(at) => (outlet.promise, outlet.idle) = (Some(at), false),
                Watermark::Idle => outlet.idle = true,
            }
            if outlet.gathered.is_empty() || self.planted.is(Planted::PromiseOvertakesRows) {
                outlet.queue_watermark();
            }
        }
    }

    /// Sends a barrier to every target, behind everything sent so far.
    pub(crate) fn barrier(&mut self, barrier: Barrier) -> Result<()> {
        if self.planted.is(Planted::BarrierOvertakesRows) {
            for outlet in self.edges.iter_mut().flat_map(|edge| &mut edge.outlets) {
                outlet.queue.push_front(Queued { event: Event::Barrier(barrier), rows: 0, bytes: 0 });
            }
            return Ok(());
        }
        self.control(|| Event::Barrier(barrier))
    }

    /// Ends every edge.
    pub(crate) fn end(&mut self) -> Result<()> {
        self.control(|| Event::EndOfStream)
    }

    fn control(&mut self, event: impl Fn() -> Event) -> Result<()> {
        for outlet in self.edges.iter_mut().flat_map(|edge| &mut edge.outlets) {
            outlet.settle()?;
            outlet.queue.push_back(Queued { event: event(), rows: 0, bytes: 0 });
        }
        Ok(())
    }

    /// The task has nothing else to do: gathered rows leave.
    pub(crate) fn settle(&mut self) -> Result<()> {
        self.edges.iter_mut().flat_map(|edge| &mut edge.outlets).try_for_each(Outlet::settle)
    }

    /// Sends what there is room for, on every edge. Answers whether nothing waits for room. Called once a turn.
    pub(crate) fn flush(&mut self) -> Result<bool> {
        let mut clear = true;
        for edge in &mut self.edges {
            for outlet in &mut edge.outlets {
                if !outlet.gathered.is_empty() {
                    outlet.gathered_turns += 1;
                    if outlet.gathered_turns > PATIENCE {
                        outlet.settle()?;
                    }
                }
                edge.sent.add(outlet.flush());
                clear &= outlet.queue.is_empty();
            }
        }
        Ok(clear)
    }
}

#[derive(Clone, Copy)]
struct Small {
    rows: usize,
    bytes: usize,
}

impl Outlet {
    fn push(&mut self, batch: RecordBatch, bytes: usize, full: Small) -> Result<()> {
        let rows = batch.num_rows();
        if rows * SMALL >= full.rows || bytes * SMALL >= full.bytes {
            self.settle()?;
            self.queue.push_back(Queued { event: Event::Batch(batch), rows, bytes });
            return Ok(());
        }
        self.gathered.push(batch);
        self.gathered_rows += rows;
        self.gathered_bytes += bytes;
        if self.gathered_rows >= full.rows || self.gathered_bytes >= full.bytes {
            self.settle()?;
        }
        Ok(())
    }

    fn settle(&mut self) -> Result<()> {
        let batch = match self.gathered.len() {
            0 => None,
            1 => self.gathered.pop(),
            _ => Some(concat_batches(self.gathered[0].schema_ref(), &self.gathered)?),
        };
        self.gathered.clear();
        if let Some(batch) = batch {
            self.queue.push_back(Queued { event: Event::Batch(batch), rows: self.gathered_rows, bytes: self.gathered_bytes });
        }
        self.gathered_rows = 0;
        self.gathered_bytes = 0;
        self.gathered_turns = 0;
        self.queue_watermark();
        Ok(())
    }

    fn queue_watermark(&mut self) {
        let promise = self.promise.take().map(Watermark::At);
        let idle = std::mem::take(&mut self.idle).then_some(Watermark::Idle);
        for watermark in promise.into_iter().chain(idle) {
            let event = Event::Watermark(watermark);
            match self.queue.back_mut() {
                Some(Queued { event: last @ Event::Watermark(_), .. })
                    if watermark != Watermark::Idle || matches!(last, Event::Watermark(Watermark::Idle)) =>
                {
                    *last = event;
                }
                Some(_) | None => self.queue.push_back(Queued { event, rows: 0, bytes: 0 }),
            }
        }
    }

    fn flush(&mut self) -> u64 {
        if self.gathered.is_empty() {
            self.queue_watermark();
        }
        let mut sent = 0;
        while let Some(next) = self.queue.front() {
            match &next.event {
                Event::Batch(_) if !self.sender.has_room(next.rows, next.bytes) => break,
                Event::Watermark(watermark) if self.queue.len() == 1 && self.sender.is_crowded() => {
                    // Kept back, where a newer one replaces it; a barrier or the end takes it along.
                    match watermark {
                        Watermark::At(at) => self.promise = self.promise.max(Some(*at)),
                        Watermark::Idle => self.idle |= self.promise.is_none(),
                    }
                    self.queue.clear();
                    break;
                }
                Event::Batch(_) | Event::Watermark(_) | Event::Barrier(_) | Event::EndOfStream => {}
            }
            let Some(Queued { event, rows, bytes }) = self.queue.pop_front() else { break };
            sent += rows as u64;
            self.sender.send(event, rows, bytes);
        }
        sent
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::edge::{Capacity, EdgeReceiver, unsignalled};
    use arrow::array::{ArrayRef, AsArray, Int64Array};
    use arrow::datatypes::Int64Type;
    use std::sync::Arc;
    use tidegate_api::{BarrierKind, Epoch};

    fn batch(from: i64, rows: i64) -> RecordBatch {
        let column: ArrayRef = Arc::new(Int64Array::from_iter_values(from..from + rows));
        RecordBatch::try_from_iter([("n", column)]).unwrap()
    }

    fn outputs(routers: Vec<(Router, usize)>, capacity: Capacity) -> (Outputs, Vec<Vec<EdgeReceiver>>) {
        let mut edges = Vec::new();
        let mut receivers = Vec::new();
        for (router, targets) in routers {
            let (senders, ends): (Vec<_>, Vec<_>) = (0..targets).map(|_| unsignalled(capacity)).unzip();
            edges.push(OutEdge::new(router, senders, Counter::new()));
            receivers.push(ends);
        }
        (Outputs::new(edges, 16, 1 << 20), receivers)
    }

    fn wide() -> Capacity {
        Capacity { rows: 1000, bytes: 1 << 20 }
    }

    fn barrier() -> Barrier {
        Barrier { epoch: Epoch(1), kind: BarrierKind::Checkpoint, now: EventTime(0) }
    }

    fn told(end: &EdgeReceiver) -> Vec<String> {
        let describe = |event: Event| match event {
            Event::Batch(rows) => format!("{:?}", rows.column(0).as_primitive::<Int64Type>().values().as_ref() as &[i64]),
            Event::Watermark(Watermark::At(at)) => format!("at {}", at.0),
            Event::Watermark(Watermark::Idle) => "idle".to_string(),
            Event::Barrier(barrier) => format!("barrier {}", barrier.epoch),
            Event::EndOfStream => "end".to_string(),
        };
        std::iter::from_fn(|| end.receive()).map(describe).collect()
    }

    #[test]
    fn small_batches_are_gathered_and_leave_before_control_with_the_newest_watermark() {
        let (mut out, ends) = outputs(vec![(Router::One, 1)], wide());
        out.push(0, batch(0, 1)).unwrap();
        out.watermark(Watermark::At(EventTime(1)));
        out.push(0, batch(1, 1)).unwrap();
        out.watermark(Watermark::At(EventTime(2)));
        assert!(out.flush().unwrap());
        assert!(told(&ends[0][0]).is_empty());
        out.barrier(barrier()).unwrap();
        out.end().unwrap();
        assert!(out.flush().unwrap());
        assert_eq!(told(&ends[0][0]), ["[0, 1]", "at 2", "barrier 1", "end"]);
    }

    #[test]
    fn idleness_does_not_take_the_place_of_a_promise_that_waits_behind_rows() {
        let (mut out, ends) = outputs(vec![(Router::One, 1)], wide());
        out.push(0, batch(0, 1)).unwrap();
        out.watermark(Watermark::At(EventTime(2)));
        out.watermark(Watermark::Idle);
        out.settle().unwrap();
        out.flush().unwrap();
        assert_eq!(told(&ends[0][0]), ["[0]", "at 2", "idle"]);
        out.push(0, batch(1, 1)).unwrap();
        out.watermark(Watermark::At(EventTime(3)));
        out.watermark(Watermark::Idle);
        out.watermark(Watermark::At(EventTime(4)));
        out.settle().unwrap();
        out.flush().unwrap();
        assert_eq!(told(&ends[0][0]), ["[1]", "at 4"]);
    }

    #[test]
    fn what_is_gathered_for_many_targets_is_bounded_over_all_of_them() {
        let exchange = Exchange::new(vec![0], 64, 256);
        let (out, ends) = outputs(vec![(Router::Hash(exchange), 64)], wide());
        let mut out = Outputs { batch_rows: 1024, ..out }.gathering(1);
        // As many rows as a batch may wait; one more part makes all of them leave, though no target has a full batch.
        for part in 0..3 {
            out.push(0, batch(part * 512, 512)).unwrap();
            out.flush().unwrap();
            let sent: usize = ends[0].iter().map(EdgeReceiver::rows).sum();
            assert_eq!(sent, if part < 2 { 0 } else { 1536 });
        }
    }

    #[test]
    fn gathered_rows_leave_when_full_when_idle_and_when_they_have_waited_long() {
        let (mut out, ends) = outputs(vec![(Router::One, 1)], wide());
        (0..16).for_each(|n| out.push(0, batch(n, 1)).unwrap());
        out.flush().unwrap();
        assert_eq!(told(&ends[0][0]).len(), 1);
        out.push(0, batch(0, 1)).unwrap();
        out.settle().unwrap();
        out.flush().unwrap();
        assert_eq!(told(&ends[0][0]), ["[0]"]);
        out.push(0, batch(0, 1)).unwrap();
        (0..=PATIENCE).for_each(|_| assert!(out.flush().unwrap()));
        assert_eq!(told(&ends[0][0]), ["[0]"]);
    }

    #[test]
    fn a_full_edge_does_not_keep_another_from_its_rows_and_barrier() {
        let (mut out, ends) = outputs(vec![(Router::One, 1), (Router::One, 1)], Capacity { rows: 8, bytes: 1 << 20 });
        for round in 0..3 {
            out.push(0, batch(round * 8, 8)).unwrap();
            if round == 0 {
                out.push(1, batch(0, 8)).unwrap();
            }
        }
        out.barrier(barrier()).unwrap();
        assert!(!out.flush().unwrap());
        assert_eq!(told(&ends[1][0]).last().unwrap(), "barrier 1");
        let mut got = Vec::new();
        while !out.flush().unwrap() {
            got.extend(told(&ends[0][0]));
        }
        got.extend(told(&ends[0][0]));
        assert_eq!(got.len(), 4);
        assert_eq!(got[3], "barrier 1");
    }

    #[test]
    fn every_target_gets_every_barrier_and_its_own_rows_in_order() {
        let hash = Router::Hash(Exchange::new(vec![0], 3, 256));
        let (mut out, ends) = outputs(vec![(hash, 3), (Router::Broadcast, 2), (Router::RoundRobin(0), 2)], wide());
        for round in 0..10 {
            (0..3).for_each(|edge| out.push(edge, batch(round * 20, 20)).unwrap());
        }
        out.barrier(barrier()).unwrap();
        out.flush().unwrap();
        let mut rows = vec![0; 3];
        for (edge, targets) in ends.iter().enumerate() {
            for target in targets {
                let mut last = -1;
                while let Some(event) = target.receive() {
                    match event {
                        Event::Batch(batch) => {
                            rows[edge] += batch.num_rows();
                            for value in batch.column(0).as_primitive::<Int64Type>().values() {
                                assert!(*value > last);
                                last = *value;
                            }
                        }
                        Event::Barrier(_) => assert!(target.receive().is_none()),
                        Event::Watermark(_) | Event::EndOfStream => unreachable!(),
                    }
                }
            }
        }
        assert_eq!(rows, [200, 400, 200]);
    }

    #[test]
    fn watermarks_do_not_pile_up_behind_a_consumer_that_does_not_read() {
        let (mut out, ends) = outputs(vec![(Router::One, 1)], wide());
        for at in 0..10_000 {
            out.watermark(Watermark::At(EventTime(at)));
            assert!(out.flush().unwrap(), "a watermark that waits is no reason to stop");
        }
        let first = told(&ends[0][0]);
        assert!(first.len() < 1000, "{}", first.len());
        out.flush().unwrap();
        assert_eq!(told(&ends[0][0]), ["at 9999"]);
        for at in 10_000..20_000 {
            out.watermark(Watermark::At(EventTime(at)));
            out.flush().unwrap();
        }
        out.barrier(barrier()).unwrap();
        out.flush().unwrap();
        let rest = told(&ends[0][0]);
        assert_eq!(rest[rest.len() - 2..], ["at 19999", "barrier 1"]);
    }

    #[test]
    fn a_promise_is_made_once_and_never_taken_back() {
        let (mut out, ends) = outputs(vec![(Router::One, 1)], wide());
        for watermark in [5, 5, 3].map(|at| Watermark::At(EventTime(at))).into_iter().chain([Watermark::Idle, Watermark::At(EventTime(4))])
        {
            out.watermark(watermark);
            out.flush().unwrap();
        }
        assert_eq!(told(&ends[0][0]), ["at 5", "idle", "at 5"]);
    }
}

//! Single tasks, stepped by hand.

use super::operator::{OperatorParts, OperatorTask};
use super::source::{SourceParts, SourceTask};
use super::{Command, Report, Reports, Seat, Task, Turn};
use crate::bad::BadRows;
use crate::chain::ChainPlan;
use crate::edge::{Capacity, EdgeReceiver, EdgeSender, unsignalled};
use crate::graph::{EdgeId, EdgeSpec, JobGraph, Node, OperatorNode, Pipe, Routing, SourceNode};
use crate::input::{InEdge, Inputs};
use crate::metrics::Meters;
use crate::output::{OutEdge, Outputs, Router};
use crate::planted::Planted;
use crate::signal::Signal;
use arrow::array::{ArrayRef, AsArray, Int64Array, RecordBatch};
use arrow::datatypes::{Int64Type, SchemaRef};
use crossbeam_channel::{Receiver, Sender, unbounded};
use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tidegate_api::testkit::ManualClock;
use tidegate_api::{
    Barrier, BarrierKind, Chunk, Clock, Counter, Discovered, Epoch, Event, EventTime, Flow, Generation, InlineSource, OnBadData, Operator,
    OperatorCtx, OperatorFactory, Output, PollRequest, Polled, Position, RestoredPiece, Result, RunId, RunIdentity, Signature, SourceCtx,
    SourcePlan, SourceReader, SourceRequest, Split, SplitId, SplitState, StatePiece, TimeSpec, Watermark,
};

fn rows(from: i64, count: i64) -> RecordBatch {
    let column: ArrayRef = Arc::new(Int64Array::from_iter_values(from..from + count));
    RecordBatch::try_from_iter([("t", column)]).unwrap()
}

fn run() -> RunIdentity {
    RunIdentity::new("p", RunId::new("r"), Generation(1), "n")
}

fn barrier(epoch: u64, kind: BarrierKind) -> Barrier {
    Barrier { epoch: Epoch(epoch), kind, now: EventTime(0) }
}

/// What left a task, in words.
fn told(end: &EdgeReceiver) -> Vec<String> {
    let describe = |event: Event| match event {
        Event::Batch(rows) => format!("{:?}", rows.column(0).as_primitive::<Int64Type>().values().as_ref() as &[i64]),
        Event::Watermark(Watermark::At(EventTime::MAX)) => "at the end".to_string(),
        Event::Watermark(Watermark::At(at)) => format!("at {}", at.as_millis()),
        Event::Watermark(Watermark::Idle) => "idle".to_string(),
        Event::Barrier(barrier) => format!("barrier {}", barrier.epoch),
        Event::EndOfStream => "end".to_string(),
    };
    std::iter::from_fn(|| end.receive()).map(describe).collect()
}

fn seat(node: &str, clock: &Arc<ManualClock>) -> (Seat, Receiver<(usize, Report)>) {
    let (sender, reports) = unbounded();
    let clock: Arc<dyn Clock> = Arc::clone(clock) as _;
    let seat = Seat {
        number: 0,
        name: node.into(),
        node: node.into(),
        task: 0,
        signal: Signal::new(),
        reports: Reports::new(sender, Signal::new()),
        clock,
    };
    (seat, reports)
}

fn graph_of(node: Node) -> JobGraph {
    let schema = rows(0, 1).schema();
    let edge = EdgeSpec { id: EdgeId(0), from: node.id.clone(), to: "out".into(), input: 0, schema, routing: Routing::Forward };
    JobGraph { nodes: vec![node], edges: vec![edge] }
}

fn outputs(capacity: Capacity) -> (Outputs, EdgeReceiver) {
    let (sender, receiver) = unsignalled(capacity);
    (Outputs::new(vec![OutEdge::new(Router::One, vec![sender], Counter::new())], 4, 1 << 20), receiver)
}

fn chains() -> ChainPlan {
    ChainPlan {
        main: Pipe::to_edge(EdgeId(0)),
        late: None,
        task: 0,
        tasks: 1,
        run: run(),
        edges: BTreeMap::from([(EdgeId(0), 0)]),
        counters: Vec::new(),
    }
}

/// A source that answers polls as the test wrote them; without an answer it is caught up.
#[derive(Clone)]
struct Answers {
    schema: SchemaRef,
    answers: Arc<Mutex<VecDeque<Polled>>>,
    polls: Counter,
    committed: Arc<Mutex<Vec<(SplitId, Position)>>>,
}

impl InlineSource for Answers {
    fn plan(&self, _: &SourceRequest) -> Result<SourcePlan> {
        Ok(SourcePlan::new(Arc::clone(&self.schema)))
    }

    fn discover(&self, _: Option<&[u8]>) -> Result<Discovered> {
        Ok(Discovered::default())
    }

    fn open(&self, _: SourceCtx) -> Result<Box<dyn SourceReader>> {
        Ok(Box::new(self.clone()))
    }
}

impl SourceReader for Answers {
    fn assign(&mut self, _: Vec<Split>) -> Result<()> {
        Ok(())
    }

    fn poll(&mut self, _: PollRequest) -> Result<Polled> {
        self.polls.add(1);
        let quiet =
            || Polled { states: vec![(id(), SplitState::CaughtUp)], retry_after: Some(Duration::from_secs(10)), ..Polled::default() };
        Ok(self.answers.lock().unwrap().pop_front().unwrap_or_else(quiet))
    }

    fn committed(&mut self, positions: &[(SplitId, Position)]) -> Result<()> {
        self.committed.lock().unwrap().extend_from_slice(positions);
        Ok(())
    }
}

fn id() -> SplitId {
    SplitId::new("s")
}

struct SourceBench {
    task: SourceTask,
    source: Answers,
    clock: Arc<ManualClock>,
    commands: Sender<Command>,
    reports: Receiver<(usize, Report)>,
    end: EdgeReceiver,
}

fn source_bench(capacity: Capacity) -> SourceBench {
    let source = Answers { schema: rows(0, 1).schema(), answers: Arc::default(), polls: Counter::new(), committed: Arc::default() };
    let plan = source.plan(&SourceRequest::all()).unwrap();
    let mut node = SourceNode::new("in", Arc::new(source.clone()), SourceRequest::all(), plan);
    let mut time = TimeSpec::new("t");
    time.max_future_skew = None;
    time.idle_timeout = Some(Duration::from_secs(30));
    node.time = Some(time);
    let clock = Arc::new(ManualClock::default());
    let (seat, reports) = seat("in", &clock);
    let (outputs, end) = outputs(capacity);
    let (commands, receiver) = unbounded();
    let meters = Meters::new(&graph_of(Node::source("in", node.clone())));
    let split = Split { id: id(), details: Vec::new(), position: Some(Position::number(0)) };
    let task = SourceTask::new(SourceParts {
        seat,
        node,
        ctx: SourceCtx::new(run()).with_start(vec![split]),
        seen: BTreeMap::new(),
        commands: receiver,
        chains: chains(),
        bad: BadRows::new(None),
        outputs,
        meters: Arc::clone(&meters.nodes[0].2),
        schema: rows(0, 1).schema(),
        poll: PollRequest { max_rows: 4, max_bytes: 1 << 20, wait: Duration::ZERO },
        now: EventTime(0),
        suspends: false,
        max_epoch_delay: Duration::from_secs(60),
        planted: Planted::None,
    });
    let mut bench = SourceBench { task, source, clock, commands, reports, end };
    assert_eq!(bench.task.step().unwrap(), Turn::Progress);
    assert!(matches!(bench.reports.try_recv(), Ok((0, Report::Opened))));
    assert_eq!(bench.task.step().unwrap(), Turn::Starved { until: None }, "it waits for the others to open");
    bench.commands.send(Command::Start).unwrap();
    bench
}

impl SourceBench {
    fn answer(&self, from: i64, count: i64) {
        let chunk = Chunk::new(id(), rows(from, count), Position::number((from + count) as u64));
        self.source.answers.lock().unwrap().push_back(Polled { chunks: vec![chunk], ..Polled::default() });
    }

    fn position(&self) -> Option<u64> {
        match self.reports.try_recv() {
            Ok((_, Report::Acknowledged { snapshot, .. })) => snapshot.splits["in"][0].position.as_ref().unwrap().as_number(),
            other => panic!("{other:?}"),
        }
    }
}

fn wide() -> Capacity {
    Capacity { rows: 1000, bytes: 1 << 20 }
}

#[test]
fn a_blocked_source_stops_polling_but_answers_a_barrier_with_what_it_has_sent() {
    let mut bench = source_bench(Capacity { rows: 8, bytes: 1 << 20 });
    (0..10).for_each(|at| bench.answer(at * 4, 4));
    while bench.task.step().unwrap() != Turn::Backpressured {}
    assert_eq!(bench.end.rows(), 8);
    assert_eq!(bench.source.polls.get(), 3, "one batch waits with the task, and nothing more was read");
    bench.commands.send(Command::Barrier(barrier(1, BarrierKind::Checkpoint))).unwrap();
    assert_eq!(bench.task.step().unwrap(), Turn::Backpressured);
    assert_eq!(bench.position(), Some(12));
    let mut left = Vec::new();
    while !left.iter().any(|event| event == "barrier 1") {
        left.extend(told(&bench.end));
        bench.task.step().unwrap();
    }
    let before = left.iter().take_while(|event| *event != "barrier 1");
    assert_eq!(before.filter(|event| event.starts_with('[')).count(), 3, "{left:?}");
}

#[test]
fn time_behind_a_full_edge_is_not_idleness_and_time_without_rows_is() {
    let mut bench = source_bench(Capacity { rows: 4, bytes: 1 << 20 });
    bench.answer(0, 4);
    bench.answer(4, 4);
    while bench.task.step().unwrap() != Turn::Backpressured {}
    bench.clock.advance(Duration::from_secs(3600));
    assert_eq!(told(&bench.end), ["[0, 1, 2, 3]", "at 3"]);
    while !matches!(bench.task.step().unwrap(), Turn::Starved { .. }) {}
    assert_eq!(told(&bench.end), ["[4, 5, 6, 7]", "at 7"]);
    bench.clock.advance(Duration::from_secs(10));
    while !matches!(bench.task.step().unwrap(), Turn::Starved { .. }) {}
    bench.clock.advance(Duration::from_secs(19));
    while !matches!(bench.task.step().unwrap(), Turn::Starved { .. }) {}
    assert!(told(&bench.end).is_empty());
    bench.clock.advance(Duration::from_secs(1));
    while !matches!(bench.task.step().unwrap(), Turn::Starved { .. }) {}
    assert_eq!(told(&bench.end), ["idle"]);
}

#[test]
fn reading_goes_on_beside_a_slow_epoch_until_its_bound_and_then_waits_for_it() {
    let mut bench = source_bench(wide());
    bench.commands.send(Command::Barrier(barrier(1, BarrierKind::Checkpoint))).unwrap();
    bench.answer(0, 4);
    bench.task.step().unwrap();
    bench.clock.advance(Duration::from_secs(59));
    bench.answer(4, 4);
    bench.task.step().unwrap();
    assert_eq!(told(&bench.end), ["barrier 1", "[0, 1, 2, 3]", "at 3", "[4, 5, 6, 7]", "at 7"]);
    bench.clock.advance(Duration::from_secs(1));
    bench.answer(8, 4);
    let polls = bench.source.polls.get();
    assert_eq!(bench.task.step().unwrap(), Turn::Starved { until: None });
    assert_eq!((bench.source.polls.get(), told(&bench.end)), (polls, vec![]));
    // That is nobody's idleness.
    bench.clock.advance(Duration::from_secs(3600));
    bench.commands.send(Command::Settled).unwrap();
    bench.task.step().unwrap();
    assert_eq!(told(&bench.end), ["[8, 9, 10, 11]", "at 11"]);
    // Without an epoch in flight there is nothing to wait for.
    bench.clock.advance(Duration::from_secs(20));
    bench.answer(12, 4);
    bench.task.step().unwrap();
    assert_eq!(told(&bench.end), ["[12, 13, 14, 15]", "at 15"]);
}

#[test]
fn nothing_is_emitted_after_the_last_barrier_and_the_end_comes_when_told() {
    let mut bench = source_bench(wide());
    bench.answer(0, 4);
    bench.task.step().unwrap();
    bench.answer(4, 4);
    bench.commands.send(Command::Barrier(barrier(1, BarrierKind::Suspend))).unwrap();
    assert_eq!(bench.task.step().unwrap(), Turn::Starved { until: None });
    assert_eq!(bench.position(), Some(4));
    bench.commands.send(Command::Committed(vec![(id(), Position::number(4))])).unwrap();
    bench.task.step().unwrap();
    assert_eq!(*bench.source.committed.lock().unwrap(), [(id(), Position::number(4))]);
    bench.commands.send(Command::End).unwrap();
    assert_eq!(bench.task.step().unwrap(), Turn::Done);
    assert_eq!(told(&bench.end), ["[0, 1, 2, 3]", "at 3", "barrier 1", "end"]);
}

#[test]
fn a_source_that_has_ended_promises_the_end_of_time_and_goes_on_forwarding_barriers() {
    let mut bench = source_bench(wide());
    bench.commands.send(Command::Complete).unwrap();
    bench.source.answers.lock().unwrap().push_back(Polled { states: vec![(id(), SplitState::Finished)], ..Polled::default() });
    while !matches!(bench.task.step().unwrap(), Turn::Starved { until: None }) {}
    assert!(matches!(bench.reports.try_recv(), Ok((0, Report::SourceEnded))));
    bench.commands.send(Command::Barrier(barrier(1, BarrierKind::Checkpoint))).unwrap();
    bench.task.step().unwrap();
    bench.commands.send(Command::Barrier(barrier(2, BarrierKind::Drain))).unwrap();
    bench.task.step().unwrap();
    assert_eq!(told(&bench.end), ["at the end", "barrier 1", "barrier 2"]);
}

/// Emits three times for every watermark and for the rest, holds its watermark back by 100 ms, and writes down what it is asked.
#[derive(Clone, Default)]
struct Noted {
    notes: Arc<Mutex<Vec<String>>>,
}

impl OperatorFactory for Noted {
    fn name(&self) -> &str {
        "noted"
    }

    fn signature(&self) -> Signature {
        Signature::new("noted", 1)
    }

    fn output_schema(&self) -> SchemaRef {
        rows(0, 1).schema()
    }

    fn open(&self, _: OperatorCtx) -> Result<Box<dyn Operator>> {
        Ok(Box::new(Noting { notes: Arc::clone(&self.notes), left: 3 }))
    }
}

struct Noting {
    notes: Arc<Mutex<Vec<String>>>,
    left: i64,
}

impl Noting {
    fn portion(&mut self, note: String, out: &mut Output) -> Flow {
        self.notes.lock().unwrap().push(note);
        self.left -= 1;
        out.emit(rows(self.left, 4));
        if self.left > 0 {
            return Flow::More;
        }
        self.left = 3;
        Flow::Done
    }
}

impl Operator for Noting {
    fn on_batch(&mut self, _: usize, batch: RecordBatch, _: &mut Output) -> Result<()> {
        self.notes.lock().unwrap().push(format!("{} rows", batch.num_rows()));
        Ok(())
    }

    fn on_watermark(&mut self, watermark: EventTime, out: &mut Output) -> Result<Flow> {
        Ok(self.portion(format!("at {}", watermark.as_millis()), out))
    }

    fn on_drain(&mut self, out: &mut Output) -> Result<Flow> {
        Ok(self.portion("drain".into(), out))
    }

    fn output_watermark(&self, watermark: EventTime) -> EventTime {
        watermark.minus(Duration::from_millis(100))
    }

    fn snapshot(&mut self, epoch: Epoch) -> Result<Vec<StatePiece>> {
        self.notes.lock().unwrap().push(format!("snapshot {epoch}"));
        Ok(Vec::new())
    }

    fn restore(&mut self, _: Vec<RestoredPiece>) -> Result<()> {
        Ok(())
    }
}

struct OperatorBench {
    task: OperatorTask,
    noted: Noted,
    reports: Receiver<(usize, Report)>,
    senders: Vec<EdgeSender>,
    end: EdgeReceiver,
}

fn operator_bench(inputs: usize, capacity: Capacity) -> OperatorBench {
    let noted = Noted::default();
    let factory = Arc::new(noted.clone());
    let node = OperatorNode { stage: "n".into(), label: "1:noted".into(), factory, inputs: 1, on_bad: OnBadData::Fail };
    let clock = Arc::new(ManualClock::default());
    let (seat, reports) = seat("n", &clock);
    let (outputs, end) = outputs(capacity);
    let (senders, receivers): (Vec<_>, Vec<_>) = (0..inputs).map(|_| unsignalled(wide())).unzip();
    let edges = receivers.into_iter().map(|receiver| InEdge { receiver, input: 0, received: Counter::new() });
    let meters = Meters::new(&graph_of(Node::operator("n", node.clone())));
    let mut task = OperatorTask::new(OperatorParts {
        seat,
        node,
        memory: None,
        ctx: OperatorCtx::new(run()),
        restore: None,
        inputs: Inputs::new(edges.collect()),
        chains: chains(),
        bad: BadRows::new(None),
        outputs,
        meters: Arc::clone(&meters.nodes[0].2),
        now: EventTime(0),
        planted: Planted::None,
    });
    assert_eq!(task.step().unwrap(), Turn::Progress);
    OperatorBench { task, noted, reports, senders, end }
}

impl OperatorBench {
    fn send(&self, input: usize, event: Event) {
        self.senders[input].send(event, 0, 0);
    }

    fn settle(&mut self) {
        while !matches!(self.task.step().unwrap(), Turn::Starved { .. } | Turn::Backpressured | Turn::Done) {}
    }

    fn notes(&self) -> Vec<String> {
        std::mem::take(&mut self.noted.notes.lock().unwrap())
    }
}

#[test]
fn portions_wait_for_room_and_nothing_is_called_in_between() {
    let mut bench = operator_bench(1, Capacity { rows: 4, bytes: 1 << 20 });
    bench.send(0, Event::Watermark(Watermark::At(EventTime::from_millis(500))));
    bench.send(0, Event::Batch(rows(0, 2)));
    bench.send(0, Event::Barrier(barrier(1, BarrierKind::Checkpoint)));
    bench.settle();
    assert_eq!(bench.notes(), ["at 500", "at 500"], "the second portion waits for room, so the third is not made");
    let mut left = Vec::new();
    while left.last().is_none_or(|last: &String| last != "barrier 1") {
        left.extend(told(&bench.end));
        bench.settle();
    }
    assert_eq!(bench.notes(), ["at 500", "2 rows", "snapshot 1"]);
    assert_eq!(left, ["[2, 3, 4, 5]", "[1, 2, 3, 4]", "[0, 1, 2, 3]", "at 400", "barrier 1"]);
}

#[test]
fn a_held_input_is_not_read_until_the_others_bring_the_barrier() {
    let mut bench = operator_bench(2, wide());
    bench.send(0, Event::Barrier(barrier(1, BarrierKind::Checkpoint)));
    bench.send(0, Event::Batch(rows(0, 1)));
    bench.send(1, Event::Batch(rows(0, 2)));
    bench.settle();
    assert_eq!(bench.notes(), ["2 rows"]);
    bench.send(1, Event::EndOfStream);
    bench.settle();
    assert_eq!(bench.notes(), ["snapshot 1", "1 rows"], "an input that ends completes the barrier");
    assert!(bench.reports.try_iter().any(|(_, report)| matches!(report, Report::Acknowledged { epoch: Epoch(1), .. })));
}

#[test]
fn an_input_that_the_operator_holds_is_read_only_to_let_a_barrier_through() {
    let (senders, receivers): (Vec<_>, Vec<_>) = (0..3).map(|_| unsignalled(wide())).unzip();
    let edges = receivers.into_iter().zip([0, 1, 1]).map(|(receiver, input)| InEdge { receiver, input, received: Counter::new() });
    let mut inputs = Inputs::new(edges.collect());
    let send = |edge: usize, event: Event| senders[edge].send(event, 0, 0);
    let mut read = || inputs.read_unless(|input| input == 0).map(|incoming| (incoming.is_some(), inputs.told())).unwrap();

    send(0, Event::Batch(rows(0, 1)));
    send(0, Event::Barrier(barrier(1, BarrierKind::Checkpoint)));
    assert_eq!(read(), (false, None));
    send(1, Event::Watermark(Watermark::At(EventTime(7))));
    send(2, Event::Watermark(Watermark::At(EventTime(5))));
    assert_eq!(read(), (true, None), "the other edge of the input has promised nothing");
    assert_eq!(read(), (true, Some((1, Watermark::At(EventTime(5))))));
    send(1, Event::Barrier(barrier(1, BarrierKind::Checkpoint)));
    assert_eq!(read(), (true, None));
    assert_eq!((read(), read()), ((true, None), (true, None)), "row and barrier of the held input");
    assert_eq!(read(), (false, None));
    send(2, Event::Barrier(barrier(1, BarrierKind::Checkpoint)));
    assert_eq!(read(), (true, None));
    inputs.release();
    send(0, Event::Batch(rows(0, 1)));
    assert!(inputs.read_unless(|input| input == 0).unwrap().is_none(), "held again");
    assert!(inputs.read().unwrap().is_some());
}

#[test]
fn a_drain_flushes_before_the_barrier_and_a_suspend_does_not() {
    for (kind, expected) in [
        (BarrierKind::Drain, vec!["[2, 3, 4, 5]", "[1, 2, 3, 4]", "[0, 1, 2, 3]", "barrier 1", "end"]),
        (BarrierKind::Suspend, vec!["barrier 1", "end"]),
    ] {
        let mut bench = operator_bench(1, wide());
        bench.send(0, Event::Barrier(barrier(1, kind)));
        bench.send(0, Event::EndOfStream);
        bench.settle();
        assert_eq!(told(&bench.end), expected);
        assert_eq!(bench.task.step().unwrap(), Turn::Done);
    }
}

//! An operator without memory says what it says with memory.

use super::{Member, Place, Pool, Spilling};
use arrow::array::{ArrayRef, AsArray, Int64Array, RecordBatch};
use arrow::datatypes::{DataType, Field, Int64Type, Schema, SchemaRef};
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use tidegate_api::testkit::ManualClock;
use tidegate_api::{
    Counter, Epoch, EventTime, Flow, Generation, Operator, OperatorCtx, OperatorFactory, Output, PieceId, RestoredPiece, Result, RunId,
    RunIdentity, StatePiece,
};
use tumbling::Tumbling;

#[path = "../../tests/support/tumbling.rs"]
#[allow(dead_code, unreachable_pub, reason = "shared with the tests of whole jobs")]
mod tumbling;

fn schema(names: &[&str]) -> SchemaRef {
    Arc::new(Schema::new(names.iter().map(|name| Field::new(*name, DataType::Int64, false)).collect::<Vec<_>>()))
}

fn batch(schema: &SchemaRef, rows: &[Vec<i64>]) -> RecordBatch {
    let column = |index: usize| Arc::new(Int64Array::from_iter_values(rows.iter().map(|row| row[index]))) as ArrayRef;
    RecordBatch::try_new(Arc::clone(schema), (0..schema.fields().len()).map(column).collect()).unwrap()
}

#[derive(Debug, Clone)]
enum Act {
    Rows(Vec<Vec<i64>>),
    Watermark(i64),
    Barrier,
    /// A barrier, and a new start from what it took.
    Restart,
}

fn acts() -> impl Strategy<Value = Vec<Act>> {
    let row = (0i64..300, 0i64..40, -5i64..100).prop_map(|(time, key, value)| vec![time, key, value]);
    prop::collection::vec(
        prop_oneof![
            6 => prop::collection::vec(row, 1..30).prop_map(Act::Rows),
            3 => (0i64..300).prop_map(Act::Watermark),
            1 => Just(Act::Barrier),
            1 => Just(Act::Restart),
        ],
        0..60,
    )
}

/// What an operator has said.
#[derive(Debug, Default, PartialEq)]
struct Said {
    rows: Vec<Vec<i64>>,
    late: usize,
}

struct Bench {
    factory: Arc<dyn OperatorFactory>,
    clock: Arc<ManualClock>,
    /// `None`: memory without limit.
    folder: Option<std::path::PathBuf>,
    spilled: Counter,
    most_spilled: u64,
    operator: Box<dyn Operator>,
    store: BTreeMap<PieceId, RestoredPiece>,
    said: Said,
    waiting: u64,
    reached: i64,
    promised: EventTime,
    epoch: u64,
    kept: usize,
}

fn open(factory: &Arc<dyn OperatorFactory>, clock: &Arc<ManualClock>, folder: Option<&Path>, spilled: &Counter) -> Box<dyn Operator> {
    let ctx = OperatorCtx::new(RunIdentity::new("test", RunId::new("run"), Generation(1), "sums")).with_clock(Arc::clone(clock) as _);
    match folder {
        None => factory.open(ctx).unwrap(),
        Some(folder) => {
            let place = Place { folder: folder.to_path_buf(), keys: vec![vec![1]], aside: spilled.clone(), spills: Counter::new() };
            Box::new(Spilling::open(Arc::clone(factory), ctx, Some(place), Pool::new(1024, 1).member(0)).unwrap())
        }
    }
}

impl Bench {
    fn new(folder: Option<&Path>) -> Self {
        let factory: Arc<dyn OperatorFactory> = Arc::new(Tumbling::new(10));
        let (clock, spilled) = (Arc::new(ManualClock::default()), Counter::new());
        Bench {
            operator: open(&factory, &clock, folder, &spilled),
            factory,
            clock,
            folder: folder.map(Path::to_path_buf),
            spilled,
            most_spilled: 0,
            store: BTreeMap::new(),
            said: Said::default(),
            waiting: 0,
            reached: i64::MIN,
            promised: EventTime::MIN,
            epoch: 0,
            kept: 0,
        }
    }

    fn take(&mut self, mut out: Output) {
        self.waiting = self.waiting + out.deferred - out.resumed;
        self.said.late += out.late.drain(..).map(|rows| rows.num_rows()).sum::<usize>();
        for rows in out.batches {
            let column = |index: usize| rows.column(index).as_primitive::<Int64Type>().values().to_vec();
            let (starts, keys, sums) = (column(0), column(1), column(2));
            for (row, start) in starts.iter().enumerate() {
                assert!(EventTime::from_millis(*start) >= self.promised, "window {start} came after {:?} was promised", self.promised);
                self.said.rows.push(vec![*start, keys[row], sums[row]]);
            }
        }
        self.most_spilled = self.most_spilled.max(self.spilled.get());
    }

    fn portions(&mut self, mut call: impl FnMut(&mut dyn Operator, &mut Output) -> Result<Flow>) {
        for _ in 0..100_000 {
            let mut out = Output::default();
            let flow = call(self.operator.as_mut(), &mut out).unwrap();
            self.take(out);
            if self.operator.has_caught_up() && self.reached > i64::MIN {
                self.promise();
            }
            if flow == Flow::Done {
                return;
            }
        }
        panic!("it does not end");
    }

    fn promise(&mut self) {
        self.promised = self.promised.max(self.operator.output_watermark(EventTime::from_millis(self.reached)));
    }

    fn watermark(&mut self, at: EventTime) {
        self.portions(|operator, out| operator.on_watermark(at, out));
        self.promised = self.promised.max(self.operator.output_watermark(at));
    }

    fn barrier(&mut self) -> Vec<PieceId> {
        self.portions(|operator, out| operator.on_time(out));
        self.portions(|operator, out| operator.on_barrier(out));
        assert_eq!(self.waiting, 0, "no row waits behind a barrier");
        self.epoch += 1;
        let (mut all, mut new) = (Vec::new(), Vec::new());
        for piece in self.operator.snapshot(Epoch(self.epoch)).unwrap() {
            let (name, vnodes, data) = match piece {
                StatePiece::Kept(id) => {
                    assert!(self.store.contains_key(&id));
                    self.kept += 1;
                    all.push(id);
                    continue;
                }
                new => new.into_new().unwrap().unwrap(),
            };
            let id = PieceId(format!("{}.{}", self.epoch, new.len()));
            self.store.insert(id.clone(), RestoredPiece { id: id.clone(), name, vnodes, data });
            new.push(id.clone());
            all.push(id);
        }
        self.operator.pieces_named(Epoch(self.epoch), new);
        all
    }

    fn run(&mut self, acts: &[Act]) {
        let input = schema(&["time", "key", "value"]);
        for (at, act) in acts.iter().enumerate() {
            match act {
                Act::Rows(rows) => {
                    let mut out = Output::default();
                    self.operator.on_batch(0, batch(&input, rows), &mut out).unwrap();
                    self.take(out);
                }
                Act::Watermark(to) if *to > self.reached => {
                    self.reached = *to;
                    self.watermark(EventTime::from_millis(*to));
                }
                Act::Watermark(_) => {}
                Act::Barrier => {
                    self.barrier();
                }
                Act::Restart => {
                    let pieces = self.barrier();
                    self.operator = open(&self.factory, &self.clock, self.folder.as_deref(), &self.spilled);
                    self.operator.restore(pieces.iter().map(|id| self.store[id].clone()).collect()).unwrap();
                }
            }
            if self.operator.holds(0) || at % 7 == 0 {
                self.clock.advance(std::time::Duration::from_millis(300));
                self.portions(|operator, out| operator.on_time(out));
            }
        }
        self.watermark(EventTime::MAX);
        self.portions(|operator, out| operator.on_barrier(out));
        self.portions(|operator, out| operator.on_drain(out));
        assert_eq!(self.waiting, 0);
        self.said.rows.sort();
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn parts_on_disk_say_what_the_whole_says(acts in acts()) {
        let folder = tempfile::tempdir().unwrap();
        let (mut with, mut without) = (Bench::new(None), Bench::new(Some(folder.path())));
        with.run(&acts);
        without.run(&acts);
        prop_assert_eq!(&without.said, &with.said);
        prop_assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0, "files have no names");
    }
}

#[test]
fn state_leaves_memory_and_what_does_not_change_is_not_written_again() {
    let folder = tempfile::tempdir().unwrap();
    let mut bench = Bench::new(Some(folder.path()));
    let many: Vec<Vec<i64>> = (0..2000).map(|n| vec![n % 300, n, 1]).collect();
    bench.run(&[Act::Rows(many), Act::Barrier, Act::Rows(vec![vec![299, 1, 1]]), Act::Barrier, Act::Watermark(300)]);
    assert!(bench.most_spilled > 2000 * 8, "{} bytes", bench.most_spilled);
    assert!(bench.kept >= 7, "{} pieces were kept", bench.kept);
    assert_eq!(bench.said.rows.len(), 2001);
}

fn limited(folder: Option<&Path>) -> Result<()> {
    let factory: Arc<dyn OperatorFactory> = Arc::new(Tumbling::new(10));
    let ctx = OperatorCtx::new(RunIdentity::new("test", RunId::new("run"), Generation(1), "sums"));
    let place =
        folder.map(|folder| Place { folder: folder.to_path_buf(), keys: vec![vec![1]], aside: Counter::new(), spills: Counter::new() });
    let member: Member = Pool::new(4 << 10, 1).member(0);
    let mut operator = Spilling::open(factory, ctx, place, member)?;
    let input = schema(&["time", "key", "value"]);
    for at in 0..400 {
        operator.on_batch(0, batch(&input, &[vec![at, at, 1], vec![at, 0, 1]]), &mut Output::default())?;
        while operator.holds(0) {
            operator.on_time(&mut Output::default())?;
        }
    }
    Ok(())
}

#[test]
fn without_disk_the_limit_ends_the_run_and_says_what_to_do() {
    let error = limited(None).unwrap_err();
    assert_eq!(error.kind(), tidegate_api::ErrorKind::Limit);
    let message = error.to_string();
    assert!(["stage `sums`", "`tumbling`", "`maxMemory`", "`spill`"].iter().all(|part| message.contains(part)), "{message}");
    let folder = tempfile::tempdir().unwrap();
    limited(Some(folder.path())).unwrap();
}

#[test]
fn a_disk_that_cannot_be_written_is_told() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("file"), "").unwrap();
    let error = limited(Some(&folder.path().join("file"))).unwrap_err();
    assert!(matches!(error.kind(), tidegate_api::ErrorKind::External { .. }));
    assert!(error.to_string().contains("put aside"), "{error}");
}

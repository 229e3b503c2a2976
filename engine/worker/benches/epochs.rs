//! What epochs cost a window with a large state: bytes and time of a snapshot when a hundredth has changed, and a restore.
//!
//! `cargo bench -p tidegate --bench epochs -- --mib 1024`; `cargo xtask bench epochs` runs it together with whole pipelines.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a bench may fail loudly, and talks to a terminal")]
#![allow(clippy::disallowed_methods, reason = "a benchmark measures with the machine's clock")]

use arrow::array::{ArrayRef, Int64Array, RecordBatch, TimestampMillisecondArray};
use arrow::datatypes::{DataType, Field, Schema, TimeUnit};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tidegate_api::{
    Epoch, Generation, Operator, OperatorCtx, OperatorFactory, Output, PieceId, RestoredPiece, RunId, RunIdentity, StatePiece, VnodeRange,
};
use tidegate_epochs::{DirectoryStore, EpochStore};
use tidegate_operators::{BindCtx, BoundNode, StreamType, parse_step};

const ROWS: i64 = 8192;
const PANES: i64 = 100;
/// An hour.
const PANE: i64 = 3_600_000;
/// Long enough for what is superseded to have settled.
const EPOCHS: i64 = 120;

fn batch(rows: impl Iterator<Item = (i64, i64)>) -> RecordBatch {
    let (times, keys): (Vec<i64>, Vec<i64>) = rows.unzip();
    let columns: Vec<ArrayRef> = vec![Arc::new(TimestampMillisecondArray::from(times)), Arc::new(Int64Array::from(keys))];
    let types = [Field::new("t", DataType::Timestamp(TimeUnit::Millisecond, None), false), Field::new("k", DataType::Int64, false)];
    RecordBatch::try_new(Arc::new(Schema::new(types.to_vec())), columns).unwrap()
}

fn factory() -> Arc<dyn OperatorFactory> {
    let step: Value = json!({ "op": "windowedAggregate", "timeColumn": "t", "windowMs": PANE, "groupBy": ["k"], "aggs": [
        { "op": "count", "alias": "n" }, { "op": "sum", "column": "k" }, { "op": "max", "column": "k" },
    ] });
    let input = StreamType::append(batch(std::iter::empty()).schema());
    let BoundNode::Operator { factory, .. } = parse_step(&step).unwrap().bind(&[input], &BindCtx::new()).unwrap().node else {
        panic!("not an operator")
    };
    factory
}

fn open(factory: &dyn OperatorFactory) -> Box<dyn Operator> {
    let identity = RunIdentity::new("bench", RunId::new("run"), Generation(1), "stage");
    factory.open(OperatorCtx::new(identity).with_task(0, 1, 256)).unwrap()
}

fn feed(operator: &mut dyn Operator, rows: i64, row: impl Fn(i64) -> (i64, i64)) {
    for from in (0..rows).step_by(ROWS as usize) {
        operator.on_batch(0, batch((from..rows.min(from + ROWS)).map(&row)), &mut Output::default()).unwrap();
    }
}

/// A piece in the store.
struct Stored {
    name: String,
    vnodes: VnodeRange,
    key: String,
}

/// What one snapshot took.
struct Taken {
    bytes: u64,
    /// On the task's thread.
    task: Duration,
    /// Making the rest of the bytes, and writing all of them, which happens beside it.
    written: Duration,
    pieces: usize,
}

struct Epochs {
    store: DirectoryStore,
    known: BTreeMap<PieceId, Stored>,
    newest: Vec<PieceId>,
    epoch: u64,
}

impl Epochs {
    fn snapshot(&mut self, operator: &mut dyn Operator) -> Taken {
        self.epoch += 1;
        let started = Instant::now();
        let pieces = operator.snapshot(Epoch(self.epoch)).unwrap();
        let mut ids = Vec::new();
        let mut new = |kept: Option<PieceId>| {
            kept.unwrap_or_else(|| {
                ids.push(PieceId(format!("{}/{}", self.epoch, ids.len())));
                ids[ids.len() - 1].clone()
            })
        };
        let all = pieces.iter().map(|piece| if let StatePiece::Kept(id) = piece { new(Some(id.clone())) } else { new(None) });
        self.newest = all.collect();
        operator.pieces_named(Epoch(self.epoch), ids);
        let task = started.elapsed();
        let (started, mut bytes, count) = (Instant::now(), 0, pieces.len());
        for (id, piece) in self.newest.iter().zip(pieces) {
            let Some((name, vnodes, data)) = piece.into_new().unwrap() else { continue };
            let key = format!("objects/{}", id.0);
            self.store.put(&key, &data).unwrap();
            bytes += data.len() as u64;
            self.known.insert(id.clone(), Stored { name, vnodes, key });
        }
        // As pruning does with keepEpochs = 1.
        let gone: Vec<PieceId> = self.known.keys().filter(|id| !self.newest.contains(id)).cloned().collect();
        let written = started.elapsed();
        for id in gone {
            self.store.delete(&self.known.remove(&id).unwrap().key).unwrap();
        }
        Taken { bytes, task, written, pieces: count }
    }

    /// The time to read all pieces, the time to take them in, and their bytes.
    fn restore(&self, factory: &dyn OperatorFactory) -> (Duration, Duration, u64) {
        let started = Instant::now();
        let piece = |id: &PieceId| {
            let Stored { name, vnodes, key } = &self.known[id];
            RestoredPiece { id: id.clone(), name: name.clone(), vnodes: *vnodes, data: self.store.get(key).unwrap().unwrap() }
        };
        let pieces: Vec<RestoredPiece> = self.newest.iter().map(piece).collect();
        let (read, bytes) = (started.elapsed(), pieces.iter().map(|piece| piece.data.len() as u64).sum());
        let started = Instant::now();
        open(factory).restore(pieces).unwrap();
        (read, started.elapsed(), bytes)
    }
}

fn measure(name: &str, rows: i64, row: impl Fn(i64) -> (i64, i64), change: impl Fn(i64, i64) -> (i64, i64)) {
    let factory = factory();
    let folder = tempfile::tempdir().unwrap();
    let store = DirectoryStore::open(folder.path().join("state")).unwrap();
    let mut epochs = Epochs { store, known: BTreeMap::new(), newest: Vec::new(), epoch: 0 };
    let mut operator = open(factory.as_ref());
    feed(operator.as_mut(), rows, row);
    let full = epochs.snapshot(operator.as_mut());
    let taken: Vec<Taken> = (0..EPOCHS)
        .map(|epoch| {
            feed(operator.as_mut(), rows / 100, |number| change(epoch, number));
            epochs.snapshot(operator.as_mut())
        })
        .collect();
    drop(operator);
    let (read, taken_in, bytes) = epochs.restore(factory.as_ref());
    let share = |bytes: u64| bytes as f64 * 100.0 / full.bytes as f64;
    let (mean, most) = (taken.iter().map(|taken| taken.bytes).sum::<u64>() / EPOCHS as u64, taken.iter().map(|taken| taken.bytes).max());
    let greatest = |time: fn(&Taken) -> Duration| taken.iter().map(time).max().unwrap_or_default().as_secs_f64() * 1e3;
    let gib = bytes as f64 / f64::from(1 << 30);
    println!(
        "| {name} | {:.0} | {:.2} | {:.2} | {:.1} | {:.0} | {:.0} | {:.0} | {:.2} | {} | {:.2} + {:.2} |",
        full.bytes as f64 / f64::from(1 << 20),
        share(mean),
        share(most.unwrap_or_default()),
        greatest(|taken| taken.task),
        greatest(|taken| taken.written),
        full.task.as_secs_f64() * 1e3,
        full.written.as_secs_f64() * 1e3,
        bytes as f64 / full.bytes as f64,
        taken.iter().map(|taken| taken.pieces).max().unwrap_or_default(),
        read.as_secs_f64() / gib,
        taken_in.as_secs_f64() / gib,
    );
}

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let given = arguments.iter().position(|argument| argument == "--mib").and_then(|at| arguments.get(at + 1)?.parse::<i64>().ok());
    let mib = given.unwrap_or(64);
    // Bytes of a group in a snapshot: vnode, key, and the states of the aggregates.
    let rows = mib * (1 << 20) / 50 / PANES * PANES;
    println!(
        "| state | MiB | written, mean % | written, most % | on the task, most ms | making and writing, most ms | first: on the task, ms \
         | first: making and writing, ms | kept / state | pieces, most | restore, s per GiB: reading + taking in |"
    );
    println!("|{}", "---|".repeat(11));
    let keys = rows / PANES;
    let large = move |epoch: i64, number: i64| (1, (number * 7919 + epoch * 104_729).rem_euclid(rows));
    measure("a hundredth of the keys of one pane", rows, |key| (0, key), large);
    let panes = move |epoch: i64, number: i64| (epoch % PANES * PANE, number % keys);
    measure("one of a hundred panes", rows, move |row| (row / keys * PANE, row % keys), panes);
}

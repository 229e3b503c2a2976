//! What a snapshot writes when little has changed: a small part of the state, and every retained snapshot restores.

#![allow(clippy::unwrap_used, reason = "a test may end by panicking")]

use arrow::array::{ArrayRef, AsArray, Int64Array, RecordBatch, TimestampMillisecondArray};
use arrow::datatypes::{DataType, Field, Int64Type, Schema, TimeUnit};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;
use tidegate_api::{
    Epoch, EventTime, Flow, Generation, Operator, OperatorCtx, OperatorFactory, Output, PieceId, RestoredPiece, RunId, RunIdentity,
    StatePiece, VnodeRange, hash,
};
use tidegate_operators::{BindCtx, BoundNode, StreamType, parse_step};

const KEYS: i64 = 200_000;
const ROWS: i64 = 8192;
const PANES: i64 = 100;
/// An hour.
const PANE: i64 = 3_600_000;

fn batch(rows: &[(i64, i64)]) -> RecordBatch {
    let times: ArrayRef = Arc::new(TimestampMillisecondArray::from(rows.iter().map(|(time, _)| *time).collect::<Vec<i64>>()));
    let keys: ArrayRef = Arc::new(Int64Array::from(rows.iter().map(|(_, key)| *key).collect::<Vec<i64>>()));
    let types = [Field::new("t", DataType::Timestamp(TimeUnit::Millisecond, None), false), Field::new("k", DataType::Int64, false)];
    RecordBatch::try_new(Arc::new(Schema::new(types.to_vec())), vec![times, keys]).unwrap()
}

fn factory(step: &Value) -> Arc<dyn OperatorFactory> {
    let input = StreamType::append(batch(&[]).schema());
    let BoundNode::Operator { factory, .. } = parse_step(step).unwrap().bind(&[input], &BindCtx::new()).unwrap().node else {
        panic!("not an operator")
    };
    factory
}

/// A stage of some tasks, and what its snapshots have written.
struct Stage {
    factory: Arc<dyn OperatorFactory>,
    tasks: Vec<(VnodeRange, Box<dyn Operator>)>,
    store: BTreeMap<PieceId, RestoredPiece>,
    epoch: u64,
    /// How often each key came, in which pane.
    counts: BTreeMap<(i64, i64), i64>,
}

impl Stage {
    fn new(step: &Value, tasks: usize) -> Self {
        let mut stage = Stage { factory: factory(step), tasks: Vec::new(), store: BTreeMap::new(), epoch: 0, counts: BTreeMap::new() };
        stage.open(tasks);
        stage
    }

    fn open(&mut self, tasks: usize) {
        let identity = RunIdentity::new("test", RunId::new("run"), Generation(1), "stage");
        let ctx = |task| OperatorCtx::new(identity.clone()).with_task(task, tasks, 256);
        self.tasks = (0..tasks).map(|task| (ctx(task).vnodes, self.factory.open(ctx(task)).unwrap())).collect();
    }

    fn rows(&mut self, rows: impl Iterator<Item = (i64, i64)>) {
        let rows: Vec<(i64, i64)> = rows.collect();
        for rows in rows.chunks(ROWS as usize) {
            rows.iter().for_each(|(time, key)| *self.counts.entry((time.div_euclid(PANE), *key)).or_default() += 1);
            let whole = batch(rows);
            let mut hashes = Vec::new();
            hash::hash_rows(&[Arc::clone(whole.column(1))], rows.len(), &mut hashes).unwrap();
            for (vnodes, operator) in &mut self.tasks {
                let own = rows.iter().zip(&hashes).filter(|(_, hash)| vnodes.contains(hash::vnode(**hash, 256))).map(|(row, _)| *row);
                operator.on_batch(0, batch(&own.collect::<Vec<_>>()), &mut Output::default()).unwrap();
            }
        }
    }

    /// The pieces of a snapshot, and the bytes that are new.
    fn snapshot(&mut self) -> (Vec<PieceId>, usize) {
        self.epoch += 1;
        let (mut all, mut written) = (Vec::new(), 0);
        for (index, (_, operator)) in self.tasks.iter_mut().enumerate() {
            let mut new = Vec::new();
            for piece in operator.snapshot(Epoch(self.epoch)).unwrap() {
                if let StatePiece::Kept(id) = piece {
                    assert!(self.store.contains_key(&id));
                    all.push(id);
                    continue;
                }
                let (name, vnodes, data) = piece.into_new().unwrap().unwrap();
                written += data.len();
                let id = PieceId(format!("{}/{index}/{}", self.epoch, new.len()));
                self.store.insert(id.clone(), RestoredPiece { id: id.clone(), name, vnodes, data });
                new.push(id.clone());
                all.push(id);
            }
            operator.pieces_named(Epoch(self.epoch), new);
        }
        (all, written)
    }

    fn restore(&mut self, snapshot: &[PieceId], tasks: usize) {
        self.open(tasks);
        for (vnodes, operator) in &mut self.tasks {
            let pieces = snapshot.iter().map(|id| &self.store[id]).filter(|piece| piece.vnodes.overlaps(*vnodes));
            operator.restore(pieces.cloned().collect()).unwrap();
        }
    }

    /// What comes out at the end: how often each key came, summed over all rows.
    fn outcome(&mut self) -> BTreeMap<i64, Vec<i64>> {
        let mut found: BTreeMap<i64, Vec<i64>> = BTreeMap::new();
        for (_, operator) in &mut self.tasks {
            let mut out = Output::default();
            while operator.on_watermark(EventTime::MAX, &mut out).unwrap() == Flow::More {}
            while operator.on_drain(&mut out).unwrap() == Flow::More {}
            for batch in out.batches {
                let ints = |name: &str| batch.column_by_name(name).unwrap().as_primitive::<Int64Type>().clone();
                let (keys, counts) = (ints("k"), ints("n"));
                (0..batch.num_rows()).for_each(|row| found.entry(keys.value(row)).or_default().push(counts.value(row)));
            }
        }
        found.values_mut().for_each(|counts| counts.sort_unstable());
        found
    }
}

fn expected(counts: &BTreeMap<(i64, i64), i64>) -> BTreeMap<i64, Vec<i64>> {
    let mut expected: BTreeMap<i64, Vec<i64>> = BTreeMap::new();
    counts.iter().for_each(|((_, key), count)| expected.entry(*key).or_default().push(*count));
    expected.values_mut().for_each(|counts| counts.sort_unstable());
    expected
}

/// Fills a stage, lets a hundredth change again and again, and goes back to snapshots at several numbers of tasks.
fn check(step: &Value, fill: impl Iterator<Item = (i64, i64)>, change: impl Fn(i64) -> Vec<(i64, i64)>) {
    let mut stage = Stage::new(step, 2);
    stage.rows(fill);
    let full = stage.snapshot().1;
    assert!(full > 2 << 20, "{full} bytes of state");
    assert!(stage.snapshot().1 < full / 1000, "nothing has changed");
    let (mut retained, mut written) = (Vec::new(), 0);
    for epoch in 0..60 {
        stage.rows(change(epoch).into_iter());
        let (pieces, bytes) = stage.snapshot();
        assert!(bytes * 20 < full, "epoch {epoch} wrote {bytes} of {full} bytes");
        written += bytes;
        if epoch % 20 == 19 {
            retained.push((pieces, stage.counts.clone()));
        }
        if epoch == 35 {
            // A restart at the same number of tasks refers to what is there.
            let (pieces, _) = stage.snapshot();
            stage.restore(&pieces, 2);
            assert!(stage.snapshot().1 < full / 1000, "a restart has changed nothing");
        }
    }
    assert!(written * 25 < full * 60, "{written} bytes in 60 epochs of {full} bytes");
    for ((pieces, counts), tasks) in retained.iter().zip([1, 2, 3]) {
        stage.restore(pieces, tasks);
        stage.counts.clone_from(counts);
        stage.rows(change(7).into_iter());
        let (pieces, _) = stage.snapshot();
        stage.restore(&pieces, 2);
        let expected = expected(&stage.counts);
        assert!(stage.outcome() == expected, "another outcome after a restore in {tasks} tasks");
    }
}

/// A hundredth of the keys, others each time.
fn some_keys(epoch: i64) -> Vec<(i64, i64)> {
    (0..KEYS / 100).map(|number| (1 + epoch, (number * 7919 + epoch * 104_729) % KEYS)).collect()
}

fn window() -> Value {
    json!({ "op": "windowedAggregate", "timeColumn": "t", "windowMs": PANE, "groupBy": ["k"], "aggs": [{ "op": "count", "alias": "n" }] })
}

#[test]
fn a_hundredth_of_the_keys_of_one_large_pane() {
    check(&window(), (0..KEYS).map(|key| (0, key)), some_keys);
}

#[test]
fn a_hundredth_of_the_keys_of_one_large_pane_with_several_aggregates() {
    let mut step = window();
    step["aggs"] =
        json!([{ "op": "count", "alias": "n" }, { "op": "max", "column": "k", "alias": "most" }, { "op": "sum", "column": "k" }]);
    check(&step, (0..KEYS).map(|key| (0, key)), some_keys);
}

#[test]
fn a_hundredth_of_the_panes() {
    let keys = KEYS / PANES;
    let fill = (0..PANES).flat_map(|pane| (0..keys).map(move |key| (pane * PANE, key)));
    check(&window(), fill, |epoch| (0..keys).map(|key| (epoch % PANES * PANE, key)).collect());
}

#[test]
fn a_hundredth_of_the_keys_of_sessions() {
    let step =
        json!({ "op": "sessionAggregate", "timeColumn": "t", "gapMs": PANE, "groupBy": ["k"], "aggs": [{ "op": "count", "alias": "n" }] });
    check(&step, (0..KEYS).map(|key| (0, key)), some_keys);
}

#[test]
fn a_hundredth_of_the_keys_of_sessions_that_are_told_early() {
    let step = json!({ "op": "sessionAggregate", "timeColumn": "t", "gapMs": PANE, "groupBy": ["k"], "allowedLatenessMs": PANE,
                       "emit": { "everyMs": 600_000 }, "aggs": [{ "op": "count", "alias": "n" }] });
    check(&step, (0..KEYS).map(|key| (0, key)), some_keys);
}

#[test]
fn a_hundredth_of_the_groups_of_an_aggregate() {
    let step = json!({ "op": "aggregate", "final": true, "groupBy": ["k"], "aggs": [{ "op": "count", "alias": "n" }] });
    check(&step, (0..KEYS).map(|key| (0, key)), some_keys);
}

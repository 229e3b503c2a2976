//! Runs the operator as a job would: any number of tasks, rows dealt out by vnode, snapshots, crashes, rescaling.

use crate::parse_step;
use crate::step::{BindCtx, BoundNode, StreamType};
use arrow::array::{
    Array, ArrayRef, AsArray, Float64Array, Int64Array, RecordBatch, StringViewArray, TimestampMillisecondArray, UInt32Array,
};
use arrow::compute::take_record_batch;
use arrow::datatypes::{DataType, Field, Float64Type, Int64Type, Schema, SchemaRef, TimeUnit, TimestampMillisecondType};
use serde_json::Value;
use std::collections::BTreeMap;
use std::sync::Arc;
use tidegate_api::{
    BadRow, Epoch, EventTime, Flow, Generation, Operator, OperatorCtx, OperatorFactory, Output, PieceId, RestoredPiece, RunId, RunIdentity,
    StatePiece, VnodeRange, hash,
};

/// One row of the tests' schema.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct Row {
    pub(super) t: Option<i64>,
    pub(super) k: Option<i64>,
    pub(super) s: Option<String>,
    pub(super) v: Option<i64>,
    pub(super) f: Option<f64>,
}

/// A row with a time, a key and a value.
pub(super) fn row(t: i64, k: i64, v: i64) -> Row {
    Row { t: Some(t), k: Some(k), v: Some(v), ..Row::default() }
}

pub(super) fn schema() -> SchemaRef {
    Arc::new(Schema::new(vec![
        Field::new("t", DataType::Timestamp(TimeUnit::Millisecond, None), true),
        Field::new("k", DataType::Int64, true),
        Field::new("s", DataType::Utf8View, true),
        Field::new("v", DataType::Int64, true),
        Field::new("f", DataType::Float64, true),
    ]))
}

pub(super) fn batch(rows: &[Row]) -> RecordBatch {
    let columns: Vec<ArrayRef> = vec![
        Arc::new(rows.iter().map(|row| row.t).collect::<TimestampMillisecondArray>()),
        Arc::new(rows.iter().map(|row| row.k).collect::<Int64Array>()),
        Arc::new(rows.iter().map(|row| row.s.as_deref()).collect::<StringViewArray>()),
        Arc::new(rows.iter().map(|row| row.v).collect::<Int64Array>()),
        Arc::new(rows.iter().map(|row| row.f).collect::<Float64Array>()),
    ];
    RecordBatch::try_new(schema(), columns).unwrap()
}

/// What happens to a job.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Act {
    Rows(Vec<Row>),
    Watermark(i64),
    /// A barrier.
    Snapshot,
    /// Everything since the last snapshot is lost and comes again, with so many tasks.
    Crash(usize),
}

/// What a job has made so far.
#[derive(Debug, Clone, Default)]
pub(super) struct Made {
    pub(super) batches: Vec<RecordBatch>,
    pub(super) bad: Vec<BadRow>,
    pub(super) late: usize,
    pub(super) late_windows: u64,
    pub(super) kept: usize,
    pub(super) written: usize,
}

impl Made {
    fn take(&mut self, out: &mut Output) {
        self.batches.append(&mut out.batches);
        self.bad.append(&mut out.bad);
        self.late += out.late.drain(..).map(|batch| batch.num_rows()).sum::<usize>();
        self.late_windows += std::mem::take(&mut out.late_windows);
    }

    /// The output rows as text, sorted: window bounds in milliseconds, floats with all digits.
    pub(super) fn rows(&self) -> Vec<String> {
        let mut rows = Vec::new();
        for batch in &self.batches {
            for row in 0..batch.num_rows() {
                rows.push(batch.columns().iter().map(|column| shown(column, row)).collect::<Vec<_>>().join(" "));
            }
        }
        rows.sort();
        rows
    }
}

pub(super) fn shown(column: &ArrayRef, row: usize) -> String {
    if column.is_null(row) {
        return "-".into();
    }
    match column.data_type() {
        DataType::Timestamp(TimeUnit::Millisecond, _) => column.as_primitive::<TimestampMillisecondType>().value(row).to_string(),
        DataType::Int64 => column.as_primitive::<Int64Type>().value(row).to_string(),
        DataType::Float64 => format!("{:?}", column.as_primitive::<Float64Type>().value(row)),
        DataType::Utf8View => format!("{:?}", column.as_string_view().value(row)),
        DataType::Binary => column.as_binary::<i32>().value(row).iter().map(|byte| format!("{byte:02x}")).collect(),
        other => panic!("the tests have no `{other}`"),
    }
}

pub(super) fn factory(step: &Value, keys: bool) -> (Arc<dyn OperatorFactory>, Vec<String>) {
    let bound = parse_step(step).unwrap().bind(&[StreamType::append(schema())], &BindCtx::new().with_keys(keys)).unwrap();
    match bound.node {
        BoundNode::Operator { factory, mut keys } => (factory, keys.remove(0)),
        BoundNode::Step(_) => panic!("not an operator"),
    }
}

/// A running stage.
pub(super) struct Job {
    factory: Arc<dyn OperatorFactory>,
    keys: Vec<String>,
    batch_rows: usize,
    tasks: Vec<Task>,
    store: BTreeMap<PieceId, RestoredPiece>,
    epoch: u64,
    pub(super) made: Made,
}

struct Task {
    operator: Box<dyn Operator>,
    vnodes: VnodeRange,
}

/// The pieces of all tasks at one barrier.
pub(super) type Snapshot = Vec<PieceId>;

impl Job {
    pub(super) fn new(step: &Value, tasks: usize, batch_rows: usize) -> Self {
        Job::with_keys(step, tasks, batch_rows, false)
    }

    pub(super) fn with_keys(step: &Value, tasks: usize, batch_rows: usize, keyed: bool) -> Self {
        let (factory, keys) = factory(step, keyed);
        let mut job = Job { factory, keys, batch_rows, tasks: Vec::new(), store: BTreeMap::new(), epoch: 0, made: Made::default() };
        job.open(tasks);
        job
    }

    fn open(&mut self, tasks: usize) {
        let identity = RunIdentity::new("test", RunId::new("run"), Generation(1), "stage");
        self.tasks = (0..tasks)
            .map(|task| {
                let ctx = OperatorCtx::new(identity.clone()).with_task(task, tasks, 256).with_batch_rows(self.batch_rows);
                Task { vnodes: ctx.vnodes, operator: self.factory.open(ctx).unwrap() }
            })
            .collect();
    }

    /// Which vnode each row belongs to.
    pub(super) fn vnodes(&self, batch: &RecordBatch) -> Vec<u16> {
        let columns: Vec<ArrayRef> = self.keys.iter().map(|name| Arc::clone(batch.column_by_name(name).unwrap())).collect();
        let mut hashes = Vec::new();
        hash::hash_rows(&columns, batch.num_rows(), &mut hashes).unwrap();
        hashes.iter().map(|hash| hash::vnode(*hash, 256)).collect()
    }

    pub(super) fn batch(&mut self, batch: &RecordBatch) {
        let vnodes = self.vnodes(batch);
        for task in &mut self.tasks {
            let rows = (0..batch.num_rows() as u32).filter(|row| task.vnodes.contains(vnodes[*row as usize]));
            let part = take_record_batch(batch, &UInt32Array::from_iter_values(rows)).unwrap();
            let mut out = Output::default();
            task.operator.on_batch(0, part, &mut out).unwrap();
            self.made.take(&mut out);
        }
    }

    pub(super) fn rows(&mut self, rows: &[Row]) {
        self.batch(&batch(rows));
    }

    pub(super) fn watermark(&mut self, watermark: EventTime) {
        for task in 0..self.tasks.len() {
            self.watermark_of(task, watermark);
        }
    }

    /// Raises the watermark of one task.
    pub(super) fn watermark_of(&mut self, task: usize, watermark: EventTime) {
        let mut calls = 0;
        loop {
            let mut out = Output::default();
            let flow = self.tasks[task].operator.on_watermark(watermark, &mut out).unwrap();
            assert!(out.batches.iter().all(|batch| batch.num_rows() <= self.batch_rows), "a batch is larger than asked for");
            assert!(out.batches.len() <= 1, "portions are bounded");
            self.made.take(&mut out);
            calls += 1;
            assert!(calls < 100_000, "firing does not end");
            if flow == Flow::Done {
                break;
            }
        }
    }

    pub(super) fn output_watermark(&self, watermark: EventTime) -> EventTime {
        self.tasks[0].operator.output_watermark(watermark)
    }

    pub(super) fn snapshot(&mut self) -> Snapshot {
        self.epoch += 1;
        let epoch = Epoch(self.epoch);
        let mut whole = Vec::new();
        for (index, task) in self.tasks.iter_mut().enumerate() {
            let mut new = Vec::new();
            for piece in task.operator.snapshot(epoch).unwrap() {
                match piece {
                    StatePiece::Kept(id) => {
                        assert!(self.store.contains_key(&id));
                        self.made.kept += 1;
                        whole.push(id);
                    }
                    StatePiece::New { name, vnodes, data } => {
                        let id = PieceId(format!("{}/{index}/{}", self.epoch, new.len()));
                        self.store.insert(id.clone(), RestoredPiece { id: id.clone(), name, vnodes, data });
                        self.made.written += 1;
                        new.push(id.clone());
                        whole.push(id);
                    }
                }
            }
            task.operator.pieces_named(epoch, new);
        }
        whole
    }

    /// Starts again from a snapshot, with so many tasks.
    pub(super) fn restore(&mut self, snapshot: &Snapshot, tasks: usize) {
        self.open(tasks);
        for task in &mut self.tasks {
            let pieces = snapshot.iter().map(|id| self.store[id].clone()).filter(|piece| piece.vnodes.overlaps(task.vnodes)).collect();
            task.operator.restore(pieces).unwrap();
        }
    }

    /// Runs a script to its end, the closing watermark included. With `paranoid`, every act is followed by a snapshot, a crash
    /// and a restore at another task count.
    pub(super) fn run(&mut self, acts: &[Act], paranoid: bool) {
        let mut saved: (Snapshot, usize, Made) = (Vec::new(), 0, Made::default());
        let mut crashed = vec![false; acts.len()];
        let mut at = 0;
        while at < acts.len() {
            match &acts[at] {
                Act::Rows(rows) => self.rows(rows),
                Act::Watermark(millis) => self.watermark(EventTime::from_millis(*millis)),
                Act::Snapshot => saved = (self.snapshot(), at + 1, self.made.clone()),
                Act::Crash(tasks) if !crashed[at] => {
                    crashed[at] = true;
                    self.restore(&saved.0, *tasks);
                    self.made = saved.2.clone();
                    at = saved.1;
                    continue;
                }
                Act::Crash(_) => {}
            }
            if paranoid {
                let snapshot = self.snapshot();
                let tasks = [1, 2, 5, 3, 17][self.epoch as usize % 5];
                self.restore(&snapshot, tasks);
            }
            at += 1;
        }
        self.watermark(EventTime::MAX);
    }
}

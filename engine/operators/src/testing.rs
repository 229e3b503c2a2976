//! Runs any operator as a job would: any number of inputs and tasks, rows dealt out by vnode, snapshots, crashes, rescaling.

use crate::parse_step;
use crate::step::{BindCtx, Bound, BoundNode, StreamType};
use arrow::array::{Array, ArrayRef, RecordBatch, UInt32Array};
use arrow::compute::take_record_batch;
use arrow::datatypes::DataType;
use arrow::util::display::{ArrayFormatter, FormatOptions};
use arrow::{array::AsArray, datatypes::*};
use serde_json::Value;
use std::collections::BTreeMap;
use std::sync::Arc;
use tidegate_api::{
    BadRow, Epoch, EventTime, Flow, Generation, Operator, OperatorCtx, OperatorFactory, Output, PieceId, RestoredPiece, RunId, RunIdentity,
    StatePiece, VnodeRange, Watermark, hash,
};

/// What happens to a job.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Act {
    /// Rows of an input.
    Rows(usize, RecordBatch),
    /// The merged watermark, in milliseconds.
    Watermark(i64),
    /// A barrier.
    Snapshot,
    /// Everything since the last snapshot is lost and comes again, with so many tasks.
    Crash(usize),
}

/// What a job has made so far.
#[derive(Debug, Clone, Default)]
pub(crate) struct Made {
    pub(crate) batches: Vec<RecordBatch>,
    pub(crate) bad: Vec<BadRow>,
    pub(crate) late: usize,
    pub(crate) late_windows: u64,
    pub(crate) filtered: u64,
    pub(crate) kept: usize,
    pub(crate) written: usize,
}

impl Made {
    fn take(&mut self, out: &mut Output) {
        self.batches.append(&mut out.batches);
        self.bad.append(&mut out.bad);
        self.late += out.late.drain(..).map(|batch| batch.num_rows()).sum::<usize>();
        self.late_windows += std::mem::take(&mut out.late_windows);
        self.filtered += std::mem::take(&mut out.filtered);
    }

    /// The output rows as text, sorted: window bounds in milliseconds, floats with all digits.
    pub(crate) fn rows(&self) -> Vec<String> {
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

/// A value as the tests write it: times in milliseconds, floats with all digits, bytes in hex, null as `-`.
pub(crate) fn shown(column: &ArrayRef, row: usize) -> String {
    if column.is_null(row) {
        return "-".into();
    }
    match column.data_type() {
        DataType::Timestamp(TimeUnit::Millisecond, _) => column.as_primitive::<TimestampMillisecondType>().value(row).to_string(),
        DataType::Int64 => column.as_primitive::<Int64Type>().value(row).to_string(),
        DataType::Float64 => format!("{:?}", column.as_primitive::<Float64Type>().value(row)),
        DataType::Utf8View => format!("{:?}", column.as_string_view().value(row)),
        DataType::Binary => column.as_binary::<i32>().value(row).iter().map(|byte| format!("{byte:02x}")).collect(),
        _ => ArrayFormatter::try_new(column, &FormatOptions::default()).unwrap().value(row).to_string(),
    }
}

/// Types a step over its inputs.
pub(crate) fn bind(step: &Value, inputs: &[StreamType], keys: bool) -> Bound {
    parse_step(step).unwrap().bind(inputs, &BindCtx::new().with_keys(keys)).unwrap()
}

/// A running stage.
pub(crate) struct Job {
    factory: Arc<dyn OperatorFactory>,
    /// Per input, the columns that decide a row's vnode.
    keys: Vec<Vec<String>>,
    batch_rows: usize,
    tasks: Vec<Task>,
    store: BTreeMap<PieceId, RestoredPiece>,
    /// Every other snapshot refers to no earlier one.
    forgetting: bool,
    epoch: u64,
    generation: u64,
    pub(crate) made: Made,
}

struct Task {
    operator: Box<dyn Operator>,
    vnodes: VnodeRange,
}

/// The pieces of all tasks at one barrier.
pub(crate) type Snapshot = Vec<PieceId>;

impl Job {
    /// Opens a typed operator in so many tasks.
    pub(crate) fn new(bound: Bound, tasks: usize, batch_rows: usize) -> Self {
        let BoundNode::Operator { factory, keys } = bound.node else { panic!("not an operator") };
        let mut job = Job {
            factory,
            keys,
            batch_rows,
            tasks: Vec::new(),
            store: BTreeMap::new(),
            forgetting: false,
            epoch: 0,
            generation: 1,
            made: Made::default(),
        };
        job.open(tasks);
        job
    }

    fn open(&mut self, tasks: usize) {
        let identity = RunIdentity::new("test", RunId::new("run"), Generation(self.generation), "stage");
        self.tasks = (0..tasks)
            .map(|task| {
                let ctx = OperatorCtx::new(identity.clone()).with_task(task, tasks, 256).with_batch_rows(self.batch_rows);
                Task { vnodes: ctx.vnodes, operator: self.factory.open(ctx).unwrap() }
            })
            .collect();
    }

    /// Which vnode each row belongs to.
    pub(crate) fn vnodes(&self, input: usize, batch: &RecordBatch) -> Vec<u16> {
        let columns: Vec<ArrayRef> = self.keys[input].iter().map(|name| Arc::clone(batch.column_by_name(name).unwrap())).collect();
        let mut hashes = Vec::new();
        hash::hash_rows(&columns, batch.num_rows(), &mut hashes).unwrap();
        hashes.iter().map(|hash| hash::vnode(*hash, 256)).collect()
    }

    /// Gives every task its rows of a batch.
    pub(crate) fn batch(&mut self, input: usize, batch: &RecordBatch) {
        let vnodes = self.vnodes(input, batch);
        for task in &mut self.tasks {
            let rows = (0..batch.num_rows() as u32).filter(|row| task.vnodes.contains(vnodes[*row as usize]));
            let part = take_record_batch(batch, &UInt32Array::from_iter_values(rows)).unwrap();
            let mut out = Output::default();
            task.operator.on_batch(input, part, &mut out).unwrap();
            self.made.take(&mut out);
        }
    }

    /// Raises the watermark of every task.
    pub(crate) fn watermark(&mut self, watermark: EventTime) {
        for task in 0..self.tasks.len() {
            self.watermark_of(task, watermark);
        }
    }

    /// Raises the watermark of one task.
    pub(crate) fn watermark_of(&mut self, task: usize, watermark: EventTime) {
        self.portions(|task, out| task.operator.on_watermark(watermark, out), task);
    }

    /// All inputs have ended: the closing watermark, then what is left.
    pub(crate) fn end(&mut self) {
        self.watermark(EventTime::MAX);
        for task in 0..self.tasks.len() {
            self.portions(|task, out| task.operator.on_drain(out), task);
        }
    }

    fn portions(&mut self, mut call: impl FnMut(&mut Task, &mut Output) -> tidegate_api::Result<Flow>, task: usize) {
        let mut calls = 0;
        loop {
            let mut out = Output::default();
            let flow = call(&mut self.tasks[task], &mut out).unwrap();
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

    /// Tells every task what one input promises by itself.
    pub(crate) fn input_watermark(&mut self, input: usize, watermark: Watermark) {
        self.tasks.iter_mut().for_each(|task| task.operator.on_input_watermark(input, watermark));
    }

    /// Whether the first task holds an input.
    pub(crate) fn holds(&self, input: usize) -> bool {
        self.tasks[0].operator.holds(input)
    }

    /// What the first task forwards.
    pub(crate) fn output_watermark(&self, watermark: EventTime) -> EventTime {
        self.tasks[0].operator.output_watermark(watermark)
    }

    /// What depends on the clock, as it comes before every barrier.
    pub(crate) fn time(&mut self) {
        for task in 0..self.tasks.len() {
            self.portions(|task, out| task.operator.on_time(out), task);
        }
    }

    /// A barrier.
    pub(crate) fn snapshot(&mut self) -> Snapshot {
        self.time();
        self.epoch += 1;
        let epoch = Epoch(self.epoch);
        let mut whole = Vec::new();
        for (index, task) in self.tasks.iter_mut().enumerate() {
            let mut new = Vec::new();
            let forgets = self.forgetting && self.factory.divides() && self.epoch.is_multiple_of(2);
            if forgets {
                task.operator.forget_pieces();
            }
            for piece in task.operator.snapshot(epoch).unwrap() {
                match piece {
                    StatePiece::Kept(id) => {
                        assert!(!forgets, "a forgotten piece was kept");
                        assert!(self.store.contains_key(&id));
                        self.made.kept += 1;
                        whole.push(id);
                    }
                    made => {
                        let (name, vnodes, data) = made.into_new().unwrap().unwrap();
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

    /// Starts again from a snapshot, with so many tasks, as a generation of its own.
    pub(crate) fn start_again(&mut self, snapshot: &Snapshot, tasks: usize) {
        self.generation += 1;
        self.restore(snapshot, tasks);
    }

    /// Takes a snapshot back, with so many tasks.
    pub(crate) fn restore(&mut self, snapshot: &Snapshot, tasks: usize) {
        self.open(tasks);
        for task in &mut self.tasks {
            let pieces = snapshot.iter().map(|id| self.store[id].clone()).filter(|piece| piece.vnodes.overlaps(task.vnodes)).collect();
            task.operator.restore(pieces).unwrap();
        }
    }

    /// Runs a script to its end, the closing watermark included. With `paranoid`, every act is followed by a snapshot, a crash
    /// and a restore at another task count.
    pub(crate) fn run(&mut self, acts: &[Act], paranoid: bool) {
        self.forgetting = paranoid;
        let mut saved: (Snapshot, usize, Made) = (Vec::new(), 0, Made::default());
        let mut crashed = vec![false; acts.len()];
        let mut at = 0;
        while at < acts.len() {
            match &acts[at] {
                Act::Rows(input, rows) => self.batch(*input, rows),
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
        self.end();
    }
}

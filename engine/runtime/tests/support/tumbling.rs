//! A tumbling window that sums, with state, portions, late rows and kept pieces: everything an operator may do, written simply.
//!
//! Input columns: time in milliseconds, key, value. Output columns: window start, key, sum.

use super::{batch, schema};
use arrow::array::{ArrayRef, AsArray, Int64Array, RecordBatch, UInt32Array};
use arrow::compute::take_record_batch;
use arrow::datatypes::{Int64Type, SchemaRef};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use tidegate_api::{
    Epoch, EventTime, Flow, Operator, OperatorCtx, OperatorFactory, Output, PieceId, RestoredPiece, Result, Signature, StatePiece,
    VnodeRange, hash,
};

/// How often a part of a task's state was opened by itself, because there was no memory for all.
pub static PARTS: AtomicU64 = AtomicU64::new(0);

/// Rows emitted per portion.
const PORTION: usize = 3;

pub struct Tumbling {
    pub window: i64,
    pub output: SchemaRef,
}

impl Tumbling {
    pub fn new(window: i64) -> Self {
        Tumbling { window, output: schema(&["start", "key", "sum"]) }
    }
}

impl OperatorFactory for Tumbling {
    fn name(&self) -> &str {
        "tumbling"
    }

    fn signature(&self) -> Signature {
        Signature::new("tumbling", 1).with("window", self.window)
    }

    fn output_schema(&self) -> SchemaRef {
        Arc::clone(&self.output)
    }

    fn open(&self, ctx: OperatorCtx) -> Result<Box<dyn Operator>> {
        if ctx.task >= ctx.tasks {
            PARTS.fetch_add(1, Ordering::Relaxed);
        }
        let fired = vec![i64::MIN; usize::from(ctx.vnode_count)];
        let output = Arc::clone(&self.output);
        Ok(Box::new(Windows { window: self.window, output, ctx, sums: BTreeMap::new(), fired, kept: Vec::new(), changed: true }))
    }
}

struct Windows {
    window: i64,
    output: SchemaRef,
    ctx: OperatorCtx,
    sums: BTreeMap<(i64, i64), i64>,
    /// Per vnode: windows that start before this have fired.
    fired: Vec<i64>,
    kept: Vec<PieceId>,
    changed: bool,
}

impl Windows {
    fn vnode(&self, key: i64) -> u16 {
        let mut hashes = Vec::new();
        let column: ArrayRef = Arc::new(Int64Array::from(vec![key]));
        hash::hash_rows(&[column], 1, &mut hashes).unwrap();
        hash::vnode(hashes[0], self.ctx.vnode_count)
    }

    fn emit(&mut self, until: i64, out: &mut Output) -> Flow {
        let due: Vec<(i64, i64)> = self.sums.keys().copied().take_while(|(start, _)| *start < until).take(PORTION + 1).collect();
        let rows: Vec<Vec<i64>> =
            due.iter().take(PORTION).map(|(start, key)| vec![*start, *key, self.sums.remove(&(*start, *key)).unwrap()]).collect();
        if !rows.is_empty() {
            self.changed = true;
            out.emit(batch(&self.output, &rows));
        }
        if due.len() > PORTION { Flow::More } else { Flow::Done }
    }
}

impl Operator for Windows {
    fn on_batch(&mut self, _: usize, rows: RecordBatch, out: &mut Output) -> Result<()> {
        let column = |index: usize| rows.column(index).as_primitive::<Int64Type>().values().to_vec();
        let (times, keys, values) = (column(0), column(1), column(2));
        let mut late = Vec::new();
        for (row, ((time, key), value)) in times.into_iter().zip(keys).zip(values).enumerate() {
            let start = time.div_euclid(self.window) * self.window;
            let vnode = self.vnode(key);
            assert!(self.ctx.vnodes.contains(vnode), "key {key} is not this task's");
            if start < self.fired[usize::from(vnode)] {
                late.push(row as u32);
            } else {
                *self.sums.entry((start, key)).or_default() += value;
                self.changed = true;
            }
        }
        if !late.is_empty() {
            out.late.push(take_record_batch(&rows, &UInt32Array::from(late))?);
        }
        Ok(())
    }

    fn on_watermark(&mut self, watermark: EventTime, out: &mut Output) -> Result<Flow> {
        let until = self.output_watermark(watermark).as_millis();
        for vnode in self.ctx.vnodes.range() {
            let fired = &mut self.fired[usize::from(vnode)];
            self.changed |= *fired < until;
            *fired = (*fired).max(until);
        }
        Ok(self.emit(until, out))
    }

    fn on_drain(&mut self, out: &mut Output) -> Result<Flow> {
        Ok(self.emit(i64::MAX, out))
    }

    fn output_watermark(&self, watermark: EventTime) -> EventTime {
        match watermark {
            EventTime::MIN | EventTime::MAX => watermark,
            at => EventTime::from_millis(at.as_millis().div_euclid(self.window) * self.window),
        }
    }

    fn measure(&mut self) {
        self.ctx.state_bytes.set(self.sums.len() as u64 * 24);
    }

    fn forget_pieces(&mut self) {
        self.changed = true;
    }

    fn snapshot(&mut self, _: Epoch) -> Result<Vec<StatePiece>> {
        if !self.changed {
            return Ok(self.kept.iter().cloned().map(StatePiece::Kept).collect());
        }
        let sums: Vec<(i64, i64, i64)> = self.sums.iter().map(|((start, key), sum)| (*start, *key, *sum)).collect();
        let own = usize::from(self.ctx.vnodes.start)..usize::from(self.ctx.vnodes.end);
        let data = serde_json::to_vec(&(sums, &self.fired[own])).unwrap();
        // Two pieces, so that objects hold more than one.
        let middle = (self.ctx.vnodes.start + self.ctx.vnodes.end) / 2;
        let marker = VnodeRange { start: middle, end: self.ctx.vnodes.end };
        Ok(vec![
            StatePiece::New { name: "windows".into(), vnodes: self.ctx.vnodes, data },
            StatePiece::New { name: "marker".into(), vnodes: marker, data: b"null".to_vec() },
        ])
    }

    fn pieces_named(&mut self, _: Epoch, ids: Vec<PieceId>) {
        if self.changed {
            self.kept = ids;
            self.changed = false;
        }
    }

    fn restore(&mut self, pieces: Vec<RestoredPiece>) -> Result<()> {
        for piece in pieces {
            if piece.name == "marker" {
                assert_eq!(piece.data, b"null");
                continue;
            }
            let (sums, fired): (Vec<(i64, i64, i64)>, Vec<i64>) = serde_json::from_slice(&piece.data).unwrap();
            for (vnode, fired) in piece.vnodes.range().zip(fired) {
                if self.ctx.vnodes.contains(vnode) {
                    self.fired[usize::from(vnode)] = fired;
                }
            }
            for (start, key, sum) in sums {
                if self.ctx.vnodes.contains(self.vnode(key)) {
                    *self.sums.entry((start, key)).or_default() += sum;
                }
            }
        }
        Ok(())
    }
}

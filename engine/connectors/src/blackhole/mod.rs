//! The `blackhole` sink: reads every value of every column and keeps none, so that a benchmark's work is done.

use crate::registry::{ConnectorCtx, ConnectorDef, SinkDef};
use arrow::array::{Array, ArrayData, BinaryArray, RecordBatch};
use serde_json::{Map, Value};
use std::hint::black_box;
use std::sync::Arc;
use tidegate_api::config::{Options, Problem};
use tidegate_api::{AnySink, Counter, Epoch, Flushed, Guarantee, OutputSink, Result, Sink, SinkCtx, SinkInput, SinkPlan, Written};

/// The connector, for the list of all.
pub const CONNECTOR: ConnectorDef = ConnectorDef {
    name: "blackhole",
    doc: "Reads every column of its input and keeps nothing.",
    source: None,
    sink: Some(SinkDef { options: &[], guarantee: "idempotent: there is nothing to see twice", build }),
    secrets: &[],
};

fn build(map: &Map<String, Value>, _: &ConnectorCtx) -> Result<Arc<dyn OutputSink>, Vec<Problem>> {
    let problems = Options::new(map).finish();
    if problems.is_empty() { Ok(Arc::new(BlackholeSink)) } else { Err(problems) }
}

/// Takes everything.
#[derive(Debug, Clone, Copy, Default)]
pub struct BlackholeSink;

impl OutputSink for BlackholeSink {
    fn plan(&self, _: &SinkInput) -> Result<SinkPlan> {
        Ok(SinkPlan::new(Guarantee::Idempotent))
    }

    fn open(&self, ctx: SinkCtx) -> Result<AnySink> {
        Ok(AnySink::AtLeastOnce(Box::new(Writer { emitted: ctx.emitted, sum: 0 })))
    }
}

struct Writer {
    emitted: Counter,
    sum: u64,
}

impl Sink for Writer {
    fn write(&mut self, rows: &RecordBatch, _: Option<&BinaryArray>) -> Result<Written> {
        for column in rows.columns() {
            self.sum = self.sum.wrapping_add(checksum(&column.to_data()));
        }
        // Without this the compiler may find that nobody asks for the sum, and not read at all.
        black_box(self.sum);
        self.emitted.add(rows.num_rows() as u64);
        Ok(Written::default())
    }

    fn flush(&mut self, _: Epoch) -> Result<Flushed> {
        Ok(Flushed::Done)
    }
}

/// The sum of the words of an array's own values. Of text views the views are read, not the buffers they share with other rows.
fn checksum(data: &ArrayData) -> u64 {
    let own = match data.data_type() {
        arrow::datatypes::DataType::Utf8View | arrow::datatypes::DataType::BinaryView => 1,
        _ => data.buffers().len(),
    };
    let mut sum = 0u64;
    for buffer in &data.buffers()[..own.min(data.buffers().len())] {
        let words = buffer.as_slice().chunks_exact(8);
        let rest: u64 = words.remainder().iter().map(|byte| u64::from(*byte)).sum();
        let words: u64 = words.fold(0, |sum, word| sum.wrapping_add(u64::from_le_bytes(word.try_into().unwrap_or_default())));
        sum = sum.wrapping_add(words).wrapping_add(rest);
    }
    data.child_data().iter().fold(sum, |sum, child| sum.wrapping_add(checksum(child)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::Int64Array;

    #[test]
    fn every_value_counts() {
        let sum = |values: Vec<i64>| checksum(&Int64Array::from(values).to_data());
        assert_eq!(sum(vec![1, 2, 3]), 6);
        assert_ne!(sum(vec![1, 2, 3]), sum(vec![1, 2, 4]));
    }
}

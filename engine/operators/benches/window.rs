//! The update of windows: nanoseconds per row, and the whole of update, firing and emission.

#![allow(clippy::unwrap_used, reason = "a test may end by panicking")]
#![allow(missing_docs, unreachable_pub, reason = "made by criterion's macros")]

use arrow::array::{ArrayRef, Int64Array, RecordBatch, StringViewArray, TimestampMillisecondArray};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef, TimeUnit};
use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use serde_json::{Value, json};
use std::sync::Arc;
use tidegate_api::hash::mix;
use tidegate_api::{EventTime, Flow, Generation, Operator, OperatorCtx, Output, RunId, RunIdentity};
use tidegate_operators::{BindCtx, BoundNode, StreamType, parse_step};

const ROWS: usize = 8192;
const BATCHES: usize = 64;

fn schema() -> SchemaRef {
    Arc::new(Schema::new(vec![
        Field::new("t", DataType::Timestamp(TimeUnit::Millisecond, None), false),
        Field::new("k", DataType::Int64, false),
        Field::new("s", DataType::Utf8View, false),
        Field::new("v", DataType::Int64, false),
    ]))
}

/// A row every 10 ms. Half of the keys are hot (the newest of 100), the others spread over all so far, as auctions are.
fn batches() -> Vec<RecordBatch> {
    (0..BATCHES)
        .map(|batch| {
            let rows = || (batch * ROWS..(batch + 1) * ROWS).map(|row| row as i64);
            let key = |row: i64| {
                let draw = mix(row as u64);
                let all = row / 15 + 1;
                if draw & 1 == 0 { all / 100 * 100 } else { ((draw >> 1) % all as u64) as i64 }
            };
            let columns: Vec<ArrayRef> = vec![
                Arc::new(rows().map(|row| Some(row * 10)).collect::<TimestampMillisecondArray>()),
                Arc::new(rows().map(|row| Some(key(row))).collect::<Int64Array>()),
                Arc::new(rows().map(|row| Some(format!("channel-{}", mix(key(row) as u64) % 10_000))).collect::<StringViewArray>()),
                Arc::new(rows().map(|row| Some(mix(row as u64) as i64 >> 20)).collect::<Int64Array>()),
            ];
            RecordBatch::try_new(schema(), columns).unwrap()
        })
        .collect()
}

fn open(step: &Value) -> Box<dyn Operator> {
    let bound = parse_step(step).unwrap().bind(&[StreamType::append(schema())], &BindCtx::new()).unwrap();
    let BoundNode::Operator { factory, .. } = bound.node else { panic!("not an operator") };
    factory.open(OperatorCtx::new(RunIdentity::new("bench", RunId::new("r"), Generation(1), "s"))).unwrap()
}

fn run(operator: &mut dyn Operator, batches: &[RecordBatch]) -> usize {
    let mut rows = 0;
    let mut out = Output::default();
    for (index, batch) in batches.iter().enumerate() {
        operator.on_batch(0, batch.clone(), &mut out).unwrap();
        let watermark = EventTime::from_millis(((index + 1) * ROWS * 10) as i64);
        while operator.on_watermark(watermark, &mut out).unwrap() == Flow::More {}
        rows += out.batches.drain(..).map(|batch| batch.num_rows()).sum::<usize>();
    }
    rows
}

fn windows(c: &mut Criterion) {
    let batches = batches();
    let mut group = c.benchmark_group("window");
    group.throughput(Throughput::Elements((ROWS * BATCHES) as u64));
    let count = json!([{ "op": "count" }]);
    let two = json!([{ "op": "sum", "column": "v" }, { "op": "max", "column": "v" }]);
    for (name, by, slide, aggs) in [
        ("tumbling 10s, count per int64", json!("k"), 10_000, &count),
        ("hopping 10s every 2s, count per int64", json!("k"), 2_000, &count),
        ("tumbling 10s, sum and max per text", json!("s"), 10_000, &two),
        ("tumbling 10s, sum and max per int64 and text", json!(["k", "s"]), 10_000, &two),
    ] {
        let step =
            json!({ "op": "windowedAggregate", "timeColumn": "t", "windowMs": 10_000, "slideMs": slide, "groupBy": by, "aggs": aggs });
        group.bench_function(name, |bencher| {
            bencher.iter_batched_ref(|| open(&step), |operator| run(operator.as_mut(), &batches), criterion::BatchSize::LargeInput);
        });
    }
    group.finish();
}

criterion_group!(benches, windows);
criterion_main!(benches);

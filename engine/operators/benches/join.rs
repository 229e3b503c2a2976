//! Auctions and the bids on them, by auction and within two minutes: nanoseconds per row of both inputs.

#![allow(clippy::unwrap_used, reason = "a test may end by panicking")]
#![allow(missing_docs, unreachable_pub, reason = "made by criterion's macros")]

use arrow::array::{ArrayRef, Int64Array, RecordBatch, StringViewArray, TimestampMillisecondArray};
use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use serde_json::{Value, json};
use std::sync::Arc;
use tidegate_api::hash::mix;
use tidegate_api::{EventTime, Flow, Generation, Operator, OperatorCtx, Output, RunId, RunIdentity};
use tidegate_operators::{BindCtx, BoundNode, StreamType, parse_step};

const ROWS: usize = 8192;
const BATCHES: usize = 64;
/// Bids per auction in the long run.
const BIDS: i64 = 15;

/// A bid every 10 ms, half of them on one of the newest auctions, the others on any of the last two minutes.
fn bids() -> Vec<RecordBatch> {
    (0..BATCHES)
        .map(|batch| {
            let rows = || (batch * ROWS..(batch + 1) * ROWS).map(|row| row as i64);
            let auction = |row: i64| {
                let draw = mix(row as u64);
                let newest = row / BIDS;
                let back = if draw & 1 == 0 { 4 } else { 12_000 / BIDS };
                (newest - ((draw >> 1) % back as u64) as i64).max(0)
            };
            let columns: Vec<(&str, ArrayRef)> = vec![
                ("auction", Arc::new(Int64Array::from_iter_values(rows().map(auction)))),
                ("price", Arc::new(Int64Array::from_iter_values(rows().map(|row| mix(row as u64) as i64 >> 40)))),
                ("channel", Arc::new(StringViewArray::from_iter_values(rows().map(|row| format!("channel-{}", mix(row as u64) % 10_000))))),
                ("dateTime", Arc::new(TimestampMillisecondArray::from_iter_values(rows().map(|row| row * 10)))),
            ];
            RecordBatch::try_from_iter(columns).unwrap()
        })
        .collect()
}

fn auctions() -> Vec<RecordBatch> {
    let per_batch = ROWS as i64 / BIDS;
    (0..BATCHES as i64)
        .map(|batch| {
            let rows = || batch * per_batch..(batch + 1) * per_batch;
            let columns: Vec<(&str, ArrayRef)> = vec![
                ("auction", Arc::new(Int64Array::from_iter_values(rows()))),
                ("item", Arc::new(StringViewArray::from_iter_values(rows().map(|row| format!("an item with a name, number {row}"))))),
                ("category", Arc::new(Int64Array::from_iter_values(rows().map(|row| row % 5)))),
                ("dateTime", Arc::new(TimestampMillisecondArray::from_iter_values(rows().map(|row| row * 10 * BIDS)))),
            ];
            RecordBatch::try_from_iter(columns).unwrap()
        })
        .collect()
}

fn open(step: &Value, inputs: &[&[RecordBatch]; 2]) -> Box<dyn Operator> {
    let types = inputs.map(|batches| StreamType::append(batches[0].schema()));
    let bound = parse_step(step).unwrap().bind(&types, &BindCtx::new()).unwrap();
    let BoundNode::Operator { factory, .. } = bound.node else { panic!("not an operator") };
    factory.open(OperatorCtx::new(RunIdentity::new("bench", RunId::new("r"), Generation(1), "s"))).unwrap()
}

fn run(operator: &mut dyn Operator, inputs: &[&[RecordBatch]; 2]) -> usize {
    let mut rows = 0;
    let mut out = Output::default();
    for index in 0..BATCHES {
        for (input, batches) in inputs.iter().enumerate() {
            operator.on_batch(input, batches[index].clone(), &mut out).unwrap();
        }
        let watermark = EventTime::from_millis(((index + 1) * ROWS * 10) as i64);
        while operator.on_watermark(watermark, &mut out).unwrap() == Flow::More {}
        rows += out.batches.drain(..).map(|batch| batch.num_rows()).sum::<usize>();
    }
    rows
}

fn joins(c: &mut Criterion) {
    let (bids, auctions) = (bids(), auctions());
    let inputs = [bids.as_slice(), auctions.as_slice()];
    let rows: usize = inputs.iter().flat_map(|batches| batches.iter()).map(RecordBatch::num_rows).sum();
    let mut group = c.benchmark_group("join");
    group.throughput(Throughput::Elements(rows as u64));
    let join = |more: Value| {
        let mut step = json!({
            "op": "streamJoin", "joinKey": "auction", "timeColumn": "dateTime", "windowMs": 120_000, "rightRename": { "dateTime": "listed" },
        });
        more.as_object().unwrap().iter().for_each(|(key, value)| step[key] = value.clone());
        step
    };
    for (name, step) in [
        ("bids with their auctions", join(json!({}))),
        ("bids with auctions of one category", join(json!({ "condition": "category == 3" }))),
        ("bids, with their auction if there is one", join(json!({ "kind": "left" }))),
        ("bids on auctions that are known", join(json!({ "kind": "semi" }))),
    ] {
        group.bench_function(name, |bencher| {
            bencher.iter_batched_ref(|| open(&step, &inputs), |operator| run(operator.as_mut(), &inputs), criterion::BatchSize::LargeInput);
        });
    }
    group.finish();
}

criterion_group!(benches, joins);
criterion_main!(benches);

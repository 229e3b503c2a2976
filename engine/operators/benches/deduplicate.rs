//! Bids by bidder and auction: rows per second through `deduplicate`, by the form of the keys.

#![allow(clippy::unwrap_used, reason = "a test may end by panicking")]
#![allow(missing_docs, unreachable_pub, reason = "made by criterion's macros")]

use arrow::array::{ArrayRef, Int64Array, RecordBatch, StringViewArray, TimestampMillisecondArray};
use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use serde_json::{Value, json};
use std::sync::Arc;
use tidegate_api::hash::mix;
use tidegate_api::{Generation, Operator, OperatorCtx, Output, RunId, RunIdentity};
use tidegate_operators::{BindCtx, BoundNode, StreamType, parse_step};

const ROWS: usize = 8192;
const BATCHES: usize = 200;

/// Three bids of four by one of the newest hot bidders, one of two on a hot auction, the others among the last thousand persons
/// and hundred auctions.
fn bids() -> Vec<RecordBatch> {
    (0..BATCHES)
        .map(|batch| {
            let rows = || (batch * ROWS..(batch + 1) * ROWS).map(|row| row as i64);
            let bidder = |row: i64| {
                let (draw, newest) = (mix(row as u64), row / 46);
                if draw & 3 != 0 { newest / 100 * 100 } else { (newest - (draw >> 8) as i64 % 1000).max(0) }
            };
            let auction = |row: i64| {
                let (draw, newest) = (mix(row as u64 ^ 0x5555), row / 15);
                if draw & 1 != 0 { newest / 100 * 100 } else { (newest - (draw >> 8) as i64 % 100).max(0) }
            };
            let columns: Vec<(&str, ArrayRef)> = vec![
                ("bidder", Arc::new(Int64Array::from_iter_values(rows().map(bidder)))),
                ("auction", Arc::new(Int64Array::from_iter_values(rows().map(auction)))),
                ("price", Arc::new(Int64Array::from_iter_values(rows().map(|row| mix(row as u64) as i64 >> 40)))),
                ("channel", Arc::new(StringViewArray::from_iter_values(rows().map(|row| format!("channel-{}", mix(row as u64) % 10_000))))),
                ("dateTime", Arc::new(TimestampMillisecondArray::from_iter_values(rows().map(|row| row * 10)))),
            ];
            RecordBatch::try_from_iter(columns).unwrap()
        })
        .collect()
}

fn open(step: &Value, input: &RecordBatch) -> Box<dyn Operator> {
    let bound = parse_step(step).unwrap().bind(&[StreamType::append(input.schema())], &BindCtx::new()).unwrap();
    let BoundNode::Operator { factory, .. } = bound.node else { panic!("not an operator") };
    factory.open(OperatorCtx::new(RunIdentity::new("bench", RunId::new("r"), Generation(1), "s"))).unwrap()
}

fn run(operator: &mut dyn Operator, batches: &[RecordBatch]) -> usize {
    let mut out = Output::default();
    let mut rows = 0;
    for batch in batches {
        operator.on_batch(0, batch.clone(), &mut out).unwrap();
        rows += out.batches.drain(..).map(|batch| batch.num_rows()).sum::<usize>();
    }
    rows
}

fn deduplicate(c: &mut Criterion) {
    let bids = bids();
    let mut group = c.benchmark_group("deduplicate");
    group.throughput(Throughput::Elements((ROWS * BATCHES) as u64));
    group.sample_size(10);
    for (name, keys, keep) in [
        ("last of two integers", json!(["bidder", "auction"]), "last"),
        ("first of two integers", json!(["bidder", "auction"]), "first"),
        ("last of one integer", json!(["bidder"]), "last"),
        ("last of integer and text", json!(["bidder", "channel"]), "last"),
    ] {
        let step = json!({ "op": "deduplicate", "keys": keys, "keep": keep, "timeColumn": "dateTime" });
        group.bench_function(name, |bencher| {
            bencher.iter_batched_ref(|| open(&step, &bids[0]), |operator| run(operator.as_mut(), &bids), criterion::BatchSize::LargeInput);
        });
    }
    group.finish();
}

criterion_group!(benches, deduplicate);
criterion_main!(benches);

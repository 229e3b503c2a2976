//! The update of windows: nanoseconds per row, and the whole of update, firing and emission; and what overlapping windows cost
//! beside ones that do not overlap.

#![allow(clippy::unwrap_used, reason = "a test may end by panicking")]
#![allow(clippy::print_stdout, reason = "ratios are printed beside criterion's figures")]
#![allow(clippy::disallowed_methods, reason = "a benchmark measures with the machine's clock")]
#![allow(missing_docs, unreachable_pub, reason = "made by criterion's macros")]

use arrow::array::{ArrayRef, Int64Array, RecordBatch, StringViewArray, TimestampMillisecondArray};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef, TimeUnit};
use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::{Duration, Instant};
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

/// Rows per group and slide, and how many slides a window is long.
const DENSE: usize = 1024;
const SLIDES: i64 = 60;

/// Time spent on rows, and on firing.
fn update_and_firing(step: &Value, batches: &[RecordBatch], slide: i64) -> (Duration, Duration) {
    let mut operator = open(step);
    let mut out = Output::default();
    let (mut update, mut firing) = (Duration::ZERO, Duration::ZERO);
    for (index, batch) in batches.iter().enumerate() {
        let started = Instant::now();
        operator.on_batch(0, batch.clone(), &mut out).unwrap();
        update += started.elapsed();
        let watermark = EventTime::from_millis((index as i64 + 1) * slide);
        let started = Instant::now();
        while operator.on_watermark(watermark, &mut out).unwrap() == Flow::More {}
        firing += started.elapsed();
        out.batches.clear();
    }
    (update, firing)
}

/// A batch per slide, 1,024 rows of each of eight groups: windows of one slide, and of sixty.
fn panes(c: &mut Criterion) {
    let (slide, groups) = (1_000, (ROWS / DENSE) as i64);
    let batch = |number: i64| {
        let rows = || (0..ROWS as i64).map(move |row| number * ROWS as i64 + row);
        let columns: Vec<ArrayRef> = vec![
            Arc::new(rows().map(|row| Some(row * slide / ROWS as i64)).collect::<TimestampMillisecondArray>()),
            Arc::new(rows().map(|row| Some(mix(row as u64) as i64 & (groups - 1))).collect::<Int64Array>()),
            Arc::new(rows().map(|row| Some(format!("channel-{}", mix(row as u64) as i64 & (groups - 1)))).collect::<StringViewArray>()),
            Arc::new(rows().map(|row| Some(mix(row as u64) as i64 >> 20)).collect::<Int64Array>()),
        ];
        RecordBatch::try_new(schema(), columns).unwrap()
    };
    let batches: Vec<RecordBatch> = (0..4 * SLIDES).map(batch).collect();
    let count = json!([{ "op": "count" }]);
    let several =
        json!([{ "op": "count" }, { "op": "sum", "column": "v" }, { "op": "max", "column": "v" }, { "op": "avg", "column": "v" }]);
    for (name, by, aggs) in [("count per int64", "k", &count), ("four aggregates per text", "s", &several)] {
        let step = |size: i64| json!({ "op": "windowedAggregate", "timeColumn": "t", "windowMs": size, "slideMs": slide, "groupBy": by, "aggs": aggs });
        let (tumbling, hopping) = (step(slide), step(SLIDES * slide));
        let best = |step: &Value, best: (Duration, Duration)| {
            let (update, firing) = update_and_firing(step, &batches, slide);
            (best.0.min(update), best.1.min(firing))
        };
        let (mut one, mut sixty) = ((Duration::MAX, Duration::MAX), (Duration::MAX, Duration::MAX));
        for _ in 0..15 {
            one = best(&tumbling, one);
            sixty = best(&hopping, sixty);
        }
        let rows = (batches.len() * ROWS) as f64;
        let nanos = |time: Duration| time.as_nanos() as f64 / rows;
        println!(
            "panes, {name}: update {:.2} ns a row tumbling, {:.2} hopping by 1 of {SLIDES}, ratio {:.2}; firing {:.3} and {:.3} ns a row; \
             both together {:.2}",
            nanos(one.0),
            nanos(sixty.0),
            nanos(sixty.0) / nanos(one.0),
            nanos(one.1),
            nanos(sixty.1),
            nanos(sixty.0 + sixty.1) / nanos(one.0 + one.1),
        );
        let mut group = c.benchmark_group("panes");
        group.throughput(Throughput::Elements(rows as u64));
        for (window, step) in [("tumbling", &tumbling), ("hopping", &hopping)] {
            group.bench_function(format!("{name}, {window}, update"), |bencher| {
                bencher.iter_custom(|times| (0..times).map(|_| update_and_firing(step, &batches, slide).0).sum());
            });
            group.bench_function(format!("{name}, {window}, firing"), |bencher| {
                bencher.iter_custom(|times| (0..times).map(|_| update_and_firing(step, &batches, slide).1).sum());
            });
        }
        group.finish();
    }
}

criterion_group!(benches, windows, panes);
criterion_main!(benches);

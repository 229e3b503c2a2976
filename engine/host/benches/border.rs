//! What the border costs per batch: an identity by hand over Nexmark-like bids, whole and pruned to one column.

#![allow(clippy::unwrap_used, reason = "a test may end by panicking")]

#[path = "../tests/kit/mod.rs"]
mod kit;

use arrow::array::{ArrayRef, Int64Array, RecordBatch, StringViewArray, TimestampMillisecondArray};
use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use kit::{TransformGuest, World, data, run, schema_message};
use serde_json::{Value, json};
use std::hint::black_box;
use std::path::Path;
use std::sync::Arc;
use tidegate_api::{EventTime, Output, StepCtx};
use tidegate_host::{HostConfig, Limits, PluginHost, PluginSpec};

const ROWS: i64 = 8192;

fn bids() -> RecordBatch {
    let numbers = |step: i64| Arc::new(Int64Array::from_iter_values((0..ROWS).map(|row| row * step))) as ArrayRef;
    let texts = |text: &str| Arc::new(StringViewArray::from_iter_values((0..ROWS).map(|row| format!("{text}{row}")))) as ArrayRef;
    RecordBatch::try_from_iter([
        ("auction", numbers(3)),
        ("bidder", numbers(7)),
        ("price", numbers(11)),
        ("channel", texts("channel-")),
        ("url", texts("https://www.nexmark.com/some/item.htm?query=1&channel_id=")),
        ("dateTime", Arc::new(TimestampMillisecondArray::from_iter_values(0..ROWS))),
        ("extra", texts("padding to the standard size of a bid, more or less ")),
    ])
    .unwrap()
}

/// Reads and makes `price` alone; all other columns are carried.
fn pruned(batch: &RecordBatch) -> TransformGuest {
    let price = batch.schema().project(&[2]).unwrap();
    TransformGuest {
        in_bind: "(i32.store8 (i32.const 1032) (i32.const 1)) (i32.store (i32.const 1036) (i32.const 4000)) (i32.store (i32.const 1040) (i32.const 1))".into(),
        extra: data(4000, &2_u32.to_le_bytes()),
        declares: Some(schema_message(&price)),
        ..TransformGuest::default()
    }
}

fn border(criterion: &mut Criterion) {
    let batch = bids();
    let mut group = criterion.benchmark_group("border");
    group.throughput(Throughput::Elements(ROWS as u64));
    for (name, guest) in [("identity, 7 columns", TransformGuest::default()), ("identity, pruned to 1 of 7", pruned(&batch))] {
        let world = World::new();
        let plugin = world.load(&guest.component(), Limits::default());
        let transform = plugin.transform(&Value::Null, batch.schema()).unwrap();
        let mut step = transform.factory.open(StepCtx::new(run(), 0, 1)).unwrap();
        group.bench_function(name, |bencher| {
            bencher.iter(|| {
                let mut out = Output::default();
                step.apply(black_box(batch.clone()), EventTime(0), &mut out).unwrap();
                out
            });
        });
    }
    group.finish();
}

/// From a file to a step that is open, with compiled code in the cache, in a host of its own each time as a process would have.
fn start(criterion: &mut Criterion) {
    let component = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../plugins/target/components/mask-pii.wasm");
    let cache = tempfile::tempdir().unwrap();
    let batch = bids();
    let open = || {
        let host = PluginHost::new(HostConfig::new().with_cache_dir(Some(cache.path().join("compiled")))).unwrap();
        let plugin = host.load(&PluginSpec::new("mask", &component)).unwrap();
        let transform = plugin.transform(&json!({ "columns": ["channel"] }), batch.schema()).unwrap();
        transform.factory.open(StepCtx::new(run(), 0, 1)).unwrap()
    };
    open();
    let mut group = criterion.benchmark_group("start");
    group.sample_size(20);
    group.bench_function("mask-pii from the cache to an open step", |bencher| bencher.iter(open));
    group.finish();
}

criterion_group!(benches, border, start);
criterion_main!(benches);

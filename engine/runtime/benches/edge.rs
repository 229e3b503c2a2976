//! One batch of 8,192 rows through an edge, both ends on one thread.
#![allow(clippy::unwrap_used, missing_docs, reason = "a bench may fail loudly, and its macros document nothing")]

use arrow::array::{ArrayRef, Int64Array, RecordBatch};
use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use std::hint::black_box;
use std::sync::Arc;
use tidegate_api::Event;
use tidegate_runtime::Capacity;
use tidegate_runtime::edge::unsignalled;

const ROWS: usize = 8192;

fn batch() -> RecordBatch {
    let column: ArrayRef = Arc::new(Int64Array::from_iter_values(0..ROWS as i64));
    RecordBatch::try_from_iter([("a", Arc::clone(&column)), ("b", Arc::clone(&column)), ("c", column)]).unwrap()
}

fn through(c: &mut Criterion) {
    let rows = batch();
    let (sender, receiver) = unsignalled(Capacity { rows: 65536, bytes: 32 << 20 });
    let mut group = c.benchmark_group("edge");
    group.throughput(Throughput::Elements(ROWS as u64));
    group.bench_function("send and receive a batch", |b| {
        b.iter(|| {
            assert!(sender.has_room(ROWS, ROWS * 24));
            sender.send(Event::Batch(rows.clone()), ROWS, ROWS * 24);
            black_box(receiver.receive())
        });
    });
    group.finish();
}

criterion_group!(benches, through);
criterion_main!(benches);

//! Splitting a batch of 8,192 rows by key among 2 and 4 tasks.
#![allow(clippy::unwrap_used, missing_docs, reason = "a bench may fail loudly, and its macros document nothing")]

use arrow::array::{ArrayRef, Int64Array, RecordBatch, StringViewArray};
use criterion::{BatchSize, Criterion, Throughput, criterion_group, criterion_main};
use std::hint::black_box;
use std::sync::Arc;
use tidegate_runtime::exchange::Exchange;

const ROWS: usize = 8192;

fn integers(columns: usize) -> Vec<(String, ArrayRef)> {
    let column = |at: usize| Arc::new(Int64Array::from_iter_values((0..ROWS as i64).map(|row| row * 31 + at as i64))) as ArrayRef;
    (0..columns).map(|at| (format!("n{at}"), column(at))).collect()
}

fn batch(mut columns: Vec<(String, ArrayRef)>, texts: usize) -> RecordBatch {
    for at in 0..texts {
        let text = (0..ROWS).map(|row| format!("https://www.example.com/item/{at}/{row}/item.htm"));
        columns.push((format!("t{at}"), Arc::new(StringViewArray::from_iter_values(text))));
    }
    RecordBatch::try_from_iter(columns).unwrap()
}

fn split(c: &mut Criterion) {
    let mut group = c.benchmark_group("exchange");
    group.throughput(Throughput::Elements(ROWS as u64));
    for (name, rows) in [("4 integers", batch(integers(4), 0)), ("4 integers, 3 texts as views", batch(integers(4), 3))] {
        for targets in [1, 2, 4] {
            let mut exchange = Exchange::new(vec![0], targets, 256);
            group.bench_function(format!("{name} to {targets}"), |b| {
                b.iter_batched(
                    || rows.clone(),
                    |rows| exchange.split(rows, |_, part| drop(black_box(part))).unwrap(),
                    BatchSize::SmallInput,
                );
            });
        }
    }
    group.finish();
}

criterion_group!(benches, split);
criterion_main!(benches);

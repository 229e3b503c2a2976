//! A `filter` and two `applyExpression`s over batches of 8,192 rows beside hand-written Arrow kernels that do the same, and a
//! function that runs row by row beside its vectorised form. Behind criterion's figures stand the two ratios of one run.

#![allow(clippy::unwrap_used, reason = "a test may end by panicking")]
#![allow(clippy::disallowed_methods, clippy::print_stdout, reason = "a benchmark reads the clock and prints")]
#![allow(missing_docs, unreachable_pub, reason = "made by criterion's macros")]

use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, Float64Array, Int64Array, ListArray, RecordBatch, StringViewArray};
use arrow::compute::kernels::{cmp, numeric};
use arrow::compute::{cast, filter_record_batch};
use arrow::datatypes::{DataType, Field, Int64Type, Schema};
use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use std::hint::black_box;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tidegate_api::EventTime;
use tidegate_dialect::{Compiled, Functions, HostFunction, Signature, Value};

const ROWS: usize = 8192;
const NOW: EventTime = EventTime(0);

/// Bids: a type, a price and a name, without nulls, and the digits of the price as a list.
fn batch() -> RecordBatch {
    let mixed = |row: usize| (row as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 20;
    let kind = |row: usize| ["bid", "auction", "person"][(mixed(row) % 50 / 46).min(2) as usize];
    let digits = |row: usize| Some((0..4).map(|at| Some((mixed(row) >> at) as i64 % 10)).collect::<Vec<_>>());
    let columns: Vec<(&str, ArrayRef)> = vec![
        ("type", Arc::new(StringViewArray::from_iter_values((0..ROWS).map(kind)))),
        ("price", Arc::new(Int64Array::from_iter_values((0..ROWS).map(|row| (mixed(row) % 10_000) as i64)))),
        ("auction", Arc::new(Int64Array::from_iter_values((0..ROWS).map(|row| (mixed(row) % 997) as i64)))),
        ("name", Arc::new(StringViewArray::from_iter_values((0..ROWS).map(|row| format!("Name of Person {}", mixed(row) % 1_000))))),
        ("digits", Arc::new(ListArray::from_iter_primitive::<Int64Type, _, _>((0..ROWS).map(digits)))),
    ];
    let fields: Vec<Field> = columns.iter().map(|(name, column)| Field::new(*name, column.data_type().clone(), true)).collect();
    RecordBatch::try_new(Arc::new(Schema::new(fields)), columns.into_iter().map(|(_, column)| column).collect()).unwrap()
}

fn compile(text: &str, batch: &RecordBatch) -> Compiled {
    let mut functions = Functions::standard();
    let text_to_text = Signature::exact(vec![DataType::Utf8View], DataType::Utf8View);
    let lower = HostFunction::per_row("lowerByRow", text_to_text, |args| match args {
        [Value::Text(text)] => Ok(Value::Text(text.to_lowercase())),
        _ => Ok(Value::Null),
    });
    functions.register(lower).unwrap();
    functions.bind(text, &batch.schema()).unwrap_or_else(|mistake| panic!("{}", mistake.render(text))).compile()
}

/// The three expressions as the steps run them.
struct Dialect {
    condition: Compiled,
    dollars: Compiled,
    shifted: Compiled,
}

impl Dialect {
    fn new(batch: &RecordBatch) -> Self {
        Dialect {
            condition: compile("type == 'bid' && price > 100", batch),
            dollars: compile("price * 0.908", batch),
            shifted: compile("auction + price", batch),
        }
    }

    fn run(&self, batch: &RecordBatch) -> (ArrayRef, ArrayRef) {
        let truths = self.condition.evaluate(batch, NOW).values;
        let kept = filter_record_batch(batch, truths.as_boolean()).unwrap();
        (self.dollars.evaluate(&kept, NOW).values, self.shifted.evaluate(&kept, NOW).values)
    }
}

/// The same by Arrow's kernels, with checked additions, as someone would write it for these columns alone.
fn by_hand(batch: &RecordBatch) -> (ArrayRef, ArrayRef) {
    let kind: BooleanArray = cmp::eq(batch.column(0), &StringViewArray::new_scalar("bid")).unwrap();
    let dear = cmp::gt(batch.column(1), &Int64Array::new_scalar(100)).unwrap();
    let kept = filter_record_batch(batch, &arrow::compute::and(&kind, &dear).unwrap()).unwrap();
    let price = cast(kept.column(1), &DataType::Float64).unwrap();
    let dollars = numeric::mul(&price, &Float64Array::new_scalar(0.908)).unwrap();
    (dollars, numeric::add(kept.column(2), kept.column(1)).unwrap())
}

fn expressions(criterion: &mut Criterion) {
    let batch = batch();
    let dialect = Dialect::new(&batch);
    let (found, expected) = (dialect.run(&batch), by_hand(&batch));
    assert_eq!((&found.0, &found.1), (&expected.0, &expected.1));
    let mut group = criterion.benchmark_group("expressions");
    group.throughput(Throughput::Elements(ROWS as u64));
    group.bench_function("filter and two expressions", |bench| bench.iter(|| dialect.run(black_box(&batch))));
    group.bench_function("the same by hand", |bench| bench.iter(|| by_hand(black_box(&batch))));
    for text in [
        "lower(name)",
        "lowerByRow(name)",
        "price in [1, 5, 7, 1000, 4000.5]",
        "map(digits, x -> x * 2 + price)",
        "any(digits, x -> x == 7)",
        "reduce(digits, 0, (sum, x) -> sum + x)",
        "price in digits",
    ] {
        let compiled = compile(text, &batch);
        group.bench_function(text, |bench| bench.iter(|| compiled.evaluate(black_box(&batch), NOW)));
    }
    group.finish();
}

/// The best of several timings of `work`, each long enough to be measured.
fn best(mut work: impl FnMut()) -> Duration {
    let times = if std::env::args().any(|arg| arg == "--test") { 1 } else { 40 };
    let timing = |_| {
        let began = Instant::now();
        (0..8).for_each(|_| work());
        began.elapsed() / 8
    };
    (0..times).map(timing).min().unwrap_or_default()
}

/// The ratios that the project holds itself to, of one run on one machine.
fn ratios(_: &mut Criterion) {
    let batch = batch();
    let dialect = Dialect::new(&batch);
    let (ours, by_hand) = (best(|| drop(black_box(dialect.run(&batch)))), best(|| drop(black_box(by_hand(&batch)))));
    println!("filter and two expressions: {:.2} of the hand-written kernels (at most 1.3)", ours.as_secs_f64() / by_hand.as_secs_f64());
    let (vectorised, by_row) = (compile("lower(name)", &batch), compile("lowerByRow(name)", &batch));
    let (fast, slow) = (best(|| drop(black_box(vectorised.evaluate(&batch, NOW)))), best(|| drop(black_box(by_row.evaluate(&batch, NOW)))));
    println!("a function row by row: {:.1} of its vectorised form (at most 20)", slow.as_secs_f64() / fast.as_secs_f64());
}

criterion_group!(benches, expressions, ratios);
criterion_main!(benches);

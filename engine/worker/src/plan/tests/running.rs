//! Pruned plans run: what a source leaves out changes no row that comes out.

use super::*;
use arrow::array::{ArrayRef, AsArray, Int64Array, RecordBatch, StringViewArray, TimestampMillisecondArray};
use arrow::datatypes::{DataType, Int64Type, TimeUnit, TimestampMillisecondType};
use serde_json::json;
use tidegate_api::RunId;
use tidegate_api::testkit::{Collector, Script};
use tidegate_epochs::MemoryStore;
use tidegate_runtime::{Ending, Job, JobConfig, JobControl};

/// A source that makes every column, whatever it is asked for.
struct Whole(ScriptedSource);

impl InlineSource for Whole {
    fn plan(&self, _: &SourceRequest) -> Result<SourcePlan> {
        self.0.plan(&SourceRequest::all())
    }

    fn discover(&self, cursor: Option<&[u8]>) -> Result<Discovered> {
        self.0.discover(cursor)
    }

    fn open(&self, ctx: SourceCtx) -> Result<Box<dyn SourceReader>> {
        self.0.open(ctx.with_request(SourceRequest::all()))
    }
}

/// One row of the input.
#[derive(Clone, Copy)]
pub(super) struct Bid {
    pub(super) kind: &'static str,
    pub(super) auction: i64,
    pub(super) price: i64,
    pub(super) at: i64,
}

pub(super) fn bids(split: i64) -> Vec<Bid> {
    let kinds = ["bid", "auction", "bid", "person"];
    (0..300)
        .map(|n| Bid { kind: kinds[(n % 4) as usize], auction: (n * 7 + split) % 5, price: (n * 31 + split) % 200, at: n * 100 })
        .collect()
}

pub(super) fn scripted() -> ScriptedSource {
    let fields = [("type", DataType::Utf8View), ("auction", DataType::Int64), ("unread", DataType::Int64), ("price", DataType::Int64)];
    let mut fields: Vec<Field> = fields.into_iter().map(|(name, data_type)| Field::new(name, data_type, true)).collect();
    fields.push(Field::new("dateTime", DataType::Timestamp(TimeUnit::Millisecond, None), true));
    let schema: SchemaRef = Arc::new(Schema::new(fields));
    let batch = |rows: &[Bid]| {
        let columns: Vec<ArrayRef> = vec![
            Arc::new(StringViewArray::from_iter_values(rows.iter().map(|row| row.kind))),
            Arc::new(Int64Array::from_iter_values(rows.iter().map(|row| row.auction))),
            Arc::new(Int64Array::from_iter_values(rows.iter().map(|row| -row.auction))),
            Arc::new(Int64Array::from_iter_values(rows.iter().map(|row| row.price))),
            Arc::new(TimestampMillisecondArray::from_iter_values(rows.iter().map(|row| row.at))),
        ];
        RecordBatch::try_new(Arc::clone(&schema), columns).unwrap()
    };
    let scripts = [0, 1].map(|split| Script::new(format!("s{split}"), bids(split).chunks(64).map(batch).collect()));
    ScriptedSource::new(schema, scripts.to_vec())
}

/// Double price and auction of what is dear.
type Dear = Vec<(i64, i64)>;
/// Window start, auction and number of bids.
type Counts = Vec<(i64, i64, i64)>;

/// The rows of both outputs, sorted.
fn run(source: Arc<dyn InlineSource>) -> (Dear, Counts) {
    let (dear, counts) = (Collector::new(), Collector::new());
    let planned = Pipeline::new()
        .dataset("events", Dataset::reading(source))
        .dataset("dear", Dataset::writing(dear.sink()))
        .dataset("counts", Dataset::writing(counts.sink()))
        .stage(
            "bids",
            &["events"],
            "bids",
            json!([{ "op": "filter", "expression": "type == \"bid\"" }, { "op": "rename", "mapping": { "dateTime": "at" } }]),
        )
        .stage(
            "dear",
            &["bids"],
            "dear",
            json!([
                { "op": "filter", "expression": "price > 100" },
                { "op": "applyExpression", "column": "double", "expression": "price * 2" },
                { "op": "select", "columns": ["double", "auction"] }
            ]),
        )
        .stage("counts", &["bids"], "counts", json!([count_per("auction", "at")]))
        .planned();
    let job = Job::prepare(planned.graph, JobConfig::new("p", RunId::new("r"), "test"), Arc::new(MemoryStore::new())).unwrap();
    let outcome = job.run(&JobControl::new()).unwrap();
    assert!(matches!(outcome.end, Ending::Ended { .. }), "{:?}", outcome.end);
    let ints = |batch: &RecordBatch, column: &str| batch.column_by_name(column).unwrap().as_primitive::<Int64Type>().values().to_vec();
    let mut dear: Dear = dear.visible().iter().flat_map(|batch| ints(batch, "double").into_iter().zip(ints(batch, "auction"))).collect();
    let mut totals = Vec::new();
    for batch in counts.visible() {
        let starts = batch.column_by_name("windowStart").unwrap().as_primitive::<TimestampMillisecondType>().values().to_vec();
        let (auctions, counted) = (ints(&batch, "auction"), ints(&batch, "n"));
        totals.extend((0..starts.len()).map(|row| (starts[row], auctions[row], counted[row])));
    }
    dear.sort_unstable();
    totals.sort_unstable();
    (dear, totals)
}

#[test]
fn a_pruned_plan_gives_the_rows_of_an_unpruned_one_and_of_the_oracle() {
    let rows: Vec<Bid> = (0..2).flat_map(bids).filter(|row| row.kind == "bid").collect();
    let mut dear: Dear = rows.iter().filter(|row| row.price > 100).map(|row| (row.price * 2, row.auction)).collect();
    dear.sort_unstable();
    let mut counts: BTreeMap<(i64, i64), i64> = BTreeMap::new();
    for row in &rows {
        *counts.entry((row.at.div_euclid(10_000) * 10_000, row.auction)).or_default() += 1;
    }
    let counts: Counts = counts.into_iter().map(|((start, auction), count)| (start, auction, count)).collect();
    assert!(dear.len() > 20 && counts.len() > 10);
    assert_eq!(run(Arc::new(scripted())), (dear.clone(), counts.clone()));
    assert_eq!(run(Arc::new(Whole(scripted()))), (dear, counts));
}

//! The jobs: stages as a pipeline file has them, planned by the planner; what each output shows, and what it must show.

use super::feed;
use super::oracle::{self, Kind};
use super::rows::{Row, Shown, shown, table};
use super::sinks::Letters;
use arrow::array::RecordBatch;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use tidegate::dataflow::{Dataset, DatasetOptions, NativeSteps, PlanInput, PlanSettings, TimeOptions, plan};
use tidegate::{StageDef, Topology};
use tidegate_api::testkit::Collector;
use tidegate_api::{Discovered, Error, InlineSource, Result, SourceCtx, SourcePlan, SourceReader, SourceRequest};
use tidegate_runtime::JobGraph;

/// The rows of a split may lag so far behind its newest.
pub const DISORDER: i64 = 20;
/// The most tasks of a node.
pub const WIDEST: usize = 4;

/// A kind of job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shape {
    Tumbling,
    Hopping,
    /// Windows whose results come early and are updated.
    EarlyWindows,
    WindowOfWindows,
    Sessions,
    /// Sessions whose results come early, are updated and taken back.
    EarlySessions,
    Join(Kind),
    JoinThenWindow,
    Top,
    TopOfWindows,
    First,
    Last,
    Totals,
    /// Aggregates over the last rows of a key.
    LastRows,
    /// Windows of every split by itself.
    PerSplit,
    /// The version of a table that was valid at a row's time.
    AsOf,
    /// Two sources, a filter, four outputs.
    Wide,
}

impl Shape {
    pub const ALL: [Shape; 21] = [
        Shape::Tumbling,
        Shape::Hopping,
        Shape::EarlyWindows,
        Shape::WindowOfWindows,
        Shape::Sessions,
        Shape::EarlySessions,
        Shape::Join(Kind::Inner),
        Shape::Join(Kind::Left),
        Shape::Join(Kind::Full),
        Shape::Join(Kind::Semi),
        Shape::Join(Kind::Anti),
        Shape::JoinThenWindow,
        Shape::Top,
        Shape::TopOfWindows,
        Shape::First,
        Shape::Last,
        Shape::Totals,
        Shape::LastRows,
        Shape::PerSplit,
        Shape::AsOf,
        Shape::Wide,
    ];

    /// The datasets it reads.
    pub fn reads(self) -> &'static [&'static str] {
        match self {
            Shape::Join(_) | Shape::JoinThenWindow | Shape::AsOf | Shape::Wide => &["a", "b"],
            _ => &["a"],
        }
    }

    /// Whether rows may be late: then it must be possible to tell what a late row is missing from.
    pub fn may_be_late(self) -> bool {
        matches!(self, Shape::Tumbling | Shape::TopOfWindows | Shape::Top | Shape::Totals | Shape::First | Shape::Last | Shape::LastRows)
    }

    /// The datasets it writes, `copy` at least once and the others in two phases.
    pub fn writes(self) -> &'static [&'static str] {
        match self {
            Shape::Tumbling | Shape::Hopping | Shape::TopOfWindows | Shape::Sessions | Shape::Join(_) => &["out", "late"],
            Shape::Wide => &["raw", "out", "sessions", "copy"],
            _ => &["out"],
        }
    }

    fn stages(self) -> Vec<StageDef> {
        let aggs = json!([{ "op": "count", "alias": "n" }, { "op": "sum", "column": "value", "alias": "s" }]);
        let window = |size: i64, slide: i64| json!({ "op": "windowedAggregate", "timeColumn": "time", "windowMs": size, "slideMs": slide, "groupBy": ["key"], "aggs": aggs });
        let with = |mut step: Value, more: Value| {
            let (Value::Object(step_keys), Value::Object(more)) = (&mut step, more) else { unreachable!() };
            step_keys.extend(more);
            step
        };
        let sessions = json!({ "op": "sessionAggregate", "timeColumn": "time", "gapMs": GAP, "groupBy": ["key"], "aggs": aggs });
        let join = |kind: &str| json!({ "op": "streamJoin", "joinKey": "key", "timeColumn": "time", "windowMs": WITHIN, "kind": kind });
        let late = || json!({ "lateOutput": "late" });
        let top = json!({ "op": "topN", "orderBy": "value", "tieBy": "id", "n": 2, "groupBy": ["key"] });
        let one = |step: Value| vec![stage("work", &["a"], "out", vec![step])];
        match self {
            Shape::Tumbling => one(with(window(SIZE, SIZE), late())),
            Shape::Hopping => one(with(window(SIZE, SLIDE), late())),
            Shape::EarlyWindows => one(with(window(SIZE, SIZE), json!({ "emit": { "everyRows": 3 } }))),
            Shape::WindowOfWindows => {
                let outer = json!([{ "op": "sum", "column": "n", "alias": "n" }, { "op": "sum", "column": "s", "alias": "s" }]);
                let outer = json!({
                    "op": "windowedAggregate", "timeColumn": "windowStart", "windowMs": LARGE, "groupBy": ["key"], "aggs": outer
                });
                vec![stage("inner", &["a"], "mid", vec![window(SIZE, SIZE)]), stage("outer", &["mid"], "out", vec![outer])]
            }
            Shape::Sessions => one(with(sessions, late())),
            Shape::EarlySessions => one(with(sessions, json!({ "emit": { "everyRows": 2 }, "allowedLatenessMs": 10 }))),
            Shape::Join(kind) => {
                let name = format!("{kind:?}").to_lowercase();
                vec![stage("work", &["a", "b"], "out", vec![with(join(&name), late())])]
            }
            Shape::JoinThenWindow => {
                let sum = json!([
                    { "op": "count", "alias": "n" },
                    { "op": "sum", "column": "value", "alias": "s" },
                    { "op": "sum", "column": "value_right", "alias": "t" }
                ]);
                let outer = json!({ "op": "windowedAggregate", "timeColumn": "time", "windowMs": SIZE, "groupBy": ["key"], "aggs": sum });
                vec![stage("pairs", &["a", "b"], "mid", vec![join("inner")]), stage("sums", &["mid"], "out", vec![outer])]
            }
            Shape::Top => one(top),
            Shape::TopOfWindows => {
                one(with(top, json!({ "windowed": true, "timeColumn": "time", "windowMs": SIZE, "lateOutput": "late" })))
            }
            Shape::First => one(json!({ "op": "deduplicate", "keys": ["value"] })),
            Shape::Last => one(json!({ "op": "deduplicate", "keys": ["value"], "keep": "last", "timeColumn": "time" })),
            Shape::Totals => one(json!({ "op": "aggregate", "groupBy": ["key"], "aggs": aggs })),
            Shape::LastRows => one(json!({ "op": "lastN", "n": 3, "groupBy": ["key"], "orderBy": "id", "aggs": aggs })),
            Shape::PerSplit => one(with(window(SIZE, SIZE), json!({ "keyBy": false }))),
            Shape::AsOf => {
                let lookup = json!({ "op": "lookupJoin", "joinKey": "key", "asOf": "time", "timeColumn": "time", "kind": "left" });
                vec![stage("work", &["a", "b"], "out", vec![lookup])]
            }
            Shape::Wide => vec![
                stage("clean", &["a", "b"], "raw", vec![json!({ "op": "filter", "expression": "value % 5 != 0" })]),
                stage("windows", &["raw"], "out", vec![window(SIZE, SLIDE)]),
                stage("sessions", &["raw"], "sessions", vec![sessions]),
                stage("copies", &["raw"], "copy", vec![json!({ "op": "filter", "expression": "value % 2 == 0" })]),
            ],
        }
    }

    /// The job, planned once.
    pub fn graph(self) -> &'static JobGraph {
        static GRAPHS: OnceLock<Vec<JobGraph>> = OnceLock::new();
        let graphs = GRAPHS.get_or_init(|| Shape::ALL.iter().map(|shape| shape.planned()).collect());
        &graphs[Shape::ALL.iter().position(|shape| *shape == self).unwrap()]
    }

    fn planned(self) -> JobGraph {
        let topology = Topology { stages: self.stages() };
        let time = TimeOptions {
            column: Some("time".into()),
            out_of_orderness: Some(Duration::from_millis(DISORDER as u64)),
            ..TimeOptions::default()
        };
        let reading =
            |_: &&str| Dataset::reading(Arc::new(Blank)).with_options(DatasetOptions { time: Some(time.clone()), ..Default::default() });
        let mut datasets: BTreeMap<String, Dataset> = self.reads().iter().map(|name| (name.to_string(), reading(name))).collect();
        for name in self.writes() {
            let sink =
                if *name == "copy" { Dataset::writing(Arc::new(Letters::default())) } else { Dataset::writing(Collector::new().sink()) };
            datasets.insert(name.to_string(), sink.with_publishes(true));
        }
        let input = PlanInput {
            topology: &topology,
            datasets,
            settings: PlanSettings::new(WIDEST),
            steps: &NativeSteps,
            functions: tidegate::dialect::Functions::standard(),
        };
        match plan(input) {
            Ok(planned) => planned.graph,
            Err(problems) => panic!("{self:?}: {problems:?}"),
        }
    }
}

const SIZE: i64 = 60;
const SLIDE: i64 = 20;
const LARGE: i64 = 240;
const GAP: i64 = 15;
const WITHIN: i64 = 10;

fn stage(id: &str, inputs: &[&str], output: &str, steps: Vec<Value>) -> StageDef {
    StageDef { id: id.into(), inputs: inputs.iter().map(ToString::to_string).collect(), output: output.into(), steps }
}

/// Stands for a source while a job is planned.
struct Blank;

impl InlineSource for Blank {
    fn plan(&self, request: &SourceRequest) -> Result<SourcePlan> {
        feed::plan(request)
    }

    fn discover(&self, _: Option<&[u8]>) -> Result<Discovered> {
        Err(Error::internal("a plan opens nothing"))
    }

    fn open(&self, _: SourceCtx) -> Result<Box<dyn SourceReader>> {
        Err(Error::internal("a plan opens nothing"))
    }
}

/// What the sinks show.
pub struct Outputs<'a> {
    pub of: &'a dyn Fn(&str) -> Vec<RecordBatch>,
}

impl Outputs<'_> {
    fn rows(&self, name: &str, columns: &[&str]) -> Vec<Shown> {
        let mut rows = shown(&(self.of)(name), columns);
        rows.sort();
        rows
    }

    fn table(&self, columns: &[&str], keys: usize) -> Vec<Shown> {
        table(&(self.of)("out"), columns, keys)
    }
}

/// The input without the rows that came out as late: those must be missing from everything else, and nothing else may be.
fn on_time(rows: &[Row], late: &[Shown]) -> Result<Vec<Row>> {
    let mut left = rows.to_vec();
    for row in late {
        let same = |found: &Row| [found.time, found.key, found.value].map(Some)[..] == row[..];
        let at =
            left.iter().position(same).ok_or_else(|| Error::data(format!("{row:?} came out late and never came in, or came twice")))?;
        left.swap_remove(at);
    }
    Ok(left)
}

fn same(output: &str, got: &[Shown], expected: &[Shown]) -> Result<()> {
    if got == expected {
        return Ok(());
    }
    let more =
        got.iter().find(|row| got.iter().filter(|other| other == row).count() > expected.iter().filter(|other| other == row).count());
    let less =
        expected.iter().find(|row| got.iter().filter(|other| other == row).count() < expected.iter().filter(|other| other == row).count());
    Err(Error::data(format!(
        "output `{output}` shows {} rows instead of {}; one too many: {more:?}; one missing: {less:?}",
        got.len(),
        expected.len()
    )))
}

const WINDOW: [&str; 5] = ["windowStart", "windowEnd", "key", "n", "s"];

impl Shape {
    /// Compares what the sinks show with what they must show.
    pub fn judge(self, a: &[Row], b: &[Row], splits: &[Vec<Row>], outputs: &Outputs<'_>) -> Result<()> {
        let late = if self.writes().contains(&"late") { outputs.rows("late", &["time", "key", "value"]) } else { Vec::new() };
        if !late.is_empty() && !self.may_be_late() {
            return Err(Error::data(format!("{} rows came out late and none was, such as {:?}", late.len(), late[0])));
        }
        let a = &on_time(a, &late)?[..];
        match self {
            Shape::Tumbling => same("out", &outputs.rows("out", &WINDOW), &oracle::windows(a, SIZE, SIZE)),
            Shape::Hopping => same("out", &outputs.rows("out", &WINDOW), &oracle::windows(a, SIZE, SLIDE)),
            Shape::EarlyWindows => same("out", &outputs.table(&WINDOW, 3), &oracle::windows(a, SIZE, SIZE)),
            Shape::WindowOfWindows => {
                let got = outputs.rows("out", &["windowStart", "key", "n", "s"]);
                same("out", &got, &oracle::windows_of_windows(a, SIZE, LARGE))
            }
            Shape::Sessions => same("out", &outputs.rows("out", &WINDOW), &oracle::sessions(a, GAP)),
            Shape::EarlySessions => same("out", &outputs.table(&WINDOW, 3), &oracle::sessions(a, GAP)),
            Shape::Join(kind) => {
                let columns: &[&str] = if matches!(kind, Kind::Semi | Kind::Anti) { &["id"] } else { &["id", "id_right"] };
                same("out", &outputs.rows("out", columns), &oracle::join(a, b, WITHIN, kind))
            }
            Shape::JoinThenWindow => {
                let mut got = outputs.rows("out", &["windowStart", "windowEnd", "key", "n", "s", "t"]);
                for row in &mut got {
                    let right = row.pop().flatten();
                    row[4] = row[4].zip(right).map(|(left, right)| left + right);
                }
                same("out", &got, &oracle::windows(&oracle::pairs(a, b, WITHIN), SIZE, SIZE))
            }
            Shape::Top => same("out", &outputs.table(&["key", "rank", "id"], 2), &oracle::top(a, 2)),
            Shape::TopOfWindows => {
                same("out", &outputs.rows("out", &["windowStart", "key", "rank", "id"]), &oracle::top_of_windows(a, 2, SIZE))
            }
            Shape::First => {
                // Which row is the first to come is nobody's promise; that there is one of each value is.
                let got = outputs.rows("out", &["value", "id"]);
                let known = |row: &&Shown| a.iter().any(|found| [found.value, found.id].map(Some)[..] == row[..]);
                if let Some(strange) = got.iter().find(|row| !known(row)) {
                    return Err(Error::data(format!("{strange:?} never came in")));
                }
                same("out", &column(&got), &values(a))
            }
            Shape::Last => {
                let got = outputs.table(&["value", "time"], 1);
                let newest = |value: i64| a.iter().filter(|row| row.value == value).map(|row| row.time).max();
                let expected: Vec<Shown> = values(a).into_iter().map(|row| vec![row[0], row[0].and_then(newest)]).collect();
                same("out", &got, &expected)
            }
            Shape::Totals => same("out", &outputs.table(&["key", "n", "s"], 1), &oracle::totals(a)),
            Shape::LastRows => same("out", &outputs.table(&["key", "n", "s"], 1), &oracle::totals(&oracle::last(a, 3))),
            Shape::PerSplit => {
                let mut expected: Vec<Shown> = splits.iter().flat_map(|rows| oracle::windows(rows, SIZE, SIZE)).collect();
                expected.sort();
                same("out", &outputs.rows("out", &WINDOW), &expected)
            }
            Shape::AsOf => same("out", &outputs.rows("out", &["id", "id_right"]), &oracle::as_of(a, b)),
            Shape::Wide => {
                let clean: Vec<Row> = a.iter().chain(b).copied().filter(|row| row.value % 5 != 0).collect();
                let whole = |rows: &[Row]| {
                    let mut rows: Vec<Shown> = rows.iter().map(|row| [row.id, row.time, row.key, row.value].map(Some).to_vec()).collect();
                    rows.sort();
                    rows
                };
                let columns = ["id", "time", "key", "value"];
                same("raw", &outputs.rows("raw", &columns), &whole(&clean))?;
                same("out", &outputs.rows("out", &WINDOW), &oracle::windows(&clean, SIZE, SLIDE))?;
                same("sessions", &outputs.rows("sessions", &WINDOW), &oracle::sessions(&clean, GAP))?;
                let even: Vec<Row> = clean.into_iter().filter(|row| row.value % 2 == 0).collect();
                // At least once: every row, and no other.
                let mut copies = outputs.rows("copy", &columns);
                copies.dedup();
                same("copy", &copies, &whole(&even))
            }
        }
    }
}

fn column(rows: &[Shown]) -> Vec<Shown> {
    rows.iter().map(|row| vec![row[0]]).collect()
}

/// The different values, sorted.
fn values(rows: &[Row]) -> Vec<Shown> {
    let mut values: Vec<Shown> = rows.iter().map(|row| vec![Some(row.value)]).collect();
    values.sort();
    values.dedup();
    values
}

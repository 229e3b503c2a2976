//! Plans of small pipelines, judged by what the doubles of the outside were asked and by what the plan says.

mod heavy;
mod joins;
mod layout;
mod mistakes;
mod outputs;
mod reading;
mod running;
mod tables;

use super::{Dataset, DatasetOptions, NativeSteps, PlanInput, PlanSettings, Planned, StepParser, TimeOptions, plan};
use crate::control::{StageDef, Topology};
use arrow::datatypes::{Field, Schema, SchemaRef};
use serde_json::Value;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use tidegate_api::config::Problem;
use tidegate_api::testkit::ScriptedSource;
use tidegate_api::{
    AnySink, ChangeMode, Discovered, Error, Guarantee, InlineSource, OutputSink, Result, SinkCtx, SinkInput, SinkPlan, SourceCtx,
    SourcePlan, SourceReader, SourceRequest, hidden, types,
};
use tidegate_dialect::Functions;
use tidegate_runtime::graph::{EdgeSpec, Node, NodeKind, Routing};

/// A source that remembers what it was asked, and applies conditions on some columns.
struct Probe {
    schema: SchemaRef,
    mode: ChangeMode,
    applies: Vec<String>,
    /// Applies nothing once it is asked for less than everything.
    fickle: bool,
    replayable: bool,
    max_parallelism: Option<usize>,
    /// Every start reads it anew.
    reloads: bool,
    asked: Arc<Mutex<Vec<SourceRequest>>>,
}

impl Probe {
    fn new(columns: &[(&str, &str)]) -> Self {
        let field = |(name, data_type): &(&str, &str)| Field::new(*name, types::parse(data_type).unwrap(), *name != hidden::OP);
        let schema = Arc::new(Schema::new(columns.iter().map(field).collect::<Vec<_>>()));
        Probe {
            schema,
            mode: ChangeMode::Append,
            applies: Vec::new(),
            fickle: false,
            replayable: true,
            max_parallelism: None,
            reloads: false,
            asked: Arc::default(),
        }
    }
}

impl InlineSource for Probe {
    fn plan(&self, request: &SourceRequest) -> Result<SourcePlan> {
        self.asked.lock().unwrap().push(request.clone());
        let source = ScriptedSource::new(Arc::clone(&self.schema), Vec::new()).with_mode(self.mode.clone());
        let plan = source.plan(request)?.with_replayable(self.replayable).with_reloads(self.reloads);
        let applies = |at: &usize| self.applies.contains(&request.equals[*at].column);
        let narrowed = request.columns.as_ref().is_some_and(|columns| !columns.iter().any(|column| self.applies.contains(column)));
        let applied = if self.fickle && narrowed { Vec::new() } else { (0..request.equals.len()).filter(applies).collect() };
        let plan = plan.with_applied(applied);
        Ok(match self.max_parallelism {
            Some(max) => plan.with_max_parallelism(max),
            None => plan,
        })
    }

    fn discover(&self, _: Option<&[u8]>) -> Result<Discovered> {
        Err(Error::internal("a plan opens nothing"))
    }

    fn open(&self, _: SourceCtx) -> Result<Box<dyn SourceReader>> {
        Err(Error::internal("a plan opens nothing"))
    }
}

/// A sink that answers what it was told to.
struct Fixed(SinkPlan);

impl OutputSink for Fixed {
    fn plan(&self, _: &SinkInput) -> Result<SinkPlan> {
        Ok(self.0.clone())
    }

    fn open(&self, _: SinkCtx) -> Result<AnySink> {
        Err(Error::internal("a plan opens nothing"))
    }
}

/// The columns of the streams most tests read.
const BIDS: &[(&str, &str)] = &[
    ("type", "string"),
    ("auction", "int64"),
    ("bidder", "int64"),
    ("price", "int64"),
    ("channel", "string"),
    ("dateTime", "timestamp_ms"),
    ("expires", "timestamp_ms"),
];

/// A pipeline in the making.
struct Pipeline {
    topology: Topology,
    datasets: BTreeMap<String, Dataset>,
    settings: PlanSettings,
    steps: Box<dyn StepParser>,
}

impl Pipeline {
    fn new() -> Self {
        Pipeline { topology: Topology::default(), datasets: BTreeMap::new(), settings: PlanSettings::new(2), steps: Box::new(NativeSteps) }
    }

    /// A pipeline of one source `events` with [`BIDS`] and one exactly-once sink `out`.
    fn of_bids() -> (Self, Arc<Mutex<Vec<SourceRequest>>>) {
        let probe = Probe::new(BIDS);
        let asked = Arc::clone(&probe.asked);
        (Pipeline::new().source("events", probe).sink("out"), asked)
    }

    fn source(self, name: &str, source: Probe) -> Self {
        self.dataset(name, Dataset::reading(Arc::new(source)))
    }

    fn sink(self, name: &str) -> Self {
        self.sink_of(name, SinkPlan::new(Guarantee::ExactlyOnce))
    }

    fn sink_of(self, name: &str, plan: SinkPlan) -> Self {
        self.dataset(name, Dataset::writing(Arc::new(Fixed(plan))))
    }

    fn dataset(mut self, name: &str, dataset: Dataset) -> Self {
        self.datasets.insert(name.to_string(), dataset);
        self
    }

    fn options(mut self, name: &str, change: impl FnOnce(&mut DatasetOptions)) -> Self {
        change(&mut self.datasets.get_mut(name).unwrap().options);
        self
    }

    fn stage(mut self, id: &str, inputs: &[&str], output: &str, steps: Value) -> Self {
        self.topology.stages.push(StageDef {
            id: id.to_string(),
            inputs: inputs.iter().map(ToString::to_string).collect(),
            output: output.to_string(),
            steps: steps.as_array().unwrap().clone(),
        });
        self
    }

    fn plan(self) -> std::result::Result<Planned, Vec<Problem>> {
        plan(PlanInput {
            topology: &self.topology,
            datasets: self.datasets,
            settings: self.settings,
            steps: self.steps.as_ref(),
            functions: Functions::standard(),
        })
    }

    fn planned(self) -> Planned {
        match self.plan() {
            Ok(planned) => planned,
            Err(problems) => panic!("{}", lines(&problems).join("\n")),
        }
    }

    fn mistakes(self) -> Vec<String> {
        match self.plan() {
            Ok(planned) => panic!("planned:\n{}", planned.render_text()),
            Err(problems) => lines(&problems),
        }
    }
}

fn lines(problems: &[Problem]) -> Vec<String> {
    problems.iter().map(ToString::to_string).collect()
}

fn time(column: &str) -> Option<TimeOptions> {
    Some(TimeOptions { column: Some(column.to_string()), ..TimeOptions::default() })
}

/// A tumbling count per group, as column `n`.
fn count_per(group: &str, time: &str) -> Value {
    count_as("n", group, time)
}

fn count_as(alias: &str, group: &str, time: &str) -> Value {
    let aggs = serde_json::json!([{ "op": "count", "alias": alias }]);
    serde_json::json!({ "op": "windowedAggregate", "timeColumn": time, "windowMs": 10000, "groupBy": [group], "aggs": aggs })
}

fn node<'a>(planned: &'a Planned, id: &str) -> &'a Node {
    planned.graph.node(id).unwrap_or_else(|| panic!("no node `{id}` in\n{}", planned.render_text()))
}

fn edge<'a>(planned: &'a Planned, from: &str, to: &str) -> &'a EdgeSpec {
    let found = planned.graph.edges.iter().find(|edge| edge.from == from && edge.to == to);
    found.unwrap_or_else(|| panic!("no edge from `{from}` to `{to}` in\n{}", planned.render_text()))
}

fn names(schema: &Schema) -> Vec<&str> {
    schema.fields().iter().map(|field| field.name().as_str()).collect()
}

/// The labels of the steps at the root of a node's pipe.
fn labels(node: &Node) -> Vec<&str> {
    node.main.steps.iter().map(|step| step.label.as_str()).collect()
}

fn request(planned: &Planned, dataset: &str) -> SourceRequest {
    match &node(planned, &format!("source/{dataset}")).kind {
        NodeKind::Source(source) => source.request.clone(),
        NodeKind::Operator(_) | NodeKind::Sink(_) => panic!("`{dataset}` is not a source"),
    }
}

fn columns(planned: &Planned, dataset: &str) -> Vec<String> {
    let NodeKind::Source(source) = &node(planned, &format!("source/{dataset}")).kind else { panic!("`{dataset}` is not a source") };
    names(&source.plan.schema).iter().map(ToString::to_string).collect()
}

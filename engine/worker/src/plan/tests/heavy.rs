//! Operators that tell inputs apart, update their rows, or pass late rows on, whatever they compute: a step made up for these tests.

use super::*;
use arrow::datatypes::DataType;
use serde_json::json;
use std::collections::BTreeSet;
use tidegate_api::{ChangeMode, Operator, OperatorCtx, OperatorFactory, Signature, hidden};
use tidegate_operators::{BindCtx, Bound, BoundNode, StepDef, StreamType};
use tidegate_runtime::graph::{PipeEnd, late_schema};

/// `{ op = "made-up", ports, key, late, update }`: gives the key column and a total of `price`.
#[derive(Debug)]
struct MadeUp {
    ports: usize,
    key: String,
    late: Option<String>,
    update: bool,
}

struct MadeUpSteps;

impl StepParser for MadeUpSteps {
    fn parse(&self, step: &Value) -> std::result::Result<Box<dyn StepDef>, Vec<Problem>> {
        if step["op"] != "made-up" {
            return NativeSteps.parse(step);
        }
        Ok(Box::new(MadeUp {
            ports: step["ports"].as_u64().unwrap_or(1) as usize,
            key: step["key"].as_str().unwrap_or("auction").to_string(),
            late: step["late"].as_str().map(str::to_string),
            update: step["update"].as_bool().unwrap_or(false),
        }))
    }
}

impl StepDef for MadeUp {
    fn op(&self) -> &'static str {
        "made-up"
    }

    fn time_columns(&self) -> Vec<Option<String>> {
        vec![Some("dateTime".to_string()); self.ports]
    }

    fn late_output(&self) -> Option<&str> {
        self.late.as_deref()
    }

    fn bind(&self, inputs: &[StreamType], cx: &BindCtx) -> std::result::Result<Bound, Vec<Problem>> {
        let mut fields = vec![Field::new(&self.key, DataType::Int64, true), Field::new("total", DataType::Int64, true)];
        let mut mode = ChangeMode::Append;
        if self.update {
            fields.push(hidden::op_field());
            mode = ChangeMode::Upsert { keys: vec![self.key.clone()] };
        }
        if cx.keys {
            fields.push(hidden::key_field());
        }
        let schema: SchemaRef = Arc::new(Schema::new(fields));
        let reads = BTreeSet::from([self.key.clone(), "price".to_string(), "dateTime".to_string()]);
        let ports = inputs.len();
        Ok(Bound {
            output: StreamType { schema: Arc::clone(&schema), mode },
            node: BoundNode::Operator { factory: Arc::new(Factory(schema)), keys: vec![vec![self.key.clone()]; ports] },
            required: Box::new(move |_| vec![reads.clone(); ports]),
            equals: Vec::new(),
            details: String::new(),
        })
    }
}

struct Factory(SchemaRef);

impl OperatorFactory for Factory {
    fn name(&self) -> &str {
        "made-up"
    }

    fn signature(&self) -> Signature {
        Signature::new("made-up", 1)
    }

    fn output_schema(&self) -> SchemaRef {
        Arc::clone(&self.0)
    }

    fn open(&self, _: OperatorCtx) -> Result<Box<dyn Operator>> {
        Err(Error::internal("a plan opens nothing"))
    }
}

fn bids() -> Pipeline {
    let (mut pipeline, _) = Pipeline::of_bids();
    pipeline.steps = Box::new(MadeUpSteps);
    pipeline
}

#[test]
fn each_input_of_a_step_that_tells_them_apart_has_its_own_port() {
    let planned = bids()
        .source("others", Probe::new(BIDS))
        .stage("few", &["others"], "few", json!([{ "op": "filter", "expression": "price > 100" }]))
        .stage("pairs", &["events", "few"], "out", json!([{ "op": "made-up", "ports": 2 }]))
        .planned();
    for (source, port) in [("source/events", 0), ("source/others", 1)] {
        let edge = edge(&planned, source, "stage/pairs");
        assert_eq!((edge.input, names(&edge.schema)), (port, vec!["auction", "price", "dateTime"]));
        assert_eq!(edge.routing, Routing::Hash(vec![0]));
    }
}

#[test]
fn a_stage_can_read_one_dataset_at_both_ports() {
    let planned = bids().stage("pairs", &["events", "events"], "out", json!([{ "op": "made-up", "ports": 2 }])).planned();
    let inputs: Vec<usize> = planned.graph.edges.iter().filter(|edge| edge.to == "stage/pairs").map(|edge| edge.input).collect();
    assert_eq!(inputs, [0, 1]);
    assert_eq!(planned.sources.len(), 1);
}

#[test]
fn a_step_that_tells_inputs_apart_must_come_first_and_have_them() {
    let steps = json!([{ "op": "filter", "expression": "price > 1" }, { "op": "made-up", "ports": 2 }]);
    assert_eq!(
        bids().stage("pairs", &["events"], "out", steps).mistakes(),
        ["stages.0.steps.1.op: `made-up` must be the first step of its stage: it tells its inputs apart"]
    );
    assert_eq!(
        bids().stage("pairs", &["events"], "out", json!([{ "op": "made-up", "ports": 2 }])).mistakes(),
        ["stages.0.inputs: `made-up` needs 2 inputs, the stage has 1"]
    );
}

#[test]
fn late_rows_go_to_their_dataset_whole() {
    let steps = json!([{ "op": "filter", "expression": "price > 1" }, { "op": "made-up", "late": "late" }]);
    let planned = bids().sink("late").stage("s", &["events"], "out", steps).planned();
    let edge = edge(&planned, "stage/s", "sink/late");
    let expected: Vec<&str> = BIDS.iter().map(|(name, _)| *name).chain(["_stage", "_watermark"]).collect();
    assert_eq!(names(&edge.schema), expected);
    let Some(late) = &node(&planned, "stage/s").late else { panic!("late rows go nowhere") };
    assert!(matches!(late.to[0], PipeEnd::Edge(id) if id == edge.id));
    let input = &planned.graph.edges.iter().find(|edge| edge.to == "stage/s").unwrap().schema;
    assert_eq!(edge.schema, late_schema(input));
    assert_eq!(node(&planned, "sink/late").parallelism, 1);
}

#[test]
fn late_rows_of_two_stages_share_a_dataset_only_with_the_same_columns() {
    let late = |more: Value| json!([more, { "op": "made-up", "late": "late" }]);
    let found = bids()
        .sink("late")
        .sink("other")
        .stage("a", &["events"], "out", late(json!({ "op": "filter", "expression": "price > 1" })))
        .stage("b", &["events"], "other", late(json!({ "op": "drop", "columns": ["channel"] })))
        .mistakes();
    assert_eq!(
        found,
        ["stages.1.steps.1.lateOutput: `late` takes the late rows of another stage, whose columns differ; name a dataset of its own"]
    );
}

#[test]
fn updates_are_exchanged_by_their_keys_before_the_sink() {
    let mut pipeline = bids();
    pipeline.settings.parallelism = 3;
    let steps = json!([{ "op": "made-up", "update": true }, { "op": "rename", "mapping": { "auction": "id" } }]);
    let planned = pipeline.stage("s", &["events"], "out", steps).planned();
    let edge = edge(&planned, "stage/s", "sink/out");
    assert_eq!(names(&edge.schema), ["id", "total", hidden::OP]);
    assert_eq!(edge.routing, Routing::Hash(vec![0]));
    let output = &planned.outputs[0];
    assert_eq!((output.mode.clone(), output.keys.clone()), (ChangeMode::Upsert { keys: vec!["id".to_string()] }, vec!["id".to_string()]));
}

#[test]
fn a_changelog_says_in_a_column_what_changed_and_still_goes_by_key() {
    let planned = bids()
        .options("out", |options| options.changelog = true)
        .stage("s", &["events"], "out", json!([{ "op": "made-up", "update": true }]))
        .planned();
    let edge = edge(&planned, "stage/s", "sink/out");
    assert_eq!(names(&edge.schema), ["auction", "total", "op"]);
    assert_eq!(edge.routing, Routing::Hash(vec![0]));
    assert_eq!(planned.outputs[0].mode, ChangeMode::Append);
    assert!(planned.render_text().contains("out: changes by auction, exactly-once"));
}

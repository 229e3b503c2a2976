//! The physical job: what the planner hands to the runtime.
//!
//! A [`JobGraph`] is nodes joined by edges. A node is a source, an operator or a sink, run by `parallelism` tasks; behind a
//! source or an operator stands a tree of stateless steps that run chained on the same thread and end in edges. A prefix that
//! several readers share stands in the tree once, so it runs once. [`JobGraph::validate`] refuses what cannot run; the planner
//! has already told the user in better words, so its errors are `Internal`.

mod validate;

use arrow::datatypes::{DataType, Field, Schema, SchemaRef, TimeUnit};
use std::fmt;
use std::sync::Arc;
use tidegate_api::{
    ChangeMode, InlineSource, OnBadData, OperatorFactory, OutputSink, SinkPlan, SourcePlan, SourceRequest, StepFactory, TimeSpec, hidden,
};

/// A job, ready to be prepared.
#[derive(Clone, Default)]
pub struct JobGraph {
    /// In any order.
    pub nodes: Vec<Node>,
    /// In any order.
    pub edges: Vec<EdgeSpec>,
}

/// Names an edge within its graph.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EdgeId(pub usize);

impl fmt::Display for EdgeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A source, operator or sink, and the steps behind it.
#[derive(Clone)]
pub struct Node {
    /// The stable identity under which the manifest keeps its splits, state or tokens: it must not change with the number of
    /// tasks, the order of the file, or unrelated edits.
    pub id: String,
    /// How many tasks run it.
    pub parallelism: usize,
    /// What it does.
    pub kind: NodeKind,
    /// Where its rows go. Empty for a sink.
    pub main: Pipe,
    /// Where late rows (an operator's) and rows from too far in the future (a source's) go, under [`late_schema`]; `None`: they
    /// are only counted.
    pub late: Option<Pipe>,
    /// Where bad rows of the policy `deadLetter` go, those of the steps in `main` and `late` too.
    pub bad: BadRoute,
}

impl Node {
    /// A source node in one task, without outputs.
    pub fn source(id: impl Into<String>, source: SourceNode) -> Self {
        Node::new(id, NodeKind::Source(source))
    }

    /// An operator node in one task, without outputs.
    pub fn operator(id: impl Into<String>, operator: OperatorNode) -> Self {
        Node::new(id, NodeKind::Operator(operator))
    }

    /// A sink node in one task.
    pub fn sink(id: impl Into<String>, sink: SinkNode) -> Self {
        Node::new(id, NodeKind::Sink(sink))
    }

    fn new(id: impl Into<String>, kind: NodeKind) -> Self {
        Node { id: id.into(), parallelism: 1, kind, main: Pipe::default(), late: None, bad: BadRoute::Nowhere }
    }

    /// Sets the number of tasks.
    #[must_use]
    pub fn with_parallelism(mut self, tasks: usize) -> Self {
        self.parallelism = tasks;
        self
    }

    /// Sets where rows go.
    #[must_use]
    pub fn with_main(mut self, main: Pipe) -> Self {
        self.main = main;
        self
    }

    /// Sets where late rows go.
    #[must_use]
    pub fn with_late(mut self, late: Pipe) -> Self {
        self.late = Some(late);
        self
    }

    /// Sets where dead letters go.
    #[must_use]
    pub fn with_bad(mut self, edge: EdgeId) -> Self {
        self.bad = BadRoute::Edge(edge);
        self
    }

    /// The schema of the rows that enter `main`; `None` for a sink.
    pub fn output_schema(&self) -> Option<SchemaRef> {
        match &self.kind {
            NodeKind::Source(source) => Some(source.output_schema()),
            NodeKind::Operator(operator) => Some(operator.factory.output_schema()),
            NodeKind::Sink(_) => None,
        }
    }
}

/// What a node does.
#[derive(Clone)]
pub enum NodeKind {
    /// Reads a dataset.
    Source(SourceNode),
    /// Transforms with state.
    Operator(OperatorNode),
    /// Writes a dataset.
    Sink(SinkNode),
}

/// Reads a dataset.
#[derive(Clone)]
pub struct SourceNode {
    /// The dataset's name.
    pub dataset: String,
    /// The reading half.
    pub source: Arc<dyn InlineSource>,
    /// What it answered to `request`.
    pub plan: SourcePlan,
    /// What the plan asks for.
    pub request: SourceRequest,
    /// How watermarks are made; `None`: the source promises nothing until it ends.
    pub time: Option<TimeSpec>,
    /// Whether to append the hidden key column, made from split and ordinal. `request.ordinals` must be set.
    pub emit_keys: bool,
    /// Whether to append the hidden columns that say which split a row comes from, and what that split promises.
    pub emit_splits: bool,
    /// What to do with rows it could not decode.
    pub on_bad: OnBadData,
}

impl SourceNode {
    /// A source of this plan, without event time or keys, that fails on bad rows.
    pub fn new(dataset: impl Into<String>, source: Arc<dyn InlineSource>, request: SourceRequest, plan: SourcePlan) -> Self {
        SourceNode {
            dataset: dataset.into(),
            source,
            plan,
            request,
            time: None,
            emit_keys: false,
            emit_splits: false,
            on_bad: OnBadData::Fail,
        }
    }

    /// The schema of its rows, with the hidden columns that it emits.
    pub fn output_schema(&self) -> SchemaRef {
        if !self.emit_keys && !self.emit_splits {
            return Arc::clone(&self.plan.schema);
        }
        let mut fields: Vec<_> = self.plan.schema.fields().iter().cloned().collect();
        fields.extend(self.emit_keys.then(|| Arc::new(hidden::key_field())));
        if self.emit_splits {
            fields.extend(hidden::split_fields().map(Arc::new));
        }
        Arc::new(Schema::new_with_metadata(fields, self.plan.schema.metadata().clone()))
    }
}

/// Transforms with state.
#[derive(Clone)]
pub struct OperatorNode {
    /// The stage it belongs to.
    pub stage: String,
    /// How bad rows and metrics name it, such as `2:windowedAggregate`.
    pub label: String,
    /// Makes the operator of each task.
    pub factory: Arc<dyn OperatorFactory>,
    /// How many inputs it tells apart.
    pub inputs: usize,
    /// What to do with bad rows.
    pub on_bad: OnBadData,
}

/// Writes a dataset.
#[derive(Clone)]
pub struct SinkNode {
    /// The dataset's name.
    pub dataset: String,
    /// Which of the dataset's sinks this is, from 0.
    pub index: usize,
    /// The writing half.
    pub sink: Arc<dyn OutputSink>,
    /// What it answered to its input.
    pub plan: SinkPlan,
    /// The visible columns that reach the sink.
    pub schema: SchemaRef,
    /// Append or upsert.
    pub mode: ChangeMode,
    /// Whether the input carries the hidden key column and the sink gets it.
    pub wants_keys: bool,
    /// What the manifest keeps beside its tokens: its options, secrets by reference only.
    pub config: serde_json::Value,
    /// What to do with rows it refuses. A dead-letter sink's is `Fail`.
    pub on_bad: OnBadData,
}

/// Steps chained on the thread of what feeds them, and where their rows go. A tree: the rows after `steps` go to every end.
#[derive(Clone, Default)]
pub struct Pipe {
    /// In order.
    pub steps: Vec<PipeStep>,
    /// Where the rows go; several ends share them without a copy.
    pub to: Vec<PipeEnd>,
}

impl Pipe {
    /// No steps, straight to an edge.
    pub fn to_edge(edge: EdgeId) -> Self {
        Pipe { steps: Vec::new(), to: vec![PipeEnd::Edge(edge)] }
    }
}

/// Where the rows of a pipe go.
#[derive(Clone)]
pub enum PipeEnd {
    /// On through more steps.
    Pipe(Pipe),
    /// To other tasks.
    Edge(EdgeId),
}

/// A stateless step in its place.
#[derive(Clone)]
pub struct PipeStep {
    /// The stage it belongs to.
    pub stage: String,
    /// How bad rows and metrics name it, such as `2:applyExpression`; unique within the stage.
    pub label: String,
    /// Makes the step of each task.
    pub factory: Arc<dyn StepFactory>,
    /// What to do with bad rows.
    pub on_bad: OnBadData,
    /// The event-time column of the rows that enter it, if they have one; bad rows are told with it.
    pub time: Option<Arc<str>>,
}

impl PipeStep {
    /// A step in its place, whose rows have no known event time.
    pub fn new(stage: impl Into<String>, label: impl Into<String>, factory: Arc<dyn StepFactory>, on_bad: OnBadData) -> Self {
        PipeStep { stage: stage.into(), label: label.into(), factory, on_bad, time: None }
    }
}

/// Where dead letters go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BadRoute {
    /// No policy of the node is `deadLetter`.
    Nowhere,
    /// As rows of [`tidegate_api::bad::dead_letter_schema`] over this edge.
    Edge(EdgeId),
}

/// Joins the tasks of two nodes.
#[derive(Debug, Clone)]
pub struct EdgeSpec {
    /// Its name.
    pub id: EdgeId,
    /// The id of the producing node. Exactly one end of its pipes, or its bad route, names this edge.
    pub from: String,
    /// The id of the consuming node.
    pub to: String,
    /// Which input of the consumer; several edges may share one. 0 for a sink.
    pub input: usize,
    /// The rows it carries, hidden columns included.
    pub schema: SchemaRef,
    /// Which task gets which row.
    pub routing: Routing,
}

/// Which task of the consumer gets which row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Routing {
    /// Task i to task i; the two nodes have equally many.
    Forward,
    /// By the vnode of the hash of these columns.
    Hash(Vec<usize>),
    /// Whole batches in turn.
    RoundRobin,
    /// Every row to every task.
    Broadcast,
}

/// The column that names the stage (or the dataset, for rows from the future) that found a row late.
pub const LATE_STAGE: &str = "_stage";
/// The column that holds the watermark of the stage when a row was late; null for a row from the future, and where only the row's own split had
/// promised anything.
pub const LATE_WATERMARK: &str = "_watermark";

/// The schema of late rows: the visible columns, then `_stage` and `_watermark`, then the hidden columns.
pub fn late_schema(input: &SchemaRef) -> SchemaRef {
    let (hidden_fields, mut fields): (Vec<_>, Vec<_>) = input.fields().iter().cloned().partition(|field| hidden::is_hidden(field.name()));
    fields.push(Arc::new(Field::new(LATE_STAGE, DataType::Utf8View, false)));
    fields.push(Arc::new(Field::new(LATE_WATERMARK, DataType::Timestamp(TimeUnit::Microsecond, None), true)));
    fields.extend(hidden_fields);
    Arc::new(Schema::new_with_metadata(fields, input.metadata().clone()))
}

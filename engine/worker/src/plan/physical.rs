//! The fifth pass: nodes, pipes and edges.
//!
//! Stateless steps are chained behind the source or operator that feeds them, as a tree: what several readers share runs once.
//! When everything between a source and its sink is stateless and the two have equally many tasks, rows go from the source
//! through its pipe and one forward edge, without an exchange.

use super::changelog::Changelog;
use super::input::PlanInput;
use super::lineage::carried;
use super::policy::{Policies, Policy};
use super::problems::Problems;
use super::sinks::{SinkUse, Written};
use super::sources::Sources;
use super::stages::{Binder, Details, OperatorPlan, StagePlan, entry};
use super::structure::Structure;
use super::typing::Typing;
use arrow::datatypes::SchemaRef;
use std::collections::BTreeMap;
use std::sync::Arc;
use tidegate_api::{Distribution, Error, FutureRows, OnBadData, Result, StepFactory, TimeSpec, bad, hidden};
use tidegate_runtime::FutureRowsStep;
use tidegate_runtime::graph::{
    EdgeId, EdgeSpec, JobGraph, Node, NodeKind, OperatorNode, Pipe, PipeEnd, PipeStep, Routing, SinkNode, SourceNode, late_schema,
};

/// The job, and what to say about its steps.
pub(super) struct Physical {
    pub(super) graph: JobGraph,
    pub(super) details: Details,
}

/// Everything the earlier passes settled.
pub(super) struct Settled<'p, 'a> {
    pub(super) input: &'p PlanInput<'a>,
    pub(super) structure: &'p Structure<'a>,
    pub(super) typing: &'p Typing,
    pub(super) policies: &'p Policies,
    pub(super) sinks: &'p BTreeMap<String, SinkUse>,
    pub(super) times: &'p BTreeMap<String, TimeSpec>,
    pub(super) sources: &'p Sources,
}

/// The identity of a source node.
pub(crate) fn source_id(dataset: &str) -> String {
    format!("source/{dataset}")
}

/// The identity of an operator node.
pub(crate) fn stage_id(stage: &str) -> String {
    format!("stage/{stage}")
}

/// The identity of a sink node.
pub(super) fn sink_id(dataset: &str) -> String {
    format!("sink/{dataset}")
}

/// Builds the job. Its mistakes are in `problems` when it gives none.
pub(super) fn build(settled: &Settled<'_, '_>, problems: &mut Problems) -> Option<Physical> {
    let Settled { structure, typing, sources, .. } = settled;
    let mut builder =
        Builder { settled, stages: Vec::new(), policies: Vec::new(), graph: JobGraph::default(), wants: Vec::new(), dead: BTreeMap::new() };
    let mut source_nodes = Vec::new();
    let mut binder =
        Binder { structure, typing, sources, functions: &settled.input.functions, schemas: BTreeMap::new(), details: Details::new() };
    for name in sources.asked.keys() {
        let node = builder.source(name)?;
        binder.schemas.insert(name.clone(), node.output_schema());
        source_nodes.push(node);
    }
    builder.policies = structure.stages.iter().map(|stage| settled.policies.of_fed_by(&typing.fed_by(stage))).collect();
    builder.stages = structure.stages.iter().map(|_| None).collect();
    for &index in &structure.order {
        let plan = binder.bind(index, &builder.policies[index], problems)?;
        binder.schemas.insert(structure.stages[index].def.output.clone(), Arc::clone(&plan.output));
        builder.stages[index] = Some(Arc::new(plan));
    }
    match builder.assemble(source_nodes, &binder.schemas) {
        Ok(graph) => Some(Physical { graph, details: binder.details }),
        Err(error) => {
            problems.whole(error.to_string());
            None
        }
    }
}

/// What is known of rows on their way.
struct Flow {
    /// What becomes of a row that a step cannot use.
    policy: Policy,
    /// The event-time column, under its name here.
    time: Option<String>,
}

struct Builder<'p, 'a> {
    settled: &'p Settled<'p, 'a>,
    /// By stage, in the order of the file.
    stages: Vec<Option<Arc<StagePlan>>>,
    policies: Vec<Policy>,
    graph: JobGraph,
    /// Per edge, the columns that decide a row's task; none if any task may take it.
    wants: Vec<Vec<String>>,
    /// By node, where its dead letters go.
    dead: BTreeMap<String, String>,
}

impl Builder<'_, '_> {
    fn source(&self, name: &str) -> Option<SourceNode> {
        let asked = self.settled.sources.asked.get(name)?;
        let source = self.settled.input.datasets.get(name)?.source.clone()?;
        let mut node = SourceNode::new(name, source, asked.request.clone(), asked.plan.clone());
        node.time = self.settled.times.get(name).cloned();
        node.emit_keys = asked.request.ordinals;
        node.emit_splits = asked.splits;
        node.on_bad = self.settled.policies.of_source(name).on_bad;
        Some(node)
    }

    fn assemble(mut self, sources: Vec<SourceNode>, schemas: &BTreeMap<String, SchemaRef>) -> Result<JobGraph> {
        let parallelism = self.settled.input.settings.parallelism.max(1);
        for source in sources {
            let name = source.dataset.clone();
            let id = source_id(&name);
            self.dead_letters_of(&id, &self.settled.policies.of_source(&name));
            let flow =
                Flow { policy: self.settled.policies.of_steps_of(&name), time: source.time.as_ref().map(|time| time.column.to_string()) };
            let to = self.ends(&name, &schemas[&name], &id, &flow)?;
            let future = match &source.time {
                Some(time) if time.future_rows == FutureRows::Late && time.max_future_skew.is_some() => {
                    self.future_ends((&name, &name), &schemas[&name], &id, &flow)?
                }
                Some(_) | None => Vec::new(),
            };
            let tasks = parallelism.min(source.plan.max_parallelism.unwrap_or(parallelism)).max(1);
            let mut node = Node::source(id, source).with_parallelism(tasks).with_main(rooted(Vec::new(), to));
            if !future.is_empty() {
                node = node.with_late(rooted(Vec::new(), future));
            }
            self.graph.nodes.push(node);
        }
        for &index in &self.settled.structure.order {
            let Some(plan) = self.stages[index].clone() else { continue };
            if let Some(operator) = &plan.operator {
                self.operator(index, &plan, operator)?;
            }
        }
        for (name, sink) in self.settled.sinks {
            self.sink(name, sink);
        }
        self.dead_letter_edges();
        self.deal_out_sinks(parallelism);
        self.route()?;
        self.graph.validate()?;
        Ok(self.graph)
    }

    fn operator(&mut self, index: usize, plan: &StagePlan, operator: &OperatorPlan) -> Result<()> {
        let def = self.settled.structure.stages[index].def;
        let (id, policy) = (stage_id(&def.id), self.policies[index].clone());
        self.dead_letters_of(&id, &policy);
        let flow = Flow { policy: policy.clone(), time: None };
        let to = self.ends(&def.output, &plan.output, &id, &flow)?;
        let kind = OperatorNode {
            stage: def.id.clone(),
            label: operator.label.clone(),
            factory: Arc::clone(&operator.factory),
            inputs: operator.inputs.len(),
            on_bad: policy.on_bad,
        };
        // Without keys every row belongs to one vnode, so one task would get all the rows anyway.
        let keyed = operator.keys.iter().any(|keys| !keys.is_empty());
        let tasks = if keyed { self.settled.input.settings.parallelism.max(1) } else { 1 };
        let mut node = Node::operator(&id, kind).with_parallelism(tasks).with_main(rooted(plan.suffix.clone(), to));
        if let Some(target) = operator.late.as_ref().filter(|target| self.settled.sinks.contains_key(*target)) {
            let late = operator.factory.late_schema().unwrap_or_else(|| Arc::clone(&operator.inputs[0]));
            node = node.with_late(Pipe::to_edge(self.edge(&id, &sink_id(target), 0, &late_schema(&late), Vec::new())));
        }
        self.graph.nodes.push(node);
        Ok(())
    }

    fn sink(&mut self, name: &str, sink: &SinkUse) {
        let id = sink_id(name);
        self.dead_letters_of(&id, &sink.policy);
        let kind = SinkNode {
            dataset: name.to_string(),
            index: 0,
            sink: Arc::clone(&sink.sink),
            plan: sink.plan.clone(),
            schema: Arc::clone(&sink.input.schema),
            mode: sink.input.mode.clone(),
            wants_keys: sink.plan.wants_keys,
            config: self.settled.input.datasets.get(name).map(|dataset| dataset.sink_config.clone()).unwrap_or_default(),
            on_bad: sink.policy.on_bad,
        };
        self.graph.nodes.push(Node::sink(id, kind));
    }

    /// Where the rows of a dataset go from the node that has them.
    fn ends(&mut self, dataset: &str, made: &SchemaRef, from: &str, flow: &Flow) -> Result<Vec<PipeEnd>> {
        let mut ends = Vec::new();
        if let Some(sink) = self.settled.sinks.get(dataset).filter(|sink| matches!(sink.what, Written::Output { .. })) {
            ends.push(self.sink_end(dataset, sink, made, from)?);
        }
        let readers = self.settled.structure.readers.get(dataset).cloned().unwrap_or_default();
        for (index, input) in readers {
            let Some(plan) = self.stages[index].clone() else { continue };
            let stage = &self.settled.structure.stages[index];
            let port = stage.port(input);
            let (steps, after) = self.prefix(index, &plan, port, made, flow)?;
            let to = match &plan.operator {
                Some(operator) => {
                    let keys = operator.keys.get(port).cloned().unwrap_or_default();
                    vec![PipeEnd::Edge(self.edge(from, &stage_id(&stage.def.id), port, &operator.inputs[port], keys))]
                }
                None => self.ends(&stage.def.output, &plan.output, from, &after)?,
            };
            if steps.iter().any(|step| step.on_bad == OnBadData::DeadLetter) {
                self.dead_letters_of(from, &flow.policy);
            }
            if steps.is_empty() { ends.extend(to) } else { ends.push(PipeEnd::Pipe(Pipe { steps, to })) }
        }
        Ok(ends)
    }

    /// The steps between the rows of a dataset and a stage's operator, or its end, and what is known behind them.
    fn prefix(&self, index: usize, plan: &StagePlan, port: usize, made: &SchemaRef, flow: &Flow) -> Result<(Vec<PipeStep>, Flow)> {
        let (stage, typed) = (&self.settled.structure.stages[index], &self.settled.typing.stages[index]);
        let mut steps: Vec<PipeStep> = entry(&stage.def.id, made, &plan.inputs[port])?.into_iter().collect();
        let mut times = vec![flow.time.clone()];
        if let Some(typed) = typed.as_ref().filter(|_| flow.time.is_some()) {
            for (at, bound) in typed.steps.iter().enumerate() {
                let before = &typed.input_of(at)[0].schema;
                let after = times[at].as_ref().and_then(|time| carried(&stage.def.steps[at], before, &bound.output.schema, time));
                times.push(after);
            }
        }
        for (at, step) in &plan.prefix {
            let mut step = step.clone();
            step.time = times.get(*at).cloned().flatten().map(Into::into);
            // Steps of the planner's own cannot fail on a row, so their policy says nothing.
            step.on_bad = flow.policy.on_bad;
            steps.push(step);
        }
        Ok((steps, Flow { policy: flow.policy.clone(), time: times.pop().flatten() }))
    }

    /// Where a source's rows from too far in the future go: through the same steps to every output of late rows that they would
    /// reach. Nowhere, if there is none.
    fn future_ends(&mut self, (source, dataset): (&str, &str), made: &SchemaRef, from: &str, flow: &Flow) -> Result<Vec<PipeEnd>> {
        let mut ends = Vec::new();
        for (index, input) in self.settled.structure.readers.get(dataset).cloned().unwrap_or_default() {
            let Some(plan) = self.stages[index].clone() else { continue };
            let stage = &self.settled.structure.stages[index];
            let port = stage.port(input);
            let (mut steps, after) = self.prefix(index, &plan, port, made, flow)?;
            let to = match &plan.operator {
                None => self.future_ends((source, &stage.def.output), &plan.output, from, &after)?,
                Some(operator) => match operator.late.as_ref().filter(|target| self.settled.sinks.contains_key(*target)) {
                    // An operator that makes late rows of its own form never sees these: they are counted.
                    Some(target) if port == 0 && operator.factory.late_schema().is_none() => {
                        let mark = FutureRowsStep::new(source, &operator.inputs[0]);
                        let schema = StepFactory::output_schema(&mark);
                        steps.push(PipeStep::new(&stage.def.id, "late", Arc::new(mark), OnBadData::Fail));
                        vec![PipeEnd::Edge(self.edge(from, &sink_id(target), 0, &schema, Vec::new()))]
                    }
                    Some(_) | None => Vec::new(),
                },
            };
            if to.is_empty() {
                continue;
            }
            steps.iter_mut().for_each(|step| step.label.push_str(" (future rows)"));
            if steps.iter().any(|step| step.on_bad == OnBadData::DeadLetter) {
                self.dead_letters_of(from, &flow.policy);
            }
            if steps.is_empty() { ends.extend(to) } else { ends.push(PipeEnd::Pipe(Pipe { steps, to })) }
        }
        Ok(ends)
    }

    fn sink_end(&mut self, dataset: &str, sink: &SinkUse, made: &SchemaRef, from: &str) -> Result<PipeEnd> {
        let mut keys = sink.keys.clone();
        if keys.is_empty() && sink.plan.distribution == Distribution::ByKey && sink.plan.wants_keys {
            keys.push(hidden::KEY.to_string());
        }
        if sink.what != (Written::Output { changelog: true }) {
            return Ok(PipeEnd::Edge(self.edge(from, &sink_id(dataset), 0, made, keys)));
        }
        let factory = Arc::new(Changelog::new(made)?);
        let schema = StepFactory::output_schema(factory.as_ref());
        let edge = self.edge(from, &sink_id(dataset), 0, &schema, keys);
        let stage = self.settled.structure.producer.get(dataset).map(|index| self.settled.structure.stages[*index].def.id.clone());
        // Nothing of it can fail on a row.
        let step = PipeStep::new(stage.unwrap_or_default(), "changelog", factory, OnBadData::Fail);
        Ok(PipeEnd::Pipe(Pipe { steps: vec![step], to: vec![PipeEnd::Edge(edge)] }))
    }

    fn edge(&mut self, from: &str, to: &str, input: usize, schema: &SchemaRef, keys: Vec<String>) -> EdgeId {
        let id = EdgeId(self.graph.edges.len());
        // The routing is settled when every node knows its tasks.
        let edge =
            EdgeSpec { id, from: from.to_string(), to: to.to_string(), input, schema: Arc::clone(schema), routing: Routing::RoundRobin };
        self.graph.edges.push(edge);
        self.wants.push(keys);
        id
    }

    fn dead_letters_of(&mut self, node: &str, policy: &Policy) {
        if let Some(target) = &policy.dead_letter {
            self.dead.entry(node.to_string()).or_insert_with(|| target.clone());
        }
    }

    fn dead_letter_edges(&mut self) {
        for (node, target) in std::mem::take(&mut self.dead) {
            let edge = self.edge(&node, &sink_id(&target), 0, &bad::dead_letter_schema(), Vec::new());
            if let Some(node) = self.graph.nodes.iter_mut().find(|found| found.id == node) {
                node.bad = tidegate_runtime::graph::BadRoute::Edge(edge);
            }
        }
    }

    /// A sink has as many tasks as the widest node that feeds it, so that rows can be forwarded; what is rare goes to one task.
    fn deal_out_sinks(&mut self, parallelism: usize) {
        let tasks: BTreeMap<String, usize> = self.graph.nodes.iter().map(|node| (node.id.clone(), node.parallelism)).collect();
        for node in &mut self.graph.nodes {
            let NodeKind::Sink(sink) = &node.kind else { continue };
            let Some(used) = self.settled.sinks.get(&sink.dataset) else { continue };
            let widest = match used.what {
                Written::Output { .. } if !used.keys.is_empty() => parallelism,
                Written::Output { .. } => {
                    let feeding = self.graph.edges.iter().filter(|edge| edge.to == node.id).filter_map(|edge| tasks.get(&edge.from));
                    feeding.copied().max().unwrap_or(1)
                }
                Written::Late | Written::DeadLetters => 1,
            };
            node.parallelism = widest.min(sink.plan.max_parallelism.unwrap_or(widest)).max(1);
        }
    }

    fn route(&mut self) -> Result<()> {
        let tasks: BTreeMap<&str, usize> = self.graph.nodes.iter().map(|node| (node.id.as_str(), node.parallelism)).collect();
        let of = |id: &str| tasks.get(id).copied().ok_or_else(|| Error::internal(format!("an edge names the unknown node `{id}`")));
        for (edge, keys) in self.graph.edges.iter_mut().zip(&self.wants) {
            let (from, to) = (of(&edge.from)?, of(&edge.to)?);
            // A single task too must know which vnode a row belongs to: it may have to divide its state.
            edge.routing = if keys.is_empty() {
                if from == to { Routing::Forward } else { Routing::RoundRobin }
            } else {
                Routing::Hash(keys.iter().map(|key| edge.schema.index_of(key)).collect::<std::result::Result<_, _>>()?)
            };
        }
        Ok(())
    }
}

/// A pipe of these steps and ends; a single pipe at the end becomes part of it.
fn rooted(mut steps: Vec<PipeStep>, mut to: Vec<PipeEnd>) -> Pipe {
    while let [PipeEnd::Pipe(_)] = to.as_slice() {
        let Some(PipeEnd::Pipe(only)) = to.pop() else { break };
        steps.extend(only.steps);
        to = only.to;
    }
    Pipe { steps, to }
}

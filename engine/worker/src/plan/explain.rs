//! The plan as text: what is read, which task does what, over which edges rows go, and what comes of it.

use super::Planned;
use super::guarantee::{self, OutputRole, OutputSummary};
use super::physical::{Settled, source_id};
use super::stages::idle_filters;
use arrow::datatypes::Schema;
use std::fmt::{self, Write};
use std::time::Duration;
use tidegate_api::{ChangeMode, EqualTo, FutureRows, OnBadData, TimeSpec, bad, hidden, types};
use tidegate_runtime::graph::{BadRoute, EdgeId, EdgeSpec, Node, NodeKind, Pipe, PipeEnd, Routing};

/// What a plan says about one dataset that it reads.
#[derive(Debug, Clone, PartialEq)]
pub struct SourceSummary {
    /// The dataset.
    pub dataset: String,
    /// The columns asked of it, in its order.
    pub columns: Vec<String>,
    /// How its rows relate to each other.
    pub mode: ChangeMode,
    /// How many it has.
    pub available: usize,
    /// The schema that it resolved for itself, as a pipeline file would declare it; `None` if it is declared.
    pub resolved: Option<String>,
    /// Whether that is the schema that an earlier start of the run resolved.
    pub pinned: bool,
    /// The conditions it applies itself. Rows it leaves out are in `Chunk::filtered`.
    pub applied: Vec<EqualTo>,
    /// The filters that have nothing to do any more; rows that the source leaves out count as filtered by them.
    pub idle_filters: Vec<IdleFilter>,
    /// How it tells time; `None`: no step behind it asks.
    pub time: Option<TimeSpec>,
    /// Whether rows carry their deterministic key.
    pub keys: bool,
    /// Whether it ends.
    pub bounded: bool,
    /// Whether it can be read again after a crash.
    pub replayable: bool,
}

/// A filter whose condition the source applies.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IdleFilter {
    /// The stage.
    pub stage: String,
    /// The step's label, such as `0:filter`.
    pub label: String,
}

/// A part of an expression that is evaluated row by row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RowByRow {
    /// The stage.
    pub stage: String,
    /// The step's label, such as `1:applyExpression`.
    pub label: String,
    /// The part, as it stands in the text.
    pub part: String,
}

/// Finds the parts of expressions that are evaluated row by row.
pub(super) fn row_by_row(settled: &Settled<'_, '_>) -> Vec<RowByRow> {
    let mut found = Vec::new();
    for (stage, typed) in settled.structure.stages.iter().zip(&settled.typing.stages) {
        for (at, part) in typed.iter().flat_map(|typed| &typed.row_by_row) {
            let label = format!("{at}:{}", stage.steps[*at].op());
            found.push(RowByRow { stage: stage.def.id.clone(), label, part: part.clone() });
        }
    }
    found
}

/// Summarises every source.
pub(super) fn sources(settled: &Settled<'_, '_>) -> Vec<SourceSummary> {
    let summary = |(name, asked): (&String, &super::sources::Asked)| SourceSummary {
        dataset: name.clone(),
        columns: visible(&asked.plan.schema).map(str::to_string).collect(),
        mode: asked.plan.mode.clone(),
        resolved: settled.typing.sources.get(name).filter(|plan| plan.pinned.is_some()).map(|plan| declared(&plan.schema)),
        pinned: settled.input.datasets.get(name).is_some_and(|dataset| dataset.pinned.is_some()),
        available: settled.typing.sources.get(name).map_or(0, |plan| visible(&plan.schema).count()),
        applied: asked.applied().cloned().collect(),
        idle_filters: idle_filters(settled.structure, settled.sources, name)
            .into_iter()
            .map(|(stage, label)| IdleFilter { stage, label })
            .collect(),
        time: settled.times.get(name).cloned(),
        keys: asked.request.ordinals,
        bounded: asked.plan.bounded,
        replayable: asked.plan.replayable,
    };
    settled.sources.asked.iter().map(summary).collect()
}

/// A schema as a pipeline file has it.
fn declared(schema: &Schema) -> String {
    let columns = schema.fields().iter().filter(|field| field.name() != bad::RESCUED).map(|field| {
        let (name, required) =
            (serde_json::Value::from(field.name().as_str()), if field.is_nullable() { "" } else { ", nullable = false" });
        format!("{{ name = {name}, type = \"{}\"{required} }}", types::name(field.data_type()))
    });
    format!("schema = [{}]", columns.collect::<Vec<_>>().join(", "))
}

impl Planned {
    /// The task graph for a terminal: nodes with their tasks, the steps chained behind each, every edge with its routing and
    /// schema, the columns asked of each source, and the guarantee of each output.
    pub fn render_text(&self) -> String {
        let mut text = String::new();
        // Writing into a string cannot fail.
        let _ = self.write_text(&mut text);
        text
    }

    /// [`Planned::render_text`], and which parts of expressions run row by row.
    pub fn render_explained(&self) -> String {
        let mut text = self.render_text();
        text.push_str("\nrow by row, because no kernel gives the same values\n");
        if self.row_by_row.is_empty() {
            text.push_str("  nothing\n");
        }
        for RowByRow { stage, label, part } in &self.row_by_row {
            let _ = writeln!(text, "  {stage} {label}  {part}");
        }
        text
    }

    fn write_text(&self, out: &mut String) -> fmt::Result {
        for node in self.in_order() {
            let tasks = if node.parallelism == 1 { "1 task".to_string() } else { format!("{} tasks", node.parallelism) };
            writeln!(out, "{}  {tasks}", node.id)?;
            match &node.kind {
                NodeKind::Source(source) => {
                    if let Some(summary) = self.sources.iter().find(|summary| summary.dataset == source.dataset) {
                        write_source(out, summary)?;
                    }
                    writeln!(out, "  bad rows: {}", policy(source.on_bad))?;
                }
                NodeKind::Operator(operator) => {
                    writeln!(out, "  {}", self.step(&operator.stage, &operator.label))?;
                    writeln!(out, "  bad rows: {}", policy(operator.on_bad))?;
                }
                NodeKind::Sink(sink) => {
                    writeln!(out, "  takes: {}", mode(&sink.mode))?;
                    writeln!(out, "  columns: {}", columns(&sink.schema))?;
                    writeln!(out, "  refused rows: {}", policy(sink.on_bad))?;
                }
            }
            self.write_pipe(out, &node.main, 1)?;
            if let Some(late) = &node.late {
                writeln!(out, "  late rows")?;
                self.write_pipe(out, late, 2)?;
            }
            if let BadRoute::Edge(edge) = node.bad {
                writeln!(out, "  dead letters")?;
                self.write_edge(out, edge, 2)?;
            }
            writeln!(out)?;
        }
        writeln!(out, "outputs")?;
        self.outputs.iter().try_for_each(|output| write_output(out, output))
    }

    /// Sources first, sinks last, consumers after producers.
    pub(super) fn in_order(&self) -> Vec<&Node> {
        let order = self.graph.topological().unwrap_or_else(|_| (0..self.graph.nodes.len()).collect());
        order.into_iter().map(|at| &self.graph.nodes[at]).collect()
    }

    fn step(&self, stage: &str, label: &str) -> String {
        match self.details.get(&(stage.to_string(), label.to_string())).filter(|details| !details.is_empty()) {
            Some(details) => format!("{stage} {label}  {details}"),
            None => format!("{stage} {label}"),
        }
    }

    fn write_pipe(&self, out: &mut String, pipe: &Pipe, depth: usize) -> fmt::Result {
        let indent = "  ".repeat(depth);
        for step in &pipe.steps {
            let said = self.step(&step.stage, &step.label);
            // A step of the planner's own says itself what it keeps.
            let kept = if said.ends_with(&step.label) { format!("  {}", names(&step.factory.output_schema())) } else { String::new() };
            writeln!(out, "{indent}| {said}{kept}")?;
        }
        for end in &pipe.to {
            match end {
                PipeEnd::Pipe(next) => {
                    writeln!(out, "{indent}+")?;
                    self.write_pipe(out, next, depth + 1)?;
                }
                PipeEnd::Edge(edge) => self.write_edge(out, *edge, depth)?,
            }
        }
        Ok(())
    }

    fn write_edge(&self, out: &mut String, edge: EdgeId, depth: usize) -> fmt::Result {
        let indent = "  ".repeat(depth);
        let Some(edge) = self.graph.edge(edge) else { return Ok(()) };
        let input = if edge.input == 0 { String::new() } else { format!(" input {}", edge.input) };
        writeln!(out, "{indent}-> {}{input}  {}", edge.to, routing(edge))?;
        writeln!(out, "{indent}   {}", columns(&edge.schema))
    }
}

fn write_source(out: &mut String, source: &SourceSummary) -> fmt::Result {
    writeln!(out, "  reads {} of {} columns: {}", source.columns.len(), source.available, source.columns.join(", "))?;
    if source.mode != ChangeMode::Append {
        writeln!(out, "  rows: {}", mode(&source.mode))?;
    }
    let ends = if source.bounded { "it ends" } else { "it does not end" };
    let again = if source.replayable { "can be read again" } else { "cannot be read again" };
    writeln!(out, "  {ends}, {again}{}", if source.keys { ", rows carry their keys" } else { "" })?;
    if let Some(schema) = &source.resolved {
        let when = if source.pinned { "as inferred when the run began" } else { "inferred, and kept for the whole run" };
        writeln!(out, "  {when}: {schema}")?;
    }
    for condition in &source.applied {
        writeln!(out, "  leaves out rows itself: {}", equals(condition))?;
    }
    for filter in &source.idle_filters {
        writeln!(out, "  in place of: {} {}", filter.stage, filter.label)?;
    }
    match &source.time {
        Some(time) => writeln!(out, "  time: {}", time_spec(time)),
        None => Ok(()),
    }
}

fn write_output(out: &mut String, output: &OutputSummary) -> fmt::Result {
    let role = match output.role {
        OutputRole::Rows => "",
        OutputRole::LateRows => ", late rows",
        OutputRole::DeadLetters => ", dead letters",
    };
    let changelog = match (&output.mode, output.keys.is_empty()) {
        (ChangeMode::Append, false) => format!("changes by {}", output.keys.join(", ")),
        (mode_of, _) => mode(mode_of),
    };
    writeln!(out, "  {}: {changelog}{role}, {}", output.dataset, guarantee::name(output.guarantee))?;
    for reason in &output.lowered_by {
        writeln!(out, "    because {reason}")?;
    }
    // What lowers the guarantee has been said.
    for clock in output.clocks.iter().filter(|clock| !output.lowered_by.iter().any(|reason| reason.starts_with(*clock))) {
        writeln!(out, "    {clock}: reading the input again gives other rows")?;
    }
    Ok(())
}

/// `hash(auction)` and so on.
pub(super) fn routing(edge: &EdgeSpec) -> String {
    match &edge.routing {
        Routing::Forward => "forward".to_string(),
        Routing::Hash(keys) => {
            let keys: Vec<&str> = keys.iter().map(|at| edge.schema.field(*at).name().as_str()).collect();
            format!("hash({})", keys.join(", "))
        }
        Routing::RoundRobin => "round robin".to_string(),
        Routing::Broadcast => "broadcast".to_string(),
    }
}

fn columns(schema: &Schema) -> String {
    let column = |field: &arrow::datatypes::FieldRef| format!("{}: {}", field.name(), types::name(field.data_type()));
    schema.fields().iter().map(column).collect::<Vec<_>>().join(", ")
}

fn visible(schema: &Schema) -> impl Iterator<Item = &str> {
    schema.fields().iter().map(|field| field.name().as_str()).filter(|name| !hidden::is_hidden(name))
}

fn names(schema: &Schema) -> String {
    schema.fields().iter().map(|field| field.name().as_str()).collect::<Vec<_>>().join(", ")
}

fn mode(mode: &ChangeMode) -> String {
    match mode {
        ChangeMode::Append => "append".to_string(),
        ChangeMode::Upsert { keys } => format!("upsert by {}", keys.join(", ")),
    }
}

fn policy(on_bad: OnBadData) -> &'static str {
    match on_bad {
        OnBadData::Fail => "end the run",
        OnBadData::Drop => "are counted and left out",
        OnBadData::DeadLetter => "become dead letters",
        OnBadData::Rescue => "are kept with their text",
    }
}

fn equals(condition: &EqualTo) -> String {
    let values: Vec<String> = condition.values.iter().map(ToString::to_string).collect();
    match values.as_slice() {
        [one] => format!("{} == {one}", condition.column),
        several => format!("{} in ({})", condition.column, several.join(", ")),
    }
}

fn time_spec(time: &TimeSpec) -> String {
    let mut text = format!("{}, out of order by {}", time.column, duration(time.out_of_orderness));
    if let Some(idle) = time.idle_timeout {
        let _ = write!(text, ", idle after {}", duration(idle));
    }
    if let Some(skew) = time.max_future_skew {
        let future = match time.future_rows {
            FutureRows::Late => "late",
            FutureRows::Keep => "kept",
        };
        let _ = write!(text, ", {future} when {} ahead", duration(skew));
    }
    if time.splits_in_order {
        text.push_str(", splits in order");
    }
    text
}

/// A duration in the largest unit that shows it whole.
fn duration(duration: Duration) -> String {
    let millis = duration.as_millis();
    let units = [(86_400_000, "d"), (3_600_000, "h"), (60_000, "m"), (1000, "s")];
    match units.iter().find(|(unit, _)| millis > 0 && millis.is_multiple_of(*unit)) {
        Some((unit, name)) => format!("{}{name}", millis / unit),
        None if millis == 0 => "0s".to_string(),
        None => format!("{millis}ms"),
    }
}

/// Whether a source's node is this one's.
pub(super) fn is_source(node: &Node, summary: &SourceSummary) -> bool {
    node.id == source_id(&summary.dataset)
}

/// The visible columns of a schema, for a label.
pub(super) fn visible_names(schema: &arrow::datatypes::SchemaRef) -> String {
    names(&hidden::visible_schema(schema))
}

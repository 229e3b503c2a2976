//! What tasks count, and what anybody may read while they run.
//!
//! Counters are raised once per batch. They add up, and tests hold them to it:
//! a source's in = out + filtered + late + bad; a row-wise step's in = out + filtered + bad; an operator's
//! in = absorbed + filtered + late + bad; an edge's sent = received once the run has ended. Rows late for some of their windows only
//! are absorbed, and counted in `late_windows`; bad rows that an operator made of its state are counted apart, in `bad_output`.

use crate::graph::{JobGraph, Node, NodeKind, Pipe, PipeEnd};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use tidegate_api::{BadReason, BadRow, Counter, ErrorKind, EventTime, Gauge, OutsideMeters, Watermark};

/// Bad rows by reason.
#[derive(Debug, Clone, Default)]
pub(crate) struct BadCounts([Counter; BadReason::ALL.len()]);

impl BadCounts {
    pub(crate) fn add(&self, rows: &[BadRow]) {
        for row in rows {
            self.0[row.reason as usize].add(1);
        }
    }

    fn read(&self) -> BTreeMap<&'static str, u64> {
        let counts = BadReason::ALL.iter().map(|reason| (reason.label(), self.0[*reason as usize].get()));
        counts.filter(|(_, count)| *count > 0).collect()
    }
}

/// Errors of a connector by kind, those included after which a call was repeated.
#[derive(Debug, Clone, Default)]
pub(crate) struct ErrorCounts([Counter; 6]);

impl ErrorCounts {
    fn place(kind: ErrorKind) -> usize {
        match kind {
            ErrorKind::Config => 0,
            ErrorKind::Data => 1,
            ErrorKind::External { .. } => 2,
            ErrorKind::Fenced => 3,
            ErrorKind::Limit => 4,
            ErrorKind::Internal => 5,
        }
    }

    pub(crate) fn add(&self, kind: ErrorKind) {
        self.0[Self::place(kind)].add(1);
    }

    fn read(&self) -> BTreeMap<&'static str, u64> {
        use ErrorKind::{Config, Data, External, Fenced, Internal, Limit};
        let kinds = [Config, Data, External { retry: tidegate_api::Retry::No }, Fenced, Limit, Internal];
        let counts = kinds.into_iter().map(|kind| (kind.name(), self.0[Self::place(kind)].get()));
        counts.filter(|(_, count)| *count > 0).collect()
    }
}

/// The counters of one stateless step, over all tasks.
#[derive(Debug, Clone, Default)]
pub(crate) struct StepCounters {
    pub(crate) rows_in: Counter,
    pub(crate) rows_out: Counter,
    pub(crate) filtered: Counter,
    pub(crate) bad: BadCounts,
}

/// The counters of one node, over all tasks.
#[derive(Debug, Clone, Default)]
pub(crate) struct NodeCounters {
    pub(crate) rows_in: Counter,
    pub(crate) rows_out: Counter,
    pub(crate) filtered: Counter,
    pub(crate) absorbed: Counter,
    pub(crate) late: Counter,
    pub(crate) late_windows: Counter,
    pub(crate) bad: BadCounts,
    pub(crate) bad_output: Counter,
    pub(crate) errors: ErrorCounts,
}

/// Stands for an idle task; one microsecond from the beginning of time, where no watermark is.
const IDLE: i64 = i64::MIN + 1;

/// A watermark that a task publishes for those who watch.
#[derive(Debug)]
pub(crate) struct WatermarkGauge(AtomicI64);

impl WatermarkGauge {
    fn new() -> Self {
        WatermarkGauge(AtomicI64::new(i64::MIN))
    }

    pub(crate) fn set(&self, watermark: Watermark) {
        let value = match watermark {
            Watermark::At(at) => at.0,
            Watermark::Idle => IDLE,
        };
        self.0.store(value, Ordering::Relaxed);
    }

    /// `None` while idle.
    pub(crate) fn get(&self) -> Option<EventTime> {
        Some(self.0.load(Ordering::Relaxed)).filter(|value| *value != IDLE).map(EventTime)
    }
}

/// What one node's tasks share.
#[derive(Debug)]
pub(crate) struct NodeMeters {
    pub(crate) counters: NodeCounters,
    /// In the order in which [`walk`] meets the steps.
    pub(crate) steps: Vec<(StepName, StepCounters)>,
    /// Per task.
    pub(crate) watermarks: Vec<WatermarkGauge>,
    /// Per task.
    pub(crate) state_bytes: Vec<Counter>,
    /// Per task, the part of it on disk.
    pub(crate) spilled_bytes: Vec<Counter>,
    pub(crate) spills: Counter,
    /// Per task, what a source's reader or a sink's writer tells of its outside.
    pub(crate) outside: Vec<OutsideMeters>,
}

/// Names a step for those who read metrics.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct StepName {
    stage: String,
    label: String,
}

/// Rows through one edge, over all its tasks.
#[derive(Debug, Clone, Default)]
pub(crate) struct EdgeCounters {
    pub(crate) sent: Counter,
    pub(crate) received: Counter,
}

/// All counters of one attempt at a job. A restart begins with new ones, as it begins with new tasks.
#[derive(Debug, Default)]
pub(crate) struct Meters {
    /// In the graph's order.
    pub(crate) nodes: Vec<(String, NodeRole, Arc<NodeMeters>)>,
    /// In the graph's order.
    pub(crate) edges: Vec<(usize, EdgeCounters)>,
}

/// What a node is, for those who read metrics.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NodeRole {
    /// Reads this dataset.
    Source(String),
    /// Runs this stage's stateful operator.
    Operator(String),
    /// Writes this dataset.
    Sink(String),
}

impl Meters {
    pub(crate) fn new(graph: &JobGraph) -> Self {
        let nodes = graph.nodes.iter().map(|node| {
            let mut steps = Vec::new();
            walk(node, &mut |stage, label| steps.push((StepName { stage: stage.into(), label: label.into() }, StepCounters::default())));
            let meters = NodeMeters {
                counters: NodeCounters::default(),
                steps,
                watermarks: (0..node.parallelism).map(|_| WatermarkGauge::new()).collect(),
                state_bytes: (0..node.parallelism).map(|_| Counter::new()).collect(),
                spilled_bytes: (0..node.parallelism).map(|_| Counter::new()).collect(),
                spills: Counter::new(),
                outside: (0..node.parallelism).map(|_| OutsideMeters::default()).collect(),
            };
            let role = match &node.kind {
                NodeKind::Source(source) => NodeRole::Source(source.dataset.clone()),
                NodeKind::Operator(operator) => NodeRole::Operator(operator.stage.clone()),
                NodeKind::Sink(sink) => NodeRole::Sink(sink.dataset.clone()),
            };
            (node.id.clone(), role, Arc::new(meters))
        });
        Meters { nodes: nodes.collect(), edges: graph.edges.iter().map(|edge| (edge.id.0, EdgeCounters::default())).collect() }
    }

    pub(crate) fn snapshot(&self) -> MetricsSnapshot {
        MetricsSnapshot {
            nodes: self.nodes.iter().map(|(id, role, meters)| NodeSnapshot::of(id, role, meters)).collect(),
            edges: self
                .edges
                .iter()
                // Received first: a row in between is then seen as under way, not as made of nothing.
                .map(|(id, counters)| {
                    let received = counters.received.get();
                    EdgeSnapshot { edge: *id, received, sent: counters.sent.get() }
                })
                .collect(),
        }
    }
}

/// Visits the steps of a node in a fixed order: `main` before `late`, a pipe's own before those behind it.
fn walk(node: &Node, visit: &mut impl FnMut(&str, &str)) {
    fn pipe(at: &Pipe, visit: &mut impl FnMut(&str, &str)) {
        at.steps.iter().for_each(|step| visit(&step.stage, &step.label));
        for end in &at.to {
            match end {
                PipeEnd::Pipe(next) => pipe(next, visit),
                PipeEnd::Edge(_) => {}
            }
        }
    }
    pipe(&node.main, visit);
    if let Some(late) = &node.late {
        pipe(late, visit);
    }
}

/// All counters at one moment.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct MetricsSnapshot {
    /// By node, in the graph's order.
    pub nodes: Vec<NodeSnapshot>,
    /// By edge, in the graph's order.
    pub edges: Vec<EdgeSnapshot>,
}

/// A node's counters at one moment.
#[derive(Debug, Clone, PartialEq)]
pub struct NodeSnapshot {
    /// The node's id.
    pub id: String,
    /// What it does.
    pub role: NodeRole,
    /// Rows that came in; for a source, rows its reader handed over, bad and filtered ones too.
    pub rows_in: u64,
    /// Rows that went on to the steps behind it; for a sink, rows written.
    pub rows_out: u64,
    /// Rows left out on purpose.
    pub filtered: u64,
    /// Rows an operator took into its state.
    pub absorbed: u64,
    /// Late rows; at a source, rows from too far in the future.
    pub late: u64,
    /// Rows late for some of their windows.
    pub late_windows: u64,
    /// Bad rows by reason.
    pub bad: BTreeMap<&'static str, u64>,
    /// Bad rows among those that an operator made of its state.
    pub bad_output: u64,
    /// The lowest watermark of its tasks that are not idle; `MIN` when one has promised nothing, or all are idle.
    pub watermark: EventTime,
    /// State in bytes, over all tasks.
    pub state_bytes: u64,
    /// The part of the state that lies on disk for want of memory.
    pub spilled_bytes: u64,
    /// How often a part of the state left memory.
    pub spills: u64,
    /// Bytes that a connector has read from or written to the outside, as far as it counts them.
    pub bytes: u64,
    /// Attempts that a connector repeated by itself.
    pub retries: u64,
    /// Errors of a connector by kind.
    pub errors: BTreeMap<&'static str, u64>,
    /// Rows or messages that lie ready outside and were not read; `None` where no task of the source knows.
    pub behind_rows: Option<u64>,
    /// The same in bytes.
    pub behind_bytes: Option<u64>,
    /// The stateless steps behind it.
    pub steps: Vec<StepSnapshot>,
}

impl NodeSnapshot {
    fn of(id: &str, role: &NodeRole, meters: &NodeMeters) -> Self {
        let counters = &meters.counters;
        NodeSnapshot {
            id: id.to_string(),
            role: role.clone(),
            rows_in: counters.rows_in.get(),
            rows_out: counters.rows_out.get(),
            filtered: counters.filtered.get(),
            absorbed: counters.absorbed.get(),
            late: counters.late.get(),
            late_windows: counters.late_windows.get(),
            bad: counters.bad.read(),
            bad_output: counters.bad_output.get(),
            watermark: meters.watermarks.iter().filter_map(WatermarkGauge::get).min().unwrap_or(EventTime::MIN),
            state_bytes: meters.state_bytes.iter().map(Counter::get).sum(),
            spilled_bytes: meters.spilled_bytes.iter().map(Counter::get).sum(),
            spills: meters.spills.get(),
            bytes: meters.outside.iter().map(|outside| outside.bytes.get()).sum(),
            retries: meters.outside.iter().map(|outside| outside.retries.get()).sum(),
            errors: counters.errors.read(),
            behind_rows: known(meters.outside.iter().map(|outside| &outside.behind_rows)),
            behind_bytes: known(meters.outside.iter().map(|outside| &outside.behind_bytes)),
            steps: meters.steps.iter().map(|(name, counters)| StepSnapshot::of(name, counters)).collect(),
        }
    }

    /// All bad rows.
    pub fn bad_total(&self) -> u64 {
        self.bad.values().sum()
    }
}

/// The sum of what is known; a task without splits knows nothing and changes nothing.
fn known<'a>(gauges: impl Iterator<Item = &'a Gauge>) -> Option<u64> {
    gauges.filter_map(Gauge::get).reduce(u64::saturating_add)
}

/// A step's counters at one moment.
#[derive(Debug, Clone, PartialEq)]
pub struct StepSnapshot {
    /// The stage it belongs to.
    pub stage: String,
    /// Its label.
    pub label: String,
    /// Rows that came in.
    pub rows_in: u64,
    /// Rows it made.
    pub rows_out: u64,
    /// Rows left out on purpose.
    pub filtered: u64,
    /// Bad rows by reason.
    pub bad: BTreeMap<&'static str, u64>,
}

impl StepSnapshot {
    fn of(name: &StepName, counters: &StepCounters) -> Self {
        StepSnapshot {
            stage: name.stage.clone(),
            label: name.label.clone(),
            rows_in: counters.rows_in.get(),
            rows_out: counters.rows_out.get(),
            filtered: counters.filtered.get(),
            bad: counters.bad.read(),
        }
    }

    /// All bad rows.
    pub fn bad_total(&self) -> u64 {
        self.bad.values().sum()
    }
}

/// An edge's counters at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EdgeSnapshot {
    /// The edge's id.
    pub edge: usize,
    /// Rows its producers have sent.
    pub sent: u64,
    /// Rows its consumers have received.
    pub received: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_are_counted_by_kind_and_only_those_that_came() {
        let errors = ErrorCounts::default();
        errors.add(tidegate_api::Error::external("away").kind());
        errors.add(tidegate_api::Error::retryable("busy", std::time::Duration::ZERO).kind());
        errors.add(ErrorKind::Limit);
        assert_eq!(errors.read(), BTreeMap::from([("external", 2), ("limit", 1)]));
    }

    #[test]
    fn a_task_that_does_not_know_changes_nothing_and_nobody_knowing_is_not_zero() {
        let tasks = [Gauge::default(), Gauge::default(), Gauge::default()];
        assert_eq!(known(tasks.iter()), None);
        tasks[0].set(Some(3));
        tasks[2].set(Some(u64::MAX));
        assert_eq!(known(tasks.iter()), Some(u64::MAX));
        tasks[2].set(None);
        assert_eq!(known(tasks.iter()), Some(3));
    }
}

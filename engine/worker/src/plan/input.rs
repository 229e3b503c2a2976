//! What the planner is given: stages, datasets already resolved to their halves, and the settings that shape a plan.

use crate::control::Topology;
use arrow::datatypes::SchemaRef;
use serde_json::Value;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use tidegate_api::config::Problem;
use tidegate_api::{FutureRows, Guarantee, InlineSource, OnBadData, OutputSink, TimeSpec};
use tidegate_dialect::Functions;
use tidegate_operators::StepDef;

/// Everything a plan depends on.
pub struct PlanInput<'a> {
    /// The stages, in the order of the file.
    pub topology: &'a Topology,
    /// The datasets, by name. One that only stages produce and read need not be here.
    pub datasets: BTreeMap<String, Dataset>,
    /// Defaults and limits.
    pub settings: PlanSettings,
    /// Reads one step; the worker puts its own steps before those of the operators.
    pub steps: &'a dyn StepParser,
    /// The functions that expressions may call.
    pub functions: Functions,
}

/// Turns a step of the pipeline file into a definition that can be bound.
pub trait StepParser {
    /// Reads one step.
    ///
    /// # Errors
    /// Every mistake in it, with paths inside the step.
    fn parse(&self, step: &Value) -> Result<Box<dyn StepDef>, Vec<Problem>>;
}

/// The steps of `tidegate-operators` and no others.
#[derive(Debug, Clone, Copy, Default)]
pub struct NativeSteps;

impl StepParser for NativeSteps {
    fn parse(&self, step: &Value) -> Result<Box<dyn StepDef>, Vec<Problem>> {
        tidegate_operators::parse_step(step)
    }
}

/// A dataset: how it is read and written, and what the file says about its rows. The half that the plan does not use is never asked.
#[derive(Clone, Default)]
pub struct Dataset {
    /// The reading half.
    pub source: Option<Arc<dyn InlineSource>>,
    /// The writing half.
    pub sink: Option<Arc<dyn OutputSink>>,
    /// What a manifest keeps of the sink's options; secrets by reference only.
    pub sink_config: Value,
    /// What the reading half resolved when the run began; see [`tidegate_api::SourceRequest::pinned`].
    pub pinned: Option<String>,
    /// Whether it is written although a stage reads it.
    pub publishes: bool,
    /// The keys that are not the connector's.
    pub options: DatasetOptions,
    /// The columns that a dataset that could not be resolved is thought to have, so that its readers are judged all the same.
    pub sketch: Option<SchemaRef>,
}

impl Dataset {
    /// A dataset that could not be resolved, for a reason that is reported already: the plan fails without saying more about it.
    pub fn unresolved() -> Self {
        Dataset::default()
    }

    /// Sets the columns it is thought to have.
    #[must_use]
    pub fn with_sketch(mut self, sketch: Option<SchemaRef>) -> Self {
        self.sketch = sketch;
        self
    }

    /// Whether it could not be resolved.
    pub(super) fn is_unresolved(&self) -> bool {
        self.source.is_none() && self.sink.is_none()
    }

    /// A dataset that is read.
    pub fn reading(source: Arc<dyn InlineSource>) -> Self {
        Dataset { source: Some(source), ..Dataset::default() }
    }

    /// A dataset that is written.
    pub fn writing(sink: Arc<dyn OutputSink>) -> Self {
        Dataset { sink_config: sink.config(), sink: Some(sink), ..Dataset::default() }
    }

    /// Sets the keys that are not the connector's.
    #[must_use]
    pub fn with_options(mut self, options: DatasetOptions) -> Self {
        self.options = options;
        self
    }

    /// Says that it is written although a stage reads it.
    #[must_use]
    pub fn with_publishes(mut self, publishes: bool) -> Self {
        self.publishes = publishes;
        self
    }
}

/// The keys of a dataset that are not its connector's.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct DatasetOptions {
    /// How its rows tell time.
    pub time: Option<TimeOptions>,
    /// What to do with its bad rows.
    pub on_bad: Option<OnBadData>,
    /// The dataset that takes its bad rows.
    pub dead_letter: Option<String>,
    /// The least guarantee it may be written with.
    pub require: Option<Guarantee>,
    /// Whether an upsert output is written as rows with a visible `op`.
    pub changelog: bool,
}

/// A dataset's `time`; what is not said is a default of the settings.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TimeOptions {
    /// The event-time column.
    pub column: Option<String>,
    /// How far a row may lag behind the newest of its split.
    pub out_of_orderness: Option<Duration>,
    /// A caught-up split without rows for this long leaves the minimum.
    pub idle_timeout: Option<Duration>,
    /// A row further ahead than this never moves the watermark.
    pub max_future_skew: Option<Duration>,
    /// Where such a row goes.
    pub future_rows: FutureRows,
    /// Later splits hold no earlier rows.
    pub splits_in_order: bool,
}

/// The settings that shape a plan.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlanSettings {
    /// Tasks per node, where nothing limits them.
    pub parallelism: usize,
    /// The default bad-data policy.
    pub on_bad: OnBadData,
    /// The default dead-letter dataset.
    pub dead_letter: Option<String>,
    /// The default disorder.
    pub out_of_orderness: Duration,
    /// The default time to idleness.
    pub idle_timeout: Duration,
    /// The default guard against rows from the future.
    pub max_future_skew: Duration,
}

impl PlanSettings {
    /// The defaults of the vocabulary, with this many tasks per node.
    pub fn new(parallelism: usize) -> Self {
        let time = TimeSpec::new("");
        PlanSettings {
            parallelism: parallelism.max(1),
            on_bad: OnBadData::Fail,
            dead_letter: None,
            out_of_orderness: time.out_of_orderness,
            idle_timeout: Duration::from_secs(30),
            max_future_skew: Duration::from_secs(3600),
        }
    }

    /// How a dataset tells time by `column`.
    pub(super) fn time_spec(&self, column: &str, options: Option<&TimeOptions>) -> TimeSpec {
        let given = options.cloned().unwrap_or_default();
        let mut spec = TimeSpec::new(column);
        spec.out_of_orderness = given.out_of_orderness.unwrap_or(self.out_of_orderness);
        spec.idle_timeout = Some(given.idle_timeout.unwrap_or(self.idle_timeout));
        spec.max_future_skew = Some(given.max_future_skew.unwrap_or(self.max_future_skew));
        spec.future_rows = given.future_rows;
        spec.splits_in_order = given.splits_in_order;
        spec
    }
}

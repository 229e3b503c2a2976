//! What a step is before it runs: parsed, then bound.

use arrow::datatypes::SchemaRef;
use serde_json::{Map, Value};
use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;
use tidegate_api::config::Problem;
use tidegate_api::nearest::hint;
use tidegate_api::{ChangeMode, EqualTo, OperatorFactory, StepFactory};
use tidegate_dialect::Functions;

/// The rows that flow between two steps.
#[derive(Debug, Clone, PartialEq)]
pub struct StreamType {
    /// The columns, hidden ones (`_key`, `_op`) behind the visible.
    pub schema: SchemaRef,
    /// Append or upsert.
    pub mode: ChangeMode,
}

impl StreamType {
    /// Rows that are final.
    pub fn append(schema: SchemaRef) -> Self {
        StreamType { schema, mode: ChangeMode::Append }
    }
}

/// What the plan asks of a step beside its own keys.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct BindCtx {
    /// Operators make the hidden `_key` column, steps carry it. Without it steps leave a `_key` they find out.
    pub keys: bool,
    /// The output columns that anybody reads; `None` for all. An inline step leaves the others out of its output, so that a
    /// filter does not copy the column it tested. Operators keep their output, since it is part of their state.
    pub needed: Option<BTreeSet<String>>,
    /// Conditions that the source applies already. A filter that says nothing else tests nothing and reads no column.
    pub applied: Vec<EqualTo>,
    /// The functions that expressions may call; the dialect's own, unless a host has added some.
    pub functions: Functions,
    /// Every start reads the last input, a table, anew and whole; see [`tidegate_api::SourcePlan::reloads`].
    pub reloads: bool,
}

impl BindCtx {
    /// No keys, every column.
    pub fn new() -> Self {
        BindCtx::default()
    }

    /// Sets the functions that expressions may call.
    #[must_use]
    pub fn with_functions(mut self, functions: Functions) -> Self {
        self.functions = functions;
        self
    }

    /// Sets whether every start reads the last input anew.
    #[must_use]
    pub fn with_reloads(mut self, reloads: bool) -> Self {
        self.reloads = reloads;
        self
    }

    /// Sets whether rows carry keys.
    #[must_use]
    pub fn with_keys(mut self, keys: bool) -> Self {
        self.keys = keys;
        self
    }

    /// Sets the output columns that anybody reads.
    #[must_use]
    pub fn with_needed(mut self, needed: BTreeSet<String>) -> Self {
        self.needed = Some(needed);
        self
    }

    /// Sets the conditions that the source applies already.
    #[must_use]
    pub fn with_applied(mut self, applied: Vec<EqualTo>) -> Self {
        self.applied = applied;
        self
    }
}

/// What runs.
#[derive(Clone)]
pub enum BoundNode {
    /// Chained on the thread of what feeds it.
    Step(Arc<dyn StepFactory>),
    /// A task of its own.
    Operator {
        /// Opens one operator per task.
        factory: Arc<dyn OperatorFactory>,
        /// Per input, the columns whose hash decides a row's vnode. None: every row goes to one vnode.
        keys: Vec<Vec<String>>,
    },
}

impl fmt::Debug for BoundNode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            BoundNode::Step(factory) => f.debug_tuple("Step").field(&factory.name()).finish(),
            BoundNode::Operator { factory, keys } => f.debug_struct("Operator").field("name", &factory.name()).field("keys", keys).finish(),
        }
    }
}

/// Output columns needed -> input columns needed, per input. What a step always needs is part of every answer.
pub type Required = Box<dyn Fn(&BTreeSet<String>) -> Vec<BTreeSet<String>> + Send + Sync>;

/// A step typed against its inputs.
pub struct Bound {
    /// What it makes.
    pub output: StreamType,
    /// What runs.
    pub node: BoundNode,
    /// Which input columns serve given output columns.
    pub required: Required,
    /// `filter` only: conjuncts `column == literal` or `column in (…)` that may be offered to a source.
    pub equals: Vec<EqualTo>,
    /// One line for `plan`.
    pub details: String,
}

impl fmt::Debug for Bound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Bound")
            .field("output", &self.output)
            .field("node", &self.node)
            .field("equals", &self.equals)
            .field("details", &self.details)
            .finish_non_exhaustive()
    }
}

/// A parsed step that is not yet typed.
pub trait StepDef: Send + Sync + fmt::Debug {
    /// Its `op`.
    fn op(&self) -> &'static str;

    /// Per input, the event-time column of an event-time step; `[None]` for the rest.
    fn time_columns(&self) -> Vec<Option<String>> {
        vec![None]
    }

    /// The dataset that takes the step's late rows.
    fn late_output(&self) -> Option<&str> {
        None
    }

    /// Whether it keeps the rows of every split of a source apart, and reads [`tidegate_api::hidden::SPLIT`] of them.
    fn keeps_splits_apart(&self) -> bool {
        false
    }

    /// Types the step. Pure; called again after column pruning with narrower inputs.
    ///
    /// # Errors
    /// Every mistake, each with its path inside the step.
    fn bind(&self, inputs: &[StreamType], cx: &BindCtx) -> Result<Bound, Vec<Problem>>;
}

/// One key of a step, for `tidegate steps` and `docs/steps.md`.
#[derive(Debug, Clone, Copy)]
pub struct KeyInfo {
    /// The key, such as `windowMs`.
    pub name: &'static str,
    /// What it takes, such as `expression`; ends with `?` when the key may be left out.
    pub takes: &'static str,
    /// What it means.
    pub text: &'static str,
}

/// One step, for the parser, `tidegate steps` and `docs/steps.md`.
#[derive(Debug, Clone, Copy)]
pub struct StepInfo {
    /// Its `op`.
    pub op: &'static str,
    /// What it does.
    pub summary: &'static str,
    /// Its keys beside `op`.
    pub keys: &'static [KeyInfo],
    /// What comes out.
    pub output: &'static str,
    /// A step as it stands in a pipeline file (TOML).
    pub example: &'static str,
    /// Reads it.
    pub parse: ParseStep,
}

/// Reads a step of one kind, or answers every mistake in it.
pub type ParseStep = fn(&Map<String, Value>) -> Result<Box<dyn StepDef>, Vec<Problem>>;

/// Every step of this crate.
pub const STEPS: &[StepInfo] = &[
    crate::select::INFO,
    crate::drop::INFO,
    crate::rename::INFO,
    crate::filter::INFO,
    crate::apply_expression::INFO,
    crate::cast::INFO,
    crate::lookup::INFO,
    crate::union::INFO,
    crate::unnest::INFO,
    crate::window::INFO,
    crate::session::INFO,
    crate::dedup::INFO,
    crate::top::INFO,
    crate::join::INFO,
    crate::last::INFO,
    crate::total::INFO,
];

/// Reads a step by its `op`.
///
/// # Errors
/// Every mistake, each with its path inside the step; an unknown `op` names the nearest known one.
pub fn parse_step(step: &Value) -> Result<Box<dyn StepDef>, Vec<Problem>> {
    let at = |path: &[&str], message: String| vec![Problem::new(path.iter().map(|key| (*key).to_string()).collect(), message)];
    let Some(map) = step.as_object() else {
        return Err(at(&[], "a step is a table with an `op`, such as `{ op = \"filter\", expression = \"price > 10\" }`".into()));
    };
    let Some(op) = map.get("op") else {
        return Err(at(&[], "a step needs an `op`".into()));
    };
    let Some(op) = op.as_str() else {
        return Err(at(&["op"], format!("`op` is a text, not `{op}`")));
    };
    match STEPS.iter().find(|info| info.op == op) {
        Some(info) => (info.parse)(map),
        None => Err(at(&["op"], format!("unknown step `{op}`{}", hint(op, STEPS.iter().map(|info| info.op))))),
    }
}

/// The input of a step that has exactly one.
///
/// # Errors
/// When it has more or none.
pub(crate) fn one_input(inputs: &[StreamType]) -> Result<&StreamType, Vec<Problem>> {
    match inputs {
        [input] => Ok(input),
        other => Err(vec![Problem::whole(format!("this step takes one input, not {}", other.len()))]),
    }
}

/// Refuses to change a column by which upsert rows replace each other.
///
/// # Errors
/// When `column` is such a key.
pub(crate) fn not_a_key(input: &StreamType, column: &str, path: &[&str]) -> Result<(), Vec<Problem>> {
    match &input.mode {
        ChangeMode::Upsert { keys } if keys.iter().any(|key| key == column) => {
            Err(vec![crate::expression::at(path, format!("`{column}` is a key of the upsert rows that come in; it must stay as it is"))])
        }
        ChangeMode::Upsert { .. } | ChangeMode::Append => Ok(()),
    }
}

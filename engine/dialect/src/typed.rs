//! A typed expression and its compiled form: what the rest of the engine sees.

use crate::compile::{self, Plan};
use crate::equals::{self, Equals};
use crate::host::Functions;
use crate::node::{Kind, Node};
use crate::reference::{self, Row};
use crate::value::{Value, build};
use crate::{Diagnostic, binder, parse};
use arrow::array::{Array, ArrayRef, RecordBatch, RecordBatchOptions, TimestampMicrosecondArray, new_empty_array};
use arrow::compute::concat;
use arrow::datatypes::{DataType, SchemaRef};
use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;
use tidegate_api::EventTime;

/// Batches no larger than this are not halved any further in search of a bad row.
const SMALLEST_HALF: usize = 64;

/// Parses `text` and types it against `schema`.
///
/// # Errors
/// What is wrong and where: a syntax error, an unknown column or function, a wrong type or number of arguments, or a part
/// that would fail for every row.
pub fn bind(text: &str, schema: &SchemaRef) -> Result<Typed, Diagnostic> {
    bind_with(text, schema, &Functions::standard())
}

pub(crate) fn bind_with(text: &str, schema: &SchemaRef, functions: &Functions) -> Result<Typed, Diagnostic> {
    let expr = parse::parse(text)?;
    let node = binder::bind(text, &expr, schema, functions)?;
    let mut columns = BTreeSet::new();
    let mut uses_now = false;
    node.walk(&mut |node| match &node.kind {
        Kind::Column { name, .. } => {
            columns.insert(name.clone());
        }
        Kind::Now => uses_now = true,
        _ => {}
    });
    // What cannot be translated is evaluated row by row: that changes its speed, never its meaning.
    let plan = compile::translate(&node, schema).ok();
    let equals = equals::of(&node);
    Ok(Typed(Arc::new(Inner { text: text.to_string(), node, columns, uses_now, equals, plan })))
}

/// An expression whose columns, functions and types are settled. Cheap to clone.
#[derive(Clone)]
pub struct Typed(Arc<Inner>);

struct Inner {
    text: String,
    node: Node,
    columns: BTreeSet<String>,
    uses_now: bool,
    equals: Equals,
    plan: Option<Plan>,
}

impl fmt::Debug for Typed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Typed").field("text", &self.0.text).field("data_type", &self.0.node.ty).finish_non_exhaustive()
    }
}

impl Typed {
    /// The text it was bound from.
    pub fn text(&self) -> &str {
        &self.0.text
    }

    /// The type of its values. Text is `Utf8View` whatever the layout of the column it comes from.
    pub fn data_type(&self) -> &DataType {
        &self.0.node.ty
    }

    /// The columns it reads.
    pub fn columns(&self) -> &BTreeSet<String> {
        &self.0.columns
    }

    /// Whether it depends on `now()`.
    pub fn uses_now(&self) -> bool {
        self.0.uses_now
    }

    /// Whether some row could be bad.
    pub fn can_fail(&self) -> bool {
        self.0.node.fallible
    }

    /// Conditions that a source could apply instead.
    pub fn equals(&self) -> &Equals {
        &self.0.equals
    }

    /// The parts that are evaluated row by row because no kernel reproduces them, as they stand in the text.
    pub fn per_row_parts(&self) -> Vec<String> {
        if self.0.plan.is_none() {
            return vec![self.0.text.clone()];
        }
        let mut parts = Vec::new();
        self.0.node.walk(&mut |node| {
            if let Kind::Call(call) = &node.kind
                && call.kernel.is_none()
            {
                parts.push(self.0.text[node.span.clone()].to_string());
            }
        });
        parts
    }

    /// The form that evaluates batches of the schema it was bound to.
    pub fn compile(&self) -> Compiled {
        Compiled(Arc::clone(&self.0))
    }
}

/// An expression ready to evaluate batches. Cheap to clone; a clone may live on another thread.
#[derive(Clone)]
pub struct Compiled(Arc<Inner>);

impl fmt::Debug for Compiled {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Compiled").field("text", &self.0.text).field("plan", &self.0.plan).finish_non_exhaustive()
    }
}

/// The values of an expression over a batch.
#[derive(Debug, Clone)]
pub struct Evaluated {
    /// One value per row, of the expression's type; null where the row is bad.
    pub values: ArrayRef,
    /// The rows whose evaluation failed, in ascending order, each with the reason.
    pub bad: Vec<(usize, String)>,
}

impl Compiled {
    /// Evaluates every row of `batch`, whose columns are those of the schema it was bound to. `now` is the value of `now()`:
    /// the one that the barrier before these rows carried.
    pub fn evaluate(&self, batch: &RecordBatch, now: EventTime) -> Evaluated {
        if let Some(values) = self.fast(batch, now) {
            return Evaluated { values, bad: Vec::new() };
        }
        let mut pieces = Vec::new();
        let mut bad = Vec::new();
        self.halve(batch, 0, now, &mut pieces, &mut bad);
        let pieces: Vec<&dyn Array> = pieces.iter().map(|piece| piece.as_ref()).collect();
        let values = match pieces.as_slice() {
            [] => new_empty_array(&self.0.node.ty),
            pieces => concat(pieces).expect("the pieces have the expression's type"),
        };
        Evaluated { values, bad }
    }

    /// All values at once, or `None` if some row failed.
    pub(crate) fn fast(&self, batch: &RecordBatch, now: EventTime) -> Option<ArrayRef> {
        let plan = self.0.plan.as_ref()?;
        let rows = batch.num_rows();
        let mut columns: Vec<ArrayRef> = Vec::with_capacity(plan.columns.len() + usize::from(plan.uses_now));
        columns.extend(plan.columns.iter().map(|index| Arc::clone(batch.column(*index))));
        if plan.uses_now {
            columns.push(Arc::new(TimestampMicrosecondArray::from(vec![now.0; rows])));
        }
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        let narrow = RecordBatch::try_new_with_options(Arc::clone(&plan.schema), columns, &options).ok()?;
        let values = plan.expr.evaluate(&narrow).ok()?.into_array(rows).ok()?;
        debug_assert_eq!(values.data_type(), &self.0.node.ty, "{}", self.0.text);
        Some(values)
    }

    /// Evaluates a batch that is known to fail: both halves apart, and small ones by the reference evaluator. A few bad rows
    /// then cost a few small batches.
    fn halve(&self, batch: &RecordBatch, start: usize, now: EventTime, pieces: &mut Vec<ArrayRef>, bad: &mut Vec<(usize, String)>) {
        let rows = batch.num_rows();
        if rows <= SMALLEST_HALF || self.0.plan.is_none() {
            let (values, failed) = self.by_row(batch, now);
            pieces.push(values);
            bad.extend(failed.into_iter().map(|(row, message)| (start + row, message)));
            return;
        }
        let middle = rows / 2;
        for (from, length) in [(0, middle), (middle, rows - middle)] {
            let half = batch.slice(from, length);
            match self.fast(&half, now) {
                Some(values) => pieces.push(values),
                None => self.halve(&half, start + from, now, pieces, bad),
            }
        }
    }

    /// The reference evaluator's answer.
    pub(crate) fn by_row(&self, batch: &RecordBatch, now: EventTime) -> (ArrayRef, Vec<(usize, String)>) {
        let mut values = Vec::with_capacity(batch.num_rows());
        let mut bad = Vec::new();
        for index in 0..batch.num_rows() {
            match reference::evaluate(&self.0.node, &Row { batch, index, now: now.0 }) {
                Ok(value) => values.push(value),
                Err(message) => {
                    values.push(Value::Null);
                    bad.push((index, message));
                }
            }
        }
        (build(&self.0.node.ty, &values), bad)
    }
}

//! The dialect as the steps use it: mistakes become problems, failed rows become bad rows.

use arrow::array::{Array, ArrayRef, BooleanArray, RecordBatch};
use arrow::buffer::BooleanBuffer;
use arrow::datatypes::{DataType, SchemaRef};
use std::collections::BTreeMap;
use tidegate_api::config::{Place, Problem};
use tidegate_api::{BadReason, BadRow, Output, hidden, types};
use tidegate_dialect::{Diagnostic, Functions, Typed};

/// Types `text` against the visible columns of `schema`. They come first, so that indices agree with the whole batch's.
///
/// # Errors
/// The dialect's diagnostic with line, column and caret, at `path`.
pub(crate) fn typed(functions: &Functions, path: &[&str], text: &str, schema: &SchemaRef) -> Result<Typed, Problem> {
    functions.bind(text, &hidden::visible_schema(schema)).map_err(|mistake| problem(path, text, &mistake))
}

/// As [`typed`], for a condition.
///
/// # Errors
/// Also when the expression is not of type bool.
pub(crate) fn condition(functions: &Functions, path: &[&str], text: &str, schema: &SchemaRef) -> Result<Typed, Problem> {
    let typed = typed(functions, path, text, schema)?;
    match typed.data_type() {
        DataType::Boolean | DataType::Null => Ok(typed),
        other => {
            let message = format!("a condition is of type `bool`, this is of type `{}`", types::name(other));
            Err(problem(path, text, &whole(text, message)))
        }
    }
}

/// A problem at a path.
pub(crate) fn at(path: &[&str], message: impl Into<String>) -> Problem {
    Problem::new(path.iter().map(|key| (*key).to_string()).collect(), message)
}

/// A mistake of a whole expression, which begins where its first character does.
fn whole(text: &str, message: String) -> Diagnostic {
    let start = text.len() - text.trim_start().len();
    let before = &text[..start];
    let column = before.rsplit('\n').next().unwrap_or_default().chars().count() + 1;
    Diagnostic { message, span: start..text.trim_end().len().max(start), line: before.matches('\n').count() + 1, column }
}

fn problem(path: &[&str], text: &str, mistake: &Diagnostic) -> Problem {
    let rendered = mistake.render(text);
    let shown = rendered.strip_prefix(&mistake.message).unwrap_or_default().to_string();
    at(path, &mistake.message).with_place(Place { start: mistake.span.start, line: mistake.line, column: mistake.column, shown })
}

/// The true rows of a condition's values; null is not true.
pub(crate) fn truths(values: &ArrayRef) -> BooleanBuffer {
    match values.as_any().downcast_ref::<BooleanArray>() {
        Some(values) => match values.nulls() {
            Some(nulls) if nulls.null_count() > 0 => values.values() & nulls.inner(),
            _ => values.values().clone(),
        },
        // A condition of type null.
        None => BooleanBuffer::new_unset(values.len()),
    }
}

/// Why a row cannot be used.
#[derive(Debug)]
struct Fault {
    reason: BadReason,
    column: Option<String>,
    message: String,
}

/// Rows of one batch that cannot be used, each with the first reason found.
#[derive(Debug, Default)]
pub(crate) struct BadRows(BTreeMap<usize, Fault>);

impl BadRows {
    /// Whether there are none.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// Adds a row unless it is known already.
    pub(crate) fn add(&mut self, row: usize, reason: BadReason, column: Option<&str>, message: impl FnOnce() -> String) {
        self.0.entry(row).or_insert_with(|| Fault { reason, column: column.map(str::to_string), message: message() });
    }

    /// Adds the rows on which an expression failed, which was to give this column.
    pub(crate) fn add_failed(&mut self, failed: Vec<(usize, String)>, column: Option<&str>) {
        for (row, message) in failed {
            self.add(row, BadReason::Expression, column, || message);
        }
    }

    /// One bit per row, set where the row is good.
    pub(crate) fn good(&self, rows: usize) -> BooleanBuffer {
        let mut good = vec![true; rows];
        for row in self.0.keys() {
            good[*row] = false;
        }
        BooleanBuffer::from(good)
    }

    /// Hands the rows over, each shown as it is in `batch`. The task adds the step and whatever else it knows.
    pub(crate) fn report(self, batch: &RecordBatch, out: &mut Output) {
        let faults = self.0.into_iter();
        out.bad.extend(faults.map(|(row, fault)| BadRow::of(batch, row, fault.reason, fault.message).in_column(fault.column)));
    }
}

//! The dialect as the steps use it: mistakes become problems, failed rows become bad rows.

use arrow::array::{Array, ArrayRef, BooleanArray, RecordBatch, UInt64Array};
use arrow::buffer::BooleanBuffer;
use arrow::compute::take_record_batch;
use arrow::datatypes::{DataType, SchemaRef};
use std::collections::BTreeMap;
use tidegate_api::config::Problem;
use tidegate_api::{BadReason, BadRow, Output, Result, hidden, types};
use tidegate_dialect::{Diagnostic, Typed, bind};

/// Types `text` against the visible columns of `schema`. They come first, so that indices agree with the whole batch's.
///
/// # Errors
/// The dialect's diagnostic with line, column and caret, at `path`.
pub(crate) fn typed(path: &[&str], text: &str, schema: &SchemaRef) -> Result<Typed, Problem> {
    bind(text, &hidden::visible_schema(schema)).map_err(|mistake| problem(path, text, &mistake))
}

/// As [`typed`], for a condition.
///
/// # Errors
/// Also when the expression is not of type bool.
pub(crate) fn condition(path: &[&str], text: &str, schema: &SchemaRef) -> Result<Typed, Problem> {
    let typed = typed(path, text, schema)?;
    match typed.data_type() {
        DataType::Boolean | DataType::Null => Ok(typed),
        other => Err(at(path, format!("a condition is of type `bool`, this is of type `{}`", types::name(other)))),
    }
}

/// A problem at a path.
pub(crate) fn at(path: &[&str], message: impl Into<String>) -> Problem {
    Problem { path: path.iter().map(|key| (*key).to_string()).collect(), message: message.into() }
}

fn problem(path: &[&str], text: &str, mistake: &Diagnostic) -> Problem {
    let rendered = mistake.render(text);
    let shown = rendered.strip_prefix(&mistake.message).unwrap_or_default();
    at(path, format!("{mistake}{shown}"))
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

/// Rows of one batch that cannot be used, each with the first reason found.
#[derive(Debug, Default)]
pub(crate) struct BadRows(BTreeMap<usize, (BadReason, String)>);

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
    pub(crate) fn add(&mut self, row: usize, reason: BadReason, message: impl FnOnce() -> String) {
        self.0.entry(row).or_insert_with(|| (reason, message()));
    }

    /// Adds the rows on which an expression failed.
    pub(crate) fn add_failed(&mut self, failed: Vec<(usize, String)>) {
        for (row, message) in failed {
            self.add(row, BadReason::Expression, || message);
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

    /// Hands the rows over, each as JSON.
    ///
    /// # Errors
    /// `Internal` when a kernel fails.
    pub(crate) fn report(self, batch: &RecordBatch, step: &str, out: &mut Output) -> Result<()> {
        if self.0.is_empty() {
            return Ok(());
        }
        let rows = UInt64Array::from_iter_values(self.0.keys().map(|row| *row as u64));
        let texts = as_json(&take_record_batch(&hidden::visible(batch), &rows)?);
        out.bad.extend(self.0.into_values().zip(texts).map(|((reason, message), raw)| BadRow::new(reason, message, raw).in_step(step)));
        Ok(())
    }
}

/// Each row as one JSON object with explicit nulls.
pub(crate) fn as_json(batch: &RecordBatch) -> Vec<Vec<u8>> {
    if let Some(lines) = json_lines(batch) {
        return lines;
    }
    // Some value has no JSON form, such as a time beyond the calendar. It costs itself, not the report of its row.
    (0..batch.num_rows()).map(|row| json_by_column(&batch.slice(row, 1))).collect()
}

fn json_lines(batch: &RecordBatch) -> Option<Vec<Vec<u8>>> {
    let mut text = Vec::new();
    let mut writer = arrow::json::WriterBuilder::new().with_explicit_nulls(true).build::<_, arrow::json::writer::LineDelimited>(&mut text);
    writer.write(batch).and_then(|()| writer.finish()).ok()?;
    drop(writer);
    // JSON text has no bare line ends, so a line is a row.
    let lines: Vec<Vec<u8>> = text.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()).map(<[u8]>::to_vec).collect();
    (lines.len() == batch.num_rows()).then_some(lines)
}

fn json_by_column(row: &RecordBatch) -> Vec<u8> {
    let mut cells = Vec::with_capacity(row.num_columns());
    for (index, field) in row.schema_ref().fields().iter().enumerate() {
        let cell = row.project(&[index]).ok().and_then(|one| json_lines(&one)).and_then(|mut lines| lines.pop());
        cells.push(match cell.as_deref() {
            Some([b'{', inner @ .., b'}']) => String::from_utf8_lossy(inner).into_owned(),
            Some(_) | None => format!("{}:\"(no JSON form)\"", serde_json::Value::from(field.name().as_str())),
        });
    }
    format!("{{{}}}", cells.join(",")).into_bytes()
}

//! Bad rows: what could not be used, why, and where it came from.

use crate::{EventTime, SplitId, raw};
use arrow::array::{ArrayRef, BinaryArray, RecordBatch, StringArray, TimestampMicrosecondArray};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef, TimeUnit};
use serde::{Deserialize, Serialize};
use std::sync::{Arc, LazyLock};

/// What a source or stage does with a bad row.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum OnBadData {
    /// End the run with a `Data` error that names the row.
    #[default]
    Fail,
    /// Count it and go on.
    Drop,
    /// Write it to the dead-letter dataset, inside the epoch.
    DeadLetter,
    /// Keep the row: a value that does not fit its column is null, and its text stands in the column [`RESCUED`].
    Rescue,
}

/// The column that a source adds under [`OnBadData::Rescue`], last of all: nullable text, null where every value fits, else what
/// did not fit. A record that cannot be read at all (a broken line) is a row of nulls and its text; one that lacks what the schema
/// requires stays bad, and ends the run.
pub const RESCUED: &str = "_rescued_data";

/// Why a row is bad; the label of its counter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum BadReason {
    /// The message could not be read in its format.
    Malformed,
    /// A value does not fit its column's type.
    TypeMismatch,
    /// A value is missing where the schema forbids null.
    MissingValue,
    /// Larger than the limit for one record.
    TooLarge,
    /// An expression failed on it: overflow, division by zero, a conversion inside it.
    Expression,
    /// A step could not give a column its new type.
    Cast,
    /// A plugin rejected it.
    Plugin,
    /// A plugin trapped on it, alone, twice.
    PluginTrap,
    /// An aggregate's result does not fit its type.
    Overflow,
    /// A sink refused it.
    Sink,
    /// A join's condition failed on a pair of rows.
    Condition,
}

impl BadReason {
    /// All of them, in the order of their numbers.
    pub const ALL: [BadReason; 11] = [
        BadReason::Malformed,
        BadReason::TypeMismatch,
        BadReason::MissingValue,
        BadReason::TooLarge,
        BadReason::Expression,
        BadReason::Cast,
        BadReason::Plugin,
        BadReason::PluginTrap,
        BadReason::Overflow,
        BadReason::Sink,
        BadReason::Condition,
    ];

    /// The stable label: of counters, and of the column `reason` of dead letters.
    pub fn label(self) -> &'static str {
        match self {
            BadReason::Malformed => "malformed",
            BadReason::TypeMismatch => "type_mismatch",
            BadReason::MissingValue => "missing_value",
            BadReason::TooLarge => "too_large",
            BadReason::Expression => "expression",
            BadReason::Cast => "cast",
            BadReason::Plugin => "plugin",
            BadReason::PluginTrap => "plugin_trap",
            BadReason::Overflow => "overflow",
            BadReason::Sink => "sink",
            BadReason::Condition => "condition",
        }
    }

    /// Whether it speaks of a row that an operator made, not of one that came in.
    pub fn is_of_output(self) -> bool {
        matches!(self, BadReason::Overflow | BadReason::Condition)
    }
}

/// One bad row. The finder fills in what it knows; the task adds stage, source and split.
#[derive(Debug, Clone, PartialEq)]
pub struct BadRow {
    /// Why.
    pub reason: BadReason,
    /// The step that found it, such as `2:applyExpression`; `None` at a source.
    pub step: Option<String>,
    /// The column at fault, if one is.
    pub column: Option<String>,
    /// What is wrong, for a person.
    pub message: String,
    /// The row as it came: the message's bytes at a source, the row as JSON in a step (see [`crate::raw`]).
    pub raw: Vec<u8>,
    /// Its index in the batch that the finder was given; lets the task look up what the finder does not know.
    pub row: Option<usize>,
    /// Where the row is in its split, as the source prints it.
    pub position: Option<String>,
    /// The split it came from.
    pub split: Option<SplitId>,
    /// Its event time, if it could be read.
    pub event_time: Option<EventTime>,
}

impl BadRow {
    /// A bad row with its reason, message and text.
    pub fn new(reason: BadReason, message: impl Into<String>, raw: impl Into<Vec<u8>>) -> Self {
        BadRow {
            reason,
            step: None,
            column: None,
            message: message.into(),
            raw: raw.into(),
            row: None,
            position: None,
            split: None,
            event_time: None,
        }
    }

    /// A bad row of a typed batch, shown as JSON.
    pub fn of(batch: &RecordBatch, row: usize, reason: BadReason, message: impl Into<String>) -> Self {
        BadRow { row: Some(row), ..BadRow::new(reason, message, raw::row(batch, row)) }
    }

    /// Sets the column at fault.
    #[must_use]
    pub fn in_column(mut self, column: Option<String>) -> Self {
        self.column = column;
        self
    }

    /// Sets where in its split the row is.
    #[must_use]
    pub fn at(mut self, position: impl Into<String>) -> Self {
        self.position = Some(position.into());
        self
    }

    /// Sets the step that found it.
    #[must_use]
    pub fn in_step(mut self, step: impl Into<String>) -> Self {
        self.step = Some(step.into());
        self
    }
}

/// The schema of a dead-letter dataset.
pub fn dead_letter_schema() -> SchemaRef {
    static SCHEMA: LazyLock<SchemaRef> = LazyLock::new(|| {
        Arc::new(Schema::new(vec![
            Field::new("reason", DataType::Utf8, false),
            Field::new("stage", DataType::Utf8, true),
            Field::new("step", DataType::Utf8, true),
            Field::new("column", DataType::Utf8, true),
            Field::new("message", DataType::Utf8, false),
            Field::new("source", DataType::Utf8, true),
            Field::new("split", DataType::Utf8, true),
            Field::new("position", DataType::Utf8, true),
            Field::new("raw", DataType::Binary, true),
            Field::new("eventTime", DataType::Timestamp(TimeUnit::Microsecond, None), true),
        ]))
    });
    Arc::clone(&SCHEMA)
}

/// Microseconds of the years -9999 to 9999. A dead letter must be one that every format can write, so that a row costs itself and
/// nothing else; a time beyond them is in its message.
const WRITABLE: std::ops::RangeInclusive<i64> = -377_705_116_800_000_000..=253_402_300_799_999_999;

/// The rows of a dead-letter dataset. `stage` and `source` name the task that found them.
pub fn dead_letters(rows: &[BadRow], stage: Option<&str>, source: Option<&str>) -> RecordBatch {
    let text = |value: &dyn Fn(&BadRow) -> Option<String>| -> ArrayRef { Arc::new(rows.iter().map(value).collect::<StringArray>()) };
    let columns: Vec<ArrayRef> = vec![
        text(&|row| Some(row.reason.label().to_string())),
        text(&|_| stage.map(str::to_string)),
        text(&|row| row.step.clone()),
        text(&|row| row.column.clone()),
        text(&|row| Some(row.message.clone())),
        text(&|_| source.map(str::to_string)),
        text(&|row| row.split.as_ref().map(|split| split.as_str().to_string())),
        text(&|row| row.position.clone()),
        Arc::new(rows.iter().map(|row| Some(row.raw.as_slice())).collect::<BinaryArray>()),
        Arc::new(
            rows.iter().map(|row| row.event_time.map(|at| at.0).filter(|at| WRITABLE.contains(at))).collect::<TimestampMicrosecondArray>(),
        ),
    ];
    RecordBatch::try_new(dead_letter_schema(), columns).expect("the columns follow the schema above")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn a_dead_letter_has_no_time_that_some_format_cannot_write() {
        let of = |at: i64| {
            let row = BadRow { event_time: Some(crate::EventTime(at)), ..BadRow::new(BadReason::TypeMismatch, "far", "") };
            let letters = dead_letters(&[row], None, None);
            let times = letters.column_by_name("eventTime").unwrap();
            arrow::array::Array::is_valid(times, 0)
        };
        assert_eq!(
            [i64::MIN, WRITABLE.start() - 1, *WRITABLE.start(), 0, *WRITABLE.end(), i64::MAX].map(of),
            [false, false, true, true, true, false]
        );
    }

    #[test]
    fn reasons_are_numbered_in_order_and_labels_are_distinct() {
        for (number, reason) in BadReason::ALL.into_iter().enumerate() {
            assert_eq!(reason as usize, number);
        }
        let labels: BTreeSet<&str> = BadReason::ALL.into_iter().map(BadReason::label).collect();
        assert_eq!(labels.len(), BadReason::ALL.len());
        assert!(labels.iter().all(|label| label.chars().all(|c| c.is_ascii_lowercase() || c == '_')));
    }
}

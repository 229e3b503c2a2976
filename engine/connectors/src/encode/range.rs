//! Times that a format cannot hold: found before anything is written, so that a row is refused and never leaves as something else.

use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, RecordBatch};
use arrow::buffer::BooleanBuffer;
use arrow::compute::filter_record_batch;
use arrow::datatypes::{
    ArrowPrimitiveType, DataType, Date32Type, Date64Type, Time32MillisecondType, Time32SecondType, Time64MicrosecondType,
    Time64NanosecondType, TimeUnit, TimestampMicrosecondType, TimestampMillisecondType, TimestampNanosecondType, TimestampSecondType,
};
use std::ops::RangeInclusive;
use tidegate_api::Result;
use tidegate_api::sink::RowError;

/// What becomes of times.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    /// ISO-8601 text, which has years -9999 to 9999.
    Iso,
    /// Timestamps as integers of milliseconds, dates and times of day as text.
    Millis,
    /// Everything stays a number; whole seconds become milliseconds.
    Binary,
}

/// Seconds from 1970 of the first moment of the year -9999 and the last of 9999.
const SECONDS: RangeInclusive<i64> = -377_705_116_800..=253_402_300_799;
const DAY: i64 = 86_400;

fn scaled(per_second: i64) -> RangeInclusive<i64> {
    SECONDS.start().saturating_mul(per_second)..=SECONDS.end().saturating_mul(per_second).saturating_add(per_second - 1)
}

impl Form {
    /// The timestamps of this unit that can be written.
    fn timestamps(self, unit: TimeUnit) -> RangeInclusive<i64> {
        match (self, unit) {
            (Form::Iso, TimeUnit::Second) => SECONDS,
            (Form::Iso, TimeUnit::Millisecond) => scaled(1_000),
            (Form::Iso, TimeUnit::Microsecond) => scaled(1_000_000),
            (Form::Millis | Form::Binary, TimeUnit::Second) => i64::MIN / 1_000..=i64::MAX / 1_000,
            (Form::Iso | Form::Millis | Form::Binary, _) => i64::MIN..=i64::MAX,
        }
    }
}

/// Which values of a column cannot be written; `None` if all can.
fn outside(array: &dyn Array, form: Form) -> Option<BooleanBuffer> {
    fn check<T: ArrowPrimitiveType>(array: &dyn Array, range: &RangeInclusive<i64>) -> Option<BooleanBuffer>
    where
        T::Native: Into<i64>,
    {
        let values = array.as_primitive::<T>().values();
        // No early end, so that this is a loop over whole registers.
        let fine = values.iter().fold(true, |fine, value| fine & range.contains(&(*value).into()));
        if fine {
            return None;
        }
        Some(BooleanBuffer::collect_bool(values.len(), |row| array.is_valid(row) && !range.contains(&values[row].into())))
    }
    let printed = form != Form::Binary;
    match array.data_type() {
        DataType::Timestamp(unit, _) => {
            let range = form.timestamps(*unit);
            match unit {
                TimeUnit::Second => check::<TimestampSecondType>(array, &range),
                TimeUnit::Millisecond => check::<TimestampMillisecondType>(array, &range),
                TimeUnit::Microsecond => check::<TimestampMicrosecondType>(array, &range),
                TimeUnit::Nanosecond => check::<TimestampNanosecondType>(array, &range),
            }
        }
        DataType::Date32 if printed => check::<Date32Type>(array, &(SECONDS.start() / DAY..=SECONDS.end() / DAY)),
        DataType::Date64 if printed => check::<Date64Type>(array, &scaled(1_000)),
        DataType::Time32(TimeUnit::Second) if printed => check::<Time32SecondType>(array, &(0..=DAY - 1)),
        DataType::Time32(_) if printed => check::<Time32MillisecondType>(array, &(0..=DAY * 1_000 - 1)),
        DataType::Time64(TimeUnit::Microsecond) if printed => check::<Time64MicrosecondType>(array, &(0..=DAY * 1_000_000 - 1)),
        DataType::Time64(_) if printed => check::<Time64NanosecondType>(array, &(0..=DAY * 1_000_000_000 - 1)),
        DataType::Struct(_) => {
            let found = array.as_struct().columns().iter().filter_map(|column| outside(column, form));
            let found = found.reduce(|left, right| &left | &right)?;
            Some(BooleanBuffer::collect_bool(array.len(), |row| array.is_valid(row) && found.value(row)))
        }
        DataType::List(_) => {
            let list = array.as_list::<i32>();
            let found = outside(list.values(), form)?;
            let items = |row: usize| list.value_offsets()[row] as usize..list.value_offsets()[row + 1] as usize;
            Some(BooleanBuffer::collect_bool(array.len(), |row| array.is_valid(row) && items(row).any(|item| found.value(item))))
        }
        DataType::LargeList(_) => {
            let list = array.as_list::<i64>();
            let found = outside(list.values(), form)?;
            let items = |row: usize| list.value_offsets()[row] as usize..list.value_offsets()[row + 1] as usize;
            Some(BooleanBuffer::collect_bool(array.len(), |row| array.is_valid(row) && items(row).any(|item| found.value(item))))
        }
        DataType::Map(_, _) => {
            let map = array.as_map();
            let found = outside(map.entries(), form)?;
            let items = |row: usize| map.value_offsets()[row] as usize..map.value_offsets()[row + 1] as usize;
            Some(BooleanBuffer::collect_bool(array.len(), |row| array.is_valid(row) && items(row).any(|item| found.value(item))))
        }
        _ => None,
    }
}

/// The rows that can be written, if not all can, and the refused ones in order; the first column at fault is named.
pub(super) fn refuse(rows: &RecordBatch, form: Form) -> Result<Option<(RecordBatch, Vec<RowError>)>> {
    let columns = rows.columns().iter().zip(rows.schema_ref().fields());
    let found: Vec<_> = columns.filter_map(|(column, field)| Some((outside(column, form)?, column, field))).collect();
    let Some(any) = found.iter().map(|(rows, _, _)| rows.clone()).reduce(|left, right| &left | &right) else { return Ok(None) };
    if any.count_set_bits() == 0 {
        return Ok(None);
    }
    let refused = any.set_indices().map(|row| {
        let at_fault = found.iter().find(|(rows, _, _)| rows.value(row));
        let message = at_fault.map_or_else(String::new, |(_, column, _)| message(column, row, form));
        RowError { row, column: at_fault.map(|(_, _, field)| field.name().clone()), message }
    });
    Ok(Some((filter_record_batch(rows, &BooleanArray::new(!&any, None))?, refused.collect())))
}

fn message(column: &ArrayRef, row: usize, form: Form) -> String {
    let number = match column.data_type() {
        DataType::Timestamp(_, _) => arrow::compute::cast(&column.slice(row, 1), &DataType::Int64).ok(),
        _ => None,
    };
    let value = number.map_or_else(
        || "a time".to_string(),
        |number| format!("the time {}", number.as_primitive::<arrow::datatypes::Int64Type>().value(0)),
    );
    match form {
        Form::Iso => format!("{value} is outside of the years -9999 to 9999 and cannot be written as text"),
        Form::Millis | Form::Binary => format!("{value} is too far from 1970 to be written in milliseconds"),
    }
}

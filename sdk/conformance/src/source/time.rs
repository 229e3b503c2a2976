//! What a split promises about the event time of its later rows.

use super::Bench;
use super::read::Read;
use crate::rules::Rule;
use crate::verdict::Verdict;
use arrow::array::{Array, AsArray, Int64Array};
use arrow::datatypes::{DataType, Int64Type, TimeUnit};
use tidegate_api::{EventTime, SplitId};

pub(super) fn watermarks(bench: &Bench<'_>) -> Verdict {
    // Small polls give more marks to look at.
    let source = super::read::open_source(bench.world, bench.record, Rule::WatermarkTrue)?;
    let mut reading = bench.reading();
    reading.max_rows = 7;
    for (id, read) in &reading.of(source.as_ref())? {
        rises(bench, id, read)?;
        let Some(times) = bench.time_column.as_deref().and_then(|column| micros(read, column)) else { continue };
        is_true(bench, id, read, &times)?;
    }
    Ok(())
}

fn rises(bench: &Bench<'_>, id: &SplitId, read: &Read) -> Verdict {
    let mut last: Option<EventTime> = None;
    for mark in &read.marks {
        let Some(watermark) = mark.watermark else { continue };
        let back = last.filter(|last| watermark < *last);
        bench.record.hold(Rule::WatermarkBack, back.is_none(), || {
            format!("split `{id}` said {watermark} behind row {}, and {} before", mark.rows, back.unwrap_or(EventTime::MIN))
        })?;
        last = Some(watermark);
    }
    Ok(())
}

fn is_true(bench: &Bench<'_>, id: &SplitId, read: &Read, times: &Int64Array) -> Verdict {
    for mark in &read.marks {
        let Some(watermark) = mark.watermark else { continue };
        let late = (mark.rows..times.len()).find(|row| times.is_valid(*row) && times.value(*row) < watermark.0);
        bench.record.hold(Rule::WatermarkTrue, late.is_none(), || {
            let row = late.unwrap_or_default();
            format!("split `{id}` said {watermark} behind {} rows, and row {row} is of {}", mark.rows, EventTime(times.value(row)))
        })?;
    }
    Ok(())
}

/// The event times in microseconds, if the column has such.
fn micros(read: &Read, column: &str) -> Option<Int64Array> {
    let column = read.rows.column_by_name(column)?;
    let column = match column.data_type() {
        DataType::Timestamp(_, zone) => arrow::compute::cast(column, &DataType::Timestamp(TimeUnit::Microsecond, zone.clone())).ok()?,
        _ => return None,
    };
    let column = arrow::compute::cast(&column, &DataType::Int64).ok()?;
    Some(column.as_primitive::<Int64Type>().clone())
}

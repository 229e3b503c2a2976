//! What several steps ask of their keys: lengths of time, time columns, key columns.

use crate::expression::at;
use crate::keys::can_group;
use crate::projection::{find, names};
use crate::window::LONGEST_MS;
use arrow::datatypes::{DataType, SchemaRef};
use std::sync::Arc;
use std::time::Duration;
use tidegate_api::config::{Options, Problem};
use tidegate_api::nearest::hint;
use tidegate_api::{TimeScale, types};

/// `{base}Ms` or `{base}`, in whole milliseconds.
pub(crate) fn length(options: &mut Options<'_>, base: &str) -> Option<i64> {
    let duration = options.duration(base)?;
    let millis = i64::try_from(duration.as_millis()).unwrap_or(i64::MAX);
    let whole = Duration::from_millis(duration.as_millis() as u64) == duration;
    let key = if options.has(base) { base.to_string() } else { format!("{base}Ms") };
    if millis == 0 || !whole || millis > LONGEST_MS {
        options.problem(&key, format!("expected whole milliseconds, from 1 to {LONGEST_MS} (100 years)"));
        return None;
    }
    Some(millis)
}

/// A length of time in its greatest whole unit.
pub(crate) fn show(millis: i64) -> String {
    for (unit, name) in [(86_400_000, "d"), (3_600_000, "h"), (60_000, "m"), (1000, "s")] {
        if millis % unit == 0 {
            return format!("{}{name}", millis / unit);
        }
    }
    format!("{millis}ms")
}

/// The index and the zone of an event-time column; `key` is the step's key that names it.
pub(crate) fn time_column(schema: &SchemaRef, column: &str, key: &str, problems: &mut Vec<Problem>) -> Option<(usize, Option<Arc<str>>)> {
    let Some(index) = find(schema, column) else {
        problems.push(at(&[key], unknown(column, schema)));
        return None;
    };
    let data_type = schema.field(index).data_type();
    if TimeScale::of(data_type).is_none() {
        let message = format!("`{}` is of type `{}`; an event time is a timestamp, or int64 milliseconds", column, types::name(data_type));
        problems.push(at(&[key], message));
        return None;
    }
    let zone = match data_type {
        DataType::Timestamp(_, zone) => zone.clone(),
        _ => None,
    };
    Some((index, zone))
}

/// The indices of columns that rows are keyed by; `key` is the step's key that names them, `taken` the names that the output has of
/// its own.
pub(crate) fn key_columns(schema: &SchemaRef, columns: &[String], key: &str, taken: &[&str], problems: &mut Vec<Problem>) -> Vec<usize> {
    let mut groups = Vec::new();
    for (place, column) in columns.iter().enumerate() {
        let place = place.to_string();
        let path = [key, place.as_str()];
        match find(schema, column) {
            None => problems.push(at(&path, unknown(column, schema))),
            Some(index) if groups.contains(&index) => problems.push(at(&path, format!("`{column}` stands twice"))),
            Some(index) if !can_group(schema.field(index).data_type()) => {
                let message = format!("`{column}` is of type `{}`, which cannot be a group", types::name(schema.field(index).data_type()));
                problems.push(at(&path, message));
            }
            Some(_) if taken.contains(&column.as_str()) => {
                problems.push(at(&path, format!("the output has a `{column}` of its own; rename the column first")));
            }
            Some(index) => groups.push(index),
        }
    }
    groups
}

/// There is no such column; names the nearest.
pub(crate) fn unknown(column: &str, schema: &SchemaRef) -> String {
    format!("there is no column `{column}`{}", hint(column, names(schema)))
}

//! What a source task does to rows before they enter the chain: append keys and origins, and look at their times.

use crate::graph::SourceNode;
use arrow::array::{ArrayRef, BooleanArray, Int64Array, RecordBatch, StringViewArray};
use arrow::compute::max;
use arrow::datatypes::{Int64Type, SchemaRef};
use std::sync::Arc;
use tidegate_api::time::raw_times;
use tidegate_api::{Error, EventTime, FutureRows, Ordinals, Result, SplitId, TimeSpec, key};

/// Checks the width of the rows and appends the hidden key, made of split and ordinal, if the node emits keys.
pub(super) fn with_keys(
    node: &SourceNode,
    schema: &SchemaRef,
    rows: RecordBatch,
    ordinals: &Ordinals,
    split: &SplitId,
) -> Result<RecordBatch> {
    if rows.num_columns() != node.plan.schema.fields().len() {
        return Err(Error::internal(format!(
            "source `{}` handed over {} columns and had planned {}",
            node.dataset,
            rows.num_columns(),
            node.plan.schema.fields().len()
        )));
    }
    if !node.emit_keys || rows.num_rows() == 0 {
        return Ok(rows);
    }
    let short = || Error::internal(format!("source `{}` numbered fewer rows than it handed over", node.dataset));
    let keys = match ordinals {
        Ordinals::None => {
            return Err(Error::internal(format!("source `{}` did not number its rows, and keys are made of numbers", node.dataset)));
        }
        Ordinals::From(first) => key::build(rows.num_rows(), |row, key| {
            key::push_origin(key, split, first + row as u64);
            Ok(())
        })?,
        Ordinals::Each(numbers) if numbers.len() < rows.num_rows() => return Err(short()),
        Ordinals::Each(numbers) => key::build(rows.num_rows(), |row, key| {
            key::push_origin(key, split, numbers.value(row));
            Ok(())
        })?,
    };
    let mut columns = rows.columns().to_vec();
    columns.push(keys as ArrayRef);
    let keyed = Arc::new(schema.project(&(0..columns.len()).collect::<Vec<_>>())?);
    Ok(RecordBatch::try_new(keyed, columns)?)
}

/// Appends the hidden columns that say where rows come from, and what their split promises before and after them, if the node emits
/// them.
pub(super) fn with_origin(
    node: &SourceNode,
    schema: &SchemaRef,
    rows: RecordBatch,
    split: &SplitId,
    [before, after]: [EventTime; 2],
) -> Result<RecordBatch> {
    if !node.emit_splits || rows.num_rows() == 0 {
        return Ok(rows);
    }
    let mut columns = rows.columns().to_vec();
    let origin = format!("{}/{split}", node.dataset);
    let origins = StringViewArray::from_iter_values(std::iter::repeat_n(origin.as_str(), rows.num_rows()));
    columns.push(Arc::new(origins));
    for promise in [before, after] {
        columns.push(Arc::new(Int64Array::from(vec![promise.0; rows.num_rows()])));
    }
    Ok(RecordBatch::try_new(SchemaRef::clone(schema), columns)?)
}

/// What the times of a batch say.
pub(super) struct Surveyed {
    /// The largest time, rows from too far in the future left out.
    pub(super) latest: Option<EventTime>,
    /// Which rows are from too far in the future and go where late rows go.
    pub(super) to_late: Option<BooleanArray>,
}

/// Looks at the times of a batch. One pass for the maximum; a second one only if that lies too far ahead.
pub(super) fn survey(time: Option<&TimeSpec>, rows: &RecordBatch, wall: EventTime) -> Result<Surveyed> {
    let Some(spec) = time else { return Ok(Surveyed { latest: None, to_late: None }) };
    let column = rows.column_by_name(&spec.column);
    let column = column.ok_or_else(|| Error::internal(format!("the rows have no time column `{}`", spec.column)))?;
    let (times, scale) = raw_times(column)?;
    let latest = max::<Int64Type>(&times).map(|time| scale.event_time(time));
    let limit = spec.max_future_skew.map(|skew| wall.plus(skew));
    let (Some(latest), Some(limit)) = (latest, limit) else { return Ok(Surveyed { latest, to_late: None }) };
    if latest <= limit {
        return Ok(Surveyed { latest: Some(latest), to_late: None });
    }
    let near = times.iter().flatten().map(|time| scale.event_time(time)).filter(|time| *time <= limit).max();
    let to_late = match spec.future_rows {
        FutureRows::Keep => None,
        FutureRows::Late => Some(times.iter().map(|time| Some(time.is_some_and(|time| scale.event_time(time) > limit))).collect()),
    };
    Ok(Surveyed { latest: near, to_late })
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::{BinaryArray, UInt64Array};
    use std::time::Duration;
    use tidegate_api::InlineSource;
    use tidegate_api::SourceRequest;
    use tidegate_api::testkit::ScriptedSource;

    fn rows(times: &[Option<i64>]) -> RecordBatch {
        let column: ArrayRef = Arc::new(Int64Array::from(times.to_vec()));
        RecordBatch::try_from_iter_with_nullable([("t", column, true)]).unwrap()
    }

    fn spec(future: FutureRows) -> TimeSpec {
        let mut spec = TimeSpec::new("t");
        spec.max_future_skew = Some(Duration::from_millis(10));
        spec.future_rows = future;
        spec
    }

    #[test]
    fn a_row_from_the_future_moves_nothing_and_goes_where_late_rows_go() {
        let batch = rows(&[Some(1), None, Some(111), Some(110)]);
        let wall = EventTime::from_millis(100);
        let late = survey(Some(&spec(FutureRows::Late)), &batch, wall).unwrap();
        assert_eq!(late.latest, Some(EventTime::from_millis(110)));
        assert_eq!(late.to_late.unwrap(), BooleanArray::from(vec![false, false, true, false]));
        let kept = survey(Some(&spec(FutureRows::Keep)), &batch, wall).unwrap();
        assert_eq!(kept.latest, Some(EventTime::from_millis(110)));
        assert!(kept.to_late.is_none());
    }

    #[test]
    fn keys_are_split_and_ordinal_however_the_rows_are_numbered() {
        let batch = rows(&[Some(1), Some(2)]);
        let request = SourceRequest::all().with_ordinals(true);
        let source = Arc::new(ScriptedSource::new(batch.schema(), Vec::new()));
        let plan = source.plan(&request).unwrap();
        let mut node = SourceNode::new("in", source, request, plan);
        node.emit_keys = true;
        let split = SplitId::new("s");
        let from = with_keys(&node, &node.output_schema(), batch.clone(), &Ordinals::From(7), &split).unwrap();
        let each = with_keys(&node, &node.output_schema(), batch.clone(), &Ordinals::Each(UInt64Array::from(vec![7, 8])), &split).unwrap();
        assert_eq!(from, each);
        let keys = from.column(1).as_any().downcast_ref::<BinaryArray>().unwrap();
        let mut expected = Vec::new();
        key::push_origin(&mut expected, &split, 8);
        assert_eq!(keys.value(1), expected);
        assert!(with_keys(&node, &node.output_schema(), batch, &Ordinals::None, &split).is_err());
    }
}

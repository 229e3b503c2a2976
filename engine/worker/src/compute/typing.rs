//! A batch in the columns and types that a transform declares.
//!
//! Columns are found by name. A value crosses as it is or not at all: where a type could change it, it is cast there and back and compared.
//! An integer stands for epoch milliseconds when it becomes a timestamp, and the other way round, as everywhere in the engine; text is
//! parsed as `cast` does. A value that does not fit costs its row, or is null where the manifest says so.

use super::registry::{OnMisfit, TransformManifest};
use arrow::array::{Array, ArrayRef, BooleanArray, RecordBatch, RecordBatchOptions, UInt32Array};
use arrow::buffer::BooleanBuffer;
use arrow::compute::kernels::cmp::distinct;
use arrow::compute::{CastOptions, can_cast_types, cast_with_options, filter_record_batch, nullif};
use arrow::datatypes::{DataType, Float64Type, SchemaRef, TimeUnit};
use std::collections::BTreeMap;
use std::sync::Arc;
use tidegate_api::config::Problem;
use tidegate_api::nearest::hint;
use tidegate_api::{BadReason, Result, hidden, raw, types};

/// What has to be looked at after a cast.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Check {
    /// Nothing: every value has its like in the new type.
    Nothing,
    /// Values that became null.
    Nulls,
    /// Whether each value comes back as it was.
    RoundTrip,
    /// As `RoundTrip`, for floats: NaN is NaN, and the zeros are one.
    Floats,
}

/// One declared column.
#[derive(Debug, Clone)]
struct Conversion {
    index: usize,
    name: String,
    from: DataType,
    /// A stop on the way, where the direct way means something else.
    via: Option<DataType>,
    to: DataType,
    check: Check,
    nullable: bool,
    on_misfit: OnMisfit,
}

/// A row that cannot be handed over.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Misfit {
    pub(super) reason: BadReason,
    pub(super) column: String,
    pub(super) message: String,
}

/// Typed rows, and those that are not among them.
pub(super) struct Typed {
    pub(super) rows: RecordBatch,
    /// Which rows of the batch they are; none: all of them.
    pub(super) from: Option<UInt32Array>,
    pub(super) bad: BTreeMap<usize, Misfit>,
}

/// How batches of one schema are typed.
#[derive(Debug, Clone)]
pub(super) struct Typing {
    conversions: Vec<Conversion>,
    schema: SchemaRef,
}

impl Typing {
    /// Finds the declared columns.
    ///
    /// # Errors
    /// A column that is not there, with the nearest, or of a type without a cast.
    pub(super) fn bind(input: &SchemaRef, manifest: &TransformManifest) -> Result<Typing, Vec<Problem>> {
        let visible = hidden::visible_schema(input);
        let mut problems = Vec::new();
        let mut conversions = Vec::with_capacity(manifest.inputs.fields().len());
        for field in manifest.inputs.fields() {
            let Ok(index) = visible.index_of(field.name()) else {
                let hint = hint(field.name(), visible.fields().iter().map(|field| field.name().as_str()));
                let message = format!("the transform `{manifest}` reads a column `{}`, which is not there{hint}", field.name());
                problems.push(Problem::at("ref", message));
                continue;
            };
            let from = visible.field(index).data_type().clone();
            let Some((via, check)) = way(&from, field.data_type()) else {
                let message = format!(
                    "the transform `{manifest}` reads the column `{}` as `{}`, and it is of type `{}`, which has no cast to that; cast it in a step before",
                    field.name(),
                    types::name(field.data_type()),
                    types::name(&from)
                );
                problems.push(Problem::at("ref", message));
                continue;
            };
            conversions.push(Conversion {
                index,
                name: field.name().clone(),
                from,
                via,
                to: field.data_type().clone(),
                check,
                nullable: field.is_nullable(),
                on_misfit: manifest.on_misfit,
            });
        }
        if problems.is_empty() { Ok(Typing { conversions, schema: Arc::clone(&manifest.inputs) }) } else { Err(problems) }
    }

    /// Types a batch.
    ///
    /// # Errors
    /// `Internal` when a kernel fails as a whole.
    pub(super) fn apply(&self, batch: &RecordBatch) -> Result<Typed> {
        let mut bad = BTreeMap::new();
        let mut columns = Vec::with_capacity(self.conversions.len());
        for conversion in &self.conversions {
            columns.push(conversion.apply(batch.column(conversion.index), &mut bad)?);
        }
        let rows = batch.num_rows();
        if bad.is_empty() {
            let options = RecordBatchOptions::new().with_row_count(Some(rows));
            let typed = RecordBatch::try_new_with_options(Arc::clone(&self.schema), columns, &options)?;
            return Ok(Typed { rows: typed, from: None, bad });
        }
        let good: BooleanArray = (0..rows).map(|row| Some(!bad.contains_key(&row))).collect();
        let kept = columns.iter().map(|column| arrow::compute::filter(column, &good)).collect::<Result<Vec<_>, _>>()?;
        let from: UInt32Array = (0..rows).filter(|row| !bad.contains_key(row)).map(|row| row as u32).collect();
        let options = RecordBatchOptions::new().with_row_count(Some(from.len()));
        let typed = RecordBatch::try_new_with_options(Arc::clone(&self.schema), kept, &options)?;
        Ok(Typed { rows: typed, from: Some(from), bad })
    }
}

/// How a type becomes another: a stop on the way, and what to look at afterwards. `None` when there is no way.
fn way(from: &DataType, to: &DataType) -> Option<(Option<DataType>, Check)> {
    if *from == DataType::Null || types::name(from) == types::name(to) {
        return can_cast_types(from, to).then_some((None, Check::Nothing));
    }
    if from.is_nested() || to.is_nested() {
        return None;
    }
    let millis = |zone: &Option<Arc<str>>| DataType::Timestamp(TimeUnit::Millisecond, zone.clone());
    let via = match (from, to) {
        (integer, DataType::Timestamp(_, zone)) if integer.is_integer() => Some(millis(zone)),
        (DataType::Timestamp(_, zone), integer) if integer.is_integer() => Some(millis(zone)),
        _ => None,
    };
    let steps = [Some(from), via.as_ref(), Some(to)];
    let steps: Vec<&DataType> = steps.into_iter().flatten().collect();
    let forth = steps.windows(2).all(|pair| can_cast_types(pair[0], pair[1]));
    let back = steps.windows(2).all(|pair| can_cast_types(pair[1], pair[0]));
    let is_text = |data_type: &DataType| types::name(data_type) == "string";
    let check = match (from, to) {
        (from, _) if is_text(from) => Check::Nulls,
        (_, to) if is_text(to) => Check::Nulls,
        (DataType::Float16 | DataType::Float32 | DataType::Float64, _) if back => Check::Floats,
        _ if back => Check::RoundTrip,
        _ => return None,
    };
    forth.then_some((via, check))
}

impl Conversion {
    fn apply(&self, values: &ArrayRef, bad: &mut BTreeMap<usize, Misfit>) -> Result<ArrayRef> {
        let steps: Vec<&DataType> = self.via.iter().chain([&self.to]).collect();
        let made = casts(values, &steps)?;
        let lost = self.lost(values, &made)?;
        let made = match lost.filter(|lost| lost.has_true()) {
            None => made,
            Some(lost) if self.nullable && self.on_misfit == OnMisfit::Null => nullif(&made, &lost)?,
            Some(lost) => {
                for row in lost.values().set_indices() {
                    bad.entry(row).or_insert_with(|| {
                        let (shown, name) = (raw::value(values, row), types::name(&self.to));
                        let message = format!("column `{}`: `{shown}` is not a value of type `{name}`", self.name);
                        Misfit { reason: BadReason::Cast, column: self.name.clone(), message }
                    });
                }
                made
            }
        };
        if !self.nullable && made.logical_null_count() > 0 {
            let nulls = made.logical_nulls();
            for row in (0..made.len()).filter(|row| nulls.as_ref().is_some_and(|nulls| nulls.is_null(*row))) {
                bad.entry(row).or_insert_with(|| {
                    let message = format!("column `{}` is null, and the transform declares it without nulls", self.name);
                    Misfit { reason: BadReason::MissingValue, column: self.name.clone(), message }
                });
            }
        }
        Ok(made)
    }

    /// The rows whose value has no like in the new type.
    fn lost(&self, values: &ArrayRef, made: &ArrayRef) -> Result<Option<BooleanArray>> {
        let back = || -> Result<ArrayRef> {
            let steps: Vec<&DataType> = self.via.iter().chain([&self.from]).collect();
            casts(made, &steps)
        };
        match self.check {
            Check::Nothing => Ok(None),
            Check::Nulls if made.logical_null_count() == values.logical_null_count() => Ok(None),
            Check::Nulls => {
                let (before, after) = (arrow::compute::is_not_null(values)?, arrow::compute::is_null(made)?);
                Ok(Some(arrow::compute::and(&before, &after)?))
            }
            Check::RoundTrip => Ok(Some(distinct(&back()?, values)?)),
            Check::Floats => {
                let wide = |array: &ArrayRef| casts(array, &[&DataType::Float64]);
                let (before, after) = (wide(values)?, wide(&back()?)?);
                Ok(Some(floats_differ(&before, &after)))
            }
        }
    }
}

fn floats_differ(before: &ArrayRef, after: &ArrayRef) -> BooleanArray {
    use arrow::array::cast::AsArray;
    let (before, after) = (before.as_primitive::<Float64Type>(), after.as_primitive::<Float64Type>());
    let differ = |row: usize| {
        let (x, y) = (before.value(row), after.value(row));
        before.is_valid(row) && (after.is_null(row) || (x != y && !(x.is_nan() && y.is_nan())))
    };
    BooleanArray::from(BooleanBuffer::collect_bool(before.len(), differ))
}

/// A cast in steps, in which what does not fit becomes null.
fn casts(values: &ArrayRef, steps: &[&DataType]) -> Result<ArrayRef> {
    let lenient = CastOptions { safe: true, ..CastOptions::default() };
    let mut made = Arc::clone(values);
    for to in steps {
        if made.data_type() != *to {
            made = cast_with_options(&made, to, &lenient)?;
        }
    }
    Ok(made)
}

/// The rows of `batch` that `from` names, which is in order; all of them without it.
pub(super) fn rows_of(batch: &RecordBatch, from: Option<&UInt32Array>) -> Result<RecordBatch> {
    let Some(from) = from else { return Ok(batch.clone()) };
    let (Some(first), Some(last)) = (from.values().first(), from.values().last()) else { return Ok(batch.slice(0, 0)) };
    let (first, last) = (*first as usize, *last as usize);
    if last + 1 - first == from.len() {
        return Ok(batch.slice(first, from.len()));
    }
    let mut keep = vec![false; batch.num_rows()];
    for row in from.values() {
        keep[*row as usize] = true;
    }
    Ok(filter_record_batch(batch, &BooleanArray::from(keep))?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::{Float32Array, Float64Array, Int32Array, Int64Array, StringViewArray, TimestampMicrosecondArray};
    use arrow::datatypes::{Field, Schema};

    fn typed(values: ArrayRef, to: &str, nullable: bool, on_misfit: OnMisfit) -> (ArrayRef, Vec<usize>) {
        let declared = Arc::new(Schema::new(vec![Field::new("x", types::parse(to).unwrap(), nullable)]));
        let batch = RecordBatch::try_from_iter_with_nullable([("x", values, true)]).unwrap();
        let (via, check) = way(batch.column(0).data_type(), declared.field(0).data_type()).unwrap();
        let (from, to) = (batch.column(0).data_type().clone(), declared.field(0).data_type().clone());
        let conversion = Conversion { index: 0, name: "x".into(), from, via, to, check, nullable, on_misfit };
        let typed = Typing { conversions: vec![conversion], schema: declared }.apply(&batch).unwrap();
        let left: Vec<usize> =
            typed.from.map_or((0..batch.num_rows()).collect(), |from| from.values().iter().map(|row| *row as usize).collect());
        assert_eq!(left.len(), typed.rows.num_rows());
        assert!(typed.bad.keys().all(|row| !left.contains(row)));
        (Arc::clone(typed.rows.column(0)), left)
    }

    fn bad(values: impl Array + 'static, to: &str) -> Vec<usize> {
        typed(Arc::new(values), to, true, OnMisfit::Bad).1
    }

    #[test]
    fn a_value_that_would_change_costs_its_row() {
        assert_eq!(bad(Int64Array::from(vec![Some(1), Some(300), None, Some(-129)]), "int8"), [0, 2]);
        assert_eq!(bad(Float64Array::from(vec![1.0, 1.5, f64::NAN, -0.0, 1e300]), "int64"), [0, 3]);
        assert_eq!(bad(Float64Array::from(vec![0.5, 0.1, f64::NAN, f64::INFINITY, 1e300]), "float32"), [0, 2, 3]);
        assert_eq!(bad(Float32Array::from(vec![0.1]), "float64"), [0]);
        assert_eq!(bad(Int64Array::from(vec![1 << 53, (1 << 53) + 1, i64::MAX]), "float64"), [0]);
        assert_eq!(bad(StringViewArray::from(vec!["7", "x", "", "7.5"]), "int64"), [0]);
        assert_eq!(bad(TimestampMicrosecondArray::from(vec![1_000, 1_001]), "timestamp_ms"), [0]);
    }

    #[test]
    fn integers_are_milliseconds_when_they_meet_times() {
        let (made, _) = typed(Arc::new(Int64Array::from(vec![1_500])), "timestamp_us", true, OnMisfit::Bad);
        assert_eq!(made.as_ref(), &TimestampMicrosecondArray::from(vec![1_500_000]) as &dyn Array);
        let (made, left) = typed(Arc::new(TimestampMicrosecondArray::from(vec![2_000, 2_001])), "int32", true, OnMisfit::Bad);
        assert_eq!((made.as_ref(), left), (&Int32Array::from(vec![2]) as &dyn Array, vec![0]));
        assert_eq!(bad(Int64Array::from(vec![i64::MAX, 0]), "timestamp_ns"), [1]);
    }

    #[test]
    fn a_misfit_is_null_where_the_manifest_says_so_and_the_column_may_be() {
        let numbers = || Arc::new(Int64Array::from(vec![Some(1), Some(300), None])) as ArrayRef;
        let (made, left) = typed(numbers(), "int8", true, OnMisfit::Null);
        assert_eq!((left.len(), made.null_count(), made.is_valid(0)), (3, 2, true));
        assert_eq!(typed(numbers(), "int8", false, OnMisfit::Null).1, [0]);
        assert_eq!(typed(numbers(), "int64", false, OnMisfit::Bad).1, [0, 1]);
    }

    #[test]
    fn nested_values_are_taken_as_they_are_or_not_at_all() {
        let list = |item: &str| types::parse(&format!("list<{item}>")).unwrap();
        assert_eq!(way(&list("int64"), &list("int64")), Some((None, Check::Nothing)));
        assert_eq!(way(&list("int64"), &list("int32")), None);
        assert_eq!(way(&DataType::Binary, &DataType::Int64), None);
    }

    #[test]
    fn rows_are_found_again_by_their_numbers() {
        let batch = RecordBatch::try_from_iter([("x", Arc::new(Int64Array::from(vec![0, 1, 2, 3])) as ArrayRef)]).unwrap();
        for from in [vec![], vec![1, 2], vec![0, 3], vec![0, 1, 2, 3]] {
            let rows = rows_of(&batch, Some(&UInt32Array::from(from.clone()))).unwrap();
            let expected: Int64Array = from.iter().map(|row| i64::from(*row)).collect();
            assert_eq!(rows.column(0).as_ref(), &expected as &dyn Array);
        }
    }
}

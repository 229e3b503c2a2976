//! Which column of a step's output comes from where.

use super::Shape;
use arrow::array::{Array, ArrayRef, BooleanArray, RecordBatch, RecordBatchOptions};
use arrow::buffer::BooleanBuffer;
use arrow::compute::filter_record_batch;
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use std::collections::BTreeSet;
use std::sync::Arc;
use tidegate_api::{Error, Result, hidden, types};

/// Where one output column comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Origin {
    /// A column of the input, by index.
    Carried(usize),
    /// A column that the guest made, by index, the mask counted.
    Made(usize),
}

/// How the output of a transform is put together.
#[derive(Debug, Clone)]
pub(super) struct Layout {
    shape: Shape,
    origins: Vec<Origin>,
    output: SchemaRef,
}

/// A guest's list of columns: in range, without repeats.
pub(super) fn indices(what: &str, list: Option<&[u32]>, columns: usize) -> Result<Option<Vec<usize>>, String> {
    let Some(list) = list else { return Ok(None) };
    let mut seen = BTreeSet::new();
    for index in list {
        if *index as usize >= columns {
            return Err(format!("`{what}` of its plan names column {index} of {columns}"));
        }
        if !seen.insert(*index) {
            return Err(format!("`{what}` of its plan names column {index} twice"));
        }
    }
    Ok(Some(list.iter().map(|index| *index as usize).collect()))
}

impl Layout {
    /// From the guest's plan; `made` is the native form of what it declares.
    pub(super) fn new(shape: Shape, carry: Option<&[usize]>, input: &Schema, made: &Schema) -> Result<Layout> {
        let is_hidden = |index: usize| hidden::is_hidden(input.field(index).name());
        if let Some(field) = made.fields().iter().find(|field| hidden::is_hidden(field.name())) {
            return Err(Error::config(format!("it makes a column `{}`, a name the engine keeps for itself", field.name())));
        }
        let (origins, masks) = match shape {
            Shape::Free => {
                if let Some(index) = (0..input.fields().len()).find(|index| is_hidden(*index)) {
                    let name = input.field(index).name();
                    return Err(Error::config(format!(
                        "it makes rows freely and cannot carry the hidden column `{name}`; a stage whose rows have keys or changes needs a transform that keeps its rows (`rowwise`)"
                    )));
                }
                ((0..made.fields().len()).map(Origin::Made).collect(), 0)
            }
            Shape::Rowwise => (Layout::side_by_side(carry, input, made, 0)?, 0),
            Shape::RowwiseFilter => {
                let mask = made.fields().first().map(|field| field.data_type());
                if mask != Some(&DataType::Boolean) {
                    let is = mask.map_or("missing".to_string(), |mask| format!("`{}`", types::name(mask)));
                    return Err(Error::config(format!(
                        "it filters rows, so the first column it makes must be a keep-mask of type `bool`; it is {is}"
                    )));
                }
                (Layout::side_by_side(carry, input, made, 1)?, 1)
            }
        };
        debug_assert!(origins.iter().all(|origin| !matches!(origin, Origin::Made(index) if *index < masks)));
        let fields: Vec<Field> = origins
            .iter()
            .map(|origin| match origin {
                Origin::Carried(index) => input.field(*index).clone(),
                Origin::Made(index) => made.field(*index).clone(),
            })
            .collect();
        Ok(Layout { shape, origins, output: Arc::new(Schema::new(fields)) })
    }

    /// The input's columns in their order, replaced or carried or gone; then new ones; then the hidden ones.
    fn side_by_side(carry: Option<&[usize]>, input: &Schema, made: &Schema, masks: usize) -> Result<Vec<Origin>> {
        let replacement = |name: &str| made.fields().iter().skip(masks).position(|field| field.name() == name).map(|at| at + masks);
        let mut origins = Vec::new();
        let mut used = BTreeSet::new();
        for (index, field) in input.fields().iter().enumerate().filter(|(_, field)| !hidden::is_hidden(field.name())) {
            let carried = carry.map(|carry| carry.contains(&index));
            match (replacement(field.name()), carried) {
                (Some(_), Some(true)) => {
                    return Err(Error::config(format!("it makes a column `{}` and carries the input's column of that name", field.name())));
                }
                (Some(made), _) => {
                    used.insert(made);
                    origins.push(Origin::Made(made));
                }
                (None, Some(true) | None) => origins.push(Origin::Carried(index)),
                (None, Some(false)) => {}
            }
        }
        origins.extend((masks..made.fields().len()).filter(|index| !used.contains(index)).map(Origin::Made));
        let hidden = input.fields().iter().enumerate().filter(|(_, field)| hidden::is_hidden(field.name()));
        origins.extend(hidden.map(|(index, _)| Origin::Carried(index)));
        Ok(origins)
    }

    pub(super) fn shape(&self) -> Shape {
        self.shape
    }

    pub(super) fn output(&self) -> &SchemaRef {
        &self.output
    }

    /// How many of the made columns are masks.
    pub(super) fn masks(&self) -> usize {
        match self.shape {
            Shape::Rowwise | Shape::Free => 0,
            Shape::RowwiseFilter => 1,
        }
    }

    /// The carried columns of the input.
    pub(super) fn carried(&self) -> impl Iterator<Item = usize> {
        self.origins.iter().filter_map(|origin| match origin {
            Origin::Carried(index) => Some(*index),
            Origin::Made(_) => None,
        })
    }

    /// Checks what a guest made of `rows` input rows.
    pub(super) fn check(&self, rows: usize, made: &RecordBatch) -> Result<(), String> {
        match self.shape {
            Shape::Free => Ok(()),
            Shape::Rowwise | Shape::RowwiseFilter => {
                if made.num_rows() != rows {
                    return Err(format!("it made {} rows of {rows}, and its plan says one of each", made.num_rows()));
                }
                if self.masks() > 0 && made.column(0).null_count() > 0 {
                    return Err("its keep-mask has nulls".into());
                }
                Ok(())
            }
        }
    }

    /// The output rows of one part, and how many its mask left out. `bad` holds the indices of bad rows, in order.
    pub(super) fn assemble(&self, input: &RecordBatch, made: &RecordBatch, bad: &[usize]) -> Result<(RecordBatch, u64)> {
        let columns: Vec<ArrayRef> = self
            .origins
            .iter()
            .map(|origin| match origin {
                Origin::Carried(index) => Arc::clone(input.column(*index)),
                Origin::Made(index) => Arc::clone(made.column(*index)),
            })
            .collect();
        let rows = made.num_rows();
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        let batch = RecordBatch::try_new_with_options(Arc::clone(&self.output), columns, &options)?;
        let Some(keep) = self.keep(made, bad)? else { return Ok((batch, 0)) };
        let kept = keep.true_count();
        if kept == rows {
            return Ok((batch, 0));
        }
        Ok((filter_record_batch(&batch, &keep)?, (rows - kept - bad.len()) as u64))
    }

    /// The rows to keep; `None` for all of them.
    fn keep(&self, made: &RecordBatch, bad: &[usize]) -> Result<Option<BooleanArray>> {
        let mask = match self.shape {
            // A bad row was left out by the guest.
            Shape::Free => return Ok(None),
            Shape::Rowwise if bad.is_empty() => return Ok(None),
            Shape::Rowwise => None,
            Shape::RowwiseFilter => {
                let mask = made.column(0).as_any().downcast_ref::<BooleanArray>();
                Some(mask.ok_or_else(|| Error::internal("a keep-mask is not boolean, though its plan was checked"))?)
            }
        };
        let rows = made.num_rows();
        let good = (!bad.is_empty()).then(|| {
            let mut bad = bad.iter().copied().peekable();
            BooleanBuffer::collect_bool(rows, |row| bad.next_if_eq(&row).is_none())
        });
        Ok(match (mask, good) {
            (Some(mask), Some(good)) => Some(BooleanArray::new(mask.values() & &good, None)),
            (Some(mask), None) => Some(mask.clone()),
            (None, good) => good.map(|good| BooleanArray::new(good, None)),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::Int64Array;

    fn schema(names: &[&str]) -> Schema {
        Schema::new(names.iter().map(|name| Field::new(*name, DataType::Int64, true)).collect::<Vec<_>>())
    }

    fn numbers(values: [i64; 4]) -> ArrayRef {
        Arc::new(Int64Array::from(values.to_vec()))
    }

    fn names(layout: &Layout) -> Vec<&str> {
        layout.output().fields().iter().map(|field| field.name().as_str()).collect()
    }

    #[test]
    fn a_made_column_stands_where_the_one_it_replaces_stood() {
        let input = schema(&["a", "b", "c", hidden::KEY]);
        let layout = Layout::new(Shape::Rowwise, None, &input, &schema(&["new", "b"])).unwrap();
        assert_eq!(names(&layout), ["a", "b", "c", "new", hidden::KEY]);
        assert_eq!(layout.origins[1], Origin::Made(1));
    }

    #[test]
    fn what_is_neither_carried_nor_made_is_gone_but_hidden_columns_stay() {
        let input = schema(&["a", "b", "c", hidden::OP]);
        let layout = Layout::new(Shape::Rowwise, Some(&[2]), &input, &schema(&["a"])).unwrap();
        assert_eq!(names(&layout), ["a", "c", hidden::OP]);
    }

    #[test]
    fn a_plan_that_contradicts_itself_is_refused() {
        let input = schema(&["a", hidden::KEY]);
        assert!(Layout::new(Shape::Rowwise, Some(&[0]), &input, &schema(&["a"])).is_err(), "carried and made");
        assert!(Layout::new(Shape::RowwiseFilter, None, &input, &schema(&["m"])).is_err(), "the mask is an integer");
        assert!(Layout::new(Shape::Free, None, &input, &schema(&["a"])).is_err(), "a hidden column is lost");
        assert!(Layout::new(Shape::Rowwise, None, &input, &schema(&[hidden::OP])).is_err(), "a hidden column is made");
        assert!(indices("reads", Some(&[0, 0]), 2).is_err());
        assert!(indices("reads", Some(&[2]), 2).is_err());
    }

    #[test]
    fn masked_and_bad_rows_leave_and_are_counted_apart() {
        let input = RecordBatch::try_from_iter([("a", numbers([1, 2, 3, 4]))]).unwrap();
        let mask: ArrayRef = Arc::new(BooleanArray::from(vec![true, false, true, false]));
        let made = RecordBatch::try_from_iter([("keep", mask), ("b", numbers([10, 20, 30, 40]))]).unwrap();
        let layout = Layout::new(Shape::RowwiseFilter, None, input.schema_ref(), made.schema_ref()).unwrap();
        let (rows, filtered) = layout.assemble(&input, &made, &[2, 3]).unwrap();
        assert_eq!(rows.column(0).as_ref(), &Int64Array::from(vec![1]));
        assert_eq!(rows.column(1).as_ref(), &Int64Array::from(vec![10]));
        assert_eq!(filtered, 1, "4 rows in = 1 out + 1 filtered + 2 bad");
    }
}

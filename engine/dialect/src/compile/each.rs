//! Lambdas over whole batches: the body is evaluated once, over the elements of all rows, with the columns it reads repeated
//! for each element.

use super::flat::{Flat, lists};
use super::scope::Scope;
use super::{Physical, reduce};
use crate::functions::list_order::keys;
use crate::node::Form;
use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, Int64Array, RecordBatch, UInt32Array, UInt64Array, new_empty_array};
use arrow::buffer::{BooleanBuffer, NullBuffer, OffsetBuffer};
use arrow::compute::{filter, take};
use arrow::datatypes::{DataType, Schema};
use datafusion_common::{Result, ScalarValue, exec_err};
use datafusion_expr_common::columnar_value::ColumnarValue;
use datafusion_physical_expr::PhysicalExpr;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

/// A lambda's translated body and what it needs.
#[derive(Debug)]
pub(super) struct Body {
    pub(super) form: Form,
    pub(super) expr: Physical,
    pub(super) scope: Scope,
    /// The columns of the surrounding batch that it reads.
    pub(super) captured: Vec<usize>,
    /// The type of the body's values.
    pub(super) ty: DataType,
}

/// A lambda over a list.
#[derive(Debug)]
pub(super) struct EachExpr {
    pub(super) body: Arc<Body>,
    pub(super) args: Vec<Physical>,
    pub(super) ty: DataType,
}

impl PhysicalExpr for EachExpr {
    fn data_type(&self, _: &Schema) -> Result<DataType> {
        Ok(self.ty.clone())
    }

    fn nullable(&self, _: &Schema) -> Result<bool> {
        Ok(true)
    }

    fn evaluate(&self, batch: &RecordBatch) -> Result<ColumnarValue> {
        let rows = batch.num_rows();
        let args = self.args.iter().map(|arg| arg.evaluate(batch)).collect::<Result<Vec<_>>>()?;
        let body = self.body.as_ref();
        if matches!(&args[0], ColumnarValue::Scalar(list) if list.is_null()) {
            return Ok(ColumnarValue::Scalar(ScalarValue::try_from(&self.ty)?));
        }
        let flat = Flat::of(&args[0], rows)?;
        let found = match body.form {
            Form::Reduce => reduce::reduce(body, flat, args[1].to_array(rows)?, batch)?,
            Form::Same => body.same(flat, Flat::of(&args[1], rows)?, batch)?,
            Form::Map | Form::Filter | Form::Any | Form::All | Form::Position | Form::SortBy => body.each(flat, &self.ty, batch)?,
        };
        Ok(ColumnarValue::Array(found))
    }

    fn children(&self) -> Vec<&Physical> {
        self.args.iter().collect()
    }

    fn with_new_children(self: Arc<Self>, args: Vec<Physical>) -> Result<Physical> {
        Ok(Arc::new(EachExpr { body: Arc::clone(&self.body), args, ty: self.ty.clone() }))
    }

    fn fmt_sql(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

impl Body {
    /// The body's values for elements that belong to rows of `batch`.
    pub(super) fn evaluate(&self, batch: &RecordBatch, rows: &UInt32Array, params: Vec<ArrayRef>) -> Result<ArrayRef> {
        if rows.is_empty() {
            return Ok(new_empty_array(&self.ty));
        }
        let mut columns = Vec::with_capacity(self.captured.len() + params.len());
        for at in &self.captured {
            columns.push(take(batch.column(*at), rows, None)?);
        }
        columns.extend(params);
        self.expr.evaluate(&self.scope.batch(columns, rows.len())?)?.into_array(rows.len())
    }

    fn each(&self, flat: Flat, ty: &DataType, batch: &RecordBatch) -> Result<ArrayRef> {
        let mut params = vec![Arc::clone(&flat.elements)];
        if self.scope.schema.fields().len() > self.captured.len() + 1 {
            params.push(positions(&flat));
        }
        let values = self.evaluate(batch, &flat.rows_of_elements(), params)?;
        match self.form {
            Form::Filter => {
                let keep = truths(&values)?;
                let kept = |row: usize| keep.slice(flat.offsets[row] as usize, flat.range(row).len()).count_set_bits();
                let offsets = OffsetBuffer::from_lengths((0..flat.rows()).map(kept));
                let elements = filter(&flat.elements, &BooleanArray::new(keep.clone(), None))?;
                lists(offsets, elements, flat.nulls.clone(), ty)
            }
            Form::Any => decide(&flat, &values, true),
            Form::All => decide(&flat, &values, false),
            Form::Position => {
                let truths = truths(&values)?;
                let first = |row: usize| flat.range(row).find(|at| truths.value(*at)).map(|at| (at - flat.range(row).start) as i64);
                Ok(Arc::new((0..flat.rows()).map(first).collect::<Int64Array>()))
            }
            Form::SortBy => {
                let keys = keys(&values)?;
                let mut order: Vec<u64> = (0..flat.elements.len() as u64).collect();
                for row in 0..flat.rows() {
                    order[flat.range(row)].sort_by(|a, b| keys.row(*a as usize).cmp(&keys.row(*b as usize)));
                }
                flat.with_elements(take(&flat.elements, &UInt64Array::from(order), None)?, ty)
            }
            Form::Map | Form::Reduce | Form::Same => flat.with_elements(values, ty),
        }
    }

    /// Whether two columns of lists are equal row by row: elements are compared only where the lengths are.
    fn same(&self, left: Flat, right: Flat, batch: &RecordBatch) -> Result<ArrayRef> {
        let nulls = NullBuffer::union(left.nulls.as_ref(), right.nulls.as_ref());
        let rows = left.rows();
        let level = |row: usize| nulls.as_ref().is_none_or(|nulls| nulls.is_valid(row)) && left.range(row).len() == right.range(row).len();
        let (mut owners, mut a, mut b) = (Vec::new(), Vec::new(), Vec::new());
        for row in (0..rows).filter(|row| level(*row)) {
            owners.resize(owners.len() + left.range(row).len(), row as u32);
            a.extend(left.range(row).map(|at| at as u64));
            b.extend(right.range(row).map(|at| at as u64));
        }
        let pairs = vec![take(&left.elements, &UInt64Array::from(a), None)?, take(&right.elements, &UInt64Array::from(b), None)?];
        let owners = UInt32Array::from(owners);
        let equal = truths(&self.evaluate(batch, &owners, pairs)?)?;
        let mut same: Vec<bool> = (0..rows).map(level).collect();
        for (at, row) in owners.values().iter().enumerate() {
            same[*row as usize] &= equal.value(at);
        }
        Ok(Arc::new(BooleanArray::new(BooleanBuffer::from(same), nulls)))
    }
}

/// The position of each element in its list.
fn positions(flat: &Flat) -> ArrayRef {
    let mut positions = Vec::with_capacity(flat.elements.len());
    for row in 0..flat.rows() {
        positions.extend(0..flat.range(row).len() as i64);
    }
    Arc::new(Int64Array::from(positions))
}

fn truths(values: &ArrayRef) -> Result<BooleanBuffer> {
    match values.as_boolean_opt() {
        Some(values) => Ok(match values.nulls() {
            Some(nulls) => values.values() & nulls.inner(),
            None => values.values().clone(),
        }),
        None => exec_err!("expected bools, found {}", values.data_type()),
    }
}

/// `any` (decided by true) and `all` (decided by false), with three values.
fn decide(flat: &Flat, values: &ArrayRef, by: bool) -> Result<ArrayRef> {
    let Some(values) = values.as_boolean_opt() else {
        return exec_err!("expected bools, found {}", values.data_type());
    };
    let answer = |row: usize| {
        if flat.is_null(row) {
            return None;
        }
        let mut found = Some(!by);
        for at in flat.range(row) {
            if values.is_null(at) {
                found = None;
            } else if values.value(at) == by {
                return Some(by);
            }
        }
        found
    };
    Ok(Arc::new((0..flat.rows()).map(answer).collect::<BooleanArray>()))
}

impl fmt::Display for EachExpr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}(", self.body.form)?;
        for arg in &self.args {
            write!(f, "{arg}, ")?;
        }
        write!(f, "-> {})", self.body.expr)
    }
}

impl PartialEq for EachExpr {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.body, &other.body) && self.args == other.args
    }
}

impl Eq for EachExpr {}

impl Hash for EachExpr {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.body.form.hash(state);
        self.ty.hash(state);
        self.args.hash(state);
    }
}

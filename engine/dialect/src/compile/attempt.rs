//! `try` and `Let` over whole batches.

use super::Physical;
use super::scope::Scope;
use crate::node::Node;
use crate::reference::{self, Row};
use crate::value::{Value, build};
use arrow::array::{Array, ArrayRef, RecordBatch};
use arrow::compute::concat;
use arrow::datatypes::{DataType, Schema};
use datafusion_common::Result;
use datafusion_expr_common::columnar_value::ColumnarValue;
use datafusion_physical_expr::PhysicalExpr;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

/// Batches no larger than this are not halved any further in search of a row that fails.
const SMALLEST_HALF: usize = 16;

/// The values of an expression, null where it fails.
#[derive(Debug)]
pub(super) struct TryExpr {
    pub(super) value: Physical,
    /// The same for the reference evaluator, over the same batch.
    pub(super) local: Arc<Node>,
}

impl TryExpr {
    /// Halves a batch until the parts that fail are small, and asks the reference evaluator for those.
    fn halve(&self, batch: &RecordBatch, pieces: &mut Vec<ArrayRef>) -> Result<()> {
        let rows = batch.num_rows();
        if let Ok(values) = self.value.evaluate(batch).and_then(|values| values.into_array(rows)) {
            pieces.push(values);
        } else if rows <= SMALLEST_HALF {
            let now = 0; // Here `now()` is a column.
            let value = |index| reference::evaluate(&self.local, &Row { batch, index, now }).unwrap_or(Value::Null);
            pieces.push(build(&self.local.ty, &(0..rows).map(value).collect::<Vec<_>>()));
        } else {
            self.halve(&batch.slice(0, rows / 2), pieces)?;
            self.halve(&batch.slice(rows / 2, rows - rows / 2), pieces)?;
        }
        Ok(())
    }
}

impl PhysicalExpr for TryExpr {
    fn data_type(&self, _: &Schema) -> Result<DataType> {
        Ok(self.local.ty.clone())
    }

    fn nullable(&self, _: &Schema) -> Result<bool> {
        Ok(true)
    }

    fn evaluate(&self, batch: &RecordBatch) -> Result<ColumnarValue> {
        let mut pieces = Vec::new();
        self.halve(batch, &mut pieces)?;
        let pieces: Vec<&dyn Array> = pieces.iter().map(|piece| piece.as_ref()).collect();
        Ok(ColumnarValue::Array(concat(&pieces)?))
    }

    fn children(&self) -> Vec<&Physical> {
        vec![&self.value]
    }

    fn with_new_children(self: Arc<Self>, mut children: Vec<Physical>) -> Result<Physical> {
        let value = children.pop().unwrap_or_else(|| Arc::clone(&self.value));
        Ok(Arc::new(TryExpr { value, local: Arc::clone(&self.local) }))
    }

    fn fmt_sql(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

impl fmt::Display for TryExpr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "try({})", self.value)
    }
}

impl PartialEq for TryExpr {
    fn eq(&self, other: &Self) -> bool {
        self.value.eq(&other.value)
    }
}

impl Eq for TryExpr {}

impl Hash for TryExpr {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.value.hash(state);
    }
}

/// An expression over the columns it reads and one more: a value that is used several times.
#[derive(Debug)]
pub(super) struct LetExpr {
    pub(super) value: Physical,
    pub(super) body: Physical,
    pub(super) scope: Scope,
    /// The columns of the surrounding batch that the body reads.
    pub(super) captured: Vec<usize>,
    pub(super) ty: DataType,
}

impl PhysicalExpr for LetExpr {
    fn data_type(&self, _: &Schema) -> Result<DataType> {
        Ok(self.ty.clone())
    }

    fn nullable(&self, _: &Schema) -> Result<bool> {
        Ok(true)
    }

    fn evaluate(&self, batch: &RecordBatch) -> Result<ColumnarValue> {
        let rows = batch.num_rows();
        let mut columns: Vec<ArrayRef> = self.captured.iter().map(|at| Arc::clone(batch.column(*at))).collect();
        columns.push(self.value.evaluate(batch)?.into_array(rows)?);
        self.body.evaluate(&self.scope.batch(columns, rows)?)
    }

    fn children(&self) -> Vec<&Physical> {
        vec![&self.value]
    }

    fn with_new_children(self: Arc<Self>, mut children: Vec<Physical>) -> Result<Physical> {
        Ok(Arc::new(LetExpr {
            value: children.pop().unwrap_or_else(|| Arc::clone(&self.value)),
            body: Arc::clone(&self.body),
            scope: self.scope.clone(),
            captured: self.captured.clone(),
            ty: self.ty.clone(),
        }))
    }

    fn fmt_sql(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

impl fmt::Display for LetExpr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "let {} in {}", self.value, self.body)
    }
}

impl PartialEq for LetExpr {
    fn eq(&self, other: &Self) -> bool {
        self.value.eq(&other.value) && self.body.eq(&other.body) && self.captured == other.captured
    }
}

impl Eq for LetExpr {}

impl Hash for LetExpr {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.value.hash(state);
        self.body.hash(state);
    }
}

//! Our own node in a tree of DataFusion's physical expressions.

use super::{Physical, control};
use crate::node::KernelFn;
use arrow::array::RecordBatch;
use arrow::datatypes::{DataType, Schema};
use datafusion_common::{Result, ScalarValue};
use datafusion_expr_common::columnar_value::ColumnarValue;
use datafusion_physical_expr::PhysicalExpr;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

/// How a node evaluates its arguments.
pub(super) enum Body {
    /// All of them for all rows; null if one is null.
    Strict(KernelFn),
    /// All of them for all rows; nulls are values like others.
    Whole(KernelFn),
    /// The right one only where the left is not false.
    And,
    /// The right one only where the left is not true.
    Or,
    /// Condition, value, other value; those marked only for the rows that take them.
    If { select_then: bool, select_otherwise: bool },
    /// The first that is not null; those marked only for the rows that are still null.
    Coalesce { select: Vec<bool> },
}

/// A node with its arguments and the type of its values.
pub(super) struct Operation {
    label: &'static str,
    body: Arc<Body>,
    args: Vec<Physical>,
    ty: DataType,
}

impl Operation {
    pub(super) fn new(label: &'static str, body: Body, args: Vec<Physical>, ty: DataType) -> Self {
        Operation { label, body: Arc::new(body), args, ty }
    }
}

impl PhysicalExpr for Operation {
    fn data_type(&self, _: &Schema) -> Result<DataType> {
        Ok(self.ty.clone())
    }

    fn nullable(&self, _: &Schema) -> Result<bool> {
        Ok(true)
    }

    fn evaluate(&self, batch: &RecordBatch) -> Result<ColumnarValue> {
        match self.body.as_ref() {
            Body::Strict(kernel) => self.strict(kernel, batch),
            Body::Whole(kernel) => {
                let args = self.args.iter().map(|arg| arg.evaluate(batch)).collect::<Result<Vec<_>>>()?;
                kernel(&args, batch.num_rows())
            }
            Body::And => control::and(&self.args, batch),
            Body::Or => control::or(&self.args, batch),
            Body::If { select_then, select_otherwise } => control::choose(&self.args, *select_then, *select_otherwise, batch),
            Body::Coalesce { select } => control::coalesce(&self.args, select, batch),
        }
    }

    fn children(&self) -> Vec<&Physical> {
        self.args.iter().collect()
    }

    fn with_new_children(self: Arc<Self>, args: Vec<Physical>) -> Result<Physical> {
        Ok(Arc::new(Operation { label: self.label, body: Arc::clone(&self.body), args, ty: self.ty.clone() }))
    }

    fn fmt_sql(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

impl Operation {
    fn strict(&self, kernel: &KernelFn, batch: &RecordBatch) -> Result<ColumnarValue> {
        let mut args = Vec::with_capacity(self.args.len());
        for arg in &self.args {
            args.push(arg.evaluate(batch)?);
        }
        if args.iter().any(|arg| matches!(arg, ColumnarValue::Scalar(value) if value.is_null())) {
            return Ok(ColumnarValue::Scalar(ScalarValue::try_from(&self.ty)?));
        }
        let rows = batch.num_rows();
        // Kernels may count on one argument with a value for each row.
        if args.iter().all(|arg| matches!(arg, ColumnarValue::Scalar(_)))
            && let Some(first) = args.first_mut()
        {
            *first = ColumnarValue::Array(first.to_array(rows)?);
        }
        kernel(&args, rows)
    }
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}(", self.label)?;
        for (at, arg) in self.args.iter().enumerate() {
            write!(f, "{}{arg}", if at > 0 { ", " } else { "" })?;
        }
        f.write_str(")")
    }
}

impl fmt::Debug for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}: {}", self.ty)
    }
}

// Kernels are closures: two nodes are the same if they share one.
impl PartialEq for Operation {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.body, &other.body) && self.ty == other.ty && self.args == other.args
    }
}

impl Eq for Operation {}

impl Hash for Operation {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.label.hash(state);
        self.ty.hash(state);
        self.args.hash(state);
    }
}

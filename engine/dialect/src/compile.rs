//! The fast path: from the typed expression to a DataFusion physical expression over kernels that check as they go.
//!
//! A kernel of ours stands wherever DataFusion's answers differ from the dialect's: arithmetic that overflows, the order of
//! floats, comparisons across types, and everything that evaluates an operand for some rows only. What has no kernel is
//! evaluated row by row by the reference's own function, inside the same expression.

mod access;
mod arithmetic;
mod compare;
mod control;
mod convert;
mod operation;
mod sides;

use crate::node::{Call, KernelFn, Kind, Node, Order};
use crate::value::{Value, build};
use arrow::array::{Array, ArrayRef};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef, TimeUnit};
use datafusion_common::{Result, ScalarValue, exec_err};
use datafusion_expr_common::columnar_value::ColumnarValue;
use datafusion_expr_common::operator::Operator;
use datafusion_physical_expr::PhysicalExpr;
use datafusion_physical_expr::expressions::{BinaryExpr, Column, InListExpr, IsNotNullExpr, IsNullExpr, Literal, NotExpr};
use operation::{Body, Operation};
use std::sync::Arc;

type Physical = Arc<dyn PhysicalExpr>;

/// A translated expression and the columns it is evaluated on.
#[derive(Debug, Clone)]
pub(crate) struct Plan {
    pub(crate) expr: Physical,
    /// The columns of a batch to evaluate it on, with `now()` behind them where it is used.
    pub(crate) columns: Vec<usize>,
    pub(crate) schema: SchemaRef,
    pub(crate) uses_now: bool,
}

/// Translates `node`, whose columns are those of `schema`. Only the columns it reads are kept: where an operand is
/// evaluated for some rows only, nothing else is selected.
pub(crate) fn translate(node: &Node, schema: &Schema) -> Result<Plan> {
    let mut columns = Vec::new();
    let mut uses_now = false;
    node.walk(&mut |node| match &node.kind {
        Kind::Column { index, .. } if !columns.contains(index) => columns.push(*index),
        Kind::Now => uses_now = true,
        _ => {}
    });
    columns.sort_unstable();
    let mut fields: Vec<Field> =
        columns.iter().map(|index| Field::new(schema.field(*index).name(), schema.field(*index).data_type().clone(), true)).collect();
    if uses_now {
        fields.push(Field::new("now()", DataType::Timestamp(TimeUnit::Microsecond, None), true));
    }
    let schema = Arc::new(Schema::new(fields));
    let expr = Translator { columns: &columns, schema: &schema }.expr(node)?;
    Ok(Plan { expr, columns, schema, uses_now })
}

struct Translator<'a> {
    columns: &'a [usize],
    schema: &'a SchemaRef,
}

impl Translator<'_> {
    fn expr(&self, node: &Node) -> Result<Physical> {
        Ok(match &node.kind {
            Kind::Literal(value) => literal(value, &node.ty)?,
            Kind::Column { index, name } => match self.columns.iter().position(|column| column == index) {
                Some(position) => Arc::new(Column::new(name, position)),
                None => return exec_err!("column `{name}` is not kept"),
            },
            Kind::Now => Arc::new(Column::new("now()", self.columns.len())),
            Kind::Convert(child) => self.strict("convert", convert::kernel(&child.ty, &node.ty), &[child], node)?,
            Kind::Negate(child) => self.strict("negate", arithmetic::negate(&node.ty), &[child], node)?,
            Kind::Not(child) => match &child.kind {
                Kind::IsNull(inner) => Arc::new(IsNotNullExpr::new(self.expr(inner)?)),
                _ => Arc::new(NotExpr::new(self.expr(child)?)),
            },
            Kind::Arithmetic(op, left, right) => {
                let (left, right) = (without_widening(left, &node.ty), without_widening(right, &node.ty));
                self.strict(op.symbol(), arithmetic::kernel(*op, left, right, &node.ty), &[left, right], node)?
            }
            Kind::Shift(op, time, millis) => self.strict(op.symbol(), arithmetic::shift(*op, &node.ty), &[time, millis], node)?,
            Kind::Elapsed(left, right) => self.strict("-", arithmetic::elapsed(&left.ty, &right.ty), &[left, right], node)?,
            Kind::Compare(op, Order::Same, left, right) => {
                Arc::new(BinaryExpr::new(self.expr(left)?, compare::operator(*op), self.expr(right)?))
            }
            Kind::Compare(op, order, left, right) => {
                self.strict(op.symbol(), compare::kernel(*op, *order, &left.ty, &right.ty), &[left, right], node)?
            }
            Kind::In(Order::Same, value, items) => {
                let list = items.iter().map(|item| self.expr(item)).collect::<Result<Vec<_>>>()?;
                Arc::new(InListExpr::try_new(self.expr(value)?, list, false, self.schema)?)
            }
            Kind::In(order, value, items) => {
                let list = items.iter().filter_map(|item| Some((scalar(item.as_literal()?, &item.ty).ok()?, item.ty.clone()))).collect();
                self.strict("in", compare::within(*order, &value.ty, list), &[value], node)?
            }
            Kind::IsNull(child) => Arc::new(IsNullExpr::new(self.expr(child)?)),
            Kind::And(left, right) => self.junction(left, right, Operator::And, Body::And)?,
            Kind::Or(left, right) => self.junction(left, right, Operator::Or, Body::Or)?,
            Kind::If(condition, then, otherwise) => {
                let body = Body::If { select_then: selects(then), select_otherwise: selects(otherwise) };
                let args = vec![self.expr(condition)?, self.expr(then)?, self.expr(otherwise)?];
                Arc::new(Operation::new("?:", body, args, node.ty.clone()))
            }
            Kind::Coalesce(items) => {
                let body = Body::Coalesce { select: items.iter().map(selects).collect() };
                let args = items.iter().map(|item| self.expr(item)).collect::<Result<Vec<_>>>()?;
                Arc::new(Operation::new("??", body, args, node.ty.clone()))
            }
            Kind::Member(value, index) => self.strict(".", access::member(*index), &[value], node)?,
            Kind::Index(list, index) => self.strict("[]", access::index(), &[list, index], node)?,
            Kind::Call(call) => {
                let args: Vec<&Node> = call.args.iter().collect();
                let kernel = call.kernel.clone().unwrap_or_else(|| by_row(call, &node.ty));
                self.strict(call.name, kernel, &args, node)?
            }
        })
    }

    fn strict(&self, label: &'static str, kernel: KernelFn, args: &[&Node], node: &Node) -> Result<Physical> {
        let args = args.iter().map(|arg| self.expr(arg)).collect::<Result<Vec<_>>>()?;
        Ok(Arc::new(Operation::new(label, Body::Strict(kernel), args, node.ty.clone())))
    }

    /// DataFusion's own `AND` and `OR`, unless the right side must not be seen by rows that the left decides.
    fn junction(&self, left: &Node, right: &Node, operator: Operator, body: Body) -> Result<Physical> {
        let args = (self.expr(left)?, self.expr(right)?);
        Ok(match selects(right) {
            true => Arc::new(Operation::new(node_label(operator), body, vec![args.0, args.1], DataType::Boolean)),
            false => Arc::new(BinaryExpr::new(args.0, operator, args.1)),
        })
    }
}

fn node_label(operator: Operator) -> &'static str {
    if operator == Operator::And { "&&" } else { "||" }
}

/// Whether an operand is evaluated only for the rows that need it: it can fail, or costs more than the selection.
fn selects(node: &Node) -> bool {
    node.fallible || node.costly
}

/// Float kernels read int64 as it comes, so that `price * 0.908` is one pass.
fn without_widening<'a>(node: &'a Node, result: &DataType) -> &'a Node {
    match &node.kind {
        Kind::Convert(inner) if *result == DataType::Float64 && node.ty == DataType::Float64 && inner.ty == DataType::Int64 => inner,
        _ => node,
    }
}

fn scalar(value: &Value, ty: &DataType) -> Result<ScalarValue> {
    ScalarValue::try_from_array(&build(ty, std::slice::from_ref(value)), 0)
}

fn literal(value: &Value, ty: &DataType) -> Result<Physical> {
    Ok(Arc::new(Literal::new(scalar(value, ty)?)))
}

/// The function's definition, applied to one row after the other.
fn by_row(call: &Call, ty: &DataType) -> KernelFn {
    let (row, ty) = (Arc::clone(&call.row), ty.clone());
    Arc::new(move |args: &[ColumnarValue], rows: usize| {
        let arrays = args.iter().map(|arg| arg.to_array(rows)).collect::<Result<Vec<ArrayRef>>>()?;
        let mut values = Vec::with_capacity(rows);
        let mut arguments = Vec::with_capacity(arrays.len());
        for at in 0..rows {
            arguments.clear();
            arguments.extend(arrays.iter().map(|array| Value::read(array.as_ref() as &dyn Array, at)));
            match arguments.iter().any(Value::is_null) {
                true => values.push(Value::Null),
                false => match row(&arguments) {
                    Ok(value) => values.push(value),
                    Err(message) => return exec_err!("{message}"),
                },
            }
        }
        Ok(ColumnarValue::Array(build(&ty, &values)))
    })
}

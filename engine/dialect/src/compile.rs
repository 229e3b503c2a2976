//! The fast path: from the typed expression to a DataFusion physical expression over kernels that check as they go.
//!
//! A kernel of ours stands wherever DataFusion's answers differ from the dialect's: arithmetic that overflows, the order of
//! floats, comparisons across types, and everything that evaluates an operand for some rows only. What has no kernel is
//! evaluated row by row by the reference's own function, inside the same expression.

mod access;
mod arithmetic;
mod attempt;
mod compare;
mod control;
mod convert;
mod each;
pub(crate) mod flat;
mod operation;
mod reduce;
mod scope;
mod sides;

use crate::node::{Call, Each, Form, KernelFn, Kind, Leaf, Node, Order};
use crate::types;
use crate::value::{Value, build};
use arrow::array::{Array, ArrayRef};
use arrow::datatypes::{DataType, Schema, SchemaRef};
use attempt::{LetExpr, TryExpr};
use datafusion_common::{Result, ScalarValue, exec_err};
use datafusion_expr_common::columnar_value::ColumnarValue;
use datafusion_expr_common::operator::Operator;
use datafusion_physical_expr::PhysicalExpr;
use datafusion_physical_expr::expressions::{BinaryExpr, InListExpr, IsNotNullExpr, IsNullExpr, Literal, NotExpr};
use operation::{Body, Operation};
use scope::Scope;
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
    let leaves = node.leaves();
    let mut columns: Vec<usize> =
        leaves.iter().filter_map(|(leaf, _)| if let Leaf::Column(index) = leaf { Some(*index) } else { None }).collect();
    columns.sort_unstable();
    let uses_now = leaves.iter().any(|(leaf, _)| *leaf == Leaf::Now);
    let mut kept: Vec<(Leaf, DataType)> =
        columns.iter().map(|index| (Leaf::Column(*index), schema.field(*index).data_type().clone())).collect();
    if uses_now {
        kept.push((Leaf::Now, scope::now_type()));
    }
    let scope = Scope::new(kept);
    let expr = Translator { scope: &scope }.expr(node)?;
    Ok(Plan { expr, columns, schema: scope.schema, uses_now })
}

struct Translator<'a> {
    scope: &'a Scope,
}

impl Translator<'_> {
    fn expr(&self, node: &Node) -> Result<Physical> {
        Ok(match &node.kind {
            Kind::Literal(value) => literal(value, &node.ty)?,
            Kind::Column { index, .. } => self.scope.read(Leaf::Column(*index))?,
            Kind::Now => self.scope.read(Leaf::Now)?,
            Kind::Param(slot) => self.scope.read(Leaf::Param(*slot))?,
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
                Arc::new(InListExpr::try_new(self.expr(value)?, list, false, &self.scope.schema)?)
            }
            Kind::In(order, value, items) => {
                let list = items.iter().filter_map(|item| Some((item.as_literal()?, &item.ty)));
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
            Kind::List(items) => self.whole("[]", access::list(&node.ty), items, node)?,
            Kind::Object(members) => self.whole("{}", access::object(&node.ty), members, node)?,
            Kind::Let(slot, value, body) => {
                let (scope, captured) = self.scope.within(body, &[(*slot, value.ty.clone())])?;
                let inner = Translator { scope: &scope }.expr(body)?;
                Arc::new(LetExpr { value: self.expr(value)?, body: inner, scope, captured, ty: node.ty.clone() })
            }
            Kind::Each(lambda) => self.lambda(lambda, node)?,
            Kind::Try(value) => Arc::new(TryExpr { value: self.expr(value)?, local: Arc::new(self.scope.localized(value)?) }),
        })
    }

    fn strict(&self, label: &'static str, kernel: KernelFn, args: &[&Node], node: &Node) -> Result<Physical> {
        let args = args.iter().map(|arg| self.expr(arg)).collect::<Result<Vec<_>>>()?;
        Ok(Arc::new(Operation::new(label, Body::Strict(kernel), args, node.ty.clone())))
    }

    /// As [`Translator::strict`], for a kernel that takes nulls as they come.
    fn whole(&self, label: &'static str, kernel: KernelFn, args: &[Node], node: &Node) -> Result<Physical> {
        let args = args.iter().map(|arg| self.expr(arg)).collect::<Result<Vec<_>>>()?;
        Ok(Arc::new(Operation::new(label, Body::Whole(kernel), args, node.ty.clone())))
    }

    fn lambda(&self, lambda: &Each, node: &Node) -> Result<Physical> {
        let slot = lambda.slot;
        let item = |at: usize| lambda.args.get(at).and_then(|arg| types::item_of(&arg.ty)).cloned().unwrap_or(DataType::Null);
        let params = match lambda.form {
            Form::Reduce => vec![(slot, node.ty.clone()), (slot + 1, item(0))],
            Form::Same => vec![(slot, item(0)), (slot + 1, item(1))],
            Form::Map | Form::Filter | Form::Any | Form::All | Form::Position | Form::SortBy => {
                let counted = lambda.body.leaves().iter().any(|(leaf, _)| *leaf == Leaf::Param(slot + 1));
                let position = counted.then_some((slot + 1, DataType::Int64));
                [(slot, item(0))].into_iter().chain(position).collect()
            }
        };
        let (scope, captured) = self.scope.within(&lambda.body, &params)?;
        let expr = Translator { scope: &scope }.expr(&lambda.body)?;
        let body = each::Body { form: lambda.form, expr, scope, captured, ty: lambda.body.ty.clone() };
        let args = lambda.args.iter().map(|arg| self.expr(arg)).collect::<Result<Vec<_>>>()?;
        Ok(Arc::new(each::EachExpr { body: Arc::new(body), args, ty: node.ty.clone() }))
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

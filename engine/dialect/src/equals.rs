//! The conditions of a filter that a source could apply: `column == literal` and `column in [literals]`.

use crate::ast::Compare;
use crate::node::{Kind, Node, Order};
use crate::types::{Class, class};
use crate::value::Value;
use tidegate_api::EqualTo;

/// The top-level conjuncts of the form `column == literal` or `column in [literals]`, for columns of text, integers and bools.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Equals {
    /// The conditions; all of them hold for every row of which the expression is true.
    pub conjuncts: Vec<EqualTo>,
    /// Whether the expression says nothing else: a filter whose conjuncts are all applied elsewhere can be dropped.
    pub whole: bool,
}

pub(crate) fn of(node: &Node) -> Equals {
    let mut equals = Equals { conjuncts: Vec::new(), whole: true };
    collect(node, &mut equals);
    equals
}

fn collect(node: &Node, equals: &mut Equals) {
    if let Kind::And(left, right) = &node.kind {
        collect(left, equals);
        collect(right, equals);
        return;
    }
    let found = match &node.kind {
        Kind::Compare(Compare::Equal, Order::Same, left, right) => {
            condition(left, std::slice::from_ref(right.as_ref())).or_else(|| condition(right, std::slice::from_ref(left.as_ref())))
        }
        Kind::In(Order::Same, value, items) => condition(value, items),
        _ => None,
    };
    match found {
        Some(found) => equals.conjuncts.push(found),
        None => equals.whole = false,
    }
}

fn condition(column: &Node, items: &[Node]) -> Option<EqualTo> {
    let name = match &column.kind {
        Kind::Column { name, .. } => name,
        // Text of another layout, read as `Utf8View`.
        Kind::Convert(inner) if class(&column.ty) == Class::Text => match &inner.kind {
            Kind::Column { name, .. } => name,
            _ => return None,
        },
        _ => return None,
    };
    let values = items.iter().map(|item| json(item.as_literal()?)).collect::<Option<Vec<_>>>()?;
    Some(EqualTo { column: name.clone(), values })
}

fn json(value: &Value) -> Option<serde_json::Value> {
    match value {
        Value::Text(text) => Some(text.clone().into()),
        Value::Bool(value) => Some((*value).into()),
        Value::Int(value) => i64::try_from(*value).map(Into::into).or_else(|_| u64::try_from(*value).map(Into::into)).ok(),
        Value::Null | Value::Float(_) | Value::Decimal(_) | Value::Time(_) | Value::Bytes(_) => None,
        Value::List(_) | Value::Object(_) | Value::Nested(_) => None,
    }
}

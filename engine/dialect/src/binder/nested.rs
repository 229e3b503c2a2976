//! Lists and objects: as they are written, and what is read out of them.

use super::Binder;
use crate::Diagnostic;
use crate::ast::{Access, Compare, Expr};
use crate::functions::list_search;
use crate::node::{Kind, Node};
use crate::types;
use crate::value::Value;
use arrow::datatypes::DataType;
use std::collections::HashSet;
use std::ops::Range;
use tidegate_api::nearest;

impl Binder<'_> {
    /// `[a, b]`: the elements in the type they have in common.
    pub(super) fn list(&self, items: Vec<Node>, span: Range<usize>) -> Result<Node, Diagnostic> {
        let ty = self.common(&items.iter().collect::<Vec<_>>(), "the elements of the list")?;
        let items = items.into_iter().map(|item| self.convert(item, &ty)).collect();
        Ok(Node::new(Kind::List(items), types::list_of(ty), span, false))
    }

    /// `{a: 1, 'b c': 2}`
    pub(super) fn object(&self, members: &[(String, Expr)], span: Range<usize>) -> Result<Node, Diagnostic> {
        let mut seen = HashSet::new();
        let (mut fields, mut nodes) = (Vec::with_capacity(members.len()), Vec::with_capacity(members.len()));
        for (name, value) in members {
            if !seen.insert(name) {
                return self.fail(&value.span, format!("the object has two members named `{name}`"));
            }
            let node = self.expr(value)?;
            fields.push((name.clone(), node.ty.clone()));
            nodes.push(node);
        }
        Ok(Node::new(Kind::Object(nodes), types::object_of(fields), span, false))
    }

    pub(super) fn member(&self, value: Node, access: Access, name: &str, span: Range<usize>) -> Result<Node, Diagnostic> {
        if value.ty == DataType::Null && access == Access::NullSafe {
            return Ok(Node::literal(Value::Null, DataType::Null, span));
        }
        let DataType::Struct(fields) = &value.ty else {
            let whole = self.text[span.clone()].replace('`', "");
            let hint = match self.schema.column_with_name(&whole) {
                Some(_) => format!(", quote the column as `` `{whole}` ``"),
                None => String::new(),
            };
            return self.fail(&span, format!("{} has no members{hint}", types::name(&value.ty)));
        };
        let Some((index, field)) = fields.find(name) else {
            let known = fields.iter().map(|field| field.name().as_str());
            return self.fail(&span, format!("unknown member `{name}`{}", nearest::hint(name, known)));
        };
        let ty = field.data_type().clone();
        Ok(Node::new(Kind::Member(Box::new(value), index), ty, span, false))
    }

    /// `list[position]`, `object['name']`
    pub(super) fn index(&self, value: Node, index: Node, span: Range<usize>) -> Result<Node, Diagnostic> {
        if let DataType::Struct(_) = &value.ty {
            return match index.as_literal() {
                Some(Value::Text(name)) => self.member(value, Access::Plain, &name.clone(), span),
                _ => self.fail(&index.span, "the name of a member is a constant text, its type must be known"),
            };
        }
        let Some(item) = types::item_of(&value.ty) else {
            return self.fail(&value.span, format!("{} has no elements, `[…]` reads a list", types::name(&value.ty)));
        };
        if !types::is_integer(&index.ty) {
            return self.fail(&index.span, format!("an index is an integer, not {}", types::name(&index.ty)));
        }
        let ty = item.clone();
        let index = self.convert(index, &DataType::Int64);
        Ok(Node::new(Kind::Index(Box::new(value), Box::new(index)), ty, span, false))
    }

    /// `value in list`: whether one element equals it.
    pub(super) fn in_list(&self, value: Node, list: Node, span: Range<usize>) -> Result<Node, Diagnostic> {
        if types::item_of(&list.ty).is_none() {
            return self.fail(&list.span, format!("`in` takes a list or a range such as `1..10`, not {}", types::name(&list.ty)));
        }
        list_search::contains(self.text, list, value, span)
    }

    /// `value in low..high` is `value >= low && value <= high`.
    pub(super) fn in_range(&self, value: Node, low: Node, high: Node, span: Range<usize>) -> Result<Node, Diagnostic> {
        value.once(Node::free_slot([&low, &high]), |value| {
            let above = self.compare(Compare::GreaterOrEqual, value.clone(), low.clone(), span.clone())?;
            let below = self.compare(Compare::LessOrEqual, value, high.clone(), span.clone())?;
            Ok(Node::new(Kind::And(Box::new(above), Box::new(below)), DataType::Boolean, span.clone(), false))
        })
    }
}

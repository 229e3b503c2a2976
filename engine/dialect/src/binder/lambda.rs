//! The functions that take a lambda, and `try`: they decide how their arguments are bound.

use super::Binder;
use crate::Diagnostic;
use crate::ast::{Expr, ExprKind};
use crate::node::{Each, Form, Kind, Node};
use crate::types::{self, Class, DECIMAL_DIGITS, class};
use arrow::datatypes::DataType;
use std::ops::Range;

/// Lambdas around each other. Each level may multiply the work by the length of a list.
const MOST_NESTED: usize = 8;

type BindForm = fn(&Binder<'_>, &[Expr], Range<usize>) -> Result<Node, Diagnostic>;

/// How a function binds its arguments, if it does so itself.
pub(super) fn form(name: &str) -> Option<BindForm> {
    Some(match name {
        "map" => |binder, args, span| binder.each(Form::Map, args, span),
        "filter" => |binder, args, span| binder.each(Form::Filter, args, span),
        "any" => |binder, args, span| binder.each(Form::Any, args, span),
        "all" => |binder, args, span| binder.each(Form::All, args, span),
        "sortBy" => |binder, args, span| binder.each(Form::SortBy, args, span),
        "reduce" => |binder, args, span| binder.reduce(args, span),
        "try" => |binder, args, span| binder.attempt(args, span),
        _ => return None,
    })
}

impl Binder<'_> {
    /// Binds a lambda whose parameters have these types; gives its slot and its body.
    fn lambda(&self, arg: &Expr, types: [&DataType; 2], least: usize, wanted: &str) -> Result<(usize, Node), Diagnostic> {
        let ExprKind::Lambda(names, body) = &arg.kind else {
            return self.fail(&arg.span, format!("expected a lambda such as `{wanted}`"));
        };
        if names.len() < least || names.len() > types.len() {
            return self.fail(&arg.span, format!("the lambda has {} parameters, write it as `{wanted}`", names.len()));
        }
        let slot = self.params.borrow().len();
        if slot >= 2 * MOST_NESTED {
            return self
                .fail(&arg.span, format!("lambdas nest at most {MOST_NESTED} levels deep, split the expression into several columns"));
        }
        for (at, ty) in types.into_iter().enumerate() {
            // No name is empty: a parameter that is not named keeps its slot and cannot be read.
            self.params.borrow_mut().push((names.get(at).cloned().unwrap_or_default(), ty.clone()));
        }
        let body = self.expr(body);
        self.params.borrow_mut().truncate(slot);
        Ok((slot, body?))
    }

    /// An argument that is a list, and the type of its elements.
    fn listed(&self, arg: &Expr, function: &str) -> Result<(Node, DataType), Diagnostic> {
        let mut list = self.expr(arg)?;
        if list.ty == DataType::Null {
            list = self.convert(list, &types::list_of(DataType::Null));
        }
        match types::item_of(&list.ty).cloned() {
            Some(item) => Ok((list, item)),
            None => self.fail(&list.span, format!("the first argument of `{function}` is a list, not {}", types::name(&list.ty))),
        }
    }

    fn each(&self, form: Form, args: &[Expr], span: Range<usize>) -> Result<Node, Diagnostic> {
        let function = match form {
            Form::Map => "map",
            Form::Filter => "filter",
            Form::Any => "any",
            Form::All | Form::Reduce | Form::Same | Form::Position => "all",
            Form::SortBy => "sortBy",
        };
        let (list, item) = self.listed(&args[0], function)?;
        let (slot, body) = self.lambda(&args[1], [&item, &DataType::Int64], 1, "x -> …")?;
        let (body, ty) = match form {
            Form::Map => {
                let ty = types::list_of(body.ty.clone());
                (body, ty)
            }
            Form::SortBy if class(&body.ty) == Class::Other => {
                return self.fail(&body.span, format!("{} has no order to sort by", types::name(&body.ty)));
            }
            Form::SortBy => (body, list.ty.clone()),
            Form::Filter | Form::Any | Form::All | Form::Position | Form::Reduce | Form::Same => {
                let body = match class(&body.ty) {
                    Class::Bool => body,
                    Class::Null => self.convert(body, &DataType::Boolean),
                    _ => {
                        let found = types::name(&body.ty);
                        return self.fail(&body.span, format!("the lambda of `{function}` gives bool, not {found}"));
                    }
                };
                (body, if form == Form::Filter { list.ty.clone() } else { DataType::Boolean })
            }
        };
        let each = Each { form, slot, args: vec![list], body: Box::new(body) };
        Ok(Node::new(Kind::Each(each), ty, span, false))
    }

    /// `reduce(list, start, (sum, x) -> …)`
    fn reduce(&self, args: &[Expr], span: Range<usize>) -> Result<Node, Diagnostic> {
        let (list, item) = self.listed(&args[0], "reduce")?;
        let start = self.expr(&args[1])?;
        // A decimal's digits grow with every step.
        let ty = match class(&start.ty) {
            Class::Decimal(_, scale) => DataType::Decimal128(DECIMAL_DIGITS, scale),
            Class::Signed => DataType::Int64,
            Class::Float => DataType::Float64,
            _ => start.ty.clone(),
        };
        let (slot, body) = self.lambda(&args[2], [&ty, &item], 2, "(sum, x) -> …")?;
        let fits = match (class(&body.ty), class(&ty)) {
            (Class::Decimal(_, from), Class::Decimal(_, to)) => from <= to,
            _ => types::common(&body.ty, &ty).as_ref() == Some(&ty),
        };
        if !fits {
            let (gives, begins) = (types::name(&body.ty), types::name(&ty));
            return self.fail(
                &body.span,
                format!("the lambda gives {gives}, but the start value is {begins}: start with a value of the same type"),
            );
        }
        let (start, body) = (self.convert(start, &ty), self.convert(body, &ty));
        let each = Each { form: Form::Reduce, slot, args: vec![list, start], body: Box::new(body) };
        Ok(Node::new(Kind::Each(each), ty, span, false))
    }

    /// `try(value)`
    fn attempt(&self, args: &[Expr], span: Range<usize>) -> Result<Node, Diagnostic> {
        let value = self.folding.attempt(|| self.expr(&args[0]))?;
        if !value.fallible {
            return Ok(value);
        }
        let ty = value.ty.clone();
        Ok(Node::new(Kind::Try(Box::new(value)), ty, span, false))
    }
}

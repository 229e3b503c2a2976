//! How functions are called: each example of a function is a pattern, whose arguments may be replaced by what has a type of the
//! same family. Which replacements a function takes is found by binding them.

use super::columns::random_batch;
use super::random::Random;
use crate::ast::{Expr, ExprKind};
use crate::types::{Class, canonical, class, item_of};
use crate::{bind, functions, parse};
use arrow::datatypes::{DataType, SchemaRef};

/// The patterns of all functions and the columns of the batches.
pub(super) struct Calls {
    calls: Vec<Pattern>,
    /// A column or a member, and its family.
    columns: Vec<(String, String)>,
}

#[derive(Debug)]
pub(super) struct Pattern {
    pub(super) name: &'static str,
    pub(super) args: Vec<Arg>,
    /// The family of the result.
    gives: String,
}

#[derive(Debug)]
pub(super) struct Arg {
    /// As the example has it.
    pub(super) text: String,
    pub(super) family: String,
    /// What may stand here instead.
    pub(super) columns: Vec<String>,
}

/// Types whose values can take each other's place in many calls.
fn family(ty: &DataType) -> String {
    match class(ty) {
        Class::Null => "null".to_string(),
        Class::Bool => "bool".to_string(),
        Class::Signed | Class::Unsigned | Class::Float | Class::Decimal(..) => "number".to_string(),
        Class::Text => "text".to_string(),
        Class::Timestamp(..) | Class::Date => "time".to_string(),
        Class::Plain => "plain".to_string(),
        Class::Other => match (item_of(ty), ty) {
            (Some(item), _) => format!("list<{}>", family(item)),
            (None, DataType::Struct(_)) => "object".to_string(),
            (None, _) => "other".to_string(),
        },
    }
}

impl Calls {
    pub(super) fn find() -> Calls {
        let mut calls = Calls { calls: Vec::new(), columns: Vec::new() };
        let schema = random_batch(&mut Random::new(0, &calls), 1).schema();
        for field in schema.fields() {
            let ty = canonical(field.data_type());
            calls.columns.push((field.name().clone(), family(&ty)));
            if let DataType::Struct(members) = &ty {
                let member =
                    |member: &arrow::datatypes::FieldRef| (format!("{}.{}", field.name(), member.name()), family(member.data_type()));
                calls.columns.extend(members.iter().map(member));
            }
        }
        for function in functions() {
            for (example, _) in function.examples {
                let mut found = Vec::new();
                let tree = parse::parse(example).unwrap();
                collect(&tree, function.name, &mut found);
                for args in found {
                    let args: Vec<&str> = args.iter().map(|arg| &example[arg.span.clone()]).collect();
                    if let Some(pattern) = calls.pattern(function.name, &args, &schema) {
                        calls.calls.push(pattern);
                    }
                }
            }
        }
        calls
    }

    fn pattern(&self, name: &'static str, texts: &[&str], schema: &SchemaRef) -> Option<Pattern> {
        let mut args: Vec<Arg> = Vec::new();
        for (at, text) in texts.iter().enumerate() {
            // A lambda has no type of its own and stays.
            let family = bind(text, schema).map(|typed| family(typed.data_type())).unwrap_or_default();
            let call = |other: &str| {
                let mut texts = texts.to_vec();
                texts[at] = other;
                bind(&format!("{name}({})", texts.join(", ")), schema)
            };
            let fits = |(column, of): &&(String, String)| (*of == family || family == "null" && of != "other") && call(column).is_ok();
            let columns =
                if family.is_empty() { Vec::new() } else { self.columns.iter().filter(fits).map(|(column, _)| column.clone()).collect() };
            args.push(Arg { text: (*text).to_string(), family, columns });
        }
        let first: Vec<&str> = args.iter().map(|arg| arg.columns.first().map_or(arg.text.as_str(), String::as_str)).collect();
        let typed = [&first, &texts.to_vec()].into_iter().find_map(|args| bind(&format!("{name}({})", args.join(", ")), schema).ok())?;
        Some(Pattern { name, args, gives: family(typed.data_type()) })
    }

    pub(super) fn of(&self, name: &str) -> Vec<&Pattern> {
        self.calls.iter().filter(|call| call.name == name).collect()
    }

    pub(super) fn names(&self) -> Vec<&'static str> {
        let mut names: Vec<&str> = self.calls.iter().map(|call| call.name).collect();
        names.dedup();
        names
    }

    pub(super) fn giving(&self, family: &str) -> Vec<&'static str> {
        let mut names: Vec<&str> = self.calls.iter().filter(|call| call.gives == family).map(|call| call.name).collect();
        names.dedup();
        names
    }

    pub(super) fn columns(&self, of: Option<&str>) -> Vec<&str> {
        let fits = |(_, family): &&(String, String)| of.is_none_or(|of| of == family);
        self.columns.iter().filter(fits).map(|(column, _)| column.as_str()).collect()
    }
}

/// The arguments of every call of a function in an expression.
fn collect<'a>(expr: &'a Expr, name: &str, found: &mut Vec<&'a [Expr]>) {
    if let ExprKind::Call(called, args) = &expr.kind
        && called == name
    {
        found.push(args);
    }
    expr.children().into_iter().for_each(|child| collect(child, name, found));
}

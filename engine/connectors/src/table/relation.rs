//! What is read: a table or a query, the columns it has, and the statement that reads some of them.

use super::database::Failure;
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use std::fmt::Write as _;
use std::sync::Arc;
use tidegate_api::{Error, Result, nearest, types};

/// What stands behind `FROM`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Relation {
    from: String,
    /// How messages name it.
    pub(super) shown: String,
}

impl Relation {
    /// `NAME` or `SCHEMA.NAME`, taken as they are written, capitals too.
    pub(super) fn table(text: &str) -> Result<Self, String> {
        let parts: Vec<&str> = text.split('.').collect();
        if parts.len() > 2 || parts.iter().any(|part| part.is_empty() || part.contains('\0')) {
            return Err("expected `NAME` or `SCHEMA.NAME`; a name with a dot in it is read with `query`".to_string());
        }
        let from = parts.iter().map(|part| quoted(part)).collect::<Vec<_>>().join(".");
        Ok(Relation { from, shown: format!("table `{text}`") })
    }

    /// A statement that gives rows.
    pub(super) fn query(text: &str) -> Result<Self, String> {
        let text = text.trim().trim_end_matches(';').trim_end();
        if text.is_empty() || text.contains('\0') {
            return Err("expected a `SELECT`".to_string());
        }
        // The line end keeps a comment at the end from swallowing the bracket.
        Ok(Relation { from: format!("({text}\n)"), shown: "the query".to_string() })
    }

    /// Reads these columns, or all. They are said to be the relation's: where there is none of a name, SQLite would take it for a text.
    pub(super) fn statement<'c>(&self, columns: Option<impl Iterator<Item = &'c str>>) -> String {
        let mut statement = "SELECT ".to_string();
        match columns {
            None => statement.push_str("t.*"),
            Some(columns) => {
                for (at, column) in columns.enumerate() {
                    let _ = write!(statement, "{}t.{}", if at == 0 { "" } else { ", " }, quoted(column));
                }
            }
        }
        let _ = write!(statement, " FROM {} AS t", self.from);
        statement
    }
}

impl Relation {
    /// Reads the newest version.
    pub(super) fn newest(&self, version: &str) -> String {
        format!("SELECT max(t.{}) FROM {} AS t", quoted(version), self.from)
    }

    /// Reads these columns of the rows whose version is the parameter's or later.
    pub(super) fn since<'c>(&self, columns: impl Iterator<Item = &'c str>, version: &str, parameter: &str) -> String {
        format!("{} WHERE t.{} >= {parameter}", self.statement(Some(columns)), quoted(version))
    }
}

/// A name that is taken as it is.
fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

/// A column as the database has it.
#[derive(Debug, Clone)]
pub(super) struct Found {
    pub(super) name: String,
    /// Its type in the database's words.
    pub(super) shown: String,
    pub(super) natural: Natural,
}

/// The type that a column has here.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Natural {
    Is(DataType),
    /// It has to be declared, for this reason.
    Unclear(&'static str),
    /// It cannot be read; what to do instead.
    Refused(&'static str),
}

/// What can become of each other.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Family {
    Bool,
    Number,
    Text,
    Binary,
    Date,
    Time,
    Timestamp,
}

fn family(data_type: &DataType) -> Family {
    match data_type {
        DataType::Boolean => Family::Bool,
        DataType::Binary => Family::Binary,
        DataType::Date32 => Family::Date,
        DataType::Time32(_) | DataType::Time64(_) => Family::Time,
        DataType::Timestamp(_, _) => Family::Timestamp,
        DataType::Utf8View => Family::Text,
        // What is left of the types that a column may be declared with.
        _ => Family::Number,
    }
}

/// Whether values of the one may be values of the other; each is looked at when it is read.
fn may_be(natural: &DataType, declared: &DataType) -> bool {
    match (family(natural), family(declared)) {
        (same, other) if same == other => true,
        (Family::Text, other) => other != Family::Binary,
        (Family::Number, Family::Text) | (Family::Date, Family::Timestamp) => true,
        _ => false,
    }
}

/// The columns by the database's types.
///
/// # Errors
/// `Config`, naming the columns that have to be declared or cannot be read.
pub(super) fn inferred(relation: &Relation, found: &[Found]) -> Result<SchemaRef> {
    let mut fields: Vec<Field> = Vec::with_capacity(found.len());
    let mut wrong = Vec::new();
    for column in found {
        if fields.iter().any(|field| *field.name() == column.name) {
            wrong.push(format!("two columns are called `{}`", column.name));
        }
        match &column.natural {
            Natural::Is(data_type) => fields.push(Field::new(&column.name, data_type.clone(), true)),
            Natural::Unclear(why) => wrong.push(format!("column `{}` is `{}`, {why}", column.name, column.shown)),
            Natural::Refused(instead) => {
                wrong.push(format!("column `{}` is `{}`, which cannot be read: {instead}", column.name, column.shown))
            }
        }
    }
    if wrong.is_empty() {
        return Ok(Arc::new(Schema::new(fields)));
    }
    Err(Error::config(format!(
        "{}: {}; declare the columns that are wanted with `schema`, or choose them with `query`",
        relation.shown,
        wrong.join("; ")
    )))
}

/// Whether the columns of `schema` can be read of what there is.
///
/// # Errors
/// `Config`, naming the first that cannot.
pub(super) fn check(relation: &Relation, found: &[Found], schema: &SchemaRef) -> Result<()> {
    for field in schema.fields() {
        let Some(column) = found.iter().find(|column| column.name == *field.name()) else {
            let known = found.iter().map(|column| column.name.as_str());
            return Err(Error::config(format!(
                "{} has no column `{}`{}",
                relation.shown,
                field.name(),
                nearest::hint(field.name(), known)
            )));
        };
        let fits = match &column.natural {
            Natural::Is(natural) => may_be(natural, field.data_type()),
            Natural::Unclear(_) => true,
            Natural::Refused(instead) => {
                return Err(Error::config(format!(
                    "column `{}` of {} is `{}`, which cannot be read: {instead}",
                    column.name, relation.shown, column.shown
                )));
            }
        };
        if !fits {
            return Err(Error::config(format!(
                "column `{}` of {} is `{}` in the database and cannot be read as `{}`",
                column.name,
                relation.shown,
                column.shown,
                types::name(field.data_type())
            )));
        }
    }
    Ok(())
}

/// The same, of a table that has been read before.
pub(super) fn still(relation: &Relation, found: &[Found], schema: &SchemaRef) -> Result<(), Failure> {
    check(relation, found, schema).map_err(Failure::Final)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_taken_as_they_are_and_a_query_is_a_bracket() {
        let all = None::<std::iter::Empty<&str>>;
        let table = Relation::table("Shop.pro\"ducts").unwrap();
        assert_eq!(table.statement(Some(["id", "a b"].into_iter())), "SELECT t.\"id\", t.\"a b\" FROM \"Shop\".\"pro\"\"ducts\" AS t");
        assert_eq!(Relation::query(" select 1 as a -- one\n;").unwrap().statement(all), "SELECT t.* FROM (select 1 as a -- one\n) AS t");
        for wrong in ["", "a.b.c", ".a"] {
            assert!(Relation::table(wrong).is_err(), "{wrong}");
        }
        assert!(Relation::query(" ; ").is_err());
    }
}

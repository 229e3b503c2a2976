//! SQLite: the file is opened for each reading, for reading only, and one transaction sees one state of it.

use super::database::{Failure, Scan};
use super::differ::Differ;
use super::relation::{Found, Natural, Relation, still};
use crate::decode::{Value, ValueRows};
use arrow::datatypes::{DataType, TimeUnit};
use rusqlite::types::{Value as Version, ValueRef};
use rusqlite::{Connection, ErrorCode, InterruptHandle, OpenFlags, Statement};
use std::fmt::Write as _;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tidegate_api::Error;

/// Rows, and about as many bytes, that are compared at a time.
const BATCH_ROWS: usize = 8192;
const BATCH_BYTES: usize = 4 << 20;

/// Breaks off what SQLite is about: its thread looks up from a statement only when it has a row.
#[derive(Clone, Default)]
pub(super) struct Halt(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    halted: bool,
    handle: Option<InterruptHandle>,
}

impl Halt {
    /// Breaks off the statement that runs, and every later one.
    pub(super) fn halt(&self) {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        state.halted = true;
        if let Some(handle) = &state.handle {
            handle.interrupt();
        }
    }

    fn watch(&self, connection: &Connection) -> Result<(), Failure> {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        state.handle = Some(connection.get_interrupt_handle());
        if state.halted { Err(Failure::Stopped) } else { Ok(()) }
    }
}

/// The columns that there are.
pub(super) fn describe(path: &Path, timeout: Duration, relation: &Relation) -> Result<Vec<Found>, Failure> {
    let connection = open(path, timeout)?;
    let statement = relation.statement(None::<std::iter::Empty<&str>>);
    let statement = connection.prepare(&statement).map_err(|error| failure(&error))?;
    Ok(columns(&statement))
}

fn columns(statement: &Statement<'_>) -> Vec<Found> {
    let found = |column: &rusqlite::Column<'_>| {
        let declared = column.decl_type().unwrap_or_default();
        let shown = if declared.is_empty() { "of no declared type" } else { declared };
        Found { name: column.name().to_string(), shown: shown.to_string(), natural: natural(declared) }
    };
    statement.columns().iter().map(found).collect()
}

/// The type that a column has here, by the name of its type. SQLite itself looks no closer.
fn natural(declared: &str) -> Natural {
    let upper = declared.to_ascii_uppercase();
    let (base, arguments) = match upper.split_once('(') {
        Some((base, rest)) => (base.trim(), rest.trim_end().trim_end_matches(')')),
        None => (upper.trim(), ""),
    };
    let has = |words: &[&str]| words.iter().any(|word| base.contains(word));
    if has(&["DECIMAL", "NUMERIC"]) {
        let mut numbers = arguments.split(',').map(|number| number.trim().parse::<u8>().ok());
        let (precision, scale) = (numbers.next().flatten(), numbers.next().map_or(Some(0), |scale| scale));
        return match precision.zip(scale.and_then(|scale| i8::try_from(scale).ok())) {
            Some((precision @ 1..=38, scale)) if scale as u8 <= precision => Natural::Is(DataType::Decimal128(precision, scale)),
            Some((precision @ 39..=76, scale)) if scale as u8 <= precision => Natural::Is(DataType::Decimal256(precision, scale)),
            _ => Natural::Unclear("a decimal without a precision"),
        };
    }
    Natural::Is(match base {
        "" => return Natural::Unclear("as what a query computes is"),
        "DATE" => DataType::Date32,
        "TIME" => DataType::Time64(TimeUnit::Microsecond),
        _ if has(&["TIMESTAMP", "DATETIME"]) => DataType::Timestamp(TimeUnit::Microsecond, None),
        _ if has(&["BOOL"]) => DataType::Boolean,
        _ if has(&["INT"]) => DataType::Int64,
        _ if has(&["CHAR", "CLOB", "TEXT", "UUID", "JSON"]) => DataType::Utf8View,
        _ if has(&["BLOB", "BINARY"]) => DataType::Binary,
        _ if has(&["REAL", "FLOA", "DOUB"]) => DataType::Float64,
        _ => return Natural::Unclear("a type that stands for nothing here"),
    })
}

/// Reads the table in one transaction; see [`super::database::scan`].
pub(super) async fn scan(
    path: &Path,
    timeout: Duration,
    scan: &Scan,
    since: Option<&Version>,
    differ: &mut Differ,
    halt: &Halt,
) -> Result<Option<Version>, Failure> {
    let connection = open(path, timeout)?;
    halt.watch(&connection)?;
    // It sees the file as it is at the first row that is read, and ends with the connection.
    connection.execute_batch("BEGIN").map_err(|error| failure(&error))?;
    let newest = match &scan.version {
        Some(version) => {
            let newest = connection.query_row(&scan.relation.newest(version), [], |row| row.get::<_, Version>(0));
            Some(newest.map_err(|error| failure(&error))?).filter(|newest| *newest != Version::Null)
        }
        None => None,
    };
    let is_known = match (&scan.version, since) {
        (Some(version), Some(since)) => {
            let mut newer = connection.prepare(&scan.since(version, "?1")).map_err(|error| failure(&error))?;
            rows(&mut newer, Some(since), scan, differ).await?;
            keys(&connection, scan, differ)?
        }
        _ => false,
    };
    if !is_known {
        differ.begin();
        let mut all = connection.prepare(&scan.all()).map_err(|error| failure(&error))?;
        rows(&mut all, None, scan, differ).await?;
    }
    Ok(newest)
}

/// Reads all keys. Answers whether each is known.
fn keys(connection: &Connection, scan: &Scan, differ: &mut Differ) -> Result<bool, Failure> {
    let mut statement = connection.prepare(&scan.all_keys()).map_err(|error| failure(&error))?;
    let mut values = ValueRows::new(Arc::clone(&scan.keys), "the table").map_err(Failure::Final)?;
    let mut scratch = String::new();
    let mut rows = statement.query([]).map_err(|error| failure(&error))?;
    while let Some(row) = rows.next().map_err(|error| failure(&error))? {
        for (column, field) in scan.keys.fields().iter().enumerate() {
            let raw = row.get_ref(column).map_err(|error| failure(&error))?;
            values.append(column, value(raw, field.data_type(), &mut scratch));
        }
        values.end_row();
        if values.len() >= BATCH_ROWS && !differ.take_keys(&mut values)? {
            return Ok(false);
        }
    }
    differ.take_keys(&mut values)
}

/// Reads rows.
async fn rows(statement: &mut Statement<'_>, since: Option<&Version>, scan: &Scan, differ: &mut Differ) -> Result<(), Failure> {
    still(&scan.relation, &columns(statement), &scan.schema)?;
    let mut values = ValueRows::new(Arc::clone(&scan.schema), "the table").map_err(Failure::Final)?;
    let types: Vec<DataType> = scan.schema.fields().iter().map(|field| field.data_type().clone()).collect();
    let (mut bytes, mut scratch) = (0, String::new());
    let mut rows = statement.query(rusqlite::params_from_iter(since)).map_err(|error| failure(&error))?;
    while let Some(row) = rows.next().map_err(|error| failure(&error))? {
        for (column, data_type) in types.iter().enumerate() {
            let raw = row.get_ref(column).map_err(|error| failure(&error))?;
            bytes += match raw {
                ValueRef::Text(text) | ValueRef::Blob(text) => text.len(),
                ValueRef::Null | ValueRef::Integer(_) | ValueRef::Real(_) => 8,
            };
            values.append(column, value(raw, data_type, &mut scratch));
        }
        values.end_row();
        if values.len() >= BATCH_ROWS || bytes >= BATCH_BYTES {
            bytes = 0;
            differ.take(&mut values).await?;
        }
    }
    differ.take(&mut values).await
}

/// A value, whose type is its own and not its column's.
fn value<'a>(raw: ValueRef<'a>, data_type: &DataType, scratch: &'a mut String) -> Value<'a> {
    scratch.clear();
    let is_text = *data_type == DataType::Utf8View;
    match raw {
        ValueRef::Null => Value::Null,
        ValueRef::Integer(number @ (0 | 1)) if *data_type == DataType::Boolean => Value::Bool(number == 1),
        // A whole number of a moment does not say its unit.
        ValueRef::Integer(_) if data_type.is_temporal() => Value::Wrong("a number, where a date or time is a text"),
        ValueRef::Integer(number) if is_text => {
            let _ = write!(scratch, "{number}");
            Value::Text(scratch.as_bytes())
        }
        ValueRef::Integer(number) => Value::Int(number.into()),
        // The shortest text that stands for a float is what was written into a column of decimals.
        ValueRef::Real(number) if is_text || data_type.is_decimal() => {
            let _ = write!(scratch, "{number}");
            Value::Text(scratch.as_bytes())
        }
        ValueRef::Real(number) => Value::Float(number),
        ValueRef::Text(text) => Value::Text(text),
        ValueRef::Blob(bytes) => Value::Bytes(bytes),
    }
}

fn open(path: &Path, timeout: Duration) -> Result<Connection, Failure> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(path, flags).map_err(|error| failure(&error))?;
    connection.busy_timeout(timeout).map_err(|error| failure(&error))?;
    Ok(connection)
}

/// What an error says about the next attempt.
fn failure(error: &rusqlite::Error) -> Failure {
    // Names and syntax: the same statement is answered so again.
    if let rusqlite::Error::SqlInputError { msg, .. } = error {
        return Failure::Final(Error::config(format!("reading: {msg}")));
    }
    match error.sqlite_error_code() {
        Some(ErrorCode::OperationInterrupted) => Failure::Stopped,
        Some(ErrorCode::Unknown) => Failure::Final(Error::config(format!("reading: {error}"))),
        Some(ErrorCode::NotADatabase) => Failure::Refused(Error::config(format!("reading: {error}"))),
        _ => Failure::Away(Error::external(format!("reading: {error}"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_of_a_type_says_what_a_column_is() {
        for (declared, data_type) in [
            ("INTEGER", DataType::Int64),
            ("bigint", DataType::Int64),
            ("VARCHAR(20)", DataType::Utf8View),
            ("DECIMAL(12, 2)", DataType::Decimal128(12, 2)),
            ("numeric(5)", DataType::Decimal128(5, 0)),
            ("double precision", DataType::Float64),
            ("timestamp", DataType::Timestamp(TimeUnit::Microsecond, None)),
            ("date", DataType::Date32),
            ("boolean", DataType::Boolean),
            ("BLOB", DataType::Binary),
        ] {
            assert_eq!(natural(declared), Natural::Is(data_type), "{declared}");
        }
        for unclear in ["", "NUMERIC", "DECIMAL(99,1)", "DECIMAL(4,9)", "MONEY"] {
            assert!(matches!(natural(unclear), Natural::Unclear(_)), "{unclear}");
        }
    }
}

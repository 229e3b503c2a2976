//! Guessing a schema from the beginning of a stream, for datasets that declare none.

use super::byte_order_mark;
use super::conform::engine_schema;
use super::csv::{CsvFormat, header, split_record};
use super::times::{Zone, date, moment};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef, TimeUnit};
use arrow::json::reader::infer_json_schema_from_iterator;
use std::sync::Arc;
use tidegate_api::{Error, Result};

/// What the values of a CSV column have looked like so far; wider to the right.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Guess {
    Nothing,
    Boolean,
    Integer,
    Float,
    Date,
    /// In the unit that its finest value needs.
    Timestamp(TimeUnit),
    Text,
}

impl Guess {
    fn of(text: &str) -> Guess {
        // A leading zero is a code, not a number.
        let digits = text.strip_prefix('-').unwrap_or(text);
        let is_code = digits.len() > 1 && digits.starts_with('0') && !digits.starts_with("0.");
        if text.eq_ignore_ascii_case("true") || text.eq_ignore_ascii_case("false") {
            Guess::Boolean
        } else if !is_code && text.parse::<i64>().is_ok() {
            Guess::Integer
        } else if !is_code && digits.starts_with(|c: char| c.is_ascii_digit() || c == '.') && text.parse::<f64>().is_ok() {
            Guess::Float
        } else if date(text.as_bytes()).is_some() {
            Guess::Date
        } else if let Some((_, nanos)) = moment(text.as_bytes(), Zone::Utc) {
            Guess::Timestamp(match nanos {
                _ if nanos % 1_000_000 == 0 => TimeUnit::Millisecond,
                _ if nanos % 1_000 == 0 => TimeUnit::Microsecond,
                _ => TimeUnit::Nanosecond,
            })
        } else {
            Guess::Text
        }
    }

    fn widened(self, other: Guess) -> Guess {
        match (self, other) {
            (Guess::Nothing, guess) | (guess, Guess::Nothing) => guess,
            (a, b) if a == b => a,
            (Guess::Integer | Guess::Float, Guess::Integer | Guess::Float) => Guess::Float,
            (Guess::Timestamp(a), Guess::Timestamp(b)) => Guess::Timestamp(a.max(b)),
            (Guess::Date, Guess::Timestamp(unit)) | (Guess::Timestamp(unit), Guess::Date) => Guess::Timestamp(unit),
            _ => Guess::Text,
        }
    }

    fn data_type(self) -> DataType {
        match self {
            Guess::Boolean => DataType::Boolean,
            Guess::Integer => DataType::Int64,
            Guess::Float => DataType::Float64,
            Guess::Date => DataType::Date32,
            Guess::Timestamp(unit) => DataType::Timestamp(unit, None),
            Guess::Nothing | Guess::Text => DataType::Utf8View,
        }
    }
}

/// The schema of CSV text from its header and at most `sample` records. `input` is the beginning of the text, `last` all of it.
///
/// # Errors
/// `Config` if there is no header to take names from.
pub fn csv(format: &CsvFormat, input: &[u8], last: bool, sample: usize) -> Result<SchemaRef> {
    if !format.header {
        return Err(Error::config("has no header to take column names from, declare a `schema`"));
    }
    let mark = byte_order_mark(input, true).unwrap_or(0);
    let names = header(format, &input[mark..], last)?.filter(|(names, _)| names.iter().any(|name| !name.is_empty()));
    let Some((names, next)) = names else {
        return Err(Error::config("is empty, declare a `schema`"));
    };
    let mut guesses = vec![Guess::Nothing; names.len()];
    let mut at = mark + next;
    for _ in 0..sample {
        let Some((fields, next)) = (at < input.len()).then(|| split_record(format, &input[at..], last)).flatten() else { break };
        for (guess, field) in guesses.iter_mut().zip(&fields) {
            if format.null_values.iter().any(|null| null.as_bytes() == field.as_slice()) {
                continue;
            }
            *guess = guess.widened(std::str::from_utf8(field).map_or(Guess::Text, Guess::of));
        }
        at += next;
    }
    let fields: Vec<Field> = names.iter().zip(guesses).map(|(name, guess)| Field::new(name, guess.data_type(), true)).collect();
    Ok(Arc::new(Schema::new(fields)))
}

/// The schema of JSON lines from at most `sample` of them.
///
/// # Errors
/// `Config` if no line is an object, or two disagree beyond repair.
pub fn json(input: &[u8], last: bool, sample: usize) -> Result<SchemaRef> {
    let mark = byte_order_mark(input, true).unwrap_or(0);
    let mut lines: Vec<&[u8]> = input[mark..].split(|byte| *byte == b'\n').collect();
    if !last {
        // The last line may not be whole.
        lines.pop();
    }
    // Lines that are not objects are bad rows later; they say nothing about the schema.
    json_objects(lines.into_iter().filter_map(object).take(sample))
}

/// The schema of messages that are JSON, all of them.
///
/// # Errors
/// `Config` if none is an object, or two disagree beyond repair.
pub fn json_messages<'a>(messages: impl Iterator<Item = &'a [u8]>) -> Result<SchemaRef> {
    json_objects(messages.map(|message| &message[byte_order_mark(message, true).unwrap_or(0)..]).filter_map(object))
}

fn object(text: &[u8]) -> Option<serde_json::Value> {
    serde_json::from_slice::<serde_json::Value>(text).ok().filter(serde_json::Value::is_object)
}

fn json_objects(values: impl Iterator<Item = serde_json::Value>) -> Result<SchemaRef> {
    let values: Vec<_> = values.collect();
    if values.is_empty() {
        return Err(Error::config("holds no object in its sample, declare a `schema`"));
    }
    let schema = infer_json_schema_from_iterator(values.iter().map(Ok))
        .map_err(|error| Error::config(format!("its sample has no common schema ({error}), declare a `schema`")))?;
    let schema = engine_schema(&schema);
    // A column that is null throughout the sample is text.
    let field = |field: &Arc<Field>| {
        if field.data_type().is_null() { Arc::new(Field::new(field.name(), DataType::Utf8View, true)) } else { Arc::clone(field) }
    };
    Ok(Arc::new(Schema::new(schema.fields().iter().map(field).collect::<arrow::datatypes::Fields>())))
}

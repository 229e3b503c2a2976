//! The type names of pipeline files, and the Arrow types they stand for.

use crate::config::{Options, Problem};
use crate::{Error, Result};
use arrow::datatypes::{DataType, Field, Fields, Schema, SchemaRef, TimeUnit};
use serde_json::Value;
use std::sync::Arc;

const NAMES: &[&str] = &[
    "bool",
    "boolean",
    "int8",
    "int16",
    "int32",
    "int64",
    "int",
    "integer",
    "uint8",
    "uint16",
    "uint32",
    "uint64",
    "float32",
    "float64",
    "float",
    "double",
    "number",
    "decimal",
    "string",
    "utf8",
    "binary",
    "date",
    "time",
    "timestamp_s",
    "timestamp_ms",
    "timestamp_us",
    "timestamp_ns",
    "list",
    "struct",
];

/// How deep lists and structs may nest.
const MAX_DEPTH: usize = 32;

/// Reads a type name such as `decimal(10,2)`, `timestamp_ms(UTC)`, `list<struct<a: int64, b: string>>`.
///
/// # Errors
/// `Config`, with the position and the nearest known name.
pub fn parse(text: &str) -> Result<DataType> {
    let mut parser = Parser { text, at: 0 };
    let parsed = parser.data_type(0)?;
    parser.skip_space();
    if parser.at < text.len() {
        return Err(parser.error("nothing may follow here"));
    }
    Ok(parsed)
}

struct Parser<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Parser<'a> {
    fn error(&self, message: &str) -> Error {
        Error::config(format!("type `{}`, character {}: {message}", self.text, self.text[..self.at].chars().count() + 1))
    }

    fn rest(&self) -> &'a str {
        &self.text[self.at..]
    }

    fn skip_space(&mut self) {
        self.at = self.text.len() - self.rest().trim_start().len();
    }

    fn eat(&mut self, symbol: char) -> bool {
        self.skip_space();
        let found = self.rest().starts_with(symbol);
        if found {
            self.at += symbol.len_utf8();
        }
        found
    }

    fn expect(&mut self, symbol: char) -> Result<()> {
        if self.eat(symbol) { Ok(()) } else { Err(self.error(&format!("expected `{symbol}`"))) }
    }

    fn until(&mut self, stop: impl Fn(char) -> bool) -> &'a str {
        self.skip_space();
        let rest = self.rest();
        let end = rest.find(stop).unwrap_or(rest.len());
        self.at += end;
        rest[..end].trim()
    }

    fn data_type(&mut self, depth: usize) -> Result<DataType> {
        if depth > MAX_DEPTH {
            return Err(self.error(&format!("nested deeper than {MAX_DEPTH}")));
        }
        let start = self.at;
        let name = self.until(|c| !(c.is_ascii_alphanumeric() || c == '_')).to_ascii_lowercase();
        Ok(match name.as_str() {
            "bool" | "boolean" => DataType::Boolean,
            "int8" => DataType::Int8,
            "int16" => DataType::Int16,
            "int32" => DataType::Int32,
            "int64" | "int" | "integer" => DataType::Int64,
            "uint8" => DataType::UInt8,
            "uint16" => DataType::UInt16,
            "uint32" => DataType::UInt32,
            "uint64" => DataType::UInt64,
            "float32" => DataType::Float32,
            "float64" | "float" | "double" | "number" => DataType::Float64,
            "string" | "utf8" => DataType::Utf8View,
            "binary" => DataType::Binary,
            "date" => DataType::Date32,
            "time" => DataType::Time64(TimeUnit::Microsecond),
            "timestamp_s" => self.timestamp(TimeUnit::Second)?,
            "timestamp_ms" => self.timestamp(TimeUnit::Millisecond)?,
            "timestamp_us" => self.timestamp(TimeUnit::Microsecond)?,
            "timestamp_ns" => self.timestamp(TimeUnit::Nanosecond)?,
            "decimal" => self.decimal()?,
            "list" => {
                self.expect('<')?;
                let item = self.data_type(depth + 1)?;
                self.expect('>')?;
                DataType::List(Arc::new(Field::new_list_field(item, true)))
            }
            "struct" => self.structure(depth)?,
            unknown => {
                self.at = start;
                let hint = crate::nearest::hint(unknown, NAMES.iter().copied());
                return Err(self.error(&format!("unknown type `{unknown}`{hint}")));
            }
        })
    }

    fn timestamp(&mut self, unit: TimeUnit) -> Result<DataType> {
        if !self.eat('(') {
            return Ok(DataType::Timestamp(unit, None));
        }
        let zone = self.until(|c| c == ')');
        if zone.parse::<arrow::array::timezone::Tz>().is_err() {
            return Err(self.error(&format!("unknown time zone `{zone}`")));
        }
        self.expect(')')?;
        Ok(DataType::Timestamp(unit, Some(zone.into())))
    }

    fn decimal(&mut self) -> Result<DataType> {
        self.expect('(')?;
        let precision: u8 = self.number("the precision")?;
        self.expect(',')?;
        let scale: i8 = self.number("the scale")?;
        self.expect(')')?;
        let fits = scale >= 0 && i16::from(scale) <= i16::from(precision) && precision > 0;
        match precision {
            1..=38 if fits => Ok(DataType::Decimal128(precision, scale)),
            39..=76 if fits => Ok(DataType::Decimal256(precision, scale)),
            _ => Err(self.error("the precision is 1 to 76 and the scale 0 to the precision")),
        }
    }

    fn number<T: std::str::FromStr>(&mut self, what: &str) -> Result<T> {
        let text = self.until(|c| c == ',' || c == ')');
        text.parse().map_err(|_| self.error(&format!("{what} `{text}` is not a number")))
    }

    fn structure(&mut self, depth: usize) -> Result<DataType> {
        self.expect('<')?;
        let mut fields = Vec::new();
        loop {
            let name = self.until(|c| c == ':' || c == '>' || c == ',');
            if name.is_empty() {
                return Err(self.error("expected a field name"));
            }
            self.expect(':')?;
            let data_type = self.data_type(depth + 1)?;
            fields.push(Field::new(name, data_type, true));
            if self.eat('>') {
                return Ok(DataType::Struct(Fields::from(fields)));
            }
            self.expect(',')?;
        }
    }
}

/// The name of a type; [`parse`] reads it back for every type a pipeline file can name.
pub fn name(data_type: &DataType) -> String {
    match data_type {
        DataType::Boolean => "bool".into(),
        DataType::Int8 => "int8".into(),
        DataType::Int16 => "int16".into(),
        DataType::Int32 => "int32".into(),
        DataType::Int64 => "int64".into(),
        DataType::UInt8 => "uint8".into(),
        DataType::UInt16 => "uint16".into(),
        DataType::UInt32 => "uint32".into(),
        DataType::UInt64 => "uint64".into(),
        DataType::Float32 => "float32".into(),
        DataType::Float64 => "float64".into(),
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => "string".into(),
        DataType::Binary | DataType::LargeBinary | DataType::BinaryView => "binary".into(),
        DataType::Date32 => "date".into(),
        DataType::Time64(TimeUnit::Microsecond) => "time".into(),
        DataType::Decimal128(precision, scale) | DataType::Decimal256(precision, scale) => format!("decimal({precision},{scale})"),
        DataType::Timestamp(unit, zone) => {
            let unit = match unit {
                TimeUnit::Second => "s",
                TimeUnit::Millisecond => "ms",
                TimeUnit::Microsecond => "us",
                TimeUnit::Nanosecond => "ns",
            };
            let zone = zone.as_ref().map(|zone| format!("({zone})")).unwrap_or_default();
            format!("timestamp_{unit}{zone}")
        }
        DataType::List(item) | DataType::LargeList(item) => format!("list<{}>", name(item.data_type())),
        DataType::Struct(fields) => {
            let fields: Vec<String> = fields.iter().map(|field| format!("{}: {}", field.name(), name(field.data_type()))).collect();
            format!("struct<{}>", fields.join(", "))
        }
        other => other.to_string(),
    }
}

/// Reads a `schema = [{ name = "a", type = "int64", nullable = true }, …]` list.
///
/// # Errors
/// Every mistake, at the path of its entry.
pub fn schema_of(value: &Value) -> Result<SchemaRef, Vec<Problem>> {
    let Value::Array(items) = value else {
        return Err(vec![Problem::whole("expected a list of `{ name, type }`")]);
    };
    let mut problems = Vec::new();
    let mut fields: Vec<Field> = Vec::new();
    for (index, item) in items.iter().enumerate() {
        let index = index.to_string();
        let Value::Object(entry) = item else {
            problems.push(Problem::at(index, "expected `{ name, type }`"));
            continue;
        };
        let mut options = Options::new(entry);
        let column = options.require_string("name");
        let type_name = options.require_string("type");
        let nullable = options.boolean("nullable").unwrap_or(true);
        let data_type = type_name.and_then(|text| match parse(&text) {
            Ok(data_type) => Some(data_type),
            Err(error) => {
                options.problem("type", error.message());
                None
            }
        });
        if let Some(column) = &column {
            if crate::hidden::is_hidden(column) {
                options.problem("name", format!("the name `{column}` is reserved"));
            } else if fields.iter().any(|field| field.name() == column) {
                options.problem("name", format!("the column `{column}` stands twice in the schema"));
            }
        }
        problems.extend(options.finish().into_iter().map(|problem| problem.under([index.clone()])));
        if let (Some(column), Some(data_type)) = (column, data_type) {
            fields.push(Field::new(column, data_type, nullable));
        }
    }
    if problems.is_empty() { Ok(Arc::new(Schema::new(fields))) } else { Err(problems) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn every_type_reads_back_from_its_name() {
        for text in [
            "bool",
            "int8",
            "uint64",
            "float32",
            "decimal(38,3)",
            "decimal(60,10)",
            "string",
            "binary",
            "date",
            "time",
            "timestamp_s",
            "timestamp_ns(Europe/Copenhagen)",
            "timestamp_ms(UTC)",
            "list<int64>",
            "struct<a: int64, b: list<struct<c: string>>>",
        ] {
            assert_eq!(name(&parse(text).unwrap()), text);
        }
        assert_eq!(parse("double").unwrap(), DataType::Float64);
    }

    #[test]
    fn mistakes_name_the_place_and_the_nearest_type() {
        let message = |text: &str| parse(text).unwrap_err().to_string();
        assert_eq!(
            message("timestamp_msec"),
            "type `timestamp_msec`, character 1: unknown type `timestamp_msec`, did you mean `timestamp_ms`?"
        );
        for wrong in ["decimal(0,0)", "decimal(10,11)", "list<int64", "struct<>", "struct<a int64>", "int64 x", "timestamp_ms(Mars)", ""] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
        assert!(parse(&"list<".repeat(10_000)).is_err());
    }

    #[test]
    fn a_schema_collects_all_its_mistakes() {
        let value = json!([{ "name": "a", "type": "int46" }, { "nmae": "b", "type": "int64" }, 3, { "name": "_key", "type": "int64" }]);
        let problems = schema_of(&value).unwrap_err();
        let paths: Vec<String> = problems.iter().map(|problem| problem.path.join(".")).collect();
        assert_eq!(paths, ["0.type", "1.name", "1.nmae", "2", "3.name"]);
    }
}

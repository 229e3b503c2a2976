//! Avro schemas, as a table of types that refer to each other by number, so that a record may hold itself.

use arrow::datatypes::{DataType, Field, Fields, Schema as Columns, SchemaRef, TimeUnit};
use serde_json::{Map, Value};
use std::cell::Cell;
use std::collections::BTreeMap;
use std::sync::Arc;
use tidegate_api::{Error, Result};

/// The number of a type.
pub(super) type Id = usize;

/// What a primitive type means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Logical {
    Plain,
    Decimal {
        precision: u8,
        scale: u8,
    },
    Date,
    Time(TimeUnit),
    /// With a zone, or as clocks show it.
    Timestamp(TimeUnit, bool),
}

#[derive(Debug, Clone, PartialEq)]
pub(super) enum Type {
    Null,
    Boolean,
    Int(Logical),
    Long(Logical),
    Float,
    Double,
    Bytes(Logical),
    Fixed(usize, Logical),
    String,
    Enum(Vec<String>),
    Array(Id),
    Map(Id),
    Union(Vec<Id>),
    Record(Vec<(String, Id)>),
}

/// What a schema says of a field beside its type; only that of a reader matters.
#[derive(Debug, Clone, Default)]
pub(super) struct Notes {
    /// Names that the field had.
    pub(super) aliases: Vec<String>,
    /// What it is where it was not written.
    pub(super) default: Option<Value>,
}

/// A schema.
#[derive(Debug, Clone)]
pub(super) struct Schema {
    pub(super) types: Vec<Type>,
    pub(super) root: Id,
    /// For every record what is said of its fields, in their order.
    pub(super) notes: BTreeMap<Id, Vec<Notes>>,
}

#[derive(Default)]
struct Parser {
    types: Vec<Type>,
    names: BTreeMap<String, Id>,
    notes: BTreeMap<Id, Vec<Notes>>,
}

/// How deep types may stand inside each other; JSON itself ends earlier.
const MAX_DEPTH: usize = 64;
/// How many records may stand directly inside each other, by name.
const MAX_CHAIN: usize = 128;
/// How many fields a record may have, with those of the records that are its fields; and how many types columns may be made of.
const MAX_WEIGHT: usize = 100_000;

fn wrong(message: impl std::fmt::Display) -> Error {
    Error::config(format!("the Avro schema cannot be used: {message}"))
}

impl Schema {
    /// Reads a schema, which must be that of a record.
    pub(super) fn parse(json: &str) -> Result<Self> {
        Schema::parse_all(&[json])
    }

    /// Reads several schemas of which each may use the types that those before it define. The last must be that of a record.
    pub(super) fn parse_all<T: AsRef<str>>(texts: &[T]) -> Result<Self> {
        let mut parser = Parser::default();
        let mut root = None;
        for text in texts {
            let value: Value = serde_json::from_str(text.as_ref()).map_err(wrong)?;
            root = Some(parser.read(&value, "", 0)?);
        }
        let root = root.ok_or_else(|| wrong("there is none"))?;
        match parser.types[root] {
            Type::Record(_) => {
                let schema = Schema { types: parser.types, root, notes: parser.notes };
                schema.check_weight()?;
                Ok(schema)
            }
            _ => Err(wrong("it is not that of a record")),
        }
    }

    /// Names can stand for records of records of far more fields than a schema has bytes, and a value of them can be of no bytes at all:
    /// so what comes without a byte of its own is counted.
    fn check_weight(&self) -> Result<()> {
        let mut weights = vec![None; self.types.len()];
        (0..self.types.len()).try_for_each(|id| self.weigh(id, 0, &mut weights).map(drop))
    }

    fn weigh(&self, id: Id, depth: usize, weights: &mut [Option<usize>]) -> Result<usize> {
        if let Some(weight) = weights[id] {
            return Ok(weight);
        }
        if depth > MAX_CHAIN {
            return Err(wrong("its records stand in each other without end"));
        }
        let mut weight = 1;
        if let Type::Record(fields) = &self.types[id] {
            for (_, field) in fields {
                weight += self.weigh(*field, depth + 1, weights)?;
                if weight > MAX_WEIGHT {
                    return Err(wrong(format!("a record has more than {MAX_WEIGHT} fields with those inside of it")));
                }
            }
        }
        weights[id] = Some(weight);
        Ok(weight)
    }

    pub(super) fn fields(&self) -> &[(String, Id)] {
        match &self.types[self.root] {
            Type::Record(fields) => fields,
            _ => &[],
        }
    }

    /// The one type that a union with null has beside null; any other type is itself.
    pub(super) fn only(&self, id: Id) -> Id {
        let Type::Union(branches) = &self.types[id] else { return id };
        let mut some = branches.iter().filter(|branch| self.types[**branch] != Type::Null);
        match (some.next(), some.next()) {
            (Some(only), None) => *only,
            _ => id,
        }
    }

    /// The columns that hold every field.
    pub(super) fn to_arrow(&self) -> Result<SchemaRef> {
        let left = Cell::new(MAX_WEIGHT);
        let field = |(name, id): &(String, Id)| {
            Ok(Field::new(name, self.data_type(*id, 0, &left).map_err(|error| error.context(format!("field `{name}`")))?, true))
        };
        Ok(Arc::new(Columns::new(self.fields().iter().map(field).collect::<Result<Vec<_>>>()?)))
    }

    fn data_type(&self, id: Id, depth: usize, left: &Cell<usize>) -> Result<DataType> {
        if left.get() == 0 {
            return Err(wrong(format!("its columns would have more than {MAX_WEIGHT} types, declare a `schema`")));
        }
        left.set(left.get() - 1);
        if depth > MAX_DEPTH {
            return Err(wrong("a record that holds itself is no column, leave it out of a declared `schema`"));
        }
        let struct_of = |fields: Vec<Field>| DataType::Struct(Fields::from(fields));
        Ok(match &self.types[id] {
            Type::Null => DataType::Utf8View,
            Type::Boolean => DataType::Boolean,
            Type::Int(logical) | Type::Long(logical) => match logical {
                Logical::Date => DataType::Date32,
                Logical::Time(TimeUnit::Millisecond) => DataType::Time32(TimeUnit::Millisecond),
                Logical::Time(unit) => DataType::Time64(*unit),
                Logical::Timestamp(unit, zoned) => DataType::Timestamp(*unit, zoned.then(|| "UTC".into())),
                Logical::Plain | Logical::Decimal { .. } if matches!(self.types[id], Type::Int(_)) => DataType::Int32,
                Logical::Plain | Logical::Decimal { .. } => DataType::Int64,
            },
            Type::Float => DataType::Float32,
            Type::Double => DataType::Float64,
            Type::Bytes(Logical::Decimal { precision, scale }) | Type::Fixed(_, Logical::Decimal { precision, scale }) => {
                let scale = i8::try_from(*scale).map_err(|_| wrong("a decimal's scale is too large"))?;
                if *precision <= 38 { DataType::Decimal128(*precision, scale) } else { DataType::Decimal256(*precision, scale) }
            }
            Type::Bytes(_) | Type::Fixed(..) => DataType::Binary,
            Type::String | Type::Enum(_) => DataType::Utf8View,
            Type::Array(item) => DataType::List(Arc::new(Field::new_list_field(self.data_type(*item, depth + 1, left)?, true))),
            Type::Map(value) => {
                let entry =
                    vec![Field::new("key", DataType::Utf8View, true), Field::new("value", self.data_type(*value, depth + 1, left)?, true)];
                DataType::List(Arc::new(Field::new_list_field(struct_of(entry), true)))
            }
            Type::Union(branches) => {
                let mut some = branches.iter().filter(|branch| self.types[**branch] != Type::Null);
                match (some.next(), some.next()) {
                    (Some(only), None) => self.data_type(*only, depth + 1, left)?,
                    (None, _) => DataType::Utf8View,
                    _ => return Err(wrong("a union of several types is no column, leave it out of a declared `schema`")),
                }
            }
            Type::Record(fields) => {
                let field = |(name, id): &(String, Id)| Ok(Field::new(name, self.data_type(*id, depth + 1, left)?, true));
                struct_of(fields.iter().map(field).collect::<Result<Vec<_>>>()?)
            }
        })
    }
}

impl Parser {
    fn add(&mut self, found: Type) -> Id {
        self.types.push(found);
        self.types.len() - 1
    }

    fn read(&mut self, value: &Value, space: &str, depth: usize) -> Result<Id> {
        if depth > MAX_DEPTH {
            return Err(wrong("its types are nested too deep"));
        }
        match value {
            Value::String(name) => self.named(name, space),
            Value::Array(branches) => {
                let branches = branches.iter().map(|branch| self.read(branch, space, depth + 1)).collect::<Result<Vec<_>>>()?;
                Ok(self.add(Type::Union(branches)))
            }
            Value::Object(map) => self.complex(map, space, depth),
            _ => Err(wrong("a type is a name, a list or an object")),
        }
    }

    fn named(&mut self, name: &str, space: &str) -> Result<Id> {
        if let Some(primitive) = primitive(name, Logical::Plain) {
            return Ok(self.add(primitive));
        }
        let full = if name.contains('.') || space.is_empty() { name.to_string() } else { format!("{space}.{name}") };
        let found = self.names.get(&full).or_else(|| self.names.get(name));
        found
            .copied()
            .ok_or_else(|| wrong(format!("unknown type `{name}`{}", tidegate_api::nearest::hint(name, PRIMITIVES.iter().copied()))))
    }

    fn complex(&mut self, map: &Map<String, Value>, space: &str, depth: usize) -> Result<Id> {
        let text = |key: &str| map.get(key).and_then(Value::as_str);
        let name = match map.get("type") {
            Some(Value::String(name)) => name.as_str(),
            // A type written around a type says nothing.
            Some(other) => return self.read(other, space, depth + 1),
            None => return Err(wrong("a type without `type`")),
        };
        let logical = logical(map)?;
        match name {
            "record" | "error" | "enum" | "fixed" => {
                let own = text("name").ok_or_else(|| wrong(format!("a {name} without a name")))?;
                let space = match (own.rsplit_once('.'), text("namespace")) {
                    (Some((space, _)), _) => space,
                    (None, Some(space)) => space,
                    (None, None) => space,
                };
                let short = own.rsplit_once('.').map_or(own, |(_, short)| short);
                let full = if space.is_empty() { short.to_string() } else { format!("{space}.{short}") };
                let space = space.to_string();
                // Known before it is read, since it may hold itself.
                let id = self.add(Type::Null);
                if self.names.insert(full.clone(), id).is_some() {
                    return Err(wrong(format!("`{full}` is defined twice")));
                }
                self.types[id] = match name {
                    "enum" => {
                        let symbols = map.get("symbols").and_then(Value::as_array).ok_or_else(|| wrong("an enum without symbols"))?;
                        Type::Enum(symbols.iter().filter_map(Value::as_str).map(str::to_string).collect())
                    }
                    "fixed" => {
                        let size = map.get("size").and_then(Value::as_u64).and_then(|size| usize::try_from(size).ok());
                        Type::Fixed(size.ok_or_else(|| wrong("a fixed without a size"))?, logical)
                    }
                    _ => {
                        let fields = map.get("fields").and_then(Value::as_array).ok_or_else(|| wrong("a record without fields"))?;
                        let mut read = Vec::with_capacity(fields.len());
                        let mut notes = Vec::with_capacity(fields.len());
                        for field in fields {
                            let name = field.get("name").and_then(Value::as_str).ok_or_else(|| wrong("a field without a name"))?;
                            let of = field.get("type").ok_or_else(|| wrong(format!("field `{name}` has no type")))?;
                            read.push((name.to_string(), self.read(of, &space, depth + 1)?));
                            let aliases = field.get("aliases").and_then(Value::as_array);
                            let aliases = aliases.into_iter().flatten().filter_map(Value::as_str).map(str::to_string).collect();
                            notes.push(Notes { aliases, default: field.get("default").cloned() });
                        }
                        self.notes.insert(id, notes);
                        Type::Record(read)
                    }
                };
                Ok(id)
            }
            "array" | "map" => {
                let key = if name == "array" { "items" } else { "values" };
                let inner = map.get(key).ok_or_else(|| wrong(format!("a type `{name}` without `{key}`")))?;
                let inner = self.read(inner, space, depth + 1)?;
                Ok(self.add(if name == "array" { Type::Array(inner) } else { Type::Map(inner) }))
            }
            other => match primitive(other, logical) {
                Some(primitive) => Ok(self.add(primitive)),
                None => self.named(other, space),
            },
        }
    }
}

const PRIMITIVES: [&str; 8] = ["null", "boolean", "int", "long", "float", "double", "bytes", "string"];

fn primitive(name: &str, logical: Logical) -> Option<Type> {
    let time = |short: bool| match logical {
        Logical::Date | Logical::Time(TimeUnit::Millisecond) if short => logical,
        Logical::Time(TimeUnit::Microsecond | TimeUnit::Nanosecond) | Logical::Timestamp(..) if !short => logical,
        // What a type cannot mean is to be ignored.
        _ => Logical::Plain,
    };
    Some(match name {
        "null" => Type::Null,
        "boolean" => Type::Boolean,
        "int" => Type::Int(time(true)),
        "long" => Type::Long(time(false)),
        "float" => Type::Float,
        "double" => Type::Double,
        "bytes" => Type::Bytes(logical),
        "string" => Type::String,
        _ => return None,
    })
}

fn logical(map: &Map<String, Value>) -> Result<Logical> {
    let number = |key: &str, default: Option<u8>| match map.get(key) {
        None => default.ok_or_else(|| wrong(format!("a decimal without `{key}`"))),
        Some(value) => value.as_u64().and_then(|value| u8::try_from(value).ok()).ok_or_else(|| wrong(format!("a decimal's `{key}`"))),
    };
    Ok(match map.get("logicalType").and_then(Value::as_str) {
        Some("decimal") => {
            let (precision, scale) = (number("precision", None)?, number("scale", Some(0))?);
            if !(1..=76).contains(&precision) || scale > precision {
                return Err(wrong("the precision of a decimal is 1 to 76 and its scale 0 to the precision"));
            }
            Logical::Decimal { precision, scale }
        }
        Some("date") => Logical::Date,
        Some("time-millis") => Logical::Time(TimeUnit::Millisecond),
        Some("time-micros") => Logical::Time(TimeUnit::Microsecond),
        Some("arrow.time64-nanosecond") => Logical::Time(TimeUnit::Nanosecond),
        Some("timestamp-millis") => Logical::Timestamp(TimeUnit::Millisecond, true),
        Some("timestamp-micros") => Logical::Timestamp(TimeUnit::Microsecond, true),
        Some("timestamp-nanos") => Logical::Timestamp(TimeUnit::Nanosecond, true),
        Some("local-timestamp-millis") => Logical::Timestamp(TimeUnit::Millisecond, false),
        Some("local-timestamp-micros") => Logical::Timestamp(TimeUnit::Microsecond, false),
        Some("local-timestamp-nanos") => Logical::Timestamp(TimeUnit::Nanosecond, false),
        _ => Logical::Plain,
    })
}

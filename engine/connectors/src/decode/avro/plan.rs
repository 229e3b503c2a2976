//! Which column takes which value, settled once for a schema.
//!
//! Where schemas evolve, a field that was not written is what the reader's schema says of it: the field of an alias, or its default.
//! Without a reader's schema it is null. A value needs no such rules: a column takes what it can hold, however that was written.

use super::super::Wanted;
use super::super::cells::Faults;
use super::super::column::{Column, Data};
use super::super::typed::Value;
use super::body::{Cursor, Read};
use super::defaults;
use super::schema::{Id, Logical, Notes, Schema, Type};
use arrow::datatypes::{DataType, Field, FieldRef, i256};
use std::sync::Arc;
use tidegate_api::nearest::hint;
use tidegate_api::{Error, Result, types};

/// What becomes of a value.
enum Step {
    Skip(Id),
    One(Id),
    List(Box<Step>),
    /// A map as a list of keys and values, which are the fields at these places.
    Map(usize, usize, Box<Step>),
    /// Fields in the order they are written, with the column that takes each.
    Record(Vec<(Option<usize>, Step)>),
    Union(Vec<Step>),
    /// Bytes as the text that they are.
    Text,
    /// Text as its bytes.
    Bytes,
    /// Nothing was written, and null stands for it.
    Missing,
    /// Nothing was written, and this value of the reader's schema stands for it.
    Default(Box<Constant>),
}

/// A value that every record has alike.
struct Constant {
    step: Step,
    schema: Arc<Schema>,
    bytes: Vec<u8>,
}

/// What becomes of a message.
pub(super) struct Plan {
    fields: Vec<(Option<usize>, Step)>,
}

impl Plan {
    /// # Errors
    /// `Config` for a wanted column that the schema lacks, or that cannot hold what it has.
    pub(super) fn of(schema: &Schema, wanted: &Wanted) -> Result<Self> {
        let making = Making { schema, evolves: false, reader: None };
        Ok(Plan { fields: making.fields(schema.fields(), None, wanted.decoded(), "")? })
    }

    /// A plan by which fields may be missing, as the module says.
    ///
    /// # Errors
    /// `Config` for a wanted column that must have a value and has none, or that cannot hold what the schema has.
    pub(super) fn evolving(schema: &Schema, reader: Option<&Arc<Schema>>, wanted: &Wanted) -> Result<Self> {
        let making = Making { schema, evolves: true, reader };
        let root = reader.map(|reader| reader.root);
        Ok(Plan { fields: making.fields(schema.fields(), root, wanted.decoded(), "")? })
    }

    /// Appends a value to every column.
    pub(super) fn read_record(
        &self,
        schema: &Schema,
        cursor: &mut Cursor<'_>,
        columns: &mut [Column],
        record: usize,
        faults: &mut Faults,
    ) -> Read<()> {
        read_fields(&self.fields, schema, cursor, columns, record, faults)
    }

    /// Walks over a message.
    pub(super) fn skip_record(&self, schema: &Schema, cursor: &mut Cursor<'_>) -> Read<()> {
        cursor.skip(schema, schema.root, 0)
    }
}

/// What a plan is made of.
#[derive(Clone, Copy)]
struct Making<'s> {
    schema: &'s Schema,
    /// Whether fields may be missing.
    evolves: bool,
    reader: Option<&'s Arc<Schema>>,
}

/// A field of the reader's schema.
#[derive(Clone, Copy)]
struct Expected<'s> {
    id: Id,
    notes: &'s Notes,
}

impl<'s> Making<'s> {
    /// Matches the fields of a record with columns, by name. `reader` is the type that the reader's schema has there.
    fn fields(&self, written: &[(String, Id)], reader: Option<Id>, wanted: &[FieldRef], path: &str) -> Result<Vec<(Option<usize>, Step)>> {
        let expected: Vec<Option<Expected<'s>>> = wanted.iter().map(|field| self.expected(reader, field.name())).collect();
        let mut takers: Vec<Option<usize>> = written.iter().map(|(name, _)| wanted.iter().position(|field| field.name() == name)).collect();
        let mut absent = Vec::new();
        for (index, field) in wanted.iter().enumerate().filter(|(_, field)| !written.iter().any(|(name, _)| name == field.name())) {
            let former = expected[index].into_iter().flat_map(|expected| &expected.notes.aliases);
            let former = former.filter_map(|alias| written.iter().position(|(name, _)| name == alias));
            match former.filter(|place| takers[*place].is_none()).min() {
                Some(place) => takers[place] = Some(index),
                None => absent.push((Some(index), self.absent(field, expected[index], written, path)?)),
            }
        }
        let mut steps = Vec::with_capacity(written.len() + absent.len());
        for ((name, id), taker) in written.iter().zip(takers) {
            steps.push(match taker {
                Some(index) => {
                    let reader = expected[index].map(|expected| expected.id);
                    (Some(index), self.step(*id, reader, &wanted[index], &format!("{path}{name}"))?)
                }
                None => (None, Step::Skip(*id)),
            });
        }
        steps.extend(absent);
        Ok(steps)
    }

    /// The field of a name in a record of the reader's schema.
    fn expected(&self, reader: Option<Id>, name: &str) -> Option<Expected<'s>> {
        let schema = self.reader?;
        let record = schema.only(reader?);
        let Type::Record(fields) = &schema.types[record] else { return None };
        let place = fields.iter().position(|(known, _)| known == name)?;
        Some(Expected { id: fields[place].1, notes: schema.notes.get(&record)?.get(place)? })
    }

    /// What stands for a field that was not written.
    fn absent(&self, field: &Field, expected: Option<Expected<'_>>, written: &[(String, Id)], path: &str) -> Result<Step> {
        let name = field.name();
        if !self.evolves {
            let hint = hint(name, written.iter().map(|(name, _)| name.as_str()));
            return Err(Error::config(format!("the Avro schema has no field `{path}{name}`{hint}")));
        }
        match (expected.zip(self.reader), field.is_nullable()) {
            (Some((expected, reader)), _) => {
                let Some(default) = &expected.notes.default else {
                    return Err(Error::config(format!(
                        "field `{path}{name}` was not written, and the reader's schema has no default for it"
                    )));
                };
                let wrong = |what| Error::config(format!("the default of field `{path}{name}` in the reader's schema: {what}"));
                let bytes = defaults::encode(reader, expected.id, default).map_err(wrong)?;
                let making = Making { schema: reader, evolves: true, reader: self.reader };
                let step = making.step(expected.id, Some(expected.id), field, &format!("{path}{name}"))?;
                Ok(Step::Default(Box::new(Constant { step, schema: Arc::clone(reader), bytes })))
            }
            (None, true) => Ok(Step::Missing),
            (None, false) => Err(Error::config(format!("field `{path}{name}` was not written, and its column may not be null"))),
        }
    }

    fn step(&self, id: Id, reader: Option<Id>, field: &Field, path: &str) -> Result<Step> {
        let to = field.data_type();
        let misfit = |what: &str| {
            Error::config(format!("column `{path}`: the Avro schema has {what}, which cannot be read as `{}`", types::name(to)))
        };
        // The type of items and values in the reader's schema.
        let inner = || match (self.reader, reader) {
            (Some(schema), Some(id)) => match schema.types[schema.only(id)] {
                Type::Array(inner) | Type::Map(inner) => Some(inner),
                _ => None,
            },
            _ => None,
        };
        Ok(match &self.schema.types[id] {
            Type::Union(branches) => {
                Step::Union(branches.iter().map(|branch| self.step(*branch, reader, field, path)).collect::<Result<_>>()?)
            }
            Type::Null => Step::One(id),
            Type::Array(item) => match to {
                DataType::List(field) => Step::List(Box::new(self.step(*item, inner(), field, &format!("{path}[]"))?)),
                _ => return Err(misfit("an array")),
            },
            Type::Map(value) => match to {
                DataType::List(field) => match field.data_type() {
                    DataType::Struct(entry) => match (entry.find("key"), entry.find("value")) {
                        (Some((key, of)), Some((place, field))) if entry.len() == 2 && *of.data_type() == DataType::Utf8View => {
                            Step::Map(key, place, Box::new(self.step(*value, inner(), field, &format!("{path}[].value"))?))
                        }
                        _ => return Err(misfit("a map (read as `list<struct<key: string, value: …>>`)")),
                    },
                    _ => return Err(misfit("a map (read as `list<struct<key: string, value: …>>`)")),
                },
                _ => return Err(misfit("a map (read as `list<struct<key: string, value: …>>`)")),
            },
            Type::Record(written) => match to {
                DataType::Struct(wanted) => Step::Record(self.fields(written, reader, wanted, &format!("{path}."))?),
                _ => return Err(misfit("a record")),
            },
            scalar => match to {
                DataType::List(_) | DataType::Struct(_) => return Err(misfit("a single value")),
                DataType::Utf8View if self.evolves && *scalar == Type::Bytes(Logical::Plain) => Step::Text,
                DataType::Utf8View if !matches!(scalar, Type::String | Type::Enum(_)) => return Err(misfit("no text")),
                DataType::Binary if self.evolves && *scalar == Type::String => Step::Bytes,
                _ => Step::One(id),
            },
        })
    }
}

fn read_fields(
    steps: &[(Option<usize>, Step)],
    schema: &Schema,
    cursor: &mut Cursor<'_>,
    columns: &mut [Column],
    record: usize,
    faults: &mut Faults,
) -> Read<()> {
    for (index, step) in steps {
        match (index, step) {
            (Some(index), step) => read(step, schema, cursor, &mut columns[*index], record, faults)?,
            (None, Step::Skip(id)) => cursor.skip(schema, *id, 1)?,
            (None, _) => {}
        }
    }
    Ok(())
}

fn read(step: &Step, schema: &Schema, cursor: &mut Cursor<'_>, column: &mut Column, record: usize, faults: &mut Faults) -> Read<()> {
    match step {
        Step::Skip(id) => cursor.skip(schema, *id, 1)?,
        Step::One(id) => {
            let value = scalar(&schema.types[*id], cursor)?;
            column.append_value(value, record, faults);
        }
        Step::Text => column.append_value(Value::Text(cursor.bytes()?), record, faults),
        Step::Bytes => column.append_value(Value::Bytes(cursor.bytes()?), record, faults),
        Step::Missing => column.append_null(),
        Step::Default(default) => read(&default.step, &default.schema, &mut Cursor::new(&default.bytes), column, record, faults)?,
        Step::Union(steps) => {
            let branch = cursor.index(steps.len())?;
            read(&steps[branch], schema, cursor, column, record, faults)?;
        }
        Step::List(step) => {
            if let Data::List { item, .. } = &mut column.data {
                cursor.items(|cursor| read(step, schema, cursor, item, record, faults))?;
            }
            column.close();
        }
        Step::Map(key, place, step) => {
            if let Data::List { item, .. } = &mut column.data {
                cursor.items(|cursor| {
                    if let Data::Struct(entry) = &mut item.data {
                        entry[*key].append_value(Value::Text(cursor.bytes()?), record, faults);
                        read(step, schema, cursor, &mut entry[*place], record, faults)?;
                    }
                    item.close();
                    Ok(())
                })?;
            }
            column.close();
        }
        Step::Record(steps) => {
            if let Data::Struct(children) = &mut column.data {
                read_fields(steps, schema, cursor, children, record, faults)?;
            }
            column.close();
        }
    }
    Ok(())
}

/// A value that stands alone.
#[inline]
fn scalar<'v, 'c: 'v>(found: &'v Type, cursor: &mut Cursor<'c>) -> Read<Value<'v>> {
    Ok(match found {
        Type::Null => Value::Null,
        Type::Boolean => match cursor.array::<1>()? {
            [0] => Value::Bool(false),
            [1] => Value::Bool(true),
            _ => Value::Wrong("a boolean is neither 0 nor 1"),
        },
        Type::Int(logical) => match i32::try_from(cursor.long()?).map(i64::from) {
            Err(_) => Value::Wrong("an `int` is longer than 32 bits"),
            Ok(value) => match logical {
                Logical::Date => Value::Date(value),
                Logical::Time(unit) => Value::Time(value, *unit),
                _ => Value::Int(i128::from(value)),
            },
        },
        Type::Long(logical) => {
            let value = cursor.long()?;
            match logical {
                Logical::Time(unit) => Value::Time(value, *unit),
                Logical::Timestamp(unit, _) => Value::Moment(value, *unit),
                _ => Value::Int(i128::from(value)),
            }
        }
        Type::Float => Value::Float(f64::from(f32::from_le_bytes(cursor.array()?))),
        Type::Double => Value::Float(f64::from_le_bytes(cursor.array()?)),
        Type::Bytes(logical) => with_logical(cursor.bytes()?, *logical),
        Type::Fixed(size, logical) => with_logical(cursor.take(*size)?, *logical),
        Type::String => Value::Text(cursor.bytes()?),
        Type::Enum(symbols) => match usize::try_from(cursor.long()?).ok().and_then(|index| symbols.get(index)) {
            Some(symbol) => Value::Text(symbol.as_bytes()),
            None => Value::Wrong("an enum of a symbol that the schema does not have"),
        },
        Type::Array(_) | Type::Map(_) | Type::Union(_) | Type::Record(_) => return cursor.fail("a value of the wrong kind"),
    })
}

fn with_logical(bytes: &[u8], logical: Logical) -> Value<'_> {
    let Logical::Decimal { scale, .. } = logical else { return Value::Bytes(bytes) };
    // Leading bytes that only repeat the sign may be there in any number.
    let negative = bytes.first().is_some_and(|byte| byte & 0x80 != 0);
    let fill = if negative { 0xFF } else { 0 };
    let mut whole = [fill; 32];
    let (lead, low) = bytes.split_at(bytes.len().saturating_sub(32));
    if lead.iter().any(|byte| *byte != fill) || (!lead.is_empty() && (low[0] ^ fill) & 0x80 != 0) {
        return Value::Wrong("a decimal is longer than 256 bits");
    }
    whole[32 - low.len()..].copy_from_slice(low);
    Value::Decimal(i256::from_be_bytes(whole), i32::from(scale))
}

//! Which column takes which field, settled once for a message.

use arrow::datatypes::{DataType, Field, FieldRef, Fields, Schema, SchemaRef, TimeUnit};
use prost_reflect::{Cardinality, FieldDescriptor, Kind, MessageDescriptor};
use std::cell::Cell;
use std::collections::BTreeMap;
use std::sync::Arc;
use tidegate_api::nearest::hint;
use tidegate_api::{Error, Result, types};

/// How a value is written.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Scalar {
    Double,
    Float,
    Int32,
    Int64,
    Uint32,
    Uint64,
    Sint32,
    Sint64,
    Fixed32,
    Fixed64,
    Sfixed32,
    Sfixed64,
    Bool,
    String,
    Bytes,
    /// As a number.
    Enum,
    /// As a name.
    Symbol(BTreeMap<i32, String>),
}

/// The wire type that a value has.
pub(crate) const VARINT: u8 = 0;
pub(crate) const FIXED64: u8 = 1;
pub(crate) const LENGTH: u8 = 2;
pub(crate) const GROUP: u8 = 3;
pub(crate) const GROUP_END: u8 = 4;
pub(crate) const FIXED32: u8 = 5;

impl Scalar {
    pub(crate) fn wire(&self) -> u8 {
        match self {
            Scalar::Double | Scalar::Fixed64 | Scalar::Sfixed64 => FIXED64,
            Scalar::Float | Scalar::Fixed32 | Scalar::Sfixed32 => FIXED32,
            Scalar::String | Scalar::Bytes => LENGTH,
            Scalar::Int32
            | Scalar::Int64
            | Scalar::Uint32
            | Scalar::Uint64
            | Scalar::Sint32
            | Scalar::Sint64
            | Scalar::Bool
            | Scalar::Enum
            | Scalar::Symbol(_) => VARINT,
        }
    }

    fn of(kind: &Kind, to: &DataType) -> Option<Self> {
        Some(match kind {
            Kind::Double => Scalar::Double,
            Kind::Float => Scalar::Float,
            Kind::Int32 => Scalar::Int32,
            Kind::Int64 => Scalar::Int64,
            Kind::Uint32 => Scalar::Uint32,
            Kind::Uint64 => Scalar::Uint64,
            Kind::Sint32 => Scalar::Sint32,
            Kind::Sint64 => Scalar::Sint64,
            Kind::Fixed32 => Scalar::Fixed32,
            Kind::Fixed64 => Scalar::Fixed64,
            Kind::Sfixed32 => Scalar::Sfixed32,
            Kind::Sfixed64 => Scalar::Sfixed64,
            Kind::Bool => Scalar::Bool,
            Kind::String => Scalar::String,
            Kind::Bytes => Scalar::Bytes,
            Kind::Enum(descriptor) if *to == DataType::Utf8View => {
                Scalar::Symbol(descriptor.values().map(|value| (value.number(), value.name().to_string())).collect())
            }
            Kind::Enum(_) => Scalar::Enum,
            Kind::Message(_) => return None,
        })
    }
}

/// One value of a field.
#[derive(Debug)]
pub(crate) enum Item {
    Scalar(Scalar),
    /// A message as a struct.
    Message(MessagePlan),
    /// `google.protobuf.Timestamp` as a timestamp.
    Instant,
    /// A message of one field named `value`, as that value.
    Wrapper(Scalar),
}

/// A field.
#[derive(Debug)]
pub(crate) struct FieldPlan {
    pub(crate) number: u32,
    /// The column that takes it. Others of its `oneof` are here without one, since the last of them counts.
    pub(crate) column: Option<usize>,
    pub(crate) item: Item,
    pub(crate) repeated: bool,
    /// Whether an absent field is null.
    pub(crate) presence: bool,
    pub(crate) oneof: Option<usize>,
}

/// A message.
#[derive(Debug, Default)]
pub(crate) struct MessagePlan {
    /// By number.
    pub(crate) fields: Vec<FieldPlan>,
    pub(crate) oneofs: usize,
    /// Columns that have no field, in a message of a schema that evolves.
    pub(crate) missing: Vec<usize>,
}

/// Whether a message may lack fields that columns are named after.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Lacking {
    Refused,
    /// They are null, or empty if they are lists.
    Allowed,
}

impl MessagePlan {
    /// # Errors
    /// `Config` for a column that the message lacks, or that cannot hold what it has.
    pub(crate) fn of(message: &MessageDescriptor, wanted: &[FieldRef]) -> Result<Self> {
        MessagePlan::at(message, wanted, "", Lacking::Refused)
    }

    /// The same for a message that may lack some of them.
    ///
    /// # Errors
    /// `Config` for a column that must have a value and has no field, or that cannot hold what its field has.
    pub(crate) fn evolving(message: &MessageDescriptor, wanted: &[FieldRef]) -> Result<Self> {
        MessagePlan::at(message, wanted, "", Lacking::Allowed)
    }

    fn at(message: &MessageDescriptor, wanted: &[FieldRef], path: &str, lacking: Lacking) -> Result<Self> {
        let mut plan = MessagePlan::default();
        let mut oneofs: Vec<String> = Vec::new();
        for (index, field) in wanted.iter().enumerate() {
            let Some(descriptor) = message.get_field_by_name(field.name()) else {
                if lacking == Lacking::Allowed && (field.is_nullable() || matches!(field.data_type(), DataType::List(_))) {
                    plan.missing.push(index);
                    continue;
                }
                let known: Vec<String> = message.fields().map(|field| field.name().to_string()).collect();
                let hint = hint(field.name(), known.iter().map(String::as_str));
                return Err(Error::config(format!("message `{}` has no field `{path}{}`{hint}", message.full_name(), field.name())));
            };
            if let Some(oneof) = descriptor.containing_oneof()
                && !oneofs.iter().any(|known| known == oneof.name())
            {
                oneofs.push(oneof.name().to_string());
            }
            plan.fields.push(field_plan(&descriptor, index, field, path, lacking)?);
        }
        plan.oneofs = oneofs.len();
        for descriptor in message.fields() {
            let oneof = descriptor.containing_oneof().and_then(|oneof| oneofs.iter().position(|known| known == oneof.name()));
            match plan.fields.iter_mut().find(|field| field.number == descriptor.number()) {
                Some(field) => field.oneof = oneof,
                None if oneof.is_some() => {
                    let item = Item::Scalar(Scalar::Bytes);
                    plan.fields.push(FieldPlan { number: descriptor.number(), column: None, item, repeated: false, presence: true, oneof });
                }
                None => {}
            }
        }
        plan.fields.sort_by_key(|field| field.number);
        Ok(plan)
    }

    /// The place of a field.
    #[inline]
    pub(crate) fn find(&self, number: u32) -> Option<usize> {
        self.fields.binary_search_by_key(&number, |field| field.number).ok()
    }
}

fn field_plan(descriptor: &FieldDescriptor, index: usize, field: &Field, path: &str, lacking: Lacking) -> Result<FieldPlan> {
    let path = format!("{path}{}", field.name());
    let repeated = descriptor.cardinality() == Cardinality::Repeated;
    let misfit = |what: &str| {
        let to = types::name(field.data_type());
        Err(Error::config(format!("column `{path}`: the message has {what}, which cannot be read as `{to}`")))
    };
    let to = match (repeated, field.data_type()) {
        (true, DataType::List(item)) => item.data_type(),
        (true, _) if descriptor.is_map() => return misfit("a map (read as `list<struct<key: …, value: …>>`)"),
        (true, _) => return misfit("a repeated field"),
        (false, DataType::List(_)) => return misfit("one value"),
        (false, other) => other,
    };
    let item = match descriptor.kind() {
        Kind::Message(message) => match to {
            DataType::Struct(children) => Item::Message(MessagePlan::at(&message, children, &format!("{path}."), lacking)?),
            DataType::Timestamp(..) if message.full_name() == "google.protobuf.Timestamp" => Item::Instant,
            _ => match wrapped(&message).and_then(|inner| Scalar::of(&inner, to)) {
                Some(scalar) => Item::Wrapper(scalar),
                None => return misfit(&format!("a message `{}`", message.full_name())),
            },
        },
        kind => match (Scalar::of(&kind, to), to) {
            (Some(Scalar::String | Scalar::Symbol(_)), DataType::Utf8View) => Item::Scalar(symbol(&kind, to)),
            (_, DataType::Utf8View) => return misfit("no text"),
            (_, DataType::Struct(_) | DataType::List(_)) => return misfit("one value"),
            (Some(scalar), _) => Item::Scalar(scalar),
            (None, _) => return misfit("a message"),
        },
    };
    Ok(FieldPlan {
        number: descriptor.number(),
        column: Some(index),
        item,
        repeated,
        presence: descriptor.supports_presence(),
        oneof: None,
    })
}

fn symbol(kind: &Kind, to: &DataType) -> Scalar {
    Scalar::of(kind, to).unwrap_or(Scalar::String)
}

/// The kind inside one of the wrappers that make a value nullable.
fn wrapped(message: &MessageDescriptor) -> Option<Kind> {
    let is_wrapper = message.package_name() == "google.protobuf" && message.name().ends_with("Value") && message.fields().len() == 1;
    is_wrapper.then(|| message.get_field_by_name("value")).flatten().map(|field| field.kind())
}

/// The columns that hold every field of a message.
pub(crate) fn schema(message: &MessageDescriptor) -> Result<SchemaRef> {
    Ok(Arc::new(Schema::new(fields(message, 0, &Cell::new(MAX_FIELDS))?)))
}

/// How many fields columns may be made of: messages inside of messages can be far more than a file has bytes.
const MAX_FIELDS: usize = 100_000;

fn fields(message: &MessageDescriptor, depth: usize, left: &Cell<usize>) -> Result<Fields> {
    const MAX_DEPTH: usize = 32;
    if depth > MAX_DEPTH {
        return Err(Error::config(format!("message `{}` holds itself, which no column can; declare a `schema`", message.full_name())));
    }
    let of = |field: FieldDescriptor| {
        if left.get() == 0 {
            let name = message.full_name();
            return Err(Error::config(format!("the columns of `{name}` would be of more than {MAX_FIELDS} fields, declare a `schema`")));
        }
        left.set(left.get() - 1);
        let one = match field.kind() {
            Kind::Double => DataType::Float64,
            Kind::Float => DataType::Float32,
            Kind::Int32 | Kind::Sint32 | Kind::Sfixed32 => DataType::Int32,
            Kind::Int64 | Kind::Sint64 | Kind::Sfixed64 => DataType::Int64,
            Kind::Uint32 | Kind::Fixed32 => DataType::UInt32,
            Kind::Uint64 | Kind::Fixed64 => DataType::UInt64,
            Kind::Bool => DataType::Boolean,
            Kind::String | Kind::Enum(_) => DataType::Utf8View,
            Kind::Bytes => DataType::Binary,
            Kind::Message(inner) if inner.full_name() == "google.protobuf.Timestamp" => {
                DataType::Timestamp(TimeUnit::Nanosecond, Some("UTC".into()))
            }
            Kind::Message(inner) => DataType::Struct(fields(&inner, depth + 1, left)?),
        };
        let repeated = field.cardinality() == Cardinality::Repeated;
        let data_type = if repeated { DataType::List(Arc::new(Field::new_list_field(one, true))) } else { one };
        Ok(Field::new(field.name(), data_type, true))
    };
    message.fields().map(of).collect::<Result<Vec<_>>>().map(Fields::from)
}

//! The wire format: fields by number, in any order and any number.

use super::super::cells::Faults;
use super::super::column::{Column, Data};
use super::super::typed::Value;
use super::plan::{FIXED32, FIXED64, FieldPlan, GROUP, GROUP_END, Item, LENGTH, MessagePlan, Scalar, VARINT};
use std::fmt::{self, Display, Formatter};
use std::ops::Range;

/// How deep groups that are walked over may stand inside each other.
const MAX_NESTING: usize = 100;

/// Why a message cannot be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Broken {
    at: usize,
    what: &'static str,
}

impl Display for Broken {
    fn fmt(&self, formatter: &mut Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}, at byte {}", self.what, self.at + 1)
    }
}

pub(super) type Read<T> = Result<T, Broken>;

/// Where a message is read.
pub(super) struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Reader<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Reader { bytes, at: 0 }
    }

    pub(super) fn at(&self) -> usize {
        self.at
    }

    pub(super) fn rest(&self) -> &'a [u8] {
        &self.bytes[self.at..]
    }

    fn fail<T>(&self, what: &'static str) -> Read<T> {
        Err(Broken { at: self.at, what })
    }

    #[inline]
    pub(super) fn varint(&mut self) -> Read<u64> {
        let mut value = 0u64;
        for shift in (0..64).step_by(7) {
            let Some(byte) = self.bytes.get(self.at) else { return self.fail("the message ends too early") };
            self.at += 1;
            value |= u64::from(byte & 0x7F) << shift;
            if byte & 0x80 == 0 {
                return Ok(value);
            }
        }
        self.fail("an integer is longer than 64 bits")
    }

    fn fixed<const N: usize>(&mut self) -> Read<[u8; N]> {
        match self.rest().first_chunk::<N>() {
            Some(found) => {
                self.at += N;
                Ok(*found)
            }
            None => self.fail("the message ends too early"),
        }
    }

    fn length(&mut self) -> Read<Range<usize>> {
        let length = self.varint()?;
        match usize::try_from(length).ok().filter(|length| *length <= self.bytes.len() - self.at) {
            Some(length) => {
                let start = self.at;
                self.at += length;
                Ok(start..self.at)
            }
            None => self.fail("a length goes beyond the end of the message"),
        }
    }

    /// The number and the wire type of a field.
    fn key(&mut self) -> Read<(u32, u8)> {
        let at = self.at;
        let key = self.varint()?;
        match u32::try_from(key >> 3).ok().filter(|number| (1..1 << 29).contains(number)) {
            Some(number) => Ok((number, (key & 7) as u8)),
            None => Err(Broken { at, what: "a field of an impossible number" }),
        }
    }

    fn skip(&mut self, number: u32, wire: u8, depth: usize) -> Read<()> {
        match wire {
            VARINT => {
                self.varint()?;
            }
            FIXED64 => {
                self.fixed::<8>()?;
            }
            FIXED32 => {
                self.fixed::<4>()?;
            }
            LENGTH => {
                self.length()?;
            }
            GROUP if depth < MAX_NESTING => loop {
                let (inner, wire) = self.key()?;
                if wire == GROUP_END {
                    if inner == number {
                        break;
                    }
                    return self.fail("a group ends that did not begin");
                }
                self.skip(inner, wire, depth + 1)?;
            },
            GROUP => return self.fail("groups are nested deeper than 100 levels"),
            _ => return self.fail("a wire type that does not exist"),
        }
        Ok(())
    }
}

/// A value of a message.
#[derive(Debug, Clone, Copy)]
struct Token {
    /// The field, by its place in the plan.
    field: u32,
    wire: u8,
    /// The number itself, or where the bytes begin.
    value: u64,
    /// Where the bytes end.
    end: usize,
}

impl Token {
    fn bytes<'a>(&self, message: &'a [u8]) -> &'a [u8] {
        &message[self.value as usize..self.end]
    }
}

/// Memory that messages share: a stack of what is open.
#[derive(Default)]
pub(super) struct Scratch {
    tokens: Vec<Token>,
    /// For every `oneof` the field that came last.
    last: Vec<u32>,
}

impl Scratch {
    pub(super) fn clear(&mut self) {
        self.tokens.clear();
        self.last.clear();
    }
}

/// Notes the values of the fields that matter, in the order of the plan.
fn scan(plan: &MessagePlan, message: &[u8], scratch: &mut Scratch) -> Read<()> {
    let begun = scratch.tokens.len();
    let mut reader = Reader::new(message);
    let mut sorted = true;
    let oneofs = scratch.last.len();
    scratch.last.resize(oneofs + plan.oneofs, u32::MAX);
    while reader.at < message.len() {
        let at = reader.at;
        let (number, wire) = reader.key()?;
        let Some(place) = plan.find(number) else {
            reader.skip(number, wire, 0)?;
            continue;
        };
        let (value, end) = match wire {
            VARINT => (reader.varint()?, 0),
            FIXED64 => (u64::from_le_bytes(reader.fixed()?), 0),
            FIXED32 => (u64::from(u32::from_le_bytes(reader.fixed()?)), 0),
            LENGTH => {
                let span = reader.length()?;
                (span.start as u64, span.end)
            }
            GROUP => {
                let start = reader.at;
                reader.skip(number, GROUP, 0)?;
                // The key that ends it is as long as the one that began it.
                let end = reader.at - (start - at);
                (start as u64, end.max(start))
            }
            _ => return reader.fail("a wire type that does not exist"),
        };
        let field = &plan.fields[place];
        if field.column.is_some() && !fits(field, wire) {
            return Err(Broken { at, what: "a field is written as another type than the descriptor has" });
        }
        if let Some(oneof) = field.oneof {
            scratch.last[oneofs + oneof] = place as u32;
        }
        if field.column.is_some() {
            sorted &= scratch.tokens[begun..].last().is_none_or(|token| token.field <= place as u32);
            scratch.tokens.push(Token { field: place as u32, wire, value, end });
        }
    }
    if !sorted {
        // Stable: values of one field stay in their order.
        scratch.tokens[begun..].sort_by_key(|token| token.field);
    }
    Ok(())
}

fn fits(field: &FieldPlan, wire: u8) -> bool {
    match &field.item {
        Item::Scalar(scalar) => wire == scalar.wire() || (field.repeated && wire == LENGTH && scalar.wire() != LENGTH),
        Item::Message(_) => matches!(wire, LENGTH | GROUP),
        Item::Instant | Item::Wrapper(_) => wire == LENGTH,
    }
}

/// Reads a message of a plan as [`append`] does, and keeps nothing.
pub(super) fn check(plan: &MessagePlan, message: &[u8], scratch: &mut Scratch) -> Read<()> {
    let (begun, oneofs) = (scratch.tokens.len(), scratch.last.len());
    scan(plan, message, scratch)?;
    for index in begun..scratch.tokens.len() {
        let token = scratch.tokens[index];
        let field = &plan.fields[token.field as usize];
        match &field.item {
            Item::Message(inner) => check(inner, token.bytes(message), scratch)?,
            Item::Scalar(scalar) if field.repeated && token.wire == LENGTH && scalar.wire() != LENGTH => {
                let mut reader = Reader::new(token.bytes(message));
                while !reader.rest().is_empty() {
                    reader.skip(0, scalar.wire(), 0)?;
                }
            }
            Item::Scalar(_) => {}
            Item::Instant => {
                instant(token.bytes(message))?;
            }
            Item::Wrapper(scalar) => {
                wrapped(scalar, token.bytes(message))?;
            }
        }
    }
    scratch.tokens.truncate(begun);
    scratch.last.truncate(oneofs);
    Ok(())
}

/// Appends a message to columns, one value to each.
pub(super) fn append(
    plan: &MessagePlan,
    message: &[u8],
    columns: &mut [Column],
    record: usize,
    faults: &mut Faults,
    scratch: &mut Scratch,
) -> Read<()> {
    let (begun, oneofs) = (scratch.tokens.len(), scratch.last.len());
    scan(plan, message, scratch)?;
    let end = scratch.tokens.len();
    let mut at = begun;
    for (place, field) in plan.fields.iter().enumerate() {
        let from = at;
        while at < end && scratch.tokens[at].field == place as u32 {
            at += 1;
        }
        let Some(column) = field.column else { continue };
        // Another field of the same `oneof` that came later has taken its place.
        let overruled = field.oneof.is_some_and(|oneof| scratch.last[oneofs + oneof] != place as u32);
        let tokens = if overruled { at..at } else { from..at };
        append_field(field, message, tokens, &mut columns[column], record, faults, scratch)?;
    }
    for column in &plan.missing {
        match columns[*column].data {
            Data::List { .. } => columns[*column].close(),
            _ => columns[*column].append_missing(record, faults),
        }
    }
    scratch.tokens.truncate(begun);
    scratch.last.truncate(oneofs);
    Ok(())
}

fn append_field(
    field: &FieldPlan,
    message: &[u8],
    tokens: Range<usize>,
    column: &mut Column,
    record: usize,
    faults: &mut Faults,
    scratch: &mut Scratch,
) -> Read<()> {
    if field.repeated {
        if let Data::List { item, .. } = &mut column.data {
            for index in tokens {
                let token = scratch.tokens[index];
                match &field.item {
                    Item::Scalar(scalar) if token.wire == LENGTH && scalar.wire() != LENGTH => {
                        let mut reader = Reader::new(token.bytes(message));
                        while !reader.rest().is_empty() {
                            let value = match scalar.wire() {
                                FIXED64 => u64::from_le_bytes(reader.fixed()?),
                                FIXED32 => u64::from(u32::from_le_bytes(reader.fixed()?)),
                                _ => reader.varint()?,
                            };
                            append_scalar(scalar, value, &[], item, record, faults);
                        }
                    }
                    _ => append_one(field, token, message, item, record, faults, scratch)?,
                }
            }
        }
        column.close();
        return Ok(());
    }
    match (tokens.len(), &field.item) {
        (0, Item::Scalar(scalar)) if !field.presence => append_scalar(scalar, 0, &[], column, record, faults),
        (0, _) => column.append_missing(record, faults),
        (1, _) | (_, Item::Scalar(_)) => append_one(field, scratch.tokens[tokens.end - 1], message, column, record, faults, scratch)?,
        // A message in several parts is what its parts are one behind the other.
        _ => {
            let mut whole = Vec::new();
            for index in tokens {
                whole.extend_from_slice(scratch.tokens[index].bytes(message));
            }
            let token = Token { field: 0, wire: LENGTH, value: 0, end: whole.len() };
            append_one(field, token, &whole, column, record, faults, scratch)?;
        }
    }
    Ok(())
}

fn append_one(
    field: &FieldPlan,
    token: Token,
    message: &[u8],
    column: &mut Column,
    record: usize,
    faults: &mut Faults,
    scratch: &mut Scratch,
) -> Read<()> {
    match &field.item {
        Item::Scalar(scalar) => {
            let bytes = if token.wire == LENGTH { token.bytes(message) } else { &[] };
            append_scalar(scalar, token.value, bytes, column, record, faults);
        }
        Item::Message(plan) => {
            if let Data::Struct(children) = &mut column.data {
                append(plan, token.bytes(message), children, record, faults, scratch)?;
            }
            column.close();
        }
        Item::Instant => {
            let (seconds, nanos) = instant(token.bytes(message))?;
            column.append_value(Value::Instant(seconds, nanos), record, faults);
        }
        Item::Wrapper(scalar) => {
            let (value, bytes) = wrapped(scalar, token.bytes(message))?;
            append_scalar(scalar, value, bytes, column, record, faults);
        }
    }
    Ok(())
}

/// The seconds and nanoseconds of a `google.protobuf.Timestamp`.
fn instant(message: &[u8]) -> Read<(i64, u32)> {
    let mut reader = Reader::new(message);
    let (mut seconds, mut nanos) = (0, 0);
    while !reader.rest().is_empty() {
        let at = reader.at;
        match reader.key()? {
            (1, VARINT) => seconds = reader.varint()? as i64,
            (2, VARINT) => {
                let value = reader.varint()?;
                nanos = u32::try_from(value)
                    .ok()
                    .filter(|nanos| *nanos < 1_000_000_000)
                    .ok_or(Broken { at, what: "nanoseconds of more than a second" })?;
            }
            (number, wire) => reader.skip(number, wire, 0)?,
        }
    }
    Ok((seconds, nanos))
}

/// The value inside of a wrapper.
fn wrapped<'a>(scalar: &Scalar, message: &'a [u8]) -> Read<(u64, &'a [u8])> {
    let mut reader = Reader::new(message);
    let mut found: (u64, &[u8]) = (0, &[]);
    while !reader.rest().is_empty() {
        let (number, wire) = reader.key()?;
        if number != 1 || wire != scalar.wire() {
            reader.skip(number, wire, 0)?;
            continue;
        }
        found = match wire {
            VARINT => (reader.varint()?, &[]),
            FIXED64 => (u64::from_le_bytes(reader.fixed()?), &[]),
            FIXED32 => (u64::from(u32::from_le_bytes(reader.fixed()?)), &[]),
            _ => (0, &message[reader.length()?]),
        };
    }
    Ok(found)
}

#[inline]
fn append_scalar(scalar: &Scalar, value: u64, bytes: &[u8], column: &mut Column, record: usize, faults: &mut Faults) {
    let zigzag = |value: u64| (value >> 1) as i64 ^ -((value & 1) as i64);
    let found = match scalar {
        Scalar::Double => Value::Float(f64::from_bits(value)),
        Scalar::Float => Value::Float(f64::from(f32::from_bits(value as u32))),
        Scalar::Int32 | Scalar::Sfixed32 | Scalar::Enum => Value::Int(i128::from(value as i32)),
        Scalar::Int64 | Scalar::Sfixed64 => Value::Int(i128::from(value as i64)),
        Scalar::Uint32 | Scalar::Fixed32 => Value::Int(i128::from(value as u32)),
        Scalar::Uint64 | Scalar::Fixed64 => Value::Int(i128::from(value)),
        Scalar::Sint32 => Value::Int(i128::from(zigzag(u64::from(value as u32)) as i32)),
        Scalar::Sint64 => Value::Int(i128::from(zigzag(value))),
        Scalar::Bool => Value::Bool(value != 0),
        Scalar::String => Value::Text(bytes),
        Scalar::Bytes => Value::Bytes(bytes),
        Scalar::Symbol(names) => match names.get(&(value as i32)) {
            Some(name) => Value::Text(name.as_bytes()),
            // A symbol newer than the descriptor is shown by its number.
            None => {
                let number = (value as i32).to_string();
                column.append_value(Value::Text(number.as_bytes()), record, faults);
                return;
            }
        },
    };
    column.append_value(found, record, faults);
}

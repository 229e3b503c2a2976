//! The bytes of Avro values: integers of seven bits a byte, lengths that are checked before they are believed.

use super::schema::{Id, Schema, Type};
use std::fmt::{self, Display, Formatter};

/// How deep values may stand inside each other, which a schema that holds itself does not limit.
const MAX_NESTING: usize = 128;

/// Why a value cannot be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Broken {
    pub(super) at: usize,
    pub(super) what: &'static str,
}

impl Display for Broken {
    fn fmt(&self, formatter: &mut Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}, at byte {}", self.what, self.at + 1)
    }
}

pub(super) type Read<T> = Result<T, Broken>;

/// Where a value is read.
#[derive(Clone)]
pub(super) struct Cursor<'a> {
    bytes: &'a [u8],
    at: usize,
    /// How many items of lists and maps may still come. Items can be of no bytes, so their number needs a limit of its own: what
    /// the bytes could hold if each took one.
    items: usize,
}

/// What a cursor is without its bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) at: usize,
    items: usize,
}

impl Place {
    /// The beginning of so many bytes.
    pub(super) fn before(length: usize) -> Self {
        Place { at: 0, items: length }
    }
}

impl<'a> Cursor<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Cursor { bytes, at: 0, items: bytes.len() }
    }

    /// Goes on in the same bytes; see [`Cursor::place`].
    pub(super) fn resume(bytes: &'a [u8], place: Place) -> Self {
        Cursor { bytes, at: place.at, items: place.items }
    }

    pub(super) fn place(&self) -> Place {
        Place { at: self.at, items: self.items }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.at == self.bytes.len()
    }

    pub(super) fn at(&self) -> usize {
        self.at
    }

    pub(super) fn fail<T>(&self, what: &'static str) -> Read<T> {
        Err(Broken { at: self.at, what })
    }

    #[inline]
    pub(super) fn take(&mut self, length: usize) -> Read<&'a [u8]> {
        match self.bytes.get(self.at..).and_then(|rest| rest.get(..length)) {
            Some(found) => {
                self.at += length;
                Ok(found)
            }
            None => self.fail("the value ends too early"),
        }
    }

    #[inline]
    pub(super) fn array<const N: usize>(&mut self) -> Read<[u8; N]> {
        match self.bytes.get(self.at..).and_then(<[u8]>::first_chunk::<N>) {
            Some(found) => {
                self.at += N;
                Ok(*found)
            }
            None => self.fail("the value ends too early"),
        }
    }

    /// An integer of up to 64 bits.
    #[inline]
    pub(super) fn long(&mut self) -> Read<i64> {
        let mut value = 0u64;
        for shift in (0..64).step_by(7) {
            let Some(byte) = self.bytes.get(self.at) else { return self.fail("the value ends too early") };
            if shift == 63 && *byte > 1 {
                break;
            }
            self.at += 1;
            value |= u64::from(byte & 0x7F) << shift;
            if byte & 0x80 == 0 {
                return Ok((value >> 1) as i64 ^ -((value & 1) as i64));
            }
        }
        self.fail("an integer is longer than 64 bits")
    }

    /// Bytes with their length before them.
    #[inline]
    pub(super) fn bytes(&mut self) -> Read<&'a [u8]> {
        let at = self.at;
        match usize::try_from(self.long()?) {
            Ok(length) => self.take(length),
            Err(_) => Err(Broken { at, what: "a negative length" }),
        }
    }

    /// The index of a union's branch.
    pub(super) fn index(&mut self, of: usize) -> Read<usize> {
        let at = self.at;
        let index = usize::try_from(self.long()?).ok().filter(|index| *index < of);
        index.ok_or(Broken { at, what: "an index that the schema does not have" })
    }

    /// The beginning of a block of items: how many there are, none at the end, and how many bytes they take if that is said.
    pub(super) fn block(&mut self) -> Read<(usize, Option<usize>)> {
        let at = self.at;
        let count = self.long()?;
        let size = if count < 0 { Some(self.long()?) } else { None };
        let wrong = || Broken { at, what: "a block of more items than its bytes can hold" };
        let count = usize::try_from(count.unsigned_abs()).ok().filter(|count| *count <= self.items).ok_or_else(wrong)?;
        self.items -= count;
        let size = match size {
            Some(size) => Some(usize::try_from(size).map_err(|_| Broken { at, what: "a negative length" })?),
            None => None,
        };
        Ok((count, size))
    }

    /// Walks over a value. Whether it is one that its type allows is not looked at, as long as it can be told where it ends.
    pub(super) fn skip(&mut self, schema: &Schema, id: Id, depth: usize) -> Read<()> {
        if depth > MAX_NESTING {
            return self.fail("values are nested deeper than 128 levels");
        }
        match &schema.types[id] {
            Type::Null => {}
            Type::Boolean => {
                self.take(1)?;
            }
            Type::Int(_) | Type::Long(_) | Type::Enum(_) => {
                self.long()?;
            }
            Type::Float => {
                self.take(4)?;
            }
            Type::Double => {
                self.take(8)?;
            }
            Type::Fixed(size, _) => {
                self.take(*size)?;
            }
            Type::Bytes(_) | Type::String => {
                self.bytes()?;
            }
            Type::Union(branches) => {
                let branch = self.index(branches.len())?;
                self.skip(schema, branches[branch], depth + 1)?;
            }
            Type::Record(fields) => {
                for (_, field) in fields {
                    self.skip(schema, *field, depth + 1)?;
                }
            }
            Type::Array(item) => self.items(|cursor| cursor.skip(schema, *item, depth + 1))?,
            Type::Map(value) => self.items(|cursor| {
                cursor.bytes()?;
                cursor.skip(schema, *value, depth + 1)
            })?,
        }
        Ok(())
    }

    /// Reads every item of a list or map.
    pub(super) fn items(&mut self, mut item: impl FnMut(&mut Self) -> Read<()>) -> Read<()> {
        loop {
            let (count, size) = self.block()?;
            if count == 0 {
                return Ok(());
            }
            let begun = self.at;
            for _ in 0..count {
                item(self)?;
            }
            if size.is_some_and(|size| self.at - begun != size) {
                return self.fail("a block is not as long as it says");
            }
        }
    }
}

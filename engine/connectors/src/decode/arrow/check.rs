//! What a message of Arrow IPC says about itself, compared with what it has, before the library believes it: the library makes
//! room for what is claimed, and panics over types, counts and places that cannot be.

use ::arrow::datatypes::DataType;
use ::arrow::ipc::{
    Buffer as Place, DateUnit, Endianness, Field as WireField, FieldNode, IntervalUnit, RecordBatch as Body, Schema as WireSchema,
    TimeUnit as WireUnit, Type as WireType,
};

/// The most that the data of a message may be, also when they are decompressed.
pub(super) const MOST_BYTES: u64 = 1 << 30;

/// The most that a message may say about its data.
pub(super) const MOST_META: usize = 64 << 20;

/// Rows of no bytes at all are possible, but nobody has many.
const FEW_ROWS: u64 = 1 << 16;

/// No codec makes more bytes of one.
const MOST_GROWTH: u64 = 1 << 15;

type Checked<T> = Result<T, &'static str>;

/// Whether a schema is one that is read.
pub(super) fn schema(schema: &WireSchema<'_>) -> Checked<()> {
    if schema.endianness() != Endianness::Little {
        return Err("its schema is big-endian");
    }
    let Some(fields) = schema.fields() else { return Err("its schema has no fields") };
    if fields.iter().all(|field| is_known(&field, 0)) {
        Ok(())
    } else {
        Err("its schema has a type that does not exist, or that is not read")
    }
}

/// Whether a field is of a type that is read, in all its parts.
fn is_known(field: &WireField<'_>, depth: usize) -> bool {
    const MAX_DEPTH: usize = 32;
    if depth > MAX_DEPTH || field.name().is_none() {
        return false;
    }
    let children = || field.children().into_iter().flatten().collect::<Vec<_>>();
    let inner = |count: Option<usize>| {
        let children = children();
        count.is_none_or(|count| children.len() == count) && children.iter().all(|child| is_known(child, depth + 1))
    };
    let whole = |bits: i32| matches!(bits, 8 | 16 | 32 | 64);
    let unit = |unit: WireUnit| (WireUnit::SECOND.0..=WireUnit::NANOSECOND.0).contains(&unit.0);
    if field.dictionary().is_some_and(|dictionary| !dictionary.indexType().is_some_and(|index| whole(index.bitWidth()))) {
        return false;
    }
    match field.type_type() {
        WireType::Null
        | WireType::Bool
        | WireType::Binary
        | WireType::BinaryView
        | WireType::LargeBinary
        | WireType::Utf8
        | WireType::Utf8View
        | WireType::LargeUtf8 => true,
        WireType::Int => field.type_as_int().is_some_and(|int| whole(int.bitWidth())),
        WireType::FloatingPoint => field.type_as_floating_point().is_some_and(|float| (0..=2).contains(&float.precision().0)),
        WireType::FixedSizeBinary => field.type_as_fixed_size_binary().is_some_and(|fixed| fixed.byteWidth() >= 0),
        WireType::Date => field.type_as_date().is_some_and(|date| (DateUnit::DAY.0..=DateUnit::MILLISECOND.0).contains(&date.unit().0)),
        WireType::Time => field.type_as_time().is_some_and(|time| {
            let short = matches!(time.unit(), WireUnit::SECOND | WireUnit::MILLISECOND);
            unit(time.unit()) && time.bitWidth() == if short { 32 } else { 64 }
        }),
        WireType::Timestamp => field.type_as_timestamp().is_some_and(|timestamp| unit(timestamp.unit())),
        WireType::Duration => field.type_as_duration().is_some_and(|duration| unit(duration.unit())),
        WireType::Interval => field
            .type_as_interval()
            .is_some_and(|interval| (IntervalUnit::YEAR_MONTH.0..=IntervalUnit::MONTH_DAY_NANO.0).contains(&interval.unit().0)),
        WireType::Decimal => field.type_as_decimal().is_some_and(|decimal| {
            let most = match decimal.bitWidth() {
                32 => 9,
                64 => 18,
                128 => 38,
                256 => 76,
                _ => 0,
            };
            (1..=most).contains(&decimal.precision()) && (0..=decimal.precision()).contains(&decimal.scale())
        }),
        WireType::List | WireType::LargeList => inner(Some(1)),
        WireType::FixedSizeList => field.type_as_fixed_size_list().is_some_and(|list| list.listSize() >= 0) && inner(Some(1)),
        WireType::Struct_ => inner(None),
        WireType::Map => {
            let entries = children();
            let pair = entries.first().is_some_and(|entry| {
                entry.type_type() == WireType::Struct_ && !entry.nullable() && entry.children().is_some_and(|fields| fields.len() == 2)
            });
            field.type_as_map().is_some() && pair && inner(Some(1))
        }
        WireType::RunEndEncoded => {
            let ends = children();
            let ends = ends.first().filter(|ends| !ends.nullable() && ends.dictionary().is_none()).and_then(WireField::type_as_int);
            ends.is_some_and(|ends| ends.is_signed() && matches!(ends.bitWidth(), 16 | 32 | 64)) && inner(Some(2))
        }
        _ => false,
    }
}

/// What a batch comes to.
pub(super) struct Claims {
    /// How many bytes its data become.
    pub(super) bytes: u64,
}

/// The parts of a batch in the order of its columns.
struct Walk<'a> {
    nodes: Vec<&'a FieldNode>,
    places: Vec<&'a Place>,
    counts: Vec<i64>,
    body: &'a [u8],
    is_compressed: bool,
    next_node: usize,
    next_place: usize,
    next_count: usize,
    /// No part has more rows.
    most: u64,
    bytes: u64,
}

impl Claims {
    /// Looks at a batch of columns of these types.
    pub(super) fn of<'t>(batch: &Body<'_>, body: &[u8], types: impl Iterator<Item = &'t DataType>) -> Checked<Claims> {
        let (Some(nodes), Some(places)) = (batch.nodes(), batch.buffers()) else { return Err("it lacks what tells of its columns") };
        let mut walk = Walk {
            nodes: nodes.iter().collect(),
            places: places.iter().collect(),
            counts: batch.variadicBufferCounts().into_iter().flatten().collect(),
            body,
            is_compressed: batch.compression().is_some(),
            next_node: 0,
            next_place: 0,
            next_count: 0,
            most: 0,
            bytes: 0,
        };
        for place in walk.places.clone() {
            walk.bytes = walk.bytes.saturating_add(walk.size(place)?);
        }
        if walk.bytes > MOST_BYTES {
            return Err("its data become too large");
        }
        walk.most = walk.bytes.saturating_mul(8).max(FEW_ROWS);
        if !u64::try_from(batch.length()).is_ok_and(|rows| rows <= walk.most) {
            return Err("it claims more rows than its bytes can hold");
        }
        for data_type in types {
            walk.column(data_type)?;
        }
        if walk.next_count < walk.counts.len() {
            return Err("it tells of more columns of text than it has");
        }
        Ok(Claims { bytes: walk.bytes })
    }
}

impl Walk<'_> {
    /// How many bytes a buffer becomes.
    fn size(&self, place: &Place) -> Checked<u64> {
        const PREFIX: usize = 8;
        let bytes = usize::try_from(place.offset())
            .ok()
            .and_then(|start| self.body.get(start..))
            .and_then(|rest| rest.get(..usize::try_from(place.length()).ok()?));
        let Some(bytes) = bytes else { return Err("a part of a column is outside of its data") };
        if !self.is_compressed || bytes.is_empty() {
            return Ok(bytes.len() as u64);
        }
        let Some((prefix, rest)) = bytes.split_first_chunk::<PREFIX>() else { return Err("a compressed part is too short") };
        match (i64::from_le_bytes(*prefix), rest.len() as u64) {
            // Not compressed after all.
            (-1, stored) => Ok(stored),
            (claimed, stored) => match u64::try_from(claimed) {
                Ok(claimed) if claimed <= stored.saturating_mul(MOST_GROWTH) => Ok(claimed),
                _ => Err("a compressed part claims an impossible length"),
            },
        }
    }

    /// Passes over buffers.
    fn buffers(&mut self, count: usize) -> Checked<()> {
        self.next_place = self.next_place.saturating_add(count);
        if self.next_place <= self.places.len() { Ok(()) } else { Err("it has fewer parts than its columns") }
    }

    fn column(&mut self, data_type: &DataType) -> Checked<()> {
        let Some(node) = self.nodes.get(self.next_node) else { return Err("it tells of fewer columns than the schema has") };
        self.next_node += 1;
        let (Ok(rows), Ok(nulls)) = (u64::try_from(node.length()), u64::try_from(node.null_count())) else {
            return Err("a column has a negative length");
        };
        if rows > self.most || nulls > rows {
            return Err("a column claims more rows than its bytes can hold");
        }
        let has_validity = !matches!(data_type, DataType::Null | DataType::RunEndEncoded(_, _));
        if has_validity && nulls > 0 {
            let bits = self.places.get(self.next_place).map_or(Ok(0), |place| self.size(place))?;
            if bits.saturating_mul(8) < rows {
                return Err("a column tells of fewer rows than it has which of them are null");
            }
        }
        // Behind the validity stand offsets, views, keys or the values themselves, all of one width.
        let width = match data_type {
            DataType::Utf8 | DataType::Binary | DataType::List(_) | DataType::Map(_, _) => 4,
            DataType::LargeUtf8 | DataType::LargeBinary | DataType::LargeList(_) => 8,
            DataType::Utf8View | DataType::BinaryView => 16,
            DataType::Dictionary(keys, _) => keys.primitive_width().unwrap_or(1),
            other => other.primitive_width().unwrap_or(1),
        };
        if width > 1 {
            let bytes = self.places.get(self.next_place + 1).map_or(Ok(0), |place| self.size(place))?;
            if bytes % width as u64 != 0 {
                return Err("a column ends within a value");
            }
        }
        match data_type {
            DataType::Null => Ok(()),
            DataType::Utf8 | DataType::LargeUtf8 | DataType::Binary | DataType::LargeBinary => self.buffers(3),
            DataType::Utf8View | DataType::BinaryView => {
                let count = self.counts.get(self.next_count).and_then(|count| usize::try_from(*count).ok());
                self.next_count += 1;
                let Some(count) = count else { return Err("a column of text does not tell its number of parts") };
                self.buffers(count.saturating_add(2))
            }
            DataType::List(item) | DataType::LargeList(item) | DataType::Map(item, _) => {
                self.buffers(2)?;
                self.column(item.data_type())
            }
            DataType::FixedSizeList(item, _) => {
                self.buffers(1)?;
                self.column(item.data_type())
            }
            DataType::Struct(fields) => {
                self.buffers(1)?;
                fields.iter().try_for_each(|field| self.column(field.data_type()))
            }
            DataType::RunEndEncoded(ends, values) => {
                self.column(ends.data_type())?;
                self.column(values.data_type())
            }
            DataType::ListView(_) | DataType::LargeListView(_) | DataType::Union(_, _) => Err("it has a type that is not read"),
            // Nulls and values, or nulls and keys of a dictionary.
            _ => self.buffers(2),
        }
    }
}

//! From group columns to group numbers and back.
//!
//! A single column of up to 64 bits, two to four of them, and a single text column have tables of their own; everything else
//! goes through Arrow's row format. Floats are normalised first: -0.0 is 0.0, and every NaN is the same key. NULL groups with NULL.

use crate::composite::{intern_wide, null_masks, places, wide_columns};
use crate::table::{BytesTable, IntTable};
use crate::wide::WideTable;
use arrow::array::{
    Array, ArrayRef, AsArray, Float32Array, Float64Array, Int64Array, NullArray, PrimitiveArray, StringViewArray, StringViewBuilder,
    make_array,
};
use arrow::buffer::{Buffer, NullBuffer, ScalarBuffer};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Float32Type, Float64Type, Int64Type};
use arrow::row::{RowConverter, Rows, SortField};
use std::ops::Range;
use std::sync::Arc;
use tidegate_api::{Error, Result};

/// How a stage's group columns become keys. One per task; its panes share it.
#[derive(Debug)]
pub(crate) struct GroupBy {
    types: Vec<DataType>,
    form: Form,
}

#[derive(Debug)]
enum Form {
    None,
    Ints,
    /// Two to four columns of up to 64 bits.
    Wide,
    Text,
    Rows(Box<RowConverter>),
}

/// The keys of a batch, ready for a table.
#[derive(Debug)]
pub(crate) enum Keys {
    /// All rows are one group.
    None,
    /// A column of up to 64 bits, widened.
    Ints(ScalarBuffer<i64>, Option<NullBuffer>),
    /// Several such columns, and a bit per column that is null, unless no row has any.
    Wide(Vec<ScalarBuffer<i64>>, Option<Vec<u8>>),
    /// A text column.
    Text(StringViewArray),
    /// Other columns.
    Rows(Rows),
}

/// The distinct keys of a pane.
#[derive(Debug)]
pub(crate) enum Groups {
    /// At most one group.
    One(bool),
    /// 64-bit keys.
    Ints(IntTable),
    /// Text, or rows.
    /// The words of two to four columns.
    Two(WideTable<2>),
    Three(WideTable<3>),
    Four(WideTable<4>),
    Bytes(BytesTable),
}

/// Whether columns of this type can be grouped by.
pub(crate) fn can_group(data_type: &DataType) -> bool {
    match data_type {
        DataType::Null | DataType::Interval(_) | DataType::Dictionary(_, _) | DataType::RunEndEncoded(_, _) => false,
        other => !other.is_nested(),
    }
}

impl GroupBy {
    /// The form for columns of these types.
    ///
    /// # Errors
    /// `Internal` for a type that [`can_group`] refuses.
    pub(crate) fn new(types: Vec<DataType>) -> Result<Self> {
        let form = match types.as_slice() {
            [] => Form::None,
            [one] if is_narrow(one) => Form::Ints,
            [DataType::Utf8View] => Form::Text,
            several if several.len() <= WIDEST && several.iter().all(is_narrow) => Form::Wide,
            several => {
                Form::Rows(Box::new(RowConverter::new(several.iter().map(|data_type| SortField::new(data_type.clone())).collect())?))
            }
        };
        Ok(GroupBy { types, form })
    }

    /// An empty table.
    pub(crate) fn table(&self) -> Groups {
        match self.form {
            Form::None => Groups::One(false),
            Form::Ints => Groups::Ints(IntTable::new()),
            Form::Wide => match self.types.len() {
                2 => Groups::Two(WideTable::new()),
                3 => Groups::Three(WideTable::new()),
                _ => Groups::Four(WideTable::new()),
            },
            Form::Text | Form::Rows(_) => Groups::Bytes(BytesTable::new()),
        }
    }

    /// Prepares the group columns of a batch.
    ///
    /// # Errors
    /// `Internal` when a kernel fails.
    pub(crate) fn keys(&self, columns: &[ArrayRef]) -> Result<Keys> {
        Ok(match &self.form {
            Form::None => Keys::None,
            Form::Ints => {
                let ints = to_ints(&columns[0])?;
                Keys::Ints(ints.values().clone(), ints.nulls().cloned())
            }
            Form::Wide => {
                let ints = columns.iter().map(to_ints).collect::<Result<Vec<_>>>()?;
                let masks = null_masks(&ints);
                Keys::Wide(ints.into_iter().map(|ints| ints.values().clone()).collect(), masks)
            }
            Form::Text => Keys::Text(columns[0].as_string_view().clone()),
            Form::Rows(converter) => {
                let columns: Vec<ArrayRef> = columns.iter().map(normalised).collect();
                Keys::Rows(converter.convert_columns(&columns)?)
            }
        })
    }

    /// The distinct keys as columns of the input's types, in the order of their numbers. The table is to be cleared next when
    /// `last`, which saves a copy of long texts.
    ///
    /// # Errors
    /// `Internal` when a kernel fails.
    pub(crate) fn columns(&self, groups: &mut Groups, last: bool) -> Result<Vec<ArrayRef>> {
        match (&self.form, groups) {
            (Form::None, Groups::One(_)) => Ok(Vec::new()),
            (Form::Ints, Groups::Ints(table)) => {
                let nulls = table.null().map(|null| all_but(null, table.keys().len()));
                let ints = Int64Array::new(ScalarBuffer::from(table.keys().to_vec()), nulls);
                Ok(vec![from_ints(ints, &self.types[0])?])
            }
            (Form::Wide, Groups::Two(table)) => wide_columns(table, 0..table.len(), &self.types),
            (Form::Wide, Groups::Three(table)) => wide_columns(table, 0..table.len(), &self.types),
            (Form::Wide, Groups::Four(table)) => wide_columns(table, 0..table.len(), &self.types),
            (Form::Text, Groups::Bytes(table)) => Ok(vec![texts(table, last)?]),
            (Form::Rows(converter), Groups::Bytes(table)) => {
                let parser = converter.parser();
                let mut scratch = vec![[0; 16]; table.len()];
                let rows = scratch.iter_mut().enumerate().map(|(group, scratch)| parser.parse(table.bytes_of(group, scratch)));
                Ok(converter.convert_rows(rows)?)
            }
            _ => Err(Error::internal("a key table does not fit its stage")),
        }
    }

    /// The keys of some groups as columns of the input's types, in this order.
    ///
    /// # Errors
    /// `Internal` when a kernel fails.
    pub(crate) fn columns_of(&self, groups: &Groups, numbers: &[u32]) -> Result<Vec<ArrayRef>> {
        match (&self.form, groups) {
            (Form::None, Groups::One(_)) => Ok(Vec::new()),
            (Form::Ints, Groups::Ints(table)) => {
                let values: Vec<i64> = numbers.iter().map(|number| table.keys()[*number as usize]).collect();
                let nulls = table.null().filter(|null| numbers.contains(null));
                let nulls = nulls.map(|null| NullBuffer::from_iter(numbers.iter().map(|number| *number != null)));
                Ok(vec![from_ints(Int64Array::new(values.into(), nulls), &self.types[0])?])
            }
            (Form::Wide, Groups::Two(table)) => wide_columns(table, places(numbers), &self.types),
            (Form::Wide, Groups::Three(table)) => wide_columns(table, places(numbers), &self.types),
            (Form::Wide, Groups::Four(table)) => wide_columns(table, places(numbers), &self.types),
            (Form::Text, Groups::Bytes(table)) => {
                let null = table.null();
                let mut builder = StringViewBuilder::with_capacity(numbers.len());
                for number in numbers {
                    let mut scratch = [0; 16];
                    let text = std::str::from_utf8(table.bytes_of(*number as usize, &mut scratch));
                    let text = text.map_err(|_| Error::internal("a text key is not UTF-8"))?;
                    builder.append_option((null != Some(*number)).then_some(text));
                }
                Ok(vec![Arc::new(builder.finish())])
            }
            (Form::Rows(converter), Groups::Bytes(table)) => {
                let parser = converter.parser();
                let mut scratch = vec![[0; 16]; numbers.len()];
                let rows = scratch.iter_mut().zip(numbers);
                Ok(converter.convert_rows(rows.map(|(scratch, number)| parser.parse(table.bytes_of(*number as usize, scratch))))?)
            }
            _ => Err(Error::internal("a key table does not fit its stage")),
        }
    }
}

impl Groups {
    /// How many groups there are.
    pub(crate) fn len(&self) -> usize {
        match self {
            Groups::One(there) => usize::from(*there),
            Groups::Ints(table) => table.keys().len(),
            Groups::Two(table) => table.len(),
            Groups::Three(table) => table.len(),
            Groups::Four(table) => table.len(),
            Groups::Bytes(table) => table.len(),
        }
    }

    /// Calls `each` with the group number of every row of `rows`. A new group's number is the count of groups before it.
    ///
    /// # Errors
    /// `Internal` when keys and table are of different stages.
    #[inline]
    pub(crate) fn intern(&mut self, keys: &Keys, rows: Range<usize>, mut each: impl FnMut(u32)) -> Result<()> {
        match (self, keys) {
            (Groups::One(there), Keys::None) => {
                *there |= !rows.is_empty();
                rows.for_each(|_| each(0));
            }
            (Groups::Ints(table), Keys::Ints(values, None)) => table.intern(&values[rows], None, each),
            (Groups::Ints(table), Keys::Ints(values, Some(nulls))) => {
                let nulls = nulls.slice(rows.start, rows.len());
                table.intern(&values[rows], Some(&nulls), each);
            }
            (Groups::Two(table), Keys::Wide(columns, masks)) => intern_wide(table, columns, masks.as_deref(), rows, each)?,
            (Groups::Three(table), Keys::Wide(columns, masks)) => intern_wide(table, columns, masks.as_deref(), rows, each)?,
            (Groups::Four(table), Keys::Wide(columns, masks)) => intern_wide(table, columns, masks.as_deref(), rows, each)?,
            (Groups::Bytes(table), Keys::Text(texts)) if rows.len() == texts.len() => table.intern_text(texts, each),
            (Groups::Bytes(table), Keys::Text(texts)) => table.intern_text(&texts.slice(rows.start, rows.len()), each),
            (Groups::Bytes(table), Keys::Rows(keys)) => rows.for_each(|row| each(table.number(keys.row(row).data()))),
            _ => return Err(Error::internal("keys do not fit their table")),
        }
        Ok(())
    }

    /// Takes in the keys of another table of the same stage; `each` gets their numbers here, in the other's order.
    pub(crate) fn merge(&mut self, other: &Groups, mut each: impl FnMut(u32)) {
        match (self, other) {
            (Groups::One(there), Groups::One(theirs)) => {
                *there |= *theirs;
                if *theirs {
                    each(0);
                }
            }
            (Groups::Ints(table), Groups::Ints(theirs)) => {
                let nulls = theirs.null().map(|null| all_but(null, theirs.keys().len()));
                table.intern(theirs.keys(), nulls.as_ref(), each);
            }
            (Groups::Two(table), Groups::Two(theirs)) => table.merge(theirs, each),
            (Groups::Three(table), Groups::Three(theirs)) => table.merge(theirs, each),
            (Groups::Four(table), Groups::Four(theirs)) => table.merge(theirs, each),
            (Groups::Bytes(table), Groups::Bytes(theirs)) => table.merge(theirs, each),
            // Tables of one stage are of one kind.
            (Groups::One(_) | Groups::Ints(_) | Groups::Two(_) | Groups::Three(_) | Groups::Four(_) | Groups::Bytes(_), _) => {}
        }
    }

    /// Forgets the groups.
    pub(crate) fn clear(&mut self) {
        match self {
            Groups::One(there) => *there = false,
            Groups::Ints(table) => table.clear(),
            Groups::Two(table) => table.clear(),
            Groups::Three(table) => table.clear(),
            Groups::Four(table) => table.clear(),
            Groups::Bytes(table) => table.clear(),
        }
    }

    /// Memory held.
    pub(crate) fn bytes(&self) -> usize {
        match self {
            Groups::One(_) => 0,
            Groups::Ints(table) => table.bytes(),
            Groups::Two(table) => table.bytes(),
            Groups::Three(table) => table.bytes(),
            Groups::Four(table) => table.bytes(),
            Groups::Bytes(table) => table.bytes(),
        }
    }
}

/// Columns of a composite key that a table of words takes.
const WIDEST: usize = 4;

fn is_narrow(data_type: &DataType) -> bool {
    narrow_form(data_type).is_some() || matches!(data_type, DataType::Float32 | DataType::Float64)
}

fn all_but(null: u32, rows: usize) -> NullBuffer {
    NullBuffer::from((0..rows).map(|row| row != null as usize).collect::<Vec<bool>>())
}

fn texts(table: &mut BytesTable, last: bool) -> Result<ArrayRef> {
    let nulls = table.null().map(|null| all_but(null, table.len()));
    let views = ScalarBuffer::from(table.views().to_vec());
    if last {
        let blocks: Vec<Buffer> = table.take_blocks().into_iter().map(Buffer::from_vec).collect();
        return Ok(Arc::new(StringViewArray::try_new(views, blocks, nulls)?));
    }
    if table.blocks().is_empty() {
        return Ok(Arc::new(StringViewArray::try_new(views, Vec::<Buffer>::new(), nulls)?));
    }
    let mut builder = StringViewBuilder::with_capacity(table.len());
    for group in 0..table.len() {
        if nulls.as_ref().is_some_and(|nulls| nulls.is_null(group)) {
            builder.append_null();
        } else {
            let mut scratch = [0; 16];
            let text = std::str::from_utf8(table.bytes_of(group, &mut scratch));
            builder.append_value(text.map_err(|_| Error::internal("a text key is not UTF-8"))?);
        }
    }
    Ok(Arc::new(builder.finish()))
}

/// The integer type that has the same bits as a type of up to 64 bits, if ordering by it orders the values.
pub(crate) fn narrow_form(data_type: &DataType) -> Option<DataType> {
    match data_type {
        DataType::Boolean
        | DataType::Int8
        | DataType::Int16
        | DataType::Int32
        | DataType::Int64
        | DataType::UInt8
        | DataType::UInt16
        | DataType::UInt32 => Some(data_type.clone()),
        DataType::Date32 | DataType::Time32(_) => Some(DataType::Int32),
        // Only its bits: as integers they order differently beyond 2^63.
        DataType::UInt64 => Some(DataType::Int64),
        DataType::Date64 | DataType::Time64(_) | DataType::Timestamp(_, _) | DataType::Duration(_) => Some(DataType::Int64),
        _ => None,
    }
}

/// A column of up to 64 bits as integers, without a copy where it has 64; floats as their normalised bits.
///
/// # Errors
/// `Internal` for other types.
pub(crate) fn to_ints(column: &ArrayRef) -> Result<Int64Array> {
    match column.data_type() {
        DataType::Int64 => return Ok(column.as_primitive::<Int64Type>().clone()),
        DataType::Float64 => {
            let floats = column.as_primitive::<Float64Type>();
            return Ok(floats.unary(|value| normal(value).to_bits() as i64));
        }
        DataType::Float32 => {
            let floats = column.as_primitive::<Float32Type>();
            return Ok(floats.unary(|value| i64::from(normal32(value).to_bits())));
        }
        _ => {}
    }
    let form = narrow_form(column.data_type()).ok_or_else(|| unsupported(column.data_type()))?;
    let same_bits = retyped(column, &form)?;
    let wide = if form == DataType::Int64 { same_bits } else { cast(&same_bits, &DataType::Int64)? };
    Ok(wide.as_primitive::<Int64Type>().clone())
}

/// The way back from [`to_ints`].
///
/// # Errors
/// `Internal` for other types.
pub(crate) fn from_ints(ints: Int64Array, data_type: &DataType) -> Result<ArrayRef> {
    match data_type {
        DataType::Int64 => return Ok(Arc::new(ints)),
        DataType::Float64 => {
            let floats: Float64Array = ints.unary(|bits| f64::from_bits(bits as u64));
            return Ok(Arc::new(floats));
        }
        DataType::Float32 => {
            let floats: Float32Array = ints.unary(|bits| f32::from_bits(bits as u32));
            return Ok(Arc::new(floats));
        }
        _ => {}
    }
    let form = narrow_form(data_type).ok_or_else(|| unsupported(data_type))?;
    let ints: ArrayRef = Arc::new(ints);
    let narrow = if form == DataType::Int64 { ints } else { cast(&ints, &form)? };
    retyped(&narrow, data_type)
}

fn unsupported(data_type: &DataType) -> Error {
    Error::internal(format!("type `{data_type}` does not fit 64 bits"))
}

/// The same buffers under another type of the same width.
fn retyped(column: &ArrayRef, to: &DataType) -> Result<ArrayRef> {
    if column.data_type() == to {
        return Ok(Arc::clone(column));
    }
    Ok(make_array(column.to_data().into_builder().data_type(to.clone()).build()?))
}

/// -0.0 becomes 0.0, every NaN the same one.
#[inline(always)]
pub(crate) fn normal(value: f64) -> f64 {
    if value.is_nan() { f64::NAN } else { value + 0.0 }
}

#[inline(always)]
fn normal32(value: f32) -> f32 {
    if value.is_nan() { f32::NAN } else { value + 0.0 }
}

/// A column with one zero and one NaN, if it holds floats.
pub(crate) fn normalised(column: &ArrayRef) -> ArrayRef {
    match column.data_type() {
        DataType::Float64 => {
            let floats: PrimitiveArray<Float64Type> = column.as_primitive::<Float64Type>().unary(normal);
            Arc::new(floats)
        }
        DataType::Float32 => {
            let floats: PrimitiveArray<Float32Type> = column.as_primitive::<Float32Type>().unary(normal32);
            Arc::new(floats)
        }
        DataType::Null => Arc::new(NullArray::new(column.len())),
        _ => Arc::clone(column),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::{
        BooleanArray, Date32Array, StringViewArray, Time64MicrosecondArray, TimestampMillisecondArray, UInt8Array, UInt64Array,
    };

    /// Interns the columns, and gives the numbers and the distinct keys.
    fn round(columns: &[ArrayRef]) -> (Vec<u32>, Vec<ArrayRef>) {
        let by = GroupBy::new(columns.iter().map(|column| column.data_type().clone()).collect()).unwrap();
        let mut groups = by.table();
        let mut numbers = Vec::new();
        groups.intern(&by.keys(columns).unwrap(), 0..columns[0].len(), |number| numbers.push(number)).unwrap();
        let kept = by.columns(&mut groups, false).unwrap();
        let mut merged = by.table();
        let mut mapping = Vec::new();
        merged.merge(&groups, |number| mapping.push(number));
        let every: Vec<u32> = (0..groups.len() as u32).collect();
        assert_eq!(by.columns_of(&groups, &every).unwrap(), kept);
        assert_eq!(mapping, (0..groups.len() as u32).collect::<Vec<_>>());
        assert_eq!(by.columns(&mut merged, true).unwrap(), kept);
        (numbers, kept)
    }

    #[test]
    fn keys_of_every_narrow_type_come_back_as_they_went_in() {
        let columns: Vec<ArrayRef> = vec![
            Arc::new(BooleanArray::from(vec![Some(true), None, Some(false)])),
            Arc::new(UInt8Array::from(vec![Some(255), None, Some(0)])),
            Arc::new(UInt64Array::from(vec![Some(u64::MAX), None, Some(0)])),
            Arc::new(Date32Array::from(vec![Some(-1), None, Some(0)])),
            Arc::new(Time64MicrosecondArray::from(vec![Some(1), None, Some(0)])),
            Arc::new(TimestampMillisecondArray::from(vec![Some(-1), None, Some(0)]).with_timezone("Europe/Berlin")),
            Arc::new(Float64Array::from(vec![Some(1.5), None, Some(f64::NEG_INFINITY)])),
            Arc::new(Float32Array::from(vec![Some(1.5), None, Some(f32::MAX)])),
            Arc::new(StringViewArray::from(vec![Some("short"), None, Some("longer than what a view holds")])),
        ];
        for column in &columns {
            let (numbers, kept) = round(&[Arc::clone(column)]);
            assert_eq!(numbers, [0, 1, 2]);
            assert_eq!(&kept, &[Arc::clone(column)]);
        }
        let (numbers, kept) = round(&columns);
        assert_eq!(numbers, [0, 1, 2]);
        assert_eq!(kept, columns);
    }

    #[test]
    fn composite_keys_of_narrow_types_come_back_as_they_went_in() {
        let columns: Vec<ArrayRef> = vec![
            Arc::new(BooleanArray::from(vec![Some(true), None, Some(false), None, Some(true)])),
            Arc::new(UInt64Array::from(vec![Some(u64::MAX), Some(7), None, None, Some(u64::MAX)])),
            Arc::new(Float64Array::from(vec![Some(0.5), None, Some(f64::NEG_INFINITY), Some(0.0), Some(0.5)])),
            Arc::new(TimestampMillisecondArray::from(vec![Some(-1), Some(0), None, None, Some(-1)]).with_timezone("Europe/Berlin")),
        ];
        for width in 2..=columns.len() {
            let (numbers, kept) = round(&columns[..width]);
            assert_eq!(numbers, [0, 1, 2, 3, 0]);
            assert_eq!(kept, columns[..width].iter().map(|column| column.slice(0, 4)).collect::<Vec<_>>());
        }
    }

    #[test]
    fn zeros_are_one_key_and_nans_are_one_key() {
        let floats: ArrayRef = Arc::new(Float64Array::from(vec![0.0, -0.0, f64::NAN, -f64::NAN, f64::from_bits(0x7ff8_0000_0000_0001)]));
        assert_eq!(round(&[Arc::clone(&floats)]).0, [0, 0, 1, 1, 1]);
        assert_eq!(round(&[Arc::clone(&floats), Arc::clone(&floats)]).0, [0, 0, 1, 1, 1]);
        let texts: ArrayRef = Arc::new(StringViewArray::from(vec!["a"; 5]));
        assert_eq!(round(&[floats, texts]).0, [0, 0, 1, 1, 1]);
    }
}

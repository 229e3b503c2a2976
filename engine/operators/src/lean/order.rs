//! The order in which rows are ranked, as words and bytes.
//!
//! A row's place is decided by its *head*, 64 bits of the ordering column that order as it does; where heads are equal by its
//! *tail*, the bytes of the columns that break ties (and of an ordering column that 64 bits do not hold); and where those are
//! equal by a hash of the whole row. The last order means nothing, but it is the same in every run, whatever the batches
//! and tasks: rows that still tie are equal, or equal in 64 bits of hash.

use crate::keys::{narrow_form, to_ints};
use arrow::array::{Array, ArrayRef, AsArray, BinaryArray, UInt64Array};
use arrow::compute::{SortOptions, cast};
use arrow::datatypes::{DataType, Decimal128Type, Float64Type};
use arrow::row::{RowConverter, SortField};
use std::sync::Arc;
use tidegate_api::{Error, Result, hash};

/// Which end comes first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Direction {
    /// The greatest.
    Descending,
    /// The least.
    Ascending,
}

/// The order of a stage's rows. One per task.
#[derive(Debug)]
pub(crate) struct Order {
    by: usize,
    direction: Direction,
    exact: bool,
    /// The columns that break ties.
    ties: Vec<usize>,
    tails: Option<RowConverter>,
}

/// Whether rows can be ordered by columns of this type.
pub(crate) fn can_order(data_type: &DataType) -> bool {
    matches!(data_type, DataType::Decimal128(_, _) | DataType::Float32 | DataType::Float64)
        || is_bytes(data_type)
        || narrow_form(data_type).is_some()
}

/// Whether 64 bits hold the order of a type.
pub(crate) fn is_word(data_type: &DataType) -> bool {
    can_order(data_type) && !is_bytes(data_type) && !matches!(data_type, DataType::Decimal128(_, _))
}

fn is_bytes(data_type: &DataType) -> bool {
    use DataType::{Binary, BinaryView, LargeBinary, LargeUtf8, Utf8, Utf8View};
    matches!(data_type, Utf8 | LargeUtf8 | Utf8View | Binary | LargeBinary | BinaryView)
}

impl Order {
    /// The order by a column of `types`, ties broken by others in ascending order.
    ///
    /// # Errors
    /// `Internal` for types that [`can_order`] refuses.
    pub(crate) fn new(types: &[DataType], by: usize, direction: Direction, ties: Vec<usize>) -> Result<Self> {
        let exact = is_word(&types[by]);
        let mut fields = Vec::new();
        let field = |data_type: &DataType, descending: bool| {
            let form = if is_word(data_type) {
                DataType::UInt64
            } else if is_bytes(data_type) {
                DataType::BinaryView
            } else {
                data_type.clone()
            };
            SortField::new_with_options(form, SortOptions { descending, nulls_first: false })
        };
        if !exact {
            fields.push(field(&types[by], direction == Direction::Descending));
        }
        fields.extend(ties.iter().map(|tie| field(&types[*tie], false)));
        let tails = (!fields.is_empty()).then(|| RowConverter::new(fields)).transpose()?;
        Ok(Order { by, direction, exact, ties, tails })
    }

    /// Whether heads alone do not decide before the hash does.
    pub(crate) fn has_tails(&self) -> bool {
        self.tails.is_some()
    }

    /// The heads of rows; the least comes first. A row without a value has a head that means nothing.
    ///
    /// # Errors
    /// `Internal` when a kernel fails.
    pub(crate) fn heads(&self, columns: &[ArrayRef], heads: &mut Vec<u64>) -> Result<()> {
        heads.clear();
        words(&columns[self.by], heads)?;
        if self.direction == Direction::Descending {
            heads.iter_mut().for_each(|head| *head = !*head);
        }
        Ok(())
    }

    /// The tails of rows, which compare as bytes.
    ///
    /// # Errors
    /// `Internal` when a kernel fails.
    pub(crate) fn tails(&self, columns: &[ArrayRef]) -> Result<Option<BinaryArray>> {
        let Some(converter) = &self.tails else { return Ok(None) };
        let mut sorted = Vec::with_capacity(1 + self.ties.len());
        if !self.exact {
            sorted.push(ordered(&columns[self.by])?);
        }
        for tie in &self.ties {
            sorted.push(ordered(&columns[*tie])?);
        }
        Ok(Some(converter.convert_columns(&sorted)?.try_into_binary()?))
    }
}

/// A column in a form whose order Arrow's rows keep.
fn ordered(column: &ArrayRef) -> Result<ArrayRef> {
    Ok(match column.data_type() {
        word if is_word(word) => {
            let mut values = Vec::with_capacity(column.len());
            words(column, &mut values)?;
            Arc::new(UInt64Array::new(values.into(), column.nulls().cloned()))
        }
        bytes if is_bytes(bytes) => as_bytes(column)?,
        _ => Arc::clone(column),
    })
}

fn as_bytes(column: &ArrayRef) -> Result<ArrayRef> {
    if *column.data_type() == DataType::BinaryView { Ok(Arc::clone(column)) } else { Ok(cast(column, &DataType::BinaryView)?) }
}

/// Words that order as the values do, unless values differ only beyond them.
pub(crate) fn words(column: &ArrayRef, words: &mut Vec<u64>) -> Result<()> {
    const SIGN: u64 = 1 << 63;
    match column.data_type() {
        DataType::Float32 => return self::words(&cast(column, &DataType::Float64)?, words),
        DataType::Float64 => words.extend(column.as_primitive::<Float64Type>().values().iter().map(|value| {
            let bits = crate::keys::normal(*value).to_bits();
            if bits & SIGN == 0 { bits | SIGN } else { !bits }
        })),
        DataType::UInt64 => words.extend(to_ints(column)?.values().iter().map(|value| *value as u64)),
        DataType::Decimal128(_, _) => words.extend(column.as_primitive::<Decimal128Type>().values().iter().map(|value| {
            let clamped = (*value).clamp(i128::from(i64::MIN), i128::from(i64::MAX)) as i64;
            clamped as u64 ^ SIGN
        })),
        bytes if is_bytes(bytes) => {
            let column = as_bytes(column)?;
            let column = column.as_binary_view();
            words.extend((0..column.len()).map(|row| {
                let mut first = [0; 8];
                let value = column.value(row);
                let length = value.len().min(8);
                first[..length].copy_from_slice(&value[..length]);
                u64::from_be_bytes(first)
            }));
        }
        narrow if narrow_form(narrow).is_some() => words.extend(to_ints(column)?.values().iter().map(|value| *value as u64 ^ SIGN)),
        other => return Err(Error::internal(format!("rows cannot be ordered by type `{other}`"))),
    }
    Ok(())
}

/// Hashes whole rows, nested columns too.
#[derive(Debug)]
pub(crate) struct RowHash {
    flat: Vec<usize>,
    nested: Vec<usize>,
    converter: Option<RowConverter>,
}

impl RowHash {
    /// For rows of these types.
    ///
    /// # Errors
    /// `Internal` when a nested type has no row form.
    pub(crate) fn new(types: &[DataType]) -> Result<Self> {
        let has_hash = |data_type: &DataType| match data_type {
            DataType::Dictionary(_, values) => !values.is_nested(),
            DataType::Interval(_) | DataType::Duration(_) => false,
            other => !other.is_nested(),
        };
        let (flat, nested): (Vec<usize>, Vec<usize>) = (0..types.len()).partition(|index| has_hash(&types[*index]));
        let fields: Vec<SortField> = nested.iter().map(|index| SortField::new(types[*index].clone())).collect();
        let converter = (!fields.is_empty()).then(|| RowConverter::new(fields)).transpose()?;
        Ok(RowHash { flat, nested, converter })
    }

    /// The hash of each row.
    ///
    /// # Errors
    /// `Internal` when a kernel fails.
    pub(crate) fn of(&self, columns: &[ArrayRef], rows: usize, hashes: &mut Vec<u64>) -> Result<()> {
        let mut hashed: Vec<ArrayRef> = self.flat.iter().map(|index| Arc::clone(&columns[*index])).collect();
        if let Some(converter) = &self.converter {
            let nested: Vec<ArrayRef> = self.nested.iter().map(|index| Arc::clone(&columns[*index])).collect();
            hashed.push(Arc::new(converter.convert_columns(&nested)?.try_into_binary()?));
        }
        hash::hash_rows(&hashed, rows, hashes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::{
        BooleanArray, Date32Array, Decimal128Array, Float32Array, Float64Array, Int8Array, Int64Array, StringViewArray, UInt64Array,
    };

    /// Every pair of values of an ascending column compares as its heads and tails do.
    fn ascends(column: ArrayRef) {
        for direction in [Direction::Ascending, Direction::Descending] {
            let order = Order::new(&[column.data_type().clone()], 0, direction, vec![0]).unwrap();
            let columns = [Arc::clone(&column)];
            let mut heads = Vec::new();
            order.heads(&columns, &mut heads).unwrap();
            let tails = order.tails(&columns).unwrap().unwrap();
            for (a, b) in (0..column.len()).flat_map(|a| (0..a).map(move |before| (before, a))) {
                let found = heads[a].cmp(&heads[b]).then(tails.value(a).cmp(tails.value(b)));
                let wanted = if direction == Direction::Ascending { std::cmp::Ordering::Less } else { std::cmp::Ordering::Greater };
                assert_eq!(found, wanted, "{} rows {b} and {a}", column.data_type());
            }
        }
    }

    #[test]
    fn heads_and_tails_order_every_type_as_its_values() {
        ascends(Arc::new(Int64Array::from(vec![i64::MIN, -1, 0, 1, i64::MAX])));
        ascends(Arc::new(Int8Array::from(vec![-128, -1, 0, 127])));
        ascends(Arc::new(UInt64Array::from(vec![0, 1, 1 << 63, u64::MAX])));
        ascends(Arc::new(BooleanArray::from(vec![false, true])));
        ascends(Arc::new(Date32Array::from(vec![-5, 0, 9])));
        ascends(Arc::new(Float64Array::from(vec![f64::NEG_INFINITY, -1.5, 0.0, 5e-324, f64::INFINITY, f64::NAN])));
        ascends(Arc::new(Float32Array::from(vec![f32::NEG_INFINITY, -1.5, 0.0, f32::NAN])));
        let decimals = vec![-10i128.pow(37), i128::from(i64::MIN), 0, i128::from(i64::MAX), 10i128.pow(37)];
        ascends(Arc::new(Decimal128Array::from(decimals).with_precision_and_scale(38, 2).unwrap()));
        ascends(Arc::new(StringViewArray::from(vec!["", "\0", "a", "a text of more than twelve bytes", "a text of more, and on", "b"])));
    }

    #[test]
    fn a_null_breaks_ties_last_and_zeros_do_not_break_them() {
        let column: ArrayRef = Arc::new(Float64Array::from(vec![Some(f64::NAN), None, Some(0.0), Some(-0.0)]));
        let order = Order::new(&[DataType::Float64], 0, Direction::Ascending, vec![0]).unwrap();
        let tails = order.tails(&[column]).unwrap().unwrap();
        assert!(tails.value(0) < tails.value(1));
        assert_eq!(tails.value(2), tails.value(3));
    }
}

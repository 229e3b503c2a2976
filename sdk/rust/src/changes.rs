//! Rows that replace each other: which columns are the key, and what each row does.

use crate::{Error, Result};
use arrow_array::cast::AsArray;
use arrow_array::types::UInt8Type;
use arrow_array::{RecordBatch, UInt8Array};
use arrow_schema::{DataType, Field, Schema};
use std::collections::HashMap;

/// The field metadata that marks the column of row kinds.
const KIND: &str = "tidegate.kind";
/// The field metadata that marks a key column; its value is the column's place in the key.
const KEY: &str = "tidegate.key";

/// What a row does to the one of equal key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// A row whose key was not there before.
    Insert,
    /// What a row was that is about to change. Whoever keeps rows by key may skip it.
    UpdateBefore,
    /// What a row is now; puts it whether or not there was one.
    UpdateAfter,
    /// The row is gone.
    Delete,
}

impl Kind {
    /// The number that stands for it in a column of kinds.
    pub fn number(self) -> u8 {
        match self {
            Kind::Insert => 0,
            Kind::UpdateBefore => 1,
            Kind::UpdateAfter => 2,
            Kind::Delete => 3,
        }
    }

    /// The kind of a number.
    ///
    /// # Errors
    /// `Fatal` for a number that stands for none.
    pub fn of(number: u8) -> Result<Self> {
        match number {
            0 => Ok(Kind::Insert),
            1 => Ok(Kind::UpdateBefore),
            2 => Ok(Kind::UpdateAfter),
            3 => Ok(Kind::Delete),
            other => Err(Error::fatal(format!("there is no row kind {other}"))),
        }
    }
}

/// The key columns of a schema in the order of the key; none if its rows are final.
pub fn key_columns(schema: &Schema) -> Vec<usize> {
    let place = |index: &usize| schema.field(*index).metadata().get(KEY).and_then(|place| place.parse::<usize>().ok());
    let mut columns: Vec<usize> = (0..schema.fields().len()).filter(|index| schema.field(*index).metadata().contains_key(KEY)).collect();
    columns.sort_by_key(place);
    columns
}

/// The column of row kinds of a schema; none if its rows are final.
pub fn kind_column(schema: &Schema) -> Option<usize> {
    schema.fields().iter().position(|field| field.metadata().contains_key(KIND) && *field.data_type() == DataType::UInt8)
}

/// The kinds of a batch's rows, as numbers for [`Kind::of`]; none if they are final.
pub fn kinds(rows: &RecordBatch) -> Option<&UInt8Array> {
    Some(rows.column(kind_column(rows.schema_ref())?).as_primitive::<UInt8Type>())
}

/// A field for a column of row kinds, for a source whose rows change.
pub fn kind_field(name: &str) -> Field {
    Field::new(name, DataType::UInt8, false).with_metadata(HashMap::from([(KIND.to_string(), String::new())]))
}

/// The field of a key column.
#[must_use]
pub fn key_field(field: Field, place: usize) -> Field {
    let mut metadata = field.metadata().clone();
    metadata.insert(KEY.to_string(), place.to_string());
    field.with_metadata(metadata)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_come_in_their_order_and_kinds_by_their_mark() {
        let plain = |name: &str| Field::new(name, DataType::Int64, true);
        let schema = Schema::new(vec![key_field(plain("b"), 1), plain("n"), key_field(plain("a"), 0), kind_field("_kind")]);
        assert_eq!(key_columns(&schema), [2, 0]);
        assert_eq!(kind_column(&schema), Some(3));
        assert_eq!(kind_column(&Schema::new(vec![plain("_kind")])), None);
        for kind in [Kind::Insert, Kind::UpdateBefore, Kind::UpdateAfter, Kind::Delete] {
            assert_eq!(Kind::of(kind.number()), Ok(kind));
        }
        assert!(Kind::of(4).is_err());
    }
}

//! Rows that replace each other, as guests mark them: key columns and a column of row kinds, by field metadata.

use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, RecordBatch, UInt8Array};
use arrow::compute::{filter_record_batch, max};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef, UInt8Type};
use std::sync::Arc;
use tidegate_api::{ChangeMode, hidden};

/// The field metadata that marks the column of row kinds.
pub(crate) const KIND: &str = "tidegate.kind";
/// The field metadata that marks a key column; its value is the column's place in the key, from 0.
pub(crate) const KEY: &str = "tidegate.key";
/// The kinds of the border. An insert is taken as an update: whoever keeps rows by key puts both.
const UPDATE_BEFORE: u8 = 1;
pub(crate) const UPDATE_AFTER: u8 = 2;
pub(crate) const DELETE: u8 = 3;

/// The field without marks. Inside the engine the plan says which rows replace each other; a mark that a column brought along would say
/// it again behind the plan's back.
pub(crate) fn unmarked(field: Field) -> Field {
    if !field.metadata().contains_key(KIND) && !field.metadata().contains_key(KEY) {
        return field;
    }
    let mut metadata = field.metadata().clone();
    metadata.retain(|name, _| name != KIND && name != KEY);
    field.with_metadata(metadata)
}

/// What a source's schema says about how its rows relate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Changes {
    /// The key columns, in the order of the key.
    pub(crate) keys: Vec<String>,
    /// The column of kinds. Without one every row replaces and none is deleted.
    kind: Option<usize>,
}

impl Changes {
    /// Reads the marks of a declared schema; `None` if its rows are final.
    ///
    /// # Errors
    /// What is wrong with the marks, naming the column.
    pub(crate) fn of(declared: &Schema) -> Result<Option<Self>, String> {
        let mut kind = None;
        let mut keys: Vec<Option<String>> = vec![None; declared.fields().len()];
        let mut count = 0;
        for (index, field) in declared.fields().iter().enumerate() {
            let (name, marks) = (field.name(), field.metadata());
            if marks.contains_key(KIND) {
                if let Some(first) = kind.replace(index) {
                    return Err(format!("`{}` and `{name}` are both marked as the column of row kinds", declared.field(first).name()));
                }
                if *field.data_type() != DataType::UInt8 {
                    return Err(format!("the column of row kinds `{name}` is {}, not UInt8", field.data_type()));
                }
                if marks.contains_key(KEY) {
                    return Err(format!("`{name}` is marked as the column of row kinds and as a key"));
                }
            }
            let Some(place) = marks.get(KEY) else { continue };
            let slot = place.parse::<usize>().ok().and_then(|place| keys.get_mut(place));
            let Some(slot) = slot else { return Err(format!("the place `{place}` of the key column `{name}` is none, counted from 0")) };
            if let Some(other) = slot.replace(name.clone()) {
                return Err(format!("`{other}` and `{name}` both have the place {place} in the key"));
            }
            count += 1;
        }
        match (kind, count) {
            (None, 0) => Ok(None),
            (Some(kind), 0) => {
                let name = declared.field(kind).name();
                Err(format!("`{name}` says what rows do to the one of equal key, and no column is marked `{KEY}`"))
            }
            (kind, count) => {
                keys.truncate(count);
                let keys: Option<Vec<String>> = keys.into_iter().collect();
                let keys = keys.ok_or_else(|| format!("the places of its {count} key columns are not 0 to {}", count - 1))?;
                Ok(Some(Changes { keys, kind }))
            }
        }
    }

    /// Whether a column of the declared schema is there however few are wanted.
    pub(crate) fn always(&self, index: usize, name: &str) -> bool {
        Some(index) == self.kind || self.keys.iter().any(|key| key == name)
    }

    /// Whether it is the column of kinds.
    pub(crate) fn is_kind(&self, index: usize) -> bool {
        Some(index) == self.kind
    }

    /// How the rows relate, in the engine's words.
    pub(crate) fn mode(&self) -> ChangeMode {
        ChangeMode::Upsert { keys: self.keys.clone() }
    }

    /// Rows as the engine has them: the columns of `projection`, and the hidden change column behind them. What a row was before an update
    /// is left out. Every kind is checked.
    ///
    /// # Errors
    /// A kind that there is not.
    pub(crate) fn taken(&self, rows: &RecordBatch, projection: &[usize], schema: &SchemaRef) -> Result<RecordBatch, String> {
        let mut columns: Vec<ArrayRef> = projection.iter().map(|index| Arc::clone(rows.column(*index))).collect();
        let Some(kind) = self.kind else {
            columns.push(Arc::new(UInt8Array::from(vec![hidden::UPSERT; rows.num_rows()])));
            return RecordBatch::try_new(Arc::clone(schema), columns).map_err(|error| error.to_string());
        };
        let kinds = rows.column(kind).as_primitive_opt::<UInt8Type>().ok_or("its column of row kinds is not UInt8")?;
        if kinds.null_count() > 0 {
            return Err("a row's kind is null".to_string());
        }
        if let Some(odd) = max::<UInt8Type>(kinds).filter(|kind| *kind > DELETE) {
            return Err(format!("a row's kind is {odd}; there are 0 (insert), 1 (update before), 2 (update after) and 3 (delete)"));
        }
        let changes: UInt8Array = kinds.unary(|kind| if kind == DELETE { hidden::DELETE } else { hidden::UPSERT });
        columns.push(Arc::new(changes));
        let rows = RecordBatch::try_new(Arc::clone(schema), columns).map_err(|error| error.to_string())?;
        if kinds.values().contains(&UPDATE_BEFORE) {
            let stays: BooleanArray = kinds.values().iter().map(|kind| Some(*kind != UPDATE_BEFORE)).collect();
            return filter_record_batch(&rows, &stays).map_err(|error| error.to_string());
        }
        Ok(rows)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::Int64Array;
    use std::collections::HashMap;

    fn field(name: &str, data_type: DataType, marks: &[(&str, &str)]) -> Field {
        let marks: HashMap<String, String> = marks.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect();
        Field::new(name, data_type, false).with_metadata(marks)
    }

    fn refused(fields: Vec<Field>) -> String {
        Changes::of(&Schema::new(fields)).unwrap_err()
    }

    #[test]
    fn marks_are_read_and_every_mistake_in_them_is_named() {
        let plain = |name: &str| field(name, DataType::Int64, &[]);
        let key = |name: &str, place: &str| field(name, DataType::Int64, &[(KEY, place)]);
        let kind = |name: &str| field(name, DataType::UInt8, &[(KIND, "")]);
        let read = |fields| Changes::of(&Schema::new(fields)).unwrap();
        assert_eq!(read(vec![plain("a"), plain("b")]), None);
        let both = read(vec![key("b", "1"), kind("k"), plain("n"), key("a", "0")]).unwrap();
        assert_eq!(both, Changes { keys: vec!["a".into(), "b".into()], kind: Some(1) });
        assert_eq!(read(vec![key("a", "0")]), Some(Changes { keys: vec!["a".into()], kind: None }));
        assert!(refused(vec![kind("k"), kind("l"), key("a", "0")]).contains("`k` and `l`"));
        assert!(refused(vec![field("k", DataType::Int8, &[(KIND, "")]), key("a", "0")]).contains("`k` is Int8"));
        assert!(refused(vec![kind("k"), plain("a")]).contains("no column is marked"));
        assert!(refused(vec![key("a", "0"), key("b", "0")]).contains("`a` and `b` both have the place 0"));
        assert!(refused(vec![key("a", "0"), key("b", "2"), plain("c")]).contains("are not 0 to 1"));
        assert!(refused(vec![key("a", "-1")]).contains("`-1`"));
        assert!(refused(vec![key("a", "9")]).contains("`9`"));
        assert!(refused(vec![field("k", DataType::UInt8, &[(KIND, ""), (KEY, "0")])]).contains("and as a key"));
        assert!(unmarked(key("a", "0")).metadata().is_empty());
    }

    #[test]
    fn kinds_become_changes_and_what_a_row_was_before_is_left_out() {
        let schema = Schema::new(vec![field("k", DataType::UInt8, &[(KIND, "")]), field("a", DataType::Int64, &[(KEY, "0")])]);
        let changes = Changes::of(&schema).unwrap().unwrap();
        let rows = |kinds: UInt8Array| {
            let numbers = Int64Array::from_iter_values(0..kinds.len() as i64);
            let schema = Schema::new(schema.fields().iter().map(|field| field.as_ref().clone().with_nullable(true)).collect::<Vec<_>>());
            RecordBatch::try_new(Arc::new(schema), vec![Arc::new(kinds), Arc::new(numbers)]).unwrap()
        };
        let output = Arc::new(Schema::new(vec![Field::new("a", DataType::Int64, true), hidden::op_field()]));
        let taken = changes.taken(&rows(vec![0, 1, 2, 3, 1].into()), &[1], &output).unwrap();
        assert_eq!(taken.column(0).as_ref(), &Int64Array::from(vec![0, 2, 3]));
        assert_eq!(taken.column(1).as_ref(), &UInt8Array::from(vec![hidden::UPSERT, hidden::UPSERT, hidden::DELETE]));
        assert!(changes.taken(&rows(vec![0, 4].into()), &[1], &output).unwrap_err().contains("kind is 4"));
        assert!(changes.taken(&rows(vec![Some(0), None].into()), &[1], &output).unwrap_err().contains("null"));
        assert_eq!(changes.taken(&rows(Vec::<u8>::new().into()), &[1], &output).unwrap().num_rows(), 0);
    }
}

//! Outputs whose rows replace each other, as a guest sees them: key columns are marked, and one more column says what each row does.

use crate::changes::{KEY, KIND, UPDATE_AFTER, unmarked};
use arrow::array::{ArrayRef, AsArray, RecordBatch, UInt8Array};
use arrow::datatypes::{DataType, Field, FieldRef, Schema, SchemaRef, UInt8Type};
use std::collections::HashMap;
use std::sync::Arc;
use tidegate_api::{ChangeMode, Error, Result, hidden};

/// The kinds that stand for `hidden::UPSERT` and `hidden::DELETE`, in that order.
const FIRST_KIND: u8 = UPDATE_AFTER;

/// The schema that is offered to a guest for an output of this schema and mode.
pub(super) fn offered(visible: &SchemaRef, mode: &ChangeMode) -> SchemaRef {
    let plain = |field: &FieldRef| unmarked(field.as_ref().clone());
    let ChangeMode::Upsert { keys } = mode else {
        let fields: Vec<Field> = visible.fields().iter().map(plain).collect();
        return Arc::new(Schema::new_with_metadata(fields, visible.metadata().clone()));
    };
    let marked = |name: &str, value: String| HashMap::from([(name.to_string(), value)]);
    let mut fields: Vec<Field> = Vec::with_capacity(visible.fields().len() + 1);
    for field in visible.fields() {
        let mut field = plain(field);
        if let Some(place) = keys.iter().position(|key| key == field.name()) {
            let mut metadata = field.metadata().clone();
            metadata.extend(marked(KEY, place.to_string()));
            field = field.with_metadata(metadata);
        }
        fields.push(field);
    }
    fields.push(Field::new("_kind", DataType::UInt8, false).with_metadata(marked(KIND, String::new())));
    Arc::new(Schema::new_with_metadata(fields, visible.metadata().clone()))
}

/// The rows of a writer under that schema: the hidden change column, which stands last, becomes the kinds.
pub(super) fn with_kinds(rows: &RecordBatch, offered: &SchemaRef) -> Result<RecordBatch> {
    let mut columns: Vec<ArrayRef> = rows.columns().to_vec();
    let change = columns.pop().filter(|_| rows.schema().fields().last().is_some_and(|field| field.name() == hidden::OP));
    let change = change.as_ref().and_then(|column| column.as_primitive_opt::<UInt8Type>());
    let change = change.ok_or_else(|| Error::internal("rows that replace each other have no column that says so"))?;
    let kinds: UInt8Array = change.unary(|op| op.saturating_add(FIRST_KIND));
    columns.push(Arc::new(kinds));
    Ok(RecordBatch::try_new(Arc::clone(offered), columns)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::Int64Array;

    #[test]
    fn keys_are_marked_and_changes_become_kinds() {
        let visible = Arc::new(Schema::new(vec![Field::new("n", DataType::Int64, true), Field::new("id", DataType::Int64, false)]));
        assert_eq!(offered(&visible, &ChangeMode::Append), visible);
        let schema = offered(&visible, &ChangeMode::Upsert { keys: vec!["id".into()] });
        assert!(schema.field(0).metadata().is_empty());
        assert_eq!(schema.field(1).metadata()[KEY], "0");
        assert!(schema.field(2).metadata().contains_key(KIND));
        let numbers = || Arc::new(Int64Array::from(vec![1, 2])) as ArrayRef;
        let changed = Schema::new(visible.fields().iter().cloned().chain([Arc::new(hidden::op_field())]).collect::<Vec<_>>());
        let ops = Arc::new(UInt8Array::from(vec![hidden::UPSERT, hidden::DELETE]));
        let rows = RecordBatch::try_new(Arc::new(changed), vec![numbers(), numbers(), ops]).unwrap();
        let rows = with_kinds(&rows, &schema).unwrap();
        assert_eq!(rows.column(2).as_ref(), &UInt8Array::from(vec![2, 3]));
        assert!(with_kinds(&rows, &schema).is_err(), "no change column");
    }
}

//! Late rows of two inputs under one schema.

use super::bounds::Which;
use arrow::array::{ArrayRef, RecordBatch, RecordBatchOptions, StringViewArray, new_null_array};
use arrow::datatypes::{DataType, Field, FieldRef, Schema, SchemaRef};
use std::sync::Arc;
use tidegate_api::{Result, hidden};

/// What `lateOutput` of a step with two inputs means.
pub(crate) const WHERE_LATE: &str = "where late rows go, with the columns of both inputs and `_side`, which says whose row it is";

/// Late rows: the left input's columns, the right input's, and which of the two it is.
#[derive(Debug)]
pub(crate) struct Late {
    pub(crate) schema: SchemaRef,
    /// Per side, the input's columns.
    columns: [Vec<usize>; 2],
    /// Per side, the input's `_key`, if late rows carry it.
    keys: Option<[usize; 2]>,
}

impl Late {
    /// Of these inputs.
    pub(crate) fn of(schemas: [&SchemaRef; 2]) -> Late {
        let mut fields: Vec<FieldRef> = Vec::new();
        let columns = schemas.map(|schema| {
            let visible = schema.fields().iter().enumerate().filter(|(_, field)| !hidden::is_hidden(field.name()));
            visible
                .map(|(index, field)| {
                    let mut name = field.name().clone();
                    while fields.iter().any(|taken| *taken.name() == name) {
                        name.push_str("_right");
                    }
                    fields.push(Arc::new(Field::new(name, field.data_type().clone(), true)));
                    index
                })
                .collect()
        });
        let mut name = "_side".to_string();
        while fields.iter().any(|taken| *taken.name() == name) {
            name.push('_');
        }
        fields.push(Arc::new(Field::new(name, DataType::Utf8View, false)));
        let keys = match schemas.map(|schema| schema.index_of(hidden::KEY)) {
            [Ok(left), Ok(right)] => Some([left, right]),
            _ => None,
        };
        if keys.is_some() {
            fields.push(Arc::new(hidden::key_field()));
        }
        Late { schema: Arc::new(Schema::new(fields)), columns, keys }
    }

    /// Late rows of an input as they go out; without columns when nobody wants them and they are only counted.
    ///
    /// # Errors
    /// `Internal` when the schema does not fit.
    pub(crate) fn rows(late: Option<&Late>, which: Which, batch: &RecordBatch) -> Result<RecordBatch> {
        let rows = batch.num_rows();
        let Some(late) = late else {
            let options = RecordBatchOptions::new().with_row_count(Some(rows));
            return Ok(RecordBatch::try_new_with_options(Arc::new(Schema::empty()), Vec::new(), &options)?);
        };
        let mut columns: Vec<ArrayRef> = Vec::with_capacity(late.schema.fields().len());
        for side in Which::BOTH {
            for index in &late.columns[side.index()] {
                let null = || new_null_array(late.schema.field(columns.len()).data_type(), rows);
                columns.push(if side == which { Arc::clone(batch.column(*index)) } else { null() });
            }
        }
        columns.push(Arc::new(StringViewArray::from_iter_values(std::iter::repeat_n(which.name(), rows))));
        if let Some(keys) = late.keys {
            columns.push(Arc::clone(batch.column(keys[which.index()])));
        }
        Ok(RecordBatch::try_new(Arc::clone(&late.schema), columns)?)
    }
}

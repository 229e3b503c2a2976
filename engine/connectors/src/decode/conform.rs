//! Batches that come typed, from Parquet or Arrow, under the declared schema: by name, cast where the types differ. A value that
//! the declared type cannot hold makes its row bad.

use super::cells::{CellError, Faults};
use arrow::array::{Array, ArrayRef, RecordBatch, RecordBatchOptions};
use arrow::compute::{CastOptions, can_cast_types, cast_with_options};
use arrow::datatypes::{DataType, Field, Fields, Schema, SchemaRef};
use std::sync::Arc;
use tidegate_api::nearest::hint;
use tidegate_api::{BadReason, Error, Result, types};

/// The type that a column of a file has inside the engine: text as views, dictionaries spelled out.
pub(super) fn engine_type(data_type: &DataType) -> DataType {
    match data_type {
        DataType::Utf8 | DataType::LargeUtf8 => DataType::Utf8View,
        DataType::LargeBinary | DataType::BinaryView => DataType::Binary,
        DataType::Dictionary(_, values) => engine_type(values),
        DataType::RunEndEncoded(_, values) => engine_type(values.data_type()),
        DataType::List(item) => DataType::List(engine_field(item)),
        DataType::LargeList(item) => DataType::LargeList(engine_field(item)),
        DataType::Struct(fields) => DataType::Struct(fields.iter().map(engine_field).collect::<Fields>()),
        other => other.clone(),
    }
}

fn engine_field(field: &Arc<Field>) -> Arc<Field> {
    Arc::new(Field::new(field.name(), engine_type(field.data_type()), field.is_nullable()))
}

/// A file's schema as the engine sees it.
pub(super) fn engine_schema(schema: &Schema) -> SchemaRef {
    Arc::new(Schema::new(schema.fields().iter().map(engine_field).collect::<Fields>()))
}

/// The places of wanted columns in a file.
///
/// # Errors
/// `Config` for a column that the file lacks, or whose type cannot become the declared one.
pub(super) fn places(wanted: &Schema, file: &Schema) -> Result<Vec<usize>> {
    let place = |field: &Arc<Field>| {
        let index = file.index_of(field.name()).map_err(|_| {
            let hint = hint(field.name(), file.fields().iter().map(|known| known.name().as_str()));
            Error::config(format!("has no column `{}`{hint}", field.name()))
        })?;
        let from = file.field(index).data_type();
        if from != field.data_type() && !can_cast_types(from, field.data_type()) {
            let (from, to) = (types::name(from), types::name(field.data_type()));
            return Err(Error::config(format!("column `{}` is `{from}`, which cannot be read as `{to}`", field.name())));
        }
        Ok(index)
    };
    wanted.fields().iter().map(place).collect()
}

/// The columns `columns` (one per field of `schema`) as that schema says; and what did not fit.
pub(super) fn conform(schema: &SchemaRef, columns: &[ArrayRef], rows: usize) -> Result<(RecordBatch, Vec<(usize, CellError)>)> {
    let mut faults = Faults::default();
    let options = CastOptions { safe: true, ..CastOptions::default() };
    let mut made = Vec::with_capacity(columns.len());
    for (field, column) in schema.fields().iter().zip(columns) {
        let cast = if column.data_type() == field.data_type() {
            Arc::clone(column)
        } else {
            cast_with_options(column, field.data_type(), &options)?
        };
        let lost = cast.logical_null_count() > column.logical_null_count();
        if lost || (!field.is_nullable() && cast.null_count() > 0) {
            let before = column.logical_nulls();
            for row in (0..rows).filter(|row| cast.is_null(*row)) {
                if before.as_ref().is_some_and(|nulls| nulls.is_null(row)) {
                    if !field.is_nullable() {
                        faults.add(row, BadReason::MissingValue, || format!("column `{}`: a value is missing", field.name()));
                    }
                } else {
                    faults.add(row, BadReason::TypeMismatch, || {
                        format!("column `{}`: the value does not fit `{}`", field.name(), types::name(field.data_type()))
                    });
                }
            }
        }
        made.push(cast);
    }
    let columns = faults.strip(made, rows)?;
    let options = RecordBatchOptions::new().with_row_count(Some(faults.good(rows)));
    let batch = RecordBatch::try_new_with_options(Arc::clone(schema), columns, &options)?;
    Ok((batch, faults.into_iter().collect()))
}

//! Batches that come typed, from Parquet or Arrow, under the declared schema: by name, cast where the types differ. A value that
//! the declared type cannot hold makes its row bad.

use super::Wanted;
use super::cells::Faults;
use super::rows::Rows;
use crate::encode::TextOptions;
use crate::encode::json::RowWriter;
use arrow::array::{Array, ArrayRef, RecordBatch, RecordBatchOptions};
use arrow::compute::{CastOptions, can_cast_types, cast_with_options};
use arrow::datatypes::{DataType, Field, FieldRef, Fields, Schema, SchemaRef};
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
pub(super) fn places(wanted: &[FieldRef], file: &Schema) -> Result<Vec<usize>> {
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
    wanted.iter().map(place).collect()
}

/// The columns `columns` (one per field of `fields`) as those fields say; and what did not fit, which is null there.
pub(super) fn conform(fields: &[FieldRef], columns: &[ArrayRef], rows: usize) -> Result<(Vec<ArrayRef>, Faults)> {
    let mut faults = Faults::default();
    let options = CastOptions { safe: true, ..CastOptions::default() };
    let mut made = Vec::with_capacity(columns.len());
    for (field, column) in fields.iter().zip(columns) {
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
                        faults.add_fatal(row, BadReason::MissingValue, field.name(), || {
                            format!("column `{}`: a value is missing", field.name())
                        });
                    }
                    continue;
                }
                let message = || format!("column `{}`: the value does not fit `{}`", field.name(), types::name(field.data_type()));
                if field.is_nullable() {
                    faults.add(row, BadReason::TypeMismatch, field.name(), message);
                } else {
                    faults.add_fatal(row, BadReason::TypeMismatch, field.name(), message);
                }
            }
        }
        made.push(cast);
    }
    Ok((made, faults))
}

/// Takes the rows at fault out, or keeps them with null; each is shown as JSON, since such a file has no text to show.
pub(super) fn settle(wanted: &Wanted, columns: &[ArrayRef], rows: usize) -> Result<Rows> {
    let (made, faults) = conform(wanted.decoded(), columns, rows)?;
    if faults.is_empty() {
        return Rows::settle(wanted, made, faults, rows, |_| &[]);
    }
    let field = |(field, column): (&FieldRef, &ArrayRef)| Field::new(field.name(), column.data_type().clone(), true);
    let schema = Schema::new(wanted.decoded().iter().zip(columns).map(field).collect::<Vec<_>>());
    let options = RecordBatchOptions::new().with_row_count(Some(rows));
    let before = RecordBatch::try_new_with_options(Arc::new(schema), columns.to_vec(), &options)?;
    let mut texts = vec![Vec::new(); rows];
    // A type without a text is shown by its error alone.
    if let Ok(writer) = RowWriter::new(&before, TextOptions::default()) {
        faults.records().for_each(|row| writer.write(row, &mut texts[row]));
    }
    Rows::settle(wanted, made, faults, rows, |row| &texts[row])
}

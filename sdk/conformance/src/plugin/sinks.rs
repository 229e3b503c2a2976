//! A component's rows, and what a reader of its place sees.

use super::Judged;
use super::command::Command;
use crate::sink::{SinkJudgement, SinkTrial, SinkWorld};
use arrow::array::{
    ArrayRef, BooleanArray, Float64Array, Int64Array, RecordBatch, RecordBatchOptions, StringArray, TimestampMillisecondArray,
};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use serde_json::Value;
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};
use tidegate_api::{Error, Guarantee, Result};

/// Rows that are easy to tell from one another and to print.
pub(super) struct Rows {
    schema: SchemaRef,
}

impl Rows {
    /// Rows of a schema.
    pub(super) fn of(schema: &SchemaRef) -> Result<Rows> {
        match schema.fields().iter().find(|field| !field.is_nullable() && value(field, 0..1).is_err()) {
            Some(field) => {
                Err(Error::config(format!("`input`: the kit has no plain values for column `{}: {}`", field.name(), field.data_type())))
            }
            None => Ok(Rows { schema: Arc::clone(schema) }),
        }
    }

    /// The rows of some numbers.
    pub(super) fn batch(&self, numbers: Range<i64>) -> Result<RecordBatch> {
        let rows = usize::try_from(numbers.end - numbers.start).unwrap_or_default();
        let column =
            |field: &Arc<Field>| value(field, numbers.clone()).unwrap_or_else(|_| arrow::array::new_null_array(field.data_type(), rows));
        let columns = self.schema.fields().iter().map(column).collect();
        Ok(RecordBatch::try_new_with_options(Arc::clone(&self.schema), columns, &RecordBatchOptions::new().with_row_count(Some(rows)))?)
    }
}

fn value(field: &Field, numbers: Range<i64>) -> Result<ArrayRef> {
    let plain: ArrayRef = match field.data_type() {
        DataType::Boolean => Arc::new(numbers.map(|number| Some(number % 2 == 0)).collect::<BooleanArray>()),
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View | DataType::Binary => {
            Arc::new(numbers.map(|number| Some(format!("row {number}"))).collect::<StringArray>())
        }
        DataType::Float32 | DataType::Float64 => Arc::new(Float64Array::from_iter_values(numbers.map(|number| number as f64 + 0.5))),
        DataType::Timestamp(_, _) => {
            Arc::new(TimestampMillisecondArray::from_iter_values(numbers.map(|number| 1_700_000_000_000 + number * 1000)))
        }
        _ => Arc::new(Int64Array::from_iter_values(numbers)),
    };
    Ok(cast(&plain, field.data_type())?)
}

/// Judges a sink by what it claims, through the commands that reach its place.
pub(super) fn judge(judged: &Judged<'_>, claimed: Guarantee) -> Result<SinkJudgement> {
    let made = Rows::of(&judged.input())?;
    let rows = [made.batch(0..5)?, made.batch(5..7)?];
    let failed = Failed::default();
    let trial = SinkTrial { schema: judged.input(), rows: &rows, world: &|| watched(judged, &failed) };
    let judgement = trial.judge_telling(claimed, judged.conformance.progress);
    let failed = failed.lock().unwrap_or_else(PoisonError::into_inner).take();
    // A command that fails says nothing about the plugin.
    failed.map_or(Ok(judgement), Err)
}

/// The first failure of a command that looks at what the sink did.
type Failed = Arc<Mutex<Option<Error>>>;

/// An emptied place, and the sink into it.
pub(super) fn world(judged: &Judged<'_>) -> Result<SinkWorld> {
    watched(judged, &Failed::default())
}

fn watched(judged: &Judged<'_>, failed: &Failed) -> Result<SinkWorld> {
    let it = Arc::clone(&judged.conformance);
    it.run(it.reset.as_ref())?;
    let (plugin, config) = (Arc::clone(&judged.plugin), Value::Object(it.config.clone()));
    let (schema, reader) = (judged.input(), Arc::clone(&it));
    let printed = {
        let (it, failed) = (Arc::clone(&it), Arc::clone(failed));
        move |key: &str, command: &Command| {
            let text = it.print(command);
            text.map_err(|error| {
                let message = format!("`[conformance]`: `{key}`: {error}");
                failed.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert_with(|| Error::config(message.clone()));
                Error::config(message)
            })
        }
    };
    let hidden = it.leftovers.clone().map(|command| {
        let printed = printed.clone();
        Box::new(move || Ok(printed("leftovers", &command)?.lines().count())) as Box<dyn Fn() -> Result<usize>>
    });
    Ok(SinkWorld {
        sink: Box::new(move || plugin.sink(&config)),
        visible: Box::new(move || match &reader.read_back {
            Some(command) => read(&printed("read-back", command)?, &schema),
            None => Err(Error::config("there is no `read-back`")),
        }),
        hidden,
    })
}

/// JSON lines as rows; keys that the input does not have are no matter.
pub(super) fn read(lines: &str, schema: &SchemaRef) -> Result<Vec<RecordBatch>> {
    let fields: Vec<Field> = schema.fields().iter().map(|field| field.as_ref().clone().with_nullable(true)).collect();
    let reader = arrow::json::ReaderBuilder::new(Arc::new(Schema::new(fields))).build(std::io::Cursor::new(lines.as_bytes()))?;
    let rows = reader.collect::<Result<Vec<_>, _>>();
    rows.map_err(|error| Error::config(format!("what `read-back` or `rows` gave is no JSON lines of the `input` columns: {error}")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use tidegate_api::testkit::sorted_rows;

    #[test]
    fn rows_are_told_apart_and_read_back() {
        let columns = serde_json::json!([
            { "name": "n", "type": "int32" }, { "name": "s", "type": "string" }, { "name": "x", "type": "float64" }, { "name": "b", "type": "bool" },
            { "name": "d", "type": "decimal(10,2)" }
        ]);
        let schema = tidegate_api::types::schema_of(&columns).unwrap();
        let rows = Rows::of(&schema).unwrap().batch(3..5).unwrap();
        let lines = "{\"n\":3,\"s\":\"row 3\",\"x\":3.5,\"b\":false,\"d\":3.00}\n{\"n\":4,\"s\":\"row 4\",\"x\":4.5,\"b\":true,\"d\":4.00,\"other\":1}\n";
        assert_eq!(sorted_rows(&read(lines, &schema).unwrap()), sorted_rows(&[rows]));
        assert!(read("not json", &schema).is_err());
    }
}

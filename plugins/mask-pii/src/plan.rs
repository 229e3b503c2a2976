//! The columns that come back: those that go in, under their names and in their places, text as they were.

use crate::config::Config;
use tidegate_sdk::arrow::schema::{DataType, Field, Schema};
use tidegate_sdk::{Error, Result, hint};

/// The output schema for rows of `input`.
pub(crate) fn output(config: &Config, input: &Schema) -> Result<Schema> {
    let mut fields = Vec::with_capacity(config.columns.len());
    for name in &config.columns {
        let Some(field) = input.fields().iter().find(|field| field.name() == name) else {
            let near = hint(name, input.fields().iter().map(|field| field.name().as_str()));
            return Err(Error::config(format!("`columns` names `{name}`, which the input does not have{near}")));
        };
        match field.data_type() {
            DataType::Utf8 | DataType::LargeUtf8 => fields.push(Field::new(name, field.data_type().clone(), field.is_nullable())),
            other => {
                return Err(Error::config(format!("column `{name}` is {other}, and only text can be masked; `cast` it to string before")));
            }
        }
    }
    Ok(Schema::new(fields))
}

//! From JSON texts to rows.

use crate::config::{Config, OnError};
use json_values::Node;
use std::sync::Arc;
use text_values::{ColumnBuilder, Value, ValueType, quoted};
use tidegate_sdk::Result;
use tidegate_sdk::arrow::array::{ArrayRef, RecordBatch, RecordBatchOptions};
use tidegate_sdk::arrow::schema::{Field, Schema, SchemaRef};

/// The columns that somebody reads.
fn wanted_columns<'a>(config: &'a Config, wanted: Option<&'a [String]>) -> impl Iterator<Item = &'a crate::config::Column> {
    config.columns.iter().filter(move |column| wanted.is_none_or(|wanted| wanted.contains(&column.name)))
}

/// The schema of the rows.
pub(crate) fn schema(config: &Config, wanted: Option<&[String]>) -> Schema {
    let fields = wanted_columns(config, wanted).map(|column| Field::new(&column.name, column.value_type.data_type(), true));
    Schema::new(fields.collect::<Vec<_>>())
}

/// What rows become.
pub(crate) struct Table {
    schema: SchemaRef,
    columns: Vec<(String, ValueType)>,
    tree: Node,
    on_error: OnError,
}

impl Table {
    pub(crate) fn new(config: &Config, wanted: Option<&[String]>) -> Result<Self> {
        let paths = wanted_columns(config, wanted).map(crate::config::Column::steps).collect::<Result<Vec<_>>>()?;
        let columns = wanted_columns(config, wanted).map(|column| (column.name.clone(), column.value_type)).collect();
        Ok(Table { schema: Arc::new(schema(config, wanted)), columns, tree: Node::new(&paths), on_error: config.on_error })
    }
}

/// Rows being collected.
pub(crate) struct Rows<'t> {
    table: &'t Table,
    columns: Vec<ColumnBuilder>,
    pub(crate) count: usize,
    /// Values that are null because they were not what they should be.
    pub(crate) unreadable: u64,
}

impl<'t> Rows<'t> {
    pub(crate) fn new(table: &'t Table, room: usize) -> Self {
        let columns = table.columns.iter().map(|(_, value_type)| ColumnBuilder::new(*value_type, room)).collect();
        Rows { table, columns, count: 0, unreadable: 0 }
    }

    /// Adds a row, or says why it is none.
    pub(crate) fn add(&mut self, json: &str) -> std::result::Result<(), String> {
        let mut found = vec![None; self.columns.len()];
        let mut complaint = None;
        if let Err(error) = self.table.tree.find(json, &mut found) {
            found.fill(None);
            complaint = Some((1, format!("{} is no JSON: {error}", quoted(json))));
        } else if !json.trim_start().starts_with('{') {
            complaint = Some((1, format!("{} is no JSON object", quoted(json))));
        }
        let mut values: Vec<Option<Value<'_>>> = Vec::with_capacity(found.len());
        for ((name, value_type), json) in self.table.columns.iter().zip(&found) {
            let value = json.map(|json| json_values::value(*value_type, json).map_err(|_| json));
            values.push(match value {
                None => None,
                Some(Ok(value)) => value,
                Some(Err(json)) => {
                    let (count, _) =
                        complaint.get_or_insert_with(|| (0, format!("column `{name}` is {}, which is no {value_type}", quoted(json))));
                    *count += 1;
                    None
                }
            });
        }
        if let Some((count, message)) = complaint {
            if self.table.on_error == OnError::Bad {
                return Err(message);
            }
            self.unreadable += count;
        }
        for (column, value) in self.columns.iter_mut().zip(values) {
            column.append(value);
        }
        self.count += 1;
        Ok(())
    }

    pub(crate) fn finish(self) -> Result<RecordBatch> {
        let columns: Vec<ArrayRef> = self.columns.into_iter().map(ColumnBuilder::finish).collect();
        let options = RecordBatchOptions::new().with_row_count(Some(self.count));
        Ok(RecordBatch::try_new_with_options(Arc::clone(&self.table.schema), columns, &options)?)
    }
}

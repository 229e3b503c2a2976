//! Records as rows: which fields become which columns, and why one cannot.

use crate::config::{Column, Config};
use std::sync::Arc;
use text_values::csv::{Field, Record};
use text_values::{ColumnBuilder, Value, quoted};
use tidegate_sdk::arrow::array::{ArrayRef, RecordBatch, RecordBatchOptions};
use tidegate_sdk::arrow::schema::{self, Schema, SchemaRef};
use tidegate_sdk::{Error, Result, hint};

/// The columns to make.
#[derive(Debug)]
pub(crate) struct Table {
    /// All that files must have.
    declared: Vec<Column>,
    /// Those of them that are looked at, by their index.
    read: Vec<usize>,
    /// Which of `read` are wanted; the other one can only be the time.
    wanted: Vec<bool>,
    /// Which of `read` is the time.
    time: Option<usize>,
    pub(crate) delimiter: u8,
    nulls: Vec<String>,
    pub(crate) schema: SchemaRef,
}

impl Table {
    pub(crate) fn new(config: &Config, wanted: Option<&[String]>) -> Self {
        let is_wanted = |column: &Column| wanted.is_none_or(|wanted| wanted.contains(&column.name));
        let is_time = |column: &Column| config.time_column.as_ref() == Some(&column.name);
        let indices = 0..config.columns.len();
        let read: Vec<usize> = indices.filter(|index| is_wanted(&config.columns[*index]) || is_time(&config.columns[*index])).collect();
        Table {
            wanted: read.iter().map(|index| is_wanted(&config.columns[*index])).collect(),
            time: read.iter().position(|index| is_time(&config.columns[*index])),
            read,
            declared: config.columns.clone(),
            delimiter: config.delimiter as u8,
            nulls: config.nulls.clone(),
            schema: Arc::new(schema(config, wanted)),
        }
    }

    /// Where a file has the columns, by its header.
    pub(crate) fn layout(&self, header: &Record, file: &str) -> Result<Layout> {
        let mut names = Vec::with_capacity(header.len());
        for field in (0..header.len()).filter_map(|index| header.get(index)) {
            let name = std::str::from_utf8(field.bytes);
            names.push(name.map_err(|_| Error::config(format!("file `{file}`: its header is no UTF-8 text; convert the file")))?);
        }
        let mut places = Vec::with_capacity(self.declared.len());
        for column in &self.declared {
            let mut found = names.iter().enumerate().filter(|(_, name)| **name == column.name).map(|(index, _)| index);
            match (found.next(), found.next()) {
                (Some(index), None) => places.push(index),
                (Some(_), Some(_)) => return Err(Error::config(format!("file `{file}` has two columns `{}`", column.name))),
                (None, _) => {
                    let near = hint(&column.name, names.iter().copied());
                    return Err(Error::config(format!("file `{file}` has no column `{}`{near}", column.name)));
                }
            }
        }
        Ok(Layout { fields: names.len(), places: self.read.iter().map(|index| places[*index]).collect() })
    }

    /// Whether a field says that there is no value. One in quotes is a value whatever it says.
    fn is_null(&self, field: Field<'_>) -> bool {
        !field.quoted && (field.bytes.is_empty() || self.nulls.iter().any(|null| null.as_bytes() == field.bytes))
    }

    /// The values of a record's columns, and its time.
    fn values<'a>(&self, record: &'a Record, layout: &Layout) -> Result<Vec<Option<Value<'a>>>, String> {
        if record.len() != layout.fields {
            return Err(format!("it has {} fields, and the header has {}", record.len(), layout.fields));
        }
        let mut values = Vec::with_capacity(self.read.len());
        for (declared, place) in self.read.iter().zip(&layout.places) {
            let Column { name, value_type } = &self.declared[*declared];
            let value = match record.get(*place) {
                Some(field) if !self.is_null(field) => {
                    let text = std::str::from_utf8(field.bytes).map_err(|_| format!("column `{name}` is no UTF-8 text"))?;
                    let value = value_type.parse(text);
                    Some(value.ok_or_else(|| format!("column `{name}` is {}, which is no {value_type}", quoted(text)))?)
                }
                _ => None,
            };
            values.push(value);
        }
        Ok(values)
    }
}

/// The columns, or those of them that are wanted.
pub(crate) fn schema(config: &Config, wanted: Option<&[String]>) -> Schema {
    let wanted = config.columns.iter().filter(|column| wanted.is_none_or(|wanted| wanted.contains(&column.name)));
    Schema::new(wanted.map(|column| schema::Field::new(&column.name, column.value_type.data_type(), true)).collect::<Vec<_>>())
}

/// Where one file has the columns.
#[derive(Debug)]
pub(crate) struct Layout {
    /// How many fields its header has.
    fields: usize,
    /// The field of each column that is read.
    places: Vec<usize>,
}

/// Rows being made.
pub(crate) struct Rows<'t> {
    table: &'t Table,
    columns: Vec<ColumnBuilder>,
    pub(crate) count: usize,
}

impl<'t> Rows<'t> {
    pub(crate) fn new(table: &'t Table, room: usize) -> Self {
        let columns = table.read.iter().map(|index| ColumnBuilder::new(table.declared[*index].value_type, room));
        Rows { table, columns: columns.collect(), count: 0 }
    }

    /// Adds a record, none of whose times may be before `time`, and moves `time` on.
    pub(crate) fn add(&mut self, record: &Record, layout: &Layout, time: &mut Option<i64>) -> Result<(), String> {
        let values = self.table.values(record, layout)?;
        if let Some(Some(Value::TimestampMs(at))) = self.table.time.map(|index| &values[index]) {
            if time.is_some_and(|time| *at < time) {
                return Err("its time is before that of a row above it; leave `timeColumn` out if files are not in order of it".into());
            }
            *time = Some(*at);
        }
        self.columns.iter_mut().zip(values).for_each(|(column, value)| column.append(value));
        self.count += 1;
        Ok(())
    }

    /// The rows.
    pub(crate) fn finish(self) -> Result<RecordBatch> {
        let wanted = self.columns.into_iter().zip(&self.table.wanted).filter(|(_, wanted)| **wanted);
        let columns: Vec<ArrayRef> = wanted.map(|(column, _)| column.finish()).collect();
        let options = RecordBatchOptions::new().with_row_count(Some(self.count));
        Ok(RecordBatch::try_new_with_options(Arc::clone(&self.table.schema), columns, &options)?)
    }
}

//! From rows to records: key, value, headers, topic and partition of each, and the rows that can be none.
//!
//! A batch is worked on column by column; what is done per row is to cut slices and to compare sizes. Everything that may have to be
//! repeated, which is to ask the cluster for topics, happens before the first record is handed out.

use super::columns::{Columns, Key, is_binary, is_text};
use super::config::{Format, KafkaSinkConfig, wrong_topic};
use super::topics::{OVERHEAD, Standing, TopicFacts, Topics, again};
use crate::encode::{Cells, Encoded, JsonMessages, MessageEncoder, TextOptions};
use arrow::array::{Array, ArrayRef, AsArray, BinaryArray, BooleanArray, Int64Array, RecordBatch, StringViewArray};
use arrow::compute::{cast, filter_record_batch};
use arrow::datatypes::{DataType, Int64Type, UInt8Type, UInt64Type};
use foldhash::fast::FixedState;
use std::collections::HashMap;
use std::sync::Arc;
use tidegate_api::sink::RowError;
use tidegate_api::{ChangeMode, Error, Result, hidden};

/// One record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Record<'r> {
    pub(super) topic: &'r str,
    /// `None` leaves it to the key.
    pub(super) partition: Option<i32>,
    pub(super) key: Option<&'r [u8]>,
    /// `None` deletes what has the key.
    pub(super) value: Option<&'r [u8]>,
    pub(super) headers: &'r [(&'r str, Option<&'r [u8]>)],
}

impl Record<'_> {
    /// Bytes of key and value, which is what the client counts too.
    pub(super) fn bytes(&self) -> usize {
        self.key.map_or(0, <[u8]>::len) + self.value.map_or(0, <[u8]>::len)
    }

    /// Bytes of a batch that has only this record, at most.
    fn largest(&self) -> usize {
        let headers = self.headers.iter().map(|(name, value)| name.len() + value.map_or(0, <[u8]>::len) + 10).sum::<usize>();
        self.bytes() + headers + OVERHEAD
    }
}

/// Makes records of rows of one schema.
pub(super) struct Serializer {
    columns: Columns,
    names: Vec<String>,
    whole: bool,
    encoder: Box<dyn MessageEncoder>,
    keys: JsonMessages,
    text: TextOptions,
    topic: Option<String>,
    topics: Arc<Topics>,
}

impl Serializer {
    /// For rows of this schema, with `_op` behind it in an upsert output. `id`: that of their schema in a registry.
    ///
    /// # Errors
    /// As [`Columns::of`] and [`Columns::encoder`].
    pub(super) fn new(
        config: &KafkaSinkConfig,
        schema: &arrow::datatypes::Schema,
        mode: &ChangeMode,
        topics: Arc<Topics>,
        id: Option<u32>,
    ) -> Result<Self> {
        let columns = Columns::of(config, schema, mode)?;
        Ok(Serializer {
            encoder: columns.encoder(config, schema, id)?,
            names: schema.fields().iter().map(|field| field.name().clone()).collect(),
            whole: matches!(config.format, Format::Arrow),
            keys: JsonMessages::new(config.text),
            text: config.text,
            topic: config.topic.clone(),
            topics,
            columns,
        })
    }

    /// Hands out a record for every row, in order; answers the rows that were left out, in order.
    ///
    /// # Errors
    /// `External` with `Retry::After` before the first record, if the cluster could not be asked; those of `each`.
    pub(super) fn write(&mut self, rows: &RecordBatch, each: &mut dyn FnMut(&Record<'_>) -> Result<()>) -> Result<Vec<RowError>> {
        if rows.num_rows() == 0 {
            return Ok(Vec::new());
        }
        if self.whole {
            return self.write_whole(rows, each);
        }
        let mut refusals = Refusals::default();
        let deletes = self.columns.op.map(|op| rows.column(op).as_primitive::<UInt8Type>().clone());
        let is_delete = |row: usize| deletes.as_ref().is_some_and(|deletes| deletes.value(row) == hidden::DELETE);
        let values = self.values(rows, &is_delete)?;
        let keys = self.key_column(rows, &mut refusals)?;
        let headers =
            self.columns.headers.iter().map(|index| header(rows, *index, self.text, &mut refusals)).collect::<Result<Vec<_>>>()?;
        let partitions = self.columns.partition.map(|index| integers(rows.column(index))).transpose()?;
        let named = self.columns.topic.map(|index| cast(rows.column(index), &DataType::Utf8View)).transpose()?;
        let places =
            self.places(rows.num_rows(), named.as_ref().map(|named| named.as_string_view()), partitions.as_ref(), &mut refusals)?;
        let header_names: Vec<&str> = self.columns.headers.iter().map(|index| self.names[*index].as_str()).collect();
        let mut of_values = Walk::new(&values);
        let mut of_keys = keys.walk();
        let mut row_headers: Vec<(&str, Option<&[u8]>)> = Vec::with_capacity(headers.len());
        for row in 0..rows.num_rows() {
            let value = if is_delete(row) { None } else { Some(of_values.next()) };
            let key = of_keys.next(row);
            if refusals.has(row) {
                continue;
            }
            let value = match value {
                None => None,
                Some(Ok(value)) => Some(value),
                Some(Err(error)) => {
                    refusals.push(row, error.column.clone(), error.message.clone());
                    continue;
                }
            };
            let key = match key {
                Ok(key) => key,
                Err(error) => {
                    refusals.push(row, error.column.clone(), error.message.clone());
                    continue;
                }
            };
            let Some((topic, facts)) = places.of(row) else { continue };
            row_headers.clear();
            row_headers.extend(header_names.iter().zip(&headers).map(|(name, header)| (*name, header.get(row))));
            let partition = partitions.as_ref().filter(|partitions| partitions.is_valid(row)).map(|partitions| partitions.value(row));
            let record = Record {
                topic,
                partition: partition.and_then(|partition| i32::try_from(partition).ok()),
                key,
                value,
                headers: &row_headers,
            };
            if record.largest() > facts.largest {
                refusals.push(row, None, too_large(record.largest(), topic, facts));
                continue;
            }
            each(&record)?;
        }
        Ok(refusals.sorted())
    }

    /// The values of the rows that are no deletions.
    fn values(&mut self, rows: &RecordBatch, is_delete: &dyn Fn(usize) -> bool) -> Result<Encoded> {
        let shown = rows.project(&self.columns.value)?;
        if self.columns.op.is_none() || !(0..rows.num_rows()).any(is_delete) {
            return self.encoder.encode(&shown);
        }
        let kept: BooleanArray = (0..rows.num_rows()).map(|row| Some(!is_delete(row))).collect();
        self.encoder.encode(&filter_record_batch(&shown, &kept)?)
    }

    fn key_column(&mut self, rows: &RecordBatch, refusals: &mut Refusals) -> Result<Keys> {
        Ok(match &self.columns.key {
            Key::None => Keys::None,
            Key::Bytes(index) => {
                let keys = bytes(rows.column(*index))?;
                if self.columns.op.is_some() && keys.null_count() > 0 {
                    for row in (0..keys.len()).filter(|row| keys.is_null(*row)) {
                        let message = "null is no key, and a row without a key could never be replaced or deleted";
                        refusals.push(row, Some(self.names[*index].clone()), message.to_string());
                    }
                }
                Keys::Bytes(keys)
            }
            Key::Json(columns) => Keys::Json(self.keys.encode(&rows.project(columns)?)?),
        })
    }

    /// Where each row goes; refuses those that can go nowhere.
    fn places<'p>(
        &'p self,
        rows: usize,
        named: Option<&'p StringViewArray>,
        partitions: Option<&Int64Array>,
        refusals: &mut Refusals,
    ) -> Result<Places<'p>> {
        let mut names: Vec<(&str, Option<i64>)> = Vec::new();
        let mut known: HashMap<&str, usize, FixedState> = HashMap::default();
        let mut of_rows = Vec::new();
        match named {
            None => names.push((self.topic.as_deref().unwrap_or_default(), partitions.and_then(arrow::compute::max))),
            Some(named) => {
                of_rows.reserve(rows);
                for row in 0..rows {
                    let name = if named.is_valid(row) { Some(named.value(row)) } else { self.topic.as_deref() };
                    let why = match name {
                        None => Some("null is no topic, and there is no `topic` for rows without one".to_string()),
                        Some(name) if known.contains_key(name) => None,
                        Some(name) => wrong_topic(name),
                    };
                    let (Some(name), None) = (name, &why) else {
                        refusals.push(row, self.topic_column(), why.unwrap_or_default());
                        of_rows.push(usize::MAX);
                        continue;
                    };
                    let place = *known.entry(name).or_insert_with(|| {
                        names.push((name, None));
                        names.len() - 1
                    });
                    let partition = partitions.filter(|partitions| partitions.is_valid(row)).map(|partitions| partitions.value(row));
                    names[place].1 = names[place].1.max(partition);
                    of_rows.push(place);
                }
            }
        }
        let standings = self.topics.standings(&names).map_err(again)?;
        let places: Vec<(&str, Standing)> = names.iter().zip(standings).map(|((name, _), standing)| (*name, standing)).collect();
        let places = Places { places, of_rows };
        for row in 0..rows {
            let Some((name, standing)) = places.at(row) else { continue };
            let partition = partitions.filter(|partitions| partitions.is_valid(row)).map(|partitions| partitions.value(row));
            match (standing, partition) {
                (Standing::Closed(why), _) => refusals.push(row, self.topic_column(), format!("topic `{name}` {why}")),
                (Standing::Open(facts), Some(partition)) if !(0..i64::from(facts.partitions)).contains(&partition) => {
                    let column = self.columns.partition.map(|index| self.names[index].clone());
                    refusals.push(
                        row,
                        column,
                        format!("topic `{name}` has {} partitions and none of number {partition}", facts.partitions),
                    );
                }
                (Standing::Open(_), _) => {}
            }
        }
        Ok(places)
    }

    fn topic_column(&self) -> Option<String> {
        self.columns.topic.map(|index| self.names[index].clone())
    }

    /// Many rows as one record; as many as the topic takes.
    fn write_whole(&mut self, rows: &RecordBatch, each: &mut dyn FnMut(&Record<'_>) -> Result<()>) -> Result<Vec<RowError>> {
        let topic = self.topic.as_deref().unwrap_or_default();
        let standing = self.topics.standings(&[(topic, None)]).map_err(again)?.pop();
        let facts = match standing {
            Some(Standing::Open(facts)) => facts,
            Some(Standing::Closed(why)) => return Err(Error::config(format!("topic `{topic}` {why}"))),
            None => return Err(Error::internal("a topic was asked for and not answered")),
        };
        let mut refusals = Refusals::default();
        let mut rest = vec![(0, rows.num_rows())];
        while let Some((start, count)) = rest.pop() {
            let encoded = self.encoder.encode(&rows.slice(start, count))?;
            let record = Record { topic, partition: None, key: None, value: Some(&encoded.bytes), headers: &[] };
            if record.largest() <= facts.largest {
                each(&record)?;
            } else if count > 1 {
                rest.push((start + count / 2, count - count / 2));
                rest.push((start, count / 2));
            } else {
                refusals.push(start, None, too_large(record.largest(), topic, facts));
            }
        }
        Ok(refusals.sorted())
    }
}

fn too_large(bytes: usize, topic: &str, facts: TopicFacts) -> String {
    format!("the record has {bytes} bytes and topic `{topic}` takes {} (`max.message.bytes`)", facts.largest)
}

/// Rows that were left out.
#[derive(Default)]
struct Refusals {
    errors: Vec<RowError>,
    rows: Vec<bool>,
}

impl Refusals {
    /// The first reason of a row counts.
    fn push(&mut self, row: usize, column: Option<String>, message: String) {
        if self.rows.len() <= row {
            self.rows.resize(row + 1, false);
        }
        if !std::mem::replace(&mut self.rows[row], true) {
            self.errors.push(RowError { row, column, message });
        }
    }

    fn has(&self, row: usize) -> bool {
        self.rows.get(row).copied().unwrap_or(false)
    }

    fn sorted(mut self) -> Vec<RowError> {
        self.errors.sort_by_key(|error| error.row);
        self.errors
    }
}

/// The topics of a batch, and which is each row's.
struct Places<'p> {
    places: Vec<(&'p str, Standing)>,
    /// Empty if there is only one.
    of_rows: Vec<usize>,
}

impl Places<'_> {
    fn at(&self, row: usize) -> Option<&(&str, Standing)> {
        self.places.get(if self.of_rows.is_empty() { 0 } else { self.of_rows[row] })
    }

    fn of(&self, row: usize) -> Option<(&str, TopicFacts)> {
        match self.at(row)? {
            (name, Standing::Open(facts)) => Some((name, *facts)),
            (_, Standing::Closed(_)) => None,
        }
    }
}

/// Goes along messages and refusals as the rows went in.
struct Walk<'e> {
    encoded: &'e Encoded,
    row: usize,
    start: usize,
    message: usize,
    refused: usize,
}

impl<'e> Walk<'e> {
    fn new(encoded: &'e Encoded) -> Self {
        Walk { encoded, row: 0, start: 0, message: 0, refused: 0 }
    }

    fn next(&mut self) -> std::result::Result<&'e [u8], &'e RowError> {
        let row = self.row;
        self.row += 1;
        if let Some(error) = self.encoded.refused.get(self.refused).filter(|error| error.row == row) {
            self.refused += 1;
            return Err(error);
        }
        let end = self.encoded.ends.get(self.message).copied().unwrap_or(self.start);
        let start = std::mem::replace(&mut self.start, end);
        self.message += 1;
        Ok(&self.encoded.bytes[start..end])
    }
}

enum Keys {
    None,
    Bytes(BinaryArray),
    Json(Encoded),
}

impl Keys {
    fn walk(&self) -> KeyWalk<'_> {
        match self {
            Keys::None => KeyWalk::None,
            Keys::Bytes(keys) => KeyWalk::Bytes(keys),
            Keys::Json(encoded) => KeyWalk::Json(Walk::new(encoded)),
        }
    }
}

enum KeyWalk<'k> {
    None,
    Bytes(&'k BinaryArray),
    Json(Walk<'k>),
}

impl<'k> KeyWalk<'k> {
    fn next(&mut self, row: usize) -> std::result::Result<Option<&'k [u8]>, &'k RowError> {
        match self {
            KeyWalk::None => Ok(None),
            KeyWalk::Bytes(keys) => Ok(keys.is_valid(row).then(|| keys.value(row))),
            KeyWalk::Json(walk) => walk.next().map(Some),
        }
    }
}

/// The values of one header.
enum Header {
    Bytes(BinaryArray),
    Texts { text: String, ends: Vec<usize>, present: Vec<bool> },
}

impl Header {
    fn get(&self, row: usize) -> Option<&[u8]> {
        match self {
            Header::Bytes(values) => values.is_valid(row).then(|| values.value(row)),
            Header::Texts { text, ends, present } => {
                let start = if row == 0 { 0 } else { ends[row - 1] };
                present[row].then(|| &text.as_bytes()[start..ends[row]])
            }
        }
    }
}

fn header(rows: &RecordBatch, index: usize, options: TextOptions, refusals: &mut Refusals) -> Result<Header> {
    let column = rows.column(index);
    if is_text(column.data_type()) || is_binary(column.data_type()) {
        return Ok(Header::Bytes(bytes(column)?));
    }
    let (cells, refused) = Cells::of(&rows.project(&[index])?, options)?;
    let (mut text, mut ends, mut present) = (String::new(), Vec::with_capacity(rows.num_rows()), Vec::with_capacity(rows.num_rows()));
    let mut refused = refused.into_iter().peekable();
    let mut cell = 0;
    for row in 0..rows.num_rows() {
        if let Some(error) = refused.next_if(|error| error.row == row) {
            refusals.push(row, error.column, error.message);
            present.push(false);
        } else {
            present.push(cells.push(cell, 0, &mut text)?);
            cell += 1;
        }
        ends.push(text.len());
    }
    Ok(Header::Texts { text, ends, present })
}

fn bytes(column: &ArrayRef) -> Result<BinaryArray> {
    Ok(cast(column, &DataType::Binary)?.as_binary::<i32>().clone())
}

/// A column of integers as those of 64 bits with a sign; what is beyond is the greatest.
fn integers(column: &ArrayRef) -> Result<Int64Array> {
    if *column.data_type() == DataType::UInt64 {
        return Ok(column.as_primitive::<UInt64Type>().unary(|value| i64::try_from(value).unwrap_or(i64::MAX)));
    }
    Ok(cast(column, &DataType::Int64)?.as_primitive::<Int64Type>().clone())
}

#[cfg(test)]
#[path = "record_tests.rs"]
mod tests;

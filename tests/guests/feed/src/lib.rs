//! `feed`: a change feed, as the log of a database's table is one. Every split has keys of its own. Row `i` of a split is of key `i % keys` and of
//! round `i / keys`, and the round says what it does: 0 insert, 1 what was before an update, 2 what is after it; then 3 for every third key a delete,
//! for the others another update, and from the start. A deleted row has no value. A position is the number of the next row in decimal digits.

use serde::Deserialize;
use std::sync::Arc;
use tidegate_sdk::arrow::array::{ArrayRef, Int64Array, RecordBatch, StringArray, TimestampMillisecondArray, UInt8Array};
use tidegate_sdk::arrow::schema::{DataType, Field, Schema, SchemaRef, TimeUnit};
use tidegate_sdk::changes::{Kind, key_field, kind_field};
use tidegate_sdk::{
    Chunk, Discovered, Error, Info, PollRequest, Polled, Result, Scope, Source, SourcePlan, Split, SplitState, export_source,
};

/// What is done wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Lie {
    /// Rows of one key come from all splits.
    SharedKeys,
    /// A row's kind is none.
    OddKind,
    /// The rows have kinds and no key.
    NoKey,
    /// Fewer wanted columns have another key.
    OtherKey,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct Config {
    /// How many splits.
    #[serde(default = "two")]
    splits: u64,
    /// How many keys each has.
    keys: u64,
    /// How many rows each has.
    rows: u64,
    #[serde(default)]
    lie: Option<Lie>,
}

fn two() -> u64 {
    2
}

impl Config {
    fn lies(&self, lie: Lie) -> bool {
        self.lie == Some(lie)
    }
}

/// The key and the kinds are given whatever is wanted.
fn schema(config: &Config, wanted: Option<&[String]>) -> Schema {
    let key = Field::new("id", DataType::Int64, false);
    let name = Field::new("name", DataType::Utf8, false);
    let other = config.lies(Lie::OtherKey) && wanted.is_some();
    let all = [
        if config.lies(Lie::NoKey) || other { key } else { key_field(key, 0) },
        if other { key_field(name, 0) } else { name },
        Field::new("value", DataType::Int64, true),
        Field::new("at", DataType::Timestamp(TimeUnit::Millisecond, None), false),
        kind_field("_kind"),
    ];
    let is_wanted = |field: &Field| wanted.is_none_or(|wanted| wanted.contains(field.name()));
    let given = all.into_iter().filter(|field| is_wanted(field) || !field.metadata().is_empty());
    Schema::new(given.collect::<Vec<_>>())
}

struct Reading {
    split: String,
    number: u64,
    next: u64,
    told: bool,
}

struct Feed {
    config: Config,
    schema: SchemaRef,
    splits: Vec<Reading>,
}

fn number(text: &[u8]) -> Result<u64> {
    let number = std::str::from_utf8(text).ok().and_then(|text| text.parse().ok());
    number.ok_or_else(|| Error::fatal(format!("`{}` is no number", text.escape_ascii())))
}

/// What row `i` does.
fn kind(config: &Config, row: u64) -> Kind {
    match (row / config.keys) % 4 {
        0 => Kind::Insert,
        1 => Kind::UpdateBefore,
        3 if (row % config.keys).is_multiple_of(3) => Kind::Delete,
        _ => Kind::UpdateAfter,
    }
}

impl Feed {
    fn rows(&self, reading: &Reading, end: u64) -> Result<RecordBatch> {
        let (config, numbers) = (&self.config, reading.next..end);
        let split = if config.lies(Lie::SharedKeys) { 0 } else { reading.number };
        let id = |row: u64| (split * config.keys + row % config.keys) as i64;
        // What was before is what the row of the round before said.
        let value = |row: u64| match kind(config, row) {
            Kind::Delete => None,
            Kind::UpdateBefore => Some(row.saturating_sub(config.keys) as i64),
            Kind::Insert | Kind::UpdateAfter => Some(row as i64),
        };
        let number = |row: u64| if config.lies(Lie::OddKind) && row == 5 { 7 } else { kind(config, row).number() };
        let column = |name: &str| -> ArrayRef {
            match name {
                "id" => Arc::new(Int64Array::from_iter_values(numbers.clone().map(id))),
                "name" => Arc::new(StringArray::from_iter_values(numbers.clone().map(|row| format!("n{}", id(row))))),
                "value" => Arc::new(numbers.clone().map(value).collect::<Int64Array>()),
                "at" => Arc::new(TimestampMillisecondArray::from_iter_values(numbers.clone().map(|row| row as i64 * 1000))),
                _ => Arc::new(UInt8Array::from_iter_values(numbers.clone().map(number))),
            }
        };
        let columns = self.schema.fields().iter().map(|field| column(field.name())).collect();
        Ok(RecordBatch::try_new(Arc::clone(&self.schema), columns)?)
    }
}

impl Source for Feed {
    type Config = Config;

    fn info() -> Info {
        Info::new(env!("CARGO_PKG_NAME"), env!("CARGO_PKG_VERSION"))
    }

    fn bind(config: &Config, _: &Scope, wanted: Option<&[String]>) -> Result<SourcePlan> {
        if config.keys == 0 {
            return Err(Error::config("`keys` is 0; a feed has one at least"));
        }
        Ok(SourcePlan::new(schema(config, wanted)).pruned().bounded(true))
    }

    fn discover(config: &Config, _: &Scope, cursor: Option<&[u8]>) -> Result<Discovered> {
        let split = |number: u64| Split { id: format!("part-{number}"), details: number.to_string().into_bytes(), position: None };
        let added = if cursor.is_some() { Vec::new() } else { (0..config.splits.min(1000)).map(split).collect() };
        Ok(Discovered { added, gone: Vec::new(), cursor: Some(b"all".to_vec()) })
    }

    fn open(config: Config, _: &Scope, wanted: Option<&[String]>) -> Result<Self> {
        let schema = Arc::new(schema(&config, wanted));
        Ok(Feed { config, schema, splits: Vec::new() })
    }

    fn assign(&mut self, splits: Vec<Split>) -> Result<()> {
        for split in splits {
            let next = split.position.as_deref().map_or(Ok(0), number)?;
            self.splits.push(Reading { split: split.id, number: number(&split.details)?, next, told: false });
        }
        Ok(())
    }

    fn poll(&mut self, request: PollRequest) -> Result<Polled> {
        let mut polled = Polled::default();
        let mut left = request.max_rows as u64;
        let share = left.div_ceil((self.splits.len() as u64).max(1));
        for index in 0..self.splits.len() {
            let reading = &self.splits[index];
            let end = (reading.next + share.min(left)).min(self.config.rows);
            if end > reading.next {
                let mut chunk = Chunk::new(reading.split.as_str(), self.rows(reading, end)?, end.to_string());
                chunk.watermark_us = Some(end as i64 * 1_000_000);
                polled.chunks.push(chunk);
                left -= end - reading.next;
            }
            let rows = self.config.rows;
            let reading = &mut self.splits[index];
            reading.next = reading.next.max(end);
            if reading.next >= rows && !std::mem::replace(&mut reading.told, true) {
                polled.states.push((reading.split.clone(), SplitState::Finished));
            }
        }
        let turn = usize::from(!self.splits.is_empty());
        self.splits.rotate_left(turn);
        if polled.chunks.is_empty() && polled.states.is_empty() {
            polled.retry_after = Some(std::time::Duration::from_millis(1));
        }
        Ok(polled)
    }
}

export_source!(Feed);

//! `lying-source`: a source that breaks one promise, `lie`, and keeps the others. Without a lie it is honest.
//!
//! Two splits of sixty rows each: a number, the time of the row, and a value. A position is the number of the next row in decimal digits.

use serde::Deserialize;
use std::sync::Arc;
use tidegate_sdk::arrow::array::{ArrayRef, Int64Array, RecordBatch, RecordBatchOptions, TimestampMillisecondArray};
use tidegate_sdk::arrow::schema::{DataType, Field, Schema, SchemaRef, TimeUnit};
use tidegate_sdk::{
    Chunk, Discovered, Error, Info, PollRequest, Polled, Result, Scope, Source, SourcePlan, Split, SplitState, export_source,
};

/// What is done wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Lie {
    /// A position points past the row that comes next.
    Skips,
    /// A position points at the last row that was handed over.
    Repeats,
    /// Values depend on where the reading began.
    Replays,
    /// Rows depend on how many tasks there are.
    Tasks,
    /// Watermarks fall.
    WatermarkBack,
    /// A watermark is above the time of a later row.
    WatermarkLies,
    /// The plan says that it prunes; the rows have all columns.
    Pruning,
    /// A late notice of a durable position makes it read from there again.
    Committed,
    /// Every poll keeps some memory.
    Leaks,
    /// Split names change from discovery to discovery.
    Splits,
    /// An unknown key of the configuration is ignored.
    Lenient,
    /// A new version: it cannot read the positions of the old one.
    NewPositions,
}

#[derive(Debug, Clone, Deserialize)]
struct Config {
    #[serde(default)]
    lie: Option<Lie>,
    #[serde(flatten)]
    rest: std::collections::BTreeMap<String, serde::de::IgnoredAny>,
}

impl Config {
    fn check(&self) -> Result<()> {
        match self.rest.keys().next() {
            Some(key) if self.lie != Some(Lie::Lenient) => Err(Error::config(format!("unknown key `{key}`; `lie` is the only one"))),
            _ => Ok(()),
        }
    }

    fn lies(&self, lie: Lie) -> bool {
        self.lie == Some(lie)
    }
}

const ROWS: u64 = 60;
const KEPT: usize = 1 << 10;

fn schema(wanted: Option<&[String]>) -> Schema {
    let all = [
        Field::new("n", DataType::Int64, false),
        Field::new("time", DataType::Timestamp(TimeUnit::Millisecond, None), false),
        Field::new("value", DataType::Int64, false),
    ];
    Schema::new(all.into_iter().filter(|field| wanted.is_none_or(|wanted| wanted.contains(field.name()))).collect::<Vec<_>>())
}

struct Reading {
    split: String,
    next: u64,
    began: u64,
    told: bool,
    mark: i64,
}

struct Lying {
    config: Config,
    schema: SchemaRef,
    scope: Scope,
    splits: Vec<Reading>,
    kept: Vec<Vec<u8>>,
}

fn number(position: &[u8]) -> Result<u64> {
    let text = std::str::from_utf8(position).ok();
    text.and_then(|text| text.parse().ok()).ok_or_else(|| Error::fatal(format!("`{}` is no position", position.escape_ascii())))
}

fn millis(row: u64) -> i64 {
    row as i64 * 1000
}

impl Lying {
    fn position(&self, next: u64) -> Vec<u8> {
        let told = match self.config.lie {
            Some(Lie::Skips) if next < ROWS => next + 1,
            Some(Lie::Repeats) => next.saturating_sub(1),
            _ => next,
        };
        if self.config.lies(Lie::NewPositions) { format!("v2:{told}").into_bytes() } else { told.to_string().into_bytes() }
    }

    fn rows(&self, reading: &Reading, numbers: &[u64]) -> Result<RecordBatch> {
        let began = if self.config.lies(Lie::Replays) { reading.began as i64 } else { 0 };
        let columns: Vec<(&str, ArrayRef)> = vec![
            ("n", Arc::new(Int64Array::from_iter_values(numbers.iter().map(|row| *row as i64)))),
            ("time", Arc::new(TimestampMillisecondArray::from_iter_values(numbers.iter().map(|row| millis(*row))))),
            ("value", Arc::new(Int64Array::from_iter_values(numbers.iter().map(|row| (*row * 7) as i64 + began)))),
        ];
        let columns = columns.into_iter().filter(|(name, _)| self.schema.column_with_name(name).is_some()).map(|(_, column)| column);
        let options = RecordBatchOptions::new().with_row_count(Some(numbers.len()));
        Ok(RecordBatch::try_new_with_options(Arc::clone(&self.schema), columns.collect(), &options)?)
    }
}

impl Source for Lying {
    type Config = Config;

    fn info() -> Info {
        Info::new(env!("CARGO_PKG_NAME"), env!("CARGO_PKG_VERSION"))
    }

    fn bind(config: &Config, _: &Scope, wanted: Option<&[String]>) -> Result<SourcePlan> {
        config.check()?;
        Ok(SourcePlan::new(schema(wanted)).pruned().bounded(true))
    }

    fn discover(config: &Config, _: &Scope, cursor: Option<&[u8]>) -> Result<Discovered> {
        config.check()?;
        thread_local! {
            static ASKED: std::cell::Cell<u32> = const { std::cell::Cell::new(0) };
        }
        let asked = ASKED.replace(ASKED.get() + 1);
        let odd = if config.lies(Lie::Splits) { asked.to_string() } else { String::new() };
        let split = |name: &str| Split { id: format!("{name}{odd}"), details: name.as_bytes().to_vec(), position: None };
        let added = if cursor.is_some() { Vec::new() } else { vec![split("a"), split("b")] };
        Ok(Discovered { added, gone: Vec::new(), cursor: Some(b"all".to_vec()) })
    }

    fn open(config: Config, scope: &Scope, wanted: Option<&[String]>) -> Result<Self> {
        config.check()?;
        let wanted = if config.lies(Lie::Pruning) { None } else { wanted };
        Ok(Lying { config, schema: Arc::new(schema(wanted)), scope: scope.clone(), splits: Vec::new(), kept: Vec::new() })
    }

    fn assign(&mut self, splits: Vec<Split>) -> Result<()> {
        for split in splits {
            if split.details.is_empty() {
                return Err(Error::fatal(format!("split `{}` came without its details", split.id)));
            }
            let next = match &split.position {
                None => 0,
                Some(position) if self.config.lies(Lie::NewPositions) => {
                    let rest = position.strip_prefix(b"v2:");
                    number(rest.ok_or_else(|| Error::fatal(format!("`{}` is no position", position.escape_ascii())))?)?
                }
                Some(position) => number(position)?,
            };
            self.splits.push(Reading { split: split.id, next, began: next, told: false, mark: i64::MIN });
        }
        Ok(())
    }

    fn poll(&mut self, request: PollRequest) -> Result<Polled> {
        let mut polled = Polled::default();
        if self.config.lies(Lie::Leaks) {
            self.kept.push(vec![self.kept.len() as u8; KEPT]);
        }
        let mut left = request.max_rows as u64;
        for index in 0..self.splits.len() {
            let reading = &self.splits[index];
            if reading.told {
                continue;
            }
            let share = left.min((request.max_rows as u64).div_ceil(2));
            let end = (reading.next + share).min(ROWS);
            let numbers: Vec<u64> =
                (reading.next..end).filter(|row| !self.config.lies(Lie::Tasks) || self.scope.parallelism < 2 || row % 10 != 3).collect();
            let mut chunk = Chunk::new(reading.split.as_str(), self.rows(reading, &numbers)?, self.position(end));
            let watermark = match self.config.lie {
                Some(Lie::WatermarkLies) => millis(end + 2) * 1000,
                Some(Lie::WatermarkBack) if end.is_multiple_of(3) => millis(end / 2) * 1000,
                _ => millis(end) * 1000,
            };
            if end < ROWS || self.config.lies(Lie::WatermarkBack) {
                chunk.watermark_us = Some(watermark);
            }
            let moved = end > reading.next;
            left -= end - reading.next;
            let reading = &mut self.splits[index];
            reading.next = end;
            reading.mark = watermark;
            if moved {
                polled.chunks.push(chunk);
            }
            if reading.next >= ROWS {
                reading.told = true;
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

    fn committed(&mut self, positions: &[Split]) -> Result<()> {
        if self.config.lies(Lie::Committed) {
            for position in positions {
                let at = position.position.as_deref().map_or(Ok(0), number)?;
                for reading in self.splits.iter_mut().filter(|reading| reading.split == position.id) {
                    reading.next = reading.next.min(at);
                }
            }
        }
        Ok(())
    }
}

export_source!(Lying);

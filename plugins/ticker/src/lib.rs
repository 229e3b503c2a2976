//! `ticker`: a source of evenly spaced ticks, for demonstrations and tests.
//!
//! Tick n has the time `startMs + n * intervalMs` and belongs to split `n % splits`, so any number of splits and tasks gives the same ticks, and a tick can be made from
//! its number alone: a position is the number of the next one.

mod config;
mod split;
mod ticks;

#[cfg(test)]
mod tests;

use config::Config;
use split::Cursor;
use std::sync::Arc;
use tidegate_sdk::arrow::schema::SchemaRef;
use tidegate_sdk::{
    Chunk, Discovered, Error, Info, PollRequest, Polled, Result, Scope, Source, SourcePlan, Split, SplitState, export_source,
};

/// The opened source.
struct Ticker {
    config: Config,
    schema: SchemaRef,
    cursors: Vec<Cursor>,
    /// Whose turn it is.
    turn: usize,
}

impl Source for Ticker {
    type Config = Config;

    fn info() -> Info {
        Info::new(env!("CARGO_PKG_NAME"), env!("CARGO_PKG_VERSION")).with_config_schema(config::SCHEMA).with_manifest(config::MANIFEST)
    }

    fn bind(config: &Config, _: &Scope, wanted: Option<&[String]>) -> Result<SourcePlan> {
        config.check()?;
        Ok(SourcePlan::new(ticks::schema(wanted)).pruned().bounded(config.rows.is_some()))
    }

    fn discover(config: &Config, _: &Scope, cursor: Option<&[u8]>) -> Result<Discovered> {
        config.check()?;
        // All splits exist from the beginning; the cursor only says that they were named.
        let added = if cursor.is_some() { Vec::new() } else { split::all(config.splits) };
        Ok(Discovered { added, gone: Vec::new(), cursor: Some(b"all".to_vec()) })
    }

    fn open(config: Config, _: &Scope, wanted: Option<&[String]>) -> Result<Self> {
        config.check()?;
        Ok(Ticker { config, schema: Arc::new(ticks::schema(wanted)), cursors: Vec::new(), turn: 0 })
    }

    fn assign(&mut self, splits: Vec<Split>) -> Result<()> {
        for split in splits {
            self.cursors.push(Cursor::open(split, &self.config)?);
        }
        Ok(())
    }

    /// Splits take turns and share a poll's rows, so none starves.
    fn poll(&mut self, request: PollRequest) -> Result<Polled> {
        let mut polled = Polled::default();
        let mut left = request.max_rows.min(request.max_bytes / ticks::ROW_BYTES).max(1) as u64;
        let open = self.cursors.iter().filter(|cursor| !cursor.told).count() as u64;
        let share = left.div_ceil(open.max(1));
        for _ in 0..self.cursors.len() {
            let index = self.turn % self.cursors.len();
            let cursor = &mut self.cursors[index];
            if cursor.told {
                self.turn += 1;
                continue;
            }
            let count = cursor.remaining(self.config.rows).min(share).min(left);
            if count > 0 {
                let rows = ticks::make(&self.schema, &self.config, cursor.next, count)?;
                cursor.next += count * self.config.splits;
                left -= count;
                let mut chunk = Chunk::new(cursor.split.as_str(), rows, cursor.position());
                chunk.watermark_us = Some(self.config.time_ms(cursor.next).saturating_mul(1000));
                polled.chunks.push(chunk);
            }
            if cursor.remaining(self.config.rows) == 0 {
                cursor.told = true;
                polled.states.push((cursor.split.clone(), SplitState::Finished));
            }
            self.turn += 1;
            if left == 0 {
                break;
            }
        }
        if polled.chunks.is_empty() && polled.states.is_empty() {
            // Without splits, or after their end, there is nothing to do but wait for more.
            polled.retry_after = Some(std::time::Duration::from_secs(1));
        }
        Ok(polled)
    }
}

/// A position or split id that is none of this source's.
fn foreign(what: &str, bytes: &[u8]) -> Error {
    Error::fatal(format!("{what} `{}` is none of this source's; was it written by another plugin?", bytes.escape_ascii()))
}

export_source!(Ticker);

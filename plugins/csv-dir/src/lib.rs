//! `csv-dir`: a source of the CSV files of a granted directory.
//!
//! A file is a split, read as it was when it was found: up to the length it had then, and only if it is still the same. A position is a byte between two records with the
//! number of records before it, so that reading can begin again at any of them and gives the same rows. What is no row costs only itself.

mod config;
mod directory;
mod split;
mod table;
mod window;

#[cfg(test)]
mod tests;

use config::Config;
use split::Reading;
use std::collections::VecDeque;
use std::time::Duration;
use table::Table;
use text_values::csv::Record;
use tidegate_sdk::{
    Discovered, Error, Info, PollRequest, Polled, Result, Scope, Source, SourcePlan, Split, SplitState, control, export_source,
};

/// How many files are open at once, each with what was read of it, and how many a poll serves.
const OPEN: usize = 8;

/// The opened source.
struct CsvDir {
    config: Config,
    table: Table,
    record: Record,
    /// The first one is next.
    splits: VecDeque<Reading>,
}

impl Source for CsvDir {
    type Config = Config;

    fn info() -> Info {
        Info::new(env!("CARGO_PKG_NAME"), env!("CARGO_PKG_VERSION")).with_config_schema(config::SCHEMA).with_manifest(config::MANIFEST)
    }

    fn bind(config: &Config, _: &Scope, wanted: Option<&[String]>) -> Result<SourcePlan> {
        config.check()?;
        directory::check(&config.dir)?;
        Ok(SourcePlan::new(table::schema(config, wanted)).pruned().bounded(!config.watch))
    }

    fn discover(config: &Config, _: &Scope, cursor: Option<&[u8]>) -> Result<Discovered> {
        config.check()?;
        directory::check(&config.dir)?;
        directory::discover(config, cursor)
    }

    fn open(config: Config, _: &Scope, wanted: Option<&[String]>) -> Result<Self> {
        config.check()?;
        Ok(CsvDir { table: Table::new(&config, wanted), config, record: Record::default(), splits: VecDeque::new() })
    }

    fn assign(&mut self, splits: Vec<Split>) -> Result<()> {
        for split in splits {
            self.splits.push_back(Reading::new(split, &self.config.dir)?);
        }
        Ok(())
    }

    /// Files take turns, a few at each poll, and share its rows, so none starves.
    fn poll(&mut self, request: PollRequest) -> Result<Polled> {
        let mut polled = Polled::default();
        let turns = self.splits.len().min(OPEN);
        let mut left = request.max_rows.max(1);
        let share = left.div_ceil(turns.max(1));
        let bytes = (request.max_bytes / turns.max(1)).max(1);
        for _ in 0..turns {
            let Some(mut split) = self.splits.pop_front() else { break };
            if let Some(chunk) = split.read(&self.table, &mut self.record, share.min(left), bytes)? {
                // Bad records are work as rows are, but only rows are counted by who asked for them.
                left -= chunk.rows.num_rows();
                polled.chunks.push(chunk);
            }
            if split.is_done() {
                polled.states.push((split.id, SplitState::Finished));
            } else {
                if self.splits.len() >= OPEN {
                    split.close();
                }
                self.splits.push_back(split);
            }
            if left == 0 || control::should_yield() {
                break;
            }
        }
        if polled.chunks.is_empty() && polled.states.is_empty() {
            // Without splits there is nothing to do but wait for some.
            polled.retry_after = Some(Duration::from_secs(1));
        }
        Ok(polled)
    }
}

/// Something of a manifest that this source has not written.
fn foreign(what: &str, bytes: &[u8]) -> Error {
    Error::fatal(format!("{what} `{}` is none of this source's; was it written by another plugin?", bytes.escape_ascii()))
}

export_source!(CsvDir);

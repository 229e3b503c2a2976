//! `jsonl`: a sink that writes newline JSON into a granted directory, exactly once.
//!
//! Rows of an epoch go into a file of the hidden folder `.tidegate-jsonl`; `prepare` makes it durable, `commit` renames it to a part in the directory itself. So a part
//! appears whole and only once its epoch is in the manifest, and whoever reads `*.jsonl` sees nothing else. Names hold run, operator, generation, epoch and task
//! (see [`names`]): they never meet, and each sink finds its own.

mod commit;
mod config;
mod disk;
mod names;
mod token;
mod writer;

#[cfg(test)]
mod tests;

use config::Config;
use json_values::Encoder;
use std::path::Path;
use tidegate_sdk::arrow::array::{BinaryArray, RecordBatch};
use tidegate_sdk::arrow::schema::{Schema, SchemaRef};
use tidegate_sdk::{Error, Guarantee, Info, Outcome, Result, Scope, Sink, SinkPlan, Token, TwoPhaseSink, Written, export_two_phase_sink};

/// The opened sink of one task.
struct Jsonl {
    encoder: Encoder,
    writer: writer::Writer,
}

impl Sink for Jsonl {
    type Config = Config;

    fn info() -> Info {
        Info::new(env!("CARGO_PKG_NAME"), env!("CARGO_PKG_VERSION")).with_config_schema(config::SCHEMA).with_manifest(config::MANIFEST)
    }

    fn bind(config: &Config, _: &Scope, input: &Schema) -> Result<SinkPlan> {
        json_values::check(input)?;
        if !config.dir.is_dir() {
            let dir = config.dir.display();
            return Err(Error::config(format!(
                "`dir` is `{dir}`, and no such directory is granted; add `allow = {{ dirs = [\"HOST={dir}:rw\"] }}` to the plugin"
            )));
        }
        if disk::is_read_only(&config.dir) {
            let dir = config.dir.display();
            return Err(Error::config(format!(
                "`dir` is `{dir}`, which is granted read-only; grant it for writing: `allow = {{ dirs = [\"HOST={dir}:rw\"] }}`"
            )));
        }
        Ok(SinkPlan::new(Guarantee::TwoPhase))
    }

    fn open(config: Config, scope: &Scope, input: &SchemaRef) -> Result<Self> {
        Ok(Jsonl { encoder: Encoder::new(input)?, writer: writer::Writer::new(config.dir, scope) })
    }

    fn write(&mut self, rows: &RecordBatch, _: Option<&BinaryArray>) -> Result<Written> {
        let writer = &mut self.writer;
        self.encoder.encode(rows, |bytes| writer.append(bytes))?;
        writer.count(rows.num_rows() as u64);
        Ok(Written::default())
    }

    /// JSON has a text for every value that `bind` let pass, so no row is ever refused.
    fn flush(&mut self) -> Result<Written> {
        Ok(Written::default())
    }
}

impl TwoPhaseSink for Jsonl {
    fn prepare(&mut self, epoch: u64) -> Result<Option<Token>> {
        Ok(self.writer.prepare(epoch)?.map(|token| token.encode()))
    }

    fn commit(config: &Config, _: &Scope, epoch: u64, tokens: &[Token]) -> Result<Vec<Outcome>> {
        commit::commit(&config.dir, epoch, &decode(tokens)?)
    }

    fn abort(config: &Config, _: &Scope, _: u64, tokens: &[Token]) -> Result<()> {
        commit::abort(&config.dir, &decode(tokens)?)
    }

    fn recover(config: &Config, scope: &Scope, keep: &[Token]) -> Result<()> {
        commit::recover(Path::new(&config.dir), scope, &decode(keep)?)
    }
}

fn decode(tokens: &[Token]) -> Result<Vec<token::Prepared>> {
    tokens.iter().map(|token| token::Prepared::decode(token)).collect()
}

export_two_phase_sink!(Jsonl);

//! `s3-jsonl`: a sink that writes newline JSON objects into an S3 bucket, exactly once.
//!
//! Rows of an epoch go into a multipart upload, which no reader sees. `prepare` uploads the last part; `commit` completes the upload, whereby the object appears whole. Names
//! hold run, operator, generation and task (see [`names`]): they never meet, and each sink finds its own.

mod bucket;
mod commit;
mod config;
mod names;
mod sign;
mod token;
mod writer;
mod xml;

#[cfg(test)]
mod fake;
#[cfg(test)]
mod tests;

use bucket::Bucket;
use config::Config;
use json_values::Encoder;
use tidegate_sdk::arrow::array::{BinaryArray, RecordBatch};
use tidegate_sdk::arrow::schema::{Schema, SchemaRef};
use tidegate_sdk::{Guarantee, Info, Outcome, Result, Scope, Sink, SinkPlan, Token, TwoPhaseSink, Written, export_two_phase_sink};
use token::Prepared;
use writer::Writer;

/// The opened sink of one task.
struct S3Jsonl {
    encoder: Encoder,
    writer: Writer,
}

impl Sink for S3Jsonl {
    type Config = Config;

    fn info() -> Info {
        Info::new(env!("CARGO_PKG_NAME"), env!("CARGO_PKG_VERSION")).with_config_schema(config::SCHEMA).with_manifest(config::MANIFEST)
    }

    fn bind(config: &Config, _: &Scope, input: &Schema) -> Result<SinkPlan> {
        config.check()?;
        json_values::check(input)?;
        Ok(SinkPlan::new(Guarantee::TwoPhase))
    }

    fn open(config: Config, scope: &Scope, input: &SchemaRef) -> Result<Self> {
        Ok(S3Jsonl { encoder: Encoder::new(input)?, writer: Writer::new(Bucket::new(&config)?, scope) })
    }

    /// Makes room first: when that fails, nothing of the batch is taken.
    fn write(&mut self, rows: &RecordBatch, _: Option<&BinaryArray>) -> Result<Written> {
        self.writer.make_room()?;
        let writer = &mut self.writer;
        self.encoder.encode(rows, |lines| {
            writer.append(lines);
            Ok(())
        })?;
        writer.count(rows.num_rows() as u64);
        Ok(Written::default())
    }

    /// JSON has a text for every value that `bind` let pass, so no row is ever refused. Uploads here, where a failure is tried again.
    fn flush(&mut self) -> Result<Written> {
        self.writer.settle()?;
        Ok(Written::default())
    }
}

impl TwoPhaseSink for S3Jsonl {
    fn prepare(&mut self, _: u64) -> Result<Option<Token>> {
        Ok(self.writer.prepare()?.map(|token| token.encode()))
    }

    fn commit(config: &Config, _: &Scope, _: u64, tokens: &[Token]) -> Result<Vec<Outcome>> {
        commit::commit(&Bucket::new(config)?, &decode(tokens)?)
    }

    fn abort(config: &Config, _: &Scope, _: u64, tokens: &[Token]) -> Result<()> {
        commit::abort(&Bucket::new(config)?, &decode(tokens)?)
    }

    fn recover(config: &Config, scope: &Scope, keep: &[Token]) -> Result<()> {
        commit::recover(&Bucket::new(config)?, scope, &decode(keep)?)
    }
}

fn decode(tokens: &[Token]) -> Result<Vec<Prepared>> {
    tokens.iter().map(|token| Prepared::decode(token)).collect()
}

export_two_phase_sink!(S3Jsonl);

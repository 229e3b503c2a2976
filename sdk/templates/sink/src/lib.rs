//! Writes a text column as lines into files of a granted directory, exactly once.
//!
//! The rows of an epoch go into a hidden file. At the barrier `prepare` makes it durable and answers
//! a token; once the epoch's checkpoint is durable, `commit` renames it into the directory. So a file
//! `*.txt` appears whole and once, whatever crashes. After a crash `recover` removes what no
//! checkpoint knows. The names hold run, operator, generation, epoch and task, so they never meet.

mod staged;

use serde::Deserialize;
use staged::{Staged, Writer};
use std::path::PathBuf;
use tidegate_sdk::arrow::array::{BinaryArray, RecordBatch, cast::AsArray};
use tidegate_sdk::arrow::schema::{DataType, Schema, SchemaRef};
use tidegate_sdk::{
    Error, Guarantee, Info, Outcome, Result, RowError, Scope, Sink, SinkPlan, Token, TwoPhaseSink,
    Written, export_two_phase_sink,
};

/// `config = { dir = "/out", column = "line" }` in the pipeline file.
#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct Config {
    dir: PathBuf,
    column: String,
}

const SCHEMA: &str = r#"{
  "type": "object",
  "additionalProperties": false,
  "required": ["dir", "column"],
  "properties": {
    "dir": { "type": "string", "description": "the directory, as the plugin sees it" },
    "column": { "type": "string", "description": "the text column to write" }
  }
}"#;

const MANIFEST: &str = r#"{
  "description": "lines of text in a directory, exactly once",
  "grants": { "dirs": ["HOST=/out:rw"] }
}"#;

struct Lines {
    column: String,
    writer: Writer,
}

impl Sink for Lines {
    type Config = Config;

    fn info() -> Info {
        Info::new(env!("CARGO_PKG_NAME"), env!("CARGO_PKG_VERSION"))
            .with_config_schema(SCHEMA)
            .with_manifest(MANIFEST)
    }

    /// Called while planning: what it promises for such rows, and which columns it wants.
    fn bind(config: &Config, _: &Scope, input: &Schema) -> Result<SinkPlan> {
        let plan = SinkPlan::new(Guarantee::TwoPhase).reading(input, [config.column.as_str()])?;
        match input.field_with_name(&config.column)?.data_type() {
            DataType::Utf8 => {}
            other => {
                let column = &config.column;
                return Err(Error::config(format!(
                    "column `{column}` is {other}; lines are text"
                )));
            }
        }
        if !config.dir.is_dir() {
            let dir = config.dir.display();
            return Err(Error::config(format!(
                "`dir` is `{dir}`, and no such directory is granted; \
                 add `allow = {{ dirs = [\"HOST={dir}:rw\"] }}` to the plugin"
            )));
        }
        Ok(plan)
    }

    /// Called once per task. Nothing may be visible yet.
    fn open(config: Config, scope: &Scope, _: &SchemaRef) -> Result<Self> {
        Ok(Lines {
            column: config.column,
            writer: Writer::new(config.dir, scope),
        })
    }

    /// Called for every batch. What is no line is refused, row by row.
    fn write(&mut self, rows: &RecordBatch, _: Option<&BinaryArray>) -> Result<Written> {
        let (mut lines, mut bad) = (String::new(), Vec::new());
        for (row, text) in rows.column(0).as_string::<i32>().iter().enumerate() {
            let message = match text {
                None => "null is no line",
                Some(text) if text.contains('\n') => "a line break would make two lines of it",
                Some(text) => {
                    lines.push_str(text);
                    lines.push('\n');
                    continue;
                }
            };
            let column = Some(self.column.clone());
            bad.push(RowError {
                row: row as u64,
                column,
                message: message.into(),
            });
        }
        self.writer.append(lines.as_bytes())?;
        Ok(Written { bad })
    }

    /// Called at every barrier. `write` has refused what there is to refuse.
    fn flush(&mut self) -> Result<Written> {
        Ok(Written::default())
    }
}

impl TwoPhaseSink for Lines {
    /// The first phase: durable, invisible. No token when there were no rows.
    fn prepare(&mut self, epoch: u64) -> Result<Option<Token>> {
        Ok(self.writer.prepare(epoch)?.map(|staged| staged.encode()))
    }

    /// The second phase. Any instance can do it, also after a crash, twice, or at the same time.
    fn commit(config: &Config, _: &Scope, _: u64, tokens: &[Token]) -> Result<Vec<Outcome>> {
        tokens
            .iter()
            .map(|token| Staged::decode(token)?.commit(&config.dir))
            .collect()
    }

    /// An epoch that no checkpoint will name.
    fn abort(config: &Config, _: &Scope, _: u64, tokens: &[Token]) -> Result<()> {
        tokens
            .iter()
            .try_for_each(|token| Staged::decode(token)?.remove(&config.dir))
    }

    /// At every start: what older generations of this run and operator left, but for `keep`.
    fn recover(config: &Config, scope: &Scope, keep: &[Token]) -> Result<()> {
        let keep = keep
            .iter()
            .map(|token| Staged::decode(token))
            .collect::<Result<Vec<_>>>()?;
        staged::recover(&config.dir, scope, &keep)
    }
}

export_two_phase_sink!(Lines);

#[cfg(test)]
mod tests;

//! `forgetful`: a sink that claims to be exactly-once and is not. Tests of what judges sinks must convict it.
//!
//! It writes the integers of its first column, one per line, into a granted directory: staged names begin with a dot, committed ones do
//! not. `fault` decides how it fails: `repeats` makes an epoch visible when it is prepared, so that a crash before the manifest
//! shows its rows twice; `loses` takes for committed what an earlier generation has prepared, and undoes it.

use serde::Deserialize;
use std::fs;
use std::path::{Path, PathBuf};
use tidegate_sdk::arrow::array::{Array, BinaryArray, Int64Array, RecordBatch};
use tidegate_sdk::arrow::schema::{DataType, Schema, SchemaRef};
use tidegate_sdk::{Error, Guarantee, Info, Outcome, Result, Scope, Sink, SinkPlan, Token, TwoPhaseSink, Written, export_two_phase_sink};

/// How it fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Fault {
    Repeats,
    Loses,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct Config {
    dir: PathBuf,
    fault: Fault,
}

const SCHEMA: &str = r#"{
  "type": "object",
  "additionalProperties": false,
  "required": ["dir", "fault"],
  "properties": {
    "dir": { "type": "string", "description": "the granted directory" },
    "fault": { "enum": ["repeats", "loses"], "description": "how it fails" }
  }
}"#;

struct Forgetful {
    config: Config,
    scope: Scope,
    lines: String,
}

fn failed(path: &Path) -> impl Fn(std::io::Error) -> Error {
    let place = path.display().to_string();
    move |error| Error::fatal(format!("`{place}`: {error}"))
}

impl Sink for Forgetful {
    type Config = Config;

    fn info() -> Info {
        Info::new(env!("CARGO_PKG_NAME"), env!("CARGO_PKG_VERSION")).with_config_schema(SCHEMA)
    }

    fn bind(_: &Config, _: &Scope, input: &Schema) -> Result<SinkPlan> {
        match input.fields().first() {
            Some(field) if *field.data_type() == DataType::Int64 => Ok(SinkPlan::new(Guarantee::TwoPhase)),
            _ => Err(Error::config("the first column must be int64")),
        }
    }

    fn open(config: Config, scope: &Scope, _: &SchemaRef) -> Result<Self> {
        Ok(Forgetful { config, scope: scope.clone(), lines: String::new() })
    }

    fn write(&mut self, rows: &RecordBatch, _: Option<&BinaryArray>) -> Result<Written> {
        let column = rows.column(0).as_any().downcast_ref::<Int64Array>().ok_or_else(|| Error::fatal("the column has changed"))?;
        for value in column.iter() {
            self.lines.push_str(&value.map_or_else(|| "null".to_string(), |value| value.to_string()));
            self.lines.push('\n');
        }
        Ok(Written::default())
    }

    fn flush(&mut self) -> Result<Written> {
        Ok(Written::default())
    }
}

impl TwoPhaseSink for Forgetful {
    fn prepare(&mut self, epoch: u64) -> Result<Option<Token>> {
        if self.lines.is_empty() {
            return Ok(None);
        }
        let Scope { operator, generation, index, .. } = &self.scope;
        let name = format!("{operator}-{generation}-{epoch}-{index}.txt");
        let staged = match self.config.fault {
            Fault::Repeats => name.clone(),
            Fault::Loses => format!(".{name}"),
        };
        let path = self.config.dir.join(staged);
        fs::write(&path, std::mem::take(&mut self.lines)).map_err(failed(&path))?;
        Ok(Some(name.into_bytes()))
    }

    fn commit(config: &Config, scope: &Scope, _: u64, tokens: &[Token]) -> Result<Vec<Outcome>> {
        let own = format!("{}-{}-", scope.operator, scope.generation);
        tokens
            .iter()
            .map(|token| {
                let name = String::from_utf8_lossy(token).into_owned();
                if config.fault == Fault::Loses && !name.starts_with(&own) {
                    return Ok(Outcome::AlreadyDone);
                }
                let (staged, path) = (config.dir.join(format!(".{name}")), config.dir.join(name));
                // Whatever is gone it takes for committed.
                Ok(if fs::rename(&staged, &path).is_ok() { Outcome::Done } else { Outcome::AlreadyDone })
            })
            .collect()
    }

    fn abort(config: &Config, _: &Scope, _: u64, tokens: &[Token]) -> Result<()> {
        for token in tokens {
            let _ = fs::remove_file(config.dir.join(format!(".{}", String::from_utf8_lossy(token))));
        }
        Ok(())
    }

    fn recover(config: &Config, _: &Scope, _: &[Token]) -> Result<()> {
        let entries = fs::read_dir(&config.dir).map_err(failed(&config.dir))?;
        for entry in entries {
            let path = entry.map_err(failed(&config.dir))?.path();
            if path.file_name().is_some_and(|name| name.to_string_lossy().starts_with('.')) {
                let _ = fs::remove_file(path);
            }
        }
        Ok(())
    }
}

export_two_phase_sink!(Forgetful);

//! `lying-delivery`: a sink of one phase that breaks one promise, `lie`, and keeps the others. Without a lie it is honest, at its guarantee.
//!
//! It writes the integers of its first column as JSON lines into a granted directory; an idempotent one writes a file for each key.

use serde::Deserialize;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use tidegate_sdk::arrow::array::{Array, BinaryArray, Int64Array, RecordBatch};
use tidegate_sdk::arrow::schema::{DataType, Schema, SchemaRef};
use tidegate_sdk::{Error, Guarantee, Info, Result, Scope, Sink, SinkPlan, Written, export_sink};

/// What is done wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Lie {
    /// A flush keeps a row to itself.
    FlushKeeps,
    /// Rows that come again under their key are written again.
    Appends,
    /// It writes a row that nobody gave it.
    Invents,
    /// A new writer removes what an older one delivered.
    Truncates,
    /// Every write keeps some memory.
    Leaks,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct Config {
    dir: PathBuf,
    #[serde(default)]
    idempotent: bool,
    #[serde(default)]
    lie: Option<Lie>,
}

impl Config {
    fn lies(&self, lie: Lie) -> bool {
        self.lie == Some(lie)
    }
}

fn failed(path: &Path) -> impl Fn(std::io::Error) -> Error {
    let place = path.display().to_string();
    move |error| Error::fatal(format!("`{place}`: {error}"))
}

struct Lying {
    config: Config,
    scope: Scope,
    /// Lines taken since the last barrier, with their keys.
    lines: Vec<(Vec<u8>, String)>,
    kept: Vec<Vec<u8>>,
}

impl Lying {
    fn put(&self, name: &str, text: &str) -> Result<()> {
        let path = self.config.dir.join(name);
        fs::write(&path, text).map_err(failed(&path))
    }

    /// A name that nobody has taken, another instance neither.
    fn free_name(&self) -> Result<String> {
        let Scope { operator, generation, index, .. } = &self.scope;
        let mut names = (0..1_000_000).map(|number| format!("{operator}-{generation}-{index}-{number}"));
        names.find(|name| !self.config.dir.join(name).exists()).ok_or_else(|| Error::fatal("too many files"))
    }
}

impl Sink for Lying {
    type Config = Config;

    fn info() -> Info {
        Info::new(env!("CARGO_PKG_NAME"), env!("CARGO_PKG_VERSION"))
    }

    fn bind(config: &Config, _: &Scope, input: &Schema) -> Result<SinkPlan> {
        match input.fields().first() {
            Some(field) if *field.data_type() == DataType::Int64 => {}
            _ => return Err(Error::config("the first column must be int64")),
        }
        Ok(if config.idempotent { SinkPlan::new(Guarantee::Idempotent).with_keys() } else { SinkPlan::new(Guarantee::AtLeastOnce) })
    }

    fn open(config: Config, scope: &Scope, _: &SchemaRef) -> Result<Self> {
        if config.lies(Lie::Truncates) && scope.generation > 1 {
            for entry in fs::read_dir(&config.dir).map_err(failed(&config.dir))? {
                let path = entry.map_err(failed(&config.dir))?.path();
                fs::remove_file(&path).map_err(failed(&path))?;
            }
        }
        Ok(Lying { config, scope: scope.clone(), lines: Vec::new(), kept: Vec::new() })
    }

    fn write(&mut self, rows: &RecordBatch, keys: Option<&BinaryArray>) -> Result<Written> {
        if self.config.lies(Lie::Leaks) {
            self.kept.push(vec![self.kept.len() as u8; 1 << 10]);
        }
        let column = rows.column(0).as_any().downcast_ref::<Int64Array>().ok_or_else(|| Error::fatal("the column has changed"))?;
        for (row, value) in column.iter().enumerate() {
            let value = value.map_or_else(|| "null".to_string(), |value| value.to_string());
            let key = keys.map_or_else(Vec::new, |keys| keys.value(row).to_vec());
            self.lines.push((key, format!("{{\"n\":{value}}}\n")));
        }
        Ok(Written::default())
    }

    fn flush(&mut self) -> Result<Written> {
        let kept = if self.config.lies(Lie::FlushKeeps) { self.lines.pop() } else { None };
        let mut lines = std::mem::take(&mut self.lines);
        self.lines.extend(kept);
        if lines.is_empty() {
            return Ok(Written::default());
        }
        if self.config.lies(Lie::Invents) {
            lines.push((b"invented".to_vec(), "{\"n\":-77}\n".to_string()));
        }
        if self.config.idempotent && !self.config.lies(Lie::Appends) {
            for (key, line) in lines {
                let name = key.iter().fold(String::new(), |mut name, byte| {
                    let _ = write!(name, "{byte:02x}");
                    name
                });
                self.put(&name, &line)?;
            }
            return Ok(Written::default());
        }
        let text: String = lines.into_iter().map(|(_, line)| line).collect();
        self.put(&self.free_name()?, &text)?;
        Ok(Written::default())
    }
}

export_sink!(Lying);

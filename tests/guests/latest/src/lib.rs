//! `latest`: a sink that keeps the latest row of every key, a file each in a granted directory. Idempotent: rows that come again after a
//! crash overwrite themselves.

use serde::Deserialize;
use std::collections::BTreeMap;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use tidegate_sdk::arrow::array::cast::AsArray;
use tidegate_sdk::arrow::array::types::Int64Type;
use tidegate_sdk::arrow::array::{Array, BinaryArray, RecordBatch};
use tidegate_sdk::arrow::schema::{DataType, Schema, SchemaRef};
use tidegate_sdk::changes::{Kind, key_columns, kind_column, kinds};
use tidegate_sdk::{Accepts, Error, Guarantee, Info, Result, Scope, Sink, SinkPlan, Written, export_sink};

/// The configuration.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct Config {
    dir: PathBuf,
}

struct Latest {
    dir: PathBuf,
    keys: Vec<usize>,
    /// What is to be done to the file of a key: written, or removed.
    pending: BTreeMap<String, Option<String>>,
}

/// A value as text: integers and text are all that this sink takes.
fn text(column: &dyn Array, row: usize) -> String {
    match column.data_type() {
        _ if column.is_null(row) => "null".to_string(),
        DataType::Int64 => column.as_primitive::<Int64Type>().value(row).to_string(),
        _ => column.as_string::<i32>().value(row).to_string(),
    }
}

impl Latest {
    fn line(&self, rows: &RecordBatch, row: usize) -> String {
        let kinds = kind_column(rows.schema_ref());
        let fields = rows.schema_ref().fields().iter().enumerate().filter(|(index, _)| Some(*index) != kinds);
        fields.map(|(index, field)| format!("{}={}", field.name(), text(rows.column(index), row))).collect::<Vec<_>>().join(" ")
    }

    /// A file name: two digits for every byte of the key's text.
    fn name(&self, rows: &RecordBatch, row: usize) -> String {
        let key = self.keys.iter().map(|index| text(rows.column(*index), row)).collect::<Vec<_>>().join("\0");
        key.bytes().map(|byte| format!("{byte:02x}")).collect()
    }
}

fn failed(path: &Path, error: &std::io::Error) -> Error {
    Error::fatal(format!("`{}`: {error}", path.display()))
}

impl Sink for Latest {
    type Config = Config;

    fn info() -> Info {
        Info::new(env!("CARGO_PKG_NAME"), env!("CARGO_PKG_VERSION"))
    }

    fn bind(_: &Config, _: &Scope, input: &Schema) -> Result<SinkPlan> {
        if key_columns(input).is_empty() {
            return Err(Error::config("rows of this output are final; this sink keeps the latest row of every key"));
        }
        for field in input.fields() {
            if !matches!(field.data_type(), DataType::Int64 | DataType::Utf8 | DataType::UInt8) {
                return Err(Error::config(format!("column `{}` is {}; cast it to int64 or string", field.name(), field.data_type())));
            }
        }
        Ok(SinkPlan::new(Guarantee::Idempotent).accepting(Accepts::Upsert).by_key())
    }

    fn open(config: Config, _: &Scope, input: &SchemaRef) -> Result<Self> {
        Ok(Latest { dir: config.dir, keys: key_columns(input), pending: BTreeMap::new() })
    }

    fn write(&mut self, rows: &RecordBatch, _: Option<&BinaryArray>) -> Result<Written> {
        let kinds = kinds(rows).ok_or_else(|| Error::fatal("the rows do not say what they do"))?;
        for row in 0..rows.num_rows() {
            let kept = match Kind::of(kinds.value(row))? {
                Kind::UpdateBefore => continue,
                Kind::Insert | Kind::UpdateAfter => Some(self.line(rows, row)),
                Kind::Delete => None,
            };
            self.pending.insert(self.name(rows, row), kept);
        }
        Ok(Written::default())
    }

    fn flush(&mut self) -> Result<Written> {
        // What is done leaves the list one by one, so that a failure leaves the rest for another call.
        while let Some((name, kept)) = self.pending.first_key_value() {
            let path = self.dir.join(name);
            match kept {
                Some(line) => {
                    let whole = path.with_extension("part");
                    fs::write(&whole, line).and_then(|()| fs::rename(&whole, &path)).map_err(|error| failed(&path, &error))?;
                }
                None => match fs::remove_file(&path) {
                    Err(error) if error.kind() != ErrorKind::NotFound => return Err(failed(&path, &error)),
                    Ok(()) | Err(_) => {}
                },
            }
            self.pending.pop_first();
        }
        Ok(Written::default())
    }
}

export_sink!(Latest);

//! Reads the lines of the files of a granted directory, in columns `file` and `line`.
//!
//! A file is a split, and the number of the byte to read next is the position in it. A line that is
//! no UTF-8, or too long, is a bad record: it costs itself, and reading goes on behind it.

mod lines;

use lines::{Line, Reading};
use serde::Deserialize;
use std::collections::VecDeque;
use std::fs;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use tidegate_sdk::arrow::array::{RecordBatch, StringArray};
use tidegate_sdk::arrow::schema::{DataType, Field, Schema};
use tidegate_sdk::{
    BadRecord, Chunk, Discovered, Error, Info, PollRequest, Polled, Result, Scope, Source,
    SourcePlan, Split, SplitState, export_source,
};

/// `config = { dir = "/in" }` in the pipeline file.
#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct Config {
    dir: PathBuf,
}

const SCHEMA: &str = r#"{
  "type": "object",
  "additionalProperties": false,
  "required": ["dir"],
  "properties": {
    "dir": { "type": "string", "description": "the directory, as the plugin sees it" }
  }
}"#;

const MANIFEST: &str = r#"{
  "description": "the lines of the files of a directory",
  "grants": { "dirs": ["HOST=/in"] }
}"#;

struct Lines {
    config: Config,
    /// Still to be read; the first one is next.
    splits: VecDeque<Reading>,
}

impl Source for Lines {
    type Config = Config;

    fn info() -> Info {
        Info::new(env!("CARGO_PKG_NAME"), env!("CARGO_PKG_VERSION"))
            .with_config_schema(SCHEMA)
            .with_manifest(MANIFEST)
    }

    /// Called while planning: what rows there will be. The input is what the directory has at the
    /// first start, so it ends.
    fn bind(config: &Config, _: &Scope, _: Option<&[String]>) -> Result<SourcePlan> {
        if !config.dir.is_dir() {
            let dir = config.dir.display();
            return Err(Error::config(format!(
                "`dir` is `{dir}`, and no such directory is granted; \
                 add `allow = {{ dirs = [\"HOST={dir}\"] }}` to the plugin"
            )));
        }
        Ok(SourcePlan::new(schema()).bounded(true))
    }

    /// Called at every start. The cursor says that the first one has named the files already.
    fn discover(config: &Config, _: &Scope, cursor: Option<&[u8]>) -> Result<Discovered> {
        if cursor.is_some() {
            return Ok(Discovered::default());
        }
        let mut added = Vec::new();
        for entry in fs::read_dir(&config.dir)? {
            let entry = entry?;
            let Ok(id) = entry.file_name().into_string() else {
                continue;
            };
            let metadata = entry.metadata()?;
            if metadata.is_file() && !id.starts_with('.') {
                // What is appended later is not read: a replay must give the same rows.
                let details = metadata.len().to_string().into_bytes();
                added.push(Split {
                    id,
                    details,
                    position: None,
                });
            }
        }
        added.sort_by(|one, other| one.id.cmp(&other.id));
        Ok(Discovered {
            added,
            gone: Vec::new(),
            cursor: Some(b"listed".to_vec()),
        })
    }

    fn open(config: Config, _: &Scope, _: Option<&[String]>) -> Result<Self> {
        Ok(Lines {
            config,
            splits: VecDeque::new(),
        })
    }

    /// Called with the splits of this task, at the positions that the last checkpoint has.
    fn assign(&mut self, splits: Vec<Split>) -> Result<()> {
        for split in splits {
            self.splits
                .push_back(Reading::new(&self.config.dir, split)?);
        }
        Ok(())
    }

    /// Called again and again. One file at a time gets the whole of a poll; then it is the next
    /// one's turn.
    fn poll(&mut self, request: PollRequest) -> Result<Polled> {
        let mut polled = Polled::default();
        let Some(mut reading) = self.splits.pop_front() else {
            polled.retry_after = Some(Duration::from_secs(1));
            return Ok(polled);
        };
        let (mut texts, mut bad, mut bytes) = (Vec::new(), Vec::new(), 0);
        while texts.len() + bad.len() < request.max_rows && bytes < request.max_bytes {
            let here = reading.position();
            match reading.next()? {
                None => break,
                Some(Line::Text(text)) => {
                    bytes += text.len();
                    texts.push(text);
                }
                Some(Line::Bad { raw, message }) => bad.push(BadRecord {
                    row: Some(texts.len() as u64),
                    position: here,
                    raw,
                    message: format!("file `{}`: {message}", reading.id()),
                }),
            }
        }
        // Bad records behind the last row stand before no row.
        let rows = texts.len() as u64;
        bad.iter_mut()
            .filter(|bad| bad.row == Some(rows))
            .for_each(|bad| bad.row = None);
        let mut chunk = Chunk::new(
            reading.id(),
            batch(reading.id(), texts)?,
            reading.position(),
        );
        chunk.bad = bad;
        polled.chunks.push(chunk);
        if reading.is_done() {
            polled
                .states
                .push((reading.id().to_owned(), SplitState::Finished));
        } else {
            self.splits.push_back(reading);
        }
        Ok(polled)
    }
}

fn schema() -> Schema {
    let column = |name: &str| Field::new(name, DataType::Utf8, false);
    Schema::new(vec![column("file"), column("line")])
}

fn batch(file: &str, lines: Vec<String>) -> Result<RecordBatch> {
    let files = StringArray::from_iter_values(std::iter::repeat_n(file, lines.len()));
    let lines = StringArray::from_iter_values(lines);
    Ok(RecordBatch::try_new(
        Arc::new(schema()),
        vec![Arc::new(files), Arc::new(lines)],
    )?)
}

export_source!(Lines);

#[cfg(test)]
mod tests;

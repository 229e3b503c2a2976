//! `lying-sink`: a sink of two phases that breaks one promise, `lie`, and keeps the others. Without a lie it is honest.
//!
//! It writes the integers of its first column as JSON lines into a granted directory: staged files lie in `.staged`, visible ones beside it.

use serde::Deserialize;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use tidegate_sdk::arrow::array::{Array, BinaryArray, Int64Array, RecordBatch};
use tidegate_sdk::arrow::schema::{DataType, Schema, SchemaRef};
use tidegate_sdk::{Error, Guarantee, Info, Outcome, Result, Scope, Sink, SinkPlan, Token, TwoPhaseSink, Written, export_two_phase_sink};

/// What is done wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Lie {
    /// A second commit shows the rows again.
    CommitAgain,
    /// A token names rows that only the instance has which made it.
    LocalToken,
    /// Rows are visible once they are prepared.
    Early,
    /// An epoch that was given up can be committed.
    AbortLeaves,
    /// A start undoes what other operators and runs prepared.
    RecoverOthers,
    /// An epoch without rows undoes the one before.
    EmptyEpochs,
    /// Every write keeps some memory.
    Leaks,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct Config {
    dir: PathBuf,
    #[serde(default)]
    lie: Option<Lie>,
}

impl Config {
    fn lies(&self, lie: Lie) -> bool {
        self.lie == Some(lie)
    }

    fn staged(&self, name: &str) -> PathBuf {
        self.dir.join(".staged").join(name)
    }

    fn shown(&self, name: &str) -> PathBuf {
        self.dir.join(name)
    }
}

thread_local! {
    /// What the lie `local-token` keeps to itself.
    static OWN: RefCell<BTreeMap<String, String>> = const { RefCell::new(BTreeMap::new()) };
}

fn failed(path: &Path) -> impl Fn(std::io::Error) -> Error {
    let place = path.display().to_string();
    move |error| Error::fatal(format!("`{place}`: {error}"))
}

fn put(path: &Path, text: &str) -> Result<()> {
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder).map_err(failed(folder))?;
    }
    fs::write(path, text).map_err(failed(path))
}

struct Lying {
    config: Config,
    scope: Scope,
    /// Lines taken since the last barrier.
    lines: String,
    /// What the epoch before was staged as.
    last: Option<String>,
    kept: Vec<Vec<u8>>,
}

impl Lying {
    fn prefix(&self) -> String {
        own(&self.scope, self.scope.generation)
    }
}

/// How names begin that one generation of an operator of a run makes.
fn own(scope: &Scope, generation: u64) -> String {
    format!("{}~{}~{generation}~", scope.run_id, scope.operator)
}

impl Sink for Lying {
    type Config = Config;

    fn info() -> Info {
        Info::new(env!("CARGO_PKG_NAME"), env!("CARGO_PKG_VERSION"))
    }

    fn bind(_: &Config, _: &Scope, input: &Schema) -> Result<SinkPlan> {
        match input.fields().first() {
            Some(field) if *field.data_type() == DataType::Int64 => Ok(SinkPlan::new(Guarantee::TwoPhase)),
            _ => Err(Error::config("the first column must be int64")),
        }
    }

    fn open(config: Config, scope: &Scope, _: &SchemaRef) -> Result<Self> {
        Ok(Lying { config, scope: scope.clone(), lines: String::new(), last: None, kept: Vec::new() })
    }

    fn write(&mut self, rows: &RecordBatch, _: Option<&BinaryArray>) -> Result<Written> {
        if self.config.lies(Lie::Leaks) {
            self.kept.push(vec![self.kept.len() as u8; 1 << 10]);
        }
        let column = rows.column(0).as_any().downcast_ref::<Int64Array>().ok_or_else(|| Error::fatal("the column has changed"))?;
        for value in column.iter() {
            let value = value.map_or_else(|| "null".to_string(), |value| value.to_string());
            let _ = writeln!(self.lines, "{{\"n\":{value}}}");
        }
        Ok(Written::default())
    }

    fn flush(&mut self) -> Result<Written> {
        Ok(Written::default())
    }
}

impl TwoPhaseSink for Lying {
    fn prepare(&mut self, epoch: u64) -> Result<Option<Token>> {
        if self.lines.is_empty() {
            if let Some(last) = self.last.take().filter(|_| self.config.lies(Lie::EmptyEpochs)) {
                let _ = fs::remove_file(self.config.staged(&last));
            }
            return Ok(None);
        }
        let text = std::mem::take(&mut self.lines);
        let name = format!("{}{epoch}-{}", self.prefix(), self.scope.index);
        match self.config.lie {
            Some(Lie::LocalToken) => drop(OWN.with_borrow_mut(|own| own.insert(name.clone(), text))),
            Some(Lie::Early) => put(&self.config.shown(&name), &text)?,
            _ => put(&self.config.staged(&name), &text)?,
        }
        self.last = Some(name.clone());
        Ok(Some(name.into_bytes()))
    }

    fn commit(config: &Config, _: &Scope, _: u64, tokens: &[Token]) -> Result<Vec<Outcome>> {
        let commit = |token: &Token| {
            let name = String::from_utf8_lossy(token).into_owned();
            if let Some(text) = OWN.with_borrow_mut(|own| own.remove(&name)) {
                put(&config.shown(&name), &text)?;
                return Ok(Outcome::Done);
            }
            let (staged, shown) = (config.staged(&name), config.shown(&name));
            if config.lies(Lie::CommitAgain) {
                let Ok(text) = fs::read_to_string(&staged) else { return Ok(Outcome::Lost) };
                let copy = (0..1000).map(|copy| config.shown(&format!("{name}.{copy}"))).find(|path| !path.exists());
                put(&copy.ok_or_else(|| Error::fatal("too many copies"))?, &text)?;
                return Ok(Outcome::Done);
            }
            if shown.exists() && !staged.exists() {
                return Ok(Outcome::AlreadyDone);
            }
            Ok(match fs::rename(&staged, &shown) {
                Ok(()) => Outcome::Done,
                // Somebody else was faster.
                Err(_) if shown.exists() => Outcome::AlreadyDone,
                Err(_) => Outcome::Lost,
            })
        };
        tokens.iter().map(commit).collect()
    }

    fn abort(config: &Config, _: &Scope, _: u64, tokens: &[Token]) -> Result<()> {
        if !config.lies(Lie::AbortLeaves) {
            for token in tokens {
                let _ = fs::remove_file(config.staged(&String::from_utf8_lossy(token)));
            }
        }
        Ok(())
    }

    fn recover(config: &Config, scope: &Scope, keep: &[Token]) -> Result<()> {
        let folder = config.dir.join(".staged");
        let Ok(entries) = fs::read_dir(&folder) else { return Ok(()) };
        for entry in entries {
            let name = entry.map_err(failed(&folder))?.file_name().to_string_lossy().into_owned();
            let older = (0..scope.generation).any(|generation| name.starts_with(&own(scope, generation)));
            let theirs = config.lies(Lie::RecoverOthers) && !name.starts_with(&format!("{}~{}~", scope.run_id, scope.operator));
            if (older || theirs) && !keep.iter().any(|kept| kept == name.as_bytes()) {
                let _ = fs::remove_file(folder.join(name));
            }
        }
        Ok(())
    }
}

export_two_phase_sink!(Lying);

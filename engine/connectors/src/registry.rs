//! The list of connectors, and how one is made by name.

use crate::stdin::StdinInput;
use crate::stdout::StdoutTarget;
use crate::{blackhole, files, kafka, nexmark, stdin, stdout, table};
use serde_json::{Map, Value};
use std::path::PathBuf;
use std::sync::Arc;
use tidegate_api::config::Problem;
use tidegate_api::nearest::hint;
use tidegate_api::{InlineSource, OutputSink};

/// What a connector is made with, beside its options.
#[derive(Clone)]
#[non_exhaustive]
pub struct ConnectorCtx {
    /// What relative paths are relative to: the folder of the pipeline file.
    pub base_dir: PathBuf,
    /// The dataset's name, for messages.
    pub dataset: String,
    /// The pipeline's name, from which defaults such as a consumer group are made; empty if the host gives none.
    pub pipeline: String,
    /// Where the `stdout` sink writes; the process's standard output unless a host puts something else here.
    pub stdout: StdoutTarget,
    /// What the `stdin` source reads; the process's standard input unless a host puts something else here.
    pub stdin: StdinInput,
}

impl ConnectorCtx {
    /// The context of one dataset.
    pub fn new(base_dir: impl Into<PathBuf>, dataset: impl Into<String>) -> Self {
        let (stdout, stdin) = (StdoutTarget::process(), StdinInput::process());
        ConnectorCtx { base_dir: base_dir.into(), dataset: dataset.into(), pipeline: String::new(), stdout, stdin }
    }

    /// Names the pipeline.
    #[must_use]
    pub fn with_pipeline(mut self, pipeline: impl Into<String>) -> Self {
        self.pipeline = pipeline.into();
        self
    }

    /// Sends what `stdout` sinks write somewhere else.
    #[must_use]
    pub fn with_stdout(mut self, stdout: StdoutTarget) -> Self {
        self.stdout = stdout;
        self
    }

    /// Reads what `stdin` sources read from somewhere else. Sources that are made one after the other must be given the same.
    #[must_use]
    pub fn with_stdin(mut self, stdin: StdinInput) -> Self {
        self.stdin = stdin;
        self
    }
}

/// One option, for people.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OptionDef {
    /// Its key.
    pub name: &'static str,
    /// The kind of value, such as `integer` or `json | csv`.
    pub kind: &'static str,
    /// What holds without it; empty if it must be there.
    pub default: &'static str,
    /// What it does.
    pub doc: &'static str,
}

/// Makes one half of a connector from its options, or answers every mistake in them.
pub type Build<T> = fn(&Map<String, Value>, &ConnectorCtx) -> Result<Arc<T>, Vec<Problem>>;

/// The reading half of a connector.
pub struct SourceDef {
    /// Its options.
    pub options: &'static [OptionDef],
    /// Makes it.
    pub build: Build<dyn InlineSource>,
}

/// The writing half of a connector.
pub struct SinkDef {
    /// Its options.
    pub options: &'static [OptionDef],
    /// What it promises, in a phrase.
    pub guarantee: &'static str,
    /// Makes it.
    pub build: Build<dyn OutputSink>,
}

/// Options whose values nobody else may see. In a pipeline file they stand by reference only.
pub struct Secrets {
    /// The option that is a table of them; none if they are options themselves.
    pub table: Option<&'static str>,
    /// Their keys.
    pub keys: &'static [&'static str],
}

/// One connector.
pub struct ConnectorDef {
    /// Its name in pipeline files.
    pub name: &'static str,
    /// What it is.
    pub doc: &'static str,
    /// Its reading half.
    pub source: Option<SourceDef>,
    /// Its writing half.
    pub sink: Option<SinkDef>,
    /// Which of its options are secrets.
    pub secrets: &'static [Secrets],
}

/// Every native connector.
pub const CONNECTORS: &[&ConnectorDef] = &[
    &files::CONNECTOR,
    &kafka::CONNECTOR,
    &stdin::CONNECTOR,
    &stdout::CONNECTOR,
    &blackhole::CONNECTOR,
    &nexmark::CONNECTOR,
    &table::CONNECTOR,
];

/// Makes the source `connector` from its options.
///
/// # Errors
/// Every mistake in the options, each at its key; an unknown connector, or one that does not read, with the nearest that does.
pub fn source(connector: &str, options: &Map<String, Value>, cx: &ConnectorCtx) -> Result<Arc<dyn InlineSource>, Vec<Problem>> {
    match find(connector).map(|found| found.source.as_ref()) {
        Some(Some(found)) => (found.build)(options, cx),
        Some(None) => Err(vec![Problem::at("connector", format!("`{connector}` cannot be read, it only writes"))]),
        None => Err(vec![unknown(connector, "connector", |found| found.source.is_some())]),
    }
}

/// Makes the sink `connector` from its options.
///
/// # Errors
/// Every mistake in the options, each at its key; an unknown connector, or one that does not write, with the nearest that does.
pub fn sink(connector: &str, options: &Map<String, Value>, cx: &ConnectorCtx) -> Result<Arc<dyn OutputSink>, Vec<Problem>> {
    match find(connector).map(|found| found.sink.as_ref()) {
        Some(Some(found)) => (found.build)(options, cx),
        Some(None) => Err(vec![Problem::at("sink", format!("`{connector}` cannot be written to, it only reads"))]),
        None => Err(vec![unknown(connector, "sink", |found| found.sink.is_some())]),
    }
}

/// Which options of `connector` are secrets; none of an unknown one.
pub fn secrets(connector: &str) -> &'static [Secrets] {
    find(connector).map_or(&[], |found| found.secrets)
}

/// The connector of a name; `file` and `arrow` are older names of `files`.
fn find(name: &str) -> Option<&'static ConnectorDef> {
    let name = if matches!(name, "file" | "arrow") { "files" } else { name };
    CONNECTORS.iter().copied().find(|connector| connector.name == name)
}

fn unknown(name: &str, key: &str, fits: impl Fn(&ConnectorDef) -> bool) -> Problem {
    let known = CONNECTORS.iter().filter(|connector| fits(connector)).map(|connector| connector.name);
    Problem::at(key, format!("unknown connector `{name}`{}", hint(name, known)))
}

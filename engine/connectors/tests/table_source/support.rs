//! Databases to change, and a reader that applies what it is handed.

use arrow::array::{Array, AsArray, RecordBatch};
use arrow::datatypes::UInt8Type;
use arrow::util::display::{ArrayFormatter, FormatOptions};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};
use tidegate_api::{
    Generation, InlineSource, PollRequest, Result, RunId, RunIdentity, SourceCtx, SourceReader, SourceRequest, SplitState, hidden,
};
use tidegate_connectors::ConnectorCtx;

/// How long anything may take.
const PATIENCE: Duration = Duration::from_secs(60);

#[allow(clippy::disallowed_methods, reason = "a test has a deadline")]
pub(crate) fn now() -> Instant {
    Instant::now()
}

/// Something that runs statements.
pub(crate) trait Base {
    fn run(&self, sql: &str);
    /// The options that say where it is.
    fn url(&self) -> String;
    /// The folder that paths are relative to.
    fn folder(&self) -> PathBuf;
    /// A name that no other test uses.
    fn table(&self) -> &str;
}

/// A file of its own.
pub(crate) struct Sqlite {
    folder: tempfile::TempDir,
}

impl Sqlite {
    pub(crate) fn new() -> Self {
        Sqlite { folder: tempfile::tempdir().unwrap() }
    }

    pub(crate) fn path(&self) -> PathBuf {
        self.folder.path().join("shop.db")
    }
}

impl Base for Sqlite {
    fn run(&self, sql: &str) {
        let connection = rusqlite::Connection::open(self.path()).unwrap();
        connection.busy_timeout(PATIENCE).unwrap();
        connection.execute_batch(sql).unwrap();
    }

    fn url(&self) -> String {
        "sqlite:shop.db".to_string()
    }

    fn folder(&self) -> PathBuf {
        self.folder.path().to_path_buf()
    }

    fn table(&self) -> &str {
        "products"
    }
}

/// A table of its own on the server that is there.
pub(crate) struct Postgres {
    runtime: tokio::runtime::Runtime,
    client: tokio_postgres::Client,
    url: String,
    table: String,
}

impl Postgres {
    pub(crate) fn new() -> Self {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let url = std::env::var("TIDEGATE_TEST_POSTGRES")
            .expect("set TIDEGATE_TEST_POSTGRES=postgres://… to the database that these tests may use");
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let (client, connection) = runtime.block_on(tokio_postgres::connect(&url, tokio_postgres::NoTls)).unwrap();
        runtime.spawn(connection);
        let table = format!("products_{}_{}", std::process::id(), NUMBER.fetch_add(1, Ordering::Relaxed));
        Postgres { runtime, client, url, table }
    }
}

impl Drop for Postgres {
    fn drop(&mut self) {
        self.run(&format!("DROP TABLE IF EXISTS {}", self.table));
    }
}

impl Base for Postgres {
    fn run(&self, sql: &str) {
        self.runtime.block_on(self.client.batch_execute(sql)).unwrap();
    }

    fn url(&self) -> String {
        self.url.clone()
    }

    fn folder(&self) -> PathBuf {
        PathBuf::from(".")
    }

    fn table(&self) -> &str {
        &self.table
    }
}

/// The options of a dataset over a base, with others over them.
pub(crate) fn options(base: &dyn Base, more: Value) -> Value {
    let mut options = json!({ "url": base.url(), "key": "id", "refresh": "10ms" });
    if more.get("query").is_none() {
        options["table"] = json!(base.table());
    }
    for (key, value) in more.as_object().unwrap() {
        options[key] = value.clone();
    }
    options.as_object_mut().unwrap().retain(|_, value| !value.is_null());
    options
}

pub(crate) fn source_at(folder: &Path, options: &Value) -> Arc<dyn InlineSource> {
    tidegate_connectors::source("table", options.as_object().unwrap(), &ConnectorCtx::new(folder, "products")).unwrap()
}

pub(crate) fn source(base: &dyn Base, more: Value) -> Arc<dyn InlineSource> {
    source_at(&base.folder(), &options(base, more))
}

/// The table as whoever reads the source has it: per key, the other columns.
pub(crate) struct Follower {
    reader: Box<dyn SourceReader>,
    key: Vec<String>,
    pub(crate) table: BTreeMap<String, String>,
    /// Rows handed over.
    pub(crate) rows: usize,
    pub(crate) readings: usize,
    max_rows: usize,
}

impl Follower {
    pub(crate) fn new(source: &dyn InlineSource, max_rows: usize) -> Self {
        Follower::asking(source, SourceRequest::all(), max_rows)
    }

    pub(crate) fn asking(source: &dyn InlineSource, request: SourceRequest, max_rows: usize) -> Self {
        let plan = source.plan(&request).unwrap();
        assert!(plan.reloads && plan.max_parallelism == Some(1));
        let tidegate_api::ChangeMode::Upsert { keys: key } = &plan.mode else { panic!("its rows replace each other") };
        let start = source.discover(None).unwrap();
        assert!(start.complete && start.added.len() == 1);
        let run = RunIdentity::new("p", RunId::new("r"), Generation(1), "products");
        let ctx = SourceCtx::new(run).with_start(start.added).with_request(request.with_pinned(plan.pinned.clone()));
        let reader = source.open(ctx).unwrap();
        Follower { reader, key: key.clone(), table: BTreeMap::new(), rows: 0, readings: 0, max_rows }
    }

    /// Takes what is there.
    pub(crate) fn poll(&mut self) -> Result<()> {
        let polled = self.reader.poll(PollRequest { max_rows: self.max_rows, max_bytes: 1 << 20, wait: Duration::ZERO })?;
        assert!(polled.chunks.iter().map(|chunk| chunk.rows.num_rows()).sum::<usize>() <= self.max_rows);
        for chunk in polled.chunks {
            self.apply(&chunk.rows);
        }
        self.readings += polled.states.iter().filter(|(_, state)| *state == SplitState::CaughtUp).count();
        if polled.retry_after.is_some() {
            std::thread::park_timeout(Duration::from_millis(2));
        }
        Ok(())
    }

    fn apply(&mut self, rows: &RecordBatch) {
        self.rows += rows.num_rows();
        let ops = rows.column_by_name(hidden::OP).unwrap().as_primitive::<UInt8Type>().clone();
        for row in 0..rows.num_rows() {
            let cell = |column: &str| {
                let options = FormatOptions::default().with_null("null");
                ArrayFormatter::try_new(rows.column_by_name(column).unwrap().as_ref(), &options).unwrap().value(row).to_string()
            };
            let key = self.key.iter().map(|column| cell(column)).collect::<Vec<_>>().join(",");
            let names = rows.schema().fields().iter().map(|field| field.name().clone()).collect::<Vec<_>>();
            let rest = names.iter().filter(|name| !self.key.contains(name) && *name != hidden::OP);
            let rest = rest.map(|name| cell(name)).collect::<Vec<_>>().join(",");
            match ops.value(row) {
                hidden::UPSERT => {
                    self.table.insert(key, rest);
                }
                _ => {
                    assert!(self.table.remove(&key).is_some(), "a delete of {key}, which was not there");
                }
            }
        }
        assert_eq!(ops.null_count(), 0);
    }

    /// Polls until it is so.
    pub(crate) fn until(&mut self, what: &str, mut is_so: impl FnMut(&Follower) -> bool) {
        let end = now() + PATIENCE;
        while !is_so(self) {
            assert!(now() < end, "{what} did not happen: {:?}", self.table.iter().take(20).collect::<Vec<_>>());
            self.poll().unwrap();
        }
    }

    /// Polls until a reading that began after this call is complete. What waits to be taken may be of readings before it: two messages, one
    /// in hand, and the reading that is under way.
    pub(crate) fn settle(&mut self) {
        let enough = self.readings + 5;
        self.until("a reading", |follower| follower.readings >= enough);
    }

    /// Polls until an error comes.
    pub(crate) fn error(&mut self) -> tidegate_api::Error {
        let end = now() + PATIENCE;
        loop {
            assert!(now() < end, "no error came");
            if let Err(error) = self.poll() {
                return error;
            }
        }
    }
}

//! Databases with a table of channels.

use std::path::PathBuf;
use std::time::Duration;

/// Something that runs statements.
pub(crate) trait Base {
    fn run(&self, sql: &str);
    /// Where it is, for the pipeline file.
    fn url(&self) -> String;
    fn table(&self) -> &str;
}

const COLUMNS: &str = "(channel TEXT PRIMARY KEY, label TEXT NOT NULL)";

/// A file of its own.
pub(crate) struct Sqlite {
    folder: tempfile::TempDir,
}

impl Sqlite {
    pub(crate) fn new() -> Self {
        let base = Sqlite { folder: tempfile::tempdir().unwrap() };
        base.run(&format!("CREATE TABLE channels {COLUMNS}"));
        base
    }

    pub(crate) fn path(&self) -> PathBuf {
        self.folder.path().join("shop.db")
    }
}

impl Base for Sqlite {
    fn run(&self, sql: &str) {
        let connection = rusqlite::Connection::open(self.path()).unwrap();
        connection.busy_timeout(Duration::from_secs(60)).unwrap();
        connection.execute_batch(&format!("BEGIN; {sql}; COMMIT")).unwrap();
    }

    fn url(&self) -> String {
        format!("sqlite:{}", self.path().display())
    }

    fn table(&self) -> &str {
        "channels"
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
        let url = std::env::var("TIDEGATE_TEST_POSTGRES").expect("TIDEGATE_TEST_POSTGRES says where the server is");
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let (client, connection) = runtime.block_on(tokio_postgres::connect(&url, tokio_postgres::NoTls)).unwrap();
        runtime.spawn(connection);
        let thread = format!("{:?}", std::thread::current().id()).replace(|c: char| !c.is_ascii_digit(), "");
        let base = Postgres { runtime, client, url, table: format!("channels_{}_{thread}", std::process::id()) };
        base.run(&format!("CREATE TABLE {} {COLUMNS}", base.table));
        base
    }
}

impl Drop for Postgres {
    fn drop(&mut self) {
        self.run(&format!("DROP TABLE {}", self.table));
    }
}

impl Base for Postgres {
    fn run(&self, sql: &str) {
        self.runtime.block_on(self.client.batch_execute(&format!("BEGIN; {sql}; COMMIT"))).unwrap();
    }

    fn url(&self) -> String {
        self.url.clone()
    }

    fn table(&self) -> &str {
        &self.table
    }
}

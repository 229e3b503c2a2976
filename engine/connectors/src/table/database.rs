//! The two databases behind one face, and what may go wrong with either.

use super::address::Address;
use super::config::TableConfig;
use super::differ::Differ;
use super::relation::{Found, Relation};
use super::{postgres, sqlite};
use arrow::datatypes::SchemaRef;
use std::time::Duration;
use tidegate_api::Error;

/// Why something was not read.
#[derive(Debug)]
pub(super) enum Failure {
    /// It will not be otherwise: the table is not what it should be.
    Final(Error),
    /// The database refuses who asks. Before the first answer that is a mistake; later it counts as being away.
    Refused(Error),
    /// The database is away, or not well.
    Away(Error),
    /// Its rows were not taken for so long that the database is let go; what was read is not lost.
    Held,
    /// Nobody wants it any more.
    Stopped,
}

impl Failure {
    /// The error, where nothing is tried again.
    pub(super) fn into_error(self) -> Error {
        match self {
            Failure::Final(error) | Failure::Refused(error) | Failure::Away(error) => error,
            Failure::Held | Failure::Stopped => Error::internal("a table was not read to its end because nobody wanted it"),
        }
    }

    /// Says where it happened.
    pub(super) fn at(self, place: &str) -> Self {
        match self {
            Failure::Final(error) => Failure::Final(error.context(place)),
            Failure::Refused(error) => Failure::Refused(error.context(place)),
            Failure::Away(error) => Failure::Away(error.context(place)),
            Failure::Held => Failure::Held,
            Failure::Stopped => Failure::Stopped,
        }
    }
}

/// One reading of the table.
#[derive(Debug, Clone)]
pub(super) struct Scan {
    pub(super) relation: Relation,
    /// The columns that are read.
    pub(super) schema: SchemaRef,
    /// Those of the key.
    pub(super) keys: SchemaRef,
    /// The column by which a changed row is known.
    pub(super) version: Option<String>,
}

/// The newest version of a reading, in the database's own form.
pub(super) enum Version {
    Postgres(postgres::Newest),
    Sqlite(rusqlite::types::Value),
}

impl Scan {
    /// Reads all rows.
    pub(super) fn all(&self) -> String {
        self.relation.statement(Some(names(&self.schema)))
    }

    /// Reads the key of all rows.
    pub(super) fn all_keys(&self) -> String {
        self.relation.statement(Some(names(&self.keys)))
    }

    /// Reads rows of a version or later.
    pub(super) fn since(&self, version: &str, parameter: &str) -> String {
        self.relation.since(names(&self.schema), version, parameter)
    }
}

fn names(schema: &SchemaRef) -> impl Iterator<Item = &str> {
    schema.fields().iter().map(|field| field.name().as_str())
}

/// The columns that there are.
pub(super) async fn describe(config: &TableConfig) -> Result<Vec<Found>, Failure> {
    let place = config.address.to_string();
    let found = match &config.address {
        Address::Sqlite(path) => sqlite::describe(path, config.timeout, &config.relation),
        Address::Postgres(server) => postgres::describe(server, config.timeout, &config.relation).await,
    };
    found.map_err(|failure| failure.at(&place))
}

/// Reads the table in one snapshot of the database: all of it, or what is of version `since` or later and all keys. Answers the newest version.
pub(super) async fn scan(
    config: &TableConfig,
    scan: &Scan,
    since: Option<&Version>,
    differ: &mut Differ,
    halt: &sqlite::Halt,
) -> Result<Option<Version>, Failure> {
    let place = config.address.to_string();
    let done = match &config.address {
        Address::Sqlite(path) => {
            let since = since.and_then(|since| if let Version::Sqlite(since) = since { Some(since) } else { None });
            sqlite::scan(path, config.timeout, scan, since, differ, halt).await.map(|newest| newest.map(Version::Sqlite))
        }
        Address::Postgres(server) => {
            let since = since.and_then(|since| if let Version::Postgres(since) = since { Some(since) } else { None });
            postgres::scan(server, config.timeout, scan, since, differ).await.map(|newest| newest.map(Version::Postgres))
        }
    };
    done.map_err(|failure| failure.at(&place))
}

/// Runs a question of the planner's. It may stand on a thread that drives futures itself, so that this one needs its own.
pub(super) fn ask<T: Send>(question: impl AsyncFnOnce() -> Result<T, Failure> + Send) -> tidegate_api::Result<T> {
    std::thread::scope(|scope| {
        let asked = std::thread::Builder::new().name("table".to_string()).spawn_scoped(scope, || {
            let runtime = runtime()?;
            let answer = runtime.block_on(question()).map_err(Failure::into_error);
            // A name that is being resolved is not waited for.
            runtime.shutdown_timeout(Duration::ZERO);
            answer
        });
        let asked = asked.map_err(|error| Error::external("no thread for a question to a database").caused_by(error))?;
        asked.join().unwrap_or_else(|_| Err(Error::internal("a question to a database panicked")))
    })
}

/// What drives the futures of one thread.
pub(super) fn runtime() -> tidegate_api::Result<tokio::runtime::Runtime> {
    let built = tokio::runtime::Builder::new_current_thread().enable_all().build();
    built.map_err(|error| Error::external("nothing can wait for a database on this machine").caused_by(error))
}

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
    /// Nobody wants it any more.
    Stopped,
}

impl Failure {
    /// The error, where nothing is tried again.
    pub(super) fn into_error(self) -> Error {
        match self {
            Failure::Final(error) | Failure::Refused(error) | Failure::Away(error) => error,
            Failure::Stopped => Error::internal("a table was not read to its end because nobody wanted it"),
        }
    }

    /// Says where it happened.
    pub(super) fn at(self, place: &str) -> Self {
        match self {
            Failure::Final(error) => Failure::Final(error.context(place)),
            Failure::Refused(error) => Failure::Refused(error.context(place)),
            Failure::Away(error) => Failure::Away(error.context(place)),
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
}

impl Scan {
    /// Its statement.
    pub(super) fn statement(&self) -> String {
        self.relation.statement(Some(self.schema.fields().iter().map(|field| field.name().as_str())))
    }
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

/// Reads the table in one snapshot of the database.
pub(super) async fn scan(config: &TableConfig, scan: &Scan, differ: &mut Differ, halt: &sqlite::Halt) -> Result<(), Failure> {
    let place = config.address.to_string();
    let done = match &config.address {
        Address::Sqlite(path) => sqlite::scan(path, config.timeout, scan, differ, halt).await,
        Address::Postgres(server) => postgres::scan(server, config.timeout, scan, differ).await,
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

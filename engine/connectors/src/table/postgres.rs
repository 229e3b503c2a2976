//! PostgreSQL: one connection per reading, one transaction with one snapshot, rows in portions. Every wait has a deadline of ours: a
//! server that is frozen or unplugged sends none of its own.

use super::address::{Security, Server};
use super::database::{Failure, Scan};
use super::differ::Differ;
use super::relation::{Found, Relation, still};
use super::tls;
use super::wire::{self, Form, Raw};
use crate::decode::{Value, ValueRows};
use arrow::datatypes::{DataType, Field, SchemaRef};
use std::error::Error as _;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;
use tidegate_api::Error;
use tokio::task::JoinHandle;
use tokio_postgres::config::SslMode;
use tokio_postgres::error::SqlState;
use tokio_postgres::types::private::BytesMut;
use tokio_postgres::types::{IsNull, ToSql, Type};
use tokio_postgres::{Client, Config, IsolationLevel, NoTls, Row, Statement, Transaction};

/// Rows that are asked for at a time. All of them are in memory at once, so that wide ones must not be too many.
const PORTION: i32 = 1024;
/// Rows, and about as many bytes, that are compared at a time.
const BATCH_ROWS: usize = 8192;
const BATCH_BYTES: usize = 4 << 20;

/// A connection, and the task that drives it, which ends with it.
struct Session {
    client: Client,
    driver: JoinHandle<()>,
}

impl Drop for Session {
    fn drop(&mut self) {
        self.driver.abort();
    }
}

/// The columns that there are.
pub(super) async fn describe(server: &Server, timeout: Duration, relation: &Relation) -> Result<Vec<Found>, Failure> {
    let session = connect(server, timeout).await?;
    let statement = relation.statement(None::<std::iter::Empty<&str>>);
    let prepared = within(timeout, "describing the table", session.client.prepare(&statement)).await?;
    Ok(columns(&prepared))
}

fn columns(statement: &Statement) -> Vec<Found> {
    let found = |column: &tokio_postgres::Column| {
        let (shown, natural) = wire::natural(column);
        Found { name: column.name().to_string(), shown, natural }
    };
    statement.columns().iter().map(found).collect()
}

/// A version as it travels, and its type.
pub(super) struct Newest {
    raw: Vec<u8>,
    of: Type,
}

/// Gives the bytes of a version back as they came.
#[derive(Debug)]
struct AsItCame<'a>(&'a [u8]);

impl ToSql for AsItCame<'_> {
    fn to_sql(&self, _: &Type, out: &mut BytesMut) -> Result<IsNull, Box<dyn std::error::Error + Sync + Send>> {
        out.extend_from_slice(self.0);
        Ok(IsNull::No)
    }

    fn accepts(_: &Type) -> bool {
        true
    }

    tokio_postgres::types::to_sql_checked!();
}

/// Reads the table in one snapshot; see [`super::database::scan`].
pub(super) async fn scan(
    server: &Server,
    timeout: Duration,
    scan: &Scan,
    since: Option<&Newest>,
    differ: &mut Differ,
) -> Result<Option<Newest>, Failure> {
    let mut session = connect(server, timeout).await?;
    let begin = session.client.build_transaction().isolation_level(IsolationLevel::RepeatableRead).read_only(true).start();
    let transaction = within(timeout, "beginning", begin).await?;
    let reading = Reading { transaction: &transaction, timeout, scan };
    let newest = match &scan.version {
        Some(version) => reading.newest(version).await?,
        None => None,
    };
    let is_known = match (&scan.version, since) {
        (Some(version), Some(since)) => reading.since(version, since, differ).await?,
        _ => false,
    };
    if !is_known {
        differ.begin();
        let all = within(timeout, "preparing the reading", transaction.prepare(&scan.all())).await?;
        reading.rows(&all, &[], differ).await?;
    }
    within(timeout, "ending", transaction.commit()).await?;
    Ok(newest)
}

/// One transaction.
struct Reading<'a> {
    transaction: &'a Transaction<'a>,
    timeout: Duration,
    scan: &'a Scan,
}

impl Reading<'_> {
    async fn newest(&self, version: &str) -> Result<Option<Newest>, Failure> {
        let newest = self.scan.relation.newest(version);
        let newest = within(self.timeout, "preparing the newest version", self.transaction.prepare(&newest)).await?;
        let of = newest.columns()[0].type_().clone();
        let row = within(self.timeout, "reading the newest version", self.transaction.query_one(&newest, &[])).await?;
        let raw: Option<Raw<'_>> = row.try_get(0).map_err(|error| failure("reading the newest version", &error))?;
        Ok(raw.map(|Raw(raw)| Newest { raw: raw.to_vec(), of }))
    }

    /// Reads the rows that are as new, and all keys. Answers whether nothing else is to be read.
    async fn since(&self, version: &str, since: &Newest, differ: &mut Differ) -> Result<bool, Failure> {
        let newer = self.scan.since(version, "$1");
        let types = [since.of.clone()];
        let newer = within(self.timeout, "preparing the reading", self.transaction.prepare_typed(&newer, &types)).await?;
        self.rows(&newer, &[&AsItCame(&since.raw)], differ).await?;
        let keys = within(self.timeout, "preparing the reading of keys", self.transaction.prepare(&self.scan.all_keys())).await?;
        let mut decoding = Decoding::new(&keys, &self.scan.keys)?;
        let portal = within(self.timeout, "beginning to read keys", self.transaction.bind(&keys, &[])).await?;
        let mut is_known = true;
        while is_known {
            let rows = within(self.timeout, "reading keys", self.transaction.query_portal(&portal, PORTION)).await?;
            for row in &rows {
                decoding.take(row)?;
            }
            is_known = differ.take_keys(&mut decoding.rows)?;
            if rows.len() < PORTION as usize {
                break;
            }
        }
        Ok(is_known)
    }

    /// Reads rows.
    async fn rows(&self, statement: &Statement, parameters: &[&(dyn ToSql + Sync)], differ: &mut Differ) -> Result<(), Failure> {
        still(&self.scan.relation, &columns(statement), &self.scan.schema)?;
        let mut decoding = Decoding::new(statement, &self.scan.schema)?;
        let portal = within(self.timeout, "beginning to read", self.transaction.bind(statement, parameters)).await?;
        loop {
            let rows = within(self.timeout, "reading", self.transaction.query_portal(&portal, PORTION)).await?;
            for row in &rows {
                decoding.take(row)?;
                if decoding.is_full() {
                    decoding.hand_over(differ).await?;
                }
            }
            if rows.len() < PORTION as usize {
                break;
            }
        }
        decoding.hand_over(differ).await
    }
}

/// From rows to columns.
struct Decoding {
    /// Per column, how it is read, and whether it is text here.
    forms: Vec<(Form, bool)>,
    rows: ValueRows,
    bytes: usize,
    scratch: String,
}

impl Decoding {
    fn new(statement: &Statement, schema: &SchemaRef) -> Result<Self, Failure> {
        let mut forms = Vec::with_capacity(statement.columns().len());
        for (column, field) in statement.columns().iter().zip(schema.fields()) {
            let field: &Field = field;
            let form = wire::form(column.type_());
            let form =
                form.ok_or_else(|| Failure::Final(Error::internal(format!("column `{}` was checked and cannot be read", field.name()))))?;
            forms.push((form, *field.data_type() == DataType::Utf8View));
        }
        let rows = ValueRows::new(Arc::clone(schema), "the table").map_err(Failure::Final)?;
        Ok(Decoding { forms, rows, bytes: 0, scratch: String::new() })
    }

    fn take(&mut self, row: &Row) -> Result<(), Failure> {
        for (column, (form, as_text)) in self.forms.iter().enumerate() {
            let raw: Option<Raw<'_>> = row.try_get(column).map_err(|error| failure("reading a row", &error))?;
            let value = match raw {
                None => Value::Null,
                Some(Raw(raw)) => {
                    self.bytes += raw.len();
                    wire::value(*form, raw, *as_text, &mut self.scratch)
                }
            };
            self.rows.append(column, value);
        }
        self.rows.end_row();
        Ok(())
    }

    fn is_full(&self) -> bool {
        self.rows.len() >= BATCH_ROWS || self.bytes >= BATCH_BYTES
    }

    async fn hand_over(&mut self, differ: &mut Differ) -> Result<(), Failure> {
        self.bytes = 0;
        differ.take(&mut self.rows).await
    }
}

async fn connect(server: &Server, timeout: Duration) -> Result<Session, Failure> {
    let mut config = Config::new();
    config.host(&server.host).port(server.port).dbname(&server.database).user(&server.user).application_name("tidegate");
    config.connect_timeout(timeout).tcp_user_timeout(timeout).keepalives_idle(Duration::from_secs(30));
    if let Some(password) = &server.password {
        config.password(password);
    }
    config.ssl_mode(match server.security {
        Security::Disable => SslMode::Disable,
        Security::Prefer => SslMode::Prefer,
        Security::Require | Security::VerifyCa | Security::VerifyFull => SslMode::Require,
    });
    let session = if server.security == Security::Disable {
        let (client, connection) = within(timeout, "connecting", config.connect(NoTls)).await?;
        Session { client, driver: tokio::spawn(drive(connection)) }
    } else {
        let tls = tls::connector(server).map_err(Failure::Final)?;
        let (client, connection) = within(timeout, "connecting", config.connect(tls)).await?;
        Session { client, driver: tokio::spawn(drive(connection)) }
    };
    // So that the server does not go on with what nobody waits for any more.
    let millis = timeout.as_millis().clamp(1, i32::MAX as u128);
    let settings = format!("SET statement_timeout = {millis}; SET idle_in_transaction_session_timeout = 0");
    within(timeout, "setting up the connection", session.client.batch_execute(&settings)).await?;
    Ok(session)
}

/// Moves what the client says and hears. What it ends with, the client says too.
async fn drive(connection: impl Future<Output = Result<(), tokio_postgres::Error>>) {
    let _ = connection.await;
}

/// Waits for an answer, for so long.
async fn within<T>(timeout: Duration, what: &str, answer: impl Future<Output = Result<T, tokio_postgres::Error>>) -> Result<T, Failure> {
    match tokio::time::timeout(timeout, answer).await {
        Ok(Ok(answer)) => Ok(answer),
        Ok(Err(error)) => Err(failure(what, &error)),
        Err(_) => Err(Failure::Away(Error::external(format!("{what}: no answer within {timeout:?}")))),
    }
}

/// What an error of the client says about the next attempt.
fn failure(what: &str, error: &tokio_postgres::Error) -> Failure {
    let told = Told(error).to_string();
    let Some(code) = error.code() else {
        return Failure::Away(Error::external(format!("{what}: {told}")));
    };
    if *code == SqlState::INSUFFICIENT_PRIVILEGE || code.code().starts_with("28") || code.code().starts_with("3D") {
        return Failure::Refused(Error::config(format!("{what}: {told}")));
    }
    // Names, types and syntax, and what a query computes wrongly of its rows: the same statement is answered so again.
    if ["42", "22", "0A", "3F"].iter().any(|class| code.code().starts_with(class)) {
        return Failure::Final(Error::config(format!("{what}: {told}")));
    }
    Failure::Away(Error::external(format!("{what}: {told}")))
}

/// The whole story of an error: what the server says, with its hint, or the causes one by one.
struct Told<'a>(&'a tokio_postgres::Error);

impl fmt::Display for Told<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(said) = self.0.as_db_error() {
            write!(f, "{} ({})", said.message(), said.code().code())?;
            return said.hint().map_or(Ok(()), |hint| write!(f, "; {hint}"));
        }
        write!(f, "{}", self.0)?;
        let mut cause = self.0.source();
        while let Some(error) = cause {
            write!(f, ": {error}")?;
            cause = error.source();
        }
        Ok(())
    }
}

//! The `table` connector: a table of a database beside a stream, for `lookupJoin`.
//!
//! The database is the truth. Every start reads the table anew and whole, in one snapshot of the database, and hands over its rows; each
//! refresh reads it again and hands over what differs, deletes included. Nothing of it is gone on with after a crash, so nothing can be
//! left over from before one. `docs/design/0008-tables.md` says why that is enough, and what happens when something fails.
//!
//! | file | what |
//! |---|---|
//! | `config.rs`, `options.rs` | the keys of the dataset |
//! | `address.rs` | where the database is, from its `url` |
//! | `relation.rs` | what is read: a table or a query, its columns, the statement |
//! | `postgres.rs`, `wire.rs`, `tls.rs` | PostgreSQL: asking, the values on the wire, encryption |
//! | `sqlite.rs` | SQLite |
//! | `differ.rs` | rows in, changes out |
//! | `loader.rs` | the thread that reads, again and again |
//! | `source.rs`, `reader.rs` | the source, and what its task polls |

mod address;
mod config;
mod database;
mod differ;
mod loader;
mod options;
mod postgres;
mod reader;
mod relation;
mod source;
mod sqlite;
mod tls;
mod wire;

use crate::registry::{ConnectorDef, Secrets, SourceDef};

pub use source::TableSource;

/// The connector, for the list of all.
pub const CONNECTOR: ConnectorDef = ConnectorDef {
    name: "table",
    doc: "A table of PostgreSQL or SQLite, looked up by key: the second input of a `lookupJoin`, and nothing else. Every start reads it anew and \
          whole, and the stream waits until it is there; with `refresh` it is read again and again, each time in one snapshot of the \
          database, and only what was inserted, updated or deleted since travels on. While the database is away the table stays as it is, up \
          to `maxStaleness`. It does not keep a run from ending ([more](#table-what-is-read-and-when)).",
    source: Some(SourceDef { options: options::OPTIONS, build: source::build }),
    sink: None,
    secrets: &[Secrets { table: None, keys: &["password"] }],
};

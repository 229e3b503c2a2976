//! The options, as `docs/connectors.md` shows them.

use crate::registry::OptionDef;

pub(super) const OPTIONS: &[OptionDef] = &[
    OptionDef {
        name: "url",
        kind: "`postgres://USER@HOST:PORT/DATABASE` \\| `sqlite:PATH`",
        default: "",
        doc: "the database; a path is relative to the pipeline file. PostgreSQL: `?sslmode=disable \\| prefer \\| require \\| verify-ca \\| \
              verify-full` (default `prefer`) and `sslrootcert=PATH`. A password stands in it by reference only",
    },
    OptionDef {
        name: "password",
        kind: "text",
        default: "that of `url`",
        doc: "postgres: the password, by reference only; may hold characters that a URL would have to escape",
    },
    OptionDef { name: "table", kind: "text", default: "one of two", doc: "the table or view, `NAME` or `SCHEMA.NAME`; this or `query`" },
    OptionDef { name: "query", kind: "text", default: "one of two", doc: "a `SELECT` whose rows are the table" },
    OptionDef {
        name: "key",
        kind: "column or list of columns",
        default: "",
        doc: "what a row is looked up by; the same columns as the key of the `lookupJoin`. No two rows may share one, and none may be null",
    },
    OptionDef {
        name: "refresh",
        kind: "duration",
        default: "read once",
        doc: "how often the table is read again; a change is seen after at most this and the time that reading takes",
    },
    OptionDef {
        name: "versionColumn",
        kind: "column",
        default: "none",
        doc: "a column that grows whenever a row changes: a refresh then reads the rows whose version is the newest known or later, and of the \
              others the key alone",
    },
    OptionDef {
        name: "fullRefresh",
        kind: "duration",
        default: "10 times `refresh`",
        doc: "with `versionColumn`: how often all rows are read all the same, for changes that did not raise the version",
    },
    OptionDef {
        name: "maxStaleness",
        kind: "duration",
        default: "5m",
        doc: "how old what the stream is joined with may become when the database is away or refuses, and how long a start waits for it; \
              then the run goes back to its newest epoch, within its budget of restarts",
    },
    OptionDef {
        name: "timeout",
        kind: "duration",
        default: "30s",
        doc: "how long the database may take to connect, and for each portion of rows; then it counts as away",
    },
    OptionDef {
        name: "maxRows",
        kind: "integer",
        default: "10000000",
        doc: "the most rows the table may have; more end the run. A row takes its key and about 64 bytes beside what the join keeps",
    },
    OptionDef {
        name: "schema",
        kind: "list of { name, type }",
        default: "the database's types",
        doc: "the columns that are read, and their types; checked against the database's ([types](#table-types))",
    },
];

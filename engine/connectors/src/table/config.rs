//! The keys of the dataset.

use super::address::Address;
use super::relation::Relation;
use crate::decode::is_value;
use crate::registry::ConnectorCtx;
use crate::shape;
use arrow::datatypes::SchemaRef;
use serde_json::{Map, Value};
use std::fmt;
use std::time::Duration;
use tidegate_api::config::{Options, Problem};
use tidegate_api::types;

/// What is read, from where, and how often.
pub(super) struct TableConfig {
    pub(super) dataset: String,
    pub(super) address: Address,
    pub(super) relation: Relation,
    pub(super) key: Vec<String>,
    /// The declared columns.
    pub(super) schema: Option<SchemaRef>,
    pub(super) refresh: Option<Duration>,
    /// The column by which a changed row is known, and how often all rows are read all the same.
    pub(super) version: Option<(String, Duration)>,
    pub(super) max_staleness: Duration,
    pub(super) timeout: Duration,
    pub(super) max_rows: usize,
}

impl fmt::Debug for TableConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TableConfig").field("dataset", &self.dataset).field("relation", &self.relation).finish_non_exhaustive()
    }
}

/// A shorter refresh would read without a pause.
const SHORTEST: Duration = Duration::from_millis(10);

impl TableConfig {
    pub(super) fn parse(map: &Map<String, Value>, cx: &ConnectorCtx) -> Result<Self, Vec<Problem>> {
        let mut options = Options::new(map);
        let url = options.require_string("url");
        let password = options.string("password");
        let address = url.and_then(|url| match Address::parse(&url, password.as_deref(), &cx.base_dir) {
            Ok(address) => Some(address),
            Err((key, message)) => {
                options.problem(key, message);
                None
            }
        });
        let relation = relation(&mut options);
        let key = if options.has("key") {
            options.strings("key")
        } else {
            let _ = options.value("key");
            options.problem("key", "`key` is missing; name the columns that a row is looked up by");
            None
        };
        let schema = shape::schema(&mut options);
        if let Some(key) = &key {
            if key.is_empty() {
                options.problem("key", "name at least one column");
            }
            for (at, name) in key.iter().enumerate() {
                if key[..at].contains(name) {
                    options.problem("key", format!("`{name}` stands in it twice"));
                }
                if let Some(schema) = &schema
                    && schema.index_of(name).is_err()
                {
                    let known = schema.fields().iter().map(|field| field.name().as_str());
                    options.problem("key", format!("`schema` has no column `{name}`{}", tidegate_api::nearest::hint(name, known)));
                }
            }
        }
        for field in schema.iter().flat_map(|schema| schema.fields()).filter(|field| !is_value(field.data_type())) {
            let message = format!("column `{}`: a database's column cannot be read as `{}`", field.name(), types::name(field.data_type()));
            options.problem("schema", message);
        }
        let refresh = options.duration("refresh");
        if refresh.is_some_and(|refresh| refresh < SHORTEST) {
            options.problem("refresh", "the shortest is `10ms`; leave it out to read the table once");
        }
        let version = version(&mut options, refresh);
        let max_staleness = options.duration("maxStaleness").unwrap_or(Duration::from_secs(300));
        let timeout = options.duration("timeout").unwrap_or(Duration::from_secs(30));
        if timeout < Duration::from_millis(1) {
            options.problem("timeout", "no database answers within no time");
        }
        let max_rows = options.unsigned("maxRows").map_or(10_000_000, |rows| usize::try_from(rows).unwrap_or(usize::MAX));
        let problems = options.finish();
        match (address, relation, key) {
            (Some(address), Some(relation), Some(key)) if problems.is_empty() => Ok(TableConfig {
                dataset: cx.dataset.clone(),
                address,
                relation,
                key,
                schema,
                refresh,
                version,
                max_staleness,
                timeout,
                max_rows,
            }),
            _ => Err(problems),
        }
    }
}

/// Readings of changed rows for one of all of them, unless said otherwise.
const PARTS: u32 = 10;

fn version(options: &mut Options<'_>, refresh: Option<Duration>) -> Option<(String, Duration)> {
    let column = options.string("versionColumn");
    let full = options.duration("fullRefresh");
    if column.is_some() && !options.has("refresh") && !options.has("refreshMs") {
        options.problem("versionColumn", "a table that is read once is read whole; add `refresh`, or leave this out");
    }
    if full.is_some() && column.is_none() {
        options.problem("fullRefresh", "without `versionColumn` every reading is of all rows; leave this out");
    }
    Some((column?, full.or_else(|| Some(refresh?.saturating_mul(PARTS))).unwrap_or_default()))
}

fn relation(options: &mut Options<'_>) -> Option<Relation> {
    match (options.string("table"), options.string("query")) {
        (Some(table), None) => match Relation::table(&table) {
            Ok(relation) => Some(relation),
            Err(message) => {
                options.problem("table", message);
                None
            }
        },
        (None, Some(query)) => match Relation::query(&query) {
            Ok(relation) => Some(relation),
            Err(message) => {
                options.problem("query", message);
                None
            }
        },
        (Some(_), Some(_)) => {
            options.problem("query", "`table` and `query` both say what is read; keep one");
            None
        }
        (None, None) => {
            if !options.has("table") && !options.has("query") {
                options.problem("table", "`table` or `query` is missing; it says what is read");
            }
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn found(options: Value) -> Vec<String> {
        let cx = ConnectorCtx::new(".", "products");
        let problems = TableConfig::parse(options.as_object().unwrap(), &cx).err().unwrap_or_default();
        problems.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn what_is_missing_or_said_twice_is_told_at_its_key() {
        let all = found(json!({}));
        for start in ["url: `url` is missing", "table: `table` or `query` is missing", "key: `key` is missing"] {
            assert!(all.iter().any(|line| line.starts_with(start)), "{start}: {all:?}");
        }
        let once = json!({ "url": "sqlite:shop.db", "table": "products", "key": "id", "versionColumn": "v" });
        assert!(found(once).iter().any(|line| line.starts_with("versionColumn: a table that is read once")));
        let good = json!({ "url": "sqlite:shop.db", "table": "products", "key": "id", "refresh": "1s" });
        assert_eq!(found(good.clone()), Vec::<String>::new());
        for (key, value, says) in [
            ("query", json!("select 1"), "query: `table` and `query` both"),
            ("key", json!([]), "key: name at least one"),
            ("key", json!(["id", "id"]), "key: `id` stands in it twice"),
            ("refresh", json!("1ms"), "refresh: the shortest is `10ms`"),
            ("timeout", json!("0s"), "timeout: "),
            ("schema", json!([{ "name": "idd", "type": "int64" }]), "key: `schema` has no column `id`, did you mean `idd`?"),
            ("schema", json!([{ "name": "id", "type": "list<int64>" }]), "schema: column `id`: a database's column cannot be read as"),
            ("url", json!("mysql://x/y"), "url: "),
            ("password", json!("secret-word"), "password: "),
            ("fullRefresh", json!("1m"), "fullRefresh: without `versionColumn`"),
        ] {
            let mut options = good.clone();
            options[key] = value;
            let problems = found(options);
            assert!(problems.iter().any(|line| line.starts_with(says)), "{says}: {problems:?}");
            assert!(!problems.concat().contains("secret-word"));
        }
    }
}

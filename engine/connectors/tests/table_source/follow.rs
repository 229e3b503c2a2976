//! Following a table that changes, against the table as it was written.

use super::support::{Base, Follower, Postgres, Sqlite, source};
use proptest::prelude::*;
use serde_json::json;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use tidegate_api::SourceRequest;

#[derive(Debug, Clone)]
enum Act {
    /// Makes or replaces a row; none: null.
    Put(i64, Option<String>),
    Delete(i64),
    /// Waits for a reading, and compares.
    Look,
    /// Everything in memory is lost.
    Crash,
}

fn acts() -> impl Strategy<Value = Vec<Act>> {
    let value = prop::option::weighted(0.9, "[a-z']{0,20}");
    let act = prop_oneof![
        6 => (0i64..12, value).prop_map(|(key, value)| Act::Put(key, value)),
        3 => (0i64..12).prop_map(Act::Delete),
        2 => Just(Act::Look),
        1 => Just(Act::Crash),
    ];
    prop::collection::vec(act, 0..30)
}

/// Follows what is done, from any state, in any portions; by versions or without.
fn follows(base: &dyn Base, acts: &[Act], max_rows: usize, versions: bool) {
    let table = base.table();
    base.run(&format!("DROP TABLE IF EXISTS {table}; CREATE TABLE {table} (id BIGINT PRIMARY KEY, name TEXT, version BIGINT)"));
    let schema = json!([{ "name": "id", "type": "int64" }, { "name": "name", "type": "string" }]);
    let by_version = json!({ "schema": schema, "versionColumn": "version", "fullRefresh": "1h" });
    let source = source(base, if versions { by_version } else { json!({ "schema": schema }) });
    let mut version = 0;
    let mut model: BTreeMap<i64, Option<String>> = BTreeMap::new();
    let mut follower = Follower::new(source.as_ref(), max_rows);
    for act in acts.iter().chain([&Act::Look]) {
        match act {
            Act::Put(key, value) => {
                let text = value.as_ref().map_or("NULL".to_string(), |value| format!("'{}'", value.replace('\'', "''")));
                // Several changes of one version, and some first rows without one.
                version += i64::from(*key % 3 == 0);
                let first = if *key == 7 { "NULL".to_string() } else { version.to_string() };
                base.run(&format!(
                    "INSERT INTO {table} VALUES ({key}, {text}, {first})
                     ON CONFLICT (id) DO UPDATE SET name = excluded.name, version = {version}"
                ));
                model.insert(*key, value.clone());
            }
            Act::Delete(key) => {
                base.run(&format!("DELETE FROM {table} WHERE id = {key}"));
                model.remove(key);
            }
            Act::Look => {
                follower.settle();
                let expected: BTreeMap<String, String> =
                    model.iter().map(|(key, value)| (key.to_string(), value.clone().unwrap_or_else(|| "null".to_string()))).collect();
                assert_eq!(follower.table, expected);
            }
            // Whoever reads it has forgotten what it had, as the look-up has.
            Act::Crash => follower = Follower::new(source.as_ref(), max_rows),
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn what_is_written_is_followed_whatever_happens(acts in acts(), max_rows in 1usize..5, versions in any::<bool>()) {
        follows(&Sqlite::new(), &acts, max_rows, versions);
    }

    #[test]
    #[ignore = "needs PostgreSQL: TIDEGATE_TEST_POSTGRES"]
    fn postgres_what_is_written_is_followed_whatever_happens(acts in acts(), max_rows in 1usize..5, versions in any::<bool>()) {
        follows(&Postgres::new(), &acts, max_rows, versions);
    }
}

/// More rows than one batch and one portion hold.
fn only_what_changes_travels(base: &dyn Base) {
    let table = base.table();
    base.run(&format!("CREATE TABLE {table} (id BIGINT PRIMARY KEY, name TEXT)"));
    let mut insert = format!("INSERT INTO {table} (id, name) VALUES ");
    for id in 0..20_000 {
        let _ = write!(insert, "{}({id}, 'product {id}')", if id == 0 { "" } else { "," });
    }
    base.run(&insert);
    let mut follower = Follower::new(source(base, json!({})).as_ref(), 1000);
    follower.settle();
    assert_eq!((follower.rows, follower.table.len()), (20_000, 20_000));
    follower.settle();
    assert_eq!(follower.rows, 20_000, "nothing changed");
    base.run(&format!(
        "BEGIN; UPDATE {table} SET name = 'new' WHERE id IN (3, 9000, 19999); UPDATE {table} SET name = 'product 4' WHERE id = 4;
         DELETE FROM {table} WHERE id IN (5, 12000); INSERT INTO {table} VALUES (20001, NULL); COMMIT"
    ));
    follower.settle();
    assert_eq!((follower.rows, follower.table.len()), (20_006, 19_999));
    assert_eq!((follower.table["9000"].as_str(), follower.table["20001"].as_str()), ("new", "null"));
    base.run(&format!("DELETE FROM {table}"));
    follower.settle();
    assert_eq!((follower.rows, follower.table.len()), (40_005, 0));
}

#[test]
fn only_rows_that_changed_are_handed_over() {
    only_what_changes_travels(&Sqlite::new());
}

#[test]
#[ignore = "needs PostgreSQL: TIDEGATE_TEST_POSTGRES"]
fn postgres_only_rows_that_changed_are_handed_over() {
    only_what_changes_travels(&Postgres::new());
}

#[test]
fn columns_that_nobody_asked_for_are_neither_read_nor_compared() {
    let base = Sqlite::new();
    base.run("CREATE TABLE products (id INTEGER, part TEXT, name TEXT, stock INTEGER); INSERT INTO products VALUES (1, 'a', 'x', 5)");
    let source = source(&base, json!({ "key": ["part", "id"] }));
    let request = SourceRequest::all().with_columns(Some(vec!["name".to_string()]));
    let plan = source.plan(&request).unwrap();
    let names: Vec<&str> = plan.schema.fields().iter().map(|field| field.name().as_str()).collect();
    assert_eq!(names, ["id", "part", "name", "_op"], "the key is there, in the table's order");
    let mut follower = Follower::asking(source.as_ref(), request, 10);
    follower.settle();
    base.run("UPDATE products SET stock = 4");
    follower.settle();
    assert_eq!(follower.rows, 1);
    assert_eq!(follower.table.iter().collect::<Vec<_>>(), [(&"a,1".to_string(), &"x".to_string())]);
}

#[test]
fn without_a_refresh_a_table_is_read_once() {
    let base = Sqlite::new();
    base.run("CREATE TABLE products (id INTEGER PRIMARY KEY, name TEXT); INSERT INTO products VALUES (1, 'x')");
    let mut follower = Follower::new(source(&base, json!({ "refresh": null })).as_ref(), 10);
    follower.until("the reading", |follower| follower.readings == 1);
    base.run("DELETE FROM products");
    for _ in 0..20 {
        follower.poll().unwrap();
    }
    assert_eq!((follower.rows, follower.readings, follower.table.len()), (1, 1, 1));
}

/// Versions of a kind that databases have, more rows than a portion, and changes that only a full reading can see.
fn versions_spare_what_did_not_change(base: &dyn Base, kind: &str, version: impl Fn(u32) -> String) {
    let table = base.table();
    base.run(&format!("DROP TABLE IF EXISTS {table}; CREATE TABLE {table} (id BIGINT PRIMARY KEY, name TEXT, v {kind})"));
    let mut insert = format!("INSERT INTO {table} (id, name, v) VALUES ");
    for id in 0..3000 {
        let _ = write!(insert, "{}({id}, 'product {id}', {})", if id == 0 { "" } else { "," }, version(id));
    }
    base.run(&insert);
    let columns = ["id", "name"];
    let schema = json!(columns.map(|name| json!({ "name": name, "type": if name == "id" { "int64" } else { "string" } })));
    let options = |full: &str| json!({ "schema": schema, "versionColumn": "v", "fullRefresh": full });
    let mut follower = Follower::new(source(base, options("1h")).as_ref(), 1000);
    follower.settle();
    assert_eq!(follower.rows, 3000);
    // The version does not rise, so nobody is told until all is read; a delete and a new key are seen all the same.
    base.run(&format!(
        "BEGIN; UPDATE {table} SET name = 'silent' WHERE id = 5; UPDATE {table} SET name = 'told', v = {} WHERE id = 6;
         DELETE FROM {table} WHERE id = 7; COMMIT",
        version(3001)
    ));
    follower.settle();
    assert_eq!((follower.table["5"].as_str(), follower.table["6"].as_str(), follower.rows), ("product 5", "told", 3002));
    assert!(!follower.table.contains_key("7"));
    base.run(&format!("INSERT INTO {table} VALUES (9000, 'old', {})", version(1)));
    follower.settle();
    assert_eq!((follower.table["9000"].as_str(), follower.table["5"].as_str()), ("old", "silent"), "an unknown key makes all be read");
    let mut follower = Follower::new(source(base, options("30ms")).as_ref(), 1000);
    follower.settle();
    base.run(&format!("UPDATE {table} SET name = 'silent too' WHERE id = 8"));
    follower.until("a reading of all rows", |follower| follower.table["8"] == "silent too");
}

#[test]
fn by_versions_only_newer_rows_and_keys_are_read() {
    versions_spare_what_did_not_change(&Sqlite::new(), "INTEGER", |id| id.to_string());
    versions_spare_what_did_not_change(&Sqlite::new(), "TEXT", |id| format!("'v{id:08}'"));
}

#[test]
#[ignore = "needs PostgreSQL: TIDEGATE_TEST_POSTGRES"]
fn postgres_by_versions_only_newer_rows_and_keys_are_read() {
    let stamp = |id| format!("timestamp '2024-01-01' + interval '{id} seconds'");
    versions_spare_what_did_not_change(&Postgres::new(), "TIMESTAMP", stamp);
    versions_spare_what_did_not_change(&Postgres::new(), "TIMESTAMPTZ", stamp);
    versions_spare_what_did_not_change(&Postgres::new(), "INT", |id| id.to_string());
    versions_spare_what_did_not_change(&Postgres::new(), "NUMERIC", |id| format!("{id}.5"));
    versions_spare_what_did_not_change(&Postgres::new(), "VARCHAR(20)", |id| format!("'v{id:08}'"));
}

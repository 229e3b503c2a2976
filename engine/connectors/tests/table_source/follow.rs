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

/// Follows what is done, from any state, in any portions.
fn follows(base: &dyn Base, acts: &[Act], max_rows: usize) {
    let table = base.table();
    base.run(&format!("DROP TABLE IF EXISTS {table}; CREATE TABLE {table} (id BIGINT PRIMARY KEY, name TEXT)"));
    let source = source(base, json!({}));
    let mut model: BTreeMap<i64, Option<String>> = BTreeMap::new();
    let mut follower = Follower::new(source.as_ref(), max_rows);
    for act in acts.iter().chain([&Act::Look]) {
        match act {
            Act::Put(key, value) => {
                let text = value.as_ref().map_or("NULL".to_string(), |value| format!("'{}'", value.replace('\'', "''")));
                base.run(&format!(
                    "INSERT INTO {table} (id, name) VALUES ({key}, {text}) ON CONFLICT (id) DO UPDATE SET name = excluded.name"
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
    fn what_is_written_is_followed_whatever_happens(acts in acts(), max_rows in 1usize..5) {
        follows(&Sqlite::new(), &acts, max_rows);
    }

    #[test]
    #[ignore = "needs PostgreSQL: TIDEGATE_TEST_POSTGRES"]
    fn postgres_what_is_written_is_followed_whatever_happens(acts in acts(), max_rows in 1usize..5) {
        follows(&Postgres::new(), &acts, max_rows);
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

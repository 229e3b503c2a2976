//! Databases that are not there, do not answer, or come back.

use super::support::{Base, Follower, Sqlite, now, options, source, source_at};
use serde_json::json;
use std::net::TcpListener;
use std::path::Path;
use std::time::Duration;
use tidegate_api::{ErrorKind, SourceRequest};

const COLUMNS: [&str; 2] = ["id", "name"];

fn declared() -> serde_json::Value {
    json!(COLUMNS.map(|name| json!({ "name": name, "type": if name == "id" { "int64" } else { "string" } })))
}

#[test]
fn a_database_that_never_comes_is_waited_for_only_so_long_and_named() {
    let base = Sqlite::new();
    let mut follower = Follower::new(source(&base, json!({ "schema": declared(), "maxStaleness": "300ms" })).as_ref(), 10);
    let found = follower.error();
    assert!(matches!(found.kind(), ErrorKind::External { .. }), "{found}");
    assert!(found.to_string().contains("since the run began") && found.to_string().contains("shop.db"), "{found}");
}

#[test]
fn a_database_that_comes_late_is_read_then() {
    let base = Sqlite::new();
    let mut follower = Follower::new(source(&base, json!({ "schema": declared() })).as_ref(), 10);
    for _ in 0..10 {
        follower.poll().unwrap();
    }
    base.run("CREATE TABLE there (x); CREATE TABLE products (id INTEGER PRIMARY KEY, name TEXT); INSERT INTO products VALUES (1, 'x')");
    follower.settle();
    assert_eq!(follower.table["1"], "x");
}

#[test]
fn while_a_database_is_away_the_table_stays_as_it_was() {
    let base = Sqlite::new();
    base.run("CREATE TABLE products (id INTEGER PRIMARY KEY, name TEXT); INSERT INTO products VALUES (1, 'x'), (2, 'y')");
    let mut follower = Follower::new(source(&base, json!({})).as_ref(), 10);
    follower.settle();
    let aside = base.path().with_extension("aside");
    std::fs::rename(base.path(), &aside).unwrap();
    // What had begun may still end.
    let seen = follower.readings;
    let end = now() + Duration::from_millis(600);
    while now() < end {
        follower.poll().unwrap();
    }
    assert!(follower.readings <= seen + 2);
    assert_eq!(follower.table.len(), 2);
    std::fs::rename(&aside, base.path()).unwrap();
    base.run("DELETE FROM products WHERE id = 1");
    follower.settle();
    assert_eq!(follower.table.keys().collect::<Vec<_>>(), ["2"]);
}

#[test]
fn a_database_that_stays_away_ends_the_run_when_the_table_is_too_old() {
    let base = Sqlite::new();
    base.run("CREATE TABLE products (id INTEGER PRIMARY KEY, name TEXT)");
    let mut follower = Follower::new(source(&base, json!({ "maxStaleness": "400ms" })).as_ref(), 10);
    follower.settle();
    std::fs::remove_file(base.path()).unwrap();
    let found = follower.error();
    assert!(matches!(found.kind(), ErrorKind::External { .. }), "{found}");
    assert!(found.to_string().contains("since the table was read last; `maxStaleness` is 400ms"), "{found}");
}

/// As a server that is frozen: the kernel accepts, and nobody answers.
#[test]
fn a_server_that_never_answers_holds_up_neither_polls_nor_a_stop() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let url = format!("postgres://someone:open-sesame@127.0.0.1:{port}/shop");
    let all = json!({ "url": url, "table": "products", "key": "id", "schema": declared(), "timeout": "200ms", "maxStaleness": "500ms" });
    let source = source_at(Path::new("."), &all);
    let mut follower = Follower::new(source.as_ref(), 10);
    let found = follower.error();
    assert!(matches!(found.kind(), ErrorKind::External { .. }), "{found}");
    let told = found.to_string();
    assert!(told.contains(&format!("the database `shop` at `127.0.0.1:{port}`: connecting: no answer within 200ms")), "{told}");
    assert!(!told.contains("open-sesame"), "{told}");

    let mut patient = all;
    patient["timeout"] = json!("1h");
    let source = source_at(Path::new("."), &patient);
    let mut follower = Follower::new(source.as_ref(), 10);
    let begun = now();
    for _ in 0..50 {
        follower.poll().unwrap();
    }
    drop(follower);
    assert!(now() - begun < Duration::from_secs(5), "a poll or the stop waited");
}

#[test]
fn a_host_that_refuses_is_named_when_its_types_are_needed() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    drop(listener);
    let base = Sqlite::new();
    let url = json!(format!("postgres://someone:open-sesame@127.0.0.1:{port}/shop"));
    let found = source_at(&base.folder(), &options(&base, json!({ "url": url }))).plan(&SourceRequest::all()).unwrap_err();
    assert!(matches!(found.kind(), ErrorKind::External { .. }), "{found}");
    assert!(found.to_string().starts_with(&format!("the database `shop` at `127.0.0.1:{port}`: connecting: ")), "{found}");
}

/// A statement that never gives a row is broken off by the stop.
#[test]
fn a_query_without_end_does_not_outlive_its_reader() {
    let base = Sqlite::new();
    base.run("CREATE TABLE products (id INTEGER PRIMARY KEY, name TEXT); INSERT INTO products VALUES (1, 'x')");
    let endless = "WITH RECURSIVE n(id) AS (VALUES(1) UNION ALL SELECT id + 1 FROM n) SELECT id, 'x' AS name FROM n WHERE id < 0";
    let mut follower = Follower::new(source(&base, json!({ "query": endless, "schema": declared() })).as_ref(), 10);
    let begun = now();
    for _ in 0..50 {
        follower.poll().unwrap();
    }
    drop(follower);
    assert!(now() - begun < Duration::from_secs(5));
    // The thread lets go of the file: it can be written to.
    base.run("INSERT INTO products VALUES (2, 'y')");
}

/// More changes than the loader keeps, and nobody who takes them: the database must not wait, and nothing may be lost.
#[test]
fn a_pipeline_that_is_held_up_does_not_hold_up_the_database() {
    let base = Sqlite::new();
    base.run(
        "CREATE TABLE products (id INTEGER PRIMARY KEY, name TEXT);
         WITH RECURSIVE n(id) AS (VALUES(1) UNION ALL SELECT id + 1 FROM n WHERE id < 3000)
         INSERT INTO products SELECT id, printf('%.*c', 40000, 'x') || id FROM n",
    );
    let mut follower = Follower::new(source(&base, json!({})).as_ref(), 100);
    // A writer waits for the reading to let go, which it does although nobody polls.
    base.run("UPDATE products SET name = 'y' WHERE id IN (1, 3000); DELETE FROM products WHERE id IN (2, 2999)");
    follower.settle();
    assert_eq!(follower.table.len(), 2998);
    assert_eq!((follower.table["1"].as_str(), follower.table["3000"].as_str()), ("y", "y"));
    assert!((3..2999).all(|id: i64| follower.table[&id.to_string()].ends_with(&format!("x{id}"))));
}

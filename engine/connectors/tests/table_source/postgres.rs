//! What only a server can do: refuse, be asked by many at once, break off.

use super::support::{Base, Follower, Postgres, options, source, source_at};
use serde_json::{Value, json};
use std::path::Path;
use tidegate_api::{ErrorKind, SourceRequest};

#[test]
#[ignore = "needs PostgreSQL: TIDEGATE_TEST_POSTGRES"]
fn postgres_what_it_refuses_is_told_without_the_password() {
    let base = Postgres::new();
    let table = base.table();
    base.run(&format!("CREATE TABLE {table} (id BIGINT PRIMARY KEY, many INT[], price NUMERIC, span INTERVAL)"));
    let plan = |more: Value| source_at(Path::new("."), &options(&base, more)).plan(&SourceRequest::all()).unwrap_err();
    let (scheme, rest) = base.url().split_once("://").map(|(scheme, rest)| (scheme.to_string(), rest.to_string())).unwrap();
    let (user, place) = rest.split_once('@').unwrap();
    let user = user.split(':').next().unwrap().to_string();
    let elsewhere = place.rsplit_once('/').unwrap().0;
    for (more, says) in [
        (json!({}), "column `many` is `_int4`, which cannot be read: a look-up has no arrays"),
        (json!({}), "column `price` is `numeric`, a `numeric` without a precision"),
        (json!({}), "column `span` is `interval`, which cannot be read: cast it in `query`"),
        (json!({ "query": "SELECT 1 AS id, 2 AS id" }), "two columns are called `id`"),
        (json!({ "table": "shops" }), "relation \"shops\" does not exist (42P01)"),
        (json!({ "query": "SELECT 1; DROP TABLE x" }), "syntax error"),
        (json!({ "url": format!("{scheme}://{user}:open-sesame@{place}") }), "password authentication failed"),
        (json!({ "url": format!("{scheme}://{user}@{place}"), "password": "open-sesame" }), "password authentication failed"),
        (json!({ "url": format!("{}?sslmode=require", base.url()) }), "server does not support TLS"),
        (json!({ "url": base.url().replace(place, &format!("{elsewhere}/nowhere")) }), "database \"nowhere\" does not exist"),
    ] {
        let found = plan(more).to_string();
        assert!(found.contains(says), "{says}: {found}");
        assert!(!found.contains("open-sesame"), "{found}");
    }
    // Chosen and cast, the same table can be read.
    let query = format!("SELECT id, array_to_string(many, ' ') AS many, span::text, price::numeric(10,2) AS price FROM {table}");
    base.run(&format!("INSERT INTO {table} VALUES (1, '{{1,2}}', 1.5, '1 day')"));
    let mut follower = Follower::new(source(&base, json!({ "query": query })).as_ref(), 10);
    follower.settle();
    assert_eq!(follower.table["1"], "1 2,1 day,1.50");
}

#[test]
#[ignore = "needs PostgreSQL: TIDEGATE_TEST_POSTGRES"]
fn postgres_a_reading_sees_one_state_of_the_database() {
    let base = Postgres::new();
    let table = base.table().to_string();
    base.run(&format!(
        "CREATE TABLE {table} (id BIGINT PRIMARY KEY, amount BIGINT); INSERT INTO {table} SELECT n, 100 FROM generate_series(0, 4999) n"
    ));
    let mut follower = Follower::new(source(&base, json!({})).as_ref(), 700);
    let mut moved = 0u64;
    for _ in 0..6 {
        let enough = follower.readings + 2;
        follower.until("a reading", |follower| {
            // From one end of the table to the other, while it is read.
            moved += 1;
            let (from, to) = (moved % 5000, (moved * 7919) % 5000);
            base.run(&format!(
                "BEGIN; UPDATE {table} SET amount = amount - 1 WHERE id = {from}; UPDATE {table} SET amount = amount + 1 WHERE id = {to}; COMMIT"
            ));
            if follower.readings >= enough {
                let sum: i64 = follower.table.values().map(|amount| amount.parse::<i64>().unwrap()).sum();
                assert_eq!(sum, 500_000);
            }
            follower.readings >= enough
        });
    }
}

#[test]
#[ignore = "needs PostgreSQL: TIDEGATE_TEST_POSTGRES"]
fn postgres_a_connection_that_is_cut_is_made_again() {
    let base = Postgres::new();
    let table = base.table();
    base.run(&format!(
        "CREATE TABLE {table} (id BIGINT PRIMARY KEY, name TEXT); INSERT INTO {table} SELECT n, 'x' FROM generate_series(1, 3000) n"
    ));
    // Slow enough to be met under way.
    let query = format!("SELECT id, name, (pg_sleep(0.0001))::text AS pause FROM {table} /* {table} */");
    let mut follower = Follower::new(source(&base, json!({ "query": query })).as_ref(), 100);
    follower.until("some rows", |follower| follower.rows > 0 || follower.readings > 0);
    let cut = format!(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'tidegate' AND query LIKE '%/* {table} */%'"
    );
    for _ in 0..3 {
        base.run(&cut);
        base.run(&format!("DELETE FROM {table} WHERE id IN (SELECT min(id) FROM {table})"));
        follower.settle();
    }
    assert_eq!(follower.table.len(), 2997);
    assert!(!follower.table.contains_key("3") && follower.table.contains_key("4"));
}

#[test]
#[ignore = "needs PostgreSQL: TIDEGATE_TEST_POSTGRES"]
fn postgres_a_table_that_is_altered_while_it_is_followed_is_an_error_that_says_so() {
    for (alter, says) in [
        ("ALTER TABLE {} DROP COLUMN name", "column t.name does not exist"),
        ("ALTER TABLE {} ALTER COLUMN name TYPE BYTEA USING name::bytea", "is `bytea` in the database and cannot be read as `string`"),
    ] {
        let base = Postgres::new();
        let table = base.table();
        base.run(&format!("CREATE TABLE {table} (id BIGINT PRIMARY KEY, name TEXT); INSERT INTO {table} VALUES (1, 'x')"));
        let mut follower = Follower::new(source(&base, json!({})).as_ref(), 10);
        follower.settle();
        base.run(&alter.replace("{}", table));
        let found = follower.error();
        assert_eq!(found.kind(), ErrorKind::Config, "{found}");
        assert!(found.to_string().contains(says), "{found}");
    }
}

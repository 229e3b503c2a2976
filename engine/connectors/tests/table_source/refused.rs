//! Tables that cannot be looked up in, each with what is wrong and where.

use super::support::{Base, Follower, Sqlite, options, source, source_at};
use serde_json::{Value, json};
use tidegate_api::{Error, ErrorKind, SourceRequest};

/// The error of following a table.
fn error(setup: &str, more: Value) -> Error {
    let base = Sqlite::new();
    base.run(setup);
    Follower::new(source(&base, more).as_ref(), 100).error()
}

#[test]
fn two_rows_of_a_key_and_a_null_in_it_are_told_with_the_key() {
    let found = error("CREATE TABLE products (id INTEGER, name TEXT); INSERT INTO products VALUES (7, 'a'), (8, 'b'), (7, 'a')", json!({}));
    assert_eq!(found.kind(), ErrorKind::Data);
    assert!(
        found.to_string().contains("table `products` of the database") && found.to_string().contains("two rows of key `id = 7`"),
        "{found}"
    );
    let found =
        error("CREATE TABLE products (id INTEGER, name TEXT); INSERT INTO products VALUES (NULL, 'a')", json!({ "key": ["id", "name"] }));
    assert_eq!(found.kind(), ErrorKind::Data);
    assert!(found.to_string().contains("the key column `id` is null in the row of key `id = null`, `name = a`"), "{found}");
}

#[test]
fn a_value_that_does_not_fit_is_told_with_its_row_and_column() {
    let found =
        error("CREATE TABLE products (id INTEGER PRIMARY KEY, stock INTEGER); INSERT INTO products VALUES (1, 2), (5, 'many')", json!({}));
    assert_eq!(found.kind(), ErrorKind::Data);
    assert!(found.to_string().contains("the row of key `id = 5`: column `stock`: `many` is not a `int64`"), "{found}");
    let schema = json!([{ "name": "id", "type": "int8" }, { "name": "price", "type": "decimal(6,2)" }]);
    let found = error(
        "CREATE TABLE products (id INTEGER PRIMARY KEY, price REAL); INSERT INTO products VALUES (1, 1.255)",
        json!({ "schema": schema }),
    );
    assert!(found.to_string().contains("`1.255` is not a `decimal(6,2)`"), "{found}");
    let schema = json!([{ "name": "id", "type": "int64" }, { "name": "name", "type": "string", "nullable": false }]);
    let found = error(
        "CREATE TABLE products (id INTEGER PRIMARY KEY, name TEXT); INSERT INTO products VALUES (1, NULL)",
        json!({ "schema": schema }),
    );
    assert!(found.to_string().contains("column `name`: a value is missing"), "{found}");
}

#[test]
fn more_rows_than_allowed_are_a_limit() {
    let found = error("CREATE TABLE products (id INTEGER PRIMARY KEY); INSERT INTO products VALUES (1), (2), (3)", json!({ "maxRows": 2 }));
    assert_eq!(found.kind(), ErrorKind::Limit);
    assert!(found.to_string().contains("has more than 2 rows") && found.to_string().contains("`maxRows`"), "{found}");
}

#[test]
fn a_table_that_is_altered_while_it_is_followed_is_an_error_that_says_so() {
    for (alter, says) in [
        ("ALTER TABLE products DROP COLUMN name", "no such column: t.name"),
        ("ALTER TABLE products RENAME TO goods", "no such table: products"),
        (
            "BEGIN; DROP TABLE products; CREATE TABLE products (id INTEGER PRIMARY KEY, name BLOB, stock INTEGER); COMMIT",
            "column `name` of table `products` is `BLOB` in the database and cannot be read as `string`",
        ),
    ] {
        let base = Sqlite::new();
        base.run("CREATE TABLE products (id INTEGER PRIMARY KEY, name TEXT, stock INTEGER); INSERT INTO products VALUES (1, 'x', 2)");
        let mut follower = Follower::new(source(&base, json!({})).as_ref(), 10);
        follower.settle();
        base.run(alter);
        let found = follower.error();
        assert_eq!(found.kind(), ErrorKind::Config, "{found}");
        assert!(found.to_string().contains(says), "{found}");
    }
}

#[test]
fn a_new_column_is_none_of_a_running_pipelines() {
    let base = Sqlite::new();
    base.run("CREATE TABLE products (id INTEGER PRIMARY KEY, name TEXT); INSERT INTO products VALUES (1, 'x')");
    let mut follower = Follower::new(source(&base, json!({})).as_ref(), 10);
    follower.settle();
    base.run("ALTER TABLE products ADD COLUMN stock INTEGER; INSERT INTO products VALUES (2, 'y', 1)");
    follower.settle();
    assert_eq!(follower.table["2"], "y");
}

#[test]
fn what_a_plan_cannot_work_with_is_a_mistake_of_the_file() {
    let base = Sqlite::new();
    base.run("CREATE TABLE products (id INTEGER PRIMARY KEY, price NUMERIC, name TEXT)");
    let plan = |more: Value| source_at(&base.folder(), &options(&base, more)).plan(&SourceRequest::all()).unwrap_err();
    for (more, says) in [
        (json!({}), "column `price` is `NUMERIC`, a decimal without a precision; declare"),
        (json!({ "query": "SELECT id, name FROM products", "key": "nmae" }), "the query has no column `nmae`, did you mean `name`?"),
        (json!({ "query": "SELECT id, id + 1 AS next FROM products" }), "column `next` is `of no declared type`"),
        (json!({ "query": "SELEC 1" }), "syntax error"),
        (json!({ "table": "shops" }), "no such table: shops"),
    ] {
        let found = plan(more);
        assert!(found.kind() == ErrorKind::Config && found.to_string().contains(says), "{says}: {found}");
    }
    let declared = json!({ "schema": [{ "name": "id", "type": "int64" }, { "name": "nam", "type": "string" }] });
    let found = source(&base, declared).check().unwrap_err();
    assert!(found.to_string().contains("table `products` has no column `nam`, did you mean `name`?"), "{found}");
    let declared = json!({ "schema": [{ "name": "id", "type": "int64" }, { "name": "price", "type": "decimal(12,2)" }] });
    source(&base, declared).check().unwrap();
}

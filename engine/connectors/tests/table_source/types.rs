//! Every type, exactly.

use super::support::{Base, Follower, Postgres, Sqlite, source};
use serde_json::json;
use tidegate_api::{SourceRequest, types};

fn shown(base: &dyn Base, more: serde_json::Value) -> (Vec<String>, Vec<String>) {
    let source = source(base, more);
    let plan = source.plan(&SourceRequest::all()).unwrap();
    let columns = plan.schema.fields().iter().map(|field| format!("{} {}", field.name(), types::name(field.data_type()))).collect();
    let mut follower = Follower::new(source.as_ref(), 100);
    follower.settle();
    (columns, follower.table.into_iter().map(|(key, rest)| format!("{key}: {rest}")).collect())
}

#[test]
fn columns_of_sqlite_are_read_by_the_names_of_their_types() {
    let base = Sqlite::new();
    base.run(
        "CREATE TABLE products (id INTEGER PRIMARY KEY, b BOOLEAN, f DOUBLE, d DECIMAL(20, 2), t VARCHAR(9), x BLOB, day DATE, at TIMESTAMP);
         INSERT INTO products VALUES
           (1, 1, 0.5, 12.5, 'word', x'0102', '2024-02-29', '2024-02-29 12:00:00.000001'),
           (2, 0, 7, 9007199254740993, '', NULL, '1969-12-31', '1969-12-31T23:59:59'),
           (3, NULL, NULL, 0.1, NULL, NULL, NULL, NULL)",
    );
    let (columns, rows) = shown(&base, json!({}));
    assert_eq!(
        columns,
        ["id int64", "b bool", "f float64", "d decimal(20,2)", "t string", "x binary", "day date", "at timestamp_us", "_op uint8"]
    );
    assert_eq!(
        rows,
        [
            "1: true,0.5,12.50,word,0102,2024-02-29,2024-02-29T12:00:00.000001",
            "2: false,7.0,9007199254740993.00,,null,1969-12-31,1969-12-31T23:59:59",
            "3: null,null,0.10,null,null,null,null",
        ]
    );
}

#[test]
fn declared_types_choose_columns_and_their_form() {
    let base = Sqlite::new();
    base.run("CREATE TABLE products (id INTEGER PRIMARY KEY, price TEXT, stock INTEGER, at TEXT, rest BLOB); INSERT INTO products VALUES (1, '7.25', 300, '2024-01-01T00:00:00Z', x'00')");
    let schema = json!([
        { "name": "at", "type": "timestamp_ms(UTC)" },
        { "name": "id", "type": "string" },
        { "name": "price", "type": "decimal(9,3)" },
        { "name": "stock", "type": "int16" },
    ]);
    let (columns, rows) = shown(&base, json!({ "schema": schema }));
    assert_eq!(columns, ["at timestamp_ms(UTC)", "id string", "price decimal(9,3)", "stock int16", "_op uint8"]);
    assert_eq!(rows, ["1: 2024-01-01T00:00:00Z,7.250,300"]);
}

#[test]
#[ignore = "needs PostgreSQL: TIDEGATE_TEST_POSTGRES"]
fn postgres_every_type_is_read_exactly() {
    let base = Postgres::new();
    let table = base.table();
    base.run(&format!(
        "CREATE TABLE {table} (id BIGINT PRIMARY KEY, b BOOLEAN, i2 SMALLINT, i4 INT, o OID, f4 REAL, f8 DOUBLE PRECISION, d NUMERIC(20, 3),
           big NUMERIC(60, 0), t TEXT, c CHAR(4), v VARCHAR(9), x BYTEA, u UUID, j JSON, k JSONB, day DATE, clock TIME, at TIMESTAMP,
           zoned TIMESTAMPTZ);
         INSERT INTO {table} VALUES (1, true, -5, 2147483647, 4000000000, 0.1, 0.1, -12345678901234567.125,
           123456789012345678901234567890123456789012345678901234567890, 'grüße', 'ab', 'v', '\\x00ff', 'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11',
           '{{\"a\": 1}}', '{{\"a\":1}}', '1969-12-31', '23:59:59.999999', '1969-12-31 23:59:59.5', '2024-02-29 12:00:00+02');
         INSERT INTO {table} (id) VALUES (2)"
    ));
    let (columns, rows) = shown(&base, json!({}));
    assert_eq!(
        columns,
        [
            "id int64",
            "b bool",
            "i2 int16",
            "i4 int32",
            "o uint32",
            "f4 float32",
            "f8 float64",
            "d decimal(20,3)",
            "big decimal(60,0)",
            "t string",
            "c string",
            "v string",
            "x binary",
            "u string",
            "j string",
            "k string",
            "day date",
            "clock time",
            "at timestamp_us",
            "zoned timestamp_us(UTC)",
            "_op uint8"
        ]
    );
    assert_eq!(
        rows,
        [
            "1: true,-5,2147483647,4000000000,0.1,0.1,-12345678901234567.125,123456789012345678901234567890123456789012345678901234567890,grüße,\
             ab  ,v,00ff,a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11,{\"a\": 1},{\"a\": 1},1969-12-31,23:59:59.999999,1969-12-31T23:59:59.500,\
             2024-02-29T10:00:00Z"
                .to_string(),
            format!("2: {}", ["null"; 19].join(",")),
        ]
    );
    let schema = json!([{ "name": "id", "type": "string" }, { "name": "d", "type": "string" }, { "name": "i4", "type": "decimal(12,1)" }, { "name": "day", "type": "timestamp_s" }]);
    let (_, rows) = shown(&base, json!({ "schema": schema }));
    assert_eq!(rows, ["1: -12345678901234567.125,2147483647.0,1969-12-31T00:00:00", "2: null,null,null"]);
}

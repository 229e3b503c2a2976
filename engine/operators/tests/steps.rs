//! The inline steps: what they make, what they refuse, what they ask for.

#![allow(clippy::unwrap_used, reason = "a test may end by panicking")]

use arrow::array::{Array, ArrayRef, AsArray, BinaryArray, Float64Array, Int64Array, RecordBatch, StringViewArray};
use arrow::datatypes::{DataType, Field, Int64Type, Schema, SchemaRef, TimeUnit};
use arrow::util::pretty::pretty_format_batches;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::sync::Arc;
use tidegate_api::{BadReason, ChangeMode, EqualTo, EventTime, Generation, Output, RunId, RunIdentity, StepCtx, hidden};
use tidegate_operators::{BindCtx, Bound, BoundNode, StreamType, parse_step};

fn schema() -> SchemaRef {
    Arc::new(Schema::new(vec![
        Field::new("id", DataType::Int64, false),
        Field::new("kind", DataType::Utf8View, true),
        Field::new("price", DataType::Float64, true),
        hidden::key_field(),
    ]))
}

fn batch() -> RecordBatch {
    let columns: Vec<ArrayRef> = vec![
        Arc::new(Int64Array::from(vec![1, 2, 3, 4])),
        Arc::new(StringViewArray::from(vec![Some("bid"), Some("auction"), None, Some("bid")])),
        Arc::new(Float64Array::from(vec![Some(1.5), None, Some(f64::NAN), Some(-2.0)])),
        Arc::new(BinaryArray::from(vec![b"a".as_slice(), b"b", b"c", b"d"])),
    ];
    RecordBatch::try_new(schema(), columns).unwrap()
}

fn bound(step: &Value, cx: &BindCtx) -> Bound {
    parse_step(step).unwrap().bind(&[StreamType::append(schema())], cx).unwrap()
}

fn refusals(step: &Value, mode: ChangeMode) -> Vec<String> {
    let made = parse_step(step).and_then(|def| def.bind(&[StreamType { schema: schema(), mode }], &BindCtx::new()));
    made.map_or_else(|problems| problems.iter().map(ToString::to_string).collect(), |_| Vec::new())
}

fn apply(bound: &Bound, batch: RecordBatch) -> Output {
    let BoundNode::Step(factory) = &bound.node else { panic!("not an inline step") };
    assert_eq!(factory.output_schema(), bound.output.schema);
    let run = RunIdentity::new("p", RunId::new("r"), Generation(1), "s");
    let mut out = Output::default();
    let rows = batch.num_rows();
    factory.open(StepCtx::new(run, 0, 1)).unwrap().apply(batch, EventTime(0), &mut out).unwrap();
    let made: usize = out.batches.iter().map(RecordBatch::num_rows).sum();
    assert_eq!(rows, made + out.filtered as usize + out.bad.len(), "counters add up");
    assert!(out.batches.iter().all(|batch| batch.schema() == bound.output.schema));
    out
}

fn names(schema: &SchemaRef) -> Vec<&str> {
    schema.fields().iter().map(|field| field.name().as_str()).collect()
}

fn set(names: &[&str]) -> BTreeSet<String> {
    names.iter().map(|name| (*name).to_string()).collect()
}

#[test]
fn select_keeps_order_and_carries_keys_when_asked() {
    let step = json!({ "op": "select", "columns": ["price", "id"] });
    let without = bound(&step, &BindCtx::new());
    assert_eq!(names(&without.output.schema), ["price", "id"]);
    let with = bound(&step, &BindCtx::new().with_keys(true));
    assert_eq!(names(&with.output.schema), ["price", "id", "_key"]);
    assert_eq!(apply(&with, batch()).batches[0].column(2).as_binary::<i32>().value(3), b"d");
    assert_eq!((with.required)(&set(&["id"])), [set(&["id"])]);
    let pruned = bound(&step, &BindCtx::new().with_needed(set(&["id"])));
    assert_eq!(names(&pruned.output.schema), ["id"]);
}

#[test]
fn a_missing_column_names_the_nearest() {
    let refused = |step: Value| refusals(&step, ChangeMode::Append);
    assert_eq!(
        refused(json!({ "op": "select", "columns": ["id", "prize"] })),
        ["columns.1: there is no column `prize`, did you mean `price`?"]
    );
    assert_eq!(refused(json!({ "op": "select", "columns": ["id", "id"] })), ["columns.1: the column `id` is selected twice"]);
    assert_eq!(refused(json!({ "op": "drop", "columns": "kinds" })), ["columns.0: there is no column `kinds`, did you mean `kind`?"]);
    assert_eq!(
        refused(json!({ "op": "rename", "mapping": { "idd": "x" } })),
        ["mapping.idd: there is no column `idd`, did you mean `id`?"]
    );
    assert_eq!(refused(json!({ "op": "rename", "mapping": { "id": "kind" } })), ["mapping.id: there is a column `kind` already"]);
    assert_eq!(refused(json!({ "op": "cast", "column": "id", "type": "int65" })).len(), 1);
    assert_eq!(refused(json!({ "op": "flter", "expression": "true" })), ["op: unknown step `flter`, did you mean `filter`?"]);
    assert_eq!(
        refused(json!({ "op": "drop", "column": "id" })),
        ["columns: `columns` is missing", "column: unknown key `column`, did you mean `columns`?"]
    );
    assert_eq!(refused(json!("filter")).len(), 1);
}

#[test]
fn drop_and_rename_leave_the_rest_in_place() {
    let dropped = bound(&json!({ "op": "drop", "columns": "kind" }), &BindCtx::new().with_keys(true));
    assert_eq!(names(&dropped.output.schema), ["id", "price", "_key"]);
    let renamed = bound(&json!({ "op": "rename", "mapping": { "id": "price", "price": "id" } }), &BindCtx::new());
    assert_eq!(names(&renamed.output.schema), ["price", "kind", "id"]);
    assert_eq!((renamed.required)(&set(&["price"])), [set(&["id"])]);
    assert_eq!(apply(&renamed, batch()).batches[0].column(0).as_primitive::<Int64Type>().values(), &[1, 2, 3, 4]);
}

#[test]
fn keys_of_upsert_rows_are_protected_and_follow_a_rename() {
    let mode = ChangeMode::Upsert { keys: vec!["id".into()] };
    for step in [
        json!({ "op": "drop", "columns": ["id"] }),
        json!({ "op": "select", "columns": ["kind"] }),
        json!({ "op": "cast", "column": "id", "type": "string" }),
        json!({ "op": "applyExpression", "column": "id", "expression": "id + 1" }),
        json!({ "op": "filter", "expression": "price > 1" }),
    ] {
        assert_eq!(refusals(&step, mode.clone()).len(), 1, "{step}");
    }
    let def = parse_step(&json!({ "op": "rename", "mapping": { "id": "key" } })).unwrap();
    let bound = def.bind(&[StreamType { schema: schema(), mode }], &BindCtx::new()).unwrap();
    assert_eq!(bound.output.mode, ChangeMode::Upsert { keys: vec!["key".into()] });
}

#[test]
fn a_value_that_does_not_fit_is_a_bad_row_or_null() {
    let step = |on_error: &str| json!({ "op": "cast", "column": "price", "type": "int64", "onError": on_error });
    let out = apply(&bound(&step("bad"), &BindCtx::new()), batch());
    assert_eq!(out.bad.len(), 1);
    assert_eq!(out.bad[0].message, "column `price`: `NaN` is not a value of type `int64`");
    assert_eq!((out.bad[0].reason, out.bad[0].column.as_deref(), out.bad[0].row), (BadReason::Cast, Some("price"), Some(2)));
    let raw: Value = serde_json::from_slice(&out.bad[0].raw).unwrap();
    assert_eq!(raw, json!({ "id": 3, "kind": null, "price": "NaN" }));
    let out = apply(&bound(&step("null"), &BindCtx::new()), batch());
    assert_eq!(out.batches[0].column_by_name("price").unwrap().null_count(), 2);
}

#[test]
fn integers_are_milliseconds_when_they_become_times_of_any_unit() {
    let bound = bound(&json!({ "op": "cast", "column": "id", "type": "timestamp_us" }), &BindCtx::new());
    let made = apply(&bound, batch());
    let column = made.batches[0].column(0);
    assert_eq!(column.data_type(), &DataType::Timestamp(TimeUnit::Microsecond, None));
    assert_eq!(arrow::util::display::array_value_to_string(column, 0).unwrap(), "1970-01-01T00:00:00.001");
}

#[test]
fn filter_keeps_true_rows_and_leaves_out_the_column_nobody_reads() {
    let step = json!({ "op": "filter", "expression": "kind == \"bid\"" });
    let whole = bound(&step, &BindCtx::new().with_keys(true));
    let out = apply(&whole, batch());
    assert_eq!(out.filtered, 2, "null is not true");
    assert_eq!(out.batches[0].column(0).as_primitive::<Int64Type>().values(), &[1, 4]);
    assert_eq!((whole.required)(&set(&["id"])), [set(&["id", "kind"])]);
    assert_eq!(whole.equals, [EqualTo { column: "kind".into(), values: vec![json!("bid")] }]);

    let pruned = bound(&step, &BindCtx::new().with_needed(set(&["id"])));
    assert_eq!(names(&pruned.output.schema), ["id"]);
    assert_eq!(apply(&pruned, batch()).batches[0].num_rows(), 2);
}

#[test]
fn a_filter_that_every_row_passes_copies_nothing() {
    let out = apply(&bound(&json!({ "op": "filter", "expression": "id > 0" }), &BindCtx::new()), batch());
    let input = batch();
    assert_eq!(out.batches[0].num_rows(), input.num_rows());
    let source = batch();
    let bound = bound(&json!({ "op": "filter", "expression": "id > 0" }), &BindCtx::new());
    let made = apply(&bound, source.clone());
    let pointer = |batch: &RecordBatch| batch.column(0).as_primitive::<Int64Type>().values().as_ptr();
    assert_eq!(pointer(&made.batches[0]), pointer(&source));
}

#[test]
fn a_filter_that_the_source_applies_reads_nothing() {
    let def = parse_step(&json!({ "op": "filter", "expression": "kind == \"bid\"" })).unwrap();
    let first = def.bind(&[StreamType::append(schema())], &BindCtx::new()).unwrap();
    let narrow = Arc::new(Schema::new(vec![Field::new("id", DataType::Int64, false)]));
    let cx = BindCtx::new().with_needed(set(&["id"])).with_applied(first.equals);
    let second = def.bind(&[StreamType::append(Arc::clone(&narrow))], &cx).unwrap();
    assert_eq!((second.required)(&set(&["id"])), [set(&["id"])]);
    let ids: ArrayRef = Arc::new(Int64Array::from(vec![1, 2]));
    let out = apply(&second, RecordBatch::try_new(narrow, vec![ids]).unwrap());
    assert_eq!((out.batches[0].num_rows(), out.filtered), (2, 0));
}

#[test]
fn apply_expression_adds_replaces_and_casts() {
    let added = bound(&json!({ "op": "applyExpression", "column": "double", "expression": "id * 2" }), &BindCtx::new().with_keys(true));
    assert_eq!(names(&added.output.schema), ["id", "kind", "price", "double", "_key"]);
    assert_eq!(apply(&added, batch()).batches[0].column(3).as_primitive::<Int64Type>().values(), &[2, 4, 6, 8]);
    assert_eq!((added.required)(&set(&["double", "kind"])), [set(&["id", "kind"])]);

    let replaced = bound(&json!({ "op": "applyExpression", "column": "id", "expression": "id + 1", "type": "string" }), &BindCtx::new());
    assert_eq!(names(&replaced.output.schema), ["id", "kind", "price"]);
    assert_eq!(apply(&replaced, batch()).batches[0].column(0).as_string_view().value(0), "2");

    // Nobody reads it: neither it nor what it reads is needed.
    let unread =
        bound(&json!({ "op": "applyExpression", "column": "double", "expression": "id * 2" }), &BindCtx::new().with_needed(set(&["kind"])));
    assert_eq!(names(&unread.output.schema), ["kind"]);
    assert_eq!((unread.required)(&set(&["kind"])), [set(&["kind"])]);
}

#[test]
fn a_row_on_which_an_expression_fails_costs_itself() {
    let bound = bound(&json!({ "op": "applyExpression", "column": "x", "expression": "id + 9223372036854775805" }), &BindCtx::new());
    let out = apply(&bound, batch());
    assert_eq!(out.batches[0].column_by_name("x").unwrap().as_primitive::<Int64Type>().values(), &[i64::MAX - 1, i64::MAX]);
    let raw = String::from_utf8(out.bad[0].raw.clone()).unwrap();
    assert_eq!(raw, r#"{"id":3,"kind":null,"price":"NaN"}"#, "{}", pretty_format_batches(&out.batches).unwrap());
}

#[test]
fn a_mistake_in_an_expression_shows_where() {
    for (step, place) in [
        (json!({ "op": "filter", "expression": "price > prise" }), "expression"),
        (json!({ "op": "applyExpression", "column": "x", "expression": "price > prise" }), "expression"),
        (json!({ "op": "select", "columns": ["id", { "name": "x", "expression": "price > prise" }] }), "columns.1.expression"),
    ] {
        let found = refusals(&step, ChangeMode::Append);
        assert_eq!(found.len(), 1);
        assert!(found[0].starts_with(&format!("{place}: ")), "{found:?}");
        assert!(found[0].contains("line 1, column 9") && found[0].contains("\n  price > prise\n          ^^^^^"), "{found:?}");
    }
    let not_a_condition = refusals(&json!({ "op": "filter", "expression": "price + 1" }), ChangeMode::Append);
    let expected = "expression: a condition is of type `bool`, this is of type `float64` (line 1, column 1)\n  price + 1\n  ^^^^^^^^^";
    assert_eq!(not_a_condition, [expected]);
}

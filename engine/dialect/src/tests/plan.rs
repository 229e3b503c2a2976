//! What the plan asks of an expression.

use super::{NOW, batch, compile};
use crate::{Equals, bind};
use arrow::array::{Array, AsArray, Int64Array, StringViewArray};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use serde_json::json;
use std::sync::Arc;
use tidegate_api::EqualTo;

fn schema() -> SchemaRef {
    Arc::new(Schema::new(vec![
        Field::new("type", DataType::Utf8View, true),
        Field::new("auction", DataType::Int64, true),
        Field::new("small", DataType::Int16, true),
        Field::new("price", DataType::Int64, true),
        Field::new("old", DataType::Utf8, true),
        Field::new("f", DataType::Float64, true),
        Field::new("u", DataType::UInt64, true),
    ]))
}

fn equals(text: &str) -> Equals {
    bind(text, &schema()).unwrap().equals().clone()
}

fn to(column: &str, values: &[serde_json::Value]) -> EqualTo {
    EqualTo { column: column.to_string(), values: values.to_vec() }
}

#[test]
fn conjuncts_of_equality_are_offered_and_the_rest_is_not() {
    assert_eq!(equals("type == 'bid'"), Equals { conjuncts: vec![to("type", &[json!("bid")])], whole: true });
    assert_eq!(equals("3 == small"), Equals { conjuncts: vec![to("small", &[json!(3)])], whole: true });
    assert_eq!(equals("old in ['a', 'b']"), Equals { conjuncts: vec![to("old", &[json!("a"), json!("b")])], whole: true });
    assert_eq!(
        equals("type == 'bid' && auction % 123 == 0 && price in [1, 2]"),
        Equals { conjuncts: vec![to("type", &[json!("bid")]), to("price", &[json!(1), json!(2)])], whole: false }
    );
    for other in [
        "type == 'a' || price == 1",
        "type != 'a'",
        "f == 1.0",
        "price == auction",
        "type == null",
        "lower(type) == 'a'",
        "price == 1.5",
        "true",
    ] {
        assert_eq!(equals(other), Equals { conjuncts: Vec::new(), whole: false }, "{other}");
    }
}

#[test]
fn columns_and_time_are_reported() {
    let typed = bind("coalesce(price, auction) > 1 && now() > ts'2026-01-01'", &schema()).unwrap();
    assert_eq!(typed.columns().iter().map(String::as_str).collect::<Vec<_>>(), ["auction", "price"]);
    assert!(typed.uses_now());
    assert_eq!(typed.data_type(), &DataType::Boolean);
    assert!(!bind("price", &schema()).unwrap().uses_now());
}

#[test]
fn the_expressions_of_the_benchmarks_have_no_part_by_row() {
    for text in [
        "type == 'bid'",
        "auction % 123 == 0",
        "price * 0.908",
        "type == 'bid' && price > 10 && auction in [1, 2]",
        "price < 10000 ? auction : null",
    ] {
        assert_eq!(bind(text, &schema()).unwrap().per_row_parts(), Vec::<String>::new(), "{text}");
    }
    assert_eq!(bind("1 + div(u, u)", &schema()).unwrap().per_row_parts(), ["div(u, u)"]);
}

#[test]
fn what_cannot_fail_is_known() {
    for (text, fails) in [
        ("auction % 123 == 0", false),
        ("price * 0.908", false),
        ("type == 'bid'", false),
        ("price / 10", false),
        ("price + 1", true),
        ("price % auction", true),
        ("price > 1 ? 1 : 2", true),
        ("price != null ? 1 : 2", false),
    ] {
        assert_eq!(bind(text, &schema()).unwrap().can_fail(), fails, "{text}");
    }
}

#[test]
fn text_of_every_layout_is_given_as_views() {
    assert_eq!(bind("old", &schema()).unwrap().data_type(), &DataType::Utf8View);
}

#[test]
fn a_bad_row_in_a_large_batch_costs_itself_alone() {
    let rows = 10_000;
    let values = Int64Array::from_iter_values((0..rows).map(|row| if row == 77 || row == 9_999 { 0 } else { row + 1 }));
    let names = StringViewArray::from_iter_values((0..rows).map(|row| format!("a name of some length {row}")));
    let batch = batch(vec![("a", Arc::new(values)), ("s", Arc::new(names))]);
    let found = compile("100 / a > 1 ? s : concat(s, '!')", &batch.schema()).evaluate(&batch, NOW);
    assert_eq!(found.bad, [(77, "division by zero".to_string()), (9_999, "division by zero".to_string())]);
    assert_eq!(found.values.len(), rows as usize);
    assert_eq!(found.values.null_count(), 2);
    assert_eq!(found.values.as_string_view().value(4_000), "a name of some length 4000!");
}

#[test]
fn an_empty_batch_has_an_empty_answer() {
    let batch = batch(vec![("a", Arc::new(Int64Array::from(Vec::<i64>::new())))]);
    for text in ["a + 1", "1", "a > 0 ? 'x' : 'y'", "now()", "a in [1, 2]"] {
        let found = compile(text, &batch.schema()).evaluate(&batch, NOW);
        assert_eq!((found.values.len(), found.bad.len()), (0, 0), "{text}");
    }
}

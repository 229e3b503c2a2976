//! Lists, objects and lambdas over columns: nulls at every level, failures, limits, and what is asked of the fast path.

use super::{NOW, batch, compile, rows};
use crate::value::{Value, build};
use crate::{bind, types};
use arrow::array::{Array, AsArray, BooleanArray, Int64Array, ListArray, RecordBatch};
use arrow::buffer::{NullBuffer, OffsetBuffer};
use arrow::datatypes::{DataType, Field, Int64Type, Schema};
use std::fmt::Write;
use std::sync::Arc;
use tidegate_api::{Clock, SystemClock};

/// Lists of int64: `[1, null, 3]`, null, `[]`, `[0, 5]`.
fn sample() -> RecordBatch {
    let int = |value: i128| Value::Int(value);
    let lists = [Value::List(vec![int(1), Value::Null, int(3)]), Value::Null, Value::List(Vec::new()), Value::List(vec![int(0), int(5)])];
    let object = types::object_of(vec![("a".into(), DataType::Int64), ("tags".into(), types::list_of(DataType::Utf8View))]);
    let text = |text: &str| Value::Text(text.to_string());
    let objects = [
        Value::Object(vec![int(1), Value::List(vec![text("x"), text("y")])]),
        Value::Null,
        Value::Object(vec![Value::Null, Value::Null]),
        Value::Object(vec![int(4), Value::List(vec![Value::Null])]),
    ];
    batch(vec![
        ("l", build(&types::list_of(DataType::Int64), &lists)),
        ("k", Arc::new(Int64Array::from(vec![Some(3), Some(3), None, Some(5)]))),
        ("o", build(&object, &objects)),
    ])
}

#[test]
fn lambdas_see_elements_positions_and_columns() {
    let rows_of = sample();
    assert_eq!(rows("map(l, x -> x + k)", &rows_of), ["[4, null, 6]", "null", "[]", "[5, 10]"]);
    assert_eq!(rows("map(l, (x, i) -> i * 10)", &rows_of), ["[0, 10, 20]", "null", "[]", "[0, 10]"]);
    assert_eq!(rows("filter(l, x -> x >= k)", &rows_of), ["[3]", "null", "[]", "[5]"]);
    assert_eq!(rows("any(l, x -> x == k)", &rows_of), ["true", "null", "false", "true"]);
    assert_eq!(rows("all(l, x -> x < k + 1)", &rows_of), ["null", "null", "true", "true"]);
    assert_eq!(rows("reduce(l, 0, (sum, x) -> sum + (x ?? 100))", &rows_of), ["104", "null", "0", "5"]);
    assert_eq!(rows("reduce(l, k, (sum, x) -> sum - (x ?? 0))", &rows_of), ["-1", "null", "null", "0"]);
    assert_eq!(rows("map(l, x -> map(l, y -> x * 10 + y)[1])", &rows_of), ["[null, null, null]", "null", "[]", "[5, 55]"]);
    assert_eq!(rows("map(l, k -> k)", &rows_of), ["[1, null, 3]", "null", "[]", "[0, 5]"]);
}

#[test]
fn a_failing_element_makes_its_row_bad_wherever_it_stands() {
    let rows_of = sample();
    assert_eq!(rows("map(l, x -> 6 % x)", &rows_of), ["[0, null, 0]", "null", "[]", "bad"]);
    assert_eq!(rows("any(l, x -> x == 5 || 6 % x == 0)", &rows_of), ["true", "null", "false", "bad"]);
    assert_eq!(rows("any(l, x -> 6 % (5 - x) == 0)", &rows_of), ["true", "null", "false", "bad"]);
    assert_eq!(rows("map(l, x -> try(6 % x))", &rows_of), ["[0, null, 0]", "null", "[]", "[null, 1]"]);
    assert_eq!(rows("try(map(l, x -> 6 % x))", &rows_of), ["[0, null, 0]", "null", "[]", "null"]);
    assert_eq!(rows("size(l) == 2 ? [0] : map(l, x -> 6 % x)", &rows_of)[3], "[0]");
}

#[test]
fn lists_and_objects_are_equal_by_their_values() {
    let rows_of = sample();
    assert_eq!(rows("l == [1, null, 3]", &rows_of), ["true", "null", "false", "false"]);
    assert_eq!(rows("l != [0, 5.0]", &rows_of), ["true", "null", "true", "false"]);
    assert_eq!(rows("o == {tags: ['x', 'y'], a: 1.0}", &rows_of), ["true", "null", "false", "false"]);
    assert_eq!(rows("o == o", &rows_of), ["true", "null", "true", "true"]);
    assert_eq!(rows("k in l", &rows_of), ["true", "null", "null", "true"]);
    assert_eq!(rows("3 in l", &rows_of), ["true", "null", "false", "false"]);
    assert_eq!(rows("[0, 5] in [l]", &rows_of), ["false", "null", "false", "true"]);
    assert_eq!(rows("k in 4..5", &rows_of), ["false", "false", "null", "true"]);
    assert_eq!(rows("k in l[0]..l[1]", &rows_of), ["null", "null", "null", "true"]);
}

#[test]
fn members_of_null_are_null() {
    let rows_of = sample();
    for text in ["o.a", "o?.a", "o['a']", "{p: o}.p?.a", "pick(o, 'a').a", "merge({a: 7}, o).a"] {
        assert_eq!(rows(text, &rows_of), ["1", "null", "null", "4"], "{text}");
    }
    assert_eq!(rows("o.tags[0]", &rows_of), ["'x'", "null", "null", "null"]);
    assert_eq!(rows("has(o, 'a')", &rows_of), ["true", "null", "false", "true"]);
    assert_eq!(rows("keys(o)", &rows_of), ["['a', 'tags']", "null", "['a', 'tags']", "['a', 'tags']"]);
    assert_eq!(rows("{a: k, l: [k, null]}", &rows_of)[2], "{null, [null, null]}");
    assert_eq!(rows("join(o.tags, '-')", &rows_of), ["'x-y'", "null", "null", "''"]);
}

#[test]
fn what_stands_under_a_null_list_is_not_evaluated() {
    let elements = Arc::new(Int64Array::from(vec![0, 2, 0, 3]));
    let field = Arc::new(Field::new_list_field(DataType::Int64, true));
    let nulls = NullBuffer::from(vec![false, true, false, true]);
    let lists = ListArray::new(field, OffsetBuffer::from_lengths([1, 1, 1, 1]), elements, Some(nulls));
    let rows_of = batch(vec![("l", Arc::new(lists))]);
    assert_eq!(rows("map(l, x -> 6 % x)", &rows_of), ["null", "[0]", "null", "[0]"]);
    assert_eq!(rows("listSum(l)", &rows_of), ["null", "2", "null", "3"]);
    let found = compile("map(l, x -> 6 % x)", &rows_of.schema());
    assert!(found.fast(&rows_of, NOW).is_some());
}

#[test]
fn a_range_may_span_all_of_int64() {
    let (least, most) = (i64::MIN, i64::MAX);
    let ends = |values: Vec<i64>| Arc::new(Int64Array::from(values));
    let rows_of = batch(vec![
        ("a", ends(vec![most, least, 3, 1])),
        ("b", ends(vec![least, most, least, most])),
        ("step", ends(vec![-(1 << 62), 1 << 62, least, 1])),
    ]);
    let shown = rows("range(a, b, step)", &rows_of);
    assert_eq!(shown[0], "[9223372036854775807, 4611686018427387903, -1, -4611686018427387905]");
    assert_eq!(shown[1], "[-9223372036854775808, -4611686018427387904, 0, 4611686018427387904]");
    assert_eq!(shown[2..], ["[3, -9223372036854775805]", "bad"]);
}

#[test]
fn a_product_of_long_lists_costs_no_memory_at_once() {
    let long: Vec<Option<i64>> = (0..2_000).map(Some).collect();
    let lists = ListArray::from_iter_primitive::<Int64Type, _, _>((0..8).map(|_| Some(long.clone())));
    let rows_of = batch(vec![("l", Arc::new(lists))]);
    let compiled = compile("size(filter(l, x -> any(l, y -> y == x + 1)))", &rows_of.schema());
    assert!(compiled.fast(&rows_of, NOW).is_none(), "32 million elements at once");
    let few = rows_of.slice(0, 1);
    assert_eq!(compiled.evaluate(&few, NOW).values.as_primitive::<Int64Type>().value(0), 1_999);
}

#[test]
fn large_constants_are_computed_with_the_rows() {
    let schema = Arc::new(Schema::empty());
    let began = SystemClock.monotonic();
    let mut nested = "[1]".to_string();
    for _ in 0..60 {
        nested = format!("map({nested}, x -> concat('', x, x))[0] == '' ? ['a'] : map({nested}, x -> 'a')");
        if nested.len() > 20_000 {
            break;
        }
    }
    let _ = bind(&nested, &schema);
    let mut doubled = "['a']".to_string();
    for _ in 0..60 {
        doubled = format!("map({doubled}, x -> x + x)");
    }
    assert!(bind(&doubled, &schema).is_ok());
    assert!(bind("reduce(range(1, 900000), 0, (s, x) -> s + size(map(range(1, 1000), y -> y)))", &schema).is_ok());
    let took = SystemClock.monotonic() - began;
    assert!(took.as_secs() < 20, "{took:?}");
}

#[test]
fn deep_expressions_leave_the_stack_alone() {
    let rows_of = sample();
    let nest = |start: &str, levels: usize, level: &dyn Fn(&str) -> String| (0..levels).fold(start.to_string(), |text, _| level(&text));
    for text in [
        nest("l", 30, &|text| format!("[{text}]")),
        nest("k", 90, &|text| format!("[{text}][0]")),
        nest("k", 90, &|text| format!("{{a: {text}}}.a")),
        nest("k", 90, &|text| format!("try({text} + 1)")),
        nest("k", 95, &|text| format!("(({text}) in 1..k ? 1 : 2)")),
        nest("l", 150, &|text| format!("map({text}, x -> x + 1)")),
        nest("x", 6, &|text| format!("map([x], x -> {text})[0]")).replacen("[x]", "[k]", 1),
        nest("o", 150, &|text| format!("merge({text}, {{b: k}})")),
        nest("k", 90, &|text| format!("lower(toString({text}))")),
    ] {
        let _ = rows(&text, &rows_of);
    }
    let deep = nest("l", 30, &|text| format!("[{text}]"));
    assert_eq!(rows(&format!("{deep} == {deep}"), &rows_of), ["true", "true", "true", "true"]);
    assert!(bind(&nest("1", 40, &|text| format!("[{text}]")), &rows_of.schema()).unwrap_err().message.contains("levels deep"));
    let lambdas = nest("k", 9, &|text| format!("map(l, x -> {text})"));
    assert!(bind(&lambdas, &rows_of.schema()).unwrap_err().message.contains("8 levels"));
}

#[test]
fn types_cannot_grow_without_bound() {
    let schema = Arc::new(Schema::empty());
    let mut text = "[{a: 1}]".to_string();
    for _ in 0..40 {
        text = format!("map({text}, x -> {{a: x, b: x}})");
    }
    assert!(bind(&text, &schema).unwrap_err().message.contains("2000 parts"));
    let mut chained = "(1 in [1, 2])".to_string();
    for _ in 0..90 {
        chained = format!("({chained} in [true, 1 == 1])");
    }
    assert_eq!(rows(&chained, &batch(Vec::new())), ["true"]);
}

#[test]
fn long_lists_of_constants_take_no_quadratic_time() {
    let schema = Arc::new(Schema::new(vec![Field::new("a", DataType::Int64, true), Field::new("f", DataType::Float64, true)]));
    let list = |count: i64| {
        let mut text = String::new();
        (0..count).for_each(|at| write!(text, "{},", at * 3).unwrap());
        text
    };
    for expression in [
        format!("[{}]", list(100_000)),
        format!("a in [{}]", list(100_000)),
        format!("f in [{}0.5]", list(100_000)),
        format!("a in [{}0.5, 1.5m]", list(100_000)),
        format!("size([{}a])", list(50_000)),
    ] {
        let began = SystemClock.monotonic();
        bind(&expression, &schema).unwrap();
        let took = SystemClock.monotonic() - began;
        assert!(took.as_secs() < 10, "{took:?}");
    }
    let values = Int64Array::from_iter_values(0..8_192);
    let floats = arrow::array::Float64Array::from_iter_values((0..8_192).map(f64::from));
    let rows_of = RecordBatch::try_new(Arc::clone(&schema), vec![Arc::new(values), Arc::new(floats)]).unwrap();
    for column in ["a", "f", "toInt(a)", "(a ?? 0)"] {
        let compiled = compile(&format!("{column} in [{}]", list(100_000)), &schema);
        let began = SystemClock.monotonic();
        let found = compiled.evaluate(&rows_of, NOW);
        let took = SystemClock.monotonic() - began;
        assert!(took.as_secs() < 10, "{took:?}: one after the other it would take a billion comparisons");
        assert_eq!(found.values.as_any().downcast_ref::<BooleanArray>().unwrap().true_count(), 8_192_usize.div_ceil(3));
    }
}

#[test]
fn per_row_parts_are_named_inside_lambdas_too() {
    let schema = Arc::new(Schema::new(vec![Field::new("u", types::list_of(DataType::UInt64), true)]));
    assert_eq!(bind("map(u, x -> div(x, x) + 1)", &schema).unwrap().per_row_parts(), ["div(x, x)"]);
    assert_eq!(bind("sortBy(distinct(u), x -> x % 3)", &schema).unwrap().per_row_parts(), Vec::<String>::new());
}

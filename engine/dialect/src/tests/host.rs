//! Functions that a host adds.

use super::{NOW, assert_same, batch};
use crate::value::Value;
use crate::{Functions, HostFunction, Signature, bind, types};
use arrow::array::{Array, ArrayRef, AsArray, Int64Array, RecordBatch};
use arrow::compute::kernels::numeric::add;
use arrow::datatypes::{DataType, Int64Type};
use std::sync::Arc;

fn set() -> Functions {
    let mut functions = Functions::standard();
    let twice = Signature::exact(vec![DataType::Int64], DataType::Int64);
    let double = |args: &[Value]| match args {
        [Value::Int(value)] if *value < 100 => Ok(Value::Int(value * 2)),
        _ => Err("too large to double".to_string()),
    };
    functions.register(HostFunction::per_row("double", twice.clone(), double).with_doc("Twice the value.")).unwrap();
    let columns = |args: &[ArrayRef], _: usize| {
        let values = args[0].as_primitive::<Int64Type>();
        match values.iter().flatten().any(|value| value >= 100) {
            true => Err("too large to double".to_string()),
            false => add(values, values).map_err(|error| error.to_string()),
        }
    };
    functions.register(HostFunction::per_batch("doubleAll", twice.clone(), columns)).unwrap();
    let pair = Signature::resolved(1..=2, "(value, value?) -> list", |types| {
        let ty = types.iter().try_fold(DataType::Null, |known, ty| types::common(&known, ty)).ok_or("no type in common")?;
        Ok((vec![ty.clone(); types.len()], types::list_of(ty)))
    });
    functions.register(HostFunction::per_row("pair", pair, |args| Ok(Value::List(args.to_vec())))).unwrap();
    functions.register(HostFunction::per_row("liar", twice.clone(), |_| Ok(Value::Bool(true)))).unwrap();
    functions.register(HostFunction::per_batch("short", twice, |args, _| Ok(args[0].slice(0, 0)))).unwrap();
    functions
}

fn sample() -> RecordBatch {
    batch(vec![("a", Arc::new(Int64Array::from(vec![Some(1), None, Some(100), Some(4)])))])
}

#[test]
fn a_host_function_runs_by_row_or_by_column_with_one_meaning() {
    let (functions, rows) = (set(), sample());
    for (text, shown) in [
        ("double(a)", ["2", "null", "bad", "8"]),
        ("doubleAll(a)", ["2", "null", "bad", "8"]),
        ("try(doubleAll(a)) ?? -1", ["2", "-1", "-1", "8"]),
        ("map([a, 3], x -> doubleAll(x))[1]", ["6", "6", "bad", "6"]),
        ("pair(a, 0.5)[0]", ["1.0", "null", "100.0", "4.0"]),
        ("liar(a)", ["bad", "null", "bad", "bad"]),
        ("short(a)", ["bad", "null", "bad", "bad"]),
    ] {
        let compiled = functions.bind(text, &rows.schema()).unwrap_or_else(|mistake| panic!("{}", mistake.render(text))).compile();
        let (found, (values, bad)) = (compiled.evaluate(&rows, NOW), compiled.by_row(&rows, NOW));
        assert_same(&found.values, &values, text);
        assert_eq!(found.bad, bad, "{text}");
        let mut seen: Vec<String> = (0..rows.num_rows()).map(|row| super::show(&Value::read(&found.values, row))).collect();
        bad.iter().for_each(|(row, _)| seen[*row] = "bad".to_string());
        assert_eq!(seen, shown, "{text}");
    }
}

#[test]
fn a_plan_marks_host_functions_that_run_by_row() {
    let (functions, schema) = (set(), sample().schema());
    assert_eq!(functions.bind("double(a) + doubleAll(a)", &schema).unwrap().per_row_parts(), ["double(a)"]);
    assert!(functions.bind("double(a)", &schema).unwrap().can_fail());
}

#[test]
fn mistakes_with_host_functions_have_their_place() {
    let (functions, schema) = (set(), sample().schema());
    for (text, message, at) in [
        ("1 + doble(a)", "unknown function `doble`, did you mean `double`?", "doble"),
        ("double(1, 2)", "`double(int64) -> int64` does not take 2 arguments", "double(1, 2)"),
        ("double('x')", "argument 1 of `double` is int64, not string", "'x'"),
        ("double(1.5)", "argument 1 of `double` is int64, not float64", "1.5"),
        ("double(x -> x)", "`double(int64) -> int64` does not take a lambda", "x -> x"),
        ("pair(1, 'x')", "`pair(value, value?) -> list`: no type in common", "pair(1, 'x')"),
        ("double(200)", "this always fails: too large to double", "double(200)"),
        ("double", "unknown column `double`, the function is written `double(int64) -> int64`", "double"),
    ] {
        let found = functions.bind(text, &schema).expect_err(text);
        assert_eq!((found.message.as_str(), &text[found.span.clone()]), (message, at), "{text}");
    }
    assert!(bind("double(a)", &schema).is_err(), "the standard set knows no function of a host");
}

#[test]
fn a_name_is_registered_once() {
    let mut functions = set();
    let any = Signature::exact(vec![], DataType::Int64);
    for name in ["double", "lower", "map", "not a name", "1a", "null", "in", "", "a.b", "`a`"] {
        let function = HostFunction::per_row(name, any.clone(), |_| Ok(Value::Int(1)));
        assert!(functions.register(function).is_err(), "{name}");
    }
    let names: Vec<&str> = functions.registered().map(HostFunction::name).collect();
    assert_eq!(names, ["double", "doubleAll", "liar", "pair", "short"]);
}

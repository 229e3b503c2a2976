//! Functions over columns: what differs from row to row, limits, extremes. Single values are the examples of each function.

use super::{batch, evaluate, rows};
use arrow::array::{ArrayRef, Decimal128Array, Int64Array, RecordBatch, StringArray, StructArray, TimestampMicrosecondArray, UInt64Array};
use arrow::datatypes::{DataType, Field};
use std::sync::Arc;

fn texts(name: &str, values: &[Option<&str>]) -> RecordBatch {
    batch(vec![(name, Arc::new(values.iter().copied().collect::<StringArray>()) as ArrayRef)])
}

#[test]
fn a_pattern_may_differ_from_row_to_row_and_a_wrong_one_costs_its_row() {
    let patterns = [Some("^a"), Some("("), None, Some("b$"), Some("^a")];
    let values = [Some("ab"), Some("ab"), Some("ab"), Some("ab"), Some("ba")];
    let rows_of = batch(vec![
        ("s", Arc::new(values.into_iter().collect::<StringArray>()) as ArrayRef),
        ("p", Arc::new(patterns.into_iter().collect::<StringArray>())),
    ]);
    assert_eq!(rows("regexMatches(s, p)", &rows_of), ["true", "bad", "null", "true", "false"]);
    assert_eq!(rows("regexReplace(s, p, '-')", &rows_of), ["'-b'", "bad", "null", "'a-'", "'ba'"]);
    assert_eq!(rows("regexExtractAll(s, p)[0]", &rows_of), ["'a'", "bad", "null", "'b'", "null"]);
}

#[test]
fn a_pattern_that_compiles_to_too_much_is_refused() {
    let schema = texts("s", &[None]).schema();
    let mistake = crate::bind(r"regexCount(s, '(\\w{100}){100}')", &schema).unwrap_err();
    assert!(mistake.message.contains("not a regular expression"), "{mistake}");
}

#[test]
fn texts_do_not_grow_beyond_their_limit() {
    let long = "a".repeat(1 << 20);
    let one = texts("s", &[Some(&long), Some("a")]);
    for expression in
        ["repeat(s, 17)", "replace(s, 'a', 'twenty characters...')", "padLeft(s, 17000000)", "regexReplace(s, 'a', '$0 and twenty more')"]
    {
        let found = evaluate(expression, &one);
        assert!(found.bad.iter().any(|(row, _)| *row == 0), "{expression}");
    }
    assert_eq!(evaluate("repeat(s, 16)", &one).bad.len(), 0);
}

#[test]
fn what_doubles_again_and_again_ends_at_a_limit() {
    let long = "a".repeat(1 << 20);
    let one = texts("s", &[Some(&long), Some("a")]);
    for (joined, parts, bad) in [("s + s", 8, 0), ("s + s", 9, 1), ("concat(s, s)", 9, 1)] {
        let expression = format!("length({})", vec![format!("({joined})"); parts].join(" + "));
        let found = evaluate(&expression, &one);
        assert_eq!(found.bad.iter().map(|(row, _)| *row).collect::<Vec<_>>(), vec![0; bad], "{expression}");
    }
    // Each step doubles what the one before has made.
    let doubled = |from: &str, times: usize| (0..times).fold(from.to_string(), |made, _| format!("map([{made}], x -> concat(x, x))[0]"));
    let text = evaluate(&format!("length({})", doubled("s", 5)), &one);
    assert_eq!(text.bad, [(0, "the result would be longer than 16 MiB".to_string())]);
    let list = evaluate(&format!("length({})", doubled("range(1, 100000)", 4)), &one);
    assert_eq!(list.bad.len(), 2);
    assert_eq!(list.bad[0].1, "the list has 1600000 elements, at most 1000000 are made");
}

#[test]
fn numbers_in_json_keep_every_digit() {
    let json = texts(
        "s",
        &[
            Some(r#"{"i": 9223372036854775807, "u": 18446744073709551615, "d": 12345678901234567890123456789012345678}"#),
            Some(r#"{"i": -9223372036854775808, "u": "18446744073709551615", "d": -0.5e1}"#),
            Some(r#"{"i": 9223372036854775808, "u": -1, "d": 123456789012345678901234567890123456789}"#),
            Some("{}"),
            None,
        ],
    );
    assert_eq!(rows("jsonGet(s, '$.i', 'int64')", &json), ["9223372036854775807", "-9223372036854775808", "bad", "null", "null"]);
    assert_eq!(rows("jsonGet(s, '$.u', 'uint64')", &json), ["18446744073709551615", "18446744073709551615", "bad", "null", "null"]);
    assert_eq!(rows("jsonGet(s, '$.d', 'decimal(38,0)')", &json), ["12345678901234567890123456789012345678", "-5", "bad", "null", "null"]);
    assert_eq!(rows("parseJson(s, 'struct<i: int64>').i == 9223372036854775807", &json), ["true", "false", "bad", "null", "null"]);
}

#[test]
fn values_of_every_type_become_json_and_come_back() {
    let fields = vec![Field::new("n", DataType::UInt64, true), Field::new("s", DataType::Utf8, true)];
    let members: Vec<ArrayRef> =
        vec![Arc::new(UInt64Array::from(vec![Some(u64::MAX), None])), Arc::new(StringArray::from(vec![Some("a\"\u{1}\n"), None]))];
    let all = batch(vec![
        ("st", Arc::new(StructArray::new(fields.into(), members, None)) as ArrayRef),
        ("t", Arc::new(TimestampMicrosecondArray::from(vec![Some(-62_135_596_800_000_000), Some(253_402_300_799_999_999)]))),
        ("d", Arc::new(Decimal128Array::from(vec![10_i128.pow(38) - 1, -5]).with_precision_and_scale(38, 10).unwrap())),
    ]);
    assert_eq!(rows("toJson(st)", &all), [r#"'{"n":18446744073709551615,"s":"a\"\u0001\n"}'"#, r#"'{"n":null,"s":null}'"#]);
    assert_eq!(rows("toJson(t)", &all), [r#"'"0001-01-01T00:00:00.000000Z"'"#, r#"'"9999-12-31T23:59:59.999999Z"'"#]);
    assert_eq!(rows("toJson([d])", &all), ["'[9999999999999999999999999999.9999999999]'", "'[-0.0000000005]'"]);
    assert_eq!(rows("parseJson(toJson(t), 'timestamp_us') == t", &all), ["true", "true"]);
    assert_eq!(rows("parseJson(toJson(d), 'decimal(38,10)') == d", &all), ["true", "true"]);
    assert_eq!(rows("parseJson(toJson(st), 'struct<n: uint64, s: string>').s == st.s", &all), ["true", "null"]);
}

#[test]
fn times_from_year_1_to_9999_are_written_and_read_by_a_pattern() {
    let first = -62_135_596_800_000_000;
    let last = 253_402_300_799_999_999;
    let times =
        batch(vec![("t", Arc::new(TimestampMicrosecondArray::from(vec![first, last, 0, first - 1, last + 1, i64::MAX])) as ArrayRef)]);
    assert_eq!(
        rows("formatTime(t, '%F %T.%6f %A')", &times),
        [
            "'0001-01-01 00:00:00.000000 Monday'",
            "'9999-12-31 23:59:59.999999 Friday'",
            "'1970-01-01 00:00:00.000000 Thursday'",
            "bad",
            "bad",
            "bad"
        ]
    );
    assert_eq!(rows("parseTime(formatTime(t, '%F %T.%6f'), '%F %T.%6f') == t", &times), ["true", "true", "true", "bad", "bad", "bad"]);
    assert_eq!(rows("dateAdd('month', -1, t) == t", &times), ["bad", "false", "false", "bad", "false", "bad"]);
    assert_eq!(rows("dateDiff('year', t, t)", &times), ["0"; 6]);
}

#[test]
fn casts_that_try_give_null_where_the_others_fail() {
    let values = texts("s", &[Some("12"), Some("1.5"), Some("x"), Some(""), None]);
    assert_eq!(rows("tryToInt(s)", &values), ["12", "null", "null", "null", "null"]);
    assert_eq!(rows("toDecimal(s, 5, 1)", &values), ["120", "15", "bad", "bad", "null"]);
    assert_eq!(rows("tryToDecimal(s, 5, 1)", &values), ["120", "15", "null", "null", "null"]);
    assert_eq!(rows("tryToTimestamp(s)", &values), ["null"; 5]);
}

#[test]
fn integers_at_their_ends_are_exact_or_bad() {
    let ends = batch(vec![("i", Arc::new(Int64Array::from(vec![i64::MIN, i64::MAX, -1, 0])) as ArrayRef)]);
    assert_eq!(rows("sign(i)", &ends), ["-1", "1", "-1", "0"]);
    assert_eq!(rows("mod(i, -1)", &ends), ["0", "0", "0", "0"]);
    assert_eq!(rows("floorMod(i, 10)", &ends), ["2", "7", "9", "0"]);
    assert_eq!(rows("gcd(i, i)", &ends), ["bad", "9223372036854775807", "1", "0"]);
    assert_eq!(rows("fromBase(toBase(i, 36), 36) == i", &ends), ["true"; 4]);
    assert_eq!(rows("fromHex(toHex(i)) == i", &ends), ["true"; 4]);
    assert_eq!(rows("greatest(i, 0)", &ends), ["0", "9223372036854775807", "0", "0"]);
    assert_eq!(rows("dateAdd('day', i, ts'2026-01-31') == ts'2026-01-30'", &ends), ["bad", "bad", "true", "false"]);
    assert_eq!(rows("year(fromEpochSeconds(i)) > 0", &ends).len(), 4);
}

#[test]
fn every_function_takes_null() {
    for function in crate::functions() {
        let (least, _) = function.arity;
        let call = format!("{}({})", function.name, vec!["null"; least].join(", "));
        // A constant that has to be known may refuse it; nothing may break.
        let _ = crate::bind(&call, &texts("s", &[None]).schema());
    }
}

//! Mistakes are found when an expression is bound, each with its place and, where there is one, the remedy.

use crate::bind;
use arrow::datatypes::{DataType, Field, Schema, SchemaRef, TimeUnit};
use std::sync::Arc;

fn schema() -> SchemaRef {
    let members = vec![Field::new("city", DataType::Utf8View, true)];
    Arc::new(Schema::new(vec![
        Field::new("price", DataType::Int64, true),
        Field::new("auction", DataType::Int64, true),
        Field::new("url", DataType::Utf8View, true),
        Field::new("active", DataType::Boolean, true),
        Field::new("dateTime", DataType::Timestamp(TimeUnit::Millisecond, None), true),
        Field::new("address", DataType::Struct(members.into()), true),
        Field::new("tags", DataType::List(Arc::new(Field::new_list_field(DataType::Utf8View, true))), true),
        Field::new("a.b", DataType::Int64, true),
        Field::new("amount", DataType::Decimal128(38, 20), true),
        Field::new("_key", DataType::Binary, true),
    ]))
}

#[test]
fn each_mistake_has_a_message_and_a_place() {
    for (text, message, at) in [
        ("prise > 1", "unknown column `prise`, did you mean `price`?", "prise"),
        ("kee == 1", "unknown column `kee`", "kee"),
        ("lower", "unknown column `lower`, the function is written `lower(text) -> string`", "lower"),
        ("lowr(url)", "unknown function `lowr`, did you mean `lower`?", "lowr"),
        ("lower(url, 1)", "`lower(text) -> string` does not take 2 arguments", "lower(url, 1)"),
        ("1 + lower(price)", "the first argument of `lower` is text, not int64", "price"),
        ("substring(url, 'a')", "the second argument of `substring` is an integer, not string", "'a'"),
        ("price + url", "`+` does not take string here, read it with `toNumber`", "url"),
        ("active * 2", "`*` does not take bool here", "active"),
        ("dateTime * 2", "`*` does not take timestamp_ms here, times are only moved by `+` and `-`", "dateTime"),
        ("2 - dateTime", "`-` does not take timestamp_ms here, times are only moved by `+` and `-`", "dateTime"),
        ("price && active", "`&&` takes bool, not int64", "price"),
        ("!price", "`!` takes bool, not int64", "price"),
        ("price ? 1 : 2", "the condition of `?:` takes bool, not int64", "price"),
        ("active ? 1 : 'a'", "the two values of `?:` have no type in common: int64 and string", "'a'"),
        ("price ?? 'a'", "the alternatives have no type in common: int64 and string", "'a'"),
        ("url == 1", "string and int64 cannot be compared, read text with `toNumber` or write a number with `toString`", "url == 1"),
        (
            "dateTime > '2026-01-31'",
            "timestamp_ms and string cannot be compared, write a time as `ts'2026-01-31T12:00:00Z'`",
            "dateTime > '2026-01-31'",
        ),
        ("tags < tags", "list<string> has no order, only `==` and `!=` compare it", "tags"),
        ("tags == address", "list<string> and struct<city: string> cannot be compared", "tags == address"),
        ("tags == 1", "list<string> and int64 cannot be compared", "tags == 1"),
        ("tags == [1]", "string and int64 cannot be compared, read text with `toNumber` or write a number with `toString`", "tags == [1]"),
        (
            "address == {a: 1}",
            "objects with different members are never equal: struct<city: string> and struct<a: int64>",
            "address == {a: 1}",
        ),
        ("price in url", "`in` takes a list or a range such as `1..10`, not string", "url"),
        (
            "price in 'a'..'b'",
            "int64 and string cannot be compared, read text with `toNumber` or write a number with `toString`",
            "price in 'a'..'b'",
        ),
        ("[price, url]", "the elements of the list have no type in common: int64 and string", "url"),
        ("{a: 1, a: 2}", "the object has two members named `a`", "2"),
        ("address[url]", "the name of a member is a constant text, its type must be known", "url"),
        ("address['zity']", "unknown member `zity`, did you mean `city`?", "address['zity']"),
        ("null.a", "null has no members", "null.a"),
        ("pick(address, 'zity')", "unknown member `zity`, did you mean `city`?", "'zity'"),
        ("map(tags, lower)", "expected a lambda such as `x -> …`", "lower"),
        ("map(price, x -> x)", "the first argument of `map` is a list, not int64", "price"),
        ("map(tags, (a, b, c) -> a)", "the lambda has 3 parameters, write it as `x -> …`", "(a, b, c) -> a"),
        ("filter(tags, x -> length(x))", "the lambda of `filter` gives bool, not int64", "length(x)"),
        ("sortBy(tags, x -> tags)", "list<string> has no order to sort by", "tags"),
        ("map(tags, tag -> lower(tg))", "unknown column `tg`, did you mean `tag`?", "tg"),
        ("lower(x -> x)", "`lower(text) -> string` does not take a lambda", "x -> x"),
        (
            "reduce(tags, 0, (n, x) -> n + 0.5)",
            "the lambda gives float64, but the start value is int64: start with a value of the same type",
            "n + 0.5",
        ),
        ("reduce(tags, 0, x -> 1)", "the lambda has 1 parameters, write it as `(sum, x) -> …`", "x -> 1"),
        ("try(prise)", "unknown column `prise`, did you mean `price`?", "prise"),
        ("map(tags, x -> 1 / 0)", "this always fails: division by zero", "1 / 0"),
        ("url in []", "the list after `in` is empty", "url in []"),
        ("url in ['a', null]", "`null` cannot stand in the list after `in`, add `|| … == null`", "null"),
        ("address.zity", "unknown member `zity`, did you mean `city`?", "address.zity"),
        ("price.x", "int64 has no members", "price.x"),
        ("price[0]", "int64 has no elements, `[…]` reads a list", "price"),
        ("tags['a']", "an index is an integer, not string", "'a'"),
        ("-url", "`-` takes a number, not string", "url"),
        ("price > 0 && 1 / 0 > 1", "this always fails: division by zero", "1 / 0"),
        (
            "9223372036854775807 + 1",
            "this always fails: integer overflow: `9223372036854775808` does not fit in int64",
            "9223372036854775807 + 1",
        ),
        ("regexMatch(url, '(')", "this is not a regular expression: unclosed group", "'('"),
        ("regexMatch(url, url)", "the second argument of `regexMatch` is a constant text", "url"),
        ("regexExtract(url, 'a', 1)", "the pattern has the groups 0 to 0", "1"),
        ("dateTrunc('our', dateTime)", "unknown unit `our`, did you mean `hour`?", "'our'"),
        ("round(1.5, price)", "the number of decimals is a constant integer from 0 to 15", "price"),
        ("amount * amount", "the product needs 40 decimals, a decimal has at most 38: round an operand first", "amount * amount"),
        ("toString(tags)", "the first argument of `toString` is a value that has a text, not list<string>", "tags"),
    ] {
        let found = bind(text, &schema()).expect_err(text);
        assert_eq!((found.message.as_str(), &text[found.span.clone()]), (message, at), "{text}");
    }
}

#[test]
fn a_name_with_a_point_is_quoted() {
    assert!(bind("`a.b` + 1", &schema()).is_ok());
    assert!(bind("address.city", &schema()).is_ok());
}

#[test]
fn random_tokens_are_refused_or_bound_without_a_panic() {
    let words = [
        "price",
        "url",
        "(",
        ")",
        "[",
        "]",
        "==",
        "<",
        "&&",
        "||",
        "!",
        "-",
        "+",
        "%",
        "?",
        ":",
        "??",
        "in",
        ",",
        ".",
        "null",
        "1",
        "1.5",
        "2m",
        "'a'",
        "lower",
        "coalesce",
        "now",
        "tags",
        "address",
        "city",
        "true",
        "ts'2026-01-31'",
        "`a.b`",
        "=",
        "/*",
        "//",
        "ü",
        "{",
        "}",
        "->",
        "x",
        "..",
        "?.",
        "map",
        "try",
        "reduce",
        "'city'",
    ];
    let mut state = 7_u64;
    for _ in 0..20_000 {
        let mut text = String::new();
        for _ in 0..1 + state % 9 {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            text.push_str(words[(state >> 33) as usize % words.len()]);
            text.push(' ');
        }
        if let Err(mistake) = bind(&text, &schema()) {
            assert!(mistake.span.end <= text.len() && !mistake.message.is_empty());
            let _ = mistake.render(&text);
        }
    }
}

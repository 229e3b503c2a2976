//! JSON in texts: `parseJson`, `jsonGet` and their like

use super::Function;
use super::args::{Args, Shape};
use super::json_read::typed;
use super::json_scan::{Found, Kind, Step, children, compact, find, path, unescape};
use super::json_write::write;
use super::pattern::texts;
use crate::Diagnostic;
use crate::node::Node;
use crate::value::Value;
use arrow::datatypes::DataType;

pub(super) const FUNCTIONS: &[Function] = &[
    Function {
        name: "isJson",
        signature: "isJson(text) -> bool",
        doc: "Whether the text is one JSON value, nested no deeper than 128 levels.",
        examples: &[("isJson('{\"a\": [1, 2]}')", "true"), ("isJson('{a: 1}')", "false"), ("isJson('')", "false")],
        arity: (1, 1),
        bind: |mut args| {
            args.take(&[Shape::Text])?;
            Ok(args.into_bool(|row| find(row.text(0), &[]).is_ok()))
        },
    },
    Function {
        name: "parseJson",
        signature: "parseJson(text, type?) -> string or type",
        doc: "With a `type`, a constant such as 'list<struct<a: int64, b: decimal(20,2)>>' (the types of a `schema`), the value that JSON text holds. Numbers are read exactly, never through a float; a number may stand in quotes; strings are read as dates and timestamps; members that the type does not name are left out, those that are missing are null, and so is null. Without a type, the same JSON as text without white space, its numbers as they stand. What is not JSON, or not of the type, makes a bad row.",
        examples: &[
            ("parseJson(' { \"a\" : 1.50 } ')", "'{\"a\":1.50}'"),
            ("parseJson('[9007199254740993, 2]', 'list<int64>')[0]", "9007199254740993"),
            ("parseJson('{\"a\": {\"b\": \"x\"}}', 'struct<a: struct<b: string>>').a.b", "'x'"),
            ("parseJson('12345678901234567890.12', 'decimal(38,2)')", "12345678901234567890.12m"),
            ("parseJson('{')", "error"),
            ("parseJson('1.5', 'int64')", "error"),
        ],
        arity: (1, 2),
        bind: |mut args| {
            if args.len() == 1 {
                args.take(&[Shape::Text])?;
                return Ok(args.into_text(|row, out: &mut String| {
                    let whole = find(row.text(0), &[])?;
                    whole.and_then(|whole| compact(whole, out)).ok_or_else(surrogate)
                }));
            }
            let ty = constant_type(&args, 1)?;
            args.nodes.truncate(1);
            args.take(&[Shape::Text])?;
            let result = ty.clone();
            Ok(args.into_value(result, move |row| match find(row.text(0), &[])? {
                Some(found) => typed(found, &ty),
                None => Ok(Value::Null),
            }))
        },
    },
    Function {
        name: "jsonGet",
        signature: "jsonGet(text, path, type?) -> string or type",
        doc: "The value at a path (a constant: `$` the whole, `.name` or `['any name']` a member, `[0]` an element) of a JSON text: without a `type` as text, strings without their quotes, all else as JSON without white space; with one (a constant, as for `parseJson`) read exactly into that type. Null where the path leads nowhere or to null. Of members of one name the last counts. A text that is not JSON, or a value not of the type, makes a bad row.",
        examples: &[
            ("jsonGet('{\"a\": {\"b\": [1, \"x\"]}}', '$.a.b[1]')", "'x'"),
            ("jsonGet('{\"a\": [1, 2]}', '$.a')", "'[1,2]'"),
            ("jsonGet('{\"id\": 9007199254740993}', '$.id', 'int64')", "9007199254740993"),
            ("jsonGet('{\"p\": 1.50}', '$.p', 'decimal(10,2)')", "1.50m"),
            ("jsonGet('{\"a b\": true}', \"$['a b']\", 'bool')", "true"),
            ("jsonGet('{}', '$.a')", "null"),
            ("jsonGet('{\"a\": null}', '$.a')", "null"),
            ("jsonGet('{', '$.a')", "error"),
            ("jsonGet('{\"a\": 1.5}', '$.a', 'int64')", "error"),
        ],
        arity: (2, 3),
        bind: get,
    },
    Function {
        name: "jsonExists",
        signature: "jsonExists(text, path) -> bool",
        doc: "Whether a path, as for `jsonGet`, leads to a value, be it null. A text that is not JSON makes a bad row.",
        examples: &[
            ("jsonExists('{\"a\": null}', '$.a')", "true"),
            ("jsonExists('[1]', '$[1]')", "false"),
            ("jsonExists('x', '$')", "error"),
        ],
        arity: (2, 2),
        bind: |args| {
            let (args, path) = at_path(args)?;
            Ok(args.into_bool(move |row| find(row.text(0), &path).map(|found| found.is_some())))
        },
    },
    Function {
        name: "jsonType",
        signature: "jsonType(text, path?) -> string",
        doc: "What stands at a path, by default the whole: 'object', 'array', 'string', 'number', 'boolean' or 'null'; null where the path leads nowhere. A text that is not JSON makes a bad row.",
        examples: &[("jsonType('[1, 2]')", "'array'"), ("jsonType('{\"a\": null}', '$.a')", "'null'"), ("jsonType('{}', '$.a')", "null")],
        arity: (1, 2),
        bind: |args| {
            let (args, path) = at_path(args)?;
            Ok(args.into_text(move |row, out: &mut String| {
                Ok::<_, String>(find(row.text(0), &path)?.map(|found| {
                    out.push_str(match found.kind {
                        Kind::Null => "null",
                        Kind::Bool => "boolean",
                        Kind::Number => "number",
                        Kind::Text => "string",
                        Kind::List => "array",
                        Kind::Object => "object",
                    });
                }))
            }))
        },
    },
    Function {
        name: "jsonLength",
        signature: "jsonLength(text, path?) -> int64",
        doc: "How many elements or members the array or object at a path, by default the whole, has; null for anything else. A text that is not JSON makes a bad row.",
        examples: &[("jsonLength('[1, [2, 3]]')", "2"), ("jsonLength('{\"a\": {\"b\": 1}}', '$.a')", "1"), ("jsonLength('5')", "null")],
        arity: (1, 2),
        bind: |args| {
            let (args, path) = at_path(args)?;
            Ok(args.into_int(move |row| {
                Ok::<_, String>(find(row.text(0), &path)?.filter(|found| matches!(found.kind, Kind::List | Kind::Object)).map(|found| {
                    let mut count = 0;
                    children(found, |_, _| count += 1);
                    count
                }))
            }))
        },
    },
    Function {
        name: "jsonKeys",
        signature: "jsonKeys(text, path?) -> list<string>",
        doc: "The names of the members of the object at a path, by default the whole, in their order; null for anything else. A text that is not JSON makes a bad row.",
        examples: &[("jsonKeys('{\"a\": 1, \"b\": 2}')[1]", "'b'"), ("jsonKeys('[1]') == null", "true")],
        arity: (1, 2),
        bind: |args| {
            let (args, path) = at_path(args)?;
            Ok(args.into_value(texts(), move |row| {
                let Some(found) = find(row.text(0), &path)?.filter(|found| found.kind == Kind::Object) else {
                    return Ok(Value::Null);
                };
                let mut names = Vec::new();
                let mut whole = true;
                children(found, |name, _| {
                    let mut text = String::new();
                    whole &= name.and_then(|name| unescape(name, &mut text)).is_some();
                    names.push(Value::Text(text));
                });
                if whole { Ok(Value::List(names)) } else { Err(surrogate()) }
            }))
        },
    },
    Function {
        name: "toJson",
        signature: "toJson(value) -> string",
        doc: "A value of any type as JSON text: integers and decimals in their digits, floats as the shortest number that reads back (null for NaN and the infinities, which JSON has not), times as `toString` has them, times of day as 12:30:00.000000, binary in base64, lists as arrays, structs as objects, a null inside as null.",
        examples: &[
            ("toJson('a \"b\"')", "'\"a \\\\\"b\\\\\"\"'"),
            ("toJson(1.50m)", "'1.50'"),
            ("toJson(ts'2026-01-31')", "'\"2026-01-31T00:00:00.000Z\"'"),
            ("toJson(0.0 / 0.0)", "'null'"),
            ("toJson(parseJson('{\"a\": [1, null]}', 'struct<a: list<int64>>'))", "'{\"a\":[1,null]}'"),
        ],
        arity: (1, 1),
        bind: |args| {
            let ty = args.ty(0).clone();
            Ok(args.into_text_of_any(move |row, out: &mut String| {
                let (array, at) = row.any(0, &ty);
                write(array.as_ref(), at, out)
            }))
        },
    },
];

fn surrogate() -> String {
    "the JSON has half of a surrogate pair, which is no character".to_string()
}

/// The type that a constant text names.
fn constant_type(args: &Args<'_>, at: usize) -> Result<DataType, Diagnostic> {
    fn known(ty: &DataType) -> bool {
        match ty {
            DataType::Decimal256(..) => false,
            DataType::List(item) => known(item.data_type()),
            DataType::Struct(fields) => fields.iter().all(|field| known(field.data_type())),
            _ => true,
        }
    }
    let ty = tidegate_api::types::parse(args.constant_text(at)?).map_err(|error| args.refuse(at, error.message()))?;
    if known(&ty) { Ok(ty) } else { Err(args.refuse(at, "a decimal of the dialect has at most 38 digits")) }
}

/// A text and the constant path behind it, by default the whole.
fn at_path(mut args: Args<'_>) -> Result<(Args<'_>, Vec<Step>), Diagnostic> {
    let steps = match args.len() {
        1 => Vec::new(),
        _ => path(args.constant_text(1)?).map_err(|message| args.refuse(1, message))?,
    };
    args.nodes.truncate(1);
    args.take(&[Shape::Text])?;
    Ok((args, steps))
}

fn get(mut args: Args<'_>) -> Result<Node, Diagnostic> {
    let ty = match args.len() {
        3 => Some(constant_type(&args, 2)?),
        _ => None,
    };
    args.nodes.truncate(2);
    let (args, path) = at_path(args)?;
    let Some(ty) = ty else {
        return Ok(args.into_text(move |row, out: &mut String| shown(find(row.text(0), &path)?, out)));
    };
    let value = move |text: &str, ty: &DataType| match find(text, &path)? {
        Some(found) => typed(found, ty),
        None => Ok(Value::Null),
    };
    Ok(match ty {
        DataType::Utf8View => args.into_text(move |row, out: &mut String| match value(row.text(0), &DataType::Utf8View)? {
            Value::Text(text) => {
                out.push_str(&text);
                Ok(Some(()))
            }
            _ => Ok::<_, String>(None),
        }),
        DataType::Int64 => args.into_int(move |row| match value(row.text(0), &DataType::Int64)? {
            Value::Int(value) => Ok(Some(value as i64)),
            _ => Ok::<_, String>(None),
        }),
        DataType::Float64 => args.into_float(move |row| match value(row.text(0), &DataType::Float64)? {
            Value::Float(value) => Ok(Some(value)),
            _ => Ok::<_, String>(None),
        }),
        DataType::Boolean => args.into_bool(move |row| match value(row.text(0), &DataType::Boolean)? {
            Value::Bool(value) => Ok(Some(value)),
            _ => Ok::<_, String>(None),
        }),
        ty => {
            let result = ty.clone();
            args.into_value(result, move |row| value(row.text(0), &ty))
        }
    })
}

/// A value as text: strings without quotes, null as none, the rest as JSON.
fn shown(found: Option<Found<'_>>, out: &mut String) -> Result<Option<()>, String> {
    match found {
        None | Some(Found { kind: Kind::Null, .. }) => Ok(None),
        Some(Found { kind: Kind::Text, text }) => unescape(text, out).map(Some).ok_or_else(surrogate),
        Some(found) => compact(found, out).map(Some).ok_or_else(surrogate),
    }
}

//! From a piece of JSON text to a value of a field's type.

use std::borrow::Cow;
use text_values::{Value, ValueType, float, integer, parse_ms};

/// There is a value, and it is not of the type that is wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NotOfItsType;

/// The value; `Ok(None)` for JSON's null.
///
/// # Errors
/// When it is not of the type.
pub fn value(value_type: ValueType, json: &str) -> Result<Option<Value<'_>>, NotOfItsType> {
    let value = match (value_type, json.as_bytes().first()) {
        (_, Some(b'n')) => return Ok(None),
        (ValueType::String, Some(b'"')) => text(json).map(Value::String),
        // Anything else is handed on as it was written.
        (ValueType::String, _) => Some(Value::String(Cow::Borrowed(json))),
        (ValueType::Bool, Some(b't')) => Some(Value::Bool(true)),
        (ValueType::Bool, Some(b'f')) => Some(Value::Bool(false)),
        (ValueType::Int64, _) => integer(json).map(Value::Int64),
        (ValueType::Float64, _) => float(json).map(Value::Float64),
        (ValueType::TimestampMs, Some(b'"')) => text(json).and_then(|text| parse_ms(&text)).map(Value::TimestampMs),
        (ValueType::TimestampMs, _) => integer(json).map(Value::TimestampMs),
        (ValueType::Bool, _) => None,
    };
    value.map(Some).ok_or(NotOfItsType)
}

/// What a JSON string says; `None` when it has half of a surrogate pair, which no text can hold.
fn text(json: &str) -> Option<Cow<'_, str>> {
    if json.contains('\\') {
        return serde_json::from_str(json).ok().map(Cow::Owned);
    }
    json.strip_prefix('"')?.strip_suffix('"').map(Cow::Borrowed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_of_json_for_every_type() {
        use ValueType::{Bool, Float64, Int64, String, TimestampMs};
        let text = |text: &'static str| Ok(Some(Value::String(text.into())));
        for value_type in [Bool, Float64, Int64, String, TimestampMs] {
            assert_eq!(value(value_type, "null"), Ok(None));
        }
        assert_eq!(value(Int64, "-9007199254740993"), Ok(Some(Value::Int64(-9_007_199_254_740_993))));
        assert_eq!(value(Int64, "1.0"), Ok(Some(Value::Int64(1))));
        assert_eq!(value(Float64, "1e2"), Ok(Some(Value::Float64(100.0))));
        assert_eq!(value(Bool, "false"), Ok(Some(Value::Bool(false))));
        assert_eq!(value(TimestampMs, "1700000000123"), Ok(Some(Value::TimestampMs(1_700_000_000_123))));
        assert_eq!(value(TimestampMs, r#""1970-01-01T00:00:01\u005a""#), Ok(Some(Value::TimestampMs(1000))));
        assert_eq!(value(String, r#""""#), text(""));
        assert_eq!(value(String, r#""\ud83d\ude00\"""#), text("😀\""));
        assert_eq!(value(String, "1.50"), text("1.50"));
        assert_eq!(value(String, r#"[1, {"a": 2}]"#), text(r#"[1, {"a": 2}]"#));
        for (value_type, json) in [
            (Int64, "1.5"),
            (Int64, "9223372036854775808"),
            (Int64, r#""1""#),
            (Int64, "true"),
            (Float64, "1e999"),
            (Float64, r#""1""#),
            (Float64, "[1]"),
            (Bool, "1"),
            (Bool, r#""true""#),
            (String, r#""\ud83d""#),
            (TimestampMs, r#""yesterday""#),
            (TimestampMs, "1.5"),
            (TimestampMs, "{}"),
        ] {
            assert_eq!(value(value_type, json), Err(NotOfItsType), "{json} as {value_type}");
        }
    }
}

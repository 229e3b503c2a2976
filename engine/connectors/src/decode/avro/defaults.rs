//! The default of a field, which a schema gives in JSON, in the bytes that would have been written for it: what was not written is then
//! read like everything else.

use super::schema::{Id, Schema, Type};
use serde_json::Value;

/// How deep defaults may stand inside each other; a record may have itself as its default.
const MAX_DEPTH: usize = 64;
/// The most bytes of a default: the defaults of fields may make one of another many times over.
const MAX_BYTES: usize = 1 << 20;

/// The bytes of a default, or why it is none of its type.
pub(super) fn encode(schema: &Schema, id: Id, value: &Value) -> Result<Vec<u8>, String> {
    let mut bytes = Vec::new();
    append(schema, id, value, 0, &mut bytes)?;
    Ok(bytes)
}

fn long(value: i64, out: &mut Vec<u8>) {
    let mut rest = (value as u64) << 1 ^ (value >> 63) as u64;
    while rest > 0x7F {
        out.push(rest as u8 | 0x80);
        rest >>= 7;
    }
    out.push(rest as u8);
}

fn with_length(bytes: &[u8], out: &mut Vec<u8>) {
    long(bytes.len() as i64, out);
    out.extend_from_slice(bytes);
}

/// Bytes as JSON gives them: a character for each, up to U+00FF.
fn latin(text: &str) -> Result<Vec<u8>, String> {
    text.chars().map(|c| u8::try_from(u32::from(c)).map_err(|_| format!("`{c}` stands for no byte"))).collect()
}

fn append(schema: &Schema, id: Id, value: &Value, depth: usize, out: &mut Vec<u8>) -> Result<(), String> {
    if depth > MAX_DEPTH || out.len() > MAX_BYTES {
        return Err("it has no end".into());
    }
    let misfit = |what: &str| format!("`{value}` is no {what}");
    match &schema.types[id] {
        Type::Null => value.as_null().ok_or_else(|| misfit("null"))?,
        Type::Boolean => out.push(u8::from(value.as_bool().ok_or_else(|| misfit("boolean"))?)),
        Type::Int(_) => {
            let number = value.as_i64().filter(|number| i32::try_from(*number).is_ok());
            long(number.ok_or_else(|| misfit("int"))?, out);
        }
        Type::Long(_) => long(value.as_i64().ok_or_else(|| misfit("long"))?, out),
        Type::Float => out.extend((float(value).ok_or_else(|| misfit("float"))? as f32).to_le_bytes()),
        Type::Double => out.extend(float(value).ok_or_else(|| misfit("double"))?.to_le_bytes()),
        Type::Bytes(_) => with_length(&latin(value.as_str().ok_or_else(|| misfit("bytes"))?)?, out),
        Type::Fixed(size, _) => {
            let bytes = latin(value.as_str().ok_or_else(|| misfit("fixed"))?)?;
            if bytes.len() != *size {
                return Err(format!("{} bytes where there must be {size}", bytes.len()));
            }
            out.extend(bytes);
        }
        Type::String => with_length(value.as_str().ok_or_else(|| misfit("string"))?.as_bytes(), out),
        Type::Enum(symbols) => {
            let place = value.as_str().and_then(|symbol| symbols.iter().position(|known| known == symbol));
            long(place.ok_or_else(|| misfit("symbol of the enum"))? as i64, out);
        }
        Type::Array(item) => {
            let items = value.as_array().ok_or_else(|| misfit("array"))?;
            if !items.is_empty() {
                long(items.len() as i64, out);
            }
            items.iter().try_for_each(|value| append(schema, *item, value, depth + 1, out))?;
            long(0, out);
        }
        Type::Map(of) => {
            let entries = value.as_object().ok_or_else(|| misfit("map"))?;
            if !entries.is_empty() {
                long(entries.len() as i64, out);
            }
            for (key, value) in entries {
                with_length(key.as_bytes(), out);
                append(schema, *of, value, depth + 1, out)?;
            }
            long(0, out);
        }
        Type::Union(branches) => {
            let begun = out.len();
            for (place, branch) in branches.iter().enumerate() {
                long(place as i64, out);
                if append(schema, *branch, value, depth + 1, out).is_ok() {
                    return Ok(());
                }
                out.truncate(begun);
            }
            return Err(misfit("value of the union"));
        }
        Type::Record(fields) => {
            let given = value.as_object().ok_or_else(|| misfit("record"))?;
            for (place, (name, of)) in fields.iter().enumerate() {
                let own = || schema.notes.get(&id)?.get(place)?.default.as_ref();
                let value = given.get(name).or_else(own).ok_or_else(|| format!("it lacks the field `{name}`"))?;
                append(schema, *of, value, depth + 1, out)?;
            }
        }
    }
    Ok(())
}

fn float(value: &Value) -> Option<f64> {
    match value.as_str() {
        None => value.as_f64(),
        Some("NaN") => Some(f64::NAN),
        Some("Infinity") => Some(f64::INFINITY),
        Some("-Infinity") => Some(f64::NEG_INFINITY),
        Some(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(field: &str, value: &str) -> Result<Vec<u8>, String> {
        let schema = Schema::parse(&format!(r#"{{"type":"record","name":"R","fields":[{{"name":"f","type":{field}}}]}}"#)).unwrap();
        encode(&schema, schema.fields()[0].1, &serde_json::from_str(value).unwrap())
    }

    #[test]
    fn defaults_are_the_bytes_that_would_have_been_written() {
        for (field, value, bytes) in [
            (r#""int""#, "-3", &[5u8][..]),
            (r#""long""#, "300", &[0xD8, 4]),
            (r#""string""#, r#""ab""#, &[4, b'a', b'b']),
            (r#""bytes""#, r#""\u00ff""#, &[2, 0xFF]),
            (r#"["null","long"]"#, "null", &[0]),
            (r#"["null","long"]"#, "1", &[2, 2]),
            (r#"{"type":"array","items":"int"}"#, "[1,2]", &[4, 2, 4, 0]),
            (r#"{"type":"array","items":"int"}"#, "[]", &[0]),
            (r#"{"type":"map","values":"boolean"}"#, r#"{"k":true}"#, &[2, 2, b'k', 1, 0]),
            (r#"{"type":"enum","name":"E","symbols":["A","B"]}"#, r#""B""#, &[2]),
            (r#"{"type":"record","name":"S","fields":[{"name":"a","type":"int","default":7}]}"#, "{}", &[14]),
            (r#"{"type":"fixed","name":"F","size":2}"#, r#""ab""#, b"ab"),
            (r#""float""#, "\"NaN\"", &f32::NAN.to_le_bytes()),
        ] {
            assert_eq!(of(field, value).as_deref(), Ok(bytes), "{field} {value}");
        }
    }

    #[test]
    fn what_is_no_value_of_its_type_is_said() {
        for (field, value) in [
            (r#""int""#, "3000000000"),
            (r#""long""#, "1.5"),
            (r#""bytes""#, r#""\u0100""#),
            (r#"{"type":"fixed","name":"F","size":2}"#, r#""a""#),
            (r#"["null","long"]"#, "\"x\""),
            (r#"{"type":"record","name":"S","fields":[{"name":"a","type":"int"}]}"#, "{}"),
            (r#"{"type":"record","name":"S","fields":[{"name":"s","type":["S"],"default":{}}]}"#, "{}"),
        ] {
            assert!(of(field, value).is_err(), "{field} {value}");
        }
    }
}

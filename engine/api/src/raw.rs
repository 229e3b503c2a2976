//! Rows and values as text, for bad rows and messages about them.
//!
//! A dead letter shows the row that could not be used, so nothing in here can fail: what has no usual form is shown by its exact
//! number. The forms are those that the JSON decoder reads back:
//!
//! | type | form |
//! |---|---|
//! | null | `null` |
//! | bool, integers | `true`, `-7`: every digit |
//! | floats | the shortest number that reads back the same; `"NaN"`, `"Infinity"`, `"-Infinity"` |
//! | decimals | text with every digit, `"1.50"` |
//! | text | a string |
//! | binary | Base64 in a string |
//! | timestamps | ISO-8601 text, with `Z` where the column has a zone; outside the years 0 to 9999 the number of the column's unit |
//! | dates, times | ISO-8601 text; outside that range the number of the column's unit |
//! | durations | the number of the column's unit |
//! | lists, structs, maps | an array; an object; an array of `{"key": …, "value": …}` |

use arrow::array::{Array, ArrayRef, AsArray, RecordBatch};
use arrow::datatypes::{
    ArrowPrimitiveType, DataType, Date32Type, Date64Type, DurationMicrosecondType, DurationMillisecondType, DurationNanosecondType,
    DurationSecondType, Float16Type, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type, IntervalUnit,
    Time32MillisecondType, Time32SecondType, Time64MicrosecondType, Time64NanosecondType, TimeUnit, TimestampMicrosecondType,
    TimestampMillisecondType, TimestampNanosecondType, TimestampSecondType, UInt8Type, UInt16Type, UInt32Type, UInt64Type,
};
use arrow::temporal_conversions as temporal;
use arrow::util::display::{ArrayFormatter, FormatOptions};
use std::fmt::Write;

use crate::hidden;

/// One row as a JSON object with explicit nulls; hidden columns are left out.
pub fn row(batch: &RecordBatch, row: usize) -> Vec<u8> {
    let mut text = String::from("{");
    for (field, column) in batch.schema_ref().fields().iter().zip(batch.columns()).filter(|(field, _)| !hidden::is_hidden(field.name())) {
        member(&mut text, field.name());
        push(&mut text, column, row);
    }
    text.push('}');
    text.into_bytes()
}

/// One value as it stands in [`row`], but text without its quotes.
pub fn value(array: &ArrayRef, row: usize) -> String {
    let mut text = String::new();
    push(&mut text, array, row);
    match serde_json::from_str(&text) {
        Ok(serde_json::Value::String(bare)) => bare,
        Ok(_) | Err(_) => text,
    }
}

fn member(text: &mut String, name: &str) {
    if !text.ends_with('{') {
        text.push(',');
    }
    quoted(text, name);
    text.push(':');
}

fn quoted(text: &mut String, value: &str) {
    text.push_str(&serde_json::Value::from(value).to_string());
}

/// Writing to a `String` cannot fail.
macro_rules! put {
    ($text:expr, $($what:tt)*) => { let _ = write!($text, $($what)*); };
}

fn push(text: &mut String, array: &ArrayRef, row: usize) {
    if array.is_null(row) {
        return text.push_str("null");
    }
    match array.data_type() {
        DataType::Null => text.push_str("null"),
        DataType::Boolean => {
            put!(text, "{}", array.as_boolean().value(row));
        }
        DataType::Int8 => number::<Int8Type>(text, array, row),
        DataType::Int16 => number::<Int16Type>(text, array, row),
        DataType::Int32 => number::<Int32Type>(text, array, row),
        DataType::Int64 => number::<Int64Type>(text, array, row),
        DataType::UInt8 => number::<UInt8Type>(text, array, row),
        DataType::UInt16 => number::<UInt16Type>(text, array, row),
        DataType::UInt32 => number::<UInt32Type>(text, array, row),
        DataType::UInt64 => number::<UInt64Type>(text, array, row),
        DataType::Float16 => float(text, f64::from(array.as_primitive::<Float16Type>().value(row)), None),
        DataType::Float32 => {
            let value = array.as_primitive::<Float32Type>().value(row);
            float(text, f64::from(value), Some(value));
        }
        DataType::Float64 => float(text, array.as_primitive::<Float64Type>().value(row), None),
        DataType::Utf8 => quoted(text, array.as_string::<i32>().value(row)),
        DataType::LargeUtf8 => quoted(text, array.as_string::<i64>().value(row)),
        DataType::Utf8View => quoted(text, array.as_string_view().value(row)),
        DataType::Binary => bytes(text, array.as_binary::<i32>().value(row)),
        DataType::LargeBinary => bytes(text, array.as_binary::<i64>().value(row)),
        DataType::BinaryView => bytes(text, array.as_binary_view().value(row)),
        DataType::FixedSizeBinary(_) => bytes(text, array.as_fixed_size_binary().value(row)),
        DataType::Timestamp(_, _) | DataType::Date32 | DataType::Date64 | DataType::Time32(_) | DataType::Time64(_) => {
            time(text, array, row)
        }
        DataType::Duration(unit) => match unit {
            TimeUnit::Second => number::<DurationSecondType>(text, array, row),
            TimeUnit::Millisecond => number::<DurationMillisecondType>(text, array, row),
            TimeUnit::Microsecond => number::<DurationMicrosecondType>(text, array, row),
            TimeUnit::Nanosecond => number::<DurationNanosecondType>(text, array, row),
        },
        DataType::List(_) => items(text, &array.as_list::<i32>().value(row)),
        DataType::LargeList(_) => items(text, &array.as_list::<i64>().value(row)),
        DataType::FixedSizeList(_, _) => items(text, &array.as_fixed_size_list().value(row)),
        DataType::ListView(_) => items(text, &array.as_list_view::<i32>().value(row)),
        DataType::LargeListView(_) => items(text, &array.as_list_view::<i64>().value(row)),
        DataType::Struct(fields) => {
            text.push('{');
            for (field, column) in fields.iter().zip(array.as_struct().columns()) {
                member(text, field.name());
                push(text, column, row);
            }
            text.push('}');
        }
        DataType::Map(_, _) => {
            let entries: ArrayRef = std::sync::Arc::new(array.as_map().value(row));
            items(text, &entries);
        }
        DataType::Dictionary(_, _) => {
            // One row of it: keys are brought to one type as a whole.
            let one = array.slice(row, 1);
            let one = one.as_any_dictionary();
            match one.normalized_keys().first() {
                Some(key) if *key < one.values().len() => push(text, one.values(), *key),
                Some(_) | None => text.push_str("null"),
            }
        }
        DataType::Decimal32(_, _)
        | DataType::Decimal64(_, _)
        | DataType::Decimal128(_, _)
        | DataType::Decimal256(_, _)
        | DataType::Interval(IntervalUnit::YearMonth | IntervalUnit::DayTime | IntervalUnit::MonthDayNano)
        | DataType::Union(_, _)
        | DataType::RunEndEncoded(_, _) => displayed(text, array, row),
    }
}

fn number<T: ArrowPrimitiveType<Native: std::fmt::Display>>(text: &mut String, array: &ArrayRef, row: usize) {
    put!(text, "{}", array.as_primitive::<T>().value(row));
}

/// A float32 is as short as its own digits allow.
fn float(text: &mut String, value: f64, single: Option<f32>) {
    match (value, single) {
        (value, _) if value.is_nan() => text.push_str("\"NaN\""),
        (f64::INFINITY, _) => text.push_str("\"Infinity\""),
        (f64::NEG_INFINITY, _) => text.push_str("\"-Infinity\""),
        (_, Some(single)) => {
            put!(text, "{single:?}");
        }
        (value, None) => {
            put!(text, "{value:?}");
        }
    }
}

/// Base64 with padding.
fn bytes(text: &mut String, bytes: &[u8]) {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    text.push('"');
    for part in bytes.chunks(3) {
        let word = part.iter().fold(0, |word, byte| word << 8 | u32::from(*byte)) << (8 * (3 - part.len()));
        for place in 0..4 {
            let digit = DIGITS[(word >> (18 - 6 * place)) as usize & 63];
            text.push(if place > part.len() { '=' } else { char::from(digit) });
        }
    }
    text.push('"');
}

fn items(text: &mut String, items: &ArrayRef) {
    text.push('[');
    for item in 0..items.len() {
        if item > 0 {
            text.push(',');
        }
        push(text, items, item);
    }
    text.push(']');
}

/// What has no calendar form is shown by its number.
fn time(text: &mut String, array: &ArrayRef, row: usize) {
    const DATE: &str = "%Y-%m-%d";
    const CLOCK: &str = "%H:%M:%S%.f";
    let zone = match array.data_type() {
        DataType::Timestamp(_, Some(_)) => "Z",
        _ => "",
    };
    macro_rules! stamp {
        ($kind:ty, $convert:path, $form:expr) => {{
            let value = array.as_primitive::<$kind>().value(row);
            match $convert(value).map(|at| at.format(&$form).to_string()) {
                // A sign or a fifth digit stands before years outside 0 to 9999.
                Some(shown) if shown.starts_with(|c: char| c.is_ascii_digit()) => {
                    put!(text, "\"{shown}{zone}\"");
                }
                Some(_) | None => {
                    put!(text, "{value}");
                }
            }
        }};
    }
    let both = format!("{DATE}T{CLOCK}");
    match array.data_type() {
        DataType::Timestamp(TimeUnit::Second, _) => stamp!(TimestampSecondType, temporal::timestamp_s_to_datetime, both),
        DataType::Timestamp(TimeUnit::Millisecond, _) => stamp!(TimestampMillisecondType, temporal::timestamp_ms_to_datetime, both),
        DataType::Timestamp(TimeUnit::Microsecond, _) => stamp!(TimestampMicrosecondType, temporal::timestamp_us_to_datetime, both),
        DataType::Timestamp(TimeUnit::Nanosecond, _) => stamp!(TimestampNanosecondType, temporal::timestamp_ns_to_datetime, both),
        DataType::Date32 => stamp!(Date32Type, temporal::date32_to_datetime, DATE),
        DataType::Date64 => stamp!(Date64Type, temporal::date64_to_datetime, DATE),
        DataType::Time32(TimeUnit::Second) => stamp!(Time32SecondType, temporal::time32s_to_time, CLOCK),
        DataType::Time32(TimeUnit::Millisecond) => stamp!(Time32MillisecondType, temporal::time32ms_to_time, CLOCK),
        DataType::Time64(TimeUnit::Microsecond) => stamp!(Time64MicrosecondType, temporal::time64us_to_time, CLOCK),
        DataType::Time64(TimeUnit::Nanosecond) => stamp!(Time64NanosecondType, temporal::time64ns_to_time, CLOCK),
        _ => displayed(text, array, row),
    }
}

/// Types whose text arrow knows and that have no JSON form of their own.
fn displayed(text: &mut String, array: &ArrayRef, row: usize) {
    let options = FormatOptions::new().with_display_error(false);
    let shown = ArrayFormatter::try_new(array.as_ref(), &options).ok().and_then(|formatter| formatter.value(row).try_to_string().ok());
    match shown {
        Some(shown) => quoted(text, &shown),
        None => text.push_str("null"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::{
        BinaryArray, Date32Array, Date64Array, Decimal128Array, Float32Array, Float64Array, Int64Array, ListArray, StringArray,
        StructArray, Time32SecondArray, Time64NanosecondArray, TimestampMillisecondArray, TimestampNanosecondArray, TimestampSecondArray,
        UInt64Array,
    };
    use std::sync::Arc;

    fn shown(array: ArrayRef) -> Vec<String> {
        let rows = array.len();
        let batch = RecordBatch::try_from_iter_with_nullable([("v", array, true)]).unwrap();
        (0..rows)
            .map(|at| {
                let text = String::from_utf8(row(&batch, at)).unwrap();
                serde_json::from_str::<serde_json::Value>(&text).unwrap_or_else(|error| panic!("{text}: {error}"));
                text.strip_prefix("{\"v\":").unwrap().strip_suffix('}').unwrap().to_string()
            })
            .collect()
    }

    #[test]
    fn numbers_keep_every_digit() {
        assert_eq!(shown(Arc::new(Int64Array::from(vec![Some(i64::MIN), None]))), ["-9223372036854775808", "null"]);
        assert_eq!(shown(Arc::new(UInt64Array::from(vec![u64::MAX]))), ["18446744073709551615"]);
        let floats = vec![0.1, -0.0, 1e300, f64::NAN, f64::INFINITY, f64::NEG_INFINITY];
        let expected = ["0.1", "-0.0", "1e300", "\"NaN\"", "\"Infinity\"", "\"-Infinity\""];
        assert_eq!(shown(Arc::new(Float64Array::from(floats))), expected);
        assert_eq!(shown(Arc::new(Float32Array::from(vec![0.1]))), ["0.1"]);
        let decimals = Decimal128Array::from(vec![150]).with_precision_and_scale(10, 2).unwrap();
        assert_eq!(shown(Arc::new(decimals)), ["\"1.50\""]);
    }

    #[test]
    fn a_time_beyond_the_calendar_is_its_number() {
        let millis = vec![0, -1, i64::MAX, i64::MIN, 253_402_300_800_000];
        let expected = ["1970-01-01T00:00:00", "1969-12-31T23:59:59.999"].map(|text| format!("\"{text}\""));
        let numbers = ["9223372036854775807", "-9223372036854775808", "253402300800000"].map(str::to_string);
        let expected: Vec<String> = expected.into_iter().chain(numbers).collect();
        assert_eq!(shown(Arc::new(TimestampMillisecondArray::from(millis.clone()))), expected);
        let zoned = TimestampMillisecondArray::from(vec![0]).with_timezone("Europe/Berlin");
        assert_eq!(shown(Arc::new(zoned)), ["\"1970-01-01T00:00:00Z\""]);
        assert_eq!(shown(Arc::new(TimestampSecondArray::from(vec![i64::MAX]))), ["9223372036854775807"]);
        assert_eq!(shown(Arc::new(TimestampNanosecondArray::from(vec![1]))), ["\"1970-01-01T00:00:00.000000001\""]);
        assert_eq!(shown(Arc::new(Date32Array::from(vec![0, i32::MAX]))), ["\"1970-01-01\"", "2147483647"]);
        assert_eq!(shown(Arc::new(Date64Array::from(vec![i64::MAX]))), ["9223372036854775807"]);
        assert_eq!(shown(Arc::new(Time32SecondArray::from(vec![1, -1, 86_400]))), ["\"00:00:01\"", "-1", "86400"]);
        assert_eq!(shown(Arc::new(Time64NanosecondArray::from(vec![i64::MIN]))), ["-9223372036854775808"]);
    }

    #[test]
    fn nested_values_and_text_are_json() {
        assert_eq!(shown(Arc::new(StringArray::from(vec!["a\"\n\u{1}"]))), ["\"a\\\"\\n\\u0001\""]);
        let binary = vec![b"".as_slice(), b"f", b"fo", b"foo", b"\x00\xff\xfe\xfd"];
        let base64 = ["", "Zg==", "Zm8=", "Zm9v", "AP/+/Q=="].map(|text| format!("\"{text}\""));
        assert_eq!(shown(Arc::new(BinaryArray::from_vec(binary))), base64);
        let list = ListArray::from_iter_primitive::<Int64Type, _, _>(vec![Some(vec![Some(1), None]), Some(vec![]), None]);
        assert_eq!(shown(Arc::new(list)), ["[1,null]", "[]", "null"]);
        let inner: ArrayRef = Arc::new(Int64Array::from(vec![Some(1), None]));
        let object = StructArray::try_from(vec![("n", Arc::clone(&inner)), ("m", inner)]).unwrap();
        assert_eq!(shown(Arc::new(object)), ["{\"n\":1,\"m\":1}", "{\"n\":null,\"m\":null}"]);
        let dictionary = arrow::compute::cast(
            &StringArray::from(vec!["x", "x"]),
            &DataType::Dictionary(Box::new(DataType::Int32), Box::new(DataType::Utf8)),
        );
        assert_eq!(shown(dictionary.unwrap()), ["\"x\"", "\"x\""]);
    }

    #[test]
    fn hidden_columns_stay_hidden_and_a_value_has_no_quotes() {
        let column: ArrayRef = Arc::new(StringArray::from(vec!["a \"b\""]));
        let batch = RecordBatch::try_from_iter([("v", Arc::clone(&column)), (hidden::KEY, Arc::clone(&column))]).unwrap();
        assert_eq!(row(&batch, 0), br#"{"v":"a \"b\""}"#);
        assert_eq!(value(&column, 0), "a \"b\"");
        let far: ArrayRef = Arc::new(TimestampMillisecondArray::from(vec![i64::MAX]));
        assert_eq!(value(&far, 0), "9223372036854775807");
    }
}

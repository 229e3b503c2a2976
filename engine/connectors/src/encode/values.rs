//! The values of a batch one by one, for formats that are written row by row.

use arrow::array::{
    Array, ArrayRef, AsArray, BinaryArray, BooleanArray, Decimal256Array, Float32Array, Float64Array, Int64Array, RecordBatch,
    StringViewArray, UInt64Array,
};
use arrow::buffer::{NullBuffer, OffsetBuffer};
use arrow::compute::cast;
use arrow::datatypes::{
    DataType, Date32Type, Decimal128Type, Decimal256Type, Fields, Float32Type, Float64Type, Int64Type, TimeUnit, UInt64Type, i256,
};
use std::fmt::Write as _;
use std::ops::Range;
use std::sync::Arc;
use tidegate_api::{Error, Result, types};

/// A column, as one of few types.
pub(super) enum Values {
    Null,
    Bool(BooleanArray),
    /// Whether it has 64 bits.
    Int(Int64Array, bool),
    Unsigned(UInt64Array),
    Float(Float64Array),
    ShortFloat(Float32Array),
    Decimal(arrow::array::Decimal128Array, i8),
    LongDecimal(Decimal256Array, i8),
    Text(StringViewArray),
    Binary(BinaryArray),
    Date(arrow::array::Date32Array),
    Time(Int64Array, TimeUnit),
    Moment(Int64Array, TimeUnit, Option<Arc<str>>),
    List(OffsetBuffer<i32>, Option<NullBuffer>, Box<Values>),
    /// With the names of the fields.
    Struct(Vec<(String, Values)>, Option<NullBuffer>),
}

/// One value.
pub(super) enum Value<'a> {
    Null,
    Bool(bool),
    Int(i128),
    Float(f64),
    ShortFloat(f32),
    Decimal(i256, i8),
    Text(&'a str),
    Bytes(&'a [u8]),
    Date(i32),
    Time(i64, TimeUnit),
    Moment(i64, TimeUnit, Option<&'a str>),
    List(Range<usize>, &'a Values),
    Struct(&'a [(String, Values)]),
}

impl Values {
    /// # Errors
    /// `Config` for a type that no format of rows has.
    pub(super) fn of(column: &ArrayRef) -> Result<Values> {
        let as_type = |data_type: &DataType| -> Result<ArrayRef> { Ok(cast(column, data_type)?) };
        Ok(match column.data_type() {
            DataType::Null => Values::Null,
            DataType::Boolean => Values::Bool(column.as_boolean().clone()),
            DataType::UInt64 => Values::Unsigned(column.as_primitive::<UInt64Type>().clone()),
            other if other.is_integer() => {
                Values::Int(as_type(&DataType::Int64)?.as_primitive::<Int64Type>().clone(), *other == DataType::Int64)
            }
            DataType::Float64 => Values::Float(column.as_primitive::<Float64Type>().clone()),
            DataType::Float32 => Values::ShortFloat(column.as_primitive::<Float32Type>().clone()),
            DataType::Decimal128(_, scale) => Values::Decimal(column.as_primitive::<Decimal128Type>().clone(), *scale),
            DataType::Decimal256(_, scale) => Values::LongDecimal(column.as_primitive::<Decimal256Type>().clone(), *scale),
            DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => {
                Values::Text(as_type(&DataType::Utf8View)?.as_string_view().clone())
            }
            DataType::Binary | DataType::LargeBinary | DataType::BinaryView | DataType::FixedSizeBinary(_) => {
                Values::Binary(as_type(&DataType::Binary)?.as_binary::<i32>().clone())
            }
            DataType::Date32 => Values::Date(column.as_primitive::<Date32Type>().clone()),
            DataType::Date64 => Values::Date(as_type(&DataType::Date32)?.as_primitive::<Date32Type>().clone()),
            DataType::Time32(unit) => {
                let long = as_type(&DataType::Int32).and_then(|short| Ok(cast(&short, &DataType::Int64)?))?;
                Values::Time(long.as_primitive::<Int64Type>().clone(), *unit)
            }
            DataType::Time64(unit) => Values::Time(as_type(&DataType::Int64)?.as_primitive::<Int64Type>().clone(), *unit),
            DataType::Timestamp(unit, zone) => {
                Values::Moment(as_type(&DataType::Int64)?.as_primitive::<Int64Type>().clone(), *unit, zone.clone())
            }
            DataType::List(_) => {
                let list = column.as_list::<i32>();
                Values::List(list.offsets().clone(), list.nulls().cloned(), Box::new(Values::of(list.values())?))
            }
            DataType::LargeList(item) | DataType::FixedSizeList(item, _) => Values::of(&as_type(&DataType::List(Arc::clone(item)))?)?,
            DataType::Struct(fields) => {
                let values = column.as_struct();
                Values::Struct(of_fields(fields, values.columns())?, values.nulls().cloned())
            }
            DataType::Map(_, _) => {
                let map = column.as_map();
                let entries: ArrayRef = Arc::new(map.entries().clone());
                Values::List(map.offsets().clone(), map.nulls().cloned(), Box::new(Values::of(&entries)?))
            }
            DataType::Dictionary(_, values) => Values::of(&as_type(values)?)?,
            DataType::RunEndEncoded(_, values) => Values::of(&as_type(values.data_type())?)?,
            other => return Err(Error::config(format!("the type `{}` cannot be written row by row", types::name(other)))),
        })
    }

    /// Every column of a batch, with its name.
    pub(super) fn of_rows(rows: &RecordBatch) -> Result<Vec<(String, Values)>> {
        of_fields(rows.schema_ref().fields(), rows.columns())
    }

    #[inline]
    pub(super) fn get(&self, row: usize) -> Value<'_> {
        macro_rules! or_null {
            ($array:expr, $value:expr) => {
                if $array.is_null(row) { Value::Null } else { $value }
            };
        }
        match self {
            Values::Null => Value::Null,
            Values::Bool(array) => or_null!(array, Value::Bool(array.value(row))),
            Values::Int(array, _) => or_null!(array, Value::Int(i128::from(array.value(row)))),
            Values::Unsigned(array) => or_null!(array, Value::Int(i128::from(array.value(row)))),
            Values::Float(array) => or_null!(array, Value::Float(array.value(row))),
            Values::ShortFloat(array) => or_null!(array, Value::ShortFloat(array.value(row))),
            Values::Decimal(array, scale) => or_null!(array, Value::Decimal(i256::from_i128(array.value(row)), *scale)),
            Values::LongDecimal(array, scale) => or_null!(array, Value::Decimal(array.value(row), *scale)),
            Values::Text(array) => or_null!(array, Value::Text(array.value(row))),
            Values::Binary(array) => or_null!(array, Value::Bytes(array.value(row))),
            Values::Date(array) => or_null!(array, Value::Date(array.value(row))),
            Values::Time(array, unit) => or_null!(array, Value::Time(array.value(row), *unit)),
            Values::Moment(array, unit, zone) => or_null!(array, Value::Moment(array.value(row), *unit, zone.as_deref())),
            Values::List(offsets, nulls, item) => match nulls {
                Some(nulls) if nulls.is_null(row) => Value::Null,
                _ => Value::List(offsets[row] as usize..offsets[row + 1] as usize, item),
            },
            Values::Struct(fields, nulls) => match nulls {
                Some(nulls) if nulls.is_null(row) => Value::Null,
                _ => Value::Struct(fields),
            },
        }
    }
}

fn of_fields(fields: &Fields, columns: &[ArrayRef]) -> Result<Vec<(String, Values)>> {
    fields.iter().zip(columns).map(|(field, column)| Ok((field.name().clone(), Values::of(column)?))).collect()
}

/// A decimal with all the digits of its scale, whatever they are, so that a column looks the same in every row.
pub(super) fn decimal(unscaled: i256, scale: i8, out: &mut String) {
    let digits = unscaled.to_string();
    let (sign, digits) = digits.strip_prefix('-').map_or(("", digits.as_str()), |digits| ("-", digits));
    out.push_str(sign);
    let scale = usize::try_from(scale).unwrap_or(0);
    if digits.len() <= scale {
        out.push_str("0.");
        out.extend(std::iter::repeat_n('0', scale - digits.len()));
        out.push_str(digits);
    } else if scale == 0 {
        out.push_str(digits);
    } else {
        let (before, after) = digits.split_at(digits.len() - scale);
        let _ = write!(out, "{before}.{after}");
    }
}

/// Seconds and nanoseconds of a number of units.
pub(super) fn split(value: i64, unit: TimeUnit) -> (i64, u32) {
    let per = match unit {
        TimeUnit::Second => 1,
        TimeUnit::Millisecond => 1_000,
        TimeUnit::Microsecond => 1_000_000,
        TimeUnit::Nanosecond => 1_000_000_000,
    };
    (value.div_euclid(per), (value.rem_euclid(per) * (1_000_000_000 / per)) as u32)
}

/// Whole milliseconds of a number of units.
pub(super) fn millis(value: i64, unit: TimeUnit) -> i128 {
    let (seconds, nanos) = split(value, unit);
    i128::from(seconds) * 1_000 + i128::from(nanos / 1_000_000)
}

/// A date, `2013-01-31`; years before 0 have a sign.
pub(super) fn date(days: i64, out: &mut String) {
    // Years that begin in March, so that the leap day is the last.
    let shifted = days + 719_468;
    let (era, of_era) = (shifted.div_euclid(146_097), shifted.rem_euclid(146_097));
    let year_of_era = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month = (5 * of_year + 2) / 153;
    let day = of_year - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    let sign = if year < 0 {
        "-"
    } else if year > 9999 {
        "+"
    } else {
        ""
    };
    let _ = write!(out, "{sign}{:04}-{month:02}-{day:02}", year.abs());
}

/// A time of day, with three, six or nine digits of a second if it has them.
pub(super) fn time(seconds: i64, nanos: u32, out: &mut String) {
    let _ = write!(out, "{:02}:{:02}:{:02}", seconds / 3600, seconds / 60 % 60, seconds % 60);
    let _ = match nanos {
        0 => Ok(()),
        _ if nanos.is_multiple_of(1_000_000) => write!(out, ".{:03}", nanos / 1_000_000),
        _ if nanos.is_multiple_of(1_000) => write!(out, ".{:06}", nanos / 1_000),
        _ => write!(out, ".{nanos:09}"),
    };
}

/// A moment as ISO-8601; without a zone, it names none.
pub(super) fn moment(value: i64, unit: TimeUnit, zone: Option<&str>, out: &mut String) {
    let (seconds, nanos) = split(value, unit);
    let offset = zone.map(|zone| offset_of(zone, seconds));
    let local = seconds + offset.unwrap_or(0);
    date(local.div_euclid(86_400), out);
    out.push('T');
    time(local.rem_euclid(86_400), nanos, out);
    match offset {
        None => {}
        Some(0) => out.push('Z'),
        Some(offset) => {
            let minutes = offset.abs() / 60;
            let sign = if offset < 0 { '-' } else { '+' };
            let _ = write!(out, "{sign}{:02}:{:02}", minutes / 60, minutes % 60);
        }
    }
}

/// Seconds that clocks of a zone are ahead at a moment, in whole minutes as ISO-8601 has them.
fn offset_of(zone: &str, seconds: i64) -> i64 {
    use chrono::{DateTime, Offset, TimeZone};
    if matches!(zone, "UTC" | "+00:00" | "Z") {
        return 0;
    }
    let Ok(zone) = zone.parse::<arrow::array::timezone::Tz>() else { return 0 };
    let Some(at) = DateTime::from_timestamp(seconds, 0) else { return 0 };
    let offset = i64::from(zone.offset_from_utc_datetime(&at.naive_utc()).fix().local_minus_utc());
    // Old local times have seconds too; what is written must be read back as the same moment.
    offset - offset % 60
}

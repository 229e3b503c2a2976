//! Extreme values of every type, and tables of them.

use arrow::array::{
    ArrayRef, BinaryArray, BooleanArray, Decimal128Array, Decimal256Array, FixedSizeBinaryArray, ListArray, PrimitiveArray, RecordBatch,
    RecordBatchOptions, StringArray, StructArray, UInt32Array, new_null_array,
};
use arrow::buffer::{NullBuffer, OffsetBuffer};
use arrow::compute::{cast, take};
use arrow::datatypes::{
    ArrowPrimitiveType, ArrowTimestampType, DataType, Date32Type, Date64Type, DurationMicrosecondType, DurationMillisecondType,
    DurationNanosecondType, DurationSecondType, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type, SchemaRef,
    Time32MillisecondType, Time32SecondType, Time64MicrosecondType, Time64NanosecondType, TimeUnit, TimestampMicrosecondType,
    TimestampMillisecondType, TimestampNanosecondType, TimestampSecondType, UInt8Type, UInt16Type, UInt32Type, UInt64Type, i256,
};
use arrow::error::ArrowError;
use std::sync::Arc;

/// The values of a type at its edges, a null first. A type that is not known has nulls only.
pub fn extreme_values(data_type: &DataType) -> ArrayRef {
    match data_type {
        DataType::Boolean => Arc::new(BooleanArray::from(vec![None, Some(true), Some(false)])),
        DataType::Int8 => numbers::<Int8Type>(&[0, 1, -1, i8::MIN, i8::MAX]),
        DataType::Int16 => numbers::<Int16Type>(&[0, 1, -1, i16::MIN, i16::MAX]),
        DataType::Int32 => numbers::<Int32Type>(&[0, 1, -1, i32::MIN, i32::MAX, 1000]),
        DataType::Int64 => numbers::<Int64Type>(&[0, 1, -1, i64::MIN, i64::MAX, 1000, (1 << 53) + 1]),
        DataType::UInt8 => numbers::<UInt8Type>(&[0, 1, u8::MAX]),
        DataType::UInt16 => numbers::<UInt16Type>(&[0, 1, u16::MAX]),
        DataType::UInt32 => numbers::<UInt32Type>(&[0, 1, u32::MAX]),
        DataType::UInt64 => numbers::<UInt64Type>(&[0, 1, u64::MAX, (1 << 53) + 1]),
        DataType::Float32 => {
            numbers::<Float32Type>(&[0.0, -0.0, 1.5, f32::NAN, f32::INFINITY, f32::NEG_INFINITY, f32::MAX, f32::MIN_POSITIVE, 1e-45])
        }
        DataType::Float64 => {
            numbers::<Float64Type>(&[0.0, -0.0, 1.5, f64::NAN, f64::INFINITY, f64::NEG_INFINITY, f64::MAX, f64::MIN_POSITIVE, 5e-324])
        }
        DataType::Decimal128(precision, scale) => {
            let most = 10_i128.pow((*precision).min(38).into()) - 1;
            let values = Decimal128Array::from(vec![None, Some(0), Some(1), Some(-1), Some(most), Some(-most)]);
            values.with_precision_and_scale(*precision, *scale).map_or_else(|_| new_null_array(data_type, 1), |values| Arc::new(values))
        }
        DataType::Decimal256(precision, scale) => {
            let values = Decimal256Array::from(vec![None, Some(i256::ZERO), Some(i256::ONE), Some(i256::MINUS_ONE)]);
            values.with_precision_and_scale(*precision, *scale).map_or_else(|_| new_null_array(data_type, 1), |values| Arc::new(values))
        }
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => casted(Arc::new(StringArray::from(texts())), data_type),
        DataType::Binary | DataType::LargeBinary | DataType::BinaryView => {
            let long = vec![0xff; 5000];
            let values: Vec<Option<&[u8]>> = vec![None, Some(b""), Some(b"\0"), Some(b"\xff\xfe"), Some(b"text"), Some(&long)];
            casted(Arc::new(BinaryArray::from(values)), data_type)
        }
        DataType::FixedSizeBinary(size) => {
            let of = |byte: u8| Some(vec![byte; usize::try_from(*size).unwrap_or(0)]);
            let values = FixedSizeBinaryArray::try_from_sparse_iter_with_size([None, of(0), of(0xff)].into_iter(), *size);
            values.map_or_else(|_| new_null_array(data_type, 1), |values| Arc::new(values))
        }
        DataType::Date32 => numbers::<Date32Type>(&[0, -1, 19_000, -719_162, 2_932_896]),
        DataType::Date64 => numbers::<Date64Type>(&[0, -86_400_000, 1_640_995_200_000]),
        DataType::Time32(TimeUnit::Second) => numbers::<Time32SecondType>(&[0, 1, 86_399]),
        DataType::Time32(_) => numbers::<Time32MillisecondType>(&[0, 1, 86_399_999]),
        DataType::Time64(TimeUnit::Nanosecond) => numbers::<Time64NanosecondType>(&[0, 1, 86_399_999_999_999]),
        DataType::Time64(_) => numbers::<Time64MicrosecondType>(&[0, 1, 86_399_999_999]),
        DataType::Timestamp(unit, zone) => times(*unit, zone.clone()),
        DataType::Duration(unit) => match unit {
            TimeUnit::Second => numbers::<DurationSecondType>(EDGES),
            TimeUnit::Millisecond => numbers::<DurationMillisecondType>(EDGES),
            TimeUnit::Microsecond => numbers::<DurationMicrosecondType>(EDGES),
            TimeUnit::Nanosecond => numbers::<DurationNanosecondType>(EDGES),
        },
        DataType::List(item) => {
            let values = extreme_values(item.data_type());
            let rows = values.len();
            // Null, empty, one item, all of them.
            let lengths = [0, 0, 1, rows - 1];
            let nulls = NullBuffer::from(vec![false, true, true, true]);
            let list = ListArray::try_new(Arc::clone(item), OffsetBuffer::from_lengths(lengths), values, Some(nulls));
            list.map_or_else(|_| new_null_array(data_type, 1), |list| Arc::new(list))
        }
        DataType::Struct(fields) => {
            let columns: Vec<ArrayRef> = fields.iter().map(|field| cycled(field.data_type(), field.is_nullable(), 12, 1)).collect();
            let nulls = NullBuffer::from((0..12).map(|row| row != 0).collect::<Vec<_>>());
            let values = StructArray::try_new(fields.clone(), columns, Some(nulls));
            values.map_or_else(|_| new_null_array(data_type, 1), |values| Arc::new(values))
        }
        other => new_null_array(other, 1),
    }
}

const EDGES: &[i64] = &[0, 1, -1, i64::MIN, i64::MAX];

fn numbers<T: ArrowPrimitiveType>(values: &[T::Native]) -> ArrayRef {
    Arc::new(PrimitiveArray::<T>::from_iter(std::iter::once(None).chain(values.iter().copied().map(Some))))
}

fn casted(values: ArrayRef, data_type: &DataType) -> ArrayRef {
    cast(&values, data_type).unwrap_or_else(|_| new_null_array(data_type, 1))
}

/// Years 1 and 9999, around 1970, and the edges of the number itself.
fn times(unit: TimeUnit, zone: Option<Arc<str>>) -> ArrayRef {
    fn of<T: ArrowTimestampType>(per_second: i64, zone: Option<Arc<str>>) -> ArrayRef {
        let at = |seconds: i64| seconds.saturating_mul(per_second);
        let values = [0, 1, -1, at(1_356_998_400), at(-62_135_596_800), at(253_402_300_799), i64::MIN, i64::MAX];
        let values = std::iter::once(None).chain(values.into_iter().map(Some));
        Arc::new(PrimitiveArray::<T>::from_iter(values).with_timezone_opt(zone))
    }
    match unit {
        TimeUnit::Second => of::<TimestampSecondType>(1, zone),
        TimeUnit::Millisecond => of::<TimestampMillisecondType>(1000, zone),
        TimeUnit::Microsecond => of::<TimestampMicrosecondType>(1_000_000, zone),
        TimeUnit::Nanosecond => of::<TimestampNanosecondType>(1_000_000_000, zone),
    }
}

fn texts() -> Vec<Option<String>> {
    let mut texts: Vec<Option<String>> = vec![None];
    let plain = [
        "",
        " ",
        "a",
        "EWR",
        "N14228",
        "null",
        "0",
        "-1",
        "1e400",
        "true",
        "\0",
        "\n\r\t",
        "\"'`\\",
        "a,b;c\td",
        "{}",
        "[1, {\"a\": null}]",
        "{\"a\":",
        "ü",
        "e\u{301}",
        "🦀👩‍👩‍👧",
        "\u{feff}",
        "\u{202e}abc",
        "\u{10ffff}",
        "2013-01-01T05:00:00Z",
        "ZZZ",
    ];
    texts.extend(plain.iter().map(|text| Some((*text).to_string())));
    texts.push(Some("x".repeat(5000)));
    texts
}

/// `rows` values of a type, in turn. `turn` tells columns apart: they go through their values at different speeds, so that a value meets
/// others of its neighbours in time. A column without nulls has none.
fn cycled(data_type: &DataType, nullable: bool, rows: usize, turn: usize) -> ArrayRef {
    let values = extreme_values(data_type);
    let first = usize::from(!nullable && values.len() > 1);
    let choices = values.len() - first;
    let places: UInt32Array = (0..rows).map(|row| u32::try_from(first + (row + turn + row / (7 + turn)) % choices).ok()).collect();
    take(&values, &places, None).unwrap_or_else(|_| new_null_array(data_type, rows))
}

/// So many rows of extreme values.
///
/// # Errors
/// If a column may not be null and its type is one that the kit has no values of.
pub fn extreme_batch(schema: &SchemaRef, rows: usize) -> Result<RecordBatch, ArrowError> {
    let fields = schema.fields().iter().enumerate();
    let columns = fields.map(|(index, field)| cycled(field.data_type(), field.is_nullable(), rows, index)).collect();
    RecordBatch::try_new_with_options(Arc::clone(schema), columns, &RecordBatchOptions::new().with_row_count(Some(rows)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::Array;
    use arrow::datatypes::{Field, Schema};

    #[test]
    fn every_type_of_pipeline_files_has_values_at_its_edges() {
        let names = [
            "bool",
            "int8",
            "int16",
            "int32",
            "int64",
            "uint8",
            "uint16",
            "uint32",
            "uint64",
            "float32",
            "float64",
            "decimal(10,2)",
            "decimal(38,0)",
            "string",
            "binary",
            "date",
            "time",
            "timestamp_s",
            "timestamp_ms",
            "timestamp_us",
            "timestamp_ns",
            "timestamp_ms(UTC)",
            "list<int64>",
            "struct<a: int64, b: string>",
            "list<struct<a: list<string>>>",
        ];
        for name in names {
            let data_type = tidegate_api::types::parse(name).unwrap();
            let values = extreme_values(&data_type);
            assert_eq!(values.data_type(), &data_type, "{name}");
            assert!(values.is_null(0) && values.len() > 2 && values.null_count() < values.len(), "{name}");
            for nullable in [true, false] {
                let schema =
                    Arc::new(Schema::new(vec![Field::new("a", data_type.clone(), nullable), Field::new("b", DataType::Int64, true)]));
                let batch = extreme_batch(&schema, 211).unwrap_or_else(|error| panic!("{name}: {error}"));
                assert_eq!(batch.num_rows(), 211, "{name}");
                assert_eq!(batch.column(0).null_count() > 0, nullable, "{name}");
            }
        }
    }

    #[test]
    fn a_table_without_columns_has_rows() {
        assert_eq!(extreme_batch(&Arc::new(Schema::empty()), 5).unwrap().num_rows(), 5);
    }
}

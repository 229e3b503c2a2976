//! What leaves the engine as text or Parquet.

use super::*;
use ::arrow::array::{
    Array, ArrayRef, BooleanArray, Date32Array, Decimal128Array, Float64Array, Int64Array, ListArray, StringViewArray,
    TimestampMillisecondArray, TimestampSecondArray, UInt64Array,
};
use ::arrow::datatypes::{DataType, Field, Int32Type, TimeUnit};
use ::parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use std::sync::Arc;

fn sample() -> RecordBatch {
    let columns: Vec<(&str, ArrayRef)> = vec![
        ("i", Arc::new(Int64Array::from(vec![Some(9_007_199_254_740_993), None]))),
        ("u", Arc::new(UInt64Array::from(vec![u64::MAX, 0]))),
        ("d", Arc::new(Decimal128Array::from(vec![125, -5]).with_precision_and_scale(10, 2).unwrap())),
        ("t", Arc::new(TimestampMillisecondArray::from(vec![1_357_034_400_000, -1]))),
        ("z", Arc::new(TimestampSecondArray::from(vec![1_357_034_400, 0]).with_timezone("UTC"))),
        ("s", Arc::new(StringViewArray::from(vec!["a \"b\"\n", ""]))),
        ("f", Arc::new(Float64Array::from(vec![0.5, f64::NAN]))),
        ("b", Arc::new(BooleanArray::from(vec![true, false]))),
        ("day", Arc::new(Date32Array::from(vec![0, 1]))),
    ];
    RecordBatch::try_from_iter(columns).unwrap()
}

fn text(mut encoder: impl Encoder, rows: &RecordBatch) -> String {
    encoder.write(rows).unwrap();
    let mut bytes = encoder.take().unwrap();
    bytes.extend(encoder.finish().unwrap());
    String::from_utf8(bytes).unwrap()
}

#[test]
fn json_keeps_integers_and_decimals_exact_and_writes_nulls() {
    let rows = sample();
    let lines = text(JsonEncoder::new(rows.schema(), TextOptions::default()), &rows);
    let expected = concat!(
        r#"{"i":9007199254740993,"u":18446744073709551615,"d":"1.25","t":"2013-01-01T10:00:00","z":"2013-01-01T10:00:00Z","s":"a \"b\"\n","f":0.5,"b":true,"day":"1970-01-01"}"#,
        "\n",
        r#"{"i":null,"u":0,"d":"-0.05","t":"1969-12-31T23:59:59.999","z":"1970-01-01T00:00:00Z","s":"","f":"NaN","b":false,"day":"1970-01-02"}"#,
        "\n"
    );
    assert_eq!(lines, expected);
}

#[test]
fn options_change_timestamps_and_integers() {
    let rows = sample().project(&[0, 3, 4]).unwrap();
    let options = TextOptions { epoch_ms: true, int64_as_text: true };
    let lines = text(JsonEncoder::new(rows.schema(), options), &rows);
    let expected = concat!(r#"{"i":"9007199254740993","t":1357034400000,"z":1357034400000}"#, "\n", r#"{"i":null,"t":-1,"z":0}"#, "\n");
    assert_eq!(lines, expected);
}

#[test]
fn csv_tells_null_from_empty() {
    let rows = sample().project(&[0, 2, 3, 4, 5]).unwrap();
    let lines = text(CsvEncoder::new(rows.schema(), TextOptions::default(), true).unwrap(), &rows);
    let expected = "i,d,t,z,s\n9007199254740993,1.25,2013-01-01T10:00:00,2013-01-01T10:00:00Z,\"a \"\"b\"\"\n\"\n,-0.05,1969-12-31T23:59:59.999,1970-01-01T00:00:00Z,\"\"\n";
    assert_eq!(lines, expected);
}

#[test]
fn csv_refuses_lists_by_name() {
    let list = ListArray::from_iter_primitive::<Int32Type, _, _>(vec![Some(vec![Some(1)])]);
    let rows = RecordBatch::try_from_iter([("l", Arc::new(list) as ArrayRef)]).unwrap();
    let error = CsvEncoder::new(rows.schema(), TextOptions::default(), true).err().unwrap();
    assert!(error.to_string().contains("column `l`"), "{error}");
}

#[test]
fn p026_parquet_keeps_zoneless_timestamps_zoneless() {
    let rows = sample();
    let mut encoder = ParquetEncoder::new(&rows.schema(), Codec::Snappy).unwrap();
    encoder.write(&rows).unwrap();
    let mut bytes = encoder.take().unwrap();
    bytes.extend(encoder.finish().unwrap());
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("x.parquet"), bytes).unwrap();
    let builder = ParquetRecordBatchReaderBuilder::try_new(std::fs::File::open(folder.path().join("x.parquet")).unwrap()).unwrap();
    let logical = |name: &str| {
        let columns = builder.parquet_schema().columns();
        columns.iter().find(|column| column.name() == name).and_then(|column| column.logical_type_ref().cloned())
    };
    use ::parquet::basic::{LogicalType, TimeUnit as Unit};
    assert_eq!(logical("t"), Some(LogicalType::timestamp(false, Unit::MILLIS)));
    assert_eq!(logical("z"), Some(LogicalType::timestamp(true, Unit::MILLIS)));
    let read = builder.build().unwrap().next().unwrap().unwrap();
    assert_eq!(read.column(3).data_type(), &DataType::Timestamp(TimeUnit::Millisecond, None));
    assert_eq!(read.num_rows(), 2);
    assert_eq!(read.column(0), rows.column(0));
    assert_eq!(read.column(2), rows.column(2));
}

/// Rows of `t` at these times, with their numbers as `n`.
fn times(times: ArrayRef) -> RecordBatch {
    let numbers = Int64Array::from_iter_values(0..times.len() as i64);
    RecordBatch::try_from_iter([("n", Arc::new(numbers) as ArrayRef), ("t", times)]).unwrap()
}

fn refused(encoder: &mut dyn Encoder, rows: &RecordBatch) -> (Vec<usize>, String) {
    let bad = encoder.write(rows).unwrap();
    assert!(bad.iter().all(|error| error.column.as_deref() == Some("t")), "{bad:?}");
    let text = String::from_utf8(encoder.finish().unwrap()).unwrap();
    assert!(!text.contains("ERROR"), "{text}");
    (bad.into_iter().map(|error| error.row).collect(), text)
}

#[test]
fn times_that_have_no_text_refuse_their_row_alone() {
    const LAST: i64 = 253_402_300_799_999;
    const FIRST: i64 = -377_705_116_800_000;
    let millis = vec![
        Some(0),
        Some(i64::MAX),
        None,
        Some(8_300_000_000_000_000),
        Some(LAST),
        Some(LAST + 1),
        Some(FIRST),
        Some(FIRST - 1),
        Some(i64::MIN),
    ];
    let plain = TimestampMillisecondArray::from(millis);
    let batches = [
        times(Arc::new(plain.clone().with_timezone("UTC"))),
        times(Arc::new(plain.clone())),
        times(Arc::new(plain.with_timezone("+14:00"))),
    ];
    for rows in &batches {
        let json = refused(&mut JsonEncoder::new(rows.schema(), TextOptions::default()), rows);
        let csv = refused(&mut CsvEncoder::new(rows.schema(), TextOptions::default(), false).unwrap(), rows);
        for (bad, text) in [json, csv] {
            assert_eq!(bad, [1, 3, 5, 7, 8]);
            assert_eq!(text.lines().count(), 4);
        }
    }
    let (_, text) = refused(&mut CsvEncoder::new(batches[1].schema(), TextOptions::default(), false).unwrap(), &batches[1]);
    assert_eq!(text, "0,1970-01-01T00:00:00\n2,\n4,9999-12-31T23:59:59.999\n6,-9999-01-01T00:00:00\n");
    let options = TextOptions { epoch_ms: true, ..TextOptions::default() };
    assert_eq!(refused(&mut JsonEncoder::new(batches[0].schema(), options), &batches[0]).0, Vec::<usize>::new());
}

#[test]
fn every_type_of_time_is_checked_however_deep_it_lies() {
    use ::arrow::array::{Date64Array, StructArray, Time32SecondArray, Time64NanosecondArray, TimestampMicrosecondArray};
    use ::arrow::buffer::OffsetBuffer;
    let seconds = TimestampSecondArray::from(vec![0, i64::MAX, i64::MAX / 1_000 + 1, 5]);
    let item = Arc::new(Field::new("item", seconds.data_type().clone(), true));
    let list = ListArray::new(item, OffsetBuffer::from_lengths([1, 2, 0, 1]), Arc::new(seconds.clone()), None);
    let inner: ArrayRef = Arc::new(list.clone());
    let nested = StructArray::from(vec![(Arc::new(Field::new("l", inner.data_type().clone(), true)), inner)]);
    let columns: Vec<(ArrayRef, &[usize])> = vec![
        (Arc::new(seconds.clone()), &[1, 2]),
        (Arc::new(TimestampMicrosecondArray::from(vec![i64::MIN, 0])), &[0]),
        (Arc::new(Date32Array::from(vec![i32::MAX, 0, i32::MIN])), &[0, 2]),
        (Arc::new(Date64Array::from(vec![0, i64::MAX])), &[1]),
        (Arc::new(Time32SecondArray::from(vec![86_400, 86_399, -1])), &[0, 2]),
        (Arc::new(Time64NanosecondArray::from(vec![0, i64::MAX])), &[1]),
        (Arc::new(list), &[1]),
        (Arc::new(nested), &[1]),
    ];
    for (column, expected) in columns {
        let rows = times(column);
        assert_eq!(refused(&mut JsonEncoder::new(rows.schema(), TextOptions::default()), &rows).0, expected);
        if !rows.column(1).data_type().is_nested() {
            assert_eq!(refused(&mut CsvEncoder::new(rows.schema(), TextOptions::default(), false).unwrap(), &rows).0, expected);
        }
    }
    // Seconds that have no milliseconds are refused where they become those, instead of being lost.
    let rows = times(Arc::new(seconds));
    let options = TextOptions { epoch_ms: true, ..TextOptions::default() };
    assert_eq!(refused(&mut JsonEncoder::new(rows.schema(), options), &rows).0, [1, 2]);
    let bad = ParquetEncoder::new(&rows.schema(), Codec::None).unwrap().write(&rows).unwrap();
    assert_eq!(bad.iter().map(|error| error.row).collect::<Vec<_>>(), [1, 2]);
}

#[test]
fn null_alone_on_a_line_of_csv_is_refused() {
    let rows = RecordBatch::try_from_iter([("s", Arc::new(StringViewArray::from(vec![Some("x"), None, Some("")])) as ArrayRef)]).unwrap();
    let mut encoder = CsvEncoder::new(rows.schema(), TextOptions::default(), false).unwrap();
    let refused = encoder.write(&rows).unwrap();
    assert_eq!(refused.iter().map(|error| error.row).collect::<Vec<_>>(), [1]);
    assert_eq!(encoder.finish().unwrap(), b"x\n\"\"\n");
}

#[test]
fn p019_every_batch_ends_with_a_line_end() {
    let rows = sample().project(&[0]).unwrap();
    let mut encoders: [Box<dyn Encoder>; 2] = [
        Box::new(JsonEncoder::new(rows.schema(), TextOptions::default())),
        Box::new(CsvEncoder::new(rows.schema(), TextOptions::default(), false).unwrap()),
    ];
    for encoder in &mut encoders {
        encoder.write(&rows).unwrap();
        let mut bytes = encoder.take().unwrap();
        encoder.write(&rows).unwrap();
        bytes.extend(encoder.finish().unwrap());
        assert_eq!(bytes.iter().filter(|byte| **byte == b'\n').count(), 4);
        assert!(bytes.ends_with(b"\n"));
    }
}

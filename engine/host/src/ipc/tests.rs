use super::*;
use arrow::array::{
    Array, ArrayRef, BinaryArray, BooleanArray, DictionaryArray, Int32Array, Int64Array, ListArray, RecordBatch, StringArray,
    StringViewArray, StructArray, TimestampMillisecondArray,
};
use arrow::datatypes::{Int32Type, Int64Type};
use arrow_ipc::writer::{IpcWriteOptions, StreamWriter};
use arrow_ipc::{CompressionType, MetadataVersion};
use proptest::prelude::*;
use std::sync::Arc;

fn everything() -> RecordBatch {
    let names: ArrayRef = Arc::new(StringViewArray::from(vec![Some("a"), None, Some("a text of more than twelve bytes"), Some("")]));
    let nested = StructArray::from(vec![
        (Arc::new(Field::new("x", DataType::Int64, true)), Arc::new(Int64Array::from(vec![Some(1), None, Some(3), Some(4)])) as ArrayRef),
        (Arc::new(Field::new("s", DataType::Utf8View, true)), Arc::clone(&names)),
    ]);
    let list = ListArray::from_iter_primitive::<Int64Type, _, _>(vec![Some(vec![Some(1), None]), None, Some(vec![]), Some(vec![Some(7)])]);
    RecordBatch::try_from_iter_with_nullable(vec![
        ("id", Arc::new(Int64Array::from(vec![1, 2, 3, 4])) as ArrayRef, false),
        ("flag", Arc::new(BooleanArray::from(vec![Some(true), None, Some(false), Some(true)])), true),
        ("name", names, true),
        ("raw", Arc::new(BinaryArray::from(vec![Some(b"\xff".as_slice()), None, Some(b""), Some(b"xyz")])), true),
        ("at", Arc::new(TimestampMillisecondArray::from(vec![Some(-1), None, Some(0), Some(1)]).with_timezone("UTC")), true),
        ("list", Arc::new(list), true),
        ("nested", Arc::new(nested), true),
    ])
    .unwrap()
}

fn all(batch: &RecordBatch) -> Encoder {
    Encoder::new(batch.schema_ref(), (0..batch.num_columns()).collect()).unwrap()
}

/// There and back.
fn round(batch: &RecordBatch) -> RecordBatch {
    let mut encoder = all(batch);
    let decoder = Decoder::new(decode_schema(encoder.schema_message()).unwrap());
    let projected = encoder.project(batch).unwrap();
    decoder.decode(encoder.encode(&projected).unwrap().clone()).unwrap()
}

#[test]
fn rows_come_back_as_they_went_slices_and_empty_batches_too() {
    let batch = everything();
    assert_eq!(round(&batch), batch);
    assert_eq!(round(&batch.slice(1, 2)), batch.slice(1, 2));
    assert_eq!(round(&batch.slice(3, 0)).num_rows(), 0);
}

#[test]
fn one_encoder_serves_many_batches() {
    let batch = everything();
    let mut encoder = all(&batch);
    let decoder = Decoder::new(decode_schema(encoder.schema_message()).unwrap());
    for length in [4, 0, 1, 3] {
        let part = batch.slice(0, length);
        let projected = encoder.project(&part).unwrap();
        assert_eq!(decoder.decode(encoder.encode(&projected).unwrap().clone()).unwrap(), part);
    }
}

#[test]
fn a_batch_without_columns_has_its_rows() {
    let batch = everything();
    let mut encoder = Encoder::new(batch.schema_ref(), Vec::new()).unwrap();
    let projected = encoder.project(&batch).unwrap();
    let decoder = Decoder::new(decode_schema(encoder.schema_message()).unwrap());
    assert_eq!(decoder.decode(encoder.encode(&projected).unwrap().clone()).unwrap().num_rows(), 4);
}

#[test]
fn dictionaries_cross_as_their_values() {
    let column: DictionaryArray<Int32Type> = vec![Some("x"), None, Some("x")].into_iter().collect();
    let batch = RecordBatch::try_from_iter(vec![("d", Arc::new(column) as ArrayRef)]).unwrap();
    assert_eq!(round(&batch).column(0).as_ref(), &StringViewArray::from(vec![Some("x"), None, Some("x")]));
}

#[test]
fn a_type_that_does_not_cross_is_named() {
    let interval = Schema::new(vec![Field::new("i", DataType::Interval(arrow::datatypes::IntervalUnit::DayTime), true)]);
    let error = Encoder::new(&interval, vec![0]).err().unwrap();
    assert!(error.to_string().contains("column `i`"), "{error}");
}

fn stream(batch: &RecordBatch, options: IpcWriteOptions) -> (Vec<u8>, Vec<u8>) {
    let mut writer = StreamWriter::try_new_with_options(Vec::new(), batch.schema_ref(), options).unwrap();
    let schema = std::mem::take(writer.get_mut());
    writer.write(batch).unwrap();
    (schema, writer.get_ref().clone())
}

#[test]
fn compressed_bodies_dictionaries_views_and_old_versions_are_refused() {
    let batch =
        RecordBatch::try_from_iter(vec![("t", Arc::new(StringArray::from(vec!["aaaaaaaaaaaaaaaaaaaaaaaa"; 100])) as ArrayRef)]).unwrap();
    let options = IpcWriteOptions::try_new(8, false, MetadataVersion::V5).unwrap();
    let compressed = options.clone().try_with_compression(Some(CompressionType::LZ4_FRAME)).unwrap();
    let (schema, message) = stream(&batch, compressed);
    let decoder = Decoder::new(decode_schema(&schema).unwrap());
    assert!(decoder.decode(message).unwrap_err().contains("compressed"));

    let (_, old) = stream(&batch, IpcWriteOptions::try_new(8, false, MetadataVersion::V4).unwrap());
    assert!(decoder.decode(old).unwrap_err().contains("old metadata version"));

    let views =
        RecordBatch::try_from_iter(vec![("t", Arc::new(StringViewArray::from(vec!["a text of more than twelve bytes"])) as ArrayRef)])
            .unwrap();
    let (schema, message) = stream(&views, options.clone());
    assert!(decode_schema(&schema).unwrap_err().contains("`Utf8View`"));
    assert!(decoder.decode(message).unwrap_err().contains("views"));

    let column: DictionaryArray<Int32Type> = vec![Some("x"), None].into_iter().collect();
    let dictionary = RecordBatch::try_from_iter(vec![("t", Arc::new(column) as ArrayRef)]).unwrap();
    let (schema, message) = stream(&dictionary, options);
    assert!(decode_schema(&schema).unwrap_err().contains("dictionary"));
    assert!(decoder.decode(message).is_err());
}

#[test]
fn rows_of_another_schema_are_refused() {
    let numbers = RecordBatch::try_from_iter(vec![("n", Arc::new(Int64Array::from(vec![1, 2])) as ArrayRef)]).unwrap();
    let mut encoder = all(&numbers);
    let projected = encoder.project(&numbers).unwrap();
    let message = encoder.encode(&projected).unwrap().clone();
    for data_type in [DataType::Utf8, DataType::Boolean, DataType::Decimal128(10, 2), DataType::Null] {
        let decoder = Decoder::new(Schema::new(vec![Field::new("n", data_type.clone(), true)]));
        let read = decoder.decode(message.clone());
        assert!(data_type == DataType::Boolean || read.is_err(), "{data_type} was read from int64");
    }
    let two = Schema::new(vec![Field::new("n", DataType::Int64, true), Field::new("m", DataType::Int64, true)]);
    assert!(Decoder::new(two).decode(message.clone()).unwrap_err().contains("column `m`"));
    assert!(Decoder::new(Schema::empty()).decode(message).unwrap_err().contains("more than the declared schema"));
}

#[test]
fn nulls_in_a_column_declared_without_them_are_refused() {
    let batch = RecordBatch::try_from_iter(vec![("n", Arc::new(Int32Array::from(vec![Some(1), None])) as ArrayRef)]).unwrap();
    let mut encoder = all(&batch);
    let projected = encoder.project(&batch).unwrap();
    let message = encoder.encode(&projected).unwrap().clone();
    let decoder = Decoder::new(Schema::new(vec![Field::new("n", DataType::Int32, false)]));
    assert!(decoder.decode(message).is_err());
}

#[test]
fn every_cut_of_a_message_is_an_error() {
    let batch = everything();
    let mut encoder = all(&batch);
    let decoder = Decoder::new(decode_schema(encoder.schema_message()).unwrap());
    let projected = encoder.project(&batch).unwrap();
    let message = encoder.encode(&projected).unwrap().clone();
    for length in 0..message.len() {
        assert!(decoder.decode(message[..length].to_vec()).is_err(), "cut to {length} of {}", message.len());
    }
    let schema = encoder.schema_message();
    for length in 0..schema.len() {
        assert!(decode_schema(&schema[..length]).is_err(), "cut to {length} of {}", schema.len());
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 4000, failure_persistence: None, ..ProptestConfig::default() })]

    /// A mutated message is read or refused; what is read can be walked. Nothing panics.
    #[test]
    fn mutated_messages_never_panic(changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..8)) {
        let batch = everything();
        let mut encoder = all(&batch);
        let decoder = Decoder::new(decode_schema(encoder.schema_message()).unwrap());
        let projected = encoder.project(&batch).unwrap();
        let mut message = encoder.encode(&projected).unwrap().clone();
        for (at, value) in changes {
            let at = at.index(message.len());
            message[at] = value;
        }
        if let Ok(read) = decoder.decode(message) {
            prop_assert!(read.columns().iter().all(|column| column.to_data().validate_full().is_ok()));
            let mut again = all(&read);
            let projected = again.project(&read).unwrap();
            prop_assert!(again.encode(&projected).is_ok());
        }
    }

    #[test]
    fn mutated_schemas_never_panic(changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..8)) {
        let mut message = all(&everything()).schema_message().clone();
        for (at, value) in changes {
            let at = at.index(message.len());
            message[at] = value;
        }
        if let Ok(schema) = decode_schema(&message) {
            prop_assert!(schema.fields().iter().all(|field| plain(field.data_type()).as_ref() == Some(field.data_type())));
        }
    }
}

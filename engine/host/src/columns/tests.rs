use super::*;
use arrow::array::{
    ArrayRef, BinaryArray, BooleanArray, Decimal128Array, DictionaryArray, Float64Array, Int64Array, RecordBatch, StringArray,
    StringViewArray, TimestampMicrosecondArray,
};
use arrow::datatypes::Int32Type;
use proptest::prelude::*;
use std::sync::Arc;

fn everything() -> RecordBatch {
    let decimals = Decimal128Array::from(vec![Some(1), None, Some(-3), Some(4)]).with_precision_and_scale(10, 2).unwrap();
    RecordBatch::try_from_iter_with_nullable(vec![
        ("id", Arc::new(Int64Array::from(vec![1, 2, 3, 4])) as ArrayRef, false),
        ("flag", Arc::new(BooleanArray::from(vec![Some(true), None, Some(false), Some(true)])), true),
        ("name", Arc::new(StringArray::from(vec![Some("a"), None, Some("ü"), Some("")])), true),
        ("raw", Arc::new(BinaryArray::from(vec![Some(b"\xff".as_slice()), None, Some(b""), Some(b"xyz")])), true),
        ("price", Arc::new(decimals), true),
        ("rate", Arc::new(Float64Array::from(vec![Some(1.5), None, Some(f64::NAN), Some(-0.0)])), true),
        ("at", Arc::new(TimestampMicrosecondArray::from(vec![Some(-1), None, Some(0), Some(1)]).with_timezone("Europe/Zurich")), true),
    ])
    .unwrap()
}

fn encoder(batch: &RecordBatch) -> ColumnsEncoder {
    ColumnsEncoder::new(batch.schema_ref(), (0..batch.num_columns()).collect()).unwrap()
}

/// There and back.
fn round(batch: &RecordBatch) -> RecordBatch {
    let encoder = encoder(batch);
    let schema = Arc::new(declared(encoder.fields()).unwrap());
    decode_columns(encoder.encode(&encoder.project(batch).unwrap()).unwrap(), &schema).unwrap()
}

#[test]
fn rows_come_back_as_they_went_slices_and_empty_batches_too() {
    let batch = everything();
    for (from, length) in [(0, 4), (1, 2), (2, 2), (3, 0)] {
        let slice = batch.slice(from, length);
        let back = round(&slice);
        assert_eq!(format!("{back:?}"), format!("{slice:?}"));
    }
}

#[test]
fn texts_cross_plain_and_what_is_not_flat_is_opaque() {
    let dictionary: DictionaryArray<Int32Type> = vec![Some("x"), None].into_iter().collect();
    let batch = RecordBatch::try_from_iter(vec![
        ("v", Arc::new(StringViewArray::from(vec!["a text of more than twelve bytes", "b"])) as ArrayRef),
        ("d", Arc::new(dictionary)),
    ])
    .unwrap();
    assert_eq!(round(&batch).column(1).as_ref(), &StringArray::from(vec![Some("x"), None]));
    let list = DataType::new_list(DataType::Int64, true);
    let fields = offered(&Schema::new(vec![Field::new("l", list.clone(), true), Field::new("t", DataType::Utf8View, true)]));
    assert_eq!((fields[0].data_type.as_str(), fields[0].is_opaque(), fields[1].data_type.as_str()), ("opaque", true, "string"));
    assert!(ColumnsEncoder::new(&Schema::new(vec![Field::new("l", list, true)]), vec![0]).is_err());
}

#[test]
fn only_flat_types_under_different_names_are_declared() {
    let field = |name: &str, data_type: &str| wit::Field { name: name.into(), data_type: data_type.into(), nullable: true };
    for (fields, said) in [
        (vec![field("a", "int64"), field("a", "bool")], "`a` twice"),
        (vec![field("a", "opaque")], "column `a`"),
        (vec![field("a", "list<int64>")], "only flat types cross"),
        (vec![field("a", "int65")], "column `a`"),
    ] {
        assert!(declared(&fields).unwrap_err().contains(said), "{said}");
    }
}

fn column(data: &[u8], offsets: Option<&[i32]>, validity: Option<&[u8]>) -> wit::Column {
    wit::Column {
        data: data.to_vec(),
        offsets: offsets.map(|offsets| offsets.iter().flat_map(|offset| offset.to_le_bytes()).collect()),
        validity: validity.map(<[u8]>::to_vec),
    }
}

/// What two rows of one column are taken for.
fn two(data_type: &str, nullable: bool, column: wit::Column) -> Result<RecordBatch, String> {
    let schema = Arc::new(declared(&[wit::Field { name: "c".into(), data_type: data_type.into(), nullable }]).unwrap());
    decode_columns(wit::Columns { rows: 2, columns: vec![column] }, &schema)
}

#[test]
fn every_wrong_buffer_is_an_error_that_names_the_column() {
    let wrong = [
        ("int64", column(&[0; 15], None, None), "15 bytes, and 2 rows of 8 take 16"),
        ("int64", column(&[0; 24], None, None), "24 bytes"),
        ("int64", column(&[0; 16], Some(&[0, 1, 2]), None), "only text and bytes have"),
        ("int64", column(&[0; 16], None, Some(&[])), "validity has 0 bytes"),
        ("int64", column(&[0; 16], None, Some(&[3, 0])), "validity has 2 bytes"),
        ("bool", column(&[], None, None), "data has 0 bytes"),
        ("decimal(3,0)", column(&[0xff_u8; 15].iter().copied().chain([0x0f]).chain([0; 16]).collect::<Vec<_>>(), None, None), "ecimal"),
        ("string", column(b"ab", None, None), "no offsets"),
        ("string", column(b"ab", Some(&[0, 1]), None), "offsets have 8 bytes"),
        ("string", column(b"ab", Some(&[0, 2, 1]), None), "go back at row 1"),
        ("string", column(b"ab", Some(&[-1, 1, 2]), None), "reach from -1"),
        ("string", column(b"ab", Some(&[0, 1, 3]), None), "to 3, and its data has 2 bytes"),
        ("string", column(b"a\xff", Some(&[0, 1, 2]), None), "UTF"),
        ("string", column("aü".as_bytes(), Some(&[0, 2, 3]), None), "UTF"),
        ("string", column(b"\xff\xff", Some(&[0, 1, 2]), Some(&[0b10])), "row 1 is no UTF-8"),
        ("binary", column(b"ab", Some(&[0, 1, i32::MAX]), None), "reach from 0"),
    ];
    for (data_type, column, said) in wrong {
        let error = two(data_type, true, column).expect_err(said);
        assert!(error.contains("column `c`") && error.contains(said), "{data_type}: {error}");
    }
    let error = two("int64", false, column(&[0; 16], None, Some(&[1]))).unwrap_err();
    assert!(error.contains('c') && error.to_lowercase().contains("null"), "{error}");
    let schema = Arc::new(Schema::empty());
    assert!(decode_columns(wit::Columns { rows: u32::MAX, columns: vec![] }, &schema).unwrap_err().contains("rows"));
    assert!(decode_columns(wit::Columns { rows: 1, columns: vec![column(&[], None, None)] }, &schema).unwrap_err().contains("1 columns"));
}

#[test]
fn what_stands_at_a_null_is_arbitrary() {
    let read = two("string", true, column(b"\xff\xffok", Some(&[0, 2, 4]), Some(&[0b10]))).unwrap();
    assert_eq!(read.column(0).as_ref(), &StringArray::from(vec![None, Some("ok")]));
    assert!(
        two("int64", true, column(&[0; 16], None, Some(&[0b1111_1101]))).unwrap().column(0).is_null(1),
        "bits behind the last row are not read"
    );
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 4000, failure_persistence: None, ..ProptestConfig::default() })]

    /// Mutated buffers are read or refused; what is read can be walked. Nothing panics.
    #[test]
    fn mutated_buffers_never_panic(changes in prop::collection::vec((any::<prop::sample::Index>(), any::<prop::sample::Index>(), any::<u8>(), 0..4_u8), 1..6), rows in 0..6_u32) {
        let batch = everything();
        let encoder = encoder(&batch);
        let schema = Arc::new(declared(encoder.fields()).unwrap());
        let mut sent = encoder.encode(&encoder.project(&batch).unwrap()).unwrap();
        sent.rows = if rows == 5 { 4 } else { rows };
        for (column, at, value, what) in changes {
            let column = column.get_mut(&mut sent.columns);
            let bytes = match what {
                0 => Some(&mut column.data),
                1 => column.offsets.as_mut(),
                2 => column.validity.as_mut(),
                _ => { column.data.pop(); None }
            };
            if let Some(bytes) = bytes.filter(|bytes| !bytes.is_empty()) {
                let at = at.index(bytes.len());
                bytes[at] = value;
            }
        }
        if let Ok(read) = decode_columns(sent, &schema) {
            prop_assert!(read.columns().iter().all(|column| column.to_data().validate_full().is_ok()));
        }
    }
}

use super::*;
use ::arrow::array::{
    Array, AsArray, BooleanArray, DictionaryArray, FixedSizeBinaryArray, Int32Array, Int64Array, ListArray, MapBuilder, NullArray,
    RunArray, StringArray, StringBuilder, StringViewArray, StructArray,
};
use ::arrow::datatypes::{DataType, Field, Int8Type, Int32Type, Schema};
use ::arrow::ipc::CompressionType;
use ::arrow::ipc::writer::{FileWriter, IpcWriteOptions, StreamWriter};
use std::io::Cursor;
use std::sync::Arc;

/// A few rows of every layout that the format has.
fn sample() -> RecordBatch {
    let mut map = MapBuilder::new(None, StringBuilder::new(), StringBuilder::new());
    for row in 0..5 {
        map.keys().append_value("key");
        map.values().append_option((row % 2 == 0).then_some("value"));
        map.append(row != 3).unwrap();
    }
    let structs = StructArray::try_new(
        vec![Field::new("a", DataType::Int32, true), Field::new("b", DataType::Utf8View, true)].into(),
        vec![
            Arc::new(Int32Array::from(vec![Some(1), None, Some(3), Some(4), None])),
            Arc::new(StringViewArray::from(vec![Some("x"), Some("longer than twelve bytes"), None, Some(""), None])),
        ],
        Some(vec![true, true, false, true, true].into()),
    );
    let columns: Vec<(&str, ArrayRef)> = vec![
        ("n", Arc::new(Int64Array::from(vec![Some(i64::MIN), None, Some(0), Some(1), Some(i64::MAX)]))),
        ("s", Arc::new(StringArray::from(vec![Some("one"), None, Some(""), Some("four"), Some("five")]))),
        ("v", Arc::new(StringViewArray::from_iter_values((0..5).map(|n| format!("number {n}, and some more text"))))),
        ("f", Arc::new(BooleanArray::from(vec![Some(true), None, Some(false), None, Some(true)]))),
        ("d", Arc::new(vec![Some("red"), Some("blue"), None, Some("red"), Some("red")].into_iter().collect::<DictionaryArray<Int8Type>>())),
        ("l", Arc::new(ListArray::from_iter_primitive::<Int32Type, _, _>((0..5).map(|n| (n != 2).then(|| (0..n).map(Some)))))),
        ("o", Arc::new(structs.unwrap())),
        ("m", Arc::new(map.finish())),
        ("u", Arc::new(FixedSizeBinaryArray::try_from_iter((0..5u8).map(|n| [n; 3])).unwrap())),
        ("z", Arc::new(NullArray::new(5))),
        ("r", Arc::new([Some("a"), Some("a"), None, Some("b"), Some("b")].into_iter().collect::<RunArray<Int32Type>>())),
    ];
    RecordBatch::try_from_iter_with_nullable(columns.into_iter().map(|(name, column)| (name, column, true))).unwrap()
}

fn written(compression: Option<CompressionType>, as_file: bool) -> Vec<u8> {
    let batch = sample();
    let options = IpcWriteOptions::default().try_with_compression(compression).unwrap();
    if as_file {
        let mut writer = FileWriter::try_new_with_options(Vec::new(), &batch.schema(), options).unwrap();
        (0..2).for_each(|_| writer.write(&batch).unwrap());
        writer.into_inner().unwrap()
    } else {
        let mut writer = StreamWriter::try_new_with_options(Vec::new(), &batch.schema(), options).unwrap();
        (0..2).for_each(|_| writer.write(&batch).unwrap());
        writer.into_inner().unwrap()
    }
}

fn forms() -> Vec<(Vec<u8>, bool)> {
    let codecs = [None, Some(CompressionType::LZ4_FRAME), Some(CompressionType::ZSTD)];
    codecs.into_iter().flat_map(|codec| [true, false].map(|as_file| (written(codec, as_file), as_file))).collect()
}

/// The columns that a source would read of them: those whose types the engine has.
fn wanted() -> Wanted {
    let schema = engine_schema(&sample().schema());
    Wanted::some(schema, |column| !matches!(column, "m" | "z"))
}

/// Reads everything as a source does.
fn read(bytes: &[u8], as_file: bool, wanted: Wanted) -> Result<Vec<Batch>> {
    let bytes = Cursor::new(bytes.to_vec());
    match as_file {
        true => file_schema(Box::new(bytes.clone()))?,
        false => stream_schema(Box::new(bytes.clone()))?,
    };
    let mut input = match as_file {
        true => ArrowInput::file(Box::new(bytes), wanted, 0, 0)?,
        false => ArrowInput::stream(Box::new(bytes), wanted, 0, 0)?,
    };
    let mut batches = Vec::new();
    while let Some(batch) = input.read(3)? {
        batches.push(batch);
    }
    Ok(batches)
}

#[test]
fn every_layout_is_read_from_files_and_streams() {
    for (bytes, as_file) in forms() {
        let batches = read(&bytes, as_file, wanted()).unwrap();
        assert_eq!(batches.iter().map(|batch| batch.records).collect::<Vec<_>>(), [3, 2, 3, 2]);
        let second = &batches[1].rows;
        assert_eq!(second.column_by_name("n").unwrap().as_primitive::<::arrow::datatypes::Int64Type>().values(), &[1, i64::MAX]);
        assert_eq!(second.column_by_name("d").unwrap().as_string_view().iter().collect::<Vec<_>>(), [Some("red"); 2]);
        assert_eq!(second.column_by_name("r").unwrap().as_string_view().iter().collect::<Vec<_>>(), [Some("b"); 2]);
        // No columns at all still are rows.
        let none = read(&bytes, as_file, Wanted::some(engine_schema(&sample().schema()), |_| false)).unwrap();
        assert_eq!(none.iter().map(|batch| batch.rows.num_rows()).sum::<usize>(), 10);
    }
}

/// A small generator of numbers.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % limit as u64) as usize
    }
}

#[test]
fn no_damage_to_a_file_is_more_than_an_error() {
    let mut random = Random(0x9E37_79B9_7F4A_7C15);
    let (mut refused, mut caught) = (0, Vec::new());
    for (bytes, as_file) in forms() {
        for _ in 0..700 {
            let mut damaged = bytes.clone();
            for _ in 0..1 + random.below(3) {
                let at = random.below(damaged.len());
                damaged[at] = match random.below(4) {
                    0 => damaged[at] ^ (1 << random.below(8)),
                    1 => 0xFF,
                    2 => 0,
                    _ => random.below(256) as u8,
                };
            }
            if random.below(10) == 0 {
                damaged.truncate(random.below(damaged.len()));
            }
            match read(&damaged, as_file, wanted()) {
                Ok(batches) => {
                    for column in batches.iter().flat_map(|batch| batch.rows.columns()) {
                        column.to_data().validate_full().unwrap();
                    }
                }
                Err(error) => {
                    refused += 1;
                    if error.message().contains("the library cannot read it") {
                        caught.push(error.message().to_string());
                    }
                }
            }
            if !as_file {
                let _ = whole(&damaged);
            }
        }
    }
    assert!(refused > 500, "{refused}");
    assert!(caught.is_empty(), "what the library panics over is looked at before: {caught:?}");
}

#[test]
fn an_error_says_where_the_broken_message_begins() {
    let mut bytes = written(None, false);
    let schema = 8 + i32::from_le_bytes(bytes[4..8].try_into().unwrap()) as usize;
    bytes[schema + 4..schema + 8].copy_from_slice(&(-5i32).to_le_bytes());
    let error = read(&bytes, false, wanted()).unwrap_err();
    let expected = format!("cannot be read as Arrow IPC: it has an impossible length, in the message at byte {schema}");
    assert_eq!(error.message(), expected);
    for (bytes, what) in [(&b"ARROW1"[..], "too short"), (&[0; 40], "does not end as one")] {
        let error = file_schema(Box::new(Cursor::new(bytes.to_vec()))).unwrap_err();
        assert!(error.message().contains(what), "{error}");
    }
}

#[test]
fn lengths_that_a_stream_claims_are_not_believed() {
    // A schema without columns, then a batch of more rows than anybody has.
    let schema = Arc::new(Schema::empty());
    let options = ::arrow::array::RecordBatchOptions::new().with_row_count(Some(usize::MAX >> 2));
    let batch = RecordBatch::try_new_with_options(Arc::clone(&schema), Vec::new(), &options).unwrap();
    let mut writer = StreamWriter::try_new(Vec::new(), &schema).unwrap();
    writer.write(&batch).unwrap();
    let bytes = writer.into_inner().unwrap();
    let error = read(&bytes, false, Wanted::all(Arc::clone(&schema))).unwrap_err();
    assert!(error.message().contains("more rows than its bytes can hold"), "{error}");
    assert!(whole(&bytes).is_err());
    // A message and data that would be gigabytes, of which nothing comes.
    for claim in [[0xFF, 0xFF, 0xFF, 0xFF, 0, 0, 0, 0x03], [0xFF, 0xFF, 0xFF, 0x7F, 0, 0, 0, 0]] {
        assert!(read(&claim, false, Wanted::all(Arc::clone(&schema))).is_err());
    }
}

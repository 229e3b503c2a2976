//! Arrow IPC that is malformed in more than fifty ways, each sent by a real component: every one is an error that names the plugin.

#![allow(clippy::unwrap_used, reason = "a test may end by panicking")]

#[macro_use]
mod kit;

use arrow::array::{ArrayRef, DictionaryArray, Int32Array, Int64Array, RecordBatch, StringArray, StringViewArray};
use arrow::datatypes::{DataType, Field, Int32Type, Schema};
use arrow_ipc::writer::{IpcWriteOptions, StreamWriter};
use arrow_ipc::{CompressionType, MetadataVersion};
use kit::{TransformGuest, World, batch_message, data, run, schema_message, small};
use serde_json::Value;
use std::sync::Arc;
use tidegate_api::{Error, ErrorKind, EventTime, Output, StepCtx};

const ROWS: usize = 100;

/// What an honest guest would make: numbers without nulls and texts, both of lengths that appear nowhere else in the message.
fn honest() -> RecordBatch {
    let names = (0..ROWS).map(|row| Some(format!("name {row}")));
    let schema = Schema::new(vec![Field::new("id", DataType::Int64, false), Field::new("name", DataType::Utf8, true)]);
    let columns: Vec<ArrayRef> = vec![Arc::new(Int64Array::from_iter_values(0..ROWS as i64)), Arc::new(names.collect::<StringArray>())];
    RecordBatch::try_new(Arc::new(schema), columns).unwrap()
}

/// What the host makes of this answer.
fn answered(message: &[u8]) -> Result<Output, Error> {
    let guest = TransformGuest {
        declares: Some(schema_message(honest().schema_ref())),
        extra: data(20000, message),
        before_return: format!("(i32.store (i32.const 1280) (i32.const 20000)) (i32.store (i32.const 1284) (i32.const {}))", message.len()),
        ..TransformGuest::default()
    };
    let world = World::new();
    let plugin = world.load(&guest.component(), small());
    let batch = rows!(("in", Int64Array, [7_i64; ROWS]));
    let mut step = plugin.transform(&Value::Null, batch.schema()).unwrap().factory.open(StepCtx::new(run(), 0, 1)).unwrap();
    let mut out = Output::default();
    step.apply(batch, EventTime(0), &mut out).map(|()| out)
}

/// A batch written in some other way.
fn written(batch: &RecordBatch, options: IpcWriteOptions) -> Vec<u8> {
    let mut writer = StreamWriter::try_new_with_options(Vec::new(), batch.schema_ref(), options).unwrap();
    writer.get_mut().clear();
    writer.write(batch).unwrap();
    writer.get_ref().clone()
}

fn options() -> IpcWriteOptions {
    IpcWriteOptions::try_new(8, false, MetadataVersion::V5).unwrap()
}

fn column(array: ArrayRef) -> RecordBatch {
    RecordBatch::try_from_iter_with_nullable([("id", array, true)]).unwrap()
}

/// Cuts, at every eighth of the message and around its seams.
fn cuts(whole: &[u8], metadata_end: usize, wrong: &mut Vec<(String, Vec<u8>)>) {
    let eighths = (0..8).map(|part| part * whole.len() / 8);
    for length in eighths.chain([1, 3, 4, 7, 8, 9, metadata_end - 1, metadata_end, metadata_end + 1]) {
        wrong.push((format!("cut to {length} bytes"), whole[..length].to_vec()));
    }
}

/// Another number in the place of one, wherever it stands in the metadata.
fn numbers(whole: &[u8], metadata_end: usize, wrong: &mut Vec<(String, Vec<u8>)>) {
    let body = (whole.len() - metadata_end) as i64;
    let text: i64 = (0..ROWS).map(|row| format!("name {row}").len() as i64).sum();
    for (what, number) in [
        ("the length of its body", body),
        ("rows or values", ROWS as i64),
        ("the numbers' buffer", ROWS as i64 * 8),
        ("the texts' buffer", text),
    ] {
        let bytes = number.to_le_bytes();
        let places: Vec<usize> = (8..metadata_end - 7).filter(|at| whole[*at..*at + 8] == bytes).collect();
        assert!(!places.is_empty(), "{what}: {number} stands nowhere");
        for at in places {
            for other in [-1, i64::MIN, i64::MAX, number + 1_000_000] {
                let mut message = whole.to_vec();
                message[at..at + 8].copy_from_slice(&other.to_le_bytes());
                wrong.push((format!("{what} at {at} is {other}"), message));
            }
        }
    }
}

/// Messages that are fine in themselves, and not what was declared or not what crosses.
fn others(wrong: &mut Vec<(String, Vec<u8>)>) {
    let numbers: ArrayRef = Arc::new(Int64Array::from_iter_values(0..ROWS as i64));
    let mut add = |what: &str, message: Vec<u8>| wrong.push((what.to_string(), message));
    for compression in [CompressionType::LZ4_FRAME, CompressionType::ZSTD] {
        add(&format!("{compression:?}"), written(&honest(), options().try_with_compression(Some(compression)).unwrap()));
    }
    add("version 4", written(&honest(), IpcWriteOptions::try_new(8, false, MetadataVersion::V4).unwrap()));
    add("a schema", schema_message(honest().schema_ref()));
    add("fewer columns", batch_message(&column(Arc::clone(&numbers))));
    add("text for a number", batch_message(&column(Arc::new(StringArray::from(vec!["x"; ROWS])))));
    add("narrow numbers", batch_message(&column(Arc::new(Int32Array::from(vec![1; ROWS])))));
    add("views", written(&column(Arc::new(StringViewArray::from(vec!["a text of more than twelve bytes"; ROWS]))), options()));
    let dictionary: DictionaryArray<Int32Type> = vec![Some("x"); ROWS].into_iter().collect();
    add("a dictionary", written(&column(Arc::new(dictionary)), options()));
    add("fewer rows", batch_message(&honest().slice(0, ROWS - 1)));
    add("no rows", batch_message(&honest().slice(0, 0)));
    let nulls: ArrayRef = Arc::new(Int64Array::from(vec![None; ROWS]));
    let fields = vec![Field::new("id", DataType::Int64, true), Field::new("name", DataType::Utf8, true)];
    let with_nulls = RecordBatch::try_new(Arc::new(Schema::new(fields.clone())), vec![nulls, Arc::clone(honest().column(1))]).unwrap();
    add("nulls where there are none", batch_message(&with_nulls));
    let three = [fields, vec![Field::new("more", DataType::Int64, true)]].concat();
    let more = vec![Arc::clone(honest().column(0)), Arc::clone(honest().column(1)), numbers];
    add("more columns", batch_message(&RecordBatch::try_new(Arc::new(Schema::new(three)), more).unwrap()));
    add("nothing but a marker", vec![0xff; 8]);
    add("zeros", vec![0; 512]);
    add("text", b"these are no rows at all, and they are long enough to be some".to_vec());
}

/// The body: offsets that go back, reach outside, and texts that are none.
fn bodies(whole: &[u8], metadata_end: usize, wrong: &mut Vec<(String, Vec<u8>)>) {
    let offsets = [0_i32, 6, 12].iter().flat_map(|offset| offset.to_le_bytes()).collect::<Vec<u8>>();
    let at = metadata_end + whole[metadata_end..].windows(offsets.len()).position(|window| window == offsets).unwrap();
    for other in [-1, i32::MIN, i32::MAX, 1000, 13] {
        let mut message = whole.to_vec();
        message[at + 4..at + 8].copy_from_slice(&i32::to_le_bytes(other));
        wrong.push((format!("an offset is {other}"), message));
    }
    let at = metadata_end + whole[metadata_end..].windows(6).position(|window| window == b"name 0").unwrap();
    for byte in [0xff, 0xc3, 0x80] {
        let mut message = whole.to_vec();
        message[at] = byte;
        wrong.push((format!("a text begins with {byte:#x}"), message));
    }
}

#[test]
fn rows_that_are_malformed_in_any_way_are_an_error_that_names_the_plugin() {
    let whole = batch_message(&honest());
    let metadata_end = 8 + u32::from_le_bytes([whole[4], whole[5], whole[6], whole[7]]) as usize;
    let out = answered(&whole).unwrap();
    assert_eq!(out.batches[0].num_rows(), ROWS, "unchanged it is taken");
    let mut wrong = Vec::new();
    cuts(&whole, metadata_end, &mut wrong);
    numbers(&whole, metadata_end, &mut wrong);
    others(&mut wrong);
    bodies(&whole, metadata_end, &mut wrong);
    for (what, at, value) in [("no marker", 0, 0_u8), ("half a marker", 3, 0), ("no metadata", 4, 0), ("metadata of gigabytes", 7, 0x7f)] {
        let mut message = whole.clone();
        message[at] = value;
        wrong.push((what.into(), message));
    }
    assert!(wrong.len() > 50, "{} ways", wrong.len());
    for (what, message) in wrong {
        let error = answered(&message).err().unwrap_or_else(|| panic!("{what}: it was taken"));
        let text = error.to_string();
        assert_eq!(error.kind(), ErrorKind::Config, "{what}: {text}");
        assert!(text.contains("plugin `hostile`: call `processor.process`") && text.contains("mended build"), "{what}: {text}");
    }
}

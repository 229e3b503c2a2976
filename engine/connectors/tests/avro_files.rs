//! Avro container files: every codec, places within blocks, and what damage costs.

#![allow(clippy::unwrap_used, reason = "a test may end by panicking")]

use arrow::array::{Array, AsArray, RecordBatch};
use arrow::compute::concat_batches;
use arrow::datatypes::{Int64Type, SchemaRef};
use proptest::prelude::*;
use serde_json::json;
use std::io::Write;
use std::path::Path;
use std::sync::Arc;
use tidegate_api::testkit::{SplitRead, read_source, source_contract};
use tidegate_api::{BadReason, BadRow, SourceRequest};
use tidegate_connectors::ConnectorCtx;
use tidegate_connectors::decode::avro::AvroContainer;
use tidegate_connectors::decode::{Decoder, Wanted};

const ROW: &str = r#"{"type":"record","name":"r","fields":[
    {"name":"n","type":"long"},{"name":"s","type":["null","string"]},{"name":"ok","type":"boolean"},
    {"name":"kind","type":{"type":"enum","name":"k","symbols":["A","B"]}},
    {"name":"tags","type":{"type":"map","values":"long"}}]}"#;

const MARK: [u8; 16] = *b"0123456789abcdef";

fn long(value: i64) -> Vec<u8> {
    let mut rest = (value << 1 ^ value >> 63) as u64;
    let mut bytes = Vec::new();
    while rest > 0x7F {
        bytes.push(rest as u8 | 0x80);
        rest >>= 7;
    }
    bytes.push(rest as u8);
    bytes
}

fn text(text: &str) -> Vec<u8> {
    [long(text.len() as i64), text.as_bytes().to_vec()].concat()
}

fn header(codec: &str) -> Vec<u8> {
    let entries = [text("avro.schema"), text(ROW), text("avro.codec"), text(codec)].concat();
    [b"Obj\x01".to_vec(), long(2), entries, long(0), MARK.to_vec()].concat()
}

/// A value whose text is as many letters as `n` says, with two tags.
fn value(n: i64) -> Vec<u8> {
    let tags = [long(2), text("a"), long(n), text("b"), long(-n), long(0)].concat();
    [long(n), long(1), text(&"x".repeat(n as usize % 7)), vec![u8::from(n % 2 == 0)], long(n % 2), tags].concat()
}

fn compressed(codec: &str, body: &[u8]) -> Vec<u8> {
    match codec {
        "null" => body.to_vec(),
        "deflate" => {
            let mut writer = flate2::write::DeflateEncoder::new(Vec::new(), flate2::Compression::fast());
            writer.write_all(body).unwrap();
            writer.finish().unwrap()
        }
        "zstandard" => zstd::encode_all(body, 1).unwrap(),
        "snappy" => {
            let packed = snap::raw::Encoder::new().compress_vec(body).unwrap();
            [packed, crc32fast::hash(body).to_be_bytes().to_vec()].concat()
        }
        other => panic!("what is {other}?"),
    }
}

fn block(count: i64, body: &[u8]) -> Vec<u8> {
    [long(count), long(body.len() as i64), body.to_vec(), MARK.to_vec()].concat()
}

fn values(range: std::ops::Range<i64>) -> Vec<u8> {
    range.flat_map(value).collect()
}

/// Blocks of the numbers 0 to 9, 10 to 19 and 20 to 29, of which the second is another.
fn file(second: &[u8]) -> Vec<u8> {
    [header("null"), block(10, &values(0..10)), second.to_vec(), block(10, &values(20..30))].concat()
}

fn write(folder: &Path, bytes: &[u8]) {
    std::fs::write(folder.join("x.avro"), bytes).unwrap();
}

/// Reads a file under the contract of sources.
fn read(bytes: &[u8], request: &SourceRequest) -> SplitRead {
    let folder = tempfile::tempdir().unwrap();
    write(folder.path(), bytes);
    let options = json!({ "path": "x.avro" });
    let source = tidegate_connectors::source("files", options.as_object().unwrap(), &ConnectorCtx::new(folder.path(), "in")).unwrap();
    source_contract(source.as_ref(), request);
    read_source(source.as_ref(), request, 1, 4, None).into_values().next().unwrap()
}

fn numbers(rows: &RecordBatch) -> Vec<i64> {
    rows.column_by_name("n").unwrap().as_primitive::<Int64Type>().iter().flatten().collect()
}

fn some(ranges: &[std::ops::Range<i64>]) -> Vec<i64> {
    ranges.iter().cloned().flatten().collect()
}

#[test]
fn blocks_of_every_codec_are_read_from_any_place_in_them() {
    for codec in ["null", "deflate", "snappy", "zstandard"] {
        let blocks = [0..40, 40..41, 41..41, 41..300]
            .map(|range: std::ops::Range<i64>| block(range.end - range.start, &compressed(codec, &values(range))));
        let read = read(&[header(codec), blocks.concat()].concat(), &SourceRequest::all());
        assert_eq!((numbers(&read.rows), read.bad), ((0..300).collect(), vec![]), "{codec}");
        assert!(read.positions.iter().all(|(_, _, position)| position.to_string().matches(':').count() == 2));
        let tags = read.rows.column_by_name("tags").unwrap().as_list::<i32>();
        let entries = tags.value(299).as_struct().column(1).as_primitive::<Int64Type>().values().to_vec();
        assert_eq!(entries, [299, -299], "{codec}: a map is a list of entries");
    }
}

#[test]
fn a_value_that_its_type_does_not_allow_costs_itself() {
    let odd = [long(13), long(1), text("odd"), vec![7], long(0), long(0)].concat();
    let not_text = [long(14), long(1), long(2), vec![0xFF, 0xFE], vec![1], long(0), long(0)].concat();
    let no_symbol = [long(15), long(0), vec![1], long(9), long(0)].concat();
    let body = [values(10..13), odd.clone(), not_text, no_symbol, values(16..20)].concat();
    let read = read(&file(&block(10, &body)), &SourceRequest::all());
    assert_eq!(numbers(&read.rows), some(&[0..13, 16..30]));
    let columns: Vec<_> = read.bad.iter().map(|bad| (bad.reason, bad.column.as_deref().unwrap())).collect();
    assert_eq!(columns, ["ok", "s", "kind"].map(|column| (BadReason::Malformed, column)));
    assert_eq!(read.bad[0].raw, odd);
    assert!(read.bad[0].message.contains("neither 0 nor 1") && read.bad[0].position.as_deref().unwrap().starts_with("row 13, byte "));
}

fn messages(bad: &[BadRow]) -> Vec<&str> {
    bad.iter().map(|bad| bad.message.as_str()).collect()
}

#[test]
fn a_value_that_breaks_off_costs_the_rest_of_its_block_and_no_other() {
    // A branch that the union does not have: nobody knows where the next value begins.
    let broken = [long(13), long(5), values(14..20)].concat();
    let read = read(&file(&block(10, &[values(10..13), broken.clone()].concat())), &SourceRequest::all());
    assert_eq!(numbers(&read.rows), some(&[0..13, 20..30]));
    assert_eq!(read.bad.len(), 7, "{:?}", messages(&read.bad));
    assert!(read.bad[0].message.contains("an index that the schema does not have"));
    assert_eq!(read.bad[0].raw, broken, "the first carries the bytes of all");
    assert!(read.bad[1..].iter().all(|bad| bad.raw.is_empty() && bad.message.contains("before it in the same block")));

    let rescued = self::read(&file(&block(10, &[values(10..13), broken].concat())), &SourceRequest::all().with_rescue(true));
    assert_eq!((rescued.rows.num_rows(), rescued.bad.len()), (30, 0));
    let texts = rescued.rows.column_by_name(tidegate_api::bad::RESCUED).unwrap().as_string_view().clone();
    assert_eq!((texts.null_count(), texts.value(14)), (23, ""));
    assert!(!texts.value(13).is_empty() && rescued.rows.column(0).is_null(13));
}

#[test]
fn a_block_that_is_damaged_costs_itself() {
    let good = values(10..20);
    let mut marked = block(10, &good);
    let end = marked.len() - 1;
    marked[end] ^= 1;
    let with_size = |size: usize| [long(10), long(size as i64), good.clone(), MARK.to_vec()].concat();
    let cases: [(&str, Vec<u8>, usize, &str); 7] = [
        ("a longer block", block(9, &good), 1, "longer than its values"),
        ("a shorter block", block(12, &good), 2, "ends too early"),
        ("more values than bytes", block(1 << 40, &good), 1, "claims more values"),
        ("a size too small", with_size(good.len() - 3), 10, "mark behind a block is another"),
        ("a size too large", with_size(good.len() + 9), 10, "mark behind a block is another"),
        ("a size beyond the end", with_size(1 << 20), 10, "ends within a block"),
        ("a negative size", [long(10), long(-5), good.clone(), MARK.to_vec()].concat(), 1, "negative length"),
    ];
    for (what, second, bad, message) in cases {
        let read = read(&file(&second), &SourceRequest::all());
        let before = if what.starts_with("a longer") {
            19
        } else if what.starts_with("a shorter") {
            20
        } else {
            10
        };
        assert_eq!(numbers(&read.rows), some(&[0..before, 20..30]), "{what}");
        assert_eq!(read.bad.len(), bad, "{what}: {:?}", messages(&read.bad));
        assert!(read.bad[0].message.contains(message), "{what}: {:?}", messages(&read.bad));
        assert!(!read.bad[0].raw.is_empty() || what.starts_with("a shorter"), "{what}");
    }
    // Another mark takes the block behind it along, whose own mark is the next that is found.
    let read = read(&file(&marked), &SourceRequest::all());
    assert_eq!((numbers(&read.rows), read.bad.len()), ((0..10).collect(), 10));
}

#[test]
fn a_block_that_cannot_be_decompressed_costs_itself() {
    for codec in ["deflate", "snappy", "zstandard"] {
        let mut broken = compressed(codec, &values(10..20));
        let last = broken.len() - 1;
        broken[last / 2] ^= 0x55;
        broken[last] ^= 0x55;
        let blocks =
            [block(10, &compressed(codec, &values(0..10))), block(10, &broken[..last]), block(10, &compressed(codec, &values(20..30)))];
        let read = read(&[header(codec), blocks.concat()].concat(), &SourceRequest::all());
        // Deflate has no checksum, so what comes before the damage may be read.
        assert_eq!(read.rows.num_rows() + read.bad.len(), 30, "{codec}");
        let whole: Vec<i64> = numbers(&read.rows).into_iter().filter(|n| !(10..20).contains(n)).collect();
        assert_eq!(whole, some(&[0..10, 20..30]), "{codec}");
        assert!(!read.bad.is_empty() && (codec == "deflate" || read.bad.len() == 10), "{codec}");
    }
}

/// Decodes a whole file, so many rows at a time; rows, bad rows, and why it ended early.
fn decode(bytes: &[u8], wanted: Wanted, max_rows: usize) -> (RecordBatch, Vec<BadRow>, Option<String>) {
    let schema: SchemaRef = Arc::clone(&wanted.schema);
    let mut decoder = AvroContainer::new(wanted).unwrap();
    let (mut batches, mut bad, mut why) = (Vec::new(), Vec::new(), None);
    match decoder.begin(bytes, true) {
        Ok(Some(mut at)) => {
            while at < bytes.len() {
                match decoder.decode(&bytes[at..], true, max_rows) {
                    Ok(decoded) => {
                        assert!(decoded.records <= max_rows && (decoded.consumed > 0 || decoded.records > 0));
                        assert_eq!(decoded.records, decoded.rows.num_rows() + decoded.bad.len());
                        at += decoded.consumed;
                        batches.push(decoded.rows);
                        bad.extend(decoded.bad.into_iter().map(|bad| bad.row));
                    }
                    Err(error) => {
                        why = Some(error.to_string());
                        break;
                    }
                }
            }
        }
        Ok(None) => panic!("there is no more"),
        Err(error) => why = Some(error.to_string()),
    }
    (concat_batches(&schema, &batches).unwrap(), bad, why)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]
    #[test]
    fn damage_costs_what_it_hits_and_is_the_same_however_rows_are_asked_for(
        codec in prop::sample::select(vec!["null", "deflate", "snappy", "zstandard"]),
        hits in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
        max_rows in 1usize..9,
        rescue in any::<bool>(),
    ) {
        let head = header(codec);
        let blocks: Vec<Vec<u8>> = (0..6).map(|at| block(10, &compressed(codec, &values(at * 10..at * 10 + 10)))).collect();
        let body = blocks.concat();
        let mut damaged = [head.clone(), body.clone()].concat();
        for (index, byte) in &hits {
            damaged[head.len() + index.index(body.len())] ^= *byte;
        }
        let schema = tidegate_connectors::decode::avro::schema_of(ROW).unwrap();
        let wanted = || if rescue { Wanted::all(Arc::clone(&schema)).rescuing(true) } else { Wanted::all(Arc::clone(&schema)) };
        let whole = decode(&damaged, wanted(), usize::MAX);
        let (rows, bad, why) = decode(&damaged, wanted(), max_rows);
        prop_assert_eq!(&rows, &whole.0);
        prop_assert_eq!(&bad, &whole.1);
        prop_assert_eq!(&why, &whole.2);
        // Every block that was not hit, and whose neighbour in front was not either, is there.
        if why.is_none() && !rescue {
            let touched: Vec<usize> = hits.iter().filter(|(_, byte)| *byte != 0).map(|(index, _)| {
                let mut at = index.index(body.len());
                blocks.iter().position(|block| { let inside = at < block.len(); at = at.saturating_sub(block.len()); inside }).unwrap()
            }).collect();
            let found = numbers(&rows);
            for at in (0..6usize).filter(|at| !touched.contains(at) && (*at == 0 || !touched.contains(&(at - 1)))) {
                for n in at as i64 * 10..at as i64 * 10 + 10 {
                    prop_assert!(found.contains(&n), "{} of {:?} is lost, and only {:?} are hit", n, found, touched);
                }
            }
        }
    }
}

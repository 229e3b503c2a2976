//! JSON lines into columns: learned layouts and the full parser beside the decoder of arrow-json, in one run.
//!
//! The lines are bids of the Nexmark generator as our JSON writer prints them, 274 bytes each with `extra`: machine-written, one
//! layout. "scattered" gives every line a key of its own, so no layout ever repeats. Ratios are printed at the end: how many times
//! the rows per second of arrow-json with the full schema.

#![allow(clippy::unwrap_used, missing_docs, reason = "a benchmark may end by panicking")]
#![allow(clippy::disallowed_methods, clippy::print_stdout, reason = "a benchmark reads the clock and prints")]

use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use arrow::json::ReaderBuilder;
use criterion::{Criterion, Throughput};
use std::hint::black_box;
use std::sync::Arc;
use std::time::Instant;
use tidegate_connectors::decode::json::{JsonDecoder, Paths};
use tidegate_connectors::decode::{Decoder, Wanted};

const ROWS: usize = 8_192;

fn schema() -> SchemaRef {
    let integer = |name: &str| Field::new(name, DataType::Int64, true);
    let text = |name: &str| Field::new(name, DataType::Utf8View, true);
    Arc::new(Schema::new(vec![
        integer("auction"),
        integer("bidder"),
        integer("price"),
        text("channel"),
        text("url"),
        integer("dateTime"),
        text("extra"),
    ]))
}

/// A stream of numbers that look random.
fn draws() -> impl FnMut(u64) -> u64 {
    let mut state = 0x9E37_79B9_7F4A_7C15u64;
    move |below| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 11) % below
    }
}

/// Bids as they are written, each with a key of its own in front if `scattered`.
fn bids(scattered: bool) -> Vec<u8> {
    let mut draw = draws();
    let mut text = String::new();
    for row in 0..ROWS as u64 {
        let letters =
            |draw: &mut dyn FnMut(u64) -> u64, count: usize| -> String { (0..count).map(|_| (b'a' + draw(26) as u8) as char).collect() };
        let own = if scattered { format!("\"k{}{row}\":1,", letters(&mut draw, 5)) } else { String::new() };
        text += &format!(
            "{{{own}\"auction\":{},\"bidder\":{},\"price\":{},\"channel\":\"channel-{}\",\"url\":\"https://www.nexmark.com/{}/item.htm?query=1&channel_id={}\",\"dateTime\":{},\"extra\":\"{}\"}}\n",
            1_000 + draw(100_000),
            1_000 + draw(100_000),
            100 + draw(10_000_000),
            draw(10_000),
            letters(&mut draw, 15),
            draw(2_147_483_648),
            1_704_067_200_000 + row,
            letters(&mut draw, 78),
        );
    }
    text.into_bytes()
}

fn arrow_json(text: &[u8], schema: &SchemaRef) -> usize {
    let mut decoder = ReaderBuilder::new(Arc::clone(schema)).with_batch_size(ROWS).build_decoder().unwrap();
    let mut at = 0;
    while at < text.len() {
        match decoder.decode(&text[at..]).unwrap() {
            0 => break,
            taken => at += taken,
        }
    }
    black_box(decoder.flush().unwrap().unwrap()).num_rows()
}

fn ours(decoder: &mut JsonDecoder, text: &[u8]) -> usize {
    let decoded = decoder.decode(text, true, ROWS).unwrap();
    assert!(decoded.bad.is_empty());
    black_box(decoded.rows).num_rows()
}

fn decoder(columns: usize, paths: Paths) -> JsonDecoder {
    let three = ["auction", "price", "dateTime"];
    JsonDecoder::with_paths(Wanted::some(schema(), |name| columns == 7 || three.contains(&name)), paths).unwrap()
}

/// Rows per second of each contender, the best of many turns. They take turns, so that what else the machine does hits all alike.
fn rates(contenders: &mut [Box<dyn FnMut() -> usize + '_>]) -> Vec<f64> {
    let mut best = vec![f64::INFINITY; contenders.len()];
    for _ in 0..300 {
        for (best, turn) in best.iter_mut().zip(contenders.iter_mut()) {
            let begun = Instant::now();
            assert_eq!(turn(), ROWS);
            *best = best.min(begun.elapsed().as_secs_f64());
        }
    }
    best.into_iter().map(|best| ROWS as f64 / best).collect()
}

fn main() {
    let mut criterion = Criterion::default().configure_from_args();
    let lines = [("machine-written", bids(false)), ("scattered", bids(true))];
    for (name, text) in &lines {
        let mut group = criterion.benchmark_group(format!("json/{name}"));
        group.throughput(Throughput::Elements(ROWS as u64));
        group.bench_function("arrow-json, 7 columns", |bencher| bencher.iter(|| arrow_json(text, &schema())));
        for columns in [3, 7] {
            for paths in [Paths::Fast, Paths::Full] {
                let mut decoder = decoder(columns, paths);
                group.bench_function(format!("{paths:?}, {columns} columns"), |bencher| bencher.iter(|| ours(&mut decoder, text)));
            }
        }
        group.finish();
    }
    for (name, text) in &lines {
        println!("{name}: {:.0} bytes a row", text.len() as f64 / ROWS as f64);
        let schema = schema();
        let ways = [(3, Paths::Fast), (7, Paths::Fast), (3, Paths::Full), (7, Paths::Full)];
        let mut contenders: Vec<Box<dyn FnMut() -> usize + '_>> = vec![Box::new(|| arrow_json(text, &schema))];
        for (columns, paths) in ways {
            let mut decoder = decoder(columns, paths);
            contenders.push(Box::new(move || ours(&mut decoder, text)));
        }
        let found = rates(&mut contenders);
        println!("  arrow-json, 7 columns: {:.2} M rows/s", found[0] / 1e6);
        for ((columns, paths), rate) in ways.iter().zip(&found[1..]) {
            println!("  {paths:?}, {columns} columns: {:.2} M rows/s, {:.2} times", rate / 1e6, rate / found[0]);
        }
    }
    criterion.final_summary();
}

//! The generator by the columns asked for. Throughput is events of all kinds per second; `bids` lets the source apply the
//! condition `type == "bid"` itself.

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use serde_json::{Map, json};
use std::hint::black_box;
use std::time::Duration;
use tidegate_api::{EqualTo, Generation, PollRequest, RunId, RunIdentity, SourceCtx, SourceRequest};
use tidegate_connectors::{ConnectorCtx, source};

const EVENTS: u64 = 2_000_000;

fn generate(columns: Option<&[&str]>, bids: bool) -> usize {
    let options: Map<_, _> = json!({ "events": EVENTS }).as_object().expect("an object").clone();
    let source = source("nexmark", &options, &ConnectorCtx::new(".", "events")).expect("the options are right");
    let equals = EqualTo { column: "type".into(), values: vec![json!("bid")] };
    let request = SourceRequest::all()
        .with_columns(columns.map(|columns| columns.iter().map(|column| (*column).to_string()).collect()))
        .with_equals(if bids { vec![equals] } else { Vec::new() });
    let splits = source.discover(None).expect("the source discovers").added;
    let run = RunIdentity::new("bench", RunId::new("run"), Generation(1), "events");
    let mut reader = source.open(SourceCtx::new(run).with_start(splits).with_request(request)).expect("the source opens");
    let poll = PollRequest { max_rows: 8192, max_bytes: 2 << 20, wait: Duration::ZERO };
    let mut rows = 0;
    loop {
        let polled = reader.poll(poll).expect("the source polls");
        for chunk in &polled.chunks {
            rows += black_box(&chunk.rows).num_rows();
        }
        if !polled.states.is_empty() {
            return rows;
        }
    }
}

fn columns(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("nexmark");
    group.throughput(Throughput::Elements(EVENTS)).sample_size(10);
    let sets: [(&str, &[&str]); 5] = [
        ("auction, dateTime", &["auction", "dateTime"]),
        ("bidder, dateTime", &["bidder", "dateTime"]),
        ("auction, price", &["auction", "price"]),
        ("auction, bidder, price, dateTime", &["auction", "bidder", "price", "dateTime"]),
        ("the same, channel, url", &["auction", "bidder", "price", "channel", "url", "dateTime"]),
    ];
    for (name, columns) in sets {
        group.bench_function(format!("bids: {name}"), |bencher| bencher.iter(|| generate(Some(columns), true)));
    }
    group.bench_function("bids: all columns", |bencher| bencher.iter(|| generate(None, true)));
    group.bench_function("all kinds: all columns", |bencher| bencher.iter(|| generate(None, false)));
    group.finish();
}

criterion_group!(benches, columns);
criterion_main!(benches);

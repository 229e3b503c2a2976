//! How fast a topic is read: by a bare consumer of librdkafka that looks at nothing, and by the source, which decodes every row.
//!
//! Wants a broker: `TIDEGATE_TEST_KAFKA=HOST:PORT cargo bench -p tidegate-connectors --bench kafka`. `TIDEGATE_BENCH_ROWS` says how many
//! rows (a million unless set). Not criterion's: one pass over much data, each way in turn, and the best of three.

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::disallowed_methods,
    reason = "a benchmark measures time and talks to its terminal"
)]

use rdkafka::admin::{AdminClient, AdminOptions, NewTopic, TopicReplication};
use rdkafka::client::DefaultClientContext;
use rdkafka::config::ClientConfig;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::message::Message as _;
use rdkafka::producer::{BaseProducer, BaseRecord, Producer};
use rdkafka::topic_partition_list::{Offset, TopicPartitionList};
use serde_json::{Map, Value, json};
use std::time::{Duration, Instant};
use tidegate_api::{Generation, PollRequest, RunId, RunIdentity, SourceCtx, SourceRequest, SplitState};
use tidegate_connectors::encode::{JsonMessages, MessageEncoder, TextOptions};
use tidegate_connectors::{ConnectorCtx, source};

const PARTITIONS: i32 = 4;
const TIMES: usize = 3;

fn main() {
    let Ok(brokers) = std::env::var("TIDEGATE_TEST_KAFKA") else {
        println!("not measured: TIDEGATE_TEST_KAFKA names no broker");
        return;
    };
    let rows: u64 = std::env::var("TIDEGATE_BENCH_ROWS").ok().and_then(|rows| rows.parse().ok()).unwrap_or(1_000_000);
    let topic = format!("bench-{}", std::process::id());
    let bytes = load(&brokers, &topic, rows);
    println!("{rows} bids as JSON, {} MB in {PARTITIONS} partitions", bytes / 1_000_000);
    let columns = ["auction", "price", "dateTime"];
    let passes: [(&str, &dyn Fn() -> u64); 3] = [
        ("bare consumer", &|| bare(&brokers, &topic, rows)),
        ("source, all columns", &|| through_source(&brokers, &topic, None)),
        ("source, 3 columns", &|| through_source(&brokers, &topic, Some(&columns))),
    ];
    let mut bare = None;
    for (name, pass) in passes {
        let best = (0..TIMES).map(|_| timed(rows, pass)).min_by(|a, b| a.wall.cmp(&b.wall)).unwrap();
        let bare = *bare.get_or_insert(best);
        let rate = |time: Duration| rows as f64 / time.as_secs_f64() / 1e6;
        let ratio = |a: Duration, b: Duration| a.as_secs_f64() / b.as_secs_f64();
        println!(
            "{name}: {:.2} M rows/s, {:.2} M per CPU second; time {:.2} and CPU {:.2} of the bare consumer's",
            rate(best.wall),
            rate(best.cpu),
            ratio(best.wall, bare.wall),
            ratio(best.cpu, bare.cpu)
        );
    }
}

#[derive(Debug, Clone, Copy)]
struct Taken {
    wall: Duration,
    cpu: Duration,
}

fn timed(rows: u64, pass: &dyn Fn() -> u64) -> Taken {
    let (wall, cpu) = (Instant::now(), cpu());
    assert_eq!(pass(), rows);
    Taken { wall: wall.elapsed(), cpu: self::cpu() - cpu }
}

/// What all threads of this process have used.
fn cpu() -> Duration {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap();
    let ticks: u64 = stat.rsplit_once(')').unwrap().1.split_whitespace().skip(11).take(2).map(|field| field.parse::<u64>().unwrap()).sum();
    // The kernel's unit for programs is a hundredth of a second.
    Duration::from_millis(ticks * 10)
}

fn identity() -> RunIdentity {
    RunIdentity::new("bench", RunId::new("r"), Generation(1), "bids")
}

fn object(value: Value) -> Map<String, Value> {
    value.as_object().unwrap().clone()
}

fn request() -> PollRequest {
    PollRequest { max_rows: 8192, max_bytes: 2 << 20, wait: Duration::from_millis(100) }
}

/// Fills a new topic, and answers how many bytes its values are.
fn load(brokers: &str, topic: &str, rows: u64) -> u64 {
    let mut config = ClientConfig::new();
    config.set("bootstrap.servers", brokers).set("linger.ms", "20").set("queue.buffering.max.kbytes", "262144");
    let admin: AdminClient<DefaultClientContext> = config.create().unwrap();
    let topics = [NewTopic::new(topic, PARTITIONS, TopicReplication::Fixed(1))];
    let made = futures_block(admin.create_topics(&topics, &AdminOptions::new().operation_timeout(Some(Duration::from_secs(20)))));
    made.unwrap().into_iter().for_each(|made| drop(made.unwrap()));
    let producer: BaseProducer = config.create().unwrap();
    // Of 50 events 46 are bids.
    let options = object(json!({ "events": rows.div_ceil(46) * 50, "kinds": ["bid"] }));
    let bids = source("nexmark", &options, &ConnectorCtx::new(".", "bids")).unwrap();
    let wanted = Some(["auction", "bidder", "price", "channel", "url", "dateTime", "extra"].map(String::from).to_vec());
    let found = bids.discover(None).unwrap();
    let ctx = SourceCtx::new(identity()).with_start(found.added).with_request(SourceRequest::all().with_columns(wanted));
    let mut reader = bids.open(ctx).unwrap();
    let mut encoder = JsonMessages::new(TextOptions::default());
    let (mut sent, mut bytes) = (0, 0);
    while sent < rows {
        for chunk in reader.poll(request()).unwrap().chunks {
            for payload in encoder.encode(&chunk.rows).unwrap().iter().take(usize::try_from(rows - sent).unwrap()) {
                let partition = (sent % PARTITIONS as u64) as i32;
                let mut record = BaseRecord::<(), [u8]>::to(topic).payload(payload).partition(partition);
                while let Err((_, again)) = producer.send(record) {
                    producer.poll(Duration::from_millis(10));
                    record = again;
                }
                sent += 1;
                bytes += payload.len() as u64;
            }
            producer.poll(Duration::ZERO);
        }
    }
    producer.flush(Duration::from_secs(120)).unwrap();
    bytes
}

fn bare(brokers: &str, topic: &str, rows: u64) -> u64 {
    let mut config = ClientConfig::new();
    config.set("bootstrap.servers", brokers).set("group.id", "bench").set("enable.auto.commit", "false");
    let consumer: BaseConsumer = config.create().unwrap();
    let mut list = TopicPartitionList::new();
    for partition in 0..PARTITIONS {
        list.add_partition_offset(topic, partition, Offset::Beginning).unwrap();
    }
    consumer.assign(&list).unwrap();
    let (mut read, mut bytes) = (0, 0);
    while read < rows {
        let Some(message) = consumer.poll(Duration::from_secs(20)) else { break };
        bytes += message.unwrap().payload().map_or(0, <[u8]>::len);
        read += 1;
    }
    assert!(bytes > 0);
    read
}

fn through_source(brokers: &str, topic: &str, columns: Option<&[&str]>) -> u64 {
    let typed = [
        ("auction", "int64"),
        ("bidder", "int64"),
        ("price", "int64"),
        ("channel", "string"),
        ("url", "string"),
        ("dateTime", "timestamp_ms"),
        ("extra", "string"),
    ];
    let schema: Vec<Value> = typed.iter().map(|(name, kind)| json!({ "name": name, "type": kind })).collect();
    let options = object(json!({ "brokers": brokers, "topic": topic, "format": "json", "schema": schema, "end": "latest" }));
    let bids = source("kafka", &options, &ConnectorCtx::new(".", "bids").with_pipeline("bench")).unwrap();
    let columns = columns.map(|columns| columns.iter().map(|column| (*column).to_string()).collect());
    let request_of = SourceRequest::all().with_columns(columns);
    bids.plan(&request_of).unwrap();
    let found = bids.discover(None).unwrap();
    let mut open = found.added.len();
    let mut reader = bids.open(SourceCtx::new(identity()).with_start(found.added).with_request(request_of)).unwrap();
    let mut read = 0;
    while open > 0 {
        let polled = reader.poll(request()).unwrap();
        read += polled.chunks.iter().map(|chunk| chunk.rows.num_rows() as u64).sum::<u64>();
        open -= polled.states.iter().filter(|(_, state)| *state == SplitState::Finished).count();
    }
    read
}

/// Waits for the one future there is; the client's own thread completes it.
fn futures_block<T>(future: impl Future<Output = T>) -> T {
    let mut future = std::pin::pin!(future);
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    loop {
        match future.as_mut().poll(&mut context) {
            std::task::Poll::Ready(done) => return done,
            std::task::Poll::Pending => std::thread::sleep(Duration::from_millis(5)),
        }
    }
}

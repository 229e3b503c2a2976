//! A cluster as the tests see it: topics of their own, rows to write, and what a reader finds.

use arrow::array::{ArrayRef, Int64Array, RecordBatch, StringViewArray};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use rdkafka::admin::{AdminClient, AdminOptions, NewTopic, TopicReplication};
use rdkafka::client::DefaultClientContext;
use rdkafka::config::ClientConfig;
use rdkafka::consumer::{BaseConsumer, Consumer as _};
use rdkafka::error::KafkaError;
use rdkafka::message::{Headers as _, Message as _};
use rdkafka::{Offset, TopicPartitionList};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::Thread;
use std::time::Duration;
use tidegate_api::testkit::MemoryStaging;
use tidegate_api::{
    AnySink, CommitToken, Committer, Epoch, Generation, OutputSink, PreCommit, RunId, RunIdentity, Sink, SinkCtx, Staging,
    TransactionalSink,
};
use tidegate_connectors::ConnectorCtx;

pub(crate) fn brokers() -> String {
    std::env::var("TIDEGATE_TEST_KAFKA").unwrap_or_else(|_| panic!("set TIDEGATE_TEST_KAFKA to the `host:port` of a Kafka broker"))
}

/// A name that nobody has used.
pub(crate) fn unused(what: &str) -> String {
    let random = std::fs::read_to_string("/proc/sys/kernel/random/uuid").unwrap();
    format!("ksink-{what}-{}", &random[..13])
}

pub(crate) fn wait<F: Future>(future: F) -> F::Output {
    struct Unpark(Thread);
    impl Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }
    let waker: Waker = Arc::new(Unpark(std::thread::current())).into();
    let mut future = pin!(future);
    loop {
        match future.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(result) => return result,
            Poll::Pending => std::thread::park(),
        }
    }
}

pub(crate) fn admin(brokers: &str) -> AdminClient<DefaultClientContext> {
    ClientConfig::new().set("bootstrap.servers", brokers).create().unwrap()
}

pub(crate) fn make_topic(brokers: &str, name: &str, partitions: i32, config: &[(&str, &str)]) {
    let mut topic = NewTopic::new(name, partitions, TopicReplication::Fixed(1));
    for (key, value) in config {
        topic = topic.set(key, value);
    }
    let options = AdminOptions::new().operation_timeout(Some(Duration::from_secs(20)));
    let made = wait(admin(brokers).create_topics([&topic], &options)).unwrap();
    made.into_iter().next().unwrap().unwrap();
    // A client that asks at once may meet a broker that has not heard of it yet.
    for _ in 0..100 {
        let metadata = admin(brokers).inner().fetch_metadata(Some(name), Duration::from_secs(10)).unwrap();
        if metadata.topics().iter().any(|topic| topic.error().is_none() && topic.partitions().len() == partitions as usize) {
            return;
        }
        std::thread::park_timeout(Duration::from_millis(50));
    }
    panic!("topic {name} does not appear");
}

/// A record as it was read.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Read {
    pub(crate) partition: i32,
    pub(crate) key: Option<String>,
    pub(crate) value: Option<String>,
    pub(crate) headers: Vec<(String, Option<String>)>,
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Everything in a topic up to its end, or up to the first open transaction, in the order of each partition.
pub(crate) fn read(brokers: &str, topic: &str, isolation: &str) -> Vec<Read> {
    let consumer: BaseConsumer = ClientConfig::new()
        .set("bootstrap.servers", brokers)
        .set("group.id", "ksink-judge")
        .set("isolation.level", isolation)
        .set("enable.auto.commit", "false")
        .set("enable.partition.eof", "true")
        .set("auto.offset.reset", "earliest")
        .set("fetch.wait.max.ms", "50")
        .create()
        .unwrap();
    let metadata = consumer.fetch_metadata(Some(topic), Duration::from_secs(20)).unwrap();
    let mut open: BTreeSet<i32> = metadata.topics()[0].partitions().iter().map(rdkafka::metadata::MetadataPartition::id).collect();
    let mut assigned = TopicPartitionList::new();
    for partition in &open {
        assigned.add_partition_offset(topic, *partition, Offset::Beginning).unwrap();
    }
    consumer.assign(&assigned).unwrap();
    let mut found = Vec::new();
    let mut silent = 0;
    while !open.is_empty() {
        match consumer.poll(Duration::from_secs(1)) {
            None => {
                silent += 1;
                assert!(silent < 60, "the judge hears nothing of partitions {open:?}");
            }
            Some(Err(KafkaError::PartitionEOF(partition))) => {
                open.remove(&partition);
            }
            Some(Err(error)) => panic!("the judge cannot read: {error}"),
            Some(Ok(message)) => found.push(Read {
                partition: message.partition(),
                key: message.key().map(text),
                value: message.payload().map(text),
                headers: message
                    .headers()
                    .map(|headers| headers.iter().map(|header| (header.key.to_string(), header.value.map(text))).collect())
                    .unwrap_or_default(),
            }),
        }
    }
    found
}

/// What a reader of committed records finds, as sorted values.
pub(crate) fn committed(brokers: &str, topic: &str) -> Vec<String> {
    let mut values: Vec<String> = read(brokers, topic, "read_committed").into_iter().map(|read| read.value.unwrap_or_default()).collect();
    values.sort();
    values
}

pub(crate) fn schema() -> SchemaRef {
    Arc::new(Schema::new(vec![Field::new("n", DataType::Int64, true), Field::new("s", DataType::Utf8View, true)]))
}

pub(crate) fn rows(numbers: std::ops::Range<i64>) -> RecordBatch {
    let n: ArrayRef = Arc::new(Int64Array::from_iter_values(numbers.clone()));
    let s: ArrayRef = Arc::new(StringViewArray::from_iter_values(numbers.map(|n| format!("row {n}"))));
    RecordBatch::try_new(schema(), vec![n, s]).unwrap()
}

/// What [`rows`] look like when they are read.
pub(crate) fn values(numbers: std::ops::Range<i64>) -> Vec<String> {
    let mut values: Vec<String> = numbers.map(|n| format!(r#"{{"n":{n},"s":"row {n}"}}"#)).collect();
    values.sort();
    values
}

/// A sink of a topic, of one pipeline, with its staging.
#[derive(Clone)]
pub(crate) struct World {
    pub(crate) brokers: String,
    pub(crate) topic: String,
    pub(crate) pipeline: String,
    pub(crate) staging: Arc<MemoryStaging>,
    pub(crate) options: Value,
}

impl World {
    pub(crate) fn new(brokers: &str, partitions: i32) -> Self {
        let topic = unused("t");
        make_topic(brokers, &topic, partitions, &[]);
        let options = json!({ "brokers": brokers, "topic": topic });
        World { brokers: brokers.to_string(), pipeline: topic.clone(), topic, staging: Arc::default(), options }
    }

    pub(crate) fn with(mut self, key: &str, value: Value) -> Self {
        self.options[key] = value;
        self
    }

    pub(crate) fn sink(&self) -> Arc<dyn OutputSink> {
        tidegate_connectors::sink("kafka", self.options.as_object().unwrap(), &ConnectorCtx::new(".", "out")).unwrap()
    }

    pub(crate) fn ctx_of(&self, run: &str, generation: u64) -> SinkCtx {
        let identity = RunIdentity::new(self.pipeline.as_str(), RunId::new(run), Generation(generation), "out");
        SinkCtx::new(identity, schema()).with_staging(Arc::clone(&self.staging) as Arc<dyn Staging>).with_exactly_once(true)
    }

    pub(crate) fn ctx(&self, generation: u64) -> SinkCtx {
        self.ctx_of("run", generation)
    }

    pub(crate) fn writer_in(&self, ctx: SinkCtx) -> Box<dyn TransactionalSink> {
        match self.sink().open(ctx).unwrap() {
            AnySink::Transactional(writer) => writer,
            AnySink::AtLeastOnce(_) => panic!("no two phases"),
        }
    }

    pub(crate) fn live_in(&self, ctx: SinkCtx) -> Box<dyn Sink> {
        match self.sink().open(ctx).unwrap() {
            AnySink::AtLeastOnce(writer) => writer,
            AnySink::Transactional(_) => panic!("two phases"),
        }
    }

    pub(crate) fn committer(&self, generation: u64) -> Box<dyn Committer> {
        self.sink().committer(self.ctx(generation)).unwrap()
    }

    pub(crate) fn committed(&self) -> Vec<String> {
        committed(&self.brokers, &self.topic)
    }

    pub(crate) fn segments(&self) -> Vec<String> {
        self.staging.keys().into_iter().filter(|key| key.contains("/segments/")).collect()
    }
}

pub(crate) fn token(writer: &mut dyn TransactionalSink, epoch: u64) -> CommitToken {
    match writer.pre_commit(Epoch(epoch)).unwrap() {
        PreCommit::Token(token) => token,
        other => panic!("{other:?}"),
    }
}

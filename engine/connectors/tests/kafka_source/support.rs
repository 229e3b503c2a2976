//! Topics to fill, and readers to drain.

use arrow::array::{AsArray, RecordBatch};
use arrow::datatypes::Int64Type;
use rdkafka::admin::{AdminClient, AdminOptions, NewPartitions, NewTopic, TopicReplication};
use rdkafka::client::DefaultClientContext;
use rdkafka::config::ClientConfig;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::message::{Header, OwnedHeaders};
use rdkafka::producer::{BaseProducer, BaseRecord, Producer};
use rdkafka::topic_partition_list::{Offset, TopicPartitionList};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::task::{Context, Poll, Wake};
use std::thread::Thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use tidegate_api::{
    BadRow, Error, Generation, InlineSource, Ordinals, OutsideMeters, PollRequest, Position, Result, RunId, RunIdentity, SourceCtx,
    SourceReader, SourceRequest, Split, SplitId, SplitState,
};
use tidegate_connectors::ConnectorCtx;

/// How long anything may take that a broker is asked for.
pub(crate) const PATIENCE: Duration = Duration::from_secs(120);

pub(crate) fn brokers() -> String {
    std::env::var("TIDEGATE_TEST_KAFKA").expect("set TIDEGATE_TEST_KAFKA=HOST:PORT to the broker that these tests may use")
}

#[allow(clippy::disallowed_methods, reason = "a test has a deadline")]
pub(crate) fn now() -> Instant {
    Instant::now()
}

/// Repeats until it is so, or fails.
pub(crate) fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let end = now() + PATIENCE;
    while !is_so() {
        assert!(now() < end, "{what} did not happen");
        std::thread::park_timeout(Duration::from_millis(20));
    }
}

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

fn wait<T>(future: impl Future<Output = T>) -> T {
    let waker = Arc::new(Unpark(std::thread::current())).into();
    let mut future = pin!(future);
    loop {
        match future.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(answer) => return answer,
            Poll::Pending => std::thread::park_timeout(Duration::from_millis(50)),
        }
    }
}

/// A cluster to prepare topics in.
#[derive(Clone)]
pub(crate) struct World {
    pub(crate) brokers: String,
}

/// A message to write.
#[derive(Clone, Default)]
pub(crate) struct Record {
    pub(crate) key: Option<Vec<u8>>,
    pub(crate) payload: Option<Vec<u8>>,
    pub(crate) headers: Vec<(&'static str, Option<&'static [u8]>)>,
    pub(crate) timestamp: Option<i64>,
}

pub(crate) fn record(payload: impl Into<Vec<u8>>) -> Record {
    Record { payload: Some(payload.into()), ..Record::default() }
}

/// Rows of `n`.
pub(crate) fn rows(numbers: std::ops::Range<i64>) -> Vec<Record> {
    numbers.map(|n| record(format!("{{\"n\":{n}}}"))).collect()
}

impl World {
    pub(crate) fn real() -> Self {
        World { brokers: brokers() }
    }

    fn config(&self) -> ClientConfig {
        let mut config = ClientConfig::new();
        config.set("bootstrap.servers", &self.brokers).set("message.timeout.ms", "30000");
        config
    }

    fn admin(&self) -> AdminClient<DefaultClientContext> {
        self.config().create().unwrap()
    }

    /// A name that no other test has.
    pub(crate) fn name(&self, what: &str) -> String {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        #[allow(clippy::disallowed_methods, reason = "names of tests differ from run to run")]
        let at = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis();
        format!("ksrc-{what}-{at}-{}-{}", std::process::id(), NUMBER.fetch_add(1, Ordering::Relaxed))
    }

    /// A topic of its own.
    pub(crate) fn topic(&self, what: &str, partitions: i32) -> String {
        let name = self.name(what);
        self.create(&name, partitions, &[]);
        name
    }

    pub(crate) fn create(&self, name: &str, partitions: i32, settings: &[(&str, &str)]) {
        let mut topic = NewTopic::new(name, partitions, TopicReplication::Fixed(1));
        for (key, value) in settings {
            topic = topic.set(key, value);
        }
        let options = AdminOptions::new().operation_timeout(Some(PATIENCE));
        wait(self.admin().create_topics(&[topic], &options)).unwrap().pop().unwrap().unwrap();
        let probe: BaseConsumer = self.config().create().unwrap();
        until("a topic being made", || {
            let metadata = probe.fetch_metadata(Some(name), PATIENCE).unwrap();
            metadata.topics()[0].partitions().len() == partitions as usize
                && (0..partitions).all(|number| probe.fetch_watermarks(name, number, Duration::from_secs(2)).is_ok())
        });
    }

    pub(crate) fn delete(&self, name: &str) {
        let options = AdminOptions::new().operation_timeout(Some(PATIENCE));
        wait(self.admin().delete_topics(&[name], &options)).unwrap().pop().unwrap().unwrap();
        let probe: BaseConsumer = self.config().create().unwrap();
        until("a topic being deleted", || probe.fetch_metadata(Some(name), PATIENCE).unwrap().topics()[0].error().is_some());
    }

    pub(crate) fn grow(&self, name: &str, partitions: usize) {
        let options = AdminOptions::new().operation_timeout(Some(PATIENCE));
        wait(self.admin().create_partitions(&[NewPartitions::new(name, partitions)], &options)).unwrap().pop().unwrap().unwrap();
        let probe: BaseConsumer = self.config().create().unwrap();
        until("partitions being made", || probe.fetch_metadata(Some(name), PATIENCE).unwrap().topics()[0].partitions().len() == partitions);
    }

    /// Deletes what stands before an offset, as retention does.
    pub(crate) fn forget(&self, topic: &str, partition: i32, before: i64) {
        let mut offsets = TopicPartitionList::new();
        offsets.add_partition_offset(topic, partition, Offset::Offset(before)).unwrap();
        wait(self.admin().delete_records(&offsets, &AdminOptions::new().operation_timeout(Some(PATIENCE)))).unwrap();
    }

    /// Writes to one partition.
    pub(crate) fn send(&self, topic: &str, partition: i32, records: &[Record]) {
        let producer: BaseProducer = self.config().create().unwrap();
        put(&producer, topic, partition, records);
        producer.flush(PATIENCE).unwrap();
    }

    /// Writes in a transaction, which is committed or aborted.
    pub(crate) fn transact(&self, topic: &str, partition: i32, records: &[Record], is_committed: bool) {
        let open = self.begin(topic, partition, records);
        if is_committed {
            open.commit_transaction(PATIENCE).unwrap();
        } else {
            open.abort_transaction(PATIENCE).unwrap();
        }
    }

    /// Begins a transaction and leaves it open.
    pub(crate) fn begin(&self, topic: &str, partition: i32, records: &[Record]) -> BaseProducer {
        let mut config = self.config();
        config.set("transactional.id", self.name("tx")).set("compression.type", "lz4");
        let producer: BaseProducer = config.create().unwrap();
        producer.init_transactions(PATIENCE).unwrap();
        producer.begin_transaction().unwrap();
        put(&producer, topic, partition, records);
        producer.flush(PATIENCE).unwrap();
        producer
    }

    /// The first offset of a partition, and the one behind all, transactions that are open included.
    pub(crate) fn range(&self, topic: &str, partition: i32) -> (i64, i64) {
        let mut config = self.config();
        config.set("isolation.level", "read_uncommitted");
        let probe: BaseConsumer = config.create().unwrap();
        probe.fetch_watermarks(topic, partition, PATIENCE).unwrap()
    }

    /// What a group has committed.
    pub(crate) fn committed(&self, group: &str, topic: &str, partition: i32) -> Option<i64> {
        let mut config = self.config();
        config.set("group.id", group);
        let probe: BaseConsumer = config.create().unwrap();
        let mut asked = TopicPartitionList::new();
        asked.add_partition(topic, partition);
        match probe.committed_offsets(asked, PATIENCE).unwrap().find_partition(topic, partition).unwrap().offset() {
            Offset::Offset(offset) => Some(offset),
            _ => None,
        }
    }

    /// A source of a topic with the column `n`.
    pub(crate) fn source(&self, topic: &str, options: Value) -> Arc<dyn InlineSource> {
        let mut all = json!({ "topic": topic, "schema": [{ "name": "n", "type": "int64" }] });
        all.as_object_mut().unwrap().extend(options.as_object().unwrap().clone());
        self.bare_source(all)
    }

    /// A source of just these options; null takes one out.
    pub(crate) fn bare_source(&self, mut options: Value) -> Arc<dyn InlineSource> {
        let map = options.as_object_mut().unwrap();
        map.insert("brokers".into(), json!(self.brokers));
        map.retain(|_, value| !value.is_null());
        let cx = ConnectorCtx::new("/", "in").with_pipeline("test");
        match tidegate_connectors::source("kafka", map, &cx) {
            Ok(source) => source,
            Err(problems) => panic!("{problems:?}"),
        }
    }
}

fn put(producer: &BaseProducer, topic: &str, partition: i32, records: &[Record]) {
    for one in records {
        loop {
            let mut message: BaseRecord<'_, [u8], [u8]> = BaseRecord::to(topic).partition(partition);
            if let Some(key) = &one.key {
                message = message.key(key.as_slice());
            }
            if let Some(payload) = &one.payload {
                message = message.payload(payload.as_slice());
            }
            if let Some(timestamp) = one.timestamp {
                message = message.timestamp(timestamp);
            }
            if !one.headers.is_empty() {
                let headers =
                    one.headers.iter().fold(OwnedHeaders::new(), |headers, (key, value)| headers.insert(Header { key, value: *value }));
                message = message.headers(headers);
            }
            match producer.send(message) {
                Ok(()) => break,
                // The queue is full for now.
                Err((_, _)) => producer.poll(Duration::from_millis(10)),
            }
        }
    }
}

pub(crate) fn identity() -> RunIdentity {
    RunIdentity::new("test", RunId::new("run"), Generation(1), "in")
}

/// A source being read by one task, as the engine does it.
pub(crate) struct Reading {
    pub(crate) meters: OutsideMeters,
    pub(crate) reader: Box<dyn SourceReader>,
    pub(crate) taken: BTreeMap<SplitId, Taken>,
    pub(crate) request: PollRequest,
}

/// What came of one split.
#[derive(Default)]
pub(crate) struct Taken {
    pub(crate) batches: Vec<RecordBatch>,
    pub(crate) bad: Vec<BadRow>,
    pub(crate) ordinals: Vec<u64>,
    pub(crate) filtered: u64,
    /// After every chunk, how many rows there were, and the position.
    pub(crate) marks: Vec<(usize, Position)>,
    pub(crate) state: Option<SplitState>,
    rows: usize,
}

impl Taken {
    pub(crate) fn rows(&self) -> usize {
        self.rows
    }

    pub(crate) fn position(&self) -> String {
        self.marks.last().map(|(_, position)| position.to_string()).unwrap_or_default()
    }

    /// The values of the first column.
    pub(crate) fn numbers(&self) -> Vec<i64> {
        self.batches.iter().flat_map(|batch| batch.column(0).as_primitive::<Int64Type>().values().to_vec()).collect()
    }
}

impl Reading {
    pub(crate) fn open(source: &dyn InlineSource, request: SourceRequest, splits: Vec<Split>) -> Result<Self> {
        let taken = splits.iter().map(|split| (split.id.clone(), Taken::default())).collect();
        let meters = OutsideMeters::default();
        let reader = source.open(SourceCtx::new(identity()).with_request(request).with_start(splits).with_meters(meters.clone()))?;
        Ok(Reading { reader, meters, taken, request: PollRequest { max_rows: 8192, max_bytes: 2 << 20, wait: Duration::from_millis(10) } })
    }

    /// Discovers and opens all there is.
    pub(crate) fn all(source: &dyn InlineSource) -> Self {
        let found = source.discover(None).unwrap();
        Reading::open(source, SourceRequest::all(), found.added).unwrap()
    }

    pub(crate) fn assign(&mut self, splits: Vec<Split>) {
        self.taken.extend(splits.iter().map(|split| (split.id.clone(), Taken::default())));
        self.reader.assign(splits).unwrap();
    }

    pub(crate) fn poll(&mut self) -> Result<()> {
        let polled = self.reader.poll(self.request)?;
        let rows: usize = polled.chunks.iter().map(|chunk| chunk.rows.num_rows()).sum();
        assert!(rows <= self.request.max_rows, "{rows} rows of at most {}", self.request.max_rows);
        for chunk in polled.chunks {
            let taken = self.taken.get_mut(&chunk.split).expect("rows come of assigned splits");
            assert_ne!(taken.state, Some(SplitState::Finished), "nothing comes behind an end");
            if chunk.rows.num_rows() > 0 {
                taken.state = None;
            }
            match &chunk.ordinals {
                Ordinals::None => {}
                Ordinals::From(first) => taken.ordinals.extend((0..chunk.rows.num_rows() as u64).map(|row| first + row)),
                Ordinals::Each(each) => taken.ordinals.extend(each.values()),
            }
            taken.rows += chunk.rows.num_rows();
            taken.filtered += chunk.filtered;
            taken.marks.push((taken.rows, chunk.position));
            taken.bad.extend(chunk.bad);
            taken.batches.push(chunk.rows);
        }
        for (id, state) in polled.states {
            self.taken.get_mut(&id).expect("states are those of assigned splits").state = Some(state);
        }
        Ok(())
    }

    /// Polls until it is so.
    pub(crate) fn until(&mut self, what: &str, is_so: impl Fn(&BTreeMap<SplitId, Taken>) -> bool) -> &mut Self {
        let end = now() + PATIENCE;
        while !is_so(&self.taken) {
            assert!(now() < end, "{what} did not happen; {:?}", self.summary());
            self.poll().unwrap();
        }
        self
    }

    /// Polls until it tells so of itself.
    pub(crate) fn poll_until(&mut self, is_so: impl Fn(&OutsideMeters) -> bool) {
        let end = now() + PATIENCE;
        while !is_so(&self.meters) {
            assert!(now() < end, "it does not tell so; {:?}", self.meters);
            self.poll().unwrap();
        }
    }

    /// Polls until all splits are in this state.
    pub(crate) fn until_all(&mut self, state: SplitState) -> &mut Self {
        self.until(&format!("all splits {state:?}"), |taken| taken.values().all(|taken| taken.state == Some(state)))
    }

    /// Polls until that fails.
    pub(crate) fn until_error(&mut self) -> Error {
        let end = now() + PATIENCE * 2;
        loop {
            if let Err(error) = self.poll() {
                return error;
            }
            assert!(now() < end, "no error came; {:?}", self.summary());
        }
    }

    fn summary(&self) -> Vec<(String, usize, Option<SplitState>, String)> {
        self.taken.iter().map(|(id, taken)| (id.to_string(), taken.rows, taken.state, taken.position())).collect()
    }

    /// The only split.
    pub(crate) fn only(&self) -> &Taken {
        assert_eq!(self.taken.len(), 1);
        self.taken.values().next().unwrap()
    }

    pub(crate) fn numbers(&self) -> Vec<i64> {
        let mut all: Vec<i64> = self.taken.values().flat_map(Taken::numbers).collect();
        all.sort_unstable();
        all
    }
}

pub(crate) fn range(numbers: std::ops::Range<i64>) -> Vec<i64> {
    numbers.collect()
}

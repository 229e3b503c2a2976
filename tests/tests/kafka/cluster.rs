//! A cluster as its other users see it: topics are made and deleted, rows come in, and a reader of committed records says what is there.

use rdkafka::ClientConfig;
use rdkafka::admin::{AdminClient, AdminOptions, NewPartitions, NewTopic, TopicReplication};
use rdkafka::client::DefaultClientContext;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::producer::{BaseRecord, DefaultProducerContext, Producer, ThreadedProducer};
use rdkafka::{Message, Offset, TopicPartitionList};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tidegate_tests::process::{pause, wait_until};

/// What does not answer by then will not.
const PATIENCE: Duration = Duration::from_secs(60);

pub(crate) struct Cluster {
    pub(crate) endpoint: String,
}

/// One record that a reader saw.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Record {
    pub(crate) partition: i32,
    pub(crate) offset: i64,
    pub(crate) value: String,
}

impl Cluster {
    pub(crate) fn new(endpoint: impl Into<String>) -> Cluster {
        Cluster { endpoint: endpoint.into() }
    }

    fn config(&self) -> ClientConfig {
        let mut config = ClientConfig::new();
        config.set("bootstrap.servers", &self.endpoint);
        config
    }

    /// A topic of a name that no other test uses; `what` begins it.
    #[allow(clippy::disallowed_methods, reason = "a name, not a time")]
    pub(crate) fn topic(&self, what: &str, partitions: i32) -> String {
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_nanos();
        let name = format!("{what}-{now}-{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::SeqCst));
        self.make(&name, partitions);
        name
    }

    pub(crate) fn make(&self, name: &str, partitions: i32) {
        self.ask("make", async |admin, options| {
            let topic = NewTopic::new(name, partitions, TopicReplication::Fixed(1));
            admin.create_topics([&topic], options).await
        });
        // A topic is made before everybody knows of it.
        let consumer: BaseConsumer = self.config().create().unwrap();
        let is_there = || consumer.fetch_metadata(Some(name), PATIENCE).unwrap().topics()[0].partitions().len() == partitions as usize;
        wait_until(is_there, "the topic does not appear");
    }

    /// Makes a topic whose namesake is on its way out.
    pub(crate) fn make_again(&self, name: &str, partitions: i32) {
        let consumer: BaseConsumer = self.config().create().unwrap();
        let is_gone = || consumer.fetch_metadata(None, PATIENCE).unwrap().topics().iter().all(|topic| topic.name() != name);
        wait_until(is_gone, "the topic does not go away");
        self.make(name, partitions);
    }

    pub(crate) fn widen(&self, name: &str, partitions: usize) {
        self.ask("widen", async |admin, options| admin.create_partitions([&NewPartitions::new(name, partitions)], options).await);
    }

    pub(crate) fn delete(&self, name: &str) {
        self.ask("delete", async |admin, options| admin.delete_topics(&[name], options).await);
    }

    /// One request, until it is answered well.
    fn ask(
        &self,
        what: &str,
        request: impl AsyncFn(
            &AdminClient<DefaultClientContext>,
            &AdminOptions,
        ) -> Result<Vec<Result<String, (String, RDKafkaErrorCode)>>, KafkaError>,
    ) {
        let admin: AdminClient<DefaultClientContext> = self.config().create().unwrap();
        let options = AdminOptions::new().operation_timeout(Some(PATIENCE)).request_timeout(Some(PATIENCE));
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        for answer in runtime.block_on(request(&admin, &options)).unwrap() {
            answer.unwrap_or_else(|(topic, code)| panic!("cannot {what} `{topic}`: {code}"));
        }
    }

    /// Hands over rows, each to a partition, and waits until they are there.
    pub(crate) fn produce<'r>(&self, topic: &str, rows: impl IntoIterator<Item = (i32, &'r str)>) {
        let mut feed = self.feed(topic);
        rows.into_iter().for_each(|(partition, row)| feed.send(partition, row));
        feed.finish();
    }

    /// Somebody who writes into a topic, each row once and in order, whatever happens to the broker meanwhile.
    pub(crate) fn feed(&self, topic: &str) -> Feed {
        let mut config = self.config();
        config.set("enable.idempotence", "true").set("message.timeout.ms", "600000").set("linger.ms", "5");
        Feed { producer: config.create().unwrap(), topic: topic.to_string() }
    }

    /// Everything that is committed in a topic, in the order of partitions and offsets.
    pub(crate) fn committed(&self, topic: &str) -> Vec<Record> {
        let mut config = self.config();
        config.set("isolation.level", "read_committed").set("enable.partition.eof", "true").set("enable.auto.commit", "false");
        config.set("group.id", "judge").set("auto.offset.reset", "error");
        let consumer: BaseConsumer = config.create().unwrap();
        let partitions = consumer.fetch_metadata(Some(topic), PATIENCE).unwrap().topics()[0].partitions().len();
        let mut list = TopicPartitionList::new();
        for partition in 0..partitions {
            list.add_partition_offset(topic, partition as i32, Offset::Beginning).unwrap();
        }
        consumer.assign(&list).unwrap();
        let (mut records, mut ended) = (Vec::new(), std::collections::BTreeSet::new());
        while ended.len() < partitions {
            match consumer.poll(PATIENCE).expect("the broker answers") {
                Ok(message) => records.push(Record {
                    partition: message.partition(),
                    offset: message.offset(),
                    value: String::from_utf8(message.payload().unwrap_or_default().to_vec()).unwrap(),
                }),
                Err(KafkaError::PartitionEOF(partition)) => {
                    ended.insert(partition);
                }
                // What a broker that was killed a moment ago is excused for.
                Err(KafkaError::MessageConsumption(code)) if is_passing(code) => {}
                Err(error) => panic!("`{topic}` cannot be read: {error}"),
            }
        }
        records.sort();
        records
    }

    /// Their values alone.
    pub(crate) fn values(&self, topic: &str) -> Vec<String> {
        self.committed(topic).into_iter().map(|record| record.value).collect()
    }
}

fn is_passing(code: RDKafkaErrorCode) -> bool {
    use RDKafkaErrorCode::{AllBrokersDown, BrokerTransportFailure, LeaderNotAvailable, NotLeaderForPartition, OperationTimedOut};
    matches!(code, AllBrokersDown | BrokerTransportFailure | LeaderNotAvailable | NotLeaderForPartition | OperationTimedOut)
}

/// Writes into a topic.
pub(crate) struct Feed {
    producer: ThreadedProducer<DefaultProducerContext>,
    topic: String,
}

impl Feed {
    pub(crate) fn send(&mut self, partition: i32, row: &str) {
        let mut record = BaseRecord::<(), str>::to(&self.topic).partition(partition).payload(row);
        loop {
            match self.producer.send(record) {
                Ok(()) => return,
                Err((KafkaError::MessageProduction(RDKafkaErrorCode::QueueFull), back)) => {
                    record = back;
                    pause(Duration::from_millis(5));
                }
                Err((error, _)) => panic!("`{}` cannot be written: {error}", self.topic),
            }
        }
    }

    /// Waits until everything is there.
    pub(crate) fn finish(&self) {
        self.producer.flush(Duration::from_secs(600)).unwrap();
    }
}

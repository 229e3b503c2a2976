//! One hold of the transactional id: a producer that has fenced everybody before it, what the mark said when it began, and transactions.

use super::super::client::{PATIENCE, Voice, failed, is_refusal};
use super::config::KafkaSinkConfig;
use super::deliveries::{Deliveries, Undelivered};
use super::live::headers;
use super::mark::{Found, Mark};
use super::record::Record;
use super::segment::records;
use rdkafka::TopicPartitionList;
use rdkafka::config::ClientConfig;
use rdkafka::consumer::{BaseConsumer, Consumer as _};
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::producer::{BaseProducer, BaseRecord, Producer as _};
use rdkafka::topic_partition_list::Offset;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;
use tidegate_api::{Clock, Error, Result};

/// What may be done about a failure.
#[derive(Debug)]
pub(super) enum Trouble {
    /// Nobody knows what was committed but the mark: drop the producer, look, and go on from there.
    Again(Error),
    /// Nothing mends it here.
    Final(Error),
}

impl From<Error> for Trouble {
    fn from(error: Error) -> Self {
        Trouble::Final(error)
    }
}

/// Places between two steps of a commit, where a test lets the process die or stand still.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Point {
    TakenOver,
    Begun,
    Produced,
    Marked,
    Committed,
    Noted,
}

/// Until when something is tried.
pub(super) struct Patience {
    clock: Arc<dyn Clock>,
    until: Duration,
    each: Duration,
}

impl Patience {
    pub(super) fn new(clock: Arc<dyn Clock>, each: Duration) -> Self {
        let until = clock.monotonic().saturating_add(each);
        Patience { clock, until, each }
    }

    /// There was progress, so the time begins anew.
    pub(super) fn renew(&mut self) {
        self.until = self.clock.monotonic().saturating_add(self.each);
    }

    pub(super) fn is_over(&self) -> bool {
        self.clock.monotonic() >= self.until
    }

    /// How long one call may take: what is left, but no single call takes all of it.
    fn call(&self) -> Duration {
        self.until.saturating_sub(self.clock.monotonic()).clamp(Duration::from_millis(100), PATIENCE)
    }
}

/// Reads the mark.
pub(super) struct Marks {
    consumer: BaseConsumer<Voice>,
    voice: Voice,
    group: String,
}

impl Marks {
    pub(super) fn open(config: &KafkaSinkConfig, group: &str) -> Result<Self> {
        let voice = config.cluster.context();
        let mut client = config.cluster.config();
        client.set("group.id", group).set("enable.auto.commit", "false").set("enable.auto.offset.store", "false");
        // Only then does the broker answer by what is certain, and wait with an offset that is in an open transaction.
        client.set("isolation.level", "read_committed");
        let consumer: BaseConsumer<Voice> = client
            .create_with_context(voice.clone())
            .map_err(|error| failed(format!("no client of `{}` can be made", config.cluster.brokers()), &error))?;
        let _ = consumer.poll(Duration::ZERO);
        Ok(Marks { consumer, voice, group: group.to_string() })
    }

    /// The name of the cluster, if it says it.
    pub(super) fn cluster(&self) -> Option<String> {
        self.consumer.client().fetch_cluster_id(PATIENCE)
    }

    /// What is where the mark should be.
    pub(super) fn read(&self, topic: &str, patience: Duration) -> Result<Found, Trouble> {
        let _ = self.consumer.poll(Duration::ZERO);
        let mut place = TopicPartitionList::new();
        place.add_partition(topic, 0);
        let sorted = |error: &KafkaError| self.sorted(topic, error);
        let found = self.consumer.committed_offsets(place, patience).map_err(|error| sorted(&error))?;
        let elements = found.elements();
        let Some(element) = elements.first() else { return Ok(Found::None) };
        element.error().map_err(|error| sorted(&error))?;
        match element.offset() {
            Offset::Offset(_) => {
                // The client panics at metadata that is no text, which anybody may have written.
                let metadata = catch_unwind(AssertUnwindSafe(|| element.metadata().to_string()));
                let metadata = metadata.unwrap_or_else(|_| "(no text)".to_string());
                Ok(Mark::read(&metadata).map_or(Found::Foreign(metadata), Found::Mark))
            }
            Offset::Beginning | Offset::End | Offset::Stored | Offset::Invalid | Offset::OffsetTail(_) => Ok(Found::None),
        }
    }

    fn sorted(&self, topic: &str, error: &KafkaError) -> Trouble {
        sorted(self.voice.failed(format!("the mark of commits cannot be read (group `{}`, topic `{topic}`)", self.group), error), error)
    }
}

/// By what the error says: a refusal stays one, everything else is settled by the mark.
fn sorted(told: Error, error: &KafkaError) -> Trouble {
    match error.rdkafka_error_code() {
        Some(code) if is_refusal(code) => Trouble::Final(told),
        _ => Trouble::Again(told),
    }
}

/// A producer that owns the id.
pub(super) struct Session {
    producer: BaseProducer<Deliveries>,
    deliveries: Deliveries,
    id: String,
}

impl Session {
    /// Takes the id over. Whoever had it is fenced, and what it left open is aborted, when this returns.
    pub(super) fn begin(mut client: ClientConfig, config: &KafkaSinkConfig, id: &str, patience: &Patience) -> Result<Self, Trouble> {
        client.set("transactional.id", id).set("transaction.timeout.ms", config.transaction_timeout().as_millis().to_string());
        for (key, value) in [("queue.buffering.max.messages", "0"), ("queue.buffering.max.kbytes", "65536")] {
            if config.cluster.property(key).is_none() {
                client.set(key, value);
            }
        }
        let deliveries = Deliveries::new(config.cluster.context());
        let producer: BaseProducer<Deliveries> = client
            .create_with_context(deliveries.clone())
            .map_err(|error| failed(format!("no producer for `{}` can be made", config.cluster.brokers()), &error))?;
        let session = Session { producer, deliveries, id: id.to_string() };
        // A token for the connection is fetched while it is polled, which nothing below does.
        session.producer.poll(Duration::ZERO);
        session.repeat("cannot be taken over", patience, |producer, time| producer.init_transactions(time))?;
        Ok(session)
    }

    fn trouble(&self, what: &str, error: &KafkaError) -> Trouble {
        sorted(self.deliveries.voice().failed(format!("transactional id `{}` {what}", self.id), error), error)
    }

    /// Calls until it succeeds, as long as the client says that the same call may be repeated.
    fn repeat(
        &self,
        what: &str,
        patience: &Patience,
        mut call: impl FnMut(&BaseProducer<Deliveries>, Duration) -> std::result::Result<(), KafkaError>,
    ) -> Result<(), Trouble> {
        loop {
            let error = match call(&self.producer, patience.call()) {
                Ok(()) => return Ok(()),
                Err(error) => error,
            };
            let again = match &error {
                KafkaError::Transaction(inner) => inner.is_retriable() && !inner.is_fatal() && !inner.txn_requires_abort(),
                KafkaError::Flush(code) => *code == RDKafkaErrorCode::OperationTimedOut,
                _ => false,
            };
            if !again || patience.is_over() || self.deliveries.failed().is_some() {
                return Err(self.undelivered().unwrap_or_else(|| self.trouble(what, &error)));
            }
            self.producer.poll(Duration::from_millis(20));
        }
    }

    /// The topic of the first record that was not delivered.
    pub(super) fn suspect(&self) -> Option<String> {
        self.deliveries.failed().map(|undelivered| undelivered.topic)
    }

    /// The trouble of a record that was not delivered.
    fn undelivered(&self) -> Option<Trouble> {
        let undelivered: Undelivered = self.deliveries.failed()?;
        let error = undelivered.error();
        Some(match undelivered.error.rdkafka_error_code() {
            Some(code) if is_refusal(code) => Trouble::Final(error),
            Some(RDKafkaErrorCode::MessageSizeTooLarge | RDKafkaErrorCode::InvalidRecord | RDKafkaErrorCode::InvalidTimestamp) => {
                Trouble::Final(error)
            }
            _ => Trouble::Again(error),
        })
    }

    /// Produces whole segments and writes the mark, in one transaction. Either all of it is visible when this returns, or an error comes.
    pub(super) fn transact(
        &self,
        segments: &[Vec<u8>],
        (marks, topic): (&Marks, &str),
        mark: &Mark,
        patience: &Patience,
        pass: &dyn Fn(Point),
    ) -> Result<(), Trouble> {
        self.deliveries.forget();
        self.producer.poll(Duration::ZERO);
        self.producer.begin_transaction().map_err(|error| self.trouble("cannot begin a transaction", &error))?;
        pass(Point::Begun);
        for segment in segments {
            let sent = records(segment, &mut |record| self.send(record, patience));
            sent.map_err(|_| Error::internal("a segment that was checked cannot be read"))??;
        }
        self.repeat("cannot deliver its records", patience, |producer, time| producer.flush(time))?;
        // The client would commit without a record that it gave up before the transaction noticed.
        if let Some(trouble) = self.undelivered() {
            return Err(trouble);
        }
        pass(Point::Produced);
        let mut offsets = TopicPartitionList::new();
        let epoch = i64::try_from(mark.progress.epoch.unwrap_or(0)).unwrap_or(i64::MAX);
        let mut element = offsets.add_partition(topic, 0);
        element.set_offset(Offset::Offset(epoch)).map_err(|error| self.trouble("cannot be marked", &error))?;
        element.set_metadata(mark.write());
        let group = marks.consumer.group_metadata().ok_or_else(|| Error::internal("a consumer of a group has no group"))?;
        self.repeat("cannot mark its commit", patience, |producer, time| producer.send_offsets_to_transaction(&offsets, &group, time))?;
        pass(Point::Marked);
        self.repeat("cannot commit", patience, |producer, time| producer.commit_transaction(time))?;
        pass(Point::Committed);
        Ok(())
    }

    fn send(&self, record: &Record<'_>, patience: &Patience) -> Result<(), Trouble> {
        let mut next = BaseRecord::<[u8], [u8], usize>::with_opaque_to(record.topic, 0);
        (next.partition, next.key, next.payload, next.headers) = (record.partition, record.key, record.value, headers(record));
        loop {
            match self.producer.send(next) {
                Ok(()) => return Ok(()),
                Err((KafkaError::MessageProduction(RDKafkaErrorCode::QueueFull), unsent)) if !patience.is_over() => {
                    self.producer.poll(Duration::from_millis(20));
                    if let Some(trouble) = self.undelivered() {
                        return Err(trouble);
                    }
                    next = unsent;
                }
                Err((error, _)) => {
                    let undelivered = Undelivered { topic: record.topic.to_string(), partition: record.partition.unwrap_or(-1), error };
                    return Err(match undelivered.error.rdkafka_error_code() {
                        Some(RDKafkaErrorCode::MessageSizeTooLarge) => Trouble::Final(undelivered.error()),
                        Some(code) if is_refusal(code) => Trouble::Final(undelivered.error()),
                        _ => self.undelivered().unwrap_or_else(|| Trouble::Again(undelivered.error())),
                    });
                }
            }
        }
    }

    /// Ends an open transaction, so that readers need not wait until the brokers give it up.
    pub(super) fn give_up(self) {
        if let Err(error) = self.producer.abort_transaction(Duration::from_secs(5)) {
            tracing::debug!(%error, id = self.id, "a transaction is left to the brokers to abort");
        }
    }
}

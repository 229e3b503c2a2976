//! The writer that delivers at once: at least once, through an idempotent producer.

use super::super::client::failed;
use super::config::KafkaSinkConfig;
use super::deliveries::{Deliveries, Undelivered};
use super::record::{Record, Serializer};
use super::topics::Topics;
use arrow::array::{BinaryArray, RecordBatch};
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::message::{Header, OwnedHeaders};
use rdkafka::producer::{BaseRecord, ThreadedProducer};
use std::sync::Arc;
use std::time::Duration;
use tidegate_api::{Clock, Counter, Epoch, Error, Flushed, Result, Sink, SinkCtx, Written};

/// Bytes under way past which nothing more is taken.
const MOST: usize = 32 << 20;
/// How long a full producer is waited for within a call, and when to call again.
const PAUSE: Duration = Duration::from_millis(500);
/// How long a record may take to be acknowledged unless the options say.
const DELIVERY: Duration = Duration::from_secs(120);

/// See the module's documentation.
pub(super) struct LiveWriter {
    serializer: Serializer,
    producer: ThreadedProducer<Deliveries>,
    deliveries: Deliveries,
    emitted: Counter,
    bytes: Counter,
    clock: Arc<dyn Clock>,
    patience: Duration,
}

impl LiveWriter {
    pub(super) fn open(config: &KafkaSinkConfig, topics: Arc<Topics>, id: Option<u32>, ctx: SinkCtx) -> Result<Self> {
        let mut client = topics.producer()?;
        let patience = config.delivery_timeout().unwrap_or(DELIVERY);
        client.set("message.timeout.ms", patience.as_millis().to_string());
        // What is under way is bounded in bytes, here; the client's own bounds are only for what nobody foresaw.
        for (key, value) in [("queue.buffering.max.messages", "0"), ("queue.buffering.max.kbytes", "2097151")] {
            if config.cluster.property(key).is_none() {
                client.set(key, value);
            }
        }
        let deliveries = Deliveries::new(config.cluster.context()).with_acker(ctx.acker.clone());
        let producer = client
            .create_with_context(deliveries.clone())
            .map_err(|error| failed(format!("no producer for `{}` can be made", config.cluster.brokers()), &error))?;
        let serializer = Serializer::new(config, &ctx.schema, &ctx.mode, topics, id)?;
        Ok(LiveWriter { serializer, producer, deliveries, emitted: ctx.emitted, bytes: ctx.meters.bytes, clock: ctx.clock, patience })
    }

    /// The first record that was not delivered is why every later call fails.
    fn check(&self) -> Result<()> {
        match self.deliveries.failed() {
            None => Ok(()),
            Some(undelivered) => Err(explained(&self.deliveries, &undelivered)),
        }
    }
}

/// With what the client had to say about its brokers, if the record just ran out of time.
fn explained(deliveries: &Deliveries, undelivered: &Undelivered) -> Error {
    let error = undelivered.error();
    match (undelivered.error.rdkafka_error_code(), deliveries.voice().last()) {
        (Some(RDKafkaErrorCode::MessageTimedOut), Some(last)) => {
            Error::new(error.kind(), format!("{}; the client says: {last}", error.message()))
        }
        _ => error,
    }
}

/// Headers as the client wants them.
pub(super) fn headers(record: &Record<'_>) -> Option<OwnedHeaders> {
    if record.headers.is_empty() {
        return None;
    }
    let empty = OwnedHeaders::new_with_capacity(record.headers.len());
    Some(record.headers.iter().fold(empty, |headers, (key, value)| headers.insert(Header { key, value: *value })))
}

impl Sink for LiveWriter {
    fn write(&mut self, rows: &RecordBatch, _: Option<&BinaryArray>) -> Result<Written> {
        self.check()?;
        if self.deliveries.bytes() >= MOST {
            self.producer.poll(PAUSE);
            self.check()?;
            if self.deliveries.bytes() >= MOST {
                return Err(Error::retryable("the brokers acknowledge records more slowly than they come", PAUSE));
            }
        }
        let (producer, deliveries, clock, patience) = (&self.producer, &self.deliveries, &self.clock, self.patience);
        let mut sent = 0;
        let bad = self.serializer.write(rows, &mut |record| {
            sent += record.bytes() as u64;
            send(producer, deliveries, clock.as_ref(), patience, record)
        })?;
        self.emitted.add((rows.num_rows() - bad.len()) as u64);
        self.bytes.add(sent);
        self.check()?;
        Ok(Written { bad })
    }

    fn flush(&mut self, epoch: Epoch) -> Result<Flushed> {
        self.check()?;
        if self.deliveries.barrier(epoch) {
            return Ok(Flushed::Done);
        }
        // A record may have failed before the barrier was noted, and then nobody would answer for it.
        self.check()?;
        Ok(Flushed::Later)
    }
}

/// Hands one record to the client; waits while it has no room, no longer than a record may take.
fn send(
    producer: &ThreadedProducer<Deliveries>,
    deliveries: &Deliveries,
    clock: &dyn Clock,
    patience: Duration,
    record: &Record<'_>,
) -> Result<()> {
    let round = deliveries.sending(1, record.bytes());
    let begun = clock.monotonic();
    let mut next = BaseRecord::<[u8], [u8], usize>::with_opaque_to(record.topic, round);
    (next.partition, next.key, next.payload, next.headers) = (record.partition, record.key, record.value, headers(record));
    loop {
        let error = match producer.send(next) {
            Ok(()) => return Ok(()),
            Err((error @ KafkaError::MessageProduction(RDKafkaErrorCode::QueueFull), unsent)) => {
                if clock.monotonic().saturating_sub(begun) < patience {
                    producer.poll(Duration::from_millis(50));
                    next = unsent;
                    continue;
                }
                error
            }
            Err((error, _)) => error,
        };
        let undelivered = Undelivered { topic: record.topic.to_string(), partition: record.partition.unwrap_or(-1), error };
        let told = explained(deliveries, &undelivered);
        deliveries.not_sent(round, record.bytes(), undelivered);
        return Err(told);
    }
}

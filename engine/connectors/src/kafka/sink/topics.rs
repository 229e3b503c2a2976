//! What the cluster says of its topics and of itself: asked once, remembered for a while, so that a row is judged before its barrier
//! and not when it is too late to refuse it.

use super::super::client::{PATIENCE, Voice};
use super::config::KafkaSinkConfig;
use super::deliveries::Deliveries;
use foldhash::fast::FixedState;
use rdkafka::admin::{AdminClient, AdminOptions, ConfigResource, ResourceSpecifier};
use rdkafka::config::ClientConfig;
use rdkafka::error::{KafkaError, KafkaResult, RDKafkaErrorCode};
use rdkafka::metadata::{Metadata, MetadataTopic};
use rdkafka::producer::{BaseProducer, Producer as _};
use std::collections::HashMap;
use std::pin::pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Wake};
use std::thread::Thread;
use std::time::Duration;
use tidegate_api::{Clock, Error, ErrorKind, Result};

/// How long an answer about a topic is believed: partitions are added and limits raised rarely.
const BELIEVED: Duration = Duration::from_secs(300);
/// How long a refusal is: a topic may be made any moment.
const REFUSED: Duration = Duration::from_secs(10);
/// The most topics that are remembered; past it all are asked for again.
const MOST_TOPICS: usize = 10_000;
/// What a topic takes where nobody may ask: the default of the brokers.
const LARGEST: usize = 1_048_588;
/// The largest batch that the client makes unless told otherwise.
const BATCH: usize = 1_000_000;
/// What a batch of one record has beside key, value and headers, at most.
pub(super) const OVERHEAD: usize = 61 + 36;
/// How often a topic that the cluster makes by itself is asked for, and the pause in between.
const MAKING: (usize, Duration) = (25, Duration::from_millis(200));

/// What a topic takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct TopicFacts {
    pub(super) partitions: i32,
    /// Bytes of a batch.
    pub(super) largest: usize,
}

/// Whether a topic can be written to, or why not.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Standing {
    Open(TopicFacts),
    Closed(String),
}

/// What the brokers allow; without the right to ask, what they do by default.
#[derive(Debug, Clone, Copy)]
struct BrokerFacts {
    largest: usize,
    transaction_timeout: Option<Duration>,
    retention: Option<Duration>,
    makes_topics: bool,
}

#[derive(Default)]
struct Known {
    broker: Option<BrokerFacts>,
    topics: HashMap<String, (Duration, Standing), FixedState>,
}

/// The cluster of one sink, shared by its tasks.
pub(super) struct Topics {
    config: KafkaSinkConfig,
    clock: Arc<dyn Clock>,
    known: Mutex<Known>,
}

impl Topics {
    pub(super) fn new(config: KafkaSinkConfig, clock: Arc<dyn Clock>) -> Self {
        Topics { config, clock, known: Mutex::default() }
    }

    /// Checks what does not depend on rows.
    ///
    /// # Errors
    /// `Config` for a fixed topic that cannot be written to and for a timeout that the brokers do not allow; `External` if nobody answers.
    pub(super) fn preflight(&self) -> Result<()> {
        let fixed = self.fixed()?;
        let facts = self.broker()?;
        let asked = self.config.transaction_timeout();
        if let Some(most) = facts.transaction_timeout
            && asked > most
        {
            return Err(Error::config(format!(
                "`properties`: `transaction.timeout.ms` is {} and the brokers of `{}` allow at most {} (`transaction.max.timeout.ms`); lower the one or raise the other",
                asked.as_millis(),
                self.config.cluster.brokers(),
                most.as_millis()
            )));
        }
        match fixed {
            Some((topic, Standing::Closed(why))) => {
                Err(Error::config(format!("`topic`: `{topic}` of `{}` {why}", self.config.cluster.brokers())))
            }
            Some((_, Standing::Open(_))) | None => Ok(()),
        }
    }

    /// How long the brokers remember an offset of a group without members, if they say.
    pub(super) fn retention(&self) -> Result<Option<Duration>> {
        Ok(self.broker()?.retention)
    }

    /// A configuration for a producer whose batches every topic takes that [`Topics::standings`] calls open.
    pub(super) fn producer(&self) -> Result<ClientConfig> {
        let (largest, batch) = self.sizes()?;
        let mut config = self.config.cluster.config();
        config.set("enable.idempotence", "true").set("acks", "all");
        config.set("message.max.bytes", largest.to_string()).set("batch.size", batch.to_string());
        if self.config.cluster.property("partitioner").is_none() {
            config.set("partitioner", "murmur2_random");
        }
        Ok(config)
    }

    /// The largest record and the largest batch of this sink's producers.
    fn sizes(&self) -> Result<(usize, usize)> {
        // First the topic, whose asking tells of the brokers too.
        let fixed = match self.fixed()? {
            Some((_, Standing::Open(facts))) => Some(facts.largest),
            Some((_, Standing::Closed(_))) | None => None,
        };
        let broker = self.broker()?.largest;
        // Any topic may be named by a row; what it takes is checked by row, so the client only has to let it pass.
        let largest = if self.config.topic_column.is_some() { 1_000_000_000 } else { fixed.unwrap_or(broker) };
        let largest = self.config.number("message.max.bytes").unwrap_or(largest).clamp(1000, 1_000_000_000);
        let batch = self.config.number("batch.size").unwrap_or(BATCH);
        Ok((largest, batch.min(fixed.unwrap_or(broker)).min(largest).max(1)))
    }

    /// Lets every topic be asked for anew.
    pub(super) fn forget(&self) {
        self.known.lock().unwrap_or_else(PoisonError::into_inner).topics.clear();
    }

    fn fixed(&self) -> Result<Option<(&str, Standing)>> {
        let Some(topic) = self.config.topic.as_deref() else { return Ok(None) };
        Ok(self.standings(&[(topic, None)])?.pop().map(|standing| (topic, standing)))
    }

    fn broker(&self) -> Result<BrokerFacts> {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        self.broker_in(&mut known, None)
    }

    fn broker_in(&self, known: &mut Known, asker: Option<&Asker>) -> Result<BrokerFacts> {
        if let Some(facts) = known.broker {
            return Ok(facts);
        }
        let facts = match asker {
            Some(asker) => asker.broker(self.config.topic.as_deref())?,
            None => Asker::new(&self.config)?.broker(self.config.topic.as_deref())?,
        };
        known.broker = Some(facts);
        Ok(facts)
    }

    /// How each of these topics stands. A greatest partition that the topic did not have when it was last asked for makes it be asked for again.
    ///
    /// # Errors
    /// `External` if the cluster does not answer.
    pub(super) fn standings(&self, wanted: &[(&str, Option<i64>)]) -> Result<Vec<Standing>> {
        let now = self.clock.monotonic();
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let is_fresh = |known: &Known, topic: &str, partition: Option<i64>| match known.topics.get(topic) {
            None => false,
            Some((at, Standing::Closed(_))) => now.saturating_sub(*at) < REFUSED,
            Some((at, Standing::Open(facts))) => {
                let lacks = partition.is_some_and(|partition| partition >= i64::from(facts.partitions));
                now.saturating_sub(*at) < if lacks { REFUSED } else { BELIEVED }
            }
        };
        let stale: Vec<&str> =
            wanted.iter().filter(|(topic, partition)| !is_fresh(&known, topic, *partition)).map(|(topic, _)| *topic).collect();
        if !stale.is_empty() {
            let asker = Asker::new(&self.config)?;
            let broker = self.broker_in(&mut known, Some(&asker))?;
            if known.topics.len() + stale.len() > MOST_TOPICS {
                known.topics.clear();
            }
            let found = asker.topics(&stale, broker)?;
            for (topic, standing) in stale.iter().zip(found) {
                known.topics.insert((*topic).to_string(), (now, self.fits(topic, standing, broker)));
            }
        }
        let told = |(topic, _): &(&str, Option<i64>)| match known.topics.get(*topic) {
            Some((_, standing)) => standing.clone(),
            None => Standing::Closed("was not asked for".to_string()),
        };
        Ok(wanted.iter().map(told).collect())
    }

    /// A topic that takes less than a batch of this sink's producers would refuse good rows, so it is refused itself.
    fn fits(&self, topic: &str, standing: Standing, broker: BrokerFacts) -> Standing {
        let Standing::Open(mut facts) = standing else { return standing };
        if let Some(most) = self.config.number("message.max.bytes") {
            facts.largest = facts.largest.min(most.saturating_add(OVERHEAD));
        }
        let batch = self.config.number("batch.size").unwrap_or(BATCH).min(broker.largest);
        if self.config.topic.as_deref() != Some(topic) && facts.largest < batch {
            return Standing::Closed(format!(
                "takes batches of {} bytes (`max.message.bytes`) and this sink makes them of {batch}; set `\"batch.size\"` in `properties` to less",
                facts.largest
            ));
        }
        Standing::Open(facts)
    }
}

/// Clients that ask. They live for a few questions only, since nobody would hear what they have to say in between.
struct Asker {
    producer: BaseProducer<Deliveries>,
    /// `None` where connections want tokens, which the client that can describe configurations never fetches.
    admin: Option<AdminClient<Voice>>,
    brokers: String,
}

impl Asker {
    fn new(config: &KafkaSinkConfig) -> Result<Self> {
        let (cluster, voice) = (&config.cluster, config.cluster.context());
        let failed = |error: &KafkaError| voice.failed(format!("no client of `{}` can be made", cluster.brokers()), error);
        let producer: BaseProducer<Deliveries> =
            cluster.config().create_with_context(Deliveries::new(voice.clone())).map_err(|error| failed(&error))?;
        let wants_token = ["sasl.mechanism", "sasl.mechanisms"].iter().any(|key| cluster.property(key) == Some("OAUTHBEARER"));
        let admin = if wants_token {
            producer.poll(Duration::from_millis(100));
            None
        } else {
            Some(cluster.config().create_with_context(voice.clone()).map_err(|error| failed(&error))?)
        };
        Ok(Asker { producer, admin, brokers: cluster.brokers().to_string() })
    }

    fn metadata(&self, topic: Option<&str>) -> Result<Metadata> {
        self.producer.client().fetch_metadata(topic, PATIENCE).map_err(|error| {
            // What went wrong is told beside the answer.
            self.producer.poll(Duration::from_millis(50));
            self.producer.context().voice().failed(format!("the cluster at `{}` does not answer", self.brokers), &error)
        })
    }

    /// The configurations of these, `None` for one that may not be asked for.
    fn describe(&self, what: &[ResourceSpecifier<'_>]) -> Vec<Option<ConfigResource>> {
        let Some(admin) = &self.admin else { return what.iter().map(|_| None).collect() };
        let answer: KafkaResult<Vec<_>> = wait(admin.describe_configs(what, &AdminOptions::new().request_timeout(Some(PATIENCE))));
        match answer {
            Ok(found) if found.len() == what.len() => found.into_iter().map(std::result::Result::ok).collect(),
            Ok(_) => what.iter().map(|_| None).collect(),
            Err(error) => {
                tracing::warn!(%error, "the cluster does not tell its configuration; its defaults are assumed");
                what.iter().map(|_| None).collect()
            }
        }
    }

    /// Metadata of one topic name the brokers as well as those of all do, and are shorter.
    fn broker(&self, topic: Option<&str>) -> Result<BrokerFacts> {
        let metadata = self.metadata(topic)?;
        let id = metadata.brokers().first().map(rdkafka::metadata::MetadataBroker::id);
        let found = id.and_then(|id| self.describe(&[ResourceSpecifier::Broker(id)]).pop().flatten());
        let number = |name: &str| entry(found.as_ref(), name)?.parse::<u64>().ok();
        Ok(BrokerFacts {
            largest: number("message.max.bytes").map_or(LARGEST, |bytes| usize::try_from(bytes).unwrap_or(usize::MAX)),
            transaction_timeout: number("transaction.max.timeout.ms").map(Duration::from_millis),
            retention: number("offsets.retention.minutes").map(|minutes| Duration::from_secs(minutes.saturating_mul(60))),
            makes_topics: entry(found.as_ref(), "auto.create.topics.enable").is_none_or(|value| value == "true"),
        })
    }

    fn topics(&self, names: &[&str], broker: BrokerFacts) -> Result<Vec<Standing>> {
        let mut standings = names.iter().map(|name| self.topic(name, broker)).collect::<Result<Vec<_>>>()?;
        let open: Vec<usize> = (0..names.len()).filter(|index| matches!(standings[*index], Standing::Open(_))).collect();
        let asked: Vec<_> = open.iter().map(|index| ResourceSpecifier::Topic(names[*index])).collect();
        if asked.is_empty() {
            return Ok(standings);
        }
        for (index, described) in open.iter().zip(self.describe(&asked)) {
            if let (Standing::Open(facts), Some(largest)) =
                (&mut standings[*index], entry(described.as_ref(), "max.message.bytes").and_then(|bytes| bytes.parse().ok()))
            {
                facts.largest = largest;
            }
        }
        Ok(standings)
    }

    fn topic(&self, name: &str, broker: BrokerFacts) -> Result<Standing> {
        let mut tries = 0;
        loop {
            let metadata = self.metadata(Some(name))?;
            let found = metadata.topics().iter().find(|topic| topic.name() == name);
            match judge(found, broker.largest) {
                Some(standing) => return Ok(standing),
                // Asking for it may be what makes the cluster make it.
                None if broker.makes_topics && tries < MAKING.0 => pause(MAKING.1),
                None => return Ok(Standing::Closed("does not exist; make it, or mend its name".to_string())),
            }
            tries += 1;
        }
    }
}

/// How a topic stands by its metadata; `None` if it does not exist (yet).
fn judge(found: Option<&MetadataTopic>, largest: usize) -> Option<Standing> {
    use RDKafkaErrorCode as Code;
    let found = found?;
    let partitions = i32::try_from(found.partitions().len()).unwrap_or(i32::MAX);
    match found.error().map(Code::from) {
        None | Some(Code::NoError) if partitions > 0 => Some(Standing::Open(TopicFacts { partitions, largest })),
        None | Some(Code::NoError | Code::UnknownTopicOrPartition | Code::UnknownTopic | Code::LeaderNotAvailable) => None,
        Some(Code::TopicAuthorizationFailed) => {
            Some(Standing::Closed("may not be seen or written to by this user (`TopicAuthorizationFailed`)".to_string()))
        }
        Some(Code::InvalidTopic) => Some(Standing::Closed("is no name that the brokers take".to_string())),
        Some(other) => Some(Standing::Closed(format!("cannot be written to: {other}"))),
    }
}

fn entry<'r>(found: Option<&'r ConfigResource>, name: &str) -> Option<&'r str> {
    found?.get(name)?.value.as_deref()
}

/// An error of a question, while nothing of a batch has been taken: the batch may come again.
pub(super) fn again(error: Error) -> Error {
    match error.kind() {
        ErrorKind::External { .. } => Error::retryable(error.message().to_string(), Duration::from_secs(1)),
        ErrorKind::Config | ErrorKind::Data | ErrorKind::Fenced | ErrorKind::Limit | ErrorKind::Internal => error,
    }
}

/// Gives the cluster time. May end early.
pub(super) fn pause(time: Duration) {
    std::thread::park_timeout(time);
}

/// The result of a future of the client, whose own thread completes it, at the latest at the time limit of the request.
fn wait<F: Future>(future: F) -> F::Output {
    struct Unpark(Thread);
    impl Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }
    let waker = Arc::new(Unpark(std::thread::current())).into();
    let mut context = Context::from_waker(&waker);
    let mut future = pin!(future);
    loop {
        match future.as_mut().poll(&mut context) {
            Poll::Ready(result) => return result,
            Poll::Pending => std::thread::park_timeout(Duration::from_secs(1)),
        }
    }
}

#[cfg(test)]
impl Topics {
    /// Topics that stand like this, and a cluster that nobody asks.
    pub(super) fn told(config: KafkaSinkConfig, topics: &[(&str, Standing)]) -> Self {
        let made = Topics::new(config, Arc::new(tidegate_api::testkit::ManualClock::default()));
        let broker = BrokerFacts { largest: LARGEST, transaction_timeout: None, retention: None, makes_topics: false };
        let topics = topics.iter().map(|(name, standing)| ((*name).to_string(), (Duration::ZERO, standing.clone()))).collect();
        *made.known.lock().unwrap_or_else(PoisonError::into_inner) = Known { broker: Some(broker), topics };
        made
    }
}

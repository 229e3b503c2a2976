//! What a cluster has: topics, their partitions, and where in them reading begins and ends.

use super::client::PATIENCE;
use super::listener::{Listener, consumer_config};
use super::place::Partition;
use super::source_config::{SourceConfig, Start, Topics};
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::error::{KafkaError, KafkaResult, RDKafkaErrorCode};
use rdkafka::topic_partition_list::{Offset, TopicPartitionList};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;
use tidegate_api::nearest::hint;
use tidegate_api::{Error, Result};

/// How long one try of a question takes. Between tries the client is listened to, since what it says may make further tries useless.
const TRY: Duration = Duration::from_secs(2);
/// How long to listen before the next try.
const PAUSE: Duration = Duration::from_millis(200);
const TRIES: u32 = (PATIENCE.as_secs() / TRY.as_secs()) as u32;

/// A topic that exists.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Found {
    /// Its identity, if the cluster gives topics one.
    pub(super) id: Option<String>,
    /// How many partitions it has; they are numbered from 0.
    pub(super) partitions: i32,
}

/// The offsets of a partition: the first there is, and the one that comes next. Rows of open transactions lie beyond it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Range {
    pub(super) low: i64,
    pub(super) high: i64,
}

/// Asks a cluster; reads no rows.
pub(super) struct Explorer {
    consumer: BaseConsumer<Listener>,
    brokers: String,
}

impl Explorer {
    /// A client that is not yet connected.
    ///
    /// # Errors
    /// `Config` for properties that do not fit each other.
    pub(super) fn new(config: &SourceConfig) -> Result<Self> {
        // A client with a group asks for the group's coordinator as well, which one that may not see it needs not do.
        Explorer::of(config, (config.start == Start::Group).then_some(config.group.as_str()))
    }

    /// A client that only looks whether brokers answer. Not the one that fetches: a broker answers in order, and fetches wait for rows.
    ///
    /// # Errors
    /// As [`Explorer::new`].
    pub(super) fn prober(config: &SourceConfig) -> Result<Self> {
        Explorer::of(config, None)
    }

    fn of(config: &SourceConfig, group: Option<&str>) -> Result<Self> {
        let listener = Listener::new(&config.cluster);
        let made = consumer_config(&config.cluster, group).create_with_context(listener);
        let consumer = made.map_err(|error| super::client::failed("making a Kafka client", &error))?;
        Ok(Explorer { consumer, brokers: config.cluster.brokers().to_string() })
    }

    fn listener(&self) -> &Listener {
        self.consumer.context()
    }

    /// Hears what the client has said since.
    fn listen(&self) {
        loop {
            let before = self.listener().heard();
            if self.consumer.poll(Duration::ZERO).is_none() && self.listener().heard() == before {
                return;
            }
        }
    }

    /// Asks until there is an answer, or none can be expected any more.
    fn ask<T>(&self, what: &str, question: impl Fn(Duration) -> KafkaResult<T>) -> Result<T> {
        let mut tries = 0;
        loop {
            let error = match question(TRY) {
                Ok(answer) => {
                    self.listen();
                    return Ok(answer);
                }
                Err(error) => error,
            };
            self.listen();
            tries += 1;
            if tries >= TRIES || !is_passing(&error) || self.listener().refusal().is_some() {
                return Err(self.listener().failed(format!("{what} at `{}`", self.brokers), &error));
            }
            let _ = self.consumer.poll(PAUSE);
        }
    }

    /// The topics to read.
    ///
    /// # Errors
    /// `External` if one does not exist, or none matches.
    pub(super) fn topics(&self, topics: &Topics) -> Result<BTreeMap<String, Found>> {
        let names = match topics {
            Topics::Named(names) => names.clone(),
            Topics::Matching { text, pattern } => {
                let mut all = self.all_topics()?;
                all.retain(|name| !name.starts_with("__") && pattern.is_match(name));
                if all.is_empty() {
                    return Err(Error::external(format!("no topic at `{}` matches `{text}`", self.brokers)));
                }
                all
            }
        };
        names.into_iter().map(|name| self.topic(&name).map(|found| (name, found))).collect()
    }

    fn all_topics(&self) -> Result<Vec<String>> {
        let metadata = self.ask("listing the topics", |wait| self.consumer.fetch_metadata(None, wait))?;
        Ok(metadata.topics().iter().map(|topic| topic.name().to_string()).collect())
    }

    fn topic(&self, name: &str) -> Result<Found> {
        let what = format!("asking for topic `{name}`");
        let partitions = self.ask(&what, |wait| {
            let metadata = self.consumer.fetch_metadata(Some(name), wait)?;
            let topic = metadata.topics().iter().find(|topic| topic.name() == name);
            let topic = topic.ok_or(KafkaError::MetadataFetch(RDKafkaErrorCode::UnknownTopicOrPartition))?;
            match topic.error() {
                Some(code) => match RDKafkaErrorCode::from(code) {
                    // An answer, not a failure; explained below.
                    RDKafkaErrorCode::UnknownTopicOrPartition | RDKafkaErrorCode::UnknownTopic => Ok(None),
                    code => Err(KafkaError::MetadataFetch(code)),
                },
                None if topic.partitions().is_empty() => Err(KafkaError::MetadataFetch(RDKafkaErrorCode::LeaderNotAvailable)),
                None => Ok(Some(topic.partitions().len())),
            }
        })?;
        let Some(partitions) = partitions else { return Err(self.unknown(name)) };
        let partitions = i32::try_from(partitions).map_err(|_| Error::internal(format!("topic `{name}` has too many partitions")))?;
        Ok(Found { id: self.listener().topic_id(name), partitions })
    }

    fn unknown(&self, name: &str) -> Error {
        let all = self.all_topics().unwrap_or_default();
        let hint = hint(name, all.iter().map(String::as_str));
        Error::external(format!("topic `{name}` does not exist at `{}`{hint}", self.brokers))
    }

    /// The end of a partition, if its broker answers soon.
    pub(super) fn probe(&self, partition: &Partition, wait: Duration) -> Option<i64> {
        // What the client knows of the leader may be older than the last failure, and it asks with it again and again: a broker that was
        // away leads with another epoch and refuses the old one.
        let answer =
            self.consumer.fetch_metadata(Some(&partition.topic), wait).and_then(|_| edges(&self.consumer, [partition], Offset::End, wait));
        self.listen();
        answer.ok()?.into_values().next()
    }

    /// The ends of partitions, if all their brokers answer soon; asked once.
    pub(super) fn ends(&self, partitions: &[Partition]) -> BTreeMap<Partition, i64> {
        if partitions.is_empty() {
            return BTreeMap::new();
        }
        let answer = edges(&self.consumer, partitions, Offset::End, TRY);
        self.listen();
        answer.unwrap_or_default()
    }

    /// What partitions have now.
    pub(super) fn ranges(&self, partitions: &[Partition]) -> Result<BTreeMap<Partition, Range>> {
        if partitions.is_empty() {
            return Ok(BTreeMap::new());
        }
        let what = format!("asking for the offsets of {}", shown(partitions));
        let edges = |which, wait| {
            edges(&self.consumer, partitions, which, wait).inspect_err(|_| {
                // The next try may need newer knowledge of the leaders than this one had.
                let topics: BTreeSet<&str> = partitions.iter().map(|partition| partition.topic.as_str()).collect();
                topics.into_iter().for_each(|topic| drop(self.consumer.fetch_metadata(Some(topic), wait)));
            })
        };
        let lows = self.ask(&what, |wait| edges(Offset::Beginning, wait))?;
        // Asked later, so that no end lies before its beginning.
        let highs = self.ask(&what, |wait| edges(Offset::End, wait))?;
        let ranges = lows.into_iter().zip(highs).map(|((partition, low), (_, high))| (partition, Range { low, high: high.max(low) }));
        Ok(ranges.collect())
    }

    /// Where reading of each partition begins.
    ///
    /// # Errors
    /// `Config` for an offset that is not there, or is not given.
    pub(super) fn begin(&self, config: &SourceConfig, ranges: &BTreeMap<Partition, Range>) -> Result<BTreeMap<Partition, i64>> {
        match &config.start {
            Start::Earliest => Ok(ranges.iter().map(|(partition, range)| (partition.clone(), range.low)).collect()),
            Start::Latest => Ok(ranges.iter().map(|(partition, range)| (partition.clone(), range.high)).collect()),
            Start::Timestamp(millis) => self.at_time(*millis, ranges),
            Start::Offsets(given) => at_offsets(given, ranges),
            Start::Group => self.committed(&config.group, ranges),
        }
    }

    fn at_time(&self, millis: i64, ranges: &BTreeMap<Partition, Range>) -> Result<BTreeMap<Partition, i64>> {
        let asked = list(ranges.keys(), |_| Offset::Offset(millis))?;
        let found = self.ask("looking for offsets by time", |wait| self.consumer.offsets_for_times(asked.clone(), wait))?;
        let mut begins = BTreeMap::new();
        for (partition, range) in ranges {
            let element = found.find_partition(&partition.topic, partition.number);
            let element = element.ok_or_else(|| Error::internal(format!("no offset was found for partition `{partition}`")))?;
            element.error().map_err(|error| self.listener().failed(format!("looking in partition `{partition}` by time"), &error))?;
            let begin = match element.offset() {
                // A partition that was left out of the answer stands there as it was asked.
                Offset::Offset(offset) if offset == millis => {
                    return Err(Error::external(format!("the cluster said nothing of partition `{partition}`")));
                }
                Offset::Offset(offset) => offset.max(range.low),
                // Nothing is that new.
                Offset::End | Offset::Invalid | Offset::Beginning | Offset::Stored | Offset::OffsetTail(_) => range.high,
            };
            begins.insert(partition.clone(), begin);
        }
        Ok(begins)
    }

    fn committed(&self, group: &str, ranges: &BTreeMap<Partition, Range>) -> Result<BTreeMap<Partition, i64>> {
        let asked = list(ranges.keys(), |_| Offset::Invalid)?;
        let what = format!("asking for the offsets of group `{group}`");
        let found = self.ask(&what, |wait| self.consumer.committed_offsets(asked.clone(), wait))?;
        let mut begins = BTreeMap::new();
        for (partition, range) in ranges {
            let element = found.find_partition(&partition.topic, partition.number);
            let element = element.ok_or_else(|| Error::internal(format!("no offset was found for partition `{partition}`")))?;
            element
                .error()
                .map_err(|error| self.listener().failed(format!("asking for the offset of group `{group}` in `{partition}`"), &error))?;
            let begin = match element.offset() {
                Offset::Offset(offset) => within(partition, offset, *range, &format!("what group `{group}` committed"))?,
                Offset::Invalid | Offset::End | Offset::Beginning | Offset::Stored | Offset::OffsetTail(_) => {
                    tracing::info!(group, %partition, from = range.low, "the group has committed nothing here; read from the beginning");
                    range.low
                }
            };
            begins.insert(partition.clone(), begin);
        }
        Ok(begins)
    }
}

/// The first offsets of partitions, or those behind their last committed rows.
///
/// The client's own question for both at once takes one refused answer for an empty partition, and so would begin at the end; this one
/// fails as a whole.
pub(super) fn edges<'a>(
    consumer: &BaseConsumer<Listener>,
    partitions: impl IntoIterator<Item = &'a Partition> + Clone,
    which: Offset,
    wait: Duration,
) -> KafkaResult<BTreeMap<Partition, i64>> {
    let mut asked = TopicPartitionList::new();
    for partition in partitions.clone() {
        asked.add_partition_offset(&partition.topic, partition.number, which)?;
    }
    let found = consumer.offsets_for_times(asked, wait)?;
    let silent = || KafkaError::OffsetFetch(RDKafkaErrorCode::BadMessage);
    let mut edges = BTreeMap::new();
    for partition in partitions {
        let element = found.find_partition(&partition.topic, partition.number).ok_or_else(silent)?;
        element.error()?;
        let Offset::Offset(offset) = element.offset() else { return Err(silent()) };
        edges.insert(partition.clone(), offset);
    }
    Ok(edges)
}

/// Partitions in a message.
fn shown(partitions: &[Partition]) -> String {
    match partitions {
        [first, _, _, ..] => format!("partition `{first}` and {} others", partitions.len() - 1),
        few => format!("partition {}", few.iter().map(|partition| format!("`{partition}`")).collect::<Vec<_>>().join(" and ")),
    }
}

/// Whether a failed question is worth asking again.
fn is_passing(error: &KafkaError) -> bool {
    use RDKafkaErrorCode as Code;
    let code = error.rdkafka_error_code();
    code.is_some_and(super::client::is_silence)
        || matches!(
            code,
            Some(
                Code::BadMessage
                    | Code::LeaderNotAvailable
                    | Code::NotLeaderForPartition
                    | Code::FencedLeaderEpoch
                    | Code::UnknownLeaderEpoch
                    | Code::OffsetNotAvailable
                    | Code::CoordinatorNotAvailable
                    | Code::CoordinatorLoadInProgress
                    | Code::NotCoordinator
                    | Code::WaitingForCoordinator
                    | Code::UnstableOffsetCommit
                    | Code::InProgress
                    | Code::Retry
            )
        )
}

/// A list for the client; no name of a topic holds what the client could not take.
pub(super) fn list<'a>(
    partitions: impl Iterator<Item = &'a Partition>,
    offset: impl Fn(&Partition) -> Offset,
) -> Result<TopicPartitionList> {
    let mut list = TopicPartitionList::new();
    for partition in partitions {
        list.add_partition_offset(&partition.topic, partition.number, offset(partition))
            .map_err(|error| Error::internal(format!("partition `{partition}`: {error}")))?;
    }
    Ok(list)
}

fn at_offsets(given: &BTreeMap<Partition, i64>, ranges: &BTreeMap<Partition, Range>) -> Result<BTreeMap<Partition, i64>> {
    if let Some(strange) = given.keys().find(|partition| !ranges.contains_key(*partition)) {
        return Err(Error::config(format!("`startOffsets` names partition `{strange}`, which does not exist")));
    }
    let mut begins = BTreeMap::new();
    for (partition, range) in ranges {
        let offset = given.get(partition).copied().ok_or_else(|| {
            let Range { low, high } = range;
            Error::config(format!("`startOffsets` says nothing about partition `{partition}`, which has the offsets {low} to {high}"))
        })?;
        begins.insert(partition.clone(), within(partition, offset, *range, "what `startOffsets` says")?);
    }
    Ok(begins)
}

/// An offset that can be read from.
fn within(partition: &Partition, offset: i64, range: Range, what: &str) -> Result<i64> {
    let Range { low, high } = range;
    if (low..=high).contains(&offset) {
        return Ok(offset);
    }
    Err(Error::config(format!("partition `{partition}` has the offsets {low} to {high}; offset {offset}, {what}, is not there")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use tidegate_api::ErrorKind;

    #[test]
    fn given_offsets_must_be_there_and_be_all() {
        let partition = |number| Partition::new("t", number);
        let ranges = BTreeMap::from([(partition(0), Range { low: 5, high: 9 }), (partition(1), Range { low: 0, high: 0 })]);
        let at = |given: &[(i32, i64)]| {
            let given = given.iter().map(|(number, offset)| (partition(*number), *offset)).collect();
            at_offsets(&given, &ranges).map_err(|error| {
                assert_eq!(error.kind(), ErrorKind::Config);
                error.message().to_string()
            })
        };
        assert_eq!(at(&[(0, 9), (1, 0)]).unwrap().into_values().collect::<Vec<_>>(), [9, 0]);
        assert!(at(&[(0, 5)]).unwrap_err().contains("says nothing about partition `t/1`, which has the offsets 0 to 0"));
        assert!(at(&[(0, 4), (1, 0)]).unwrap_err().contains("`t/0` has the offsets 5 to 9; offset 4, what `startOffsets` says"));
        assert!(at(&[(0, 5), (1, 1)]).unwrap_err().contains("`t/1` has the offsets 0 to 0; offset 1"));
        assert!(at(&[(0, 5), (1, 0), (2, 0)]).unwrap_err().contains("names partition `t/2`, which does not exist"));
    }
}

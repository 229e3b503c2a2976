//! Reads the partitions of one task: whose turn it is, what errors mean, and what is committed to the group.

use super::ahead::Ahead;
use super::client::is_silence;
use super::discovery::list;
use super::part::{Part, Turn};
use super::place::{Assigned, Partition, Place};
use super::run::Decoding;
use super::source::replaced;
use super::source_config::SourceConfig;
use rdkafka::consumer::{CommitMode, Consumer};
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::topic_partition_list::Offset;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;
use tidegate_api::{Clock, Error, PollRequest, Polled, Position, Result, SourceCtx, SourceReader, Split, SplitId, SplitState};

/// The least rows that a partition's turn is worth, if the poll has so many.
const TURN: usize = 512;
/// How often all queues are looked at, whether or not they rang.
const SWEEP: Duration = Duration::from_secs(1);
/// How often a broker that may be out of reach is asked, and how long it may take to answer.
const PROBE_EVERY: Duration = Duration::from_secs(1);
const PROBE: Duration = Duration::from_millis(250);
/// How long the range of a partition is asked for that an error is to name.
const EXPLAIN: Duration = Duration::from_secs(5);
/// A poll hears at most so much of the client before it looks for rows.
const MOST_HEARD: usize = 10_000;

/// The partitions of one task.
pub(super) struct Reader {
    config: Arc<SourceConfig>,
    decoding: Decoding,
    clock: Arc<dyn Clock>,
    parts: Vec<Part>,
    numbers: BTreeMap<SplitId, usize>,
    /// `None` as long as there is nothing to fetch.
    ahead: Option<Ahead>,
    /// Who has something, in the order of turns.
    turns: VecDeque<usize>,
    swept: Duration,
    /// What the client had said of topics when it was last looked at.
    renamed: u64,
    doubt: Option<Doubt>,
    states: Vec<(SplitId, SplitState)>,
    committed: BTreeMap<SplitId, i64>,
}

/// Brokers may be out of reach.
#[derive(Debug, Clone, Copy)]
struct Doubt {
    since: Duration,
    probed: Duration,
}

impl Reader {
    pub(super) fn new(config: Arc<SourceConfig>, decoding: Decoding, ctx: &SourceCtx) -> Self {
        Reader {
            config,
            decoding,
            clock: Arc::clone(&ctx.clock),
            parts: Vec::new(),
            numbers: BTreeMap::new(),
            ahead: None,
            turns: VecDeque::new(),
            swept: Duration::ZERO,
            renamed: 0,
            doubt: None,
            states: Vec::new(),
            committed: BTreeMap::new(),
        }
    }

    /// Begins to fetch the partitions from `first` on; all of them anew if the client is too small for so many.
    fn fetch(&mut self, first: usize) -> Result<()> {
        let open = self.parts.iter().enumerate().filter(|(number, part)| part.queue.is_some() || *number >= first).count();
        let fits = self.ahead.as_ref().is_some_and(|ahead| ahead.fits(open));
        let first = if fits { first } else { 0 };
        if !fits {
            // The queues are of the client that goes.
            let was_open: Vec<bool> = self.parts.iter_mut().map(|part| part.queue.take().is_some()).collect();
            self.ahead = None;
            self.renamed = 0;
            let ahead = Ahead::open(&self.config, open)?;
            for (number, part) in self.parts.iter_mut().enumerate() {
                if was_open[number] || number >= first {
                    part.doubted = false;
                }
            }
            self.ahead = Some(ahead);
        }
        let Some(ahead) = &self.ahead else { return Ok(()) };
        let mut fetched = Vec::new();
        for (number, part) in self.parts.iter_mut().enumerate().skip(first) {
            if part.queue.is_none() && !part.is_behind_its_end() {
                part.queue = Some(ahead.queue(&part.assigned.partition, number)?);
                fetched.push(number);
            }
        }
        let asked: Vec<(&Partition, i64)> =
            fetched.iter().map(|number| (&self.parts[*number].assigned.partition, self.parts[*number].next)).collect();
        ahead.fetch(&asked)
    }

    /// Hears what the client has to say.
    fn serve(&mut self) -> Result<()> {
        for _ in 0..MOST_HEARD {
            let Some(ahead) = &self.ahead else { return Ok(()) };
            let before = ahead.listener().heard();
            match ahead.consumer().poll(Duration::ZERO) {
                None if ahead.listener().heard() == before => break,
                None => {}
                Some(Ok(_)) => return Err(Error::internal("a row came beside the queue of its partition")),
                Some(Err(error)) => self.on_error(&error)?,
            }
        }
        self.same_topics()
    }

    /// No row of a topic that has taken the place of another is handed over: the client learns the identity of a topic before it
    /// fetches of it.
    fn same_topics(&mut self) -> Result<()> {
        let Some(ahead) = &self.ahead else { return Ok(()) };
        let renamed = ahead.listener().renamed();
        if renamed == self.renamed {
            return Ok(());
        }
        self.renamed = renamed;
        for part in self.parts.iter_mut().filter(|part| part.queue.is_some()) {
            let topic = &part.assigned.partition.topic;
            let now = ahead.listener().topic_id(topic);
            match (&part.assigned.details.id, now) {
                (Some(before), Some(now)) if *before != now => return Err(replaced(topic, before, &now)),
                (None, Some(now)) => part.assigned.details.id = Some(now),
                (Some(_) | None, _) => {}
            }
        }
        Ok(())
    }

    /// What the client says of itself and its brokers.
    fn on_error(&mut self, error: &KafkaError) -> Result<()> {
        let Some(ahead) = &self.ahead else { return Ok(()) };
        match error.rdkafka_error_code() {
            // Offsets are committed for those who watch; a run that may not do so reads all the same.
            Some(RDKafkaErrorCode::GroupAuthorizationFailed) => {
                let group = &self.config.group;
                tracing::warn!(group, %error, "offsets cannot be committed to the consumer group");
                Ok(())
            }
            Some(code) if super::client::is_refusal(code) => {
                Err(ahead.listener().failed(format!("reading from `{}`", self.config.cluster.brokers()), error))
            }
            _ if matches!(error, KafkaError::MessageConsumptionFatal(_)) => {
                Err(ahead.listener().failed(format!("reading from `{}`", self.config.cluster.brokers()), error))
            }
            Some(_) | None => {
                self.begin_to_doubt();
                Ok(())
            }
        }
    }

    /// Nothing heard says nothing any more: no split counts as caught up before its broker has answered.
    fn begin_to_doubt(&mut self) {
        let now = self.clock.monotonic();
        self.doubt.get_or_insert(Doubt { since: now, probed: now });
        for part in self.parts.iter_mut().filter(|part| part.queue.is_some()) {
            part.doubted = true;
            if part.caught_up {
                self.states.push((part.assigned.id.clone(), SplitState::Pending));
            }
        }
    }

    /// What the client says of one partition.
    fn on_trouble(&mut self, number: usize, error: &KafkaError) -> Result<()> {
        use RDKafkaErrorCode as Code;
        let Some(ahead) = &self.ahead else { return Ok(()) };
        let part = &self.parts[number];
        let (partition, next) = (&part.assigned.partition, part.next);
        let detail = ahead.listener().take_detail();
        match error.rdkafka_error_code() {
            Some(Code::AutoOffsetReset | Code::OffsetOutOfRange) => Err(self.out_of_range(part)),
            Some(Code::LogTruncation) => Err(Error::config(format!(
                "partition `{partition}`: rows before offset {next} that were read are no longer in the log, since a replica that lacked them \
                 leads now; start over with `--fresh`"
            ))),
            Some(Code::UnknownTopicOrPartition | Code::UnknownTopic | Code::UnknownPartition | Code::UnknownTopicId) => {
                Err(Error::external(format!("partition `{partition}` is gone: the cluster does not know it any more")))
            }
            Some(code) if is_silence(code) => {
                self.begin_to_doubt();
                Ok(())
            }
            Some(_) | None => {
                let failed = ahead.listener().failed(format!("reading partition `{partition}` at offset {next}"), error);
                let detail = detail.filter(|detail| !failed.message().contains(detail.as_str()));
                let message = detail.map_or_else(|| failed.message().to_string(), |detail| format!("{}; {detail}", failed.message()));
                Err(Error::new(failed.kind(), message))
            }
        }
    }

    fn out_of_range(&self, part: &Part) -> Error {
        let (partition, next) = (&part.assigned.partition, part.next);
        let range = self.ahead.as_ref().map(|ahead| ahead.consumer().fetch_watermarks(&partition.topic, partition.number, EXPLAIN));
        let what = match range {
            Some(Ok((low, _))) if next < low => format!(
                "the rows from offset {next} to {} were deleted before they were read (the partition now begins at {low}); keep rows for longer \
                 than the run may stand still",
                low - 1
            ),
            Some(Ok((low, high))) => format!(
                "offset {next} does not exist, the partition has {low} to {high}; its topic was made again, or has lost rows that were read"
            ),
            Some(Err(_)) | None => format!("offset {next} does not exist any more"),
        };
        Error::config(format!("partition `{partition}`: {what}; to begin elsewhere start over with `--fresh`"))
    }

    /// Gives everybody who has something a turn.
    fn gather(&mut self, request: PollRequest, polled: &mut Polled) -> Result<()> {
        let Some(ahead) = &self.ahead else { return Ok(()) };
        let rung = ahead.bell().take();
        let now = self.clock.monotonic();
        if now.saturating_sub(self.swept) >= SWEEP {
            self.swept = now;
            self.turns.extend((0..self.parts.len()).filter(|number| self.parts[*number].queue.is_some()));
        }
        self.turns.extend(rung);
        let mut is_waiting = vec![false; self.parts.len()];
        self.turns.retain(|number| !std::mem::replace(&mut is_waiting[*number], true));

        let (mut rows, mut bytes) = (request.max_rows.max(1), request.max_bytes.max(1));
        for left in (1..=self.turns.len()).rev() {
            let Some(number) = self.turns.pop_front() else { break };
            let share = (rows / left).max(TURN).min(rows);
            let Some(ahead) = &self.ahead else { break };
            let turn = self.parts[number].read(&self.decoding, ahead.listener(), share, bytes)?;
            rows = rows.saturating_sub(turn.chunk.as_ref().map_or(0, |chunk| chunk.rows.num_rows()));
            bytes = bytes.saturating_sub(turn.bytes);
            if !turn.drained && !turn.finished {
                self.turns.push_back(number);
            }
            self.settle(number, turn, polled)?;
            if rows == 0 || bytes == 0 {
                break;
            }
        }
        Ok(())
    }

    fn settle(&mut self, number: usize, turn: Turn, polled: &mut Polled) -> Result<()> {
        let part = &mut self.parts[number];
        let id = part.assigned.id.clone();
        if turn.heard {
            part.doubted = false;
        }
        let has_chunk = turn.chunk.is_some();
        polled.chunks.extend(turn.chunk);
        if turn.finished {
            part.queue = None;
            self.states.push((id, SplitState::Finished));
            let partition = part.assigned.partition.clone();
            return self.ahead.as_ref().map_or(Ok(()), |ahead| ahead.leave(&partition));
        }
        if turn.at_end {
            part.caught_up = true;
            self.states.push((id, SplitState::CaughtUp));
        } else if has_chunk && part.caught_up {
            part.caught_up = false;
            self.states.push((id, SplitState::Pending));
        }
        match turn.trouble {
            Some(error) => self.on_trouble(number, &error),
            None => Ok(()),
        }
    }

    /// Asks brokers that may be out of reach, and gives up when they have been for too long.
    fn resolve(&mut self, wait: Duration) -> Result<()> {
        let Some(doubt) = self.doubt else { return Ok(()) };
        if !self.parts.iter().any(|part| part.queue.is_some() && part.doubted) {
            self.doubt = None;
            return Ok(());
        }
        let Some(ahead) = &self.ahead else { return Ok(()) };
        let now = self.clock.monotonic();
        let out = now.saturating_sub(doubt.since);
        if out >= self.config.broker_timeout {
            let doubted = self.parts.iter().find(|part| part.queue.is_some() && part.doubted);
            let partition = doubted.map(|part| part.assigned.partition.to_string()).unwrap_or_default();
            let said = ahead.listener().last().map(|last| format!("; the client says: {last}")).unwrap_or_default();
            let (brokers, seconds) = (self.config.cluster.brokers(), out.as_secs());
            return Err(Error::external(format!(
                "the broker of partition `{partition}` at `{brokers}` has been out of reach for {seconds} s, `brokerTimeout` allows no more{said}"
            )));
        }
        if wait.is_zero() || now.saturating_sub(doubt.probed) < PROBE_EVERY {
            return Ok(());
        }
        self.doubt = Some(Doubt { probed: now, ..doubt });
        for part in self.parts.iter_mut().filter(|part| part.queue.is_some() && part.doubted) {
            let Partition { topic, number } = &part.assigned.partition;
            let Ok((_, high)) = ahead.consumer().fetch_watermarks(topic, *number, PROBE) else { break };
            part.doubted = false;
            if part.caught_up {
                part.caught_up = part.is_handed_over() && part.next >= high;
                if part.caught_up {
                    self.states.push((part.assigned.id.clone(), SplitState::CaughtUp));
                }
            }
        }
        Ok(())
    }
}

impl SourceReader for Reader {
    fn assign(&mut self, splits: Vec<Split>) -> Result<()> {
        let first = self.parts.len();
        for split in splits {
            let part = Part::new(Assigned::read(split)?, self.decoding.decoder()?);
            let id = part.assigned.id.clone();
            if part.is_behind_its_end() {
                self.states.push((id.clone(), SplitState::Finished));
            }
            self.numbers.insert(id, self.parts.len());
            self.parts.push(part);
        }
        if self.parts[first..].iter().any(|part| !part.is_behind_its_end()) {
            self.fetch(first)?;
        }
        Ok(())
    }

    fn poll(&mut self, request: PollRequest) -> Result<Polled> {
        let mut polled = Polled::default();
        self.serve()?;
        self.gather(request, &mut polled)?;
        if polled.chunks.is_empty() && self.states.is_empty() && !request.wait.is_zero() {
            if let Some(ahead) = &self.ahead {
                ahead.bell().wait(request.wait);
            }
            self.gather(request, &mut polled)?;
        }
        // What was said while rows were taken may be about them.
        self.serve()?;
        self.resolve(request.wait)?;
        polled.states = std::mem::take(&mut self.states);
        if self.parts.iter().all(|part| part.queue.is_none()) {
            polled.retry_after = Some(Duration::from_secs(1));
        }
        Ok(polled)
    }

    fn committed(&mut self, positions: &[(SplitId, Position)]) -> Result<()> {
        let Some(ahead) = &self.ahead else { return Ok(()) };
        let mut offsets = BTreeMap::new();
        for (id, position) in positions {
            let Some(part) = self.numbers.get(id).map(|number| &self.parts[*number]) else { continue };
            let Some(place) = Place::parse(position) else { continue };
            if self.committed.get(id) != Some(&place.offset) {
                offsets.insert(part.assigned.partition.clone(), place.offset);
            }
        }
        if offsets.is_empty() {
            return Ok(());
        }
        let offset = |partition: &Partition| offsets.get(partition).map_or(Offset::Invalid, |offset| Offset::Offset(*offset));
        let asked = list(offsets.keys(), offset)?;
        let group = &self.config.group;
        ahead
            .consumer()
            .commit(&asked, CommitMode::Async)
            .map_err(|error| Error::external(format!("committing offsets to the consumer group `{group}`: {error}")))?;
        self.committed.extend(offsets.iter().map(|(partition, offset)| (partition.split(), *offset)));
        Ok(())
    }
}

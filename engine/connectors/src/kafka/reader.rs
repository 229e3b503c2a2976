//! Reads the partitions of one task: whose turn it is, and what errors mean.

use super::ahead::Ahead;
use super::client::is_silence;
use super::discovery::{Explorer, edges};
use super::part::{Part, Turn};
use super::place::{Assigned, Partition, Place};
use super::run::Decoding;
use super::source::{Ends, replaced};
use super::source_config::SourceConfig;
use super::teller::Teller;
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::topic_partition_list::Offset;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;
use tidegate_api::{
    Clock, Error, OutsideMeters, PollRequest, Polled, Position, Result, SourceCtx, SourceReader, Split, SplitId, SplitState,
};

/// The least rows that a partition's turn is worth, if the poll has so many.
const TURN: usize = 512;
/// How often all queues are looked at, whether or not they rang.
const SWEEP: Duration = Duration::from_secs(1);
/// How often brokers that may be out of reach are asked, and how long that may take; a fraction of the time, since other partitions may be
/// in full flow.
const PROBE_EVERY: Duration = Duration::from_secs(2);
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
    /// Asks brokers while there is doubt.
    prober: Option<Explorer>,
    states: Vec<(SplitId, SplitState)>,
    /// Why rows that were taken are not decoded yet.
    waits: Option<Error>,
    teller: Arc<Teller>,
    meters: OutsideMeters,
    ends: Ends,
    /// When it was told last how far this task is behind.
    measured: Option<Duration>,
}

/// Brokers may be out of reach.
#[derive(Debug, Clone, Copy)]
struct Doubt {
    since: Duration,
    /// When somebody was asked last; `None` if that has not been done, or not finished.
    probed: Option<Duration>,
    /// When it was looked into last, asked or not.
    seen: Duration,
}

impl Reader {
    pub(super) fn new(config: Arc<SourceConfig>, decoding: Decoding, teller: Arc<Teller>, ends: Ends, ctx: &SourceCtx) -> Self {
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
            prober: None,
            states: Vec::new(),
            waits: None,
            teller,
            meters: ctx.meters.clone(),
            ends,
            measured: None,
        }
    }

    /// Begins to fetch the partitions from `first` on; all of them anew if the client is too small for so many.
    fn fetch(&mut self, first: usize) -> Result<()> {
        let open = self.parts.iter().enumerate().filter(|(number, part)| part.queue.is_some() || *number >= first).count();
        let fits = self.ahead.as_ref().is_some_and(|ahead| ahead.fits(open));
        let first = if fits { first } else { 0 };
        if !fits {
            // The queues are of the client that goes.
            self.parts.iter_mut().for_each(Part::let_go);
            self.ahead = None;
            self.renamed = 0;
            self.ahead = Some(Ahead::open(&self.config, open)?);
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
            // The group is for those who watch; a run that may not see it reads all the same.
            Some(RDKafkaErrorCode::GroupAuthorizationFailed) => {
                tracing::debug!(group = self.config.group, %error, "the consumer group may not be seen");
                Ok(())
            }
            // A token that is about to be renewed, a broker that has not read its users yet; what stays so ends by the budget.
            Some(RDKafkaErrorCode::Authentication | RDKafkaErrorCode::SaslAuthenticationFailed) => {
                self.begin_to_doubt();
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

    /// Nothing heard says nothing any more, until brokers have answered.
    fn begin_to_doubt(&mut self) {
        let now = self.clock.monotonic();
        self.doubt.get_or_insert(Doubt { since: now, probed: None, seen: now });
        self.parts.iter_mut().filter(|part| part.queue.is_some()).for_each(|part| part.doubted = true);
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
        let edge = |which| {
            let edges = edges(self.ahead.as_ref()?.consumer(), [partition], which, EXPLAIN);
            edges.ok()?.into_values().next()
        };
        let what = match edge(Offset::Beginning).zip(edge(Offset::End)) {
            Some((low, _)) if next < low => format!(
                "the rows from offset {next} to {} were deleted before they were read (the partition now begins at {low}); keep rows for longer \
                 than the run may stand still",
                low - 1
            ),
            Some((low, high)) => format!(
                "offset {next} does not exist, the partition has {low} to {high}; its topic was made again, or has lost rows that were read"
            ),
            None => format!("offset {next} does not exist any more"),
        };
        Error::config(format!("partition `{partition}`: {what}; to begin elsewhere start over with `--fresh`"))
    }

    /// Tells how far this task is behind what was there at the last discovery.
    fn measure(&mut self) {
        let now = self.clock.monotonic();
        if self.measured.is_some_and(|at| now.saturating_sub(at) < SWEEP) {
            return;
        }
        self.measured = Some(now);
        let open = self.parts.iter().filter(|part| part.queue.is_some());
        self.meters.behind_rows.set(self.ends.behind(open.map(|part| (&part.assigned.partition, part.next, part.assigned.details.end))));
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
            self.meters.bytes.add(turn.bytes as u64);
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
            (part.doubted, part.held) = (false, false);
        }
        if turn.waits.is_some() {
            self.waits = turn.waits;
            return Ok(());
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

    /// Asks brokers that may be out of reach. A split is not caught up as long as its broker does not answer, and after too long a
    /// time that is an error.
    fn resolve(&mut self) -> Result<()> {
        let (Some(mut doubt), Some(ahead)) = (self.doubt, &self.ahead) else { return Ok(()) };
        let now = self.clock.monotonic();
        if now.saturating_sub(doubt.seen) > 2 * PROBE_EVERY {
            // Nobody has polled for a while, so nobody knows how long brokers were away.
            doubt.since = now;
        }
        doubt.seen = now;
        self.doubt = Some(doubt);
        if doubt.probed.is_some_and(|probed| now.saturating_sub(probed) < PROBE_EVERY) {
            return Ok(());
        }
        let prober = match &self.prober {
            Some(prober) => prober,
            None => self.prober.insert(Explorer::prober(&self.config)?),
        };
        let mut silent = None;
        for (at, part) in self.parts.iter_mut().enumerate().filter(|(_, part)| part.queue.is_some() && part.doubted) {
            if self.clock.monotonic().saturating_sub(now) >= PROBE {
                // There are many; the next poll asks on.
                return Ok(());
            }
            let Some(high) = prober.probe(&part.assigned.partition, PROBE) else {
                silent = Some(at);
                break;
            };
            part.doubted = false;
            let is_caught_up = part.is_handed_over() && part.next >= high;
            if part.caught_up && std::mem::take(&mut part.held) && is_caught_up {
                self.states.push((part.assigned.id.clone(), SplitState::CaughtUp));
            }
        }
        let Some(silent) = silent else {
            (self.doubt, self.prober) = (None, None);
            return Ok(());
        };
        self.doubt = Some(Doubt { probed: Some(now), ..doubt });
        for part in self.parts.iter_mut().filter(|part| part.queue.is_some() && part.doubted && part.caught_up && !part.held) {
            part.held = true;
            self.states.push((part.assigned.id.clone(), SplitState::Pending));
        }
        let away = now.saturating_sub(doubt.since);
        if away < self.config.broker_timeout {
            return Ok(());
        }
        let said = ahead.listener().last().map(|last| format!("; the client says: {last}")).unwrap_or_default();
        let (partition, brokers) = (&self.parts[silent].assigned.partition, self.config.cluster.brokers());
        Err(Error::external(format!(
            "the broker of partition `{partition}` at `{brokers}` has been out of reach for {} s, `brokerTimeout` allows no more{said}",
            away.as_secs()
        )))
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
        self.waits = None;
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
        self.resolve()?;
        self.measure();
        if let Some(waits) = self.waits.take().filter(|_| polled.chunks.is_empty() && self.states.is_empty()) {
            return Err(waits);
        }
        polled.states = std::mem::take(&mut self.states);
        if self.parts.iter().all(|part| part.queue.is_none()) {
            // Nobody would hear what the client goes on to say.
            self.ahead = None;
            polled.retry_after = Some(Duration::from_secs(1));
        }
        Ok(polled)
    }

    fn committed(&mut self, positions: &[(SplitId, Position)]) -> Result<()> {
        let offset = |(id, position): &(SplitId, Position)| {
            let part = &self.parts[*self.numbers.get(id)?];
            Some((part.assigned.partition.clone(), Place::parse(position)?.offset))
        };
        self.teller.tell(&self.config, positions.iter().filter_map(offset).collect())
    }
}

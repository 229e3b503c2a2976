//! What a producer hears of its records: how many are under way, and the first that was not delivered.

use super::super::client::{Voice, is_refusal};
use rdkafka::ClientContext;
use rdkafka::client::OAuthToken;
use rdkafka::config::RDKafkaLogLevel;
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::message::Message as _;
use rdkafka::producer::{DeliveryResult, ProducerContext};
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};
use tidegate_api::{BarrierAcker, Epoch, Error};

/// A record that was not delivered.
#[derive(Debug, Clone)]
pub(super) struct Undelivered {
    pub(super) topic: String,
    pub(super) partition: i32,
    pub(super) error: KafkaError,
}

impl Undelivered {
    /// What it means: a record or a topic at fault does not mend by a restart.
    pub(super) fn error(&self) -> Error {
        use RDKafkaErrorCode as Code;
        let Undelivered { topic, partition, error } = self;
        let code = error.rdkafka_error_code();
        let place = if *partition < 0 { format!("topic `{topic}`") } else { format!("topic `{topic}`, partition {partition}") };
        let why = code.map_or_else(|| error.to_string(), |code| code.to_string());
        match code {
            Some(Code::MessageSizeTooLarge | Code::InvalidMessageSize) => Error::data(format!(
                "{place}: a record is larger than the topic takes ({why}); its `max.message.bytes` was lowered since it was asked for, raise it again"
            )),
            Some(Code::InvalidRecord | Code::InvalidMessage | Code::InvalidTimestamp) => Error::data(format!(
                "{place}: the brokers refuse a record ({why}); a compacted topic takes no record without a key, a `message.timestamp.type` none out of its bounds"
            )),
            Some(code) if is_refusal(code) => Error::config(format!("{place}: {why}")),
            _ => Error::external(format!("{place}: a record was not delivered: {why}")),
        }
    }
}

/// Records sent before one barrier.
#[derive(Debug, Default)]
struct Round {
    number: usize,
    under_way: usize,
    /// The barrier behind them, once it has come.
    epoch: Option<Epoch>,
}

#[derive(Default)]
struct State {
    rounds: VecDeque<Round>,
    next: usize,
    bytes: usize,
    failed: Option<Undelivered>,
    acker: Option<BarrierAcker>,
}

/// Shared by a writer and the thread that serves its producer.
#[derive(Clone, Default)]
pub(super) struct Deliveries {
    voice: Voice,
    state: Arc<Mutex<State>>,
}

impl Deliveries {
    pub(super) fn new(voice: Voice) -> Self {
        Deliveries { voice, state: Arc::default() }
    }

    /// Answers barriers through `acker`.
    pub(super) fn with_acker(self, acker: BarrierAcker) -> Self {
        self.with(|state| state.acker = Some(acker));
        self
    }

    pub(super) fn voice(&self) -> &Voice {
        &self.voice
    }

    fn with<T>(&self, change: impl FnOnce(&mut State) -> T) -> T {
        change(&mut self.state.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// The first record that was not delivered.
    pub(super) fn failed(&self) -> Option<Undelivered> {
        self.with(|state| state.failed.clone())
    }

    /// Forgets what failed, before another try.
    pub(super) fn forget(&self) {
        self.with(|state| state.failed = None);
    }

    /// Bytes of records under way.
    pub(super) fn bytes(&self) -> usize {
        self.with(|state| state.bytes)
    }

    /// Counts records that are about to be sent; answers the number that each carries.
    pub(super) fn sending(&self, records: usize, bytes: usize) -> usize {
        self.with(|state| {
            if state.rounds.back().is_none_or(|round| round.epoch.is_some()) {
                let number = state.next;
                state.next += 1;
                state.rounds.push_back(Round { number, ..Round::default() });
            }
            state.bytes += bytes;
            let Some(round) = state.rounds.back_mut() else { return 0 };
            round.under_way += records;
            round.number
        })
    }

    /// A record that was counted was not even sent.
    pub(super) fn not_sent(&self, round: usize, bytes: usize, failed: Undelivered) {
        self.with(|state| settle(state, round, bytes, Some(failed)));
    }

    /// Everything counted so far is before this barrier. Answers whether all of it has arrived; if not, the acker will be told.
    pub(super) fn barrier(&self, epoch: Epoch) -> bool {
        self.with(|state| {
            if state.rounds.iter().all(|round| round.under_way == 0) {
                state.rounds.clear();
                return true;
            }
            match state.rounds.back_mut() {
                Some(round) if round.epoch.is_none() => round.epoch = Some(epoch),
                // Nothing was sent since the barrier before; this one is answered behind it.
                Some(_) | None => {
                    let number = state.next;
                    state.next += 1;
                    state.rounds.push_back(Round { number, under_way: 0, epoch: Some(epoch) });
                }
            }
            false
        })
    }
}

/// One record has arrived, or will not.
fn settle(state: &mut State, round: usize, bytes: usize, failed: Option<Undelivered>) {
    state.bytes = state.bytes.saturating_sub(bytes);
    if let Some(found) = state.rounds.iter_mut().find(|candidate| candidate.number == round) {
        found.under_way = found.under_way.saturating_sub(1);
    }
    if state.failed.is_none() {
        state.failed = failed;
    }
    let failed = state.failed.as_ref().map(Undelivered::error);
    if let Some(error) = failed {
        // What waits for an answer gets this one; no barrier is acknowledged behind a record that is not there.
        let waiting: Vec<Epoch> = state.rounds.iter_mut().filter_map(|round| round.epoch.take()).collect();
        if let (Some(epoch), Some(acker)) = (waiting.first(), &state.acker) {
            acker.acknowledge(*epoch, Err(error));
        }
        return;
    }
    while let Some(Round { under_way: 0, epoch: Some(epoch), .. }) = state.rounds.front() {
        if let Some(acker) = &state.acker {
            acker.acknowledge(*epoch, Ok(None));
        }
        state.rounds.pop_front();
    }
}

impl ClientContext for Deliveries {
    const ENABLE_REFRESH_OAUTH_TOKEN: bool = true;

    fn log(&self, level: RDKafkaLogLevel, facility: &str, message: &str) {
        self.voice.log(level, facility, message);
    }

    fn error(&self, error: KafkaError, reason: &str) {
        self.voice.error(error, reason);
    }

    fn generate_oauth_token(&self, config: Option<&str>) -> std::result::Result<OAuthToken, Box<dyn std::error::Error>> {
        self.voice.generate_oauth_token(config)
    }
}

impl ProducerContext for Deliveries {
    type DeliveryOpaque = usize;

    fn delivery(&self, result: &DeliveryResult<'_>, round: usize) {
        let (message, failed) = match result {
            Ok(message) => (message, None),
            Err((error, message)) => {
                let failed = Undelivered { topic: message.topic().to_string(), partition: message.partition(), error: error.clone() };
                (message, Some(failed))
            }
        };
        let bytes = message.payload_len() + message.key_len();
        self.with(|state| settle(state, round, bytes, failed));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tidegate_api::{ErrorKind, Wake};

    fn arrived(deliveries: &Deliveries, round: usize) {
        deliveries.with(|state| settle(state, round, 10, None));
    }

    fn lost(code: RDKafkaErrorCode) -> Undelivered {
        Undelivered { topic: "t".into(), partition: 1, error: KafkaError::MessageProduction(code) }
    }

    #[test]
    fn a_barrier_is_answered_when_all_before_it_has_arrived_whatever_came_after() {
        let acker = BarrierAcker::new(Wake::noop());
        let deliveries = Deliveries::default().with_acker(acker.clone());
        assert!(deliveries.barrier(Epoch(1)), "nothing is under way");
        let first = deliveries.sending(2, 20);
        assert!(!deliveries.barrier(Epoch(2)));
        let second = deliveries.sending(1, 10);
        assert_ne!(first, second);
        arrived(&deliveries, second);
        arrived(&deliveries, first);
        assert!(acker.take().is_empty());
        arrived(&deliveries, first);
        let answers: Vec<_> = acker.take().iter().map(|answer| (answer.epoch, answer.answer.is_ok())).collect();
        assert_eq!((answers, deliveries.bytes()), (vec![(Epoch(2), true)], 0));
        assert!(deliveries.barrier(Epoch(3)), "all has arrived");
    }

    #[test]
    fn barriers_without_rows_between_them_are_answered_in_order() {
        let acker = BarrierAcker::new(Wake::noop());
        let deliveries = Deliveries::default().with_acker(acker.clone());
        let round = deliveries.sending(1, 10);
        assert!(!deliveries.barrier(Epoch(1)) && !deliveries.barrier(Epoch(2)));
        arrived(&deliveries, round);
        assert_eq!(acker.take().iter().map(|answer| answer.epoch).collect::<Vec<_>>(), [Epoch(1), Epoch(2)]);
    }

    #[test]
    fn no_barrier_is_acknowledged_behind_a_record_that_was_not_delivered() {
        let acker = BarrierAcker::new(Wake::noop());
        let deliveries = Deliveries::default().with_acker(acker.clone());
        let round = deliveries.sending(2, 20);
        assert!(!deliveries.barrier(Epoch(1)));
        deliveries.with(|state| settle(state, round, 10, Some(lost(RDKafkaErrorCode::MessageTimedOut))));
        arrived(&deliveries, round);
        let answers = acker.take();
        assert_eq!(answers.len(), 1);
        assert!(matches!(answers[0].answer.as_ref().unwrap_err().kind(), ErrorKind::External { .. }));
        assert!(deliveries.failed().is_some());
    }

    #[test]
    fn what_a_restart_does_not_mend_is_no_outside_failure() {
        let kind = |code| lost(code).error().kind();
        assert_eq!(kind(RDKafkaErrorCode::MessageSizeTooLarge), ErrorKind::Data);
        assert_eq!(kind(RDKafkaErrorCode::InvalidRecord), ErrorKind::Data);
        assert_eq!(kind(RDKafkaErrorCode::TopicAuthorizationFailed), ErrorKind::Config);
        assert!(matches!(kind(RDKafkaErrorCode::MessageTimedOut), ErrorKind::External { .. }));
    }
}

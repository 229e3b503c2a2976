use std::collections::BTreeSet;
use std::time::Duration;
use tidegate_api::{EventTime, SplitId, SplitState, TimeSpec, Watermark};

#[derive(Debug, Clone)]
struct SplitTime {
    id: SplitId,
    /// The largest event time handed over.
    seen: Option<EventTime>,
    /// The source's own promise.
    promised: Option<EventTime>,
    /// What it had promised by itself when the watermark was last asked for.
    told: EventTime,
    state: SplitState,
    /// Whether it has been caught up, or has finished.
    caught_up: bool,
    /// How long it has been caught up without rows; waits that were the engine's fault are not in it.
    quiet: Duration,
}

/// Makes the watermark of one source task from what its splits hand over.
///
/// With a [`TimeSpec`] a split promises its maximum less the disorder; without one, what the source itself promises. A split
/// that was not read yet holds everything back unless splits come in order. A caught-up split that stays without rows for the
/// idle timeout leaves the minimum, and so does a finished one, whose own promise counts up to then. When nothing is left to read
/// and nothing will be found, the end of time is promised, unless the run suspends there: then a later start may find more, and
/// nothing is promised beyond what the rows did.
///
/// A source that every start reads anew is a table beside streams: it promises nothing until it is there, and then the end of time,
/// since what it says later is of no time and nobody waits for it.
#[derive(Debug, Clone)]
pub struct SourceTime {
    spec: Option<TimeSpec>,
    idle_timeout: Option<Duration>,
    splits: Vec<SplitTime>,
    complete: bool,
    /// The end of the input is a pause: a later start may find more.
    suspends: bool,
    /// Every start reads it anew.
    reloads: bool,
    reached: EventTime,
}

impl SourceTime {
    /// A task without splits, which is idle.
    pub fn new(spec: Option<TimeSpec>) -> Self {
        let idle_timeout = spec.as_ref().map_or(Some(Duration::from_secs(30)), |spec| spec.idle_timeout);
        SourceTime { spec, idle_timeout, splits: Vec::new(), complete: false, suspends: false, reloads: false, reached: EventTime::MIN }
    }

    /// Sets whether every start reads the source anew.
    #[must_use]
    pub fn with_reloads(mut self, reloads: bool) -> Self {
        self.reloads = reloads;
        self
    }

    /// Whether the source is a table that is there: every split has been caught up once.
    pub fn has_loaded(&self) -> bool {
        self.reloads && self.complete && self.splits.iter().all(|split| split.caught_up)
    }

    /// Sets whether the end of the input is a pause, after which more may come.
    #[must_use]
    pub fn with_suspends(mut self, suspends: bool) -> Self {
        self.suspends = suspends;
        self
    }

    /// Adds a split that has handed over rows up to `seen` in earlier starts.
    pub fn add(&mut self, id: SplitId, seen: Option<EventTime>) {
        let (told, state, quiet) = (EventTime::MIN, SplitState::Pending, Duration::ZERO);
        self.splits.push(SplitTime { id, seen, promised: None, told, state, caught_up: false, quiet });
    }

    /// Drops finished splits, which have no part in what is promised.
    pub fn forget(&mut self, splits: &BTreeSet<&SplitId>) {
        self.splits.retain(|split| split.state != SplitState::Finished || !splits.contains(&split.id));
    }

    /// No split will be added any more.
    pub fn complete(&mut self) {
        self.complete = true;
    }

    /// The largest event time of a split.
    pub fn seen(&self, id: &SplitId) -> Option<EventTime> {
        self.splits.iter().find(|split| split.id == *id).and_then(|split| split.seen)
    }

    /// A split handed over rows, the latest of them at `latest` (none has a time: `None`), and promised `promised`.
    pub fn on_rows(&mut self, id: &SplitId, latest: Option<EventTime>, promised: Option<EventTime>) {
        if let Some(split) = self.splits.iter_mut().find(|split| split.id == *id) {
            split.seen = split.seen.max(latest);
            split.promised = split.promised.max(promised);
            split.quiet = Duration::ZERO;
            if split.state == SplitState::CaughtUp {
                split.state = SplitState::Pending;
            }
        }
    }

    /// A split reported its state, after the rows of the same poll.
    pub fn on_state(&mut self, id: &SplitId, state: SplitState) {
        if let Some(split) = self.splits.iter_mut().find(|split| split.id == *id) {
            split.state = state;
            split.caught_up |= state != SplitState::Pending;
            if state != SplitState::CaughtUp {
                split.quiet = Duration::ZERO;
            }
        }
    }

    /// Time passed in which the outside could have given rows and did not: a wait it asked for, or one inside a poll. Time in
    /// which the task was held up by the engine is not reported here.
    pub fn on_quiet(&mut self, elapsed: Duration) {
        for split in &mut self.splits {
            if split.state == SplitState::CaughtUp {
                split.quiet = split.quiet.saturating_add(elapsed);
            }
        }
    }

    /// How long until the next split may become idle if nothing comes.
    pub fn next_idle(&self) -> Option<Duration> {
        let timeout = self.idle_timeout?;
        let waiting = self.splits.iter().filter(|split| split.state == SplitState::CaughtUp && split.quiet < timeout);
        waiting.map(|split| timeout - split.quiet).min()
    }

    /// What a split had promised by itself when the watermark was last asked for: no more of its rows before this. The rows of one
    /// poll may overlap in time, so they are judged by what had been promised before the poll.
    pub fn promised(&self, id: &SplitId) -> EventTime {
        self.splits.iter().find(|split| split.id == *id).map_or(EventTime::MIN, |split| split.told)
    }

    /// What a split will have promised by itself once the rows handed over so far are all of a poll.
    pub fn promises(&self, id: &SplitId) -> EventTime {
        self.splits.iter().find(|split| split.id == *id).map_or(EventTime::MIN, |split| split.told.max(self.whole(split)))
    }

    fn whole(&self, split: &SplitTime) -> EventTime {
        // Rows at the end of time exist; only the end of the input promises it.
        self.own(split).map_or(EventTime::MIN, |own| own.min(EventTime(EventTime::MAX.0 - 1)))
    }

    fn own(&self, split: &SplitTime) -> Option<EventTime> {
        match &self.spec {
            Some(spec) => split.seen.map(|seen| seen.minus(spec.out_of_orderness)),
            None => split.promised,
        }
    }

    /// What the task may promise now. Never moves back.
    pub fn watermark(&mut self) -> Watermark {
        if self.reloads {
            return Watermark::At(if self.has_loaded() { EventTime::MAX } else { EventTime::MIN });
        }
        for at in 0..self.splits.len() {
            self.splits[at].told = self.splits[at].told.max(self.whole(&self.splits[at]));
        }
        let in_order = self.spec.as_ref().is_some_and(|spec| spec.splits_in_order);
        let mut lowest: Option<EventTime> = None;
        let mut live = false;
        for split in &self.splits {
            if split.state == SplitState::Finished || self.is_idle(split) {
                continue;
            }
            live = true;
            match self.own(split) {
                Some(own) => lowest = Some(lowest.map_or(own, |lowest| lowest.min(own))),
                None if in_order => {}
                None => lowest = Some(EventTime::MIN),
            }
        }
        if !live {
            if self.complete && !self.suspends && self.splits.iter().all(|split| split.state == SplitState::Finished) {
                self.reached = EventTime::MAX;
                return Watermark::At(EventTime::MAX);
            }
            return Watermark::Idle;
        }
        // Rows at the end of time exist; only the end of the input promises it.
        let last = EventTime(EventTime::MAX.0 - 1);
        self.reached = self.reached.max(lowest.map_or(EventTime::MIN, |lowest| lowest.min(last)));
        Watermark::At(self.reached)
    }

    fn is_idle(&self, split: &SplitTime) -> bool {
        split.state == SplitState::CaughtUp && self.idle_timeout.is_some_and(|timeout| split.quiet >= timeout)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    fn id(n: usize) -> SplitId {
        SplitId::new(format!("s{n}"))
    }

    fn time(disorder: u64, idle: Option<u64>, splits_in_order: bool, splits: usize) -> SourceTime {
        let mut spec = TimeSpec::new("t");
        spec.out_of_orderness = Duration::from_micros(disorder);
        spec.idle_timeout = idle.map(Duration::from_micros);
        spec.splits_in_order = splits_in_order;
        let mut time = SourceTime::new(Some(spec));
        (0..splits).for_each(|split| time.add(id(split), None));
        time
    }

    fn at(time: i64) -> Watermark {
        Watermark::At(EventTime(time))
    }

    #[test]
    fn an_unread_split_holds_the_watermark() {
        let mut time = time(3, None, false, 2);
        time.on_rows(&id(0), Some(EventTime(10)), None);
        assert_eq!(time.watermark(), Watermark::At(EventTime::MIN));
        time.on_rows(&id(1), Some(EventTime(20)), None);
        assert_eq!(time.watermark(), at(7));
    }

    #[test]
    fn an_unread_split_does_not_hold_when_splits_come_in_order() {
        let mut time = time(0, None, true, 2);
        time.on_rows(&id(0), Some(EventTime(10)), None);
        assert_eq!(time.watermark(), at(10));
        time.on_state(&id(0), SplitState::Finished);
        assert_eq!(time.watermark(), at(10));
    }

    #[test]
    fn only_a_caught_up_split_becomes_idle() {
        let mut time = time(0, Some(100), false, 2);
        time.on_rows(&id(0), Some(EventTime(10)), None);
        time.on_quiet(Duration::from_micros(1000));
        assert_eq!(time.watermark(), Watermark::At(EventTime::MIN));
        time.on_state(&id(1), SplitState::CaughtUp);
        assert_eq!(time.next_idle(), Some(Duration::from_micros(100)));
        time.on_quiet(Duration::from_micros(99));
        assert_eq!(time.watermark(), Watermark::At(EventTime::MIN));
        time.on_quiet(Duration::from_micros(1));
        assert_eq!(time.watermark(), at(10));
        time.on_rows(&id(1), Some(EventTime(2)), None);
        assert_eq!(time.watermark(), at(10), "its return takes nothing back");
    }

    #[test]
    fn a_table_that_is_read_anew_promises_nothing_until_it_is_there_and_then_everything() {
        let mut time = SourceTime::new(None).with_reloads(true);
        time.add(id(0), None);
        time.complete();
        time.on_rows(&id(0), None, None);
        time.on_quiet(Duration::from_secs(3600));
        assert_eq!(time.watermark(), Watermark::At(EventTime::MIN), "it is never idle");
        time.on_state(&id(0), SplitState::CaughtUp);
        assert!(time.has_loaded());
        assert_eq!(time.watermark(), Watermark::At(EventTime::MAX));
        time.on_rows(&id(0), None, None);
        assert_eq!(time.watermark(), Watermark::At(EventTime::MAX), "a refresh takes nothing back");
    }

    #[test]
    fn the_end_is_promised_only_when_nothing_more_can_be_found() {
        let mut time = time(0, None, false, 1);
        time.on_rows(&id(0), Some(EventTime::MAX), None);
        assert_eq!(time.watermark(), at(i64::MAX - 1));
        time.on_state(&id(0), SplitState::Finished);
        assert_eq!(time.watermark(), Watermark::Idle);
        time.complete();
        assert_eq!(time.watermark(), Watermark::At(EventTime::MAX));
    }

    #[test]
    fn a_suspended_end_promises_what_the_rows_did_and_no_more() {
        let mut time = time(3, None, false, 1).with_suspends(true);
        time.complete();
        time.on_rows(&id(0), Some(EventTime(10)), None);
        assert_eq!(time.watermark(), at(7));
        time.on_state(&id(0), SplitState::Finished);
        assert_eq!(time.watermark(), Watermark::Idle, "it holds nobody back and promises nothing more");
        time.add(id(1), None);
        time.on_rows(&id(1), Some(EventTime(30)), None);
        assert_eq!(time.watermark(), at(27), "the finished split does not hold the new one");
        assert_eq!(SourceTime::new(None).with_suspends(true).watermark(), Watermark::Idle, "nor does a task without splits end");
    }

    #[test]
    fn without_a_time_column_the_sources_own_promise_counts() {
        let mut time = SourceTime::new(None);
        time.add(id(0), None);
        time.on_rows(&id(0), Some(EventTime(50)), Some(EventTime(5)));
        assert_eq!(time.watermark(), at(5));
        time.on_rows(&id(0), None, Some(EventTime(3)));
        assert_eq!(time.watermark(), at(5));
    }

    #[test]
    fn a_split_promises_by_itself_what_its_rows_say() {
        let mut time = time(3, None, false, 2);
        time.on_rows(&id(0), Some(EventTime(10)), None);
        time.on_rows(&id(0), Some(EventTime(8)), None);
        assert_eq!((time.promised(&id(0)), time.promises(&id(0))), (EventTime::MIN, EventTime(7)), "a poll is judged whole");
        time.watermark();
        assert_eq!((time.promised(&id(0)), time.promised(&id(1))), (EventTime(7), EventTime::MIN));
        time.on_rows(&id(1), Some(EventTime::MAX), None);
        assert_eq!(time.promises(&id(1)), EventTime(i64::MAX - 1));
    }

    #[test]
    fn times_near_the_ends_saturate() {
        let mut time = time(1_000, None, false, 1);
        time.on_rows(&id(0), Some(EventTime(i64::MIN + 5)), None);
        assert_eq!(time.watermark(), Watermark::At(EventTime::MIN));
    }

    #[derive(Debug, Clone)]
    enum Doing {
        Rows(usize, Option<i64>),
        State(usize, SplitState),
        Quiet(u64),
    }

    fn doing() -> impl Strategy<Value = Doing> {
        let state = prop_oneof![Just(SplitState::Pending), Just(SplitState::CaughtUp), Just(SplitState::Finished)];
        prop_oneof![
            5 => (0usize..3, prop::option::of(-100i64..100)).prop_map(|(split, at)| Doing::Rows(split, at)),
            2 => (0usize..3, state).prop_map(|(split, state)| Doing::State(split, state)),
            2 => (0u64..80).prop_map(Doing::Quiet),
        ]
    }

    proptest! {
        /// Oracle: each split's history is replayed after every step.
        #[test]
        fn agrees_with_a_replay_of_the_history(
            script in prop::collection::vec(doing(), 0..60), disorder in 0u64..20, idle in prop::option::of(1u64..100), in_order: bool, complete: bool,
        ) {
            let mut time = time(disorder, idle, in_order, 3);
            if complete {
                time.complete();
            }
            let mut past: Vec<Doing> = Vec::new();
            let mut reached = i64::MIN;
            for doing in script {
                match &doing {
                    Doing::Rows(split, latest) => time.on_rows(&id(*split), latest.map(EventTime), None),
                    Doing::State(split, state) => time.on_state(&id(*split), *state),
                    Doing::Quiet(elapsed) => time.on_quiet(Duration::from_micros(*elapsed)),
                }
                past.push(doing);
                let mut live: BTreeMap<usize, Option<i64>> = BTreeMap::new();
                let mut finished = 0;
                for split in 0..3 {
                    let mut seen: Option<i64> = None;
                    let mut state = SplitState::Pending;
                    let mut quiet = 0;
                    for entry in &past {
                        match entry {
                            Doing::Rows(of, latest) if *of == split => {
                                seen = seen.max(*latest);
                                quiet = 0;
                                if state == SplitState::CaughtUp { state = SplitState::Pending; }
                            }
                            Doing::State(of, new) if *of == split => {
                                state = *new;
                                if state != SplitState::CaughtUp { quiet = 0; }
                            }
                            Doing::Quiet(elapsed) if state == SplitState::CaughtUp => quiet += elapsed,
                            Doing::Rows(..) | Doing::State(..) | Doing::Quiet(_) => {}
                        }
                    }
                    if state == SplitState::Finished {
                        finished += 1;
                    } else if state == SplitState::Pending || idle.is_none_or(|idle| quiet < idle) {
                        live.insert(split, seen);
                    }
                }
                let expected = if live.is_empty() {
                    if complete && finished == 3 { reached = i64::MAX; at(i64::MAX) } else { Watermark::Idle }
                } else {
                    let holding = live.values().any(|seen| seen.is_none()) && !in_order;
                    let lowest = live.values().flatten().min().map(|seen| seen - disorder as i64);
                    if !holding && let Some(lowest) = lowest { reached = reached.max(lowest); }
                    at(reached)
                };
                prop_assert_eq!(time.watermark(), expected);
            }
        }
    }
}

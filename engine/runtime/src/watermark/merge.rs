use tidegate_api::{EventTime, Watermark};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Input {
    At(EventTime),
    /// Out of the minimum until it speaks again; what it had promised holds.
    Idle(EventTime),
    /// Promised the end of time: it cannot hold anybody back, nor may it speak for inputs that are merely idle.
    Ended,
}

/// Merges the watermarks of a task's inputs: the minimum over those not idle, never moving back.
///
/// When the last of them becomes idle, the highest promise among them is said first. Which inputs had spoken when another became idle is
/// a matter of who reads what first, and differs from task to task: without that, one task would have fired what its neighbour, which
/// goes idle as well and holds nobody back any more, still keeps; a later stage would find it late.
#[derive(Debug, Clone)]
pub struct WatermarkMerge {
    inputs: Vec<Input>,
    said: Watermark,
    reached: EventTime,
    /// Something is still to be said.
    more: bool,
}

impl WatermarkMerge {
    /// Inputs that have promised nothing yet.
    pub fn new(inputs: usize) -> Self {
        WatermarkMerge {
            inputs: vec![Input::At(EventTime::MIN); inputs],
            said: Watermark::At(EventTime::MIN),
            reached: EventTime::MIN,
            more: false,
        }
    }

    /// What has been promised so far.
    pub fn reached(&self) -> EventTime {
        self.reached
    }

    /// Takes an input's watermark; answers what to say now, if that is new. [`WatermarkMerge::rest`] may have more to say.
    pub fn update(&mut self, input: usize, watermark: Watermark) -> Option<Watermark> {
        self.inputs[input] = match (self.inputs[input], watermark) {
            // The end of time is final: an input that has ended forwards barriers and nothing else.
            (Input::Ended, _) | (_, Watermark::At(EventTime::MAX)) => Input::Ended,
            (Input::At(before), Watermark::At(at)) => Input::At(before.max(at)),
            (Input::Idle(_), Watermark::At(at)) => Input::At(at),
            (Input::At(promised) | Input::Idle(promised), Watermark::Idle) => Input::Idle(promised),
        };
        self.say()
    }

    /// What is to be said after what was said last.
    pub fn rest(&mut self) -> Option<Watermark> {
        if self.more { self.say() } else { None }
    }

    fn say(&mut self) -> Option<Watermark> {
        self.more = false;
        let lowest = self.inputs.iter().filter_map(|state| match state {
            Input::At(at) => Some(*at),
            Input::Idle(_) | Input::Ended => None,
        });
        let promised = self.inputs.iter().filter_map(|state| match state {
            Input::Idle(at) => Some(*at),
            Input::At(_) | Input::Ended => None,
        });
        let now = match lowest.min() {
            Some(lowest) => Watermark::At(self.reached.max(lowest)),
            None if self.inputs.iter().all(|state| *state == Input::Ended) => Watermark::At(EventTime::MAX),
            None => match promised.max().filter(|highest| *highest > self.reached) {
                Some(highest) => {
                    self.more = true;
                    Watermark::At(highest)
                }
                None => Watermark::Idle,
            },
        };
        if now == self.said {
            return None;
        }
        self.said = now;
        if let Watermark::At(at) = now {
            self.reached = at;
        }
        Some(now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn at(time: i64) -> Watermark {
        Watermark::At(EventTime(time))
    }

    #[test]
    fn the_slowest_input_decides() {
        let mut merge = WatermarkMerge::new(2);
        assert_eq!(merge.update(0, at(10)), None);
        assert_eq!(merge.update(1, at(5)), Some(at(5)));
        assert_eq!(merge.update(1, at(20)), Some(at(10)));
    }

    #[test]
    fn an_idle_input_lets_the_others_go_on_and_its_return_takes_nothing_back() {
        let mut merge = WatermarkMerge::new(2);
        merge.update(0, at(10));
        assert_eq!(merge.update(1, Watermark::Idle), Some(at(10)));
        assert_eq!(merge.update(0, at(30)), Some(at(30)));
        assert_eq!(merge.update(1, at(20)), None);
        assert_eq!(merge.update(0, at(40)), None, "the returned input holds at 20, and 30 was promised");
        assert_eq!(merge.update(1, at(35)), Some(at(35)));
    }

    #[test]
    fn all_idle_is_idle_and_a_return_is_told() {
        let mut merge = WatermarkMerge::new(1);
        merge.update(0, at(10));
        assert_eq!(merge.update(0, Watermark::Idle), Some(Watermark::Idle));
        assert_eq!(merge.update(0, at(5)), Some(at(10)));
    }

    #[test]
    fn before_all_are_idle_the_highest_promise_is_said() {
        let mut merge = WatermarkMerge::new(2);
        merge.update(0, at(10));
        assert_eq!(merge.update(0, Watermark::Idle), None, "the other has promised nothing yet");
        assert_eq!(merge.update(1, Watermark::Idle), Some(at(10)), "as a task says that heard of the second input first");
        assert_eq!(merge.rest(), Some(Watermark::Idle));
        assert_eq!(merge.rest(), None);
    }

    #[test]
    fn an_ended_input_does_not_speak_for_an_idle_one() {
        let mut merge = WatermarkMerge::new(2);
        merge.update(0, Watermark::At(EventTime::MAX));
        assert_eq!(merge.update(1, Watermark::Idle), Some(Watermark::Idle));
        assert_eq!(merge.update(1, at(7)), Some(at(7)));
        assert_eq!(merge.update(1, Watermark::At(EventTime::MAX)), Some(Watermark::At(EventTime::MAX)));
    }

    fn watermark() -> impl Strategy<Value = Watermark> {
        prop_oneof![
            8 => (-50i64..50).prop_map(at),
            2 => Just(Watermark::Idle),
            1 => Just(Watermark::At(EventTime::MAX)),
        ]
    }

    proptest! {
        /// Oracle: recompute from each input's history after every update.
        #[test]
        fn agrees_with_a_merge_that_recomputes_from_the_history(script in prop::collection::vec((0usize..3, watermark()), 0..60)) {
            let mut merge = WatermarkMerge::new(3);
            let mut history: Vec<Vec<Watermark>> = vec![vec![at(i64::MIN)]; 3];
            let mut said = at(i64::MIN);
            let mut best = i64::MIN;
            for (input, watermark) in script {
                history[input].push(watermark);
                // An input's own promise: the highest since it was last idle; ended for good once it said the end.
                let own: Vec<Option<i64>> = history.iter().map(|past| {
                    if past.contains(&at(i64::MAX)) {
                        return Some(i64::MAX);
                    }
                    let since_idle = past.iter().rev().take_while(|entry| **entry != Watermark::Idle);
                    since_idle.map(|entry| match entry { Watermark::At(time) => time.0, Watermark::Idle => unreachable!() }).max()
                }).collect();
                let live = own.iter().flatten().copied().filter(|time| *time != i64::MAX).min();
                // An idle input's last promise: the highest between its last two silences.
                let asleep = history.iter().filter(|past| past.last() == Some(&Watermark::Idle) && !past.contains(&at(i64::MAX)));
                let promised = asleep.map(|past| {
                    let awake = past.iter().rev().skip_while(|entry| **entry == Watermark::Idle);
                    let awake = awake.take_while(|entry| **entry != Watermark::Idle);
                    awake.map(|entry| match entry { Watermark::At(time) => time.0, Watermark::Idle => unreachable!() }).max().unwrap()
                });
                let expected: Vec<Watermark> = match live {
                    Some(lowest) => { best = best.max(lowest); vec![at(best)] }
                    None if own.iter().all(Option::is_some) => vec![at(i64::MAX)],
                    None => match promised.max().filter(|highest| *highest > best) {
                        Some(highest) => { best = highest; vec![at(best), Watermark::Idle] }
                        None => vec![Watermark::Idle],
                    },
                };
                let got: Vec<Watermark> = merge.update(input, watermark).into_iter().chain(std::iter::from_fn(|| merge.rest())).collect();
                let new: Vec<Watermark> = expected.iter().copied().filter(|expected| *expected != said).collect();
                prop_assert_eq!(got, new);
                said = *expected.last().unwrap();
            }
        }
    }
}

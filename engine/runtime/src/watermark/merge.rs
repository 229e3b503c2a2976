use tidegate_api::{EventTime, Watermark};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Input {
    At(EventTime),
    /// Out of the minimum until it speaks again.
    Idle,
    /// Promised the end of time: it cannot hold anybody back, nor may it speak for inputs that are merely idle.
    Ended,
}

/// Merges the watermarks of a task's inputs: the minimum over those not idle, never moving back.
#[derive(Debug, Clone)]
pub struct WatermarkMerge {
    inputs: Vec<Input>,
    said: Watermark,
    reached: EventTime,
}

impl WatermarkMerge {
    /// Inputs that have promised nothing yet.
    pub fn new(inputs: usize) -> Self {
        WatermarkMerge { inputs: vec![Input::At(EventTime::MIN); inputs], said: Watermark::At(EventTime::MIN), reached: EventTime::MIN }
    }

    /// What has been promised so far.
    pub fn reached(&self) -> EventTime {
        self.reached
    }

    /// Takes an input's watermark; answers what to say now, if that is new.
    pub fn update(&mut self, input: usize, watermark: Watermark) -> Option<Watermark> {
        self.inputs[input] = match (self.inputs[input], watermark) {
            // The end of time is final: an input that has ended forwards barriers and nothing else.
            (Input::Ended, _) | (_, Watermark::At(EventTime::MAX)) => Input::Ended,
            (Input::At(before), Watermark::At(at)) => Input::At(before.max(at)),
            (Input::Idle, Watermark::At(at)) => Input::At(at),
            (_, Watermark::Idle) => Input::Idle,
        };
        let lowest = self.inputs.iter().filter_map(|state| match state {
            Input::At(at) => Some(*at),
            Input::Idle | Input::Ended => None,
        });
        let now = match lowest.min() {
            Some(lowest) => Watermark::At(self.reached.max(lowest)),
            None if self.inputs.iter().all(|state| *state == Input::Ended) => Watermark::At(EventTime::MAX),
            None => Watermark::Idle,
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
                let expected = match live {
                    Some(lowest) => { best = best.max(lowest); at(best) }
                    None if own.iter().all(Option::is_some) => at(i64::MAX),
                    None => Watermark::Idle,
                };
                let got = merge.update(input, watermark);
                prop_assert_eq!(got, (expected != said).then_some(expected));
                said = expected;
            }
        }
    }
}

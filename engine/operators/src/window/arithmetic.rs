//! Window arithmetic: pure, in milliseconds, on a grid aligned to the epoch plus an offset.
//!
//! A window is half-open, `size` long, and starts every `slide`; cumulating windows start every `size`, and end every `step`
//! until the next ones start. A pane is the largest slice that every window is made of wholly: a row belongs to one pane, a
//! pane to `size / slide` windows or one more or less.

use super::calendar::Grid;
use tidegate_api::TimeScale;

/// Sizes and offsets stay below this, so that no sum in here overflows.
pub(crate) const LONGEST_MS: i64 = 100 * 366 * 86_400_000;
/// Event times beyond this many milliseconds from 1970 have no microseconds in 64 bits, or windows that reach that far.
const FARTHEST_MS: i64 = i64::MAX / 1000 - 4 * LONGEST_MS;

/// Whether a time has windows and sessions whose bounds can be told.
pub(crate) fn within_reach(millis: i64) -> bool {
    (-FARTHEST_MS..=FARTHEST_MS).contains(&millis)
}

/// The windows of a stage.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Windows {
    size: i64,
    slide: i64,
    offset: i64,
    pane: i64,
    /// How far apart windows end.
    every: i64,
}

impl Windows {
    /// Windows of `size` every `slide`, moved by `offset`. `0 < slide <= size <= LONGEST_MS`.
    pub(crate) fn new(size: i64, slide: i64, offset: i64) -> Self {
        debug_assert!(0 < slide && slide <= size && size <= LONGEST_MS);
        Windows { size, slide, offset: offset.rem_euclid(slide), pane: gcd(size, slide), every: slide }
    }

    /// Windows that start every `size` and grow by `step`, which divides it.
    pub(crate) fn cumulating(size: i64, step: i64, offset: i64) -> Self {
        debug_assert!(0 < step && step <= size && size <= LONGEST_MS && size % step == 0);
        Windows { size, slide: size, offset: offset.rem_euclid(size), pane: step, every: step }
    }

    /// Whether they grow.
    fn grow(self) -> bool {
        self.every < self.slide
    }

    /// How long a window is at most.
    pub(crate) fn size(self) -> i64 {
        self.size
    }

    /// When the window began that ends at `end`.
    pub(crate) fn start_of(self, end: i64) -> i64 {
        if self.grow() { self.start_at_or_before(end - 1) } else { end - self.size }
    }

    /// Whether windows do not overlap, so that a pane is a window.
    pub(crate) fn tumbling(self) -> bool {
        self.size == self.pane
    }

    /// The start of the pane of a time, unless the time is too far from 1970.
    pub(crate) fn pane_of(self, millis: i64) -> Option<i64> {
        within_reach(millis).then(|| millis - (millis - self.offset).rem_euclid(self.pane))
    }

    /// One past the last millisecond of a pane.
    pub(crate) fn pane_end(self, pane: i64) -> i64 {
        pane + self.pane
    }

    /// The end of the earliest window that contains a pane.
    pub(crate) fn first_end(self, pane: i64) -> i64 {
        if self.grow() { self.pane_end(pane) } else { self.start_at_or_after(pane + self.pane - self.size) + self.size }
    }

    /// The end of the latest window that contains a pane.
    pub(crate) fn last_end(self, pane: i64) -> i64 {
        self.start_at_or_before(pane) + self.size
    }

    /// The end of the earliest window that ends after `millis`.
    pub(crate) fn end_after(self, millis: i64) -> i64 {
        let millis = millis.clamp(-FARTHEST_MS - LONGEST_MS, FARTHEST_MS + 2 * LONGEST_MS);
        if self.grow() {
            return millis - (millis - self.offset).rem_euclid(self.every) + self.every;
        }
        self.start_at_or_before(millis - self.size) + self.slide + self.size
    }

    /// The start of the earliest window that ends after `millis`.
    pub(crate) fn open_start(self, millis: i64) -> i64 {
        self.start_of(self.end_after(millis))
    }

    fn start_at_or_before(self, millis: i64) -> i64 {
        millis - (millis - self.offset).rem_euclid(self.slide)
    }

    fn start_at_or_after(self, millis: i64) -> i64 {
        self.start_at_or_before(millis + self.slide - 1)
    }
}

fn gcd(a: i64, b: i64) -> i64 {
    if b == 0 { a } else { gcd(b, a % b) }
}

/// The unit of a time column against milliseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Unit {
    /// One of the column's units is this many milliseconds.
    Coarse(i64),
    /// This many of the column's units are a millisecond.
    Fine(i64),
}

impl Unit {
    /// The unit behind a scale to microseconds.
    pub(crate) fn of(scale: TimeScale) -> Self {
        match scale {
            TimeScale::Times(micros) if micros >= 1000 => Unit::Coarse(micros / 1000),
            TimeScale::Times(micros) => Unit::Fine(1000 / micros.max(1)),
            TimeScale::Over(divisor) => Unit::Fine(divisor.saturating_mul(1000)),
        }
    }

    /// A value in milliseconds, rounded towards the past.
    pub(crate) fn millis(self, raw: i64) -> i64 {
        match self {
            Unit::Coarse(factor) => raw.saturating_mul(factor),
            Unit::Fine(divisor) => raw.div_euclid(divisor),
        }
    }

    /// The first value that is not before `millis`.
    pub(crate) fn first_raw(self, millis: i64) -> i64 {
        match self {
            Unit::Coarse(factor) => millis.div_euclid(factor) + i64::from(millis.rem_euclid(factor) != 0),
            Unit::Fine(divisor) => millis.saturating_mul(divisor),
        }
    }
}

/// Neighbouring rows of one pane.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Run {
    /// The pane's start.
    pub(crate) pane: i64,
    /// The first row.
    pub(crate) from: usize,
    /// One past the last row.
    pub(crate) to: usize,
}

/// Cuts a time column into runs. `far` gets the rows whose time no pane can hold.
pub(crate) fn runs(times: &[i64], unit: Unit, grid: &Grid, runs: &mut Vec<Run>, far: &mut Vec<usize>) {
    runs.clear();
    far.clear();
    let mut row = 0;
    while row < times.len() {
        let Some(pane) = grid.pane_of(unit.millis(times[row])) else {
            far.push(row);
            row += 1;
            continue;
        };
        let lowest = unit.first_raw(grid.moment(pane));
        let width = unit.first_raw(grid.moment(grid.windows.pane_end(pane))).wrapping_sub(lowest) as u64;
        let length = times[row + 1..].iter().take_while(|time| (time.wrapping_sub(lowest) as u64) < width).count();
        runs.push(Run { pane, from: row, to: row + 1 + length });
        row += 1 + length;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Every window that contains a time, by trying all starts nearby.
    fn containing(windows: Windows, millis: i64) -> Vec<i64> {
        let first = (millis - windows.size - windows.slide).div_euclid(windows.slide) - 1;
        (first..)
            .map(|index| index * windows.slide + windows.offset)
            .take_while(|start| *start <= millis)
            .filter(|start| millis < start + windows.size)
            .collect()
    }

    proptest! {
        #[test]
        fn a_pane_lies_in_the_windows_of_each_of_its_rows(size in 1i64..60, part in 1i64..60, offset in -100i64..100, millis in -500i64..500) {
            let windows = Windows::new(size, part.min(size), offset);
            let pane = windows.pane_of(millis).unwrap();
            prop_assert!(pane <= millis && millis < windows.pane_end(pane));
            let starts = containing(windows, millis);
            prop_assert_eq!(windows.first_end(pane), starts[0] + size);
            prop_assert_eq!(windows.last_end(pane), starts[starts.len() - 1] + size);
            prop_assert_eq!(containing(windows, pane), starts);
        }

        #[test]
        fn the_next_end_is_the_first_one_after(size in 1i64..60, part in 1i64..60, offset in -100i64..100, millis in -500i64..500) {
            let windows = Windows::new(size, part.min(size), offset);
            let end = windows.end_after(millis);
            prop_assert!(end > millis && end - windows.slide <= millis);
            prop_assert_eq!((end - size - offset).rem_euclid(windows.slide), 0);
        }

        #[test]
        fn growing_windows_end_every_step_and_start_together(step in 1i64..30, steps in 1i64..9, offset in -100i64..100, millis in -500i64..500) {
            let windows = Windows::cumulating(step * steps, step, offset);
            let pane = windows.pane_of(millis).unwrap();
            let start = millis - (millis - offset).rem_euclid(step * steps);
            prop_assert!(start <= pane && pane <= millis && millis < windows.pane_end(pane));
            prop_assert_eq!(windows.last_end(pane), start + step * steps);
            let ends: Vec<i64> = (1..=steps).map(|n| start + n * step).filter(|end| *end > millis).collect();
            prop_assert_eq!(windows.first_end(pane), ends[0]);
            prop_assert_eq!(windows.end_after(millis), ends[0]);
            for end in ends {
                prop_assert_eq!(windows.start_of(end), start);
            }
            prop_assert_eq!(windows.open_start(millis), start);
        }

        #[test]
        fn runs_cover_every_row_once_in_its_pane(times in prop::collection::vec(prop_oneof![-5000i64..5000, any::<i64>()], 0..60), unit in 0usize..4, size in 1i64..3000) {
            let unit = [Unit::Coarse(1000), Unit::Coarse(1), Unit::Fine(1000), Unit::Fine(1_000_000)][unit];
            let windows = Windows::new(size, size, 7);
            let (mut made, mut far) = (Vec::new(), Vec::new());
            runs(&times, unit, &Grid::new(windows, None), &mut made, &mut far);
            let mut seen = vec![0; times.len()];
            far.iter().for_each(|row| seen[*row] += 1);
            for run in made {
                seen[run.from..run.to].iter_mut().for_each(|times| *times += 1);
                for time in &times[run.from..run.to] {
                    prop_assert_eq!(windows.pane_of(unit.millis(*time)), Some(run.pane));
                }
            }
            prop_assert!(seen.iter().all(|times| *times == 1));
        }
    }

    #[test]
    fn a_millisecond_before_1970_lies_in_the_window_before_it() {
        let windows = Windows::new(5000, 5000, 0);
        assert_eq!(windows.pane_of(-1), Some(-5000));
        assert_eq!(windows.pane_of(0), Some(0));
        assert_eq!(Unit::Fine(1000).millis(-1), -1);
    }

    #[test]
    fn times_at_the_ends_of_the_range_are_told_apart() {
        let windows = Windows::new(LONGEST_MS, 1, 0);
        assert_eq!(windows.pane_of(i64::MAX), None);
        assert_eq!(windows.pane_of(i64::MIN), None);
        for millis in [FARTHEST_MS, -FARTHEST_MS] {
            let pane = windows.pane_of(millis).unwrap();
            assert!(windows.first_end(pane) <= windows.last_end(pane));
        }
        assert!(windows.end_after(i64::MAX) > FARTHEST_MS);
        assert!(windows.end_after(i64::MIN) < -FARTHEST_MS + LONGEST_MS);
    }
}

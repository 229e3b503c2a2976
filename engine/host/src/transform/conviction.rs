//! How many rows a transform may trap on before the run ends.

use std::collections::VecDeque;

/// The rows that are looked back on.
const WINDOW: u64 = 100_000;

/// Convicted rows among the last 100,000.
#[derive(Debug, Default)]
pub(super) struct Convictions {
    batches: VecDeque<(u64, u64)>,
    rows: u64,
    convicted: u64,
}

impl Convictions {
    /// Adds a batch; whether more than `ratio` of the window is convicted by now. A short run is measured against a full window,
    /// so that its first bad row does not end it.
    pub(super) fn exceed(&mut self, rows: u64, convicted: u64, ratio: f64) -> bool {
        self.batches.push_back((rows, convicted));
        self.rows += rows;
        self.convicted += convicted;
        while let Some((oldest, _)) = self.batches.front()
            && self.rows - oldest >= WINDOW
        {
            if let Some((rows, convicted)) = self.batches.pop_front() {
                self.rows -= rows;
                self.convicted -= convicted;
            }
        }
        self.convicted as f64 > ratio * WINDOW as f64
    }

    /// Convicted rows in the window.
    pub(super) fn convicted(&self) -> u64 {
        self.convicted
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn old_batches_leave_the_window() {
        let mut convictions = Convictions::default();
        for _ in 0..1000 {
            assert!(!convictions.exceed(1000, 10, 0.01), "exactly one percent is allowed");
        }
        assert_eq!(convictions.convicted(), 1000);
        assert!(convictions.exceed(1000, 11, 0.01));
    }

    #[test]
    fn the_first_row_of_a_run_does_not_end_it() {
        assert!(!Convictions::default().exceed(1, 1, 0.01));
    }
}

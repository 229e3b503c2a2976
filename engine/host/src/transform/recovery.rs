//! What happens after a trap: retry once, then bisect, within a budget.
//!
//! A row is convicted when it traps alone, twice. If in the end no row is, the batch was too large.

use crate::fault::Failure;
use std::ops::Range;
use std::time::Duration;
use tidegate_api::{Error, Result};

/// Calls beyond the first one that a batch may cost.
const EXTRA_CALLS: u32 = 32;

/// The guest, as far as recovery needs it. After a failed call by trap the next call finds a new instance.
pub(super) trait Attempt {
    /// What the guest makes of some rows.
    type Answer;

    /// Hands over rows of the batch.
    fn attempt(&mut self, rows: Range<usize>) -> Result<Self::Answer, Failure>;

    /// Time on any clock, to measure the budget.
    fn elapsed(&self) -> Duration;
}

/// What became of a part of the batch; parts come in order and cover it once.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Part<A> {
    /// The guest's answer for these rows.
    Answered(Range<usize>, A),
    /// The guest traps on this row alone; the words of the trap.
    Convicted(usize, String),
}

/// What a batch became.
#[derive(Debug)]
pub(super) struct Outcome<A> {
    pub(super) parts: Vec<Part<A>>,
    /// The whole trapped, twice, and all its parts passed.
    pub(super) too_large: bool,
}

/// Runs a batch. `deadline` is that of one call; two of them are the time a batch may cost after its first trap.
pub(super) fn run<G: Attempt>(guest: &mut G, rows: Range<usize>, deadline: Duration) -> Result<Outcome<G::Answer>> {
    let mut run = Run {
        calls: 0,
        until: guest.elapsed().saturating_add(deadline.saturating_mul(2)),
        parts: Vec::new(),
        convicted: 0,
        guest,
        all: rows.len(),
    };
    let whole = match run.guest.attempt(rows.clone()) {
        Ok(answer) => {
            let parts = vec![Part::Answered(rows, answer)];
            return Ok(Outcome { parts, too_large: false });
        }
        Err(Failure::Fault(error)) => return Err(error),
        Err(Failure::Trap(error)) => error,
    };
    tracing::warn!(error = %whole, rows = rows.len(), "a transform trapped and gets its batch again");
    let too_large = match run.extra(&rows, &whole)? {
        Ok(()) => false,
        Err(again) => {
            run.split(rows, again)?;
            run.convicted == 0
        }
    };
    Ok(Outcome { parts: run.parts, too_large })
}

struct Run<'a, G: Attempt> {
    guest: &'a mut G,
    calls: u32,
    until: Duration,
    parts: Vec<Part<G::Answer>>,
    convicted: usize,
    all: usize,
}

impl<G: Attempt> Run<'_, G> {
    /// One more call, if the budget has it; the inner error is its trap. `last` is the trap that made it necessary.
    fn extra(&mut self, rows: &Range<usize>, last: &Error) -> Result<Result<(), Error>> {
        let spent = if self.calls == EXTRA_CALLS {
            Some(format!("after {EXTRA_CALLS} more calls"))
        } else {
            (self.guest.elapsed() >= self.until).then(|| "after two deadlines of time".to_string())
        };
        if let Some(spent) = spent {
            let convicted = if self.convicted == 0 { String::new() } else { format!(", with {} rows found guilty", self.convicted) };
            let message = format!("a batch of {} rows was given up {spent}{convicted}; use a mended build of the plugin", self.all);
            return Err(Error::new(last.kind(), format!("{message}; the last trap was: {last}")));
        }
        self.calls += 1;
        match self.guest.attempt(rows.clone()) {
            Ok(answer) => {
                self.parts.push(Part::Answered(rows.clone(), answer));
                Ok(Ok(()))
            }
            Err(Failure::Fault(error)) => Err(error),
            Err(Failure::Trap(error)) => Ok(Err(error)),
        }
    }

    /// Finds the guilty among rows that trapped together. `trap` is what they trapped with; a single row has trapped alone, twice.
    fn split(&mut self, rows: Range<usize>, trap: Error) -> Result<()> {
        if rows.len() <= 1 {
            self.convicted += 1;
            self.parts.push(Part::Convicted(rows.start, trap.to_string()));
            return Ok(());
        }
        let middle = rows.start + rows.len() / 2;
        let left_passed = self.part(rows.start..middle, &trap)?;
        let right = middle..rows.end;
        if left_passed && right.len() > 1 {
            // It must be the right half: calling it whole would only tell what is known.
            self.split(right, trap)
        } else {
            self.part(right, &trap).map(drop)
        }
    }

    /// Calls a part and splits it if it traps; whether it passed at once.
    fn part(&mut self, rows: Range<usize>, last: &Error) -> Result<bool> {
        let Err(trap) = self.extra(&rows, last)? else { return Ok(true) };
        if rows.len() > 1 {
            self.split(rows, trap)?;
            return Ok(false);
        }
        match self.extra(&rows, &trap)? {
            Ok(()) => {}
            Err(again) => self.split(rows, again)?,
        }
        Ok(false)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;
    use tidegate_api::ErrorKind;

    /// Traps on poisoned rows, on batches over a size, and a number of times for no reason.
    #[derive(Default)]
    struct Fake {
        poison: BTreeSet<usize>,
        largest: Option<usize>,
        flukes: usize,
        calls: usize,
        now: Duration,
        trap_costs: Duration,
    }

    impl Attempt for Fake {
        type Answer = Vec<usize>;

        fn attempt(&mut self, rows: Range<usize>) -> Result<Vec<usize>, Failure> {
            self.calls += 1;
            let fluke = self.flukes > 0;
            self.flukes = self.flukes.saturating_sub(1);
            if fluke || self.poison.range(rows.clone()).next().is_some() || self.largest.is_some_and(|largest| rows.len() > largest) {
                self.now += self.trap_costs;
                return Err(Failure::Trap(Error::external("trap")));
            }
            Ok(rows.collect())
        }

        fn elapsed(&self) -> Duration {
            self.now
        }
    }

    fn judge(fake: &mut Fake, rows: usize) -> Result<(Vec<usize>, Vec<usize>, bool)> {
        let outcome = run(fake, 0..rows, Duration::from_secs(10))?;
        let (mut answered, mut convicted, mut next) = (Vec::new(), Vec::new(), 0);
        for part in outcome.parts {
            match part {
                Part::Answered(range, answer) => {
                    assert_eq!(range.start, next, "parts come in order");
                    assert_eq!(answer, range.clone().collect::<Vec<_>>());
                    next = range.end;
                    answered.extend(answer);
                }
                Part::Convicted(row, _) => {
                    assert_eq!(row, next, "parts come in order");
                    next = row + 1;
                    convicted.push(row);
                }
            }
        }
        assert_eq!(next, rows, "parts cover the batch");
        Ok((answered, convicted, outcome.too_large))
    }

    #[test]
    fn any_single_poisoned_row_of_any_batch_is_found_within_the_budget() {
        for rows in [1, 2, 3, 7, 100, 8192] {
            for poison in [0, rows / 3, rows / 2, rows - 1] {
                let mut fake = Fake { poison: [poison].into(), ..Fake::default() };
                let (answered, convicted, too_large) = judge(&mut fake, rows).unwrap();
                assert_eq!((convicted, too_large), (vec![poison], false));
                assert_eq!(answered.len(), rows - 1);
            }
        }
    }

    #[test]
    fn a_trap_that_does_not_come_again_costs_one_call() {
        let mut fake = Fake { flukes: 1, ..Fake::default() };
        let (answered, convicted, too_large) = judge(&mut fake, 100).unwrap();
        assert_eq!((answered.len(), convicted.len(), too_large, fake.calls), (100, 0, false, 2));
    }

    #[test]
    fn a_batch_that_is_too_large_convicts_nobody() {
        let mut fake = Fake { largest: Some(1000), ..Fake::default() };
        let (answered, convicted, too_large) = judge(&mut fake, 4000).unwrap();
        assert_eq!((answered.len(), convicted.len(), too_large), (4000, 0, true));
    }

    #[test]
    fn many_poisoned_rows_end_the_batch_by_calls() {
        let mut fake = Fake { poison: (0..4096).step_by(2).collect(), ..Fake::default() };
        let error = judge(&mut fake, 4096).unwrap_err();
        assert!(matches!(error.kind(), ErrorKind::External { .. }));
        assert!(error.message().contains("32 more calls"), "{error}");
        assert_eq!(fake.calls, 33);
    }

    #[test]
    fn slow_traps_end_the_batch_by_time() {
        let mut fake = Fake { poison: [5].into(), trap_costs: Duration::from_secs(10), ..Fake::default() };
        let error = judge(&mut fake, 4096).unwrap_err();
        assert!(error.message().contains("two deadlines"), "{error}");
        assert_eq!(fake.calls, 2);
    }
}

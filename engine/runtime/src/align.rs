//! Alignment: when the barrier of an epoch has arrived on every input.
//!
//! A pure machine. It holds inputs, not messages: from its barrier until the others' an input is not read. An input that has
//! ended counts as arrived, and an input that ends may be the one that completes a barrier.

use tidegate_api::{Barrier, Error, Result};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Input {
    Open,
    Arrived,
    Closed,
}

/// What an arrival means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Aligned {
    /// Read on; held inputs excepted.
    Waiting,
    /// The barrier has arrived everywhere. No input may be read before [`Alignment::release`].
    Complete(Barrier),
    /// Every input has ended and no barrier is pending.
    Ended,
}

/// The state of one task's inputs.
#[derive(Debug, Clone)]
pub(crate) struct Alignment {
    inputs: Vec<Input>,
    pending: Option<Barrier>,
    complete: bool,
}

impl Alignment {
    /// All inputs open.
    pub(crate) fn new(inputs: usize) -> Self {
        Alignment { inputs: vec![Input::Open; inputs], pending: None, complete: false }
    }

    /// Whether this input may be read.
    pub(crate) fn may_read(&self, input: usize) -> bool {
        !self.complete && self.inputs[input] == Input::Open
    }

    /// Whether this input has brought its barrier and waits for the others'.
    pub(crate) fn is_held(&self, input: usize) -> bool {
        !self.complete && self.inputs[input] == Input::Arrived
    }

    /// Whether a barrier has arrived on some input and not on all.
    pub(crate) fn is_pending(&self) -> bool {
        self.pending.is_some()
    }

    /// Whether every input has ended.
    pub(crate) fn all_closed(&self) -> bool {
        self.inputs.iter().all(|state| *state == Input::Closed)
    }

    /// A barrier arrived on an input.
    ///
    /// # Errors
    /// `Internal` if it is not the barrier that the others are waiting for, or the input may not be read.
    pub(crate) fn on_barrier(&mut self, input: usize, barrier: Barrier) -> Result<Aligned> {
        if !self.may_read(input) {
            return Err(Error::internal(format!("a barrier of epoch {} came from input {input}, which is held or ended", barrier.epoch)));
        }
        match self.pending {
            Some(pending) if pending != barrier => {
                Err(Error::internal(format!("input {input} brought the barrier {barrier:?} while the others wait for {pending:?}")))
            }
            Some(_) | None => {
                self.pending = Some(barrier);
                self.inputs[input] = Input::Arrived;
                Ok(self.check())
            }
        }
    }

    /// An input ended.
    ///
    /// # Errors
    /// `Internal` if it may not be read.
    pub(crate) fn on_end(&mut self, input: usize) -> Result<Aligned> {
        if !self.may_read(input) {
            return Err(Error::internal(format!("input {input} ended while held, or twice")));
        }
        self.inputs[input] = Input::Closed;
        Ok(self.check())
    }

    /// The completed barrier has been dealt with: held inputs may be read again.
    pub(crate) fn release(&mut self) -> Aligned {
        self.complete = false;
        self.pending = None;
        for input in &mut self.inputs {
            if *input == Input::Arrived {
                *input = Input::Open;
            }
        }
        if self.all_closed() { Aligned::Ended } else { Aligned::Waiting }
    }

    fn check(&mut self) -> Aligned {
        if self.inputs.contains(&Input::Open) {
            return Aligned::Waiting;
        }
        match self.pending {
            Some(barrier) => {
                self.complete = true;
                Aligned::Complete(barrier)
            }
            None => Aligned::Ended,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use tidegate_api::{BarrierKind, Epoch, EventTime};

    fn barrier(epoch: u64) -> Barrier {
        Barrier { epoch: Epoch(epoch), kind: BarrierKind::Checkpoint, now: EventTime(0) }
    }

    #[test]
    fn a_held_input_is_not_read_until_the_barrier_is_complete() {
        let mut align = Alignment::new(2);
        assert_eq!(align.on_barrier(0, barrier(1)).unwrap(), Aligned::Waiting);
        assert!(!align.may_read(0) && align.may_read(1));
        assert_eq!(align.on_barrier(1, barrier(1)).unwrap(), Aligned::Complete(barrier(1)));
        assert!(!align.may_read(0) && !align.may_read(1));
        assert_eq!(align.release(), Aligned::Waiting);
        assert!(align.may_read(0) && align.may_read(1));
    }

    #[test]
    fn a_closing_input_may_complete_a_barrier() {
        let mut align = Alignment::new(2);
        align.on_barrier(0, barrier(1)).unwrap();
        assert_eq!(align.on_end(1).unwrap(), Aligned::Complete(barrier(1)));
        align.release();
        assert_eq!(align.on_barrier(0, barrier(2)).unwrap(), Aligned::Complete(barrier(2)));
        align.release();
        assert_eq!(align.on_end(0).unwrap(), Aligned::Ended);
    }

    #[test]
    fn a_barrier_of_another_epoch_is_refused() {
        let mut align = Alignment::new(2);
        align.on_barrier(0, barrier(1)).unwrap();
        assert!(align.on_barrier(1, barrier(2)).is_err());
    }

    #[derive(Debug, Clone, Copy)]
    enum Script {
        Barriers(u64),
    }

    proptest! {
        /// Oracle: each input carries barriers 1..=n and then ends. Whatever the order of reading, epoch e completes exactly
        /// when every input has brought e or has ended, in order, and the end comes last.
        #[test]
        fn epochs_complete_in_order_and_exactly_when_all_arrived(
            counts in prop::collection::vec(0u64..5, 1..5),
            picks in prop::collection::vec(0usize..64, 0..400),
        ) {
            let scripts: Vec<Script> = counts.iter().map(|count| Script::Barriers(*count)).collect();
            let mut read = vec![0u64; scripts.len()];
            let mut align = Alignment::new(scripts.len());
            let mut completed = 0;
            let mut ended = false;
            let drain = picks.iter().copied().chain((0..64).cycle().take(64 * 64));
            for pick in drain {
                let open: Vec<usize> = (0..scripts.len()).filter(|input| align.may_read(*input)).collect();
                if open.is_empty() {
                    break;
                }
                let input = open[pick % open.len()];
                let Script::Barriers(count) = scripts[input];
                read[input] += 1;
                let answer = if read[input] <= count { align.on_barrier(input, barrier(read[input])) } else { align.on_end(input) }.unwrap();
                let all_at = |epoch: u64| (0..scripts.len()).all(|at| {
                    let Script::Barriers(count) = scripts[at];
                    read[at] >= epoch.min(count + 1)
                });
                match answer {
                    Aligned::Complete(at) => {
                        prop_assert_eq!(at.epoch.0, completed + 1);
                        prop_assert!(all_at(at.epoch.0));
                        completed += 1;
                        ended = align.release() == Aligned::Ended;
                    }
                    Aligned::Ended => ended = true,
                    Aligned::Waiting => {
                        let next = completed + 1;
                        let longest = counts.iter().max().copied().unwrap_or(0);
                        prop_assert!(next > longest || !all_at(next) );
                    }
                }
            }
            prop_assert!(ended);
            prop_assert_eq!(completed, counts.iter().max().copied().unwrap_or(0));
        }
    }
}

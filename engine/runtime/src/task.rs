//! Tasks: sources, operators and sinks as state machines.
//!
//! A task's `step` does a bounded piece of work and never waits for another task; what it could not finish for want of room or
//! rows it remembers and goes on with in a later step. Whoever steps it (a thread, or the simulator) learns from the [`Turn`] when to
//! step again. A task talks to the coordinator through [`Report`]s, and source tasks listen to its [`Command`]s.

pub(crate) mod operator;
mod retry;
pub(crate) mod sink;
pub(crate) mod source;
#[cfg(test)]
mod tests;

use crate::signal::Signal;
use crossbeam_channel::Sender;
use std::sync::Arc;
use std::time::Duration;
use tidegate_api::{Barrier, Clock, Epoch, Error, Position, Result, Split, SplitId};
use tidegate_epochs::TaskSnapshot;

/// What a step came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Turn {
    /// Something was done; step again.
    Progress,
    /// There is nothing to do before the signal rises or this time on the monotonic clock has come.
    Starved { until: Option<Duration> },
    /// Output waits for room; the signal rises when there is some.
    Backpressured,
    /// The task has ended.
    Done,
}

/// A part of a job that is stepped.
pub(crate) trait Task: Send {
    /// Does a bounded piece of work. The first step opens the task, on the thread that will run it.
    ///
    /// # Errors
    /// Any ends the attempt; the task is not stepped again.
    fn step(&mut self) -> Result<Turn>;
}

/// What every task has.
#[derive(Clone)]
pub(crate) struct Seat {
    /// Its number among all tasks, by which the epoch machine knows it.
    pub(crate) number: usize,
    /// For errors and logs, such as ``task 1 of `hourly` ``.
    pub(crate) name: String,
    /// The id of its node.
    pub(crate) node: String,
    /// Which of the node's tasks it is.
    pub(crate) task: usize,
    /// Raised when there may be something to do.
    pub(crate) signal: Signal,
    /// To the coordinator.
    pub(crate) reports: Reports,
    /// The only clock.
    pub(crate) clock: Arc<dyn Clock>,
}

/// What a task tells the coordinator.
#[derive(Debug)]
pub(crate) enum Report {
    /// It is open (and restored) and could begin.
    Opened,
    /// It has forwarded the epoch's barrier; this is what belongs to the epoch.
    Acknowledged { epoch: Epoch, snapshot: Box<TaskSnapshot> },
    /// A source task has read all its splits to their end, and no more will come.
    SourceEnded,
    /// It failed.
    Failed(Error),
    /// It has ended, or was told to stop.
    Exited,
}

/// The way to the coordinator.
#[derive(Clone)]
pub(crate) struct Reports {
    channel: Sender<(usize, Report)>,
    coordinator: Signal,
}

impl Reports {
    pub(crate) fn new(channel: Sender<(usize, Report)>, coordinator: Signal) -> Self {
        Reports { channel, coordinator }
    }

    /// Tells the coordinator something about a task. If it is gone, nobody needs to know any more.
    pub(crate) fn send(&self, task: usize, report: Report) {
        let _ = self.channel.send((task, report));
        self.coordinator.raise();
    }
}

impl Seat {
    pub(crate) fn report(&self, report: Report) {
        self.reports.send(self.number, report);
    }
}

/// What the coordinator tells a source task.
#[derive(Debug)]
pub(crate) enum Command {
    /// Every task is open: begin.
    Start,
    /// Send this barrier behind what was sent so far.
    Barrier(Barrier),
    /// Read these splits too.
    Assign(Vec<Split>),
    /// These splits are finished in a durable manifest, and nobody asks for them any more.
    Forget(Vec<SplitId>),
    /// No further splits will come.
    Complete,
    /// These positions are durable.
    Committed(Vec<(SplitId, Position)>),
    /// The epoch in flight is settled.
    Settled,
    /// The last epoch is complete: end.
    End,
}

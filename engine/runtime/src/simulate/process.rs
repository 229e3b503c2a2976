use super::random::SimRandom;
use super::watch::{Event, Watch};
use crate::coordinator::{Control, Coordinator, Finished};
use crate::job::{Ending, JobControl};
use crate::killpoint::KillPoint;
use crate::metrics::{Meters, NodeMeters, NodeRole};
use crate::signal::Signal;
use crate::start::Running;
use crate::task::{Report, Seat, Task, Turn};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tidegate_api::testkit::ManualClock;
use tidegate_api::{Clock, Epoch, EventTime, Result, ResultExt};
use tidegate_epochs::testkit::FaultPlan;

/// One process: a coordinator and its tasks, stepped one at a time.
pub(super) struct Process {
    coordinator: Option<Coordinator>,
    coordinator_sleep: Sleep,
    tasks: Vec<Stepped>,
    control: JobControl,
    plan: FaultPlan,
    killed_at: Arc<Mutex<Option<KillPoint>>>,
    clock: Arc<ManualClock>,
    complete: Option<Epoch>,
    meters: Arc<Meters>,
    traces: Traces,
}

/// What the invariants are told about a process.
pub(super) struct Traces {
    pub(super) watch: Watch,
    /// Its number.
    pub(super) process: u32,
}

struct Stepped {
    seat: Seat,
    meters: Option<Arc<NodeMeters>>,
    /// What it has promised last.
    promised: Option<EventTime>,
    /// `None` once it has ended.
    task: Option<Box<dyn Task>>,
    sleep: Sleep,
}

/// Whether a participant is parked, as its thread would be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Sleep {
    Awake,
    Until(Option<Duration>),
}

impl Sleep {
    fn may_step(self, signal: &Signal, now: Duration) -> bool {
        match self {
            Sleep::Awake => true,
            Sleep::Until(until) => signal.is_raised() || until.is_some_and(|at| at <= now),
        }
    }

    /// What a thread does that found nothing to do: it parks only if its signal is down.
    fn park(signal: &Signal, until: Option<Duration>) -> Sleep {
        if signal.take() { Sleep::Awake } else { Sleep::Until(until) }
    }
}

/// What came of a step of a process.
pub(super) enum Fate {
    /// This participant stepped, with this outcome.
    Stepped(u64),
    /// Everybody sleeps.
    Asleep,
    /// The process died in a call of the store or at a kill point.
    Died,
    /// The job ended.
    Ended(Result<Ending>),
}

impl Fate {
    pub(super) fn code(&self) -> u64 {
        match self {
            Fate::Stepped(code) => *code,
            Fate::Asleep => 1,
            Fate::Died => 2,
            Fate::Ended(Ok(_)) => 3,
            Fate::Ended(Err(_)) => 4,
        }
    }
}

impl Process {
    pub(super) fn new(
        running: Running,
        control: JobControl,
        plan: FaultPlan,
        killed_at: Arc<Mutex<Option<KillPoint>>>,
        clock: Arc<ManualClock>,
        traces: Traces,
    ) -> Self {
        let meters = control.meters();
        let tasks = running.tasks.into_iter().map(|(seat, task)| {
            let of_node = meters.nodes.iter().find(|(node, _, _)| *node == seat.node).map(|(_, _, of_node)| Arc::clone(of_node));
            Stepped { seat, meters: of_node, promised: None, task: Some(task), sleep: Sleep::Awake }
        });
        Process {
            coordinator: Some(running.coordinator),
            coordinator_sleep: Sleep::Awake,
            tasks: tasks.collect(),
            control,
            plan,
            killed_at,
            clock,
            complete: None,
            meters,
            traces,
        }
    }

    /// A start that found the job complete.
    pub(super) fn complete(epoch: Epoch, control: JobControl, plan: FaultPlan, clock: Arc<ManualClock>, traces: Traces) -> Self {
        Process {
            coordinator: None,
            coordinator_sleep: Sleep::Awake,
            tasks: Vec::new(),
            control,
            plan,
            killed_at: Arc::default(),
            clock,
            complete: Some(epoch),
            meters: Arc::default(),
            traces,
        }
    }

    /// Asks it to stop.
    pub(super) fn request_stop(&self) {
        self.control.request_stop();
    }

    /// Tells what its edges have carried and its nodes have counted, now that it has ended in order.
    pub(super) fn watch_the_end(&self) {
        for (edge, counters) in &self.meters.edges {
            self.traces.watch.on(&Event::Delivered(&edge.to_string(), counters.sent.get(), counters.received.get()));
        }
        for node in self.meters.snapshot().nodes {
            let bad = node.bad_total() - node.bad_output;
            let known = match node.role {
                NodeRole::Source(_) => node.rows_out + node.filtered + node.late + bad,
                NodeRole::Operator(_) => node.absorbed + node.filtered + node.late + bad,
                NodeRole::Sink(_) => node.rows_out + bad,
            };
            self.traces.watch.on(&Event::Counted(&node.id, node.rows_in, known));
        }
    }

    /// Tells what a task has promised by its last step, and what the edges have carried by then.
    fn watch_step(&mut self, index: usize) {
        for (edge, counters) in &self.meters.edges {
            let (received, sent) = (counters.received.get(), counters.sent.get());
            if received > sent {
                self.traces.watch.on(&Event::Carried(&edge.to_string(), sent, received));
            }
        }
        let Stepped { seat, meters, promised: last, .. } = &mut self.tasks[index];
        let promised = meters.as_ref().and_then(|meters| meters.watermarks.get(seat.task)?.get());
        if let Some(promised) = promised.filter(|promised| *last != Some(*promised)) {
            *last = Some(promised);
            self.traces.watch.on(&Event::Promised(self.traces.process, &seat.node, seat.task, promised));
        }
    }

    pub(super) fn killed_at(&self) -> Option<KillPoint> {
        *self.killed_at.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Steps one participant that may step; number 0 is the coordinator.
    pub(super) fn step(&mut self, random: &mut SimRandom) -> Fate {
        if let Some(epoch) = self.complete {
            return Fate::Ended(Ok(Ending::Ended { epoch }));
        }
        let ready = self.ready();
        if ready.is_empty() {
            return Fate::Asleep;
        }
        let chosen = ready[random.below(ready.len() as u64) as usize];
        let fate = match chosen {
            0 => self.step_coordinator(),
            task => {
                let fate = self.step_task(task - 1);
                self.watch_step(task - 1);
                fate
            }
        };
        if self.plan.is_dead() { Fate::Died } else { fate }
    }

    fn step_coordinator(&mut self) -> Fate {
        let Some(coordinator) = &mut self.coordinator else { return Fate::Asleep };
        let control = coordinator.step();
        match control {
            Control::Progress => {
                self.coordinator_sleep = Sleep::Awake;
                Fate::Stepped(0x10)
            }
            Control::Waiting { until } => {
                self.coordinator_sleep = Sleep::park(self.control.signal(), Some(until));
                Fate::Stepped(0x11)
            }
            Control::Over(result) => {
                self.coordinator = None;
                Fate::Ended(
                    result.map(|Finished { epoch, stopped }| if stopped { Ending::Stopped { epoch } } else { Ending::Ended { epoch } }),
                )
            }
        }
    }

    fn step_task(&mut self, index: usize) -> Fate {
        let stepped = &mut self.tasks[index];
        let Some(task) = &mut stepped.task else { return Fate::Asleep };
        let name = || stepped.seat.name.clone();
        let outcome = match task.step().context(name) {
            Ok(Turn::Progress) => {
                stepped.sleep = Sleep::Awake;
                0
            }
            Ok(Turn::Starved { until }) => {
                stepped.sleep = Sleep::park(&stepped.seat.signal, until);
                1
            }
            Ok(Turn::Backpressured) => {
                stepped.sleep = Sleep::park(&stepped.seat.signal, None);
                2
            }
            Ok(Turn::Done) => {
                stepped.seat.report(Report::Exited);
                stepped.task = None;
                3
            }
            Err(error) => {
                stepped.seat.report(Report::Failed(error));
                stepped.task = None;
                4
            }
        };
        Fate::Stepped((index as u64 + 1) << 8 | outcome)
    }

    fn ready(&self) -> Vec<usize> {
        let now = self.clock.monotonic();
        let mut ready = Vec::new();
        if self.coordinator.is_some() && self.coordinator_sleep.may_step(self.control.signal(), now) {
            ready.push(0);
        }
        for (index, stepped) in self.tasks.iter().enumerate() {
            if stepped.task.is_some() && stepped.sleep.may_step(&stepped.seat.signal, now) {
                ready.push(index + 1);
            }
        }
        ready
    }

    pub(super) fn can_step(&self) -> bool {
        self.complete.is_some() || !self.ready().is_empty()
    }

    /// When the first sleeper wakes by itself.
    pub(super) fn next_due(&self) -> Option<Duration> {
        let coordinator = self.coordinator.as_ref().map(|_| self.coordinator_sleep);
        let tasks = self.tasks.iter().filter(|stepped| stepped.task.is_some()).map(|stepped| stepped.sleep);
        let due = tasks.chain(coordinator).filter_map(|sleep| match sleep {
            Sleep::Awake => None,
            Sleep::Until(until) => until,
        });
        due.min()
    }

    /// Who sleeps how, for the message of a deadlock.
    pub(super) fn describe(&self) -> String {
        let tasks = self.tasks.iter().map(|stepped| match stepped.task {
            Some(_) => format!("{} {:?}", stepped.seat.name, stepped.sleep),
            None => format!("{} ended", stepped.seat.name),
        });
        tasks.collect::<Vec<_>>().join(", ")
    }
}

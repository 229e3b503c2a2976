//! The only place that makes threads: one per task, which steps it and parks.
//!
//! A thread parks only after it has taken its task's lowered signal, so that no wake-up is lost. A task that fails or panics reports and
//! ends its thread; then the coordinator ends the attempt, every other thread is told to stop and all are joined. A task that does not
//! end within the grace is named, and no further attempt is made in this process, since two generations must not run in it.

use crate::coordinator::{Control, Coordinator, Finished, overdue};
use crate::job::{Failure, JobConfig, JobControl};
use crate::signal::Signal;
use crate::start::Running;
use crate::task::{Report, Seat, Task, Turn};
use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{JoinHandle, current, park, park_timeout};
use std::time::Duration;
use tidegate_api::{Clock, Error, ErrorKind, Result, ResultExt};

/// How often an ending thread is looked at while it is waited for.
const LOOK: Duration = Duration::from_millis(5);

/// Runs an attempt to its end on this thread and one per task.
pub(crate) fn drive(running: Running, control: &JobControl, config: &JobConfig) -> Result<Finished, Failure> {
    let Running { mut coordinator, tasks } = running;
    let stop = Arc::new(AtomicBool::new(false));
    let mut threads = Vec::new();
    let mut failed = None;
    for (seat, task) in tasks {
        match spawn(seat, task, &stop) {
            Ok(thread) => threads.push(thread),
            Err(error) => {
                failed = Some(error);
                break;
            }
        }
    }
    let result = match failed {
        Some(error) => Err(error),
        None => conduct(&mut coordinator, control.signal(), config.clock.as_ref()),
    };
    join(threads, &stop, config)?;
    if !result.as_ref().is_err_and(|error| error.kind() == ErrorKind::Fenced) {
        coordinator.release_claim();
    }
    result.map_err(Failure::from)
}

/// Steps the coordinator until it is over.
fn conduct(coordinator: &mut Coordinator, signal: &Signal, clock: &dyn Clock) -> Result<Finished> {
    loop {
        match coordinator.step() {
            Control::Progress => {}
            Control::Over(result) => return result,
            Control::Waiting { until } => wait(signal, clock, Some(until)),
        }
    }
}

/// Parks until the signal rises or the time has come.
fn wait(signal: &Signal, clock: &dyn Clock, until: Option<Duration>) {
    if signal.take() {
        return;
    }
    match until {
        None => park(),
        Some(until) => {
            let now = clock.monotonic();
            if until > now {
                park_timeout(until - now);
            }
        }
    }
}

struct TaskThread {
    seat: Seat,
    handle: JoinHandle<()>,
}

#[allow(clippy::disallowed_methods, reason = "the one place that makes threads")]
fn spawn(seat: Seat, task: Box<dyn Task>, stop: &Arc<AtomicBool>) -> Result<TaskThread> {
    let stop = Arc::clone(stop);
    let own = seat.clone();
    let spawned = std::thread::Builder::new().name(seat.name.clone()).spawn(move || {
        own.signal.bind(current());
        let mut task = task;
        let report = match catch_unwind(AssertUnwindSafe(|| run(task.as_mut(), &own, &stop))) {
            Ok(Ok(())) => Report::Exited,
            Ok(Err(error)) => Report::Failed(error),
            Err(panic) => Report::Failed(Error::internal(format!("panicked: {}", message(panic.as_ref()))).context(own.name.clone())),
        };
        // First the report, then the edges go with the task: whoever notices them missing must not be first to say why.
        own.report(report);
        // What a task drops may panic too, and nobody would learn of it but through the process's hook.
        let _ = catch_unwind(AssertUnwindSafe(|| drop(task)));
    });
    match spawned {
        Ok(handle) => Ok(TaskThread { seat, handle }),
        Err(error) => Err(Error::limit(format!("no thread for {}", seat.name)).caused_by(error)),
    }
}

fn run(task: &mut dyn Task, seat: &Seat, stop: &AtomicBool) -> Result<()> {
    while !stop.load(Ordering::Acquire) {
        match task.step().context(|| seat.name.clone())? {
            Turn::Progress => {}
            Turn::Starved { until } => wait(&seat.signal, seat.clock.as_ref(), until),
            Turn::Backpressured => wait(&seat.signal, seat.clock.as_ref(), None),
            Turn::Done => return Ok(()),
        }
    }
    Ok(())
}

fn message(panic: &(dyn Any + Send)) -> &str {
    panic.downcast_ref::<String>().map(String::as_str).or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("without a message")
}

/// Tells every thread to stop and waits for it.
fn join(threads: Vec<TaskThread>, stop: &AtomicBool, config: &JobConfig) -> Result<(), Failure> {
    stop.store(true, Ordering::Release);
    threads.iter().for_each(|thread| thread.seat.signal.raise());
    let deadline = config.clock.monotonic().saturating_add(config.grace);
    let mut left = threads;
    loop {
        let (ended, running): (Vec<_>, Vec<_>) = left.into_iter().partition(|thread| thread.handle.is_finished());
        for thread in ended {
            if thread.handle.join().is_err() {
                tracing::error!(task = thread.seat.name, "its thread panicked outside of the task");
            }
        }
        if running.is_empty() {
            return Ok(());
        }
        if config.clock.monotonic() >= deadline {
            let names: Vec<String> = running.iter().map(|thread| thread.seat.name.clone()).collect();
            return Err(Failure { error: overdue(&names, config.grace), may_restart: false });
        }
        left = running;
        park_timeout(LOOK);
    }
}

//! The runtime: tasks, edges, exchange, alignment, watermarks, coordinator, thread driver and simulator.
//!
//! A planner hands over a [`JobGraph`]; [`Job::prepare`] checks it and [`Job::run`] runs it to its end, with one thread per task and the
//! caller's thread for the coordinator. Tasks are state machines that never wait for each other. Alignment, watermark merge and the
//! epoch life cycle are pure. A seeded simulator (feature `testkit`) steps the same tasks and the same coordinator without threads and
//! may end everything between any two steps.
//!
//! `docs/design/0002-runtime.md` has the participants and what happens when each of them fails.

mod align;
mod bad;
mod chain;
mod coordinator;
mod driver;
pub mod edge;
pub mod exchange;
pub mod graph;
mod input;
mod job;
mod killpoint;
mod late;
pub mod metrics;
mod output;
mod planted;
mod restart;
mod signal;
#[cfg(feature = "testkit")]
pub mod simulate;
mod size;
mod spill;
mod start;
mod task;
pub mod watermark;

pub use edge::Capacity;
pub use graph::JobGraph;
pub use job::{Ending, Job, JobConfig, JobControl, Outcome, Progress, RebuildSink};
pub use killpoint::{KillHook, KillPoint};
pub use late::FutureRowsStep;
pub use metrics::MetricsSnapshot;
#[cfg(feature = "testkit")]
pub use planted::Planted;
pub use restart::RestartPolicy;
pub use spill::MemoryLimit;

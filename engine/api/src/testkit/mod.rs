//! Doubles of the outside for tests: a clock that is set by hand, a collector sink, a scripted source.

mod clock;
mod collector;
mod contract;
mod scripted;
mod staging;

pub use clock::ManualClock;
pub use collector::{Collector, CollectorSink};
pub use contract::{SplitRead, read_source, sorted_rows, source_contract};
pub use scripted::{Script, ScriptedSource};
pub use staging::MemoryStaging;

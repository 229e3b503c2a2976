//! The runtime: tasks, edges, exchange, alignment, watermarks, coordinator, thread driver and simulator.

pub mod graph;

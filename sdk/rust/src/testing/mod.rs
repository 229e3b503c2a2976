//! A host for unit tests: drives a plugin's type natively, through the same messages that cross the border.
//!
//! What a real host would refuse panics here with the reason: another schema than declared, rows lost, a bad index. The clock, the secrets, log lines and metrics
//! of the current thread stand in for the imports.

pub(crate) mod double;
#[cfg(feature = "http")]
pub(crate) mod net;
#[cfg(feature = "arrow")]
mod sink;
#[cfg(feature = "arrow")]
mod source;
#[cfg(feature = "arrow")]
mod transform;

#[cfg(feature = "http")]
pub use net::{HttpServer, TcpServer, serve_http, serve_tcp};
#[cfg(feature = "arrow")]
pub use sink::{SinkHarness, Writer};
#[cfg(feature = "arrow")]
pub use source::{Read, SourceHarness};
#[cfg(feature = "arrow")]
pub use transform::{StepOutput, TransformHarness};

use crate::Scope;
use crate::log::Level;

/// The lines logged on this thread since the last call.
pub fn logs() -> Vec<(Level, String)> {
    double::with(|double| std::mem::take(&mut double.logs))
}

/// A counter's sum, or the last value of a gauge or distribution.
pub fn metric(name: &str) -> Option<f64> {
    double::with(|double| double.metrics.get(name).copied())
}

/// Sets what [`control::now_us`](crate::control::now_us) answers on this thread.
pub fn set_now_us(now_us: u64) {
    double::with(|double| double.now_us = now_us);
}

/// Sets a secret on this thread.
pub fn set_secret(name: &str, value: &str) {
    double::with(|double| double.secrets.insert(name.to_owned(), value.to_owned()));
}

/// The scope of task 0 of 1 in generation 1 of the run `run`, operator `operator`, with this configuration (JSON).
pub fn scope(config: &str) -> Scope {
    Scope {
        config: config.to_owned(),
        pipeline: "test".into(),
        run_id: "run".into(),
        operator: "operator".into(),
        generation: 1,
        index: 0,
        parallelism: 1,
        extra: String::new(),
    }
}

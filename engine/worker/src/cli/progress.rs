//! Progress on stderr: one line that is rewritten on a terminal, nothing otherwise.

use serde_json::Value;
use std::io::{IsTerminal, Write};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;
use tidegate_api::{Clock, SystemClock};

/// Shows records of a running pipeline.
pub(super) struct Progress {
    state: Option<Mutex<State>>,
}

#[derive(Default)]
struct State {
    shown: Option<(Duration, u64)>,
    rate: f64,
    dirty: bool,
}

impl Progress {
    /// The shortest time between two lines.
    const EVERY: Duration = Duration::from_millis(500);

    /// Progress for this process's stderr.
    pub(super) fn new() -> Self {
        Progress { state: std::io::stderr().is_terminal().then(Mutex::default) }
    }

    /// Shows a record.
    pub(super) fn show(&self, record: &Value) {
        let Some(state) = &self.state else { return };
        let mut state = state.lock().unwrap_or_else(PoisonError::into_inner);
        let now = SystemClock.monotonic();
        let metrics = &record["metrics"];
        let rows = metrics["rowsIn"].as_u64().unwrap_or(0);
        match state.shown {
            Some((then, _)) if now - then < Progress::EVERY => return,
            Some((then, before)) => state.rate = rows.saturating_sub(before) as f64 / (now - then).as_secs_f64(),
            None => {}
        }
        state.shown = Some((now, rows));
        state.dirty = true;
        let text = |key: &str| metrics[key].as_str().unwrap_or("-").to_string();
        let lag = metrics["lagSeconds"].as_f64().map_or_else(|| "-".to_string(), |seconds| format!("{seconds:.1}s"));
        let line = format!(
            "{rows} rows in, {:.0} rows/s, watermark {}, epoch {}, lag {lag}",
            state.rate,
            text("watermark"),
            metrics["epoch"].as_u64().map_or_else(|| "-".to_string(), |epoch| epoch.to_string()),
        );
        let mut stderr = std::io::stderr().lock();
        let _ = write!(stderr, "\r\x1b[2K{line}");
        let _ = stderr.flush();
    }

    /// Leaves the line before something else is printed.
    pub(super) fn finish(&self) {
        let Some(state) = &self.state else { return };
        let mut state = state.lock().unwrap_or_else(PoisonError::into_inner);
        if std::mem::take(&mut state.dirty) {
            eprintln!();
        }
    }
}

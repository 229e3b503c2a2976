//! What a guest said lately, so that an error can repeat it: error lines of its log (a panic message arrives there) and its stderr.

use crate::metrics::PluginMetrics;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tidegate_api::Clock;

/// Lines kept, and the bytes of one.
const LINES: usize = 8;
const LINE_BYTES: usize = 2000;
/// What a stderr line may grow to before it is cut.
const PENDING_BYTES: usize = 8000;

/// The last lines of one instance. Shared between its log and its stderr.
#[derive(Debug, Clone, Default)]
pub(crate) struct Words(Arc<Mutex<Kept>>);

#[derive(Debug, Default)]
struct Kept {
    said: VecDeque<String>,
    refused: Vec<String>,
    ungranted: bool,
}

/// What the host refused during a call.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Refusals {
    /// In words for whoever wrote the pipeline file.
    pub(crate) text: String,
    /// Whether one was for want of a grant, so that the same would happen again.
    pub(crate) ungranted: bool,
}

impl Words {
    /// Forgets everything; a call begins.
    pub(crate) fn clear(&self) {
        *self.kept() = Kept::default();
    }

    /// Keeps a line.
    pub(crate) fn keep(&self, line: &str) {
        let mut kept = self.kept();
        if kept.said.len() == LINES {
            kept.said.pop_front();
        }
        kept.said.push_back(cut(line.trim_end(), LINE_BYTES).to_string());
    }

    /// Keeps what the host refused, and whether for want of a grant. The first ones count.
    pub(crate) fn refuse(&self, line: String, ungranted: bool) {
        let mut kept = self.kept();
        kept.ungranted |= ungranted;
        if kept.refused.len() < LINES && !kept.refused.contains(&line) {
            kept.refused.push(line);
        }
    }

    /// What was refused since the call began.
    pub(crate) fn refusals(&self) -> Option<Refusals> {
        let kept = self.kept();
        (!kept.refused.is_empty()).then(|| Refusals { text: kept.refused.join(" | "), ungranted: kept.ungranted })
    }

    /// What was said since the call began; empty if nothing.
    pub(crate) fn said(&self) -> String {
        self.kept().said.iter().map(String::as_str).collect::<Vec<_>>().join(" | ")
    }

    fn kept(&self) -> std::sync::MutexGuard<'_, Kept> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The longest prefix of at most `bytes` bytes.
fn cut(text: &str, bytes: usize) -> &str {
    if text.len() <= bytes {
        return text;
    }
    let end = (0..=bytes).rev().find(|end| text.is_char_boundary(*end)).unwrap_or(0);
    &text[..end]
}

/// Lets a number of lines through per second.
#[derive(Debug, Clone)]
pub(crate) struct Rate {
    per_second: u32,
    state: Arc<Mutex<(u64, u32)>>,
}

impl Rate {
    pub(crate) fn new(per_second: u32) -> Self {
        Rate { per_second, state: Arc::default() }
    }

    /// Whether one more line may pass at this time.
    pub(crate) fn admits(&self, now: Duration) -> bool {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if state.0 != now.as_secs() {
            *state = (now.as_secs(), 0);
        }
        state.1 = state.1.saturating_add(1);
        state.1 <= self.per_second
    }
}

/// Takes a guest's stdout or stderr line by line into the log and its [`Words`].
#[derive(Clone)]
pub(crate) struct Stdio {
    plugin: Arc<str>,
    words: Words,
    rate: Rate,
    clock: Arc<dyn Clock>,
    metrics: Arc<PluginMetrics>,
    pending: Arc<Mutex<Vec<u8>>>,
}

impl Stdio {
    pub(crate) fn new(plugin: Arc<str>, words: Words, rate: Rate, clock: Arc<dyn Clock>, metrics: Arc<PluginMetrics>) -> Self {
        Stdio { plugin, words, rate, clock, metrics, pending: Arc::default() }
    }

    fn take(&self, bytes: &[u8]) {
        let mut pending = self.pending.lock().unwrap_or_else(PoisonError::into_inner);
        pending.extend_from_slice(bytes);
        while let Some(end) = pending.iter().position(|byte| *byte == b'\n').or((pending.len() > PENDING_BYTES).then_some(PENDING_BYTES)) {
            let line: Vec<u8> = pending.drain(..=end).collect();
            let line = String::from_utf8_lossy(&line);
            let line = line.trim_end();
            if line.is_empty() {
                continue;
            }
            self.words.keep(line);
            if self.rate.admits(self.clock.monotonic()) {
                tracing::warn!(target: "tidegate::plugin", plugin = &*self.plugin, "{}", cut(line, LINE_BYTES));
            } else {
                self.metrics.dropped_line();
            }
        }
    }
}

impl wasmtime_wasi::cli::IsTerminal for Stdio {
    fn is_terminal(&self) -> bool {
        false
    }
}

impl wasmtime_wasi::cli::StdoutStream for Stdio {
    fn async_stream(&self) -> Box<dyn tokio::io::AsyncWrite + Send + Sync> {
        Box::new(self.clone())
    }

    fn p2_stream(&self) -> Box<dyn wasmtime_wasi::p2::OutputStream> {
        Box::new(self.clone())
    }
}

#[wasmtime_wasi::async_trait]
impl wasmtime_wasi::p2::Pollable for Stdio {
    async fn ready(&mut self) {}
}

impl wasmtime_wasi::p2::OutputStream for Stdio {
    fn write(&mut self, bytes: bytes::Bytes) -> wasmtime_wasi::p2::StreamResult<()> {
        self.take(&bytes);
        Ok(())
    }

    fn flush(&mut self) -> wasmtime_wasi::p2::StreamResult<()> {
        Ok(())
    }

    fn check_write(&mut self) -> wasmtime_wasi::p2::StreamResult<usize> {
        Ok(64 << 10)
    }
}

impl tokio::io::AsyncWrite for Stdio {
    fn poll_write(self: std::pin::Pin<&mut Self>, _: &mut std::task::Context<'_>, bytes: &[u8]) -> std::task::Poll<std::io::Result<usize>> {
        self.take(bytes);
        std::task::Poll::Ready(Ok(bytes.len()))
    }

    fn poll_flush(self: std::pin::Pin<&mut Self>, _: &mut std::task::Context<'_>) -> std::task::Poll<std::io::Result<()>> {
        std::task::Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: std::pin::Pin<&mut Self>, _: &mut std::task::Context<'_>) -> std::task::Poll<std::io::Result<()>> {
        std::task::Poll::Ready(Ok(()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_last_lines_are_kept_and_long_ones_are_cut() {
        let words = Words::default();
        for number in 0..20 {
            words.keep(&format!("line {number}"));
        }
        assert!(words.said().starts_with("line 12 | ") && words.said().ends_with("line 19"), "{}", words.said());
        words.clear();
        words.keep(&"ü".repeat(LINE_BYTES));
        assert_eq!(words.said().len(), LINE_BYTES);
    }

    #[test]
    fn a_rate_is_full_again_in_the_next_second() {
        let rate = Rate::new(2);
        let admitted = |millis| rate.admits(Duration::from_millis(millis));
        assert_eq!([admitted(0), admitted(1), admitted(999), admitted(1000)], [true, true, false, true]);
    }

    #[test]
    fn stderr_is_cut_into_lines() {
        let words = Words::default();
        let clock: Arc<dyn Clock> = Arc::new(tidegate_api::testkit::ManualClock::default());
        let stdio = Stdio::new("p".into(), words.clone(), Rate::new(1), clock, Arc::default());
        stdio.take(b"one\ntw");
        stdio.take(b"o\nrest");
        assert_eq!(words.said(), "one | two");
        assert_eq!(stdio.metrics.log_lines_dropped(), 1);
    }
}

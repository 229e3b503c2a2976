//! What a process says on stderr: lines of the log, under a rate, and its last words for the error text.

use std::collections::VecDeque;
use std::sync::Arc;
use tidegate_api::Clock;
use tokio::io::{AsyncRead, AsyncReadExt};

/// A longer line is cut here.
const LINE: usize = 1024;
/// Last words, in lines.
const LINES: usize = 12;

/// Takes stderr line by line. Its memory is bounded whatever comes.
pub(super) struct Said {
    transform: String,
    task: usize,
    clock: Arc<dyn Clock>,
    per_second: u32,
    /// The second that is counted, and its lines.
    current: (u64, u32),
    dropped: u64,
    pending: Vec<u8>,
    /// Whether the rest of an overlong line is passed over.
    cutting: bool,
    last: VecDeque<String>,
}

impl Said {
    pub(super) fn new(transform: String, task: usize, per_second: u32, clock: Arc<dyn Clock>) -> Self {
        Said { transform, task, clock, per_second, current: (0, 0), dropped: 0, pending: Vec::new(), cutting: false, last: VecDeque::new() }
    }

    /// Drains a pipe until it ends.
    pub(super) async fn drain(&mut self, from: &mut (impl AsyncRead + Unpin)) {
        let mut chunk = [0; 4096];
        loop {
            match from.read(&mut chunk).await {
                Ok(0) | Err(_) => return,
                Ok(count) => self.take(&chunk[..count]),
            }
        }
    }

    fn take(&mut self, bytes: &[u8]) {
        for byte in bytes {
            match byte {
                b'\n' => self.end_line(),
                _ if self.cutting => {}
                byte => {
                    self.pending.push(*byte);
                    if self.pending.len() == LINE {
                        self.end_line();
                        self.cutting = true;
                    }
                }
            }
        }
    }

    fn end_line(&mut self) {
        self.cutting = false;
        let line = String::from_utf8_lossy(&self.pending).trim_end().to_string();
        self.pending.clear();
        if line.is_empty() {
            return;
        }
        if self.admits() {
            tracing::warn!(target: "tidegate::container", transform = self.transform, task = self.task, "{line}");
        } else {
            self.dropped += 1;
        }
        if self.last.len() == LINES {
            self.last.pop_front();
        }
        self.last.push_back(line);
    }

    fn admits(&mut self) -> bool {
        let second = self.clock.monotonic().as_secs();
        if self.current.0 != second {
            self.tell_dropped();
            self.current = (second, 0);
        }
        self.current.1 = self.current.1.saturating_add(1);
        self.current.1 <= self.per_second
    }

    /// Says how many lines were left out, once.
    pub(super) fn tell_dropped(&mut self) {
        let dropped = std::mem::take(&mut self.dropped);
        if dropped > 0 {
            tracing::warn!(target: "tidegate::container", transform = self.transform, task = self.task, dropped, "lines of stderr were left out");
        }
    }

    /// Its last words, to stand behind a message; empty if there are none.
    pub(super) fn last_words(&mut self) -> String {
        self.end_line();
        let lines: Vec<String> = self.last.drain(..).collect();
        if lines.is_empty() { String::new() } else { format!("; its last words on stderr: {}", lines.join(" | ")) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tidegate_api::SystemClock;

    #[test]
    fn words_are_kept_by_line_and_a_flood_takes_no_room() {
        let mut said = Said::new("t".into(), 0, 1, Arc::new(SystemClock));
        said.take(b"one\ntw");
        said.take(b"o\n\n");
        assert_eq!(said.last_words(), "; its last words on stderr: one | two");
        assert_eq!(said.last_words(), "");
        for _ in 0..10_000 {
            said.take(&[b'x'; 700]);
        }
        said.take(b"\n");
        assert_eq!((said.last.len(), said.last[0].len()), (1, LINE));
        for at in 0..1000 {
            said.take(format!("line {at}\n").as_bytes());
        }
        assert!(said.pending.capacity() <= 2 * LINE && said.last.len() == LINES);
        assert!(said.last_words().ends_with("line 998 | line 999"));
    }
}

//! One address: its connection, or when to connect again.

use crate::config::{Config, LastLine, host_and_port};
use crate::lines::{Line, Lines};
use std::io::{ErrorKind, Read};
use std::time::{Duration, Instant};
use tidegate_sdk::net::tcp::Stream;
use tidegate_sdk::{Error, Result, log, metrics};

/// How much is read at once.
const PIECE: usize = 16 << 10;
/// Counts connections that ended or were not made.
const DISCONNECTS: &str = "disconnects";

/// What there is to read.
pub(crate) enum Next {
    /// A line.
    Line(Line),
    /// Nothing now.
    Nothing,
    /// Nothing for ever.
    End,
}

/// An address being read.
pub(crate) struct Feed {
    pub(crate) address: String,
    /// How many lines were read of it, bad ones too.
    pub(crate) lines_read: u64,
    /// What was told of it last: whether there was nothing more to read.
    pub(crate) caught_up: bool,
    lines: Lines,
    stream: Option<Stream>,
    /// Not before this.
    again_at: Option<Instant>,
    pause: Duration,
    ended: bool,
}

impl Feed {
    /// Connects nowhere yet.
    pub(crate) fn new(address: String, lines_read: u64, config: &Config) -> Self {
        Feed {
            address,
            lines_read,
            caught_up: false,
            lines: Lines::new(config.max_line_bytes),
            stream: None,
            again_at: None,
            pause: config.pause(),
            ended: false,
        }
    }

    /// The connection, if there is one.
    pub(crate) fn stream(&self) -> Option<&Stream> {
        self.stream.as_ref()
    }

    /// How long it is until there is something to do; `None` while there is a connection.
    pub(crate) fn due_in(&self, now: Instant) -> Option<Duration> {
        self.again_at.filter(|_| self.stream.is_none()).map(|again_at| again_at.saturating_duration_since(now))
    }

    /// The next line, if it is there or comes without waiting.
    pub(crate) fn next(&mut self, config: &Config) -> Result<Next> {
        loop {
            if let Some(line) = self.lines.next() {
                self.lines_read += 1;
                return Ok(Next::Line(line));
            }
            if self.ended {
                return Ok(Next::End);
            }
            if self.stream.is_none() && !self.connect(config)? {
                return Ok(Next::Nothing);
            }
            let Some(stream) = &mut self.stream else { return Ok(Next::Nothing) };
            let mut piece = [0; PIECE];
            match stream.read(&mut piece) {
                Ok(0) => return Ok(self.close(config, "the server has closed the connection")),
                Ok(count) => {
                    self.pause = config.pause();
                    self.lines.push(&piece[..count]);
                }
                Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => return Ok(Next::Nothing),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Ok(self.close(config, &format!("the connection broke: {error}"))),
            }
        }
    }

    /// Connects, if it is time to.
    fn connect(&mut self, config: &Config) -> Result<bool> {
        if self.again_at.is_some_and(|again_at| Instant::now() < again_at) {
            return Ok(false);
        }
        let (host, port) = host_and_port(&self.address)?;
        match Stream::connect(host, port, config.connect_timeout()) {
            Ok(stream) => {
                self.stream = Some(stream);
                Ok(true)
            }
            Err(Error::Retryable { message, .. }) => {
                self.later(config, &message);
                Ok(false)
            }
            Err(error) => Err(error),
        }
    }

    /// Notes that there is no connection, and when to make one.
    fn later(&mut self, config: &Config, why: &str) {
        metrics::count(DISCONNECTS, 1);
        log::warn(&format!("`{}`: {why}; connecting again in {} ms", self.address, self.pause.as_millis()));
        self.again_at = Some(Instant::now() + self.pause);
        self.pause = (self.pause * 2).min(config.longest_pause());
    }

    /// The connection has ended; what is left of it may be a line.
    fn close(&mut self, config: &Config, why: &str) -> Next {
        self.stream = None;
        if config.reconnect {
            self.later(config, why);
        } else {
            self.ended = true;
        }
        let Some(rest) = self.lines.end() else {
            return if self.ended { Next::End } else { Next::Nothing };
        };
        self.lines_read += 1;
        Next::Line(match (rest, config.last_line) {
            (Line::Whole(text), LastLine::Bad) => Line::Bad(text.into_bytes(), "the connection ended within the line".into()),
            (line, _) => line,
        })
    }
}

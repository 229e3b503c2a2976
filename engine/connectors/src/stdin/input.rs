//! Standard input as bytes that come when they come.

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::{Errno, read};
use std::fmt;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tidegate_api::{Error, Result};

/// How much is read at a time.
const PIECE: usize = 256 << 10;

/// What a `stdin` source reads; shared by everything that is made of it, so that an engine that starts again within its process goes on
/// where it was.
#[derive(Clone)]
pub struct StdinInput(Arc<Mutex<State>>);

/// What was read and not used, and whose it is.
pub(super) struct State {
    from: From,
    /// The dataset that reads it.
    dataset: Option<String>,
    /// The number of the split that it is, once it was found.
    pub(super) split: Option<u64>,
    /// What was read and not decoded, behind what was.
    buffer: Vec<u8>,
    used: usize,
    ended: bool,
    /// What stands before the first record; every decoder begins with it.
    pub(super) head: Option<Vec<u8>>,
    /// The number of the next row.
    pub(super) row: u64,
    /// In the middle of a record that is too long.
    pub(super) skipping: bool,
}

/// Where the bytes come from.
enum From {
    Process,
    Handle(OwnedFd),
    /// From nowhere: standard input was used up, as this says.
    Nowhere(&'static str),
}

impl StdinInput {
    /// The process's standard input.
    pub fn process() -> Self {
        StdinInput::over(From::Process)
    }

    /// Anything else that can be read and waited for.
    pub fn new(handle: impl Into<OwnedFd>) -> Self {
        StdinInput::over(From::Handle(handle.into()))
    }

    /// Refused wherever it is read, with this reason.
    pub fn taken(why: &'static str) -> Self {
        StdinInput::over(From::Nowhere(why))
    }

    fn over(from: From) -> Self {
        StdinInput(Arc::new(Mutex::new(State {
            from,
            dataset: None,
            split: None,
            buffer: Vec::new(),
            used: 0,
            ended: false,
            head: None,
            row: 0,
            skipping: false,
        })))
    }

    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes it the input of one dataset.
    ///
    /// # Errors
    /// `Config` if it is another's already, or was used up.
    pub(super) fn claim(&self, dataset: &str) -> Result<()> {
        let mut state = self.state();
        if let From::Nowhere(why) = state.from {
            return Err(Error::config(format!("standard input cannot be read: {why}")));
        }
        match &state.dataset {
            Some(other) if other != dataset => {
                Err(Error::config(format!("standard input is read by the dataset `{other}` already, and its lines are there once")))
            }
            _ => {
                state.dataset = Some(dataset.to_string());
                Ok(())
            }
        }
    }
}

impl fmt::Debug for StdinInput {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("StdinInput")
    }
}

impl State {
    /// What was read and not used.
    pub(super) fn bytes(&self) -> &[u8] {
        &self.buffer[self.used..]
    }

    /// Whether nothing comes after [`State::bytes`].
    pub(super) fn ended(&self) -> bool {
        self.ended
    }

    /// Marks bytes as used.
    pub(super) fn consume(&mut self, count: usize) {
        self.used += count;
        if self.used == self.buffer.len() {
            self.buffer.clear();
            self.used = 0;
        }
    }

    /// Reads once, waiting for at most so long; answers whether anything happened.
    ///
    /// # Errors
    /// `External` if the system cannot read.
    pub(super) fn fill(&mut self, wait: Duration) -> Result<bool> {
        if self.ended {
            return Ok(false);
        }
        // What was used makes room first, but not for every piece of a long record.
        if self.used > self.buffer.len() / 2 {
            self.buffer.drain(..self.used);
            self.used = 0;
        }
        let filled = match &self.from {
            From::Process => piece(io::stdin(), &mut self.buffer, wait),
            From::Handle(handle) => piece(handle, &mut self.buffer, wait),
            From::Nowhere(_) => Ok(Some(0)),
        };
        match filled {
            Ok(None) => Ok(false),
            Ok(Some(0)) => {
                self.ended = true;
                Ok(true)
            }
            Ok(Some(_)) => Ok(true),
            Err(error) => Err(Error::external("standard input cannot be read").caused_by(io::Error::from(error))),
        }
    }
}

/// Reads what is there, if it comes within `wait`; nothing at the end.
fn piece(handle: impl AsFd, buffer: &mut Vec<u8>, wait: Duration) -> Result<Option<usize>, Errno> {
    let timeout = Timespec { tv_sec: i64::try_from(wait.as_secs()).unwrap_or(i64::MAX), tv_nsec: i64::from(wait.subsec_nanos()) };
    let mut handles = [PollFd::new(&handle, PollFlags::IN)];
    match poll(&mut handles, Some(&timeout)) {
        Ok(0) | Err(Errno::INTR) => return Ok(None),
        Ok(_) => {}
        Err(error) => return Err(error),
    }
    let before = buffer.len();
    buffer.resize(before + PIECE, 0);
    let read = read(&handle, &mut buffer[before..]);
    buffer.truncate(before + *read.as_ref().unwrap_or(&0));
    match read {
        Err(Errno::INTR | Errno::AGAIN) => Ok(None),
        // A terminal that is gone.
        Err(Errno::IO) => Ok(Some(0)),
        read => read.map(Some),
    }
}

//! What the sink writes to, shared by its tasks.

use std::fmt;
use std::io::{self, Write};
use std::sync::{Arc, Mutex, PoisonError};

/// A writer that all `stdout` sinks of a host share. Lines of different tasks are never mixed.
#[derive(Clone)]
pub struct StdoutTarget(Arc<Mutex<Box<dyn Write + Send>>>);

impl StdoutTarget {
    /// The process's standard output.
    pub fn process() -> Self {
        StdoutTarget::new(io::stdout())
    }

    /// Anything else: a host's log, a test's buffer.
    pub fn new(writer: impl Write + Send + 'static) -> Self {
        StdoutTarget(Arc::new(Mutex::new(Box::new(writer))))
    }

    /// Writes `bytes` and flushes; on failure says how many of them were taken.
    pub(super) fn write(&self, bytes: &[u8]) -> Result<(), (usize, io::Error)> {
        let mut writer = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut taken = 0;
        while taken < bytes.len() {
            match writer.write(&bytes[taken..]) {
                Ok(0) => return Err((taken, io::ErrorKind::WriteZero.into())),
                Ok(count) => taken += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err((taken, error)),
            }
        }
        writer.flush().map_err(|error| (taken, error))
    }
}

/// Whatever is written in one call stays together.
impl Write for StdoutTarget {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match StdoutTarget::write(self, bytes) {
            Ok(()) => Ok(bytes.len()),
            Err((0, error)) => Err(error),
            Err((taken, _)) => Ok(taken),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl fmt::Debug for StdoutTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("StdoutTarget")
    }
}

//! Connections to a host and port.

use crate::Result;
use std::io::{Read, Write};
use std::time::Duration;

/// What carries bytes both ways: a connection, or in a unit test what stands for one.
pub trait Wire: Read + Write {
    /// How long a call of `read` or `write` waits at the most. Where it is zero they do not wait at all. What comes too late is `WouldBlock` or `TimedOut`.
    fn set_timeout(&mut self, timeout: Duration);
}

/// A connection. A read that gives 0 bytes says that the other side has closed it; one that had nothing in time fails with `WouldBlock` or `TimedOut`.
pub struct Stream(imp::Inner);

impl Stream {
    /// Looks `host` up, if it is a name, and connects to the first address that answers, within `timeout`.
    ///
    /// # Errors
    /// `Retryable` when nobody answers, `Config` when the host does not let the connection be made.
    pub fn connect(host: &str, port: u16, timeout: Duration) -> Result<Self> {
        let connected = imp::connect(host, port, timeout);
        connected.map(Stream).map_err(|error| error.context(format_args!("`{host}:{port}`")))
    }

    /// How long a read or write waits at the most from now on; without this not at all.
    pub fn set_timeout(&mut self, timeout: Duration) {
        self.0.set_timeout(timeout);
    }
}

impl Read for Stream {
    fn read(&mut self, into: &mut [u8]) -> std::io::Result<usize> {
        self.0.read(into)
    }
}

impl Write for Stream {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.write(bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.0.flush()
    }
}

/// Waits until one of the connections has something to read or was closed, or `timeout` has passed. In a native test it does not wait.
pub fn wait_any<'a>(streams: impl IntoIterator<Item = &'a Stream>, timeout: Duration) {
    let inner: Vec<&imp::Inner> = streams.into_iter().map(|stream| &stream.0).collect();
    imp::wait_any(&inner, timeout);
}

#[cfg(target_family = "wasm")]
use super::wasi_tcp as imp;

#[cfg(not(target_family = "wasm"))]
mod imp {
    use super::Wire;
    use crate::Result;
    use std::time::Duration;

    pub(super) type Inner = Box<dyn Wire>;

    pub(super) fn connect(host: &str, port: u16, _: Duration) -> Result<Inner> {
        crate::testing::net::connect(host, port)
    }

    pub(super) fn wait_any(_: &[&Inner], _: Duration) {}
}

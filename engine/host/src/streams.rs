//! WASI streams of sources and sinks. What the system says of a failed read or write is kept for the error that follows: a guest's library
//! sees no more of it than "input/output error".

use crate::state::State;
use wasmtime::Result;
use wasmtime::component::{HasData, Linker, Resource, ResourceTable};
use wasmtime_wasi_io::bindings::wasi::io::streams;
use wasmtime_wasi_io::poll::DynPollable;
use wasmtime_wasi_io::streams::{DynInputStream, DynOutputStream, StreamError, StreamResult};

/// The streams of one instance.
pub(crate) struct Streams<'a> {
    /// Where they live.
    pub(crate) table: &'a mut ResourceTable,
    /// What the system said last of one that failed.
    pub(crate) failed: &'a mut Option<String>,
}

struct HasStreams;

impl HasData for HasStreams {
    type Data<'a> = Streams<'a>;
}

/// Puts these streams in the place of WASI's own.
pub(crate) fn link(linker: &mut Linker<State>) -> Result<()> {
    streams::add_to_linker::<State, HasStreams>(linker, State::streams)
}

impl streams::Host for Streams<'_> {
    fn convert_stream_error(&mut self, error: StreamError) -> Result<streams::StreamError> {
        if let StreamError::LastOperationFailed(cause) = &error {
            *self.failed = Some(cause.root_cause().to_string());
        }
        self.table.convert_stream_error(error)
    }
}

impl streams::HostOutputStream for Streams<'_> {
    async fn drop(&mut self, stream: Resource<DynOutputStream>) -> Result<()> {
        streams::HostOutputStream::drop(self.table, stream).await
    }

    fn check_write(&mut self, stream: Resource<DynOutputStream>) -> StreamResult<u64> {
        self.table.check_write(stream)
    }

    fn write(&mut self, stream: Resource<DynOutputStream>, bytes: Vec<u8>) -> StreamResult<()> {
        self.table.write(stream, bytes)
    }

    fn subscribe(&mut self, stream: Resource<DynOutputStream>) -> Result<Resource<DynPollable>> {
        streams::HostOutputStream::subscribe(self.table, stream)
    }

    async fn blocking_write_and_flush(&mut self, stream: Resource<DynOutputStream>, bytes: Vec<u8>) -> StreamResult<()> {
        self.table.blocking_write_and_flush(stream, bytes).await
    }

    async fn blocking_write_zeroes_and_flush(&mut self, stream: Resource<DynOutputStream>, length: u64) -> StreamResult<()> {
        self.table.blocking_write_zeroes_and_flush(stream, length).await
    }

    fn write_zeroes(&mut self, stream: Resource<DynOutputStream>, length: u64) -> StreamResult<()> {
        self.table.write_zeroes(stream, length)
    }

    fn flush(&mut self, stream: Resource<DynOutputStream>) -> StreamResult<()> {
        self.table.flush(stream)
    }

    async fn blocking_flush(&mut self, stream: Resource<DynOutputStream>) -> StreamResult<()> {
        self.table.blocking_flush(stream).await
    }

    fn splice(&mut self, to: Resource<DynOutputStream>, from: Resource<DynInputStream>, length: u64) -> StreamResult<u64> {
        self.table.splice(to, from, length)
    }

    async fn blocking_splice(&mut self, to: Resource<DynOutputStream>, from: Resource<DynInputStream>, length: u64) -> StreamResult<u64> {
        self.table.blocking_splice(to, from, length).await
    }
}

impl streams::HostInputStream for Streams<'_> {
    async fn drop(&mut self, stream: Resource<DynInputStream>) -> Result<()> {
        streams::HostInputStream::drop(self.table, stream).await
    }

    fn read(&mut self, stream: Resource<DynInputStream>, length: u64) -> StreamResult<Vec<u8>> {
        self.table.read(stream, length)
    }

    async fn blocking_read(&mut self, stream: Resource<DynInputStream>, length: u64) -> StreamResult<Vec<u8>> {
        self.table.blocking_read(stream, length).await
    }

    fn skip(&mut self, stream: Resource<DynInputStream>, length: u64) -> StreamResult<u64> {
        self.table.skip(stream, length)
    }

    async fn blocking_skip(&mut self, stream: Resource<DynInputStream>, length: u64) -> StreamResult<u64> {
        self.table.blocking_skip(stream, length).await
    }

    fn subscribe(&mut self, stream: Resource<DynInputStream>) -> Result<Resource<DynPollable>> {
        streams::HostInputStream::subscribe(self.table, stream)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wasmtime_wasi_io::bindings::wasi::io::streams::Host;

    #[test]
    fn the_systems_words_outlive_the_error_that_the_guest_sees() {
        let (mut table, mut failed) = (ResourceTable::new(), None);
        let mut streams = Streams { table: &mut table, failed: &mut failed };
        let closed = streams.convert_stream_error(StreamError::Closed).unwrap();
        assert!(matches!(closed, streams::StreamError::Closed) && streams.failed.is_none());
        let full = std::io::Error::from(std::io::ErrorKind::StorageFull);
        streams.convert_stream_error(StreamError::LastOperationFailed(wasmtime::Error::from(full).context("written"))).unwrap();
        assert_eq!(failed.as_deref(), Some("no storage space"));
    }
}

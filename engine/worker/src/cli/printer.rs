//! Rows on standard output, for verbs that read a source without a pipeline.

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use tidegate_api::{AnySink, Error, OutputSink, Result, RunIdentity, Sink, SinkCtx};
use tidegate_connectors::stdout::{StdoutSink, StdoutTarget};

/// Prints rows as JSON lines.
pub(super) struct Printer(Box<dyn Sink>);

impl Printer {
    /// A printer of rows of this schema.
    pub(super) fn open(schema: SchemaRef, identity: &RunIdentity) -> Result<Printer> {
        match StdoutSink::json(StdoutTarget::process()).open(SinkCtx::new(identity.clone(), schema))? {
            AnySink::AtLeastOnce(sink) => Ok(Printer(sink)),
            AnySink::Transactional(_) => Err(Error::internal("standard output has no transactions")),
        }
    }

    /// Prints rows, and says on stderr which cannot be printed.
    pub(super) fn print(&mut self, rows: &RecordBatch) -> Result<u64> {
        let written = self.0.write(rows, None)?;
        written.bad.iter().for_each(|bad| eprintln!("bad row: {}", bad.message));
        Ok((rows.num_rows() - written.bad.len()) as u64)
    }
}

//! The sink: encodes a batch and writes it at once, so that a person sees rows as they come.

use super::target::StdoutTarget;
use crate::encode::{CsvEncoder, Encoder, JsonEncoder, TextOptions};
use crate::registry::ConnectorCtx;
use arrow::array::{BinaryArray, RecordBatch};
use serde_json::{Map, Value, json};
use std::io;
use std::sync::Arc;
use tidegate_api::config::{Options, Problem};
use tidegate_api::{
    AnySink, ChangeMode, Counter, Epoch, Error, ErrorKind, Flushed, Guarantee, OutputSink, Result, Sink, SinkCtx, SinkInput, SinkPlan,
    Written,
};

const CLOSED_PIPE: &str = "standard output is a closed pipe";

/// Whether a run failed because nobody reads its standard output any more, which is a stop and not an error.
pub fn is_closed_pipe(error: &Error) -> bool {
    matches!(error.kind(), ErrorKind::External { .. }) && error.message() == CLOSED_PIPE
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Format {
    Json,
    Csv,
}

pub(crate) fn build(map: &Map<String, Value>, cx: &ConnectorCtx) -> Result<Arc<dyn OutputSink>, Vec<Problem>> {
    let mut options = Options::new(map);
    let format = if options.value("format").and_then(Value::as_str) == Some("table") {
        options.problem("format", "`table` is not available yet, use `json` or `csv`");
        Format::Json
    } else {
        options.choice("format", &[("json", Format::Json), ("csv", Format::Csv)]).unwrap_or(Format::Json)
    };
    let text = text_options(&mut options);
    let problems = options.finish();
    if !problems.is_empty() {
        return Err(problems);
    }
    Ok(Arc::new(StdoutSink { target: cx.stdout.clone(), format, text, config: map.clone() }))
}

/// The options that say how values become text.
pub(crate) fn text_options(options: &mut Options<'_>) -> TextOptions {
    TextOptions {
        epoch_ms: options.choice("timestamps", &[("iso", false), ("epochMs", true)]).unwrap_or(false),
        int64_as_text: options.boolean("int64AsText").unwrap_or(false),
    }
}

/// Refuses rows that replace each other, which a log of lines cannot show.
pub(crate) fn refuse_upserts(input: &SinkInput, sink: &str) -> Result<()> {
    match &input.mode {
        ChangeMode::Append => Ok(()),
        ChangeMode::Upsert { keys } => Err(Error::config(format!(
            "rows here replace earlier ones of equal `{}`, which `{sink}` cannot show; set `changelog = true` to write an `op` column",
            keys.join("`, `")
        ))),
    }
}

/// Writes rows to a [`StdoutTarget`] as lines.
pub struct StdoutSink {
    target: StdoutTarget,
    format: Format,
    text: TextOptions,
    config: Map<String, Value>,
}

impl StdoutSink {
    /// JSON lines into `target`.
    pub fn json(target: StdoutTarget) -> Self {
        StdoutSink { target, format: Format::Json, text: TextOptions::default(), config: Map::new() }
    }
}

impl OutputSink for StdoutSink {
    fn plan(&self, input: &SinkInput) -> Result<SinkPlan> {
        refuse_upserts(input, "stdout")?;
        if self.format == Format::Csv {
            CsvEncoder::new(Arc::clone(&input.schema), self.text, false)?;
        }
        let plan = SinkPlan::new(Guarantee::AtLeastOnce);
        // The header comes before every row, so one task writes them all.
        Ok(if self.format == Format::Csv { plan.with_max_parallelism(1) } else { plan })
    }

    fn open(&self, ctx: SinkCtx) -> Result<AnySink> {
        let encoder: Box<dyn Encoder> = match self.format {
            Format::Json => Box::new(JsonEncoder::new(Arc::clone(&ctx.schema), self.text)),
            Format::Csv => Box::new(CsvEncoder::new(Arc::clone(&ctx.schema), self.text, ctx.restored.is_none())?),
        };
        Ok(AnySink::AtLeastOnce(Box::new(Writer { target: self.target.clone(), encoder, emitted: ctx.emitted, pending: Vec::new() })))
    }

    fn config(&self) -> Value {
        json!(self.config)
    }
}

struct Writer {
    target: StdoutTarget,
    encoder: Box<dyn Encoder>,
    emitted: Counter,
    /// Encoded, not yet delivered.
    pending: Vec<u8>,
}

impl Writer {
    fn deliver(&mut self) -> Result<()> {
        if self.pending.is_empty() {
            return Ok(());
        }
        match self.target.write(&self.pending) {
            Ok(()) => {
                self.pending.clear();
                Ok(())
            }
            Err((taken, error)) => {
                self.pending.drain(..taken);
                Err(match error.kind() {
                    io::ErrorKind::BrokenPipe => Error::external(CLOSED_PIPE).caused_by(error),
                    _ => Error::external("standard output cannot be written to").caused_by(error),
                })
            }
        }
    }
}

impl Sink for Writer {
    fn write(&mut self, rows: &RecordBatch, _: Option<&BinaryArray>) -> Result<Written> {
        let bad = self.encoder.write(rows)?;
        self.pending.append(&mut self.encoder.take()?);
        self.deliver()?;
        self.emitted.add((rows.num_rows() - bad.len()) as u64);
        Ok(Written { bad })
    }

    fn flush(&mut self, _: Epoch) -> Result<Flushed> {
        self.deliver()?;
        Ok(Flushed::Done)
    }
}

//! The sink: parts of a directory, visible with their epoch.

use super::commit::FilesCommitter;
use super::config::FilesSinkConfig;
use super::part::{Part, encoder, wrapping};
use super::staging::{PartName, Place, failed};
use crate::registry::ConnectorCtx;
use crate::stdout::refuse_upserts;
use arrow::array::{BinaryArray, RecordBatch};
use serde_json::{Map, Value};
use std::sync::Arc;
use tidegate_api::config::Problem;
use tidegate_api::{
    AnySink, Committer, Epoch, Guarantee, OutputSink, PreCommit, Result, SinkCtx, SinkInput, SinkPlan, TransactionalSink, Written,
};

pub(crate) fn build(options: &Map<String, Value>, cx: &ConnectorCtx) -> Result<Arc<dyn OutputSink>, Vec<Problem>> {
    let config = FilesSinkConfig::parse(options, &cx.base_dir)?;
    Ok(Arc::new(FilesSink { config, options: options.clone() }))
}

/// A directory as a sink.
///
/// A part is written in a hidden folder of the directory, made durable at the barrier, and linked to its final name by
/// the commit. The token holds bare names, so recovery can commit it from another process and, over a shared file system,
/// from another machine.
#[derive(Debug)]
pub struct FilesSink {
    config: FilesSinkConfig,
    options: Map<String, Value>,
}

impl OutputSink for FilesSink {
    fn plan(&self, input: &SinkInput) -> Result<SinkPlan> {
        refuse_upserts(input, "files")?;
        // An encoder that can be made can write every row whose times it can hold.
        encoder(&self.config, &input.schema)?;
        Ok(SinkPlan::new(Guarantee::ExactlyOnce))
    }

    fn open(&self, ctx: SinkCtx) -> Result<AnySink> {
        let place = Place::new(&self.config.directory, &ctx);
        Ok(AnySink::Transactional(Box::new(Writer { config: self.config.clone(), place, ctx, begun: 0, part: None, finished: Vec::new() })))
    }

    fn committer(&self, ctx: SinkCtx) -> Result<Box<dyn Committer>> {
        Ok(Box::new(FilesCommitter::new(Place::new(&self.config.directory, &ctx))))
    }

    fn config(&self) -> Value {
        Value::Object(self.options.clone())
    }
}

struct Writer {
    config: FilesSinkConfig,
    place: Place,
    ctx: SinkCtx,
    /// Parts begun so far, which makes their staged names unique.
    begun: u64,
    part: Option<Part>,
    /// Staged names of the epoch's parts that are full.
    finished: Vec<String>,
}

impl Writer {
    fn part(&mut self) -> Result<&mut Part> {
        let part = match self.part.take() {
            Some(part) => part,
            None => {
                let (_, ending) = wrapping(&self.config);
                let staged = self.place.staged_name(self.ctx.task, self.begun, &ending);
                self.begun += 1;
                Part::begin(&self.config, &self.place, &self.ctx.schema, staged)?
            }
        };
        Ok(self.part.insert(part))
    }

    fn end_part(&mut self) -> Result<()> {
        if let Some(part) = self.part.take() {
            self.finished.push(part.finish()?);
        }
        Ok(())
    }
}

impl TransactionalSink for Writer {
    fn write(&mut self, rows: &RecordBatch, _: Option<&BinaryArray>) -> Result<Written> {
        if rows.num_rows() == 0 {
            return Ok(Written::default());
        }
        let part = self.part()?;
        let bad = part.write(rows)?;
        let written = part.written();
        if self.config.roll_bytes.is_some_and(|limit| written >= limit) {
            self.end_part()?;
        }
        self.ctx.emitted.add((rows.num_rows() - bad.len()) as u64);
        Ok(Written { bad })
    }

    fn pre_commit(&mut self, epoch: Epoch) -> Result<PreCommit> {
        self.end_part()?;
        if self.finished.is_empty() {
            return Ok(PreCommit::Nothing);
        }
        self.place.sync().map_err(|error| failed("made durable", &self.place.staging, error))?;
        let (_, ending) = wrapping(&self.config);
        let parts = std::mem::take(&mut self.finished)
            .into_iter()
            .enumerate()
            .map(|(number, staged)| PartName { staged, name: self.place.final_name(epoch, self.ctx.task, number, &ending) });
        Ok(PreCommit::Token(self.place.token(parts.collect())?))
    }
}

//! The sink: parts of a directory, visible with their epoch.

use super::commit::FilesCommitter;
use super::config::FilesSinkConfig;
use super::part::encoder;
use super::partition::{Partitioning, Split, content_schema};
use super::parts::Parts;
use super::staging::{Place, failed};
use super::upload::UploadCommitter;
use crate::registry::ConnectorCtx;
use crate::stdout::refuse_upserts;
use arrow::array::{BinaryArray, RecordBatch};
use serde_json::{Map, Value};
use std::sync::Arc;
use tidegate_api::config::Problem;
use tidegate_api::sink::RowError;
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
/// from another machine. Parts of a bucket are uploads that the commit completes.
#[derive(Debug)]
pub struct FilesSink {
    pub(super) config: FilesSinkConfig,
    pub(super) options: Map<String, Value>,
}

impl OutputSink for FilesSink {
    fn plan(&self, input: &SinkInput) -> Result<SinkPlan> {
        refuse_upserts(input, "files")?;
        // An encoder that can be made can write every row whose times it can hold.
        encoder(&self.config, &content_schema(&self.config, &input.schema)?)?;
        Ok(SinkPlan::new(Guarantee::ExactlyOnce))
    }

    fn open(&self, ctx: SinkCtx) -> Result<AnySink> {
        let place = Place::new(&self.config.directory, &ctx);
        let partitioning = match self.config.partition_by[..] {
            [] => None,
            [..] => Some(Partitioning::new(&self.config, &ctx.schema)?),
        };
        let schema = partitioning.as_ref().map_or(&ctx.schema, Partitioning::schema);
        let mut parts = Parts::new(self.config.clone(), place.clone(), ctx.task, Arc::clone(schema));
        if let Some(remote) = &self.config.remote {
            parts = parts.to(remote.bucket()?);
        }
        Ok(AnySink::Transactional(Box::new(Writer { place, ctx, partitioning, parts })))
    }

    fn committer(&self, ctx: SinkCtx) -> Result<Box<dyn Committer>> {
        let place = Place::new(&self.config.directory, &ctx);
        Ok(match &self.config.remote {
            None => Box::new(FilesCommitter::new(place)),
            Some(remote) => Box::new(UploadCommitter::new(remote.bucket()?, place)),
        })
    }

    fn config(&self) -> Value {
        Value::Object(self.options.clone())
    }
}

struct Writer {
    place: Place,
    ctx: SinkCtx,
    partitioning: Option<Partitioning>,
    parts: Parts,
}

impl TransactionalSink for Writer {
    fn write(&mut self, rows: &RecordBatch, _: Option<&BinaryArray>) -> Result<Written> {
        if rows.num_rows() == 0 {
            return Ok(Written::default());
        }
        let mut split = match &self.partitioning {
            Some(partitioning) => partitioning.split(rows)?,
            None => Split::whole(rows),
        };
        let now = self.ctx.clock.monotonic();
        let mut bad = std::mem::take(&mut split.refused);
        for (folder, range) in &split.folders {
            let refused = self.parts.write(folder, &split.rows.slice(range.start, range.len()), now)?;
            bad.extend(refused.into_iter().map(|error| RowError { row: split.original(range.start + error.row), ..error }));
        }
        bad.sort_by_key(|error| error.row);
        self.ctx.emitted.add((rows.num_rows() - bad.len()) as u64);
        Ok(Written { bad })
    }

    fn pre_commit(&mut self, epoch: Epoch) -> Result<PreCommit> {
        let parts = self.parts.end_all(epoch)?;
        if parts.is_empty() {
            return Ok(PreCommit::Nothing);
        }
        if parts.iter().any(|part| part.upload.is_none()) {
            self.place.sync().map_err(|error| failed("made durable", &self.place.staging, error))?;
        }
        Ok(PreCommit::Token(self.place.token(parts)?))
    }
}

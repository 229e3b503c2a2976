//! The writer of two phases: rows become staged segments, and a token names them.

use super::config::KafkaSinkConfig;
use super::record::Serializer;
use super::segment::{Segment, SegmentName};
use super::token::Names;
use super::topics::Topics;
use arrow::array::{BinaryArray, RecordBatch};
use std::sync::Arc;
use std::time::Duration;
use tidegate_api::{Epoch, ErrorKind, PreCommit, Result, Retry, SinkCtx, TransactionalSink, Written};

/// Bytes past which a segment is put into staging.
pub(super) const SEGMENT: usize = 8 << 20;
/// How often the mark is written anew while there are no rows, at the least.
const REFRESH: Duration = Duration::from_secs(24 * 60 * 60);

/// See the module's documentation.
pub(super) struct StagedWriter {
    serializer: Serializer,
    names: Names,
    ctx: SinkCtx,
    segment: Segment,
    /// Ended and not yet confirmed by the store.
    unstaged: Vec<(SegmentName, Vec<u8>)>,
    staged: Vec<SegmentName>,
    next: u64,
    most: usize,
    refresh: Duration,
    /// When this task last handed over a token.
    told: Duration,
}

impl StagedWriter {
    pub(super) fn open(config: &KafkaSinkConfig, topics: Arc<Topics>, id: Option<u32>, ctx: SinkCtx) -> Result<Self> {
        let names = Names::of(&ctx.run);
        let refresh = topics.retention()?.map_or(REFRESH, |retention| (retention / 3).min(REFRESH));
        // A name is used once, also by a writer that is opened again under the same generation.
        let before = ctx.staging.list(&names.segments_of(ctx.task))?;
        let next = before.iter().filter_map(|key| Names::number_of(key)).max().map_or(0, |last| last + 1);
        let serializer = Serializer::new(config, &ctx.schema, &ctx.mode, topics, id)?;
        let told = ctx.clock.monotonic();
        Ok(StagedWriter {
            serializer,
            names,
            ctx,
            segment: Segment::default(),
            unstaged: Vec::new(),
            staged: Vec::new(),
            next,
            most: SEGMENT,
            refresh,
            told,
        })
    }

    /// Another bound for segments, so that a test has many with few rows.
    #[cfg(test)]
    pub(super) fn with_segments_of(mut self, bytes: usize) -> Self {
        self.most = bytes;
        self
    }

    fn stage(&mut self) -> Result<()> {
        while let Some((name, bytes)) = self.unstaged.first() {
            self.ctx.staging.put(&name.key, bytes)?;
            let (name, _) = self.unstaged.remove(0);
            self.staged.push(name);
        }
        Ok(())
    }
}

/// Ends a segment under the next name.
fn end(segment: &mut Segment, names: &Names, task: usize, next: &mut u64) -> (SegmentName, Vec<u8>) {
    let key = format!("{}{}", names.segments_of(task), *next);
    *next += 1;
    segment.end(key)
}

impl TransactionalSink for StagedWriter {
    fn write(&mut self, rows: &RecordBatch, _: Option<&BinaryArray>) -> Result<Written> {
        // What the store did not take last time comes first, while nothing of this batch is taken.
        self.stage()?;
        let StagedWriter { serializer, names, ctx, segment, unstaged, next, most, .. } = self;
        let mut bytes = 0;
        let bad = serializer.write(rows, &mut |record| {
            bytes += record.bytes() as u64;
            segment.push(record);
            if segment.len() >= *most {
                unstaged.push(end(segment, names, ctx.task, next));
            }
            Ok(())
        })?;
        self.ctx.emitted.add((rows.num_rows() - bad.len()) as u64);
        self.ctx.meters.bytes.add(bytes);
        match self.stage() {
            // The rows are taken, so the call must not be repeated; the segment waits for the next one.
            Err(error) if matches!(error.kind(), ErrorKind::External { retry: Retry::After(_) }) => {
                tracing::debug!(%error, "a segment is not staged yet");
            }
            staged => staged?,
        }
        Ok(Written { bad })
    }

    fn pre_commit(&mut self, epoch: Epoch) -> Result<PreCommit> {
        if !self.segment.is_empty() {
            self.unstaged.push(end(&mut self.segment, &self.names, self.ctx.task, &mut self.next));
        }
        self.stage()?;
        let now = self.ctx.clock.monotonic();
        if self.staged.is_empty() && (self.ctx.task != 0 || now.saturating_sub(self.told) < self.refresh) {
            return Ok(PreCommit::Nothing);
        }
        self.told = now;
        Ok(PreCommit::Token(self.names.token(epoch, self.ctx.task, std::mem::take(&mut self.staged))?))
    }
}

use crate::{
    ChangeMode, Chunk, Discovered, Error, InlineSource, Ordinals, PollRequest, Polled, Position, Result, SourceCtx, SourcePlan,
    SourceReader, SourceRequest, Split, SplitId, SplitState, hidden,
};
use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use std::collections::VecDeque;
use std::sync::Arc;

/// The rows of one split, as batches; positions count rows.
#[derive(Debug, Clone)]
pub struct Script {
    /// The split's name.
    pub split: SplitId,
    /// Its rows.
    pub batches: Vec<RecordBatch>,
}

impl Script {
    /// One split with these rows.
    pub fn new(split: impl AsRef<str>, batches: Vec<RecordBatch>) -> Self {
        Script { split: SplitId::new(split), batches }
    }
}

/// A bounded, replayable source with fixed rows; re-cuts its batches to whatever a poll asks for.
#[derive(Debug, Clone)]
pub struct ScriptedSource {
    schema: SchemaRef,
    mode: ChangeMode,
    scripts: Arc<Vec<Script>>,
}

impl ScriptedSource {
    /// A source of these splits.
    pub fn new(schema: SchemaRef, scripts: Vec<Script>) -> Self {
        ScriptedSource { schema, mode: ChangeMode::Append, scripts: Arc::new(scripts) }
    }

    /// Says that rows replace each other; the scripts' last column is [`hidden::OP`].
    #[must_use]
    pub fn with_mode(mut self, mode: ChangeMode) -> Self {
        self.mode = mode;
        self
    }

    fn projection(&self, request: &SourceRequest) -> Vec<usize> {
        let always = |name: &String| match &self.mode {
            ChangeMode::Append => false,
            ChangeMode::Upsert { keys } => name == hidden::OP || keys.contains(name),
        };
        let given = |name: &String| request.wants(name) || always(name);
        (0..self.schema.fields().len()).filter(|index| given(self.schema.field(*index).name())).collect()
    }
}

impl InlineSource for ScriptedSource {
    fn plan(&self, request: &SourceRequest) -> Result<SourcePlan> {
        Ok(SourcePlan::new(Arc::new(self.schema.project(&self.projection(request))?)).with_mode(self.mode.clone()))
    }

    fn discover(&self, cursor: Option<&[u8]>) -> Result<Discovered> {
        let splits =
            self.scripts.iter().map(|script| Split { id: script.split.clone(), details: Vec::new(), position: Some(Position::number(0)) });
        let added = if cursor.is_some() { Vec::new() } else { splits.collect() };
        Ok(Discovered { added, gone: Vec::new(), cursor: Some(b"all".to_vec()), complete: true })
    }

    fn open(&self, ctx: SourceCtx) -> Result<Box<dyn SourceReader>> {
        let mut reader = Reader { source: self.clone(), projection: self.projection(&ctx.request), open: VecDeque::new() };
        reader.assign(ctx.start)?;
        Ok(Box::new(reader))
    }
}

struct Reader {
    source: ScriptedSource,
    projection: Vec<usize>,
    open: VecDeque<(SplitId, u64)>,
}

impl SourceReader for Reader {
    fn assign(&mut self, splits: Vec<Split>) -> Result<()> {
        for split in splits {
            let at = split.position.as_ref().and_then(Position::as_number);
            let at = at.ok_or_else(|| Error::internal(format!("split `{}` has no position", split.id)))?;
            self.open.push_back((split.id, at));
        }
        Ok(())
    }

    fn poll(&mut self, request: PollRequest) -> Result<Polled> {
        let Some((split, at)) = self.open.pop_front() else {
            return Ok(Polled { retry_after: Some(std::time::Duration::from_secs(1)), ..Polled::default() });
        };
        let script = self.source.scripts.iter().find(|script| script.split == split);
        let script = script.ok_or_else(|| Error::internal(format!("no script for split `{split}`")))?;
        let mut polled = Polled::default();
        let mut skipped = 0;
        for batch in &script.batches {
            let rows = batch.num_rows() as u64;
            if at < skipped + rows {
                let from = (at - skipped) as usize;
                let count = (batch.num_rows() - from).min(request.max_rows.max(1));
                let next = at + count as u64;
                let rows = batch.slice(from, count).project(&self.projection)?;
                let mut chunk = Chunk::new(split.clone(), rows, Position::number(next));
                chunk.ordinals = Ordinals::From(at);
                polled.chunks.push(chunk);
                self.open.push_back((split, next));
                return Ok(polled);
            }
            skipped += rows;
        }
        polled.states.push((split, SplitState::Finished));
        Ok(polled)
    }
}

//! A source like a queue: rows that were acknowledged are forgotten and cannot be read again.

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use tidegate_api::{
    Chunk, Discovered, InlineSource, Ordinals, PollRequest, Polled, Position, Result, SourceCtx, SourcePlan, SourceReader, SourceRequest,
    Split, SplitId, SplitState,
};

/// The outside world: rows by split, and how many of each are forgotten.
#[derive(Clone)]
pub struct Queue {
    schema: SchemaRef,
    rows: Arc<BTreeMap<SplitId, RecordBatch>>,
    forgotten: Arc<Mutex<BTreeMap<SplitId, u64>>>,
}

impl Queue {
    pub fn new(schema: SchemaRef, rows: Vec<(&str, RecordBatch)>) -> Self {
        let rows: BTreeMap<SplitId, RecordBatch> = rows.into_iter().map(|(split, rows)| (SplitId::new(split), rows)).collect();
        Queue { schema, rows: Arc::new(rows), forgotten: Arc::default() }
    }

    pub fn forgotten(&self) -> u64 {
        self.forgotten.lock().unwrap().values().sum()
    }
}

impl InlineSource for Queue {
    fn plan(&self, _: &SourceRequest) -> Result<SourcePlan> {
        Ok(SourcePlan::new(Arc::clone(&self.schema)).with_replayable(false))
    }

    fn discover(&self, cursor: Option<&[u8]>) -> Result<Discovered> {
        let all = self.rows.keys().map(|id| Split { id: id.clone(), details: Vec::new(), position: Some(Position::number(0)) });
        let added = if cursor.is_some() { Vec::new() } else { all.collect() };
        Ok(Discovered { added, gone: Vec::new(), cursor: Some(b"all".to_vec()), complete: true })
    }

    fn open(&self, ctx: SourceCtx) -> Result<Box<dyn SourceReader>> {
        let mut reader = Reader { queue: self.clone(), open: Vec::new(), next: 0 };
        reader.assign(ctx.start)?;
        Ok(Box::new(reader))
    }
}

struct Reader {
    queue: Queue,
    open: Vec<(SplitId, u64)>,
    next: usize,
}

impl SourceReader for Reader {
    fn assign(&mut self, splits: Vec<Split>) -> Result<()> {
        self.open.extend(splits.into_iter().map(|split| (split.id, split.position.and_then(|at| at.as_number()).unwrap())));
        Ok(())
    }

    fn poll(&mut self, request: PollRequest) -> Result<Polled> {
        let mut polled = Polled::default();
        if self.open.is_empty() {
            return Ok(polled);
        }
        self.next = (self.next + 1) % self.open.len();
        let (split, at) = self.open[self.next].clone();
        let rows = &self.queue.rows[&split];
        // What is forgotten is not there any more: reading goes on behind it, and nobody is told.
        let from = at.max(self.queue.forgotten.lock().unwrap().get(&split).copied().unwrap_or(0)) as usize;
        let count = (rows.num_rows() - from).min(request.max_rows);
        if count == 0 {
            polled.states.push((split, SplitState::Finished));
            self.open.remove(self.next);
            return Ok(polled);
        }
        let next = (from + count) as u64;
        let mut chunk = Chunk::new(split.clone(), rows.slice(from, count), Position::number(next));
        chunk.ordinals = Ordinals::From(from as u64);
        polled.chunks.push(chunk);
        self.open[self.next].1 = next;
        Ok(polled)
    }

    fn committed(&mut self, positions: &[(SplitId, Position)]) -> Result<()> {
        let mut forgotten = self.queue.forgotten.lock().unwrap();
        for (split, position) in positions {
            let slot = forgotten.entry(split.clone()).or_default();
            *slot = (*slot).max(position.as_number().unwrap());
        }
        Ok(())
    }
}

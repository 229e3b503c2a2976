//! Sources and sinks that misbehave on demand.

use arrow::array::{BinaryArray, RecordBatch};
use arrow::datatypes::SchemaRef;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;
use tidegate_api::sink::RowError;
use tidegate_api::{
    AnySink, BarrierAcker, Chunk, Discovered, Epoch, Error, Flushed, Guarantee, InlineSource, OutputSink, PollRequest, Polled, Position,
    Result, Sink, SinkCtx, SinkInput, SinkPlan, SourceCtx, SourcePlan, SourceReader, SourceRequest, Split, SplitId, SplitState, Written,
};

/// Rows 0, 1, 2, … up to a limit that the test raises; caught up in between, and never finished.
#[derive(Clone)]
pub struct Growing {
    pub schema: SchemaRef,
    pub limit: Arc<AtomicU64>,
    /// Polls that fail with an external error before the first that succeeds.
    pub failures: Arc<AtomicU64>,
}

impl Growing {
    pub fn new(limit: u64) -> Self {
        Growing { schema: super::schema(&["time", "key", "value"]), limit: Arc::new(AtomicU64::new(limit)), failures: Arc::default() }
    }
}

impl InlineSource for Growing {
    fn plan(&self, _: &SourceRequest) -> Result<SourcePlan> {
        Ok(SourcePlan::new(Arc::clone(&self.schema)).with_bounded(false))
    }

    fn discover(&self, cursor: Option<&[u8]>) -> Result<Discovered> {
        let split = Split { id: SplitId::new("all"), details: Vec::new(), position: Some(Position::number(0)) };
        let added = if cursor.is_some() { Vec::new() } else { vec![split] };
        Ok(Discovered { added, gone: Vec::new(), cursor: Some(Vec::new()), complete: true })
    }

    fn open(&self, ctx: SourceCtx) -> Result<Box<dyn SourceReader>> {
        let at = ctx.start.first().and_then(|split| split.position.as_ref()?.as_number());
        Ok(Box::new(Counting { source: self.clone(), at }))
    }
}

struct Counting {
    source: Growing,
    at: Option<u64>,
}

impl SourceReader for Counting {
    fn assign(&mut self, _: Vec<Split>) -> Result<()> {
        Err(Error::internal("there is one split only"))
    }

    fn poll(&mut self, request: PollRequest) -> Result<Polled> {
        let mut polled = Polled::default();
        let Some(at) = self.at else { return Ok(polled) };
        if self.source.failures.load(Ordering::SeqCst) > 0 {
            self.source.failures.fetch_sub(1, Ordering::SeqCst);
            return Err(Error::external("the outside is gone"));
        }
        let split = SplitId::new("all");
        let to = self.source.limit.load(Ordering::SeqCst).min(at + request.max_rows as u64);
        if to == at {
            polled.states.push((split, SplitState::CaughtUp));
            polled.retry_after = Some(Duration::from_millis(1));
            return Ok(polled);
        }
        let rows: Vec<Vec<i64>> = (at as i64..to as i64).map(|row| vec![row * 7, row % 9, row]).collect();
        polled.chunks.push(Chunk::new(split, super::batch(&self.source.schema, &rows), Position::number(to)));
        self.at = Some(to);
        Ok(polled)
    }
}

/// What a [`Moody`] sink does.
#[derive(Clone, Copy, Default)]
pub struct Mood {
    /// So many writes fail in a way that may be repeated.
    pub failing_writes: u64,
    /// So many flushes do.
    pub failing_flushes: u64,
    /// Refuses rows whose first column is a multiple of this.
    pub refuses: Option<i64>,
    /// Answers flushes through the acker, when the test says so.
    pub later: bool,
    /// Fails to open.
    pub broken: bool,
    /// Panics on the first write.
    pub panics: bool,
    /// Does not return from writes before the test opens the gate.
    pub blocks: bool,
}

/// An at-least-once sink into memory with moods. Rows count as delivered at a flush.
#[derive(Clone, Default)]
pub struct Moody {
    pub mood: Mood,
    pub delivered: Arc<Mutex<Vec<RecordBatch>>>,
    pub opened: Arc<AtomicU64>,
    /// Flushes to be answered.
    pub owed: Arc<Mutex<Vec<(BarrierAcker, Epoch)>>>,
    /// Open when true.
    pub gate: Arc<(Mutex<bool>, Condvar)>,
}

impl Moody {
    pub fn new(mood: Mood) -> Self {
        Moody { mood, ..Moody::default() }
    }

    /// Lets blocked writes go on.
    pub fn open_gate(&self) {
        *self.gate.0.lock().unwrap() = true;
        self.gate.1.notify_all();
    }

    /// Answers what is owed; says how much that was.
    pub fn answer(&self) -> usize {
        let owed: Vec<_> = self.owed.lock().unwrap().drain(..).collect();
        for (acker, epoch) in &owed {
            acker.acknowledge(*epoch, Ok(None));
            acker.acknowledge(*epoch, Ok(None));
        }
        owed.len()
    }
}

impl OutputSink for Moody {
    fn plan(&self, _: &SinkInput) -> Result<SinkPlan> {
        Ok(SinkPlan::new(Guarantee::AtLeastOnce))
    }

    fn open(&self, ctx: SinkCtx) -> Result<AnySink> {
        if self.mood.broken {
            return Err(Error::config("the moody sink is broken"));
        }
        self.opened.fetch_add(1, Ordering::SeqCst);
        Ok(AnySink::AtLeastOnce(Box::new(Writing { sink: self.clone(), ctx, taken: Vec::new() })))
    }
}

struct Writing {
    sink: Moody,
    ctx: SinkCtx,
    taken: Vec<RecordBatch>,
}

impl Sink for Writing {
    fn write(&mut self, rows: &RecordBatch, _: Option<&BinaryArray>) -> Result<Written> {
        assert!(!self.sink.mood.panics, "the moody sink panics");
        if self.sink.mood.blocks {
            let gate = &self.sink.gate;
            drop(gate.1.wait_while(gate.0.lock().unwrap(), |open| !*open).unwrap());
        }
        let mood = &mut self.sink.mood;
        if mood.failing_writes > 0 {
            mood.failing_writes -= 1;
            return Err(Error::retryable("not now", Duration::from_millis(1)));
        }
        let refuses = mood.refuses;
        let values = rows.column(0).as_any().downcast_ref::<arrow::array::Int64Array>().unwrap();
        let mut written = Written::default();
        for (row, value) in values.iter().enumerate() {
            if refuses.is_some_and(|refuses| value.unwrap() % refuses == 0) {
                written.bad.push(RowError { row, column: Some("time".into()), message: "not to my taste".into() });
            }
        }
        let keep: arrow::array::BooleanArray =
            (0..rows.num_rows()).map(|row| Some(!written.bad.iter().any(|bad| bad.row == row))).collect();
        self.taken.push(arrow::compute::filter_record_batch(rows, &keep)?);
        Ok(written)
    }

    fn flush(&mut self, epoch: Epoch) -> Result<Flushed> {
        if self.sink.mood.failing_flushes > 0 {
            self.sink.mood.failing_flushes -= 1;
            return Err(Error::retryable("not now", Duration::from_millis(1)));
        }
        self.sink.delivered.lock().unwrap().append(&mut self.taken);
        if self.sink.mood.later {
            self.sink.owed.lock().unwrap().push((self.ctx.acker.clone(), epoch));
            return Ok(Flushed::Later);
        }
        Ok(Flushed::Done)
    }
}

/// A source that finds splits one after the other; each holds the rows `100 n .. 100 n + 10`.
#[derive(Clone)]
pub struct Finding {
    pub schema: SchemaRef,
    /// How many splits exist by now.
    pub splits: Arc<AtomicU64>,
    /// When so many exist, no more will come.
    pub last: u64,
    /// Whether each discovery makes another split exist.
    pub grows: bool,
    /// Discoveries that fail before the next that succeeds.
    pub failures: Arc<AtomicU64>,
}

impl Finding {
    pub fn new(last: u64) -> Self {
        Finding {
            schema: super::schema(&["time", "key", "value"]),
            splits: Arc::new(AtomicU64::new(1)),
            last,
            grows: false,
            failures: Arc::default(),
        }
    }
}

impl InlineSource for Finding {
    fn plan(&self, _: &SourceRequest) -> Result<SourcePlan> {
        Ok(SourcePlan::new(Arc::clone(&self.schema)))
    }

    fn discover(&self, cursor: Option<&[u8]>) -> Result<Discovered> {
        if self.failures.load(Ordering::SeqCst) > 0 {
            self.failures.fetch_sub(1, Ordering::SeqCst);
            return Err(Error::external("nobody answers"));
        }
        let known = cursor.map_or(0, |cursor| Position(cursor.to_vec()).as_number().unwrap());
        let now = self.splits.load(Ordering::SeqCst);
        if self.grows {
            self.splits.store((now + 1).min(self.last), Ordering::SeqCst);
        }
        let split = |n: u64| Split { id: SplitId::new(n.to_string()), details: Vec::new(), position: Some(Position::number(0)) };
        Ok(Discovered {
            added: (known..now).map(split).collect(),
            gone: Vec::new(),
            cursor: Some(Position::number(now).0),
            complete: now == self.last,
        })
    }

    fn discover_every(&self) -> Option<Duration> {
        Some(Duration::from_millis(1))
    }

    fn remembers_splits(&self) -> bool {
        true
    }

    fn open(&self, ctx: SourceCtx) -> Result<Box<dyn SourceReader>> {
        Ok(Box::new(Reading { schema: Arc::clone(&self.schema), open: ctx.start }))
    }
}

struct Reading {
    schema: SchemaRef,
    open: Vec<Split>,
}

impl SourceReader for Reading {
    fn assign(&mut self, splits: Vec<Split>) -> Result<()> {
        self.open.extend(splits);
        Ok(())
    }

    fn poll(&mut self, request: PollRequest) -> Result<Polled> {
        let mut polled = Polled::default();
        let Some(split) = self.open.first_mut() else { return Ok(polled) };
        let at = split.position.as_ref().and_then(Position::as_number).unwrap() as i64;
        let to = (at + request.max_rows as i64).min(10);
        if at == to {
            polled.states.push((split.id.clone(), SplitState::Finished));
            self.open.remove(0);
            return Ok(polled);
        }
        let first: i64 = split.id.as_str().parse::<i64>().unwrap() * 100;
        let rows: Vec<Vec<i64>> = (at..to).map(|row| vec![first + row, 0, first + row]).collect();
        split.position = Some(Position::number(to as u64));
        polled.chunks.push(Chunk::new(split.id.clone(), super::batch(&self.schema, &rows), Position::number(to as u64)));
        Ok(polled)
    }
}

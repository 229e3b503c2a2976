//! A source that gives its rows at a steady pace, so that a short input lasts for many epochs.

use std::sync::Arc;
use std::time::Duration;
use tidegate_api::{
    Clock, Discovered, InlineSource, PollRequest, Polled, Position, Result, SourceCtx, SourcePlan, SourceReader, SourceRequest, Split,
    SplitId,
};

/// See the module's documentation. Splits, positions and rows are those of the source.
pub(super) struct Paced {
    source: Arc<dyn InlineSource>,
    rows_per_second: f64,
}

impl Paced {
    pub(super) fn new(source: Arc<dyn InlineSource>, rows_per_second: f64) -> Self {
        Paced { source, rows_per_second }
    }
}

impl InlineSource for Paced {
    fn plan(&self, request: &SourceRequest) -> Result<SourcePlan> {
        self.source.plan(request)
    }

    fn check(&self) -> Result<()> {
        self.source.check()
    }

    fn discover(&self, cursor: Option<&[u8]>) -> Result<Discovered> {
        self.source.discover(cursor)
    }

    fn discover_every(&self) -> Option<Duration> {
        self.source.discover_every()
    }

    fn remembers_splits(&self) -> bool {
        self.source.remembers_splits()
    }

    fn open(&self, ctx: SourceCtx) -> Result<Box<dyn SourceReader>> {
        let clock = Arc::clone(&ctx.clock);
        let rows_per_second = (self.rows_per_second / ctx.tasks.max(1) as f64).max(1.0);
        let reader = self.source.open(ctx)?;
        Ok(Box::new(Reader { reader, since: clock.monotonic(), clock, rows_per_second, given: 0 }))
    }
}

struct Reader {
    reader: Box<dyn SourceReader>,
    clock: Arc<dyn Clock>,
    since: Duration,
    rows_per_second: f64,
    given: u64,
}

impl SourceReader for Reader {
    fn assign(&mut self, splits: Vec<Split>) -> Result<()> {
        self.reader.assign(splits)
    }

    fn poll(&mut self, request: PollRequest) -> Result<Polled> {
        let passed = self.clock.monotonic().saturating_sub(self.since).as_secs_f64();
        let allowed = ((passed * self.rows_per_second) as u64).saturating_sub(self.given);
        if allowed == 0 {
            // Its state stays as it was: a source that holds back is not idle.
            let missing = (self.given + 1) as f64 / self.rows_per_second - passed;
            let wait = Duration::from_secs_f64(missing.clamp(0.0005, 0.05));
            return Ok(Polled { retry_after: Some(wait), ..Polled::default() });
        }
        let max_rows = request.max_rows.min(usize::try_from(allowed).unwrap_or(usize::MAX));
        let polled = self.reader.poll(PollRequest { max_rows, ..request })?;
        let rows = polled.chunks.iter().map(|chunk| chunk.rows.num_rows() as u64 + chunk.bad.len() as u64 + chunk.filtered);
        self.given += rows.sum::<u64>();
        Ok(polled)
    }

    fn committed(&mut self, positions: &[(SplitId, Position)]) -> Result<()> {
        self.reader.committed(positions)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::{Int64Array, RecordBatch};
    use arrow::datatypes::{DataType, Field, Schema};
    use tidegate_api::testkit::ManualClock;
    use tidegate_api::{Chunk, Generation, RunId, RunIdentity};

    /// Gives as many rows as it is asked for.
    struct Endless;

    impl InlineSource for Endless {
        fn plan(&self, _: &SourceRequest) -> Result<SourcePlan> {
            Ok(SourcePlan::new(Arc::new(Schema::new(vec![Field::new("n", DataType::Int64, false)]))))
        }

        fn discover(&self, _: Option<&[u8]>) -> Result<Discovered> {
            Ok(Discovered::default())
        }

        fn open(&self, _: SourceCtx) -> Result<Box<dyn SourceReader>> {
            Ok(Box::new(Endless))
        }
    }

    impl SourceReader for Endless {
        fn assign(&mut self, _: Vec<Split>) -> Result<()> {
            Ok(())
        }

        fn poll(&mut self, request: PollRequest) -> Result<Polled> {
            let schema = Arc::new(Schema::new(vec![Field::new("n", DataType::Int64, false)]));
            let rows = RecordBatch::try_new(schema, vec![Arc::new(Int64Array::from(vec![1; request.max_rows]))])?;
            Ok(Polled { chunks: vec![Chunk::new(SplitId::new("s"), rows, Position::number(0))], ..Polled::default() })
        }
    }

    #[test]
    fn rows_come_as_time_passes_and_are_shared_among_tasks() {
        let clock = Arc::new(ManualClock::at(tidegate_api::EventTime(0)));
        let run = RunIdentity::new("p", RunId::new("r"), Generation(1), "s");
        let ctx = SourceCtx::new(run).with_task(0, 2).with_clock(clock.clone());
        let mut reader = Paced::new(Arc::new(Endless), 2000.0).open(ctx).unwrap();
        let mut read = |max_rows| {
            let polled = reader.poll(PollRequest { max_rows, max_bytes: 1 << 20, wait: Duration::ZERO }).unwrap();
            (polled.chunks.iter().map(|chunk| chunk.rows.num_rows()).sum::<usize>(), polled.retry_after)
        };
        assert_eq!(read(100), (0, Some(Duration::from_millis(1))));
        clock.advance(Duration::from_millis(50));
        assert_eq!(read(20), (20, None));
        assert_eq!(read(100), (30, None));
        assert_eq!(read(100).0, 0);
        clock.advance(Duration::from_secs(1));
        assert_eq!(read(10_000).0, 1000);
    }
}

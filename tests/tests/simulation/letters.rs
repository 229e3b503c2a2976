//! An at-least-once sink that refuses a write now and then and may answer a flush long after it was asked, or twice.

use arrow::array::{BinaryArray, RecordBatch};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tidegate_api::{
    AnySink, BarrierAcker, Epoch, Error, Flushed, Guarantee, OutputSink, Result, Sink, SinkCtx, SinkInput, SinkPlan, Written,
};
use tidegate_runtime::simulate::SimRandom;

/// The outside world of the sink.
#[derive(Clone, Default)]
pub struct Letters {
    delivered: Arc<Mutex<Vec<RecordBatch>>>,
    /// Flushes to be answered.
    owed: Arc<Mutex<Vec<(BarrierAcker, Epoch)>>>,
    seed: u64,
}

impl Letters {
    pub fn new(seed: u64) -> Self {
        Letters { seed, ..Letters::default() }
    }

    /// What has arrived.
    pub fn delivered(&self) -> Vec<RecordBatch> {
        self.delivered.lock().unwrap().clone()
    }

    /// Answers what is owed, some of it twice.
    pub fn answer(&self, random: &mut SimRandom) {
        for (acker, epoch) in self.owed.lock().unwrap().drain(..) {
            acker.acknowledge(epoch, Ok(None));
            if random.one_in(2) {
                acker.acknowledge(epoch, Ok(None));
            }
        }
    }
}

impl OutputSink for Letters {
    fn plan(&self, _: &SinkInput) -> Result<SinkPlan> {
        Ok(SinkPlan::new(Guarantee::AtLeastOnce))
    }

    fn open(&self, ctx: SinkCtx) -> Result<AnySink> {
        let random = SimRandom::new(self.seed ^ ctx.run.generation.0 ^ (ctx.task as u64) << 32);
        Ok(AnySink::AtLeastOnce(Box::new(Writer { letters: self.clone(), acker: ctx.acker, taken: Vec::new(), random })))
    }
}

struct Writer {
    letters: Letters,
    acker: BarrierAcker,
    taken: Vec<RecordBatch>,
    random: SimRandom,
}

impl Sink for Writer {
    fn write(&mut self, rows: &RecordBatch, _: Option<&BinaryArray>) -> Result<Written> {
        if self.random.one_in(20) {
            return Err(Error::retryable("the box is full", Duration::from_millis(1)));
        }
        self.taken.push(rows.clone());
        Ok(Written::default())
    }

    fn flush(&mut self, epoch: Epoch) -> Result<Flushed> {
        self.letters.delivered.lock().unwrap().append(&mut self.taken);
        if self.random.one_in(2) {
            return Ok(Flushed::Done);
        }
        self.letters.owed.lock().unwrap().push((self.acker.clone(), epoch));
        Ok(Flushed::Later)
    }
}

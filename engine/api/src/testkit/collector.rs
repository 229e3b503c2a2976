use crate::{
    AnySink, ChangeMode, CommitOutcome, CommitToken, Committer, Epoch, Error, Guarantee, OutputSink, PreCommit, Result, SinkCtx, SinkInput,
    SinkPlan, TransactionalSink, Written,
};
use arrow::array::{BinaryArray, RecordBatch};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The outside world of a [`CollectorSink`]: what is prepared and what is visible. Survives every simulated crash.
#[derive(Debug, Clone, Default)]
pub struct Collector {
    world: Arc<Mutex<World>>,
}

#[derive(Debug, Default)]
struct World {
    prepared: BTreeMap<Name, Vec<RecordBatch>>,
    committed: BTreeMap<Name, Vec<RecordBatch>>,
    order: Vec<Name>,
}

/// Names what one task wrote in one epoch; the token is its JSON.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
struct Name {
    run: String,
    operator: String,
    generation: u64,
    epoch: u64,
    task: usize,
}

impl Collector {
    /// An empty world.
    pub fn new() -> Self {
        Collector::default()
    }

    /// A transactional sink into this world.
    pub fn sink(&self) -> Arc<CollectorSink> {
        Arc::new(CollectorSink { collector: self.clone() })
    }

    /// What a reader sees now, in order of commit.
    pub fn visible(&self) -> Vec<RecordBatch> {
        let world = self.lock();
        world.order.iter().flat_map(|name| world.committed[name].iter().cloned()).collect()
    }

    /// How many pre-commits are neither committed nor undone.
    pub fn prepared(&self) -> usize {
        self.lock().prepared.len()
    }

    fn lock(&self) -> MutexGuard<'_, World> {
        self.world.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A transactional sink into memory.
#[derive(Debug, Clone)]
pub struct CollectorSink {
    collector: Collector,
}

impl OutputSink for CollectorSink {
    fn plan(&self, _: &SinkInput) -> Result<SinkPlan> {
        Ok(SinkPlan::new(Guarantee::ExactlyOnce))
    }

    fn open(&self, ctx: SinkCtx) -> Result<AnySink> {
        debug_assert!(matches!(ctx.mode, ChangeMode::Append | ChangeMode::Upsert { .. }));
        Ok(AnySink::Transactional(Box::new(Writer { collector: self.collector.clone(), ctx, rows: Vec::new() })))
    }

    fn committer(&self, ctx: SinkCtx) -> Result<Box<dyn Committer>> {
        Ok(Box::new(CollectorCommitter { collector: self.collector.clone(), ctx }))
    }
}

struct Writer {
    collector: Collector,
    ctx: SinkCtx,
    rows: Vec<RecordBatch>,
}

impl TransactionalSink for Writer {
    fn write(&mut self, rows: &RecordBatch, _: Option<&BinaryArray>) -> Result<Written> {
        self.ctx.emitted.add(rows.num_rows() as u64);
        self.rows.push(rows.clone());
        Ok(Written::default())
    }

    fn pre_commit(&mut self, epoch: Epoch) -> Result<PreCommit> {
        if self.rows.is_empty() {
            return Ok(PreCommit::Nothing);
        }
        let run = &self.ctx.run;
        let name = Name {
            run: run.run_id.to_string(),
            operator: run.operator.clone(),
            generation: run.generation.0,
            epoch: epoch.0,
            task: self.ctx.task,
        };
        let token = serde_json::to_vec(&name).map_err(|error| Error::internal(error.to_string()))?;
        self.collector.lock().prepared.insert(name, std::mem::take(&mut self.rows));
        Ok(PreCommit::Token(CommitToken(token)))
    }
}

struct CollectorCommitter {
    collector: Collector,
    ctx: SinkCtx,
}

fn name_of(token: &CommitToken) -> Result<Name> {
    serde_json::from_slice(&token.0).map_err(|error| Error::internal(format!("token `{token:?}` is not a collector's: {error}")))
}

impl Committer for CollectorCommitter {
    fn commit(&mut self, _: Epoch, tokens: &[CommitToken]) -> Result<Vec<CommitOutcome>> {
        let mut world = self.collector.lock();
        tokens
            .iter()
            .map(|token| {
                let name = name_of(token)?;
                if world.committed.contains_key(&name) {
                    return Ok(CommitOutcome::AlreadyDone);
                }
                match world.prepared.remove(&name) {
                    Some(rows) => {
                        world.order.push(name.clone());
                        world.committed.insert(name, rows);
                        Ok(CommitOutcome::Done)
                    }
                    None => Ok(CommitOutcome::Lost(format!("nothing is prepared as `{name:?}`"))),
                }
            })
            .collect()
    }

    fn abort(&mut self, _: Epoch, tokens: &[CommitToken]) -> Result<()> {
        let mut world = self.collector.lock();
        for token in tokens {
            world.prepared.remove(&name_of(token)?);
        }
        Ok(())
    }

    fn recover(&mut self, keep: &[CommitToken]) -> Result<()> {
        let keep = keep.iter().map(name_of).collect::<Result<Vec<_>>>()?;
        let run = &self.ctx.run;
        self.collector.lock().prepared.retain(|name, _| {
            let own = name.run == run.run_id.as_str() && name.operator == run.operator;
            !own || name.generation >= run.generation.0 || keep.contains(name)
        });
        Ok(())
    }
}

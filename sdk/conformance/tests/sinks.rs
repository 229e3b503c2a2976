//! The suite of sinks, judged itself: the collector passes it, and a sink with any one of eighteen mistakes does not.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test may end by panicking")]

use arrow::array::{BinaryArray, Int64Array, RecordBatch};
use arrow::datatypes::SchemaRef;
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tidegate_api::testkit::Collector;
use tidegate_api::{
    AnySink, CommitOutcome, CommitToken, Committer, Epoch, Guarantee, OutputSink, PreCommit, Result, SinkCtx, SinkInput, SinkPlan,
    TransactionalSink, Written,
};
use tidegate_conformance::sink::{SinkWorld, sink_contract};

fn rows() -> [RecordBatch; 2] {
    let batch =
        |values: std::ops::Range<i64>| RecordBatch::try_from_iter([("n", Arc::new(Int64Array::from_iter_values(values)) as _)]).unwrap();
    [batch(0..5), batch(5..7)]
}

fn schema() -> SchemaRef {
    rows()[0].schema()
}

#[test]
fn the_collector_keeps_the_contract() {
    sink_contract(&schema(), &rows(), || {
        let collector = Collector::new();
        let (visible, hidden) = (collector.clone(), collector.clone());
        SinkWorld::new(move || collector.sink(), move || visible.visible(), move || hidden.prepared())
    });
}

/// What is done wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mistake {
    None,
    ShownWhenPrepared,
    ShownAgain,
    NotFoundAgain,
    LostIsDone,
    OneOutcome,
    OutcomesReversed,
    BoundToItsInstance,
    TokenOfNothing,
    NamesWithoutTask,
    NamesWithoutGeneration,
    UndoesWhatIsNamed,
    UndoesOtherSinks,
    UndoesOtherRuns,
    UndoesNamesThatBeginAlike,
    UndoesItsOwn,
    UndoesNothing,
    TakesBackVisible,
    AbortTakesBack,
}

const MISTAKES: [Mistake; 18] = [
    Mistake::ShownWhenPrepared,
    Mistake::ShownAgain,
    Mistake::NotFoundAgain,
    Mistake::LostIsDone,
    Mistake::OneOutcome,
    Mistake::OutcomesReversed,
    Mistake::BoundToItsInstance,
    Mistake::TokenOfNothing,
    Mistake::NamesWithoutTask,
    Mistake::NamesWithoutGeneration,
    Mistake::UndoesWhatIsNamed,
    Mistake::UndoesOtherSinks,
    Mistake::UndoesOtherRuns,
    Mistake::UndoesNamesThatBeginAlike,
    Mistake::UndoesItsOwn,
    Mistake::UndoesNothing,
    Mistake::TakesBackVisible,
    Mistake::AbortTakesBack,
];

#[test]
fn every_mistake_is_found_and_no_other() {
    assert_eq!(verdict(Mistake::None), None);
    let quiet = std::panic::take_hook();
    std::panic::set_hook(Box::new(|_| {}));
    let verdicts: Vec<_> = MISTAKES.iter().map(|mistake| (*mistake, verdict(*mistake))).collect();
    std::panic::set_hook(quiet);
    for (mistake, verdict) in verdicts {
        let words = verdict.unwrap_or_else(|| panic!("{mistake:?} was not found"));
        assert!(words.contains("script `"), "{mistake:?}: {words}");
    }
}

/// What the suite says of a sink with this mistake; `None` if it passes.
fn verdict(mistake: Mistake) -> Option<String> {
    let judged = catch_unwind(AssertUnwindSafe(|| {
        sink_contract(&schema(), &rows(), || {
            let shelf = Shelf::default();
            let (visible, hidden) = (shelf.clone(), shelf.clone());
            SinkWorld::new(
                move || Arc::new(ShelfSink { shelf: shelf.clone(), mistake, own: Arc::default() }),
                move || visible.lock().shown.iter().flat_map(|(_, rows)| rows.clone()).collect(),
                move || hidden.lock().prepared.len(),
            )
        });
    }));
    let panicked = judged.err()?;
    // A thread that panics takes its words with it.
    Some(panicked.downcast_ref::<String>().cloned().unwrap_or_else(|| "script `?`".to_string()))
}

/// Run, sink, generation, epoch, task.
type Name = (String, String, u64, u64, usize);

#[derive(Debug, Clone, Default)]
struct Shelf(Arc<Mutex<Inner>>);

#[derive(Debug, Default)]
struct Inner {
    prepared: BTreeMap<Name, Vec<RecordBatch>>,
    shown: Vec<(Name, Vec<RecordBatch>)>,
}

impl Shelf {
    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

struct ShelfSink {
    shelf: Shelf,
    mistake: Mistake,
    own: Arc<Mutex<Vec<Name>>>,
}

struct Part {
    shelf: Shelf,
    mistake: Mistake,
    own: Arc<Mutex<Vec<Name>>>,
    ctx: SinkCtx,
    rows: Vec<RecordBatch>,
}

impl ShelfSink {
    fn part(&self, ctx: SinkCtx) -> Box<Part> {
        Box::new(Part { shelf: self.shelf.clone(), mistake: self.mistake, own: Arc::clone(&self.own), ctx, rows: Vec::new() })
    }
}

impl OutputSink for ShelfSink {
    fn plan(&self, _: &SinkInput) -> Result<SinkPlan> {
        Ok(SinkPlan::new(Guarantee::ExactlyOnce))
    }

    fn open(&self, ctx: SinkCtx) -> Result<AnySink> {
        Ok(AnySink::Transactional(self.part(ctx)))
    }

    fn committer(&self, ctx: SinkCtx) -> Result<Box<dyn Committer>> {
        Ok(self.part(ctx))
    }
}

impl TransactionalSink for Part {
    fn write(&mut self, rows: &RecordBatch, _: Option<&BinaryArray>) -> Result<Written> {
        if rows.num_rows() > 0 {
            self.rows.push(rows.clone());
        }
        Ok(Written::default())
    }

    fn pre_commit(&mut self, epoch: Epoch) -> Result<PreCommit> {
        if self.rows.is_empty() && self.mistake != Mistake::TokenOfNothing {
            return Ok(PreCommit::Nothing);
        }
        let run = &self.ctx.run;
        let task = if self.mistake == Mistake::NamesWithoutTask { 0 } else { self.ctx.task };
        let generation = if self.mistake == Mistake::NamesWithoutGeneration { 0 } else { run.generation.0 };
        let name = (run.run_id.to_string(), run.operator.clone(), generation, epoch.0, task);
        let token = CommitToken(format!("{}|{}|{}|{}|{}", name.0, name.1, name.2, name.3, name.4).into_bytes());
        let rows = std::mem::take(&mut self.rows);
        self.own.lock().unwrap().push(name.clone());
        let mut shelf = self.shelf.lock();
        if self.mistake == Mistake::ShownWhenPrepared {
            shelf.shown.push((name, rows));
        } else {
            shelf.prepared.insert(name, rows);
        }
        Ok(PreCommit::Token(token))
    }
}

fn name_of(token: &CommitToken) -> Name {
    let text = String::from_utf8(token.0.clone()).unwrap();
    let parts: Vec<&str> = text.split('|').collect();
    (parts[0].into(), parts[1].into(), parts[2].parse().unwrap(), parts[3].parse().unwrap(), parts[4].parse().unwrap())
}

impl Part {
    fn publish(&self, name: Name) -> CommitOutcome {
        let mut shelf = self.shelf.lock();
        let lost = CommitOutcome::Lost("nothing has this name".to_string());
        if self.mistake == Mistake::BoundToItsInstance && !self.own.lock().unwrap().contains(&name) {
            return lost;
        }
        if let Some((_, rows)) = shelf.shown.iter().find(|(shown, _)| *shown == name).cloned() {
            match self.mistake {
                Mistake::NotFoundAgain => return lost,
                Mistake::ShownAgain => shelf.shown.push((name, rows)),
                _ => {}
            }
            return CommitOutcome::AlreadyDone;
        }
        match shelf.prepared.remove(&name) {
            Some(rows) => {
                shelf.shown.push((name, rows));
                CommitOutcome::Done
            }
            None if self.mistake == Mistake::LostIsDone => CommitOutcome::AlreadyDone,
            None => lost,
        }
    }
}

impl Committer for Part {
    fn commit(&mut self, _: Epoch, tokens: &[CommitToken]) -> Result<Vec<CommitOutcome>> {
        let mut outcomes: Vec<CommitOutcome> = tokens.iter().map(|token| self.publish(name_of(token))).collect();
        match self.mistake {
            Mistake::OneOutcome => outcomes.truncate(1),
            Mistake::OutcomesReversed => outcomes.reverse(),
            _ => {}
        }
        Ok(outcomes)
    }

    fn abort(&mut self, _: Epoch, tokens: &[CommitToken]) -> Result<()> {
        let mut shelf = self.shelf.lock();
        for name in tokens.iter().map(name_of) {
            shelf.prepared.remove(&name);
            if self.mistake == Mistake::AbortTakesBack {
                shelf.shown.retain(|(shown, _)| *shown != name);
            }
        }
        Ok(())
    }

    fn recover(&mut self, keep: &[CommitToken]) -> Result<()> {
        let keep: Vec<Name> = keep.iter().map(name_of).collect();
        let (run, sink, own) = (self.ctx.run.run_id.to_string(), self.ctx.run.operator.clone(), self.ctx.run.generation.0);
        let mistake = self.mistake;
        let undone = |name: &Name| {
            let of_run = name.0 == run || mistake == Mistake::UndoesOtherRuns;
            let of_sink = match mistake {
                Mistake::UndoesOtherSinks => true,
                Mistake::UndoesNamesThatBeginAlike => name.1.starts_with(&sink),
                _ => name.1 == sink,
            };
            let older = name.2 < own || mistake == Mistake::UndoesItsOwn;
            of_run && of_sink && older && (mistake == Mistake::UndoesWhatIsNamed || !keep.contains(name))
        };
        let mut shelf = self.shelf.lock();
        match mistake {
            Mistake::UndoesNothing => {}
            Mistake::TakesBackVisible => shelf.shown.retain(|(name, _)| !undone(name)),
            _ => shelf.prepared.retain(|name, _| !undone(name)),
        }
        Ok(())
    }
}

//! Sinks: every row reaches its readers as often as the guarantee says, whatever crashes between two calls, whoever commits, however late anybody wakes.
//!
//! Each script begins in a new, empty world and plays the engine's part: writers of one generation, a manifest that names tokens, committers
//! of the same or a later generation. A crash is that nothing further is called on what lives; what follows is another instance of everything,
//! built from nothing but the world and the manifest, as another process on another machine would be.

mod answers;
mod bench;
mod crashes;
mod delivery;
mod late;
mod phases;
mod undo;

use crate::rules::Rule;
use crate::verdict::{Judgement, Progress, Record, Verdict};
use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use bench::{Bench, Part};
use std::sync::Arc;
use tidegate_api::{Guarantee, OutputSink, Result};

/// An outside world: sinks into it, and what can be found in it.
pub struct SinkWorld {
    /// Another instance of the sink, as another process would build it.
    pub sink: Box<dyn Fn() -> Result<Arc<dyn OutputSink>>>,
    /// All rows that a reader sees.
    pub visible: Box<dyn Fn() -> Result<Vec<RecordBatch>>>,
    /// How many things lie hidden that are neither committed nor undone: staged files, prepared batches. `None` if the kit cannot look.
    pub hidden: Option<Box<dyn Fn() -> Result<usize>>>,
}

impl SinkWorld {
    /// A world whose parts cannot fail, as a test of a native sink has.
    pub fn new(
        sink: impl Fn() -> Arc<dyn OutputSink> + 'static,
        visible: impl Fn() -> Vec<RecordBatch> + 'static,
        hidden: impl Fn() -> usize + 'static,
    ) -> Self {
        SinkWorld {
            sink: Box::new(move || Ok(sink())),
            visible: Box::new(move || Ok(visible())),
            hidden: Some(Box::new(move || Ok(hidden()))),
        }
    }
}

/// One script and what it is called.
type Script = (&'static str, fn(&Bench) -> Verdict);

/// The longest script, which divides itself where a suite is run in parts.
const CRASHES: &str = "a crash before and after each call";

/// Every script of sinks with two phases, in the order in which they say the most about a lie.
const TWO_PHASE: &[Script] = &[
    ("phases", phases::phases),
    ("empty epochs", phases::empty_epochs),
    ("several tasks", phases::several_tasks),
    ("a commit is replayed", answers::replayed),
    (CRASHES, crashes::everywhere),
    ("an epoch is given up", undo::abort),
    ("a commit twice at once", answers::at_once),
    ("answers are lost", answers::lost_answers),
    ("part of a commit was done", answers::in_part),
    ("what no manifest names", undo::nothing_else),
    ("names that begin alike", undo::names_that_begin_alike),
    ("a second sink in the same place", undo::second_sink),
    ("a stalled recovery wakes late", late::recovery),
    ("an old writer wakes late", late::writer),
    ("an old commit wakes late", late::commit),
];

/// Scripts of what every sink delivers.
const DELIVERY: &[Script] = &[
    ("barriers with rows and without", delivery::barriers),
    ("several tasks", delivery::several_tasks),
    ("a crash at every point of an epoch", delivery::crashes),
];

/// And of one whose rows come again under their keys.
const IDEMPOTENT: &[Script] = &[("an epoch comes again under its keys", delivery::replays)];

/// What a sink's rows are, and how a new, empty world of it is made.
pub struct SinkTrial<'a> {
    /// The columns.
    pub schema: SchemaRef,
    /// At least two batches of different rows.
    pub rows: &'a [RecordBatch],
    /// Makes a new, empty world.
    pub world: &'a dyn Fn() -> Result<SinkWorld>,
}

/// What a sink was found to be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SinkJudgement {
    /// What it claimed and how that went.
    pub judgement: Judgement,
    /// The strongest guarantee that it kept; `None` if it loses rows or makes some up.
    pub earned: Option<Guarantee>,
}

impl SinkTrial<'_> {
    /// Judges a sink by what it claims. One that breaks it is judged again by less.
    pub fn judge(&self, claimed: Guarantee) -> SinkJudgement {
        self.judge_telling(claimed, Progress::default())
    }

    /// As [`judge`](SinkTrial::judge), and tells what it does.
    pub(crate) fn judge_telling(&self, claimed: Guarantee, progress: Progress) -> SinkJudgement {
        let delivery = || self.run(DELIVERY, progress);
        match claimed {
            Guarantee::AtMostOnce => SinkJudgement { judgement: Judgement::default(), earned: Some(claimed) },
            Guarantee::AtLeastOnce => {
                let judgement = delivery();
                SinkJudgement { earned: judgement.passed().then_some(claimed), judgement }
            }
            Guarantee::Idempotent => {
                let delivered = delivery();
                if !delivered.passed() {
                    return SinkJudgement { judgement: delivered, earned: None };
                }
                let judgement = delivered.and(self.run(IDEMPOTENT, progress));
                let earned = if judgement.passed() { claimed } else { Guarantee::AtLeastOnce };
                SinkJudgement { judgement, earned: Some(earned) }
            }
            Guarantee::ExactlyOnce => {
                let judgement = self.run(TWO_PHASE, progress);
                let Some(conviction) = &judgement.conviction else {
                    let judgement = judgement.and(delivery());
                    return SinkJudgement { earned: judgement.passed().then_some(claimed), judgement };
                };
                let delivers = loses_nothing(conviction.rule) && delivery().passed();
                SinkJudgement { judgement, earned: delivers.then_some(Guarantee::AtLeastOnce) }
            }
        }
    }

    fn run(&self, scripts: &[Script], progress: Progress) -> Judgement {
        self.run_part(scripts, progress, Part::ALL)
    }

    /// The scripts are dealt to the parts; those that are divided themselves are in each.
    fn run_part(&self, scripts: &[Script], progress: Progress, part: Part) -> Judgement {
        let record = Record::telling(progress);
        let run = || {
            for (_, (name, script)) in scripts.iter().enumerate().filter(|(number, (name, _))| *name == CRASHES || part.has(*number)) {
                record.script(name);
                script(&Bench::new(&record, Arc::clone(&self.schema), self.rows, self.world, part))?;
            }
            record.kept(Rule::CallsSucceed);
            Ok(())
        };
        let verdict = run();
        record.close(verdict)
    }
}

/// Whether a sink of two phases that breaks this may show rows too early or too often, and yet shows all of them.
fn loses_nothing(broken: Rule) -> bool {
    let harmless = [Rule::NothingEarly, Rule::CommitIdempotent, Rule::AbortUndoes, Rule::RecoverUndoes, Rule::NothingLeft];
    harmless.contains(&broken)
}

/// Checks a transactional sink against every rule. `rows` are at least two batches of different rows; `world` makes a new, empty world.
///
/// # Panics
/// With the script and the rule that was broken.
pub fn sink_contract(schema: &SchemaRef, rows: &[RecordBatch], world: impl Fn() -> SinkWorld) {
    assert!(rows.len() >= 2, "the contract needs two batches");
    let trial = SinkTrial { schema: Arc::clone(schema), rows, world: &|| Ok(world()) };
    trial.judge(Guarantee::ExactlyOnce).judgement.expect_passed();
}

/// As [`sink_contract`], in so many parts at once: for a sink whose outside takes its time, such as a broker's transactions.
///
/// # Panics
/// With the script and the rule that was broken.
pub fn sink_contract_in_parts(schema: &SchemaRef, rows: &[RecordBatch], parts: usize, world: impl Fn() -> SinkWorld + Sync) {
    assert!(rows.len() >= 2, "the contract needs two batches");
    let judge = |part| {
        let trial = SinkTrial { schema: Arc::clone(schema), rows, world: &|| Ok(world()) };
        let judged = |scripts| trial.run_part(scripts, Progress::default(), part);
        judged(TWO_PHASE).and(judged(DELIVERY)).expect_passed();
    };
    std::thread::scope(|scope| {
        for number in 0..parts {
            let judge = &judge;
            scope.spawn(move || judge(Part { number, of: parts }));
        }
    });
}

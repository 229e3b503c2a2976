//! Transactional sinks: every row is visible once, whatever crashes between two calls, whoever commits, however late anybody wakes.
//!
//! Each script begins in a new, empty world and plays the engine's part: writers of one generation, a manifest that names tokens, committers
//! of the same or a later generation. A crash is that nothing further is called on what lives; what follows is another instance of everything,
//! built from nothing but the world and the manifest, as another process on another machine would be.

mod answers;
mod bench;
mod crashes;
mod late;
mod phases;
mod undo;

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use bench::Bench;
use std::sync::Arc;
use tidegate_api::OutputSink;

/// An outside world: sinks into it, and what can be found in it.
pub struct SinkWorld {
    /// Another instance of the sink, as another process would build it.
    pub sink: Box<dyn Fn() -> Arc<dyn OutputSink>>,
    /// All rows that a reader sees.
    pub visible: Box<dyn Fn() -> Vec<RecordBatch>>,
    /// How many things lie hidden that are neither committed nor undone: staged files, prepared batches.
    pub hidden: Box<dyn Fn() -> usize>,
}

/// One script and what it is called.
type Script = (&'static str, fn(&Bench));

/// Every script, in order.
const SCRIPTS: &[Script] = &[
    ("phases", phases::phases),
    ("empty epochs", phases::empty_epochs),
    ("several tasks", phases::several_tasks),
    ("a crash before and after each call", crashes::everywhere),
    ("a commit is replayed", answers::replayed),
    ("a commit twice at once", answers::at_once),
    ("answers are lost", answers::lost_answers),
    ("part of a commit was done", answers::in_part),
    ("what no manifest names", undo::nothing_else),
    ("names that begin alike", undo::names_that_begin_alike),
    ("an epoch is given up", undo::abort),
    ("a second sink in the same place", undo::second_sink),
    ("a stalled recovery wakes late", late::recovery),
    ("an old writer wakes late", late::writer),
    ("an old commit wakes late", late::commit),
];

/// Checks a transactional sink against every rule. `rows` are at least two batches of different rows; `world` makes a new, empty world.
///
/// # Panics
/// With the script and the rule that was broken.
pub fn sink_contract(schema: &SchemaRef, rows: &[RecordBatch], world: impl Fn() -> SinkWorld) {
    assert!(rows.len() >= 2, "the contract needs two batches");
    for (name, script) in SCRIPTS {
        script(&Bench::new(name, Arc::clone(schema), rows, &world));
    }
}

//! A source as the coordinator knows it: its tasks, whose split is whose, and how far its discovery is.

use crate::graph::SourceNode;
use crate::signal::Signal;
use crate::start::Assigned;
use crate::task::Command;
use crossbeam_channel::Sender;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use tidegate_api::{InlineSource, SplitId};

/// A source as the coordinator knows it.
pub(crate) struct SourceHandle {
    pub(super) node: String,
    pub(super) dataset: String,
    pub(super) source: Arc<dyn InlineSource>,
    pub(super) tasks: Vec<SourceTaskHandle>,
    /// Which task reads a split.
    pub(super) owners: BTreeMap<SplitId, usize>,
    /// Which task gets the next split.
    pub(super) next: usize,
    pub(super) complete: bool,
    /// Where the next discovery goes on; the manifest has it too, an epoch later.
    pub(super) cursor: Option<Vec<u8>>,
    pub(super) discovered: Option<Duration>,
    pub(super) failed: u32,
}

/// One task of a source.
pub(crate) struct SourceTaskHandle {
    pub(crate) commands: Sender<Command>,
    pub(crate) signal: Signal,
}

impl SourceHandle {
    pub(crate) fn new(node: String, source: &SourceNode, assigned: &Assigned) -> Self {
        SourceHandle {
            node,
            dataset: source.dataset.clone(),
            source: Arc::clone(&source.source),
            tasks: Vec::new(),
            owners: BTreeMap::new(),
            next: 0,
            complete: assigned.complete,
            cursor: assigned.cursor.clone(),
            discovered: None,
            failed: 0,
        }
    }

    pub(crate) fn add(&mut self, task: SourceTaskHandle, splits: Vec<SplitId>) {
        let index = self.tasks.len();
        self.next += splits.len();
        self.owners.extend(splits.into_iter().map(|split| (split, index)));
        self.tasks.push(task);
    }

    /// Forgets splits that were read to their end, with the task that read them. An earlier manifest has them still, with the cursor of its
    /// own time.
    pub(super) fn forget(&mut self, splits: Vec<SplitId>) {
        let mut by_task: Vec<Vec<SplitId>> = vec![Vec::new(); self.tasks.len()];
        for split in splits {
            // A split that was finished when this start began belongs to no task.
            if let Some(owner) = self.owners.remove(&split) {
                by_task[owner].push(split);
            }
        }
        for (task, splits) in self.tasks.iter().zip(by_task).filter(|(_, splits)| !splits.is_empty()) {
            task.tell(Command::Forget(splits));
        }
    }

    pub(super) fn tell(&self, command: impl Fn() -> Command) {
        self.tasks.iter().for_each(|task| task.tell(command()));
    }
}

impl SourceTaskHandle {
    pub(super) fn tell(&self, command: Command) {
        // A task that is gone has failed, and its report says why.
        let _ = self.commands.send(command);
        self.signal.raise();
    }
}

//! Bugs to be found. A simulator that does not find them is not looking.

use super::{Action, EpochMachine, Step};

/// A planted mistake: in the order of an epoch, in how a start begins, in what is pruned.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum PlantedBug {
    /// No mistake.
    #[default]
    None,
    /// Sources are acknowledged when all tasks have, before the manifest exists. A source that forgets what was acknowledged loses rows in a crash.
    AckBeforeManifest,
    /// Sinks are committed when all tasks have acknowledged, before the manifest exists. A crash repeats the epoch's rows.
    CommitBeforeManifest,
    /// Losing the create of a manifest is taken for winning it. A superseded start goes on committing.
    FenceSkipped,
    /// The mark is written before the sinks are committed. A crash in between loses the epoch's rows.
    MarkBeforeCommit,
    /// A start forgets the tokens that the newest manifest left pending. Their rows are undone although their epoch was published.
    PendingForgotten,
    /// A start goes on under the generation of the one before it. Two processes make objects and transactions of one name.
    GenerationReused,
    /// What expires is deleted although a retained manifest names it.
    NamedObjectsPruned,
}

impl PlantedBug {
    /// Every mistake.
    pub const ALL: [PlantedBug; 7] = [
        PlantedBug::AckBeforeManifest,
        PlantedBug::CommitBeforeManifest,
        PlantedBug::FenceSkipped,
        PlantedBug::MarkBeforeCommit,
        PlantedBug::PendingForgotten,
        PlantedBug::GenerationReused,
        PlantedBug::NamedObjectsPruned,
    ];
}

impl EpochMachine {
    /// Plants a mistake.
    #[must_use]
    pub fn with_planted_bug(mut self, bug: PlantedBug) -> Self {
        self.planted = bug;
        self
    }

    pub(super) fn planted_at_states(&self) -> Vec<Action> {
        let epoch = self.current();
        match self.planted {
            PlantedBug::AckBeforeManifest => vec![Action::AcknowledgeSources { epoch }],
            PlantedBug::CommitBeforeManifest => vec![Action::CommitSinks { epoch }],
            _ => Vec::new(),
        }
    }

    pub(super) fn after_manifest(&mut self) -> Vec<Action> {
        match self.planted {
            PlantedBug::MarkBeforeCommit => vec![Action::WriteMark { epoch: self.current() }, self.enter(Step::Sinks)],
            _ => vec![self.enter(Step::Sinks)],
        }
    }

    pub(super) fn fence_is_skipped(&self) -> bool {
        self.planted == PlantedBug::FenceSkipped
    }

    /// Answers to steps that a planted mistake asked for too early.
    pub(super) fn is_planted_answer(&self, step: Step) -> bool {
        match self.planted {
            PlantedBug::CommitBeforeManifest => step == Step::Sinks,
            PlantedBug::MarkBeforeCommit => step == Step::Mark,
            _ => false,
        }
    }
}

//! The named points of a start and of an epoch at which a chaos test may end or freeze the process.
//!
//! Between any two of them lies one effect that outlives the process: an object of the store, or something that a sink has prepared,
//! committed or undone. Who kills at every point has therefore seen every state that a crash can leave.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use tidegate_api::{Epoch, Error, Result};
use tidegate_epochs::store::{Created, EpochStore};

/// Where a chaos test may end the process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum KillPoint {
    /// A start has looked at nothing yet.
    BeforeOpening,
    /// The manifest that opens the start's generation, or the run, exists; nothing pending is committed.
    AfterOpening,
    /// A start has committed what was pending in one sink, perhaps not yet in others.
    MidRecommit,
    /// A start has committed what was pending and has not undone the rest in this sink.
    MidRecover,
    /// A start has settled what it found and opened nothing.
    AfterRecover,
    /// Every source, operator and sink is open; no row was read.
    Opened,
    /// A sink task has the barrier and every row before it, and has prepared nothing.
    BeforePreCommit,
    /// A sink task has prepared the epoch and told nobody.
    AfterPreCommit,
    /// Every sink has prepared the epoch; nothing of it is durable in the store yet.
    Prepare,
    /// One state object is durable, perhaps not yet others.
    MidStates,
    /// State is durable, the manifest is not.
    BeforeManifest,
    /// The first copy of the manifest exists, the second does not.
    MidManifest,
    /// The manifest exists, nothing is committed.
    AfterManifest,
    /// One sink has committed; others, the acknowledgements and the mark perhaps have not.
    MidCommit,
    /// Every sink has committed and sources are acknowledged; the mark does not exist.
    BeforeMark,
    /// The mark exists, nothing is pruned.
    AfterMark,
    /// One object of an expired epoch is deleted, perhaps not yet others.
    MidPrune,
    /// What no retained epoch names is deleted.
    AfterPrune,
}

impl KillPoint {
    /// All of them: those of a start, then those of an epoch, each in their order.
    pub const ALL: [KillPoint; 18] = [
        KillPoint::BeforeOpening,
        KillPoint::AfterOpening,
        KillPoint::MidRecommit,
        KillPoint::MidRecover,
        KillPoint::AfterRecover,
        KillPoint::Opened,
        KillPoint::BeforePreCommit,
        KillPoint::AfterPreCommit,
        KillPoint::Prepare,
        KillPoint::MidStates,
        KillPoint::BeforeManifest,
        KillPoint::MidManifest,
        KillPoint::AfterManifest,
        KillPoint::MidCommit,
        KillPoint::BeforeMark,
        KillPoint::AfterMark,
        KillPoint::MidPrune,
        KillPoint::AfterPrune,
    ];

    /// Its stable name.
    pub fn name(self) -> &'static str {
        match self {
            KillPoint::BeforeOpening => "before-opening",
            KillPoint::AfterOpening => "after-opening",
            KillPoint::MidRecommit => "mid-recommit",
            KillPoint::MidRecover => "mid-recover",
            KillPoint::AfterRecover => "after-recover",
            KillPoint::Opened => "opened",
            KillPoint::BeforePreCommit => "before-pre-commit",
            KillPoint::AfterPreCommit => "after-pre-commit",
            KillPoint::Prepare => "prepare",
            KillPoint::MidStates => "mid-states",
            KillPoint::BeforeManifest => "before-manifest",
            KillPoint::MidManifest => "mid-manifest",
            KillPoint::AfterManifest => "after-manifest",
            KillPoint::MidCommit => "mid-commit",
            KillPoint::BeforeMark => "before-mark",
            KillPoint::AfterMark => "after-mark",
            KillPoint::MidPrune => "mid-prune",
            KillPoint::AfterPrune => "after-prune",
        }
    }

    /// The point of a name.
    pub fn named(name: &str) -> Option<KillPoint> {
        KillPoint::ALL.into_iter().find(|point| point.name() == name)
    }

    /// Whether it is passed while a start begins, once or a few times, and not in every epoch.
    pub fn is_of_a_start(self) -> bool {
        self <= KillPoint::Opened
    }
}

/// Called at every kill point, with the epoch. A chaos test kills the process in it; an error ends the attempt.
pub type KillHook = Arc<dyn Fn(KillPoint, Epoch) -> Result<()> + Send + Sync>;

/// A store that calls the hook after some of its effects, where several of them are one step of the coordinator.
///
/// What the hook answers is kept apart from what the store does: a store that fails is asked again, a process that was killed is not.
pub(crate) struct Watched<'s> {
    store: &'s dyn EpochStore,
    hook: Option<&'s KillHook>,
    point: KillPoint,
    epoch: Epoch,
    killed: Mutex<Option<Error>>,
}

impl fmt::Debug for Watched<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Watched").field("store", &self.store).field("point", &self.point).finish_non_exhaustive()
    }
}

impl<'s> Watched<'s> {
    /// `point` is passed after every create and every delete.
    pub(crate) fn new(store: &'s dyn EpochStore, hook: Option<&'s KillHook>, point: KillPoint, epoch: Epoch) -> Self {
        Watched { store, hook, point, epoch, killed: Mutex::default() }
    }

    /// What the hook said, once the step is over.
    ///
    /// # Errors
    /// The hook's.
    pub(crate) fn survived(self) -> Result<()> {
        match self.killed.into_inner().unwrap_or_else(PoisonError::into_inner) {
            None => Ok(()),
            Some(error) => Err(error),
        }
    }

    fn pass(&self) -> Result<()> {
        let Some(hook) = self.hook else { return Ok(()) };
        hook(self.point, self.epoch).map_err(|error| {
            let told = Error::internal(format!("ended at `{}`", self.point.name()));
            *self.killed.lock().unwrap_or_else(PoisonError::into_inner) = Some(error);
            told
        })
    }
}

impl EpochStore for Watched<'_> {
    fn put(&self, key: &str, bytes: &[u8]) -> Result<()> {
        self.store.put(key, bytes)
    }

    fn get(&self, key: &str) -> Result<Option<Vec<u8>>> {
        self.store.get(key)
    }

    fn create(&self, key: &str, bytes: &[u8]) -> Result<Created> {
        let created = self.store.create(key, bytes)?;
        self.pass()?;
        Ok(created)
    }

    fn list(&self, prefix: &str) -> Result<Vec<String>> {
        self.store.list(prefix)
    }

    fn delete(&self, key: &str) -> Result<()> {
        self.store.delete(key)?;
        self.pass()
    }
}

//! Epochs: how a stream of rows becomes a sequence of durable, agreed-upon points.
//!
//! An epoch is a checkpoint's number. When its barrier has passed every task, the state objects are written, then one
//! manifest is created if it is absent, and that creation is the decision: from there on the epoch's rows will be visible
//! and its positions are where a restart goes on. [`EpochMachine`] decides the order, [`Ledger`] collects what tasks hand
//! over, [`open()`] begins a start (a *generation*) and fences the one before it, [`RecoveryPlan`] says what a start commits,
//! undoes and restores, and [`Pruner`] says what may be deleted. All of them are pure or nearly so; an [`EpochStore`] is a
//! handful of synchronous methods over named objects.
//!
//! `docs/design/0001-epochs.md` has the protocol, its participants and what happens when each of them fails.

pub mod claim;
mod encoding;
pub mod inspect;
pub mod keys;
pub mod ledger;
pub mod machine;
pub mod manifest;
pub mod open;
pub mod pieces;
pub mod pruner;
pub mod publish;
pub mod recovery;
pub mod savepoint;
#[cfg(test)]
mod scenarios;
pub mod store;
mod swapped;
#[cfg(any(test, feature = "testkit"))]
pub mod testkit;

pub use claim::Claim;
pub use inspect::{InspectedEpoch, Inspection, inspect};
pub use keys::RunNumber;
pub use ledger::{Ledger, SplitProgress, TaskSnapshot};
#[cfg(any(test, feature = "testkit"))]
pub use machine::PlantedBug;
pub use machine::{Action, AtEnd, EpochMachine, Fact, MachineConfig, Phase, Step};
pub use manifest::{End, Manifest};
pub use open::{FirstStart, OpenRequest, Opening, open, pinned};
pub use pieces::{OperatorSnapshot, SnapshotPiece, name_pieces, read_pieces};
pub use pruner::Pruner;
pub use publish::{Published, mark_committed, publish, taken_over};
pub use recovery::{JobShape, RecoveryPlan, SinkRecovery, SinkShape, SourceRecovery, settle};
pub use savepoint::{Savepoint, savepoint};
#[cfg(feature = "buckets")]
pub use store::bucket::{BucketStore, config::BucketUrl};
pub use store::directory::DirectoryStore;
pub use store::memory::MemoryStore;
pub use store::staging::StagingStore;
pub use store::{Created, EpochStore};

//! The manifest: everything a start needs to know of an epoch, in one JSON document.
//!
//! It is small (state is referred to, not held), readable by a person, and guarded by a checksum over its body. Its format has a
//! version; a fixture of every released version is loaded by a test for ever. It holds no secrets: a sink's configuration
//! names them by reference.

#[cfg(test)]
mod tests;

use crate::encoding::{base64_bytes, base64_option, hex_u64, seal, unseal};
use crate::keys::RunNumber;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use tidegate_api::{
    CommitToken, Epoch, Error, EventTime, Generation, PieceId, Position, Result, RunId, Signature, Split, SplitId, VnodeRange,
};

/// The version this code writes, and the highest it reads.
pub const FORMAT: u32 = 1;

/// One published epoch.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Manifest {
    /// The run's number within the store; part of the manifest's key.
    pub run: RunNumber,
    /// The run's name, part of external names and object keys.
    pub run_id: RunId,
    /// The start that published it.
    pub generation: Generation,
    /// Its number; part of its key.
    pub epoch: Epoch,
    /// Who published it: unique to one start, so that a start recognises its own manifest after a lost answer.
    pub owner: String,
    /// Wall time when it was made; with `interval_ms` a sign of life, see [`crate::claim`].
    pub written: EventTime,
    /// The epoch interval of its writer.
    pub interval_ms: u64,
    /// Whether it opens its generation. Such a manifest is a fence and is never deleted.
    pub opens_generation: bool,
    /// The value of `now()` in the epoch that follows.
    pub now: EventTime,
    /// Set on the last manifest of a run or of a start.
    pub ended: Option<End>,
    /// Vnodes that keyed state is dealt out in.
    pub vnodes: u16,
    /// The version of the hash that maps keys to vnodes.
    pub hash_version: u32,
    /// By source name.
    pub sources: BTreeMap<String, SourceEntry>,
    /// By operator (stage) name.
    pub operators: BTreeMap<String, OperatorEntry>,
    /// By sink name: every two-phase sink, with or without pending tokens, and the names of the others.
    pub sinks: BTreeMap<String, SinkEntry>,
    /// Digest by plugin name.
    pub plugins: BTreeMap<String, String>,
}

/// Why nothing follows a manifest.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum End {
    /// The input ended and every window fired: the run is complete.
    Drain,
    /// A stop (or `atEnd = "suspend"`): a later start goes on here.
    Suspend,
    /// A fresh start closed this run; the run of the next number takes its place.
    Superseded,
}

/// A source's progress.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SourceEntry {
    /// Known splits, in order of their discovery.
    pub splits: Vec<SplitEntry>,
    /// What the next discovery starts from.
    #[serde(with = "base64_option")]
    pub cursor: Option<Vec<u8>>,
    /// Whether discovery said that nothing further will be found.
    pub complete: bool,
    /// The schema that was bound when the run began, as text.
    pub schema: String,
    /// What the source resolved for itself, such as a schema inferred from a sample, and is handed back at every later start.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pinned: Option<String>,
}

/// A split's progress.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SplitEntry {
    /// Its name.
    pub id: SplitId,
    /// The source's own description.
    #[serde(with = "base64_bytes")]
    pub details: Vec<u8>,
    /// Where to read next.
    #[serde(with = "base64_option")]
    pub position: Option<Vec<u8>>,
    /// The largest event time read, so that time does not move back.
    pub max_event_time: Option<EventTime>,
    /// Whether there is more to read.
    pub status: SplitStatus,
}

impl SplitEntry {
    /// A split that nobody has read yet.
    pub fn new(split: &Split) -> Self {
        SplitEntry {
            id: split.id.clone(),
            details: split.details.clone(),
            position: split.position.as_ref().map(|position| position.0.clone()),
            max_event_time: None,
            status: SplitStatus::Reading,
        }
    }

    /// The split as its source knows it, to be read from here.
    pub fn split(&self) -> Split {
        Split { id: self.id.clone(), details: self.details.clone(), position: self.position.clone().map(Position) }
    }
}

/// Whether a split has more to read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum SplitStatus {
    /// It has, or may have.
    Reading,
    /// Everything was handed over and nothing will come.
    Finished,
}

/// An operator's state.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct OperatorEntry {
    /// What the state depends on.
    pub signature: Signature,
    /// The pieces; together the whole state of all tasks.
    pub pieces: Vec<PieceRef>,
}

/// Where a piece of state lies.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PieceRef {
    /// Its name within the run.
    pub id: PieceId,
    /// The operator's name for it.
    pub name: String,
    /// The vnodes it holds.
    pub vnodes: VnodeRange,
    /// The key of the object that holds it.
    pub object: String,
    /// Where in the object it begins.
    pub offset: u64,
    /// How long it is.
    pub length: u64,
    /// XXH3 of its bytes.
    #[serde(with = "hex_u64")]
    pub checksum: u64,
}

/// A sink, and what must still become visible in it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SinkEntry {
    /// Whether its rows become visible by a commit.
    pub two_phase: bool,
    /// The configuration the tokens were prepared under; secrets by reference.
    pub config: serde_json::Value,
    /// Tokens of this manifest, in order of epoch and task. They are pending until the manifest's mark exists.
    pub pending: Vec<PendingToken>,
}

/// One task's token of one epoch.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PendingToken {
    /// The epoch it was prepared for.
    pub epoch: Epoch,
    /// The sink task that prepared it.
    pub task: u32,
    /// The token.
    #[serde(with = "base64_bytes")]
    pub token: Vec<u8>,
}

impl PendingToken {
    /// The token as its sink knows it.
    pub fn commit_token(&self) -> CommitToken {
        CommitToken(self.token.clone())
    }
}

impl Manifest {
    /// The bytes to store. Equal manifests give equal bytes.
    pub fn encode(&self) -> Vec<u8> {
        let body = serde_json::to_string(self).expect("a manifest has text keys only");
        seal(FORMAT, &body)
    }

    /// Reads what [`Manifest::encode`] made, in this version or an older one.
    ///
    /// # Errors
    /// `External` if the bytes are damaged, `Config` if a later version of the engine wrote them.
    pub fn decode(bytes: &[u8]) -> Result<Manifest> {
        let body = unseal(bytes, "manifest", FORMAT)?;
        serde_json::from_str(body).map_err(|error| Error::external(format!("damaged manifest: {error}")))
    }

    /// The keys of all objects its state lies in.
    pub fn objects(&self) -> BTreeSet<&str> {
        self.operators.values().flat_map(|operator| &operator.pieces).map(|piece| piece.object.as_str()).collect()
    }

    /// Whether it names a token.
    pub fn has_pending(&self) -> bool {
        self.sinks.values().any(|sink| !sink.pending.is_empty())
    }

    /// Names of the sinks whose rows become visible by a commit.
    pub fn two_phase_sinks(&self) -> Vec<&str> {
        self.sinks.iter().filter(|(_, sink)| sink.two_phase).map(|(name, _)| name.as_str()).collect()
    }

    /// The splits of a source that can still be read, as its readers are given them, and their largest event times.
    pub fn unfinished(&self, source: &str) -> Vec<&SplitEntry> {
        let splits = self.sources.get(source).map_or(&[][..], |source| &source.splits);
        splits.iter().filter(|split| split.status == SplitStatus::Reading).collect()
    }
}

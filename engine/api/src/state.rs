//! Operator state as the epochs see it: immutable pieces, and a signature that says what may read them.

use crate::{Error, Result, VnodeRange};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

/// Names a piece of state within one run, for ever. Made by the task; opaque to the operator.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct PieceId(pub String);

impl fmt::Display for PieceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// What an operator hands over at a barrier. The pieces of one snapshot together are the whole state.
#[derive(Debug, Clone, PartialEq)]
pub enum StatePiece {
    /// Written anew. The id is unique within the operator's task for this run; a later snapshot may refer to it.
    New {
        /// The operator's name for it, unique among the pieces of this task and epoch.
        name: String,
        /// The vnodes whose state it holds.
        vnodes: VnodeRange,
        /// The encoded state; the format is the operator's, under its signature's version.
        data: Vec<u8>,
    },
    /// Written anew, as [`StatePiece::New`], from bytes that are made when they are written to the store, beside the processing
    /// and one object at a time. What they are made from must not change before the next snapshot.
    Deferred {
        /// The operator's name for it.
        name: String,
        /// The vnodes whose state it holds.
        vnodes: VnodeRange,
        /// What gives the encoded state.
        data: DeferredBytes,
    },
    /// Unchanged since an earlier snapshot: the reference that [`crate::Operator::pieces_named`] or a restore gave.
    Kept(PieceId),
}

/// Bytes that are made or read when they are wanted. Clones share them; two are equal if they are the same ones.
#[derive(Debug, Clone)]
pub struct DeferredBytes(pub Arc<dyn MakeBytes>);

impl PartialEq for DeferredBytes {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

/// Makes bytes, the same ones at every call, on any thread.
pub trait MakeBytes: Send + Sync + fmt::Debug {
    /// About how many there are, for laying pieces into objects.
    fn estimate(&self) -> u64;

    /// All of them.
    ///
    /// # Errors
    /// `External` if they lie outside of memory and cannot be read, or are not what was written; the message says where they lie.
    /// `Internal` if they cannot be encoded.
    fn make(&self) -> Result<Vec<u8>>;
}

impl StatePiece {
    /// The name, vnodes and bytes of a piece that is written anew; `None` for one that is kept.
    ///
    /// # Errors
    /// Those of making deferred bytes.
    pub fn into_new(self) -> Result<Option<(String, VnodeRange, Vec<u8>)>> {
        Ok(match self {
            StatePiece::New { name, vnodes, data } => Some((name, vnodes, data)),
            StatePiece::Deferred { name, vnodes, data } => Some((name, vnodes, data.0.make()?)),
            StatePiece::Kept(_) => None,
        })
    }
}

/// A piece handed back at a restore. It may hold vnodes that are not this task's; the operator leaves those out.
#[derive(Debug, Clone, PartialEq)]
pub struct RestoredPiece {
    /// To be used in [`StatePiece::Kept`], if the piece is kept whole.
    pub id: PieceId,
    /// The operator's name for it when it was written.
    pub name: String,
    /// The vnodes it was written for.
    pub vnodes: VnodeRange,
    /// The encoded state.
    pub data: Vec<u8>,
}

/// What a state depends on. Two signatures that are equal in every parameter may exchange state.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Signature {
    /// The operator's name, such as `windowedAggregate`.
    pub operator: String,
    /// The version of its state format.
    pub version: u32,
    /// Every parameter that changes the meaning of the state: time column, window arithmetic, aggregates, key types.
    pub parameters: BTreeMap<String, serde_json::Value>,
}

impl Signature {
    /// A signature without parameters.
    pub fn new(operator: impl Into<String>, version: u32) -> Self {
        Signature { operator: operator.into(), version, parameters: BTreeMap::new() }
    }

    /// Adds a parameter.
    #[must_use]
    pub fn with(mut self, name: impl Into<String>, value: impl Into<serde_json::Value>) -> Self {
        self.parameters.insert(name.into(), value.into());
        self
    }

    /// Whether state written under `older` can be read under this signature.
    ///
    /// # Errors
    /// `Config`, naming every difference.
    pub fn accepts(&self, older: &Signature) -> Result<()> {
        let mut differences = Vec::new();
        if self.operator != older.operator {
            differences.push(format!("the operator was `{}` and is `{}`", older.operator, self.operator));
        }
        if self.version != older.version {
            differences.push(format!("the state format was {} and is {}", older.version, self.version));
        }
        for name in self.parameters.keys().chain(older.parameters.keys().filter(|name| !self.parameters.contains_key(*name))) {
            let absent = serde_json::Value::Null;
            let new = self.parameters.get(name).unwrap_or(&absent);
            let old = older.parameters.get(name).unwrap_or(&absent);
            if new != old {
                differences.push(format!("`{name}` was `{old}` and is `{new}`"));
            }
        }
        if differences.is_empty() { Ok(()) } else { Err(Error::config(differences.join("; "))) }
    }
}

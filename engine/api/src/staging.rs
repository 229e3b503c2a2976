//! Durable scratch space beside the epochs, for sinks that must hold rows until their commit.

use crate::Result;
use std::fmt;

/// Objects that outlive the process. Keys are chosen by the sink and made unique by the engine per sink; a `put` that
/// returned is durable. Implementations are shared by all tasks of a sink and used from any thread.
pub trait Staging: Send + Sync + fmt::Debug {
    /// Writes an object, replacing one of the same key.
    ///
    /// # Errors
    /// `External` if the store did not confirm.
    fn put(&self, key: &str, bytes: &[u8]) -> Result<()>;

    /// Reads an object; `None` if there is none.
    ///
    /// # Errors
    /// `External` if the store could not be asked.
    fn get(&self, key: &str) -> Result<Option<Vec<u8>>>;

    /// Removes an object; removing none is no error.
    ///
    /// # Errors
    /// `External` if the store did not confirm.
    fn delete(&self, key: &str) -> Result<()>;

    /// The keys of all objects that start with `prefix` (empty, or ending in `/`), sorted. Sees every `put` that returned before the
    /// call, of whatever task, generation or machine: so a [`Committer`](crate::Committer) finds what a dead writer left.
    ///
    /// # Errors
    /// `External` if the store could not be asked; `Internal` for a key with a part too long to be told, which no sink should choose.
    fn list(&self, prefix: &str) -> Result<Vec<String>>;
}

//! Passwords and keys, by the names of the pipeline file's `secrets` table. For sources and sinks only: a transform has no such import.

use crate::Result;

/// The value, or a `config` error that names the missing entry. May change during a run: ask again before reconnecting.
///
/// # Errors
/// `Config` when the pipeline file has no secret of this name.
pub fn get(name: &str) -> Result<String> {
    imp::get(name).map_err(crate::Error::Config)
}

#[cfg(target_family = "wasm")]
use crate::bindings::secrets as imp;

#[cfg(not(target_family = "wasm"))]
mod imp {
    use crate::testing::double;

    pub(super) fn get(name: &str) -> Result<String, String> {
        double::with(|double| double.secrets.get(name).cloned()).ok_or_else(|| format!("no secret `{name}`"))
    }
}

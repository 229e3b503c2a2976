//! Claims: a running coordinator says from time to time that it is alive, so that a second start does not take its place by mistake.
//!
//! A claim is a courtesy, not the lock: what decides is the creation of manifests. It compares wall times of two machines, and errs on
//! the side of refusing. Every generation has its own object, so a late renewal by an old start never covers a new one's.

use crate::encoding::{seal, unseal};
use crate::keys;
use crate::manifest::Manifest;
use crate::store::EpochStore;
use serde::{Deserialize, Serialize};
use std::time::Duration;
use tidegate_api::{Error, EventTime, Result, ResultExt};

/// The version this code writes, and the highest it reads.
const FORMAT: u32 = 1;

/// Who runs a generation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Claim {
    /// The start that holds it; the same text as the manifests' `owner`.
    pub holder: String,
    /// Wall time of the last sign of life.
    pub renewed: EventTime,
    /// The holder's epoch interval: a claim lasts three of them.
    pub interval_ms: u64,
    /// Whether the holder has ended in order, or failed and said so.
    pub released: bool,
}

impl Claim {
    /// The claim that a manifest is by itself: its writer was alive when it wrote.
    pub fn of(manifest: &Manifest) -> Claim {
        Claim {
            holder: manifest.owner.clone(),
            renewed: manifest.written,
            interval_ms: manifest.interval_ms,
            released: manifest.ended.is_some(),
        }
    }

    /// Whether the holder may be alive at `now`. A renewal in the future (another machine's clock) counts as fresh, for as long
    /// as one in the past would.
    pub fn is_live(&self, now: EventTime) -> bool {
        let lasts = u64::try_from(Duration::from_millis(self.interval_ms).saturating_mul(3).as_micros()).unwrap_or(u64::MAX);
        !self.released && now.0.abs_diff(self.renewed.0) < lasts
    }
}

/// Renews the claim of the generation of `manifest`.
///
/// # Errors
/// `External` if the store did not confirm.
pub fn renew(store: &dyn EpochStore, manifest: &Manifest, now: EventTime) -> Result<()> {
    write(store, manifest, &Claim { renewed: now, released: false, ..Claim::of(manifest) })
}

/// Gives up the claim of the generation of `manifest`: its tasks have ended, in order or by a failure, and nothing of it runs on.
///
/// # Errors
/// `External` if the store did not confirm; the claim then runs out by itself.
pub fn release(store: &dyn EpochStore, manifest: &Manifest, now: EventTime) -> Result<()> {
    write(store, manifest, &Claim { renewed: now, released: true, ..Claim::of(manifest) })
}

fn write(store: &dyn EpochStore, manifest: &Manifest, claim: &Claim) -> Result<()> {
    let body = serde_json::to_string(claim).map_err(|error| Error::internal(format!("a claim cannot be written: {error}")))?;
    store.put(&keys::claim(manifest.run, manifest.generation), &seal(FORMAT, &body)).context(|| "claim".to_string())
}

/// The newest sign of life of the generation of `manifest`, the newest one.
///
/// # Errors
/// `External` if the store does not answer. A claim that cannot be read counts as absent: the manifest itself is one.
pub fn read(store: &dyn EpochStore, manifest: &Manifest) -> Result<Claim> {
    let own = Claim::of(manifest);
    let key = keys::claim(manifest.run, manifest.generation);
    let Some(bytes) = store.get(&key).context(|| "claim".to_string())? else { return Ok(own) };
    let damaged = |error: serde_json::Error| Error::external(format!("damaged claim: {error}"));
    let claim: Claim = match unseal(&bytes, "claim", FORMAT).and_then(|body| serde_json::from_str(body).map_err(damaged)) {
        Ok(claim) => claim,
        Err(error) => {
            tracing::warn!(key, %error, "a claim cannot be read; the newest manifest stands for it");
            return Ok(own);
        }
    };
    Ok(if claim.released || claim.renewed >= own.renewed { claim } else { own })
}

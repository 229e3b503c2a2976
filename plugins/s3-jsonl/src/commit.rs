//! The second phase, and what undoes the first. Nothing here needs a writer: after a crash there is none, and a token says it all.
//!
//! | upload | object with the mark | meaning | outcome |
//! |---|---|---|---|
//! | there | – | prepared | completed: done |
//! | any | there | committed | already done |
//! | gone, or without one of its parts | – | given up, or expired by the bucket's rules | lost |
//!
//! Completing is the server's one step: readers see the whole object or none. Two commits at once: one completes, and the other finds the upload gone and the object there, or
//! is told the same by a server that remembers.

use crate::bucket::{Begun, Bucket, Completed};
use crate::names;
use crate::token::Prepared;
use std::collections::BTreeSet;
use tidegate_sdk::{Outcome, Result, Scope, log};

/// Makes the objects of one epoch appear.
pub(crate) fn commit(bucket: &Bucket, prepared: &[Prepared]) -> Result<Vec<Outcome>> {
    prepared.iter().map(|prepared| publish(bucket, prepared)).collect()
}

fn publish(bucket: &Bucket, prepared: &Prepared) -> Result<Outcome> {
    if bucket.has(&prepared.key, &prepared.mark)? {
        return Ok(Outcome::AlreadyDone);
    }
    if bucket.complete(&upload(prepared), &prepared.parts)? == Completed::Yes {
        return Ok(Outcome::Done);
    }
    // Somebody else may have completed it in between.
    if bucket.has(&prepared.key, &prepared.mark)? {
        return Ok(Outcome::AlreadyDone);
    }
    log::error(&format!("`{}` with {} rows is neither being uploaded nor there", prepared.key, prepared.rows));
    Ok(Outcome::Lost)
}

fn upload(prepared: &Prepared) -> Begun {
    Begun { key: prepared.key.clone(), id: prepared.upload_id.clone() }
}

/// Gives up what was prepared. An object that was committed stays.
pub(crate) fn abort(bucket: &Bucket, prepared: &[Prepared]) -> Result<()> {
    prepared.iter().try_for_each(|prepared| bucket.abort(&upload(prepared)))
}

/// Gives up what this run's operator began under earlier generations and nobody wants kept.
pub(crate) fn recover(bucket: &Bucket, scope: &Scope, keep: &[Prepared]) -> Result<()> {
    let beginning = names::beginning(bucket.config(), scope);
    let kept: BTreeSet<&str> = keep.iter().map(|prepared| prepared.upload_id.as_str()).collect();
    for begun in bucket.begun(&beginning)? {
        let generation = begun.key.strip_prefix(&beginning).and_then(names::generation);
        if generation.is_some_and(|generation| generation < scope.generation) && !kept.contains(begun.id.as_str()) {
            bucket.abort(&begun)?;
        }
    }
    Ok(())
}

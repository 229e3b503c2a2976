//! Which epoch a start goes on from, and whether the plan may.

use crate::manifest::{Manifest, SourceEntry};
use crate::open::OpenRequest;
use crate::pieces::cut;
use crate::publish::History;
use crate::recovery::check;
use crate::store::EpochStore;
use std::collections::BTreeMap;
use tidegate_api::{Epoch, Error, Generation, Result, ResultExt};

/// The epoch chosen, and what the choice costs.
pub(super) struct Choice<'a> {
    /// Positions and state come from here.
    pub(super) base: &'a Manifest,
    /// Two-phase sinks that repeat rows.
    pub(super) repeats: Vec<String>,
    /// State that is left behind, and why.
    pub(super) dropped_state: BTreeMap<String, String>,
}

impl<'a> Choice<'a> {
    /// The newest manifest, as it is.
    pub(super) fn newest(base: &'a Manifest) -> Self {
        Choice { base, repeats: Vec::new(), dropped_state: BTreeMap::new() }
    }

    /// Makes a copy of the base fit the plan: new sources, sinks and operators come in empty, dropped state goes. Sinks keep the
    /// configuration of the base until it is settled.
    pub(super) fn fit(&self, request: &OpenRequest, opened: &mut Manifest) {
        let shape = &request.shape;
        opened.vnodes = shape.vnodes;
        for (name, schema) in &shape.sources {
            let entry = opened.sources.entry(name.clone()).or_default();
            if entry.schema.is_empty() {
                *entry = SourceEntry { schema: schema.clone(), ..SourceEntry::default() };
            }
            entry.pinned = shape.pinned.get(name).cloned();
        }
        let mut operators = shape.operator_entries();
        for (name, operator) in &mut operators {
            if let (Some(older), false) = (opened.operators.remove(name), self.dropped_state.contains_key(name)) {
                operator.pieces = older.pieces;
            }
        }
        opened.operators = operators;
        for (name, sink) in shape.sink_entries() {
            opened.sinks.entry(name).or_insert(sink);
        }
    }
}

/// The newest manifest that can be read.
pub(super) fn newest_readable(history: &History) -> Result<&Manifest> {
    history.manifests.values().next_back().ok_or_else(|| {
        let reasons: Vec<&str> = history.unreadable.values().map(String::as_str).collect();
        Error::config(format!(
            "no manifest of run {} can be read ({}); restore the store from a backup, or move it away to start over",
            history.run,
            reasons.join("; ")
        ))
    })
}

/// A generation above every one in use. A manifest that cannot be read may have opened one.
pub(super) fn next_generation(history: &History) -> Generation {
    let highest = history.manifests.values().map(|manifest| manifest.generation.0).max().unwrap_or(0);
    Generation(highest + history.unreadable.len() as u64 + 1)
}

/// Chooses the epoch to go on from: the one asked for, or the newest, or, if that is damaged and nothing is two-phase, the newest that is whole.
pub(super) fn choose<'a>(store: &dyn EpochStore, request: &OpenRequest, history: &'a History) -> Result<Choice<'a>> {
    if let Some(from) = request.from {
        let base = history.manifests.get(&from).ok_or_else(|| no_such_epoch(history, from))?;
        if let Some(damage) = survey(store, base)? {
            return Err(Error::config(format!("epoch {from} cannot be restored: {damage}")));
        }
        let dropped_state = check(base, &request.shape)?;
        let repeats = if history.newest() == Some(from) { Vec::new() } else { two_phase(history, request) };
        return Ok(Choice { base, repeats, dropped_state });
    }
    let mut damages: Vec<(Epoch, String)> = Vec::new();
    let readable = newest_readable(history)?.epoch;
    damages.extend(history.unreadable.range(readable..).map(|(epoch, why)| (*epoch, why.clone())));
    for base in history.manifests.values().rev() {
        if let Some(damage) = survey(store, base)? {
            damages.push((base.epoch, damage));
            continue;
        }
        let Some((worst, why)) = damages.first() else {
            let dropped_state = check(base, &request.shape)?;
            return Ok(Choice { base, repeats: Vec::new(), dropped_state });
        };
        let two_phase = two_phase(history, request);
        if !two_phase.is_empty() {
            return Err(Error::config(format!(
                "epoch {worst} was published and cannot be restored: {why}; the newest epoch that is whole is {}, and going back to it would repeat rows in {}: restore the store from a backup, start with `--from {}` if rows may repeat there, or start over with `--fresh`, which loses the state",
                base.epoch,
                quoted(&two_phase),
                base.epoch
            )));
        }
        tracing::warn!(damaged = %worst, reason = %why, from = %base.epoch, "going back to an older epoch");
        let dropped_state = check(base, &request.shape)?;
        return Ok(Choice { base, repeats: Vec::new(), dropped_state });
    }
    let reasons: Vec<String> = damages.iter().map(|(epoch, why)| format!("epoch {epoch}: {why}")).collect();
    Err(Error::config(format!("no published epoch can be restored ({}); `--fresh` starts over", reasons.join("; "))))
}

fn two_phase(history: &History, request: &OpenRequest) -> Vec<String> {
    let newest = history.manifests.values().next_back();
    let mut sinks: Vec<String> = newest.map(Manifest::two_phase_sinks).unwrap_or_default().into_iter().map(str::to_string).collect();
    for (name, sink) in &request.shape.sinks {
        if sink.two_phase && !sinks.contains(name) {
            sinks.push(name.clone());
        }
    }
    sinks
}

fn quoted(names: &[String]) -> String {
    names.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ")
}

fn no_such_epoch(history: &History, from: Epoch) -> Error {
    match history.unreadable.get(&from) {
        Some(why) => Error::config(format!("the manifest of epoch {from} cannot be read: {why}")),
        None => {
            let known: Vec<String> = history.manifests.keys().map(Epoch::to_string).collect();
            Error::config(format!("there is no epoch {from} to start from; there are {}", known.join(", ")))
        }
    }
}

/// Reads every object a manifest names, one at a time, and says what is wrong with the first that is missing or damaged.
///
/// # Errors
/// `External` if the store does not answer.
pub(crate) fn survey(store: &dyn EpochStore, manifest: &Manifest) -> Result<Option<String>> {
    for object in manifest.objects() {
        let Some(bytes) = store.get(object).context(|| format!("state object `{object}`"))? else {
            return Ok(Some(format!("state object `{object}` is missing")));
        };
        for (operator, entry) in &manifest.operators {
            for piece in entry.pieces.iter().filter(|piece| piece.object == object) {
                if let Err(damage) = cut(piece, &bytes) {
                    return Ok(Some(format!("state object `{object}` of `{operator}`: {damage}")));
                }
            }
        }
    }
    Ok(None)
}

//! The invariants, by name.

use super::{Event, Seen};
use std::collections::BTreeSet;
use tidegate_api::{Position, SplitId};
use tidegate_epochs::manifest::{Manifest, SplitEntry, SplitStatus};

/// A named predicate over a transition and the world before it.
#[derive(Debug, Clone, Copy)]
pub struct Invariant {
    /// What it is called.
    pub name: &'static str,
    /// Says why it does not hold.
    pub(super) holds: fn(&Seen, &Event<'_>) -> Result<(), String>,
}

/// All of them.
pub const INVARIANTS: &[Invariant] = &[
    Invariant { name: "one-decision-per-epoch", holds: one_decision },
    Invariant { name: "no-epoch-is-skipped", holds: no_gap },
    Invariant { name: "generations-rise", holds: generations_rise },
    Invariant { name: "fenced-is-silent", holds: fenced_is_silent },
    Invariant { name: "state-before-manifest", holds: state_before_manifest },
    Invariant { name: "mark-before-next-manifest", holds: mark_before_next },
    Invariant { name: "manifest-before-commit", holds: manifest_before_commit },
    Invariant { name: "commit-before-mark", holds: commit_before_mark },
    Invariant { name: "commit-before-acknowledgement", holds: commit_before_acknowledgement },
    Invariant { name: "position-never-goes-back", holds: positions_rise },
    Invariant { name: "no-split-is-forgotten", holds: splits_stay },
    Invariant { name: "what-is-named-is-kept", holds: named_is_kept },
    Invariant { name: "fences-stay", holds: fences_stay },
    Invariant { name: "an-object-is-written-once", holds: written_once },
    Invariant { name: "what-is-pending-is-not-undone", holds: pending_is_not_undone },
    Invariant { name: "watermark-never-goes-back", holds: watermark_rises },
    Invariant { name: "rows-sent-are-rows-received", holds: edges_add_up },
    Invariant { name: "every-row-is-accounted-for", holds: rows_are_accounted_for },
    Invariant { name: "the-end-is-settled", holds: end_is_settled },
];

fn ensure(holds: bool, why: impl FnOnce() -> String) -> Result<(), String> {
    if holds { Ok(()) } else { Err(why()) }
}

/// The manifest that a published one follows.
fn before<'s>(seen: &'s Seen, manifest: &Manifest) -> Option<&'s Manifest> {
    let epoch = manifest.epoch.0.checked_sub(1)?;
    seen.manifests.get(&(manifest.run, tidegate_api::Epoch(epoch)))
}

fn one_decision(seen: &Seen, event: &Event<'_>) -> Result<(), String> {
    match event {
        Event::Published(manifest) => {
            let again = seen.manifests.get(&(manifest.run, manifest.epoch));
            ensure(again.is_none_or(|first| first == *manifest), || format!("epoch {} was published twice", manifest.epoch))
        }
        Event::Rewritten(run, epoch, bytes) => {
            let same = seen.manifests.get(&(*run, *epoch)).is_some_and(|first| first.encode() == *bytes);
            ensure(same, || format!("the manifest of epoch {epoch} was replaced by another"))
        }
        _ => Ok(()),
    }
}

fn no_gap(seen: &Seen, event: &Event<'_>) -> Result<(), String> {
    let Event::Published(manifest) = event else { return Ok(()) };
    let follows = manifest.epoch.0 == 0 || before(seen, manifest).is_some();
    ensure(follows, || format!("epoch {} was published before the one before it", manifest.epoch))
}

fn generations_rise(seen: &Seen, event: &Event<'_>) -> Result<(), String> {
    let Event::Published(manifest) = event else { return Ok(()) };
    let highest = seen.manifests.values().map(|older| older.generation).max();
    let rises = !manifest.opens_generation || highest.is_none_or(|highest| manifest.generation > highest);
    ensure(rises, || format!("epoch {} opens generation {}, which is not new", manifest.epoch, manifest.generation))
}

fn fenced_is_silent(seen: &Seen, event: &Event<'_>) -> Result<(), String> {
    let Event::Published(manifest) = event else { return Ok(()) };
    let own = seen.newest().is_none_or(|newest| (newest.generation, &newest.owner) == (manifest.generation, &manifest.owner));
    ensure(manifest.opens_generation || own, || {
        format!("`{}` published epoch {} after a later start had begun", manifest.owner, manifest.epoch)
    })
}

fn state_before_manifest(seen: &Seen, event: &Event<'_>) -> Result<(), String> {
    let Event::Published(manifest) = event else { return Ok(()) };
    match manifest.objects().into_iter().find(|object| !seen.objects.contains(*object)) {
        None => Ok(()),
        Some(object) => Err(format!("epoch {} names `{object}`, which does not exist", manifest.epoch)),
    }
}

fn mark_before_next(seen: &Seen, event: &Event<'_>) -> Result<(), String> {
    let Event::Published(manifest) = event else { return Ok(()) };
    let settled = |older: &Manifest| older.epoch.0 == 0 || seen.marks.contains(&(older.run, older.epoch));
    ensure(manifest.opens_generation || before(seen, manifest).is_none_or(settled), || {
        format!("epoch {} was published before the one before it was marked", manifest.epoch)
    })
}

fn manifest_before_commit(seen: &Seen, event: &Event<'_>) -> Result<(), String> {
    let Event::Committing(sink, tokens) = event else { return Ok(()) };
    for token in *tokens {
        let named = seen.manifests.values().rev().filter_map(|manifest| manifest.sinks.get(*sink));
        let named = named.flat_map(|entry| &entry.pending).any(|pending| pending.token == token.0);
        ensure(named, || format!("sink `{sink}` commits `{token:?}`, which no manifest names"))?;
    }
    Ok(())
}

fn commit_before_mark(seen: &Seen, event: &Event<'_>) -> Result<(), String> {
    let Event::Marked(run, epoch) = event else { return Ok(()) };
    match seen.manifests.get(&(*run, *epoch)) {
        None => Err(format!("epoch {epoch} was marked before it was published")),
        Some(manifest) => ensure(seen.is_committed(manifest), || format!("epoch {epoch} was marked before it was committed")),
    }
}

fn commit_before_acknowledgement(seen: &Seen, event: &Event<'_>) -> Result<(), String> {
    let Event::Acknowledged(source, split, position) = event else { return Ok(()) };
    let names = |manifest: &&Manifest| {
        let splits = manifest.sources.get(*source).map_or(&[][..], |entry| &entry.splits);
        splits.iter().any(|entry| entry.id == **split && entry.position.as_deref() == Some(&position.0))
    };
    match seen.manifests.values().find(names) {
        None => Err(format!("position `{position}` of split `{split}` was acknowledged, and no manifest has it")),
        Some(first) => ensure(seen.is_committed(first), || {
            format!("position `{position}` of split `{split}` was acknowledged before epoch {} was committed", first.epoch)
        }),
    }
}

/// The splits of two consecutive manifests, each with what it was.
fn splits<'s>(before: &'s Manifest, after: &'s Manifest) -> impl Iterator<Item = (&'s SplitEntry, Option<&'s SplitEntry>)> {
    before.sources.iter().flat_map(move |(name, entry)| {
        let now = after.sources.get(name).map_or(&[][..], |entry| &entry.splits);
        entry.splits.iter().map(move |split| (split, now.iter().find(|found| found.id == split.id)))
    })
}

fn positions_rise(seen: &Seen, event: &Event<'_>) -> Result<(), String> {
    let Event::Published(manifest) = event else { return Ok(()) };
    let Some(older) = before(seen, manifest) else { return Ok(()) };
    let number = |split: &SplitEntry| split.position.clone().and_then(|position| Position(position).as_number());
    for (was, now) in splits(older, manifest).filter_map(|(was, now)| Some((was, now?))) {
        let finished = was.status == SplitStatus::Reading || now.status == SplitStatus::Finished;
        let rises = number(now) >= number(was) && now.max_event_time >= was.max_event_time && finished;
        ensure(rises, || format!("epoch {} is further back in split `{}` than the one before it", manifest.epoch, was.id))?;
    }
    Ok(())
}

fn splits_stay(seen: &Seen, event: &Event<'_>) -> Result<(), String> {
    let Event::Published(manifest) = event else { return Ok(()) };
    let Some(older) = before(seen, manifest) else { return Ok(()) };
    for (name, entry) in &older.sources {
        let now = manifest.sources.get(name).map_or(&[][..], |entry| &entry.splits);
        let now: BTreeSet<&SplitId> = now.iter().map(|split| &split.id).collect();
        let may_go = |split: &SplitEntry| split.status == SplitStatus::Finished && seen.remembering.contains(name);
        match entry.splits.iter().find(|split| !now.contains(&split.id) && !may_go(split)) {
            None => {}
            Some(lost) => return Err(format!("epoch {} knows nothing of split `{}`", manifest.epoch, lost.id)),
        }
    }
    Ok(())
}

fn named_is_kept(seen: &Seen, event: &Event<'_>) -> Result<(), String> {
    let Event::StateDeleted(object) = event else { return Ok(()) };
    let there = seen.manifests.iter().rev().filter(|(key, _)| !seen.expired.contains(key));
    match there.take(seen.keep.max(1)).find(|(_, manifest)| manifest.objects().contains(object)) {
        None => Ok(()),
        Some((_, manifest)) => Err(format!("`{object}` was deleted, and epoch {}, which is retained, names it", manifest.epoch)),
    }
}

fn fences_stay(seen: &Seen, event: &Event<'_>) -> Result<(), String> {
    let Event::Expired(run, epoch) = event else { return Ok(()) };
    let gone = seen.manifests.get(&(*run, *epoch));
    let newest = seen.newest().map(|newest| (newest.run, newest.epoch));
    ensure(newest != Some((*run, *epoch)) && gone.is_none_or(|gone| !gone.opens_generation), || {
        format!("the manifest of epoch {epoch} was deleted, which is a fence")
    })
}

fn written_once(seen: &Seen, event: &Event<'_>) -> Result<(), String> {
    let Event::StateWritten(key, hash) = event else { return Ok(()) };
    ensure(seen.written.get(*key).is_none_or(|first| first == hash), || format!("`{key}` was written twice, with other bytes"))
}

fn pending_is_not_undone(seen: &Seen, event: &Event<'_>) -> Result<(), String> {
    let Event::Undoing(sink, generation, keep) = event else { return Ok(()) };
    let Some(entry) = seen.newest().and_then(|newest| newest.sinks.get(*sink)) else { return Ok(()) };
    for pending in &entry.pending {
        let key = ((*sink).to_string(), pending.commit_token());
        let older = seen.prepared.get(&key).is_some_and(|of| of < generation);
        let undone = older && !seen.committed.contains(&key) && !keep.contains(&key.1);
        ensure(!undone, || format!("sink `{sink}` undoes `{:?}`, which the newest manifest names", key.1))?;
    }
    Ok(())
}

fn watermark_rises(seen: &Seen, event: &Event<'_>) -> Result<(), String> {
    let Event::Promised(process, node, task, at) = event else { return Ok(()) };
    let last = seen.promised.get(&(*process, (*node).to_string(), *task));
    ensure(last.is_none_or(|last| last <= at), || format!("task {task} of `{node}` promises {at} after {}", last.copied().unwrap_or(*at)))
}

fn edges_add_up(_: &Seen, event: &Event<'_>) -> Result<(), String> {
    match event {
        Event::Carried(edge, sent, received) => {
            ensure(received <= sent, || format!("{received} rows came out of edge {edge} and {sent} went in"))
        }
        Event::Delivered(edge, sent, received) => {
            ensure(received == sent, || format!("{received} of {sent} rows came out of edge {edge} before the end"))
        }
        _ => Ok(()),
    }
}

fn rows_are_accounted_for(_: &Seen, event: &Event<'_>) -> Result<(), String> {
    let Event::Counted(node, came, known) = event else { return Ok(()) };
    ensure(came == known, || format!("{came} rows came into `{node}`, and what became of {known} is known"))
}

fn end_is_settled(seen: &Seen, event: &Event<'_>) -> Result<(), String> {
    let (Event::Ended, Some(newest)) = (event, seen.newest()) else { return Ok(()) };
    ensure(newest.ended.is_some() && seen.is_committed(newest), || {
        format!("the job said that it had ended, and epoch {} is not the end or not committed", newest.epoch)
    })
}

//! Every invariant refuses a transition that breaks it, and that one alone.

use super::{Event, INVARIANTS, Watch};
use std::collections::{BTreeMap, BTreeSet};
use tidegate_api::{CommitToken, Epoch, EventTime, Generation, PieceId, Position, RunId, Signature, SplitId, VnodeRange};
use tidegate_epochs::RunNumber;
use tidegate_epochs::manifest::{End, Manifest, OperatorEntry, PendingToken, PieceRef, SinkEntry, SourceEntry, SplitEntry, SplitStatus};

const RUN: RunNumber = RunNumber(1);

/// A manifest of one source with one split, one sink without tokens, and no state.
fn manifest(epoch: u64, generation: u64, opens: bool) -> Manifest {
    let split = SplitEntry {
        id: SplitId::new("s"),
        details: Vec::new(),
        position: Some(Position::number(epoch * 10).0),
        max_event_time: Some(EventTime(epoch as i64)),
        status: SplitStatus::Reading,
    };
    Manifest {
        run: RUN,
        run_id: RunId::new("run"),
        generation: Generation(generation),
        epoch: Epoch(epoch),
        owner: format!("process {generation}"),
        written: EventTime(0),
        interval_ms: 1,
        opens_generation: opens,
        now: EventTime(0),
        ended: None,
        vnodes: 256,
        hash_version: 1,
        sources: BTreeMap::from([("in".into(), SourceEntry { splits: vec![split], ..SourceEntry::default() })]),
        operators: BTreeMap::from([("op".into(), OperatorEntry { signature: Signature::new("op", 1), pieces: Vec::new() })]),
        sinks: BTreeMap::from([("out".into(), SinkEntry { two_phase: true, config: serde_json::Value::Null, pending: Vec::new() })]),
        plugins: BTreeMap::new(),
    }
}

fn token() -> CommitToken {
    CommitToken(b"token".to_vec())
}

fn with_token(mut manifest: Manifest) -> Manifest {
    let pending = PendingToken { epoch: manifest.epoch, task: 0, token: token().0 };
    manifest.sinks.values_mut().for_each(|sink| sink.pending.push(pending.clone()));
    manifest
}

fn with_state(mut manifest: Manifest, object: &str) -> Manifest {
    let piece = PieceRef {
        id: PieceId("piece".into()),
        name: "state".into(),
        vnodes: VnodeRange::all(256),
        object: object.into(),
        offset: 0,
        length: 0,
        checksum: 0,
    };
    manifest.operators.values_mut().for_each(|operator| operator.pieces.push(piece.clone()));
    manifest
}

fn with_split(mut manifest: Manifest, change: impl Fn(&mut SplitEntry)) -> Manifest {
    manifest.sources.values_mut().flat_map(|source| &mut source.splits).for_each(change);
    manifest
}

/// What a sound history leads to, and the transition that breaks the invariant of this name.
fn check(name: &'static str, history: &[Event<'_>], breaks: &Event<'_>) {
    let watch = Watch::default();
    watch.keep(2);
    for event in history {
        watch.on(event);
    }
    assert!(watch.verdict().is_ok(), "{name}: the history is sound: {:?}", watch.verdict());
    watch.on(breaks);
    let verdict = watch.verdict().unwrap_err().to_string();
    assert!(verdict.contains(&format!("`{name}`")), "{name}: {verdict}");
}

#[test]
fn every_invariant_refuses_what_breaks_it() {
    let (first, second, third) = (manifest(0, 1, true), manifest(1, 1, false), manifest(2, 2, true));
    let (begun, went_on) = (Event::Published(&first), Event::Published(&second));
    let mut tried = BTreeSet::new();
    let mut check = |name: &'static str, history: &[Event<'_>], breaks: &Event<'_>| {
        check(name, history, breaks);
        tried.insert(name);
    };

    let other = Manifest { owner: "process 7".into(), ..first.clone() };
    check("one-decision-per-epoch", &[Event::Published(&first)], &Event::Published(&other));
    check("one-decision-per-epoch", &[Event::Published(&first)], &Event::Rewritten(RUN, Epoch(0), b"something else"));
    check("no-epoch-is-skipped", &[Event::Published(&first)], &Event::Published(&manifest(2, 1, false)));
    check("generations-rise", &[Event::Published(&first)], &Event::Published(&manifest(1, 1, true)));
    let late = manifest(3, 1, false);
    let taken_over = [Event::Published(&first), Event::Published(&second), Event::Published(&third), Event::Marked(RUN, Epoch(2))];
    check("fenced-is-silent", &taken_over, &Event::Published(&late));

    let stateful = with_state(second.clone(), "objects/one");
    check("state-before-manifest", &[Event::Published(&first)], &Event::Published(&stateful));
    check("mark-before-next-manifest", &[begun, went_on], &Event::Published(&manifest(2, 1, false)));

    let pending = with_token(second.clone());
    let (tokens, position, split) = ([token()], Position::number(10), SplitId::new("s"));
    check("manifest-before-commit", &[Event::Published(&first)], &Event::Committing("out", &tokens));
    check("commit-before-mark", &[Event::Published(&first), Event::Published(&pending)], &Event::Marked(RUN, Epoch(1)));
    let acknowledged = Event::Acknowledged("in", &split, &position);
    check("commit-before-acknowledgement", &[Event::Published(&first)], &acknowledged);
    check("commit-before-acknowledgement", &[Event::Published(&first), Event::Published(&pending)], &acknowledged);
    let prepared = Event::Prepared("out", Generation(1), &tokens[0]);
    check(
        "what-is-pending-is-not-undone",
        &[Event::Published(&first), prepared, Event::Published(&pending)],
        &Event::Undoing("out", Generation(2), &[]),
    );

    let back = with_split(second.clone(), |split| split.max_event_time = Some(EventTime(-1)));
    let finished = with_split(first.clone(), |split| split.status = SplitStatus::Finished);
    check("position-never-goes-back", &[Event::Published(&first)], &Event::Published(&back));
    check("position-never-goes-back", &[Event::Published(&finished)], &Event::Published(&second));
    let renamed = with_split(second.clone(), |split| split.id = SplitId::new("t"));
    check("no-split-is-forgotten", &[Event::Published(&first)], &Event::Published(&renamed));
    // What was read to its end may go, if its source knows that by itself, and what was not may not.
    let over = with_split(first.clone(), |split| split.status = SplitStatus::Finished);
    for (read, remembers, sound) in [(&over, true, true), (&over, false, false), (&first, true, false)] {
        let watch = Watch::default();
        if remembers {
            watch.remembers("in");
        }
        watch.on(&Event::Published(read));
        watch.on(&Event::Published(&renamed));
        assert_eq!(watch.verdict().is_ok(), sound, "{remembers} {:?}", watch.verdict());
    }

    let state = || Event::StateWritten("objects/one", 1);
    check("an-object-is-written-once", &[state()], &Event::StateWritten("objects/one", 2));
    let named = [Event::Published(&first), state(), Event::Published(&stateful)];
    check("what-is-named-is-kept", &named, &Event::StateDeleted("objects/one"));
    check("fences-stay", &[Event::Published(&first), Event::Published(&second)], &Event::Expired(RUN, Epoch(0)));
    check("fences-stay", &[Event::Published(&first), Event::Published(&second)], &Event::Expired(RUN, Epoch(1)));

    let promised = |at: i64| Event::Promised(0, "op", 0, EventTime(at));
    check("watermark-never-goes-back", &[promised(5), Event::Promised(0, "op", 1, EventTime(1))], &promised(4));
    check("rows-sent-are-rows-received", &[Event::Carried("0", 5, 4)], &Event::Carried("0", 5, 6));
    check("rows-sent-are-rows-received", &[Event::Delivered("0", 5, 5)], &Event::Delivered("0", 6, 5));
    check("every-row-is-accounted-for", &[Event::Counted("op", 5, 5)], &Event::Counted("op", 5, 4));
    let ended = Manifest { ended: Some(End::Drain), ..pending.clone() };
    check("the-end-is-settled", &[Event::Published(&first), Event::Published(&second)], &Event::Ended);
    check("the-end-is-settled", &[Event::Published(&first), Event::Published(&ended)], &Event::Ended);

    let all: BTreeSet<&str> = INVARIANTS.iter().map(|invariant| invariant.name).collect();
    assert_eq!(tried, all, "an invariant that nothing was tried on");
}

use super::*;
use crate::keys::RunNumber;
use crate::manifest::SourceEntry;
use crate::pieces::read_pieces;
use crate::recovery::SinkShape;
use crate::{EpochStore, MemoryStore};
use std::sync::Arc;
use tidegate_api::{BarrierKind, DeferredBytes, Generation, MakeBytes, PieceId, RunId, Signature, VnodeRange};

fn shape() -> JobShape {
    let sink = |two_phase| SinkShape { two_phase, config: serde_json::Value::Null };
    JobShape {
        vnodes: 8,
        sources: BTreeMap::from([("in".to_string(), String::new())]),
        operators: BTreeMap::from([("count".to_string(), Signature::new("count", 1))]),
        sinks: BTreeMap::from([("out".to_string(), sink(true)), ("log".to_string(), sink(false))]),
        ..JobShape::default()
    }
}

fn split(name: &str) -> Split {
    Split { id: SplitId::new(name), details: Vec::new(), position: Some(Position::number(0)) }
}

fn ledger() -> Ledger {
    let shape = shape();
    let source = SourceEntry { splits: vec![SplitEntry::new(&split("a")), SplitEntry::new(&split("b"))], ..SourceEntry::default() };
    let opened = Manifest {
        run: RunNumber::FIRST,
        run_id: RunId::new("r"),
        generation: Generation(1),
        epoch: Epoch(0),
        owner: "one".to_string(),
        written: EventTime(0),
        interval_ms: 1000,
        opens_generation: true,
        now: EventTime(0),
        ended: None,
        vnodes: 8,
        hash_version: 1,
        sources: BTreeMap::from([("in".to_string(), source)]),
        operators: shape.operator_entries(),
        sinks: shape.sink_entries(),
        plugins: BTreeMap::new(),
    };
    Ledger::new(opened, &shape)
}

fn barrier(epoch: u64) -> Barrier {
    Barrier { epoch: Epoch(epoch), kind: BarrierKind::Checkpoint, now: EventTime(i64::try_from(epoch).unwrap()) }
}

fn read(name: &str, position: u64, status: SplitStatus) -> TaskSnapshot {
    let progress = SplitProgress {
        id: SplitId::new(name),
        position: Some(Position::number(position)),
        max_event_time: Some(EventTime(i64::try_from(position).unwrap())),
        status,
    };
    TaskSnapshot { splits: BTreeMap::from([("in".to_string(), vec![progress])]), ..TaskSnapshot::default() }
}

fn state(task: u32, pieces: Vec<SnapshotPiece>) -> TaskSnapshot {
    TaskSnapshot { states: vec![OperatorSnapshot { operator: "count".to_string(), task, pieces }], ..TaskSnapshot::default() }
}

fn new(id: &str, data: &[u8]) -> SnapshotPiece {
    SnapshotPiece::New { id: PieceId(id.to_string()), name: id.to_string(), vnodes: VnodeRange::all(8), data: data.to_vec() }
}

fn token(sink: &str, task: u32) -> TaskSnapshot {
    TaskSnapshot { tokens: vec![(sink.to_string(), task, CommitToken(vec![u8::try_from(task).unwrap()]))], ..TaskSnapshot::default() }
}

fn objects(ledger: &mut Ledger) -> Vec<(String, Vec<u8>)> {
    let mut objects = Vec::new();
    ledger
        .write_objects(|key, bytes| {
            objects.push((key.to_string(), bytes.to_vec()));
            Ok(())
        })
        .unwrap();
    objects
}

/// Publishes an epoch made of `snapshots`.
fn epoch(ledger: &mut Ledger, number: u64, snapshots: Vec<TaskSnapshot>) -> Manifest {
    ledger.begin(barrier(number));
    for snapshot in snapshots {
        ledger.add(snapshot).unwrap();
    }
    let manifest = ledger.seal(None, EventTime(9)).unwrap().clone();
    ledger.published();
    manifest
}

#[test]
fn a_manifest_has_what_the_tasks_handed_over_and_the_rest_as_it_was() {
    let mut ledger = ledger();
    let manifest = epoch(&mut ledger, 1, vec![read("b", 5, SplitStatus::Finished), token("out", 1), token("out", 0)]);
    assert_eq!((manifest.epoch, manifest.now, manifest.opens_generation), (Epoch(1), EventTime(1), false));
    let splits = &manifest.sources["in"].splits;
    assert_eq!((splits[0].position.as_deref(), splits[0].status), (Some(&b"0"[..]), SplitStatus::Reading));
    assert_eq!((splits[1].position.as_deref(), splits[1].status), (Some(&b"5"[..]), SplitStatus::Finished));
    assert_eq!(splits[1].max_event_time, Some(EventTime(5)));
    let tasks: Vec<u32> = manifest.sinks["out"].pending.iter().map(|pending| pending.task).collect();
    assert_eq!(tasks, [0, 1], "in order of the tasks, whoever came first");
    assert_eq!(ledger.pending(Epoch(1), "out"), [CommitToken(vec![0]), CommitToken(vec![1])]);
    assert_eq!(ledger.positions(Epoch(1), "in")[1].1, Position::number(5));
    assert!(!epoch(&mut ledger, 2, Vec::new()).has_pending(), "tokens are one epoch's");
}

#[test]
fn the_largest_event_time_never_moves_back() {
    let mut ledger = ledger();
    epoch(&mut ledger, 1, vec![read("a", 5, SplitStatus::Reading)]);
    let mut earlier = read("a", 6, SplitStatus::Reading);
    earlier.splits.get_mut("in").unwrap()[0].max_event_time = Some(EventTime(2));
    let manifest = epoch(&mut ledger, 2, vec![earlier]);
    assert_eq!(manifest.sources["in"].splits[0].max_event_time, Some(EventTime(5)));
}

#[test]
fn a_kept_piece_stays_where_it_was_and_a_task_s_pieces_keep_their_order() {
    let mut ledger = ledger();
    ledger.begin(barrier(1));
    ledger.add(state(0, vec![new("z", b"one"), new("a", b"three")])).unwrap();
    assert_eq!(objects(&mut ledger), [("objects/r/0000000001/00000000000000000001/count.0/0".to_string(), b"onethree".to_vec())]);
    let first = ledger.seal(None, EventTime(0)).unwrap().operators["count"].pieces.clone();
    ledger.published();
    assert_eq!(first.iter().map(|piece| (piece.id.0.as_str(), piece.offset, piece.length)).collect::<Vec<_>>(), [("z", 0, 3), ("a", 3, 5)]);

    ledger.begin(barrier(2));
    let kept = || SnapshotPiece::Kept(PieceId("z".to_string()));
    ledger.add(state(1, vec![kept()])).unwrap();
    ledger.add(state(0, vec![kept(), new("b", b"x")])).unwrap();
    assert_eq!(objects(&mut ledger).len(), 1, "only what is new is written");
    let second = ledger.seal(None, EventTime(0)).unwrap().operators["count"].pieces.clone();
    assert_eq!(second[0], first[0]);
    assert_eq!(second.len(), 2, "a piece kept by two tasks is named once");
}

#[test]
fn a_piece_that_was_not_in_the_last_epoch_cannot_be_kept() {
    let mut ledger = ledger();
    epoch(&mut ledger, 1, vec![state(0, vec![new("a", b"1")])]);
    epoch(&mut ledger, 2, vec![state(0, vec![new("b", b"1")])]);
    ledger.begin(barrier(3));
    let error = ledger.add(state(0, vec![SnapshotPiece::Kept(PieceId("a".to_string()))])).unwrap_err();
    assert!(error.to_string().contains("`a`"), "{error}");
}

#[test]
fn a_sealed_manifest_does_not_see_what_is_discovered_after_it() {
    let mut ledger = ledger();
    ledger.begin(barrier(1));
    let sealed = ledger.seal(None, EventTime(1)).unwrap().encode();
    let found = Discovered { added: vec![split("a"), split("c")], cursor: Some(vec![1]), ..Discovered::default() };
    assert_eq!(ledger.discovered("in", &found).unwrap(), [split("c")], "a known split is not assigned twice");
    assert_eq!(ledger.seal(None, EventTime(2)).unwrap().encode(), sealed, "a repeated create sends the same bytes");
    ledger.published();
    let next = epoch(&mut ledger, 2, Vec::new());
    assert_eq!(next.sources["in"].splits.len(), 3);
    assert_eq!(next.sources["in"].cursor, Some(vec![1]));
}

#[test]
fn a_finished_split_that_is_gone_is_forgotten_and_an_unfinished_one_is_an_error() {
    let mut ledger = ledger();
    epoch(&mut ledger, 1, vec![read("a", 5, SplitStatus::Finished)]);
    let gone = |name| Discovered { gone: vec![SplitId::new(name)], ..Discovered::default() };
    ledger.discovered("in", &gone("a")).unwrap();
    // Its task has not heard of it and reports it once more.
    let manifest = epoch(&mut ledger, 2, vec![read("a", 5, SplitStatus::Finished)]);
    assert_eq!(manifest.sources["in"].splits.len(), 1);
    assert!(ledger.discovered("in", &gone("b")).is_err());
}

#[test]
fn what_the_run_does_not_have_is_refused() {
    let mut ledger = ledger();
    assert!(ledger.add(token("out", 0)).is_err(), "a snapshot without a barrier");
    ledger.begin(barrier(1));
    assert!(ledger.add(token("log", 0)).is_err(), "a token of a sink without two phases");
    assert!(ledger.add(read("x", 1, SplitStatus::Reading)).is_err(), "a split nobody discovered");
    let mut other = state(0, Vec::new());
    other.states[0].operator = "other".to_string();
    assert!(ledger.add(other).is_err(), "an operator that is not in the plan");
}

/// Bytes that say they are as many as `about`.
#[derive(Debug)]
struct Later {
    about: u64,
    bytes: &'static [u8],
}

impl MakeBytes for Later {
    fn estimate(&self) -> u64 {
        self.about
    }

    fn make(&self) -> Result<Vec<u8>> {
        if self.bytes.is_empty() { Err(Error::external("the disk is gone")) } else { Ok(self.bytes.to_vec()) }
    }
}

fn later(id: &str, about: u64, bytes: &'static [u8]) -> SnapshotPiece {
    let data = DeferredBytes(Arc::new(Later { about, bytes }));
    SnapshotPiece::Deferred { id: PieceId(id.to_string()), name: id.to_string(), vnodes: VnodeRange::all(8), data }
}

#[test]
fn deferred_pieces_are_referred_to_where_they_were_written() {
    let mut ledger = ledger();
    ledger.begin(barrier(1));
    ledger.add(state(0, vec![later("a", 5 << 20, b"three"), new("b", b"x"), later("c", 1, b"to"), later("d", 5 << 20, b"and")])).unwrap();
    assert!(ledger.seal(None, EventTime(0)).unwrap_err().to_string().contains("before the state objects were written"));
    let written = objects(&mut ledger);
    assert_eq!(objects(&mut ledger), written, "a repeated write sends the same bytes");
    let bodies: Vec<&[u8]> = written.iter().map(|(_, bytes)| bytes.as_slice()).collect();
    assert_eq!(bodies, [&b"x"[..], b"threeto", b"and"], "what would be too large together lies apart");
    let store = MemoryStore::new();
    written.iter().for_each(|(key, bytes)| store.put(key, bytes).unwrap());
    let pieces = ledger.seal(None, EventTime(0)).unwrap().operators["count"].pieces.clone();
    let read = read_pieces(&store, &pieces, VnodeRange::all(8)).unwrap();
    let read: Vec<(&str, &[u8])> = read.iter().map(|piece| (piece.name.as_str(), piece.data.as_slice())).collect();
    assert_eq!(read, [("a", &b"three"[..]), ("b", b"x"), ("c", b"to"), ("d", b"and")]);
}

#[test]
fn bytes_that_cannot_be_made_keep_the_epoch_from_being_sealed() {
    let mut ledger = ledger();
    ledger.begin(barrier(1));
    ledger.add(state(0, vec![later("a", 1, b"")])).unwrap();
    let error = ledger.write_objects(|_, _| Ok(())).unwrap_err().to_string();
    assert!(error.contains("the disk is gone") && error.contains("count.0/1"), "{error}");
    assert!(ledger.seal(None, EventTime(0)).is_err());
}

#[test]
fn a_finished_split_is_forgotten_once_a_manifest_has_it_finished_and_not_before() {
    let mut ledger = ledger();
    ledger.begin(barrier(1));
    ledger.add(read("a", 5, SplitStatus::Finished)).unwrap();
    assert!(ledger.forget_finished("in").is_empty(), "epoch 1 may still fail");
    let first = ledger.seal(None, EventTime(1)).unwrap().clone();
    assert!(ledger.forget_finished("in").is_empty(), "nor has a sealed manifest been published");
    ledger.published();
    assert_eq!(ledger.forget_finished("in"), [SplitId::new("a")]);
    assert!(ledger.forget_finished("in").is_empty() && ledger.forget_finished("nowhere").is_empty());
    assert_eq!(first.sources["in"].splits.len(), 2);
    // The task may not have heard of it when the next barrier passes.
    ledger.begin(barrier(2));
    ledger.add(read("a", 5, SplitStatus::Finished)).unwrap();
    ledger.add(read("b", 1, SplitStatus::Reading)).unwrap();
    let names = |manifest: &Manifest| manifest.sources["in"].splits.iter().map(|split| split.id.to_string()).collect::<Vec<_>>();
    assert_eq!(names(ledger.seal(None, EventTime(2)).unwrap()), ["b"]);
    ledger.published();
    // What was finished and forgotten stays away; another split finishes in its own time.
    ledger.begin(barrier(3));
    ledger.add(read("b", 9, SplitStatus::Finished)).unwrap();
    assert_eq!(names(ledger.seal(None, EventTime(3)).unwrap()), ["b"], "that it is finished is durable before it is forgotten");
}

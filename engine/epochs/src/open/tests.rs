use super::*;
use crate::claim::{release, renew};
use crate::keys;
use crate::manifest::{PendingToken, PieceRef, SplitStatus};
use crate::recovery::SinkShape;
use crate::{MemoryStore, mark_committed};
use serde_json::json;
use tidegate_api::{ErrorKind, PieceId, Position, Signature, Split, SplitId, VnodeRange};

const SECOND: i64 = 1_000_000;

fn shape() -> JobShape {
    JobShape {
        vnodes: 8,
        sources: BTreeMap::from([("in".to_string(), "a: int64".to_string())]),
        operators: BTreeMap::from([("hourly".to_string(), Signature::new("windowedAggregate", 1).with("size", "1h"))]),
        sinks: BTreeMap::from([("out".to_string(), SinkShape { two_phase: true, config: json!({ "path": "out" }) })]),
        ..JobShape::default()
    }
}

fn request(holder: &str) -> OpenRequest {
    OpenRequest::new(RunId::new(format!("run-{holder}")), holder, Duration::from_secs(5), shape())
}

fn first(store: &MemoryStore, holder: &str, now: EventTime) -> Manifest {
    let Opening::First(first) = open(store, &request(holder), now).unwrap() else { panic!("a run exists") };
    let split = Split { id: SplitId::new("0"), details: Vec::new(), position: Some(Position::number(0)) };
    let found = BTreeMap::from([("in".to_string(), Discovered { added: vec![split], ..Discovered::default() })]);
    first.manifest(&request(holder), &found, now).unwrap()
}

/// A store with epochs 0 to 2 by `one`, the last with state and a pending token.
fn running(now: EventTime) -> (MemoryStore, Manifest) {
    let store = MemoryStore::new();
    let mut manifest = first(&store, "one", now);
    publish(&store, &manifest).unwrap();
    for epoch in 1..=2 {
        manifest.epoch = Epoch(epoch);
        manifest.opens_generation = false;
        let (object, data) = (format!("objects/run-one/1/{epoch}/hourly.0/0"), b"state".to_vec());
        store.put(&object, &data).unwrap();
        let piece = crate::pieces::refer(PieceId(epoch.to_string()), "pane".to_string(), VnodeRange::all(8), &object, 0, &data);
        manifest.operators.get_mut("hourly").unwrap().pieces = vec![piece];
        let token = PendingToken { epoch: Epoch(epoch), task: 0, token: vec![7] };
        manifest.sinks.get_mut("out").unwrap().pending = vec![token];
        publish(&store, &manifest).unwrap();
    }
    (store, manifest)
}

fn resumed(opening: Opening) -> RecoveryPlan {
    match opening {
        Opening::Resume(plan) => *plan,
        other => panic!("{other:?}"),
    }
}

fn refused(store: &MemoryStore, request: &OpenRequest, now: EventTime) -> String {
    let before = store.list("").unwrap();
    let error = open(store, request, now).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Config);
    assert_eq!(store.list("").unwrap(), before, "a refused start writes nothing");
    error.to_string()
}

fn later() -> EventTime {
    EventTime(3600 * SECOND)
}

#[test]
fn of_two_first_starts_one_makes_the_run_and_the_other_is_refused() {
    let store = MemoryStore::new();
    let one = first(&store, "one", EventTime(0));
    let two = first(&store, "two", EventTime(0));
    assert_eq!(publish(&store, &two).unwrap(), Published::Ours);
    assert_eq!(publish(&store, &one).unwrap(), Published::Theirs { owner: "two".to_string() });
    let why = refused(&store, &request("one"), EventTime(SECOND));
    assert!(why.contains("`two`") && why.contains("--takeover"), "{why}");
}

#[test]
fn publishing_again_after_a_lost_answer_is_recognised() {
    let store = MemoryStore::new();
    let manifest = first(&store, "one", EventTime(0));
    assert_eq!(publish(&store, &manifest).unwrap(), Published::Ours);
    assert_eq!(publish(&store, &manifest).unwrap(), Published::Ours);
}

#[test]
fn a_start_takes_the_next_number_and_generation_and_finds_what_is_pending() {
    let (store, manifest) = running(EventTime(0));
    let plan = resumed(open(&store, &request("two"), later()).unwrap());
    assert_eq!((plan.base, plan.epoch(), plan.generation()), (Epoch(2), Epoch(3), Generation(2)));
    assert!(plan.manifest.opens_generation);
    assert_eq!(plan.run_id(), &manifest.run_id);
    assert_eq!(plan.manifest.sources, manifest.sources);
    assert_eq!(plan.pieces("hourly"), manifest.operators["hourly"].pieces);
    assert_eq!(plan.sinks.len(), 1);
    assert_eq!(plan.sinks[0].pending.keys().collect::<Vec<_>>(), [&Epoch(2)]);
    assert_eq!(plan.sinks[0].keep.len(), 1);
    assert_eq!(plan.older.len(), 3);

    // It dies before it has settled; the next one finds the same token.
    let plan = resumed(
        open(&store, &request("three"), later()).unwrap_or_else(|_| open(&store, &request("three").with_takeover(true), later()).unwrap()),
    );
    assert_eq!(plan.sinks[0].pending.keys().collect::<Vec<_>>(), [&Epoch(2)]);
    mark_committed(&store, &plan.manifest).unwrap();
    let plan = resumed(open(&store, &request("four").with_takeover(true), later()).unwrap());
    assert!(plan.sinks[0].pending.is_empty() && plan.sinks[0].keep.is_empty());
}

#[test]
fn a_live_claim_refuses_and_each_of_four_reasons_lifts_it() {
    let at = |seconds: i64| EventTime(seconds * SECOND);
    let (world, manifest) = running(at(0));
    renew(&world, &manifest, at(100)).unwrap();
    refused(&world, &request("two"), at(114));
    refused(&world, &request("two"), at(90));

    resumed(open(&world.fork(), &request("two"), at(115)).unwrap());
    resumed(open(&world.fork(), &request("two").with_takeover(true), at(101)).unwrap());
    let is_gone: IsGone = Arc::new(|claim| claim.holder == "one");
    resumed(open(&world.fork(), &request("two").with_is_gone(is_gone), at(101)).unwrap());
    resumed(open(&world.fork(), &request("one"), at(101)).unwrap());
    release(&world, &manifest, at(101)).unwrap();
    resumed(open(&world, &request("two"), at(101)).unwrap());
}

#[test]
fn the_manifest_itself_is_a_sign_of_life() {
    let (store, _) = running(EventTime(0));
    refused(&store, &request("two"), EventTime(14 * SECOND));
    resumed(open(&store, &request("two"), EventTime(15 * SECOND)).unwrap());
}

#[test]
fn a_drained_run_is_complete_and_what_it_left_is_settled_first() {
    let (store, mut manifest) = running(EventTime(0));
    manifest.epoch = Epoch(3);
    manifest.ended = Some(End::Drain);
    publish(&store, &manifest).unwrap();
    let Opening::Complete { epoch, unsettled: Some(plan) } = open(&store, &request("two"), later()).unwrap() else { panic!() };
    assert_eq!(epoch, Epoch(3));
    assert!(plan.manifest.has_pending());
    mark_committed(&store, &plan.manifest).unwrap();
    let before = store.list("").unwrap();
    let complete = open(&store, &request("three"), later()).unwrap();
    assert_eq!(complete, Opening::Complete { epoch: Epoch(4), unsettled: None });
    assert_eq!(store.list("").unwrap(), before, "looking at a complete run writes nothing");
}

#[test]
fn a_suspended_run_goes_on_without_waiting_for_its_claim() {
    let (store, mut manifest) = running(EventTime(0));
    manifest.epoch = Epoch(3);
    manifest.ended = Some(End::Suspend);
    publish(&store, &manifest).unwrap();
    mark_committed(&store, &manifest).unwrap();
    renew(&store, &manifest, EventTime(SECOND)).unwrap();
    let plan = resumed(open(&store, &request("two"), EventTime(SECOND)).unwrap());
    assert_eq!(plan.manifest.ended, None);
    assert!(!plan.manifest.has_pending());
}

#[test]
fn a_fresh_start_closes_the_run_and_every_later_start_follows_it() {
    let (store, manifest) = running(EventTime(0));
    let Opening::First(fresh) = open(&store, &request("two").with_fresh(true), later()).unwrap() else { panic!() };
    assert_eq!((fresh.run, fresh.generation), (RunNumber(2), Generation(3)));
    assert_eq!(fresh.run_id, RunId::new("run-two"));
    let closed = fresh.closed.unwrap();
    assert_eq!(closed.sinks[0].pending.len(), 1, "what the closed run published is still committed");

    // The old start is fenced by the same object.
    let mut next = manifest.clone();
    next.epoch = Epoch(3);
    assert_eq!(publish(&store, &next).unwrap(), Published::Theirs { owner: "two".to_string() });

    // The fresh start dies; the next one, not fresh itself, carries the decision out.
    let Opening::First(after) = open(&store, &request("three"), later()).unwrap() else { panic!() };
    assert_eq!((after.run, after.closed.is_some()), (RunNumber(2), true));
    mark_committed(&store, &closed.manifest).unwrap();
    let Opening::First(after) = open(&store, &request("three"), later()).unwrap() else { panic!() };
    assert_eq!((after.run, after.closed.is_some()), (RunNumber(2), false));
    let why = refused(&store, &request("three").with_from(Some(Epoch(1))), later());
    assert!(why.contains("closed"), "{why}");
}

/// P086: state that was dealt out otherwise is refused, never dealt out anew in silence.
#[test]
fn what_does_not_fit_the_plan_is_refused_with_every_reason_at_once() {
    let (store, _) = running(EventTime(0));
    let mut changed = request("two");
    changed.shape.sources = BTreeMap::from([("other".to_string(), String::new())]);
    changed.shape.operators.insert("hourly".to_string(), Signature::new("windowedAggregate", 1).with("size", "2h"));
    let why = refused(&store, &changed, later());
    for part in ["source `in`", "stage `hourly`", "`size` was `\"1h\"` and is `\"2h\"`", "undo the change", "--fresh"] {
        assert!(why.contains(part), "{part}: {why}");
    }
    assert!(why.contains("--drop-state hourly"), "{why}");
}

#[test]
fn a_store_that_lost_its_manifests_is_refused_and_says_what_is_missing() {
    let all = |store: &MemoryStore, prefix: &str| store.list(prefix).unwrap();
    let (store, manifest) = running(EventTime(0));
    mark_committed(&store, &manifest).unwrap();
    renew(&store, &manifest, EventTime(0)).unwrap();
    for key in all(&store, keys::MANIFESTS) {
        store.delete(&key).unwrap();
    }
    for left in ["marks/", "claims/", "objects/"] {
        let store = store.fork();
        for key in ["marks/", "claims/", "objects/"].iter().filter(|prefix| **prefix != left).flat_map(|prefix| all(&store, prefix)) {
            store.delete(&key).unwrap();
        }
        for request in [request("two"), request("two").with_fresh(true)] {
            let why = refused(&store, &request, later());
            for part in [left, "no manifest", "backup"] {
                assert!(why.contains(part), "{part}: {why}");
            }
        }
    }
}

#[test]
fn a_mark_without_its_manifest_is_refused_instead_of_going_back() {
    let (store, manifest) = running(EventTime(0));
    mark_committed(&store, &manifest).unwrap();
    for copy in [keys::Copy::A, keys::Copy::B] {
        store.delete(&keys::manifest(manifest.run, manifest.epoch, copy)).unwrap();
    }
    let why = refused(&store, &request("two"), later());
    for part in ["epoch 2", "manifests/00000001/00000000000000000002", "backup"] {
        assert!(why.contains(part), "{part}: {why}");
    }
}

#[test]
fn dropped_state_is_left_behind_and_named() {
    let (store, _) = running(EventTime(0));
    let mut changed = request("two");
    changed.shape.vnodes = 16;
    changed.shape.drop_state.insert("hourly".to_string());
    let plan = resumed(open(&store, &changed, later()).unwrap());
    assert_eq!(plan.dropped_state["hourly"], "`vnodes` was 8 and is 16");
    assert_eq!(plan.pieces("hourly"), <&[PieceRef]>::default());
    assert_eq!(plan.manifest.vnodes, 16);
}

#[test]
fn state_whose_stage_is_gone_is_refused_and_a_stage_without_state_may_go() {
    let (store, _) = running(EventTime(0));
    let mut without = request("two");
    without.shape.operators.clear();
    assert!(refused(&store, &without, later()).contains("no such stage"));
    let store = MemoryStore::new();
    publish(&store, &first(&store, "one", EventTime(0))).unwrap();
    let plan = resumed(open(&store, &without, later()).unwrap());
    assert!(plan.manifest.operators.is_empty());
}

#[test]
fn a_new_source_stage_and_sink_come_in_empty() {
    let (store, _) = running(EventTime(0));
    let mut wider = request("two");
    wider.shape.sources.insert("more".to_string(), "b: string".to_string());
    wider.shape.operators.insert("daily".to_string(), Signature::new("windowedAggregate", 1));
    wider.shape.sinks.insert("extra".to_string(), SinkShape { two_phase: true, config: json!(null) });
    let plan = resumed(open(&store, &wider, later()).unwrap());
    let more = plan.source("more").unwrap();
    assert_eq!((more.schema.as_str(), more.splits.len(), more.cursor), ("b: string", 0, None));
    assert!(plan.pieces("daily").is_empty() && !plan.pieces("hourly").is_empty());
    assert_eq!(plan.source("in").unwrap().splits[0].status, SplitStatus::Reading);
    assert_eq!(plan.sinks.iter().map(|sink| sink.sink.as_str()).collect::<Vec<_>>(), ["extra", "out"]);
}

#[test]
fn a_sink_configured_otherwise_is_recovered_under_both_configurations() {
    let (store, _) = running(EventTime(0));
    let mut moved = request("two");
    moved.shape.sinks.insert("out".to_string(), SinkShape { two_phase: true, config: json!({ "path": "elsewhere" }) });
    let plan = resumed(open(&store, &moved, later()).unwrap());
    let configs: Vec<_> = plan.sinks.iter().map(|sink| (sink.config["path"].as_str().unwrap(), sink.pending.len())).collect();
    assert_eq!(configs, [("out", 1), ("elsewhere", 0)]);
    // From the first epoch on only the new one counts.
    let mut ledger = crate::Ledger::new(plan.manifest.clone(), &moved.shape);
    assert_eq!(ledger.manifest().sinks["out"].config["path"], "out");
    let barrier = tidegate_api::Barrier { epoch: Epoch(4), kind: tidegate_api::BarrierKind::Checkpoint, now: later() };
    ledger.begin(barrier);
    assert_eq!(ledger.seal(None, later()).unwrap().sinks["out"].config["path"], "elsewhere");
}

#[test]
fn an_unknown_epoch_to_start_from_is_refused_with_those_that_are_there() {
    let (store, _) = running(EventTime(0));
    assert!(refused(&store, &request("two").with_from(Some(Epoch(9))), later()).contains("there are 0, 1, 2"));
    assert!(refused(&MemoryStore::new(), &request("two").with_from(Some(Epoch(9))), later()).contains("empty"));
}

#[test]
fn a_restart_within_the_process_does_not_start_over_or_go_back_again() {
    let (store, _) = running(EventTime(0));
    let back = request("two").with_from(Some(Epoch(1)));
    let plan = resumed(open(&store, &back, later()).unwrap());
    assert_eq!((plan.base, plan.repeats.len()), (Epoch(1), 1));
    let again = resumed(open(&store, &back, later()).unwrap());
    assert_eq!((again.base, again.repeats.len()), (plan.epoch(), 0));

    let (store, _) = running(EventTime(0));
    let fresh = request("two").with_fresh(true);
    let Opening::First(begun) = open(&store, &fresh, later()).unwrap() else { panic!() };
    let Opening::First(begun_again) = open(&store, &fresh, later()).unwrap() else { panic!() };
    assert_eq!(begun_again.run, begun.run, "closed once");
    let found = BTreeMap::from([("in".to_string(), Discovered::default())]);
    publish(&store, &begun.manifest(&fresh, &found, later()).unwrap()).unwrap();
    let plan = resumed(open(&store, &fresh, later()).unwrap());
    assert_eq!((plan.run(), plan.base), (begun.run, Epoch(0)));
}

#[test]
fn what_a_source_resolved_goes_with_the_run_and_no_further() {
    let pinning = |holder: &str, text: Option<&str>| {
        let mut request = request(holder).with_takeover(true);
        request.shape.pinned = text.map(|text| ("in".to_string(), text.to_string())).into_iter().collect();
        request
    };
    let store = MemoryStore::new();
    assert!(pinned(&store).unwrap().is_empty());
    let one = pinning("one", Some("a: int64"));
    let Opening::First(begun) = open(&store, &one, EventTime(0)).unwrap() else { panic!("a run exists") };
    let found = BTreeMap::from([("in".to_string(), Discovered::default())]);
    publish(&store, &begun.manifest(&one, &found, EventTime(0)).unwrap()).unwrap();
    assert_eq!(pinned(&store).unwrap(), one.shape.pinned);

    let why = refused(&store, &pinning("two", Some("a: string")), later());
    assert!(why.contains("a: string") && why.contains("a: int64") && why.contains("start again"), "{why}");
    let plan = resumed(open(&store, &one, later()).unwrap());
    assert_eq!(plan.manifest.sources["in"].pinned.as_deref(), Some("a: int64"));
    mark_committed(&store, &plan.manifest).unwrap();

    let plan = resumed(open(&store, &pinning("three", None), later()).unwrap());
    assert_eq!(plan.manifest.sources["in"].pinned, None, "declared since then");
    mark_committed(&store, &plan.manifest).unwrap();
    resumed(open(&store, &pinning("four", Some("a: string")), later()).unwrap());
    assert_eq!(pinned(&store).unwrap()["in"], "a: string");

    let Opening::First(_) = open(&store, &pinning("five", Some("b: date")).with_fresh(true), later()).unwrap() else { panic!("not fresh") };
    assert!(pinned(&store).unwrap().is_empty(), "the run is closed");
}

#[test]
fn p177_another_build_of_a_plugin_goes_on_unless_it_plans_otherwise() {
    let (store, mut manifest) = running(EventTime(0));
    manifest.epoch = Epoch(3);
    manifest.plugins = BTreeMap::from([("p".to_string(), "sha256:00".to_string())]);
    publish(&store, &manifest).unwrap();
    let with = |digest: &str, column: &str, two_phase: bool| {
        let mut request = request("two");
        request.shape.plugins = BTreeMap::from([("p".to_string(), digest.to_string())]);
        request.shape.sources.insert("in".to_string(), format!("{column}, b: Utf8"));
        request.shape.sinks.get_mut("out").unwrap().two_phase = two_phase;
        request
    };
    let why = refused(&store, &with("sha256:01", "a: Utf8", true), later());
    assert!(why.contains("source `in` gave column `a` as int64 and gives it as Utf8 now") && why.contains("`p`"), "{why}");
    let why = refused(&store, &with("sha256:01", "a: int64", false), later());
    assert!(why.contains("sink `out` was exactly-once and is not any more") && why.contains("`p`"), "{why}");
    // Another build that plans the same, with a column more: announced, and gone on with.
    let plan = resumed(open(&store, &with("sha256:01", "a: int64", true), later()).unwrap());
    assert_eq!(plan.base, Epoch(3));
}

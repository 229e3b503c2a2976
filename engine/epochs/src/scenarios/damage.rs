//! One byte of the store changes, or one object goes.

use super::world::*;
use crate::keys::Copy;
use crate::testkit::FaultPlan;
use crate::*;
use tidegate_api::*;

/// A pipeline stopped in the middle, after a few epochs.
fn stopped_in_the_middle(bug_free_steps: usize) -> Outside {
    let outside = Outside::default();
    Start::new(&outside, &FaultPlan::new(0), request("first")).run(bug_free_steps);
    outside
}

fn newest(outside: &Outside) -> Manifest {
    publish::newest_run(&outside.store).unwrap().unwrap().manifests.into_values().next_back().unwrap()
}

fn flip(outside: &Outside, key: &str, at: usize) {
    let mut bytes = outside.store.get(key).unwrap().unwrap();
    bytes[at] ^= 1;
    outside.store.put(key, &bytes).unwrap();
}

fn at_least_once() -> OpenRequest {
    let mut request = request("second");
    for sink in request.shape.sinks.values_mut() {
        sink.two_phase = false;
    }
    request
}

#[test]
fn any_flipped_byte_of_either_copy_of_the_manifest_is_noticed_and_the_other_copy_serves() {
    let world = stopped_in_the_middle(60);
    let manifest = newest(&world);
    assert!(manifest.epoch > Epoch(3));
    for copy in [Copy::A, Copy::B] {
        let key = keys::manifest(manifest.run, manifest.epoch, copy);
        let length = world.store.get(&key).unwrap().unwrap().len();
        for at in 0..length {
            let outside = Outside { store: world.store.fork(), ..Outside::default() };
            flip(&outside, &key, at);
            let Opening::Resume(plan) = open(&outside.store, &request("second"), EventTime(0)).unwrap() else { panic!() };
            assert_eq!(plan.base, manifest.epoch, "byte {at} of {copy:?}");
            assert_eq!(plan.manifest.sources, manifest.sources);
            let mended = outside.store.get(&keys::manifest(manifest.run, manifest.epoch, copy)).unwrap().unwrap();
            assert_eq!(Manifest::decode(&mended).unwrap(), manifest, "byte {at} of {copy:?}");
        }
    }
}

#[test]
fn with_both_copies_damaged_a_two_phase_pipeline_is_refused_and_from_proceeds() {
    let outside = stopped_in_the_middle(60);
    let manifest = newest(&outside);
    for copy in [Copy::A, Copy::B] {
        flip(&outside, &keys::manifest(manifest.run, manifest.epoch, copy), 80);
    }
    let before = outside.store.list("").unwrap();
    let error = open(&outside.store, &request("second"), EventTime(0)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Config);
    let previous = Epoch(manifest.epoch.0 - 1);
    assert!(error.to_string().contains(&format!("whole is {previous},")), "{error}");
    assert!(error.to_string().contains("`out`"), "{error}");
    assert_eq!(outside.store.list("").unwrap(), before, "a refused start writes nothing");

    let request = request("second").with_from(Some(previous));
    let Opening::Resume(plan) = open(&outside.store, &request, EventTime(0)).unwrap() else { panic!() };
    assert_eq!((plan.base, plan.epoch()), (previous, manifest.epoch.next()));
    assert_eq!(plan.repeats, ["out"]);
    assert!(plan.generation() > manifest.generation);
    assert!(!plan.manifest.has_pending());
}

#[test]
fn a_damaged_state_object_is_named_and_refused_when_a_sink_is_two_phase() {
    let outside = stopped_in_the_middle(60);
    let manifest = newest(&outside);
    let object = manifest.operators["count"].pieces.last().unwrap().object.clone();
    for damage in ["flipped", "missing"] {
        let outside = Outside { store: outside.store.fork(), ..Outside::default() };
        if damage == "flipped" {
            flip(&outside, &object, 0);
        } else {
            outside.store.delete(&object).unwrap();
        }
        let error = open(&outside.store, &request("second"), EventTime(0)).unwrap_err();
        assert!(error.to_string().contains(&object), "{error}");
        assert!(error.to_string().contains("--fresh") && error.to_string().contains("--from "), "{error}");
        assert_eq!(newest(&outside).epoch, manifest.epoch, "a refused start takes no number");
    }
}

#[test]
fn without_two_phase_sinks_a_start_goes_back_to_the_newest_whole_epoch_by_itself() {
    let outside = stopped_in_the_middle(60);
    // The same history, written by a pipeline whose sink is not two-phase.
    let history = publish::newest_run(&outside.store).unwrap().unwrap();
    for mut manifest in history.manifests.into_values() {
        for sink in manifest.sinks.values_mut() {
            sink.two_phase = false;
            sink.pending.clear();
        }
        for copy in [Copy::A, Copy::B] {
            outside.store.put(&keys::manifest(manifest.run, manifest.epoch, copy), &manifest.encode()).unwrap();
        }
    }
    let manifest = newest(&outside);
    let object = manifest.operators["count"].pieces.last().unwrap().object.clone();
    flip(&outside, &object, 0);
    let Opening::Resume(plan) = open(&outside.store, &at_least_once(), EventTime(0)).unwrap() else { panic!() };
    assert_eq!(plan.base, Epoch(manifest.epoch.0 - 1));
    assert_eq!(plan.epoch(), manifest.epoch.next());
    let restored = read_pieces(&outside.store, plan.pieces("count"), VnodeRange::all(8)).unwrap();
    let total: u64 = restored.iter().map(|piece| String::from_utf8(piece.data.clone()).unwrap().parse::<u64>().unwrap()).sum();
    let position = plan.source("queue").unwrap().splits[0].position.clone().map(Position);
    assert_eq!(Some(total), position.and_then(|position| position.as_number()));
}

#[test]
fn damage_after_the_start_is_noticed_when_a_piece_is_read() {
    let outside = stopped_in_the_middle(60);
    let manifest = newest(&outside);
    let pieces = &manifest.operators["count"].pieces;
    flip(&outside, &pieces[0].object, 0);
    let error = read_pieces(&outside.store, pieces, VnodeRange::all(8)).unwrap_err();
    assert!(error.to_string().contains(&pieces[0].object), "{error}");
}

/// P099: nothing outside what expired manifests name is deleted.
#[test]
fn pruning_keeps_what_it_must_and_touches_nothing_else() {
    let outside = Outside::default();
    let strangers = ["savepoints/one/a", "staging/out/part", "objects/another-run/0000000001/0/count.0/0", "notes"];
    for start in 0..4 {
        let mut process = Start::new(&outside, &FaultPlan::new(0), request(&format!("start-{start}")));
        process.run(if start == 3 { 5_000 } else { 13 });
        if start == 0 {
            // Objects in a store without manifests would be damage.
            strangers.iter().for_each(|stranger| outside.store.put(stranger, b"1").unwrap());
        }
    }
    outside.assert_exactly_once();
    for stranger in strangers {
        assert!(outside.store.get(stranger).unwrap().is_some(), "{stranger}");
    }
    let history = publish::newest_run(&outside.store).unwrap().unwrap();
    let opening = history.manifests.values().filter(|manifest| manifest.opens_generation).count();
    assert_eq!(opening, 4, "every generation's fence is kept");
    assert!(history.manifests.len() <= opening + KEEP);
    let retained: std::collections::BTreeSet<String> =
        history.manifests.values().rev().take(KEEP).flat_map(Manifest::objects).map(str::to_string).collect();
    let run_id = history.manifests.values().next().unwrap().run_id.clone();
    let left: std::collections::BTreeSet<String> = outside.store.list(&keys::objects(&run_id)).unwrap().into_iter().collect();
    assert_eq!(left, retained, "state objects are exactly those of the retained manifests");
    assert!(history.marks.len() <= history.manifests.len());
}

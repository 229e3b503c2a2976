//! An epoch is copied out of a running or killed pipeline, and another run starts from it.

use super::world::*;
use crate::testkit::FaultPlan;
use crate::*;
use tidegate_api::{Epoch, ErrorKind, EventTime, Position, RunId};

/// A pipeline that was killed after some steps.
fn killed_after(steps: usize) -> Outside {
    let outside = Outside::default();
    Start::new(&outside, &FaultPlan::new(0), request("first")).run(steps);
    outside
}

fn history(store: &MemoryStore) -> publish::History {
    publish::newest_run(store).unwrap().unwrap()
}

fn copy_of(outside: &Outside, epoch: Option<Epoch>) -> (MemoryStore, Savepoint) {
    let copy = MemoryStore::new();
    let made = savepoint(&outside.store, &copy, epoch, &RunId::new("copy"), EventTime(0)).unwrap();
    (copy, made)
}

/// The rows that a start from `store` gives, which goes on to the end in an outside of its own. It takes nothing over: a copy has no holder.
fn rows_from(store: &MemoryStore) -> Vec<u64> {
    let outside = Outside { store: store.clone(), ..Outside::default() };
    let mut start = Start::new(&outside, &FaultPlan::new(0), request("second").with_takeover(false));
    let end = start.run(5_000);
    assert!(matches!(end, Outcome::Finished(_)), "{end:?}");
    let mut rows = outside.shared().visible.clone();
    rows.sort_unstable();
    rows
}

#[test]
fn a_start_from_a_savepoint_gives_exactly_the_rows_behind_it() {
    let outside = killed_after(60);
    let mut copied = 0;
    for (epoch, manifest) in history(&outside.store).manifests {
        let is_there = manifest.objects().into_iter().all(|object| outside.store.get(object).unwrap().is_some());
        if !is_there || !history(&outside.store).is_settled(&manifest) {
            continue;
        }
        copied += 1;
        let (copy, made) = copy_of(&outside, Some(epoch));
        assert_eq!((made.epoch, history(&copy).manifests.len()), (epoch, 1));
        let position = manifest.sources["queue"].splits[0].position.clone().map(Position).unwrap().as_number().unwrap();
        assert_eq!(rows_from(&copy), (position..ROWS).collect::<Vec<u64>>(), "epoch {epoch}");
    }
    assert!(copied >= 2, "{copied}");
}

#[test]
fn what_a_savepoint_names_is_its_own() {
    let outside = killed_after(60);
    let (copy, made) = copy_of(&outside, None);
    let manifest = history(&copy).manifests.remove(&made.epoch).unwrap();
    assert!(manifest.objects().len() == made.objects && made.objects > 0);
    assert!(manifest.objects().iter().all(|object| object.starts_with("objects/copy/")), "{:?}", manifest.objects());
    let listed = copy.list("objects/").unwrap();
    assert_eq!(listed.iter().map(String::as_str).collect::<Vec<_>>(), manifest.objects().into_iter().collect::<Vec<_>>());
    // The original is gone, and the copy is as good as before.
    for key in outside.store.list("").unwrap() {
        outside.store.delete(&key).unwrap();
    }
    assert!(!rows_from(&copy).is_empty());
}

#[test]
fn neither_the_run_nor_the_savepoint_prunes_anything_of_the_other() {
    let outside = killed_after(40);
    let (copy, made) = copy_of(&outside, None);
    let kept: Vec<(String, Vec<u8>)> =
        copy.list("").unwrap().into_iter().map(|key| (key.clone(), copy.get(&key).unwrap().unwrap())).collect();
    Start::new(&outside, &FaultPlan::new(0), request("second")).run(5_000);
    outside.assert_exactly_once();
    let left: Vec<Epoch> = history(&outside.store).manifests.into_keys().collect();
    assert!(left.iter().rev().take(KEEP).all(|epoch| *epoch > made.epoch), "the run went past the savepoint: {left:?}");
    for (key, bytes) in kept {
        assert_eq!(copy.get(&key).unwrap(), Some(bytes), "{key}");
    }
    let before = outside.store.list("").unwrap();
    rows_from(&copy);
    assert_eq!(outside.store.list("").unwrap(), before);
}

#[test]
fn rows_that_are_not_committed_are_not_copied_away_from_their_commit() {
    let mut seen = false;
    for steps in 20..60 {
        let outside = killed_after(steps);
        let history = history(&outside.store);
        let (epoch, manifest) = history.manifests.last_key_value().unwrap();
        if history.is_settled(manifest) {
            continue;
        }
        seen = true;
        let copy = MemoryStore::new();
        let error = savepoint(&outside.store, &copy, Some(*epoch), &RunId::new("copy"), EventTime(0)).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Config);
        assert!(error.to_string().contains("not known to be committed") && error.to_string().contains("there are"), "{error}");
        assert_eq!(copy.list("").unwrap(), Vec::<String>::new());
        assert!(copy_of(&outside, None).1.epoch < *epoch, "without a number it is the one before");
    }
    assert!(seen, "no start was killed between manifest and mark");
}

#[test]
fn a_damaged_or_missing_object_is_named_and_nothing_is_left_behind() {
    let outside = killed_after(60);
    let newest = copy_of(&outside, None).1.epoch;
    let object = history(&outside.store).manifests[&newest].objects().into_iter().next().unwrap().to_string();
    let sound = outside.store.get(&object).unwrap().unwrap();
    for is_damaged in [true, false] {
        if is_damaged {
            outside.store.put(&object, &sound.iter().map(|byte| byte ^ 1).collect::<Vec<u8>>()).unwrap();
        } else {
            outside.store.delete(&object).unwrap();
        }
        let copy = MemoryStore::new();
        let error = savepoint(&outside.store, &copy, Some(newest), &RunId::new("copy"), EventTime(0)).unwrap_err();
        assert!(error.to_string().contains(&object), "{error}");
        assert_eq!(copy.list("").unwrap(), Vec::<String>::new());
    }
}

#[test]
fn a_place_that_holds_something_is_refused_and_so_is_an_epoch_that_is_not_there() {
    let outside = killed_after(60);
    let to = |store: &MemoryStore, copy: &MemoryStore, epoch: Option<u64>| {
        savepoint(store, copy, epoch.map(Epoch), &RunId::new("copy"), EventTime(0)).unwrap_err().to_string()
    };
    let taken = MemoryStore::new();
    taken.put("notes", b"1").unwrap();
    let error = to(&outside.store, &taken, None);
    assert!(error.contains("`notes` is there"), "{error}");
    let error = to(&outside.store, &MemoryStore::new(), Some(999));
    assert!(error.contains("no epoch 999 to copy; there are"), "{error}");
    let error = to(&MemoryStore::new(), &MemoryStore::new(), None);
    assert!(error.contains("the store is empty"), "{error}");
}

#[test]
fn an_inspection_says_what_the_next_start_would_find() {
    let outside = killed_after(60);
    assert_eq!(inspect(&MemoryStore::new(), true).unwrap(), None);
    let sound = inspect(&outside.store, true).unwrap().unwrap();
    let newest = sound.epochs.last().unwrap();
    assert!(newest.is_whole && newest.damage.is_none() && !newest.is_single);
    assert!(newest.state_bytes()["count"] > 0);
    let object = newest.manifest.objects().into_iter().next().unwrap().to_string();
    outside.store.put(&object, b"?").unwrap();
    outside.store.delete(&keys::manifest(sound.run, newest.manifest.epoch, keys::Copy::B)).unwrap();
    let before = outside.store.list("").unwrap();
    let damaged = inspect(&outside.store, true).unwrap().unwrap();
    let newest = damaged.epochs.last().unwrap();
    assert!(newest.is_single && newest.damage.as_ref().is_some_and(|damage| damage.contains(&object)), "{newest:?}");
    assert_eq!(inspect(&outside.store, false).unwrap().unwrap().epochs.last().unwrap().damage, None);
    assert_eq!(outside.store.list("").unwrap(), before, "looking changes nothing");
}

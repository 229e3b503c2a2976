//! P074: a flipped byte is noticed, and what it leads to depends on what the sinks promise.
//! One byte of one object of the newest epoch flips, object after object, kind after kind.
//!
//! A damaged copy of a manifest is replaced from the other. A damaged mark or claim is noticed and not believed: what the mark stands for is
//! done again, which changes nothing. Damaged state, and a manifest damaged in both copies, end the start, which names the object and writes
//! nothing, if a sink is two-phase; otherwise the epoch before is used, and the table that readers put together is the right one.

#![allow(clippy::unwrap_used, reason = "a test may end by panicking")]

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::{Command, Output};
use tidegate_tests::places::Place;
use tidegate_tests::{command, copy_tree, killed_at};

const EVENTS: u64 = 30_000;

/// Windows into files, which are two-phase.
fn two_phase(place: &Place, rate: u64) -> String {
    format!(
        r#"
name = "damage"
[settings]
parallelism = 2
checkpointEvery = "100ms"
{}
[datasets.events]
connector = "nexmark"
events = {EVENTS}
rate = {rate}
extra = false
kinds = ["bid"]
[datasets.out]
sink = "files"
path = "out"
format = "json"
require = "exactly-once"
[[stages]]
id = "per-auction"
inputs = ["events"]
output = "out"
steps = [{{ op = "windowedAggregate", timeColumn = "dateTime", window = "10s", groupBy = ["auction"], aggs = [{{ op = "count", alias = "bids" }}] }}]
"#,
        place.settings()
    )
}

/// A table that readers put together from the changes on stdout.
fn table(place: &Place, rate: u64) -> String {
    format!(
        r#"
name = "damage"
[settings]
parallelism = 2
checkpointEvery = "100ms"
{}
[datasets.events]
connector = "nexmark"
events = {EVENTS}
rate = {rate}
extra = false
kinds = ["bid"]
[datasets.out]
sink = "stdout"
format = "json"
changelog = true
[[stages]]
id = "per-bidder"
inputs = ["events"]
output = "out"
steps = [{{ op = "aggregate", groupBy = ["bidder"], aggs = [{{ op = "count", alias = "bids" }}, {{ op = "sum", column = "price", alias = "total" }}] }}]
"#,
        place.settings()
    )
}

/// A pipeline that was killed: where its epochs lie, its folder, and what it had printed.
struct Killed {
    place: Place,
    folder: tempfile::TempDir,
    printed: String,
    pipeline: fn(&Place, u64) -> String,
}

impl Killed {
    fn at(point: &str, place: Place, pipeline: fn(&Place, u64) -> String) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("p.toml");
        std::fs::write(&file, pipeline(&place, EVENTS / 2)).unwrap();
        let printed = killed_at(&file, point, &place.variables());
        Killed { place, folder, printed, pipeline }
    }

    /// The same world once more, to be damaged. What is left of the input comes as fast as it can.
    fn copy(&self) -> Killed {
        let place = self.place.another();
        place.fill_from(&self.place);
        let folder = tempfile::tempdir().unwrap();
        copy_tree(self.folder.path(), folder.path());
        std::fs::write(folder.path().join("p.toml"), (self.pipeline)(&place, 0)).unwrap();
        Killed { place, folder, printed: self.printed.clone(), pipeline: self.pipeline }
    }

    fn run(&self, arguments: &[&str]) -> Output {
        let arguments = [&["run", "p.toml", "--takeover"], arguments].concat();
        Command::new(command()).args(arguments).envs(self.place.variables()).current_dir(self.folder.path()).output().unwrap()
    }

    fn flip(&self, key: &str) {
        let store = self.place.store();
        let mut bytes = store.get(key).unwrap().unwrap();
        let middle = bytes.len() / 2;
        bytes[middle] ^= 1;
        store.put(key, &bytes).unwrap();
    }

    /// Every object of the newest epoch by kind: both copies of its manifest, its mark if there is one, its generation's claim, its state.
    fn objects(&self) -> BTreeMap<String, &'static str> {
        let store = self.place.store();
        let newest = tidegate::epochs::inspect(store.as_ref(), true).unwrap().unwrap().epochs.pop().unwrap();
        let (run, epoch) = (newest.manifest.run, newest.manifest.epoch);
        let mut objects = BTreeMap::from([
            (tidegate::epochs::keys::manifest(run, epoch, tidegate::epochs::keys::Copy::A), "manifest"),
            (tidegate::epochs::keys::manifest(run, epoch, tidegate::epochs::keys::Copy::B), "manifest"),
            (tidegate::epochs::keys::claim(run, newest.manifest.generation), "claim"),
        ]);
        let mark = tidegate::epochs::keys::mark(run, epoch);
        if store.get(&mark).unwrap().is_some() {
            objects.insert(mark, "mark");
        }
        objects.extend(newest.manifest.objects().into_iter().map(|object| (object.to_string(), "state")));
        objects
    }
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// What a reader of the files sees.
fn visible(folder: &Path) -> Vec<String> {
    let mut rows = Vec::new();
    for entry in std::fs::read_dir(folder.join("out")).into_iter().flatten() {
        let path = entry.unwrap().path();
        if path.is_file() && !path.file_name().unwrap().to_string_lossy().starts_with('.') {
            rows.extend(std::fs::read_to_string(path).unwrap().lines().map(str::to_string));
        }
    }
    rows.sort();
    rows
}

/// The table after all changes, oldest first. A last line that a kill cut short is nobody's.
fn applied(printed: &[&str]) -> BTreeMap<i64, (i64, i64)> {
    let mut table = BTreeMap::new();
    for line in printed.iter().flat_map(|printed| printed.lines()) {
        let Ok(row) = serde_json::from_str::<serde_json::Value>(line) else { continue };
        let key = row["bidder"].as_i64().unwrap();
        if row["op"] == "delete" {
            table.remove(&key);
        } else {
            table.insert(key, (row["bids"].as_i64().unwrap(), row["total"].as_i64().unwrap()));
        }
    }
    table
}

/// What a run gives that nobody disturbs.
fn calm(pipeline: fn(&Place, u64) -> String) -> (Vec<String>, String) {
    let (place, folder) = (Place::directory(), tempfile::tempdir().unwrap());
    std::fs::write(folder.path().join("p.toml"), pipeline(&place, 0)).unwrap();
    let output = Command::new(command()).args(["run", "p.toml"]).current_dir(folder.path()).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    (visible(folder.path()), String::from_utf8(output.stdout).unwrap())
}

fn flipped_under_a_two_phase_sink(place: &Place) {
    let expected = calm(two_phase).0;
    assert!(expected.len() > 100);
    let mut seen: BTreeSet<&str> = BTreeSet::new();
    // Once with commits pending and no mark, once with a mark.
    for point in ["after-manifest:4", "before-manifest:4"] {
        let killed = Killed::at(point, place.another(), two_phase);
        let objects = killed.objects();
        for (key, kind) in &objects {
            seen.insert(kind);
            let world = killed.copy();
            world.flip(key);
            let (before, shown) = (world.place.contents(), visible(world.folder.path()));
            let output = world.run(&[]);
            let text = said(&output);
            if *kind != "state" {
                assert_eq!(output.status.code(), Some(0), "{key}: {text}");
                // A later claim of the same generation would cover a damaged one unseen; here the next start reads it.
                assert!(text.contains(key.as_str()), "the damage of `{key}` is not told: {text}");
                assert_eq!(visible(world.folder.path()), expected, "{key}");
                continue;
            }
            assert_eq!(output.status.code(), Some(78), "{key}: {text}");
            assert!(text.contains(key.as_str()) && text.contains("--from"), "{text}");
            assert_eq!(world.place.contents(), before, "a refused start writes nothing: {key}");
            assert_eq!(visible(world.folder.path()), shown, "{key}");
            // The person decides, and is told which sink repeats.
            let whole = text.split("--from ").nth(1).unwrap().split_whitespace().next().unwrap();
            let output = world.run(&["--from", whole.trim_matches('`')]);
            assert_eq!(output.status.code(), Some(0), "{}", said(&output));
            assert!(said(&output).contains("rows come again") && said(&output).contains("sink/out"), "{}", said(&output));
            let repeated: BTreeSet<String> = visible(world.folder.path()).into_iter().collect();
            assert_eq!(repeated, expected.iter().cloned().collect(), "some rows come twice, and none is missing");
        }
        // Both copies of the manifest.
        let world = killed.copy();
        let copies: Vec<&String> = objects.iter().filter(|(_, kind)| **kind == "manifest").map(|(key, _)| key).collect();
        copies.iter().for_each(|key| world.flip(key));
        let before = world.place.contents();
        let output = world.run(&[]);
        assert_eq!(output.status.code(), Some(78), "{}", said(&output));
        assert!(copies.iter().all(|key| said(&output).contains(key.as_str())), "{}", said(&output));
        assert_eq!(world.place.contents(), before);
    }
    assert_eq!(seen, BTreeSet::from(["claim", "manifest", "mark", "state"]), "a kind of object was never damaged");
}

fn flipped_under_a_table(place: &Place) {
    let expected = applied(&[&calm(table).1]);
    assert!(expected.len() > 100);
    let killed = Killed::at("before-manifest:4", place.another(), table);
    let newest = tidegate::epochs::inspect(killed.place.store().as_ref(), true).unwrap().unwrap().epochs.pop().unwrap().manifest.epoch;
    let objects = killed.objects();
    assert!(objects.values().any(|kind| *kind == "state"));
    let mut damages: Vec<Vec<&String>> = objects.keys().map(|key| vec![key]).collect();
    damages.push(objects.iter().filter(|(_, kind)| **kind == "manifest").map(|(key, _)| key).collect());
    for damage in damages {
        let world = killed.copy();
        damage.iter().for_each(|key| world.flip(key));
        let output = world.run(&[]);
        let text = said(&output);
        assert_eq!(output.status.code(), Some(0), "{damage:?}: {text}");
        assert!(damage.iter().all(|key| text.contains(key.as_str())), "{damage:?} is not told: {text}");
        let goes_back = damage.len() == 2 || objects[damage[0]] == "state";
        assert_eq!(text.contains("going back to an older epoch"), goes_back, "{damage:?} of epoch {newest}: {text}");
        let after = String::from_utf8(output.stdout).unwrap();
        assert!(applied(&[&world.printed, &after]) == expected, "the table is another after {damage:?}");
    }
}

#[test]
fn in_a_directory_under_a_two_phase_sink() {
    flipped_under_a_two_phase_sink(&Place::directory());
}

#[test]
fn in_a_directory_under_a_table() {
    flipped_under_a_table(&Place::directory());
}

#[test]
#[ignore = "needs an S3 server: `cargo xtask services up s3`, and TIDEGATE_TEST_S3"]
fn s3_under_a_two_phase_sink() {
    flipped_under_a_two_phase_sink(&Place::s3());
}

#[test]
#[ignore = "needs an S3 server: `cargo xtask services up s3`, and TIDEGATE_TEST_S3"]
fn s3_under_a_table() {
    flipped_under_a_table(&Place::s3());
}

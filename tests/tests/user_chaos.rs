//! `tidegate chaos`: what it says of sinks that keep their promise, that repeat rows, and that lose them; and what it refuses.

#![allow(clippy::unwrap_used, reason = "a test may end by panicking")]

use serde_json::Value;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use tidegate_tests::{command, guest, plugin};

/// A pipeline over numbered rows; `outputs` are datasets, each fed by the same rows.
fn pipeline(folder: &Path, source: &str, plugins: &str, outputs: &[(&str, &str)]) -> PathBuf {
    let mut text = format!(
        "name = \"tried\"\n[settings]\nparallelism = 2\n{plugins}\n[datasets.events]\nconnector = \"nexmark\"\npartitions = 2\nextra = false\n{source}\n"
    );
    for (name, sink) in outputs {
        write!(text, "[datasets.{name}]\n{sink}\n[[stages]]\ninputs = [\"events\"]\noutput = \"{name}\"\n").unwrap();
        text.push_str("steps = [{ op = \"filter\", expression = 'type == \"bid\" && auction % 3 == 0' }, { op = \"select\", columns = [\"auction\", \"bidder\", \"price\", \"dateTime\"] }]\n");
    }
    let file = folder.join("tried.toml");
    std::fs::write(&file, text).unwrap();
    file
}

fn chaos(file: &Path, arguments: &[&str]) -> Output {
    Command::new(command()).arg("chaos").arg(file).args(arguments).output().unwrap()
}

/// The report: what was killed where, and the line of each sink.
fn report(output: &Output) -> (Value, BTreeMap<String, Value>) {
    let text = String::from_utf8(output.stdout.clone()).unwrap();
    let mut lines = text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let kills = lines.next().unwrap_or_else(|| panic!("{}", String::from_utf8_lossy(&output.stderr)));
    (kills, lines.map(|line| (line["sink"].as_str().unwrap().to_string(), line)).collect())
}

#[test]
fn sinks_that_keep_their_promise_are_told_apart_and_nobody_is_convicted() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir(folder.path().join("lines")).unwrap();
    let plugins = format!("[plugins.jsonl]\npath = {:?}\nallow = {{ dirs = [\"lines=/out:rw\"] }}", plugin("jsonl"));
    let outputs = [
        ("parts", "sink = \"files\"\npath = \"parts\"\nformat = \"parquet\""),
        ("table", "sink = \"files\"\npath = \"table\"\nformat = \"csv\"\ncompression = \"gz\"\nchangelog = true"),
        ("bids", "sink = \"plugin\"\nplugin = \"jsonl\"\nconfig = { dir = \"/out\" }"),
        ("shown", "sink = \"stdout\""),
        ("gone", "sink = \"blackhole\""),
    ];
    let file = pipeline(folder.path(), "events = 8000", &plugins, &outputs);
    // The table is one that updates, so it has a stage of its own.
    let text = std::fs::read_to_string(&file).unwrap();
    let (before, after) = text.split_once("output = \"table\"\nsteps = [").unwrap();
    let rest = after.split_once('\n').unwrap().1;
    let steps = "{ op = \"filter\", expression = 'type == \"bid\"' }, { op = \"select\", columns = [\"auction\", \"bidder\", \"price\", \"dateTime\"] }, { op = \"topN\", orderBy = \"price\", tieBy = [\"dateTime\", \"bidder\"], n = 2, groupBy = [\"auction\"] }";
    std::fs::write(&file, format!("{before}output = \"table\"\nsteps = [{steps}]\n{rest}")).unwrap();

    let output = chaos(&file, &["--kills", "12", "--format", "json"]);
    let (kills, sinks) = report(&output);
    assert!(output.status.success(), "{sinks:#?}");
    assert_eq!(kills["kills"], 12);
    assert!(kills["killedAt"].as_object().unwrap().len() >= 8, "spread over the points: {kills}");
    for (sink, verdict) in
        [("parts", "exactly-once"), ("table", "exactly-once"), ("bids", "exactly-once"), ("shown", "at-least-once"), ("gone", "not judged")]
    {
        let found = &sinks[sink];
        assert_eq!((&found["verdict"], &found["convicted"]), (&verdict.into(), &false.into()), "{found:#}");
        assert!(sink == "gone" || found["rows"].as_u64().unwrap() > 100, "{found:#}");
    }
    assert!(sinks["shown"]["repeated"].as_u64().unwrap() > 0 && sinks["shown"]["missing"] == 0, "{:#}", sinks["shown"]);
    assert!(sinks["table"]["why"].as_str().unwrap().contains("the same table"));
    // Nothing that the file names was written to, and nothing is left behind.
    let mut left: Vec<String> =
        std::fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    left.sort();
    assert_eq!(left, [".tidegate", "lines", "tried.toml"]);
    assert_eq!(std::fs::read_dir(folder.path().join("lines")).unwrap().count(), 0);
    assert_eq!(std::fs::read_dir(folder.path().join(".tidegate")).unwrap().count(), 0);
}

#[test]
fn a_plugin_that_claims_two_phases_and_repeats_or_loses_rows_is_convicted_with_rows_as_evidence() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir(folder.path().join("twice")).unwrap();
    std::fs::create_dir(folder.path().join("lost")).unwrap();
    let grant = |name: &str| format!("[plugins.{name}]\npath = {:?}\nallow = {{ dirs = [\"{name}=/out:rw\"] }}\n", guest("forgetful"));
    let plugins = format!("{}{}", grant("twice"), grant("lost"));
    let sink = |name: &str, fault: &str| {
        format!("sink = \"plugin\"\nplugin = \"{name}\"\nconfig = {{ dir = \"/out\", fault = \"{fault}\" }}\nrequire = \"exactly-once\"")
    };
    let outputs =
        [("twice", sink("twice", "repeats")), ("lost", sink("lost", "loses")), ("kept", "sink = \"files\"\npath = \"kept\"".to_string())];
    let outputs: Vec<(&str, &str)> = outputs.iter().map(|(name, sink)| (*name, sink.as_str())).collect();
    let file = pipeline(folder.path(), "events = 8000", &plugins, &outputs);
    let output = chaos(&file, &["--kills", "21", "--format", "json"]);
    let (_, sinks) = report(&output);
    assert_eq!(output.status.code(), Some(1), "{sinks:#?}");
    assert_eq!((&sinks["kept"]["verdict"], &sinks["kept"]["convicted"]), (&"exactly-once".into(), &false.into()), "{:#}", sinks["kept"]);
    let twice = &sinks["twice"];
    assert_eq!(
        (&twice["verdict"], &twice["promised"], &twice["convicted"]),
        (&"at-least-once".into(), &"exactly-once".into(), &true.into()),
        "{twice:#}"
    );
    assert!(!twice["examples"]["repeated"].as_array().unwrap().is_empty(), "{twice:#}");
    let lost = &sinks["lost"];
    assert_eq!((&lost["verdict"], &lost["convicted"]), (&"wrong".into(), &true.into()), "{lost:#}");
    assert!(lost["missing"].as_u64().unwrap() > 0 && !lost["examples"]["missing"].as_array().unwrap().is_empty(), "{lost:#}");
    // The evidence is kept, and the report says where.
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    let kept = said.lines().last().unwrap().split('`').nth(1).unwrap().to_string();
    assert!(Path::new(&kept).join("killed/log").exists(), "{said}");

    // The same for people.
    let output = chaos(&file, &["--kills", "1"]);
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.contains("killed 1 times") && text.contains("sink `kept`: exactly-once (promised exactly-once): all "), "{text}");
}

#[test]
fn what_cannot_be_tried_is_refused_before_anything_runs_with_what_it_needs() {
    let folder = tempfile::tempdir().unwrap();
    let refused = |file: &Path| {
        let output = chaos(file, &["--kills", "1"]);
        assert_eq!(output.status.code(), Some(78), "{output:?}");
        assert!(!folder.path().join(".tidegate").exists(), "nothing ran");
        String::from_utf8(output.stderr).unwrap()
    };
    let endless = refused(&pipeline(folder.path(), "", "", &[("out", "sink = \"files\"\npath = \"out\"")]));
    assert!(endless.contains("datasets.events") && endless.contains("never ends") && endless.contains("`events = 100000`"), "{endless}");
    let plugins = format!("[plugins.jsonl]\npath = {:?}\nallow = {{ dirs = [\".=/out:ro\"] }}", plugin("jsonl"));
    let sink = "sink = \"plugin\"\nplugin = \"jsonl\"\nconfig = { dir = \"/out\" }";
    let blind = refused(&pipeline(folder.path(), "events = 10", &plugins, &[("out", sink)]));
    assert!(blind.contains("out") && blind.contains(":rw"), "{blind}");
}

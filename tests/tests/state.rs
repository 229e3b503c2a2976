//! Where state is kept, looked at and copied from: `stateDir`, `stateUrl`, `inspect`, `savepoint`, `run --from`.
//!
//! The tests that begin with `s3_` run against a real server: `cargo xtask services up s3`, and `TIDEGATE_TEST_S3`.

#![allow(clippy::unwrap_used, reason = "a test may end by panicking")]

use serde_json::Value;
use std::path::Path;
use std::process::{Command, Output};
use tidegate_tests::places::Place;
use tidegate_tests::{command, killed_at};

const EVENTS: u64 = 40_000;

/// Two stages with state behind each other's back, into files.
fn pipeline(place: &Place, rate: u64, out: &str) -> String {
    format!(
        r#"
name = "state"
[settings]
parallelism = 2
checkpointEvery = "100ms"
{}
[datasets.events]
connector = "nexmark"
events = {EVENTS}
rate = {rate}
partitions = 2
extra = false
[datasets.counts]
sink = "files"
path = "{out}/counts"
format = "json"
[datasets.sellers]
sink = "files"
path = "{out}/sellers"
format = "json"
[[stages]]
id = "per-auction"
inputs = ["events"]
output = "counts"
steps = [
  {{ op = "filter", expression = 'type == "bid"' }},
  {{ op = "windowedAggregate", timeColumn = "dateTime", window = "10s", groupBy = ["auction"], aggs = [{{ op = "count", alias = "bids" }}] }},
]
[[stages]]
id = "sellers"
inputs = ["events"]
output = "sellers"
steps = [
  {{ op = "filter", expression = 'type == "auction"' }},
  {{ op = "deduplicate", keys = ["seller"], keep = "first" }},
  {{ op = "select", columns = ["seller"] }},
]
"#,
        place.settings()
    )
}

fn tidegate(folder: &Path, place: &Place, arguments: &[&str]) -> Output {
    Command::new(command()).args(arguments).envs(place.variables()).current_dir(folder).output().unwrap()
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn lines(output: &Output) -> Vec<Value> {
    assert_eq!(output.status.code(), Some(0), "{}", said(output));
    String::from_utf8(output.stdout.clone()).unwrap().lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// The rows that a reader of both outputs sees, sorted.
fn rows(folder: &Path, out: &str) -> Vec<String> {
    let mut rows = Vec::new();
    for output in ["counts", "sellers"] {
        for entry in std::fs::read_dir(folder.join(out).join(output)).into_iter().flatten() {
            let path = entry.unwrap().path();
            if path.is_file() && !path.file_name().unwrap().to_string_lossy().starts_with('.') {
                rows.extend(std::fs::read_to_string(path).unwrap().lines().map(str::to_string));
            }
        }
    }
    rows.sort();
    rows
}

fn calm() -> Vec<String> {
    let (place, folder) = (Place::directory(), tempfile::tempdir().unwrap());
    std::fs::write(folder.path().join("p.toml"), pipeline(&place, 0, "out")).unwrap();
    let output = tidegate(folder.path(), &place, &["run", "p.toml"]);
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    let rows = rows(folder.path(), "out");
    assert!(rows.len() > 1000, "{}", rows.len());
    rows
}

/// A pipeline killed at a point, with the rest of its input coming as fast as it can.
fn killed(place: &Place, point: &str) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("p.toml");
    std::fs::write(&file, pipeline(place, EVENTS / 2, "out")).unwrap();
    killed_at(&file, point, &place.variables());
    std::fs::write(&file, pipeline(place, 0, "out")).unwrap();
    folder
}

/// P078: in the middle of windows, too. Killed at every point of the protocol in turn, on one store, it writes what an undisturbed run writes.
fn survives_kills(place: &Place) {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("p.toml");
    std::fs::write(&file, pipeline(place, EVENTS / 4, "out")).unwrap();
    for point in ["after-manifest:2", "before-manifest:1", "mid-commit:1", "before-mark:1"] {
        killed_at(&file, point, &place.variables());
    }
    let output = tidegate(folder.path(), place, &["run", "p.toml", "--takeover"]);
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    assert_eq!(rows(folder.path(), "out"), calm());
    let again = tidegate(folder.path(), place, &["run", "p.toml"]);
    assert!(said(&again).contains("already complete"), "{}", said(&again));
}

/// An inspection shows what is there, and changes nothing.
fn is_inspected(place: &Place) {
    let folder = killed(place, "after-manifest:3");
    let before = place.contents();
    let found = lines(&tidegate(folder.path(), place, &["inspect", &place.name(), "--format", "json", "--verify", "--keys", "3"]));
    assert_eq!(place.contents(), before, "looking changes nothing");
    let with = |key: &str| found.iter().filter(|line| line.get(key).is_some()).collect::<Vec<_>>();
    let epochs: Vec<&Value> = found.iter().filter(|line| line.get("generation").is_some()).collect();
    assert!(epochs.len() >= 4, "{epochs:?}");
    assert!(epochs.iter().any(|epoch| epoch["committed"] == false), "the newest is not committed: {epochs:?}");
    assert!(epochs.last().unwrap()["restorable"] == true && epochs.last().unwrap()["stateBytes"].as_u64() > Some(0));
    let splits = with("split");
    assert_eq!(splits.len(), 2);
    assert!(splits.iter().all(|split| split["position"].as_str().unwrap().parse::<u64>().unwrap() > 0), "{splits:?}");
    let stages = with("stage");
    assert_eq!(stages.iter().map(|stage| stage["stage"].as_str().unwrap()).collect::<Vec<_>>(), ["per-auction", "sellers"]);
    for (stage, key) in stages.iter().zip(["auction=", "seller="]) {
        let keys = stage["sampleKeys"].as_array().unwrap();
        assert!(keys.len() == 3 && keys.iter().all(|found| found.as_str().unwrap().starts_with(key)), "{stage}");
    }
    assert!(with("pending").iter().any(|pending| pending["pending"] == "counts"), "{found:?}");
    // For a person, and by the pipeline file.
    let output = tidegate(folder.path(), place, &["inspect", "p.toml"]);
    let text = String::from_utf8(output.stdout).unwrap();
    for part in ["commits pending", "stage per-auction  windowedAggregate", "  key auction=", "source events", "pending counts"] {
        assert!(text.contains(part), "{part} is missing in {text}");
    }
    let output = tidegate(folder.path(), place, &["inspect", "p.toml", "--epoch", "999"]);
    assert!(output.status.code() == Some(78) && said(&output).contains("no epoch 999"), "{}", said(&output));
}

/// A savepoint is a run of its own, and what it and the original give together begins where it was taken.
fn is_copied(place: &Place) {
    let folder = killed(place, "after-manifest:4");
    let dest = place.another();
    let refused = tidegate(folder.path(), place, &["savepoint", "p.toml", &dest.name(), "--epoch", "999"]);
    assert!(refused.status.code() == Some(78) && said(&refused).contains("there are"), "{}", said(&refused));
    let made = lines(&tidegate(folder.path(), place, &["savepoint", "p.toml", &dest.name()]));
    let epoch = made[0]["epoch"].as_u64().unwrap();
    assert!(made[0]["objects"].as_u64() > Some(0));
    let kept = dest.contents();
    // The original goes on to its end and prunes what it does not need any more.
    let output = tidegate(folder.path(), place, &["run", "p.toml", "--takeover"]);
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    let whole = calm();
    assert_eq!(rows(folder.path(), "out"), whole);
    assert_eq!(dest.contents(), kept, "pruning touched the savepoint");
    let (of_original, after) = (place.contents(), folder.path().join("p.toml"));
    // The copy starts without being told anything, into outputs of its own, and gives the end of the same rows.
    std::fs::write(&after, pipeline(&dest, 0, "again")).unwrap();
    let output = tidegate(folder.path(), place, &["run", "p.toml"]);
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    let again = rows(folder.path(), "again");
    assert!(!again.is_empty() && again.len() < whole.len(), "{} of {} rows behind epoch {epoch}", again.len(), whole.len());
    let mut rest = whole.clone();
    for row in &again {
        let at = rest.binary_search(row).unwrap_or_else(|_| panic!("{row} is no row of the whole, or comes twice"));
        rest.remove(at);
    }
    assert_eq!(place.contents(), of_original, "the savepoint's run touched the original");
    // A place that is taken is refused.
    let refused = tidegate(folder.path(), place, &["savepoint", &dest.name(), &place.name()]);
    assert!(refused.status.code() == Some(78) && said(&refused).contains("name an empty one"), "{}", said(&refused));
}

#[test]
fn an_inspection_shows_epochs_positions_state_keys_and_pending_commits() {
    is_inspected(&Place::directory());
}

#[test]
fn sample_keys_are_those_of_the_step_however_it_stores_its_rows() {
    let bids = "{ op = \"filter\", expression = 'type == \"bid\"' }";
    let steps = [
        "{ op = \"topN\", orderBy = \"price\", n = 1, groupBy = [\"channel\", \"bidder\"] }",
        "{ op = \"topN\", orderBy = \"price\", n = 2, groupBy = [\"channel\", \"bidder\"] }",
        "{ op = \"lastN\", n = 3, groupBy = [\"channel\", \"bidder\"], aggs = [{ op = \"avg\", column = \"price\", alias = \"mean\" }] }",
        "{ op = \"deduplicate\", keys = [\"channel\", \"bidder\"], keep = \"last\", timeColumn = \"dateTime\", ttl = \"1h\" }",
        "{ op = \"aggregate\", groupBy = [\"channel\", \"bidder\"], aggs = [{ op = \"count\", alias = \"n\" }] }",
    ];
    let mut text = "name = \"keys\"\n[settings]\natEnd = \"suspend\"\nstateDir = \"state\"\n[datasets.events]\nconnector = \"nexmark\"\nevents = 4000\nextra = false\n".to_string();
    for index in 0..steps.len() {
        text.push_str(&format!("[datasets.out{index}]\nsink = \"blackhole\"\n"));
    }
    for (index, step) in steps.iter().enumerate() {
        text.push_str(&format!(
            "[[stages]]\nid = \"s{index}\"\ninputs = [\"events\"]\noutput = \"out{index}\"\nsteps = [{bids}, {step}]\n"
        ));
    }
    let (folder, place) = (tempfile::tempdir().unwrap(), Place::directory());
    std::fs::write(folder.path().join("p.toml"), text).unwrap();
    let output = tidegate(folder.path(), &place, &["run", "p.toml"]);
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    let found = lines(&tidegate(folder.path(), &place, &["inspect", "state", "--format", "json", "--keys", "50"]));
    let stages: Vec<&Value> = found.iter().filter(|line| line.get("stage").is_some()).collect();
    assert_eq!(stages.len(), steps.len());
    for stage in stages {
        let keys = stage["sampleKeys"].as_array().unwrap();
        assert!(keys.len() == 50, "{stage}");
        for key in keys {
            let (channel, bidder) = key.as_str().unwrap().split_once(", ").unwrap();
            let channel = channel.strip_prefix("channel=").unwrap();
            assert!(["Google", "Apple", "Baidu", "Facebook"].contains(&channel) || channel.starts_with("channel-"), "{stage}");
            assert!(bidder.strip_prefix("bidder=").unwrap().parse::<u64>().unwrap() >= 1000, "{stage}");
        }
    }
}

#[test]
fn a_savepoint_is_complete_and_neither_run_touches_the_other() {
    is_copied(&Place::directory());
}

#[test]
fn going_back_to_an_epoch_names_the_sinks_that_repeat() {
    let place = Place::directory();
    let folder = killed(&place, "before-manifest:4");
    let epochs = lines(&tidegate(folder.path(), &place, &["inspect", "p.toml", "--format", "json"]));
    let earlier: Vec<u64> = epochs.iter().filter(|line| line["restorable"] == true).map(|line| line["epoch"].as_u64().unwrap()).collect();
    let from = earlier[earlier.len() - 2].to_string();
    let wrong = tidegate(folder.path(), &place, &["run", "p.toml", "--takeover", "--from", "999"]);
    assert!(wrong.status.code() == Some(78) && said(&wrong).contains("no epoch 999"), "{}", said(&wrong));
    let output = tidegate(folder.path(), &place, &["run", "p.toml", "--takeover", "--from", &from]);
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    assert!(said(&output).contains("rows come again") && said(&output).contains("sink/counts"), "{}", said(&output));
    let mut found = rows(folder.path(), "out");
    found.dedup();
    assert_eq!(found, calm(), "some rows come twice, and none is missing");
}

#[test]
fn places_that_hold_no_epochs_are_told() {
    let folder = tempfile::tempdir().unwrap();
    let place = Place::directory();
    for (arguments, part) in [
        (["inspect", "nowhere"].as_slice(), "there are no epochs in `nowhere`"),
        (&["savepoint", "nowhere", "dest"], "there are no epochs in `nowhere`"),
        (&["inspect", "s4://bucket"], "did you mean `s3`?"),
        (&["inspect", "s3://key:secret@bucket"], "neither credentials nor options"),
    ] {
        let output = tidegate(folder.path(), &place, arguments);
        assert_eq!(output.status.code(), Some(64), "{}", said(&output));
        assert!(said(&output).contains(part) && output.stdout.is_empty(), "{}", said(&output));
    }
    assert!(!folder.path().join("nowhere").exists() && !folder.path().join("dest").exists());
}

#[test]
fn mistakes_about_a_bucket_are_found_by_validate_with_their_line() {
    let folder = tempfile::tempdir().unwrap();
    for (settings, part) in [
        ("stateUrl = \"s3//bucket\"", "settings.stateUrl: `s3//bucket` is no address of a bucket"),
        ("stateUrl = \"s3://bucket\"\nstateDir = \"x\"", "epochs are kept in one place"),
        ("stateUrl = \"s3://bucket\"\nstateOptions = { regoin = \"x\" }", "did you mean `region`?"),
        ("stateOptions = { region = \"x\" }", "there is no `stateUrl`"),
    ] {
        let text = pipeline(&Place::directory(), 0, "out");
        let text: String = text
            .lines()
            .map(|line| if line.starts_with("stateDir") { settings } else { line })
            .fold(String::new(), |all, line| all + line + "\n");
        std::fs::write(folder.path().join("p.toml"), text).unwrap();
        let output = tidegate(folder.path(), &Place::directory(), &["validate", "p.toml"]);
        assert_eq!(output.status.code(), Some(78), "{}", said(&output));
        let line = said(&output).lines().find(|line| line.contains(part)).map(str::to_string);
        assert!(line.is_some_and(|line| line.starts_with("p.toml:")), "{part}: {}", said(&output));
    }
}

#[test]
fn a_store_that_does_not_answer_ends_the_start_and_no_secret_is_shown() {
    let folder = tempfile::tempdir().unwrap();
    // A port that was free a moment ago; nobody listens.
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let place = Place::S3 { url: "s3://bucket/prefix".to_string(), endpoint: "http://127.0.0.1:1".to_string() };
    std::fs::write(folder.path().join("p.toml"), pipeline(&place, 0, "out")).unwrap();
    let output = Command::new(command())
        .args(["run", "p.toml"])
        .env("AWS_ENDPOINT_URL", format!("http://127.0.0.1:{port}"))
        .env("AWS_ACCESS_KEY_ID", "somebody")
        .env("AWS_SECRET_ACCESS_KEY", "a-secret-of-mine")
        .env("TIDEGATE_LOG", "debug")
        .current_dir(folder.path())
        .output()
        .unwrap();
    let text = said(&output);
    assert_eq!(output.status.code(), Some(69), "{text}");
    for part in ["s3://bucket/prefix", "bucket `bucket`", "check `endpoint`"] {
        assert!(text.contains(part), "{part} is missing in {text}");
    }
    assert!(!text.contains("a-secret-of-mine"), "{text}");
    assert!(!folder.path().join("out").exists(), "nothing was opened");
}

#[test]
#[ignore = "needs an S3 server: `cargo xtask services up s3`, and TIDEGATE_TEST_S3"]
fn s3_killed_at_every_point_it_writes_the_same_rows() {
    survives_kills(&Place::s3());
}

#[test]
#[ignore = "needs an S3 server: `cargo xtask services up s3`, and TIDEGATE_TEST_S3"]
fn s3_an_inspection_shows_epochs_positions_state_keys_and_pending_commits() {
    is_inspected(&Place::s3());
}

#[test]
#[ignore = "needs an S3 server: `cargo xtask services up s3`, and TIDEGATE_TEST_S3"]
fn s3_a_savepoint_is_complete_and_neither_run_touches_the_other() {
    is_copied(&Place::s3());
}

#[test]
#[ignore = "needs an S3 server: `cargo xtask services up s3`, and TIDEGATE_TEST_S3"]
fn s3_the_options_of_the_file_are_used_and_a_wrong_secret_is_told() {
    let place = Place::s3();
    let folder = tempfile::tempdir().unwrap();
    let endpoint = place.variables()[0].1.clone();
    for (secret, code) in [("testsecret", 0), ("not-the-secret", 69)] {
        let options = format!("stateOptions = {{ endpoint = {endpoint:?}, accessKeyId = \"test\", secretAccessKey = \"${{SECRET}}\" }}\n");
        let text = pipeline(&place, 0, "out").replace("[datasets.events]", &format!("{options}[datasets.events]"));
        std::fs::write(folder.path().join("p.toml"), text).unwrap();
        let output =
            Command::new(command()).args(["run", "p.toml", "--fresh"]).env("SECRET", secret).current_dir(folder.path()).output().unwrap();
        let text = said(&output);
        assert_eq!(output.status.code(), Some(code), "{text}");
        assert_eq!(text.contains("check `accessKeyId` and `secretAccessKey`"), code != 0, "{text}");
        assert!(!text.contains(secret), "{text}");
    }
}

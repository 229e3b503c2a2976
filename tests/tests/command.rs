//! The command, as a person at a shell meets it.

#![allow(clippy::unwrap_used, reason = "a test may end by panicking")]

use std::path::Path;
use std::process::{Command, Output};
use tidegate_tests::command;

fn tidegate(folder: &Path, arguments: &[&str]) -> Output {
    Command::new(command()).args(arguments).current_dir(folder).env_remove("NOT_SET").env("COLUMN", "auction").output().unwrap()
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn folder_with(text: &str) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("p.toml"), text).unwrap();
    folder
}

const GOOD: &str = r#"
name = "good"
# url = "${NOT_SET}"
[datasets.events]
connector = "nexmark"
events = 1000
[datasets.out]
sink = "files"
path = "out"
format = "json"
[[stages]]
inputs = ["events"]
output = "out"
steps = [
  { op = "filter", expression = 'type == "bid"' },
  { op = "select", columns = ["${COLUMN}", "price"] },
]
"#;

#[test]
fn ten_mistakes_are_reported_in_one_go_each_with_its_line() {
    let text = r#"name = "ten"
nmae = "typo"
[settings]
parallelism = 0
checkpointEvery = "5 fortnights"
[datasets.events]
connector = "nexmrk"
[datasets.bids]
connector = "nexmark"
evnts = 1000
[datasets.good]
connector = "nexmark"
events = 1000
[datasets.out]
sink = "blackhole"
[datasets.out2]
sink = "blackhole"
require = "exactly-twice"
[datasets.out3]
sink = "blackhole"
[[stages]]
inputs = ["good"]
output = "out"
steps = [
  { op = "filtre", expression = 'price > 1' },
  { op = "filter", expression = 'prise > 1' },
]
[[stages]]
inputs = ["godo"]
output = "out3"
steps = [
  { op = "windowedAggregate", timeColumn = "dateTime", windwoMs = 1000, aggs = [{ op = "count", alias = "n" }] },
]
[[stages]]
inputs = ["good"]
output = "out3"
steps = [{ op = "select", columns = ["auction", "nothing"] }]
"#;
    let folder = folder_with(text);
    let output = tidegate(folder.path(), &["validate", "p.toml"]);
    assert_eq!(output.status.code(), Some(78), "{}", said(&output));
    let all = said(&output);
    for (line, part) in [
        (2, "`nmae`"),
        (4, "parallelism"),
        (5, "checkpointEvery"),
        (7, "`nexmrk`"),
        (10, "`evnts`"),
        (18, "`exactly-twice`"),
        (25, "`filtre`"),
        (29, "`godo`"),
        (32, "`windwoMs`"),
        (37, "`nothing`"),
    ] {
        let found = all.lines().any(|said| said.starts_with(&format!("p.toml:{line}:")) && said.contains(part));
        assert!(found, "line {line}, {part} is missing in:\n{all}");
    }
}

#[test]
fn p217_every_verb_loads_the_file_in_the_same_way() {
    let folder = folder_with(GOOD);
    for arguments in [&["validate", "p.toml"][..], &["plan", "p.toml"], &["plan", "p.toml", "--format", "mermaid"], &["run", "p.toml"]] {
        let output = tidegate(folder.path(), arguments);
        assert_eq!(output.status.code(), Some(0), "{arguments:?}: {}", said(&output));
    }
}

#[test]
fn p215_and_p226_comments_are_not_read_and_values_are() {
    let text = GOOD.replace("events = 1000", "events = 1000\nseed = \"${NOT_SET}\"");
    let folder = folder_with(&text);
    let output = tidegate(folder.path(), &["validate", "p.toml"]);
    assert_eq!(output.status.code(), Some(78));
    assert!(said(&output).contains("p.toml:7: datasets.events.seed: the environment variable `NOT_SET` is not set"), "{}", said(&output));
}

#[test]
fn p220_an_impossible_pair_of_options_is_refused() {
    let text = GOOD.replace("op = \"filter\", expression", "op = \"filter\", windowMs = 5, expression");
    let output = tidegate(folder_with(&text).path(), &["validate", "p.toml"]);
    assert_eq!(output.status.code(), Some(78));
    let text = GOOD.replace(
        "steps = [",
        "steps = [\n  { op = \"windowedAggregate\", timeColumn = \"dateTime\", windowMs = 1000, window = \"2s\", aggs = [] },",
    );
    let output = tidegate(folder_with(&text).path(), &["validate", "p.toml"]);
    assert_eq!(output.status.code(), Some(78));
    assert!(said(&output).contains("say the same thing"), "{}", said(&output));
}

#[test]
fn p222_outside_a_project_it_says_what_is_missing_and_where_it_looked() {
    let folder = tempfile::tempdir().unwrap();
    let output = tidegate(folder.path(), &["run", "pipeline.toml"]);
    assert_eq!(output.status.code(), Some(78));
    let all = said(&output);
    assert!(all.contains("pipeline.toml") && all.contains(&folder.path().display().to_string()), "{all}");
    assert_eq!(tidegate(folder.path(), &["rnu"]).status.code(), Some(64));
}

#[test]
fn running_the_finished_pipeline_again_says_so_and_fresh_starts_over() {
    let folder = folder_with(GOOD);
    let parts = || {
        std::fs::read_dir(folder.path().join("out"))
            .unwrap()
            .filter(|entry| entry.as_ref().unwrap().path().extension().is_some_and(|ending| ending == "json"))
            .count()
    };
    let first = tidegate(folder.path(), &["run", "p.toml"]);
    assert_eq!(first.status.code(), Some(0), "{}", said(&first));
    let written = parts();
    let again = tidegate(folder.path(), &["run", "p.toml"]);
    assert_eq!(again.status.code(), Some(0), "{}", said(&again));
    assert!(said(&again).contains("already complete at epoch") && said(&again).contains("--fresh starts over"), "{}", said(&again));
    assert_eq!(parts(), written);
    let fresh = tidegate(folder.path(), &["run", "p.toml", "--fresh"]);
    assert_eq!(fresh.status.code(), Some(0), "{}", said(&fresh));
    assert_eq!(parts(), 2 * written, "a fresh run writes beside what is there");
}

#[test]
fn stdout_carries_rows_and_nothing_else() {
    let folder = folder_with(&GOOD.replace("sink = \"files\"\npath = \"out\"\nformat = \"json\"", "sink = \"stdout\""));
    let output = tidegate(folder.path(), &["run", "p.toml"]);
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    let rows = String::from_utf8(output.stdout).unwrap();
    assert_eq!(rows.lines().count(), 920);
    for line in rows.lines() {
        let row: serde_json::Value = serde_json::from_str(line).unwrap();
        assert!(row["auction"].is_i64() && row["price"].is_i64(), "{line}");
    }
}

#[test]
fn a_reader_that_goes_away_is_a_stop() {
    let folder = folder_with(
        &GOOD
            .replace("sink = \"files\"\npath = \"out\"\nformat = \"json\"", "sink = \"stdout\"")
            .replace("events = 1000\n", "rate = 100000\n"),
    );
    let script = format!("{} run p.toml | head -n 3", command().display());
    let output =
        Command::new("bash").args(["-o", "pipefail", "-c", &script]).current_dir(folder.path()).env("COLUMN", "auction").output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    assert_eq!(String::from_utf8_lossy(&output.stdout).lines().count(), 3);
}

#[test]
fn an_interrupt_stops_with_a_last_epoch_and_the_next_run_goes_on() {
    let folder = folder_with(
        &GOOD
            .replace("events = 1000", "events = 60000\nrate = 20000")
            .replace("name = \"good\"", "name = \"good\"\n[settings]\ncheckpointEvery = \"100ms\""),
    );
    let mut run = Command::new(command());
    let mut child = run
        .args(["run", "p.toml"])
        .current_dir(folder.path())
        .env("COLUMN", "auction")
        .stderr(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let parts = || {
        std::fs::read_dir(folder.path().join("out"))
            .map_or(0, |entries| entries.filter(|entry| !entry.as_ref().unwrap().file_name().to_string_lossy().starts_with('.')).count())
    };
    while parts() == 0 {
        assert!(child.try_wait().unwrap().is_none());
        pause();
    }
    assert!(Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap().success());
    let stopped = child.wait_with_output().unwrap();
    assert_eq!(stopped.status.code(), Some(0), "{}", said(&stopped));
    assert!(said(&stopped).contains("requested"), "{}", said(&stopped));
    let rest = tidegate(folder.path(), &["run", "p.toml"]);
    assert_eq!(rest.status.code(), Some(0), "{}", said(&rest));
    let rows: usize = std::fs::read_dir(folder.path().join("out"))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.is_file())
        .map(|path| std::fs::read_to_string(path).unwrap().lines().count())
        .sum();
    assert_eq!(rows, 60_000 / 50 * 46);
}

#[test]
fn an_epoch_prepared_for_a_sink_that_has_changed_since_is_committed_where_it_was_prepared() {
    let slow = GOOD
        .replace("events = 1000", "events = 20000\nrate = 20000")
        .replace("name = \"good\"", "name = \"good\"\n[settings]\ncheckpointEvery = \"100ms\"");
    let folder = folder_with(&slow);
    let mut run = Command::new(command());
    let run = run.args(["run", "p.toml", "--pause-at=after-manifest:2"]).current_dir(folder.path()).env("COLUMN", "auction");
    let mut child = run.stderr(std::process::Stdio::piped()).spawn().unwrap();
    let said_by_child = std::io::BufReader::new(child.stderr.take().unwrap());
    let paused = std::io::BufRead::lines(said_by_child).map_while(Result::ok).any(|line| line.contains("paused at after-manifest"));
    assert!(paused, "the run stands still between a manifest and its commit");
    child.kill().unwrap();
    child.wait().unwrap();
    std::fs::write(folder.path().join("p.toml"), slow.replace("path = \"out\"", "path = \"elsewhere\"")).unwrap();
    let rest = tidegate(folder.path(), &["run", "p.toml"]);
    assert_eq!(rest.status.code(), Some(0), "{}", said(&rest));
    let rows = |output: &str| -> usize {
        let files = std::fs::read_dir(folder.path().join(output)).unwrap().map(|entry| entry.unwrap().path()).filter(|path| path.is_file());
        files.map(|path| std::fs::read_to_string(path).unwrap().lines().count()).sum()
    };
    let (before, after) = (rows("out"), rows("elsewhere"));
    assert!(before > 0 && after > 0, "{before} and {after}");
    assert_eq!(before + after, 20_000 / 50 * 46);
}

#[allow(clippy::disallowed_methods, reason = "the process watched has its own clock")]
fn pause() {
    std::thread::sleep(std::time::Duration::from_millis(10));
}

#[test]
fn an_input_that_is_not_there_is_found_by_validate_with_the_folder_it_was_looked_for_in() {
    for (path, part) in
        [("in/none.csv", "does not exist"), ("in/*.csv", "no file matches `in/*.csv`"), ("in", "does not exist"), ("empty", "no files in")]
    {
        let files = format!(
            "connector = \"files\"\npath = \"{path}\"\nformat = \"csv\"\nschema = [{{ name = \"type\", type = \"string\" }}, {{ name = \"auction\", type = \"int64\" }}, {{ name = \"price\", type = \"int64\" }}]"
        );
        let folder = folder_with(&GOOD.replace("connector = \"nexmark\"\nevents = 1000", &files));
        std::fs::create_dir(folder.path().join("empty")).unwrap();
        let output = tidegate(folder.path(), &["validate", "p.toml"]);
        let all = said(&output);
        assert_eq!(output.status.code(), Some(78), "{all}");
        let base = folder.path().canonicalize().unwrap().display().to_string();
        assert!(
            all.starts_with("p.toml:4: datasets.events: ") && all.contains(part) && all.contains(&format!("looked in `{base}`")),
            "{all}"
        );
        // A plan only says how it would run.
        assert_eq!(tidegate(folder.path(), &["plan", "p.toml"]).status.code(), Some(0));
    }
}

#[test]
fn a_state_directory_that_cannot_be_one_is_refused_with_the_reason() {
    for (dir, part) in [
        ("/", "the root of the file system"),
        ("..//../../../../../../../../../..", "the root of the file system"),
        (".", "the folder of the pipeline itself"),
        ("", "it is empty"),
        ("p.toml", "is not a folder"),
        ("p.toml/deep/er", "is not a folder"),
    ] {
        let folder = folder_with(&GOOD.replace("name = \"good\"", &format!("name = \"good\"\n[settings]\nstateDir = \"{dir}\"")));
        for verb in ["validate", "run"] {
            let output = tidegate(folder.path(), &[verb, "p.toml"]);
            assert_eq!(output.status.code(), Some(78), "{dir}: {}", said(&output));
            assert!(said(&output).starts_with("p.toml:4: settings.stateDir: ") && said(&output).contains(part), "{dir}: {}", said(&output));
        }
        assert!(!folder.path().join("out").exists());
    }
    let folder = folder_with(&GOOD.replace("name = \"good\"", "name = \"good\"\n[settings]\nstateDir = \"a/b/c\""));
    assert_eq!(tidegate(folder.path(), &["validate", "p.toml"]).status.code(), Some(0));
    assert!(!folder.path().join("a").exists(), "a check makes nothing");
}

#[test]
fn a_place_for_state_that_cannot_be_one_is_refused_before_it_is_needed() {
    for (dir, part) in
        [("p.toml", "is not a folder"), ("p.toml/deep", "is not a folder"), ("\\u0000", "zero byte"), ("yes", "reads like an answer")]
    {
        let folder = folder_with(&GOOD.replace("name = \"good\"", &format!("name = \"good\"\n[settings]\nspill = \"{dir}\"")));
        let output = tidegate(folder.path(), &["validate", "p.toml"]);
        assert_eq!(output.status.code(), Some(78), "{dir}: {}", said(&output));
        assert!(said(&output).starts_with("p.toml:4: settings.spill: ") && said(&output).contains(part), "{dir}: {}", said(&output));
    }
    let folder = folder_with(&GOOD.replace("name = \"good\"", "name = \"good\"\n[settings]\nspill = \"a/b\""));
    assert_eq!(tidegate(folder.path(), &["validate", "p.toml"]).status.code(), Some(0));
    assert!(!folder.path().join("a").exists(), "a check makes nothing");
}

const EXPECTED: &str = r#"p.toml:21:41: stages.0.steps.0.expression: unknown column `prise`, did you mean `price`?
  prise > 1
  ^^^^^
p.toml:28:4: stages.1.steps.0.expression: `-` takes a number, not string
    -channel
     ^^^^^^^
p.toml:33:66: stages.2.steps.0.expression: `upper(text) -> string` does not take 3 arguments
  	upper(name, "é", city)
  	^^^^^^^^^^^^^^^^^^^^^^
p.toml:37:72: stages.3.steps.0.expression: unknown function `lenght`, did you mean `length`?
  price + lenght(name)
          ^^^^^^
p.toml:41:43: stages.4.steps.0.expression: a condition is of type `bool`, this is of type `int64`
    price + 1
    ^^^^^^^^^
p.toml:45:49: stages.5.steps.0.expression: this always fails: integer overflow: `9223372036854775808` does not fit in int64
  price > 9223372036854775807 + 1
          ^^^^^^^^^^^^^^^^^^^^^^^
p.toml:50:128: stages.6.steps.0.aggs.0.filter: expected a value, but the expression ends here
  price > 
          ^
7 mistakes found
"#;

#[test]
fn a_mistake_in_an_expression_is_shown_at_its_line_and_column_with_a_caret() {
    let text = r#"name = "carets"
[datasets.events]
connector = "nexmark"
[datasets.out]
sink = "blackhole"
[datasets.out2]
sink = "blackhole"
[datasets.out3]
sink = "blackhole"
[datasets.out4]
sink = "blackhole"
[datasets.out5]
sink = "blackhole"
[datasets.out6]
sink = "blackhole"
[datasets.out7]
sink = "blackhole"
[[stages]]
inputs = ["events"]
output = "out"
steps = [{ op = "filter", expression = 'prise > 1' }]
[[stages]]
inputs = ["events"]
output = "out2"
steps = [
  { op = "applyExpression", column = "x", expression = '''
price +
  -channel''' },
]
[[stages]]
inputs = ["events"]
output = "out3"
steps = [{ op = "applyExpression", column = "x", expression = "\tupper(name, \"é\", city)" }]
[[stages]]
inputs = ["events"]
output = "out4"
steps = [{ op = "applyExpression", column = "x", expression = 'price + lenght(name)' }]
[[stages]]
inputs = ["events"]
output = "out5"
steps = [{ op = "filter", expression = '  price + 1' }]
[[stages]]
inputs = ["events"]
output = "out6"
steps = [{ op = "filter", expression = 'price > 9223372036854775807 + 1' }]
[[stages]]
inputs = ["events"]
output = "out7"
steps = [
  { op = "windowedAggregate", timeColumn = "dateTime", windowMs = 1000, aggs = [{ op = "count", alias = "n", filter = 'price > ' }] },
]
"#;
    let output = tidegate(folder_with(text).path(), &["validate", "p.toml"]);
    assert_eq!(output.status.code(), Some(78), "{}", said(&output));
    assert_eq!(said(&output), EXPECTED);
}

#[test]
fn a_mistake_behind_a_variable_has_the_line_alone_and_its_place_in_the_text() {
    let text = GOOD.replace("type == \"bid\"", "${COLUMN} > 1 && prise > 1");
    let output = tidegate(folder_with(&text).path(), &["validate", "p.toml"]);
    let all = said(&output);
    assert!(all.starts_with("p.toml:15: stages.0.steps.0.expression: ") && all.contains("(line 1, column 16)"), "{all}");
}

#[test]
fn a_thousand_chained_stages_are_planned_within_a_second() {
    let stages = |count: usize| {
        let mut text = String::from("[datasets.events]\nconnector = \"nexmark\"\n[datasets.out]\nsink = \"blackhole\"\n");
        // Written last to first, which is the hardest order.
        for stage in (0..count).rev() {
            let input = if stage == 0 { "events".to_string() } else { format!("d{stage}") };
            let output = if stage + 1 == count { "out".to_string() } else { format!("d{}", stage + 1) };
            text.push_str(&format!("[[stages]]\ninputs = [\"{input}\"]\noutput = \"{output}\"\nsteps = [{{ op = \"filter\", expression = 'price != {stage}' }}]\n"));
        }
        folder_with(&text)
    };
    for (count, code) in [(1000, 0), (2000, 78)] {
        let folder = stages(count);
        let begun = now();
        let output = tidegate(folder.path(), &["validate", "p.toml"]);
        let took = begun.elapsed();
        assert_eq!(output.status.code(), Some(code), "{}", said(&output));
        assert!(took < std::time::Duration::from_secs(2), "{count} stages took {took:?}");
    }
}

#[allow(clippy::disallowed_methods, reason = "the process watched has its own clock")]
fn now() -> std::time::Instant {
    std::time::Instant::now()
}

#[test]
fn the_mistakes_of_a_stage_and_of_its_source_are_reported_together() {
    let text = r#"name = "many"
[plugins.unused]
path = "gone.wasm"
[datasets.events]
connector = "files"
path = "events.csv"
colour = "red"
schema = [{ name = "price", type = "int64" }, { name = "url", type = "string" }]
[datasets.out]
sink = "stdout"
format = "xml"
[[stages]]
inputs = ["events"]
output = "out"
steps = [
  { op = "filter", expression = 'prise > 1', foo = 1 },
  { op = "applyExpression", column = "u", expression = 'lowr(url)' },
  { op = "applyExpression", column = "n", expression = 'length(u, 1)' },
  { op = "filter", expression = 'n > (1' },
  { op = "drop", columns = ["uri"] },
]
"#;
    let folder = folder_with(text);
    let output = tidegate(folder.path(), &["validate", "p.toml"]);
    let said = said(&output);
    assert_eq!(output.status.code(), Some(78), "{said}");
    for (line, part) in [
        (3, "plugins.unused.path: nothing uses plugin `unused`"),
        (7, "datasets.events.colour: unknown key `colour`"),
        (11, "datasets.out.format: `xml` is none of `json`, `csv`"),
        (16, "stages.0.steps.0.expression: unknown column `prise`, did you mean `price`?"),
        (16, "stages.0.steps.0.foo: unknown key `foo`"),
        (17, "stages.0.steps.1.expression: unknown function `lowr`, did you mean `lower`?"),
        (18, "stages.0.steps.2.expression: `length"),
        (19, "stages.0.steps.3.expression: "),
        (20, "stages.0.steps.4.columns.0: there is no column `uri`, did you mean `url`?"),
    ] {
        let begins = format!("p.toml:{line}:");
        assert!(said.lines().any(|shown| shown.starts_with(&begins) && shown.contains(part)), "line {line}: {part} in\n{said}");
    }
    assert!(said.contains("9 mistakes found"), "{said}");
    assert_eq!(said.lines().filter(|line| line.trim_start().starts_with('^') || line.trim_end().ends_with('^')).count(), 4, "{said}");
    assert!(!said.contains("`op`?"), "{said}");
}

#[test]
fn a_crash_between_two_copies_of_a_manifest_is_no_warning_and_a_damaged_copy_is() {
    let folder = folder_with(GOOD);
    assert!(tidegate(folder.path(), &["run", "p.toml"]).status.success());
    let run = folder.path().join(".tidegate/good/manifests/00000001");
    let newest = std::fs::read_dir(run).unwrap().map(|entry| entry.unwrap().path()).max().unwrap();
    std::fs::remove_file(newest.join("b")).unwrap();
    let start = || {
        let output = tidegate(folder.path(), &["run", "p.toml"]);
        assert!(output.status.success() && said(&output).contains("already complete"), "{}", said(&output));
        said(&output)
    };
    let calm = start();
    assert!(!calm.contains("cannot be used") && !calm.contains("WARN"), "{calm}");
    std::fs::write(newest.join("b"), "damaged").unwrap();
    let warned = start();
    assert!(warned.contains("WARN") && warned.contains("a copy of a manifest cannot be used"), "{warned}");
}

#[test]
fn partitions_are_checked_with_the_columns_of_their_output() {
    // A column that comes from a variable would be masked in the hint.
    let text = GOOD.replace("${COLUMN}", "auction").replace("format = \"json\"", "format = \"csv\"\npartitionBy = [\"acution\"]");
    let folder = folder_with(&text);
    let output = tidegate(folder.path(), &["validate", "p.toml"]);
    assert_eq!(output.status.code(), Some(78));
    assert!(
        said(&output).contains("p.toml:11: datasets.out.partitionBy.0: there is no column `acution`, did you mean `auction`?"),
        "{}",
        said(&output)
    );
    std::fs::write(folder.path().join("p.toml"), text.replace("acution", "auction")).unwrap();
    assert!(tidegate(folder.path(), &["run", "p.toml"]).status.success());
    let folders = std::fs::read_dir(folder.path().join("out")).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    assert!(folders.into_iter().all(|name| name.starts_with("auction=1")), "folders of auctions and nothing else");
}

//! Containers that behave, and containers that die, hang, flood and lie: what a step makes of each, and that nothing is left behind.

#![allow(clippy::unwrap_used, reason = "a test may end by panicking")]

use arrow::array::cast::AsArray;
use arrow::array::{ArrayRef, Int64Array, RecordBatch, StringViewArray};
use arrow::datatypes::{DataType, Field, Int64Type, Schema, SchemaRef};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use tempfile::TempDir;
use tidegate::compute::{Plugins, Roots, parse_step};
use tidegate::host::HostConfig;
use tidegate::steps::{BindCtx, Bound, BoundNode, StreamType};
use tidegate::{HostSettings, api};
use tidegate_api::config::Problem;
use tidegate_api::{ChangeMode, Clock, ErrorKind, EventTime, Generation, Output, RunId, RunIdentity, Step, StepCtx, SystemClock};

const CHILD: &str = env!("CARGO_BIN_EXE_container-child");

/// A root with one container in it.
struct World {
    root: TempDir,
    variables: Vec<(String, String)>,
}

impl World {
    /// The test's child with these arguments. `more` stands before the tables of the manifest, `limits` in one of them.
    fn new(arguments: &[&str], more: &str, limits: &str) -> World {
        let root = tempfile::tempdir().unwrap();
        let arguments: Vec<String> = arguments.iter().map(|argument| argument.replace("ROOT", root.path().to_str().unwrap())).collect();
        let entry = json!([vec![CHILD.to_string()], arguments].concat());
        World::of(root, &format!("entry = {entry}\n{more}"), limits)
    }

    fn of(root: TempDir, entry: &str, limits: &str) -> World {
        let text = format!(
            "id = \"child\"\nversion = \"1.0.0\"\nimpl = \"container\"\n{entry}\n\
             inputs = [{{ name = \"n\", type = \"int64\" }}, {{ name = \"t\", type = \"string\" }}]\n\
             output = [{{ name = \"twice\", type = \"int64\" }}, {{ name = \"loud\", type = \"string\", nullable = false }}]\n[limits]\n{limits}\n"
        );
        std::fs::create_dir(root.path().join("child")).unwrap();
        std::fs::write(root.path().join("child/transform.toml"), text).unwrap();
        World { root, variables: Vec::new() }
    }

    fn with_variable(mut self, name: &str, value: impl Into<String>) -> Self {
        self.variables.push((name.to_string(), value.into()));
        self
    }

    fn bind(&self, more: Value, input: &SchemaRef, cx: &BindCtx) -> Result<Bound, Vec<Problem>> {
        let variables = self.variables.clone();
        let environment = move |name: &str| variables.iter().find(|(known, _)| known == name).map(|(_, value)| value.clone());
        let host = HostSettings::default().with_transform_roots(Roots::new([self.root.path()]));
        let plugins = Plugins::read(&host, HostConfig::default().with_environment(Arc::new(environment)))?;
        let mut step = json!({ "op": "container", "ref": "child" });
        step.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        parse_step(step.as_object().unwrap(), &plugins)?.bind(&[StreamType::append(Arc::clone(input))], cx)
    }

    fn open_with(&self, more: Value) -> api::Result<Box<dyn Step>> {
        let bound = self.bind(more, &schema(), &BindCtx::new()).unwrap();
        let BoundNode::Step(factory) = bound.node else { panic!("a container is a step") };
        factory.open(StepCtx::new(RunIdentity::new("pipeline", RunId::new("run"), Generation(1), "stage"), 0, 1))
    }

    fn open(&self) -> api::Result<Box<dyn Step>> {
        self.open_with(json!({ "keep": ["id"] }))
    }

    /// What it makes of two batches, or the error, and how often a container was started where the child counts it.
    fn error(&self) -> api::Error {
        let mut step = match self.open() {
            Ok(step) => step,
            Err(error) => return error,
        };
        let mut out = Output::default();
        (0..2).find_map(|_| step.apply(rows(0..4), EventTime(0), &mut out).err()).expect("it fails")
    }

    /// Processes of this world that are still there.
    fn left(&self) -> Vec<String> {
        let mine = self.root.path().to_str().unwrap();
        let processes =
            std::fs::read_dir("/proc").unwrap().filter_map(|entry| std::fs::read_to_string(entry.ok()?.path().join("cmdline")).ok());
        processes.filter(|command| command.contains(mine)).collect()
    }

    /// Nothing is left of it, or will be in a moment: a killed process needs time to go.
    fn is_clean(&self) {
        let from = SystemClock.monotonic();
        while !self.left().is_empty() {
            assert!(SystemClock.monotonic() < from + Duration::from_secs(10), "left behind: {:?}", self.left());
            std::thread::yield_now();
        }
    }
}

fn schema() -> SchemaRef {
    let fields = [("id", DataType::Int64, false), ("n", DataType::Int64, true), ("t", DataType::Utf8View, true)];
    Arc::new(Schema::new(fields.into_iter().map(|(name, data_type, nullable)| Field::new(name, data_type, nullable)).collect::<Vec<_>>()))
}

/// Rows `id` = 100 + `n`.
fn rows(numbers: std::ops::Range<i64>) -> RecordBatch {
    let ids: ArrayRef = Arc::new(numbers.clone().map(|n| 100 + n).collect::<Int64Array>());
    let texts: ArrayRef = Arc::new(numbers.clone().map(|n| Some(format!("text {n}"))).collect::<StringViewArray>());
    RecordBatch::try_new(schema(), vec![ids, Arc::new(numbers.collect::<Int64Array>()), texts]).unwrap()
}

fn numbers(out: &Output, column: &str) -> Vec<i64> {
    let columns = out.batches.iter().map(|batch| batch.column_by_name(column).unwrap().as_primitive::<Int64Type>().values().to_vec());
    columns.collect::<Vec<_>>().concat()
}

#[test]
fn a_container_that_behaves_gets_rows_and_gives_them_with_what_is_kept() {
    let world = World::new(&["", "ROOT/none"], "", "");
    std::fs::write(world.root.path().join("none"), "").unwrap();
    let mut step = world.open().unwrap();
    let mut out = Output::default();
    for numbers in [0..3, 10..16, 20..21] {
        step.apply(rows(numbers), EventTime(0), &mut out).unwrap();
    }
    let schema = out.batches[0].schema();
    assert_eq!(schema.fields().iter().map(|field| field.name().as_str()).collect::<Vec<_>>(), ["twice", "loud", "id"]);
    assert_eq!(numbers(&out, "id"), [100, 101, 102, 110, 111, 112, 114, 115, 120]);
    assert_eq!(numbers(&out, "twice"), [0, 2, 4, 20, 22, 24, 28, 30, 40]);
    assert_eq!(out.batches[1].column(1).as_string_view().value(3), "TEXT 14");
    let [bad] = out.bad.as_slice() else { panic!("{:?}", out.bad) };
    assert_eq!((bad.row, bad.column.as_deref()), (Some(3), Some("n")));
    assert!(bad.message.contains("transform `child@1.0.0`: thirteen is unlucky"), "{}", bad.message);
    assert!(String::from_utf8_lossy(&bad.raw).contains("113"), "the whole row is shown, what did not cross too");
    assert_eq!(world.left().len(), 1, "one process for all batches");
    drop(step);
    assert_eq!(world.left(), Vec::<String>::new());
}

#[test]
fn a_filter_drops_rows_and_kept_columns_alike() {
    let world = World::new(&["filter"], "shape = \"rowwise-filter\"", "");
    let (mut step, mut out) = (world.open().unwrap(), Output::default());
    step.apply(rows(10..16), EventTime(0), &mut out).unwrap();
    assert_eq!((numbers(&out, "id"), numbers(&out, "twice")), (vec![110, 112, 114], vec![20, 24, 28]));
    assert_eq!((out.filtered, out.bad.len()), (2, 1), "in = out + filtered + bad");
}

#[test]
fn free_rows_are_any_rows_and_nothing_is_kept_beside_them() {
    let world = World::new(&["free"], "shape = \"free\"", "");
    let (mut step, mut out) = (world.open_with(json!({})).unwrap(), Output::default());
    step.apply(rows(0..2), EventTime(0), &mut out).unwrap();
    assert_eq!(numbers(&out, "twice"), [0, 0, 2, 2]);
    let said = |more: Value, cx: &BindCtx| world.bind(more, &schema(), cx).unwrap_err().iter().map(ToString::to_string).collect::<String>();
    assert!(said(json!({ "keep": ["id"] }), &BindCtx::new()).contains("keep: the transform `child@1.0.0` may change rows freely"));
    assert!(said(json!({}), &BindCtx::new().with_keys(true)).contains("have no keys"));
}

#[test]
fn a_value_that_does_not_fit_never_crosses() {
    let world = World::new(&[""], "", "");
    let fields =
        vec![Field::new("id", DataType::Int64, false), Field::new("n", DataType::Float64, true), Field::new("t", DataType::Utf8View, true)];
    let input = Arc::new(Schema::new(fields));
    let bound = world.bind(json!({ "keep": ["id"] }), &input, &BindCtx::new()).unwrap();
    let BoundNode::Step(factory) = bound.node else { panic!("a container is a step") };
    let mut step = factory.open(StepCtx::new(RunIdentity::new("p", RunId::new("r"), Generation(1), "s"), 0, 1)).unwrap();
    let floats: ArrayRef = Arc::new(arrow::array::Float64Array::from(vec![1.0, 1.5, 13.0, 4.0]));
    let ids: ArrayRef = Arc::new(Int64Array::from(vec![1, 2, 3, 4]));
    let texts: ArrayRef = Arc::new(StringViewArray::from(vec!["a"; 4]));
    let mut out = Output::default();
    step.apply(RecordBatch::try_new(input, vec![ids, floats, texts]).unwrap(), EventTime(0), &mut out).unwrap();
    assert_eq!((numbers(&out, "id"), numbers(&out, "twice")), (vec![1, 4], vec![2, 8]));
    let bad: Vec<(Option<usize>, &str)> = out.bad.iter().map(|bad| (bad.row, bad.reason.label())).collect();
    assert_eq!(bad, [(Some(1), "cast"), (Some(2), "plugin")], "indices are those of the batch that came in");
}

#[test]
fn columns_are_found_by_name_and_what_is_missing_is_named() {
    let world = World::new(&[""], "", "");
    let said = |more: Value, names: [&str; 3]| -> String {
        let input = Arc::new(Schema::new(names.map(|name| Field::new(name, DataType::Int64, true)).to_vec()));
        let problems = world.bind(more, &input, &BindCtx::new()).unwrap_err();
        problems.iter().map(|problem| format!("{problem}\n")).collect()
    };
    assert!(
        said(json!({}), ["id", "n", "tt"])
            .contains("ref: the transform `child@1.0.0` reads a column `t`, which is not there, did you mean `tt`?")
    );
    assert!(said(json!({ "keep": ["idd"] }), ["id", "n", "t"]).contains("keep.0: there is no column `idd`, did you mean `id`?"));
    assert!(
        said(json!({ "keep": ["twice"] }), ["twice", "n", "t"])
            .contains("keep.0: the transform `child@1.0.0` makes a column `twice` itself")
    );
    assert!(said(json!({ "keep": ["id", "id"] }), ["id", "n", "t"]).contains("`id` stands twice"));
    assert!(said(json!({ "kep": [] }), ["id", "n", "t"]).contains("did you mean `keep`?"));
    assert!(said(json!({ "op": "wasm" }), ["id", "n", "t"]).contains("write `op = \"container\"`"));
    assert!(said(json!({ "env": ["HOME"] }), ["id", "n", "t"]).contains("does not ask for the variable `HOME`"));
    assert!(said(json!({ "ref": "chidl" }), ["id", "n", "t"]).contains("did you mean `child`?"));
}

#[test]
fn rows_that_replace_each_other_keep_their_keys() {
    let world = World::new(&[""], "", "");
    let host = HostSettings::default().with_transform_roots(Roots::new([world.root.path()]));
    let plugins = Plugins::read(&host, HostConfig::default()).unwrap();
    let input = StreamType { schema: schema(), mode: ChangeMode::Upsert { keys: vec!["id".into()] } };
    let bind = |step: Value| parse_step(step.as_object().unwrap(), &plugins).unwrap().bind(std::slice::from_ref(&input), &BindCtx::new());
    let problems = bind(json!({ "op": "container", "ref": "child" })).unwrap_err();
    assert!(problems[0].to_string().contains("keep: rows that come in replace each other by their column `id`"), "{problems:?}");
    let bound = bind(json!({ "op": "container", "ref": "child@1.0.0", "keep": ["id"] })).unwrap();
    assert_eq!(bound.output.mode, input.mode);
    // Whatever is read of the output, the transform reads its columns and the keys stay.
    assert_eq!((bound.required)(&BTreeSet::new()), [BTreeSet::from(["id", "n", "t"].map(str::to_string))]);
}

#[test]
fn a_container_sees_only_the_variables_that_are_named_twice() {
    let world = World::new(&["environment"], "capabilities = { env = [\"SEEN\", \"NARROWED\", \"UNSET\"] }", "");
    let world = world.with_variable("SEEN", "yes").with_variable("NARROWED", "no").with_variable("SECRET", "no");
    let seen = |more: Value| {
        let (mut step, mut out) = (world.open_with(more).unwrap(), Output::default());
        step.apply(rows(0..1), EventTime(0), &mut out).unwrap();
        out.batches[0].column(1).as_string_view().value(0).to_string()
    };
    assert_eq!(seen(json!({})), "NARROWED=no SEEN=yes");
    assert_eq!(seen(json!({ "env": ["SEEN"] })), "SEEN=yes");
    assert_eq!(seen(json!({ "env": [] })), "");
}

/// Little patience only with those that would use up any: a machine may be slow.
fn patience(mode: &str) -> &'static str {
    match mode {
        "start-hang" => "startTimeout = \"1s\"",
        "hang" | "never-reads" | "grandchild" => "deadline = \"1s\"",
        _ => "",
    }
}

#[test]
fn a_container_that_dies_hangs_or_asks_for_time_gets_its_batch_again() {
    for mode in ["die", "torn", "hang", "never-reads", "grandchild", "start-die", "start-hang"] {
        let world = World::new(&[mode, "ROOT/once"], "", patience(mode));
        let (mut step, mut out) = (world.open().unwrap(), Output::default());
        for numbers in [0..4, 4..8] {
            step.apply(rows(numbers), EventTime(0), &mut out).unwrap_or_else(|error| panic!("{mode}: {error}"));
        }
        assert_eq!(numbers(&out, "twice"), [0, 2, 4, 6, 8, 10, 12, 14], "{mode}");
        drop(step);
        world.is_clean();
    }
}

#[test]
fn a_container_that_goes_on_dying_hanging_or_refusing_ends_the_run() {
    for (mode, kind, parts) in [
        (
            "die",
            "external",
            &["after 1 restart in ten minutes", "transform `child@1.0.0`", "exit status: 3", "about to die | out of luck"][..],
        ),
        ("start-die", "external", &["exit status: 4", "no licence"]),
        ("start-hang", "external", &["did not answer within 1s of its start"]),
        ("torn", "external", &["closed its stdout after"]),
        ("hang", "limit", &["did not answer within 1s, its `deadline`"]),
        ("never-reads", "limit", &["its `deadline`"]),
        ("retry", "external", &["not now"]),
        ("fatal", "external", &["all is lost"]),
    ] {
        let world = World::new(&[mode], "", &format!("{}\nrestarts = 1", patience(mode)));
        let error = world.error();
        assert_eq!(error.kind().name(), kind, "{mode}: {error}");
        for part in parts {
            assert!(error.to_string().contains(part), "{mode}: `{part}` is missing in: {error}");
        }
    }
}

#[test]
fn a_lie_ends_the_run_at_once_and_says_which() {
    for (mode, kind, part) in [
        ("flood-stdout", ErrorKind::Config, "it wrote `yyyyyyyyyyyyyyyy` where a frame's header is expected"),
        ("start-print", ErrorKind::Config, "it wrote `Hello, I am a pr`"),
        ("announce", ErrorKind::Limit, "a frame of 4294967295 bytes, over its limit `output`"),
        ("wrong-type", ErrorKind::Config, "the column `twice` is declared as `int64` and made as `string`"),
        ("missing-column", ErrorKind::Config, "the column `loud` is declared and not made"),
        ("more-columns", ErrorKind::Config, "the column `secret` is made and not declared"),
        ("nulls", ErrorKind::Config, "the column `loud` has nulls and is declared without"),
        ("fewer-rows", ErrorKind::Config, "it made 3 rows of 4"),
        ("bad-index", ErrorKind::Config, "of 4 rows; they go in order, each once"),
        ("bad-twice", ErrorKind::Config, "of 4 rows; they go in order, each once"),
        ("no-arrow", ErrorKind::Config, "the rows it sent are unusable"),
        ("unknown-frame", ErrorKind::Config, "where a frame's header is expected"),
        ("wrong-answer", ErrorKind::Config, "it answered a frame `rows` with one `open`"),
        ("answers-twice", ErrorKind::Config, "for the call 2 while 3 is the one that runs"),
        ("old-number", ErrorKind::Config, "for the call 2 while 3 is the one that runs"),
        ("config", ErrorKind::Config, "`volume` must be `high`"),
    ] {
        let world = World::new(&[mode], "", "");
        let error = world.error();
        assert_eq!(error.kind(), kind, "{mode}: {error}");
        assert!(error.to_string().contains(part) && error.to_string().contains("transform `child@1.0.0`"), "{mode}: {error}");
    }
}

#[test]
fn a_flood_of_stderr_costs_nothing_but_its_lines() {
    for mode in ["flood-stderr", "endless-line"] {
        let world = World::new(&[mode], "", "logLinesPerSecond = 1");
        let (mut step, mut out) = (world.open().unwrap(), Output::default());
        step.apply(rows(0..4), EventTime(0), &mut out).unwrap();
        assert_eq!(numbers(&out, "twice"), [0, 2, 4, 6], "{mode}");
    }
}

#[test]
fn a_container_that_ignores_the_end_of_its_input_is_killed() {
    let world = World::new(&["ignores-the-end", "ROOT/once"], "", "stopTimeout = \"200ms\"");
    let (mut step, mut out) = (world.open().unwrap(), Output::default());
    step.apply(rows(0..4), EventTime(0), &mut out).unwrap();
    assert_eq!(world.left().len(), 1);
    let from = SystemClock.monotonic();
    drop(step);
    assert!(SystemClock.monotonic() >= from + Duration::from_millis(200), "it had its time");
    assert_eq!(world.left(), Vec::<String>::new());
}

#[test]
fn what_is_not_there_is_found_while_planning() {
    let said = |entry: &str, path: &str| {
        let world = World::of(tempfile::tempdir().unwrap(), entry, "").with_variable("PATH", path);
        world.bind(json!({}), &schema(), &BindCtx::new()).unwrap_err()[0].to_string()
    };
    let nowhere = tempfile::tempdir().unwrap();
    let path = nowhere.path().to_str().unwrap();
    assert!(said("entry = [\"no-such-program\"]", path).contains("starts `no-such-program`, and there is no such program on PATH"));
    assert!(said("entry = [\"./transform.toml\"]", path).contains("there is no such program below"), "it is no program");
    assert!(said("image = \"upper:1\"", path).contains("neither docker nor podman is on PATH"));
}

/// A container runtime that notes its arguments and runs the command on this machine.
fn fake_runtime(folder: &Path) {
    use std::os::unix::fs::PermissionsExt;
    let script = format!(
        "#!/bin/sh\nprintf '%s\\n' \"$*\" >> '{folder}/calls'\n[ \"$1\" = kill ] && exit 0\n\
         while [ \"$1\" != upper:1 ]; do shift; done\nshift\nexec \"$@\"\n",
        folder = folder.display()
    );
    let path = folder.join("podman");
    std::fs::write(&path, script).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
}

#[test]
fn an_image_runs_through_the_runtime_without_network_and_is_killed_by_its_name() {
    let tools = tempfile::tempdir().unwrap();
    fake_runtime(tools.path());
    let calls = || std::fs::read_to_string(tools.path().join("calls")).unwrap();
    let world = |mode: &str, root: TempDir| {
        let entry = json!([CHILD, mode, root.path().join("once")]);
        let world =
            World::of(root, &format!("image = \"upper:1\"\nentry = {entry}\ncapabilities = {{ env = [\"SEEN\"] }}"), "deadline = \"1s\"");
        world.with_variable("PATH", tools.path().to_str().unwrap()).with_variable("SEEN", "yes")
    };
    let behaving = world("", tempfile::tempdir().unwrap());
    let (mut step, mut out) = (behaving.open().unwrap(), Output::default());
    step.apply(rows(0..2), EventTime(0), &mut out).unwrap();
    assert_eq!(numbers(&out, "twice"), [0, 2]);
    drop(step);
    let first = calls();
    assert!(first.starts_with("run --rm -i --network none --read-only --log-driver none --name tidegate-"), "{first}");
    assert!(first.contains(" --env SEEN upper:1 ") && !first.contains("kill"), "{first}");

    let hanging = world("hang", tempfile::tempdir().unwrap());
    let (mut step, mut out) = (hanging.open().unwrap(), Output::default());
    step.apply(rows(0..2), EventTime(0), &mut out).unwrap();
    let all = calls();
    let named = all.lines().nth(1).unwrap().split(' ').skip_while(|word| *word != "--name").nth(1).unwrap().to_string();
    assert!(all.lines().any(|line| line == format!("kill {named}")), "{all}");
    drop(step);
    hanging.is_clean();
}

/// What the kit finds of the test's child, whose inputs are never null, and the command's exit code.
fn judged(mode: &str) -> (Option<i32>, Value) {
    let root = tempfile::tempdir().unwrap();
    let text = format!(
        "id = \"child\"\nversion = \"1.0.0\"\nimpl = \"container\"\nentry = {}\n\
         inputs = [{{ name = \"n\", type = \"int64\" }}, {{ name = \"t\", type = \"string\", nullable = false }}]\n\
         output = [{{ name = \"twice\", type = \"int64\" }}, {{ name = \"loud\", type = \"string\", nullable = false }}]\n",
        json!([CHILD, mode])
    );
    std::fs::create_dir(root.path().join("child")).unwrap();
    std::fs::write(root.path().join("child/transform.toml"), text).unwrap();
    let arguments = ["plugin", "test", "child/transform.toml", "--json"];
    let output = std::process::Command::new(tidegate_tests::command()).args(arguments).current_dir(root.path()).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    let report = serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{mode}: {error}: {said}"));
    assert!(said.contains("judging: nulls and extremes"), "{said}");
    (output.status.code(), report)
}

#[test]
fn the_kit_judges_a_container_by_the_rules_of_transforms() {
    let (code, report) = judged("");
    assert_eq!((code, &report["earned"]), (Some(0), &json!("deterministic")), "{report}");
    assert_eq!((&report["plugin"], &report["world"]), (&json!("child"), &json!("container transform")));
    assert!(report["digest"].as_str().unwrap().starts_with("sha256:"), "{report}");
    let (code, report) = judged("counts-calls");
    assert_eq!((code, &report["earned"]), (Some(1), &Value::Null), "{report}");
    assert_eq!(report["convictions"][0]["rule"], "deterministic");
}

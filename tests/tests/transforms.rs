//! Transforms of the registry through the command: what the documents show runs, and mistakes are told where they stand.

#![allow(clippy::unwrap_used, reason = "a test may end by panicking")]

use std::fs;
use std::path::Path;
use std::process::{Command, Output};
use std::time::Duration;
use tempfile::TempDir;
use tidegate_api::{Clock, SystemClock};
use tidegate_tests::{command, plugin, root};

const CHILD: &str = env!("CARGO_BIN_EXE_container-child");

fn tidegate(folder: &Path, arguments: &[&str]) -> Output {
    Command::new(command()).args(arguments).current_dir(folder).env_remove("FV_TRANSFORMS_DIR").output().unwrap()
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// The rows that a run printed, in order.
fn rows(output: &Output) -> Vec<String> {
    assert!(output.status.success(), "{}", said(output));
    let mut rows: Vec<String> = String::from_utf8(output.stdout.clone()).unwrap().lines().map(str::to_string).collect();
    rows.sort();
    rows
}

/// The blocks of one language in a document.
fn blocks(document: &str, language: &str) -> Vec<String> {
    let text = fs::read_to_string(root().join(document)).unwrap();
    text.split(&format!("```{language}\n")).skip(1).map(|rest| rest.split("```").next().unwrap().to_string()).collect()
}

fn write(folder: &Path, file: &str, text: &str) {
    let file = folder.join(file);
    fs::create_dir_all(file.parent().unwrap()).unwrap();
    fs::write(file, text).unwrap();
}

const ORDERS: &str = "{\"id\":1,\"payload\":\"{\\\"user\\\":7,\\\"price\\\":1.5}\"}\n{\"id\":2,\"payload\":\"no json\"}\n\
{\"id\":3,\"payload\":\"{\\\"user\\\":8,\\\"price\\\":2}\"}\n";

/// The pipeline of docs/transforms.md, its transform under an id of choice.
fn documented() -> TempDir {
    let [manifest, pipeline] = blocks("docs/transforms.md", "toml").try_into().unwrap();
    let folder = tempfile::tempdir().unwrap();
    write(folder.path(), "transforms/orders-flat/transform.toml", &manifest);
    fs::copy(plugin("json-flatten"), folder.path().join("transforms/orders-flat/json-flatten.wasm")).unwrap();
    write(folder.path(), "pipeline.toml", &pipeline);
    write(folder.path(), "orders.json", ORDERS);
    folder
}

/// Changes a file.
fn edit(folder: &TempDir, file: &str, from: &str, to: &str) {
    let path = folder.path().join(file);
    let text = fs::read_to_string(&path).unwrap();
    assert!(text.contains(from), "`{from}` is not in {file}");
    fs::write(path, text.replace(from, to)).unwrap();
}

#[test]
fn the_component_of_the_document_runs_and_what_is_kept_stays_with_its_row() {
    let folder = documented();
    let output = tidegate(folder.path(), &["run", "pipeline.toml", "--fresh"]);
    let user = |user: &str, price: &str, id: u32| format!("{{\"user\":{user},\"price\":{price},\"id\":{id}}}");
    assert_eq!(rows(&output), [user("7", "1.5", 1), user("8", "2.0", 3), user("null", "null", 2)]);

    // The same, with a row in the middle that the component refuses.
    edit(&folder, "pipeline.toml", "config = { column", "config = { onError = \"bad\", column");
    edit(&folder, "pipeline.toml", "transforms = [", "onBadData = \"drop\"\ntransforms = [");
    let output = tidegate(folder.path(), &["run", "pipeline.toml", "--fresh"]);
    assert_eq!(rows(&output), [user("7", "1.5", 1), user("8", "2.0", 3)]);
    assert!(said(&output).contains("badRows: 1"), "{}", said(&output));

    let plan = tidegate(folder.path(), &["plan", "pipeline.toml"]);
    let plan = String::from_utf8_lossy(&plan.stdout).into_owned();
    assert!(plan.contains("transform `orders-flat@1.2.0`, reads [payload], keeps 1 column"), "{plan}");
}

#[test]
fn the_manifest_of_a_run_names_the_transform_and_its_digest() {
    let folder = documented();
    rows(&tidegate(folder.path(), &["run", "pipeline.toml"]));
    let inspected = tidegate(folder.path(), &["inspect", "pipeline.toml", "--format", "json"]);
    let inspected = String::from_utf8(inspected.stdout).unwrap().replace(' ', "");
    assert!(inspected.contains("\"orders-flat@1.2.0\":\"sha256:"), "{inspected}");
}

/// Whether Python can import the one library that the container of the document needs.
fn has_pyarrow() -> bool {
    Command::new("python3").args(["-c", "import pyarrow"]).output().is_ok_and(|output| output.status.success())
}

#[test]
fn the_container_of_the_document_runs() {
    let [manifest, pipeline] = blocks("docs/container-protocol.md", "toml").try_into().unwrap();
    let [script] = blocks("docs/container-protocol.md", "python").try_into().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let mut manifest: String = manifest;
    if has_pyarrow() {
        // Python of a version manager is a script that wants to find others.
        manifest.push_str("capabilities = { env = [\"PATH\", \"HOME\"] }\n");
    } else {
        println!("SKIPPED the script itself: python3 cannot import pyarrow; a container in Rust takes its place");
        manifest = manifest.replace("[\"python3\", \"shout.py\"]", &format!("[\"{CHILD}\"]"));
        assert!(manifest.contains(CHILD));
    }
    write(folder.path(), "transforms/shout/transform.toml", &manifest);
    write(folder.path(), "transforms/shout/shout.py", &script);
    write(folder.path(), "pipeline.toml", &pipeline);
    let words = "{\"id\":1,\"n\":5,\"t\":\"five\"}\n{\"id\":2,\"n\":13,\"t\":\"thirteen\"}\n{\"id\":3,\"n\":null,\"t\":null}\n";
    write(folder.path(), "words.json", words);
    let output = tidegate(folder.path(), &["run", "pipeline.toml"]);
    let expected = ["{\"twice\":10,\"loud\":\"FIVE\",\"id\":1}", "{\"twice\":null,\"loud\":null,\"id\":3}"];
    assert_eq!(rows(&output), expected, "{}", said(&output));
}

#[test]
fn roots_come_from_the_environment_and_those_of_the_file_replace_them() {
    let folder = documented();
    let elsewhere = tempfile::tempdir().unwrap();
    fs::rename(folder.path().join("transforms"), elsewhere.path().join("theirs")).unwrap();
    edit(&folder, "pipeline.toml", "transforms = [\"transforms\"]", "");
    let run = |verb: &str| {
        let mut command = Command::new(command());
        let roots = format!("{}:", elsewhere.path().join("theirs").display());
        command.args([verb, "pipeline.toml"]).current_dir(folder.path()).env("FV_TRANSFORMS_DIR", roots).output().unwrap()
    };
    assert_eq!(rows(&run("run")).len(), 3);

    // The same version again, in a root of the file, with a mistake that the first one does not have.
    fs::create_dir(folder.path().join("ours")).unwrap();
    tidegate_tests::copy_tree(&elsewhere.path().join("theirs"), &folder.path().join("ours"));
    edit(&folder, "ours/orders-flat/transform.toml", "name = \"price\"", "name = \"prize\"");
    edit(&folder, "pipeline.toml", "[settings]", "[settings]\ntransforms = [\"ours\"]");
    let refused = run("validate");
    assert_eq!(refused.status.code(), Some(78));
    assert!(said(&refused).contains("the column `prize` is declared and not made"), "{}", said(&refused));
    assert!(said(&refused).contains("the column `price` is made and not declared"), "{}", said(&refused));

    fs::remove_dir_all(elsewhere.path().join("theirs")).unwrap();
    let refused = run("validate");
    assert!(said(&refused).contains("theirs (from FV_TRANSFORMS_DIR)` cannot be read"), "{}", said(&refused));
}

#[test]
fn mistakes_of_manifests_and_steps_stand_where_they_were_made() {
    let folder = documented();
    write(folder.path(), "transforms/broken/transform.toml", "id = \"broken\"\nversion = \"1.0\"\nimpl = \"wasm\"\nentri = \"x.wasm\"\n");
    edit(&folder, "pipeline.toml", "transforms = [\"transforms\"]", "transforms = [\"transforms\", \"missing\"]");
    let output = tidegate(folder.path(), &["validate", "pipeline.toml"]);
    assert_eq!(output.status.code(), Some(78));
    for part in [
        "pipeline.toml:2: settings.transforms.0: ",
        "transforms/broken/transform.toml:2: version: `1.0` is no version",
        "transforms/broken/transform.toml:4: entri: unknown key `entri`, did you mean `entry`?",
        "pipeline.toml:2: settings.transforms.1: the transforms of `missing` cannot be read",
    ] {
        assert!(said(&output).contains(part), "`{part}` is missing in:\n{}", said(&output));
    }

    for (from, to, part) in [
        ("orders-flat@1.2.0", "orders-flt", "ref: there is no transform `orders-flt`, did you mean `orders-flat`?"),
        ("orders-flat@1.2.0", "orders-flat@1.3.0", "there is `1.2.0`"),
        ("op = \"wasm\"", "op = \"container\"", "the transform `orders-flat@1.2.0` is a `wasm`, and the step a `container`"),
        ("keep = [\"id\"]", "keep = [\"idd\"]", "keep.0: there is no column `idd`, did you mean `id`?"),
        ("keep = [\"id\"]", "keep = [\"user\"]", "makes a column `user` itself"),
        ("name = \"payload\"", "name = \"payloat\"", "reads a column `payload`, which is not there, did you mean `payloat`?"),
        ("name = \"price\", type = \"float64\"", "name = \"price\", type = \"int64\"", "is declared as `float64` and made as `int64`"),
        ("op = \"wasm\"", "op = \"contaner\"", "op: unknown step `contaner`, did you mean `container`?"),
        ("ref = ", "plugin = \"x\", ref = ", "a step has one of them"),
    ] {
        let folder = documented();
        edit(&folder, "pipeline.toml", from, to);
        let output = tidegate(folder.path(), &["validate", "pipeline.toml"]);
        assert_eq!(output.status.code(), Some(78), "{to}: {}", said(&output));
        assert!(said(&output).contains(part), "`{part}` is missing in:\n{}", said(&output));
    }
}

/// Processes whose command names this folder.
fn left(folder: &Path) -> usize {
    let mine = folder.to_str().unwrap();
    let commands = fs::read_dir("/proc").unwrap().filter_map(|entry| fs::read_to_string(entry.ok()?.path().join("cmdline")).ok());
    commands.filter(|command| command.contains(mine) && command.contains("container-child")).count()
}

#[test]
fn rows_come_once_although_containers_die_and_the_engine_is_killed() {
    // So many that there is a second epoch also where the first takes long.
    const ROWS: u64 = 200_000;
    let [manifest, pipeline] = blocks("docs/container-protocol.md", "toml").try_into().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let here = folder.path();
    let entry = format!("[\"{CHILD}\", \"die\", \"{}/once\"]", here.display());
    write(here, "transforms/shout/transform.toml", &manifest.replace("[\"python3\", \"shout.py\"]", &entry));
    let pipeline = pipeline.replace("[settings]", "[settings]\ncheckpointEvery = \"20ms\"\nbatchRows = 256\nparallelism = 2");
    write(here, "pipeline.toml", &pipeline.replace("sink = \"stdout\"", "sink = \"files\"\npath = \"out\"\nformat = \"json\""));
    let words: String = (0..ROWS).map(|n| format!("{{\"id\":{n},\"n\":{n},\"t\":\"word\"}}\n")).collect();
    write(here, "words.json", &words);

    tidegate_tests::killed_at(&here.join("pipeline.toml"), "after-manifest:2", &[]);
    assert!(here.join("once").exists(), "a container has died");
    // Those that the engine leaves find the end of their input.
    let from = SystemClock.monotonic();
    while left(here) > 0 {
        assert!(SystemClock.monotonic() < from + Duration::from_secs(20), "{} are left", left(here));
        std::thread::yield_now();
    }
    let output = tidegate(here, &["run", "pipeline.toml"]);
    assert!(output.status.success(), "{}", said(&output));
    assert_eq!(left(here), 0);
    let parts = fs::read_dir(here.join("out")).unwrap().map(|entry| entry.unwrap().path()).filter(|path| path.is_file());
    let mut made: Vec<u64> = Vec::new();
    for line in parts.flat_map(|part| fs::read_to_string(part).unwrap().lines().map(str::to_string).collect::<Vec<_>>()) {
        let row: serde_json::Value = serde_json::from_str(&line).unwrap();
        assert_eq!(row["twice"].as_u64(), row["id"].as_u64().map(|id| id * 2), "{line}");
        made.push(row["id"].as_u64().unwrap());
    }
    made.sort_unstable();
    assert!(made == (0..ROWS).filter(|id| *id != 13).collect::<Vec<_>>(), "{} rows", made.len());
}

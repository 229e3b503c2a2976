//! What was released stays: the border's text, and components that were built against it.

#![allow(clippy::unwrap_used, reason = "a test may end by panicking")]

use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use std::fmt::Write;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;
use tidegate_tests::{command, copy_tree, root};

/// The released versions, each with the digest over its files' names and contents. A line is added with a release and never changed.
const RELEASED: &[(&str, &str)] = &[("0.1.0", "ada34879a6dbb6f1a3b6008c5dedb0567ebc024428b654682e1ac35f6c4168c7")];

fn files(folder: &Path) -> BTreeMap<String, String> {
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).filter(|path| path.is_file());
    entries.map(|path| (path.file_name().unwrap().to_string_lossy().into_owned(), fs::read_to_string(&path).unwrap())).collect()
}

fn digest(files: &BTreeMap<String, String>) -> String {
    let mut digest = Sha256::new();
    for (name, text) in files {
        digest.update(format!("{name}\0{}\0{text}", text.len()));
    }
    digest.finalize().iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

#[test]
fn released_interfaces_do_not_change() {
    let wit = root().join("wit");
    let mut folders: Vec<String> =
        fs::read_dir(wit.join("released")).unwrap().map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned()).collect();
    folders.sort();
    assert_eq!(folders, RELEASED.iter().map(|(version, _)| version.to_string()).collect::<Vec<_>>());
    for (version, expected) in RELEASED {
        let files = files(&wit.join("released").join(version));
        assert!(files["package.wit"].contains(&format!("package tidegate:plugin@{version};")));
        let message = "is released and was changed: take the change back; a new version is a new folder beside it";
        assert_eq!(digest(&files), *expected, "`wit/released/{version}` {message}");
    }
    // A byte is enough to be found.
    let mut changed = files(&wit.join("released/0.1.0"));
    changed.get_mut("sink.wit").unwrap().push(' ');
    assert_ne!(digest(&changed), RELEASED[0].1);
}

#[test]
fn what_guests_are_built_against_is_the_newest_release() {
    let current = files(&root().join("wit"));
    let (version, _) = RELEASED.last().unwrap();
    if current["package.wit"].contains(&format!("package tidegate:plugin@{version};")) {
        assert_eq!(current, files(&root().join("wit/released").join(version)), "`wit` says that it is the released {version}");
    }
}

/// Every component that was built against a released interface still loads, runs, and earns what it claims.
#[test]
fn components_of_every_release_pass_the_kit() {
    for (version, _) in RELEASED {
        let fixtures = root().join("tests/fixtures/plugins").join(version);
        let mut judged = 0;
        for folder in fs::read_dir(&fixtures).unwrap().map(|entry| entry.unwrap().path()).filter(|path| path.is_dir()) {
            let name = folder.file_name().unwrap().to_string_lossy().into_owned();
            // The kit's commands make files beside the table.
            let scratch = tempfile::tempdir().unwrap();
            copy_tree(&folder, scratch.path());
            let component = scratch.path().join(format!("{name}.wasm"));
            let inspected = Command::new(command()).args(["plugin", "inspect"]).arg(&component).output().unwrap();
            let said = String::from_utf8_lossy(&inspected.stdout);
            assert!(said.contains(&format!("tidegate:plugin@{version}")), "{name}: {said}");
            let answer = Command::new(command()).args(["plugin", "test", "--json", "--calls", "2000"]).arg(&component).output().unwrap();
            let report: serde_json::Value = serde_json::from_slice(&answer.stdout).unwrap_or_default();
            let words = || format!("{version}, {name}: {report:#}{}", String::from_utf8_lossy(&answer.stderr));
            assert!(answer.status.success() && report["passed"] == true, "{}", words());
            assert!(report["earned"].is_string() && report["earned"] == report["claimed"], "{}", words());
            judged += 1;
        }
        assert!(judged >= 4, "a source, a transform on rows and on columns, a sink: {judged}");
    }
}

/// The programs that stand for a plugin's outside run in groups of their own: the kit takes them along when it is told to end.
#[test]
fn a_kit_that_is_told_to_end_leaves_nothing_running() {
    let scratch = tempfile::tempdir().unwrap();
    copy_tree(&root().join("tests/fixtures/plugins/0.1.0/mask-pii"), scratch.path());
    let table = scratch.path().join("outside.toml");
    let service = "sleep 600 & echo $! > number; mv number child; echo '{}'; sleep 600";
    let judged = fs::read_to_string(scratch.path().join("plugin.toml")).unwrap();
    fs::write(&table, format!("{judged}\nservice = {service:?}\n")).unwrap();
    let mut kit = Command::new(command());
    kit.args(["plugin", "test", "--calls", "100000000"]).arg(scratch.path().join("mask-pii.wasm")).arg("--plugin-toml").arg(&table);
    let mut kit = kit.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let child = wait_for(|| fs::read_to_string(scratch.path().join("child")).ok()).trim().to_string();
    assert!(Command::new("kill").args(["-TERM", &kit.id().to_string()]).status().unwrap().success());
    let status = kit.wait().unwrap();
    assert_eq!(status.code(), Some(128 + 15), "{status}");
    let stat = || fs::read_to_string(format!("/proc/{child}/stat"));
    wait_for(|| stat().map_or(true, |stat| stat.contains(") Z ")).then_some(()));
}

/// Looks for up to a minute.
#[allow(clippy::disallowed_methods, reason = "another process has its own clock")]
fn wait_for<T>(look: impl Fn() -> Option<T>) -> T {
    for _ in 0..1200 {
        if let Some(found) = look() {
            return found;
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    panic!("waited for a minute")
}

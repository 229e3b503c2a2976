//! What the end-to-end tests share: the built command, scratch folders, and the data they run on.

pub mod flights;
pub mod places;
pub mod process;

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The repository's root.
pub fn root() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.parent().unwrap_or(here).to_path_buf()
}

/// The built command of the profile that the tests run under.
///
/// # Panics
/// If it has not been built; `cargo xtask test` builds it first.
pub fn command() -> PathBuf {
    let test = std::env::current_exe().expect("a test runs from a file");
    let profile = test.parent().and_then(Path::parent).expect("tests run from target/<profile>/deps");
    let command = profile.join("tidegate");
    assert!(command.exists(), "`{}` is missing; run `cargo build --bin tidegate`, or the whole of `cargo xtask test`", command.display());
    command
}

/// A built first-party plugin.
///
/// # Panics
/// If it has not been built; `cargo xtask guests` builds it.
pub fn plugin(name: &str) -> PathBuf {
    let path = root().join("plugins/target/components").join(format!("{name}.wasm"));
    assert!(path.exists(), "`{}` is missing; run `cargo xtask guests`", path.display());
    path
}

/// A built guest of the tests.
///
/// # Panics
/// If it has not been built; `cargo xtask guests` builds it.
pub fn guest(name: &str) -> PathBuf {
    let path = root().join("tests/guests/target/components").join(format!("{name}.wasm"));
    assert!(path.exists(), "`{}` is missing; run `cargo xtask guests`", path.display());
    path
}

/// The folder of large data beside the repository, if this machine has it.
pub fn shared() -> Option<PathBuf> {
    let shared = root().parent()?.join("shared");
    shared.join("data").exists().then_some(shared)
}

/// Copies everything below one folder into another, which is made if it is not there.
///
/// # Panics
/// If something cannot be read or written.
pub fn copy_tree(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).expect("a folder of the test's own can be made");
    for entry in std::fs::read_dir(from).unwrap_or_else(|error| panic!("`{}` cannot be read: {error}", from.display())) {
        let entry = entry.expect("a folder can be listed");
        let (path, target) = (entry.path(), to.join(entry.file_name()));
        if path.is_dir() {
            copy_tree(&path, &target);
        } else {
            std::fs::copy(&path, &target).unwrap_or_else(|error| panic!("`{}` cannot be copied: {error}", path.display()));
        }
    }
}

/// Runs a pipeline file until it stands still at a point of the protocol (`POINT:N`, its `N`-th passing), kills it there, and answers what it had
/// written to stdout.
///
/// # Panics
/// If it ends before it comes there.
pub fn killed_at(file: &Path, point: &str, variables: &[(&str, String)]) -> String {
    let rows = tempfile::NamedTempFile::new().expect("a temporary file can be made");
    let stdout = rows.reopen().expect("a temporary file can be opened");
    let mut command = Command::new(command());
    command.arg("run").arg(file).args(["--takeover", "--pause-at", point]).envs(variables.iter().map(|(name, value)| (*name, value)));
    let mut child = command.stdout(stdout).stderr(Stdio::piped()).spawn().expect("the command starts");
    let mut said = BufReader::new(child.stderr.take().expect("its stderr is a pipe"));
    let (mut all, mut line) = (String::new(), String::new());
    loop {
        line.clear();
        let read = said.read_line(&mut line).expect("its stderr is text");
        assert!(read > 0, "it never came to `{point}`: {all}");
        if line.contains("paused at") {
            break;
        }
        all.push_str(&line);
    }
    child.kill().expect("it runs");
    child.wait().expect("it ends");
    std::fs::read_to_string(rows.path()).expect("rows are text")
}

//! What the end-to-end tests share: the built command, scratch folders, and the data they run on.

use std::path::{Path, PathBuf};

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

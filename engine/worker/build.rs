//! Puts what `tidegate plugin new` unpacks into the binary: the SDK, the WIT package and the templates, as they are in this repository.

use std::env;
use std::error::Error;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

/// What is taken, from the repository's root, and what it is called in the binary.
const TREES: &[(&str, &str)] = &[
    ("LICENSE", "sdk/LICENSE"),
    ("sdk/rust/Cargo.toml", "sdk/Cargo.toml"),
    ("sdk/rust/README.md", "sdk/README.md"),
    ("sdk/rust/src", "sdk/src"),
    ("sdk/rust/examples", "sdk/examples"),
    ("sdk/templates", "templates"),
    ("wit", "wit"),
];

fn main() -> Result<(), Box<dyn Error>> {
    let root = PathBuf::from(env::var("CARGO_MANIFEST_DIR")?).join("../..").canonicalize()?;
    let mut files = Vec::new();
    for (from, to) in TREES {
        println!("cargo::rerun-if-changed={}", root.join(from).display());
        collect(&root.join(from), to, &mut files)?;
    }
    files.sort();
    let mut code = String::from("&[\n");
    for (name, path) in files {
        writeln!(code, "    ({name:?}, include_str!({:?})),", path.display().to_string())?;
    }
    code.push(']');
    fs::write(PathBuf::from(env::var("OUT_DIR")?).join("embedded.rs"), code)?;
    Ok(())
}

/// The files at or below a path, with their names in the binary; what was built there is none of it.
fn collect(path: &Path, name: &str, files: &mut Vec<(String, PathBuf)>) -> Result<(), Box<dyn Error>> {
    if path.is_file() {
        files.push((name.to_owned(), path.to_owned()));
        return Ok(());
    }
    for entry in fs::read_dir(path)? {
        let entry = entry?;
        let file = entry.file_name().to_string_lossy().into_owned();
        // An author builds against the current interface; the released ones are for this repository's tests.
        if file != "target" && file != "released" {
            collect(&entry.path(), &format!("{name}/{file}"), files)?;
        }
    }
    Ok(())
}

//! The dependency arrows of the architecture, read from cargo.

#![allow(clippy::unwrap_used, reason = "a test may end by panicking")]

use serde_json::Value;
use std::collections::BTreeSet;
use std::process::Command;

/// Who may depend on whom inside the workspace, apart from tests.
const ALLOWED: &[(&str, &[&str])] = &[
    ("tidegate-api", &[]),
    ("tidegate-objects", &["tidegate-api"]),
    ("tidegate-epochs", &["tidegate-api", "tidegate-objects"]),
    ("tidegate-runtime", &["tidegate-api", "tidegate-epochs"]),
    ("tidegate-dialect", &["tidegate-api"]),
    ("tidegate-operators", &["tidegate-api", "tidegate-dialect"]),
    ("tidegate-host", &["tidegate-api"]),
    ("tidegate-connectors", &["tidegate-api", "tidegate-objects"]),
    ("tidegate-guests", &[]),
    (
        "tidegate",
        &[
            "tidegate-api",
            "tidegate-conformance",
            "tidegate-connectors",
            "tidegate-dialect",
            "tidegate-epochs",
            "tidegate-guests",
            "tidegate-host",
            "tidegate-operators",
            "tidegate-runtime",
        ],
    ),
    ("tidegate-conformance", &["tidegate-api", "tidegate-host"]),
    ("tidegate-fuzz", &["tidegate-api", "tidegate-connectors", "tidegate-dialect", "tidegate-host"]),
    ("tidegate-tests", &["tidegate"]),
    ("xtask", &["tidegate-guests"]),
];

/// The one home of each heavy library, by the prefix of its crates' names.
const HOMES: &[(&str, &[&str])] = &[
    ("datafusion", &["tidegate-dialect", "tidegate-operators"]),
    ("wasmtime", &["tidegate-host"]),
    ("rdkafka", &["tidegate-connectors"]),
    ("object_store", &["tidegate-epochs", "tidegate-objects"]),
    ("parquet", &["tidegate-connectors"]),
    ("crossbeam-channel", &["tidegate-runtime"]),
];

/// What cargo says about the packages of a workspace.
fn packages_of(manifest: &str) -> Vec<Value> {
    let manifest = tidegate_tests::root().join(manifest);
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    let output = cargo.args(["metadata", "--no-deps", "--format-version=1", "--manifest-path"]).arg(manifest).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let metadata: Value = serde_json::from_slice(&output.stdout).unwrap();
    metadata["packages"].as_array().unwrap().clone()
}

fn name(package: &Value) -> &str {
    package["name"].as_str().unwrap()
}

/// What a package depends on outside its tests.
fn dependencies(package: &Value) -> BTreeSet<&str> {
    let all = package["dependencies"].as_array().unwrap().iter();
    all.filter(|dependency| dependency["kind"] != "dev").map(name).collect()
}

#[test]
fn the_crates_depend_on_each_other_as_the_architecture_says() {
    let packages = packages_of("Cargo.toml");
    let ours: BTreeSet<&str> = packages.iter().map(name).collect();
    let known: BTreeSet<&str> = ALLOWED.iter().map(|(name, _)| *name).collect();
    assert_eq!(ours, known, "a crate came or went: give it its place here and in ARCHITECTURE.md");
    for (crate_name, allowed) in ALLOWED {
        let package = packages.iter().find(|package| name(package) == *crate_name).unwrap();
        for dependency in dependencies(package).intersection(&ours) {
            assert!(allowed.contains(dependency), "`{crate_name}` must not depend on `{dependency}`");
        }
    }
}

#[test]
fn heavy_libraries_stay_in_their_homes() {
    for package in packages_of("Cargo.toml") {
        for (prefix, homes) in HOMES {
            let found = dependencies(&package).into_iter().find(|name| name.starts_with(prefix));
            let at_home = homes.contains(&name(&package));
            assert!(found.is_none() || at_home, "`{}` depends on `{}`, whose home is {homes:?}", name(&package), found.unwrap_or_default());
        }
    }
}

#[test]
fn guests_never_see_the_engine() {
    for manifest in ["sdk/rust/Cargo.toml", "plugins/Cargo.toml"] {
        for package in packages_of(manifest) {
            for dependency in package["dependencies"].as_array().unwrap() {
                let path = dependency["path"].as_str().unwrap_or_default();
                assert!(!path.contains("/engine/"), "`{}` depends on the engine's `{}`", name(&package), name(dependency));
            }
        }
    }
}

#[test]
fn versions_stand_in_one_table() {
    for package in packages_of("Cargo.toml") {
        let text = std::fs::read_to_string(package["manifest_path"].as_str().unwrap()).unwrap();
        let own = text.lines().find(|line| line.contains("version = \"") && !line.starts_with("version"));
        assert!(own.is_none(), "`{}` names a version of its own: {}", name(&package), own.unwrap_or_default());
    }
}

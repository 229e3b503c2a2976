//! `docs/security.md` names tests, and they exist.

#![allow(clippy::unwrap_used, reason = "a test may end by panicking")]

use std::path::{Path, PathBuf};

/// All that is written in the sources and tests of this crate.
fn sources(folder: PathBuf) -> String {
    let mut text = String::new();
    for path in std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
        if path.is_dir() {
            text += &sources(path);
        } else if path.extension().is_some_and(|ending| ending == "rs") {
            text += &std::fs::read_to_string(path).unwrap();
        }
    }
    text
}

#[test]
fn every_claim_about_security_names_tests_that_exist() {
    let crate_root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let page = std::fs::read_to_string(crate_root.join("../../docs/security.md")).unwrap();
    let sources = sources(crate_root.join("src")) + &sources(crate_root.join("tests"));
    let claims: Vec<&str> = page.lines().filter(|line| line.starts_with("| ") && !line.starts_with("| claim ")).collect();
    assert!(claims.len() > 30, "{claims:#?}");
    for claim in claims {
        let tests: Vec<&str> = claim.trim_matches('|').rsplit(" | ").next().unwrap().split('`').skip(1).step_by(2).collect();
        assert!(!tests.is_empty(), "no test: {claim}");
        for test in tests {
            assert!(sources.contains(&format!("fn {test}(")), "`{test}` does not exist: {claim}");
        }
    }
}

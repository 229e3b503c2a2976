//! `docs/cases.md` names tests that exist and that name the case.

#![allow(clippy::unwrap_used, reason = "a test may end by panicking")]

use std::collections::BTreeSet;
use tidegate_tests::{root, shared};

/// The lines of a document's tables whose first cell is one or more cases, as cells.
fn cases(document: &str) -> Vec<(Vec<String>, Vec<String>)> {
    let is_case = |name: &str| name.len() == 4 && name.starts_with('P') && name[1..].bytes().all(|byte| byte.is_ascii_digit());
    let mut cases = Vec::new();
    for line in document.lines().filter(|line| line.starts_with('|')) {
        let cells: Vec<String> = line.trim_matches('|').split(" | ").map(|cell| cell.trim().to_string()).collect();
        let names: Vec<String> = cells[0].split(", ").map(str::to_string).collect();
        if names.iter().all(|name| is_case(name)) {
            cases.push((names, cells));
        }
    }
    cases
}

#[test]
fn every_test_that_is_named_exists_and_names_its_case() {
    let document = std::fs::read_to_string(root().join("docs/cases.md")).unwrap();
    let cases = cases(&document);
    assert!(cases.len() > 60, "{} cases", cases.len());
    let mut wrong = Vec::new();
    for (names, cells) in &cases {
        let told = cells.last().unwrap();
        let applies = !told.starts_with("does not apply");
        let paths: Vec<&str> = told.split('`').skip(1).step_by(2).filter(|path| path.contains('/')).collect();
        if applies && paths.is_empty() {
            wrong.push(format!("{names:?} names no test"));
        }
        for path in paths {
            match std::fs::read_to_string(root().join(path)) {
                Err(error) => wrong.push(format!("{names:?}: `{path}`: {error}")),
                Ok(text) if applies => {
                    let text = text.to_lowercase();
                    let missing = names.iter().filter(|name| !text.contains(&name.to_lowercase()));
                    wrong.extend(missing.map(|name| format!("`{path}` does not say {name}")));
                }
                Ok(_) => {}
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// The sections of the collection that are complete here.
const COMPLETE: [&str; 8] = ["(b)", "(c)", "(d)", "(e)", "(f)", "(g)", "(h)", "(i)"];

#[test]
fn every_case_of_time_joins_aggregates_and_state_is_listed() {
    let Some(shared) = shared() else {
        eprintln!("the collection is not on this machine");
        return;
    };
    let document = std::fs::read_to_string(root().join("docs/cases.md")).unwrap();
    let listed: BTreeSet<String> = cases(&document).into_iter().flat_map(|(names, _)| names).collect();
    let collection = std::fs::read_to_string(shared.join("cases/public-reports.md")).unwrap();
    let mut looked_at = 0;
    for section in collection.split("\n## ").filter(|section| COMPLETE.iter().any(|letter| section.starts_with(letter))) {
        for (names, _) in cases(section) {
            assert!(listed.contains(&names[0]), "{} is missing in docs/cases.md", names[0]);
            looked_at += 1;
        }
    }
    assert!(looked_at > 50, "{looked_at} cases");
}

/// Every line of the failure table names tests, and all of them exist.
#[test]
fn every_failure_of_an_epoch_has_its_tests() {
    let page = std::fs::read_to_string(root().join("docs/design/0001-epochs.md")).unwrap();
    let (_, table) = page.split_once("| what | who notices | what happens | tests |").unwrap();
    let (mut sources, mut folders) = (String::new(), vec![root().join("engine"), root().join("tests/tests")]);
    while let Some(folder) = folders.pop() {
        for path in std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|ending| ending == "rs") {
                sources += &std::fs::read_to_string(path).unwrap();
            }
        }
    }
    let lines: Vec<&str> = table.lines().skip(2).take_while(|line| line.starts_with('|')).collect();
    assert!(lines.len() > 20, "{lines:#?}");
    for line in lines {
        let last = line.trim_matches('|').rsplit(" | ").next().unwrap();
        let tests: Vec<&str> = last.split('`').skip(1).step_by(2).collect();
        assert!(!tests.is_empty(), "no test: {line}");
        for test in tests {
            assert!(sources.contains(&format!("fn {test}(")), "`{test}` does not exist: {line}");
        }
    }
}

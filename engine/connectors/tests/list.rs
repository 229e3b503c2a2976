//! The list of connectors, its page, and what it says about unknown names.

use serde_json::{Map, json};
use std::path::PathBuf;
use tidegate_connectors::{CONNECTORS, ConnectorCtx, page, sink, source};

fn page_path() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../docs/connectors.md")
}

fn context() -> ConnectorCtx {
    ConnectorCtx::new(".", "events")
}

#[test]
fn the_page_is_what_the_list_says() {
    let page = std::fs::read_to_string(page_path()).unwrap();
    assert!(page == page::markdown(), "run `cargo test -p tidegate-connectors -- --ignored write_the_page`");
}

#[test]
#[ignore = "writes docs/connectors.md"]
fn write_the_page() {
    std::fs::write(page_path(), page::markdown()).unwrap();
}

#[test]
fn unknown_connectors_name_the_nearest() {
    let problems = source("nexmrk", &Map::new(), &context()).err().unwrap();
    assert_eq!(problems[0].message, "unknown connector `nexmrk`, did you mean `nexmark`?");
    let problems = sink("stdot", &Map::new(), &context()).err().unwrap();
    assert_eq!(problems[0].message, "unknown connector `stdot`, did you mean `stdout`?");
    let problems = source("stdout", &Map::new(), &context()).err().unwrap();
    assert_eq!(problems[0].message, "`stdout` cannot be read, it only writes");
}

#[test]
fn every_documented_option_is_known_and_every_other_is_not() {
    for connector in CONNECTORS {
        let halves =
            [(connector.source.as_ref().map(|half| half.options), true), (connector.sink.as_ref().map(|half| half.options), false)];
        for (options, reads) in halves.into_iter().filter_map(|(options, reads)| Some((options?, reads))) {
            for option in options.iter().map(|option| option.name).chain(["noSuchOption"]) {
                let map = json!({ option: [] }).as_object().unwrap().clone();
                let problems =
                    if reads { source(connector.name, &map, &context()).err() } else { sink(connector.name, &map, &context()).err() };
                let unknown = problems.unwrap_or_default().iter().any(|problem| problem.message.contains("unknown key"));
                assert_eq!(unknown, option == "noSuchOption", "{} {option}", connector.name);
            }
        }
    }
}

//! `docs/steps.md` is what `STEPS` says, and its examples are read.

#![allow(clippy::unwrap_used, reason = "a test may end by panicking")]

use serde_json::Value;
use std::fmt::Write as _;
use std::path::Path;
use tidegate_operators::{STEPS, parse_step};

const HEAD: &str = "# Steps\n\n<!-- Rendered from STEPS of engine/operators; the test `document` compares, and writes a fresh copy when they differ. -->\n\n\
A stage's `steps` run in order. The steps below are native; `wasm` steps are described in `plugins/README.md`, `wasm` and `container` steps with `ref` in `transforms.md`, expressions in `dialect.md`.\n\
A key that ends with `?` in the second column may be left out. A key that is not listed is refused, with the nearest one that is.\n\n\
Row-wise steps keep the order of rows and count: rows in = rows out + filtered + bad. Stateful steps: rows in = absorbed + filtered + late + bad.\n";

const TAIL: &str = include_str!("windows.md");

fn rendered() -> String {
    let mut text = HEAD.to_string();
    for info in STEPS {
        writeln!(text, "\n## `{}`\n\n{}\n\n| key | takes | meaning |\n|---|---|---|", info.op, info.summary).unwrap();
        for key in info.keys {
            writeln!(text, "| `{}` | {} | {} |", key.name, key.takes, key.text).unwrap();
        }
        writeln!(text, "\nOutput: {}.\n\n```toml\n{}\n```", info.output, info.example).unwrap();
    }
    text + TAIL
}

#[test]
fn the_document_says_what_the_steps_say() {
    let document = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/steps.md");
    let fresh = Path::new(env!("CARGO_TARGET_TMPDIR")).join("steps.md");
    if std::fs::read_to_string(&document).unwrap_or_default() != rendered() {
        std::fs::write(&fresh, rendered()).unwrap();
        panic!("docs/steps.md is out of date; copy {} over it", fresh.display());
    }
}

#[test]
fn every_example_is_read_and_knows_every_key_it_uses() {
    for info in STEPS {
        let file: toml::Table = format!("step = {}", info.example).parse().unwrap();
        let step: Value = serde_json::to_value(&file["step"]).unwrap();
        let def = parse_step(&step).unwrap_or_else(|problems| panic!("{}: {problems:?}", info.op));
        assert_eq!(def.op(), info.op);
        for key in step.as_object().unwrap().keys().filter(|key| *key != "op") {
            assert!(info.keys.iter().any(|known| known.name == key), "`{key}` of `{}` is not documented", info.op);
        }
    }
}

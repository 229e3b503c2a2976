//! The examples of `STEPS`, which `docs/steps.md` shows, are read.

#![allow(clippy::unwrap_used, reason = "a test may end by panicking")]

use serde_json::Value;
use tidegate_operators::{STEPS, parse_step};

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

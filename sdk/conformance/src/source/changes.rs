//! Rows that replace each other.

use super::Bench;
use crate::rules::Rule;
use crate::verdict::{Verdict, cut, row_texts};
use std::collections::BTreeMap;
use tidegate_api::ChangeMode;

/// Whether a key's rows all come from one split: splits are read beside each other, so nothing else keeps a key's rows in order.
pub(super) fn keys_apart(bench: &Bench<'_>) -> Verdict {
    let rule = Rule::KeysApart;
    let ChangeMode::Upsert { keys } = &bench.mode else { return Ok(()) };
    let mut homes = BTreeMap::new();
    for (split, read) in &bench.whole {
        let schema = read.rows.schema();
        let places: Result<Vec<usize>, _> = keys.iter().map(|key| schema.index_of(key)).collect();
        let rows = places.and_then(|places| read.rows.project(&places)).map_err(|error| bench.record.convict(rule, error.to_string()))?;
        for key in row_texts(&rows) {
            let shown = cut(&key);
            let home = homes.entry(key).or_insert(split);
            bench.record.hold(rule, *home == split, || format!("rows of the key `{shown}` come from the splits `{home}` and `{split}`"))?;
        }
    }
    Ok(())
}

//! Plugins that are other builds than those a manifest was written under. Positions and tokens of one version must be read by the next, so
//! another build by itself is only announced; one that plans otherwise is refused (P177).

use crate::manifest::Manifest;
use crate::recovery::JobShape;
use std::collections::BTreeMap;

/// Announces plugins of another digest. Answers how their plans differ from what the manifest remembers, each with what to do.
pub(crate) fn differences(manifest: &Manifest, shape: &JobShape) -> Vec<String> {
    let mut swapped = Vec::new();
    for (name, digest) in &shape.plugins {
        if let Some(older) = manifest.plugins.get(name).filter(|older| *older != digest) {
            tracing::warn!(
                plugin = name,
                was = older,
                is = digest,
                "this plugin is another build than the one that the epochs were written with"
            );
            swapped.push(format!("`{name}`"));
        }
    }
    if swapped.is_empty() {
        return Vec::new();
    }
    let swapped = swapped.join(", ");
    let remedy = "go on with the earlier build, or start over with `--fresh`";
    let mut problems = Vec::new();
    for (name, now) in &shape.sources {
        let Some(entry) = manifest.sources.get(name) else { continue };
        let (was, now) = (columns(&entry.schema), columns(now));
        for (column, older) in was {
            if let Some(newer) = now.get(column).filter(|newer| **newer != older) {
                problems.push(format!(
                    "source `{name}` gave column `{column}` as {older} and gives it as {newer} now; another build is there of {swapped}: {remedy}"
                ));
            }
        }
    }
    for (name, now) in &shape.sinks {
        if manifest.sinks.get(name).is_some_and(|older| older.two_phase) && !now.two_phase {
            problems.push(format!("sink `{name}` was exactly-once and is not any more; another build is there of {swapped}: {remedy}"));
        }
    }
    problems
}

/// The types of the columns in a text `a: Int64, b: Timestamp(ms, "UTC")`: a comma within brackets or quotes ends no column.
fn columns(schema: &str) -> BTreeMap<&str, &str> {
    let mut columns = BTreeMap::new();
    let (mut depth, mut quoted, mut from) = (0_usize, false, 0);
    for (at, byte) in schema.bytes().enumerate().chain([(schema.len(), b',')]) {
        match byte {
            b'"' => quoted = !quoted,
            _ if quoted => {}
            b'(' | b'[' | b'{' | b'<' => depth += 1,
            b')' | b']' | b'}' | b'>' => depth = depth.saturating_sub(1),
            b',' if depth == 0 || at == schema.len() => {
                columns.extend(schema[from..at].trim().split_once(": "));
                from = at + 1;
            }
            _ => {}
        }
    }
    columns
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_schema_is_taken_apart_at_its_own_commas() {
        let schema = r#"n: Int64, t: Timestamp(ms, "U, T: C"), s: Struct("a": Int64, "b": Utf8), l: List(Int64)"#;
        let columns = columns(schema);
        assert_eq!(columns.len(), 4);
        assert_eq!(columns["t"], r#"Timestamp(ms, "U, T: C")"#);
        assert_eq!(columns["s"], r#"Struct("a": Int64, "b": Utf8)"#);
        assert_eq!(super::columns("").len(), 0);
    }
}

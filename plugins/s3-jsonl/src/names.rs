//! The names of objects.
//!
//! `<prefix><operator>.<run>.g<generation>.t<task>.<mark>.jsonl`. The mark is of the upload alone: a random number of the writer and the count of its uploads, so no name is used
//! twice, by a writer that was opened again after a trap either. It is kept as metadata of the object, so that nobody else's can be taken for it. Every part between the
//! dots is escaped and has neither dot nor slash, and a prefix is empty or ends with a slash: names of different sinks never begin alike.

use crate::config::Config;
use std::hash::{BuildHasher, RandomState};
use tidegate_sdk::Scope;

/// What the names of all objects of a run's operator begin with.
pub(crate) fn beginning(config: &Config, scope: &Scope) -> String {
    format!("{}{}.{}.g", config.prefix, escaped(&scope.operator), escaped(&scope.run_id))
}

/// The name of an upload's object.
pub(crate) fn key(config: &Config, scope: &Scope, mark: &str) -> String {
    format!("{}{}.t{}.{mark}.jsonl", beginning(config, scope), scope.generation, scope.index)
}

/// A mark that no other writer has.
pub(crate) fn mark(writer: u64, upload: u64) -> String {
    format!("{writer:016x}-{upload}")
}

/// A number that no other writer has. It only keeps names apart, so what seeds hash maps is good enough.
pub(crate) fn writer() -> u64 {
    RandomState::new().hash_one("writer")
}

/// The generation in a name behind its [`beginning`]; `None` for what is not ours.
pub(crate) fn generation(behind: &str) -> Option<u64> {
    let mut parts = behind.strip_suffix(".jsonl")?.split('.');
    let generation = parts.next()?.parse().ok()?;
    parts.next()?.strip_prefix('t')?.parse::<u32>().ok()?;
    let (writer, upload) = parts.next()?.split_once('-')?;
    let ours = writer.len() == 16 && u64::from_str_radix(writer, 16).is_ok() && upload.parse::<u64>().is_ok();
    (ours && parts.next().is_none()).then_some(generation)
}

/// A name made fit: letters, digits, `-` and `_` stay, anything else is `%` and two hexadecimal digits per byte. Different names stay different.
fn escaped(name: &str) -> String {
    let mut text = String::with_capacity(name.len());
    for byte in name.bytes() {
        if byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_' {
            text.push(char::from(byte));
        } else {
            text.push_str(&format!("%{byte:02x}"));
        }
    }
    if text.is_empty() { "%".into() } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_back_and_those_of_others_are_not() {
        let config: Config = tidegate_sdk::parse_config(r#"{"bucket": "b", "prefix": "a/b/"}"#).unwrap();
        let scope = Scope { generation: 7, index: 3, operator: "o.p".into(), ..tidegate_sdk::testing::scope("{}") };
        let key = key(&config, &scope, &mark(255, 4));
        assert_eq!(key, "a/b/o%2ep.run.g7.t3.00000000000000ff-4.jsonl");
        assert_eq!(generation(key.strip_prefix(&beginning(&config, &scope)).unwrap()), Some(7));
        for foreign in ["7.t3.jsonl", "7.t3.00ff-4.jsonl", "x.t0.00000000000000ff-4.jsonl", "7.t3.00000000000000ff-4.jsonl.bak", ""] {
            assert_eq!(generation(foreign), None, "{foreign}");
        }
        assert_ne!(writer(), writer());
    }
}

//! The commit token: two names relative to the directory, and how long the file must be. JSON, so that a person can read a manifest.

use serde::{Deserialize, Serialize};
use std::path::{Component, Path};
use tidegate_sdk::{Error, Result, Token};

/// A prepared file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Prepared {
    /// The version of this form.
    version: u32,
    /// Where it stands, relative to the directory.
    pub(crate) staged: String,
    /// What it becomes, relative to the directory.
    pub(crate) part: String,
    /// Its rows.
    pub(crate) rows: u64,
    /// Its length.
    pub(crate) bytes: u64,
}

impl Prepared {
    pub(crate) fn new(staged: String, part: String, rows: u64, bytes: u64) -> Self {
        Prepared { version: 1, staged, part, rows, bytes }
    }

    pub(crate) fn encode(&self) -> Token {
        serde_json::to_vec(self).expect("names and numbers have a JSON form")
    }

    /// Reads a token. It comes from a manifest, but names that would leave the directory are refused all the same.
    pub(crate) fn decode(token: &[u8]) -> Result<Self> {
        let wrong = |why: &dyn std::fmt::Display| {
            Error::fatal(format!("the commit token `{}` is none of this sink's: {why}", token.escape_ascii()))
        };
        let prepared: Prepared = serde_json::from_slice(token).map_err(|error| wrong(&error))?;
        if prepared.version != 1 {
            return Err(wrong(&format!("version {} is not known", prepared.version)));
        }
        for name in [&prepared.staged, &prepared.part] {
            if name.is_empty() || !Path::new(name).components().all(|part| matches!(part, Component::Normal(_))) {
                return Err(wrong(&format!("`{name}` leaves the directory")));
            }
        }
        Ok(prepared)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_read_back_and_a_foreign_one_is_refused() {
        let token = Prepared::new(".tidegate-jsonl/r/o/g1.e1.t0.jsonl".into(), "o.r.g1.e1.t0.jsonl".into(), 2, 40);
        assert_eq!(Prepared::decode(&token.encode()), Ok(token.clone()));
        assert!(Prepared::decode(b"{}").is_err());
        for name in ["/etc/passwd", "../x", "a/../../x", ""] {
            let bad = Prepared { part: name.into(), ..token.clone() };
            assert!(Prepared::decode(&bad.encode()).unwrap_err().to_string().contains("leaves the directory"), "{name}");
        }
        let newer = Prepared { version: 2, ..token };
        assert!(Prepared::decode(&newer.encode()).unwrap_err().to_string().contains("version 2 is not known"));
    }
}

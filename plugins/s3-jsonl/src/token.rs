//! The commit token: an upload that has all its parts. JSON, so that a person can read a manifest; no key of the bucket is in it.

use serde::{Deserialize, Serialize};
use tidegate_sdk::{Error, Result, Token};

/// A prepared upload.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Prepared {
    /// The version of this form.
    version: u32,
    /// The object's name.
    pub(crate) key: String,
    /// The upload.
    pub(crate) upload_id: String,
    /// The object's mark.
    pub(crate) mark: String,
    /// The entity tags of its parts, in order.
    pub(crate) parts: Vec<String>,
    /// Its rows.
    pub(crate) rows: u64,
}

impl Prepared {
    pub(crate) fn new(key: String, upload_id: String, mark: String, parts: Vec<String>, rows: u64) -> Self {
        Prepared { version: 1, key, upload_id, mark, parts, rows }
    }

    pub(crate) fn encode(&self) -> Token {
        serde_json::to_vec(self).expect("texts and numbers have a JSON form")
    }

    pub(crate) fn decode(token: &[u8]) -> Result<Self> {
        let wrong = |why: &dyn std::fmt::Display| {
            Error::fatal(format!("the commit token `{}` is none of this sink's: {why}", token.escape_ascii()))
        };
        let prepared: Prepared = serde_json::from_slice(token).map_err(|error| wrong(&error))?;
        if prepared.version != 1 {
            return Err(wrong(&format!("version {} is not known", prepared.version)));
        }
        Ok(prepared)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_read_back_and_a_foreign_one_is_refused() {
        let token = Prepared::new("k".into(), "u".into(), "m".into(), vec!["\"e\"".into()], 3);
        assert_eq!(Prepared::decode(&token.encode()), Ok(token.clone()));
        assert!(matches!(Prepared::decode(b"{}"), Err(Error::Fatal(_))));
        let newer = Prepared { version: 2, ..token };
        assert!(Prepared::decode(&newer.encode()).unwrap_err().message().contains("version 2 is not known"));
    }
}

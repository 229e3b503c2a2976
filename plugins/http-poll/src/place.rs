//! Where to read next: a page and a row of it. JSON, so that a person can read a manifest.

use serde::{Deserialize, Serialize};
use tidegate_sdk::{Error, Result};

/// A place.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Place {
    /// The page: what its cursor parameter has, or its address. None: the first one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) cursor: Option<String>,
    /// How many of its rows were handed over, bad ones too.
    pub(crate) row: u64,
    /// What the page was known by.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) tag: Option<String>,
    /// Whether these were all of them.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) done: bool,
}

impl Place {
    pub(crate) fn encode(&self) -> Vec<u8> {
        serde_json::to_vec(self).expect("texts and numbers have a JSON form")
    }

    pub(crate) fn decode(position: &[u8]) -> Result<Self> {
        serde_json::from_slice(position).map_err(|error| {
            let position = position.escape_ascii();
            Error::fatal(format!("the position `{position}` is none of this source's ({error}); was it written by another plugin?"))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_read_back_and_others_are_not() {
        let whole = Place { cursor: Some("a".into()), row: 3, tag: Some("\"x\"".into()), done: true };
        for place in [Place::default(), whole] {
            assert_eq!(Place::decode(&place.encode()), Ok(place));
        }
        assert_eq!(Place::default().encode(), br#"{"row":0}"#);
        for foreign in [&b""[..], b"7", b"{}", b"{\"row\":-1}"] {
            assert!(Place::decode(foreign).is_err());
        }
    }
}

//! Typed configuration, with mistakes a person understands.

use crate::{Error, Result, nearest};
use serde::de::DeserializeOwned;

/// Reads a configuration. Give the type `#[serde(deny_unknown_fields, rename_all = "camelCase")]`, so that a mistyped key is an error.
///
/// # Errors
/// `Config`, naming the key at fault and the nearest known one.
pub fn parse<T: DeserializeOwned>(text: &str) -> Result<T> {
    let text = if text.trim().is_empty() { "{}" } else { text };
    serde_json::from_str(text).map_err(|error| Error::Config(explain(&error.to_string())))
}

/// Rewords the deserialiser's message: no position in a text the user never wrote, and the nearest key.
fn explain(message: &str) -> String {
    let message = message.rfind(" at line ").map_or(message, |at| &message[..at]);
    let mut quoted = message.split('`').skip(1).step_by(2);
    if message.starts_with("unknown field") {
        let name = quoted.next().unwrap_or_default();
        let known: Vec<&str> = quoted.collect();
        return match nearest::hint(name, known.iter().copied()) {
            near if near.is_empty() => format!("unknown key `{name}`, known are {}", nearest::list(known.iter().copied())),
            near => format!("unknown key `{name}`{near}"),
        };
    }
    if message.starts_with("missing field") {
        return format!("key `{}` is missing", quoted.next().unwrap_or_default());
    }
    if message.starts_with("unknown variant") {
        let name = quoted.next().unwrap_or_default();
        let known: Vec<&str> = quoted.collect();
        return format!("unknown value `{name}`, one of {} is wanted", nearest::list(known.iter().copied()));
    }
    message.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde::Deserialize;

    #[derive(Debug, Deserialize)]
    #[serde(deny_unknown_fields, rename_all = "camelCase")]
    #[allow(dead_code, reason = "only its parsing matters")]
    struct Options {
        columns: Vec<String>,
        #[serde(default)]
        row_limit: u32,
        #[serde(default)]
        mode: Mode,
    }

    #[derive(Debug, Default, Deserialize)]
    #[serde(rename_all = "camelCase")]
    enum Mode {
        #[default]
        Hash,
        Redact,
    }

    fn mistake(text: &str) -> String {
        parse::<Options>(text).unwrap_err().to_string()
    }

    #[test]
    fn a_mistyped_key_names_the_nearest() {
        assert_eq!(mistake(r#"{"colums": []}"#), "unknown key `colums`, did you mean `columns`?");
        assert_eq!(mistake(r#"{"zzzzzz": []}"#), "unknown key `zzzzzz`, known are `columns`, `rowLimit`, `mode`");
    }

    #[test]
    fn a_missing_key_is_named() {
        assert_eq!(mistake("{}"), "key `columns` is missing");
        assert_eq!(mistake(""), "key `columns` is missing");
    }

    #[test]
    fn a_wrong_value_names_the_right_ones() {
        assert_eq!(mistake(r#"{"columns": [], "mode": "hush"}"#), "unknown value `hush`, one of `hash`, `redact` is wanted");
        assert_eq!(mistake(r#"{"columns": "a"}"#), "invalid type: string \"a\", expected a sequence");
    }
}

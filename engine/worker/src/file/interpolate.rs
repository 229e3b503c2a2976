//! `${VAR}`, `${VAR:-default}` and `${file:PATH}` inside string values, and the masking of what they brought.
//!
//! Only values are looked at, so a comment may say `${ANYTHING}`. `$$` is a dollar sign.

use serde_json::Value;
use std::path::Path;
use std::sync::{Arc, PoisonError, RwLock};
use tidegate_api::config::Problem;

/// Where values come from.
pub(super) struct Scope<'a> {
    /// Looks up an environment variable.
    pub(super) variable: &'a dyn Fn(&str) -> Option<String>,
    /// Where relative `${file:…}` paths start.
    pub(super) base_dir: &'a Path,
}

/// Replaces every reference below `value`, collecting mistakes and the texts that must not be shown.
pub(super) fn interpolate(value: &mut Value, scope: &Scope<'_>, path: &mut Vec<String>, problems: &mut Vec<Problem>, mask: &Mask) {
    match value {
        Value::String(text) => match expand(text, scope, mask) {
            Ok(None) => {}
            Ok(Some(expanded)) => *text = expanded,
            Err(message) => problems.push(Problem::new(path.clone(), message)),
        },
        Value::Array(items) => {
            for (index, item) in items.iter_mut().enumerate() {
                path.push(index.to_string());
                interpolate(item, scope, path, problems, mask);
                path.pop();
            }
        }
        Value::Object(map) => {
            for (key, item) in map.iter_mut() {
                path.push(key.clone());
                interpolate(item, scope, path, problems, mask);
                path.pop();
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

fn expand(text: &str, scope: &Scope<'_>, mask: &Mask) -> Result<Option<String>, String> {
    if !text.contains('$') {
        return Ok(None);
    }
    let mut expanded = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('$') {
        expanded.push_str(&rest[..at]);
        rest = &rest[at + 1..];
        if let Some(after) = rest.strip_prefix('$') {
            expanded.push('$');
            rest = after;
        } else if let Some(after) = rest.strip_prefix('{') {
            let end = after.find('}').ok_or_else(|| "`${` is never closed; write `$$` for a dollar sign".to_string())?;
            let found = resolve(&after[..end], scope)?;
            mask.hide(&found);
            expanded.push_str(&found);
            rest = &after[end + 1..];
        } else {
            expanded.push('$');
        }
    }
    expanded.push_str(rest);
    Ok(Some(expanded))
}

fn resolve(reference: &str, scope: &Scope<'_>) -> Result<String, String> {
    if let Some(file) = reference.strip_prefix("file:") {
        let file = scope.base_dir.join(file);
        let text = std::fs::read_to_string(&file).map_err(|error| format!("cannot read `{}`: {error}", file.display()))?;
        return Ok(text.strip_suffix('\n').unwrap_or(&text).to_string());
    }
    let (name, default) = match reference.split_once(":-") {
        Some((name, default)) => (name, Some(default)),
        None => (reference, None),
    };
    let valid = !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    if !valid {
        return Err(format!("`${{{reference}}}` is no reference; write `${{NAME}}`, `${{NAME:-default}}` or `${{file:PATH}}`"));
    }
    (scope.variable)(name)
        .or_else(|| default.map(str::to_string))
        .ok_or_else(|| format!("the environment variable `{name}` is not set; set it, or write `${{{name}:-default}}`"))
}

/// Whether a text is made of references alone, so that it tells nothing: no other characters, and nothing for a variable that is not set.
pub(super) fn is_by_reference(text: &str) -> bool {
    let mut rest = text;
    while let Some(after) = rest.strip_prefix("${") {
        let Some((reference, behind)) = after.split_once('}') else { return false };
        if !reference.starts_with("file:") && reference.contains(":-") {
            return false;
        }
        rest = behind;
    }
    rest.is_empty() && !text.is_empty()
}

/// Texts that must not be shown to anybody. Clones hide the same texts, so that what is learned later is hidden everywhere.
#[derive(Debug, Clone, Default)]
pub struct Mask {
    hidden: Arc<RwLock<Vec<String>>>,
}

impl Mask {
    /// Shorter texts would hide half of every message, and are no secrets.
    const SHORTEST: usize = 4;

    /// Shorter lines of a longer text stand in other texts too.
    const SHORTEST_LINE: usize = 16;

    /// Never shows this text.
    pub(super) fn hide(&self, text: &str) {
        // A message may show one line of a key alone, or all of them with other line ends.
        let lines = text.lines().filter(|line| line.len() >= Mask::SHORTEST_LINE);
        let mut hidden = self.hidden.write().unwrap_or_else(PoisonError::into_inner);
        for text in std::iter::once(text).filter(|text| text.len() >= Mask::SHORTEST).chain(lines) {
            if !hidden.iter().any(|hidden| hidden == text) {
                hidden.push(text.to_string());
            }
        }
        // The longest first, so that one which contains another is hidden whole.
        hidden.sort_by_key(|hidden| std::cmp::Reverse(hidden.len()));
    }

    /// `text` with `***` for everything that came from a reference.
    pub fn apply(&self, text: &str) -> String {
        let hidden = self.hidden.read().unwrap_or_else(PoisonError::into_inner);
        hidden.iter().fold(text.to_string(), |text, hidden| text.replace(hidden.as_str(), "***"))
    }

    /// Does the same to every text below a value.
    pub fn apply_to(&self, value: &mut Value) {
        match value {
            Value::String(text) => *text = self.apply(text),
            Value::Array(items) => items.iter_mut().for_each(|item| self.apply_to(item)),
            Value::Object(map) => map.values_mut().for_each(|item| self.apply_to(item)),
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn run(mut value: Value) -> (Value, Vec<String>, Mask) {
        let variable = |name: &str| (name == "TOKEN").then(|| "s3cret-token".to_string());
        let scope = Scope { variable: &variable, base_dir: Path::new(".") };
        let (mut problems, mask) = (Vec::new(), Mask::default());
        interpolate(&mut value, &scope, &mut Vec::new(), &mut problems, &mask);
        (value, problems.iter().map(ToString::to_string).collect(), mask)
    }

    #[test]
    fn references_are_replaced_in_values_only() {
        let (value, problems, _) = run(json!({ "a": ["x-${TOKEN}-y", "$$5 $x", "${NOPE:-z}"], "${TOKEN}": 1 }));
        assert_eq!(value, json!({ "a": ["x-s3cret-token-y", "$5 $x", "z"], "${TOKEN}": 1 }));
        assert!(problems.is_empty());
    }

    #[test]
    fn what_is_not_set_is_named_with_its_place() {
        let (_, problems, _) = run(json!({ "a": { "b": "${NOPE}" }, "c": "${", "d": "${file:does-not-exist}" }));
        assert_eq!(problems.len(), 3);
        assert!(problems[0].starts_with("a.b: the environment variable `NOPE` is not set"), "{problems:?}");
    }

    #[test]
    fn what_came_from_a_reference_is_masked() {
        let (_, _, mask) = run(json!("${TOKEN}"));
        assert_eq!(mask.apply("http://s3cret-token@x"), "http://***@x");
    }

    #[test]
    fn every_line_of_a_key_is_masked_and_a_clone_masks_what_is_learned_later() {
        let mask = Mask::default();
        let elsewhere = mask.clone();
        mask.hide("-----BEGIN KEY-----\nMIIEvQIBADANBgkqhk\nshort\n-----END KEY-----");
        assert_eq!(elsewhere.apply("near `MIIEvQIBADANBgkqhk`, which is short"), "near `***`, which is short");
        let mut record = json!({ "error": "x MIIEvQIBADANBgkqhk", "outputs": [{ "why": "MIIEvQIBADANBgkqhk" }], "rows": 3 });
        elsewhere.apply_to(&mut record);
        assert_eq!(record, json!({ "error": "x ***", "outputs": [{ "why": "***" }], "rows": 3 }));
    }

    #[test]
    fn by_reference_is_nothing_but_references() {
        for text in ["${A}", "${file:a b}", "${A}${file:x:-y}"] {
            assert!(is_by_reference(text), "{text}");
        }
        for text in ["", "a", "$${A}", "${A}x", "x${A}", "${A", "${A:-literal}", "$A"] {
            assert!(!is_by_reference(text), "{text}");
        }
    }
}

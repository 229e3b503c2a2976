//! All paths as one tree, and what stands at them in a text, found in one pass over every level that a path goes through.
//!
//! The rest of the text is checked and skipped, never built: what is taken out are pieces of the text itself, so that a number is as it was written.

use crate::path::Step;
use serde::de::{DeserializeSeed, Deserializer, Error as _, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;
use std::collections::BTreeMap;
use std::fmt;

/// Where some paths go on.
#[derive(Debug, Default)]
pub struct Node {
    /// The paths that end here, by their index.
    ends: Vec<usize>,
    keys: BTreeMap<String, Node>,
    items: BTreeMap<u64, Node>,
}

impl Node {
    /// The tree of these paths.
    pub fn new(paths: &[Vec<Step>]) -> Self {
        let mut root = Node::default();
        for (index, path) in paths.iter().enumerate() {
            let end = path.iter().fold(&mut root, |node, step| match step {
                Step::Key(name) => node.keys.entry(name.clone()).or_default(),
                Step::Index(at) => node.items.entry(*at).or_default(),
            });
            end.ends.push(index);
        }
        root
    }

    /// Finds what stands at every path in `text`, as JSON text; `None` for what is missing. Of members with the same name the last counts.
    ///
    /// # Errors
    /// When the text is no JSON.
    pub fn find<'a>(&self, text: &'a str, found: &mut [Option<&'a str>]) -> serde_json::Result<()> {
        found.fill(None);
        if !is_container(text) {
            return serde_json::from_str::<&RawValue>(text).map(|_| ());
        }
        self.descend(text, found)
    }

    fn descend<'a>(&self, text: &'a str, found: &mut [Option<&'a str>]) -> serde_json::Result<()> {
        let mut json = serde_json::Deserializer::from_str(text);
        Level { node: self, found }.deserialize(&mut json)?;
        json.end()
    }

    /// Notes the value that stands here.
    fn note<'a>(&self, value: &'a str, found: &mut [Option<&'a str>]) -> serde_json::Result<()> {
        self.forget(found);
        for index in &self.ends {
            found[*index] = Some(value);
        }
        let goes_on = !self.keys.is_empty() || !self.items.is_empty();
        if goes_on && is_container(value) { self.descend(value, found) } else { Ok(()) }
    }

    /// Drops what an earlier member with the same name had.
    fn forget(&self, found: &mut [Option<&str>]) {
        self.ends.iter().for_each(|index| found[*index] = None);
        self.keys.values().chain(self.items.values()).for_each(|node| node.forget(found));
    }
}

fn is_container(text: &str) -> bool {
    text.trim_start_matches([' ', '\t', '\n', '\r']).starts_with(['{', '['])
}

/// Reads one object or array.
struct Level<'n, 'f, 'a> {
    node: &'n Node,
    found: &'f mut [Option<&'a str>],
}

impl<'de> DeserializeSeed<'de> for Level<'_, '_, 'de> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, json: D) -> Result<(), D::Error> {
        json.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Level<'_, '_, 'de> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object or an array")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<(), A::Error> {
        while let Some(child) = members.next_key_seed(Key(&self.node.keys))? {
            match child {
                None => drop(members.next_value::<IgnoredAny>()?),
                Some(child) => {
                    let value: &'de RawValue = members.next_value()?;
                    child.note(value.get(), self.found).map_err(A::Error::custom)?;
                }
            }
        }
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<(), A::Error> {
        for at in 0.. {
            match self.node.items.get(&at) {
                None => {
                    if items.next_element::<IgnoredAny>()?.is_none() {
                        break;
                    }
                }
                Some(child) => {
                    let Some(value) = items.next_element::<&'de RawValue>()? else { break };
                    child.note(value.get(), self.found).map_err(A::Error::custom)?;
                }
            }
        }
        Ok(())
    }
}

/// Looks a member's name up while it is read.
struct Key<'n>(&'n BTreeMap<String, Node>);

impl<'de, 'n> DeserializeSeed<'de> for Key<'n> {
    type Value = Option<&'n Node>;

    fn deserialize<D: Deserializer<'de>>(self, json: D) -> Result<Self::Value, D::Error> {
        json.deserialize_str(self)
    }
}

impl<'n> Visitor<'_> for Key<'n> {
    type Value = Option<&'n Node>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a name")
    }

    fn visit_str<E>(self, name: &str) -> Result<Self::Value, E> {
        Ok(self.0.get(name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::path::parse;

    fn find<'a>(paths: &[&str], text: &'a str) -> Option<Vec<Option<&'a str>>> {
        let paths: Vec<_> = paths.iter().map(|path| parse(path).unwrap()).collect();
        let mut found = vec![Some("left over"); paths.len()];
        Node::new(&paths).find(text, &mut found).ok().map(|()| found)
    }

    #[test]
    fn values_are_found_as_they_are_written() {
        let text = r#" {"a": {"b": [1.50, {"c": "x\n"}], "z": 0}, "n": 9007199254740993, "o": null} "#;
        let paths = ["a.b[0]", "a.b[1].c", "n", "o", "a.b[2]", "a.y", "n.x", "a[0]", "a.b", "a.b.c"];
        let expected = [
            Some("1.50"),
            Some(r#""x\n""#),
            Some("9007199254740993"),
            Some("null"),
            None,
            None,
            None,
            None,
            Some(r#"[1.50, {"c": "x\n"}]"#),
            None,
        ];
        assert_eq!(find(&paths, text).unwrap(), expected);
    }

    #[test]
    fn of_members_with_the_same_name_the_last_counts() {
        assert_eq!(find(&["a.b", "a.c", "a"], r#"{"a": {"b": 1}, "a": {"c": 2}}"#).unwrap(), [None, Some("2"), Some(r#"{"c": 2}"#)]);
        assert_eq!(find(&["a.b"], r#"{"a": {"b": 1}, "a": 3}"#).unwrap(), [None]);
    }

    #[test]
    fn names_are_compared_as_they_are_meant() {
        assert_eq!(find(&["ä"], r#"{"\u00e4": 1}"#).unwrap(), [Some("1")]);
    }

    #[test]
    fn what_is_no_container_has_nothing() {
        for text in ["1", "null", r#""x""#, " true ", "[]", "{}"] {
            assert_eq!(find(&["a", "[0]"], text).unwrap(), [None, None], "{text}");
        }
    }

    #[test]
    fn what_is_no_json_is_refused_wherever_the_mistake_stands() {
        for text in [
            "",
            " ",
            "{",
            r#"{"a": 1"#,
            r#"{"a": 1} x"#,
            r#"{"z": [1,], "a": 1}"#,
            r#"{"a": {"q": tru}}"#,
            "nul",
            "{a: 1}",
            "\u{feff}{}",
            r#"{"a": 01}"#,
        ] {
            assert_eq!(find(&["a"], text), None, "{text}");
        }
    }

    #[test]
    fn depth_is_no_matter_where_no_path_goes() {
        let deep = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
        assert_eq!(find(&["a"], &format!(r#"{{"deep": {deep}, "a": 1}}"#)).unwrap(), [Some("1")]);
        assert_eq!(find(&["a"], &deep).unwrap(), [None]);
    }
}

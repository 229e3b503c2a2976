//! A TOML text as JSON values, with the line of every key and list item.

use super::written;
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use std::ops::Range;
use tidegate_api::config::Problem;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// A parsed text.
#[derive(Debug)]
pub(crate) struct Document {
    /// The root table.
    pub(crate) root: Map<String, Value>,
    lines: BTreeMap<Vec<String>, usize>,
    text: String,
    starts: Vec<usize>,
    /// Where each text value stands, quotes included.
    values: BTreeMap<Vec<String>, Range<usize>>,
}

impl Document {
    /// Parses a text. A syntax error is one problem with its line in the path-less message.
    pub(crate) fn parse(text: &str) -> Result<Document, (usize, String)> {
        let starts: Vec<usize> = std::iter::once(0).chain(text.match_indices('\n').map(|(at, _)| at + 1)).collect();
        let table = DeTable::parse(text).map_err(|error| {
            let line = error.span().map_or(1, |span| line_at(&starts, span.start));
            (line, error.message().to_string())
        })?;
        let mut reader = Reader { starts, lines: BTreeMap::new(), values: BTreeMap::new() };
        let root = reader.table(table.get_ref(), &mut Vec::new()).map_err(|problem| {
            let line = reader.lines.get(&problem.path).copied().unwrap_or(1);
            (line, problem.message)
        })?;
        Ok(Document { root, lines: reader.lines, text: text.to_string(), starts: reader.starts, values: reader.values })
    }

    /// The line of a path, or of the nearest enclosing key that is in the text.
    pub(crate) fn line(&self, path: &[String]) -> Option<usize> {
        (1..=path.len()).rev().find_map(|length| self.lines.get(&path[..length]).copied())
    }

    /// Line and column of a byte of the text value at a path. `None` if there is no such value, or the byte stands behind a `$`,
    /// where the value may have been replaced by another of any length.
    pub(crate) fn inside(&self, path: &[String], byte: usize) -> Option<(usize, usize)> {
        let at = written::source_of(&self.text, self.values.get(path)?.clone(), byte)?;
        let line = line_at(&self.starts, at);
        let begin = *self.starts.get(line - 1)?;
        Some((line, self.text.get(begin..at)?.chars().count() + 1))
    }
}

fn line_at(starts: &[usize], offset: usize) -> usize {
    starts.partition_point(|start| *start <= offset)
}

struct Reader {
    starts: Vec<usize>,
    lines: BTreeMap<Vec<String>, usize>,
    values: BTreeMap<Vec<String>, Range<usize>>,
}

impl Reader {
    fn table(&mut self, table: &DeTable<'_>, path: &mut Vec<String>) -> Result<Map<String, Value>, Problem> {
        let mut map = Map::new();
        for (key, value) in table {
            let name: &str = key.get_ref().as_ref();
            path.push(name.to_string());
            self.lines.insert(path.clone(), line_at(&self.starts, key.span().start));
            map.insert(name.to_string(), self.value(value, path)?);
            path.pop();
        }
        Ok(map)
    }

    fn value(&mut self, value: &Spanned<DeValue<'_>>, path: &mut Vec<String>) -> Result<Value, Problem> {
        Ok(match value.get_ref() {
            DeValue::String(text) => {
                self.values.insert(path.clone(), value.span());
                Value::String(text.to_string())
            }
            DeValue::Boolean(value) => Value::Bool(*value),
            DeValue::Datetime(value) => Value::String(value.to_string()),
            DeValue::Integer(integer) => {
                let digits = integer.as_str().replace('_', "");
                let number = match i64::from_str_radix(&digits, integer.radix()) {
                    Ok(signed) => Some(Value::from(signed)),
                    Err(_) => u64::from_str_radix(&digits, integer.radix()).ok().map(Value::from),
                };
                number.ok_or_else(|| Problem::new(path.clone(), format!("`{digits}` does not fit 64 bits")))?
            }
            DeValue::Float(float) => {
                let text = float.as_str().replace('_', "");
                let number = text.parse::<f64>().ok().and_then(serde_json::Number::from_f64);
                let number = number.ok_or_else(|| Problem::new(path.clone(), format!("`{text}` is not a finite number")))?;
                Value::Number(number)
            }
            DeValue::Array(items) => {
                let mut list = Vec::with_capacity(items.len());
                for (index, item) in items.iter().enumerate() {
                    path.push(index.to_string());
                    self.lines.insert(path.clone(), line_at(&self.starts, item.span().start));
                    list.push(self.value(item, path)?);
                    path.pop();
                }
                Value::Array(list)
            }
            DeValue::Table(table) => Value::Object(self.table(table, path)?),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(text: &str) -> Vec<String> {
        text.split('.').map(str::to_string).collect()
    }

    #[test]
    fn every_key_and_item_has_its_line() {
        let text = "name = \"a\"\n\n[datasets.events]\nconnector = \"nexmark\"\n\n[[stages]]\noutput = \"x\"\nsteps = [\n  { op = \"filter\",\n    expression = \"a\" },\n]\n[[stages]]\noutput = \"y\"\n";
        let document = Document::parse(text).unwrap();
        for (at, line) in [
            ("name", 1),
            ("datasets.events", 3),
            ("datasets.events.connector", 4),
            ("stages.0.steps.0", 9),
            ("stages.0.steps.0.expression", 10),
            ("stages.0.steps.0.nothing", 9),
            ("stages.1.output", 13),
        ] {
            assert_eq!(document.line(&path(at)), Some(line), "{at}");
        }
    }

    #[test]
    fn a_syntax_error_has_its_line() {
        let (line, message) = Document::parse("a = 1\nb = [1,\nc = 2\n").unwrap_err();
        assert!((2..=3).contains(&line), "{line}: {message}");
    }

    #[test]
    fn integers_keep_all_their_bits() {
        let document = Document::parse("a = 9_007_199_254_740_993\nb = 0xff\nc = 18446744073709551615").unwrap();
        assert_eq!(Value::Object(document.root).to_string(), r#"{"a":9007199254740993,"b":255,"c":18446744073709551615}"#);
        assert_eq!(Document::parse("x = 1\na = 99999999999999999999").unwrap_err().0, 2);
    }
}

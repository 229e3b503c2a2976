//! What one output holds after an undisturbed and after a disturbed run, and what that says about its sink.

use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

/// How many rows are named as examples.
const EXAMPLES: usize = 3;
/// Beyond so many rows without a partner, floats are not compared by their distance.
const CLOSE_ROWS: usize = 5_000;
/// How far two floats may be apart, relatively.
const CLOSE: f64 = 1e-9;

/// A row: as it was written, and its columns as text.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Row {
    pub(super) text: String,
    pub(super) columns: BTreeMap<String, String>,
}

impl Row {
    /// A line of JSON, or any other line as a row of one column.
    pub(super) fn of_line(line: &str, prefix: &str) -> Row {
        let text = if prefix.is_empty() { line.to_string() } else { format!("{prefix}: {line}") };
        let mut columns: BTreeMap<String, String> = match serde_json::from_str(line) {
            Ok(Value::Object(map)) => map.into_iter().map(|(name, value)| (name, plain(value))).collect(),
            Ok(_) | Err(_) => BTreeMap::from([(String::new(), line.to_string())]),
        };
        if !prefix.is_empty() {
            columns.insert("/".to_string(), prefix.to_string());
        }
        Row { text, columns }
    }

    /// Fields by the names that a header gave them.
    pub(super) fn of_fields(line: &str, prefix: &str, header: &[String], fields: Vec<String>) -> Row {
        let mut row = Row::of_line(line, prefix);
        if header.len() == fields.len() {
            row.columns.remove("");
            row.columns.extend(header.iter().cloned().zip(fields));
        }
        row
    }

    /// Whether two rows differ by rounding at most.
    fn is_close(&self, other: &Row) -> bool {
        self.columns.len() == other.columns.len()
            && self.columns.iter().zip(&other.columns).all(|((name, one), (other_name, other))| {
                name == other_name && (one == other || float(one).zip(float(other)).is_some_and(|(one, other)| are_close(one, other)))
            })
    }

    /// What two close rows have in common.
    fn shape(&self) -> Vec<&str> {
        self.columns.values().map(|value| if float(value).is_some() { "" } else { value.as_str() }).collect()
    }
}

fn plain(value: Value) -> String {
    match value {
        Value::String(text) => text,
        other => other.to_string(),
    }
}

/// A float: an integer is exact and none.
fn float(text: &str) -> Option<f64> {
    text.contains(['.', 'e', 'E']).then(|| text.parse().ok()).flatten()
}

fn are_close(one: f64, other: f64) -> bool {
    (one - other).abs() <= CLOSE * one.abs().max(other.abs())
}

/// What was found beside what was expected.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Difference {
    /// Rows expected.
    pub(super) expected: usize,
    /// Rows that are there more often than expected, though they are expected.
    pub(super) repeated: usize,
    /// Rows that are missing.
    pub(super) missing: usize,
    /// Rows that nobody expected.
    pub(super) foreign: usize,
    /// A few of each.
    pub(super) examples: Examples,
}

/// A few rows of each kind.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Examples {
    pub(super) repeated: Vec<String>,
    pub(super) missing: Vec<String>,
    pub(super) foreign: Vec<String>,
}

impl Difference {
    /// Whether there is none.
    pub(super) fn is_none(&self) -> bool {
        self.repeated == 0 && self.missing == 0 && self.foreign == 0
    }
}

/// Compares rows as multisets; floats may be as far apart as a sum in another order is.
pub(super) fn compare(expected: &[Row], found: &[Row]) -> Difference {
    let (mut wanted, known) = (count(expected), expected.iter().collect::<BTreeSet<_>>());
    let mut surplus: Vec<&Row> = Vec::new();
    for row in found {
        match wanted.get_mut(row).filter(|left| **left > 0) {
            Some(left) => *left -= 1,
            None => surplus.push(row),
        }
    }
    let mut missing: Vec<&Row> = wanted.into_iter().flat_map(|(row, left)| std::iter::repeat_n(row, left)).collect();
    if missing.len() <= CLOSE_ROWS && surplus.len() <= CLOSE_ROWS {
        pair(&mut missing, &mut surplus);
    }
    let (repeated, foreign): (Vec<&Row>, Vec<&Row>) = surplus.into_iter().partition(|row| known.contains(*row));
    let some = |rows: &[&Row]| rows.iter().take(EXAMPLES).map(|row| row.text.clone()).collect();
    Difference {
        expected: expected.len(),
        repeated: repeated.len(),
        missing: missing.len(),
        foreign: foreign.len(),
        examples: Examples { repeated: some(&repeated), missing: some(&missing), foreign: some(&foreign) },
    }
}

fn count(rows: &[Row]) -> BTreeMap<&Row, usize> {
    let mut counts = BTreeMap::new();
    for row in rows {
        *counts.entry(row).or_default() += 1;
    }
    counts
}

/// Takes out every pair of rows that differ by rounding.
fn pair(missing: &mut Vec<&Row>, surplus: &mut Vec<&Row>) {
    let mut by_shape: BTreeMap<Vec<&str>, Vec<&Row>> = BTreeMap::new();
    for row in surplus.drain(..) {
        by_shape.entry(row.shape()).or_default().push(row);
    }
    missing.retain(|wanted| {
        let Some(candidates) = by_shape.get_mut(&wanted.shape()) else { return true };
        match candidates.iter().position(|row| wanted.is_close(row)) {
            Some(at) => {
                candidates.swap_remove(at);
                false
            }
            None => true,
        }
    });
    surplus.extend(by_shape.into_values().flatten());
    surplus.sort();
}

/// The column of a changelog that says what a row does.
const CHANGE: &str = "op";

/// The table that a changelog leaves, `keys` telling its rows apart.
pub(super) fn table(changes: &[Row], keys: &[String]) -> Vec<Row> {
    let mut table: BTreeMap<Vec<Option<&String>>, &Row> = BTreeMap::new();
    for change in changes {
        let key = keys.iter().map(|key| change.columns.get(key)).collect();
        if change.columns.get(CHANGE).is_some_and(|op| op == "delete") {
            table.remove(&key);
        } else {
            table.insert(key, change);
        }
    }
    table.into_values().cloned().collect()
}

/// The fields of a line of CSV.
pub(super) fn fields(line: &str, delimiter: char) -> Vec<String> {
    let (mut fields, mut field, mut quoted) = (Vec::new(), String::new(), false);
    let mut chars = line.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '"' if quoted && chars.peek() == Some(&'"') => {
                chars.next();
                field.push('"');
            }
            '"' => quoted = !quoted,
            c if c == delimiter && !quoted => fields.push(std::mem::take(&mut field)),
            c => field.push(c),
        }
    }
    fields.push(field);
    fields
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(lines: &[&str]) -> Vec<Row> {
        lines.iter().map(|line| Row::of_line(line, "")).collect()
    }

    fn counts(expected: &[&str], found: &[&str]) -> (usize, usize, usize) {
        let found = compare(&rows(expected), &rows(found));
        (found.repeated, found.missing, found.foreign)
    }

    #[test]
    fn order_is_no_difference_and_number_is() {
        assert_eq!(counts(&["a", "b", "b"], &["b", "a", "b"]), (0, 0, 0));
        assert_eq!(counts(&["a", "b"], &["a", "b", "b", "b"]), (2, 0, 0));
        assert_eq!(counts(&["a", "b", "b"], &["a", "b"]), (0, 1, 0));
        assert_eq!(counts(&["a", "b"], &["a", "c"]), (0, 1, 1));
        assert_eq!(counts(&[], &[]), (0, 0, 0));
    }

    #[test]
    fn examples_are_few_and_as_they_were_written() {
        let found = compare(&rows(&["a"]), &rows(&["a", "z", "y", "x", "w", "a"]));
        assert_eq!(found.examples.foreign, ["w", "x", "y"]);
        assert_eq!(found.examples.repeated, ["a"]);
        assert_eq!(found.expected, 1);
    }

    #[test]
    fn floats_may_be_rounded_and_integers_may_not() {
        let near = r#"{"k":"a","v":0.30000000000000004}"#;
        assert_eq!(counts(&[near], &[r#"{"k":"a","v":0.3}"#]), (0, 0, 0));
        assert_eq!(counts(&[near], &[r#"{"k":"b","v":0.3}"#]), (0, 1, 1));
        assert_eq!(counts(&[near], &[r#"{"k":"a","v":0.300001}"#]), (0, 1, 1));
        assert_eq!(counts(&[r#"{"v":10000000000}"#], &[r#"{"v":10000000001}"#]), (0, 1, 1));
    }

    #[test]
    fn a_changelog_is_compared_by_the_table_it_leaves() {
        let keys = ["k".to_string()];
        let log = rows(&[
            r#"{"k":1,"v":1,"op":"upsert"}"#,
            r#"{"k":2,"v":1,"op":"upsert"}"#,
            r#"{"k":1,"v":2,"op":"upsert"}"#,
            r#"{"k":2,"v":1,"op":"delete"}"#,
        ]);
        assert_eq!(table(&log, &keys), rows(&[r#"{"k":1,"v":2,"op":"upsert"}"#]));
    }

    #[test]
    fn a_line_of_csv_is_cut_at_its_delimiters() {
        assert_eq!(fields(r#"1,"a,""b""",,x"#, ','), ["1", r#"a,"b""#, "", "x"]);
        let row = Row::of_fields("1,upsert", "", &["k".into(), "op".into()], fields("1,upsert", ','));
        assert_eq!(row.columns.get("k").map(String::as_str), Some("1"));
    }
}

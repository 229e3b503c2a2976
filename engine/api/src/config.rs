//! Reading options: every key is checked, every mistake is kept, and each says where it is.
//!
//! [`Options`] is used by steps, connectors, plugins and settings alike, so that `windowMs = 1000` and `window = "1s"`, sizes
//! and unknown keys mean the same everywhere.

use crate::Error;
use serde_json::{Map, Value};
use std::collections::BTreeSet;
use std::fmt;
use std::time::Duration;

/// A mistake at a path of keys and indices inside the JSON it was read from. The worker turns paths into lines of the pipeline file.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Problem {
    /// Keys and indices, outermost first.
    pub path: Vec<String>,
    /// What is wrong, and the fix if it is known.
    pub message: String,
    /// Where in the text at the path, if that is text with an inside, such as an expression.
    pub place: Option<Place>,
}

/// How a mistake about a key that nobody asked for begins.
const UNKNOWN_KEY: &str = "unknown key `";

/// A place inside the text of a value.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    /// Where it begins, in bytes.
    pub start: usize,
    /// Its line within the text, from 1.
    pub line: usize,
    /// Its column within that line, in characters from 1.
    pub column: usize,
    /// The line it stands in and carets under it, each behind a line end.
    pub shown: String,
}

impl Problem {
    /// A mistake at a path.
    pub fn new(path: Vec<String>, message: impl Into<String>) -> Self {
        Problem { path, message: message.into(), place: None }
    }

    /// A mistake at one key.
    pub fn at(key: impl Into<String>, message: impl Into<String>) -> Self {
        Problem::new(vec![key.into()], message)
    }

    /// A mistake of the whole.
    pub fn whole(message: impl Into<String>) -> Self {
        Problem::new(Vec::new(), message)
    }

    /// Says where in the value's text it is.
    #[must_use]
    pub fn with_place(mut self, place: Place) -> Self {
        self.place = Some(place);
        self
    }

    /// Whether it is about a key that nobody asked for, so that the rest can be judged without it.
    pub fn is_unknown_key(&self) -> bool {
        self.message.starts_with(UNKNOWN_KEY)
    }

    /// The same mistake seen from further out.
    #[must_use]
    pub fn under<I>(mut self, outer: I) -> Self
    where
        I: IntoIterator,
        I::Item: Into<String>,
    {
        let inner = std::mem::take(&mut self.path);
        self.path = outer.into_iter().map(Into::into).chain(inner).collect();
        self
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.path.is_empty() {
            write!(f, "{}: ", self.path.join("."))?;
        }
        f.write_str(&self.message)?;
        match &self.place {
            Some(place) => write!(f, " (line {}, column {}){}", place.line, place.column, place.shown),
            None => Ok(()),
        }
    }
}

/// Several mistakes at once, as the cause of a `Config` error.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problems(pub Vec<Problem>);

impl fmt::Display for Problems {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, problem) in self.0.iter().enumerate() {
            let separator = if index == 0 { "" } else { "\n" };
            write!(f, "{separator}{problem}")?;
        }
        Ok(())
    }
}

impl std::error::Error for Problems {}

impl From<Vec<Problem>> for Error {
    fn from(problems: Vec<Problem>) -> Self {
        let count = problems.len();
        let message =
            if count == 1 { "a mistake in the configuration".to_string() } else { format!("{count} mistakes in the configuration") };
        Error::config(message).caused_by(Problems(problems))
    }
}

/// The mistakes that an error carries, each with its path; an error without any is one mistake of the whole.
pub fn problems_of(error: &Error) -> Vec<Problem> {
    match error.cause().and_then(|cause| cause.downcast_ref::<Problems>()) {
        Some(Problems(problems)) => problems.clone(),
        None => vec![Problem::whole(error.to_string())],
    }
}

/// One table of options, read key by key. Every key that was not asked for is a mistake.
#[derive(Debug)]
pub struct Options<'a> {
    map: &'a Map<String, Value>,
    known: BTreeSet<String>,
    problems: Vec<Problem>,
}

impl<'a> Options<'a> {
    /// Starts reading.
    pub fn new(map: &'a Map<String, Value>) -> Self {
        Options { map, known: BTreeSet::new(), problems: Vec::new() }
    }

    /// The raw value of a key.
    pub fn value(&mut self, key: &str) -> Option<&'a Value> {
        self.known.insert(key.to_string());
        self.map.get(key)
    }

    /// Whether a key is there, without reading it.
    pub fn has(&self, key: &str) -> bool {
        self.map.contains_key(key)
    }

    /// Records a mistake at a key.
    pub fn problem(&mut self, key: &str, message: impl Into<String>) {
        self.problems.push(Problem::at(key, message));
    }

    /// Records mistakes found elsewhere, seen from here.
    pub fn problems(&mut self, problems: impl IntoIterator<Item = Problem>) {
        self.problems.extend(problems);
    }

    /// Text.
    pub fn string(&mut self, key: &str) -> Option<String> {
        match self.value(key)? {
            Value::String(text) => Some(text.clone()),
            other => self.wrong(key, "text", other),
        }
    }

    /// Text that must be there.
    pub fn require_string(&mut self, key: &str) -> Option<String> {
        if !self.has(key) {
            self.known.insert(key.to_string());
            self.problem(key, format!("`{key}` is missing"));
            return None;
        }
        self.string(key)
    }

    /// An integer.
    pub fn integer(&mut self, key: &str) -> Option<i64> {
        let value = self.value(key)?;
        value.as_i64().or_else(|| self.wrong(key, "an integer", value))
    }

    /// An integer that is not negative.
    pub fn unsigned(&mut self, key: &str) -> Option<u64> {
        let value = self.value(key)?;
        value.as_u64().or_else(|| self.wrong(key, "an integer of 0 or more", value))
    }

    /// A number.
    pub fn number(&mut self, key: &str) -> Option<f64> {
        let value = self.value(key)?;
        value.as_f64().or_else(|| self.wrong(key, "a number", value))
    }

    /// True or false.
    pub fn boolean(&mut self, key: &str) -> Option<bool> {
        let value = self.value(key)?;
        value.as_bool().or_else(|| self.wrong(key, "true or false", value))
    }

    /// One text or a list of texts.
    pub fn strings(&mut self, key: &str) -> Option<Vec<String>> {
        match self.value(key)? {
            Value::String(text) => Some(vec![text.clone()]),
            Value::Array(items) => {
                let texts: Option<Vec<String>> = items.iter().map(|item| item.as_str().map(str::to_string)).collect();
                if texts.is_none() {
                    self.problem(key, "expected a list of texts");
                }
                texts
            }
            other => self.wrong(key, "a text or a list of texts", other),
        }
    }

    /// A list.
    pub fn list(&mut self, key: &str) -> Option<&'a Vec<Value>> {
        let value = self.value(key)?;
        value.as_array().or_else(|| self.wrong(key, "a list", value))
    }

    /// A table.
    pub fn table(&mut self, key: &str) -> Option<&'a Map<String, Value>> {
        let value = self.value(key)?;
        value.as_object().or_else(|| self.wrong(key, "a table", value))
    }

    /// A duration: `{base}Ms` as an integer of milliseconds, or `{base}` as text such as `10s`.
    pub fn duration(&mut self, base: &str) -> Option<Duration> {
        let in_millis = format!("{base}Ms");
        let millis = self.unsigned(&in_millis);
        match self.value(base) {
            None => millis.map(Duration::from_millis),
            Some(_) if self.has(&in_millis) => {
                self.problem(base, format!("`{base}` and `{in_millis}` say the same thing; keep one"));
                None
            }
            Some(Value::String(text)) => match parse_duration(text) {
                Ok(duration) => Some(duration),
                Err(message) => {
                    self.problem(base, message);
                    None
                }
            },
            Some(other) => self.wrong(base, "a duration such as \"10s\"", other),
        }
    }

    /// A size in bytes: an integer, or text such as `64MiB`.
    pub fn size(&mut self, key: &str) -> Option<u64> {
        match self.value(key)? {
            Value::String(text) => match parse_size(text) {
                Ok(size) => Some(size),
                Err(message) => {
                    self.problem(key, message);
                    None
                }
            },
            value => value.as_u64().or_else(|| self.wrong(key, "a size such as \"64MiB\"", value)),
        }
    }

    /// One of some words.
    pub fn choice<T: Copy>(&mut self, key: &str, choices: &[(&str, T)]) -> Option<T> {
        let text = self.string(key)?;
        let found = choices.iter().find(|(name, _)| *name == text).map(|(_, choice)| *choice);
        if found.is_none() {
            let names: Vec<&str> = choices.iter().map(|(name, _)| *name).collect();
            let hint = crate::nearest::hint(&text, names.iter().copied());
            self.problem(
                key,
                format!("`{text}` is none of {}{hint}", names.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ")),
            );
        }
        found
    }

    /// Ends reading: all mistakes, those about unknown keys included.
    pub fn finish(mut self) -> Vec<Problem> {
        for key in self.map.keys() {
            if !self.known.contains(key) {
                let hint = crate::nearest::hint(key, self.known.iter().map(String::as_str));
                self.problems.push(Problem::at(key, format!("{UNKNOWN_KEY}{key}`{hint}")));
            }
        }
        self.problems
    }

    fn wrong<T>(&mut self, key: &str, expected: &str, found: &Value) -> Option<T> {
        self.problem(key, format!("expected {expected}, found `{found}`"));
        None
    }
}

/// Reads `250ms`, `10s`, `1.5m`, `2h`, `7d`.
///
/// # Errors
/// A message that shows the form.
pub fn parse_duration(text: &str) -> Result<Duration, String> {
    let wrong = || format!("`{text}` is not a duration; write a number and ms, s, m, h or d, such as `10s`");
    let (number, unit) = split_unit(text).ok_or_else(wrong)?;
    let micros_per = match unit {
        "us" => 1,
        "ms" => 1_000,
        "s" => 1_000_000,
        "m" => 60_000_000,
        "h" => 3_600_000_000,
        "d" => 86_400_000_000,
        _ => return Err(wrong()),
    };
    scaled(number, micros_per).map(Duration::from_micros).ok_or_else(wrong)
}

/// Reads `512`, `64KiB`, `1.5MiB`, `2GiB`.
///
/// # Errors
/// A message that shows the form.
pub fn parse_size(text: &str) -> Result<u64, String> {
    let wrong = || format!("`{text}` is not a size; write a number and B, KiB, MiB or GiB, such as `64MiB`");
    let (number, unit) = split_unit(text).ok_or_else(wrong)?;
    let factor = match unit {
        "" | "B" => 1,
        "KiB" => 1 << 10,
        "MiB" => 1 << 20,
        "GiB" => 1 << 30,
        _ => return Err(wrong()),
    };
    scaled(number, factor).ok_or_else(wrong)
}

fn split_unit(text: &str) -> Option<(&str, &str)> {
    let text = text.trim();
    let end = text.find(|c: char| !(c.is_ascii_digit() || c == '.')).unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
    (!number.is_empty()).then_some((number, unit.trim()))
}

/// `number` times `factor` in whole units, without going through a float.
fn scaled(number: &str, factor: u64) -> Option<u64> {
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    let whole = if whole.is_empty() { 0 } else { whole.parse::<u64>().ok()? };
    let mut total = u128::from(whole) * u128::from(factor);
    if !fraction.is_empty() {
        let digits = u32::try_from(fraction.len()).ok()?;
        let parts = u128::from(fraction.parse::<u64>().ok()?) * u128::from(factor);
        total += parts / 10u128.checked_pow(digits)?;
    }
    u64::try_from(total).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn read<T>(value: &Value, read: impl FnOnce(&mut Options<'_>) -> T) -> (T, Vec<String>) {
        let mut options = Options::new(value.as_object().unwrap());
        let result = read(&mut options);
        (result, options.finish().iter().map(ToString::to_string).collect())
    }

    #[test]
    fn unknown_keys_get_the_nearest_known_one() {
        let (_, problems) = read(&json!({ "windwoMs": 1000 }), |options| options.duration("window"));
        assert_eq!(problems, ["windwoMs: unknown key `windwoMs`, did you mean `windowMs`?"]);
    }

    #[test]
    fn durations_are_read_in_both_forms_and_not_in_both_at_once() {
        assert_eq!(read(&json!({ "windowMs": 1500 }), |o| o.duration("window")).0, Some(Duration::from_millis(1500)));
        assert_eq!(read(&json!({ "window": "1.5s" }), |o| o.duration("window")).0, Some(Duration::from_millis(1500)));
        let (value, problems) = read(&json!({ "window": "1s", "windowMs": 1 }), |o| o.duration("window"));
        assert_eq!((value, problems.len()), (None, 1));
        assert_eq!(read(&json!({ "window": "1 fortnight" }), |o| o.duration("window")).1.len(), 1);
    }

    #[test]
    fn sizes_do_not_overflow() {
        assert_eq!(parse_size("1.5KiB"), Ok(1536));
        assert!(parse_size("99999999999999999999GiB").is_err());
        assert!(parse_size("18446744073709551615GiB").is_err());
    }

    #[test]
    fn a_wrong_type_is_refused_and_shown() {
        let (value, problems) = read(&json!({ "n": "ten" }), |o| o.integer("n"));
        assert_eq!((value, problems), (None, vec!["n: expected an integer, found `\"ten\"`".to_string()]));
    }
}

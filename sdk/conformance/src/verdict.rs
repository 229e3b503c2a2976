//! What a script finds: a rule kept, or a conviction.

use crate::rules::Rule;
use arrow::array::RecordBatch;
use arrow::util::display::{ArrayFormatter, FormatOptions};
use std::cell::RefCell;
use std::collections::BTreeSet;
use std::fmt;

/// A broken promise.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Conviction {
    /// The script that found it.
    pub script: &'static str,
    /// The promise.
    pub rule: Rule,
    /// What was seen, and what should have been.
    pub detail: String,
}

impl fmt::Display for Conviction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "script `{}` breaks `{}`: {}", self.script, self.rule, self.detail)
    }
}

impl std::error::Error for Conviction {}

/// The end of a script, or of a part of it.
pub type Verdict<T = ()> = Result<T, Conviction>;

/// What became of a suite.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Judgement {
    /// Rules that were judged and kept, until the first that was not.
    pub kept: BTreeSet<Rule>,
    /// The first broken one. What one lie does to the scripts after it says nothing new, so they are not run.
    pub conviction: Option<Conviction>,
}

impl Judgement {
    /// Whether nothing was found.
    pub fn passed(&self) -> bool {
        self.conviction.is_none()
    }

    /// Both of two.
    #[must_use]
    pub fn and(mut self, other: Judgement) -> Judgement {
        self.kept.extend(other.kept);
        self.conviction = self.conviction.or(other.conviction);
        if let Some(conviction) = &self.conviction {
            self.kept.remove(&conviction.rule);
        }
        self
    }

    /// For tests of native connectors.
    ///
    /// # Panics
    /// With the script and the rule that was broken.
    pub fn expect_passed(&self) {
        if let Some(conviction) = &self.conviction {
            assert!(self.passed(), "{conviction}: {}", conviction.rule.promise());
        }
    }
}

/// Is told what is judged at present.
#[derive(Debug, Clone, Copy)]
pub struct Progress(fn(&str));

impl Progress {
    /// Calls this with the name of each script as it begins, and now and then within a long one.
    pub fn new(tell: fn(&str)) -> Self {
        Progress(tell)
    }

    pub(crate) fn tell(self, what: &str) {
        (self.0)(what);
    }
}

/// Tells nobody.
impl Default for Progress {
    fn default() -> Self {
        Progress(|_| {})
    }
}

/// Keeps the record while scripts run.
#[derive(Debug, Default)]
pub(crate) struct Record {
    progress: Progress,
    script: RefCell<&'static str>,
    kept: RefCell<BTreeSet<Rule>>,
}

impl Record {
    /// An empty one, which tells what it records.
    pub(crate) fn telling(progress: Progress) -> Record {
        Record { progress, ..Record::default() }
    }

    /// Begins a script.
    pub(crate) fn script(&self, name: &'static str) {
        self.progress.tell(name);
        *self.script.borrow_mut() = name;
    }

    /// The script that runs.
    pub(crate) fn current(&self) -> &'static str {
        *self.script.borrow()
    }

    /// Notes that a rule was judged here.
    pub(crate) fn kept(&self, rule: Rule) {
        self.kept.borrow_mut().insert(rule);
    }

    /// A broken rule.
    pub(crate) fn convict(&self, rule: Rule, detail: impl Into<String>) -> Conviction {
        Conviction { script: *self.script.borrow(), rule, detail: detail.into() }
    }

    /// Convicts unless `kept` holds.
    pub(crate) fn hold(&self, rule: Rule, kept: bool, detail: impl FnOnce() -> String) -> Verdict {
        if !kept {
            return Err(self.convict(rule, detail()));
        }
        self.kept(rule);
        Ok(())
    }

    /// Ends a suite with what its scripts gave.
    pub(crate) fn close(self, verdict: Verdict) -> Judgement {
        let mut judgement = Judgement { kept: self.kept.into_inner(), conviction: verdict.err() };
        if let Some(conviction) = &judgement.conviction {
            judgement.kept.remove(&conviction.rule);
        }
        judgement
    }
}

/// The rows of a batch as text.
pub(crate) fn row_texts(batch: &RecordBatch) -> Vec<String> {
    let options = FormatOptions::new().with_null("∅");
    let columns: Vec<_> = batch.columns().iter().map(|column| ArrayFormatter::try_new(column, &options)).collect();
    let row = |row: usize| {
        let values = columns.iter().map(|column| match column {
            // A value may be outside of what its type can print, a time past the calendar say.
            Ok(column) => column.value(row).try_to_string().unwrap_or_else(|error| format!("<{error}>")),
            Err(error) => format!("<{error}>"),
        });
        values.collect::<Vec<_>>().join(" | ")
    };
    (0..batch.num_rows()).map(row).collect()
}

/// A text that fits a report.
pub(crate) fn cut(text: &str) -> String {
    const LONGEST: usize = 160;
    match text.char_indices().nth(LONGEST) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_string(),
    }
}

/// Where two lists of rows part, in words; `None` if they are equal.
pub(crate) fn difference(expected: &RecordBatch, found: &RecordBatch) -> Option<String> {
    if expected == found {
        return None;
    }
    if expected.schema() != found.schema() {
        return Some(format!("the columns are {} instead of {}", columns(found), columns(expected)));
    }
    let (expected, found) = (row_texts(expected), row_texts(found));
    let at = expected.iter().zip(&found).position(|(one, other)| one != other);
    Some(match at {
        Some(row) => format!("row {row} is `{}` instead of `{}`", cut(&found[row]), cut(&expected[row])),
        None if expected.len() == found.len() => "values differ that look the same as text".to_string(),
        None => format!("there are {} rows instead of {}", found.len(), expected.len()),
    })
}

fn columns(batch: &RecordBatch) -> String {
    let schema = batch.schema();
    let fields = schema.fields().iter().map(|field| format!("`{}: {}`", field.name(), field.data_type()));
    fields.collect::<Vec<_>>().join(", ")
}

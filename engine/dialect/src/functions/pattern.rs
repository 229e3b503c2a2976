//! Regular expressions: the pattern of every `regex…` function, and the functions that find more than one match

use super::args::{Args, Shape};
use super::rows::{In, room};
use super::{Function, regex_match};
use crate::Diagnostic;
use crate::node::Node;
use crate::value::Value;
use arrow::datatypes::{DataType, Field};
use regex::{Regex, RegexBuilder};
use std::sync::{Arc, Mutex, PoisonError};

/// The most bytes that a compiled pattern takes, which bounds the time per character as well.
const MOST_PROGRAM: usize = 1 << 20;
/// How many patterns of a column are kept compiled.
const KEPT: usize = 32;

/// A pattern: a constant, compiled when the expression is bound, or one for each row, of which the latest are kept.
#[derive(Clone)]
pub(super) enum Pattern {
    Constant(Regex),
    /// The argument's place, and the compiled patterns, the last used first.
    Column(usize, Arc<Mutex<Vec<Arc<Regex>>>>),
}

impl Pattern {
    /// Takes the pattern from an argument.
    pub(super) fn of(args: &mut Args<'_>, at: usize) -> Result<Pattern, Diagnostic> {
        args.text(at)?;
        match args.nodes[at].as_literal() {
            Some(Value::Text(text)) => match compile(text) {
                Ok(pattern) => Ok(Pattern::Constant(pattern)),
                Err(reason) => Err(args.refuse(at, reason)),
            },
            _ => Ok(Pattern::Column(at, Arc::default())),
        }
    }

    /// Calls a function with the pattern of a row.
    fn with<T>(&self, row: In<'_>, then: impl FnOnce(&Regex) -> Result<T, String>) -> Result<T, String> {
        match self {
            Pattern::Constant(pattern) => then(pattern),
            Pattern::Column(at, kept) => then(&*recall(kept, row.text(*at))?),
        }
    }
}

/// The compiled form of a pattern, from those kept or made now.
fn recall(kept: &Mutex<Vec<Arc<Regex>>>, text: &str) -> Result<Arc<Regex>, String> {
    let mut kept = kept.lock().unwrap_or_else(PoisonError::into_inner);
    match kept.iter().position(|pattern| pattern.as_str() == text) {
        Some(place) => kept[..=place].rotate_right(1),
        None => {
            let pattern = Arc::new(compile(text)?);
            kept.truncate(KEPT - 1);
            kept.insert(0, pattern);
        }
    }
    Ok(Arc::clone(&kept[0]))
}

/// A pattern compiled within the limits.
pub(super) fn compile(text: &str) -> Result<Regex, String> {
    RegexBuilder::new(text).size_limit(MOST_PROGRAM).build().map_err(|error| {
        let reason = error.to_string();
        let reason = reason.lines().last().unwrap_or_default().trim_start_matches("error: ").to_string();
        format!("this is not a regular expression: {reason}")
    })
}

pub(super) const FUNCTIONS: &[Function] = &[
    Function {
        name: "regexMatches",
        signature: "regexMatches(text, pattern) -> bool",
        doc: "Whether the pattern, which may differ from row to row, matches somewhere in the text. One that is none makes a bad row. `regexMatch` takes a constant and is faster.",
        examples: &[("regexMatches('user-17', r'\\d+')", "true"), ("regexMatches('user', '^s')", "false")],
        arity: (2, 2),
        bind: |mut args| match Pattern::of(&mut args, 1)? {
            Pattern::Constant(_) => (regex_match::FUNCTION.bind)(args),
            pattern => {
                args.take(&[Shape::Text])?;
                Ok(args.into_bool(move |row| pattern.with(row, |pattern| Ok(pattern.is_match(row.text(0))))))
            }
        },
    },
    Function {
        name: "regexReplace",
        signature: "regexReplace(text, pattern, by) -> string",
        doc: "The text with every match of the pattern replaced. In `by`, `$1` and `${1}` stand for the first group, `${name}` for a named one, `$$` for a dollar sign. More than 16 MiB make a bad row.",
        examples: &[
            ("regexReplace('a1b22', r'\\d+', '#')", "'a#b#'"),
            ("regexReplace('31.01.2026', r'(\\d+)\\.(\\d+)\\.(\\d+)', '$3-$2-$1')", "'2026-01-31'"),
            ("regexReplace('abc', 'x', 'y')", "'abc'"),
        ],
        arity: (3, 3),
        bind: |mut args| {
            let pattern = Pattern::of(&mut args, 1)?;
            args.take(&[Shape::Text])?;
            Ok(args.into_text(move |row, out: &mut String| pattern.with(row, |pattern| replace(pattern, row.text(0), row.text(2), out))))
        },
    },
    Function {
        name: "regexCount",
        signature: "regexCount(text, pattern) -> int64",
        doc: "How often the pattern matches, without overlap.",
        examples: &[("regexCount('a1b22', r'\\d+')", "2"), ("regexCount('abc', 'x')", "0")],
        arity: (2, 2),
        bind: |mut args| {
            let pattern = Pattern::of(&mut args, 1)?;
            args.take(&[Shape::Text])?;
            Ok(args.into_int(move |row| pattern.with(row, |pattern| Ok(pattern.find_iter(row.text(0)).count() as i64))))
        },
    },
    Function {
        name: "regexPosition",
        signature: "regexPosition(text, pattern) -> int64",
        doc: "The position of the first character that the pattern matches; 0 if it matches nowhere.",
        examples: &[("regexPosition('äb12', r'\\d')", "3"), ("regexPosition('ab', r'\\d')", "0")],
        arity: (2, 2),
        bind: |mut args| {
            let pattern = Pattern::of(&mut args, 1)?;
            args.take(&[Shape::Text])?;
            Ok(args.into_int(move |row| {
                pattern.with(row, |pattern| {
                    let found = pattern.find(row.text(0));
                    Ok(found.map_or(0, |found| row.text(0)[..found.start()].chars().count() as i64 + 1))
                })
            }))
        },
    },
    Function {
        name: "regexExtractAll",
        signature: "regexExtractAll(text, pattern) -> list<string>",
        doc: "Every match of the pattern, or of its first group if it has one (the empty text where that took no part).",
        examples: &[
            ("regexExtractAll('a1b22', r'\\d+')[1]", "'22'"),
            ("regexExtractAll('k=v, x=y', r'(\\w)=')[1]", "'x'"),
            ("regexExtractAll('abc', r'\\d')[0]", "null"),
        ],
        arity: (2, 2),
        bind: |args| {
            listed(args, |pattern, text| {
                let group = (pattern.captures_len() - 1).min(1);
                pattern.captures_iter(text).map(|found| found.get(group).map_or("", |found| found.as_str()).to_string()).collect()
            })
        },
    },
    Function {
        name: "regexSplit",
        signature: "regexSplit(text, pattern) -> list<string>",
        doc: "The parts of the text between the matches of the pattern.",
        examples: &[("regexSplit('a, b;c', r'[,;]\\s*')[1]", "'b'"), ("regexSplit('abc', ',')[0]", "'abc'")],
        arity: (2, 2),
        bind: |args| listed(args, |pattern, text| pattern.split(text).map(str::to_string).collect()),
    },
];

fn replace(pattern: &Regex, text: &str, by: &str, out: &mut String) -> Result<(), String> {
    // A group is no longer than the whole match, so this bounds what a replacement adds.
    let groups = by.bytes().filter(|byte| *byte == b'$').count();
    let mut from = 0;
    for found in pattern.captures_iter(text) {
        let Some(whole) = found.get(0) else { continue };
        out.push_str(&text[from..whole.start()]);
        room(out.len().saturating_add(by.len()).saturating_add(groups.saturating_mul(whole.len())))?;
        found.expand(by, out);
        from = whole.end();
    }
    out.push_str(&text[from..]);
    Ok(())
}

/// The type of a list of texts.
pub(super) fn texts() -> DataType {
    DataType::List(Arc::new(Field::new_list_field(DataType::Utf8View, true)))
}

fn listed(mut args: Args<'_>, find: fn(&Regex, &str) -> Vec<String>) -> Result<Node, Diagnostic> {
    let pattern = Pattern::of(&mut args, 1)?;
    args.take(&[Shape::Text])?;
    Ok(args.into_value(texts(), move |row| {
        pattern.with(row, |pattern| Ok(Value::List(find(pattern, row.text(0)).into_iter().map(Value::Text).collect())))
    }))
}

//! The keys of `streamJoin`.

use super::bounds::{Bounds, Kind};
use super::late::WHERE_LATE;
use super::names::Naming;
use crate::binding::show;
use crate::step::{KeyInfo, StepDef, StepInfo};
use crate::window::LONGEST_MS;
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use tidegate_api::config::{Options, Problem, parse_duration};

pub(crate) const INFO: StepInfo = StepInfo {
    op: "streamJoin",
    summary: "Joins the rows of two inputs that have equal keys and times near each other. It is the first step of its stage, whose `inputs` are the left and the right one. A row waits until the watermark says that no partner can come any more.",
    keys: &[
        KeyInfo {
            name: "joinKey",
            takes: "column or list of columns",
            text: "the key columns, under the same names in both inputs; null equals nothing",
        },
        KeyInfo { name: "leftKeys", takes: "column or list of columns?", text: "in place of `joinKey`: the left input's key columns" },
        KeyInfo { name: "rightKeys", takes: "column or list of columns?", text: "the right input's, in the same order" },
        KeyInfo { name: "timeColumn", takes: "column", text: "the event time, under the same name in both inputs" },
        KeyInfo { name: "leftTime", takes: "column?", text: "in place of `timeColumn`: the left input's event time" },
        KeyInfo { name: "rightTime", takes: "column?", text: "the right input's" },
        KeyInfo {
            name: "windowMs",
            takes: "milliseconds, or `window` as text",
            text: "how far apart partners may be, in either direction, this much included",
        },
        KeyInfo {
            name: "lowerMs",
            takes: "milliseconds, or `lower` as text?",
            text: "in place of `windowMs`: the least that right time minus left time may be; may be negative",
        },
        KeyInfo { name: "upperMs", takes: "milliseconds, or `upper` as text?", text: "the most that it may be" },
        KeyInfo {
            name: "kind",
            takes: "`inner`, `left`, `right`, `full`, `semi` or `anti`?",
            text: "pairs (the default), and rows of the left, the right or both inputs without a partner; or left rows alone: once if they have a partner, or if they have none",
        },
        KeyInfo { name: "rightPrefix", takes: "text?", text: "put before the names of the right columns that `rightRename` does not name" },
        KeyInfo { name: "rightRename", takes: "table `old = \"new\"`?", text: "names of right columns" },
        KeyInfo {
            name: "condition",
            takes: "expression?",
            text: "what must also be true of a pair, over the columns of the joined row; null is not true",
        },
        KeyInfo { name: "lateOutput", takes: "dataset?", text: WHERE_LATE },
    ],
    output: "the left columns, then the right ones without the keys (one that the left has too is called `…_right`); of a right row without a partner the key columns hold its own keys; for `semi` and `anti` the left columns; append",
    example: "{ op = \"streamJoin\", joinKey = \"auction\", timeColumn = \"dateTime\", windowMs = 10000, rightRename = { dateTime = \"listed\" } }",
    parse,
};

/// A join as it is written.
#[derive(Debug)]
pub(crate) struct JoinDef {
    pub(crate) keys: Pair<Vec<String>>,
    pub(crate) times: Pair<String>,
    pub(crate) bounds: Bounds,
    pub(crate) kind: Kind,
    pub(crate) naming: Naming,
    pub(crate) condition: Option<String>,
    pub(crate) late_output: Option<String>,
}

/// What is said of both inputs, at once or apart.
#[derive(Debug)]
pub(crate) struct Pair<T> {
    pub(crate) left: T,
    pub(crate) right: T,
    /// The step's keys that say it.
    pub(crate) named: [&'static str; 2],
}

impl<T> Pair<T> {
    /// That of an input.
    pub(crate) fn of(&self, input: usize) -> &T {
        if input == 0 { &self.left } else { &self.right }
    }
}

fn parse(map: &Map<String, Value>) -> Result<Box<dyn StepDef>, Vec<Problem>> {
    let mut options = Options::new(map);
    let _ = options.string("op");
    let keys = pair(&mut options, ["joinKey", "leftKeys", "rightKeys"], |options, key| {
        let columns = options.strings(key)?;
        if columns.is_empty() {
            options.problem(key, "name at least one column");
            return None;
        }
        Some(columns)
    });
    if let Some(Pair { left, right, named: [_, named] }) = &keys
        && left.len() != right.len()
    {
        options.problem(named, format!("the left input has {} key columns and the right one {}; name as many", left.len(), right.len()));
    }
    let times = pair(&mut options, ["timeColumn", "leftTime", "rightTime"], |options, key| options.string(key));
    let bounds = bounds(&mut options);
    let kind = options.choice("kind", &Kind::ALL);
    let prefix = options.string("rightPrefix");
    let rename = renames(&mut options);
    let condition = options.string("condition");
    let late_output = options.string("lateOutput");
    let problems = options.finish();
    match (keys, times, bounds) {
        (Some(keys), Some(times), Some(bounds)) if problems.is_empty() => {
            let (kind, naming) = (kind.unwrap_or(Kind::Inner), Naming { prefix, rename });
            Ok(Box::new(JoinDef { keys, times, bounds, kind, naming, condition, late_output }))
        }
        _ => Err(problems),
    }
}

/// What `both` says of the two inputs, or `left` and `right` of each.
pub(crate) fn pair<T: Clone>(
    options: &mut Options<'_>,
    [both, left, right]: [&'static str; 3],
    mut read: impl FnMut(&mut Options<'_>, &'static str) -> Option<T>,
) -> Option<Pair<T>> {
    let apart = options.has(left) || options.has(right);
    if options.has(both) {
        let said = read(options, both);
        for key in [left, right].into_iter().filter(|key| options.has(key)).collect::<Vec<_>>() {
            options.value(key);
            options.problem(key, format!("`{both}` names it for both inputs; keep `{both}`, or `{left}` and `{right}`"));
        }
        return said.map(|said| Pair { left: said.clone(), right: said, named: [both, both] });
    }
    if !apart {
        options.value(both);
        options.problem(both, format!("`{both}` is missing; or name `{left}` and `{right}`"));
        return None;
    }
    for (key, other) in [(left, right), (right, left)] {
        if !options.has(key) {
            options.problem(key, format!("`{key}` is missing beside `{other}`"));
        }
    }
    let (left_said, right_said) = (read(options, left), read(options, right));
    Some(Pair { left: left_said?, right: right_said?, named: [left, right] })
}

fn bounds(options: &mut Options<'_>) -> Option<Bounds> {
    let of = |options: &Options<'_>, base: &str| options.has(base) || options.has(&format!("{base}Ms"));
    let windowed = of(options, "window");
    let apart: Vec<&str> = ["lower", "upper"].into_iter().filter(|base| of(options, base)).collect();
    let window = options.duration("window").map(|window| whole(window.as_micros()).unwrap_or(i64::MAX));
    let (lower, upper) = (signed(options, "lower"), signed(options, "upper"));
    let bounds = match (windowed, apart.as_slice()) {
        (true, []) => window.map(|window| Bounds { lower: window.saturating_neg(), upper: window }),
        (true, [base, ..]) => {
            let key = if options.has(base) { (*base).to_string() } else { format!("{base}Ms") };
            options.problem(&key, "`windowMs` says how far apart partners may be; keep it, or `lowerMs` and `upperMs`");
            None
        }
        (false, []) => {
            options.problem("windowMs", "`windowMs` is missing; or name `lowerMs` and `upperMs`");
            None
        }
        (false, [one]) => {
            let missing = if *one == "lower" { "upperMs" } else { "lowerMs" };
            options.problem(missing, format!("`{missing}` is missing beside `{one}Ms`"));
            None
        }
        (false, _) => lower.zip(upper).map(|(lower, upper)| Bounds { lower, upper }),
    }?;
    let within = |millis: i64| (-LONGEST_MS..=LONGEST_MS).contains(&millis);
    if !within(bounds.lower) || !within(bounds.upper) {
        let key = if windowed { "windowMs" } else { "lowerMs" };
        options.problem(key, format!("expected whole milliseconds, at most {LONGEST_MS} (100 years)"));
        return None;
    }
    if bounds.lower > bounds.upper {
        let message = format!("no time is both at least {} and at most {} later", length(bounds.lower), length(bounds.upper));
        options.problem("lowerMs", message);
        return None;
    }
    Some(bounds)
}

/// `{base}Ms`, or `{base}` as text such as `-10s`.
fn signed(options: &mut Options<'_>, base: &str) -> Option<i64> {
    let in_millis = format!("{base}Ms");
    let millis = options.integer(&in_millis);
    let text = options.string(base);
    match text {
        None => millis,
        Some(_) if options.has(&in_millis) => {
            options.problem(base, format!("`{base}` and `{in_millis}` say the same thing; keep one"));
            None
        }
        Some(text) => {
            let (sign, number) = text.trim().strip_prefix('-').map_or((1, text.as_str()), |number| (-1, number));
            match parse_duration(number) {
                Ok(duration) => match whole(duration.as_micros()) {
                    Some(millis) => Some(sign * millis),
                    None => {
                        options.problem(base, "expected whole milliseconds");
                        None
                    }
                },
                Err(message) => {
                    options.problem(base, message);
                    None
                }
            }
        }
    }
}

fn whole(micros: u128) -> Option<i64> {
    micros.is_multiple_of(1000).then(|| i64::try_from(micros / 1000).unwrap_or(i64::MAX))
}

pub(crate) fn renames(options: &mut Options<'_>) -> BTreeMap<String, String> {
    let mut renames = BTreeMap::new();
    for (old, new) in options.table("rightRename").into_iter().flatten() {
        match new.as_str().filter(|new| !new.is_empty()) {
            Some(new) => {
                renames.insert(old.clone(), new.to_string());
            }
            None => {
                let path = vec!["rightRename".to_string(), old.clone()];
                options.problems([Problem::new(path, format!("expected a name, found `{new}`"))]);
            }
        }
    }
    renames
}

/// A length of time with its sign.
pub(crate) fn length(millis: i64) -> String {
    match millis {
        0 => "0ms".to_string(),
        later if later > 0 => show(later),
        earlier => format!("-{}", show(-earlier)),
    }
}

//! The keys of `topN`.

use crate::binding::length;
use crate::lean::Direction;
use crate::step::{KeyInfo, StepDef, StepInfo};
use serde_json::{Map, Value};
use tidegate_api::config::{Options, Problem};

pub(crate) const INFO: StepInfo = StepInfo {
    op: "topN",
    summary: "Ranks the rows of every group and keeps the first `n`. Ranks change as rows come, or are told once per window. Rows without a value to be ordered by are left out.",
    keys: &[
        KeyInfo {
            name: "orderBy",
            takes: "column",
            text: "what rows are ranked by: a number, time, bool, text or binary. NaN is greater than every number",
        },
        KeyInfo { name: "direction", takes: "`desc` or `asc`?", text: "whether the greatest is first (the default), or the least" },
        KeyInfo {
            name: "tieBy",
            takes: "column or list of columns?",
            text: "which of equal rows is first: the one with the least value, nulls last. Rows that are equal in these too stand in an order that means nothing and is always the same",
        },
        KeyInfo { name: "n", takes: "integer", text: "how many rows of a group are kept, at most 10,000" },
        KeyInfo { name: "groupBy", takes: "column or list of columns?", text: "what makes a group; without it all rows are one" },
        KeyInfo {
            name: "windowed",
            takes: "true or false?",
            text: "ranks the rows of a window and emits them once, when it closes: a window of `windowMs` of `timeColumn`, or the one that the columns `windowStart` and `windowEnd` of a window step name",
        },
        KeyInfo { name: "timeColumn", takes: "column?", text: "with `windowed`: the event time" },
        KeyInfo { name: "windowMs", takes: "milliseconds, or `window` as text?", text: "with `timeColumn`: how long a window is" },
        KeyInfo { name: "lateOutput", takes: "dataset?", text: "with `windowed`: where rows go whose window has closed" },
    ],
    output: "the group columns, `rank` (int64, from 1), the other columns; upsert on groups and rank. When `windowed`: `windowStart` and `windowEnd` (timestamp ms) before them; append",
    example: "{ op = \"topN\", orderBy = \"price\", tieBy = \"dateTime\", n = 10, groupBy = [\"auction\"] }",
    parse,
};

/// The name of the column that holds the rank.
pub(super) const RANK: &str = "rank";
pub(super) const START: &str = "windowStart";
pub(super) const END: &str = "windowEnd";
/// Ranks of a group at most: one row at the top moves them all.
const MOST: u64 = 10_000;

#[derive(Debug)]
pub(super) struct TopDef {
    pub(super) order_by: String,
    pub(super) direction: Direction,
    pub(super) tie_by: Vec<String>,
    pub(super) n: usize,
    pub(super) group_by: Vec<String>,
    pub(super) window: Option<WindowDef>,
    pub(super) late_output: Option<String>,
}

/// Which windows ranks belong to.
#[derive(Debug)]
pub(super) enum WindowDef {
    /// Windows of so many milliseconds of a time column.
    Of(String, i64),
    /// The window that a row says it belongs to.
    Named,
}

fn parse(map: &Map<String, Value>) -> Result<Box<dyn StepDef>, Vec<Problem>> {
    let mut options = Options::new(map);
    let _ = options.string("op");
    let order_by = options.require_string("orderBy");
    let directions = [("desc", Direction::Descending), ("asc", Direction::Ascending)];
    let direction = options.choice("direction", &directions).unwrap_or(Direction::Descending);
    let tie_by = options.strings("tieBy").unwrap_or_default();
    let n = count(&mut options, MOST);
    let group_by = options.strings("groupBy").unwrap_or_default();
    let windowed = options.boolean("windowed").unwrap_or(false);
    let time_column = options.string("timeColumn");
    let size = length(&mut options, "window");
    let late_output = options.string("lateOutput");
    let sized = options.has("window") || options.has("windowMs");
    if !windowed {
        for key in ["timeColumn", "windowMs", "window", "lateOutput"] {
            if options.has(key) {
                options.problem(key, format!("`{key}` needs `windowed = true`; without it ranks change as rows come"));
            }
        }
    } else if time_column.is_some() && !sized {
        options.problem("windowMs", "`windowMs` is missing; without `timeColumn` windows are those that the rows name");
    } else if time_column.is_none() && sized {
        let key = if options.has("window") { "window" } else { "windowMs" };
        options.problem(key, "a window of a length needs the `timeColumn` that it is cut from");
    }
    let problems = options.finish();
    match (order_by, n) {
        (Some(order_by), Some(n)) if problems.is_empty() => {
            let window = windowed.then(|| match time_column.zip(size) {
                Some((column, size)) => WindowDef::Of(column, size),
                None => WindowDef::Named,
            });
            Ok(Box::new(TopDef { order_by, direction, tie_by, n, group_by, window, late_output }))
        }
        _ => Err(problems),
    }
}

/// The key `n`.
pub(crate) fn count(options: &mut Options<'_>, most: u64) -> Option<usize> {
    if !options.has("n") {
        options.value("n");
        options.problem("n", "`n` is missing; it says how many rows of a group count");
        return None;
    }
    let n = options.unsigned("n")?;
    if !(1..=most).contains(&n) {
        options.problem("n", format!("expected a number of rows from 1 to {most}, found `{n}`"));
        return None;
    }
    Some(n as usize)
}

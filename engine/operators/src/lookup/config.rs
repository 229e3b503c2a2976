//! The keys of `lookupJoin`.

use crate::join::{Naming, Pair, WHERE_LATE, pair, renames};
use crate::step::{KeyInfo, StepDef, StepInfo};
use serde_json::{Map, Value};
use tidegate_api::config::{Options, Problem};

pub(crate) const INFO: StepInfo = StepInfo {
    op: "lookupJoin",
    summary: "Joins each row of the first input with the row that the second, a table, has for its key: the latest, or with `asOf` the one that was valid at the row's time. A later row of the table replaces the earlier one of its key, and the delete of an upsert stream takes it away. Without `asOf` the stream waits until the table has ended or is idle for the first time; a `table` of a database, until it has been read. A null key matches nothing.",
    keys: &[
        KeyInfo { name: "joinKey", takes: "column or list of columns", text: "the key, called so in both inputs" },
        KeyInfo { name: "leftKeys", takes: "column or list of columns, instead of `joinKey`", text: "the key in the stream" },
        KeyInfo { name: "rightKeys", takes: "column or list of columns, instead of `joinKey`", text: "the key in the table" },
        KeyInfo {
            name: "asOf",
            takes: "column?",
            text: "since when a row of the table is valid (its event time); a version is valid until the next one of its key. Not for a `table` of a database, which is read as it stands",
        },
        KeyInfo { name: "timeColumn", takes: "column, with `asOf`", text: "the event time of the stream's rows" },
        KeyInfo {
            name: "kind",
            takes: "`left` (default) or `inner`",
            text: "whether a row without a match stays, with nulls, or is left out",
        },
        KeyInfo { name: "lateOutput", takes: "dataset?, with `asOf`", text: WHERE_LATE },
        KeyInfo { name: "rightPrefix", takes: "text?", text: "put before the names of the table's columns" },
        KeyInfo { name: "rightRename", takes: "table `column = \"name\"`?", text: "names of single columns of the table" },
    ],
    output: "the stream's columns, then the table's without the keys (one that the stream has too is called `…_right`); append",
    example: "{ op = \"lookupJoin\", joinKey = \"carrier\", asOf = \"since\", timeColumn = \"departed\" }",
    parse,
};

/// A look-up as it is written.
#[derive(Debug)]
pub(super) struct LookupDef {
    pub(super) keys: Pair<Vec<String>>,
    /// The time columns of stream and table.
    pub(super) times: Option<[String; 2]>,
    /// Whether rows without a match are left out.
    pub(super) inner: bool,
    pub(super) naming: Naming,
    pub(super) late_output: Option<String>,
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
        options.problem(named, format!("the stream has {} key columns and the table {}; name as many", left.len(), right.len()));
    }
    let (time, as_of) = (options.string("timeColumn"), options.string("asOf"));
    match (&time, &as_of) {
        (Some(_), None) => options.problem("timeColumn", "without `asOf` the time of a row does not matter; add `asOf`, or leave it out"),
        (None, Some(_)) if !options.has("timeColumn") => {
            options.problem("timeColumn", "`timeColumn` is missing; with `asOf` it names the event time of the stream's rows");
        }
        _ => {}
    }
    let inner = options.choice("kind", &[("left", false), ("inner", true)]).unwrap_or(false);
    let naming = Naming { prefix: options.string("rightPrefix"), rename: renames(&mut options) };
    let late_output = options.string("lateOutput");
    if late_output.is_some() && !options.has("asOf") {
        options.problem("lateOutput", "without `asOf` no row is ever late; leave this out");
    }
    let problems = options.finish();
    match keys {
        Some(keys) if problems.is_empty() => {
            Ok(Box::new(LookupDef { keys, times: time.zip(as_of).map(|(time, as_of)| [time, as_of]), inner, naming, late_output }))
        }
        _ => Err(problems),
    }
}

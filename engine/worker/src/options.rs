//! The keys of a dataset that are not its connector's.

use crate::plan::{DatasetOptions, TimeOptions};
use crate::settings::read_policy;
use serde_json::{Map, Value};
use tidegate_api::config::{Options, Problem};
use tidegate_api::{FutureRows, Guarantee};

/// The keys that belong to the dataset and not to its connector.
pub(crate) const DATASET_KEYS: &[&str] =
    &["time", "onBadData", "deadLetter", "require", "changelog", "inline", "distribution", "coPartition"];

/// Reads them.
///
/// # Errors
/// Every mistake, with its path inside the dataset.
pub(crate) fn read(map: &Map<String, Value>) -> Result<DatasetOptions, Vec<Problem>> {
    let mut options = Options::new(map);
    let mut read =
        DatasetOptions { on_bad: read_policy(&mut options), dead_letter: options.string("deadLetter"), ..DatasetOptions::default() };
    read.changelog = options.boolean("changelog").unwrap_or(false);
    read.require = options.choice(
        "require",
        &[
            ("at-most-once", Guarantee::AtMostOnce),
            ("at-least-once", Guarantee::AtLeastOnce),
            ("idempotent", Guarantee::Idempotent),
            ("exactly-once", Guarantee::ExactlyOnce),
        ],
    );
    // Accepted and without meaning here: they steer another engine's placement.
    for key in ["inline", "distribution", "coPartition"] {
        options.value(key);
    }
    if let Some(table) = options.table("time") {
        match read_time(table) {
            Ok(time) => read.time = Some(time),
            Err(problems) => options.problems(problems.into_iter().map(|problem| problem.under(["time"]))),
        }
    }
    let problems = options.finish();
    if problems.is_empty() { Ok(read) } else { Err(problems) }
}

fn read_time(table: &Map<String, Value>) -> Result<TimeOptions, Vec<Problem>> {
    let mut options = Options::new(table);
    let time = TimeOptions {
        column: options.string("column"),
        out_of_orderness: options.duration("outOfOrderness"),
        idle_timeout: options.duration("idleTimeout"),
        max_future_skew: options.duration("maxFutureSkew"),
        future_rows: options.choice("futureRows", &[("late", FutureRows::Late), ("keep", FutureRows::Keep)]).unwrap_or_default(),
        splits_in_order: options.boolean("splitsInOrder").unwrap_or(false),
    };
    let problems = options.finish();
    if problems.is_empty() { Ok(time) } else { Err(problems) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
    use std::time::Duration;

    #[test]
    fn the_keys_of_a_dataset_are_read() {
        let map = json!({ "time": { "column": "at", "outOfOrderness": "24h" }, "require": "exactly-once", "inline": true });
        let read = read(map.as_object().unwrap()).unwrap();
        assert_eq!(read.time.unwrap().out_of_orderness, Some(Duration::from_secs(86_400)));
        assert_eq!(read.require, Some(Guarantee::ExactlyOnce));
    }

    #[test]
    fn a_slip_in_time_is_found_where_it_stands() {
        let map = json!({ "time": { "colunm": "at" } });
        let problems = read(map.as_object().unwrap()).unwrap_err();
        assert_eq!(problems[0].to_string(), "time.colunm: unknown key `colunm`, did you mean `column`?");
    }
}

//! `docs/pipeline-file.md`: the tables and keys of a pipeline file, made from the lists here. Steps, connectors and the dialect have pages of
//! their own.

pub mod steps;

use crate::settings::Settings;
use std::fmt::Write;
use std::time::Duration;

/// One key of a table.
struct Key {
    name: &'static str,
    takes: &'static str,
    default: String,
    text: &'static str,
}

fn key(name: &'static str, takes: &'static str, default: impl Into<String>, text: &'static str) -> Key {
    Key { name, takes, default: default.into(), text }
}

/// `[settings]`.
fn settings() -> Vec<Key> {
    let defaults = Settings::defaults(1);
    let restarts = &defaults.restarts;
    let backoff = format!("{}..{}", shown(restarts.backoff_from), shown(restarts.backoff_to));
    vec![
        key("parallelism", "number", "number of cores", "tasks per source, stage and sink, where they can be divided"),
        key("batchRows", "number", defaults.batch_rows.to_string(), "rows per batch"),
        key("batchBytes", "size", size(defaults.batch_bytes), "bytes per batch, about"),
        key("edgeRows", "number", defaults.edge_rows.to_string(), "rows that may be under way to a task, over all its inputs"),
        key("edgeBytes", "size", size(defaults.edge_bytes), "bytes that may be under way to a task"),
        key("checkpointEvery", "duration", shown(defaults.checkpoint_every), "time between two epochs"),
        key(
            "maxEpochDelay",
            "duration",
            shown(defaults.max_epoch_delay),
            "how long sources read on while an epoch is not settled, before they wait for it",
        ),
        key("keepEpochs", "number", defaults.keep_epochs.to_string(), "epochs kept, to go back to"),
        key(
            "atEnd",
            "`drain` or `suspend`",
            "drain",
            "what a bounded input ends in: every window fires and the run is complete, or a later run goes on with new input",
        ),
        key(
            "vnodes",
            "number",
            defaults.vnodes.to_string(),
            "parts in which keyed state is kept; fixed for a state, and an upper bound for `parallelism`",
        ),
        key(
            "onBadData",
            "`fail`, `drop`, `deadLetter` or `rescue`",
            "fail",
            "what becomes of a row that cannot be used, see [bad rows](bad-rows.md)",
        ),
        key("deadLetter", "dataset", "none", "where bad rows go under `deadLetter`"),
        key(
            "outOfOrderness",
            "duration",
            shown(defaults.out_of_orderness),
            "how far a row's time may lie behind the greatest of its split",
        ),
        key("idleTimeout", "duration", shown(defaults.idle_timeout), "a split that has nothing for so long no longer holds the watermark"),
        key(
            "maxFutureSkew",
            "duration",
            shown(defaults.max_future_skew),
            "rows stamped further ahead of the clock do not move the watermark",
        ),
        key("heartbeatEvery", "duration", shown(defaults.heartbeat_every), "time between two records of a host, or two lines of progress"),
        key(
            "maxBadRatio",
            "number from 0 to 1",
            defaults.max_bad_ratio.to_string(),
            "part of the last 100,000 rows that a plugin may convict before the run ends",
        ),
        key("maxMemory", "size", "half of the machine's or the group's", "what the state of all stages may take in memory"),
        key(
            "spill",
            "`true`, `false` or a directory",
            "true",
            "where state goes that finds no room: beside the epochs, nowhere (the run ends with a clear error), or into this directory",
        ),
        key("stateDir", "directory", "`.tidegate/NAME` beside the file", "where epochs are kept"),
        key("stateUrl", "`s3://`, `gs://` or `az://`", "none", "the bucket and prefix where they are kept instead"),
        key(
            "stateOptions",
            "table",
            "from the environment",
            "how that bucket is reached, see [operations](operations.md#state-in-a-bucket)",
        ),
        key("transforms", "list of directories", "none", "roots of the transform registry, see [transforms](transforms.md)"),
        key("restarts.max", "number", restarts.max.to_string(), "restarts within the process before the run fails"),
        key("restarts.within", "duration", shown(restarts.within), "within this time"),
        key("restarts.backoff", "duration`..`duration", backoff, "wait before the first and the last of them"),
    ]
}

/// `[datasets.NAME]`, beside what its connector reads.
fn dataset() -> Vec<Key> {
    let none = || "none".to_string();
    vec![
        key("connector", "connector", "none", "what the dataset is read from, see [connectors](connectors.md)"),
        key("sink", "connector", "none", "what it is written to; a dataset with neither only hands rows from stage to stage"),
        key("time.column", "column", "that of the first step that needs one", "event time: milliseconds since 1970, or any timestamp"),
        key("time.outOfOrderness", "duration", "that of `[settings]`", "how far a row's time may lie behind the greatest of its split"),
        key("time.idleTimeout", "duration", "that of `[settings]`", "a split that has nothing for so long no longer holds the watermark"),
        key("time.maxFutureSkew", "duration", "that of `[settings]`", "rows stamped further ahead of the clock do not move the watermark"),
        key("time.futureRows", "`late` or `keep`", "late", "whether such a row counts as late or passes"),
        key(
            "time.splitsInOrder",
            "`true` or `false`",
            "false",
            "splits follow each other in time, so that one not yet read does not hold the watermark",
        ),
        key(
            "onBadData",
            "as in `[settings]`",
            "that of `[settings]`",
            "of a source: of its rows that cannot be decoded, and of those of all steps behind it",
        ),
        key("deadLetter", "dataset", "that of `[settings]`", "where they go"),
        key(
            "require",
            "`at-most-once`, `at-least-once`, `idempotent` or `exactly-once`",
            none(),
            "of an output: refuse to start with a lesser guarantee",
        ),
        key(
            "changelog",
            "`true` or `false`",
            "false",
            "of an output of rows that replace each other: write every change, with a column `op` (`upsert`, `delete`)",
        ),
        key("inline, distribution, coPartition", "anything", none(), "accepted for files of another engine, without meaning"),
    ]
}

/// `[[stages]]`.
fn stage() -> Vec<Key> {
    vec![
        key("inputs", "list of datasets", "required", "what it reads, in the order of the step's inputs"),
        key("output", "dataset", "required", "what it makes"),
        key("id", "text", "the output's name", "its name in plans, metrics and state; keep it, and state is found again after an edit"),
        key("steps", "list of steps", "none", "what is done to the rows, see [steps](steps.md); at most one step of a stage keeps state"),
    ]
}

/// `[plugins.NAME]`.
fn plugin() -> Vec<Key> {
    vec![
        key("path", "file", "required", "the component"),
        key("config", "table", "none", "its configuration; each use may overlay it key by key"),
        key("limits", "table", "see [plugins](plugins/README.md)", "memory, deadlines, output"),
        key("allow", "table", "nothing", "what it may reach"),
        key("secrets", "table", "none", "secrets by the names under which it asks for them"),
    ]
}

/// The page. `docs/pipeline-file.md` holds exactly this; a test compares.
pub fn markdown() -> String {
    let mut page = String::from(
        "# The pipeline file\n\nMade from `engine/worker/src/reference.rs`; `cargo test -p tidegate -- --ignored write_the_page` writes it again.\n\n\
         A pipeline file is TOML: an optional `name` (by default the file's), tables `[settings]`, `[plugins.NAME]` and `[datasets.NAME]`, and a list \
         `[[stages]]`. An unknown key is a mistake, told with its line and the nearest known name. `${NAME}` and `${NAME:-otherwise}` stand for an \
         environment variable, `${file:PATH}` for the content of a file beside the pipeline file; what comes from them is never printed. \
         Options that hold secrets, such as `sasl.password`, are written by reference only: a literal is a mistake.\n\n\
         A duration is text (`\"250ms\"`, `\"10s\"`, `\"1.5m\"`, `\"2h\"`, `\"7d\"`), or the key with `Ms` behind it and a whole number: \
         `checkpointEveryMs = 250`. A size is a number of bytes or text: `\"64KiB\"`, `\"1.5MiB\"`, `\"2GiB\"`.\n",
    );
    for (title, keys) in [("[settings]", settings()), ("[datasets.NAME]", dataset()), ("[[stages]]", stage()), ("[plugins.NAME]", plugin())]
    {
        let _ = write!(page, "\n## `{title}`\n\n| key | value | default | |\n|---|---|---|---|\n");
        for key in keys {
            let names: Vec<String> = key.name.split(", ").map(|name| format!("`{name}`")).collect();
            let _ = writeln!(page, "| {} | {} | {} | {} |", names.join(", "), key.takes, key.default, key.text);
        }
    }
    page
}

fn shown(duration: Duration) -> String {
    let millis = duration.as_millis();
    match millis {
        0 => "0s".to_string(),
        _ if millis.is_multiple_of(3_600_000) => format!("{}h", millis / 3_600_000),
        _ if millis.is_multiple_of(60_000) => format!("{}m", millis / 60_000),
        _ if millis.is_multiple_of(1000) => format!("{}s", millis / 1000),
        _ => format!("{millis}ms"),
    }
}

fn size(bytes: usize) -> String {
    if bytes.is_multiple_of(1 << 20) { format!("{}MiB", bytes >> 20) } else { format!("{}KiB", bytes >> 10) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options;
    use serde_json::{Map, Value};
    use std::collections::BTreeSet;
    use std::path::{Path, PathBuf};
    use tidegate_api::config::Problem;

    fn page_path() -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/pipeline-file.md")
    }

    #[test]
    fn the_page_is_what_the_lists_say() {
        let page = std::fs::read_to_string(page_path()).unwrap();
        assert!(page == markdown(), "run `cargo test -p tidegate -- --ignored write_the_page`");
    }

    #[test]
    #[ignore = "writes the page"]
    fn write_the_page() {
        std::fs::write(page_path(), markdown()).unwrap();
    }

    /// The keys of a table that a reader does not know: each is given a value that no key takes.
    fn unknown(keys: &[Key], read: impl Fn(&Map<String, Value>) -> Vec<Problem>) -> BTreeSet<String> {
        let mut map = Map::new();
        for name in keys.iter().flat_map(|key| key.name.split(", ")) {
            match name.split_once('.') {
                None => {
                    map.insert(name.to_string(), Value::Array(Vec::new()));
                }
                Some((table, name)) => {
                    let table = map.entry(table).or_insert_with(|| Value::Object(Map::new()));
                    table.as_object_mut().unwrap().insert(name.to_string(), Value::Array(Vec::new()));
                }
            }
        }
        read(&map).iter().map(ToString::to_string).filter(|problem| problem.contains("unknown key")).collect()
    }

    #[test]
    fn every_listed_key_is_read() {
        assert_eq!(unknown(&settings(), |map| Settings::read(map, 1).unwrap_err()), BTreeSet::new());
        let own: Vec<Key> = dataset().into_iter().filter(|key| key.name != "connector" && key.name != "sink").collect();
        assert_eq!(unknown(&own, |map| options::read(map).unwrap_err()), BTreeSet::new());
        let listed: BTreeSet<&str> = own.iter().flat_map(|key| key.name.split(", ")).map(|name| name.split('.').next().unwrap()).collect();
        assert_eq!(listed, options::DATASET_KEYS.iter().copied().collect());
        assert!(unknown(&[key("paralelism", "", "", "")], |map| Settings::read(map, 1).unwrap_err()).len() == 1);
    }

    /// The reader asks for keys by literals, which are looked for in its source: all but a few of them are keys.
    #[test]
    fn every_key_that_is_read_is_listed() {
        let read: BTreeSet<String> = include_str!("settings.rs")
            .split_once("#[cfg(test)]")
            .unwrap()
            .0
            .split('"')
            .skip(1)
            .step_by(2)
            .filter(|text| text.len() > 3 && text.chars().all(char::is_alphanumeric) && text.chars().next().unwrap().is_lowercase())
            .map(str::to_string)
            .collect();
        let listed: BTreeSet<String> = settings().iter().flat_map(|key| key.name.split('.')).map(str::to_string).collect();
        let others = ["drain", "suspend", "fail", "drop", "deadLetter", "rescue", "allowedLateness"];
        let missing: Vec<&String> = read.iter().filter(|name| !listed.contains(*name) && !others.contains(&name.as_str())).collect();
        assert_eq!(missing, Vec::<&String>::new());
    }
}

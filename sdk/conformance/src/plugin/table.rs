//! The table `[conformance]` of a plugin's `plugin.toml`.

use super::command::Command;
use super::service::{Service, filled_table, plain};
use crate::verdict::Progress;
use arrow::datatypes::SchemaRef;
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tidegate_api::config::{Options, Problem};
use tidegate_api::{Error, Result, types};

/// Calls made to find a leak.
const CALLS: usize = 100_000;
/// How long they may take.
const LEAK_TIME: Duration = Duration::from_secs(60);
/// Rows read of each split of a source.
const ROWS: usize = 400;

/// How a plugin is judged, and how its outside is reached.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Conformance {
    /// The folder of `plugin.toml`: commands run in it, relative files and grants start there.
    pub folder: PathBuf,
    /// The configuration, overlaid on that of the plugin.
    pub config: Map<String, Value>,
    /// What it is granted, as `allow` of a pipeline file; a kind of grant that the plugin was given already is left as it is.
    pub allow: Map<String, Value>,
    /// The values of its secrets, unless it was given them already.
    pub secrets: Map<String, Value>,
    /// Stands for the outside while the plugin is judged. Its first line is a JSON object of what it calls things: `${name}` in `config`, `allow` and `secrets` becomes
    /// the member of that name, and commands have the members as variables.
    pub service: Option<Command>,
    /// The columns handed to a transform or sink.
    pub input: Option<SchemaRef>,
    /// Rows for a transform beside the generated ones: a file of JSON lines.
    pub rows: Option<PathBuf>,
    /// The event-time column that a source's watermarks speak of.
    pub time_column: Option<String>,
    /// Fills what a source reads.
    pub seed: Option<Command>,
    /// Makes new splits appear.
    pub seed_more: Option<Command>,
    /// Prints as JSON lines what a reader of a sink's place sees now.
    pub read_back: Option<Command>,
    /// Prints a line for whatever is neither committed nor undone.
    pub leftovers: Option<Command>,
    /// Empties the outside.
    pub reset: Option<Command>,
    /// How long a command may take.
    pub deadline: Duration,
    /// How long a source's poll may wait for the outside.
    pub wait: Duration,
    /// Rows read of each split of a source.
    pub source_rows: usize,
    /// Calls made to find a leak.
    pub calls: usize,
    /// How long they may take; a plugin that is slower is called less often. None: they are all made.
    pub leak_time: Option<Duration>,
    /// Is told what is judged at present.
    pub progress: Progress,
    /// The plugin's version, if it is known.
    pub version: Option<String>,
    /// The file of an older version, whose positions and tokens must be read.
    pub upgrade_from: Option<PathBuf>,
    /// What commands have in their environment beside that of this process.
    pub(super) variables: BTreeMap<String, String>,
}

impl Conformance {
    /// Without an outside: enough for transforms, and for sources that need none.
    pub fn new(folder: impl Into<PathBuf>) -> Self {
        Conformance {
            folder: folder.into(),
            config: Map::new(),
            allow: Map::new(),
            secrets: Map::new(),
            service: None,
            input: None,
            rows: None,
            time_column: None,
            seed: None,
            seed_more: None,
            read_back: None,
            leftovers: None,
            reset: None,
            deadline: Duration::from_secs(60),
            wait: Duration::from_millis(20),
            source_rows: ROWS,
            calls: CALLS,
            leak_time: Some(LEAK_TIME),
            progress: Progress::default(),
            version: None,
            upgrade_from: None,
            variables: BTreeMap::new(),
        }
    }

    /// Reads the table.
    ///
    /// # Errors
    /// Every mistake, by its key.
    pub fn parse(table: &Map<String, Value>, folder: &Path) -> Result<Conformance, Vec<Problem>> {
        let mut it = Conformance::new(folder);
        let mut options = Options::new(table);
        it.config = options.table("config").cloned().unwrap_or_default();
        it.allow = options.table("allow").cloned().unwrap_or_default();
        it.secrets = options.table("secrets").cloned().unwrap_or_default();
        match options.value("input").map(types::schema_of) {
            Some(Ok(schema)) => it.input = Some(schema),
            Some(Err(problems)) => options.problems(problems.into_iter().map(|problem| problem.under(["input"]))),
            None => {}
        }
        it.rows = options.string("rows").map(|file| folder.join(file));
        it.time_column = options.string("time-column");
        let mut command = |key: &str| match Command::parse(options.value(key)?) {
            Ok(command) => Some(command),
            Err(message) => {
                options.problem(key, message);
                None
            }
        };
        it.service = command("service");
        it.seed = command("seed");
        it.seed_more = command("seed-more");
        it.read_back = command("read-back");
        it.leftovers = command("leftovers");
        it.reset = command("reset");
        if let Some(deadline) = options.duration("deadline") {
            if deadline.is_zero() {
                options.problem("deadline", "a command needs some time; the least is `1ms`");
            }
            it.deadline = deadline;
        }
        if let Some(wait) = options.duration("wait") {
            it.wait = wait;
        }
        if let Some(rows) = options.unsigned("source-rows") {
            it.source_rows = usize::try_from(rows).unwrap_or(ROWS).max(1);
        }
        if let Some(calls) = options.unsigned("calls") {
            it.calls = usize::try_from(calls).unwrap_or(CALLS);
            it.leak_time = None;
        }
        let problems = options.finish();
        if problems.is_empty() { Ok(it) } else { Err(problems) }
    }

    /// Runs a command, if there is one.
    pub(crate) fn run(&self, command: Option<&Command>) -> Result<()> {
        match command {
            Some(command) => self.print(command).map(drop),
            None => Ok(()),
        }
    }

    /// What a command prints.
    pub(super) fn print(&self, command: &Command) -> Result<String> {
        command.run(&self.folder, &self.variables, self.deadline)
    }

    /// Starts the service, if there is one, and fills in what it names.
    pub(super) fn served(&self) -> Result<(Conformance, Option<Service>)> {
        let mut it = self.clone();
        let Some(command) = &self.service else { return Ok((it, None)) };
        it.progress.tell("the service starts");
        let service = Service::start(command, &self.folder, self.deadline)?;
        let names = service.names();
        for (key, table) in [("config", &mut it.config), ("allow", &mut it.allow), ("secrets", &mut it.secrets)] {
            *table = filled_table(table, names).map_err(|message| Error::config(format!("`[conformance]`: `{key}`: {message}")))?;
        }
        it.variables.extend(names.iter().map(|(name, value)| (name.clone(), plain(value))));
        Ok((it, Some(service)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn every_key_is_read_and_every_mistake_is_found() {
        let table = json!({
            "config": { "dir": "/out" }, "allow": { "dirs": ["out=/out:rw"] }, "secrets": { "token": "t" },
            "service": ["cat"], "input": [{ "name": "n", "type": "int64" }],
            "rows": "rows.jsonl", "time-column": "ts", "seed": "true", "seed-more": ["true"], "read-back": "cat out/*", "leftovers": "ls out",
            "reset": "rm -rf out", "deadline": "5s", "wait": "1ms", "source-rows": 50, "calls": 10
        });
        let it = Conformance::parse(table.as_object().unwrap(), Path::new("/p")).unwrap();
        assert_eq!((it.calls, it.source_rows, it.deadline), (10, 50, Duration::from_secs(5)));
        assert_eq!((it.leak_time, Conformance::new("").leak_time), (None, Some(LEAK_TIME)));
        assert_eq!(it.rows.unwrap(), Path::new("/p/rows.jsonl"));
        assert_eq!(it.input.unwrap().field(0).name(), "n");
        assert_eq!(it.seed_more, Some(Command::Program(vec!["true".into()])));
        assert_eq!((it.service, it.secrets["token"].as_str()), (Some(Command::Program(vec!["cat".into()])), Some("t")));
        let table = json!({ "readback": "x", "seed": 7, "input": [{ "name": "n", "type": "int46" }], "config": [] });
        let problems = Conformance::parse(table.as_object().unwrap(), Path::new("")).unwrap_err();
        let text: Vec<String> = problems.iter().map(ToString::to_string).collect();
        assert_eq!(problems.len(), 4, "{text:?}");
        assert!(text.iter().any(|text| text.contains("read-back")), "{text:?}");
    }

    #[test]
    fn what_the_service_names_stands_in_the_table_and_in_the_environment_of_commands() {
        let table = json!({
            "service": "echo '{\"port\": 7}'; exec cat", "config": { "at": "h:${port}", "port": "${port}" }, "allow": { "tcp": ["h:${port}"] }, "secrets": { "a": "b" }
        });
        let (it, service) = Conformance::parse(table.as_object().unwrap(), Path::new("")).unwrap().served().unwrap();
        assert_eq!(Value::Object(it.config.clone()), json!({ "at": "h:7", "port": 7 }));
        assert_eq!(Value::Object(it.allow.clone()), json!({ "tcp": ["h:7"] }));
        assert_eq!(it.print(&Command::Shell("echo ${port}".into())).unwrap(), "7\n");
        service.unwrap().check().unwrap();
        let table = json!({ "service": "echo '{}'; exec cat", "config": { "at": "${url}" } });
        let error = Conformance::parse(table.as_object().unwrap(), Path::new("")).unwrap().served().map(drop).unwrap_err().to_string();
        assert!(error.contains("`[conformance]`: `config`: `${url}`: the service names no `url`, but nothing"), "{error}");
    }
}

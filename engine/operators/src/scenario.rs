//! Scenario files: a story in aligned tables. `../scenarios/README.md` describes the form.
//!
//! Every file runs twice: as it stands, and with a snapshot, a crash and a restore at another task count after every line.

use crate::lean::testing::{Row, batch, schema, table, updates, updating};
use crate::step::StreamType;
use crate::testing::{Job, bind};
use std::path::Path;
use tidegate_api::{ChangeMode, EventTime, hidden};

/// A line's first word, its rest, and the table below it.
#[derive(Debug)]
struct Command {
    line: usize,
    word: String,
    rest: String,
    table: Vec<Vec<String>>,
}

fn commands(text: &str) -> Vec<Command> {
    let mut commands: Vec<Command> = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        if let Some(cells) = line.strip_prefix('|') {
            let cells = cells.trim_end_matches('|').split('|').map(|cell| cell.trim().to_string()).collect();
            commands.last_mut().expect("a table stands below a command").table.push(cells);
            continue;
        }
        let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
        commands.push(Command { line: index + 1, word: word.into(), rest: rest.trim().into(), table: Vec::new() });
    }
    commands
}

fn rows(table: &[Vec<String>]) -> Vec<Row> {
    let (header, body) = table.split_first().expect("a batch has a header");
    body.iter()
        .map(|cells| {
            assert_eq!(cells.len(), header.len(), "a cell for every column: {cells:?}");
            let mut row = Row::default();
            for (name, cell) in header.iter().zip(cells).filter(|(_, cell)| *cell != "-") {
                match name.as_str() {
                    "t" => row.t = Some(cell.parse().unwrap()),
                    "k" => row.k = Some(cell.parse().unwrap()),
                    "s" => row.s = Some(cell.clone()),
                    "v" => row.v = Some(cell.parse().unwrap()),
                    "f" => row.f = Some(cell.parse().unwrap()),
                    "gone" => row.gone = cell == "yes",
                    other => panic!("the tests have no column `{other}`"),
                }
            }
            row
        })
        .collect()
}

/// `append`, or `updates by k, s`.
fn input(text: &str) -> StreamType {
    match text.strip_prefix("updates by ") {
        Some(keys) => {
            let keys = keys.split(',').map(|key| key.trim().to_string()).collect();
            StreamType { schema: updating(), mode: ChangeMode::Upsert { keys } }
        }
        None => {
            assert_eq!(text, "append", "an input is `append`, or `updates by` its keys");
            StreamType::append(schema())
        }
    }
}

/// A table of the file, less its header, as sorted lines.
fn lines(table: &[Vec<String>]) -> Vec<String> {
    let mut lines: Vec<String> = table.iter().skip(1).map(|cells| cells.join(" ")).collect();
    lines.sort();
    lines
}

#[derive(Clone, Copy, PartialEq)]
enum Mode {
    AsWritten,
    CrashAfterEveryLine,
}

fn play(name: &str, text: &str, mode: Mode) {
    let mut commands = commands(text).into_iter().peekable();
    let first = commands.next_if(|command| command.word == "step").expect("a scenario begins with its step");
    let step: toml::Table = format!("step = {}", first.rest).parse().unwrap();
    let step = serde_json::to_value(&step["step"]).unwrap();
    let mut inputs = Vec::new();
    while let Some(command) = commands.next_if(|command| command.word == "input") {
        inputs.push(input(&command.rest));
    }
    if inputs.is_empty() {
        inputs.push(input("append"));
    }
    let tasks = commands.next_if(|command| command.word == "tasks").map_or(1, |command| command.rest.parse().unwrap());
    let bound = bind(&step, &inputs, false);
    let columns: Vec<String> = hidden::visible_schema(&bound.output.schema).fields().iter().map(|field| field.name().clone()).collect();
    let keys: Vec<String> = match &bound.output.mode {
        ChangeMode::Append => Vec::new(),
        ChangeMode::Upsert { keys } => keys.clone(),
    };
    let updates_itself = matches!(bound.output.mode, ChangeMode::Upsert { .. });
    let mut job = Job::new(bound, tasks, 8192);
    let (mut late, mut filtered, mut bad, mut crashes) = (0, 0, 0, 0);
    for command in commands {
        let place = format!("{name}:{}", command.line);
        match command.word.as_str() {
            "batch" => {
                let number = if command.rest.is_empty() { 0 } else { command.rest.parse::<usize>().unwrap() - 1 };
                let rows = rows(&command.table);
                let made = match inputs[number].mode {
                    ChangeMode::Append => batch(&rows),
                    ChangeMode::Upsert { .. } => updates(&rows),
                };
                job.batch(number, &made);
            }
            "watermark" => job.watermark(EventTime::from_millis(command.rest.parse().unwrap())),
            "end" => job.end(),
            "rescale" => {
                let snapshot = job.snapshot();
                job.restore(&snapshot, command.rest.parse().unwrap());
            }
            "emits" => {
                assert!(!updates_itself, "{place}: the step's rows update each other; say what it `becomes`");
                assert_eq!(command.table[0], columns, "{place}");
                let mut made: Vec<String> = job.made.rows().iter().map(|row| row.replace('"', "")).collect();
                made.sort();
                assert_eq!(made, lines(&command.table), "{place}");
                job.made.batches.clear();
            }
            "becomes" => {
                assert!(updates_itself, "{place}: the step's rows are final; say what it `emits`");
                assert_eq!(command.table[0], columns, "{place}");
                let keys: Vec<&str> = keys.iter().map(String::as_str).collect();
                let mut made: Vec<String> = table(&job.made, &keys).into_values().map(|row| row.replace('"', "")).collect();
                made.sort();
                assert_eq!(made, lines(&command.table), "{place}");
            }
            "late" => {
                late += command.rest.parse::<usize>().unwrap();
                assert_eq!(job.made.late, late, "{place}");
            }
            "filtered" => {
                filtered += command.rest.parse::<u64>().unwrap();
                assert_eq!(job.made.filtered, filtered, "{place}");
            }
            "bad" => {
                let found: Vec<&str> = job.made.bad[bad..].iter().map(|row| row.reason.label()).collect();
                assert_eq!(found.join(" "), command.rest, "{place}");
                bad = job.made.bad.len();
            }
            other => panic!("{place}: there is no command `{other}`"),
        }
        if mode == Mode::CrashAfterEveryLine {
            let snapshot = job.snapshot();
            crashes += 1;
            job.restore(&snapshot, [1, 3, 2][crashes % 3]);
        }
    }
    assert!(updates_itself || job.made.batches.is_empty(), "{name}: more came out than the scenario says: {:?}", job.made.rows());
    assert_eq!((job.made.late, job.made.bad.len()), (late, bad), "{name}: more rows were late or bad than the scenario says");
}

#[test]
fn every_scenario_plays_as_written_and_with_a_crash_after_every_line() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("scenarios");
    let mut played = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|extension| extension == "scenario") {
            let (name, text) = (path.file_name().unwrap().to_string_lossy().into_owned(), std::fs::read_to_string(&path).unwrap());
            play(&name, &text, Mode::AsWritten);
            play(&name, &text, Mode::CrashAfterEveryLine);
            played.push(text.lines().find_map(|line| line.split_once("op = \"")?.1.split('"').next().map(str::to_string)).unwrap());
        }
    }
    for op in ["windowedAggregate", "sessionAggregate", "streamJoin", "lookupJoin", "aggregate", "topN", "lastN", "deduplicate"] {
        assert!(played.iter().any(|played| played == op), "there is no scenario of `{op}`");
    }
}

//! Scenario files: a story in aligned tables. `../../../scenarios/README.md` describes the form.
//!
//! Every file runs twice: as it stands, and with a snapshot, a crash and a restore at another task count after every line.

use super::harness::{Job, Row};
use std::path::Path;
use tidegate_api::EventTime;

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
            let mut row = Row::default();
            for (name, cell) in header.iter().zip(cells).filter(|(_, cell)| *cell != "-") {
                match name.as_str() {
                    "t" => row.t = Some(cell.parse().unwrap()),
                    "k" => row.k = Some(cell.parse().unwrap()),
                    "s" => row.s = Some(cell.clone()),
                    "v" => row.v = Some(cell.parse().unwrap()),
                    "f" => row.f = Some(cell.parse().unwrap()),
                    other => panic!("the tests have no column `{other}`"),
                }
            }
            row
        })
        .collect()
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
    let tasks = commands.next_if(|command| command.word == "tasks").map_or(1, |command| command.rest.parse().unwrap());
    let mut job = Job::new(&step, tasks, 8192);
    let (mut late, mut bad, mut crashes) = (0, 0, 0);
    for command in commands {
        let place = format!("{name}:{}", command.line);
        match command.word.as_str() {
            "batch" => job.rows(&rows(&command.table)),
            "watermark" => job.watermark(EventTime::from_millis(command.rest.parse().unwrap())),
            "end" => job.watermark(EventTime::MAX),
            "rescale" => {
                let snapshot = job.snapshot();
                job.restore(&snapshot, command.rest.parse().unwrap());
            }
            "emits" => {
                let mut expected: Vec<String> = command.table.iter().skip(1).map(|cells| cells.join(" ")).collect();
                expected.sort();
                let mut made: Vec<String> = job.made.rows().iter().map(|row| row.replace('"', "")).collect();
                made.sort();
                assert_eq!(made, expected, "{place}");
                job.made.batches.clear();
            }
            "late" => {
                late += command.rest.parse::<usize>().unwrap();
                assert_eq!(job.made.late, late, "{place}");
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
    assert!(job.made.batches.is_empty(), "{name}: more came out than the scenario says: {:?}", job.made.rows());
}

#[test]
fn every_scenario_plays_as_written_and_with_a_crash_after_every_line() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("scenarios");
    let mut played = 0;
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|extension| extension == "scenario") {
            let (name, text) = (path.file_name().unwrap().to_string_lossy().into_owned(), std::fs::read_to_string(&path).unwrap());
            play(&name, &text, Mode::AsWritten);
            play(&name, &text, Mode::CrashAfterEveryLine);
            played += 1;
        }
    }
    assert!(played >= 4, "the scenarios are missing");
}

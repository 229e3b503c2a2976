//! The examples over flights that join, sort into sessions and rank: as many tasks as may be give the batch answer.

#![allow(clippy::unwrap_used, reason = "a test may end by panicking")]

use serde_json::Value;
use std::collections::{BTreeMap, HashMap};
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::Command;
use tidegate_tests::{command, root, shared};

/// An answer as lines of CSV, sorted.
type Rows = Vec<String>;

const HOUR: i64 = 3_600_000;
const DAY: i64 = 24 * HOUR;

/// An example's file, the columns by which its answer is compared, and the answer recomputed from all rows.
struct Query {
    example: &'static str,
    columns: &'static [&'static str],
    oracle: fn(&Input) -> Rows,
}

const QUERIES: [Query; 3] = [
    Query { example: "weather_join", columns: &["origin", "pairs", "delay_sum", "visib_avg"], oracle: weather_join },
    Query {
        example: "sessions_by_plane",
        columns: &["tailnum", "windowStart", "windowEnd", "flights", "miles"],
        oracle: sessions_by_plane,
    },
    Query {
        example: "top3_delays_by_day",
        columns: &["day", "carrier", "flight", "origin", "dep_delay", "rank"],
        oracle: top3_delays_by_day,
    },
];

/// The files that an example reads.
struct Files {
    flights: PathBuf,
    weather: PathBuf,
}

/// The same, decoded: rows as cells by column.
struct Input {
    flights: Table,
    weather: Table,
}

struct Table {
    columns: HashMap<String, usize>,
    rows: Vec<Vec<String>>,
}

impl Table {
    fn read(path: &Path) -> Table {
        let text = unzipped(path);
        let mut lines = text.lines().map(|line| line.split(',').map(str::to_string).collect::<Vec<_>>());
        let header = lines.next().unwrap();
        Table { columns: header.into_iter().enumerate().map(|(index, name)| (name, index)).collect(), rows: lines.collect() }
    }

    /// Every row as the cells of these columns.
    fn each<const N: usize>(&self, columns: [&str; N]) -> impl Iterator<Item = [&str; N]> {
        let indices = columns.map(|name| self.columns[name]);
        self.rows.iter().map(move |row| indices.map(|index| row[index].as_str()))
    }
}

fn unzipped(path: &Path) -> String {
    let mut text = String::new();
    flate2::read::MultiGzDecoder::new(std::fs::File::open(path).unwrap()).read_to_string(&mut text).unwrap();
    text
}

fn millis(text: &str) -> i64 {
    chrono::DateTime::parse_from_rfc3339(text).unwrap().timestamp_millis()
}

/// Missing delays add nothing, and an hour without weather has no pair.
fn weather_join(input: &Input) -> Rows {
    let visib: HashMap<(&str, i64), f64> = input
        .weather
        .each(["origin", "time_hour", "visib"])
        .map(|[origin, time, visib]| ((origin, millis(time)), visib.parse().unwrap()))
        .collect();
    let mut sums: BTreeMap<&str, (i64, i64, f64)> = BTreeMap::new();
    for [origin, time, delay] in input.flights.each(["origin", "time_hour", "dep_delay"]) {
        if let Some(visib) = visib.get(&(origin, millis(time))) {
            let (pairs, delays, sum) = sums.entry(origin).or_default();
            *pairs += 1;
            *delays += delay.parse().unwrap_or(0);
            *sum += visib;
        }
    }
    let row = |(origin, (pairs, delays, sum)): (&str, (i64, i64, f64))| {
        format!("{origin},{pairs},{delays},{}", (sum / pairs as f64 * 1e6).round() / 1e6)
    };
    sums.into_iter().map(row).collect()
}

/// A departure exactly a day after the one before is of the same session.
fn sessions_by_plane(input: &Input) -> Rows {
    let mut planes: BTreeMap<&str, Vec<(i64, i64)>> = BTreeMap::new();
    for [tailnum, time, distance] in input.flights.each(["tailnum", "time_hour", "distance"]) {
        if tailnum != "NA" {
            planes.entry(tailnum).or_default().push((millis(time), distance.parse().unwrap()));
        }
    }
    let mut rows = Rows::new();
    for (tailnum, mut flights) in planes {
        flights.sort_unstable();
        for session in flights.chunk_by(|before, after| after.0 - before.0 <= DAY) {
            let (first, last) = (session[0].0, session[session.len() - 1].0);
            let miles: i64 = session.iter().map(|(_, distance)| distance).sum();
            rows.push(format!("{tailnum},{first},{},{},{miles}", last + DAY, session.len()));
        }
    }
    rows.sort();
    rows
}

/// What ranks a departure, in the order that ranks it: the delay, greatest first, then what decides between equal ones.
type Departure<'a> = (i64, &'a str, i64, &'a str, i64);

/// Of equal delays the first by carrier, flight, origin and time.
fn top3_delays_by_day(input: &Input) -> Rows {
    let mut days: BTreeMap<i64, Vec<Departure<'_>>> = BTreeMap::new();
    for [time, delay, carrier, flight, origin] in input.flights.each(["time_hour", "dep_delay", "carrier", "flight", "origin"]) {
        let at = millis(time);
        if let Ok(delay) = delay.parse::<i64>() {
            days.entry(at.div_euclid(DAY) * DAY).or_default().push((-delay, carrier, flight.parse().unwrap(), origin, at));
        }
    }
    let mut rows = Rows::new();
    for (day, mut flights) in days {
        flights.sort_unstable();
        for (rank, (delay, carrier, flight, origin, _)) in flights.iter().take(3).enumerate() {
            rows.push(format!("{day},{carrier},{flight},{origin},{},{}", -delay, rank + 1));
        }
    }
    rows.sort();
    rows
}

/// Runs an example over these files in so many tasks; what it wrote to stdout or to files.
fn run(query: &Query, files: &Files, tasks: usize) -> Rows {
    let example = root().join("examples/flights").join(query.example).with_extension("toml");
    let mut text = std::fs::read_to_string(&example).unwrap();
    let mut put = |from: &str, to: &str| {
        assert!(text.contains(from) || from.contains("weather"), "`{from}` stands nowhere in `{}`", example.display());
        text = text.replace(from, to);
    };
    put("parallelism = 2", &format!("parallelism = {tasks}"));
    put("data/flights-week1.csv.gz", &files.flights.display().to_string());
    put("data/weather-week1.csv.gz", &files.weather.display().to_string());
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("example.toml"), text).unwrap();
    let output = Command::new(command()).args(["run", "example.toml"]).current_dir(folder.path()).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    assert!(!said.contains("lateRows"), "{said}");
    let mut lines = String::from_utf8(output.stdout).unwrap();
    for written in std::fs::read_dir(folder.path().join("out")).into_iter().flatten() {
        let parts = std::fs::read_dir(written.unwrap().path()).unwrap().map(|entry| entry.unwrap().path());
        lines.extend(parts.filter(|part| part.is_file()).map(|part| std::fs::read_to_string(part).unwrap()));
    }
    let mut rows: Rows = lines.lines().map(|line| row_of_json(line, query.columns)).collect();
    rows.sort();
    rows
}

fn row_of_json(line: &str, columns: &[&str]) -> String {
    let row: Value = serde_json::from_str(line).unwrap();
    let cell = |name: &&str| match &row[name] {
        Value::String(text) if ["day", "windowStart", "windowEnd"].contains(name) => millis(&format!("{text}Z")).to_string(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    columns.iter().map(cell).collect::<Vec<_>>().join(",")
}

fn compare(query: &Query, files: &Files, expected: &Rows, tasks: usize) {
    let rows = run(query, files, tasks);
    assert_eq!(rows.len(), expected.len(), "{}, {tasks} tasks", query.example);
    let differs = rows.iter().zip(expected).find(|(row, expected)| row != expected);
    assert_eq!(differs, None, "{}, {tasks} tasks", query.example);
}

#[test]
fn answers_about_the_first_week_equal_the_oracle() {
    let data = root().join("examples/flights/data");
    let files = Files { flights: data.join("flights-week1.csv.gz"), weather: data.join("weather-week1.csv.gz") };
    let input = Input { flights: Table::read(&files.flights), weather: Table::read(&files.weather) };
    for query in &QUERIES {
        let expected = (query.oracle)(&input);
        assert!(!expected.is_empty());
        for tasks in [1, 2, 3] {
            compare(query, &files, &expected, tasks);
        }
    }
}

#[test]
fn answers_about_the_whole_year_equal_the_independent_ones() {
    let Some(shared) = shared() else {
        // Users have no such folder; the first week above is theirs.
        eprintln!("the whole year is not on this machine; the first week is compared above");
        return;
    };
    let data = shared.join("data/nycflights13");
    let files = Files { flights: data.join("flights.csv.gz"), weather: data.join("weather.csv.gz") };
    let input = Input { flights: Table::read(&files.flights), weather: Table::read(&files.weather) };
    for query in &QUERIES {
        let text = unzipped(&data.join("expected").join(query.example).with_extension("csv.gz"));
        let mut lines = text.lines();
        assert_eq!(lines.next().unwrap().split(',').collect::<Vec<_>>(), query.columns);
        let mut expected: Rows = lines.map(str::to_string).collect();
        expected.sort();
        assert!((query.oracle)(&input) == expected, "{}: the oracle of these tests agrees with the independent database", query.example);
        for tasks in [1, 3] {
            compare(query, &files, &expected, tasks);
        }
    }
}

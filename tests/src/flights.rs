//! The flights as tests know them: read from their file, and their windows recomputed from the whole of it.

#![allow(clippy::unwrap_used, reason = "only tests call this")]

use crate::{root, shared};
use flate2::read::MultiGzDecoder;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::io::Read;
use std::path::Path;

/// How much of the flights there is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Extent {
    /// The whole of 2013.
    Year,
    /// Its first week.
    Week,
}

/// Flights, and what their hourly windows by origin are.
pub struct Flights {
    /// How much there is.
    pub extent: Extent,
    /// A header and a line for each.
    pub text: String,
    /// As [`hourly_by_origin`] has them: by another program or by recomputing.
    pub hourly: BTreeSet<String>,
}

impl Flights {
    /// The whole year if this machine has it, the first week otherwise.
    ///
    /// # Panics
    /// If they cannot be read.
    pub fn largest() -> Flights {
        match shared() {
            Some(shared) => {
                let folder = shared.join("data/nycflights13");
                let hourly = unzipped(&folder.join("expected/hourly_by_origin.csv.gz")).lines().skip(1).map(str::to_string).collect();
                Flights { extent: Extent::Year, text: unzipped(&folder.join("flights.csv.gz")), hourly }
            }
            None => Flights::week(),
        }
    }

    /// The first week.
    ///
    /// # Panics
    /// If it cannot be read.
    pub fn week() -> Flights {
        let text = unzipped(&root().join("examples/flights/data/flights-week1.csv.gz"));
        let hourly = hourly_by_origin(&text).into_iter().collect();
        Flights { extent: Extent::Week, text, hourly }
    }
}

/// A window as [`hourly_by_origin`] has it, of a row with the columns `origin`, `windowStart`, `flights`, `cancelled`, `delay_sum`, `delay_max` and `miles`.
///
/// # Panics
/// If a column is missing or is something else.
pub fn hourly_row(row: &Value) -> String {
    let start = format!("{}Z", row["windowStart"].as_str().unwrap().trim_end_matches('Z'));
    let start = chrono::DateTime::parse_from_rfc3339(&start).unwrap();
    let number = |name: &str| row[name].as_i64().map(|number| number.to_string()).unwrap_or_default();
    let values = ["flights", "cancelled", "delay_sum", "delay_max", "miles"].map(number).join(",");
    format!("{},{},{values}", row["origin"].as_str().unwrap(), start.timestamp_millis())
}

/// The text of a gzipped file.
///
/// # Panics
/// If it cannot be read.
pub fn unzipped(path: &Path) -> String {
    let mut text = String::new();
    MultiGzDecoder::new(std::fs::File::open(path).unwrap()).read_to_string(&mut text).unwrap();
    text
}

/// The hourly windows by origin of a whole file, recomputed: `origin,windowStart,flights,cancelled,delay_sum,delay_max,miles`, sorted.
///
/// # Panics
/// If the text is no table of flights.
pub fn hourly_by_origin(text: &str) -> Vec<String> {
    #[derive(Default)]
    struct Window {
        flights: i64,
        departed: i64,
        delays: Vec<i64>,
        miles: i64,
    }
    let mut lines = text.lines();
    let header: Vec<&str> = lines.next().unwrap().split(',').collect();
    let at = |name: &str| header.iter().position(|column| *column == name).unwrap();
    let (time, origin, dep_time, dep_delay, distance) = (at("time_hour"), at("origin"), at("dep_time"), at("dep_delay"), at("distance"));
    let mut windows: BTreeMap<(String, i64), Window> = BTreeMap::new();
    for line in lines {
        let cells: Vec<&str> = line.split(',').collect();
        let millis = chrono::DateTime::parse_from_rfc3339(cells[time]).unwrap().timestamp_millis();
        let window = windows.entry((cells[origin].to_string(), millis.div_euclid(3_600_000) * 3_600_000)).or_default();
        window.flights += 1;
        window.departed += i64::from(cells[dep_time] != "NA");
        window.delays.extend(cells[dep_delay].parse::<i64>());
        window.miles += cells[distance].parse::<i64>().unwrap();
    }
    let mut rows: Vec<String> = windows
        .into_iter()
        .map(|((origin, start), window)| {
            let sum = if window.delays.is_empty() { String::new() } else { window.delays.iter().sum::<i64>().to_string() };
            let max = window.delays.iter().max().map(i64::to_string).unwrap_or_default();
            let cancelled = window.flights - window.departed;
            format!("{origin},{start},{},{cancelled},{sum},{max},{}", window.flights, window.miles)
        })
        .collect();
    rows.sort();
    rows
}

//! The flights as tests know them: read from their file, and their windows recomputed from the whole of it.

#![allow(clippy::unwrap_used, reason = "only tests call this")]

use flate2::read::MultiGzDecoder;
use std::collections::BTreeMap;
use std::io::Read;
use std::path::Path;

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

//! What each job means, recomputed from all rows at once in plain Rust. Every answer is sorted.

use super::rows::{Row, Shown};
use std::collections::BTreeMap;

fn some(values: &[i64]) -> Shown {
    values.iter().map(|value| Some(*value)).collect()
}

/// Start, end, key, count, sum of the windows of this size that begin every `slide`.
pub fn windows(rows: &[Row], size: i64, slide: i64) -> Vec<Shown> {
    let mut groups: BTreeMap<(i64, i64), (i64, i64)> = BTreeMap::new();
    for row in rows {
        let mut start = row.time.div_euclid(slide) * slide;
        while start + size > row.time {
            let (count, sum) = groups.entry((start, row.key)).or_default();
            *count += 1;
            *sum += row.value;
            start -= slide;
        }
    }
    groups.into_iter().map(|((start, key), (count, sum))| some(&[start, start + size, key, count, sum])).collect()
}

/// Start, end, key, count, sum of the sessions.
pub fn sessions(rows: &[Row], gap: i64) -> Vec<Shown> {
    let mut by_key: BTreeMap<i64, Vec<Row>> = BTreeMap::new();
    rows.iter().for_each(|row| by_key.entry(row.key).or_default().push(*row));
    let mut found = Vec::new();
    for (key, mut rows) in by_key {
        rows.sort_by_key(|row| row.time);
        for session in rows.chunk_by(|one, next| next.time - one.time <= gap) {
            let (first, last) = (session[0].time, session[session.len() - 1].time);
            found.push(some(&[first, last + gap, key, session.len() as i64, session.iter().map(|row| row.value).sum()]));
        }
    }
    found.sort();
    found
}

/// Which rows of a join come out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Inner,
    Left,
    Full,
    Semi,
    Anti,
}

fn meet(left: &Row, right: &Row, within: i64) -> bool {
    left.key == right.key && (left.time - right.time).abs() <= within
}

/// The ids of the left and the right row.
pub fn join(left: &[Row], right: &[Row], within: i64, kind: Kind) -> Vec<Shown> {
    let mut found: Vec<Shown> = Vec::new();
    for row in left {
        let partners: Vec<&Row> = right.iter().filter(|other| meet(row, other, within)).collect();
        match kind {
            Kind::Semi if !partners.is_empty() => found.push(vec![Some(row.id)]),
            Kind::Anti if partners.is_empty() => found.push(vec![Some(row.id)]),
            Kind::Semi | Kind::Anti => {}
            Kind::Left | Kind::Full if partners.is_empty() => found.push(vec![Some(row.id), None]),
            Kind::Inner | Kind::Left | Kind::Full => found.extend(partners.iter().map(|other| some(&[row.id, other.id]))),
        }
    }
    if kind == Kind::Full {
        let alone = right.iter().filter(|row| !left.iter().any(|other| meet(other, row, within)));
        found.extend(alone.map(|row| vec![None, Some(row.id)]));
    }
    found.sort();
    found
}

/// The left row of each pair, with the sum of both values.
pub fn pairs(left: &[Row], right: &[Row], within: i64) -> Vec<Row> {
    let of = |row: &Row| {
        right
            .iter()
            .filter(|other| meet(row, other, within))
            .map(|other| Row { value: row.value + other.value, ..*row })
            .collect::<Vec<_>>()
    };
    left.iter().flat_map(of).collect()
}

fn ranked(rows: &[Row], n: usize) -> Vec<(i64, i64, i64)> {
    let mut by_key: BTreeMap<i64, Vec<Row>> = BTreeMap::new();
    rows.iter().for_each(|row| by_key.entry(row.key).or_default().push(*row));
    let mut found = Vec::new();
    for (key, mut rows) in by_key {
        rows.sort_by_key(|row| (-row.value, row.id));
        found.extend(rows.iter().take(n).enumerate().map(|(rank, row)| (key, rank as i64 + 1, row.id)));
    }
    found
}

/// Key, rank and id of the `n` rows of each key with the greatest values.
pub fn top(rows: &[Row], n: usize) -> Vec<Shown> {
    let mut found: Vec<Shown> = ranked(rows, n).into_iter().map(|(key, rank, id)| some(&[key, rank, id])).collect();
    found.sort();
    found
}

/// The same, window by window: the window's start comes first.
pub fn top_of_windows(rows: &[Row], n: usize, size: i64) -> Vec<Shown> {
    let mut by_window: BTreeMap<i64, Vec<Row>> = BTreeMap::new();
    rows.iter().for_each(|row| by_window.entry(row.time.div_euclid(size) * size).or_default().push(*row));
    let of = |(start, rows): (i64, Vec<Row>)| ranked(&rows, n).into_iter().map(move |(key, rank, id)| some(&[start, key, rank, id]));
    let mut found: Vec<Shown> = by_window.into_iter().flat_map(of).collect();
    found.sort();
    found
}

/// Key, count and sum of all rows.
pub fn totals(rows: &[Row]) -> Vec<Shown> {
    let mut groups: BTreeMap<i64, (i64, i64)> = BTreeMap::new();
    for row in rows {
        let (count, sum) = groups.entry(row.key).or_default();
        *count += 1;
        *sum += row.value;
    }
    groups.into_iter().map(|(key, (count, sum))| some(&[key, count, sum])).collect()
}

/// The windows of `size` over the starts of windows of `inner`: start, key, count of rows, sum.
pub fn windows_of_windows(rows: &[Row], inner: i64, size: i64) -> Vec<Shown> {
    let mut groups: BTreeMap<(i64, i64), (i64, i64)> = BTreeMap::new();
    for row in rows {
        let start = (row.time.div_euclid(inner) * inner).div_euclid(size) * size;
        let (count, sum) = groups.entry((start, row.key)).or_default();
        *count += 1;
        *sum += row.value;
    }
    groups.into_iter().map(|((start, key), (count, sum))| some(&[start, key, count, sum])).collect()
}

/// The `n` rows of each key with the greatest ids.
pub fn last(rows: &[Row], n: usize) -> Vec<Row> {
    let newer = |row: &Row| rows.iter().filter(|other| other.key == row.key && other.id > row.id).count();
    rows.iter().copied().filter(|row| newer(row) < n).collect()
}

/// The ids of each row of the stream and of the version of its key that was valid at its time.
pub fn as_of(stream: &[Row], versions: &[Row]) -> Vec<Shown> {
    let valid =
        |row: &Row| versions.iter().filter(|version| version.key == row.key && version.time <= row.time).max_by_key(|version| version.time);
    let mut found: Vec<Shown> = stream.iter().map(|row| vec![Some(row.id), valid(row).map(|version| version.id)]).collect();
    found.sort();
    found
}

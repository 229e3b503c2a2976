//! The first rows of every group, from the whole input, in plain Rust. What breaks the last ties is the step's own hash.

use crate::lean::RowHash;
use crate::lean::testing::*;
use serde_json::{Value, json};
use std::cmp::Ordering;
use std::collections::BTreeMap;

/// How rows are ranked.
#[derive(Debug, Clone)]
pub(super) struct Ask {
    pub(super) order: &'static str,
    pub(super) desc: bool,
    pub(super) ties: &'static [&'static str],
    pub(super) n: usize,
    pub(super) by: &'static [&'static str],
}

impl Ask {
    pub(super) fn step(&self) -> Value {
        json!({ "op": "topN", "orderBy": self.order, "direction": if self.desc { "desc" } else { "asc" }, "tieBy": self.ties, "n": self.n,
                "groupBy": self.by })
    }

    /// The upsert keys of the output.
    pub(super) fn keys(&self) -> Vec<&'static str> {
        self.by.iter().copied().chain(["rank"]).collect()
    }
}

fn hash(row: &Row) -> u64 {
    let batch = batch(std::slice::from_ref(row));
    let types: Vec<_> = batch.columns().iter().map(|column| column.data_type().clone()).collect();
    let mut hashes = Vec::new();
    RowHash::new(&types).unwrap().of(batch.columns(), 1, &mut hashes).unwrap();
    hashes[0]
}

/// Nulls are the greatest, NaN the greatest of the rest.
fn compare(a: &Row, b: &Row, column: &str) -> Ordering {
    fn nulls_last<T>(a: Option<T>, b: Option<T>, compare: impl Fn(&T, &T) -> Ordering) -> Ordering {
        match (a, b) {
            (Some(a), Some(b)) => compare(&a, &b),
            (a, b) => a.is_none().cmp(&b.is_none()),
        }
    }
    match column {
        "t" => nulls_last(a.t, b.t, i64::cmp),
        "k" => nulls_last(a.k, b.k, i64::cmp),
        "v" => nulls_last(a.v, b.v, i64::cmp),
        "s" => nulls_last(a.s.clone(), b.s.clone(), String::cmp),
        "f" => nulls_last(a.f, b.f, |a, b| a.partial_cmp(b).unwrap_or_else(|| a.is_nan().cmp(&b.is_nan()))),
        other => panic!("the tests have no column `{other}`"),
    }
}

fn has(row: &Row, column: &str) -> bool {
    match column {
        "t" => row.t.is_some(),
        "k" => row.k.is_some(),
        "s" => row.s.is_some(),
        "v" => row.v.is_some(),
        "f" => row.f.is_some(),
        other => panic!("the tests have no column `{other}`"),
    }
}

/// A row as the step emits it: groups, rank, the rest.
fn shown(row: &Row, rank: usize, by: &[&str]) -> String {
    let mut shown = row.clone();
    if by.contains(&"f") {
        shown.f = row.f.map(normal);
    }
    let cells: Vec<String> = split(&cells(&shown));
    let place = |column: &str| ["t", "k", "s", "v", "f"].iter().position(|name| *name == column).unwrap();
    let mut made: Vec<String> = by.iter().map(|column| cells[place(column)].clone()).collect();
    made.push(rank.to_string());
    made.extend((0..5).filter(|index| !by.iter().any(|column| place(column) == *index)).map(|index| cells[index].clone()));
    made.join(" ")
}

/// The five cells of a row; a text in quotes may hold spaces.
fn split(cells: &str) -> Vec<String> {
    let (mut made, mut quoted) = (vec![String::new()], false);
    for letter in cells.chars() {
        quoted ^= letter == '"';
        match letter {
            ' ' if !quoted => made.push(String::new()),
            other => made.last_mut().unwrap().push(other),
        }
    }
    made
}

/// The ranked rows, as text. `unique` are the columns by which later rows replace earlier ones; without any, rows are final.
pub(super) fn expected(rows: &[Row], ask: &Ask, unique: Option<&[&str]>) -> Vec<String> {
    let mut kept: Vec<Row> = match unique {
        None => rows.to_vec(),
        Some(unique) => {
            let mut table = BTreeMap::new();
            for row in rows {
                if row.gone {
                    table.remove(&key_of(row, unique));
                } else {
                    table.insert(key_of(row, unique), row.clone());
                }
            }
            table.into_values().collect()
        }
    };
    kept.retain(|row| has(row, ask.order));
    let mut groups: BTreeMap<String, Vec<Row>> = BTreeMap::new();
    for row in kept {
        groups.entry(key_of(&row, ask.by)).or_default().push(row);
    }
    let mut made = Vec::new();
    for rows in groups.values_mut() {
        rows.sort_by(|a, b| {
            let first = compare(a, b, ask.order);
            let first = if ask.desc { first.reverse() } else { first };
            ask.ties.iter().fold(first, |order, tie| order.then_with(|| compare(a, b, tie))).then_with(|| hash(a).cmp(&hash(b)))
        });
        made.extend(rows.iter().take(ask.n).enumerate().map(|(rank, row)| shown(row, rank + 1, ask.by)));
    }
    made.sort();
    made
}

/// How many rows have nothing to be ordered by.
pub(super) fn filtered(rows: &[Row], ask: &Ask) -> usize {
    rows.iter().filter(|row| !row.gone && !has(row, ask.order)).count()
}

/// -0.0 and 0.0 tie to the last, so which of them is shown is left open.
pub(super) fn unsigned(rows: impl IntoIterator<Item = String>) -> Vec<String> {
    let mut rows: Vec<String> = rows.into_iter().map(|row| row.replace("-0.0", "0.0")).collect();
    rows.sort();
    rows
}

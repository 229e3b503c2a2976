//! The whole input, recomputed in plain Rust at every watermark.

use crate::window::tests::harness::{Act, Row};
use crate::window::tests::oracle::{aggregated, aggs, group};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};

/// The step that the oracle computes.
pub(super) fn step(gap: i64, longest: Option<i64>, by: &[&str], in_order: bool) -> Value {
    let mut aggs = aggs();
    if let (true, Some(list)) = (in_order, aggs.as_array_mut()) {
        list.extend([
            json!({ "op": "first", "column": "v", "alias": "first" }),
            json!({ "op": "last", "column": "s", "alias": "last" }),
            json!({ "op": "countDistinct", "column": "s", "alias": "texts" }),
            json!({ "op": "argMax", "column": "v", "by": "f", "alias": "at" }),
        ]);
    }
    let mut step = json!({ "op": "sessionAggregate", "timeColumn": "t", "gapMs": gap, "groupBy": by, "aggs": aggs });
    if let (Some(longest), Some(map)) = (longest, step.as_object_mut()) {
        map.insert("maxMs".into(), json!(longest));
    }
    step
}

/// What should come out.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Expected {
    pub(super) rows: Vec<String>,
    pub(super) overflows: usize,
    pub(super) bad: usize,
    pub(super) late: usize,
}

/// Rows that belong together, of one group.
#[derive(Debug, Clone)]
struct Part {
    start: i64,
    last: i64,
    formed: bool,
    rows: Vec<Row>,
}

/// The outcome of a script and of its end, whatever its batches, snapshots and crashes.
pub(super) fn expected(acts: &[Act], gap: i64, longest: Option<i64>, by: &[&str], in_order: bool) -> Expected {
    let acts: Vec<Act> = acts.iter().cloned().chain([Act::Watermark(i64::MAX / 1000)]).collect();
    so_far(&acts, gap, longest, by, in_order).0
}

/// What has come out of a script, and the sessions that are open, as they would be if nothing more came: each with its end.
pub(super) fn so_far(acts: &[Act], gap: i64, longest: Option<i64>, by: &[&str], in_order: bool) -> (Expected, Vec<(i64, String)>) {
    let mut expected = Expected::default();
    let mut open: BTreeMap<String, Vec<Part>> = BTreeMap::new();
    let mut watermark = i64::MIN;
    for act in acts {
        match act {
            Act::Snapshot | Act::Crash(_) => {}
            Act::Rows(rows) => {
                for row in rows {
                    let Some(t) = row.t else {
                        expected.bad += 1;
                        continue;
                    };
                    if t + gap < watermark {
                        expected.late += 1;
                        continue;
                    }
                    let part = Part { start: t, last: t, formed: false, rows: vec![row.clone()] };
                    open.entry(group(row, by)).or_default().push(part);
                }
            }
            Act::Watermark(millis) => {
                watermark = watermark.max(*millis);
                for (group, parts) in &mut open {
                    let (fired, kept) = fire(std::mem::take(parts), watermark, gap, longest);
                    *parts = kept;
                    for part in fired {
                        emit(&mut expected, &part, group, gap, by, in_order);
                    }
                }
            }
        }
    }
    expected.rows.sort();
    let mut left = Vec::new();
    for (group, parts) in open {
        // At the end of time all rows have come, and all sessions fire.
        let (sessions, _) = fire(parts, i64::MAX, gap, longest);
        for session in sessions {
            let mut alone = Expected::default();
            emit(&mut alone, &session, &group, gap, by, in_order);
            left.extend(alone.rows.into_iter().map(|row| (session.last + gap, row)));
        }
    }
    (expected, left)
}

/// Sessions that fire, and what is left.
fn fire(parts: Vec<Part>, watermark: i64, gap: i64, longest: Option<i64>) -> (Vec<Part>, Vec<Part>) {
    // With a longest session, rows at the watermark or after it wait.
    let (mut ready, mut kept): (Vec<Part>, Vec<Part>) =
        parts.into_iter().partition(|part| longest.is_none() || part.formed || part.start < watermark);
    ready.sort_by_key(|part| (part.start, !part.formed));
    let mut sessions: Vec<Part> = Vec::new();
    let mut closed = Vec::new();
    for mut part in ready {
        part.formed = longest.is_some();
        if let Some(session) = sessions.last_mut() {
            let last = session.last.max(part.last);
            if part.start - session.last <= gap && longest.is_none_or(|longest| last - session.start <= longest) {
                session.last = last;
                session.rows.append(&mut part.rows);
                continue;
            }
            if longest.is_some() {
                closed.extend(sessions.pop());
            }
        }
        sessions.push(part);
    }
    for session in sessions {
        if session.last + gap < watermark { closed.push(session) } else { kept.push(session) }
    }
    (closed, kept)
}

fn emit(expected: &mut Expected, part: &Part, group: &str, gap: i64, by: &[&str], in_order: bool) {
    let Some(values) = aggregated(&part.rows) else {
        expected.overflows += 1;
        return;
    };
    let mut cells = vec![part.start.to_string(), (part.last + gap).to_string()];
    cells.extend((!by.is_empty()).then(|| group.to_string()));
    cells.push(values);
    cells.extend(in_order.then(|| ordered(&part.rows)));
    expected.rows.push(cells.join(" "));
}

/// The aggregates that look at the order of rows, or at their texts.
fn ordered(rows: &[Row]) -> String {
    let mut rows: Vec<&Row> = rows.iter().collect();
    rows.sort_by_key(|row| row.t);
    let text = |value: Option<String>| value.unwrap_or_else(|| "-".into());
    let first = rows.iter().find_map(|row| row.v);
    let last = rows.iter().rev().find_map(|row| row.s.as_ref());
    let texts: BTreeSet<&String> = rows.iter().filter_map(|row| row.s.as_ref()).collect();
    let mut at: Option<(f64, i64)> = None;
    for (f, v) in rows.iter().filter_map(|row| row.f.zip(row.v)) {
        // NaN is the greatest, and the earliest of equals stays.
        let better = at.is_none_or(|(best, _)| !best.is_nan() && (f.is_nan() || f > best));
        if better {
            at = Some((f, v));
        }
    }
    let at = text(at.map(|(_, v)| v.to_string()));
    format!("{} {} {} {at}", text(first.map(|v| v.to_string())), text(last.map(|s| format!("{s:?}"))), texts.len())
}

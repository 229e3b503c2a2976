//! The whole input, recomputed in plain Rust: every row against every window over it.

use super::harness::{Act, Row};
use std::collections::BTreeMap;

/// The step that the oracle computes, over windows of this size and slide, by these columns.
pub(crate) fn step(size: i64, slide: i64, offset: i64, by: &[&str]) -> serde_json::Value {
    serde_json::json!({
        "op": "windowedAggregate", "timeColumn": "t", "windowMs": size, "slideMs": slide, "offsetMs": offset, "groupBy": by,
        "aggs": aggs(),
    })
}

/// What the oracle computes of rows.
pub(crate) fn aggs() -> serde_json::Value {
    serde_json::json!([
        { "op": "count", "alias": "rows" },
        { "op": "count", "column": "v", "alias": "values" },
        { "op": "sum", "column": "v", "alias": "sum" },
        { "op": "avg", "column": "v", "alias": "avg" },
        { "op": "min", "column": "v", "alias": "least" },
        { "op": "max", "column": "v", "alias": "greatest" },
        { "op": "sum", "column": "f", "alias": "sumF" },
        { "op": "avg", "column": "f", "alias": "avgF" },
        { "op": "min", "column": "f", "alias": "leastF" },
        { "op": "max", "column": "f", "alias": "greatestF" },
        { "op": "min", "column": "s", "alias": "leastS" },
        { "op": "max", "column": "s", "alias": "greatestS" },
    ])
}

/// What should come out.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Expected {
    pub(crate) rows: Vec<String>,
    pub(crate) overflows: usize,
    pub(crate) bad: usize,
    pub(crate) late: usize,
    pub(crate) late_windows: u64,
    pub(crate) absorbed: usize,
}

/// Every window that contains a time.
fn windows(t: i64, size: i64, slide: i64, offset: i64) -> Vec<(i64, i64)> {
    let mut start = (t - offset).div_euclid(slide) * slide + offset;
    let mut found = Vec::new();
    while start + size > t {
        found.push((start, start + size));
        start -= slide;
    }
    found
}

fn float(value: f64) -> String {
    // -0.0 and the many NaNs are one value each.
    if value.is_nan() { "NaN".into() } else { format!("{:?}", value + 0.0) }
}

fn text(value: Option<impl ToString>) -> String {
    value.map_or("-".into(), |value| value.to_string())
}

pub(crate) fn group(row: &Row, by: &[&str]) -> String {
    by.iter()
        .map(|column| match *column {
            "k" => text(row.k),
            "s" => text(row.s.as_ref().map(|s| format!("{s:?}"))),
            "f" => text(row.f.map(float)),
            other => panic!("the oracle does not group by `{other}`"),
        })
        .collect::<Vec<_>>()
        .join(" ")
}

/// NaN is the greatest.
fn total(a: &f64, b: &f64) -> std::cmp::Ordering {
    a.partial_cmp(b).unwrap_or_else(|| a.is_nan().cmp(&b.is_nan()))
}

/// The outcome of a script, whatever its batches, snapshots and crashes.
pub(crate) fn expected(acts: &[Act], size: i64, slide: i64, offset: i64, by: &[&str]) -> Expected {
    let mut expected = Expected::default();
    let mut open: BTreeMap<(i64, i64, String), Vec<Row>> = BTreeMap::new();
    let mut watermark = i64::MIN;
    for act in acts {
        match act {
            Act::Watermark(millis) => watermark = watermark.max(*millis),
            Act::Snapshot | Act::Crash(_) => {}
            Act::Rows(rows) => {
                for row in rows {
                    let Some(t) = row.t else {
                        expected.bad += 1;
                        continue;
                    };
                    let all = windows(t, size, slide, offset);
                    let due: Vec<_> = all.iter().filter(|(_, end)| *end > watermark).collect();
                    if due.is_empty() {
                        expected.late += 1;
                        continue;
                    }
                    expected.absorbed += 1;
                    expected.late_windows += u64::from(due.len() < all.len());
                    for (start, end) in due {
                        open.entry((*start, *end, group(row, by))).or_default().push(row.clone());
                    }
                }
            }
        }
    }
    for ((start, end, group), rows) in open {
        match aggregated(&rows) {
            Some(values) => {
                let mut cells = vec![start.to_string(), end.to_string()];
                cells.extend((!by.is_empty()).then_some(group));
                cells.push(values);
                expected.rows.push(cells.join(" "));
            }
            None => expected.overflows += 1,
        }
    }
    expected.rows.sort();
    expected
}

/// The results of the step's aggregates over rows; `None` if one does not fit.
pub(crate) fn aggregated(rows: &[Row]) -> Option<String> {
    let values: Vec<i64> = rows.iter().filter_map(|row| row.v).collect();
    let floats: Vec<f64> = rows.iter().filter_map(|row| row.f).collect();
    let texts: Vec<&String> = rows.iter().filter_map(|row| row.s.as_ref()).collect();
    let sum: i128 = values.iter().map(|value| i128::from(*value)).sum();
    let some = |there: bool, value: String| if there { value } else { "-".into() };
    let sum64 = i64::try_from(sum).ok()?;
    let sum_f: f64 = floats.iter().sum();
    Some(
        [
            rows.len().to_string(),
            values.len().to_string(),
            some(!values.is_empty(), sum64.to_string()),
            some(!values.is_empty(), format!("{:?}", sum as f64 / values.len() as f64)),
            text(values.iter().min()),
            text(values.iter().max()),
            some(!floats.is_empty(), float(sum_f)),
            some(!floats.is_empty(), float(sum_f / floats.len() as f64)),
            text(floats.iter().copied().min_by(total).map(float)),
            text(floats.iter().copied().max_by(total).map(float)),
            text(texts.iter().min().map(|s| format!("{s:?}"))),
            text(texts.iter().max().map(|s| format!("{s:?}"))),
        ]
        .join(" "),
    )
}

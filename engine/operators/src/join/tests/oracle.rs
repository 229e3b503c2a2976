//! Every left row against every right one, in plain Rust.

use super::harness::Row;

/// What happens, in rows.
#[derive(Debug, Clone)]
pub(super) enum Story {
    Rows(usize, Vec<Row>),
    Watermark(i64),
    Snapshot,
    Crash(usize),
}

/// What should come out.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Expected {
    pub(super) rows: Vec<String>,
    pub(super) bad: usize,
    pub(super) failed: usize,
    pub(super) late: usize,
    pub(super) filtered: u64,
    pub(super) absorbed: usize,
}

/// The join that the oracle computes.
#[derive(Debug, Clone)]
pub(super) struct Join<'a> {
    pub(super) kind: &'a str,
    pub(super) keys: &'a [&'a str],
    pub(super) lower: i64,
    pub(super) upper: i64,
    pub(super) condition: Option<&'a str>,
}

/// The condition that the oracle knows: null is not true, and a sum may overflow.
pub(super) const CONDITION: &str = "v + v_right > 0";

fn float(value: f64) -> String {
    if value.is_nan() { "NaN".into() } else { format!("{:?}", value + 0.0) }
}

fn text(value: Option<impl ToString>) -> String {
    value.map_or("-".into(), |value| value.to_string())
}

/// A value as a key, `None` for null.
fn key(row: &Row, column: &str) -> Option<String> {
    match column {
        "k" => row.k.map(|k| k.to_string()),
        "s" => row.s.clone(),
        "f" => row.f.map(float),
        other => panic!("the oracle does not join by `{other}`"),
    }
}

fn shown(row: Option<&Row>, column: &str) -> String {
    match (row, column) {
        (None, _) => "-".into(),
        (Some(row), "t") => text(row.t),
        (Some(row), "k") => text(row.k),
        (Some(row), "s") => text(row.s.as_ref().map(|s| format!("{s:?}"))),
        // A float comes out as it went in.
        (Some(row), "f") => text(row.f.map(|f| format!("{f:?}"))),
        (Some(row), "v") => text(row.v),
        (_, other) => panic!("the oracle does not show `{other}`"),
    }
}

const COLUMNS: [&str; 5] = ["t", "k", "s", "f", "v"];

impl Join<'_> {
    pub(super) fn step(&self) -> serde_json::Value {
        let mut step = super::harness::step(self.kind, self.keys, self.lower, self.upper);
        if let Some(condition) = self.condition {
            step["condition"] = condition.into();
        }
        step
    }

    fn equal(&self, left: &Row, right: &Row) -> bool {
        self.keys.iter().all(|column| key(left, column).is_some() && key(left, column) == key(right, column))
    }

    /// True, false, or failing.
    fn holds(&self, left: &Row, right: &Row) -> Option<bool> {
        match (self.condition, left.v, right.v) {
            (None, _, _) => Some(true),
            (Some(_), Some(left), Some(right)) => left.checked_add(right).map(|sum| sum > 0),
            (Some(_), _, _) => Some(false),
        }
    }

    fn shows(&self, left: Option<&Row>, right: Option<&Row>) -> String {
        let alone = ["semi", "anti"].contains(&self.kind);
        let mut cells: Vec<String> =
            COLUMNS.iter().map(|column| shown(if self.keys.contains(column) && left.is_none() { right } else { left }, column)).collect();
        if !alone {
            cells.extend(COLUMNS.iter().filter(|column| !self.keys.contains(column)).map(|column| shown(right, column)));
        }
        cells.join(" ")
    }

    /// The outcome of a story, whatever its batches, snapshots and crashes.
    pub(super) fn expected(&self, story: &[Story]) -> Expected {
        let mut expected = Expected::default();
        let mut inputs: [Vec<Row>; 2] = Default::default();
        let mut watermark = i64::MIN;
        let keeps = [["left", "full", "anti"].contains(&self.kind), ["right", "full"].contains(&self.kind)];
        for act in story {
            let Story::Rows(input, rows) = act else {
                if let Story::Watermark(millis) = act {
                    watermark = watermark.max(*millis);
                }
                continue;
            };
            for row in rows {
                match row.t {
                    None => expected.bad += 1,
                    Some(t) if t < watermark => expected.late += 1,
                    Some(_) if !keeps[*input] && self.keys.iter().any(|column| key(row, column).is_none()) => expected.filtered += 1,
                    Some(_) => {
                        expected.absorbed += 1;
                        inputs[*input].push(row.clone());
                    }
                }
            }
        }
        self.join(&inputs, keeps, &mut expected);
        expected.rows.sort();
        expected
    }

    fn join(&self, [lefts, rights]: &[Vec<Row>; 2], keeps: [bool; 2], expected: &mut Expected) {
        let near = |left: &Row, right: &Row| {
            let apart = right.t.unwrap_or_default() - left.t.unwrap_or_default();
            (self.lower..=self.upper).contains(&apart)
        };
        let mut right_matched = vec![false; rights.len()];
        for left in lefts {
            let mut matched = false;
            for (right, right_matched) in rights.iter().zip(&mut right_matched) {
                if !near(left, right) || !self.equal(left, right) {
                    continue;
                }
                match self.holds(left, right) {
                    None => expected.failed += 1,
                    Some(false) => {}
                    Some(true) => {
                        (matched, *right_matched) = (true, true);
                        if !["semi", "anti"].contains(&self.kind) {
                            expected.rows.push(self.shows(Some(left), Some(right)));
                        }
                    }
                }
            }
            if (matched && self.kind == "semi") || (!matched && keeps[0]) {
                expected.rows.push(self.shows(Some(left), None));
            }
        }
        for (right, _) in rights.iter().zip(right_matched).filter(|(_, matched)| !matched && keeps[1]) {
            expected.rows.push(self.shows(None, Some(right)));
        }
    }
}

//! Random scripts. What would each find? Keys that are told apart or mixed up, rows passed twice after a crash or never, keys
//! forgotten too early, results that depend on the cut of batches or on the number of tasks.

use crate::lean::testing::*;
use crate::step::StreamType;
use crate::testing::{Job, bind};
use proptest::prelude::*;
use serde_json::{Value, json};
use std::collections::BTreeMap;

fn step(keep: &str, by: &[&str], timed: bool, ttl: Option<i64>) -> Value {
    let mut step = json!({ "op": "deduplicate", "keys": by, "keep": keep });
    let map = step.as_object_mut().unwrap();
    if timed || ttl.is_some() {
        map.insert("timeColumn".into(), json!("t"));
    }
    if let Some(ttl) = ttl {
        map.insert("ttlMs".into(), json!(ttl));
    }
    step
}

#[derive(Debug, Default, PartialEq)]
struct Expected {
    first: Vec<String>,
    last: BTreeMap<String, String>,
    filtered: u64,
    late: usize,
    bad: usize,
}

fn expected(lines: &[Line], first: bool, by: &[&str], timed: bool, ttl: Option<i64>) -> Expected {
    let mut expected = Expected::default();
    let mut known: BTreeMap<String, i64> = BTreeMap::new();
    let mut watermark = i64::MIN / 2;
    let timed = ttl.is_some() || (timed && !first);
    for line in lines {
        match line {
            Line::Watermark(millis) => watermark = watermark.max(*millis),
            Line::Snapshot | Line::Crash(_) => {}
            Line::Rows(rows) => {
                for row in rows {
                    let t = match row.t {
                        Some(t) => t,
                        None if timed => {
                            expected.bad += 1;
                            continue;
                        }
                        None => 0,
                    };
                    if ttl.is_some_and(|ttl| t < watermark - ttl) {
                        expected.late += 1;
                        continue;
                    }
                    let key = key_of(row, by);
                    let before = known.get(&key).copied();
                    let passes = match before {
                        None => true,
                        Some(before) if first => ttl.is_some_and(|ttl| t >= before + ttl),
                        Some(before) => !timed || t >= before,
                    };
                    if !passes {
                        expected.filtered += 1;
                        continue;
                    }
                    known.insert(key.clone(), t);
                    let mut shown = row.clone();
                    if !first && by.contains(&"f") {
                        shown.f = row.f.map(normal);
                    }
                    if first {
                        expected.first.push(cells(&shown));
                    } else {
                        expected.last.insert(key, cells(&shown));
                    }
                }
            }
        }
    }
    expected.first.sort();
    expected
}

const BY: [&[&str]; 5] = [&["k"], &["s"], &["f"], &["k", "s"], &["s", "f", "v"]];

fn check(
    lines: &[Line],
    first: bool,
    by: &[&str],
    timed: bool,
    ttl: Option<i64>,
    tasks: usize,
    batch_rows: usize,
    paranoid: bool,
) -> Result<(), TestCaseError> {
    let expected = expected(lines, first, by, timed, ttl);
    let step = step(if first { "first" } else { "last" }, by, timed, ttl);
    let mut job = Job::new(bind(&step, &[StreamType::append(schema())], false), tasks, batch_rows);
    play(&mut job, lines, batch, paranoid);
    if first {
        prop_assert_eq!(job.made.rows(), expected.first);
    } else {
        let table: Vec<String> = table(&job.made, by).into_values().collect();
        let mut wanted: Vec<String> = expected.last.into_values().collect();
        let mut found = table.clone();
        wanted.sort();
        found.sort();
        prop_assert_eq!(found, wanted);
    }
    let made = &job.made;
    prop_assert_eq!((made.filtered, made.late, made.bad.len()), (expected.filtered, expected.late, expected.bad));
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn one_row_per_key_stays_whatever_the_tasks_and_crashes(
        lines in lines(), first in any::<bool>(), by in 0usize..5, timed in any::<bool>(), ttl in prop::option::of(1i64..40),
        tasks in 1usize..5, batch_rows in 1usize..40,
    ) {
        check(&lines, first, BY[by], timed, ttl, tasks, batch_rows, false)?;
    }

    #[test]
    fn a_crash_with_rescaling_after_every_call_changes_nothing(
        lines in lines(), first in any::<bool>(), by in 0usize..5, timed in any::<bool>(), ttl in prop::option::of(1i64..40), tasks in 1usize..5,
    ) {
        check(&lines, first, BY[by], timed, ttl, tasks, 7, true)?;
    }

    #[test]
    fn any_cut_into_batches_gives_the_same(
        lines in lines(), first in any::<bool>(), by in 0usize..5, timed in any::<bool>(), ttl in prop::option::of(1i64..40), cut in 1usize..9,
    ) {
        check(&recut(&lines, cut), first, BY[by], timed, ttl, 3, 100, false)?;
    }
}

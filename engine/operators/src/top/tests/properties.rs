//! Random scripts. What would each find? Wrong orders of nulls, NaN and extremes, ranks that are not told or told wrongly, ghosts
//! of rows that were replaced, ties that depend on batches or tasks, state that does not survive a snapshot.

use super::oracle::{Ask, expected, filtered, unsigned};
use crate::lean::testing::*;
use crate::step::StreamType;
use crate::testing::{Job, bind};
use proptest::prelude::*;
use serde_json::json;
use tidegate_api::ChangeMode;

const BY: [&[&str]; 5] = [&[], &["k"], &["s"], &["f"], &["k", "s"]];
const TIES: [&[&str]; 5] = [&[], &["t"], &["s"], &["f"], &["k", "t"]];

fn ask() -> impl Strategy<Value = Ask> {
    (0usize..4, any::<bool>(), 0usize..5, prop_oneof![Just(1usize), 2usize..6], 0usize..5).prop_map(|(order, desc, ties, n, by)| Ask {
        order: ["v", "f", "s", "t"][order],
        desc,
        ties: TIES[ties],
        n,
        by: BY[by],
    })
}

fn finals(ask: &Ask, tasks: usize, batch_rows: usize) -> Job {
    Job::new(bind(&ask.step(), &[StreamType::append(schema())], false), tasks, batch_rows)
}

fn check(job: &mut Job, lines: &[Line], ask: &Ask, unique: Option<&[&str]>, paranoid: bool) -> Result<(), TestCaseError> {
    play(job, lines, if unique.is_some() { updates } else { batch }, paranoid);
    let rows = if unique.is_some() { all_rows(lines) } else { finals_of(lines) };
    let keys = ask.keys();
    prop_assert_eq!(unsigned(table(&job.made, &keys).into_values()), unsigned(expected(&rows, ask, unique)));
    prop_assert_eq!(job.made.filtered as usize, filtered(&rows, ask));
    prop_assert!(job.made.bad.is_empty() && job.made.late == 0);
    Ok(())
}

/// Rows that update each other by `unique`.
fn updating_job(ask: &Ask, unique: &[&str], tasks: usize, batch_rows: usize) -> Job {
    let mode = ChangeMode::Upsert { keys: unique.iter().map(|key| (*key).to_string()).collect() };
    Job::new(bind(&ask.step(), &[StreamType { schema: updating(), mode }], false), tasks, batch_rows)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn ranks_equal_those_of_the_sorted_input(lines in lines(), ask in ask(), tasks in 1usize..5, batch_rows in 1usize..40) {
        check(&mut finals(&ask, tasks, batch_rows), &lines, &ask, None, false)?;
    }

    #[test]
    fn a_crash_with_rescaling_after_every_call_changes_nothing(lines in lines(), ask in ask(), tasks in 1usize..5) {
        check(&mut finals(&ask, tasks, 7), &lines, &ask, None, true)?;
    }

    #[test]
    fn any_cut_into_batches_and_any_order_of_final_rows_gives_the_same_ranks(
        lines in lines(), ask in ask(), cut in 1usize..9, reverse in any::<bool>(),
    ) {
        let mut rows = all_rows(&lines);
        if reverse {
            rows.reverse();
        }
        check(&mut finals(&ask, 3, 100), &recut(&[Line::Rows(rows)], cut), &ask, None, false)?;
    }

    #[test]
    fn rows_that_update_each_other_are_ranked_as_they_stand(
        lines in lines(), ask in ask(), unique in 0usize..4, tasks in 1usize..5, batch_rows in 1usize..40, paranoid in any::<bool>(),
    ) {
        let unique = [&["k"][..], &["s"], &["k", "s"], &["f", "k"]][unique];
        // A row is removed with the values that it had, as the steps before do it.
        check(&mut updating_job(&ask, unique, tasks, batch_rows), &lines, &ask, Some(unique), paranoid)?;
    }

    #[test]
    fn windows_are_ranked_once_when_they_close(
        lines in lines(), ask in ask(), size in 1i64..40, tasks in 1usize..5, batch_rows in 1usize..40, paranoid in any::<bool>(),
    ) {
        let mut step = ask.step();
        let map = step.as_object_mut().unwrap();
        for (key, value) in [("windowed", json!(true)), ("timeColumn", json!("t")), ("windowMs", json!(size))] {
            map.insert(key.into(), value);
        }
        let mut job = Job::new(bind(&step, &[StreamType::append(schema())], false), tasks, batch_rows);
        play(&mut job, &lines, batch, paranoid);
        let (wanted, late, bad) = windowed(&lines, &ask, size);
        prop_assert_eq!(unsigned(job.made.rows()), unsigned(wanted));
        prop_assert_eq!((job.made.late, job.made.bad.len()), (late, bad));
        prop_assert_eq!(job.made.filtered as usize, filtered(&finals_of(&lines), &ask));
    }
}

fn finals_of(lines: &[Line]) -> Vec<Row> {
    all_rows(lines).into_iter().map(|row| Row { gone: false, ..row }).collect()
}

/// What windows of `size` should come to, and how many rows are late and bad.
fn windowed(lines: &[Line], ask: &Ask, size: i64) -> (Vec<String>, usize, usize) {
    let (mut windows, mut late, mut bad) = (std::collections::BTreeMap::<i64, Vec<Row>>::new(), 0, 0);
    let mut watermark = i64::MIN;
    for line in lines {
        match line {
            Line::Watermark(millis) => watermark = watermark.max(*millis),
            Line::Snapshot | Line::Crash(_) => {}
            Line::Rows(rows) => {
                for row in rows {
                    if filtered(&[Row { gone: false, ..row.clone() }], ask) > 0 {
                        continue;
                    }
                    match row.t.map(|t| t.div_euclid(size) * size) {
                        None => bad += 1,
                        Some(start) if start + size <= watermark => late += 1,
                        Some(start) => windows.entry(start).or_default().push(Row { gone: false, ..row.clone() }),
                    }
                }
            }
        }
    }
    let mut made = Vec::new();
    for (start, rows) in windows {
        made.extend(expected(&rows, ask, None).into_iter().map(|row| format!("{start} {} {row}", start + size)));
    }
    (made, late, bad)
}

#[test]
fn a_long_stream_is_ranked_through_full_chunks_and_rebuilt_stores() {
    let rows: Vec<Row> =
        (0..40_000i64).map(|i| Row { s: Some(format!("a text that is not short {i}")), ..row(i, i % 97, (i * 7919) % 10_007) }).collect();
    let ask = Ask { order: "v", desc: true, ties: &["t"], n: 3, by: &["k"] };
    let lines: Vec<Line> = rows.chunks(5000).flat_map(|rows| [Line::Rows(rows.to_vec()), Line::Snapshot]).collect();
    check(&mut finals(&ask, 2, 1000), &lines, &ask, None, false).unwrap();
    let unique: &[&str] = &["v"];
    check(&mut updating_job(&ask, unique, 2, 1000), &lines, &ask, Some(unique), true).unwrap();
}

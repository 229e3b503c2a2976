//! Random scripts. What would each find? Wrong window arithmetic, rows lost or counted twice between panes, state that does
//! not survive a snapshot, keys that move between tasks, counters that do not add up.

use super::harness::{Act, Job, Row};
use super::oracle::{expected, step};
use proptest::prelude::*;

fn rows() -> impl Strategy<Value = Vec<Row>> {
    let value = prop_oneof![4 => -5i64..5, 1 => prop_oneof![Just(i64::MAX), Just(i64::MIN), Just(i64::MAX - 1)]];
    // Multiples of a half add up exactly in any order.
    let float = prop_oneof![
        6 => (-8i32..8).prop_map(|halves| f64::from(halves) / 2.0),
        1 => prop_oneof![Just(-0.0), Just(f64::NAN), Just(-f64::NAN), Just(f64::INFINITY), Just(f64::NEG_INFINITY)],
    ];
    let text = prop_oneof![Just(String::new()), "[ab]", "a text longer than twelve bytes [ab]"];
    let row = (
        prop::option::weighted(0.95, -60i64..60),
        prop::option::weighted(0.9, -3i64..4),
        prop::option::weighted(0.8, text),
        prop::option::weighted(0.8, value),
        prop::option::weighted(0.8, float),
    )
        .prop_map(|(t, k, s, v, f)| Row { t, k, s, v, f });
    prop::collection::vec(row, 0..25)
}

/// Watermarks rise, and crashes come with any task count.
fn acts() -> impl Strategy<Value = Vec<Act>> {
    let act = prop_oneof![
        6 => rows().prop_map(Act::Rows),
        3 => (0i64..20).prop_map(Act::Watermark),
        2 => Just(Act::Snapshot),
        1 => (1usize..6).prop_map(Act::Crash),
    ];
    prop::collection::vec(act, 0..16).prop_map(|mut acts| {
        let mut watermark = -70;
        for act in &mut acts {
            if let Act::Watermark(by) = act {
                watermark += *by;
                *by = watermark;
            }
        }
        acts
    })
}

fn check(
    acts: &[Act],
    size: i64,
    slide: i64,
    offset: i64,
    by: &[&str],
    tasks: usize,
    batch_rows: usize,
    paranoid: bool,
) -> Result<(), TestCaseError> {
    let expected = expected(acts, size, slide, offset, by);
    let mut job = Job::new(&step(size, slide, offset, by), tasks, batch_rows);
    job.run(acts, paranoid);
    let made = &job.made;
    prop_assert_eq!(made.rows(), expected.rows);
    let overflows = made.bad.iter().filter(|bad| bad.reason == tidegate_api::BadReason::Overflow).count();
    prop_assert_eq!(overflows, expected.overflows);
    prop_assert_eq!(made.bad.len() - overflows, expected.bad);
    prop_assert_eq!(made.late, expected.late);
    prop_assert_eq!(made.late_windows, expected.late_windows);
    let rows: usize = acts.iter().map(|act| if let Act::Rows(rows) = act { rows.len() } else { 0 }).sum();
    prop_assert_eq!(rows, expected.absorbed + made.late + made.bad.len() - overflows);
    Ok(())
}

const BY: [&[&str]; 6] = [&[], &["k"], &["s"], &["k", "s"], &["f"], &["s", "f"]];

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn windows_equal_the_recomputed_ones(
        acts in acts(), size in 1i64..40, part in 1i64..40, offset in -50i64..50, by in 0usize..6, tasks in 1usize..5, batch_rows in 1usize..40,
    ) {
        check(&acts, size, part.min(size), offset, BY[by], tasks, batch_rows, false)?;
    }

    #[test]
    fn a_crash_with_rescaling_after_every_call_changes_nothing(
        acts in acts(), size in 1i64..40, part in 1i64..40, by in 0usize..6, tasks in 1usize..5,
    ) {
        check(&acts, size, part.min(size), 0, BY[by], tasks, 7, true)?;
    }

    #[test]
    fn any_cut_into_batches_and_any_order_between_watermarks_gives_the_same_rows(
        acts in acts(), size in 1i64..40, part in 1i64..40, by in 0usize..6, cut in 1usize..9, reverse in any::<bool>(),
    ) {
        let recut: Vec<Act> = acts
            .iter()
            .flat_map(|act| match act {
                Act::Rows(rows) => {
                    let mut rows = rows.clone();
                    if reverse {
                        rows.reverse();
                    }
                    rows.chunks(cut).map(|rows| Act::Rows(rows.to_vec())).collect()
                }
                other => vec![other.clone()],
            })
            .collect();
        let mut whole = Job::new(&step(size, part.min(size), 0, BY[by]), 1, 1000);
        let mut pieces = Job::new(&step(size, part.min(size), 0, BY[by]), 3, 1000);
        whole.run(&acts, false);
        pieces.run(&recut, false);
        prop_assert_eq!(whole.made.rows(), pieces.made.rows());
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn counts_that_move_on_are_those_that_are_put_together_anew(
        acts in acts(), slide in 1i64..9, slides in 1i64..9, by in 0usize..6, tasks in 1usize..4, paranoid in any::<bool>(), lateness in 0i64..15,
    ) {
        let made = |aggs: serde_json::Value| {
            let mut step = step(slide * slides, slide, 0, BY[by]);
            step["aggs"] = aggs;
            step["allowedLatenessMs"] = lateness.into();
            let mut job = Job::new(&step, tasks, 7);
            job.run(&acts, paranoid);
            (job.made.rows(), job.made.late, job.made.late_windows)
        };
        // A second aggregate keeps the windows from moving on.
        let (several, late, late_windows) = made(serde_json::json!([{ "op": "count", "alias": "rows" }, { "op": "count", "alias": "again" }]));
        // Behind it stands the hidden column of updates, if there are any.
        let behind = usize::from(lateness > 0);
        let without_second = |row: &String| {
            let mut cells: Vec<&str> = row.split(' ').collect();
            cells.remove(cells.len() - 1 - behind);
            cells.join(" ")
        };
        let mut wanted: Vec<String> = several.iter().map(without_second).collect();
        wanted.sort();
        let (one, late_one, late_windows_one) = made(serde_json::json!([{ "op": "count", "alias": "rows" }]));
        prop_assert_eq!(one, wanted);
        prop_assert_eq!((late_one, late_windows_one), (late, late_windows));
    }
}

#[test]
fn rows_that_jump_between_panes_are_brought_in_order_and_counted_once() {
    let rows: Vec<Row> = (0..5000).map(|i| Row { t: Some(i * 7919 % 1000 - 500), k: Some(i % 13), v: Some(i), ..Row::default() }).collect();
    let acts = [Act::Rows(rows)];
    for (size, slide) in [(10, 10), (30, 10), (1000, 1000)] {
        check(&acts, size, slide, 3, &["k"], 2, 64, false).unwrap();
    }
}

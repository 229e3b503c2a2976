//! Random stories. What would each find? Pairs lost or made twice between batches, outer rows that come too early, twice or never, state
//! and marks that do not survive a snapshot, keys that move between tasks, counters that do not add up.

use super::harness::{Row, batch, job};
use super::oracle::{CONDITION, Join, Story};
use crate::testing::Act;
use proptest::prelude::*;
use tidegate_api::BadReason;

fn rows() -> impl Strategy<Value = Vec<Row>> {
    let value = prop_oneof![6 => -5i64..5, 1 => prop_oneof![Just(i64::MAX), Just(i64::MIN)]];
    let key = prop_oneof![8 => -2i64..3, 1 => prop_oneof![Just(i64::MAX), Just(i64::MIN)]];
    let float = prop_oneof![
        4 => (-2i32..2).prop_map(|halves| f64::from(halves) / 2.0),
        2 => prop_oneof![Just(-0.0), Just(f64::NAN), Just(-f64::NAN), Just(f64::INFINITY)],
    ];
    let text = prop_oneof![Just(String::new()), "[ab]", "a text longer than twelve bytes [ab]"];
    let row = (
        prop::option::weighted(0.95, -60i64..60),
        prop::option::weighted(0.9, key),
        prop::option::weighted(0.85, text),
        prop::option::weighted(0.85, float),
        prop::option::weighted(0.9, value),
    )
        .prop_map(|(t, k, s, f, v)| Row { t, k, s, f, v });
    prop::collection::vec(row, 0..16)
}

/// Watermarks rise, and crashes come with any task count.
fn story() -> impl Strategy<Value = Vec<Story>> {
    let act = prop_oneof![
        7 => (0usize..2, rows()).prop_map(|(input, rows)| Story::Rows(input, rows)),
        3 => (0i64..25).prop_map(Story::Watermark),
        2 => Just(Story::Snapshot),
        1 => (1usize..6).prop_map(Story::Crash),
    ];
    prop::collection::vec(act, 0..18).prop_map(|mut story| {
        let mut watermark = -70;
        for act in &mut story {
            if let Story::Watermark(by) = act {
                watermark += *by;
                *by = watermark;
            }
        }
        story
    })
}

fn acts(story: &[Story]) -> Vec<Act> {
    story
        .iter()
        .map(|act| match act {
            Story::Rows(input, rows) => Act::Rows(*input, batch(rows)),
            Story::Watermark(millis) => Act::Watermark(*millis),
            Story::Snapshot => Act::Snapshot,
            Story::Crash(tasks) => Act::Crash(*tasks),
        })
        .collect()
}

fn check(join: &Join<'_>, story: &[Story], tasks: usize, batch_rows: usize, paranoid: bool) -> Result<(), TestCaseError> {
    let expected = join.expected(story);
    let mut job = job(&join.step(), tasks, batch_rows);
    job.run(&acts(story), paranoid);
    let made = &job.made;
    prop_assert_eq!(made.rows(), expected.rows);
    let failed = made.bad.iter().filter(|bad| bad.reason == BadReason::Condition).count();
    // Semi and anti joins stop looking once a row has a partner.
    let looks_at_all = !["semi", "anti"].contains(&join.kind);
    prop_assert!(failed == expected.failed || (!looks_at_all && failed <= expected.failed), "{} of {} failed", failed, expected.failed);
    prop_assert_eq!(made.bad.len() - failed, expected.bad);
    prop_assert_eq!(made.late, expected.late);
    prop_assert_eq!(made.filtered, expected.filtered);
    let rows: usize = story.iter().map(|act| if let Story::Rows(_, rows) = act { rows.len() } else { 0 }).sum();
    prop_assert_eq!(rows, expected.absorbed + made.late + made.bad.len() - failed + made.filtered as usize);
    Ok(())
}

const KINDS: [&str; 6] = ["inner", "left", "right", "full", "semi", "anti"];
const KEYS: [&[&str]; 5] = [&["k"], &["s"], &["f"], &["k", "s"], &["f", "k"]];

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn joins_equal_the_recomputed_ones(
        story in story(), kind in 0usize..6, keys in 0usize..5, lower in -40i64..30, wide in 0i64..50, conditional in any::<bool>(),
        tasks in 1usize..5, batch_rows in 1usize..40,
    ) {
        let condition = conditional.then_some(CONDITION).filter(|_| !KEYS[keys].contains(&"v"));
        let join = Join { kind: KINDS[kind], keys: KEYS[keys], lower, upper: lower + wide, condition };
        check(&join, &story, tasks, batch_rows, false)?;
    }

    #[test]
    fn a_crash_with_rescaling_after_every_act_changes_nothing(
        story in story(), kind in 0usize..6, keys in 0usize..5, lower in -40i64..30, wide in 0i64..50, conditional in any::<bool>(),
        tasks in 1usize..5, batch_rows in 1usize..12,
    ) {
        let condition = conditional.then_some(CONDITION);
        let join = Join { kind: KINDS[kind], keys: KEYS[keys], lower, upper: lower + wide, condition };
        check(&join, &story, tasks, batch_rows, true)?;
    }

    #[test]
    fn any_cut_into_batches_and_any_order_between_watermarks_gives_the_same_rows(
        story in story(), kind in 0usize..6, keys in 0usize..5, lower in -40i64..30, wide in 0i64..50, cut in 1usize..9, reverse in any::<bool>(),
    ) {
        let join = Join { kind: KINDS[kind], keys: KEYS[keys], lower, upper: lower + wide, condition: None };
        let mut between: Vec<Story> = Vec::new();
        let mut recut: Vec<Story> = Vec::new();
        // Between two watermarks the inputs may come in any order.
        for act in story.iter().chain([&Story::Watermark(1000)]) {
            match act {
                Story::Rows(input, rows) => between.extend(rows.chunks(cut).map(|rows| Story::Rows(*input, rows.to_vec()))),
                Story::Watermark(_) => {
                    if reverse {
                        between.reverse();
                    }
                    recut.append(&mut between);
                    recut.push(act.clone());
                }
                Story::Snapshot | Story::Crash(_) => {}
            }
        }
        check(&join, &recut, 3, 1000, false)?;
        let mut whole = job(&join.step(), 1, 1000);
        whole.run(&acts(&story), false);
        prop_assert_eq!(whole.made.rows(), join.expected(&recut).rows);
    }
}

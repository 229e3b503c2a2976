//! Random scripts. What would each find? Sessions that depend on the order of rows or the cut of batches, aggregates lost in a
//! merge, state that does not survive a snapshot, keys that move between tasks, counters that do not add up.

use super::oracle::{expected, step};
use crate::window::tests::harness::{Act, Job, Row};
use proptest::prelude::*;
use tidegate_api::BadReason;

fn rows() -> impl Strategy<Value = Vec<Row>> {
    let value = prop_oneof![8 => -5i64..5, 1 => prop_oneof![Just(i64::MAX), Just(i64::MIN)]];
    // Multiples of a half add up exactly in any order.
    let float = prop_oneof![
        6 => (-8i32..8).prop_map(|halves| f64::from(halves) / 2.0),
        1 => prop_oneof![Just(-0.0), Just(f64::NAN), Just(-f64::NAN), Just(f64::INFINITY), Just(f64::NEG_INFINITY)],
    ];
    let text = prop_oneof![Just(String::new()), "[ab]", "a text longer than twelve bytes [ab]"];
    let row = (
        prop::option::weighted(0.97, -60i64..60),
        prop::option::weighted(0.9, -1i64..2),
        prop::option::weighted(0.8, text),
        prop::option::weighted(0.8, value),
        prop::option::weighted(0.8, float),
    )
        .prop_map(|(t, k, s, v, f)| Row { t, k, s, v, f });
    prop::collection::vec(row, 0..25)
}

/// Watermarks rise, each above the one before, as a task tells them; crashes come with any task count.
fn acts() -> impl Strategy<Value = Vec<Act>> {
    let act = prop_oneof![
        6 => rows().prop_map(Act::Rows),
        3 => (1i64..20).prop_map(Act::Watermark),
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
    gap: i64,
    longest: Option<i64>,
    by: &[&str],
    tasks: usize,
    batch: usize,
    paranoid: bool,
) -> Result<(), TestCaseError> {
    let expected = expected(acts, gap, longest, by, true);
    let mut job = Job::new(&step(gap, longest, by, true), tasks, batch);
    job.run(acts, paranoid);
    let made = &job.made;
    prop_assert_eq!(made.rows(), expected.rows);
    let overflows = made.bad.iter().filter(|bad| bad.reason == BadReason::Overflow).count();
    prop_assert_eq!(overflows, expected.overflows);
    prop_assert_eq!(made.bad.len() - overflows, expected.bad);
    prop_assert_eq!(made.late, expected.late);
    Ok(())
}

const BY: [&[&str]; 6] = [&[], &["k"], &["s"], &["k", "s"], &["f"], &["s", "f"]];

fn longest() -> impl Strategy<Value = Option<i64>> {
    prop::option::of(1i64..50)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn sessions_equal_the_recomputed_ones(
        acts in acts(), gap in 1i64..20, longest in longest(), by in 0usize..6, tasks in 1usize..5, batch in 1usize..40,
    ) {
        check(&acts, gap, longest, BY[by], tasks, batch, false)?;
    }

    #[test]
    fn a_crash_with_rescaling_after_every_call_changes_nothing(
        acts in acts(), gap in 1i64..20, longest in longest(), by in 0usize..6, tasks in 1usize..5,
    ) {
        check(&acts, gap, longest, BY[by], tasks, 7, true)?;
    }

    #[test]
    fn any_cut_into_batches_and_any_order_between_watermarks_gives_the_same_rows(
        acts in acts(), gap in 1i64..20, longest in longest(), by in 0usize..6, cut in 1usize..9, reverse in any::<bool>(),
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
        // Rows of one time are in the order of their arrival, so nothing that looks at it.
        let step = step(gap, longest, BY[by], false);
        let (mut whole, mut pieces) = (Job::new(&step, 1, 1000), Job::new(&step, 3, 1000));
        whole.run(&acts, false);
        pieces.run(&recut, false);
        prop_assert_eq!(whole.made.rows(), pieces.made.rows());
    }
}

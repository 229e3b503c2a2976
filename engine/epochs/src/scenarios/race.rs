//! Two starts of one pipeline at once. Whatever the interleaving, readers see every row once and the loser falls silent.

use super::world::*;
use crate::testkit::FaultPlan;
use crate::*;
use proptest::prelude::*;
use tidegate_api::ErrorKind;

/// Plays `older` alone for `head` steps, then lets `newer` take over and interleaves the two; answers how each ended.
fn race(outside: &Outside, head: usize, schedule: &[bool], bug: PlantedBug) -> (Outcome, Outcome) {
    let mut older = Start::new(outside, &FaultPlan::new(1), request("older")).with_planted_bug(bug);
    let mut newer = Start::new(outside, &FaultPlan::new(2), request("newer"));
    let mut ends = [Outcome::Running, Outcome::Running];
    for _ in 0..head {
        if matches!(ends[0], Outcome::Running) {
            ends[0] = older.step();
        }
    }
    for who in schedule.iter().copied().chain(std::iter::repeat_n([false, true], 3_000).flatten()) {
        let (start, end) = if who { (&mut newer, &mut ends[1]) } else { (&mut older, &mut ends[0]) };
        if matches!(end, Outcome::Running) {
            let before = start.store.plan().calls().total();
            *end = start.step();
            // A fenced start is dropped here; that its machine stays silent is `machine::tests`' matter.
            assert!(start.store.plan().calls().total() >= before);
        }
    }
    let [one, two] = ends;
    (one, two)
}

fn assert_settled(end: &Outcome) {
    match end {
        Outcome::Finished(End::Drain) | Outcome::Complete => {}
        Outcome::Failed(error) if error.kind() == ErrorKind::Fenced => {}
        other => panic!("{other:?}"),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn of_two_starts_one_is_fenced_and_every_row_is_seen_once(head in 0..60_usize, schedule in prop::collection::vec(any::<bool>(), 0..200)) {
        let outside = Outside::default();
        let (older, newer) = race(&outside, head, &schedule, PlantedBug::None);
        assert_settled(&older);
        assert_settled(&newer);
        outside.assert_exactly_once();
        let fenced = [&older, &newer].into_iter().filter(|end| matches!(end, Outcome::Failed(_))).count();
        let completed = [&older, &newer].into_iter().filter(|end| matches!(end, Outcome::Complete)).count();
        prop_assert_eq!(fenced + completed, 1, "{:?} {:?}", older, newer);
    }
}

#[test]
fn a_start_that_skips_its_fence_is_seen_in_the_output() {
    let found = (0..60).any(|head| {
        std::panic::catch_unwind(|| {
            let outside = Outside::default();
            race(&outside, head, &[true, false, true, true, false, false], PlantedBug::FenceSkipped);
            outside.assert_exactly_once();
        })
        .is_err()
    });
    assert!(found);
}

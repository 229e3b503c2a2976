//! A process dies at any call of the store or the sink, before or after its effect, and is started again.

use super::world::*;
use crate::testkit::{Fault, FaultPlan};
use crate::*;
use proptest::prelude::*;
use tidegate_api::*;

const STEPS: usize = 5_000;

/// Runs starts one after another, each with its crash, until one ends in order.
fn run_with_crashes(outside: &Outside, crashes: &[(u64, Fault)], rates: (f64, f64)) {
    for (start, (call, fault)) in crashes.iter().enumerate() {
        let plan = FaultPlan::new(start as u64);
        plan.set_rates(rates.0, rates.1);
        plan.crash_at(*call, *fault);
        let mut process = Start::new(outside, &plan, request(&format!("start-{start}")));
        loop {
            match process.step() {
                Outcome::Running if !plan.is_dead() => {}
                // Dead: nothing of it is executed any more, whatever its machine would like to do.
                Outcome::Running | Outcome::Failed(_) => break,
                Outcome::Finished(end) => {
                    assert_eq!(end, End::Drain);
                    break;
                }
                Outcome::Complete => break,
            }
        }
        every_published_row_can_still_become_visible(outside);
    }
    let mut last = Start::new(outside, &FaultPlan::new(99), request("last"));
    match last.run(STEPS) {
        Outcome::Finished(End::Drain) | Outcome::Complete => {}
        other => panic!("{other:?}"),
    }
    outside.assert_exactly_once();
    outside.assert_nothing_is_left_prepared();
}

/// What recovery rests on: rows before the newest manifest's positions are visible, or named by tokens that are found.
fn every_published_row_can_still_become_visible(outside: &Outside) {
    let Some(history) = publish::newest_run(&outside.store).unwrap() else {
        assert!(outside.shared().visible.is_empty(), "rows are visible and no manifest exists");
        return;
    };
    let Some(newest) = history.manifests.values().next_back() else { panic!("no manifest can be read") };
    let position = Position(newest.sources["queue"].splits[0].position.clone().unwrap()).as_number().unwrap();
    let visible = outside.shared().visible.clone();
    assert!(visible.iter().all(|row| *row < position), "rows {visible:?} are visible beyond the manifest's {position}");
    if history.is_settled(newest) {
        assert_eq!(visible.len() as u64, position, "a settled manifest has nothing to commit");
    }
    assert_eq!(history.marks.iter().filter(|mark| !history.manifests.contains_key(mark)).count(), 0, "a mark without its manifest");
}

#[test]
fn an_undisturbed_run_shows_every_row_once_and_a_second_one_is_complete() {
    let outside = Outside::default();
    run_with_crashes(&outside, &[], (0.0, 0.0));
    let mut again = Start::new(&outside, &FaultPlan::new(0), request("again"));
    assert!(matches!(again.run(1), Outcome::Complete));
}

#[test]
fn a_crash_at_any_call_loses_and_repeats_nothing() {
    let plan = FaultPlan::new(0);
    let mut undisturbed = Start::new(&Outside::default(), &plan, request("count"));
    assert!(matches!(undisturbed.run(STEPS), Outcome::Finished(End::Drain)));
    let calls = plan.calls().total();
    assert!(calls > 60, "{calls} calls are too few to be worth crashing at");
    for call in 0..calls {
        for fault in [Fault::Before, Fault::After] {
            run_with_crashes(&Outside::default(), &[(call, fault)], (0.0, 0.0));
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn crashes_during_recoveries_and_a_store_that_fails_lose_and_repeat_nothing(
        crashes in prop::collection::vec((0..70_u64, prop_oneof![Just(Fault::Before), Just(Fault::After)]), 1..8),
        before in 0.0..0.15_f64,
        after in 0.0..0.15_f64,
    ) {
        run_with_crashes(&Outside::default(), &crashes, (before, after));
    }
}

#[test]
fn planted_bugs_are_seen_in_the_output_of_some_crash() {
    for bug in [PlantedBug::AckBeforeManifest, PlantedBug::CommitBeforeManifest, PlantedBug::MarkBeforeCommit] {
        let found = (0..80).any(|call| {
            std::panic::catch_unwind(|| {
                let outside = Outside::default();
                let plan = FaultPlan::new(0);
                plan.crash_at(call, Fault::Before);
                let mut first = Start::new(&outside, &plan, request("first")).with_planted_bug(bug);
                while !plan.is_dead() {
                    match first.step() {
                        Outcome::Running => {}
                        Outcome::Finished(_) | Outcome::Complete | Outcome::Failed(_) => break,
                    }
                }
                let mut second = Start::new(&outside, &FaultPlan::new(1), request("second")).with_planted_bug(bug);
                second.run(STEPS);
                outside.assert_exactly_once();
            })
            .is_err()
        });
        assert!(found, "{bug:?} was not found");
    }
}

#[test]
fn a_fresh_run_begins_anew_and_settles_the_one_it_closes() {
    let plan = FaultPlan::new(0);
    let count = {
        let outside = Outside::default();
        Start::new(&outside, &FaultPlan::new(0), request("first")).run(25);
        outside.shared().forget_acknowledgements();
        let mut fresh = Start::new(&outside, &plan, request("fresh").with_fresh(true));
        assert!(matches!(fresh.run(STEPS), Outcome::Finished(End::Drain)));
        plan.calls().total()
    };
    for call in 0..count {
        for fault in [Fault::Before, Fault::After] {
            let outside = Outside::default();
            Start::new(&outside, &FaultPlan::new(0), request("first")).run(25);
            // A first run that was stopped in the middle; its published rows stay visible, the fresh run's are all of them again.
            outside.shared().forget_acknowledgements();
            let plan = FaultPlan::new(0);
            plan.crash_at(call, fault);
            let mut fresh = Start::new(&outside, &plan, request("fresh").with_fresh(true));
            while !plan.is_dead() {
                outside.shared().forget_acknowledgements();
                match fresh.step() {
                    Outcome::Running => {}
                    Outcome::Finished(_) | Outcome::Complete | Outcome::Failed(_) => break,
                }
            }
            let decided = publish::newest_run(&outside.store).unwrap().is_some_and(|history| {
                history.run > RunNumber::FIRST || history.manifests.values().next_back().unwrap().ended == Some(End::Superseded)
            });
            outside.shared().forget_acknowledgements();
            let mut last = Start::new(&outside, &FaultPlan::new(0), request("last"));
            assert!(matches!(last.run(STEPS), Outcome::Finished(End::Drain) | Outcome::Complete), "call {call} {fault:?}");
            let newest = publish::newest_run(&outside.store).unwrap().unwrap();
            assert_eq!(newest.run, if decided { RunNumber::FIRST.next() } else { RunNumber::FIRST }, "call {call} {fault:?}");
            let visible = outside.shared().visible.clone();
            for row in 0..ROWS {
                let times = visible.iter().filter(|seen| **seen == row).count();
                assert!((1..=1 + usize::from(decided)).contains(&times), "call {call} {fault:?}: row {row} {times} times");
            }
            outside.assert_nothing_is_left_prepared();
        }
    }
}

//! When a disturbed run is killed: every named point of the protocol in turn, and now and then at any moment.

use super::super::trial::Pause;
use tidegate_runtime::KillPoint;

/// Kills at any moment, for every time that all points have had theirs.
const ANY: usize = 3;

/// Decides one kill after the other. Equal seeds decide alike.
pub(super) struct Schedule {
    random: u64,
    /// Points that this pipeline passes, as far as is known.
    points: Vec<KillPoint>,
    deck: Vec<Option<KillPoint>>,
}

/// What a pipeline has, as far as it decides which points there are.
#[derive(Debug, Clone, Copy)]
pub(super) struct Shape {
    pub(super) two_phase: bool,
    pub(super) stateful: bool,
}

impl Schedule {
    /// For a pipeline of this shape.
    pub(super) fn new(seed: u64, shape: Shape) -> Self {
        let passed = |point: &KillPoint| match point {
            KillPoint::MidRecommit | KillPoint::MidRecover | KillPoint::MidCommit => shape.two_phase,
            KillPoint::MidStates => shape.stateful,
            KillPoint::BeforeOpening
            | KillPoint::AfterOpening
            | KillPoint::AfterRecover
            | KillPoint::Opened
            | KillPoint::BeforePreCommit
            | KillPoint::AfterPreCommit
            | KillPoint::Prepare
            | KillPoint::BeforeManifest
            | KillPoint::MidManifest
            | KillPoint::AfterManifest
            | KillPoint::BeforeMark
            | KillPoint::AfterMark
            | KillPoint::MidPrune
            | KillPoint::AfterPrune => true,
        };
        Schedule { random: seed, points: KillPoint::ALL.into_iter().filter(passed).collect(), deck: Vec::new() }
    }

    /// How many epochs so many kills take at most, with some to spare.
    pub(super) fn epochs(kills: u32) -> u64 {
        u64::from(kills) * 3 + 10
    }

    /// The next kill.
    pub(super) fn next(&mut self) -> Pause {
        if self.deck.is_empty() {
            self.deal();
        }
        let drawn = self.deck.pop().flatten();
        let point = drawn.unwrap_or(KillPoint::AfterMark);
        let passing = match point {
            KillPoint::BeforePreCommit | KillPoint::AfterPreCommit | KillPoint::MidCommit => 1 + self.draw(4),
            _ if point.is_of_a_start() => 1,
            _ => 1 + self.draw(2),
        };
        Pause {
            point: point.name().to_string(),
            passing,
            // A point of a start that has not come by the first mark will not come.
            marks: if point.is_of_a_start() { 1 } else { passing + 2 },
            go_on: drawn.is_none(),
        }
    }

    /// A number below `limit`.
    pub(super) fn draw(&mut self, limit: u64) -> u64 {
        self.random = self.random.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.random ^ (self.random >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % limit.max(1)
    }

    fn deal(&mut self) {
        // Committing again needs something to commit: it comes right after a death that leaves a manifest without its mark.
        let alone = self.points.iter().filter(|point| **point != KillPoint::MidRecommit).map(|point| Some(*point));
        let mut deck: Vec<Option<KillPoint>> = alone.chain(std::iter::repeat_n(None, ANY)).collect();
        for at in (1..deck.len()).rev() {
            let other = self.draw(at as u64 + 1) as usize;
            deck.swap(at, other);
        }
        if self.points.contains(&KillPoint::MidRecommit)
            && let Some(at) = deck.iter().position(|drawn| *drawn == Some(KillPoint::AfterManifest))
        {
            // It is drawn from the end.
            deck.insert(at, Some(KillPoint::MidRecommit));
        }
        self.deck = deck;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn every_point_has_its_turn_before_any_has_another() {
        let mut schedule = Schedule::new(7, Shape { two_phase: true, stateful: true });
        let round = KillPoint::ALL.len() + ANY;
        for _ in 0..3 {
            let drawn: Vec<Pause> = (0..round).map(|_| schedule.next()).collect();
            let points: BTreeSet<&str> = drawn.iter().filter(|pause| !pause.go_on).map(|pause| pause.point.as_str()).collect();
            assert_eq!(points.len(), KillPoint::ALL.len());
            assert_eq!(drawn.iter().filter(|pause| pause.go_on).count(), ANY);
            let at = drawn.iter().position(|pause| pause.point == "mid-recommit").unwrap();
            assert_eq!(drawn[at - 1].point, "after-manifest");
        }
    }

    #[test]
    fn points_that_a_pipeline_does_not_have_are_left_out() {
        let mut schedule = Schedule::new(1, Shape { two_phase: false, stateful: false });
        let drawn: BTreeSet<String> = (0..100).map(|_| schedule.next().point).collect();
        assert_eq!(drawn.len(), KillPoint::ALL.len() - 4);
        assert!(!drawn.contains("mid-commit") && !drawn.contains("mid-states"));
    }

    #[test]
    fn equal_seeds_decide_alike() {
        let drawn = |seed| {
            let mut schedule = Schedule::new(seed, Shape { two_phase: true, stateful: true });
            (0..50).map(|_| format!("{:?}", schedule.next())).collect::<Vec<_>>()
        };
        assert_eq!(drawn(3), drawn(3));
        assert_ne!(drawn(3), drawn(4));
    }
}

//! Mistakes that the simulator must find. Nothing plants one but the feature `testkit`; without it every question here is answered `false`
//! when it is compiled.

/// A mistake that the simulator must find.
#[cfg_attr(not(feature = "testkit"), allow(unreachable_pub, reason = "only tests name it from outside"))]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Planted {
    /// No mistake.
    #[default]
    None,
    /// In what epochs decide.
    #[cfg(feature = "testkit")]
    Epochs(tidegate_epochs::PlantedBug),
    /// A source's position is taken after the next batch.
    PositionRunsAhead,
    /// An input that has brought its barrier is read on while the others' are awaited.
    BarrierNotAligned,
    /// A barrier leaves before the rows that were to leave before it.
    BarrierOvertakesRows,
    /// A watermark leaves before the rows it speaks of.
    PromiseOvertakesRows,
    /// A split that is known and was not read yet does not hold the watermark.
    UnreadSplitDoesNotHold,
    /// A split that has finished is missing in the snapshots that follow.
    FinishedSplitForgotten,
    /// A task that takes over vnodes of another forgets the pieces that began there.
    TakenOverPiecesForgotten,
    /// A task restores the vnodes of its neighbour.
    NeighboursVnodesRestored,
    /// A restored operator does not know up to when it has fired.
    FiredForgotten,
    /// A snapshot leaves out the pieces that did not change.
    KeptPiecesForgotten,
    /// A state object that the store did not take is passed over.
    StateNotAwaited,
    /// The commit mark is never written.
    MarkMissing,
    /// A start undoes what no manifest names before it commits what is pending, and keeps nothing.
    UndoneBeforeCommitted,
    /// A sink's second answer for an epoch acknowledges it once more.
    AnsweredTwice,
}

impl Planted {
    /// Every mistake.
    #[cfg(feature = "testkit")]
    pub fn all() -> Vec<Planted> {
        let epochs = tidegate_epochs::PlantedBug::ALL.into_iter().map(Planted::Epochs);
        let own = [
            Planted::PositionRunsAhead,
            Planted::BarrierNotAligned,
            Planted::BarrierOvertakesRows,
            Planted::PromiseOvertakesRows,
            Planted::UnreadSplitDoesNotHold,
            Planted::FinishedSplitForgotten,
            Planted::TakenOverPiecesForgotten,
            Planted::NeighboursVnodesRestored,
            Planted::FiredForgotten,
            Planted::KeptPiecesForgotten,
            Planted::StateNotAwaited,
            Planted::MarkMissing,
            Planted::UndoneBeforeCommitted,
            Planted::AnsweredTwice,
        ];
        epochs.chain(own).collect()
    }

    /// Whether it is this one.
    #[inline]
    pub(crate) fn is(self, mistake: Planted) -> bool {
        cfg!(feature = "testkit") && self == mistake
    }
}

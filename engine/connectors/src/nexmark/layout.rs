//! Which event is which row of which split.
//!
//! Events come in epochs of 50: a person, three auctions, 46 bids. Split `i` of `p` holds the epochs `e` with `e % p == i`. Its
//! rows are the events of the selected kinds; arithmetic turns positions into row numbers and back, so nothing is counted by walking.

/// Events in an epoch.
pub(super) const EPOCH: u64 = 50;
/// Auctions in an epoch.
pub(super) const AUCTIONS: u64 = 3;
/// The place of the first auction in an epoch.
pub(super) const FIRST_AUCTION: u64 = 1;
/// The place of the first bid in an epoch.
pub(super) const FIRST_BID: u64 = 4;
/// Bids in an epoch.
pub(super) const BIDS: u64 = EPOCH - FIRST_BID;

/// The kind of an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Person,
    Auction,
    Bid,
}

impl Kind {
    pub(super) const ALL: [Kind; 3] = [Kind::Person, Kind::Auction, Kind::Bid];

    /// First place and number of places in an epoch.
    fn places(self) -> (u64, u64) {
        match self {
            Kind::Person => (0, FIRST_AUCTION),
            Kind::Auction => (FIRST_AUCTION, AUCTIONS),
            Kind::Bid => (FIRST_BID, BIDS),
        }
    }

    pub(super) fn name(self) -> &'static str {
        match self {
            Kind::Person => "person",
            Kind::Auction => "auction",
            Kind::Bid => "bid",
        }
    }
}

/// A set of kinds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Kinds(u8);

impl Kinds {
    pub(super) const NONE: Kinds = Kinds(0);
    pub(super) const ALL: Kinds = Kinds(7);

    pub(super) fn of(kind: Kind) -> Self {
        Kinds(1 << kind as u8)
    }

    pub(super) fn named(name: &str) -> Option<Kind> {
        Kind::ALL.into_iter().find(|kind| kind.name() == name)
    }

    pub(super) fn with(self, kind: Kind) -> Self {
        Kinds(self.0 | Kinds::of(kind).0)
    }

    pub(super) fn has(self, kind: Kind) -> bool {
        self.0 & Kinds::of(kind).0 != 0
    }

    pub(super) fn both(self, other: Kinds) -> Self {
        Kinds(self.0 & other.0)
    }

    pub(super) fn without(self, other: Kinds) -> Self {
        Kinds(self.0 & !other.0)
    }

    pub(super) fn is_within(self, other: Kinds) -> bool {
        self.without(other) == Kinds::NONE
    }

    /// The kinds one by one, in the order of an epoch.
    pub(super) fn each(self) -> impl Iterator<Item = Kinds> {
        Kind::ALL.into_iter().filter(move |kind| self.has(*kind)).map(Kinds::of)
    }

    /// As an index below 8.
    pub(super) fn index(self) -> usize {
        usize::from(self.0)
    }

    /// Rows of these kinds in an epoch.
    pub(super) fn width(self) -> u64 {
        self.before(EPOCH)
    }

    /// Rows of these kinds at places before `place`.
    fn before(self, place: u64) -> u64 {
        let mut rows = 0;
        for kind in Kind::ALL {
            let (first, count) = kind.places();
            if self.has(kind) {
                rows += place.saturating_sub(first).min(count);
            }
        }
        rows
    }

    /// The place of row `row` of an epoch.
    fn place(self, row: u64) -> u64 {
        let mut left = row;
        for kind in Kind::ALL {
            let (first, count) = kind.places();
            if self.has(kind) {
                if left < count {
                    return first + left;
                }
                left -= count;
            }
        }
        EPOCH
    }

    /// The parts of the epoch's rows `from..to`, by kind: kind, first and one past the last of its kind.
    pub(super) fn runs(self, from: u64, to: u64) -> impl Iterator<Item = (Kind, u64, u64)> {
        let mut base = 0;
        Kind::ALL.into_iter().filter_map(move |kind| {
            if !self.has(kind) {
                return None;
            }
            let count = kind.places().1;
            let (start, end) = (from.max(base), to.min(base + count));
            let run = (start < end).then(|| (kind, start - base, end - base));
            base += count;
            run
        })
    }
}

/// The epochs of one split.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Share {
    /// Which split, from 0.
    pub(super) index: u64,
    /// Of how many.
    pub(super) of: u64,
}

impl Share {
    /// The number, within the split, of the first row of `kinds` at or after event `event`.
    pub(super) fn row_at(self, kinds: Kinds, event: u64) -> u64 {
        let (epoch, place) = (event / EPOCH, event % EPOCH);
        let own = epoch.saturating_sub(self.index).div_ceil(self.of);
        let inside = epoch >= self.index && (epoch - self.index).is_multiple_of(self.of);
        own * kinds.width() + if inside { kinds.before(place) } else { 0 }
    }

    /// The event that is row `row` of the split.
    pub(super) fn event_at(self, kinds: Kinds, row: u64) -> u64 {
        let width = kinds.width();
        self.epoch(row / width) * EPOCH + kinds.place(row % width)
    }

    /// The epoch that is the split's `own`th.
    pub(super) fn epoch(self, own: u64) -> u64 {
        self.index + own * self.of
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn rows_and_events_are_each_others_inverse(mask in 1u8..8, of in 1u64..6, index in 0u64..6, event in 0u64..2_000) {
            let kinds = Kinds(mask);
            let share = Share { index: index % of, of };
            let is_row = |n: u64| (n / EPOCH) % of == share.index && kinds.runs(0, kinds.width()).any(|(kind, _, _)| {
                let (first, count) = kind.places();
                (first..first + count).contains(&(n % EPOCH))
            });
            let counted = (0..event).filter(|n| is_row(*n)).count() as u64;
            prop_assert_eq!(share.row_at(kinds, event), counted);
            let next = (event..).find(|n| is_row(*n)).unwrap();
            prop_assert_eq!(share.event_at(kinds, counted), next);
        }
    }
}

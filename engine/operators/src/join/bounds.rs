//! Kinds of joins and their times: pure, in whole milliseconds.

use crate::window::LONGEST_MS;

/// Event times beyond this many milliseconds from 1970 have no microseconds in 64 bits, or partners that reach that far.
pub(crate) const FARTHEST_MS: i64 = i64::MAX / 1000 - 4 * LONGEST_MS;

/// One of the two inputs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Which {
    Left,
    Right,
}

impl Which {
    /// Both, in the order of the inputs.
    pub(crate) const BOTH: [Which; 2] = [Which::Left, Which::Right];

    /// The input of this number.
    pub(crate) fn of(input: usize) -> Self {
        if input == 0 { Which::Left } else { Which::Right }
    }

    /// Its number.
    pub(crate) fn index(self) -> usize {
        match self {
            Which::Left => 0,
            Which::Right => 1,
        }
    }

    /// The other one.
    pub(crate) fn other(self) -> Self {
        match self {
            Which::Left => Which::Right,
            Which::Right => Which::Left,
        }
    }

    /// Its name.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Which::Left => "left",
            Which::Right => "right",
        }
    }
}

/// What comes out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Pairs.
    Inner,
    /// Pairs, and left rows without one.
    Left,
    /// Pairs, and right rows without one.
    Right,
    /// Pairs, and rows of both inputs without one.
    Full,
    /// Left rows with a partner, once.
    Semi,
    /// Left rows without a partner.
    Anti,
}

impl Kind {
    /// All of them, as a pipeline file names them.
    pub(crate) const ALL: [(&'static str, Kind); 6] = [
        ("inner", Kind::Inner),
        ("left", Kind::Left),
        ("right", Kind::Right),
        ("full", Kind::Full),
        ("semi", Kind::Semi),
        ("anti", Kind::Anti),
    ];

    /// Its name.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Kind::Inner => "inner",
            Kind::Left => "left",
            Kind::Right => "right",
            Kind::Full => "full",
            Kind::Semi => "semi",
            Kind::Anti => "anti",
        }
    }

    /// Whether output rows are pairs, not left rows alone.
    pub(crate) fn pairs(self) -> bool {
        !matches!(self, Kind::Semi | Kind::Anti)
    }

    /// Whether rows of an input come out although they have no partner.
    pub(crate) fn keeps_unmatched(self, which: Which) -> bool {
        match which {
            Which::Left => matches!(self, Kind::Left | Kind::Full | Kind::Anti),
            Which::Right => matches!(self, Kind::Right | Kind::Full),
        }
    }

    /// Whether it must be remembered which rows of an input have had a partner.
    pub(crate) fn marks(self, which: Which) -> bool {
        self.keeps_unmatched(which) || (self == Kind::Semi && which == Which::Left)
    }

    /// Whether a row of an input is done with once it has had a partner.
    pub(crate) fn ends_with_a_partner(self, which: Which) -> bool {
        !self.pairs() && which == Which::Left
    }
}

/// How far apart partners may be: right time minus left time, both ends included.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Bounds {
    pub(crate) lower: i64,
    pub(crate) upper: i64,
}

impl Bounds {
    /// Whether two rows may be partners.
    #[inline(always)]
    pub(crate) fn allow(self, right_minus_left: i64) -> bool {
        self.lower <= right_minus_left && right_minus_left <= self.upper
    }

    /// How long after its own time a row may find a partner; negative if only before it.
    pub(crate) fn reach(self, which: Which) -> i64 {
        match which {
            Which::Left => self.upper,
            Which::Right => -self.lower,
        }
    }

    /// How far behind the watermark a time column of rows still to come out may be.
    pub(crate) fn hold(self, kind: Kind) -> i64 {
        // A row waits while its time plus its reach is not behind the watermark; one that comes in is not behind it.
        let left = self.reach(Which::Left).max(0);
        if kind.pairs() { left.max(self.reach(Which::Right)) } else { left }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_watermark_is_held_back_by_the_longest_wait() {
        let hold = |lower, upper, kind| Bounds { lower, upper }.hold(kind);
        assert_eq!(hold(-10, 10, Kind::Inner), 10);
        assert_eq!(hold(-20, 5, Kind::Full), 20);
        assert_eq!(hold(-20, 5, Kind::Semi), 5);
        assert_eq!(hold(3, 5, Kind::Left), 5);
        assert_eq!(hold(-5, -3, Kind::Anti), 0);
        assert_eq!(hold(-5, -3, Kind::Inner), 5);
    }

    #[test]
    fn both_ends_belong_to_the_bounds() {
        let bounds = Bounds { lower: -1, upper: 2 };
        assert_eq!((-3..=4).filter(|delta| bounds.allow(*delta)).collect::<Vec<_>>(), [-1, 0, 1, 2]);
    }
}

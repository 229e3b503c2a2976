//! The draws: one mixed 64-bit word per event, its bits shared out to the columns, so that event `n` needs no event before it.

use super::config::NexmarkConfig;
use super::layout::{AUCTIONS, EPOCH};

/// Ids of persons and auctions begin here.
pub(super) const FIRST_ID: i64 = 1000;
/// Categories are this and the four after it.
pub(super) const FIRST_CATEGORY: i64 = 10;
/// A hot id is the first of its hundred (the second, for bidders, so that hot bidders and hot sellers differ).
const HOT_EVERY: i64 = 100;
/// Auctions that may still get bids.
const IN_FLIGHT: i64 = 100;
/// Persons that may still bid or sell.
const ACTIVE: i64 = 1000;
/// How far ids may run ahead of what exists.
const LEAD: i64 = 10;

/// What a word is drawn for; each purpose has its own sequence.
#[derive(Debug, Clone, Copy)]
pub(super) enum Purpose {
    Numbers = 0,
    Text = 1,
    More = 2,
    Time = 3,
}

/// Mixes a counter into 64 independent-looking bits: two folded multiplications.
#[inline(always)]
pub(super) fn mix(counter: u64) -> u64 {
    let folded = |value: u64, factor: u64| {
        let product = u128::from(value) * u128::from(factor);
        (product as u64) ^ ((product >> 64) as u64)
    };
    let once = folded(counter ^ 0xD6E8_FEB8_6659_FD93, 0x9FB2_1C65_1E98_DF25);
    folded(once ^ 0xC2B2_AE3D_27D4_EB4F, 0xA5A3_564E_27F8_8695)
}

/// `bits`' lowest 16 as a number below `limit`.
#[inline(always)]
pub(super) fn below(bits: u64, limit: u64) -> u64 {
    ((bits & 0xFFFF) * limit) >> 16
}

/// `hot` if `mask` is all ones, `cold` if it is zero; no branch, because a fair coin is the worst one to predict.
#[inline(always)]
fn choose(cold: i64, hot: i64, mask: i64) -> i64 {
    cold ^ ((cold ^ hot) & mask)
}

/// 100 * 10^(6r) rounded, with `r` the lowest 20 bits of `bits` as a fraction. Integer and float arithmetic without a call or a
/// branch, so that a loop over a column is vectorised.
#[inline(always)]
pub(super) fn price(bits: u64) -> i64 {
    // 6 * log2(10) / 2^20 with 44 fractional bits.
    const FACTOR: u64 = 334_396_231;
    const FRACTION: u64 = (1 << 44) - 1;
    const ONE: u64 = 1023 << 52;
    const TO_INTEGER: f64 = 4_503_599_627_370_496.0;
    let exponent = (bits & 0xF_FFFF) * FACTOR;
    let fraction = f64::from_bits(ONE | ((exponent & FRACTION) << 8)) - 1.0;
    // 2^fraction: a polynomial through the Chebyshev nodes, off by 1.2e-7 at most.
    const C: [f64; 6] = [0.999_999_898_4, 0.693_154_489_7, 0.240_141_818_2, 0.055_860_337_1, 0.008_949_590_4, 0.001_893_754_1];
    let power = C[0] + fraction * (C[1] + fraction * (C[2] + fraction * (C[3] + fraction * (C[4] + fraction * C[5]))));
    let scaled = f64::from_bits(power.to_bits() + ((exponent >> 44) << 52));
    // Adding 2^52 leaves the rounded integer in the low bits.
    ((scaled * 100.0 + TO_INTEGER).to_bits() & ((1 << 52) - 1)) as i64
}

/// Draws under one configuration.
#[derive(Debug, Clone)]
pub(super) struct Draws {
    salt: u64,
    start_ms: i64,
    step_ms: i64,
    out_of_order_ms: i64,
}

impl Draws {
    pub(super) fn new(config: &NexmarkConfig) -> Self {
        Draws { salt: mix(config.seed), start_ms: config.start_ms, step_ms: config.step_ms, out_of_order_ms: config.out_of_order_ms }
    }

    /// The word of event `event` for `purpose`.
    #[inline(always)]
    pub(super) fn word(&self, purpose: Purpose, event: u64) -> u64 {
        mix(event ^ self.salt ^ ((purpose as u64) << 61))
    }

    /// Event `event`'s place in time, before displacement.
    pub(super) fn base_time(&self, event: u64) -> i64 {
        self.start_ms + event.cast_signed() * self.step_ms
    }

    /// Event `event`'s time.
    pub(super) fn time(&self, event: u64) -> i64 {
        self.base_time(event) - self.displacement(event)
    }

    pub(super) fn is_ordered(&self) -> bool {
        self.out_of_order_ms == 0
    }

    pub(super) fn step_ms(&self) -> i64 {
        self.step_ms
    }

    #[inline(always)]
    fn displacement(&self, event: u64) -> i64 {
        if self.out_of_order_ms == 0 {
            return 0;
        }
        let word = u128::from(self.word(Purpose::Time, event));
        ((word * (u128::from(self.out_of_order_ms.cast_unsigned()) + 1)) >> 64) as i64
    }

    /// How long the auction of this word runs, in milliseconds: on average until the auctions in flight have been replaced.
    pub(super) fn duration(&self, word: u64) -> i64 {
        let horizon = self.step_ms * IN_FLIGHT * (EPOCH as i64) / (AUCTIONS as i64);
        let limit = u128::from((horizon * 2).max(1).cast_unsigned());
        1 + ((u128::from(word) * limit) >> 64) as i64
    }
}

/// The ids that bids and auctions of one epoch may name.
#[derive(Debug, Clone, Copy)]
pub(super) struct Ids {
    hot_auction: i64,
    first_auction: i64,
    auctions: u64,
    hot_bidder: i64,
    hot_seller: i64,
    first_person: i64,
    persons: u64,
}

impl Ids {
    /// For bids of `epoch`, which see all its auctions, and for its auctions, which name persons only.
    #[inline(always)]
    pub(super) fn of_epoch(epoch: u64) -> Self {
        let person = epoch.cast_signed();
        let auction = (epoch * AUCTIONS + AUCTIONS - 1).cast_signed();
        let active = (person + 1).min(ACTIVE);
        let oldest = (auction - IN_FLIGHT).max(0);
        let hot_person = FIRST_ID + person / HOT_EVERY * HOT_EVERY;
        Ids {
            hot_auction: FIRST_ID + auction / HOT_EVERY * HOT_EVERY,
            first_auction: FIRST_ID + oldest,
            auctions: (auction - oldest + 1 + LEAD).cast_unsigned(),
            hot_bidder: hot_person + 1,
            hot_seller: hot_person,
            first_person: FIRST_ID + person + 1 - active,
            persons: (active + LEAD).cast_unsigned(),
        }
    }

    /// Bits 0-15 and 52.
    #[inline(always)]
    pub(super) fn auction(&self, word: u64) -> i64 {
        let cold = self.first_auction + below(word, self.auctions).cast_signed();
        choose(cold, self.hot_auction, -(((word >> 52) & 1) as i64))
    }

    /// Bits 16-31, 53 and 54.
    #[inline(always)]
    pub(super) fn bidder(&self, word: u64) -> i64 {
        let cold = self.first_person + below(word >> 16, self.persons).cast_signed();
        choose(cold, self.hot_bidder, -((((word >> 53) | (word >> 54)) & 1) as i64))
    }

    /// As [`Ids::bidder`], for auctions.
    #[inline(always)]
    pub(super) fn seller(&self, word: u64) -> i64 {
        let cold = self.first_person + below(word >> 16, self.persons).cast_signed();
        choose(cold, self.hot_seller, -((((word >> 53) | (word >> 54)) & 1) as i64))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_price_is_a_rounded_power_of_ten() {
        for bits in (0..1u64 << 20).step_by(97).chain([(1 << 20) - 1]) {
            let exact = 100.0 * 10f64.powf(6.0 * bits as f64 / f64::from(1 << 20));
            let made = price(bits) as f64;
            assert!((made - exact).abs() <= 0.51 + exact * 1e-6, "{bits}: {made} for {exact}");
        }
    }
}

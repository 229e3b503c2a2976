//! Arithmetic that both evaluators share because there is only one way to say it.

use crate::ast::Arithmetic;
use crate::types::{fits, ten};
use arrow::datatypes::i256;

pub(crate) const OVERFLOW: &str = "decimal overflow: the result has more digits than its type";
pub(crate) const ZERO: &str = "division by zero";

/// Decimal arithmetic on unscaled digits with their scales, into a result of the given precision and scale. A quotient is
/// rounded half away from zero; everything else is exact.
pub(crate) fn decimal(
    op: Arithmetic,
    (a, a_scale): (i128, i8),
    (b, b_scale): (i128, i8),
    precision: u8,
    scale: i8,
) -> Result<i128, &'static str> {
    let aligned = |value: i128, from: i8| value.checked_mul(ten(a_scale.max(b_scale) - from)).ok_or(OVERFLOW);
    let result = match op {
        Arithmetic::Add => aligned(a, a_scale)?.checked_add(aligned(b, b_scale)?),
        Arithmetic::Subtract => aligned(a, a_scale)?.checked_sub(aligned(b, b_scale)?),
        Arithmetic::Multiply => a.checked_mul(b),
        Arithmetic::Divide | Arithmetic::Modulo if b == 0 => return Err(ZERO),
        Arithmetic::Divide => Some(divide(a, b, scale - a_scale + b_scale)?),
        Arithmetic::Modulo => Some(aligned(a, a_scale)? % aligned(b, b_scale)?),
    };
    result.and_then(|value| fits(value, precision)).ok_or(OVERFLOW)
}

/// `a * 10^power / b`, rounded half away from zero. `power` is not negative: the result's scale is at least the dividend's.
fn divide(a: i128, b: i128, power: i8) -> Result<i128, &'static str> {
    let mut numerator = i256::from_i128(a.abs());
    for _ in 0..power.max(0) {
        numerator = numerator.checked_mul(i256::from_i128(10)).ok_or(OVERFLOW)?;
    }
    let divisor = i256::from_i128(b.abs());
    let (quotient, rest) = (numerator.wrapping_div(divisor), numerator.wrapping_rem(divisor));
    let up = rest.wrapping_add(rest) >= divisor;
    let rounded = if up { quotient.wrapping_add(i256::ONE) } else { quotient };
    let magnitude = rounded.to_i128().ok_or(OVERFLOW)?;
    Ok(if (a < 0) == (b < 0) { magnitude } else { -magnitude })
}

/// A decimal rounded half away from zero to fewer decimals.
pub(crate) fn rescale_down(value: i128, by: i8) -> i128 {
    let unit = ten(by);
    let (quotient, rest) = (value / unit, value % unit);
    if rest.unsigned_abs() >= unit.unsigned_abs().div_ceil(2) { quotient + value.signum() } else { quotient }
}

/// A remainder by a divisor known beforehand, without a division instruction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Remainder {
    /// By a power of two: its lower bits.
    Bits(i64),
    /// By anything else: a multiplication by the reciprocal and two shifts.
    Reciprocal { divisor: i64, magic: i64, shift: u32 },
}

impl Remainder {
    /// For a divisor other than 0 and the smallest i64; `None` for those.
    pub(crate) fn new(divisor: i64) -> Option<Remainder> {
        let size = divisor.checked_abs().filter(|size| *size > 0)? as u64;
        if size.is_power_of_two() {
            return Some(Remainder::Bits(size as i64 - 1));
        }
        // The smallest power of two p >= 2^64 for which ceil(2^p / size) is exact enough for every dividend: with
        // e = size - 2^p mod size, that is 2^p > 2^63 * e. See Warren, Hacker's Delight, chapter 10.
        for shift in 0..63_u32 {
            let power = 1_u128 << (64 + shift);
            let error = u128::from(size) - power % u128::from(size);
            if error << 63 < power {
                let magic = power / u128::from(size) + 1;
                let fits = magic < 1 << 64;
                return fits.then_some(Remainder::Reciprocal { divisor: size as i64, magic: magic as u64 as i64, shift });
            }
        }
        None
    }

    /// `value % divisor`, with the sign of `value`.
    #[inline(always)]
    pub(crate) fn of(self, value: i64) -> i64 {
        match self {
            Remainder::Bits(mask) => {
                let bias = (value >> 63) & mask;
                (value.wrapping_add(bias) & mask) - bias
            }
            Remainder::Reciprocal { divisor, magic, shift } => {
                // The magic number has 64 bits and no sign; as an i64 it may be 2^64 too small, which the added value makes up.
                let mut high = ((i128::from(value) * i128::from(magic)) >> 64) as i64;
                high = high.wrapping_add(value & (magic >> 63));
                let quotient = (high >> shift) - (value >> 63);
                value.wrapping_sub(quotient.wrapping_mul(divisor))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_remainder_without_division_is_the_remainder(value: i64, divisor: i64, shift in 0u32..63, small in -100i64..100) {
            for divisor in [divisor, divisor >> shift, 123, 10_000, 1, -1, 2, -8, 3, 7, 10, 1 << 40, 1 << 62, i64::MAX, -5] {
                if let Some(by) = Remainder::new(divisor) {
                    for value in [value, value >> shift, small, i64::MIN, i64::MAX, divisor, divisor.wrapping_sub(1), divisor.wrapping_mul(small)] {
                        prop_assert_eq!(by.of(value), value.wrapping_rem(divisor), "{} % {}", value, divisor);
                    }
                }
            }
        }

        #[test]
        fn quotients_of_decimals_are_rounded_half_away_from_zero(a in -1_000_000i128..1_000_000, b in -1_000i128..1_000) {
            prop_assume!(b != 0);
            let found = decimal(Arithmetic::Divide, (a, 2), (b, 1), 38, 6).unwrap();
            // |found / 10^6 - (a / 10^2) / (b / 10^1)| <= half of 10^-6, in whole numbers.
            let distance = (found * b * 2 - a * 100_000 * 2).abs();
            prop_assert!(distance <= b.abs(), "{} / {} = {}", a, b, found);
        }
    }

    #[test]
    fn the_usual_divisors_have_a_reciprocal() {
        for divisor in [1, -1, 2, 3, 7, 10, 100, 123, 1_000, 10_000, 86_400_000, i64::MAX] {
            assert!(Remainder::new(divisor).is_some(), "{divisor}");
        }
    }

    #[test]
    fn halves_are_rounded_away_from_zero() {
        assert_eq!([rescale_down(25, 1), rescale_down(-25, 1), rescale_down(24, 1), rescale_down(5, 0)], [3, -3, 2, 5]);
    }
}

//! Variances and standard deviations.
//!
//! Over integers they are exact until the last division: the number, the sum and the sum of squares are whole numbers of up
//! to 192 bits. Over floats and decimals, Welford's recurrence (1962), merged as Chan, Golub and LeVeque (1979) do.

use super::{Accumulator, Finished, each_valid, foreign, gathered, state_floats, state_ints};
use arrow::array::{Array, ArrayRef, AsArray, Decimal128Array, Float64Array, Int64Array};
use arrow::datatypes::{DataType, Decimal128Type, Float64Type, Int64Type, UInt64Type, i256};
use std::sync::Arc;
use tidegate_api::Result;

/// Which of the four.
#[derive(Debug, Clone, Copy)]
pub(super) struct Spread {
    /// Over one less than the number of values.
    pub(super) sample: bool,
    /// The root of it.
    pub(super) root: bool,
}

impl Spread {
    fn of(self, sum_of_squares: f64, count: i64) -> Option<f64> {
        let over = if self.sample { count - 1 } else { count };
        (over > 0).then(|| {
            let variance = sum_of_squares / over as f64;
            if self.root { variance.sqrt() } else { variance }
        })
    }
}

/// The accumulator over values of a type.
pub(super) fn accumulator(values: &DataType, spread: Spread) -> Box<dyn Accumulator> {
    if values.is_integer() { Box::new(Whole::new(spread)) } else { Box::new(Welford::new(spread)) }
}

/// Number, sum and sum of squares of whole numbers.
#[derive(Debug)]
struct Whole {
    spread: Spread,
    counts: Vec<i64>,
    sums: Vec<i128>,
    /// The sum of squares: the lower 128 bits, and how often they overflowed.
    squares: Vec<u128>,
    carries: Vec<i64>,
}

impl Whole {
    fn new(spread: Spread) -> Self {
        Whole { spread, counts: Vec::new(), sums: Vec::new(), squares: Vec::new(), carries: Vec::new() }
    }

    fn resize(&mut self, total: usize) {
        self.counts.resize(total, 0);
        self.sums.resize(total, 0);
        self.squares.resize(total, 0);
        self.carries.resize(total, 0);
    }

    #[inline(always)]
    fn add(&mut self, group: usize, value: i128) {
        self.counts[group] += 1;
        self.sums[group] = self.sums[group].wrapping_add(value);
        let magnitude = value.unsigned_abs();
        self.add_square(group, magnitude * magnitude);
    }

    #[inline(always)]
    fn add_square(&mut self, group: usize, square: u128) {
        let (sum, carried) = self.squares[group].overflowing_add(square);
        self.squares[group] = sum;
        self.carries[group] += i64::from(carried);
    }

    /// The sum of squared differences from the mean: (n * squares - sum^2) / n.
    fn deviation(&self, group: usize) -> f64 {
        let count = i256::from_i128(i128::from(self.counts[group]));
        let squares = i256::from_parts(self.squares[group], i128::from(self.carries[group]));
        let sum = i256::from_i128(self.sums[group]);
        let scaled = squares.wrapping_mul(count).wrapping_sub(sum.wrapping_mul(sum));
        to_float(scaled) / self.counts[group] as f64
    }
}

/// The nearest float, or one beside it.
fn to_float(value: i256) -> f64 {
    let (low, high) = value.to_parts();
    // 2^128.
    high as f64 * 340_282_366_920_938_463_463_374_607_431_768_211_456.0 + low as f64
}

impl Accumulator for Whole {
    fn update(&mut self, groups: &[u32], total: usize, values: Option<&ArrayRef>) -> Result<()> {
        self.resize(total);
        let Some(values) = values else { return Ok(()) };
        if let Some(wide) = values.as_primitive_opt::<UInt64Type>() {
            each_valid(groups, wide.values(), wide.nulls(), |group, value| self.add(group, i128::from(value)));
        } else if let Some(ints) = values.as_primitive_opt::<Int64Type>() {
            each_valid(groups, ints.values(), ints.nulls(), |group, value| self.add(group, i128::from(value)));
        }
        Ok(())
    }

    fn merge(&mut self, groups: &[u32], total: usize, state: &[ArrayRef]) -> Result<()> {
        let wide = |index: usize| state.get(index).and_then(|array| array.as_primitive_opt::<Decimal128Type>()).ok_or_else(foreign);
        self.resize(total);
        each_valid(groups, state_ints(state, 0)?.values(), None, |group, count| self.counts[group] += count);
        each_valid(groups, wide(1)?.values(), None, |group, sum| self.sums[group] = self.sums[group].wrapping_add(sum));
        each_valid(groups, wide(2)?.values(), None, |group, squares| self.add_square(group, squares as u128));
        each_valid(groups, state_ints(state, 3)?.values(), None, |group, carries| self.carries[group] += carries);
        Ok(())
    }

    fn state(&self) -> Result<Vec<ArrayRef>> {
        let squares: Vec<i128> = self.squares.iter().map(|squares| *squares as i128).collect();
        Ok(vec![
            Arc::new(Int64Array::from(self.counts.clone())),
            Arc::new(Decimal128Array::from(self.sums.clone())),
            Arc::new(Decimal128Array::from(squares)),
            Arc::new(Int64Array::from(self.carries.clone())),
        ])
    }

    fn finish(&self) -> Result<Finished> {
        let spreads = self.counts.iter().enumerate();
        let spreads: Float64Array =
            spreads.map(|(group, count)| if *count == 0 { None } else { self.spread.of(self.deviation(group), *count) }).collect();
        Ok(Finished::fitting(Arc::new(spreads)))
    }

    fn select(&self, groups: &[u32]) -> Result<Box<dyn Accumulator>> {
        Ok(Box::new(Whole {
            spread: self.spread,
            counts: gathered(&self.counts, groups),
            sums: gathered(&self.sums, groups),
            squares: gathered(&self.squares, groups),
            carries: gathered(&self.carries, groups),
        }))
    }

    fn clear(&mut self) {
        self.counts.clear();
        self.sums.clear();
        self.squares.clear();
        self.carries.clear();
    }

    fn bytes(&self) -> usize {
        self.counts.capacity() * 8 + self.sums.capacity() * 16 + self.squares.capacity() * 16 + self.carries.capacity() * 8
    }
}

/// Number, mean and sum of squared differences from it.
#[derive(Debug)]
struct Welford {
    spread: Spread,
    counts: Vec<i64>,
    means: Vec<f64>,
    deviations: Vec<f64>,
}

impl Welford {
    fn new(spread: Spread) -> Self {
        Welford { spread, counts: Vec::new(), means: Vec::new(), deviations: Vec::new() }
    }

    fn resize(&mut self, total: usize) {
        self.counts.resize(total, 0);
        self.means.resize(total, 0.0);
        self.deviations.resize(total, 0.0);
    }
}

impl Accumulator for Welford {
    fn update(&mut self, groups: &[u32], total: usize, values: Option<&ArrayRef>) -> Result<()> {
        self.resize(total);
        if let Some(values) = values.and_then(|values| values.as_primitive_opt::<Float64Type>()) {
            each_valid(groups, values.values(), values.nulls(), |group, value| {
                self.counts[group] += 1;
                let before = value - self.means[group];
                self.means[group] += before / self.counts[group] as f64;
                self.deviations[group] += before * (value - self.means[group]);
            });
        }
        Ok(())
    }

    fn merge(&mut self, groups: &[u32], total: usize, state: &[ArrayRef]) -> Result<()> {
        let (counts, means, deviations) = (state_ints(state, 0)?, state_floats(state, 1)?, state_floats(state, 2)?);
        self.resize(total);
        for (row, group) in groups.iter().enumerate() {
            let (group, theirs) = (*group as usize, counts.value(row));
            if theirs == 0 {
                continue;
            }
            let ours = self.counts[group];
            if ours == 0 {
                self.means[group] = means.value(row);
                self.deviations[group] = deviations.value(row);
            } else {
                let (ours, theirs) = (ours as f64, theirs as f64);
                let apart = means.value(row) - self.means[group];
                self.means[group] += apart * (theirs / (ours + theirs));
                self.deviations[group] += deviations.value(row) + apart * apart * (ours * theirs / (ours + theirs));
            }
            self.counts[group] += theirs;
        }
        Ok(())
    }

    fn state(&self) -> Result<Vec<ArrayRef>> {
        Ok(vec![
            Arc::new(Int64Array::from(self.counts.clone())),
            Arc::new(Float64Array::from(self.means.clone())),
            Arc::new(Float64Array::from(self.deviations.clone())),
        ])
    }

    fn finish(&self) -> Result<Finished> {
        let spreads = self.counts.iter().zip(&self.deviations);
        let spreads: Float64Array = spreads.map(|(count, deviation)| self.spread.of(*deviation, *count)).collect();
        Ok(Finished::fitting(Arc::new(spreads)))
    }

    fn select(&self, groups: &[u32]) -> Result<Box<dyn Accumulator>> {
        Ok(Box::new(Welford {
            spread: self.spread,
            counts: gathered(&self.counts, groups),
            means: gathered(&self.means, groups),
            deviations: gathered(&self.deviations, groups),
        }))
    }

    fn clear(&mut self) {
        self.counts.clear();
        self.means.clear();
        self.deviations.clear();
    }

    fn bytes(&self) -> usize {
        (self.counts.capacity() + self.means.capacity() + self.deviations.capacity()) * 8
    }
}

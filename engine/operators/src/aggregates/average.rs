//! `avg`: float64 over integers and floats, decimal over decimals.

use super::sum::{FloatSums, WideSums};
use super::{Accumulator, Finished, gathered, state_ints};
use arrow::array::{Array, ArrayRef, Decimal128Array, Float64Array, Int64Array};
use arrow::datatypes::{DECIMAL128_MAX_PRECISION, DataType, i256};
use std::sync::Arc;
use tidegate_api::{Error, Result};

/// An average of decimals has four more digits behind the point than its values, as far as they fit.
pub(super) fn decimal_scale(scale: i8) -> i8 {
    scale.saturating_add(4).min(DECIMAL128_MAX_PRECISION as i8)
}

/// How many values each group has met.
#[derive(Debug, Default)]
struct Counts(Vec<i64>);

impl Counts {
    fn update(&mut self, groups: &[u32], total: usize, values: &ArrayRef) {
        self.0.resize(total, 0);
        match values.nulls().filter(|nulls| nulls.null_count() > 0) {
            None => groups.iter().for_each(|group| self.0[*group as usize] += 1),
            Some(nulls) => nulls.valid_indices().for_each(|row| self.0[groups[row] as usize] += 1),
        }
    }

    fn merge(&mut self, groups: &[u32], total: usize, counts: &Int64Array) {
        self.0.resize(total, 0);
        for (group, count) in groups.iter().zip(counts.values()) {
            self.0[*group as usize] += count;
        }
    }
}

/// Averages of integers and decimals, from exact sums.
#[derive(Debug)]
pub(super) struct ExactAverage {
    sums: WideSums,
    counts: Counts,
    values: DataType,
}

impl ExactAverage {
    pub(super) fn new(values: DataType) -> Self {
        ExactAverage { sums: WideSums::default(), counts: Counts::default(), values }
    }
}

impl Accumulator for ExactAverage {
    fn update(&mut self, groups: &[u32], total: usize, values: Option<&ArrayRef>) -> Result<()> {
        self.sums.resize(total);
        if let Some(values) = values {
            self.sums.update(groups, values);
            self.counts.update(groups, total, values);
        }
        Ok(())
    }

    fn merge(&mut self, groups: &[u32], total: usize, state: &[ArrayRef]) -> Result<()> {
        self.sums.resize(total);
        self.sums.merge(groups, state)?;
        self.counts.merge(groups, total, state_ints(state, 2)?);
        Ok(())
    }

    fn state(&self) -> Result<Vec<ArrayRef>> {
        let mut state = self.sums.state(None);
        state.push(Arc::new(Int64Array::from(self.counts.0.clone())));
        Ok(state)
    }

    fn finish(&self) -> Result<Finished> {
        let groups = self.counts.0.iter().enumerate();
        let mut misfits = Vec::new();
        let values: ArrayRef = match &self.values {
            DataType::Decimal128(_, scale) => {
                let to = decimal_scale(*scale);
                let factor = 10i128.pow(u32::from((to - scale).unsigned_abs()));
                let averages: Decimal128Array = groups
                    .map(|(group, count)| {
                        if *count == 0 {
                            return None;
                        }
                        let average = self.sums.get(group).and_then(|sum| decimal_average(sum, factor, *count));
                        if average.is_none() {
                            misfits.push((group, "beyond 38 digits".to_string()));
                        }
                        average
                    })
                    .collect();
                let typed = averages.with_precision_and_scale(DECIMAL128_MAX_PRECISION, to);
                Arc::new(typed.map_err(|error| Error::internal(error.to_string()))?)
            }
            _ => {
                let averages: Float64Array = groups
                    .map(|(group, count)| (*count > 0).then(|| self.sums.get(group).map(|sum| sum as f64 / *count as f64)).flatten())
                    .collect();
                Arc::new(averages)
            }
        };
        Ok(Finished { values, misfits })
    }

    fn select(&self, groups: &[u32]) -> Result<Box<dyn Accumulator>> {
        let counts = Counts(gathered(&self.counts.0, groups));
        Ok(Box::new(ExactAverage { sums: self.sums.select(groups), counts, values: self.values.clone() }))
    }

    fn clear(&mut self) {
        self.sums.clear();
        self.counts.0.clear();
    }

    fn bytes(&self) -> usize {
        self.sums.bytes() + self.counts.0.capacity() * 8
    }
}

/// `sum * factor / count`, halves away from zero; `None` beyond 38 digits.
fn decimal_average(sum: i128, factor: i128, count: i64) -> Option<i128> {
    let count = i256::from_i128(i128::from(count));
    let scaled = i256::from_i128(sum).checked_mul(i256::from_i128(factor))?;
    let half = count.wrapping_div(i256::from_i128(2));
    let rounded = if sum < 0 { scaled.checked_sub(half)? } else { scaled.checked_add(half)? };
    rounded.checked_div(count)?.to_i128().filter(|average| average.unsigned_abs() < 10u128.pow(38))
}

/// Averages of floats.
#[derive(Debug, Default)]
pub(super) struct FloatAverage {
    sums: FloatSums,
    counts: Counts,
}

impl Accumulator for FloatAverage {
    fn update(&mut self, groups: &[u32], total: usize, values: Option<&ArrayRef>) -> Result<()> {
        self.sums.resize(total);
        if let Some(values) = values {
            self.sums.update(groups, values);
            self.counts.update(groups, total, values);
        }
        Ok(())
    }

    fn merge(&mut self, groups: &[u32], total: usize, state: &[ArrayRef]) -> Result<()> {
        self.sums.resize(total);
        self.sums.merge(groups, state)?;
        self.counts.merge(groups, total, state_ints(state, 2)?);
        Ok(())
    }

    fn state(&self) -> Result<Vec<ArrayRef>> {
        let mut state = self.sums.state(None);
        state.push(Arc::new(Int64Array::from(self.counts.0.clone())));
        Ok(state)
    }

    fn finish(&self) -> Result<Finished> {
        debug_assert_eq!(self.sums.len(), self.counts.0.len());
        let averages: Float64Array =
            self.counts.0.iter().enumerate().map(|(group, count)| (*count > 0).then(|| self.sums.get(group) / *count as f64)).collect();
        Ok(Finished::fitting(Arc::new(averages)))
    }

    fn select(&self, groups: &[u32]) -> Result<Box<dyn Accumulator>> {
        let counts = Counts(gathered(&self.counts.0, groups));
        Ok(Box::new(FloatAverage { sums: self.sums.select(groups), counts }))
    }

    fn clear(&mut self) {
        self.sums.clear();
        self.counts.0.clear();
    }

    fn bytes(&self) -> usize {
        self.sums.bytes() + self.counts.0.capacity() * 8
    }
}

//! `sum`: exact over integers and decimals, compensated over floats.

use super::seen::Seen;
use super::{Accumulator, Finished, each_valid, foreign, gathered, state_floats, state_ints};
use arrow::array::{Array, ArrayRef, AsArray, Decimal128Array, Float64Array, Int64Array};
use arrow::buffer::NullBuffer;
use arrow::datatypes::{DataType, Decimal128Type, DecimalType, Float64Type, Int64Type, UInt64Type};
use std::sync::Arc;
use tidegate_api::{Error, Result};

/// Sums in 128 bits with a count of overflows beyond, so that the order of rows never matters.
#[derive(Debug, Default)]
pub(super) struct WideSums {
    sums: Vec<i128>,
    /// How often a sum wrapped, upwards minus downwards. Empty until one did, which takes decimals of 38 digits.
    wraps: Vec<i64>,
}

impl WideSums {
    pub(super) fn resize(&mut self, total: usize) {
        self.sums.resize(total, 0);
        if !self.wraps.is_empty() {
            self.wraps.resize(total, 0);
        }
    }

    #[inline(always)]
    pub(super) fn add(&mut self, group: usize, value: i128) {
        let (sum, wrapped) = self.sums[group].overflowing_add(value);
        self.sums[group] = sum;
        if wrapped {
            self.wrap(group, if value < 0 { -1 } else { 1 });
        }
    }

    #[cold]
    fn wrap(&mut self, group: usize, by: i64) {
        self.wraps.resize(self.sums.len(), 0);
        self.wraps[group] += by;
    }

    /// The sum, unless it lies beyond 128 bits.
    pub(super) fn get(&self, group: usize) -> Option<i128> {
        (self.wraps.get(group).copied().unwrap_or(0) == 0).then(|| self.sums[group])
    }

    /// Adds prepared integers or decimals.
    pub(super) fn update(&mut self, groups: &[u32], values: &ArrayRef) {
        let nulls = values.nulls();
        match values.data_type() {
            DataType::UInt64 => {
                each_valid(groups, values.as_primitive::<UInt64Type>().values(), nulls, |group, value| self.add(group, i128::from(value)));
            }
            DataType::Decimal128(_, _) => {
                each_valid(groups, values.as_primitive::<Decimal128Type>().values(), nulls, |group, value| self.add(group, value));
            }
            _ => {
                each_valid(groups, values.as_primitive::<Int64Type>().values(), nulls, |group, value| self.add(group, i128::from(value)));
            }
        }
    }

    pub(super) fn merge(&mut self, groups: &[u32], state: &[ArrayRef]) -> Result<()> {
        let sums = state.first().and_then(|array| array.as_primitive_opt::<Decimal128Type>()).ok_or_else(foreign)?;
        let wraps = state_ints(state, 1)?;
        each_valid(groups, sums.values(), None, |group, sum| self.add(group, sum));
        if wraps.values().iter().any(|wraps| *wraps != 0) {
            each_valid(groups, wraps.values(), None, |group, wraps| self.wrap(group, wraps));
        }
        Ok(())
    }

    pub(super) fn state(&self, nulls: Option<NullBuffer>) -> Vec<ArrayRef> {
        let mut wraps = self.wraps.clone();
        wraps.resize(self.sums.len(), 0);
        vec![Arc::new(Decimal128Array::new(self.sums.clone().into(), nulls)), Arc::new(Int64Array::from(wraps))]
    }

    /// The sums of some groups.
    pub(super) fn select(&self, groups: &[u32]) -> Self {
        let wraps = if self.wraps.is_empty() { Vec::new() } else { gathered(&self.wraps, groups) };
        WideSums { sums: gathered(&self.sums, groups), wraps }
    }

    pub(super) fn len(&self) -> usize {
        self.sums.len()
    }

    pub(super) fn clear(&mut self) {
        self.sums.clear();
        self.wraps.clear();
    }

    pub(super) fn bytes(&self) -> usize {
        self.sums.capacity() * 16 + self.wraps.capacity() * 8
    }
}

/// Sums of integers, which leave as int64, and of decimals, which leave with 38 digits.
#[derive(Debug)]
pub(super) struct ExactSum {
    sums: WideSums,
    seen: Seen,
    result: DataType,
}

impl ExactSum {
    pub(super) fn new(result: DataType) -> Self {
        ExactSum { sums: WideSums::default(), seen: Seen::default(), result }
    }
}

impl Accumulator for ExactSum {
    fn update(&mut self, groups: &[u32], total: usize, values: Option<&ArrayRef>) -> Result<()> {
        self.sums.resize(total);
        if let Some(values) = values {
            self.sums.update(groups, values);
            self.seen.update(groups, total, values.nulls());
        }
        Ok(())
    }

    fn merge(&mut self, groups: &[u32], total: usize, state: &[ArrayRef]) -> Result<()> {
        self.sums.resize(total);
        self.sums.merge(groups, state)?;
        self.seen.update(groups, total, state.first().and_then(|sums| sums.nulls()));
        Ok(())
    }

    fn state(&self) -> Result<Vec<ArrayRef>> {
        Ok(self.sums.state(self.seen.nulls()))
    }

    fn finish(&self) -> Result<Finished> {
        let nulls = self.seen.nulls();
        let mut misfits = Vec::new();
        let mut fit = |group: usize, fits: &dyn Fn(i128) -> bool| match self.sums.get(group) {
            Some(sum) if fits(sum) => Some(sum),
            Some(sum) => {
                misfits.push((group, sum.to_string()));
                None
            }
            None => {
                misfits.push((group, "beyond 128 bits".to_string()));
                None
            }
        };
        let valid = |group: usize| nulls.as_ref().is_none_or(|nulls| nulls.is_valid(group));
        let groups = 0..self.sums.len();
        let values: ArrayRef = match &self.result {
            DataType::Decimal128(precision, scale) => {
                let fits = |sum: i128| Decimal128Type::is_valid_decimal_precision(sum, *precision);
                let sums: Decimal128Array = groups.map(|group| if valid(group) { fit(group, &fits) } else { None }).collect();
                Arc::new(sums.with_precision_and_scale(*precision, *scale).map_err(|error| Error::internal(error.to_string()))?)
            }
            _ => {
                let fits = |sum: i128| i64::try_from(sum).is_ok();
                let sums: Int64Array =
                    groups.map(|group| if valid(group) { fit(group, &fits).map(|sum| sum as i64) } else { None }).collect();
                Arc::new(sums)
            }
        };
        Ok(Finished { values, misfits })
    }

    fn select(&self, groups: &[u32]) -> Result<Box<dyn Accumulator>> {
        let (sums, seen) = (self.sums.select(groups), self.seen.select(groups));
        Ok(Box::new(ExactSum { sums, seen, result: self.result.clone() }))
    }

    fn clear(&mut self) {
        self.sums.clear();
        self.seen.clear();
    }

    fn bytes(&self) -> usize {
        self.sums.bytes() + self.seen.bytes()
    }
}

/// Sums of floats with the rounding error kept beside (Neumaier 1974), so that the order of rows and the cut of batches move
/// the result by its last digits at most.
#[derive(Debug, Default)]
pub(super) struct FloatSums {
    sums: Vec<f64>,
    errors: Vec<f64>,
}

impl FloatSums {
    pub(super) fn resize(&mut self, total: usize) {
        self.sums.resize(total, 0.0);
        self.errors.resize(total, 0.0);
    }

    #[inline(always)]
    pub(super) fn add(&mut self, group: usize, value: f64) {
        let sum = self.sums[group];
        let next = sum + value;
        self.errors[group] += if sum.abs() >= value.abs() { (sum - next) + value } else { (value - next) + sum };
        self.sums[group] = next;
    }

    pub(super) fn update(&mut self, groups: &[u32], values: &ArrayRef) {
        each_valid(groups, values.as_primitive::<Float64Type>().values(), values.nulls(), |group, value| self.add(group, value));
    }

    pub(super) fn merge(&mut self, groups: &[u32], state: &[ArrayRef]) -> Result<()> {
        let (sums, errors) = (state_floats(state, 0)?, state_floats(state, 1)?);
        each_valid(groups, sums.values(), None, |group, sum| self.add(group, sum));
        each_valid(groups, errors.values(), None, |group, error| self.errors[group] += error);
        Ok(())
    }

    /// The sum; the error means nothing once the sum has left the finite numbers.
    pub(super) fn get(&self, group: usize) -> f64 {
        let sum = self.sums[group];
        if sum.is_finite() { sum + self.errors[group] } else { sum }
    }

    pub(super) fn state(&self, nulls: Option<NullBuffer>) -> Vec<ArrayRef> {
        vec![Arc::new(Float64Array::new(self.sums.clone().into(), nulls)), Arc::new(Float64Array::from(self.errors.clone()))]
    }

    /// The sums of some groups.
    pub(super) fn select(&self, groups: &[u32]) -> Self {
        FloatSums { sums: gathered(&self.sums, groups), errors: gathered(&self.errors, groups) }
    }

    pub(super) fn len(&self) -> usize {
        self.sums.len()
    }

    pub(super) fn clear(&mut self) {
        self.sums.clear();
        self.errors.clear();
    }

    pub(super) fn bytes(&self) -> usize {
        (self.sums.capacity() + self.errors.capacity()) * 8
    }
}

/// `sum` of floats.
#[derive(Debug, Default)]
pub(super) struct FloatSum {
    sums: FloatSums,
    seen: Seen,
}

impl Accumulator for FloatSum {
    fn update(&mut self, groups: &[u32], total: usize, values: Option<&ArrayRef>) -> Result<()> {
        self.sums.resize(total);
        if let Some(values) = values {
            self.sums.update(groups, values);
            self.seen.update(groups, total, values.nulls());
        }
        Ok(())
    }

    fn merge(&mut self, groups: &[u32], total: usize, state: &[ArrayRef]) -> Result<()> {
        self.sums.resize(total);
        self.sums.merge(groups, state)?;
        self.seen.update(groups, total, state.first().and_then(|sums| sums.nulls()));
        Ok(())
    }

    fn state(&self) -> Result<Vec<ArrayRef>> {
        Ok(self.sums.state(self.seen.nulls()))
    }

    fn finish(&self) -> Result<Finished> {
        let sums: Vec<f64> = (0..self.sums.len()).map(|group| self.sums.get(group)).collect();
        Ok(Finished::fitting(Arc::new(Float64Array::new(sums.into(), self.seen.nulls()))))
    }

    fn select(&self, groups: &[u32]) -> Result<Box<dyn Accumulator>> {
        Ok(Box::new(FloatSum { sums: self.sums.select(groups), seen: self.seen.select(groups) }))
    }

    fn clear(&mut self) {
        self.sums.clear();
        self.seen.clear();
    }

    fn bytes(&self) -> usize {
        self.sums.bytes() + self.seen.bytes()
    }
}

//! `median` and `percentile`, exactly: every value is kept until the group is done.
//!
//! Between two neighbours the result is interpolated, as SQL's `percentile_cont` does. Floats order as in `min` and `max`:
//! NaN is the greatest.

use super::average::decimal_scale;
use super::extreme::{self, Ordered};
use super::{Accumulator, Finished, each_valid, foreign, gathered, list_offsets, spread};
use arrow::array::{Array, ArrayRef, AsArray, Decimal128Array, Float64Array, ListArray, PrimitiveArray};
use arrow::compute::cast;
use arrow::datatypes::{DECIMAL128_MAX_PRECISION, DataType, Decimal128Type, Field, Float64Type, Int64Type, i256};
use std::sync::Arc;
use tidegate_api::Result;

/// The accumulator over numbers of a type; `p` lies between 0 and 1.
pub(super) fn accumulator(values: &DataType, p: f64) -> Box<dyn Accumulator> {
    match values {
        DataType::Decimal128(_, _) => Box::new(Percentile::<Decimal128Type>::new(values, p)),
        _ => Box::new(Percentile::<Int64Type>::new(values, p)),
    }
}

#[derive(Debug)]
struct Percentile<T: Ordered> {
    p: f64,
    values: DataType,
    lists: Vec<Vec<T::Native>>,
}

/// The two neighbours of a place among `count` values, and how far it lies from the lower towards the upper.
fn place(p: f64, count: usize) -> (usize, usize, f64) {
    let last = count - 1;
    let at = p * last as f64;
    let lower = (at.floor() as usize).min(last);
    (lower, (lower + 1).min(last), at - lower as f64)
}

impl<T: Ordered> Percentile<T> {
    fn new(values: &DataType, p: f64) -> Self {
        Percentile { p, values: values.clone(), lists: Vec::new() }
    }

    fn take(&mut self, groups: &[u32], total: usize, values: &PrimitiveArray<T>) {
        self.lists.resize(total, Vec::new());
        each_valid(groups, values.values(), values.nulls(), |group, value| self.lists[group].push(value));
    }

    /// The neighbours of each group's place.
    fn neighbours(&self) -> (PrimitiveArray<T>, PrimitiveArray<T>, Vec<f64>) {
        let (mut lower, mut upper, mut apart) = (Vec::new(), Vec::new(), Vec::new());
        for list in &self.lists {
            if list.is_empty() {
                lower.push(None);
                upper.push(None);
                apart.push(0.0);
                continue;
            }
            let (low, high, between) = place(self.p, list.len());
            let mut values = list.clone();
            let (_, first, rest) = values.select_nth_unstable(low);
            lower.push(Some(*first));
            upper.push(if high > low { rest.iter().min().copied() } else { Some(*first) });
            apart.push(between);
        }
        (lower.into_iter().collect(), upper.into_iter().collect(), apart)
    }
}

/// Between two floats, neither beyond them nor through an overflow.
fn between(lower: f64, upper: f64, apart: f64) -> f64 {
    if apart == 0.0 || lower == upper { lower } else { lower * (1.0 - apart) + upper * apart }
}

/// Between two integers: exact for halves, whatever their size.
fn between_ints(lower: i128, upper: i128, apart: f64) -> f64 {
    if apart == 0.5 {
        return (lower + upper) as f64 / 2.0;
    }
    lower as f64 + (upper - lower) as f64 * apart
}

/// Between two decimals, with `digits` more behind the point, halves away from zero; `None` beyond 38 digits.
fn between_decimals(lower: i128, upper: i128, apart: f64, digits: u32) -> Option<i128> {
    const ONE: f64 = 4_503_599_627_370_496.0;
    let wide = i256::from_i128;
    let step = wide(upper).wrapping_sub(wide(lower)).wrapping_mul(wide((apart * ONE) as i128));
    let exact = wide(lower).wrapping_mul(wide(1 << 52)).wrapping_add(step).checked_mul(wide(10i128.pow(digits)))?;
    let half = wide(1 << 51);
    let rounded = if exact < i256::ZERO { exact.wrapping_sub(half) } else { exact.wrapping_add(half) };
    rounded.wrapping_div(wide(1 << 52)).to_i128().filter(|value| value.unsigned_abs() < 10u128.pow(38))
}

impl<T: Ordered> Accumulator for Percentile<T> {
    fn update(&mut self, groups: &[u32], total: usize, values: Option<&ArrayRef>) -> Result<()> {
        self.lists.resize(total, Vec::new());
        if let Some(values) = values.and_then(|values| values.as_primitive_opt::<T>()) {
            self.take(groups, total, values);
        }
        Ok(())
    }

    fn merge(&mut self, groups: &[u32], total: usize, state: &[ArrayRef]) -> Result<()> {
        let lists = state.first().and_then(|array| array.as_list_opt::<i32>()).ok_or_else(foreign)?;
        let (first, last) = (lists.value_offsets()[0] as usize, lists.value_offsets()[lists.len()] as usize);
        let values = lists.values().slice(first, last - first);
        let values = values.as_primitive_opt::<T>().ok_or_else(foreign)?;
        self.take(&spread(groups, lists.offsets()), total, values);
        Ok(())
    }

    fn state(&self) -> Result<Vec<ArrayRef>> {
        let flat: Vec<T::Native> = self.lists.iter().flatten().copied().collect();
        let values = PrimitiveArray::<T>::new(flat.into(), None);
        let field = Arc::new(Field::new_list_field(values.data_type().clone(), true));
        Ok(vec![Arc::new(ListArray::try_new(field, list_offsets(self.lists.iter().map(Vec::len))?, Arc::new(values), None)?)])
    }

    fn finish(&self) -> Result<Finished> {
        let (lower, upper, apart) = self.neighbours();
        let back = |values: PrimitiveArray<T>| T::back(values, &self.values);
        let (lower, upper) = (back(lower)?, back(upper)?);
        let mut misfits = Vec::new();
        let values: ArrayRef = match &self.values {
            DataType::Decimal128(_, scale) => {
                let to = decimal_scale(*scale);
                let digits = u32::from((to - scale).unsigned_abs());
                let (lower, upper) = (lower.as_primitive::<Decimal128Type>(), upper.as_primitive::<Decimal128Type>());
                let mut made = Vec::with_capacity(apart.len());
                for (group, apart) in apart.iter().enumerate() {
                    let value = if lower.is_null(group) {
                        None
                    } else {
                        let value = between_decimals(lower.value(group), upper.value(group), *apart, digits);
                        if value.is_none() {
                            misfits.push((group, "beyond 38 digits".to_string()));
                        }
                        value
                    };
                    made.push(value);
                }
                Arc::new(Decimal128Array::from(made).with_precision_and_scale(DECIMAL128_MAX_PRECISION, to)?)
            }
            DataType::Float32 | DataType::Float64 => {
                let (lower, upper) = (cast(&lower, &DataType::Float64)?, cast(&upper, &DataType::Float64)?);
                let (lower, upper) = (lower.as_primitive::<Float64Type>(), upper.as_primitive::<Float64Type>());
                let pairs = lower.iter().zip(upper.iter()).zip(&apart);
                Arc::new(pairs.map(|((lower, upper), apart)| Some(between(lower?, upper?, *apart))).collect::<Float64Array>())
            }
            _ => {
                // Wide enough for uint64 too.
                let (lower, upper) = (extreme::widened(&lower)?, extreme::widened(&upper)?);
                let pairs = lower.into_iter().zip(upper).zip(&apart);
                Arc::new(pairs.map(|((lower, upper), apart)| Some(between_ints(lower?, upper?, *apart))).collect::<Float64Array>())
            }
        };
        Ok(Finished { values, misfits })
    }

    fn select(&self, groups: &[u32]) -> Result<Box<dyn Accumulator>> {
        Ok(Box::new(Percentile::<T> { p: self.p, values: self.values.clone(), lists: gathered(&self.lists, groups) }))
    }

    fn clear(&mut self) {
        self.lists.clear();
    }

    fn bytes(&self) -> usize {
        self.lists.iter().map(|list| list.capacity() * size_of::<T::Native>() + size_of::<Vec<T::Native>>()).sum()
    }
}

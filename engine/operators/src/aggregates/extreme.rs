//! `min` and `max` on every ordered type.
//!
//! Fixed-width values become integers that order as they do, so that one loop serves them all. Among floats NaN is the
//! greatest and -0.0 equals 0.0 (and leaves as 0.0), whatever the order of rows. Text orders by its bytes, which is the
//! order of code points; false is less than true.

use super::seen::Seen;
use super::{Accumulator, Finished, Working, each_valid, foreign, gathered};
use crate::keys::{from_ints, normal, to_ints};
use arrow::array::{Array, ArrayRef, AsArray, BinaryViewArray, BinaryViewBuilder, Int64Array, PrimitiveArray};
use arrow::compute::cast;
use arrow::datatypes::{ArrowPrimitiveType, DataType, Decimal128Type, Float64Type, Int64Type, UInt64Type};
use std::marker::PhantomData;
use std::sync::Arc;
use tidegate_api::{Error, Result};

/// Which end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Which {
    Least,
    Greatest,
}

/// The accumulator for a type that is ordered.
pub(super) fn accumulator(values: &DataType, which: Which) -> Option<Box<dyn Accumulator>> {
    fn fixed<T: Ordered>(values: &DataType, which: Which) -> Box<dyn Accumulator> {
        match which {
            Which::Least => Box::new(Extreme::<T, Least>::new(values.clone())),
            Which::Greatest => Box::new(Extreme::<T, Greatest>::new(values.clone())),
        }
    }
    Some(match Working::of(values)? {
        Working::Ordered64 => fixed::<Int64Type>(values, which),
        Working::Ordered128 => fixed::<Decimal128Type>(values, which),
        Working::Bytes => Box::new(BytesExtreme { which, values: values.clone(), best: Vec::new(), met: Vec::new() }),
    })
}

/// The values as an accumulator takes them.
///
/// # Errors
/// `Internal` for a type that has no order.
pub(super) fn prepared(column: &ArrayRef) -> Result<ArrayRef> {
    let Some(working) = Working::of(column.data_type()) else {
        return Err(Error::internal(format!("type `{}` has no order", column.data_type())));
    };
    Ok(match (working, column.data_type()) {
        (Working::Ordered64, DataType::Float64) => Arc::new(floats_ordered(column)),
        (Working::Ordered64, DataType::Float32) => Arc::new(floats_ordered(&cast(column, &DataType::Float64)?)),
        (Working::Ordered64, DataType::UInt64) => Arc::new(to_ints(column)?.unary::<_, Int64Type>(|bits| bits ^ i64::MIN)),
        (Working::Ordered64, _) => Arc::new(to_ints(column)?),
        (Working::Ordered128, _) => Arc::clone(column),
        (Working::Bytes, DataType::BinaryView) => Arc::clone(column),
        (Working::Bytes, _) => cast(column, &DataType::BinaryView)?,
    })
}

/// Integers of any type, wide enough for all.
///
/// # Errors
/// `Internal` for other types.
pub(super) fn widened(column: &ArrayRef) -> Result<Vec<Option<i128>>> {
    match column.as_primitive_opt::<UInt64Type>() {
        Some(wide) => Ok(wide.iter().map(|value| value.map(i128::from)).collect()),
        None => Ok(to_ints(column)?.iter().map(|value| value.map(i128::from)).collect()),
    }
}

/// Floats as integers of the same order.
fn floats_ordered(column: &ArrayRef) -> Int64Array {
    column.as_primitive::<Float64Type>().unary(|value| {
        let bits = normal(value).to_bits() as i64;
        bits ^ (((bits >> 63) as u64) >> 1) as i64
    })
}

fn ordered_back(ints: Int64Array, data_type: &DataType) -> Result<ArrayRef> {
    Ok(match data_type {
        DataType::Float64 | DataType::Float32 => {
            let bits: Int64Array = ints.unary(|bits| bits ^ (((bits >> 63) as u64) >> 1) as i64);
            let floats = from_ints(bits, &DataType::Float64)?;
            if *data_type == DataType::Float32 { cast(&floats, data_type)? } else { floats }
        }
        DataType::UInt64 => from_ints(ints.unary(|bits| bits ^ i64::MIN), data_type)?,
        other => from_ints(ints, other)?,
    })
}

/// Integers that an extreme is taken of.
pub(super) trait Ordered: ArrowPrimitiveType<Native: Ord> + Sized + std::fmt::Debug {
    const LOWEST: Self::Native;
    const HIGHEST: Self::Native;

    fn back(values: PrimitiveArray<Self>, data_type: &DataType) -> Result<ArrayRef>;
}

impl Ordered for Int64Type {
    const LOWEST: i64 = i64::MIN;
    const HIGHEST: i64 = i64::MAX;

    fn back(values: Int64Array, data_type: &DataType) -> Result<ArrayRef> {
        ordered_back(values, data_type)
    }
}

impl Ordered for Decimal128Type {
    const LOWEST: i128 = i128::MIN;
    const HIGHEST: i128 = i128::MAX;

    fn back(values: PrimitiveArray<Self>, data_type: &DataType) -> Result<ArrayRef> {
        match data_type {
            DataType::Decimal128(precision, scale) => Ok(Arc::new(values.with_precision_and_scale(*precision, *scale)?)),
            other => Err(Error::internal(format!("`{other}` is not a decimal"))),
        }
    }
}

/// A direction known at compile time, so that the loop has no branch for it.
trait Direction: Send + std::fmt::Debug + 'static {
    fn start<T: Ordered>() -> T::Native;
    fn better<N: Ord>(a: N, b: N) -> N;
}

#[derive(Debug)]
struct Least;
#[derive(Debug)]
struct Greatest;

impl Direction for Least {
    fn start<T: Ordered>() -> T::Native {
        T::HIGHEST
    }

    #[inline(always)]
    fn better<N: Ord>(a: N, b: N) -> N {
        a.min(b)
    }
}

impl Direction for Greatest {
    fn start<T: Ordered>() -> T::Native {
        T::LOWEST
    }

    #[inline(always)]
    fn better<N: Ord>(a: N, b: N) -> N {
        a.max(b)
    }
}

#[derive(Debug)]
struct Extreme<T: Ordered, D> {
    best: Vec<T::Native>,
    seen: Seen,
    values: DataType,
    direction: PhantomData<D>,
}

impl<T: Ordered, D: Direction> Extreme<T, D> {
    fn new(values: DataType) -> Self {
        Extreme { best: Vec::new(), seen: Seen::default(), values, direction: PhantomData }
    }

    fn take(&mut self, groups: &[u32], total: usize, values: &PrimitiveArray<T>) {
        self.best.resize(total, D::start::<T>());
        let best = &mut self.best;
        each_valid(groups, values.values(), values.nulls(), |group, value| best[group] = D::better(best[group], value));
        self.seen.update(groups, total, values.nulls());
    }
}

impl<T: Ordered, D: Direction> Accumulator for Extreme<T, D> {
    fn update(&mut self, groups: &[u32], total: usize, values: Option<&ArrayRef>) -> Result<()> {
        match values.and_then(|values| values.as_primitive_opt::<T>()) {
            Some(values) => self.take(groups, total, values),
            None => self.best.resize(total, D::start::<T>()),
        }
        Ok(())
    }

    fn merge(&mut self, groups: &[u32], total: usize, state: &[ArrayRef]) -> Result<()> {
        let best = state.first().and_then(|array| array.as_primitive_opt::<T>()).ok_or_else(foreign)?;
        self.take(groups, total, best);
        Ok(())
    }

    fn state(&self) -> Result<Vec<ArrayRef>> {
        Ok(vec![Arc::new(PrimitiveArray::<T>::new(self.best.clone().into(), self.seen.nulls()))])
    }

    fn finish(&self) -> Result<Finished> {
        let best = PrimitiveArray::<T>::new(self.best.clone().into(), self.seen.nulls());
        Ok(Finished::fitting(T::back(best, &self.values)?))
    }

    fn select(&self, groups: &[u32]) -> Result<Box<dyn Accumulator>> {
        let (best, seen) = (gathered(&self.best, groups), self.seen.select(groups));
        Ok(Box::new(Extreme::<T, D> { best, seen, values: self.values.clone(), direction: PhantomData }))
    }

    fn clear(&mut self) {
        self.best.clear();
        self.seen.clear();
    }

    fn bytes(&self) -> usize {
        self.best.capacity() * size_of::<T::Native>() + self.seen.bytes()
    }
}

#[derive(Debug)]
struct BytesExtreme {
    which: Which,
    values: DataType,
    best: Vec<Vec<u8>>,
    /// Which groups have met a value: an empty text is one.
    met: Vec<bool>,
}

impl BytesExtreme {
    fn take(&mut self, groups: &[u32], total: usize, values: &BinaryViewArray) {
        self.resize(total);
        for (row, group) in groups.iter().enumerate().filter(|(row, _)| values.is_valid(*row)) {
            let (group, value) = (*group as usize, values.value(row));
            let best = &mut self.best[group];
            let better = match self.which {
                Which::Least => value < best.as_slice(),
                Which::Greatest => value > best.as_slice(),
            };
            if better || !self.met[group] {
                self.met[group] = true;
                best.clear();
                best.extend_from_slice(value);
            }
        }
    }

    fn resize(&mut self, total: usize) {
        self.best.resize(total, Vec::new());
        self.met.resize(total, false);
    }

    fn array(&self) -> BinaryViewArray {
        let mut builder = BinaryViewBuilder::with_capacity(self.best.len());
        for (best, met) in self.best.iter().zip(&self.met) {
            builder.append_option(met.then_some(best));
        }
        builder.finish()
    }
}

impl Accumulator for BytesExtreme {
    fn update(&mut self, groups: &[u32], total: usize, values: Option<&ArrayRef>) -> Result<()> {
        match values.and_then(|values| values.as_binary_view_opt()) {
            Some(values) => self.take(groups, total, values),
            None => self.resize(total),
        }
        Ok(())
    }

    fn merge(&mut self, groups: &[u32], total: usize, state: &[ArrayRef]) -> Result<()> {
        let best = state.first().and_then(|array| array.as_binary_view_opt()).ok_or_else(foreign)?;
        self.take(groups, total, best);
        Ok(())
    }

    fn state(&self) -> Result<Vec<ArrayRef>> {
        Ok(vec![Arc::new(self.array())])
    }

    fn finish(&self) -> Result<Finished> {
        let best: ArrayRef = Arc::new(self.array());
        Ok(Finished::fitting(if self.values == DataType::BinaryView { best } else { cast(&best, &self.values)? }))
    }

    fn select(&self, groups: &[u32]) -> Result<Box<dyn Accumulator>> {
        let (best, met) = (gathered(&self.best, groups), gathered(&self.met, groups));
        Ok(Box::new(BytesExtreme { which: self.which, values: self.values.clone(), best, met }))
    }

    fn clear(&mut self) {
        self.best.clear();
        self.met.clear();
    }

    fn bytes(&self) -> usize {
        self.best.iter().map(|best| best.capacity() + size_of::<Vec<u8>>()).sum::<usize>() + self.met.capacity()
    }
}

//! `bitAnd`, `bitOr` and `bitXor` over integers. Narrow ones are widened by their sign, which keeps every bit of them.

use super::seen::Seen;
use super::{Accumulator, Finished, each_valid, foreign, gathered};
use crate::keys::from_ints;
use arrow::array::{Array, ArrayRef, AsArray, Int64Array};
use arrow::datatypes::{DataType, Int64Type};
use std::sync::Arc;
use tidegate_api::Result;

/// How bits are put together.
#[derive(Debug, Clone, Copy)]
pub(super) enum Join {
    And,
    Or,
    Xor,
}

impl Join {
    fn neutral(self) -> i64 {
        match self {
            Join::And => -1,
            Join::Or | Join::Xor => 0,
        }
    }
}

#[derive(Debug)]
pub(super) struct Bits {
    join: Join,
    values: DataType,
    bits: Vec<i64>,
    seen: Seen,
}

impl Bits {
    pub(super) fn new(join: Join, values: DataType) -> Self {
        Bits { join, values, bits: Vec::new(), seen: Seen::default() }
    }

    fn take(&mut self, groups: &[u32], total: usize, values: &Int64Array) {
        self.bits.resize(total, self.join.neutral());
        let (bits, nulls) = (&mut self.bits, values.nulls());
        match self.join {
            Join::And => each_valid(groups, values.values(), nulls, |group, value| bits[group] &= value),
            Join::Or => each_valid(groups, values.values(), nulls, |group, value| bits[group] |= value),
            Join::Xor => each_valid(groups, values.values(), nulls, |group, value| bits[group] ^= value),
        }
        self.seen.update(groups, total, nulls);
    }

    fn array(&self) -> Int64Array {
        Int64Array::new(self.bits.clone().into(), self.seen.nulls())
    }
}

impl Accumulator for Bits {
    fn update(&mut self, groups: &[u32], total: usize, values: Option<&ArrayRef>) -> Result<()> {
        if let Some(values) = values.and_then(|values| values.as_primitive_opt::<Int64Type>()) {
            self.take(groups, total, values);
        }
        Ok(())
    }

    fn merge(&mut self, groups: &[u32], total: usize, state: &[ArrayRef]) -> Result<()> {
        let bits = state.first().and_then(|array| array.as_primitive_opt::<Int64Type>()).ok_or_else(foreign)?;
        self.take(groups, total, bits);
        Ok(())
    }

    fn state(&self) -> Result<Vec<ArrayRef>> {
        Ok(vec![Arc::new(self.array())])
    }

    fn finish(&self) -> Result<Finished> {
        Ok(Finished::fitting(from_ints(self.array(), &self.values)?))
    }

    fn select(&self, groups: &[u32]) -> Result<Box<dyn Accumulator>> {
        let bits = gathered(&self.bits, groups);
        Ok(Box::new(Bits { join: self.join, values: self.values.clone(), bits, seen: self.seen.select(groups) }))
    }

    fn clear(&mut self) {
        self.bits.clear();
        self.seen.clear();
    }

    fn bytes(&self) -> usize {
        self.bits.capacity() * 8 + self.seen.bytes()
    }
}

//! `count`: rows, or the non-null values of a column.

use super::{Accumulator, Finished, each_valid, gathered, state_ints};
use arrow::array::{Array, ArrayRef, Int64Array};
use std::sync::Arc;
use tidegate_api::Result;

#[derive(Debug, Default)]
pub(super) struct Count {
    counts: Vec<i64>,
}

impl Accumulator for Count {
    fn update(&mut self, groups: &[u32], total: usize, values: Option<&ArrayRef>) -> Result<()> {
        self.counts.resize(total, 0);
        let nulls = values.and_then(|values| values.logical_nulls()).filter(|nulls| nulls.null_count() > 0);
        match nulls {
            None => groups.iter().for_each(|group| self.counts[*group as usize] += 1),
            Some(nulls) => nulls.valid_indices().for_each(|row| self.counts[groups[row] as usize] += 1),
        }
        Ok(())
    }

    fn merge(&mut self, groups: &[u32], total: usize, state: &[ArrayRef]) -> Result<()> {
        let counts = state_ints(state, 0)?;
        self.counts.resize(total, 0);
        each_valid(groups, counts.values(), None, |group, count| self.counts[group] += count);
        Ok(())
    }

    fn state(&self) -> Result<Vec<ArrayRef>> {
        Ok(vec![Arc::new(Int64Array::from(self.counts.clone()))])
    }

    fn finish(&self) -> Result<Finished> {
        Ok(Finished::fitting(Arc::new(Int64Array::from(self.counts.clone()))))
    }

    fn select(&self, groups: &[u32]) -> Result<Box<dyn Accumulator>> {
        Ok(Box::new(Count { counts: gathered(&self.counts, groups) }))
    }

    fn clear(&mut self) {
        self.counts.clear();
    }

    fn bytes(&self) -> usize {
        self.counts.capacity() * 8
    }
}

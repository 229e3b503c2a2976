//! `countDistinct`, exactly. Floats as keys do: -0.0 is 0.0, and all NaN are one value.
//!
//! One open-addressed set holds the pairs of group and value of all groups. Values that do not fit 64 bits are numbered
//! first, as keys are.

use super::{Accumulator, Finished, each_valid, foreign, gathered, list_offsets, spread};
use crate::keys::{GroupBy, Groups, narrow_form, to_ints};
use arrow::array::{Array, ArrayRef, AsArray, Int64Array, ListArray};
use arrow::compute::filter;
use arrow::datatypes::{DataType, Field, Int64Type};
use std::sync::Arc;
use tidegate_api::hash::mix;
use tidegate_api::{Error, Result};

fn fits_64(values: &DataType) -> bool {
    narrow_form(values).is_some() || matches!(values, DataType::Float32 | DataType::Float64)
}

/// The values as the accumulator takes them.
///
/// # Errors
/// `Internal` when a kernel fails.
pub(super) fn prepared(column: &ArrayRef) -> Result<ArrayRef> {
    Ok(if fits_64(column.data_type()) { Arc::new(to_ints(column)?) } else { Arc::clone(column) })
}

#[derive(Debug)]
pub(super) struct Distinct {
    values: DataType,
    pairs: Pairs,
    /// The values of each group: themselves, or their numbers.
    lists: Vec<Vec<i64>>,
    /// What numbers values that do not fit 64 bits.
    dictionary: Option<(GroupBy, Groups)>,
}

impl Distinct {
    pub(super) fn new(values: DataType) -> Result<Self> {
        let dictionary = if fits_64(&values) {
            None
        } else {
            let by = GroupBy::new(vec![values.clone()])?;
            let groups = by.table();
            Some((by, groups))
        };
        Ok(Distinct { values, pairs: Pairs::default(), lists: Vec::new(), dictionary })
    }

    /// Takes values without nulls, each for its group.
    fn take(&mut self, groups: &[u32], values: &ArrayRef) -> Result<()> {
        let (pairs, lists) = (&mut self.pairs, &mut self.lists);
        match &mut self.dictionary {
            None => {
                let ints = values.as_primitive_opt::<Int64Type>().ok_or_else(foreign)?;
                each_valid(groups, ints.values(), ints.nulls(), |group, value| {
                    if pairs.insert(group as u32, value) {
                        lists[group].push(value);
                    }
                });
                Ok(())
            }
            Some((by, known)) => {
                if values.data_type() != &self.values {
                    return Err(foreign());
                }
                let valid = values.logical_nulls().filter(|nulls| nulls.null_count() > 0);
                let (kept, kept_groups): (ArrayRef, Vec<u32>) = match &valid {
                    None => (Arc::clone(values), groups.to_vec()),
                    Some(nulls) => {
                        let valid = arrow::array::BooleanArray::new(nulls.inner().clone(), None);
                        (filter(values, &valid)?, nulls.valid_indices().map(|row| groups[row]).collect())
                    }
                };
                let rows = kept.len();
                let keys = by.keys(&[kept])?;
                let mut row = 0;
                known.intern(&keys, 0..rows, |number| {
                    let group = kept_groups[row];
                    row += 1;
                    if pairs.insert(group, i64::from(number)) {
                        lists[group as usize].push(i64::from(number));
                    }
                })
            }
        }
    }
}

impl Accumulator for Distinct {
    fn update(&mut self, groups: &[u32], total: usize, values: Option<&ArrayRef>) -> Result<()> {
        self.lists.resize(total, Vec::new());
        values.map_or(Ok(()), |values| self.take(groups, values))
    }

    fn merge(&mut self, groups: &[u32], total: usize, state: &[ArrayRef]) -> Result<()> {
        self.lists.resize(total, Vec::new());
        let lists = state.first().and_then(|array| array.as_list_opt::<i32>()).ok_or_else(foreign)?;
        let (first, last) = (lists.value_offsets()[0] as usize, lists.value_offsets()[lists.len()] as usize);
        self.take(&spread(groups, lists.offsets()), &lists.values().slice(first, last - first))
    }

    fn state(&self) -> Result<Vec<ArrayRef>> {
        let flat: Vec<i64> = self.lists.iter().flatten().copied().collect();
        let values: ArrayRef = match &self.dictionary {
            None => Arc::new(Int64Array::from(flat)),
            Some((by, known)) => {
                let numbers: Vec<u32> = flat.into_iter().map(|number| number as u32).collect();
                by.columns_of(known, &numbers)?.pop().ok_or_else(|| Error::internal("a dictionary has no column"))?
            }
        };
        let field = Arc::new(Field::new_list_field(values.data_type().clone(), true));
        Ok(vec![Arc::new(ListArray::try_new(field, list_offsets(self.lists.iter().map(Vec::len))?, values, None)?)])
    }

    fn finish(&self) -> Result<Finished> {
        Ok(Finished::fitting(Arc::new(self.lists.iter().map(|list| Some(list.len() as i64)).collect::<Int64Array>())))
    }

    fn select(&self, groups: &[u32]) -> Result<Box<dyn Accumulator>> {
        let mut selected = Distinct::new(self.values.clone())?;
        let lists = gathered(&self.lists, groups);
        match (&self.dictionary, &mut selected.dictionary) {
            (Some((by, known)), Some((_, fresh))) => {
                // Numbered anew: a dictionary must not outlive the groups it serves.
                let flat: Vec<u32> = lists.iter().flatten().map(|number| *number as u32).collect();
                let keys = by.keys(&by.columns_of(known, &flat)?)?;
                let mut numbers = Vec::with_capacity(flat.len());
                fresh.intern(&keys, 0..flat.len(), |number| numbers.push(i64::from(number)))?;
                let mut next = numbers.into_iter();
                selected.lists = lists.iter().map(|list| next.by_ref().take(list.len()).collect()).collect();
            }
            _ => selected.lists = lists,
        }
        for (group, list) in selected.lists.iter().enumerate() {
            for value in list {
                selected.pairs.insert(group as u32, *value);
            }
        }
        Ok(Box::new(selected))
    }

    fn clear(&mut self) {
        self.pairs = Pairs::default();
        self.lists.clear();
        if let Some((_, known)) = &mut self.dictionary {
            known.clear();
        }
    }

    fn bytes(&self) -> usize {
        let lists: usize = self.lists.iter().map(|list| list.capacity() * 8 + size_of::<Vec<i64>>()).sum();
        self.pairs.slots.capacity() * size_of::<Pair>() + lists + self.dictionary.as_ref().map_or(0, |(_, known)| known.bytes())
    }
}

/// A set of pairs of group and value.
#[derive(Debug, Default)]
struct Pairs {
    slots: Vec<Pair>,
    used: usize,
}

#[derive(Debug, Clone, Copy)]
struct Pair {
    value: i64,
    group: u32,
}

const VACANT: Pair = Pair { value: 0, group: u32::MAX };
const FIRST: usize = 64;

impl Pairs {
    /// Adds a pair. Whether it is new.
    #[inline]
    fn insert(&mut self, group: u32, value: i64) -> bool {
        if (self.used + 1) * 2 > self.slots.len() {
            self.grow();
        }
        let mask = self.slots.len() - 1;
        let mut at = home(group, value) & mask;
        loop {
            let slot = self.slots[at];
            if slot.group == u32::MAX {
                self.slots[at] = Pair { value, group };
                self.used += 1;
                return true;
            }
            if slot.value == value && slot.group == group {
                return false;
            }
            at = (at + 1) & mask;
        }
    }

    #[cold]
    #[inline(never)]
    fn grow(&mut self) {
        let size = (self.slots.len() * 2).max(FIRST);
        let old = std::mem::replace(&mut self.slots, vec![VACANT; size]);
        for pair in old.into_iter().filter(|pair| pair.group != u32::MAX) {
            let mut at = home(pair.group, pair.value) & (size - 1);
            while self.slots[at].group != u32::MAX {
                at = (at + 1) & (size - 1);
            }
            self.slots[at] = pair;
        }
    }
}

#[inline(always)]
fn home(group: u32, value: i64) -> usize {
    mix((value as u64).wrapping_add(u64::from(group).wrapping_mul(0x9e37_79b9_7f4a_7c15))) as usize
}

//! `first`, `last`, `argMin` and `argMax`: the value of one row of each group.
//!
//! The row is the one with the least or greatest `by`, of those the earliest, of those the first that arrived. `first` and
//! `last` go by the time itself; `last` takes what arrived last.

use super::collected::{Store, compact};
use super::{Accumulator, Finished, Working, foreign, gathered};
use arrow::array::{Array, ArrayRef, AsArray, BinaryViewArray, BinaryViewBuilder, Decimal128Array, Int64Array, UInt32Array};
use arrow::buffer::NullBuffer;
use arrow::compute::take;
use arrow::datatypes::{DataType, Decimal128Type, Int64Type};
use std::cmp::Ordering;
use std::sync::Arc;
use tidegate_api::Result;

/// Which row is taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Rule {
    First,
    Last,
    Least,
    Greatest,
}

impl Rule {
    /// Whether a row is better than the one held, which compares to it as given.
    #[inline(always)]
    fn prefers(self, by: Ordering, time: Ordering) -> bool {
        match (self, by) {
            (Rule::First | Rule::Least, Ordering::Less) | (Rule::Last | Rule::Greatest, Ordering::Greater) => true,
            (Rule::First | Rule::Least, Ordering::Greater) | (Rule::Last | Rule::Greatest, Ordering::Less) => false,
            (Rule::Last, Ordering::Equal) => true,
            (Rule::First | Rule::Least | Rule::Greatest, Ordering::Equal) => time == Ordering::Less,
        }
    }
}

const NONE: u32 = u32::MAX;
/// Superseded values may make up half of the store and this many rows.
const SLACK: usize = 8192;

#[derive(Debug)]
pub(super) struct Pick {
    rule: Rule,
    values: DataType,
    best: Best,
    times: Vec<i64>,
    /// Where the value of each group stands in the store.
    places: Vec<u32>,
    store: Store,
}

/// What decides, per group, in the form of `min` and `max`.
#[derive(Debug, Clone)]
enum Best {
    /// The time itself.
    Times,
    Ints(Vec<i64>),
    Wide(Vec<i128>),
    Bytes(Vec<Vec<u8>>),
}

/// What the rows of a batch hold against what their groups have.
trait Contest {
    fn compare(&self, row: usize, group: usize) -> Ordering;
    fn take(&mut self, row: usize, group: usize);
}

struct Numbers<'a, N> {
    ours: &'a mut [N],
    theirs: &'a [N],
}

impl<N: Ord + Copy> Contest for Numbers<'_, N> {
    #[inline(always)]
    fn compare(&self, row: usize, group: usize) -> Ordering {
        self.theirs[row].cmp(&self.ours[group])
    }

    #[inline(always)]
    fn take(&mut self, row: usize, group: usize) {
        self.ours[group] = self.theirs[row];
    }
}

struct Texts<'a> {
    ours: &'a mut [Vec<u8>],
    theirs: &'a BinaryViewArray,
}

impl Contest for Texts<'_> {
    fn compare(&self, row: usize, group: usize) -> Ordering {
        self.theirs.value(row).cmp(self.ours[group].as_slice())
    }

    fn take(&mut self, row: usize, group: usize) {
        self.ours[group].clear();
        self.ours[group].extend_from_slice(self.theirs.value(row));
    }
}

/// The time alone.
struct Earlier;

impl Contest for Earlier {
    #[inline(always)]
    fn compare(&self, _row: usize, _group: usize) -> Ordering {
        Ordering::Equal
    }

    #[inline(always)]
    fn take(&mut self, _row: usize, _group: usize) {}
}

impl Pick {
    /// Values of a type by another column's; without one, by time.
    pub(super) fn new(rule: Rule, values: DataType, by: Option<&DataType>) -> Self {
        let best = match by.and_then(Working::of) {
            None => Best::Times,
            Some(Working::Ordered64) => Best::Ints(Vec::new()),
            Some(Working::Ordered128) => Best::Wide(Vec::new()),
            Some(Working::Bytes) => Best::Bytes(Vec::new()),
        };
        Pick { rule, values, best, times: Vec::new(), places: Vec::new(), store: Store::default() }
    }

    fn resize(&mut self, total: usize) {
        match &mut self.best {
            Best::Times => {}
            Best::Ints(best) => best.resize(total, 0),
            Best::Wide(best) => best.resize(total, 0),
            Best::Bytes(best) => best.resize(total, Vec::new()),
        }
        self.times.resize(total, 0);
        self.places.resize(total, NONE);
    }

    /// Takes the rows that `nulls` leaves valid. `columns` are the value, what decides (if it is not the time), and the time.
    fn take(&mut self, groups: &[u32], total: usize, columns: &[ArrayRef], nulls: Option<&NullBuffer>) -> Result<()> {
        self.resize(total);
        let wanted = if matches!(self.best, Best::Times) { 2 } else { 3 };
        if columns.len() != wanted || columns[0].data_type() != &self.values {
            return Err(foreign());
        }
        let times = columns[wanted - 1].as_primitive_opt::<Int64Type>().ok_or_else(foreign)?.values();
        let (rule, held, places, base) = (self.rule, &mut self.times, &mut self.places, self.store.len() as u32);
        let changed = match &mut self.best {
            Best::Times => contest(rule, groups, nulls, times, held, places, base, Earlier),
            Best::Ints(ours) => {
                let theirs = columns[1].as_primitive_opt::<Int64Type>().ok_or_else(foreign)?.values();
                contest(rule, groups, nulls, times, held, places, base, Numbers { ours, theirs })
            }
            Best::Wide(ours) => {
                let theirs = columns[1].as_primitive_opt::<Decimal128Type>().ok_or_else(foreign)?.values();
                contest(rule, groups, nulls, times, held, places, base, Numbers { ours, theirs })
            }
            Best::Bytes(ours) => {
                let theirs = columns[1].as_binary_view_opt().ok_or_else(foreign)?;
                contest(rule, groups, nulls, times, held, places, base, Texts { ours, theirs })
            }
        };
        if changed.is_empty() {
            return Ok(());
        }
        let mut rows = Vec::with_capacity(changed.len());
        for (place, group) in changed.into_iter().enumerate() {
            let held = &mut self.places[group as usize];
            rows.push(*held - base);
            *held = base + place as u32;
        }
        self.store.push(compact(take(&columns[0], &UInt32Array::from(rows), None)?))?;
        if self.store.len() > 2 * total + SLACK { self.tidy() } else { Ok(()) }
    }

    /// Forgets superseded values.
    fn tidy(&mut self) -> Result<()> {
        let values = self.held()?;
        self.store.clear();
        self.places.iter_mut().filter(|place| **place != NONE).zip(0..).for_each(|(place, fresh)| *place = fresh);
        self.store.push(values)
    }

    /// The values of the groups that have one.
    fn held(&self) -> Result<ArrayRef> {
        let places: Vec<u32> = self.places.iter().copied().filter(|place| *place != NONE).collect();
        self.store.gather(&places, &self.values)
    }

    fn nulls(&self) -> Option<NullBuffer> {
        self.places.contains(&NONE).then(|| NullBuffer::from(self.places.iter().map(|place| *place != NONE).collect::<Vec<bool>>()))
    }

    /// The value of every group.
    fn array(&self) -> Result<ArrayRef> {
        let held = self.held()?;
        if held.len() == self.places.len() {
            return Ok(held);
        }
        let mut next = 0;
        let indices: UInt32Array = self
            .places
            .iter()
            .map(|place| {
                (*place != NONE).then(|| {
                    next += 1;
                    next - 1
                })
            })
            .collect();
        Ok(take(&held, &indices, None)?)
    }
}

/// Lets every row stand against what its group holds. Gives the groups that changed, whose places are `base` plus a row.
fn contest(
    rule: Rule,
    groups: &[u32],
    nulls: Option<&NullBuffer>,
    times: &[i64],
    held: &mut [i64],
    places: &mut [u32],
    base: u32,
    mut contest: impl Contest,
) -> Vec<u32> {
    let mut changed = Vec::new();
    let time_decides = matches!(rule, Rule::First | Rule::Last);
    for (row, group) in groups.iter().enumerate() {
        if nulls.is_some_and(|nulls| nulls.is_null(row)) {
            continue;
        }
        let at = *group as usize;
        let time = times[row].cmp(&held[at]);
        let by = if time_decides { time } else { contest.compare(row, at) };
        let place = places[at];
        if place == NONE || rule.prefers(by, time) {
            if place == NONE || place < base {
                changed.push(*group);
            }
            places[at] = base + row as u32;
            held[at] = times[row];
            contest.take(row, at);
        }
    }
    changed
}

impl Accumulator for Pick {
    fn update(&mut self, groups: &[u32], total: usize, values: Option<&ArrayRef>) -> Result<()> {
        match values.and_then(|values| values.as_struct_opt()) {
            Some(rows) => self.take(groups, total, rows.columns(), rows.nulls()),
            None => {
                self.resize(total);
                Ok(())
            }
        }
    }

    fn merge(&mut self, groups: &[u32], total: usize, state: &[ArrayRef]) -> Result<()> {
        let nulls = state.last().and_then(|times| times.nulls());
        self.take(groups, total, state, nulls)
    }

    fn state(&self) -> Result<Vec<ArrayRef>> {
        let nulls = self.nulls();
        let mut state = vec![self.array()?];
        match &self.best {
            Best::Times => {}
            Best::Ints(best) => state.push(Arc::new(Int64Array::new(best.clone().into(), nulls.clone()))),
            Best::Wide(best) => state.push(Arc::new(Decimal128Array::new(best.clone().into(), nulls.clone()))),
            Best::Bytes(best) => {
                let mut builder = BinaryViewBuilder::with_capacity(best.len());
                best.iter().for_each(|best| builder.append_value(best));
                state.push(Arc::new(builder.finish()));
            }
        }
        state.push(Arc::new(Int64Array::new(self.times.clone().into(), nulls)));
        Ok(state)
    }

    fn finish(&self) -> Result<Finished> {
        Ok(Finished::fitting(self.array()?))
    }

    fn select(&self, groups: &[u32]) -> Result<Box<dyn Accumulator>> {
        let best = match &self.best {
            Best::Times => Best::Times,
            Best::Ints(best) => Best::Ints(gathered(best, groups)),
            Best::Wide(best) => Best::Wide(gathered(best, groups)),
            Best::Bytes(best) => Best::Bytes(gathered(best, groups)),
        };
        let mut places = gathered(&self.places, groups);
        let held: Vec<u32> = places.iter().copied().filter(|place| *place != NONE).collect();
        places.iter_mut().filter(|place| **place != NONE).zip(0..).for_each(|(place, fresh)| *place = fresh);
        let mut store = Store::default();
        store.push(self.store.gather(&held, &self.values)?)?;
        let times = gathered(&self.times, groups);
        Ok(Box::new(Pick { rule: self.rule, values: self.values.clone(), best, times, places, store }))
    }

    fn clear(&mut self) {
        self.places.clear();
        self.times.clear();
        self.store.clear();
        match &mut self.best {
            Best::Times => {}
            Best::Ints(best) => best.clear(),
            Best::Wide(best) => best.clear(),
            Best::Bytes(best) => best.clear(),
        }
    }

    fn bytes(&self) -> usize {
        let best = match &self.best {
            Best::Times => 0,
            Best::Ints(best) => best.capacity() * 8,
            Best::Wide(best) => best.capacity() * 16,
            Best::Bytes(best) => best.iter().map(|best| best.capacity() + size_of::<Vec<u8>>()).sum(),
        };
        best + self.times.capacity() * 8 + self.places.capacity() * 4 + self.store.bytes()
    }
}

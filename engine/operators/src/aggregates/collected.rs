//! The values of many groups, kept one by one with their times: what `arrayAgg`, `stringAgg`, `first` and their like are made of.

use super::{foreign, list_offsets, spread};
use arrow::array::{Array, ArrayRef, AsArray, Int64Array, ListArray, UInt32Array};
use arrow::buffer::OffsetBuffer;
use arrow::compute::{concat, interleave, take};
use arrow::datatypes::{DataType, Field, Int64Type};
use std::sync::Arc;
use tidegate_api::Result;

/// Values in the order of their arrival, in pieces that double: appending copies each value a few times at most.
#[derive(Debug, Default)]
pub(super) struct Store {
    pieces: Vec<ArrayRef>,
    /// Where each piece begins.
    starts: Vec<usize>,
    len: usize,
}

impl Store {
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// Appends values that nobody else holds: a slice would keep the whole of its batch.
    ///
    /// # Errors
    /// `Internal` when a kernel fails.
    pub(super) fn push(&mut self, values: ArrayRef) -> Result<()> {
        if values.is_empty() {
            return Ok(());
        }
        self.starts.push(self.len);
        self.len += values.len();
        self.pieces.push(values);
        while let [.., before, last] = self.pieces.as_slice()
            && before.len() <= last.len() * 2
        {
            let joined = compact(concat(&[before.as_ref(), last.as_ref()])?);
            self.pieces.truncate(self.pieces.len() - 2);
            self.starts.pop();
            self.pieces.push(joined);
        }
        Ok(())
    }

    /// The values at some places.
    ///
    /// # Errors
    /// `Internal` when a kernel fails.
    pub(super) fn gather(&self, places: &[u32], data_type: &DataType) -> Result<ArrayRef> {
        match self.pieces.as_slice() {
            [] => Ok(arrow::array::new_empty_array(data_type)),
            [one] => Ok(compact(take(one, &UInt32Array::from(places.to_vec()), None)?)),
            several => {
                let of = |place: &u32| {
                    let piece = self.starts.partition_point(|start| *start <= *place as usize) - 1;
                    (piece, *place as usize - self.starts[piece])
                };
                let pieces: Vec<&dyn Array> = several.iter().map(AsRef::as_ref).collect();
                Ok(compact(interleave(&pieces, &places.iter().map(of).collect::<Vec<_>>())?))
            }
        }
    }

    pub(super) fn clear(&mut self) {
        *self = Store::default();
    }

    pub(super) fn bytes(&self) -> usize {
        self.pieces.iter().map(|piece| piece.get_array_memory_size()).sum()
    }
}

/// Views that point into buffers of their own.
pub(super) fn compact(values: ArrayRef) -> ArrayRef {
    match values.data_type() {
        DataType::Utf8View => Arc::new(values.as_string_view().gc()),
        DataType::BinaryView => Arc::new(values.as_binary_view().gc()),
        _ => values,
    }
}

/// The values of every group, each with its time.
#[derive(Debug)]
pub(super) struct Collected {
    values: DataType,
    store: Store,
    /// By group, time and place of each value.
    lists: Vec<Vec<(i64, u32)>>,
}

impl Collected {
    pub(super) fn new(values: DataType) -> Self {
        Collected { values, store: Store::default(), lists: Vec::new() }
    }

    /// Takes a struct of value and time.
    ///
    /// # Errors
    /// `Internal` when a kernel fails.
    pub(super) fn update(&mut self, groups: &[u32], total: usize, values: Option<&ArrayRef>) -> Result<()> {
        self.lists.resize(total, Vec::new());
        let Some(rows) = values.and_then(|values| values.as_struct_opt()) else { return Ok(()) };
        let times = rows.columns().last().and_then(|times| times.as_primitive_opt::<Int64Type>()).ok_or_else(foreign)?;
        let indices: Vec<u32> = match rows.nulls() {
            None => (0..rows.len() as u32).collect(),
            Some(nulls) => nulls.valid_indices().map(|row| row as u32).collect(),
        };
        let first = self.store.len() as u32;
        for (place, row) in indices.iter().enumerate() {
            self.lists[groups[*row as usize] as usize].push((times.value(*row as usize), first + place as u32));
        }
        self.store.push(compact(take(rows.column(0), &UInt32Array::from(indices), None)?))
    }

    /// Takes the state of another one: a list of values and a list of times per group.
    ///
    /// # Errors
    /// `External` when the arrays are not such a state.
    pub(super) fn merge(&mut self, groups: &[u32], total: usize, state: &[ArrayRef]) -> Result<()> {
        self.lists.resize(total, Vec::new());
        let list = |index: usize| state.get(index).and_then(|array| array.as_list_opt::<i32>()).ok_or_else(foreign);
        let (values, times) = (list(0)?, list(1)?);
        if values.value_type() != self.values || !values.offsets().lengths().eq(times.offsets().lengths()) {
            return Err(foreign());
        }
        let inside = |list: &ListArray| {
            let offsets = list.value_offsets();
            list.values().slice(offsets[0] as usize, (offsets[list.len()] - offsets[0]) as usize)
        };
        let first = self.store.len() as u32;
        let times = inside(times);
        let times = times.as_primitive_opt::<Int64Type>().ok_or_else(foreign)?;
        for (place, group) in spread(groups, values.offsets()).into_iter().enumerate() {
            self.lists[group as usize].push((times.value(place), first + place as u32));
        }
        let values = inside(values);
        let all = UInt32Array::from_iter_values(0..values.len() as u32);
        self.store.push(compact(take(&values, &all, None)?))
    }

    pub(super) fn state(&self) -> Result<Vec<ArrayRef>> {
        let offsets = list_offsets(self.lists.iter().map(Vec::len))?;
        let times: ArrayRef = Arc::new(Int64Array::from_iter_values(self.lists.iter().flatten().map(|(time, _)| *time)));
        let places: Vec<u32> = self.lists.iter().flatten().map(|(_, place)| *place).collect();
        let values = self.store.gather(&places, &self.values)?;
        Ok(vec![list_of(values, offsets.clone())?, list_of(times, offsets)?])
    }

    /// The values of each group, earliest first, those of one time as they arrived; and where each group's begin.
    ///
    /// # Errors
    /// `Limit` beyond what a list column holds.
    pub(super) fn in_order(&self) -> Result<(ArrayRef, OffsetBuffer<i32>)> {
        let mut places = Vec::with_capacity(self.store.len());
        for list in &self.lists {
            let mut list = list.clone();
            list.sort_by_key(|(time, _)| *time);
            places.extend(list.into_iter().map(|(_, place)| place));
        }
        Ok((self.store.gather(&places, &self.values)?, list_offsets(self.lists.iter().map(Vec::len))?))
    }

    pub(super) fn select(&self, groups: &[u32]) -> Result<Self> {
        let mut lists: Vec<Vec<(i64, u32)>> = super::gathered(&self.lists, groups);
        let places: Vec<u32> = lists.iter().flatten().map(|(_, place)| *place).collect();
        lists.iter_mut().flatten().zip(0..).for_each(|(entry, place)| entry.1 = place);
        let mut store = Store::default();
        store.push(self.store.gather(&places, &self.values)?)?;
        Ok(Collected { values: self.values.clone(), store, lists })
    }

    pub(super) fn clear(&mut self) {
        self.store.clear();
        self.lists.clear();
    }

    pub(super) fn bytes(&self) -> usize {
        let lists: usize = self.lists.iter().map(|list| list.capacity() * 16 + size_of::<Vec<(i64, u32)>>()).sum();
        self.store.bytes() + lists
    }
}

/// A list column.
///
/// # Errors
/// `Internal` when offsets and values do not fit.
pub(super) fn list_of(values: ArrayRef, offsets: OffsetBuffer<i32>) -> Result<ArrayRef> {
    let field = Arc::new(Field::new_list_field(values.data_type().clone(), true));
    Ok(Arc::new(ListArray::try_new(field, offsets, values, None)?))
}

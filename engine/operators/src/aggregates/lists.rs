//! `arrayAgg` and `stringAgg`: values in the order of their times, those of one time as they arrived.

use super::collected::Collected;
use super::{Accumulator, Finished};
use arrow::array::{Array, ArrayRef, AsArray, ListArray, StringViewBuilder};
use arrow::buffer::NullBuffer;
use arrow::compute::cast;
use arrow::datatypes::{DataType, Field};
use std::sync::Arc;
use tidegate_api::Result;

#[derive(Debug)]
pub(super) struct Lists {
    collected: Collected,
    /// Between texts; lists have none.
    separator: Option<Arc<str>>,
}

/// No text leaves that a reader with 32-bit offsets could not take.
const LONGEST_TEXT: usize = i32::MAX as usize;

impl Lists {
    pub(super) fn new(values: DataType, separator: Option<Arc<str>>) -> Self {
        Lists { collected: Collected::new(values), separator }
    }
}

fn texts(values: &ArrayRef, lists: &[usize], separator: &str) -> Result<Finished> {
    let values = cast(values, &DataType::Utf8View)?;
    let values = values.as_string_view();
    let mut builder = StringViewBuilder::with_capacity(lists.len());
    let mut misfits = Vec::new();
    let mut text = String::new();
    let mut from = 0;
    for (group, length) in lists.iter().enumerate() {
        let range = from..from + length;
        from += length;
        let bytes: usize = range.clone().map(|at| values.value(at).len() + separator.len()).sum();
        if *length == 0 {
            builder.append_null();
        } else if bytes > LONGEST_TEXT {
            misfits.push((group, format!("a text of {bytes} bytes")));
            builder.append_null();
        } else {
            text.clear();
            for (place, at) in range.enumerate() {
                if place > 0 {
                    text.push_str(separator);
                }
                text.push_str(values.value(at));
            }
            builder.append_value(&text);
        }
    }
    Ok(Finished { values: Arc::new(builder.finish()), misfits })
}

impl Accumulator for Lists {
    fn update(&mut self, groups: &[u32], total: usize, values: Option<&ArrayRef>) -> Result<()> {
        self.collected.update(groups, total, values)
    }

    fn merge(&mut self, groups: &[u32], total: usize, state: &[ArrayRef]) -> Result<()> {
        self.collected.merge(groups, total, state)
    }

    fn state(&self) -> Result<Vec<ArrayRef>> {
        self.collected.state()
    }

    fn finish(&self) -> Result<Finished> {
        let (values, offsets) = self.collected.in_order()?;
        let lengths: Vec<usize> = offsets.lengths().collect();
        match &self.separator {
            Some(separator) => texts(&values, &lengths, separator),
            None => {
                let field = Arc::new(Field::new_list_field(values.data_type().clone(), true));
                let nulls = NullBuffer::from(lengths.iter().map(|length| *length > 0).collect::<Vec<bool>>());
                let nulls = Some(nulls).filter(|nulls| nulls.null_count() > 0);
                Ok(Finished::fitting(Arc::new(ListArray::try_new(field, offsets, values, nulls)?)))
            }
        }
    }

    fn select(&self, groups: &[u32]) -> Result<Box<dyn Accumulator>> {
        Ok(Box::new(Lists { collected: self.collected.select(groups)?, separator: self.separator.clone() }))
    }

    fn clear(&mut self) {
        self.collected.clear();
    }

    fn bytes(&self) -> usize {
        self.collected.bytes()
    }
}

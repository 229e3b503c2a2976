//! `reduce` over whole batches: one evaluation of the body for the first elements of all rows, one for the second, and so on.

use super::each::Body;
use super::flat::Flat;
use arrow::array::{Array, ArrayRef, RecordBatch, UInt32Array, UInt64Array, new_empty_array};
use arrow::compute::{concat, take};
use datafusion_common::Result;
use std::cmp::Reverse;

/// The last value of each row, which begins as `start`; null where there is no list.
pub(super) fn reduce(body: &Body, flat: Flat, start: ArrayRef, batch: &RecordBatch) -> Result<ArrayRef> {
    let rows = flat.rows();
    if rows == 0 {
        return Ok(new_empty_array(start.data_type()));
    }
    // Rows with the longest lists first, so that those still at work are always the first ones.
    let mut order: Vec<u32> = (0..rows as u32).collect();
    order.sort_by_key(|row| Reverse(flat.range(*row as usize).len()));
    let longest = flat.range(order[0] as usize).len();
    let mut values = take(&start, &UInt32Array::from(order.clone()), None)?;
    let mut done: Vec<ArrayRef> = Vec::new();
    for at in 0..longest {
        let working = order.partition_point(|row| flat.range(*row as usize).len() > at);
        if working < values.len() {
            done.push(values.slice(working, values.len() - working));
            values = values.slice(0, working);
        }
        let places = order[..working].iter().map(|row| (flat.range(*row as usize).start + at) as u64);
        let elements = take(&flat.elements, &UInt64Array::from_iter_values(places), None)?;
        values = body.evaluate(batch, &UInt32Array::from(order[..working].to_vec()), vec![values, elements])?;
    }
    done.push(values);
    let pieces: Vec<&dyn Array> = done.iter().rev().map(|piece| piece.as_ref()).collect();
    let sorted = concat(&pieces)?;
    // Back in the order of the rows; a row without a list takes nothing.
    let mut places = vec![None; rows];
    for (at, row) in order.iter().enumerate() {
        places[*row as usize] = (!flat.is_null(*row as usize)).then_some(at as u64);
    }
    Ok(take(&sorted, &UInt64Array::from(places), None)?)
}

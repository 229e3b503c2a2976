//! Ticks as columns. Only those asked for are made.

use crate::config::Config;
use std::sync::Arc;
use tidegate_sdk::Result;
use tidegate_sdk::arrow::array::{ArrayRef, Int64Array, RecordBatch, RecordBatchOptions, TimestampMillisecondArray};
use tidegate_sdk::arrow::schema::{DataType, Field, Schema, SchemaRef, TimeUnit};

/// What one row takes with all its columns.
pub(crate) const ROW_BYTES: usize = 32;

/// The columns, or those of them that are wanted.
pub(crate) fn schema(wanted: Option<&[String]>) -> Schema {
    let all = [
        Field::new("split", DataType::Int64, false),
        Field::new("seq", DataType::Int64, false),
        Field::new("ts", DataType::Timestamp(TimeUnit::Millisecond, None), false),
        Field::new("value", DataType::Int64, false),
    ];
    Schema::new(all.into_iter().filter(|field| wanted.is_none_or(|wanted| wanted.contains(field.name()))).collect::<Vec<_>>())
}

/// `count` ticks of one split, from number `first`.
pub(crate) fn make(schema: &SchemaRef, config: &Config, first: u64, count: u64) -> Result<RecordBatch> {
    let numbers = (0..count).map(|row| first + row * config.splits);
    let columns = schema.fields().iter().map(|field| -> ArrayRef {
        match field.name().as_str() {
            "split" => Arc::new(Int64Array::from_value((first % config.splits) as i64, count as usize)),
            "seq" => Arc::new(Int64Array::from_iter_values(numbers.clone().map(|seq| seq as i64))),
            "ts" => Arc::new(TimestampMillisecondArray::from_iter_values(numbers.clone().map(|seq| config.time_ms(seq)))),
            _ => Arc::new(Int64Array::from_iter_values(numbers.clone().map(value))),
        }
    });
    let columns: Vec<ArrayRef> = columns.collect();
    let options = RecordBatchOptions::new().with_row_count(Some(count as usize));
    Ok(RecordBatch::try_new_with_options(Arc::clone(schema), columns, &options)?)
}

/// The value of tick `seq`: 0 to 999, without a visible pattern, always the same. (The finaliser of SplitMix64.)
pub(crate) fn value(seq: u64) -> i64 {
    let mut mixed = seq.wrapping_add(0x9e37_79b9_7f4a_7c15);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    ((mixed ^ (mixed >> 31)) % 1000) as i64
}

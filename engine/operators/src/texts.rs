//! Texts of rows that are kept: copied out of buffers that are mostly something else's, left where they are otherwise.

use arrow::array::{Array, ArrayRef, AsArray};
use arrow::buffer::Buffer;
use arrow::datatypes::DataType;
use std::sync::Arc;

/// Bytes that a column may hold for nothing, whatever it shows.
const SLACK: usize = 16 * 1024;
/// Buffers larger than this are not held to be recognised.
const MOST: usize = 8 << 20;

/// Decides batch by batch. A source may take the texts of all its batches from one pool; then the pool is there once however many
/// batches point into it, and copying would be what takes memory.
#[derive(Debug, Default)]
pub(crate) struct Compactor {
    /// By column.
    seen: Vec<Seen>,
}

/// The buffers of the last batch. They are held, so that a buffer at the same address is the same buffer.
#[derive(Debug, Default)]
struct Seen {
    buffers: Vec<Buffer>,
    /// What the batches in a row that pointed into them showed.
    used: usize,
}

impl Compactor {
    /// The columns of a batch, holding no more than about twice what they and earlier batches over the same buffers show.
    pub(crate) fn compact(&mut self, columns: Vec<ArrayRef>) -> Vec<ArrayRef> {
        self.seen.resize_with(columns.len(), Seen::default);
        columns.into_iter().zip(&mut self.seen).map(|(column, seen)| seen.compact(column)).collect()
    }
}

impl Seen {
    fn compact(&mut self, column: ArrayRef) -> ArrayRef {
        let Some((buffers, used)) = buffers_of(&column) else { return column };
        let held: usize = buffers.iter().map(Buffer::capacity).sum();
        if held <= SLACK {
            return column;
        }
        let is_same = buffers.len() == self.buffers.len() && buffers.iter().zip(&self.buffers).all(|(one, other)| one.ptr_eq(other));
        if is_same {
            self.used = self.used.saturating_add(used);
        } else {
            self.used = used;
            self.buffers = if held <= MOST { buffers.to_vec() } else { Vec::new() };
        }
        if is_wasteful(held, self.used) { copied(&column) } else { column }
    }
}

/// A column that holds no more than about twice what it shows.
pub(crate) fn compacted(column: ArrayRef) -> ArrayRef {
    let Some((buffers, used)) = buffers_of(&column) else { return column };
    let held = buffers.iter().map(Buffer::capacity).sum();
    if is_wasteful(held, used) { copied(&column) } else { column }
}

fn is_wasteful(held: usize, used: usize) -> bool {
    held > used.saturating_mul(2).saturating_add(SLACK)
}

/// The buffers that a column of texts points into, and how much of them it shows.
fn buffers_of(column: &ArrayRef) -> Option<(&[Buffer], usize)> {
    match column.data_type() {
        DataType::Utf8View => {
            let views = column.as_string_view();
            Some((views.data_buffers(), views.total_buffer_bytes_used()))
        }
        DataType::BinaryView => {
            let views = column.as_binary_view();
            Some((views.data_buffers(), views.total_buffer_bytes_used()))
        }
        _ => None,
    }
}

fn copied(column: &ArrayRef) -> ArrayRef {
    match column.data_type() {
        DataType::Utf8View => Arc::new(column.as_string_view().gc()),
        DataType::BinaryView => Arc::new(column.as_binary_view().gc()),
        _ => Arc::clone(column),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::{StringViewArray, StringViewBuilder};
    use proptest::prelude::*;

    /// A pool of so many texts of 100 letters, in one buffer that has room for 10,000.
    fn pool(texts: usize) -> StringViewArray {
        let mut builder = StringViewBuilder::new().with_fixed_block_size(1_000_000);
        (0..texts).for_each(|number| builder.append_value(format!("{number:0>100}")));
        builder.finish()
    }

    fn held(column: &ArrayRef) -> usize {
        column.as_string_view().data_buffers().iter().map(Buffer::capacity).sum()
    }

    #[test]
    fn a_few_texts_of_many_are_copied_out() {
        let column: ArrayRef = Arc::new(pool(10_000).slice(3, 5));
        let kept = Compactor::default().compact(vec![Arc::clone(&column)]).remove(0);
        assert_eq!(&kept, &column);
        assert!(held(&kept) < 10_000, "{}", held(&kept));
        assert!(held(&compacted(column)) < 10_000);
    }

    #[test]
    fn a_pool_that_batches_share_is_not_copied_for_each() {
        let pool = pool(10_000);
        let mut compactor = Compactor::default();
        let mut kept = |batch: usize| compactor.compact(vec![Arc::new(pool.slice(batch * 500, 500))]).remove(0);
        let kept: Vec<bool> = (0..20).map(|batch| kept(batch).as_string_view().data_buffers()[0].ptr_eq(&pool.data_buffers()[0])).collect();
        // Until half of it was shown, it might have been somebody else's.
        assert_eq!(kept, [vec![false; 9], vec![true; 11]].concat());
    }

    proptest! {
        /// Whatever comes, what is held is at most about twice what is shown, where a buffer counts once.
        #[test]
        fn what_is_held_is_about_twice_what_is_shown(batches in prop::collection::vec((0usize..3, 0usize..4_000, 1usize..900), 1..40)) {
            let pools = [pool(5_000), pool(5_000), pool(200)];
            let mut compactor = Compactor::default();
            let (mut buffers, mut shown): (Vec<Buffer>, usize) = (Vec::new(), 0);
            let mut count = 0;
            for (which, from, rows) in batches {
                let from = from.min(pools[which].len() - 1);
                let column: ArrayRef = Arc::new(pools[which].slice(from, rows.min(pools[which].len() - from)));
                let kept = compactor.compact(vec![Arc::clone(&column)]).remove(0);
                prop_assert_eq!(&kept, &column);
                shown += column.as_string_view().total_buffer_bytes_used();
                count += 1;
                for buffer in kept.as_string_view().data_buffers() {
                    if !buffers.iter().any(|known| known.ptr_eq(buffer)) {
                        buffers.push(buffer.clone());
                    }
                }
                let held: usize = buffers.iter().map(Buffer::capacity).sum();
                prop_assert!(held <= 2 * shown + count * SLACK, "{held} bytes for {shown}");
            }
        }
    }
}

//! Splits a batch among the tasks of the consumer, by the vnode of its key.
//!
//! The key columns are hashed once, the row numbers are put in target order, one `take` moves the rows, and each
//! target gets a slice of the result without a further copy. Equal keys meet in one task whatever the number of tasks, because
//! the vnode does not depend on it.

use arrow::array::{ArrayRef, RecordBatch, UInt32Array};
use arrow::compute::take_record_batch;
use tidegate_api::{Result, VnodeRange, hash};

/// Splits batches by key among a fixed number of tasks. Holds scratch space, so one per producing task and edge.
#[derive(Debug)]
pub struct Exchange {
    columns: Vec<usize>,
    vnodes: u16,
    target_of: Vec<u16>,
    targets: usize,
    hashes: Vec<u64>,
    route: Vec<u16>,
    /// One past each target's last row in target order.
    ends: Vec<usize>,
}

impl Exchange {
    /// Splits by these key columns among `targets` tasks that share `vnodes` vnodes.
    pub fn new(columns: Vec<usize>, targets: usize, vnodes: u16) -> Self {
        let mut target_of = vec![0; usize::from(vnodes)];
        for target in 0..targets {
            for vnode in VnodeRange::of_task(target, targets, vnodes).range() {
                target_of[usize::from(vnode)] = target as u16;
            }
        }
        Exchange { columns, vnodes, target_of, targets, hashes: Vec::new(), route: Vec::new(), ends: Vec::new() }
    }

    /// Splits by these key columns among owners of these vnodes. Rows of vnodes that nobody owns do not come.
    pub(crate) fn among(columns: Vec<usize>, owners: &[VnodeRange], vnodes: u16) -> Self {
        let mut exchange = Exchange::new(columns, owners.len(), vnodes);
        for (target, owned) in owners.iter().enumerate() {
            for vnode in owned.range() {
                exchange.target_of[usize::from(vnode)] = target as u16;
            }
        }
        exchange
    }

    /// Calls `give` with every target that gets rows and its rows, in the order they had.
    ///
    /// # Errors
    /// `Config` if a key column's type cannot be a key.
    pub fn split(&mut self, batch: RecordBatch, mut give: impl FnMut(usize, RecordBatch)) -> Result<()> {
        if self.targets == 1 || batch.num_rows() == 0 {
            give(0, batch);
            return Ok(());
        }
        let keys: Vec<ArrayRef> = self.columns.iter().map(|column| ArrayRef::clone(batch.column(*column))).collect();
        hash::hash_rows(&keys, batch.num_rows(), &mut self.hashes)?;

        self.route.clear();
        let (vnodes, target_of) = (self.vnodes, &self.target_of);
        self.route.extend(self.hashes.iter().map(|hash| target_of[usize::from(hash::vnode(*hash, vnodes))]));
        let mut order = vec![0u32; batch.num_rows()];
        self.ends.clear();
        if self.targets <= FEW {
            by_passes(&self.route, self.targets, &mut order, &mut self.ends)
        } else {
            by_counting(&self.route, self.targets, &mut order, &mut self.ends)
        }
        let mut from = 0;
        for (target, end) in self.ends.iter().enumerate() {
            if *end - from == batch.num_rows() {
                give(target, batch);
                return Ok(());
            }
            from = *end;
        }
        let sorted = take_record_batch(&batch, &UInt32Array::from(order))?;
        let mut from = 0;
        for (target, end) in self.ends.iter().enumerate() {
            if *end > from {
                give(target, sorted.slice(from, *end - from));
                from = *end;
            }
        }
        Ok(())
    }
}

/// Up to this many targets, a pass over the routes for each beats a counting sort.
const FEW: usize = 4;

/// Row numbers in target order, and where each target's end. A pass per target keeps its cursor in a register, where counters in
/// memory would make every row wait for the store of the row before it.
fn by_passes(route: &[u16], targets: usize, order: &mut [u32], ends: &mut Vec<usize>) {
    let mut at = 0;
    for target in 0..targets as u16 {
        for (row, owner) in route.iter().enumerate() {
            // Written always and kept only for the target's own rows: no branch to mispredict. Past the last row nothing is left to keep.
            if let Some(slot) = order.get_mut(at) {
                *slot = row as u32;
            }
            at += usize::from(*owner == target);
        }
        ends.push(at);
    }
}

/// The same by a counting sort, whose cost does not grow with the number of targets.
fn by_counting(route: &[u16], targets: usize, order: &mut [u32], ends: &mut Vec<usize>) {
    ends.resize(targets, 0);
    for target in route {
        ends[usize::from(*target)] += 1;
    }
    // From counts to the place of each target's next row, which in the end is where its rows end.
    let mut place = 0;
    for slot in ends.iter_mut() {
        place += std::mem::replace(slot, place);
    }
    for (row, target) in route.iter().enumerate() {
        let slot = &mut ends[usize::from(*target)];
        order[*slot] = row as u32;
        *slot += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::{Array, AsArray, Int64Array, StringViewArray};
    use arrow::datatypes::Int64Type;
    use proptest::prelude::*;
    use std::sync::Arc;

    fn batch(keys: &[Option<i64>]) -> RecordBatch {
        let numbers: ArrayRef = Arc::new(Int64Array::from(keys.to_vec()));
        let rows: ArrayRef = Arc::new(Int64Array::from_iter_values(0..keys.len() as i64));
        let text: ArrayRef = Arc::new(StringViewArray::from_iter_values(keys.iter().map(|key| format!("the text of key {key:?}"))));
        RecordBatch::try_from_iter([("key", numbers), ("row", rows), ("text", text)]).unwrap()
    }

    fn split(batch: &RecordBatch, targets: usize) -> Vec<Vec<i64>> {
        let mut got = vec![Vec::new(); targets];
        Exchange::new(vec![0], targets, 256)
            .split(batch.clone(), |target, part| {
                assert_eq!(part.schema(), batch.schema());
                for row in 0..part.num_rows() {
                    let key = part.column(0).as_primitive::<Int64Type>();
                    let key = (!key.is_null(row)).then(|| key.value(row));
                    assert_eq!(part.column(2).as_string_view().value(row), format!("the text of key {key:?}"));
                }
                got[target].extend(part.column(1).as_primitive::<Int64Type>().values());
            })
            .unwrap();
        got
    }

    proptest! {
        #[test]
        fn every_row_goes_once_to_the_owner_of_its_vnode_in_its_order(
            keys in prop::collection::vec(prop::option::of(-20i64..20), 0..300),
            targets in 1usize..9,
        ) {
            let rows = batch(&keys);
            let mut hashes = Vec::new();
            hash::hash_rows(&[ArrayRef::clone(rows.column(0))], keys.len(), &mut hashes).unwrap();
            let mut expected = vec![Vec::new(); targets];
            for (row, value) in hashes.iter().enumerate() {
                let vnode = hash::vnode(*value, 256);
                let owner = (0..targets).find(|task| VnodeRange::of_task(*task, targets, 256).contains(vnode)).unwrap();
                expected[owner].push(row as i64);
            }
            prop_assert_eq!(split(&rows, targets), expected);
        }
    }

    #[test]
    fn a_batch_of_one_key_is_handed_on_without_a_copy() {
        let rows = batch(&[Some(5); 10]);
        let before = rows.column(0).to_data().buffers()[0].as_ptr();
        let mut parts = 0;
        Exchange::new(vec![0], 4, 256)
            .split(rows, |_, part| {
                parts += 1;
                assert_eq!(part.column(0).to_data().buffers()[0].as_ptr(), before);
            })
            .unwrap();
        assert_eq!(parts, 1);
    }
}

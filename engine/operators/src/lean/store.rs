//! Rows in chunks that never move: a row is found by its number, and a chunk that is full is written to one snapshot only.
//!
//! Rows are copied in, so that no batch is kept alive for a few of its rows. Dead rows stay until their owner has the store
//! rebuilt, which pays once as many are dead as alive.

use super::pieces::encode;
use arrow::array::{Array, ArrayRef, AsArray, new_empty_array};
use arrow::compute::{concat, interleave};
use arrow::datatypes::DataType;
use std::sync::Arc;
use tidegate_api::{Error, PieceId, Result, StatePiece, VnodeRange};

const BITS: u32 = 13;
/// Rows per full chunk.
pub(crate) const CHUNK: usize = 1 << BITS;

/// See the module's documentation.
#[derive(Debug)]
pub(crate) struct Store {
    types: Vec<DataType>,
    full: Vec<Chunk>,
    /// Parts of the chunk that is being filled, with the number of their first row within it.
    open: Vec<(usize, Vec<ArrayRef>)>,
    open_rows: usize,
    /// The piece that holds the open chunk, and how many rows it holds.
    open_saved: Option<(PieceId, usize)>,
    writing: Vec<Writing>,
}

#[derive(Debug)]
struct Chunk {
    columns: Vec<ArrayRef>,
    saved: Option<PieceId>,
}

#[derive(Debug, Clone, Copy)]
enum Writing {
    Full(usize),
    Open(usize),
}

impl Store {
    /// An empty store of rows of these types.
    pub(crate) fn new(types: Vec<DataType>) -> Self {
        Store { types, full: Vec::new(), open: Vec::new(), open_rows: 0, open_saved: None, writing: Vec::new() }
    }

    /// How many rows there are, dead ones included.
    pub(crate) fn len(&self) -> usize {
        self.full.len() * CHUNK + self.open_rows
    }

    /// Adds rows and gives the number of the first; the others follow. Texts are copied out of the buffers that they share.
    ///
    /// # Errors
    /// `Internal` when a kernel fails; `Limit` beyond 2^32 rows.
    pub(crate) fn append(&mut self, columns: &[ArrayRef], rows: usize) -> Result<u32> {
        let first = self.len();
        if first + rows > u32::MAX as usize {
            return Err(Error::limit("a task keeps more than 2^32 rows; raise the parallelism, or keep fewer"));
        }
        let columns: Vec<ArrayRef> = columns.iter().map(compacted).collect();
        let mut from = 0;
        while from < rows {
            let part = (rows - from).min(CHUNK - self.open_rows);
            let columns = columns.iter().map(|column| if part == rows { Arc::clone(column) } else { column.slice(from, part) }).collect();
            self.open.push((self.open_rows, columns));
            self.open_rows += part;
            from += part;
            self.join_small()?;
            if self.open_rows == CHUNK {
                self.close()?;
            }
        }
        Ok(first as u32)
    }

    /// Joins the last parts while they are about as long, so that there are few.
    fn join_small(&mut self) -> Result<()> {
        while let [.., (before, _), (last, _)] = self.open.as_slice() {
            let (before, last) = (*before, *last);
            if last - before > 2 * (self.open_rows - last) {
                break;
            }
            let (second, first) = (self.open.pop(), self.open.pop());
            if let (Some((_, first)), Some((_, second))) = (first, second) {
                self.open.push((before, joined(&[first, second])?));
            }
        }
        Ok(())
    }

    fn close(&mut self) -> Result<()> {
        let parts: Vec<Vec<ArrayRef>> = self.open.drain(..).map(|(_, columns)| columns).collect();
        self.full.push(Chunk { columns: joined(&parts)?, saved: None });
        self.open_rows = 0;
        self.open_saved = None;
        Ok(())
    }

    /// The part that holds a row, and the row within it. Parts are numbered, the full chunks first.
    #[inline]
    fn locate(&self, id: u32) -> (usize, usize) {
        let (chunk, row) = ((id >> BITS) as usize, id as usize & (CHUNK - 1));
        if chunk < self.full.len() {
            return (chunk, row);
        }
        let part = self.open.partition_point(|(start, _)| *start <= row) - 1;
        (self.full.len() + part, row - self.open[part].0)
    }

    fn part(&self, part: usize) -> &[ArrayRef] {
        match self.full.get(part) {
            Some(chunk) => &chunk.columns,
            None => &self.open[part - self.full.len()].1,
        }
    }

    /// The bytes of a row in a column of type binary.
    pub(crate) fn bytes_at(&self, id: u32, column: usize) -> &[u8] {
        let (part, row) = self.locate(id);
        self.part(part)[column].as_binary::<i32>().value(row)
    }

    /// Some columns of some rows, in this order.
    ///
    /// # Errors
    /// `Internal` when a kernel fails.
    pub(crate) fn gather(&self, ids: &[u32], columns: std::ops::Range<usize>) -> Result<Vec<ArrayRef>> {
        let mut across = Across::default();
        across.add(self, ids);
        across.columns(columns, &self.types)
    }

    /// A store of these rows alone, numbered in this order.
    ///
    /// # Errors
    /// `Internal` when a kernel fails.
    pub(crate) fn rebuilt(&self, ids: &[u32]) -> Result<Store> {
        let mut store = Store::new(self.types.clone());
        for ids in ids.chunks(CHUNK) {
            store.append(&self.gather(ids, 0..self.types.len())?, ids.len())?;
        }
        Ok(store)
    }

    /// The pieces of a snapshot of the first `columns` columns, under names that begin with `prefix`.
    ///
    /// # Errors
    /// `Internal` when rows cannot be written.
    pub(crate) fn snapshot(&mut self, prefix: &str, columns: usize, vnodes: VnodeRange, pieces: &mut Vec<StatePiece>) -> Result<()> {
        self.writing.clear();
        let name = |chunk: usize| format!("{prefix}{ROWS}{}/{chunk}", vnodes.start);
        for (index, chunk) in self.full.iter().enumerate() {
            pieces.push(match &chunk.saved {
                Some(id) => StatePiece::Kept(id.clone()),
                None => {
                    self.writing.push(Writing::Full(index));
                    StatePiece::New { name: name(index), vnodes, data: encode(chunk.columns[..columns].to_vec(), CHUNK)? }
                }
            });
        }
        if self.open_rows > 0 {
            pieces.push(match &self.open_saved {
                Some((id, rows)) if *rows == self.open_rows => StatePiece::Kept(id.clone()),
                _ => {
                    let parts: Vec<Vec<ArrayRef>> = self.open.iter().map(|(_, part)| part[..columns].to_vec()).collect();
                    self.writing.push(Writing::Open(self.open_rows));
                    StatePiece::New { name: name(self.full.len()), vnodes, data: encode(joined(&parts)?, self.open_rows)? }
                }
            });
        }
        Ok(())
    }

    /// The next snapshot refers to no earlier one.
    pub(crate) fn forget_pieces(&mut self) {
        self.full.iter_mut().for_each(|chunk| chunk.saved = None);
        self.open_saved = None;
    }

    /// Takes the identities of the new pieces, in their order.
    pub(crate) fn named(&mut self, ids: &mut impl Iterator<Item = PieceId>) {
        for writing in self.writing.drain(..) {
            let Some(id) = ids.next() else { return };
            match writing {
                Writing::Full(index) => self.full[index].saved = Some(id),
                Writing::Open(rows) => self.open_saved = Some((id, rows)),
            }
        }
    }

    /// Memory held.
    pub(crate) fn bytes(&self) -> usize {
        let parts = self.full.iter().map(|chunk| &chunk.columns).chain(self.open.iter().map(|(_, columns)| columns));
        parts.flatten().map(|column| column.get_array_memory_size()).sum()
    }
}

/// Rows of several stores, to be put together.
#[derive(Debug, Default)]
pub(crate) struct Across<'a> {
    parts: Vec<&'a [ArrayRef]>,
    rows: Vec<(usize, usize)>,
}

impl<'a> Across<'a> {
    /// Adds rows of a store.
    pub(crate) fn add(&mut self, store: &'a Store, ids: &[u32]) {
        const UNUSED: usize = usize::MAX;
        if let ([id], [], [_]) = (ids, store.full.as_slice(), store.open.as_slice()) {
            self.rows.push((self.parts.len(), *id as usize));
            self.parts.push(store.part(0));
            return;
        }
        let mut place = vec![UNUSED; store.full.len() + store.open.len()];
        for id in ids {
            let (part, row) = store.locate(*id);
            if place[part] == UNUSED {
                place[part] = self.parts.len();
                self.parts.push(store.part(part));
            }
            self.rows.push((place[part], row));
        }
    }

    /// Some columns of the rows, in the order in which they were added. `types` are those of all columns.
    ///
    /// # Errors
    /// `Internal` when a kernel fails.
    pub(crate) fn columns(&self, columns: std::ops::Range<usize>, types: &[DataType]) -> Result<Vec<ArrayRef>> {
        if self.parts.is_empty() {
            return Ok(columns.map(|column| new_empty_array(&types[column])).collect());
        }
        let gathered = columns.map(|column| {
            let arrays: Vec<&dyn Array> = self.parts.iter().map(|part| part[column].as_ref()).collect();
            interleave(&arrays, &self.rows)
        });
        Ok(gathered.collect::<std::result::Result<_, _>>()?)
    }
}

const ROWS: &str = "rows/";

/// What the name of a piece of rows says, without the prefix: who wrote it, and the number of its first row.
pub(crate) fn piece_place(name: &str) -> Option<(u16, usize)> {
    let (start, chunk) = name.strip_prefix(ROWS)?.split_once('/')?;
    Some((start.parse().ok()?, chunk.parse::<usize>().ok()?.checked_mul(CHUNK)?))
}

fn joined(parts: &[Vec<ArrayRef>]) -> Result<Vec<ArrayRef>> {
    if let [one] = parts {
        return Ok(one.clone());
    }
    let columns = 0..parts.first().map_or(0, Vec::len);
    let column = |index: usize| concat(&parts.iter().map(|part| part[index].as_ref()).collect::<Vec<_>>());
    Ok(columns.map(column).collect::<std::result::Result<_, _>>()?)
}

/// A column that shares no buffer with texts that are not its own.
fn compacted(column: &ArrayRef) -> ArrayRef {
    match column.data_type() {
        DataType::Utf8View => Arc::new(column.as_string_view().gc()),
        DataType::BinaryView => Arc::new(column.as_binary_view().gc()),
        _ => Arc::clone(column),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::{Int64Array, StringViewArray};
    use arrow::datatypes::Int64Type;
    use proptest::prelude::*;

    fn rows(values: &[i64]) -> Vec<ArrayRef> {
        let texts = values.iter().map(|value| format!("a text that is long enough {value}"));
        vec![Arc::new(Int64Array::from(values.to_vec())), Arc::new(StringViewArray::from_iter_values(texts))]
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(16))]

        #[test]
        fn every_row_is_found_by_its_number_however_it_came(parts in prop::collection::vec(1usize..6000, 1..12), pick in any::<u64>()) {
            let mut store = Store::new(vec![DataType::Int64, DataType::Utf8View]);
            let mut next = 0i64;
            for part in parts {
                let values: Vec<i64> = (next..next + part as i64).collect();
                prop_assert_eq!(store.append(&rows(&values), part).unwrap() as i64, next);
                next += part as i64;
            }
            prop_assert_eq!(store.len() as i64, next);
            prop_assert!(store.open.len() < 16);
            let ids: Vec<u32> = (0..50u64).map(|step| (pick.wrapping_mul(step * 2 + 1) >> 20) as u32 % next as u32).collect();
            let wanted: Vec<i64> = ids.iter().map(|id| i64::from(*id)).collect();
            prop_assert_eq!(&store.gather(&ids, 0..2).unwrap(), &rows(&wanted));
            let rebuilt = store.rebuilt(&ids).unwrap();
            let every: Vec<u32> = (0..50).collect();
            let column = rebuilt.gather(&every, 0..1).unwrap().remove(0);
            prop_assert_eq!(column.as_primitive::<Int64Type>().values(), wanted.as_slice());
        }
    }

    #[test]
    fn a_full_chunk_is_written_once() {
        let mut store = Store::new(vec![DataType::Int64, DataType::Utf8View]);
        let mut epochs = Vec::new();
        for epoch in 0..4 {
            store.append(&rows(&vec![1; if epoch == 2 { 0 } else { 6000 }]), if epoch == 2 { 0 } else { 6000 }).unwrap();
            let mut pieces = Vec::new();
            store.snapshot("", 2, VnodeRange::all(256), &mut pieces).unwrap();
            let new = pieces.iter().filter(|piece| matches!(piece, StatePiece::New { .. })).count();
            epochs.push((pieces.len() - new, new));
            store.named(&mut (0..new).map(|index| PieceId(format!("{epoch}/{index}"))));
        }
        assert_eq!(epochs, [(0, 1), (0, 2), (2, 0), (1, 2)]);
        assert_eq!(piece_place("rows/128/2"), Some((128, 2 * CHUNK)));
    }
}

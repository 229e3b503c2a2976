//! Rows in chunks that never move: a row is found by its number, and a chunk that is full is written to one snapshot only.
//!
//! Rows are copied in, so that no batch is kept alive for a few of its rows. Dead rows stay until their owner has the living ones
//! of their chunk moved to the end; the chunk's numbers are given anew then, so that the other chunks and what snapshots have of
//! them stay as they are, and no moment holds the rows twice.

use super::pieces::deferred;
use arrow::array::{Array, ArrayRef, AsArray, BinaryViewArray, StringViewArray, UInt32Array, make_view, new_empty_array};
use arrow::buffer::{Buffer, ScalarBuffer};
use arrow::compute::{concat, interleave, take_arrays};
use arrow::datatypes::DataType;
use foldhash::fast::FixedState;
use hashbrown::HashMap;
use std::sync::Arc;
use tidegate_api::{Error, PieceId, Result, StatePiece, VnodeRange};

pub(crate) const BITS: u32 = 13;
/// Rows per full chunk.
pub(crate) const CHUNK: usize = 1 << BITS;
/// The greatest number that a row may have; its owner has the upper bit for itself.
const MOST: usize = 1 << 31;

/// See the module's documentation.
#[derive(Debug)]
pub(crate) struct Store {
    types: Vec<DataType>,
    /// By the upper bits of the numbers of their rows. One without columns is free, or being filled.
    full: Vec<Chunk>,
    free: Vec<usize>,
    /// Which chunk is being filled, once it has rows.
    open_at: usize,
    /// Parts of the chunk that is being filled, with the number of their first row within it.
    open: Vec<(usize, Vec<ArrayRef>)>,
    open_rows: usize,
    /// The piece that holds the open chunk, and how many rows it holds.
    open_saved: Option<(PieceId, usize)>,
    writing: Vec<Writing>,
}

#[derive(Debug, Default)]
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
        Store {
            types,
            full: Vec::new(),
            free: Vec::new(),
            open_at: 0,
            open: Vec::new(),
            open_rows: 0,
            open_saved: None,
            writing: Vec::new(),
        }
    }

    /// How many rows there are, dead ones included.
    pub(crate) fn len(&self) -> usize {
        let empty = self.free.len() + usize::from(self.open_rows > 0);
        (self.full.len() - empty) * CHUNK + self.open_rows
    }

    /// One past the greatest number that a row may have.
    pub(crate) fn end(&self) -> usize {
        self.full.len() * CHUNK
    }

    /// Adds rows, and their numbers to `ids`. Texts are copied out of the buffers that they share.
    ///
    /// # Errors
    /// `Internal` when a kernel fails; `Limit` beyond 2^31 rows.
    pub(crate) fn append(&mut self, columns: &[ArrayRef], rows: usize, ids: &mut Vec<u32>) -> Result<()> {
        if self.end() + rows + CHUNK > MOST {
            return Err(Error::limit("a task keeps more than 2^31 rows; raise the parallelism, or keep fewer"));
        }
        let columns: Vec<ArrayRef> = columns.iter().map(compacted).collect::<Result<_>>()?;
        let mut from = 0;
        while from < rows {
            if self.open_rows == 0 {
                self.open_at = self.free.pop().unwrap_or(self.full.len());
                if self.open_at == self.full.len() {
                    // There may be many stores of a few rows.
                    self.full.reserve_exact(usize::from(self.full.is_empty()));
                    self.full.push(Chunk::default());
                }
            }
            let part = (rows - from).min(CHUNK - self.open_rows);
            let columns = columns.iter().map(|column| if part == rows { Arc::clone(column) } else { column.slice(from, part) }).collect();
            let first = self.open_at * CHUNK + self.open_rows;
            ids.extend(first as u32..(first + part) as u32);
            self.open.push((self.open_rows, columns));
            self.open_rows += part;
            from += part;
            self.join_small()?;
            if self.open_rows == CHUNK {
                self.close()?;
            }
        }
        Ok(())
    }

    /// Moves the living rows of a full chunk behind the others; `living` are their numbers, and `ids` gets the new ones. The chunk's
    /// numbers will be given again.
    ///
    /// # Errors
    /// As [`Store::append`].
    pub(crate) fn evacuate(&mut self, chunk: usize, living: &[u32], ids: &mut Vec<u32>) -> Result<()> {
        let Chunk { columns, .. } = std::mem::take(&mut self.full[chunk]);
        let rows: UInt32Array = living.iter().map(|id| id & (CHUNK as u32 - 1)).collect::<Vec<u32>>().into();
        let taken = take_arrays(&columns, &rows, None)?;
        drop(columns);
        self.append(&taken, living.len(), ids)?;
        self.free.push(chunk);
        Ok(())
    }

    /// Whether a chunk is full of rows.
    pub(crate) fn is_full(&self, chunk: usize) -> bool {
        self.full.get(chunk).is_some_and(|chunk| !chunk.columns.is_empty())
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
        self.full[self.open_at] = Chunk { columns: joined(&parts)?, saved: None };
        self.open_rows = 0;
        self.open_saved = None;
        Ok(())
    }

    /// The part that holds a row, and the row within it. Parts are numbered, the full chunks first.
    #[inline]
    fn locate(&self, id: u32) -> (usize, usize) {
        let (chunk, row) = ((id >> BITS) as usize, id as usize & (CHUNK - 1));
        if chunk != self.open_at || self.open_rows == 0 {
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

    /// The pieces of a snapshot of the first `columns` columns, under names that begin with `prefix`.
    ///
    /// # Errors
    /// `Internal` when rows cannot be written.
    pub(crate) fn snapshot(&mut self, prefix: &str, columns: usize, vnodes: VnodeRange, pieces: &mut Vec<StatePiece>) -> Result<()> {
        self.writing.clear();
        let name = |chunk: usize| format!("{prefix}{ROWS}{}/{chunk}", vnodes.start);
        for (index, chunk) in self.full.iter().enumerate().filter(|(_, chunk)| !chunk.columns.is_empty()) {
            pieces.push(match &chunk.saved {
                Some(id) => StatePiece::Kept(id.clone()),
                None => {
                    self.writing.push(Writing::Full(index));
                    StatePiece::Deferred { name: name(index), vnodes, data: deferred(chunk.columns[..columns].to_vec(), CHUNK)? }
                }
            });
        }
        if self.open_rows > 0 {
            pieces.push(match &self.open_saved {
                Some((id, rows)) if *rows == self.open_rows => StatePiece::Kept(id.clone()),
                _ => {
                    let parts: Vec<Vec<ArrayRef>> = self.open.iter().map(|(_, part)| part[..columns].to_vec()).collect();
                    self.writing.push(Writing::Open(self.open_rows));
                    StatePiece::Deferred { name: name(self.open_at), vnodes, data: deferred(joined(&parts)?, self.open_rows)? }
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
        if let ([id], [_], [(_, only)]) = (ids, store.full.as_slice(), store.open.as_slice()) {
            self.rows.push((self.parts.len(), *id as usize));
            self.parts.push(only);
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

/// A column that shares no buffer with texts that are not its own. What several of its rows point to is copied once.
fn compacted(column: &ArrayRef) -> Result<ArrayRef> {
    Ok(match column.data_type() {
        DataType::Utf8View => {
            let texts = column.as_string_view();
            if texts.len() < SHARING {
                return Ok(Arc::new(texts.gc()));
            }
            let (views, bytes) = copied(texts.views(), texts.data_buffers());
            Arc::new(StringViewArray::try_new(views, [bytes], texts.nulls().cloned())?)
        }
        DataType::BinaryView => {
            let values = column.as_binary_view();
            if values.len() < SHARING {
                return Ok(Arc::new(values.gc()));
            }
            let (views, bytes) = copied(values.views(), values.data_buffers());
            Arc::new(BinaryViewArray::try_new(views, [bytes], values.nulls().cloned())?)
        }
        _ => Arc::clone(column),
    })
}

/// Below so many rows a table of what they share costs more than copying it again.
const SHARING: usize = 64;

fn copied(views: &[u128], buffers: &[Buffer]) -> (ScalarBuffer<u128>, Buffer) {
    const INLINE: u32 = 12;
    let mut known: HashMap<u128, u128, FixedState> = HashMap::default();
    let mut bytes: Vec<u8> = Vec::new();
    let mut copy = |view: u128| {
        if view as u32 <= INLINE {
            return view;
        }
        *known.entry(view).or_insert_with(|| {
            let (length, buffer, offset) = (view as u32 as usize, (view >> 64) as u32 as usize, (view >> 96) as usize);
            let at = bytes.len() as u32;
            bytes.extend_from_slice(&buffers[buffer][offset..offset + length]);
            make_view(&bytes[at as usize..], 0, at)
        })
    };
    let views: Vec<u128> = views.iter().map(|view| copy(*view)).collect();
    bytes.shrink_to_fit();
    (views.into(), bytes.into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::{Int64Array, StringViewArray};
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
                let mut ids = Vec::new();
                store.append(&rows(&values), part, &mut ids).unwrap();
                prop_assert_eq!(ids, (next as u32..(next + part as i64) as u32).collect::<Vec<_>>());
                next += part as i64;
            }
            prop_assert_eq!(store.len() as i64, next);
            prop_assert!(store.open.len() < 16);
            let ids: Vec<u32> = (0..50u64).map(|step| (pick.wrapping_mul(step * 2 + 1) >> 20) as u32 % next as u32).collect();
            let wanted: Vec<i64> = ids.iter().map(|id| i64::from(*id)).collect();
            prop_assert_eq!(&store.gather(&ids, 0..2).unwrap(), &rows(&wanted));
            // Every third row of the full chunks lives on.
            let mut place: Vec<u32> = (0..next as u32).collect();
            for chunk in (0..place.len() / CHUNK).filter(|chunk| store.is_full(*chunk)).collect::<Vec<_>>() {
                let living: Vec<u32> = ((chunk * CHUNK) as u32..((chunk + 1) * CHUNK) as u32).filter(|id| id % 3 == 0).collect();
                let mut ids = Vec::new();
                store.evacuate(chunk, &living, &mut ids).unwrap();
                living.iter().zip(ids).for_each(|(old, new)| place[*old as usize] = new);
            }
            let alive: Vec<u32> = (0..next as u32).filter(|id| id % 3 == 0).collect();
            let places: Vec<u32> = alive.iter().map(|id| place[*id as usize]).collect();
            let wanted: Vec<i64> = alive.iter().map(|id| i64::from(*id)).collect();
            prop_assert_eq!(&store.gather(&places, 0..2).unwrap(), &rows(&wanted));
            prop_assert!(store.end() <= next as usize + 2 * CHUNK);
        }
    }

    #[test]
    fn texts_that_rows_share_are_copied_once() {
        let one: ArrayRef = Arc::new(StringViewArray::from(vec![Some("a text that is long enough"), Some("short"), None]));
        let many = take_arrays(&[one], &UInt32Array::from(vec![0; 1000]), None).unwrap();
        let mut store = Store::new(vec![DataType::Utf8View]);
        store.append(&many, 1000, &mut Vec::new()).unwrap();
        assert_eq!(
            store.gather(&[999, 0], 0..1).unwrap()[0].as_string_view(),
            &StringViewArray::from(vec!["a text that is long enough"; 2])
        );
        assert!(store.bytes() < 17 * 1000, "{} bytes", store.bytes());
    }

    #[test]
    fn a_full_chunk_is_written_once() {
        let mut store = Store::new(vec![DataType::Int64, DataType::Utf8View]);
        let mut epochs = Vec::new();
        for epoch in 0..4 {
            store.append(&rows(&vec![1; if epoch == 2 { 0 } else { 6000 }]), if epoch == 2 { 0 } else { 6000 }, &mut Vec::new()).unwrap();
            let mut pieces = Vec::new();
            store.snapshot("", 2, VnodeRange::all(256), &mut pieces).unwrap();
            let new = pieces.iter().filter(|piece| !matches!(piece, StatePiece::Kept(_))).count();
            epochs.push((pieces.len() - new, new));
            store.named(&mut (0..new).map(|index| PieceId(format!("{epoch}/{index}"))));
        }
        assert_eq!(epochs, [(0, 1), (0, 2), (2, 0), (1, 2)]);
        assert_eq!(piece_place("rows/128/2"), Some((128, 2 * CHUNK)));
    }
}

//! Rows of one input that came together. Their columns never change; links, marks and the count of living rows do.

use super::side::GONE;
use arrow::array::{Array, ArrayRef, AsArray};
use arrow::datatypes::DataType;
use tidegate_api::PieceId;

/// A row as the table sees it: 32 bytes, so that one visit is one cache line.
#[derive(Debug, Clone, Copy)]
pub(super) struct Node {
    pub(super) hash: u64,
    /// Its event time in milliseconds.
    pub(super) time: i64,
    /// The row behind it in its chain, an older one.
    pub(super) next: u64,
    /// The row before it; [`GONE`] once the row waits no longer, [`LOOSE`](super::side::LOOSE) before it is in a chain.
    pub(super) prev: u64,
}

/// One bit per row.
#[derive(Debug, Clone, Default)]
pub(super) struct Bits(Vec<u64>);

impl Bits {
    pub(super) fn new(rows: usize) -> Self {
        Bits(vec![0; rows.div_ceil(64)])
    }

    pub(super) fn get(&self, row: usize) -> bool {
        self.0.get(row / 64).is_some_and(|word| word >> (row % 64) & 1 == 1)
    }

    pub(super) fn set(&mut self, row: usize) {
        if let Some(word) = self.0.get_mut(row / 64) {
            *word |= 1 << (row % 64);
        }
    }

    pub(super) fn any(&self) -> bool {
        self.0.iter().any(|word| *word != 0)
    }

    pub(super) fn words(&self) -> &[u64] {
        &self.0
    }

    pub(super) fn from_words(words: Vec<u64>) -> Self {
        Bits(words)
    }
}

/// See the module's documentation.
#[derive(Debug)]
pub(super) struct Chunk {
    /// What is stored of each row, in the plan's order.
    pub(super) columns: Vec<ArrayRef>,
    pub(super) nodes: Vec<Node>,
    /// The rows by time; `None` if they are in that order.
    order: Option<Vec<u32>>,
    /// How many of the rows by time are over.
    pub(super) cursor: usize,
    /// How many rows wait.
    pub(super) live: usize,
    /// How many of them are in no chain yet.
    pub(super) loose: usize,
    /// How often those were passed over.
    pub(super) passes: u8,
    /// The number of the batch that it came with, or of the last one in it.
    pub(super) seq: u64,
    /// The rows that have had a partner; empty where that is not remembered.
    pub(super) matched: Bits,
    /// Its name in snapshots, once it was written; never given twice in a run.
    pub(super) name: Option<String>,
    /// The piece that holds it.
    pub(super) piece: Option<PieceId>,
    pub(super) bytes: usize,
}

impl Chunk {
    pub(super) fn new(columns: Vec<ArrayRef>, nodes: Vec<Node>, seq: u64, marked: bool) -> Self {
        let order = (!nodes.is_sorted_by_key(|node| node.time)).then(|| {
            let mut order: Vec<u32> = (0..nodes.len() as u32).collect();
            order.sort_by_key(|row| nodes[*row as usize].time);
            order
        });
        let bytes = nodes.len() * size_of::<Node>() + columns.iter().map(size).sum::<usize>();
        let matched = if marked { Bits::new(nodes.len()) } else { Bits::default() };
        Chunk { columns, nodes, order, cursor: 0, live: 0, loose: 0, passes: 0, seq, matched, name: None, piece: None, bytes }
    }

    pub(super) fn rows(&self) -> usize {
        self.nodes.len()
    }

    /// The next row by time that is not over yet, and its time.
    pub(super) fn next_by_time(&self) -> Option<(usize, i64)> {
        let row = match &self.order {
            Some(order) => *order.get(self.cursor)? as usize,
            None => self.cursor,
        };
        self.nodes.get(row).map(|node| (row, node.time))
    }

    /// Whether a row waits.
    pub(super) fn is_waiting(&self, row: usize) -> bool {
        self.nodes[row].prev != GONE
    }
}

/// What a column takes in memory, whatever it shares with others.
fn size(column: &ArrayRef) -> usize {
    match column.data_type() {
        DataType::Utf8View => column.len() * 16 + column.as_string_view().total_buffer_bytes_used(),
        DataType::BinaryView => column.len() * 16 + column.as_binary_view().total_buffer_bytes_used(),
        _ => column.to_data().get_slice_memory_size().unwrap_or_else(|_| column.get_array_memory_size()),
    }
}

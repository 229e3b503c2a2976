//! The keys that a task remembers, each with the time of its row.

use crate::chunked::Chunked;
use crate::keys::{GroupBy, Groups, Keys};
use crate::lean::{Runs, decode, deferred, own_rows};
use arrow::array::{ArrayRef, AsArray, Int64Array};
use arrow::datatypes::{DataType, Int64Type};
use std::sync::Arc;
use tidegate_api::{OperatorCtx, PieceId, RestoredPiece, Result, StatePiece};

/// The version of the state format; part of the signature.
pub(super) const VERSION: u32 = 1;

/// See the module's documentation. Keys are numbered densely, in order of arrival.
#[derive(Debug)]
pub(super) struct Memory {
    by: GroupBy,
    types: Vec<DataType>,
    groups: Groups,
    /// The time of each key's row in the column's own unit; empty for ever when rows have no time.
    pub(super) times: Chunked<i64>,
    timed: bool,
    pub(super) runs: Runs,
}

impl Memory {
    /// Nothing is remembered yet.
    ///
    /// # Errors
    /// `Internal` for key types that binding refuses.
    pub(super) fn new(types: Vec<DataType>, timed: bool) -> Result<Self> {
        let by = GroupBy::new(types.clone())?;
        Ok(Memory { groups: by.table(), by, types, times: Chunked::default(), timed, runs: Runs::default() })
    }

    /// The keys of a batch.
    ///
    /// # Errors
    /// `Internal` when a kernel fails.
    pub(super) fn keys(&self, columns: &[ArrayRef]) -> Result<Keys> {
        self.by.keys(columns)
    }

    /// How many keys there are.
    pub(super) fn len(&self) -> usize {
        self.groups.len()
    }

    /// The numbers of the keys of some rows; those from the earlier count on are new.
    ///
    /// # Errors
    /// `Internal` when keys and table are of different stages.
    pub(super) fn numbers(&mut self, keys: &Keys, rows: usize, numbers: &mut Vec<u32>) -> Result<()> {
        numbers.clear();
        numbers.reserve(rows);
        self.groups.intern(keys, 0..rows, |number| numbers.push(number))
    }

    /// Forgets the keys whose time is `over`, unless they are too few to be worth it.
    ///
    /// # Errors
    /// `Internal` when a kernel fails.
    pub(super) fn sweep(&mut self, over: impl Fn(i64) -> bool) -> Result<()> {
        let gone = self.times.iter().filter(|time| over(*time)).count();
        if gone == 0 || gone * 4 < self.times.len() {
            return Ok(());
        }
        let stay: Vec<u32> = (0..self.times.len() as u32).filter(|number| !over(self.times.get(*number as usize))).collect();
        let mut groups = self.by.table();
        if !stay.is_empty() {
            let keys = self.by.keys(&self.by.columns_of(&self.groups, &stay)?)?;
            groups.intern(&keys, 0..stay.len(), |_| {})?;
        }
        self.times = stay.iter().map(|number| self.times.get(*number as usize)).collect();
        self.groups = groups;
        self.runs.renumbered();
        Ok(())
    }

    /// The pieces of a snapshot.
    ///
    /// # Errors
    /// `Internal` when an array cannot be made or written.
    pub(super) fn snapshot(&mut self, ctx: &OperatorCtx, pieces: &mut Vec<StatePiece>) -> Result<()> {
        let (by, groups, times) = (&self.by, &self.groups, &self.times);
        let timed = self.timed;
        self.runs.snapshot(groups.len(), ctx.vnodes, pieces, |numbers| {
            let mut columns = by.columns_of(groups, numbers)?;
            if timed {
                columns.push(Arc::new(Int64Array::from_iter_values(numbers.iter().map(|number| times.get(*number as usize)))));
            }
            deferred(columns, numbers.len())
        })
    }

    /// Takes the identities of the new pieces.
    pub(super) fn named(&mut self, ids: &mut impl Iterator<Item = PieceId>) {
        self.runs.named(ids);
    }

    /// Takes a snapshot back, as far as it is ours.
    ///
    /// # Errors
    /// `External` when a piece cannot be decoded.
    pub(super) fn restore(&mut self, pieces: &[RestoredPiece], ctx: &OperatorCtx) -> Result<()> {
        let (by, groups, times, timed) = (&self.by, &mut self.groups, &mut self.times, self.timed);
        let mut columns = self.types.clone();
        columns.extend(timed.then_some(DataType::Int64));
        let keys: Vec<usize> = (0..self.types.len()).collect();
        self.runs.restore(pieces, ctx.vnodes, |piece| {
            let mut records = 0;
            for batch in decode(piece, &columns)? {
                records += batch.num_rows();
                let batch = own_rows(batch, &keys, piece, ctx.vnodes, ctx.vnode_count)?;
                if batch.num_rows() == 0 {
                    continue;
                }
                let read = by.keys(&batch.columns()[..keys.len()])?;
                let theirs = timed.then(|| batch.column(keys.len()).as_primitive::<Int64Type>());
                let mut row = 0;
                groups.intern(&read, 0..batch.num_rows(), |number| {
                    if let Some(theirs) = theirs {
                        match number as usize {
                            key if key < times.len() => *times.get_mut(key) = theirs.value(row),
                            _ => times.push(theirs.value(row)),
                        }
                    }
                    row += 1;
                })?;
            }
            Ok(records)
        })
    }

    /// Memory held.
    pub(super) fn bytes(&self) -> usize {
        self.groups.bytes() + self.times.bytes() + self.runs.bytes()
    }
}

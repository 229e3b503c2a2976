//! The state of a join in snapshots.
//!
//! A piece holds one chunk as an Arrow IPC stream: the hash and the time of every row, then what is stored of it. A chunk never
//! changes, so its piece is written once: which rows are over follows from the times up to which vnodes have fired (`crate::fired`).
//! What does not follow, who has had a partner, is in one small piece per side: per chunk its name and a bit per row. A restore takes
//! the rows of its own vnodes, so that any task count reads what any other wrote.

use super::bounds::Which;
use super::chunk::{Bits, Chunk, Node};
use super::operator::StreamJoin;
use super::side::{GONE, NONE, pointer};
use crate::fired::FIRED;
use crate::texts::compacted;
use arrow::array::{ArrayRef, AsArray, BooleanArray, Int64Array, RecordBatch, RecordBatchOptions, UInt64Array};
use arrow::buffer::BooleanBuffer;
use arrow::compute::{FilterBuilder, concat_batches};
use arrow::datatypes::{DataType, Field, FieldRef, Int64Type, Schema, SchemaRef, UInt64Type};
use arrow::ipc::reader::StreamReader;
use arrow::ipc::writer::StreamWriter;
use std::collections::HashMap;
use std::sync::Arc;
use tidegate_api::{Epoch, Error, PieceId, RestoredPiece, Result, StatePiece, hash};

/// The version of this format; part of the signature.
pub(super) const VERSION: u32 = 1;

/// What a new piece of the last snapshot holds.
#[derive(Debug, Clone, Copy)]
pub(super) enum Named {
    Chunk(Which, u32),
    Marks(Which),
    Fired,
}

/// Marks by the name of the chunk.
type Marks = HashMap<String, Bits, foldhash::fast::FixedState>;

fn chunk_prefix(which: Which) -> String {
    format!("{}/", which.name())
}

fn marks_name(which: Which) -> String {
    format!("marks/{}", which.name())
}

fn schema(fields: &[FieldRef]) -> SchemaRef {
    let own = [Field::new("hash", DataType::UInt64, false), Field::new("time", DataType::Int64, false)];
    Arc::new(Schema::new(own.into_iter().map(Arc::new).chain(fields.iter().cloned()).collect::<Vec<_>>()))
}

fn encode(chunk: &Chunk, fields: &[FieldRef]) -> Result<Vec<u8>> {
    let hashes: UInt64Array = chunk.nodes.iter().map(|node| node.hash).collect::<Vec<u64>>().into();
    let times: Int64Array = chunk.nodes.iter().map(|node| node.time).collect::<Vec<i64>>().into();
    let own: [ArrayRef; 2] = [Arc::new(hashes), Arc::new(times)];
    // Texts may lie in a pool that other chunks point into as well, and would be written with every one of them.
    let columns: Vec<ArrayRef> = own.into_iter().chain(chunk.columns.iter().cloned().map(compacted)).collect();
    let schema = schema(fields);
    let batch = RecordBatch::try_new(Arc::clone(&schema), columns)?;
    let mut writer = StreamWriter::try_new(Vec::new(), &schema)?;
    writer.write(&batch)?;
    Ok(writer.into_inner()?)
}

impl StreamJoin {
    pub(super) fn pieces(&mut self, epoch: Epoch) -> Result<Vec<StatePiece>> {
        let (vnodes, generation, task) = (self.ctx.vnodes, self.ctx.run.generation.0, self.ctx.task);
        let mut pieces = Vec::new();
        self.named.clear();
        for which in Which::BOTH {
            let side = &mut self.sides[which.index()];
            let slots: Vec<u32> = side.slots().collect();
            for slot in slots {
                let Some(chunk) = side.chunk_mut(pointer(slot, 0)) else { continue };
                match &chunk.piece {
                    Some(id) => pieces.push(StatePiece::Kept(id.clone())),
                    None => {
                        let name = format!("{}{generation}.{}.{task}.{slot}", chunk_prefix(which), epoch.0);
                        let data = encode(chunk, &self.plan.sides[which.index()].fields)?;
                        chunk.name = Some(name.clone());
                        pieces.push(StatePiece::New { name, vnodes, data });
                        self.named.push(Named::Chunk(which, slot));
                    }
                }
            }
            match self.marks[which.index()].as_ref().filter(|_| !side.marks_changed) {
                Some(id) => pieces.push(StatePiece::Kept(id.clone())),
                None => {
                    let data = self.encode_marks(which);
                    if !data.is_empty() {
                        pieces.push(StatePiece::New { name: marks_name(which), vnodes, data });
                        self.named.push(Named::Marks(which));
                    }
                }
            }
        }
        match &self.fired.saved {
            Some(id) => pieces.push(StatePiece::Kept(id.clone())),
            None => {
                pieces.push(StatePiece::New { name: FIRED.into(), vnodes, data: self.fired.encode() });
                self.named.push(Named::Fired);
            }
        }
        Ok(pieces)
    }

    /// The next snapshot refers to no earlier one.
    pub(super) fn forget_saved(&mut self) {
        for side in &mut self.sides {
            let slots: Vec<u32> = side.slots().collect();
            for slot in slots {
                if let Some(chunk) = side.chunk_mut(pointer(slot, 0)) {
                    chunk.piece = None;
                }
            }
        }
        self.marks = [None, None];
        self.fired.saved = None;
    }

    pub(super) fn name_pieces(&mut self, ids: Vec<PieceId>) {
        for (named, id) in std::mem::take(&mut self.named).into_iter().zip(ids) {
            match named {
                Named::Fired => self.fired.saved = Some(id),
                Named::Marks(which) => {
                    self.marks[which.index()] = Some(id);
                    self.sides[which.index()].marks_changed = false;
                }
                Named::Chunk(which, slot) => {
                    if let Some(chunk) = self.sides[which.index()].chunk_mut(pointer(slot, 0)) {
                        chunk.piece = Some(id);
                    }
                }
            }
        }
    }

    /// Per marked chunk: the length of its name, the name, the number of words, the words.
    fn encode_marks(&self, which: Which) -> Vec<u8> {
        let mut data = Vec::new();
        for chunk in self.sides[which.index()].chunks.iter().flatten().filter(|chunk| chunk.matched.any()) {
            let name = chunk.name.as_deref().unwrap_or_default();
            data.extend_from_slice(&(name.len() as u32).to_le_bytes());
            data.extend_from_slice(name.as_bytes());
            data.extend_from_slice(&(chunk.matched.words().len() as u32).to_le_bytes());
            chunk.matched.words().iter().for_each(|word| data.extend_from_slice(&word.to_le_bytes()));
        }
        data
    }

    pub(super) fn take_back(&mut self, pieces: Vec<RestoredPiece>) -> Result<()> {
        let mut marks = [Marks::default(), Marks::default()];
        // What has fired and who has had a partner decide which rows still wait, so they come first.
        for piece in &pieces {
            if piece.name == FIRED {
                self.fired.restore(piece)?;
            }
            for which in Which::BOTH.into_iter().filter(|which| piece.name == marks_name(*which)) {
                decode_marks(&piece.data, &mut marks[which.index()]).ok_or_else(|| damaged(piece, "its marks are cut off"))?;
            }
        }
        for piece in &pieces {
            let chunk = Which::BOTH.into_iter().find(|which| piece.name.starts_with(&chunk_prefix(*which)));
            match chunk {
                Some(which) => self.restore_chunk(which, piece, marks[which.index()].get(&piece.name))?,
                None if piece.name == FIRED || Which::BOTH.into_iter().any(|which| piece.name == marks_name(which)) => {}
                None => return Err(Error::external(format!("state piece `{}` is none of this operator's", piece.name))),
            }
        }
        for side in &mut self.sides {
            side.recent.clear();
            side.marks_changed = side.chunks.iter().flatten().any(|chunk| chunk.matched.any());
        }
        Ok(())
    }

    /// Takes a chunk back, as far as it is ours and waits. One that is ours whole keeps its rows in their places, and its piece.
    fn restore_chunk(&mut self, which: Which, piece: &RestoredPiece, marks: Option<&Bits>) -> Result<()> {
        let own = self.ctx.vnodes;
        let whole = own.covers(piece.vnodes);
        let batch = decode(piece, &self.plan.sides[which.index()].fields)?;
        let hashes = batch.column(0).as_primitive::<UInt64Type>().values();
        let times = batch.column(1).as_primitive::<Int64Type>().values();
        let ends = self.plan.kind.ends_with_a_partner(which);
        let is_matched = |row: usize| marks.is_some_and(|marks| marks.get(row));
        let mut waiting = Vec::with_capacity(batch.num_rows());
        for (row, (hash, time)) in hashes.iter().zip(times).enumerate() {
            let vnode = hash::vnode(*hash, self.ctx.vnode_count);
            let waits =
                own.contains(vnode) && !self.sides[which.index()].is_over(*time, self.fired.of(vnode)?) && !(ends && is_matched(row));
            waiting.push(waits);
        }
        if !waiting.contains(&true) {
            return Ok(());
        }
        let mut columns = batch.columns()[2..].to_vec();
        let mut rows: Vec<usize> = (0..batch.num_rows()).collect();
        if !whole {
            let mask = BooleanArray::new(BooleanBuffer::from(waiting.clone()), None);
            let filter = FilterBuilder::new(&mask).build();
            columns = columns.iter().map(|column| Ok(filter.filter(column.as_ref())?)).collect::<Result<Vec<_>>>()?;
            rows.retain(|row| waiting[*row]);
        }
        let side = &mut self.sides[which.index()];
        let node = |row: &usize| Node { hash: hashes[*row], time: times[*row], next: NONE, prev: GONE };
        let mut chunk = Chunk::new(columns, rows.iter().map(node).collect(), 0, side.marked);
        if side.marked {
            rows.iter().enumerate().filter(|(_, row)| is_matched(**row)).for_each(|(place, _)| chunk.matched.set(place));
        }
        if whole {
            (chunk.name, chunk.piece) = (Some(piece.name.clone()), Some(piece.id.clone()));
        }
        let slot = side.place(chunk);
        for (place, _) in rows.iter().enumerate().filter(|(_, row)| waiting[**row]) {
            side.link(pointer(slot, place));
        }
        Ok(())
    }
}

fn damaged(piece: &RestoredPiece, what: &str) -> Error {
    Error::external(format!("state piece `{}` cannot be read: {what}", piece.name))
}

fn decode(piece: &RestoredPiece, fields: &[FieldRef]) -> Result<RecordBatch> {
    let reader = StreamReader::try_new(piece.data.as_slice(), None).map_err(|error| damaged(piece, &error.to_string()))?;
    let expected = schema(fields);
    let same = reader.schema().fields().len() == expected.fields().len()
        && reader.schema().fields().iter().zip(expected.fields()).all(|(found, expected)| found.data_type() == expected.data_type());
    if !same {
        return Err(damaged(piece, "it has other columns than this stage"));
    }
    let found = reader.schema();
    let batches = reader.collect::<std::result::Result<Vec<_>, _>>().map_err(|error| damaged(piece, &error.to_string()))?;
    match <[RecordBatch; 1]>::try_from(batches) {
        Ok([one]) => {
            let options = RecordBatchOptions::new().with_row_count(Some(one.num_rows()));
            RecordBatch::try_new_with_options(found, one.columns().to_vec(), &options).map_err(|error| damaged(piece, &error.to_string()))
        }
        Err(several) => concat_batches(&found, &several).map_err(|error| damaged(piece, &error.to_string())),
    }
}

fn decode_marks(data: &[u8], marks: &mut Marks) -> Option<()> {
    let mut rest = data;
    while !rest.is_empty() {
        let (length, tail) = rest.split_first_chunk::<4>()?;
        let (name, tail) = tail.split_at_checked(u32::from_le_bytes(*length) as usize)?;
        let (words, tail) = tail.split_first_chunk::<4>()?;
        let (words, tail) = tail.split_at_checked((u32::from_le_bytes(*words) as usize).checked_mul(8)?)?;
        let words = words.chunks_exact(8).map(|word| word.iter().rev().fold(0, |value, byte| value << 8 | u64::from(*byte))).collect();
        marks.insert(String::from_utf8(name.to_vec()).ok()?, Bits::from_words(words));
        rest = tail;
    }
    Some(())
}

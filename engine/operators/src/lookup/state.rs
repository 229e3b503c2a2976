//! The state of a look-up in snapshots.
//!
//! The table is written as it changed: what came since the last snapshot is a new piece, the pieces before are referenced, and a
//! restore takes all of them in the order of their epochs. When they hold far more rows than the table, it is written anew. Rows
//! that wait are one piece, and up to when rows have been joined another.
//!
//! A table that every start reads anew is written too, since what is put aside for want of memory is written as a snapshot is, but its
//! pieces say which generation they are of: those of an earlier one are left out at a restore, and the table comes anew.

use super::bind::Plan;
use super::operator::{LookupJoin, STREAM, TABLE};
use super::table::Change;
use crate::fired::{self, FIRED, Fired};
use arrow::array::{ArrayRef, AsArray, BooleanArray, Int64Array, RecordBatch};
use arrow::compute::{concat_batches, filter_record_batch};
use arrow::datatypes::{DataType, Field, Int64Type, Schema, SchemaRef};
use arrow::ipc::reader::StreamReader;
use arrow::ipc::writer::StreamWriter;
use std::sync::Arc;
use tidegate_api::{Epoch, Error, PieceId, RestoredPiece, Result, StatePiece, VnodeRange, hidden};

/// The version of this format; part of the signature.
pub(super) const VERSION: u32 = 1;
const WAITING: &str = "waiting";
const CHANGES: &str = "table/";
/// Rows that the pieces may hold beyond twice the table before it is written anew.
const SLACK: usize = 1 << 16;

/// What is written of the table, and what is not yet.
#[derive(Debug, Default)]
pub(super) struct Log {
    fresh: Vec<(RecordBatch, Vec<Change>)>,
    fresh_rows: usize,
    /// The pieces so far, and the rows in them.
    saved: Vec<PieceId>,
    saved_rows: usize,
    /// A piece holds more than ours, or is to be forgotten, so that none can be referenced.
    foreign: bool,
    named: Vec<Named>,
}

#[derive(Debug, Clone, Copy)]
enum Named {
    Changes,
    Waiting,
    Fired,
}

impl Log {
    pub(super) fn add(&mut self, rows: RecordBatch, changes: Vec<Change>) {
        self.fresh_rows += changes.len();
        self.fresh.push((rows, changes));
    }

    /// The next snapshot refers to no earlier one: the table is written anew.
    pub(super) fn forget(&mut self) {
        self.foreign = true;
    }

    pub(super) fn named(&mut self, ids: Vec<PieceId>, fired: &mut Fired) {
        for (named, id) in self.named.drain(..).zip(ids) {
            match named {
                Named::Changes => self.saved.push(id),
                Named::Waiting => {}
                Named::Fired => fired.saved = Some(id),
            }
        }
    }
}

impl LookupJoin {
    /// How the names of the pieces begin that hold changes of the table as it is now.
    fn changes_prefix(&self) -> String {
        if self.plan.reloads { format!("{CHANGES}{}/", self.ctx.run.generation.0) } else { CHANGES.to_string() }
    }

    pub(super) fn pieces(&mut self, epoch: Epoch) -> Result<Vec<StatePiece>> {
        let vnodes = self.ctx.vnodes;
        let mut pieces = Vec::new();
        self.log.named.clear();
        let held = self.log.saved_rows + self.log.fresh_rows;
        if self.log.foreign || held > 2 * self.table.live() + SLACK {
            self.log.fresh = self.table.rewritten()?;
            self.log.fresh_rows = self.log.fresh.iter().map(|(_, changes)| changes.len()).sum();
            (self.log.saved, self.log.saved_rows, self.log.foreign) = (Vec::new(), 0, false);
        }
        pieces.extend(self.log.saved.iter().cloned().map(StatePiece::Kept));
        if !self.log.fresh.is_empty() {
            let data = encode_changes(&self.plan, &self.log.fresh)?;
            pieces.push(StatePiece::New { name: format!("{}{:020}", self.changes_prefix(), epoch.0), vnodes, data });
            self.log.named.push(Named::Changes);
            self.log.saved_rows += std::mem::take(&mut self.log.fresh_rows);
            self.log.fresh.clear();
        }
        if !self.waiting.is_empty() {
            let all = concat_batches(&self.plan.left, &self.waiting)?;
            pieces.push(StatePiece::New { name: WAITING.into(), vnodes, data: encode(&all)? });
            self.log.named.push(Named::Waiting);
        }
        if self.plan.times.is_some() {
            match &self.fired.saved {
                Some(id) => pieces.push(StatePiece::Kept(id.clone())),
                None => {
                    pieces.push(StatePiece::New { name: FIRED.into(), vnodes, data: self.fired.encode() });
                    self.log.named.push(Named::Fired);
                }
            }
        }
        self.set_gauge();
        Ok(pieces)
    }

    pub(super) fn set_gauge(&self) {
        let waiting: usize = self.waiting.iter().map(RecordBatch::get_array_memory_size).sum();
        self.ctx.state_bytes.set((self.table.bytes() + waiting) as u64);
    }

    pub(super) fn take_back(&mut self, mut pieces: Vec<RestoredPiece>) -> Result<()> {
        // First up to when rows have been joined, which decides what of the table is needed.
        for piece in pieces.iter().filter(|piece| piece.name == FIRED) {
            self.fired.restore(piece)?;
        }
        pieces.retain(|piece| piece.name != FIRED);
        let current = self.changes_prefix();
        pieces.retain(|piece| !piece.name.starts_with(CHANGES) || piece.name.starts_with(&current));
        // A key's changes lie in the pieces of one task at a time, and come in the order in which they were written.
        for piece in &pieces {
            if piece.name == WAITING {
                for batch in decode(piece, &self.plan.left)? {
                    let own = self.own(STREAM, piece, batch, 0)?;
                    if own.num_rows() > 0 {
                        self.waiting.push_back(own);
                    }
                }
            } else if piece.name.starts_with(CHANGES) {
                for batch in decode(piece, &changes_schema(&self.plan))? {
                    let own = self.own(TABLE, piece, batch, OWN_COLUMNS)?;
                    self.log.saved_rows += own.num_rows();
                    let (rows, changes) = split(&self.plan, &own)?;
                    self.change(rows, changes, false)?;
                }
                self.log.foreign |= !self.ctx.vnodes.covers(piece.vnodes);
                self.log.saved.push(piece.id.clone());
            } else {
                return Err(Error::external(format!("state piece `{}` is none of this operator's", piece.name)));
            }
        }
        Ok(())
    }

    /// The rows of a piece whose keys are ours; the input's columns begin behind `before` others.
    fn own(&self, input: usize, piece: &RestoredPiece, batch: RecordBatch, before: usize) -> Result<RecordBatch> {
        let own: VnodeRange = self.ctx.vnodes;
        if own.covers(piece.vnodes) {
            return Ok(batch);
        }
        let keys: Vec<ArrayRef> = self.plan.keys[input].iter().map(|index| Arc::clone(batch.column(before + index))).collect();
        let vnodes = fired::vnodes(&keys, batch.num_rows(), self.ctx.vnode_count, &mut Vec::new())?;
        let ours: BooleanArray = vnodes.iter().map(|vnode| Some(own.contains(*vnode))).collect();
        Ok(filter_record_batch(&batch, &ours)?)
    }
}

/// The columns before the table's own in a piece of changes.
const OWN_COLUMNS: usize = 2;

fn changes_schema(plan: &Plan) -> SchemaRef {
    let own = [Field::new("since", DataType::Int64, false), Field::new("delete", DataType::Boolean, false)];
    let theirs = hidden::visible_schema(&plan.right);
    Arc::new(Schema::new(own.into_iter().map(Arc::new).chain(theirs.fields().iter().cloned()).collect::<Vec<_>>()))
}

fn encode_changes(plan: &Plan, parts: &[(RecordBatch, Vec<Change>)]) -> Result<Vec<u8>> {
    let schema = changes_schema(plan);
    let mut writer = StreamWriter::try_new(Vec::new(), &schema)?;
    for (rows, changes) in parts {
        let since: Int64Array = changes.iter().map(|change| change.since).collect::<Vec<i64>>().into();
        let delete: BooleanArray = changes.iter().map(|change| Some(change.delete)).collect();
        let own: [ArrayRef; OWN_COLUMNS] = [Arc::new(since), Arc::new(delete)];
        let columns = own.into_iter().chain(rows.columns().iter().cloned()).collect();
        writer.write(&RecordBatch::try_new(Arc::clone(&schema), columns)?)?;
    }
    Ok(writer.into_inner()?)
}

fn split(plan: &Plan, batch: &RecordBatch) -> Result<(RecordBatch, Vec<Change>)> {
    let since = batch.column(0).as_primitive::<Int64Type>();
    let delete = batch.column(1).as_boolean();
    let changes = (0..batch.num_rows()).map(|row| Change { since: since.value(row), delete: delete.value(row) }).collect();
    let rows = RecordBatch::try_new(hidden::visible_schema(&plan.right), batch.columns()[OWN_COLUMNS..].to_vec())?;
    Ok((rows, changes))
}

fn encode(batch: &RecordBatch) -> Result<Vec<u8>> {
    let mut writer = StreamWriter::try_new(Vec::new(), batch.schema_ref())?;
    writer.write(batch)?;
    Ok(writer.into_inner()?)
}

fn decode(piece: &RestoredPiece, schema: &SchemaRef) -> Result<Vec<RecordBatch>> {
    let damaged = |what: String| Error::external(format!("state piece `{}` cannot be read: {what}", piece.name));
    let reader = StreamReader::try_new(piece.data.as_slice(), None).map_err(|error| damaged(error.to_string()))?;
    let fits = |found: &RecordBatch| {
        let types = |schema: &SchemaRef| schema.fields().iter().map(|field| field.data_type().clone()).collect::<Vec<_>>();
        types(found.schema_ref()) == types(schema)
    };
    reader
        .map(|batch| {
            let batch = batch.map_err(|error| damaged(error.to_string()))?;
            if fits(&batch) { Ok(batch) } else { Err(damaged("it has other columns than this stage".into())) }
        })
        .collect()
}

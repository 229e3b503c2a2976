//! Groups and their aggregates in snapshots.
//!
//! A piece is an Arrow IPC stream: a column of vnodes, the columns of the step itself, the group columns, the state columns
//! of every aggregate. A restore takes the rows of its own vnodes, so that any task count reads what any other wrote.

use crate::fired::vnodes;
use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, RecordBatch, RecordBatchOptions, UInt16Array};
use arrow::compute::filter_record_batch;
use arrow::datatypes::{DataType, Field, Schema, UInt16Type};
use arrow::ipc::reader::StreamReader;
use arrow::ipc::writer::StreamWriter;
use std::sync::Arc;
use tidegate_api::{DeferredBytes, Error, MakeBytes, RestoredPiece, Result, VnodeRange};

/// Some rows of a piece, as they were written.
#[derive(Debug)]
pub(crate) struct Piece<'a> {
    /// The columns of the step itself.
    pub(crate) own: &'a [ArrayRef],
    /// The group columns.
    pub(crate) groups: &'a [ArrayRef],
    /// The state columns of each aggregate.
    pub(crate) states: Vec<&'a [ArrayRef]>,
    /// How many rows.
    pub(crate) rows: usize,
}

/// Some groups on their way into a snapshot.
#[derive(Debug)]
pub(crate) struct Content {
    /// The columns of the step itself.
    pub(crate) own: Vec<ArrayRef>,
    /// The group columns.
    pub(crate) groups: Vec<ArrayRef>,
    /// The state columns of each aggregate.
    pub(crate) states: Vec<Vec<ArrayRef>>,
    /// How many groups.
    pub(crate) rows: usize,
}

/// How groups are dealt out: those of their columns that decide it, and the number of vnodes.
#[derive(Debug, Clone)]
pub(crate) struct Dealing {
    /// Indices of group columns.
    pub(crate) by: Vec<usize>,
    /// Vnodes of the stage.
    pub(crate) count: u16,
}

impl Content {
    /// The bytes of a piece, made when they are written. The columns are shared until then, and no copy is held beside them.
    pub(crate) fn deferred(self, dealing: &Dealing) -> DeferredBytes {
        DeferredBytes(Arc::new(Waiting { content: self, dealing: dealing.clone() }))
    }

    /// The bytes of a piece.
    ///
    /// # Errors
    /// `Internal` when an array cannot be made or written.
    pub(crate) fn encode(&self, dealing: &Dealing) -> Result<Vec<u8>> {
        let dealt: Vec<ArrayRef> = dealing.by.iter().map(|index| Arc::clone(&self.groups[*index])).collect();
        let vnodes = vnodes(&dealt, self.rows, dealing.count, &mut Vec::new())?;
        let mut fields = vec![Field::new("vnode", DataType::UInt16, false)];
        let mut columns: Vec<ArrayRef> = vec![Arc::new(UInt16Array::from(vnodes))];
        let mut add = |name: String, column: &ArrayRef| {
            fields.push(Field::new(name, column.data_type().clone(), true));
            columns.push(Arc::clone(column));
        };
        self.own.iter().enumerate().for_each(|(index, column)| add(format!("own{index}"), column));
        self.groups.iter().enumerate().for_each(|(index, column)| add(format!("group{index}"), column));
        for (index, state) in self.states.iter().enumerate() {
            state.iter().enumerate().for_each(|(part, column)| add(format!("aggregate{index}.{part}"), column));
        }
        let schema = Arc::new(Schema::new(fields));
        let options = RecordBatchOptions::new().with_row_count(Some(self.rows));
        let batch = RecordBatch::try_new_with_options(Arc::clone(&schema), columns, &options)?;
        let mut writer = StreamWriter::try_new(Vec::new(), &schema)?;
        writer.write(&batch)?;
        Ok(writer.into_inner()?)
    }
}

#[derive(Debug)]
struct Waiting {
    content: Content,
    dealing: Dealing,
}

impl MakeBytes for Waiting {
    fn estimate(&self) -> u64 {
        let Content { own, groups, states, rows } = &self.content;
        let columns = own.iter().chain(groups).chain(states.iter().flatten());
        let bytes: usize = columns.map(|column| column.to_data().get_slice_memory_size().unwrap_or(0)).sum();
        (bytes + rows * size_of::<u16>()) as u64
    }

    fn make(&self) -> Result<Vec<u8>> {
        self.content.encode(&self.dealing)
    }
}

/// Reads a piece, as far as it is ours. `own_columns`, `group_columns` and `widths` say how many columns of each kind it has.
///
/// # Errors
/// `External` when the piece cannot be decoded; those of `each`.
pub(crate) fn restore(
    piece: &RestoredPiece,
    own_columns: usize,
    group_columns: usize,
    widths: &[usize],
    own: VnodeRange,
    mut each: impl FnMut(Piece<'_>) -> Result<()>,
) -> Result<()> {
    let damaged = |what: String| Error::external(format!("state piece `{}` cannot be read: {what}", piece.name));
    let reader = StreamReader::try_new(piece.data.as_slice(), None).map_err(|error| damaged(error.to_string()))?;
    let whole = own.covers(piece.vnodes);
    for batch in reader {
        let mut batch = batch.map_err(|error| damaged(error.to_string()))?;
        if batch.num_columns() != 1 + own_columns + group_columns + widths.iter().sum::<usize>() {
            return Err(damaged("it has other columns than this stage".into()));
        }
        if !whole {
            let vnodes = batch.column(0).as_primitive_opt::<UInt16Type>().ok_or_else(|| damaged("it has no vnodes".into()))?;
            let ours: BooleanArray = vnodes.values().iter().map(|vnode| Some(own.contains(*vnode))).collect();
            batch = filter_record_batch(&batch, &ours)?;
        }
        if batch.num_rows() == 0 {
            continue;
        }
        let (step, rest) = batch.columns()[1..].split_at(own_columns);
        let (groups, mut rest) = rest.split_at(group_columns);
        let mut states = Vec::with_capacity(widths.len());
        for width in widths {
            let (state, others) = rest.split_at(*width);
            states.push(state);
            rest = others;
        }
        each(Piece { own: step, groups, states, rows: batch.num_rows() })?;
    }
    Ok(())
}

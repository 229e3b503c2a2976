//! What steps share that keep state for every key, for long: one small record per key, or rows in chunks that never move.
//!
//! A key costs its own bytes, a slot of eight (32 bits of hash, 32 of number), and what its step keeps beside it in dense
//! columns. Snapshots write what has changed since the last one and refer to the rest.
//!
//! | file | what |
//! |---|---|
//! | `pieces.rs` | columns as the bytes of a state piece, and back |
//! | `runs.rs` | which records each piece of a snapshot holds, and which have changed since |
//! | `order.rs` | the order of rows, as words and bytes |
//! | `store.rs` | rows in chunks that never move |
//! | `moves.rs` | rows that move out of chunks that are dead in part |
//! | `list.rs` | the candidates of one group in their order |
//! | `ranking.rs` | the first rows of every group: candidates and their rows together |

mod list;
mod moves;
mod order;
mod pieces;
mod ranking;
mod runs;
mod store;

pub(crate) use order::{Direction, Order, RowHash, can_order, is_word, words};
pub(crate) use pieces::{decode, deferred, own_rows};
pub(crate) use ranking::{Change, Ranking, Shape};
pub(crate) use runs::{Runs, Saved, run_number};
pub(crate) use store::Across;

use arrow::array::{ArrayRef, RecordBatch};
use arrow::datatypes::SchemaRef;
use std::sync::Arc;
use tidegate_api::{Output, hidden};

/// Emits a batch in portions of at most `limit` rows; they share its memory.
pub(crate) fn emit_cut(batch: RecordBatch, limit: usize, out: &mut Output) {
    let limit = limit.max(1);
    if batch.num_rows() <= limit {
        return out.emit(batch);
    }
    for start in (0..batch.num_rows()).step_by(limit) {
        out.emit(batch.slice(start, limit.min(batch.num_rows() - start)));
    }
}

/// The columns of a batch, without the hidden ones.
pub(crate) fn visible_columns(batch: &RecordBatch) -> Vec<ArrayRef> {
    let fields = batch.schema_ref().fields().iter();
    fields.zip(batch.columns()).filter(|(field, _)| !hidden::is_hidden(field.name())).map(|(_, column)| Arc::clone(column)).collect()
}

/// The names that a step reads of its input to make the output columns `needed`: those of them that the input has, and `always`.
pub(crate) fn needed_of(
    input: &SchemaRef,
    needed: &std::collections::BTreeSet<String>,
    always: &std::collections::BTreeSet<String>,
) -> std::collections::BTreeSet<String> {
    let carried = needed.iter().filter(|name| !hidden::is_hidden(name) && input.field_with_name(name).is_ok());
    carried.chain(always).cloned().collect()
}

#[cfg(test)]
pub(crate) mod testing;

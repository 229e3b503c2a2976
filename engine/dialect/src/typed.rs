//! A typed expression and its compiled form: what the rest of the engine sees.

use crate::Diagnostic;
use arrow::array::{ArrayRef, RecordBatch};
use arrow::datatypes::{DataType, SchemaRef};
use std::collections::BTreeSet;
use tidegate_api::{EqualTo, EventTime};

/// Parses `text` and types it against `schema`.
pub fn bind(text: &str, schema: &SchemaRef) -> Result<Typed, Diagnostic> {
    let _ = schema;
    Err(Diagnostic::new(text, 0..text.len(), "expressions cannot be bound yet"))
}

/// An expression whose columns, functions and types are settled. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Typed {
    text: String,
    data_type: DataType,
    columns: BTreeSet<String>,
    uses_now: bool,
    equals: Equals,
}

/// The top-level conjuncts of the form `column == literal` or `column in [literals]`.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Equals {
    /// The conditions, one per column at most, with at least one value each.
    pub conjuncts: Vec<EqualTo>,
    /// Whether the expression says nothing else: a filter whose conjuncts are all applied elsewhere can be dropped.
    pub whole: bool,
}

impl Typed {
    /// The text it was bound from.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The type of its values.
    pub fn data_type(&self) -> &DataType {
        &self.data_type
    }

    /// The columns it reads.
    pub fn columns(&self) -> &BTreeSet<String> {
        &self.columns
    }

    /// Whether it depends on `now()`.
    pub fn uses_now(&self) -> bool {
        self.uses_now
    }

    /// Conditions that a source could apply instead.
    pub fn equals(&self) -> &Equals {
        &self.equals
    }

    /// The parts that are evaluated row by row because no kernel reproduces them, as they stand in the text.
    pub fn per_row_parts(&self) -> Vec<String> {
        Vec::new()
    }

    /// The form that evaluates batches of the schema it was bound to.
    pub fn compile(&self) -> Compiled {
        Compiled { typed: self.clone() }
    }
}

/// An expression ready to evaluate batches. Cheap to clone; a clone may live on another thread.
#[derive(Debug, Clone)]
pub struct Compiled {
    typed: Typed,
}

/// The values of an expression over a batch.
#[derive(Debug, Clone)]
pub struct Evaluated {
    /// One value per row; null where the row is bad.
    pub values: ArrayRef,
    /// The rows whose evaluation failed, in ascending order, each with the reason.
    pub bad: Vec<(usize, String)>,
}

impl Compiled {
    /// Evaluates every row of `batch`, whose columns are those of the schema it was bound to. `now` is the value of `now()`:
    /// the one that the barrier before these rows carried.
    pub fn evaluate(&self, batch: &RecordBatch, now: EventTime) -> Evaluated {
        let _ = now;
        Evaluated { values: arrow::array::new_null_array(self.typed.data_type(), batch.num_rows()), bad: Vec::new() }
    }
}

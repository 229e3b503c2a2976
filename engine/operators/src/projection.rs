//! The one inline step behind `select`, `drop`, `rename`, `applyExpression` and `cast`: each output column is an input
//! column, or is computed. The steps differ in how they are written, not in how they run.

use crate::cast::Cast;
use crate::expression::BadRows;
use crate::step::{BindCtx, Bound, BoundNode, StreamType};
use arrow::array::{ArrayRef, BooleanArray, RecordBatch, RecordBatchOptions};
use arrow::compute::FilterBuilder;
use arrow::datatypes::{Field, FieldRef, Schema, SchemaRef};
use std::collections::BTreeSet;
use std::sync::Arc;
use tidegate_api::{ChangeMode, EventTime, Output, Result, Step, StepCtx, StepFactory, hidden};
use tidegate_dialect::{Compiled, Typed};

/// Where an output column comes from.
#[derive(Clone)]
pub(crate) enum Origin {
    /// An input column, as it is.
    Column(usize),
    /// An input column, in another type.
    Cast(usize, Cast),
    /// An expression, in its own type or another.
    Expression(Compiled, Option<Cast>),
}

/// One output column.
#[derive(Clone)]
pub(crate) struct Item {
    field: FieldRef,
    origin: Origin,
    reads: BTreeSet<String>,
}

impl Item {
    /// An input column under its own name.
    pub(crate) fn column(schema: &SchemaRef, index: usize) -> Self {
        let field = &schema.fields()[index];
        Item { field: Arc::clone(field), origin: Origin::Column(index), reads: BTreeSet::from([field.name().clone()]) }
    }

    /// The same column under another name.
    #[must_use]
    pub(crate) fn named(mut self, name: &str) -> Self {
        self.field = Arc::new(self.field.as_ref().clone().with_name(name));
        self
    }

    /// An input column in another type.
    pub(crate) fn cast(schema: &SchemaRef, index: usize, cast: Cast) -> Self {
        let mut item = Item::column(schema, index);
        let nullable = cast.may_null() || item.field.is_nullable();
        item.field = Arc::new(Field::new(item.field.name(), cast.to().clone(), nullable));
        item.origin = Origin::Cast(index, cast);
        item
    }

    /// A computed column.
    pub(crate) fn expression(name: &str, typed: &Typed, cast: Option<Cast>) -> Self {
        let data_type = cast.as_ref().map_or(typed.data_type(), Cast::to);
        Item {
            field: Arc::new(Field::new(name, data_type.clone(), true)),
            origin: Origin::Expression(typed.compile(), cast),
            reads: typed.columns().clone(),
        }
    }

    /// The output column's name.
    pub(crate) fn name(&self) -> &str {
        self.field.name()
    }
}

/// The indices of the visible columns.
pub(crate) fn visible(schema: &SchemaRef) -> impl Iterator<Item = usize> + '_ {
    schema.fields().iter().enumerate().filter(|(_, field)| !hidden::is_hidden(field.name())).map(|(index, _)| index)
}

/// The index of a visible column.
pub(crate) fn find(schema: &SchemaRef, name: &str) -> Option<usize> {
    visible(schema).find(|index| schema.field(*index).name() == name)
}

/// The names of the visible columns, for hints.
pub(crate) fn names(schema: &SchemaRef) -> impl Iterator<Item = &str> {
    visible(schema).map(|index| schema.field(index).name().as_str())
}

/// The hidden columns that a step carries: `_key` when rows carry keys, every other always.
pub(crate) fn carried(schema: &SchemaRef, cx: &BindCtx) -> Vec<usize> {
    let carries = |name: &str| hidden::is_hidden(name) && (name != hidden::KEY || cx.keys);
    schema.fields().iter().enumerate().filter(|(_, field)| carries(field.name())).map(|(index, _)| index).collect()
}

/// Whether an output column stays: somebody reads it, or it is a key of the stream.
pub(crate) fn stays(name: &str, mode: &ChangeMode, cx: &BindCtx) -> bool {
    let key = match mode {
        ChangeMode::Append => false,
        ChangeMode::Upsert { keys } => keys.iter().any(|key| key == name),
    };
    key || cx.needed.as_ref().is_none_or(|needed| needed.contains(name))
}

/// Binds a step whose visible output columns are `items`, under the change mode `mode`.
pub(crate) fn bind(op: &'static str, input: &StreamType, mode: ChangeMode, items: Vec<Item>, details: String, cx: &BindCtx) -> Bound {
    let mut items: Vec<Item> = items.into_iter().filter(|item| stays(item.name(), &mode, cx)).collect();
    items.extend(carried(&input.schema, cx).into_iter().map(|index| Item::column(&input.schema, index)));
    let fields: Vec<FieldRef> = items.iter().map(|item| Arc::clone(&item.field)).collect();
    let schema: SchemaRef = Arc::new(Schema::new_with_metadata(fields, input.schema.metadata().clone()));
    let always = always_needed(&input.schema, &mode, &items);
    let reads: Vec<(String, BTreeSet<String>)> = items.iter().map(|item| (item.name().to_string(), item.reads.clone())).collect();
    Bound {
        output: StreamType { schema: Arc::clone(&schema), mode },
        node: BoundNode::Step(Arc::new(ProjectionFactory { op, schema, items })),
        required: Box::new(move |needed| {
            let mut columns = always.clone();
            for (_, read) in reads.iter().filter(|(name, _)| needed.contains(name)) {
                columns.extend(read.iter().cloned());
            }
            vec![columns]
        }),
        equals: Vec::new(),
        details,
    }
}

fn always_needed(schema: &SchemaRef, mode: &ChangeMode, items: &[Item]) -> BTreeSet<String> {
    let mut always: BTreeSet<String> =
        schema.fields().iter().map(|field| field.name()).filter(|name| *name == hidden::OP).cloned().collect();
    if let ChangeMode::Upsert { keys } = mode {
        for item in items.iter().filter(|item| keys.iter().any(|key| key == item.name())) {
            always.extend(item.reads.iter().cloned());
        }
    }
    always
}

struct ProjectionFactory {
    op: &'static str,
    schema: SchemaRef,
    items: Vec<Item>,
}

impl StepFactory for ProjectionFactory {
    fn name(&self) -> &str {
        self.op
    }

    fn output_schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    fn open(&self, _ctx: StepCtx) -> Result<Box<dyn Step>> {
        Ok(Box::new(Projection { schema: Arc::clone(&self.schema), items: self.items.clone() }))
    }
}

struct Projection {
    schema: SchemaRef,
    items: Vec<Item>,
}

impl Step for Projection {
    fn apply(&mut self, batch: RecordBatch, now: EventTime, out: &mut Output) -> Result<()> {
        let mut bad = BadRows::default();
        let mut columns: Vec<ArrayRef> = Vec::with_capacity(self.items.len());
        for item in &self.items {
            columns.push(match &item.origin {
                Origin::Column(index) => Arc::clone(batch.column(*index)),
                Origin::Cast(index, cast) => cast.apply(batch.column(*index), &mut bad)?,
                Origin::Expression(expression, cast) => {
                    let evaluated = expression.evaluate(&batch, now);
                    bad.add_failed(evaluated.bad, Some(item.name()));
                    match cast {
                        Some(cast) => cast.apply(&evaluated.values, &mut bad)?,
                        None => evaluated.values,
                    }
                }
            });
        }
        let made = assemble(&self.schema, columns, batch.num_rows(), &bad)?;
        bad.report(&batch, out);
        out.emit(made);
        Ok(())
    }
}

/// The rows of `columns` that are not bad. Bad rows leave before the batch is put together, since a column that is null there
/// may be declared without nulls.
fn assemble(schema: &SchemaRef, mut columns: Vec<ArrayRef>, rows: usize, bad: &BadRows) -> Result<RecordBatch> {
    if !bad.is_empty() {
        let mask = BooleanArray::new(bad.good(rows), None);
        let predicate = FilterBuilder::new(&mask).build();
        for column in &mut columns {
            *column = predicate.filter(column.as_ref())?;
        }
    }
    let options = RecordBatchOptions::new().with_row_count(Some(rows - bad.len()));
    Ok(RecordBatch::try_new_with_options(Arc::clone(schema), columns, &options)?)
}

//! `unnest`: a row per element of a list.

use crate::expression::at;
use crate::projection::{carried, find, names, stays, visible};
use crate::step::{BindCtx, Bound, BoundNode, KeyInfo, StepDef, StepInfo, StreamType};
use arrow::array::{Array, ArrayRef, AsArray, BinaryArray, RecordBatch, RecordBatchOptions, UInt64Array};
use arrow::compute::{cast, take};
use arrow::datatypes::{DataType, Field, FieldRef, Schema, SchemaRef};
use serde_json::{Map, Value};
use std::collections::BTreeSet;
use std::sync::Arc;
use tidegate_api::config::{Options, Problem};
use tidegate_api::nearest::hint;
use tidegate_api::{ChangeMode, Error, EventTime, Output, Result as ApiResult, Step, StepCtx, StepFactory, hidden, key, types};

pub(crate) const INFO: StepInfo = StepInfo {
    op: "unnest",
    summary: "Makes a row of every element of a list, in the list's order, beside the other columns of its row. A row whose list is empty or null is left out and counted as filtered, unless `keepEmpty` is true: then it stays, with null for the element.",
    keys: &[
        KeyInfo { name: "column", takes: "column", text: "the list" },
        KeyInfo { name: "alias", takes: "name?", text: "the element's column; by default it keeps the list's name" },
        KeyInfo { name: "keepEmpty", takes: "bool?", text: "whether rows without elements stay; false by default" },
    ],
    output: "the columns that come in, with the element in the list's place; append",
    example: "{ op = \"unnest\", column = \"tags\", alias = \"tag\" }",
    parse,
};

/// Rows of one emitted batch: a long list must not make one great batch.
const PORTION: usize = 8192;

#[derive(Debug)]
struct UnnestDef {
    column: String,
    alias: String,
    keep_empty: bool,
}

fn parse(map: &Map<String, Value>) -> Result<Box<dyn StepDef>, Vec<Problem>> {
    let mut options = Options::new(map);
    let _ = options.string("op");
    let column = options.require_string("column");
    let alias = options.string("alias");
    if alias.as_deref().is_some_and(hidden::is_hidden) {
        options.problem("alias", "this name is reserved");
    }
    let keep_empty = options.boolean("keepEmpty").unwrap_or(false);
    let problems = options.finish();
    match column {
        Some(column) if problems.is_empty() => {
            Ok(Box::new(UnnestDef { alias: alias.unwrap_or_else(|| column.clone()), column, keep_empty }))
        }
        _ => Err(problems),
    }
}

impl StepDef for UnnestDef {
    fn op(&self) -> &'static str {
        INFO.op
    }

    fn bind(&self, inputs: &[StreamType], cx: &BindCtx) -> Result<Bound, Vec<Problem>> {
        let input = crate::step::one_input(inputs)?;
        let schema = &input.schema;
        if let ChangeMode::Upsert { keys } = &input.mode {
            let message = format!(
                "the rows that come in replace earlier ones of equal `{}`; the elements of a replaced list would stay: unnest before the step that \
                 makes updates",
                keys.join("`, `")
            );
            return Err(vec![at(&["op"], message)]);
        }
        let Some(list) = find(schema, &self.column) else {
            return Err(vec![at(&["column"], format!("there is no column `{}`{}", self.column, hint(&self.column, names(schema))))]);
        };
        let Some(element) = element(schema.field(list).data_type()) else {
            let found = types::name(schema.field(list).data_type());
            return Err(vec![at(&["column"], format!("`{}` is of type `{found}`, not a list", self.column))]);
        };
        if self.alias != self.column && find(schema, &self.alias).is_some() {
            return Err(vec![at(&["alias"], format!("there is a column `{}` already", self.alias))]);
        }
        let made: FieldRef = Arc::new(Field::new(&self.alias, element.data_type().clone(), element.is_nullable() || self.keep_empty));
        let name = |index: usize| if index == list { self.alias.as_str() } else { schema.field(index).name().as_str() };
        let kept = visible(schema).filter(|index| stays(name(*index), &input.mode, cx));
        let columns: Vec<usize> = kept.chain(carried(schema, cx)).collect();
        let fields: Vec<FieldRef> =
            columns.iter().map(|index| if *index == list { Arc::clone(&made) } else { Arc::clone(&schema.fields()[*index]) }).collect();
        let output: SchemaRef = Arc::new(Schema::new_with_metadata(fields, schema.metadata().clone()));
        let (column, alias) = (self.column.clone(), self.alias.clone());
        let factory = Unnest { schema: Arc::clone(&output), list, columns, keep_empty: self.keep_empty };
        let details = format!("{} as {}{}", self.column, self.alias, if self.keep_empty { ", empty ones too" } else { "" });
        Ok(Bound {
            output: StreamType::append(output),
            node: BoundNode::Step(Arc::new(factory)),
            required: Box::new(move |needed| {
                let mut columns: BTreeSet<String> = needed.iter().filter(|name| **name != alias).cloned().collect();
                columns.insert(column.clone());
                vec![columns]
            }),
            equals: Vec::new(),
            details,
        })
    }
}

fn element(list: &DataType) -> Option<&FieldRef> {
    match list {
        DataType::List(element) | DataType::LargeList(element) | DataType::FixedSizeList(element, _) => Some(element),
        _ => None,
    }
}

#[derive(Debug, Clone)]
struct Unnest {
    schema: SchemaRef,
    list: usize,
    /// The input column behind each output column.
    columns: Vec<usize>,
    keep_empty: bool,
}

impl StepFactory for Unnest {
    fn name(&self) -> &str {
        INFO.op
    }

    fn output_schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    fn open(&self, _: StepCtx) -> ApiResult<Box<dyn Step>> {
        Ok(Box::new(Unnesting { plan: self.clone(), places: Places::default() }))
    }
}

/// Where output rows come from.
#[derive(Debug, Default)]
struct Places {
    rows: Vec<u64>,
    /// In the list's elements; none for an empty list that is kept.
    elements: Vec<Option<u64>>,
    /// The number of the element within its list, from 0.
    numbers: Vec<u64>,
}

impl Places {
    fn push(&mut self, row: usize, element: Option<u64>, number: u64) {
        self.rows.push(row as u64);
        self.elements.push(element);
        self.numbers.push(number);
    }

    fn clear(&mut self) {
        self.rows.clear();
        self.elements.clear();
        self.numbers.clear();
    }
}

struct Unnesting {
    plan: Unnest,
    places: Places,
}

impl Step for Unnesting {
    fn apply(&mut self, batch: RecordBatch, _: EventTime, out: &mut Output) -> ApiResult<()> {
        let column = batch.column(self.plan.list);
        let Some(field) = element(column.data_type()) else { return Err(Error::internal("the column to unnest is no list")) };
        // Offsets of 64 bits hold those of every kind of list.
        let lists = cast(column, &DataType::LargeList(Arc::clone(field)))?;
        let lists = lists.as_list::<i64>();
        for row in 0..batch.num_rows() {
            let (from, to) = (lists.value_offsets()[row], lists.value_offsets()[row + 1]);
            if lists.is_null(row) || from == to {
                match self.plan.keep_empty {
                    true => self.places.push(row, None, 0),
                    false => out.filtered += 1,
                }
            } else {
                for (number, element) in (from..to).enumerate() {
                    self.places.push(row, Some(element as u64), number as u64);
                    if self.places.rows.len() == PORTION {
                        out.emit(self.portion(&batch, lists.values())?);
                    }
                }
            }
            if self.places.rows.len() == PORTION {
                out.emit(self.portion(&batch, lists.values())?);
            }
        }
        out.emit(self.portion(&batch, lists.values())?);
        Ok(())
    }
}

impl Unnesting {
    /// The rows gathered in `places`, which is empty then.
    fn portion(&mut self, batch: &RecordBatch, elements: &ArrayRef) -> ApiResult<RecordBatch> {
        let rows = UInt64Array::from_iter_values(self.places.rows.iter().copied());
        let mut columns = Vec::with_capacity(self.plan.columns.len());
        for &index in &self.plan.columns {
            columns.push(if index == self.plan.list {
                take(elements, &UInt64Array::from_iter(self.places.elements.iter().copied()), None)?
            } else if batch.schema_ref().field(index).name() == hidden::KEY {
                let keys = batch.column(index).as_binary_opt::<i32>().ok_or_else(|| Error::internal("`_key` is not a binary column"))?;
                self.keys(keys)?
            } else {
                take(batch.column(index), &rows, None)?
            });
        }
        let options = RecordBatchOptions::new().with_row_count(Some(rows.len()));
        self.places.clear();
        Ok(RecordBatch::try_new_with_options(Arc::clone(&self.plan.schema), columns, &options)?)
    }

    /// The key of an element's row: its row's, and the element's number.
    fn keys(&self, keys: &BinaryArray) -> ApiResult<ArrayRef> {
        let made = key::build(self.places.rows.len(), |at, made| {
            made.extend_from_slice(keys.value(self.places.rows[at] as usize));
            key::push(made, key::Tag::Integer, &self.places.numbers[at].to_le_bytes());
            Ok(())
        })?;
        Ok(made)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parse_step;
    use arrow::array::{FixedSizeListArray, Int64Array, LargeListArray, ListArray};
    use arrow::datatypes::Int64Type;
    use proptest::prelude::*;
    use serde_json::json;
    use tidegate_api::{Generation, RunId, RunIdentity};

    type Row = (i64, Option<Vec<Option<i64>>>);

    fn batch(rows: &[Row], large: bool) -> RecordBatch {
        let lists = rows.iter().map(|(_, list)| list.clone());
        let list: ArrayRef = match large {
            true => Arc::new(LargeListArray::from_iter_primitive::<Int64Type, _, _>(lists)),
            false => Arc::new(ListArray::from_iter_primitive::<Int64Type, _, _>(lists)),
        };
        let keys: Vec<Vec<u8>> = rows.iter().map(|(id, _)| vec![*id as u8]).collect();
        let fields =
            vec![Field::new("id", DataType::Int64, false), Field::new("list", list.data_type().clone(), true), hidden::key_field()];
        let columns: Vec<ArrayRef> = vec![
            Arc::new(Int64Array::from_iter_values(rows.iter().map(|(id, _)| *id))),
            list,
            Arc::new(BinaryArray::from_iter_values(keys)),
        ];
        RecordBatch::try_new(Arc::new(Schema::new(fields)), columns).unwrap()
    }

    fn run(step: &Value, batch: RecordBatch, cx: &BindCtx) -> Output {
        let bound = parse_step(step).unwrap().bind(&[StreamType::append(batch.schema())], cx).unwrap();
        let BoundNode::Step(factory) = bound.node else { panic!("not a step") };
        let run = RunIdentity::new("p", RunId::new("r"), Generation(1), "s");
        let mut out = Output::default();
        factory.open(StepCtx::new(run, 0, 1)).unwrap().apply(batch, EventTime(0), &mut out).unwrap();
        assert!(out.batches.iter().all(|batch| batch.schema() == factory.output_schema() && batch.num_rows() <= PORTION));
        out
    }

    /// Row, element and key of everything that came out.
    fn made(out: &Output) -> Vec<(i64, Option<i64>, Vec<u8>)> {
        let mut rows = Vec::new();
        for batch in &out.batches {
            let (ids, elements) = (batch.column(0).as_primitive::<Int64Type>(), batch.column(1).as_primitive::<Int64Type>());
            let keys = batch.column(2).as_binary::<i32>();
            let element = |row: usize| elements.is_valid(row).then(|| elements.value(row));
            rows.extend((0..batch.num_rows()).map(|row| (ids.value(row), element(row), keys.value(row).to_vec())));
        }
        rows
    }

    proptest! {
        #[test]
        fn every_element_becomes_a_row(
            rows in prop::collection::vec((0i64..100, prop::option::of(prop::collection::vec(prop::option::of(any::<i64>()), 0..5))), 0..20),
            keep in any::<bool>(),
            large in any::<bool>(),
            from in 0usize..5,
        ) {
            let from = from.min(rows.len());
            let step = json!({ "op": "unnest", "column": "list", "keepEmpty": keep });
            let out = run(&step, batch(&rows, large).slice(from, rows.len() - from), &BindCtx::new().with_keys(true));
            let mut expected = Vec::new();
            let mut filtered = 0;
            for (id, list) in &rows[from..] {
                let elements = list.clone().unwrap_or_default();
                let numbered = |number: u64| {
                    let mut key = vec![*id as u8];
                    key::push(&mut key, key::Tag::Integer, &number.to_le_bytes());
                    key
                };
                match (elements.is_empty(), keep) {
                    (true, true) => expected.push((*id, None, numbered(0))),
                    (true, false) => filtered += 1,
                    (false, _) => expected.extend(elements.iter().enumerate().map(|(at, element)| (*id, *element, numbered(at as u64)))),
                }
            }
            prop_assert_eq!(made(&out), expected);
            prop_assert_eq!(out.filtered, filtered);
        }
    }

    #[test]
    fn a_long_list_leaves_in_portions() {
        let rows = [(1, Some((0..20_000).map(Some).collect())), (2, Some(vec![None]))];
        let out = run(&json!({ "op": "unnest", "column": "list" }), batch(&rows, false), &BindCtx::new().with_keys(true));
        assert_eq!(out.batches.iter().map(RecordBatch::num_rows).collect::<Vec<_>>(), [8192, 8192, 3617]);
        assert_eq!(made(&out).last().unwrap().1, None);
    }

    #[test]
    fn the_element_takes_the_place_and_name_it_is_given() {
        let fixed = FixedSizeListArray::from_iter_primitive::<Int64Type, _, _>(vec![Some(vec![Some(1), Some(2)]), None], 2);
        let schema = Arc::new(Schema::new(vec![Field::new("pair", fixed.data_type().clone(), true)]));
        let out = run(
            &json!({ "op": "unnest", "column": "pair", "alias": "one" }),
            RecordBatch::try_new(schema, vec![Arc::new(fixed)]).unwrap(),
            &BindCtx::new(),
        );
        assert_eq!(out.batches[0].schema().field(0).name(), "one");
        assert_eq!((out.batches[0].num_rows(), out.filtered), (2, 1));
    }

    #[test]
    fn mistakes_are_named() {
        let schema = batch(&[], false).schema();
        let problems = |step: Value, mode: ChangeMode| match parse_step(&step) {
            Err(found) => found,
            Ok(def) => def.bind(&[StreamType { schema: Arc::clone(&schema), mode }], &BindCtx::new()).unwrap_err(),
        };
        let text = |step: Value| problems(step, ChangeMode::Append)[0].to_string();
        assert!(text(json!({ "op": "unnest" })).contains("column"));
        assert!(text(json!({ "op": "unnest", "column": "lst" })).contains("`list`"));
        assert!(text(json!({ "op": "unnest", "column": "id" })).contains("not a list"));
        assert!(text(json!({ "op": "unnest", "column": "list", "alias": "id" })).contains("already"));
        assert!(text(json!({ "op": "unnest", "column": "list", "alias": "_key" })).contains("reserved"));
        let upsert = problems(json!({ "op": "unnest", "column": "list" }), ChangeMode::Upsert { keys: vec!["id".into()] });
        assert!(upsert[0].to_string().contains("unnest before"));
    }
}

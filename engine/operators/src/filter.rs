//! `filter`: the rows for which an expression is true.
//!
//! A batch of which every row passes goes on without a copy. Columns that nobody reads behind the filter, the tested ones
//! mostly, are not copied at all.

use crate::expression::{BadRows, at, condition, truths};
use crate::projection::{carried, stays, visible};
use crate::step::{BindCtx, Bound, BoundNode, KeyInfo, StepDef, StepInfo, StreamType};
use arrow::array::{BooleanArray, RecordBatch};
use arrow::compute::FilterBuilder;
use arrow::datatypes::SchemaRef;
use serde_json::{Map, Value};
use std::collections::BTreeSet;
use std::sync::{Arc, OnceLock};
use tidegate_api::config::{Options, Problem};
use tidegate_api::{ChangeMode, Error, EventTime, Output, Result, Step, StepCtx, StepFactory, hidden};
use tidegate_dialect::{Compiled, Equals, Typed};

pub(crate) const INFO: StepInfo = StepInfo {
    op: "filter",
    summary: "Keeps the rows for which an expression is true; null is not true. A row on which it fails is a bad row.",
    keys: &[KeyInfo { name: "expression", takes: "expression", text: "the condition, of type bool" }],
    output: "the columns that came in",
    example: "{ op = \"filter\", expression = 'type == \"bid\"' }",
    parse,
};

#[derive(Debug)]
struct FilterDef {
    expression: String,
    /// What the first binding found. Once the source applies the whole condition, pruning takes its columns away and the text
    /// could not be typed again.
    equals: OnceLock<Equals>,
}

fn parse(map: &Map<String, Value>) -> Result<Box<dyn StepDef>, Vec<Problem>> {
    let mut options = Options::new(map);
    let _ = options.string("op");
    let expression = options.require_string("expression");
    let problems = options.finish();
    match expression {
        Some(expression) if problems.is_empty() => Ok(Box::new(FilterDef { expression, equals: OnceLock::new() })),
        _ => Err(problems),
    }
}

impl StepDef for FilterDef {
    fn op(&self) -> &'static str {
        INFO.op
    }

    fn bind(&self, inputs: &[StreamType], cx: &BindCtx) -> Result<Bound, Vec<Problem>> {
        let input = crate::step::one_input(inputs)?;
        let schema = &input.schema;
        let applied = self.equals.get().is_some_and(|equals| applies(equals, cx));
        let typed = match applied {
            true => None,
            false => Some(condition(&cx.functions, &["expression"], &self.expression, schema).map_err(|problem| vec![problem])?),
        };
        let equals = match &typed {
            Some(typed) => self.equals.get_or_init(|| typed.equals().clone()).clone(),
            None => self.equals.get().cloned().unwrap_or_default(),
        };
        // The first binding may already know that the source applies it.
        let test = typed.filter(|_| !applies(&equals, cx));
        let mut always: BTreeSet<String> = names_of(schema, |name| name == hidden::OP);
        if let ChangeMode::Upsert { keys } = &input.mode {
            // A later version of a row may fail the test that an earlier one passed, and would have to delete it.
            if let Some(column) = test.iter().flat_map(Typed::columns).find(|column| !keys.contains(column)) {
                let message = format!("a filter on upsert rows that tests `{column}`, which is no key, is not available yet");
                return Err(vec![at(&["expression"], message)]);
            }
            always.extend(keys.iter().cloned());
        }
        always.extend(test.iter().flat_map(Typed::columns).cloned());
        let mut kept: Vec<usize> = visible(schema).filter(|index| stays(schema.field(*index).name(), &input.mode, cx)).collect();
        kept.extend(carried(schema, cx));
        let output = Arc::new(schema.project(&kept).map_err(|error| vec![Problem::whole(error.to_string())])?);
        let passes = names_of(&output, |_| true);
        let details = if test.is_some() { self.expression.clone() } else { format!("{} (by the source)", self.expression) };
        Ok(Bound {
            output: StreamType { schema: Arc::clone(&output), mode: input.mode.clone() },
            node: BoundNode::Step(Arc::new(FilterFactory { schema: output, kept, test: test.map(|typed| typed.compile()) })),
            required: Box::new(move |needed| vec![needed.iter().filter(|name| passes.contains(*name)).chain(&always).cloned().collect()]),
            equals: equals.conjuncts,
            details,
        })
    }
}

fn applies(equals: &Equals, cx: &BindCtx) -> bool {
    equals.whole && !equals.conjuncts.is_empty() && equals.conjuncts.iter().all(|conjunct| cx.applied.contains(conjunct))
}

fn names_of(schema: &SchemaRef, test: impl Fn(&str) -> bool) -> BTreeSet<String> {
    schema.fields().iter().map(|field| field.name()).filter(|name| test(name)).cloned().collect()
}

struct FilterFactory {
    schema: SchemaRef,
    kept: Vec<usize>,
    test: Option<Compiled>,
}

impl StepFactory for FilterFactory {
    fn name(&self) -> &str {
        INFO.op
    }

    fn output_schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    fn open(&self, _ctx: StepCtx) -> Result<Box<dyn Step>> {
        Ok(Box::new(Filter { kept: self.kept.clone(), test: self.test.clone() }))
    }
}

struct Filter {
    kept: Vec<usize>,
    test: Option<Compiled>,
}

impl Step for Filter {
    fn apply(&mut self, batch: RecordBatch, now: EventTime, out: &mut Output) -> Result<()> {
        let rows = batch.num_rows();
        let kept = batch.project(&self.kept)?;
        let Some(test) = &self.test else {
            out.emit(kept);
            return Ok(());
        };
        let evaluated = test.evaluate(&batch, now);
        if evaluated.values.len() != rows {
            return Err(Error::internal("a condition did not give a value per row"));
        }
        let mut passing = truths(&evaluated.values);
        let mut bad = BadRows::default();
        bad.add_failed(evaluated.bad, None);
        if !bad.is_empty() {
            passing = &passing & &bad.good(rows);
        }
        let passed = passing.count_set_bits();
        out.filtered += (rows - passed - bad.len()) as u64;
        bad.report(&batch, out);
        if passed == rows {
            out.emit(kept);
        } else if passed > 0 {
            let mask = BooleanArray::new(passing, None);
            let mut predicate = FilterBuilder::new(&mask);
            if kept.num_columns() > 1 {
                predicate = predicate.optimize();
            }
            out.emit(predicate.build().filter_record_batch(&kept)?);
        }
        Ok(())
    }
}

//! A look-up over its inputs' types: the plan, and what it needs of them.

use super::config::{INFO, LookupDef};
use super::operator::LookupFactory;
use super::state::VERSION;
use crate::binding::{time_column, unknown};
use crate::expression::at;
use crate::join::{Column, Form, Late, Which};
use crate::projection::find;
use crate::step::{BindCtx, Bound, BoundNode, StepDef, StreamType};
use arrow::datatypes::{DataType, Field, FieldRef, Schema, SchemaRef};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::sync::Arc;
use tidegate_api::config::Problem;
use tidegate_api::{ChangeMode, Signature, hash, hidden, types};

/// A look-up, typed.
#[derive(Debug)]
pub(super) struct Plan {
    /// The key columns of stream and table.
    pub(super) keys: [Vec<usize>; 2],
    /// Per pair of key columns, the type in which they meet.
    pub(super) forms: Vec<Form>,
    /// The time columns of stream and table, with `asOf`.
    pub(super) times: Option<[usize; 2]>,
    /// Their names.
    pub(super) time_names: [String; 2],
    /// Whether rows without a match are left out.
    pub(super) inner: bool,
    /// Whether every start reads the table anew, so that what an earlier one left of it is forgotten.
    pub(super) reloads: bool,
    /// Where the output columns come from.
    pub(super) columns: Vec<(Which, usize)>,
    /// The table's `_op`, if it has one.
    pub(super) op: Option<usize>,
    pub(super) left: SchemaRef,
    pub(super) right: SchemaRef,
    pub(super) schema: SchemaRef,
    /// What late rows look like, where anybody wants them.
    pub(super) late: Option<Late>,
    pub(super) signature: Signature,
}

impl Plan {
    /// The types of the keys as they are compared.
    pub(super) fn key_types(&self) -> Vec<DataType> {
        self.forms.iter().map(Form::data_type).collect()
    }
}

impl StepDef for LookupDef {
    fn op(&self) -> &'static str {
        INFO.op
    }

    fn time_columns(&self) -> Vec<Option<String>> {
        match &self.times {
            Some([left, right]) => vec![Some(left.clone()), Some(right.clone())],
            None => vec![None, None],
        }
    }

    fn late_output(&self) -> Option<&str> {
        self.late_output.as_deref()
    }

    fn bind(&self, inputs: &[StreamType], cx: &BindCtx) -> Result<Bound, Vec<Problem>> {
        let [left, right] = inputs else {
            return Err(vec![Problem::whole(format!("`{}` takes two inputs, the stream and the table, not {}", INFO.op, inputs.len()))]);
        };
        let mut problems = Vec::new();
        self.check_modes(left, right, &mut problems);
        if cx.reloads && self.times.is_some() {
            let message = "the table is read as it stands when it is asked, without the versions it had before, and a start reads it anew; leave \
                           `asOf` and `timeColumn` out, or bring the table in as a stream of its changes";
            problems.push(at(&["asOf"], message));
        }
        let schemas = [&left.schema, &right.schema];
        let times = self.times.as_ref().map(|names| {
            let of = |side: usize, key: &str, problems: &mut Vec<Problem>| time_column(schemas[side], &names[side], key, problems);
            [of(0, "timeColumn", &mut problems), of(1, "asOf", &mut problems)]
        });
        let keys = [0, 1].map(|side| self.keys_of(side, schemas[side], &mut problems));
        let [Some(left_keys), Some(right_keys)] = keys else { return Err(problems) };
        let forms = self.forms(schemas, [&left_keys, &right_keys], &mut problems);
        self.naming.check(schemas[1], &right_keys, &mut problems);
        let columns = self.naming.columns(schemas[0], schemas[1], &right_keys, &mut problems);
        let times = match times {
            Some([Some(left), Some(right)]) => Some([left.0, right.0]),
            Some(_) => return Err(problems),
            None => None,
        };
        if !problems.is_empty() {
            return Err(problems);
        }
        let schema = self.schema(schemas, &columns, cx);
        let mut from: Vec<(Which, usize)> = columns.iter().map(|column| (column.which, column.index)).collect();
        if let Some(key) = schemas[0].index_of(hidden::KEY).ok().filter(|_| cx.keys) {
            from.push((Which::Left, key));
        }
        let plan = Plan {
            signature: self.signature(schemas, [&left_keys, &right_keys], cx.reloads),
            keys: [left_keys, right_keys],
            forms,
            times,
            time_names: self.times.clone().unwrap_or_default(),
            inner: self.inner,
            reloads: cx.reloads,
            columns: from,
            op: right.schema.index_of(hidden::OP).ok(),
            left: Arc::clone(&left.schema),
            right: Arc::clone(&right.schema),
            schema: Arc::clone(&schema),
            late: self.late_output.is_some().then(|| Late::of(schemas)),
        };
        Ok(Bound {
            output: StreamType::append(schema),
            node: BoundNode::Operator {
                factory: Arc::new(LookupFactory::new(plan)),
                keys: vec![self.keys.left.clone(), self.keys.right.clone()],
            },
            required: self.required(schemas, columns),
            equals: Vec::new(),
            details: self.details(cx.reloads),
        })
    }
}

impl LookupDef {
    fn check_modes(&self, left: &StreamType, right: &StreamType, problems: &mut Vec<Problem>) {
        if let ChangeMode::Upsert { keys } = &left.mode {
            let message = format!(
                "the rows of the first input replace earlier ones of equal `{}`, and a joined row is never taken back; look up before the step \
                 that updates them",
                keys.join("`, `")
            );
            problems.push(at(&["op"], message));
        }
        if let ChangeMode::Upsert { keys } = &right.mode {
            let (theirs, ours): (BTreeSet<&String>, BTreeSet<&String>) = (keys.iter().collect(), self.keys.right.iter().collect());
            if theirs != ours {
                let message = format!(
                    "the table's rows replace each other by `{}`, but are looked up by `{}`, for which there may be several; look up by the \
                     former",
                    keys.join("`, `"),
                    self.keys.right.join("`, `")
                );
                problems.push(at(&[self.keys.named[1]], message));
            }
        }
    }

    fn keys_of(&self, side: usize, schema: &SchemaRef, problems: &mut Vec<Problem>) -> Option<Vec<usize>> {
        let (names, key) = (self.keys.of(side), self.keys.named[side]);
        let mut found = Vec::with_capacity(names.len());
        for (place, name) in names.iter().enumerate() {
            match find(schema, name) {
                Some(index) => found.push(index),
                None => problems.push(at(&[key, &place.to_string()], unknown(name, schema))),
            }
        }
        (found.len() == names.len()).then_some(found)
    }

    fn forms(&self, schemas: [&SchemaRef; 2], keys: [&[usize]; 2], problems: &mut Vec<Problem>) -> Vec<Form> {
        let mut forms = Vec::with_capacity(keys[0].len());
        for (place, (left, right)) in keys[0].iter().zip(keys[1]).enumerate() {
            let (left, right) = (schemas[0].field(*left), schemas[1].field(*right));
            match Form::common(left.data_type(), right.data_type()) {
                Some(form) => forms.push(form),
                None => {
                    let message = format!(
                        "`{}` is of type `{}` and `{}` of type `{}`: they are never equal; cast one of them first",
                        left.name(),
                        types::name(left.data_type()),
                        right.name(),
                        types::name(right.data_type())
                    );
                    problems.push(at(&[self.keys.named[1], &place.to_string()], message));
                }
            }
        }
        forms
    }

    fn schema(&self, schemas: [&SchemaRef; 2], columns: &[Column], cx: &BindCtx) -> SchemaRef {
        let field = |column: &Column| -> FieldRef {
            let field = schemas[column.which.index()].field(column.index);
            let nullable = field.is_nullable() || (column.which == Which::Right && !self.inner);
            Arc::new(Field::new(&column.name, field.data_type().clone(), nullable))
        };
        let mut fields: Vec<FieldRef> = columns.iter().map(field).collect();
        if cx.keys && schemas[0].index_of(hidden::KEY).is_ok() {
            fields.push(Arc::new(hidden::key_field()));
        }
        Arc::new(Schema::new(fields))
    }

    fn required(&self, schemas: [&SchemaRef; 2], columns: Vec<Column>) -> crate::step::Required {
        let mut always: [BTreeSet<String>; 2] = [0, 1].map(|side| self.keys.of(side).iter().cloned().collect());
        for (always, time) in always.iter_mut().zip(self.times.iter().flatten()) {
            always.insert(time.clone());
        }
        always[1].extend(schemas[1].index_of(hidden::OP).ok().map(|_| hidden::OP.to_string()));
        let origin = |column: &Column| schemas[column.which.index()].field(column.index).name().clone();
        let columns: Vec<(String, Which, String, Option<String>)> =
            columns.iter().map(|column| (column.name.clone(), column.which, origin(column), column.beside.clone())).collect();
        Box::new(move |needed| {
            let mut asked = always.clone();
            if needed.contains(hidden::KEY) {
                asked[0].insert(hidden::KEY.to_string());
            }
            for (_, which, origin, beside) in columns.iter().filter(|(name, ..)| needed.contains(name)) {
                asked[which.index()].insert(origin.clone());
                asked[0].extend(beside.iter().cloned());
            }
            asked.to_vec()
        })
    }

    fn signature(&self, schemas: [&SchemaRef; 2], keys: [&[usize]; 2], reloads: bool) -> Signature {
        let columns = |side: usize| -> Vec<Value> {
            let visible = hidden::visible_schema(schemas[side]);
            visible.fields().iter().map(|field| json!({ "column": field.name(), "type": types::name(field.data_type()) })).collect()
        };
        let names = |side: usize| -> Vec<&str> { keys[side].iter().map(|index| schemas[side].field(*index).name().as_str()).collect() };
        let signature = Signature::new(INFO.op, VERSION);
        // Absent where there is nothing to say, as it was before there were such tables.
        let signature = if reloads { signature.with("reloads", true) } else { signature };
        signature
            .with("leftKeys", names(0))
            .with("rightKeys", names(1))
            .with("times", self.times.as_ref().map_or(Value::Null, |times| json!(times)))
            // Rows that wait are stored whole, and so are the table's.
            .with("left", columns(0))
            .with("right", columns(1))
            .with("hash", hash::HASH_VERSION)
    }

    fn details(&self, reloads: bool) -> String {
        let kind = if self.inner { "inner" } else { "left" };
        let (left, right) = (self.keys.left.join(", "), self.keys.right.join(", "));
        let keys = if left == right { left } else { format!("{left} = {right}") };
        match &self.times {
            Some([time, as_of]) => format!("{kind} on {keys}, the version of {as_of} at {time}"),
            None if reloads => format!("{kind} on {keys}, the latest; every start reads the table anew"),
            None => format!("{kind} on {keys}, the latest; the table is for ever in the state"),
        }
    }
}

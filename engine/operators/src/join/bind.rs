//! A join over its inputs' types: the plan, and what it needs of them.

use super::bounds::Which;
use super::config::{INFO, JoinDef, length};
use super::equality::{Form, holds};
use super::late::Late;
use super::names::Column;
use super::operator::JoinFactory;
use super::plan::{Condition, Plan, SidePlan, Source};
use super::state::VERSION;
use crate::binding::{time_column, unknown};
use crate::expression::{at, condition};
use crate::projection::find;
use crate::step::{BindCtx, Bound, BoundNode, StepDef, StreamType};
use arrow::datatypes::{Field, FieldRef, Schema, SchemaRef};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::sync::Arc;
use tidegate_api::config::Problem;
use tidegate_api::{ChangeMode, Signature, hash, hidden, types};
use tidegate_dialect::Typed;

impl StepDef for JoinDef {
    fn op(&self) -> &'static str {
        INFO.op
    }

    fn time_columns(&self) -> Vec<Option<String>> {
        vec![Some(self.times.left.clone()), Some(self.times.right.clone())]
    }

    fn late_output(&self) -> Option<&str> {
        self.late_output.as_deref()
    }

    fn bind(&self, inputs: &[StreamType], cx: &BindCtx) -> Result<Bound, Vec<Problem>> {
        let [left, right] = inputs else {
            return Err(vec![Problem::whole(format!("`{}` takes two inputs, not {}", INFO.op, inputs.len()))]);
        };
        let mut problems = Vec::new();
        for (which, input) in Which::BOTH.into_iter().zip(inputs) {
            if let ChangeMode::Upsert { keys } = &input.mode {
                problems.push(at(
                    &["op"],
                    format!(
                        "the rows of the {} input replace earlier ones of equal `{}`, and a joined row is never taken back; join the rows \
                         before the step that updates them",
                        which.name(),
                        keys.join("`, `")
                    ),
                ));
            }
        }
        let schemas = [&left.schema, &right.schema];
        let times = [0, 1].map(|side| time_column(schemas[side], self.times.of(side), self.times.named[side], &mut problems));
        let keys = [0, 1].map(|side| self.keys_of(side, schemas[side], &mut problems));
        let forms = self.forms(schemas, &keys, &mut problems);
        let columns = match &keys {
            [Some(_), Some(right_keys)] => self.columns(schemas, right_keys, cx, &mut problems),
            _ => Vec::new(),
        };
        let condition = self.condition(schemas, &columns, cx, &mut problems);
        let ([Some(left_time), Some(right_time)], [Some(left_keys), Some(right_keys)], true) = (times, keys, problems.is_empty()) else {
            return Err(problems);
        };
        let binding = Binding {
            def: self,
            schemas,
            times: [left_time.0, right_time.0],
            keys: [left_keys, right_keys],
            forms,
            columns,
            condition,
            keyed: cx.keys,
        };
        binding.bound(cx)
    }
}

impl JoinDef {
    fn keys_of(&self, side: usize, schema: &SchemaRef, problems: &mut Vec<Problem>) -> Option<Vec<usize>> {
        let mut indices: Vec<usize> = Vec::new();
        let columns = self.keys.of(side);
        for (place, column) in columns.iter().enumerate() {
            let place = place.to_string();
            let path = if columns.len() == 1 { vec![self.keys.named[side]] } else { vec![self.keys.named[side], place.as_str()] };
            match find(schema, column) {
                None => {
                    let of = Which::of(side).name();
                    problems.push(at(&path, format!("in the {of} input {}", unknown(column, schema))));
                }
                Some(index) if indices.contains(&index) => problems.push(at(&path, format!("`{column}` stands twice"))),
                Some(index) => indices.push(index),
            }
        }
        (indices.len() == columns.len()).then_some(indices)
    }

    fn forms(&self, schemas: [&SchemaRef; 2], keys: &[Option<Vec<usize>>; 2], problems: &mut Vec<Problem>) -> Vec<Form> {
        let [Some(left_keys), Some(right_keys)] = keys else { return Vec::new() };
        let mut forms = Vec::new();
        for (left, right) in left_keys.iter().zip(right_keys) {
            let (left, right) = (schemas[0].field(*left), schemas[1].field(*right));
            let shown = |field: &Field| format!("`{}` of type `{}`", field.name(), types::name(field.data_type()));
            let Some(form) = Form::common(left.data_type(), right.data_type()) else {
                let message = format!(
                    "{} on the left and {} on the right are never equal; give one of them the other's type with `cast` before the join",
                    shown(left),
                    shown(right)
                );
                problems.push(at(&[self.keys.named[1]], message));
                continue;
            };
            if self.kind.keeps_unmatched(Which::Right) && !holds(left.data_type(), right.data_type()) {
                let message = format!(
                    "a right row without a partner shows its key in the left column, and {} cannot hold every {}; give both one type with \
                     `cast` before the join",
                    shown(left),
                    shown(right)
                );
                problems.push(at(&[self.keys.named[0]], message));
            }
            forms.push(form);
        }
        forms
    }

    /// The columns of a joined row, as far as anybody may name them.
    fn columns(&self, schemas: [&SchemaRef; 2], right_keys: &[usize], cx: &BindCtx, problems: &mut Vec<Problem>) -> Vec<Column> {
        // A column that nobody reads may have been left out since the names were checked.
        if cx.needed.is_none() {
            self.naming.check(schemas[1], right_keys, problems);
        }
        let mut ignored = Vec::new();
        let named = self.kind.pairs() || self.condition.is_some();
        self.naming.columns(schemas[0], schemas[1], right_keys, if named { problems } else { &mut ignored })
    }

    fn condition(
        &self,
        schemas: [&SchemaRef; 2],
        columns: &[Column],
        cx: &BindCtx,
        problems: &mut Vec<Problem>,
    ) -> Option<(Typed, SchemaRef)> {
        let text = self.condition.as_ref().filter(|_| !columns.is_empty())?;
        let field = |column: &Column| schemas[column.which.index()].field(column.index).clone().with_name(&column.name);
        let schema: SchemaRef = Arc::new(Schema::new(columns.iter().map(field).collect::<Vec<_>>()));
        match condition(&cx.functions, &["condition"], text, &schema) {
            Ok(typed) if typed.uses_now() => {
                problems.push(at(&["condition"], "a condition cannot use `now()`: pairs would depend on when a run is restored"));
                None
            }
            Ok(typed) => Some((typed, schema)),
            Err(problem) => {
                problems.push(problem);
                None
            }
        }
    }

    fn details(&self, schemas: [&SchemaRef; 2], keys: &[Vec<usize>; 2]) -> String {
        let mut equal = Vec::new();
        let mut mixed = Vec::new();
        for (left, right) in keys[0].iter().zip(&keys[1]) {
            let (left, right) = (schemas[0].field(*left), schemas[1].field(*right));
            equal.push(if left.name() == right.name() { left.name().clone() } else { format!("{} = {}", left.name(), right.name()) });
            if left.data_type().is_integer() != right.data_type().is_integer() && Form::is_mixed(left.data_type(), right.data_type()) {
                mixed.push(format!("; `{}` meets a float: only whole numbers match", left.name()));
            }
        }
        let times = if self.times.left == self.times.right {
            self.times.left.clone()
        } else {
            format!("{} - {}", self.times.right, self.times.left)
        };
        let (lower, upper) = (length(self.bounds.lower), length(self.bounds.upper));
        let condition = self.condition.as_ref().map(|text| format!(" where {text}")).unwrap_or_default();
        format!("{} on {} within {lower} to {upper} of {times}{condition}{}", self.kind.name(), equal.join(", "), mixed.join(""))
    }
}

/// Everything that was found, without a mistake.
struct Binding<'a> {
    def: &'a JoinDef,
    schemas: [&'a SchemaRef; 2],
    times: [usize; 2],
    keys: [Vec<usize>; 2],
    forms: Vec<Form>,
    columns: Vec<Column>,
    condition: Option<(Typed, SchemaRef)>,
    keyed: bool,
}

impl Binding<'_> {
    fn bound(self, cx: &BindCtx) -> Result<Bound, Vec<Problem>> {
        let kind = self.def.kind;
        let shown = |column: &&Column| {
            (kind.pairs() || column.which == Which::Left) && cx.needed.as_ref().is_none_or(|needed| needed.contains(&column.name))
        };
        let shown: Vec<&Column> = self.columns.iter().filter(shown).collect();
        let row_keys = self.keyed.then(|| self.schemas.map(|schema| schema.index_of(hidden::KEY).ok()));
        let row_keys = match row_keys {
            None => None,
            Some([Some(left), Some(right)]) => Some([left, right]),
            Some(_) => return Err(vec![Problem::whole("rows were to carry keys and come in without")]),
        };
        let exact = matches!(self.forms.as_slice(), [one] if one.is_hashed_exactly());
        let stored = [0, 1].map(|side| self.stored(side, &shown, row_keys));
        let sides = [0, 1].map(|side| self.side(side, stored[side].clone(), exact));
        let place = |side: usize, index: usize| stored[side].iter().position(|found| *found == index).unwrap_or_default();

        let mut fields: Vec<FieldRef> = Vec::with_capacity(shown.len() + 1);
        let mut output = Vec::with_capacity(shown.len());
        for column in &shown {
            let side = column.which.index();
            let nullable = kind.pairs() && kind.keeps_unmatched(column.which.other());
            let field = self.schemas[side].field(column.index);
            fields.push(Arc::new(field.clone().with_name(&column.name).with_nullable(field.is_nullable() || nullable)));
            let part = self.keys[0].iter().position(|key| *key == column.index).filter(|_| column.which == Which::Left);
            output.push(match part.filter(|_| kind.keeps_unmatched(Which::Right)) {
                Some(part) => {
                    Source::Key { left: place(0, column.index), right: place(1, self.keys[1][part]), to: field.data_type().clone() }
                }
                None => Source::Of(column.which, place(side, column.index)),
            });
        }
        if self.keyed {
            fields.push(Arc::new(hidden::key_field()));
        }
        let schema: SchemaRef = Arc::new(Schema::new(fields));
        let details = self.def.details(self.schemas, &self.keys);
        let signature = self.signature(&sides);
        let keys = [0, 1].map(|side| self.def.keys.of(side).clone()).to_vec();
        let required = self.required();
        let late = self.def.late_output.is_some().then(|| Late::of(self.schemas));
        let condition = self.condition.as_ref().map(|(typed, _)| self.stored_condition(typed, &place));
        let condition = match condition {
            Some((schema, columns)) => Some(Condition { compiled: self.retyped(cx, &schema)?, schema, columns }),
            None => None,
        };
        let plan = Plan {
            kind,
            bounds: self.def.bounds,
            sides,
            forms: self.forms,
            condition,
            output,
            schema: Arc::clone(&schema),
            keyed: row_keys.map(|keys| [place(0, keys[0]), place(1, keys[1])]),
            late,
            signature,
        };
        Ok(Bound {
            output: StreamType::append(schema),
            node: BoundNode::Operator { factory: Arc::new(JoinFactory::new(plan)), keys },
            required,
            equals: Vec::new(),
            details,
        })
    }

    /// The columns of an input that are read of rows that wait.
    fn stored(&self, side: usize, shown: &[&Column], row_keys: Option<[usize; 2]>) -> Vec<usize> {
        let mut stored = BTreeSet::new();
        stored.extend(shown.iter().filter(|column| column.which.index() == side).map(|column| column.index));
        if let Some((typed, _)) = &self.condition {
            let read = self.columns.iter().filter(|column| column.which.index() == side && typed.columns().contains(&column.name));
            stored.extend(read.map(|column| column.index));
        }
        if side == 1 && self.def.kind.keeps_unmatched(Which::Right) {
            // A right row without a partner shows its keys.
            let keys = self.keys[0].iter().zip(&self.keys[1]);
            let is_shown = |key: usize| shown.iter().any(|column| column.which == Which::Left && column.index == key);
            stored.extend(keys.filter(|(left, _)| is_shown(**left)).map(|(_, right)| *right));
        }
        // A row that stands alone, or is alone in the output, shows no more of the other side than its columns.
        if let Some(keys) = row_keys.filter(|_| side == 0 || self.def.kind.pairs()) {
            stored.insert(keys[side]);
        }
        stored.into_iter().collect()
    }

    fn side(&self, side: usize, stored: Vec<usize>, exact: bool) -> SidePlan {
        let schema = self.schemas[side];
        let mut fields: Vec<FieldRef> = stored.iter().map(|index| Arc::clone(&schema.fields()[*index])).collect();
        let (mut extra, mut compared) = (Vec::new(), Vec::new());
        for (part, form) in self.forms.iter().enumerate().filter(|_| !exact) {
            let key = self.keys[side][part];
            let same = stored.iter().position(|index| *index == key).filter(|_| *schema.field(key).data_type() == form.data_type());
            compared.push(same.unwrap_or_else(|| {
                extra.push(part);
                fields.push(Arc::new(Field::new(format!("key {part}"), form.data_type(), true)));
                fields.len() - 1
            }));
        }
        let time_name = self.def.times.of(side).clone();
        SidePlan { time: self.times[side], time_name, keys: self.keys[side].clone(), stored, extra, compared, fields }
    }

    /// The columns that the condition reads, and where they are stored.
    fn stored_condition(&self, typed: &Typed, place: &impl Fn(usize, usize) -> usize) -> (SchemaRef, Vec<(Which, usize)>) {
        let read = self.columns.iter().filter(|column| typed.columns().contains(&column.name));
        let mut fields = Vec::new();
        let mut columns = Vec::new();
        for column in read {
            let side = column.which.index();
            fields.push(self.schemas[side].field(column.index).clone().with_name(&column.name));
            columns.push((column.which, place(side, column.index)));
        }
        (Arc::new(Schema::new(fields)), columns)
    }

    /// The condition over the columns it reads and no others.
    fn retyped(&self, cx: &BindCtx, schema: &SchemaRef) -> Result<tidegate_dialect::Compiled, Vec<Problem>> {
        let text = self.def.condition.as_deref().unwrap_or_default();
        condition(&cx.functions, &["condition"], text, schema).map(|typed| typed.compile()).map_err(|problem| vec![problem])
    }

    fn required(&self) -> crate::step::Required {
        let mut always = [0, 1].map(|side| {
            let mut columns: BTreeSet<String> = self.def.keys.of(side).iter().cloned().collect();
            columns.insert(self.def.times.of(side).clone());
            columns
        });
        let names = |column: &Column| (column.which.index(), self.schemas[column.which.index()].field(column.index).name().clone());
        let mut reads = Vec::with_capacity(self.columns.len());
        for column in &self.columns {
            let (side, own) = names(column);
            if self.condition.as_ref().is_some_and(|(typed, _)| typed.columns().contains(&column.name)) {
                always[side].insert(own.clone());
                always[0].extend(column.beside.clone());
            }
            if column.which == Which::Left || self.def.kind.pairs() {
                reads.push((column.name.clone(), side, own, column.beside.clone()));
            }
        }
        let pairs = self.def.kind.pairs();
        Box::new(move |needed| {
            let mut columns = always.clone();
            for (_, side, own, beside) in reads.iter().filter(|(name, ..)| needed.contains(name)) {
                columns[*side].insert(own.clone());
                columns[0].extend(beside.clone());
            }
            if needed.contains(hidden::KEY) {
                columns[0].insert(hidden::KEY.to_string());
                columns[1].extend(pairs.then(|| hidden::KEY.to_string()));
            }
            columns.to_vec()
        })
    }

    fn signature(&self, sides: &[SidePlan; 2]) -> Signature {
        let of = |side: usize| -> Vec<Value> {
            let fields = sides[side].fields.iter();
            fields.map(|field| json!({ "column": field.name(), "type": types::name(field.data_type()) })).collect()
        };
        let forms: Vec<String> = self.forms.iter().map(|form| format!("{form:?}")).collect();
        let mut signature = Signature::new(INFO.op, VERSION)
            .with("kind", self.def.kind.name())
            .with("leftKeys", self.def.keys.left.clone())
            .with("rightKeys", self.def.keys.right.clone())
            .with("keyTypes", forms)
            .with("leftTime", self.def.times.left.as_str())
            .with("rightTime", self.def.times.right.as_str())
            .with("lowerMs", self.def.bounds.lower)
            .with("upperMs", self.def.bounds.upper)
            .with("leftColumns", of(0))
            .with("rightColumns", of(1))
            .with("hash", hash::HASH_VERSION);
        if let Some(condition) = &self.def.condition {
            signature = signature.with("condition", condition.as_str());
        }
        signature
    }
}

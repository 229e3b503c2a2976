//! What the keys of `topN` mean over a schema.

use super::best::{self, BestFactory};
use super::config::{END, INFO, RANK, START, TopDef, WindowDef};
use super::plan::{Plan, Updates, Window};
use super::running::RunningFactory;
use super::windowed::WindowedFactory;
use crate::binding::{key_columns, show, time_column, unknown};
use crate::expression::at;
use crate::lean::{Direction, can_order, is_word, needed_of};
use crate::projection::find;
use crate::step::{BindCtx, Bound, BoundNode, StepDef, StreamType, one_input};
use arrow::datatypes::{DataType, Field, FieldRef, Schema, SchemaRef, TimeUnit};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::sync::Arc;
use tidegate_api::config::Problem;
use tidegate_api::{ChangeMode, OperatorFactory, Signature, hash, hidden, types};

/// The version of the state formats; part of the signature.
const VERSION: u32 = 1;

impl StepDef for TopDef {
    fn op(&self) -> &'static str {
        INFO.op
    }

    fn time_columns(&self) -> Vec<Option<String>> {
        vec![match &self.window {
            Some(WindowDef::Of(column, _)) => Some(column.clone()),
            Some(WindowDef::Named) => Some(START.to_string()),
            None => None,
        }]
    }

    fn late_output(&self) -> Option<&str> {
        self.late_output.as_deref()
    }

    fn bind(&self, inputs: &[StreamType], cx: &BindCtx) -> Result<Bound, Vec<Problem>> {
        let input = one_input(inputs)?;
        let schema = &input.schema;
        let mut problems = Vec::new();
        let order_by = self.order_column(schema, "orderBy", &self.order_by, &mut problems);
        let ties: Vec<Option<usize>> = self
            .tie_by
            .iter()
            .enumerate()
            .map(|(place, column)| self.order_column(schema, &format!("tieBy.{place}"), column, &mut problems))
            .collect();
        let cut = matches!(self.window, Some(WindowDef::Of(_, _)));
        let bounds: &[&str] = if cut { &[START, END] } else { &[] };
        let taken: Vec<&str> = bounds.iter().copied().chain([RANK]).collect();
        for name in &taken {
            if find(schema, name).is_some() {
                problems.push(at(&["op"], format!("the output has a `{name}` of its own; rename the column `{name}` first")));
            }
        }
        let window = self.window(schema, &mut problems);
        let mut groups = key_columns(schema, &self.group_by, "groupBy", &[], &mut problems);
        if let Some(Window::Named { start, end }) = &window {
            groups.retain(|index| index != start && index != end);
            groups.splice(0..0, [*start, *end]);
        }
        let group_by: Vec<String> = groups.iter().map(|index| schema.field(*index).name().clone()).collect();
        let updates = self.updates(input, &mut problems);
        let (Some(order_by), true) = (order_by, problems.is_empty()) else { return Err(problems) };

        let within = |keys: &[String]| group_by.iter().all(|group| keys.contains(group));
        let spread = match &input.mode {
            ChangeMode::Upsert { keys } => within(keys),
            ChangeMode::Append => true,
        };
        let exchange: Vec<String> = if spread { group_by.clone() } else { Vec::new() };
        let output = Self::schema(schema, &groups, cut, &window, self.window.is_none(), cx);
        let visible = hidden::visible_schema(schema).fields().len();
        let signature = self.signature(schema, order_by, &groups, &updates);
        let mode = match self.window {
            Some(_) => ChangeMode::Append,
            None => ChangeMode::Upsert { keys: group_by.iter().cloned().chain([RANK.to_string()]).collect() },
        };
        let plan = Plan {
            types: (0..visible).map(|index| schema.field(index).data_type().clone()).collect(),
            order_by,
            direction: self.direction,
            tie_by: ties.into_iter().flatten().collect(),
            n: self.n,
            rest: (0..visible).filter(|index| !groups.contains(index)).collect(),
            exchange: exchange.iter().filter_map(|name| find(schema, name)).collect(),
            groups,
            updates,
            window,
            schema: Arc::clone(&output),
            keyed: cx.keys,
            signature,
        };
        let details = self.details(&plan, &group_by, spread, &input.mode);
        let always = self.always(&group_by, &input.mode);
        let factory: Arc<dyn OperatorFactory> = match &plan.window {
            Some(_) => Arc::new(WindowedFactory::new(plan)),
            None if best::suits(&plan) => Arc::new(BestFactory::new(plan)),
            None => Arc::new(RunningFactory::new(plan)),
        };
        let reads = Arc::clone(schema);
        Ok(Bound {
            output: StreamType { schema: output, mode },
            node: BoundNode::Operator { factory, keys: vec![exchange] },
            required: Box::new(move |needed| vec![needed_of(&reads, needed, &always)]),
            equals: Vec::new(),
            details,
        })
    }
}

impl TopDef {
    fn order_column(&self, schema: &SchemaRef, key: &str, column: &str, problems: &mut Vec<Problem>) -> Option<usize> {
        let path: Vec<&str> = key.split('.').collect();
        match find(schema, column) {
            None => problems.push(at(&path, unknown(column, schema))),
            Some(index) if !can_order(schema.field(index).data_type()) => {
                let message = format!("`{column}` is of type `{}`, which has no order", types::name(schema.field(index).data_type()));
                problems.push(at(&path, message));
            }
            Some(index) => return Some(index),
        }
        None
    }

    fn window(&self, schema: &SchemaRef, problems: &mut Vec<Problem>) -> Option<Window> {
        match self.window.as_ref()? {
            WindowDef::Of(column, size) => {
                let (time, zone) = time_column(schema, column, "timeColumn", problems)?;
                Some(Window::Of { time, name: column.clone(), size: *size, zone })
            }
            WindowDef::Named => {
                let mut bound = |name: &str| {
                    let index = find(schema, name);
                    let fits = index.is_some_and(|index| matches!(schema.field(index).data_type(), DataType::Timestamp(_, _)));
                    if !fits {
                        let message = format!(
                            "there is no timestamp `{name}` among the columns that come in: rank behind a window step, or give `timeColumn` and `windowMs`"
                        );
                        problems.push(at(&["windowed"], message));
                    }
                    index.filter(|_| fits)
                };
                let (start, end) = (bound(START), bound(END));
                Some(Window::Named { start: start?, end: end? })
            }
        }
    }

    fn updates(&self, input: &StreamType, problems: &mut Vec<Problem>) -> Option<Updates> {
        let ChangeMode::Upsert { keys } = &input.mode else { return None };
        let mover = match &self.window {
            None => None,
            Some(WindowDef::Of(column, _)) => Some(column.as_str()),
            Some(WindowDef::Named) => Some(START),
        };
        if let Some(column) = mover.filter(|column| !keys.iter().any(|key| key == column)) {
            let message = format!(
                "the rows that come in replace earlier ones of equal `{}`, and `{column}` is none of these keys: an update could move a row out \
                 of a window that has closed; rank without `windowed`, or make `{column}` a key of what comes in",
                keys.join("`, `")
            );
            problems.push(at(&["windowed"], message));
        }
        Some(Updates { keys: keys.iter().filter_map(|key| find(&input.schema, key)).collect(), op: input.schema.index_of(hidden::OP).ok() })
    }

    fn schema(input: &SchemaRef, groups: &[usize], cut: bool, window: &Option<Window>, changes: bool, cx: &BindCtx) -> SchemaRef {
        let mut fields: Vec<FieldRef> = Vec::new();
        if let (true, Some(Window::Of { zone, .. })) = (cut, window) {
            let bound = DataType::Timestamp(TimeUnit::Millisecond, zone.clone());
            fields.extend([START, END].map(|name| Arc::new(Field::new(name, bound.clone(), false))));
        }
        fields.extend(groups.iter().map(|index| Arc::clone(&input.fields()[*index])));
        fields.push(Arc::new(Field::new(RANK, DataType::Int64, false)));
        let visible = hidden::visible_schema(input);
        let rest = visible.fields().iter().enumerate().filter(|(index, _)| !groups.contains(index));
        fields.extend(rest.map(|(_, field)| Arc::clone(field)));
        if changes {
            fields.push(Arc::new(hidden::op_field()));
        }
        if cx.keys {
            fields.push(Arc::new(hidden::key_field()));
        }
        Arc::new(Schema::new(fields))
    }

    fn always(&self, group_by: &[String], mode: &ChangeMode) -> BTreeSet<String> {
        let mut always: BTreeSet<String> = group_by.iter().chain(&self.tie_by).chain([&self.order_by]).cloned().collect();
        if let Some(WindowDef::Of(column, _)) = &self.window {
            always.insert(column.clone());
        }
        if let ChangeMode::Upsert { keys } = mode {
            always.extend(keys.iter().cloned());
            always.insert(hidden::OP.to_string());
        }
        always
    }

    fn signature(&self, schema: &SchemaRef, order_by: usize, groups: &[usize], updates: &Option<Updates>) -> Signature {
        let column = |index: &usize| {
            let field = schema.field(*index);
            json!({ "column": field.name(), "type": types::name(field.data_type()) })
        };
        let columns = |indices: &[usize]| Value::from(indices.iter().map(column).collect::<Vec<Value>>());
        let visible: Vec<usize> = (0..hidden::visible_schema(schema).fields().len()).collect();
        let window = match &self.window {
            None => Value::Null,
            Some(WindowDef::Of(column, size)) => json!({ "timeColumn": column, "windowMs": size }),
            Some(WindowDef::Named) => json!(START),
        };
        Signature::new(INFO.op, VERSION)
            .with("orderBy", column(&order_by))
            .with("direction", if self.direction == Direction::Descending { "desc" } else { "asc" })
            .with("tieBy", self.tie_by.clone())
            .with("n", self.n)
            .with("groupBy", columns(groups))
            .with("columns", columns(&visible))
            .with("keys", updates.as_ref().map_or(Value::Null, |updates| columns(&updates.keys)))
            .with("window", window)
            .with("hash", hash::HASH_VERSION)
    }

    fn details(&self, plan: &Plan, group_by: &[String], spread: bool, mode: &ChangeMode) -> String {
        let direction = if self.direction == Direction::Descending { "desc" } else { "asc" };
        let by = if group_by.is_empty() { String::new() } else { format!(" per {}", group_by.join(", ")) };
        let window = match &self.window {
            None => String::new(),
            Some(WindowDef::Of(column, size)) => format!(", once per window of {} of {column}", show(*size)),
            Some(WindowDef::Named) => ", once when the window closes".to_string(),
        };
        let mut text = format!("first {} by {} {direction}{by}{window}", self.n, self.order_by);
        if self.window.is_none() {
            text.push_str(match &plan.updates {
                Some(_) => "; every row that comes in is kept, since any may move up",
                None => "; groups are kept for ever, so state grows with every new one",
            });
        }
        if let (false, ChangeMode::Upsert { keys }) = (spread, mode) {
            let keys = keys.join(", ");
            text.push_str(&format!("; in one task, since an update by {keys} may move a row to another group"));
        }
        text
    }
}

/// Whether a tie is broken by one word.
pub(super) fn breaks_by_a_word(plan: &Plan) -> bool {
    match plan.tie_by.as_slice() {
        [] => true,
        [one] => is_word(&plan.types[*one]),
        _ => false,
    }
}

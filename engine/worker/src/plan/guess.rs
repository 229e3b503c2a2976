//! What can be said of steps whose input is not wholly known, because something before them is mistaken.
//!
//! A step is bound several times, each time with another type standing in for what is not known. Where one of them suits it, the
//! input may be to blame and nothing is said; a mistake that no stand-in mends is the step's own. So an unknown function, a
//! wrong number of arguments or a misspelt column of a known input is found, and nothing is reported twice.

use arrow::datatypes::{DataType, Field, FieldRef, Schema, SchemaRef, TimeUnit};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use tidegate_api::ChangeMode;
use tidegate_api::config::Problem;
use tidegate_dialect::Functions;
use tidegate_operators::{BindCtx, Bound, BoundNode, StepDef, StreamType};

/// A column that no step names; where it comes out, everything that came in does.
const PROBE: &str = "\u{0}probe";

/// A step that names more than this is not judged behind a mistake: it would be bound too often.
const MAX_WORDS: usize = 256;

/// Rows of which not everything is known.
#[derive(Debug, Clone)]
pub(super) struct Guess {
    /// Columns whose type is certain.
    known: Vec<FieldRef>,
    /// Columns that are there, of any type.
    doubtful: BTreeSet<String>,
    /// Whether there may be other columns.
    open: bool,
    mode: ChangeMode,
}

/// What was found out about a step.
pub(super) struct Judged {
    /// Its own mistakes.
    pub(super) problems: Vec<Problem>,
    /// What it makes.
    pub(super) output: Guess,
    /// Whether it is an operator, if it could be bound.
    pub(super) is_operator: bool,
}

impl Guess {
    /// Rows that are known.
    pub(super) fn certain(stream: &StreamType) -> Self {
        Guess { known: stream.schema.fields().to_vec(), doubtful: BTreeSet::new(), open: false, mode: stream.mode.clone() }
    }

    /// Rows with these columns, and none else.
    pub(super) fn of_schema(schema: &SchemaRef) -> Self {
        Guess::certain(&StreamType::append(Arc::clone(schema)))
    }

    /// Rows of which nothing is known.
    pub(super) fn nothing() -> Self {
        Guess { known: Vec::new(), doubtful: BTreeSet::new(), open: true, mode: ChangeMode::Append }
    }

    /// Adds a column of any type.
    pub(super) fn with_doubtful(mut self, column: &str) -> Self {
        self.known.retain(|field| field.name() != column);
        self.doubtful.insert(column.to_string());
        self
    }

    /// Whether there is nothing to guess.
    pub(super) fn is_certain(&self) -> bool {
        !self.open && self.doubtful.is_empty()
    }

    fn has(&self, column: &str) -> bool {
        self.doubtful.contains(column) || self.known.iter().any(|field| field.name() == column)
    }

    /// The rows with `stand_in` for what is not known; `words` are columns that the step may mean.
    fn filled(&self, stand_in: &DataType, words: Option<&BTreeSet<String>>) -> StreamType {
        let mut fields = self.known.clone();
        let mut add = |name: &str| fields.push(Arc::new(Field::new(name, stand_in.clone(), true)));
        self.doubtful.iter().for_each(|name| add(name));
        if let (true, Some(words)) = (self.open, words) {
            words.iter().filter(|word| !self.has(word)).for_each(|word| add(word));
            add(PROBE);
        }
        StreamType { schema: Arc::new(Schema::new(fields)), mode: self.mode.clone() }
    }

    /// What a mistaken step most likely makes of these rows.
    pub(super) fn after_mistake(&self, step: &Value) -> Self {
        let text = |key: &str| step.get(key).and_then(Value::as_str);
        match (text("op").unwrap_or_default(), text("column")) {
            ("filter" | "deduplicate" | "drop" | "union", _) => self.clone(),
            ("applyExpression" | "cast", Some(column)) => self.clone().with_doubtful(column),
            ("unnest", Some(column)) => self.clone().with_doubtful(text("alias").unwrap_or(column)),
            ("rename", _) => {
                let mapping = step.get("mapping").and_then(Value::as_object);
                let new = mapping.into_iter().flat_map(|mapping| mapping.values()).filter_map(Value::as_str);
                new.fold(self.clone(), Guess::with_doubtful)
            }
            ("select", _) => {
                let entries: Vec<&Value> = step.get("columns").and_then(Value::as_array).into_iter().flatten().collect();
                let kept = |name: &str| entries.iter().any(|entry| entry.as_str() == Some(name));
                let known = self.known.iter().filter(|field| kept(field.name())).cloned().collect();
                let made = entries.iter().filter_map(|entry| entry.get("name").and_then(Value::as_str));
                // What is misspelt may be meant by a later step under its right name.
                made.fold(Guess { known, doubtful: BTreeSet::new(), open: true, mode: self.mode.clone() }, Guess::with_doubtful)
            }
            _ => Guess::nothing(),
        }
    }
}

/// One type of every kind that steps tell apart, and null, which expressions take everywhere.
fn stand_ins() -> Vec<DataType> {
    let list = |item: DataType| DataType::List(Arc::new(Field::new_list_field(item, true)));
    vec![
        DataType::Int64,
        DataType::Float64,
        DataType::Decimal128(18, 2),
        DataType::Utf8View,
        DataType::Boolean,
        DataType::Timestamp(TimeUnit::Millisecond, None),
        DataType::Date32,
        DataType::Time64(TimeUnit::Microsecond),
        DataType::Binary,
        list(DataType::Int64),
        list(DataType::Utf8View),
        DataType::Struct(vec![Field::new("member", DataType::Int64, true)].into()),
        DataType::Null,
    ]
}

/// Every name that a step may mean a column by.
fn words(value: &Value, found: &mut BTreeSet<String>) {
    let mut text = |text: &str| {
        found.insert(text.to_string());
        found.extend(text.split('`').map(str::to_string));
        let parts = text.split(|c: char| !(c.is_alphanumeric() || c == '_' || c == '$'));
        found.extend(parts.filter(|part| !part.is_empty()).map(str::to_string));
    };
    match value {
        Value::String(words) => text(words),
        Value::Array(items) => items.iter().for_each(|item| words(item, found)),
        Value::Object(map) => {
            map.keys().for_each(|key| text(key));
            map.values().for_each(|value| words(value, found));
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

type Tried = Result<Bound, Vec<Problem>>;

/// Judges a step that stands as `written` in the file.
pub(super) fn judge(step: &dyn StepDef, written: &Value, inputs: &[Guess], functions: &Functions) -> Judged {
    let Some(first) = inputs.first() else {
        return Judged { problems: Vec::new(), output: Guess::nothing(), is_operator: false };
    };
    // A plugin is not asked about columns that nobody has.
    if step.op() == "wasm" {
        return Judged { problems: Vec::new(), output: Guess::nothing(), is_operator: false };
    }
    let context = BindCtx::new().with_functions(functions.clone());
    let bind = |stand_in: &DataType, words: Option<&BTreeSet<String>>| -> Tried {
        let inputs: Vec<StreamType> = inputs.iter().map(|input| input.filled(stand_in, words)).collect();
        step.bind(&inputs, &context)
    };
    if inputs.iter().all(Guess::is_certain) {
        return match bind(&DataType::Null, None) {
            Ok(bound) => Judged {
                problems: Vec::new(),
                is_operator: matches!(bound.node, BoundNode::Operator { .. }),
                output: Guess::certain(&bound.output),
            },
            Err(problems) => Judged { problems, output: first.after_mistake(written), is_operator: false },
        };
    }
    let mut meant = BTreeSet::new();
    words(written, &mut meant);
    let tries: Vec<Tried> = stand_ins().iter().map(|stand_in| bind(stand_in, Some(&meant))).collect();
    let mut problems = inevitable(&tries);
    if meant.len() > MAX_WORDS {
        problems.clear();
    } else if inputs.iter().any(|input| input.open) {
        // That a column is there already is no mistake of a step whose input may not have it.
        for word in &meant {
            if problems.is_empty() {
                break;
            }
            let others: BTreeSet<String> = meant.iter().filter(|other| *other != word).cloned().collect();
            for tried in stand_ins().iter().map(|stand_in| bind(stand_in, Some(&others))) {
                problems.retain(|problem| !is_fine_at(&tried, &problem.path));
            }
        }
    }
    let output = output_of(&tries, inputs, &meant).unwrap_or_else(|| first.after_mistake(written));
    let is_operator = tries.iter().flatten().any(|bound| matches!(bound.node, BoundNode::Operator { .. }));
    Judged { problems, output, is_operator }
}

fn is_fine_at(tried: &Tried, path: &[String]) -> bool {
    match tried {
        Ok(_) => true,
        Err(problems) => problems.iter().all(|problem| problem.path != path),
    }
}

/// The mistakes at keys where every try has one, as far as more than one try says the same.
fn inevitable(tries: &[Tried]) -> Vec<Problem> {
    let mut counts: BTreeMap<&Problem, usize> = BTreeMap::new();
    for problem in tries.iter().filter_map(|tried| tried.as_ref().err()).flatten() {
        *counts.entry(problem).or_default() += 1;
    }
    let common = |path: &[String]| counts.iter().filter(|(problem, _)| problem.path == path).map(|(_, count)| *count).max();
    let own = counts.iter().filter(|(problem, count)| **count > 1 && common(&problem.path) == Some(**count));
    own.map(|(problem, _)| (*problem).clone()).filter(|problem| !tries.iter().any(|tried| is_fine_at(tried, &problem.path))).collect()
}

/// What a step makes, from the tries that could be bound.
fn output_of(tries: &[Tried], inputs: &[Guess], meant: &BTreeSet<String>) -> Option<Guess> {
    let bound: Vec<&StreamType> = tries.iter().flatten().map(|bound| &bound.output).collect();
    let first = bound.first()?;
    let mut output = Guess { known: Vec::new(), doubtful: BTreeSet::new(), open: false, mode: first.mode.clone() };
    for field in first.schema.fields() {
        let name = field.name();
        if name.contains(PROBE) {
            output.open = true;
            continue;
        }
        // Of one try alone nobody knows what the stand-in did to the type.
        let certain =
            inputs.iter().any(|input| input.known.iter().any(|known| known.name() == name && known.data_type() == field.data_type()));
        let same = |other: &&StreamType| other.schema.field_with_name(name).is_ok_and(|other| other.data_type() == field.data_type());
        if certain || (bound.len() > 1 && bound.iter().all(same)) {
            output.known.push(Arc::clone(field));
        } else {
            output.doubtful.insert(name.clone());
        }
    }
    if output.open {
        // They are there only because they were put there.
        output.doubtful.retain(|name| !meant.contains(name) || inputs.iter().any(|input| input.has(name)));
    }
    Some(output)
}

/// A step without the keys that are at fault for being unknown; `None` if other mistakes remain.
pub(super) fn without_unknown_keys(step: &Value, problems: &[Problem]) -> Option<Value> {
    let mut step = step.clone();
    for problem in problems {
        if !problem.is_unknown_key() {
            return None;
        }
        let (key, above) = problem.path.split_last()?;
        let mut at = &mut step;
        for part in above {
            at = match at {
                Value::Object(map) => map.get_mut(part)?,
                Value::Array(items) => items.get_mut(part.parse::<usize>().ok()?)?,
                _ => return None,
            };
        }
        at.as_object_mut()?.remove(key)?;
    }
    (!problems.is_empty()).then_some(step)
}

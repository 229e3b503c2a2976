//! A step that names a transform of the registry: `wasm` and `container` with `ref`.
//!
//! Whatever runs the transform, the step around it is the same: rows are typed to the declared input, handed over, what comes back is
//! checked against the declared output, and what the step keeps is put beside it natively.

use super::Plugins;
use super::backend::{Backend, Made, Part, Process};
use super::changes::{keys_of, refusal};
use super::container::ContainerBackend;
use super::registry::{Entry, Implementation, TransformManifest};
use super::typing::{Typing, rows_of};
use super::wasm::WasmBackend;
use arrow::array::{ArrayRef, RecordBatch, RecordBatchOptions, UInt32Array};
use arrow::datatypes::{FieldRef, Schema, SchemaRef};
use serde_json::{Map, Value};
use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;
use tidegate_api::config::{Options, Problem};
use tidegate_api::nearest::hint;
use tidegate_api::{BadRow, EventTime, Output, Result, ResultExt, Step, StepCtx, StepFactory, hidden};
use tidegate_host::Shape;
use tidegate_operators::{BindCtx, Bound, BoundNode, StepDef, StreamType};

/// A step with `ref`, as parsed.
pub struct TransformStep {
    plugins: Plugins,
    manifest: Arc<TransformManifest>,
    config: Map<String, Value>,
    keep: Vec<String>,
    env: Option<Vec<String>>,
}

impl fmt::Debug for TransformStep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TransformStep").field("transform", &self.manifest.to_string()).field("keep", &self.keep).finish_non_exhaustive()
    }
}

impl TransformStep {
    /// Reads a step whose `op` is `wasm` or `container` and that has `ref`.
    ///
    /// # Errors
    /// Every mistake in it.
    pub fn parse(op: Implementation, step: &Map<String, Value>, plugins: &Plugins) -> Result<TransformStep, Vec<Problem>> {
        let mut options = Options::new(step);
        options.string("op");
        if options.value("plugin").is_some() {
            options.problem("plugin", "`plugin` names a `[plugins.NAME]` and `ref` a transform of the registry; a step has one of them");
        }
        let reference = options.require_string("ref");
        let config = options.table("config").cloned().unwrap_or_default();
        let keep = options.strings("keep").unwrap_or_default();
        let env = match op {
            Implementation::Wasm => None,
            Implementation::Container => options.strings("env"),
        };
        let manifest = reference.and_then(|reference| match plugins.registry().get(&reference) {
            Ok(manifest) if manifest.implementation() == op => Some(Arc::clone(manifest)),
            Ok(manifest) => {
                let is = manifest.implementation().op();
                options
                    .problem("ref", format!("the transform `{manifest}` is a `{is}`, and the step a `{}`; write `op = \"{is}\"`", op.op()));
                None
            }
            Err(message) => {
                options.problem("ref", message);
                None
            }
        });
        if let Some(manifest) = &manifest {
            options.problems(keep_problems(&keep, manifest));
            options.problems(env_problems(env.as_deref(), manifest));
        }
        let problems = options.finish();
        match manifest {
            Some(manifest) if problems.is_empty() => Ok(TransformStep { plugins: plugins.clone(), manifest, config, keep, env }),
            _ => Err(problems),
        }
    }

    /// The transform that it names.
    pub fn manifest(&self) -> &Arc<TransformManifest> {
        &self.manifest
    }

    fn backend(&self) -> Result<Box<dyn Backend>, Vec<Problem>> {
        match &self.manifest.entry {
            Entry::Wasm { .. } => Ok(Box::new(WasmBackend::bind(&self.plugins, &self.manifest, &self.config)?)),
            Entry::Container(entry) => {
                let backend = ContainerBackend::bind(&self.plugins, &self.manifest, entry, &self.config, self.env.as_deref());
                Ok(Box::new(backend.map_err(|problem| vec![problem])?))
            }
        }
    }

    /// The kept columns of the input, and those that are missing; one that nobody reads may be.
    fn kept(&self, input: &StreamType, cx: &BindCtx) -> Result<Vec<usize>, Vec<Problem>> {
        let visible = hidden::visible_schema(&input.schema);
        let is_key = |name: &str| keys_of(&input.mode).iter().any(|key| key == name);
        let (mut kept, mut problems) = (Vec::new(), Vec::new());
        for (at, name) in self.keep.iter().enumerate() {
            let wanted = cx.needed.as_ref().is_none_or(|needed| needed.contains(name)) || is_key(name);
            match visible.index_of(name) {
                Ok(index) if wanted => kept.push(index),
                Ok(_) => {}
                Err(_) if !wanted => {}
                Err(_) => {
                    let hint = hint(name, visible.fields().iter().map(|field| field.name().as_str()));
                    problems.push(Problem::new(vec!["keep".into(), at.to_string()], format!("there is no column `{name}`{hint}")));
                }
            }
        }
        for key in keys_of(&input.mode).iter().filter(|key| !self.keep.contains(key)) {
            let message =
                format!("rows that come in replace each other by their column `{key}`; add it to `keep`, or they cannot any more");
            problems.push(Problem::at("keep", message));
        }
        if problems.is_empty() { Ok(kept) } else { Err(problems) }
    }

    /// What rows that are made freely cannot have.
    fn free_problems(&self, input: &StreamType, cx: &BindCtx) -> Vec<Problem> {
        let free = format!("the transform `{}` may change rows freely", self.manifest);
        let mut problems = Vec::new();
        if !self.keep.is_empty() {
            problems.push(Problem::at(
                "keep",
                format!("{free}, so no column can be kept beside what it makes; let it make them, and leave `keep` out"),
            ));
        }
        if cx.keys {
            problems.push(Problem::at("ref", format!("{free}, so its rows have no keys, which a sink asks for")));
        }
        let hidden = input.schema.fields().iter().find(|field| hidden::is_hidden(field.name()) && field.name() != hidden::KEY);
        if let Some(field) = hidden {
            problems.push(Problem::at("ref", format!("{free}, so the hidden column `{}` cannot be carried beside it", field.name())));
        }
        problems
    }
}

fn keep_problems(keep: &[String], manifest: &TransformManifest) -> Vec<Problem> {
    let at = |index: usize, message: String| Problem::new(vec!["keep".into(), index.to_string()], message);
    let mut problems = Vec::new();
    for (index, name) in keep.iter().enumerate() {
        if keep[..index].contains(name) {
            problems.push(at(index, format!("`{name}` stands twice")));
        } else if manifest.output.index_of(name).is_ok() {
            let message = format!(
                "the transform `{manifest}` makes a column `{name}` itself; rename one of them in a step before, or leave it out here"
            );
            problems.push(at(index, message));
        }
    }
    problems
}

/// A step narrows what its transform would like to see.
fn env_problems(env: Option<&[String]>, manifest: &TransformManifest) -> Vec<Problem> {
    let wanted: &[String] = match &manifest.entry {
        Entry::Wasm { .. } => &[],
        Entry::Container(entry) => &entry.env,
    };
    let unknown = env.unwrap_or_default().iter().filter(|name| !wanted.contains(name));
    let problem = |name: &String| {
        let hint = hint(name, wanted.iter().map(String::as_str));
        Problem::at(
            "env",
            format!("the transform `{manifest}` does not ask for the variable `{name}`{hint}; a step can only narrow what it asks for"),
        )
    };
    unknown.map(problem).collect()
}

impl StepDef for TransformStep {
    fn op(&self) -> &'static str {
        self.manifest.implementation().op()
    }

    fn bind(&self, inputs: &[StreamType], cx: &BindCtx) -> Result<Bound, Vec<Problem>> {
        let [input] = inputs else {
            return Err(vec![Problem::whole(format!("`{}` takes one input and has {}", self.op(), inputs.len()))]);
        };
        let typing = Typing::bind(&input.schema, &self.manifest);
        let backend = self.backend();
        let columns: Vec<String> = self.manifest.inputs.fields().iter().map(|field| field.name().clone()).collect();
        let refused = backend.as_ref().ok().and_then(|backend| {
            let who = format!("the transform `{}`", self.manifest);
            refusal(&who, &input.mode, backend.shape(), &columns)
        });
        if let Some(message) = refused {
            return Err(vec![Problem::at("ref", message)]);
        }
        let kept = match backend.as_ref().map(|backend| backend.shape()) {
            Ok(Shape::Free) => {
                let problems = self.free_problems(input, cx);
                if problems.is_empty() { Ok(Vec::new()) } else { Err(problems) }
            }
            // Whether rows are free is not known without it; the columns to keep are.
            Ok(Shape::Rowwise | Shape::RowwiseFilter) | Err(_) => self.kept(input, cx),
        };
        let (typing, backend, kept) = match (typing, backend, kept) {
            (Ok(typing), Ok(backend), Ok(kept)) => (typing, backend, kept),
            (typing, backend, kept) => {
                let found = [typing.err(), backend.err(), kept.err()];
                return Err(found.into_iter().flatten().flatten().collect());
            }
        };
        let carries = |name: &str| hidden::is_hidden(name) && (name != hidden::KEY || cx.keys);
        let hidden = input.schema.fields().iter().enumerate().filter(|(_, field)| carries(field.name())).map(|(index, _)| index);
        let carried: Vec<usize> = kept.iter().copied().chain(hidden).collect();
        let made = self.manifest.output.fields().iter().map(Arc::clone);
        let fields: Vec<FieldRef> = made.chain(carried.iter().map(|index| Arc::clone(&input.schema.fields()[*index]))).collect();
        let schema = Arc::new(Schema::new(fields));
        let reads: BTreeSet<String> = columns.into_iter().collect();
        let always: BTreeSet<String> = reads.iter().chain(keys_of(&input.mode)).cloned().collect();
        let keep: BTreeSet<String> = self.keep.iter().cloned().collect();
        let details = format!(
            "transform `{}`, reads [{}], keeps {} column{}",
            self.manifest,
            reads.iter().cloned().collect::<Vec<_>>().join(", "),
            kept.len(),
            if kept.len() == 1 { "" } else { "s" }
        );
        let factory = Factory { manifest: Arc::clone(&self.manifest), schema: Arc::clone(&schema), typing, backend, carried };
        Ok(Bound {
            output: StreamType { schema, mode: input.mode.clone() },
            node: BoundNode::Step(Arc::new(factory)),
            required: Box::new(move |needed| vec![always.union(&needed.intersection(&keep).cloned().collect()).cloned().collect()]),
            equals: Vec::new(),
            details,
        })
    }
}

struct Factory {
    manifest: Arc<TransformManifest>,
    schema: SchemaRef,
    typing: Typing,
    backend: Box<dyn Backend>,
    carried: Vec<usize>,
}

impl StepFactory for Factory {
    fn name(&self) -> &str {
        self.manifest.implementation().op()
    }

    fn output_schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    fn open(&self, ctx: StepCtx) -> Result<Box<dyn Step>> {
        Ok(Box::new(Running {
            name: self.manifest.to_string(),
            schema: Arc::clone(&self.schema),
            typing: self.typing.clone(),
            process: self.backend.open(&ctx)?,
            carried: self.carried.clone(),
        }))
    }
}

/// The step of one task.
struct Running {
    name: String,
    schema: SchemaRef,
    typing: Typing,
    process: Box<dyn Process>,
    carried: Vec<usize>,
}

impl Running {
    /// Puts kept and hidden columns beside what was made. `rows` are those that were handed over.
    fn assemble(&self, part: Part, rows: &RecordBatch) -> Result<RecordBatch> {
        let kept = rows_of(rows, part.from.as_ref())?;
        let count = part.rows.num_rows();
        let mut columns: Vec<ArrayRef> = part.rows.columns().to_vec();
        columns.extend(kept.columns().iter().map(Arc::clone));
        let options = RecordBatchOptions::new().with_row_count(Some(count));
        Ok(RecordBatch::try_new_with_options(Arc::clone(&self.schema), columns, &options)?)
    }
}

impl Step for Running {
    fn apply(&mut self, batch: RecordBatch, now: EventTime, out: &mut Output) -> Result<()> {
        let typed = self.typing.apply(&batch)?;
        for (row, misfit) in typed.bad {
            let message = format!("transform `{}`: {}", self.name, misfit.message);
            out.bad.push(BadRow::of(&batch, row, misfit.reason, message).in_column(Some(misfit.column)));
        }
        if typed.rows.num_rows() == 0 {
            return Ok(());
        }
        let handed = rows_of(&batch.project(&self.carried)?, typed.from.as_ref())?;
        let Made { parts, bad, filtered } = self.process.process(typed.rows, now).context(|| format!("transform `{}`", self.name))?;
        let original = |row: usize| typed.from.as_ref().map_or(row, |from: &UInt32Array| from.value(row) as usize);
        for found in bad {
            let message = format!("transform `{}`: {}", self.name, found.message);
            out.bad.push(BadRow::of(&batch, original(found.row), found.reason, message).in_column(found.column));
        }
        out.filtered += filtered;
        for part in parts {
            out.emit(self.assemble(part, &handed)?);
        }
        Ok(())
    }
}

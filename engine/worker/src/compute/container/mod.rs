//! A transform in a process of its own: one long-lived child per task, called batch by batch over its pipes.
//!
//! `docs/container-protocol.md` says what it speaks, `docs/design/0004-transforms.md` what happens when it dies, hangs or lies. It is
//! stateless, so a batch whose call failed goes to a new process.

mod budget;
mod child;
mod frame;
mod launch;
mod said;

use super::Plugins;
use super::backend::{Backend, Made, Part, Process, Refused, compare, conform};
use super::registry::{ContainerEntry, ContainerLimits, TransformManifest};
use super::wasm::word;
use arrow::array::cast::AsArray;
use arrow::array::{Array, BooleanArray, RecordBatch, UInt32Array};
use arrow::compute::{concat_batches, filter_record_batch};
use arrow::datatypes::{DataType, Schema};
use budget::Budget;
use child::{Answer, Child, Fault};
use frame::Kind;
use launch::Launch;
use said::Said;
use serde_json::{Map, Value, json};
use std::sync::Arc;
use std::time::Duration;
use tidegate_api::config::Problem;
use tidegate_api::{BadReason, Clock, Error, EventTime, Result, ResultExt, StepCtx, types};
use tidegate_host::{Shape, StreamEncoder, decode_stream};
use tokio::runtime::Runtime;

/// A container that can be opened.
pub(super) struct ContainerBackend {
    manifest: Arc<TransformManifest>,
    limits: ContainerLimits,
    launch: Launch,
    config: Map<String, Value>,
    clock: Arc<dyn Clock>,
}

impl ContainerBackend {
    /// Looks for what it starts; nothing is started. `env` narrows the variables that its manifest names.
    ///
    /// # Errors
    /// A program or container runtime that is not there.
    pub(super) fn bind(
        plugins: &Plugins,
        manifest: &Arc<TransformManifest>,
        entry: &ContainerEntry,
        config: &Map<String, Value>,
        env: Option<&[String]>,
    ) -> Result<Self, Problem> {
        let launch = Launch::find(manifest, entry, env.unwrap_or(&entry.env), &plugins.config().environment)?;
        plugins.uses_container(manifest, launch.digest(manifest));
        let clock = Arc::clone(&plugins.config().clock);
        Ok(ContainerBackend { manifest: Arc::clone(manifest), limits: entry.limits.clone(), launch, config: config.clone(), clock })
    }

    /// What the greeting says.
    fn greeting(&self, ctx: &StepCtx) -> Vec<u8> {
        let columns = |schema: &Schema| -> Value {
            let column = |field: &Arc<arrow::datatypes::Field>| json!({ "name": field.name(), "type": types::name(field.data_type()), "nullable": field.is_nullable() });
            schema.fields().iter().map(column).collect()
        };
        let greeting = json!({
            "protocol": frame::VERSION,
            "id": self.manifest.id,
            "version": self.manifest.version.to_string(),
            "config": self.config,
            "shape": word(self.shape()),
            "inputs": columns(&self.manifest.inputs),
            "output": columns(&self.manifest.output),
            "pipeline": ctx.run.pipeline,
            "operator": ctx.run.operator,
            "task": ctx.task,
            "tasks": ctx.tasks,
        });
        greeting.to_string().into_bytes()
    }
}

impl Backend for ContainerBackend {
    fn shape(&self) -> Shape {
        self.manifest.shape.unwrap_or(Shape::Rowwise)
    }

    fn open(&self, ctx: &StepCtx) -> Result<Box<dyn Process>> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_io().enable_time().build();
        let runtime = runtime.map_err(|error| Error::external("a container's pipes cannot be watched").caused_by(error))?;
        let mut running = Running {
            runtime,
            manifest: Arc::clone(&self.manifest),
            limits: self.limits.clone(),
            launch: self.launch.clone(),
            shape: self.shape(),
            greeting: self.greeting(ctx),
            task: ctx.task,
            encoder: StreamEncoder::new(&self.manifest.inputs)?,
            budget: Budget::new(self.limits.restarts),
            clock: Arc::clone(&self.clock),
            number: 0,
            child: None,
            greeted: false,
        };
        running.repeat(&mut |_| Ok(())).context(|| format!("transform `{}`", self.manifest))?;
        Ok(Box::new(running))
    }
}

/// The container of one task.
struct Running {
    runtime: Runtime,
    manifest: Arc<TransformManifest>,
    limits: ContainerLimits,
    launch: Launch,
    shape: Shape,
    greeting: Vec<u8>,
    task: usize,
    encoder: StreamEncoder,
    budget: Budget,
    clock: Arc<dyn Clock>,
    /// Of the last call.
    number: u64,
    child: Option<Child>,
    /// Whether the child has answered the greeting.
    greeted: bool,
}

impl Process for Running {
    fn process(&mut self, typed: RecordBatch, _: EventTime) -> Result<Made> {
        let payload = self.encoder.encode(&typed)?;
        let mut made = None;
        self.repeat(&mut |running| {
            let deadline = running.limits.deadline;
            let answer = running.call(Kind::Rows, &payload, deadline)?;
            made = Some(running.check(answer, typed.num_rows()).map_err(Fault::Broken)?);
            Ok(())
        })?;
        made.ok_or_else(|| Error::internal("a call of a container ended without an answer"))
    }
}

impl Running {
    /// Does something with a running child, again and again while it fails for reasons that may pass and the budget lasts.
    fn repeat(&mut self, work: &mut dyn FnMut(&mut Running) -> Result<(), Fault>) -> Result<()> {
        loop {
            let outcome = match self.greet() {
                Ok(()) => work(self),
                // Nobody waited for an answer to a batch yet: the machine may be slow only now.
                Err(Fault::Late(what)) => Err(Fault::Died(format!("{what} of its start"))),
                Err(other) => Err(other),
            };
            match outcome {
                Ok(()) => return Ok(()),
                Err(fault) => self.after(fault).context(|| format!("task {}", self.task))?,
            }
        }
    }

    /// Starts a child where none runs, and waits for its greeting.
    fn greet(&mut self) -> Result<(), Fault> {
        if self.child.is_some() && self.greeted {
            return Ok(());
        }
        if self.child.is_none() {
            self.start()?;
        }
        let (greeting, timeout) = (self.greeting.clone(), self.limits.start_timeout);
        let answer = self.call(Kind::Open, &greeting, timeout)?;
        if answer.bad.is_some() {
            return Err(Fault::Broken("it answered the greeting with bad rows".into()));
        }
        let answer: Value =
            serde_json::from_slice(&answer.payload).map_err(|error| Fault::Broken(format!("its greeting is no JSON: {error}")))?;
        match answer.get("protocol").and_then(Value::as_u64) {
            Some(frame::VERSION) => self.greeted = true,
            _ => {
                let version = frame::VERSION;
                return Err(Fault::Broken(format!("its greeting is `{answer}`, and `{{\"protocol\":{version}}}` is expected")));
            }
        }
        Ok(())
    }

    fn start(&mut self) -> Result<(), Fault> {
        self.greeted = false;
        // Unique on this machine: the process, and a moment of it.
        let name = format!("tidegate-{}-{}-{:x}", std::process::id(), self.task, self.clock.monotonic().as_nanos());
        let said = Said::new(self.manifest.to_string(), self.task, self.limits.log_lines_per_second, Arc::clone(&self.clock));
        self.child = Some(Child::start(&self.runtime, &self.launch, name, said, self.limits.output)?);
        Ok(())
    }

    fn call(&mut self, kind: Kind, payload: &[u8], deadline: Duration) -> Result<Answer, Fault> {
        self.number += 1;
        let Some(child) = self.child.as_mut() else { return Err(Fault::Died("it does not run".into())) };
        let answer = child.call(&self.runtime, kind, self.number, payload, deadline)?;
        if answer.kind == kind {
            Ok(answer)
        } else {
            Err(Fault::Broken(format!("it answered a frame `{kind}` with one `{}`", answer.kind)))
        }
    }

    /// Ends the child where it has to be, and pauses before the next attempt; or the error.
    fn after(&mut self, fault: Fault) -> Result<()> {
        let (error, least) = match fault {
            Fault::Died(what) => {
                let words = self.child.take().map(|child| child.kill(&self.runtime)).unwrap_or_default();
                (Error::external(format!("{what}{words}")), Duration::ZERO)
            }
            Fault::Late(what) => {
                let words = self.kill_now();
                (
                    Error::limit(format!("{what}, its `deadline`{words}; raise it in `limits` of its manifest, or send smaller batches")),
                    Duration::ZERO,
                )
            }
            Fault::Broken(what) => {
                let words = self.kill_now();
                return Err(Error::config(format!("{what}{words}; see docs/container-protocol.md")));
            }
            Fault::TooLarge(bytes) => {
                let (words, output) = (self.kill_now(), self.limits.output);
                return Err(Error::limit(format!("it announced a frame of {bytes} bytes, over its limit `output` of {output}{words}")));
            }
            Fault::Failed(said) => self.failed(&said)?,
        };
        let Some(pause) = self.budget.spend(self.clock.monotonic()) else {
            let restarts = self.limits.restarts;
            return Err(error.context(format!("after {restarts} restart{} in ten minutes", if restarts == 1 { "" } else { "s" })));
        };
        let pause = pause.max(least);
        tracing::warn!(target: "tidegate::container", transform = %self.manifest, task = self.task, %error, ?pause, "a container is called again");
        self.runtime.block_on(async { tokio::time::sleep(pause).await });
        Ok(())
    }

    fn kill_now(&mut self) -> String {
        self.child.take().map(|child| child.kill_now(&self.runtime)).unwrap_or_default()
    }

    /// What it said of a call that failed: what may be repeated, and after which pause at least; or the error.
    fn failed(&mut self, said: &[u8]) -> Result<(Error, Duration)> {
        let said: Value = serde_json::from_slice(said).unwrap_or_else(|_| json!({ "message": String::from_utf8_lossy(said) }));
        let message = said.get("message").and_then(Value::as_str).unwrap_or("it failed and does not say why").to_string();
        match said.get("kind").and_then(Value::as_str) {
            Some("retry") => {
                // An hour is longer than any deadline: who waits longer shall end the run.
                let after = said.get("afterMs").and_then(Value::as_u64).unwrap_or(0).min(3_600_000);
                Ok((Error::external(message), Duration::from_millis(after)))
            }
            Some("config") => {
                self.close();
                Err(Error::config(message))
            }
            _ => {
                self.close();
                Err(Error::external(message))
            }
        }
    }

    /// Believes an answer to `rows` rows, or says what is wrong with it.
    fn check(&self, answer: Answer, rows: usize) -> Result<Made, String> {
        let bad = answer.bad.map_or_else(|| Ok(Vec::new()), |bad| refused(&bad, rows))?;
        let (schema, batches) = decode_stream(&answer.payload).map_err(|what| format!("the rows it sent are unusable: {what}"))?;
        let made = match batches.as_slice() {
            [only] => only.clone(),
            several => concat_batches(&schema, several).map_err(|error| error.to_string())?,
        };
        let masks = usize::from(self.shape == Shape::RowwiseFilter);
        let mask = match self.shape {
            Shape::Rowwise | Shape::Free => None,
            Shape::RowwiseFilter => Some(mask_of(&made)?),
        };
        let columns: Vec<usize> = (masks..made.num_columns()).collect();
        let mut made = made.project(&columns).map_err(|error| error.to_string())?;
        let places = compare(&self.manifest.output, made.schema_ref(), &[])
            .map_err(|differences| format!("the rows it sent are not as its manifest declares: {}", differences.join("; ")))?;
        let declared = &self.manifest.output;
        let not_declared = |what: String| format!("the rows it sent are not as its manifest declares: {what}");
        if self.shape == Shape::Free {
            let part = Part { rows: conform(declared, &made, &places).map_err(not_declared)?, from: None };
            return Ok(Made { parts: vec![part], bad, filtered: 0 });
        }
        if made.num_rows() != rows {
            return Err(format!("it made {} rows of {rows}, and its shape says one of each", made.num_rows()));
        }
        let mut from = None;
        let mut filtered = 0;
        if mask.is_some() || !bad.is_empty() {
            let mut keep: Vec<bool> = mask.map_or_else(|| vec![true; rows], |mask| mask.values().iter().collect());
            for refused in &bad {
                keep[refused.row] = false;
            }
            let numbers: UInt32Array = (0..rows).filter(|row| keep[*row]).map(|row| row as u32).collect();
            filtered = (rows - numbers.len() - bad.len()) as u64;
            made = filter_record_batch(&made, &BooleanArray::from(keep)).map_err(|error| error.to_string())?;
            from = Some(numbers);
        }
        let part = Part { rows: conform(declared, &made, &places).map_err(not_declared)?, from };
        Ok(Made { parts: vec![part], bad, filtered })
    }

    fn close(&mut self) {
        if let Some(child) = self.child.take() {
            child.close(&self.runtime, self.limits.stop_timeout);
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.close();
    }
}

/// The first column of a filter's answer.
fn mask_of(made: &RecordBatch) -> Result<BooleanArray, String> {
    let mask = made.columns().first().filter(|column| *column.data_type() == DataType::Boolean).map(|column| column.as_boolean().clone());
    let mask = mask.ok_or("its shape is `rowwise-filter`, and the first column it sent is no keep-mask of type `bool`")?;
    if mask.null_count() > 0 { Err("its keep-mask has nulls".into()) } else { Ok(mask) }
}

/// Reads a frame of bad rows: in order, each once.
fn refused(bytes: &[u8], rows: usize) -> Result<Vec<Refused>, String> {
    let list: Vec<Value> = serde_json::from_slice(bytes).map_err(|error| format!("its frame `bads` is no JSON list: {error}"))?;
    let mut refused: Vec<Refused> = Vec::with_capacity(list.len());
    for entry in list {
        let row = entry.get("row").and_then(Value::as_u64).and_then(|row| usize::try_from(row).ok());
        let next = refused.last().map_or(0, |last| last.row + 1);
        let Some(row) = row.filter(|row| (next..rows).contains(row)) else {
            return Err(format!("its frame `bads` names the row of `{entry}`, of {rows} rows; they go in order, each once"));
        };
        let text = |key: &str| entry.get(key).and_then(Value::as_str).map(str::to_string);
        let message = text("message").unwrap_or_else(|| "refused without a reason".to_string());
        refused.push(Refused { row, reason: BadReason::Plugin, column: text("column"), message });
    }
    Ok(refused)
}

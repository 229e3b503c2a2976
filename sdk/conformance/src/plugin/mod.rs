//! Components: which suites judge one, how its outside is reached, and the report.

mod any;
mod command;
mod group;
mod service;
mod sinks;
mod step;
mod table;
mod upgrade;

use crate::report::{Earned, Report};
use crate::rules::{Rule, Suite};
use crate::source::{SourceOptions, SourceWorld};
use crate::transform::{BoundStep, TransformWorld};
use crate::verdict::{Judgement, Record};
use arrow::array::RecordBatch;
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use serde_json::{Map, Value};
use service::Service;
use std::sync::Arc;
use tidegate_api::{ChangeMode, Error, Guarantee, Result, ResultExt, SinkInput, SourceRequest};
use tidegate_host::{Plugin, PluginHost, PluginSpec, World};

pub use command::Command;
pub use group::end_all;
pub use step::{StepAbout, judge_step};
pub use table::Conformance;

/// One use of a component, as it is judged.
struct Judged<'a> {
    host: &'a PluginHost,
    spec: PluginSpec,
    plugin: Arc<Plugin>,
    world: World,
    conformance: Arc<Conformance>,
    service: Option<&'a Service>,
}

impl Judged<'_> {
    /// The columns handed to a transform or sink.
    fn input(&self) -> SchemaRef {
        self.conformance.input.clone().unwrap_or_else(default_input)
    }

    /// The plugin's configuration, overlaid.
    fn whole_config(&self) -> Map<String, Value> {
        let mut config = self.spec.config.as_object().cloned().unwrap_or_default();
        config.extend(self.conformance.config.clone());
        config
    }

    fn config(&self) -> Value {
        Value::Object(self.conformance.config.clone())
    }

    /// A record that tells what it records.
    fn record(&self) -> Record {
        Record::telling(self.conformance.progress)
    }

    /// Whether the outside is still there: if not, what was found is no fault of the plugin.
    fn check(&self) -> Result<()> {
        self.service.map_or(Ok(()), Service::check)
    }

    /// The outside as it is at the beginning.
    fn begin(&self) -> Result<()> {
        self.check()?;
        self.conformance.run(self.conformance.reset.as_ref())?;
        self.conformance.run(self.conformance.seed.as_ref())
    }

    /// The same again, loaded anew: its numbers begin at nothing.
    fn anew(&self) -> Result<Judged<'_>> {
        let plugin = self.host.load(&self.spec)?;
        let (spec, conformance) = (self.spec.clone(), Arc::clone(&self.conformance));
        Ok(Judged { host: self.host, spec, plugin, world: self.world, conformance, service: self.service })
    }
}

fn default_input() -> SchemaRef {
    Arc::new(Schema::new(vec![Field::new("n", DataType::Int64, true), Field::new("s", DataType::Utf8View, true)]))
}

/// Judges a component: chooses the suites by its world, and says which guarantee it earned.
///
/// # Errors
/// Whatever keeps it from being judged: a file that does not load, a command or service that fails, an `input` that it does not take.
pub fn judge(host: &Arc<PluginHost>, spec: &PluginSpec, conformance: &Conformance) -> Result<Report> {
    let (conformance, service) = conformance.served()?;
    let spec = granted(spec, &conformance)?;
    let plugin = host.load(&spec)?;
    let world = plugin.worlds().first().copied().ok_or_else(|| Error::internal("a loaded plugin has a world"))?;
    let conformance = Arc::new(conformance);
    let judged = Judged { host, spec, plugin, world, conformance: Arc::clone(&conformance), service: service.as_ref() };
    let mut report = Report {
        plugin: judged.plugin.name().to_string(),
        version: conformance.version.clone(),
        digest: judged.plugin.digest(),
        world: world.to_string(),
        interface: judged.plugin.interface_version().to_string(),
        claimed: String::new(),
        earned: Earned::Nothing,
        rules: Vec::new(),
        convictions: Vec::new(),
    };
    judged.begin()?;
    let (mut suites, main) = match world {
        World::Source => source(&judged, &mut report)?,
        World::Sink => sink(&judged, &mut report)?,
        _ => transform(&judged, &mut report)?,
    };
    suites.push(Suite::Any);
    let mut judgements = Vec::new();
    if main.passed() {
        judgements.push(traps(&judged));
    }
    judgements.push(main);
    judged.begin()?;
    judgements.push(any::hostile(&judged));
    judged.begin()?;
    judgements.push(any::leak(&judged.anew()?));
    if let Some(old) = &conformance.upgrade_from {
        judged.begin()?;
        let mut older = judged.spec.clone();
        older.path.clone_from(old);
        judgements.push(upgrade::judge(&judged, &older)?);
    }
    judged.check()?;
    judged.conformance.run(conformance.reset.as_ref())?;
    report.enter(&suites, &judgements);
    Ok(report)
}

/// Whether a newer component reads the positions and tokens of an older one, each under its own configuration.
///
/// # Errors
/// As [`judge`].
pub fn judge_upgrade(host: &Arc<PluginHost>, old: &PluginSpec, new: &PluginSpec, conformance: &Conformance) -> Result<Judgement> {
    let (conformance, service) = conformance.served()?;
    let (old, new) = (granted(old, &conformance)?, granted(new, &conformance)?);
    let plugin = host.load(&new)?;
    let world = plugin.worlds().first().copied().ok_or_else(|| Error::internal("a loaded plugin has a world"))?;
    let judged = Judged { host, spec: new, plugin, world, conformance: Arc::new(conformance), service: service.as_ref() };
    judged.begin()?;
    let judgement = upgrade::judge(&judged, &old)?;
    judged.check()?;
    Ok(judgement)
}

/// The plugin with the grants and the secrets of the table that it has not been given otherwise.
fn granted(spec: &PluginSpec, conformance: &Conformance) -> Result<PluginSpec> {
    let mut secrets = conformance.secrets.clone();
    secrets.retain(|name, _| !spec.secrets.contains_key(name));
    let mut granted = spec.clone().with_secrets(&secrets);
    if !conformance.allow.is_empty() {
        // Directories are looked for when an instance is opened; commands may have to make them first.
        granted = granted.and_then(|spec| spec.with_base_dir(&conformance.folder).with_allow(&conformance.allow));
    }
    let mut granted = granted.map_err(|problems| Error::from(problems).context("`[conformance]`"))?;
    granted.allow = spec.allow.clone().or(granted.allow);
    Ok(granted)
}

/// No call of the suites before trapped, unless one was convicted of it.
fn traps(judged: &Judged<'_>) -> Judgement {
    let record = judged.record();
    record.script("after everything");
    let traps = judged.plugin.metrics().traps();
    let verdict = record.hold(Rule::NeverTraps, traps == 0, || format!("{traps} calls trapped, and went through when they were repeated"));
    record.close(verdict)
}

fn source_world(plugin: &Arc<Plugin>, conformance: &Arc<Conformance>) -> SourceWorld {
    let (plugin, it) = (Arc::clone(plugin), Arc::clone(conformance));
    let config = Value::Object(it.config.clone());
    let world = SourceWorld::new(move || plugin.source(&config));
    match it.seed_more.clone() {
        Some(command) => world.with_more(move || it.run(Some(&command))),
        None => world,
    }
}

fn source_options(conformance: &Conformance) -> SourceOptions {
    let options = SourceOptions::default().with_rows(conformance.source_rows).with_wait(conformance.wait);
    options.with_time_column(conformance.time_column.clone())
}

fn source(judged: &Judged<'_>, report: &mut Report) -> Result<(Vec<Suite>, Judgement)> {
    const REPLAYABLE: &str = "replayable";
    const ONCE: &str = "not replayable";
    let plan = judged.plugin.source(&judged.config())?.plan(&SourceRequest::all())?;
    report.claimed = if plan.replayable { REPLAYABLE } else { ONCE }.to_string();
    let it = &judged.conformance;
    let judgement = crate::source::judge_telling(&source_world(&judged.plugin, it), &source_options(it), it.progress);
    report.earned = match &judgement.conviction {
        // A source that had nothing to read has shown nothing.
        None if plan.replayable && !judgement.kept.contains(&Rule::ReplaySame) => {
            Earned::Unproven("it gave no rows; set `seed`, or a `config` that has some".to_string())
        }
        None => Earned::Guarantee(report.claimed.clone()),
        Some(_) => Earned::Nothing,
    };
    Ok((vec![Suite::Source], judgement))
}

/// What every transform claims.
const DETERMINISTIC: &str = "deterministic";

/// A transform's own rows, if the table names some.
fn own_rows(conformance: &Conformance, input: &SchemaRef) -> Result<Vec<RecordBatch>> {
    let Some(file) = &conformance.rows else { return Ok(Vec::new()) };
    let text = std::fs::read_to_string(file).map_err(|error| Error::config(format!("`rows`: `{}`: {error}", file.display())))?;
    sinks::read(&text, input)?.into_iter().map(|batch| Ok(batch.with_schema(Arc::clone(input))?)).collect()
}

fn transform(judged: &Judged<'_>, report: &mut Report) -> Result<(Vec<Suite>, Judgement)> {
    report.claimed = DETERMINISTIC.to_string();
    let input = judged.input();
    let bound = judged.plugin.transform(&judged.config(), Arc::clone(&input));
    bound.context(|| {
        "`[conformance]` needs an `input` that the transform takes, `input = [{ name = \"x\", type = \"int64\" }]`".to_string()
    })?;
    let rows = own_rows(&judged.conformance, &input)?;
    let (plugin, config) = (Arc::clone(&judged.plugin), judged.config());
    let world = TransformWorld::new(input, move |input| {
        let bound = plugin.transform(&config, Arc::clone(input))?;
        let plan =
            format!("reads {:?}, carries {:?}, makes {:?}, {:?}, {}", bound.reads, bound.carries, bound.makes, bound.shape, bound.output);
        Ok(BoundStep { factory: bound.factory, plan, rowwise: bound.rowwise })
    });
    let judgement = crate::transform::judge_telling(&world.with_rows(rows), judged.conformance.progress);
    report.earned = if judgement.passed() { Earned::Guarantee(DETERMINISTIC.to_string()) } else { Earned::Nothing };
    Ok((vec![Suite::Transform], judgement))
}

/// A guarantee by its name.
fn name(guarantee: Guarantee) -> &'static str {
    match guarantee {
        Guarantee::AtMostOnce => "at-most-once",
        Guarantee::AtLeastOnce => "at-least-once",
        Guarantee::Idempotent => "idempotent",
        Guarantee::ExactlyOnce => "exactly-once",
    }
}

fn sink(judged: &Judged<'_>, report: &mut Report) -> Result<(Vec<Suite>, Judgement)> {
    let sink = judged.plugin.sink(&judged.config())?;
    let plan = sink.plan(&SinkInput::new(judged.input(), ChangeMode::Append));
    let plan = plan
        .context(|| "`[conformance]` needs an `input` that the sink takes, `input = [{ name = \"x\", type = \"int64\" }]`".to_string())?;
    report.claimed = name(plan.guarantee).to_string();
    let mut suites = vec![Suite::Sink];
    match plan.guarantee {
        Guarantee::ExactlyOnce => suites.push(Suite::TwoPhase),
        Guarantee::Idempotent => suites.push(Suite::Idempotent),
        Guarantee::AtLeastOnce | Guarantee::AtMostOnce => {}
    }
    if judged.conformance.read_back.is_none() {
        report.earned = Earned::Unproven("`[conformance]` has no `read-back`, so nobody knows what a reader sees".to_string());
        return Ok((suites, Judgement::default()));
    }
    let found = sinks::judge(judged, plan.guarantee)?;
    report.earned = found.earned.map_or(Earned::Nothing, |earned| Earned::Guarantee(name(earned).to_string()));
    Ok((suites, found.judgement))
}

//! From the host's answers to a plan, keeping every mistake on the way.

use crate::compute::{self, Plugins};
use crate::control::{ControlPlane, HostSettings, Topology};
use crate::options;
use crate::plan::{self, Dataset, PlanInput, PlanSettings, Planned, StepParser};
use crate::settings::{Settings, Spill};
use serde_json::Value;
use std::collections::{BTreeMap, VecDeque};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tidegate_api::config::{Problem, problems_of};
use tidegate_api::{SourceRequest, nearest};
use tidegate_epochs::{BucketStore, DirectoryStore, EpochStore, MemoryStore};
use tidegate_host::HostConfig;
use tidegate_operators::{STEPS, StepDef};

/// A pipeline that is ready to run.
pub struct Prepared {
    /// The plan.
    pub planned: Planned,
    /// The settings as used.
    pub settings: Settings,
    /// What the host said.
    pub host: HostSettings,
    /// The plugins the plan uses.
    pub plugins: Plugins,
}

/// Asks the host for everything and plans. Nothing is opened; sources and plugins may be asked for their schema.
///
/// # Errors
/// Every mistake of settings, plugins, datasets and stages together.
pub async fn prepare(control: &dyn ControlPlane, pipeline: &str) -> Result<Prepared, Vec<Problem>> {
    let mut problems = Vec::new();
    let topology = control.topology(pipeline).await.map_err(|error| vec![named(pipeline, &error)])?;
    let host = control.settings(pipeline).await.map_err(|error| vec![named(pipeline, &error)])?;
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let settings = keep(Settings::read(&host.settings, cores), &mut problems, &["settings"]);
    if let Some(problem) = settings.as_ref().and_then(|settings| absurd_state_dir(&host, settings)) {
        problems.push(problem);
    }
    if let Some(problem) = settings.as_ref().and_then(|settings| absurd_spill(&host, settings)) {
        problems.push(problem);
    }
    let plugins = match &host.loaded_plugins {
        Some(plugins) => Some(plugins.clone()),
        None => keep(Plugins::read(&host, HostConfig::default()), &mut problems, &[]),
    };
    let settings_used = settings.clone().unwrap_or_else(|| Settings::defaults(cores));
    let mut datasets = resolve(control, &topology, &settings_used, &mut problems).await;
    let mut pinned = pinned(&host, &settings_used).await;
    for (name, dataset) in &mut datasets {
        dataset.pinned = pinned.remove(&plan::source_id(name));
    }

    let steps = WorkerSteps { plugins: plugins.clone() };
    let input = PlanInput {
        topology: &topology,
        datasets,
        settings: plan_settings(&settings_used),
        steps: &steps,
        functions: host.functions.clone(),
    };
    let planned = keep(plan::plan(input), &mut problems, &[]);
    match (planned, settings, plugins) {
        (Some(planned), Some(settings), Some(plugins)) if problems.is_empty() => Ok(Prepared { planned, settings, host, plugins }),
        _ => {
            problems.sort();
            problems.dedup();
            Err(problems)
        }
    }
}

fn named(pipeline: &str, error: &tidegate_api::Error) -> Problem {
    Problem::whole(format!("pipeline `{pipeline}`: {error}"))
}

fn keep<T>(result: Result<T, Vec<Problem>>, problems: &mut Vec<Problem>, at: &[&str]) -> Option<T> {
    match result {
        Ok(value) => Some(value),
        Err(found) => {
            problems.extend(found.into_iter().map(|problem| problem.under(at.iter().copied())));
            None
        }
    }
}

/// Resolves every dataset that a stage, a dead letter or a late output names. One that failed has its problem, where it is first named.
async fn resolve(
    control: &dyn ControlPlane,
    topology: &Topology,
    settings: &Settings,
    problems: &mut Vec<Problem>,
) -> BTreeMap<String, Dataset> {
    let mut waiting = named_by(topology);
    waiting.extend(settings.dead_letter.clone().map(|name| (name, path(&["settings", "deadLetter"]))));
    let mut datasets = BTreeMap::new();
    while let Some((name, place)) = waiting.pop_front() {
        if datasets.contains_key(&name) {
            continue;
        }
        let resolved = match control.resolve_dataset(&name).await {
            Ok(binding) => match options::read(&binding.options) {
                Ok(options) => Ok((binding, options)),
                Err(found) => {
                    let sketch = binding.source.plan(&SourceRequest::all()).ok().map(|plan| plan.schema);
                    Err((found.into_iter().map(|problem| problem.under(["datasets", &name])).collect::<Vec<_>>(), sketch))
                }
            },
            Err(error) => Err((problems_of(&error), control.sketch(&name).await)),
        };
        let dataset = match resolved {
            Ok((binding, options)) => {
                waiting.extend(options.dead_letter.clone().map(|dead_letter| (dead_letter, path(&["datasets", &name, "deadLetter"]))));
                let publishes = control.publishes(&name).await;
                let sink_config = binding.recorded.unwrap_or_else(|| binding.sink.config());
                Dataset {
                    sink_config,
                    source: Some(binding.source),
                    sink: Some(binding.sink),
                    pinned: None,
                    publishes,
                    options,
                    sketch: None,
                }
            }
            Err((found, sketch)) => {
                problems.extend(found.into_iter().map(|problem| if problem.path.is_empty() { problem.under(&place) } else { problem }));
                Dataset::unresolved().with_sketch(sketch)
            }
        };
        datasets.insert(name, dataset);
    }
    datasets
}

fn path(keys: &[&str]) -> Vec<String> {
    keys.iter().map(ToString::to_string).collect()
}

/// The datasets that stages name, each with where.
fn named_by(topology: &Topology) -> VecDeque<(String, Vec<String>)> {
    let mut named = VecDeque::new();
    for (index, stage) in topology.stages.iter().enumerate() {
        let index = index.to_string();
        named.extend(stage.inputs.iter().map(|input| (input.clone(), path(&["stages", &index, "inputs"]))));
        named.push_back((stage.output.clone(), path(&["stages", &index, "output"])));
        for (step, late) in stage.steps.iter().enumerate().filter_map(|(step, value)| Some((step, value.get("lateOutput")?.as_str()?))) {
            named.push_back((late.to_string(), path(&["stages", &index, "steps", &step.to_string(), "lateOutput"])));
        }
    }
    named
}

fn plan_settings(settings: &Settings) -> PlanSettings {
    let mut plan = PlanSettings::new(settings.parallelism);
    plan.on_bad = settings.on_bad;
    plan.dead_letter = settings.dead_letter.clone();
    plan.out_of_orderness = settings.out_of_orderness;
    plan.idle_timeout = settings.idle_timeout;
    plan.max_future_skew = settings.max_future_skew;
    plan
}

/// The native steps, and those that call a plugin or a transform of the registry.
struct WorkerSteps {
    plugins: Option<Plugins>,
}

impl StepParser for WorkerSteps {
    fn parse(&self, step: &Value) -> Result<Box<dyn StepDef>, Vec<Problem>> {
        match (step.as_object(), step.get("op").and_then(Value::as_str), &self.plugins) {
            (Some(map), Some(op), Some(plugins)) if compute::OPS.contains(&op) => compute::parse_step(map, plugins),
            // The plugins themselves are mistaken; that has been said, and the step cannot be judged.
            (Some(_), Some(op), None) if compute::OPS.contains(&op) => Err(Vec::new()),
            (Some(_), Some(op), _) if is_slip(op) => {
                let hint = nearest::hint(op, compute::OPS);
                Err(vec![Problem::at("op", format!("unknown step `{op}`{hint}"))])
            }
            _ => tidegate_operators::parse_step(step),
        }
    }
}

/// Whether an unknown `op` is near to one that the native steps do not know.
fn is_slip(op: &str) -> bool {
    STEPS.iter().all(|info| info.op != op) && nearest::nearest(op, compute::OPS).is_some()
}

impl Prepared {
    /// Where state goes that finds no room in memory: beside the epochs, if they lie in a directory.
    pub(crate) fn spill_dir(&self) -> Option<PathBuf> {
        match &self.settings.spill {
            Spill::No => None,
            Spill::BesideState => state_dir(&self.host, &self.settings).map(|dir| dir.join("spill")),
            Spill::Directory(dir) => Some(self.host.base_dir.join(dir)),
        }
    }
}

fn state_dir(host: &HostSettings, settings: &Settings) -> Option<PathBuf> {
    settings.state_dir.as_ref().map(|dir| host.base_dir.join(dir)).or_else(|| host.default_state_dir.clone())
}

/// Why the directory of epochs cannot be one. Looks, and makes nothing.
fn absurd_state_dir(host: &HostSettings, settings: &Settings) -> Option<Problem> {
    let directory = state_dir(host, settings).filter(|_| host.epoch_store.is_none() && settings.state_url.is_none())?;
    let shown = settings.state_dir.as_deref().unwrap_or(&directory).display();
    let wrong = wrong_with(&directory, &host.base_dir, settings.state_dir.as_deref())?;
    let message = format!("epochs cannot be kept in `{shown}`: {wrong}; name a folder of their own, such as `.tidegate/NAME`");
    Some(Problem::new(path(&["settings", "stateDir"]), message))
}

/// Why the directory that `spill` names cannot be one: it would be found out when memory is short, perhaps after days.
fn absurd_spill(host: &HostSettings, settings: &Settings) -> Option<Problem> {
    let Spill::Directory(said) = &settings.spill else { return None };
    let text = said.to_string_lossy();
    let wrong = match text.as_ref() {
        "yes" | "no" | "on" | "off" => Some("that reads like an answer".to_string()),
        _ if text.contains('\0') => Some("its name holds a zero byte".to_string()),
        _ => wrong_with(&host.base_dir.join(said), &host.base_dir, Some(said)),
    };
    let message = format!("state cannot be put aside in `{}`: {}; give true, false, or a folder with room", text.escape_debug(), wrong?);
    Some(Problem::new(path(&["settings", "spill"]), message))
}

fn wrong_with(directory: &Path, base: &Path, said: Option<&Path>) -> Option<String> {
    if said.is_some_and(|said| said.as_os_str().is_empty()) {
        return Some("it is empty".to_string());
    }
    let real = directory.canonicalize();
    if directory.parent().is_none() || real.as_ref().is_ok_and(|real| real.parent().is_none()) {
        return Some("it is the root of the file system".to_string());
    }
    if real.is_ok_and(|real| base.canonicalize().is_ok_and(|base| base == real)) {
        return Some("it is the folder of the pipeline itself".to_string());
    }
    // What is there of it: itself, or the nearest folder above in which it would be made.
    let there = directory.ancestors().find(|above| above.symlink_metadata().is_ok())?;
    let there = if there.as_os_str().is_empty() { Path::new(".") } else { there };
    match there.metadata() {
        Err(error) => Some(format!("`{}` cannot be looked at ({error})", there.display())),
        Ok(about) if !about.is_dir() => Some(format!("`{}` is not a folder", there.display())),
        Ok(_) if !is_writable(there) => Some(format!("`{}` is not writable for this user", there.display())),
        Ok(_) => None,
    }
}

/// Whether this process may make entries in a folder. Asked with a file that never gets a name, so nothing is left behind; a file
/// system that has no such files is believed to be writable.
#[cfg(target_os = "linux")]
fn is_writable(folder: &Path) -> bool {
    use std::io::ErrorKind;
    use std::os::unix::fs::OpenOptionsExt;
    let opened = std::fs::OpenOptions::new().write(true).custom_flags(libc::O_TMPFILE).open(folder);
    !opened.is_err_and(|error| matches!(error.kind(), ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem))
}

#[cfg(not(target_os = "linux"))]
fn is_writable(folder: &Path) -> bool {
    !folder.metadata().is_ok_and(|about| about.permissions().readonly())
}

/// What sources resolved when the run began that a start would go on with, by node; empty if it would begin one. A store that
/// cannot be read is passed over: opening it says why, and refuses a plan that was made without what is pinned there.
async fn pinned(host: &HostSettings, settings: &Settings) -> BTreeMap<String, String> {
    if host.start.fresh {
        return BTreeMap::new();
    }
    let (store, directory) = (host.epoch_store.clone(), state_dir(host, settings));
    let bucket = settings.state_url.clone().map(|url| (url, settings.state_options.clone()));
    let read = move || -> tidegate_api::Result<BTreeMap<String, String>> {
        let store = match (store, bucket, directory) {
            (Some(store), _, _) => Some(store),
            (None, Some((url, options)), _) => Some(Arc::new(BucketStore::open(&url.to_string(), &options)?) as Arc<dyn EpochStore>),
            (None, None, Some(directory)) => DirectoryStore::open_existing(directory)?.map(|store| Arc::new(store) as Arc<dyn EpochStore>),
            (None, None, None) => None,
        };
        store.map_or_else(|| Ok(BTreeMap::new()), |store| tidegate_epochs::pinned(store.as_ref()))
    };
    match tokio::task::spawn_blocking(read).await {
        Ok(Ok(pinned)) => pinned,
        Ok(Err(error)) => {
            tracing::debug!(%error, "what is pinned cannot be read");
            BTreeMap::new()
        }
        Err(error) => {
            tracing::debug!(%error, "what is pinned was not read");
            BTreeMap::new()
        }
    }
}

/// Where a run keeps its epochs, and a warning if that is only memory. Asks a bucket's server for what epochs need of it, so it may wait.
/// `nonce` is unique to this start.
///
/// # Errors
/// `Config` if the directory cannot be made, or if the server of a bucket is not sound; `External` if it does not answer.
pub(crate) fn epoch_store(
    host: &HostSettings,
    settings: &Settings,
    nonce: &str,
) -> tidegate_api::Result<(Arc<dyn EpochStore>, Option<String>)> {
    if let Some(store) = &host.epoch_store {
        return Ok((Arc::clone(store), None));
    }
    if let Some(url) = &settings.state_url {
        let store = BucketStore::open(&url.to_string(), &settings.state_options)?;
        store.prove(nonce)?;
        return Ok((Arc::new(store), None));
    }
    match state_dir(host, settings) {
        Some(directory) => Ok((Arc::new(DirectoryStore::open(directory)?), None)),
        None => {
            let warning = "epochs are kept in memory only; set `stateDir` or an epoch store to survive a crash";
            Ok((Arc::new(MemoryStore::new()), Some(warning.to_string())))
        }
    }
}

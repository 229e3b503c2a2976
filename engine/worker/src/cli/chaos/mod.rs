//! `tidegate chaos`: a person's own pipeline, undisturbed and killed, and what each of its sinks is worth.
//!
//! Every run is a child process of its own, in a folder of its own: state and outputs lie there, and nothing that the pipeline file
//! names is written to. Two undisturbed runs come first, one at full speed and one at the pace of the disturbed run. An output
//! that differs between those two depends on more than its input and cannot be judged.

mod compare;
mod life;
mod read;
mod schedule;
mod verdict;

use super::plan::{block_on, host};
use super::trial::{Pause, Trial};
use super::{CONFIG, read as read_file, refuse};
use compare::{Row, compare, table};
use life::{Life, calm};
use schedule::{Schedule, Shape};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tidegate::Prepared;
use tidegate::file::PipelineFile;
use tidegate::file::redirect::Redirected;
use tidegate::plan::OutputSummary;
use tidegate_api::{Guarantee, Result};
use tidegate_runtime::graph::NodeKind;
use verdict::{Finding, Verdict};

/// Time between two checkpoints of a disturbed run, at least.
const EVERY: Duration = Duration::from_millis(100);

/// What the command line says.
pub(super) struct ChaosArgs {
    pub(super) kills: u32,
    pub(super) seed: u64,
    pub(super) json: bool,
    pub(super) keep: bool,
}

pub(super) fn chaos(path: &Path, args: &ChaosArgs) -> u8 {
    let (file, prepared) = match planned(path) {
        Ok(planned) => planned,
        Err(code) => return code,
    };
    let folder = file.base_dir().join(".tidegate").join(format!("{}.chaos-{}", file.name(), std::process::id()));
    let folder = std::path::absolute(&folder).unwrap_or(folder);
    let chaos = Chaos { path, file: &file, prepared: &prepared, folder: &folder, args };
    let convicted = match chaos.run() {
        Ok(convicted) => convicted,
        Err(error) => {
            eprintln!("failed: {}", file.mask().apply(&error.to_string()));
            eprintln!("its state, outputs and logs are in `{}`", folder.display());
            return if matches!(error.kind(), tidegate_api::ErrorKind::Config) { CONFIG } else { 1 };
        }
    };
    if convicted || args.keep {
        eprintln!("state, outputs and logs of the runs are in `{}`", folder.display());
    } else if let Err(error) = std::fs::remove_dir_all(&folder) {
        eprintln!("`{}` can be removed, and was not: {error}", folder.display());
    }
    u8::from(convicted)
}

/// The plan of a pipeline that can be tried, or the exit code of a refusal.
fn planned(path: &Path) -> Result<(Arc<PipelineFile>, Prepared), u8> {
    let file = read_file(path).map_err(|mistakes| refuse(&mistakes))?;
    let found = host(&file);
    let prepared = block_on(found.check()).map_err(|mistakes| refuse(&mistakes))?;
    found.check_inputs(&prepared).map_err(|mistakes| refuse(&mistakes))?;
    let endless = prepared.planned.graph.nodes.iter().filter_map(|node| match &node.kind {
        NodeKind::Source(source) if !source.plan.bounded => Some(source.dataset.clone()),
        NodeKind::Source(_) | NodeKind::Operator(_) | NodeKind::Sink(_) => None,
    });
    let problems: Vec<_> = endless
        .map(|dataset| {
            let message = "it never ends, and a run that does not end has no output to compare; give it an end for this, such as `events = 100000` for `nexmark`";
            tidegate_api::config::Problem::new(vec!["datasets".into(), dataset], message)
        })
        .collect();
    if problems.is_empty() { Ok((file, prepared)) } else { Err(refuse(&file.locate(problems))) }
}

struct Chaos<'a> {
    path: &'a Path,
    file: &'a PipelineFile,
    prepared: &'a Prepared,
    folder: &'a Path,
    args: &'a ChaosArgs,
}

/// The rows of every output that keeps some.
type Outputs = BTreeMap<String, Option<Vec<Row>>>;

impl Chaos<'_> {
    /// Answers whether something was convicted.
    fn run(&self) -> Result<bool> {
        let mut trial = Trial { folder: self.folder.join("calm"), every_ms: EVERY.as_millis() as u64, ..Trial::default() };
        // Refusals come before the first run.
        self.places(&trial)?;
        eprintln!("an undisturbed run, at full speed");
        let (record, took) = calm(self.path, &trial)?;
        let expected = self.outputs(&trial)?;

        let epochs = Schedule::epochs(self.args.kills);
        let whole = EVERY.saturating_mul(u32::try_from(epochs).unwrap_or(u32::MAX)).max(took.mul_f64(1.2));
        trial.folder = self.folder.join("calm-and-paced");
        trial.every_ms = (whole.as_millis() as u64 / epochs).max(1);
        trial.pace = life::rows_by_source(&record).into_iter().map(|(name, rows)| (name, rows as f64 / whole.as_secs_f64())).collect();
        eprintln!("an undisturbed run, at the pace of the disturbed one: about {} s", whole.as_secs());
        calm(self.path, &trial)?;
        let again = self.outputs(&trial)?;

        trial.folder = self.folder.join("killed");
        let killed = self.kill(&trial)?;
        let found = self.outputs(&trial)?;

        let findings: Vec<Finding> = self.prepared.planned.outputs.iter().map(|output| judge(output, &expected, &again, &found)).collect();
        if self.args.json {
            verdict::print_json(&killed, &findings, |text| self.file.mask().apply(text));
        } else {
            verdict::print_text(self.file.name(), &killed, &findings, |text| self.file.mask().apply(text));
        }
        Ok(findings.iter().any(Finding::is_convicted))
    }

    /// Runs to the end, with so many deaths on the way. Answers where it died how often.
    fn kill(&self, trial: &Trial) -> Result<BTreeMap<String, u32>> {
        let places = self.places(trial)?;
        let nodes = &self.prepared.planned.graph.nodes;
        let two_phase = |kind: &NodeKind| matches!(kind, NodeKind::Sink(sink) if sink.plan.guarantee == Guarantee::ExactlyOnce);
        let shape = Shape {
            two_phase: nodes.iter().any(|node| two_phase(&node.kind)),
            stateful: nodes.iter().any(|node| matches!(node.kind, NodeKind::Operator(_))),
        };
        let mut schedule = Schedule::new(self.args.seed, shape);
        let mut died: BTreeMap<String, u32> = BTreeMap::new();
        let mut kills = 0;
        while kills < self.args.kills {
            let pause: Pause = schedule.next();
            let moment = Duration::from_millis(schedule.draw(trial.every_ms.max(2)));
            let any = pause.go_on;
            let one = Trial { pause: Some(pause), ..trial.clone() };
            let life = Life::start(self.path, &one)?;
            let Some(standing) = life.until_it_stands()? else {
                eprintln!("the input ended after {kills} of {} kills; the pipeline reads too little for more", self.args.kills);
                return Ok(died);
            };
            let (name, epoch) = standing.at.split_once(' ').unwrap_or((&standing.at, "?"));
            let (name, epoch) = if any { (life::ANY_MOMENT, format!("{epoch} or later")) } else { (name, epoch.to_string()) };
            let name = name.to_string();
            if any {
                life::rest(moment);
            }
            standing.kill()?;
            kills += 1;
            eprintln!("kill {kills} of {}: {name}, epoch {epoch}", self.args.kills);
            *died.entry(name).or_default() += 1;
            read::mend(&places)?;
        }
        eprintln!("the last start, left alone");
        Life::start(self.path, trial)?.until_it_ends()?;
        Ok(died)
    }

    /// Where the outputs of a trial lie.
    fn places(&self, trial: &Trial) -> Result<BTreeMap<String, Redirected>> {
        let file = read_file(self.path).ok().and_then(Arc::into_inner);
        let file = file.ok_or_else(|| tidegate_api::Error::config("the pipeline file has changed meanwhile"))?;
        Ok(trial.redirect(file)?.places)
    }

    fn outputs(&self, trial: &Trial) -> Result<Outputs> {
        let places = self.places(trial)?;
        let mut outputs = Outputs::new();
        for output in &self.prepared.planned.outputs {
            let Some(place) = places.get(&output.dataset) else { continue };
            let rows = read::rows(place, &self.columns(&output.dataset))?;
            // Updates may come in other steps: what counts is where they lead.
            let rows = rows.map(|rows| if output.keys.is_empty() { rows } else { table(&rows, &output.keys) });
            outputs.insert(output.dataset.clone(), rows);
        }
        Ok(outputs)
    }

    fn columns(&self, dataset: &str) -> Vec<String> {
        let nodes = self.prepared.planned.graph.nodes.iter();
        let mut columns = nodes.filter_map(|node| match &node.kind {
            NodeKind::Sink(sink) if sink.dataset == dataset => {
                Some(sink.schema.fields().iter().map(|field| field.name().clone()).collect())
            }
            NodeKind::Source(_) | NodeKind::Operator(_) | NodeKind::Sink(_) => None,
        });
        columns.next().unwrap_or_default()
    }
}

fn judge(output: &OutputSummary, expected: &Outputs, again: &Outputs, found: &Outputs) -> Finding {
    let rows = |outputs: &Outputs| outputs.get(&output.dataset).cloned().flatten();
    let verdict = match (rows(expected), rows(again), rows(found)) {
        (Some(expected), Some(again), Some(found)) => {
            let unsteady = compare(&expected, &again);
            if unsteady.is_none() {
                Verdict::of(compare(&expected, &found), output)
            } else if output.clocks.is_empty() {
                Verdict::Unsteady(unsteady)
            } else {
                Verdict::Clock(output.clocks.clone())
            }
        }
        _ => Verdict::Invisible,
    };
    Finding { dataset: output.dataset.clone(), promised: output.guarantee, is_table: !output.keys.is_empty(), verdict }
}

/// The folder of a run, for its log.
fn log_of(trial: &Trial) -> PathBuf {
    trial.folder.join("log")
}

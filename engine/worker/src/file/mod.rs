//! The pipeline file: parsed, interpolated, and turned into what the host contract asks for.
//!
//! Every mistake is collected with its path; [`PipelineFile::locate`] turns a path into the file's line, so that a person sees
//! all mistakes in one go, each where it stands.

pub(crate) mod document;
mod host;
mod interpolate;
mod limited;
mod paced;
mod peek;
pub mod redirect;
mod sampled;
mod secrets;
mod state;
mod written;

use crate::control::{HostSettings, StageDef, Topology};
use document::Document;
use serde_json::{Map, Value};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tidegate_api::config::{Options, Problem};

pub use host::{FileHost, OnRecord, TrialHost};
pub use interpolate::Mask;

/// A mistake with its place in the file.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Mistake {
    /// The line, from 1; 0 if the whole file is meant.
    pub line: usize,
    /// The column in characters, from 1, of a mistake inside a text such as an expression; 0 if the whole line is meant.
    pub column: usize,
    /// Path and message.
    pub problem: Problem,
    /// The file, as it was named.
    pub file: String,
}

impl fmt::Display for Mistake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.line, self.column, &self.problem.place) {
            (0, ..) => write!(f, "{}: {}", self.file, self.problem),
            (line, column, Some(place)) if column > 0 => {
                let Problem { path, message, .. } = &self.problem;
                write!(f, "{}:{line}:{column}: {}: {message}{}", self.file, path.join("."), place.shown)
            }
            (line, ..) => write!(f, "{}:{line}: {}", self.file, self.problem),
        }
    }
}

/// A pipeline file as read.
pub struct PipelineFile {
    file: String,
    base_dir: PathBuf,
    name: String,
    settings: Map<String, Value>,
    plugins: Map<String, Value>,
    datasets: BTreeMap<String, Map<String, Value>>,
    topology: Topology,
    document: Document,
    stages_key: &'static str,
    mask: Mask,
    problems: Vec<Problem>,
    variable: Variables,
}

/// What names standard input in place of a file.
pub const STDIN: &str = "-";

/// The longest pipeline file, in bytes.
const MAX_TEXT: u64 = 16 << 20;

/// Looks up environment variables.
pub type Variables = Arc<dyn Fn(&str) -> Option<String> + Send + Sync>;

impl fmt::Debug for PipelineFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PipelineFile").field("file", &self.file).field("name", &self.name).finish_non_exhaustive()
    }
}

impl PipelineFile {
    /// Reads a file. `variable` looks up environment variables.
    ///
    /// # Errors
    /// A file that cannot be read, or is no TOML. Mistakes of its form are kept in [`PipelineFile::problems`], so that they are
    /// reported together with those that planning finds.
    pub fn read(path: &Path, variable: Variables) -> Result<PipelineFile, Vec<Mistake>> {
        let text = read_text(path).map_err(|error| {
            let place = std::env::current_dir().map(|dir| format!(" (looked in `{}`)", dir.display())).unwrap_or_default();
            let looked = if path.is_relative() { place } else { String::new() };
            let message = format!("cannot read the pipeline file: {error}{looked}");
            vec![Mistake { line: 0, column: 0, problem: Problem::whole(message), file: path.display().to_string() }]
        })?;
        let base_dir = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new(".")).to_path_buf();
        let stem = path.file_stem().map(|stem| stem.to_string_lossy().into_owned()).unwrap_or_default();
        PipelineFile::parse(&text, &path.display().to_string(), &stem, base_dir, variable)
    }

    /// Reads a text from standard input; relative paths start in the working directory.
    ///
    /// # Errors
    /// As [`PipelineFile::read`].
    pub fn from_stdin(variable: Variables) -> Result<PipelineFile, Vec<Mistake>> {
        let text = text_of(std::io::stdin()).map_err(|error| {
            let problem = Problem::whole(format!("cannot read the pipeline file from standard input: {error}"));
            vec![Mistake { line: 0, column: 0, problem, file: STDIN.to_string() }]
        })?;
        PipelineFile::parse(&text, STDIN, "stdin", PathBuf::from("."), variable)
    }

    /// Reads a text that is called `file` in messages and `default_name` if it does not name itself.
    ///
    /// # Errors
    /// As [`PipelineFile::read`].
    pub fn parse(text: &str, file: &str, default_name: &str, base_dir: PathBuf, variable: Variables) -> Result<PipelineFile, Vec<Mistake>> {
        let document = Document::parse(text)
            .map_err(|(line, message)| vec![Mistake { line, column: 0, problem: Problem::whole(message), file: file.to_string() }])?;
        let mut root = Value::Object(document.root.clone());
        let (mut problems, mask) = (Vec::new(), Mask::default());
        let scope = interpolate::Scope { variable: variable.as_ref(), base_dir: &base_dir };
        interpolate::interpolate(&mut root, &scope, &mut Vec::new(), &mut problems, &mask);
        let root = root.as_object().cloned().unwrap_or_default();

        let mut options = Options::new(&root);
        let name = options.string("name").unwrap_or_else(|| default_name.to_string());
        if let Err(message) = check_name(&name) {
            options.problem("name", message);
        }
        let mut settings = options.table("settings").cloned().unwrap_or_default();
        state::complete(&mut settings, variable.as_ref(), &mask);
        let plugins = options.table("plugins").cloned().unwrap_or_default();
        let datasets = read_datasets(&mut options);
        let stages_key = if options.has(TRANSFORMS) && !options.has("stages") { TRANSFORMS } else { "stages" };
        let topology = read_stages(&mut options, stages_key);
        problems.extend(options.finish());

        let file = file.to_string();
        Ok(PipelineFile { file, base_dir, name, settings, plugins, datasets, topology, document, stages_key, mask, problems, variable })
    }

    /// The mistakes of its form.
    pub fn problems(&self) -> &[Problem] {
        &self.problems
    }

    /// The pipeline's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Where relative paths start.
    pub fn base_dir(&self) -> &Path {
        &self.base_dir
    }

    /// Whether it was read from standard input, which is then used up.
    fn is_from_stdin(&self) -> bool {
        self.file == STDIN
    }

    /// What must not be shown.
    pub fn mask(&self) -> &Mask {
        &self.mask
    }

    /// The stages.
    pub fn topology(&self) -> &Topology {
        &self.topology
    }

    /// Settings and plugins, for the host contract.
    pub fn host_settings(&self) -> HostSettings {
        HostSettings::default().with_settings(self.settings.clone()).with_plugins(self.plugins.clone()).with_base_dir(&self.base_dir)
    }

    /// A dataset's table as it is written, references and all.
    fn as_written(&self, dataset: &str) -> Option<Value> {
        self.document.root.get("datasets")?.get(dataset).cloned()
    }

    /// A value with its references replaced.
    ///
    /// # Errors
    /// `Config` for what is not set or cannot be read.
    fn resolved(&self, written: &Value) -> tidegate_api::Result<Value> {
        let (mut value, mut problems) = (written.clone(), Vec::new());
        let scope = interpolate::Scope { variable: self.variable.as_ref(), base_dir: &self.base_dir };
        // A manifest may name another variable than the file does now; what that holds is a secret like the others.
        interpolate::interpolate(&mut value, &scope, &mut Vec::new(), &mut problems, &self.mask);
        if problems.is_empty() { Ok(value) } else { Err(problems.into()) }
    }

    /// Puts problems where they stand in the file: sorted by line, masked, without repetition.
    pub fn locate(&self, problems: Vec<Problem>) -> Vec<Mistake> {
        let located = problems.into_iter().map(|mut problem| {
            if problem.path.first().is_some_and(|first| first == "stages") {
                problem.path[0] = self.stages_key.to_string();
            }
            let inside = problem.place.as_ref().and_then(|place| self.document.inside(&problem.path, place.start));
            let (line, column) = inside.unwrap_or_else(|| (self.document.line(&problem.path).unwrap_or(0), 0));
            problem.message = self.mask.apply(&problem.message);
            if let Some(place) = &mut problem.place {
                place.shown = self.mask.apply(&place.shown);
            }
            Mistake { line, column, problem, file: self.file.clone() }
        });
        located.collect::<BTreeSet<_>>().into_iter().collect()
    }
}

/// The text of a file that a person wrote.
///
/// # Errors
/// If it cannot be read, is no text, or has more than 16 MiB: a device has no end, and a sparse file holds nothing.
pub fn read_text(path: &Path) -> std::io::Result<String> {
    File::open(path).and_then(text_of)
}

fn text_of(reader: impl Read) -> std::io::Result<String> {
    let mut text = String::new();
    let length = reader.take(MAX_TEXT + 1).read_to_string(&mut text)?;
    match length as u64 > MAX_TEXT {
        true => Err(std::io::Error::new(std::io::ErrorKind::InvalidData, format!("it has more than {MAX_TEXT} bytes"))),
        false => Ok(text),
    }
}

/// A name becomes a part of paths, consumer groups and transactional ids.
fn check_name(name: &str) -> Result<(), String> {
    let fits = !name.is_empty() && name.len() <= 100 && !name.starts_with('.');
    if fits && name.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.')) {
        Ok(())
    } else {
        Err(format!("`{name}` cannot be a pipeline's name; use up to 100 letters, digits, `-`, `_` and `.`"))
    }
}

fn read_datasets(options: &mut Options<'_>) -> BTreeMap<String, Map<String, Value>> {
    let mut datasets = BTreeMap::new();
    let Some(table) = options.table("datasets") else { return datasets };
    let mut problems = Vec::new();
    for (name, value) in table {
        match value {
            Value::Object(map) => {
                datasets.insert(name.clone(), map.clone());
            }
            other => problems.push(Problem::new(vec!["datasets".into(), name.clone()], format!("expected a table, found `{other}`"))),
        }
    }
    options.problems(problems);
    datasets
}

/// The key under which a file of FusionVault Streams has its stages.
const TRANSFORMS: &str = "transforms";

/// There, `allowedLatenessMs` delays firing; in a stage of ours a window fires and is put right afterwards.
fn translate(step: &mut Value) {
    const WINDOWS: [&str; 2] = ["windowedAggregate", "sessionAggregate"];
    let of_windows = |op: &Value| op.as_str().is_some_and(|op| WINDOWS.contains(&op));
    let Some(step) = step.as_object_mut().filter(|step| step.get("op").is_some_and(of_windows)) else {
        return;
    };
    for (theirs, ours) in [("allowedLatenessMs", "firingDelayMs"), ("allowedLateness", "firingDelay")] {
        // Zero is no delay, and no length either.
        if let Some(delay) = step.remove(theirs).filter(|delay| delay.as_i64() != Some(0)) {
            step.insert(ours.to_string(), delay);
        }
    }
}

fn read_stages(options: &mut Options<'_>, key: &'static str) -> Topology {
    let mut stages = Vec::new();
    let Some(list) = options.list(key) else {
        if !options.has(key) {
            options.problems([Problem::whole("there are no stages; add a `[[stages]]` table with `inputs`, `output` and `steps`")]);
        }
        return Topology::default();
    };
    let mut problems = Vec::new();
    for (index, value) in list.iter().enumerate() {
        let at = [key.to_string(), index.to_string()];
        let Value::Object(map) = value else {
            problems.push(Problem::whole(format!("expected a table, found `{value}`")).under(at));
            continue;
        };
        let mut stage = Options::new(map);
        let inputs = stage.strings("inputs").unwrap_or_default();
        if inputs.iter().any(String::is_empty) {
            stage.problem("inputs", "a dataset's name is empty");
        }
        if !stage.has("inputs") {
            stage.problem("inputs", "`inputs` is missing: the datasets the stage reads");
        }
        let output = stage.require_string("output").unwrap_or_default();
        let id = stage.string("id").unwrap_or_else(|| output.clone());
        let mut steps = stage.list("steps").cloned().unwrap_or_default();
        if key == TRANSFORMS {
            steps.iter_mut().for_each(translate);
        }
        problems.extend(stage.finish().into_iter().map(|problem| problem.under(at.clone())));
        stages.push(StageDef { id, inputs, output, steps });
    }
    options.problems(problems);
    Topology { stages }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<PipelineFile, Vec<Mistake>> {
        let file = PipelineFile::parse(text, "p.toml", "p", PathBuf::from("."), Arc::new(|_| None))?;
        if file.problems().is_empty() { Ok(file) } else { Err(file.locate(file.problems().to_vec())) }
    }

    #[test]
    fn p215_a_comment_may_mention_a_variable_that_is_not_set() {
        let text = "# url = \"${NOT_SET}\"\n[[stages]]\ninputs = [\"a\"]\noutput = \"b\"\n";
        assert_eq!(parse(text).unwrap().topology().stages[0].id, "b");
    }

    #[test]
    fn p221_an_unknown_key_is_refused_with_the_nearest_one() {
        let text = "nmae = \"x\"\n[[stages]]\ninputs = [\"a\"]\noutput = \"b\"\nstpes = []\n";
        let mistakes: Vec<String> = parse(text).unwrap_err().iter().map(ToString::to_string).collect();
        assert_eq!(
            mistakes,
            [
                "p.toml:1: nmae: unknown key `nmae`, did you mean `name`?",
                "p.toml:5: stages.0.stpes: unknown key `stpes`, did you mean `steps`?"
            ]
        );
    }

    #[test]
    fn p222_a_missing_file_says_where_it_was_looked_for() {
        let mistakes = PipelineFile::read(Path::new("does-not-exist.toml"), Arc::new(|_| None)).unwrap_err();
        let text = mistakes[0].to_string();
        assert!(text.contains("does-not-exist.toml") && text.contains("looked in"), "{text}");
    }

    #[test]
    fn p223_a_stage_list_of_the_wrong_type_is_refused() {
        assert!(parse("stages = 3\n").unwrap_err()[0].to_string().contains("expected a list"));
        assert!(parse("").unwrap_err()[0].to_string().contains("there are no stages"));
    }

    #[test]
    fn p224_unrelated_variables_do_not_matter() {
        let text = "[[stages]]\ninputs = [\"a\"]\noutput = \"b\"\n";
        let read = PipelineFile::parse(text, "p.toml", "p", PathBuf::from("."), Arc::new(|name| Some(format!("value of {name}"))));
        assert!(read.is_ok());
    }

    #[test]
    fn lateness_in_transforms_delays_firing() {
        for op in ["windowedAggregate", "sessionAggregate"] {
            let step = format!("steps = [{{ op = \"{op}\", allowedLatenessMs = 5 }}]");
            let of = |key: &str| {
                parse(&format!("[[{key}]]\ninputs = [\"a\"]\noutput = \"b\"\n{step}\n")).unwrap().topology.stages[0].steps[0].clone()
            };
            assert_eq!(of("transforms"), serde_json::json!({ "op": op, "firingDelayMs": 5 }));
            assert_eq!(of("stages"), serde_json::json!({ "op": op, "allowedLatenessMs": 5 }));
        }
    }

    #[test]
    fn transforms_of_another_dialect_keep_their_place() {
        let text = "[[transforms]]\ninputs = [\"a\"]\noutput = \"b\"\n  [[transforms.steps]]\n  op = 'filter'\n  expression = 'x'\n";
        let file = parse(text).unwrap();
        let path = ["stages", "0", "steps", "0", "expression"].map(str::to_string).to_vec();
        let mistakes = file.locate(vec![Problem::new(path, "wrong")]);
        assert_eq!(mistakes[0].to_string(), "p.toml:6: transforms.0.steps.0.expression: wrong");
    }
}

//! `transform.toml`: what a transform says of itself.

use super::limits::ContainerLimits;
use super::reference::{check_id, parse_version};
use crate::file::document::Document;
use arrow::datatypes::SchemaRef;
use semver::Version;
use serde_json::{Map, Value};
use std::fmt;
use std::path::{Component, Path, PathBuf};
use tidegate_api::config::{Options, Problem};
use tidegate_api::types;
use tidegate_host::{Limits, Shape};

/// Manifests larger than this are not read.
const MAX_FILE: u64 = 1 << 20;

/// How a transform is run; the `op` of the steps that may name it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Implementation {
    /// A WebAssembly component in this process.
    Wasm,
    /// A process of its own.
    Container,
}

impl Implementation {
    /// The step's `op`.
    pub fn op(self) -> &'static str {
        match self {
            Implementation::Wasm => "wasm",
            Implementation::Container => "container",
        }
    }
}

/// What becomes of a value that does not fit its declared column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnMisfit {
    /// Its row is bad.
    Bad,
    /// It is null, where the column may be; elsewhere its row is bad.
    Null,
}

/// What runs.
#[derive(Debug, Clone)]
pub enum Entry {
    /// A component.
    Wasm {
        /// Its file.
        path: PathBuf,
        /// What an instance may use.
        limits: Limits,
    },
    /// A process.
    Container(ContainerEntry),
}

/// A process to start.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct ContainerEntry {
    /// The image it runs in; none: on this machine, in the transform's folder.
    pub image: Option<String>,
    /// Program and arguments; for an image they may be left to it.
    pub command: Vec<String>,
    /// The names of the environment variables it is given.
    pub env: Vec<String>,
    /// What it may use.
    pub limits: ContainerLimits,
}

/// One transform of the registry.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct TransformManifest {
    /// Its name in references.
    pub id: String,
    /// Its version.
    pub version: Version,
    /// What it does, for people.
    pub description: Option<String>,
    /// The folder that it lies in.
    pub folder: PathBuf,
    /// What runs.
    pub entry: Entry,
    /// The columns it reads.
    pub inputs: SchemaRef,
    /// The columns it makes.
    pub output: SchemaRef,
    /// How its rows relate to those it is given. None: as a component says itself, and row by row for a container.
    pub shape: Option<Shape>,
    /// What becomes of a value that does not fit.
    pub on_misfit: OnMisfit,
    /// The manifest's own text, which is a part of a container's digest.
    pub(crate) text: String,
}

impl fmt::Display for TransformManifest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}@{}", self.id, self.version)
    }
}

impl TransformManifest {
    /// How it is run.
    pub fn implementation(&self) -> Implementation {
        match &self.entry {
            Entry::Wasm { .. } => Implementation::Wasm,
            Entry::Container(_) => Implementation::Container,
        }
    }

    /// Reads a file.
    ///
    /// # Errors
    /// Every mistake in it, each with file, line and key.
    pub fn read(path: &Path) -> Result<TransformManifest, Vec<String>> {
        let shown = path.display();
        let length = path.metadata().map_err(|error| vec![format!("{shown}: {error}")])?.len();
        if length > MAX_FILE {
            return Err(vec![format!("{shown}: it has {length} bytes; {MAX_FILE} are the most")]);
        }
        let text = crate::file::read_text(path).map_err(|error| vec![format!("{shown}: {error}")])?;
        let folder = path.parent().unwrap_or(Path::new("."));
        let document = Document::parse(&text).map_err(|(line, message)| vec![format!("{shown}:{line}: {message}")])?;
        TransformManifest::parse(&document.root, folder, &text).map_err(|problems| {
            let located = problems.into_iter().map(|problem| (document.line(&problem.path).unwrap_or(1), problem));
            let mut located: Vec<_> = located.collect();
            located.sort();
            located.into_iter().map(|(line, problem)| format!("{shown}:{line}: {problem}")).collect()
        })
    }

    fn parse(root: &Map<String, Value>, folder: &Path, text: &str) -> Result<TransformManifest, Vec<Problem>> {
        let mut options = Options::new(root);
        let id = options.require_string("id");
        if let Some(Err(message)) = id.as_deref().map(check_id) {
            options.problem("id", message);
        }
        let version = options.require_string("version").and_then(|text| match parse_version(&text) {
            Ok(version) => Some(version),
            Err(message) => {
                options.problem("version", message);
                None
            }
        });
        let description = options.string("description");
        if !options.has("impl") {
            options.problem("impl", "`impl` is missing: `wasm` or `container`");
        }
        let implementation = options.choice("impl", &[("wasm", Implementation::Wasm), ("container", Implementation::Container)]);
        let inputs = columns(&mut options, "inputs", "the columns it reads");
        let output = columns(&mut options, "output", "the columns it makes");
        let shape =
            options.choice("shape", &[("rowwise", Shape::Rowwise), ("rowwise-filter", Shape::RowwiseFilter), ("free", Shape::Free)]);
        let on_misfit = options.choice("onMisfit", &[("bad", OnMisfit::Bad), ("null", OnMisfit::Null)]).unwrap_or(OnMisfit::Bad);
        let limits = options.table("limits").cloned().unwrap_or_default();
        let env = capabilities(&mut options);
        let entry = match implementation {
            Some(Implementation::Wasm) => wasm_entry(&mut options, folder, &limits, &env),
            Some(Implementation::Container) => container_entry(&mut options, &limits, env),
            // What belongs to which kind is not known; the keys themselves are.
            None => ["entry", "image"].into_iter().find_map(|key| options.value(key).and(None)),
        };
        let problems = options.finish();
        match (id, version, entry, inputs, output) {
            (Some(id), Some(version), Some(entry), Some(inputs), Some(output)) if problems.is_empty() => Ok(TransformManifest {
                id,
                version,
                description,
                folder: folder.to_path_buf(),
                entry,
                inputs,
                output,
                shape,
                on_misfit,
                text: text.to_string(),
            }),
            _ => Err(problems),
        }
    }
}

/// `[[inputs]]` or `[[output]]`: named, typed columns, at least one.
fn columns(options: &mut Options<'_>, key: &str, what: &str) -> Option<SchemaRef> {
    let Some(value) = options.value(key) else {
        options.problem(key, format!("`[[{key}]]` is missing: {what}, each with `name` and `type`"));
        return None;
    };
    match types::schema_of(value) {
        Ok(schema) if schema.fields().is_empty() => {
            options.problem(key, format!("`{key}` is empty; name {what}"));
            None
        }
        Ok(schema) => Some(schema),
        Err(found) => {
            options.problems(found.into_iter().map(|problem| problem.under([key])));
            None
        }
    }
}

/// `capabilities`: what of the machine a transform would like to see. They can only narrow what a step gives.
fn capabilities(options: &mut Options<'_>) -> Vec<String> {
    let Some(table) = options.table("capabilities") else { return Vec::new() };
    let mut inner = Options::new(table);
    let env = inner.strings("env").unwrap_or_default();
    if let Some(name) = env.iter().find(|name| name.is_empty() || name.contains(['=', '\0'])) {
        inner.problem("env", format!("{name:?} is no name of an environment variable"));
    }
    options.problems(inner.finish().into_iter().map(|problem| problem.under(["capabilities"])));
    env
}

fn wasm_entry(options: &mut Options<'_>, folder: &Path, limits: &Map<String, Value>, env: &[String]) -> Option<Entry> {
    if !env.is_empty() {
        let message = "a `wasm` transform is deterministic and sees nothing of the machine; pass it what it needs in `config`";
        options.problems([Problem::new(vec!["capabilities".into(), "env".into()], message)]);
    }
    let limits = match Limits::parse(limits) {
        Ok(limits) => Some(limits),
        Err(found) => {
            options.problems(found.into_iter().map(|problem| problem.under(["limits"])));
            None
        }
    };
    let entry = options.require_string("entry")?;
    match below(folder, &entry) {
        Ok(path) => Some(Entry::Wasm { path, limits: limits? }),
        Err(message) => {
            options.problem("entry", message);
            None
        }
    }
}

/// A file below the folder, whatever links lie on the way.
fn below(folder: &Path, entry: &str) -> Result<PathBuf, String> {
    let relative = Path::new(entry);
    if !relative.components().all(|part| matches!(part, Component::Normal(_) | Component::CurDir)) {
        return Err(format!("`{entry}` leads out of the transform's folder; name a file below it"));
    }
    let path = folder.join(relative);
    let wrong = |error: std::io::Error| format!("`{}` cannot be read: {error}", path.display());
    let (real, home) = (path.canonicalize().map_err(wrong)?, folder.canonicalize().map_err(wrong)?);
    if !real.starts_with(home) {
        return Err(format!("`{entry}` is a link that leads out of the transform's folder"));
    }
    if real.is_file() { Ok(path) } else { Err(format!("`{}` is no file", path.display())) }
}

fn container_entry(options: &mut Options<'_>, limits: &Map<String, Value>, env: Vec<String>) -> Option<Entry> {
    let limits = match ContainerLimits::parse(limits) {
        Ok(limits) => Some(limits),
        Err(found) => {
            options.problems(found.into_iter().map(|problem| problem.under(["limits"])));
            None
        }
    };
    let image = options.string("image");
    // A leading dash would be read as an option of the container runtime.
    if image.as_ref().is_some_and(|image| image.is_empty() || image.starts_with('-') || image.contains(char::is_whitespace)) {
        options.problem("image", "that is no image's name, such as `registry.example/upper:1.2`");
    }
    let command = match options.list("entry") {
        None if options.has("entry") => return None,
        None => Vec::new(),
        Some(_) => options.strings("entry").unwrap_or_default(),
    };
    if image.is_none() && command.first().is_none_or(String::is_empty) {
        options.problem("entry", "`entry` is missing: program and arguments as a list, such as `[\"python3\", \"up.py\"]`, or an `image`");
        return None;
    }
    Some(Entry::Container(ContainerEntry { image, command, env, limits: limits? }))
}

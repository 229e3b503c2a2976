//! `tidegate plugin`: the commands of a plugin's author, one file each.

mod build;
mod inspect;
mod new;
mod registered;
mod run;
mod test;

use super::{CONFIG, USAGE, failed};
use clap::{Args, Subcommand};
use serde_json::{Map, Value};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tidegate::host::{HostConfig, Plugin, PluginHost, PluginSpec};
use tidegate_api::config::Problem;

/// The commands.
#[derive(Debug, Subcommand)]
pub(super) enum PluginVerb {
    /// Make a crate of a plugin that works: a small transform, source or two-phase sink to begin with
    New {
        /// Its name, in kebab case
        name: String,
        /// What it is
        #[arg(long, value_enum)]
        kind: KindArg,
        /// The folder to make; NAME if it is not given
        #[arg(long)]
        dir: Option<PathBuf>,
    },
    /// Build a plugin's crate into target/tidegate/NAME.wasm, in the way this machine can, and print that path
    Build {
        /// The crate's folder
        #[arg(long, default_value = ".")]
        dir: PathBuf,
        /// Build in this way and no other
        #[arg(long, value_enum)]
        with: Option<WayArg>,
    },
    /// Show what a component is, what it wants, and what it may use
    Inspect {
        /// The component
        file: PathBuf,
        /// As one JSON object
        #[arg(long)]
        json: bool,
    },
    /// Run a plugin by itself: rows of a file through a transform or into a sink, or what a source reads
    Run(run::RunArgs),
    /// Judge a plugin by the conformance kit, and say which guarantee it earned; exit code 1 if it broke a promise
    Test(test::TestArgs),
}

/// What a plugin is.
#[derive(Debug, Clone, Copy, clap::ValueEnum)]
pub(super) enum KindArg {
    /// Reads rows
    Source,
    /// Writes rows
    Sink,
    /// A stateless step: rows in, rows out
    Transform,
}

/// How to build.
#[derive(Debug, Clone, Copy, clap::ValueEnum)]
pub(super) enum WayArg {
    /// cargo build --target wasm32-wasip2
    Wasip2,
    /// cargo build --target wasm32-unknown-unknown, packed: no WASI
    Core,
    /// cargo build --target wasm32-wasip1, packed with an adapter
    Wasip1,
    /// cargo component build
    Component,
}

/// What a plugin is loaded with: the keys of `[plugins.NAME]`.
#[derive(Debug, Args)]
pub(super) struct LoadArgs {
    /// An option of the plugin; the value is JSON, or else text; may be given several times
    #[arg(long, value_name = "KEY=VALUE")]
    config: Vec<String>,
    /// A file with the plugin's options, TOML or JSON by its ending; `--config` goes on top
    #[arg(long, value_name = "FILE")]
    config_file: Option<PathBuf>,
    /// A grant, as in the pipeline file's `allow`: dirs=HOST=GUEST:rw, env=NAME, clock, random; may be given several times
    #[arg(long, value_name = "GRANT")]
    allow: Vec<String>,
    /// A secret, taken from a variable of the environment; may be given several times
    #[arg(long, value_name = "NAME=VARIABLE")]
    secret: Vec<String>,
    /// A limit, as in the pipeline file's `limits`: memory=64MiB, deadline=1s; may be given several times
    #[arg(long, value_name = "KEY=VALUE")]
    limits: Vec<String>,
}

/// Does it, and gives the exit code.
pub(super) fn main(verb: PluginVerb) -> u8 {
    match verb {
        PluginVerb::New { name, kind, dir } => new::new(&name, kind, dir),
        PluginVerb::Build { dir, with } => build::build(&dir, with),
        PluginVerb::Inspect { file, json } => inspect::inspect(&file, json),
        PluginVerb::Run(args) => run::run(&args),
        PluginVerb::Test(args) => test::test(&args),
    }
}

/// Loads a component under its file's name, or gives the exit code after saying why not.
fn load(file: &Path, args: Option<&LoadArgs>) -> Result<Arc<Plugin>, u8> {
    let spec = named(file);
    let spec = match args {
        None => spec,
        Some(args) => args.spec(spec).map_err(|problems| {
            problems.iter().for_each(|problem| eprintln!("{problem}"));
            CONFIG
        })?,
    };
    PluginHost::new(host_config()).and_then(|host| host.load(&spec)).map_err(|error| failed(&error))
}

/// A plugin under its file's name.
fn named(file: &Path) -> PluginSpec {
    PluginSpec::new(file.file_stem().map_or_else(|| "plugin".into(), |name| name.to_string_lossy().into_owned()), file)
}

/// The command's cache, and its environment for plugins that are granted variables.
fn host_config() -> HostConfig {
    super::run::host_config().with_environment(Arc::new(|name| std::env::var(name).ok()))
}

impl LoadArgs {
    fn spec(&self, spec: PluginSpec) -> Result<PluginSpec, Vec<Problem>> {
        let spec = spec.with_config(Value::Object(self.options()?)).with_allow(&grants(&self.allow))?;
        spec.with_secrets(&self.secrets()?)?.with_limits(&self.limit_table()?)
    }

    fn options(&self) -> Result<Map<String, Value>, Vec<Problem>> {
        let mut options = match &self.config_file {
            Some(file) => read_options(file).map_err(|message| vec![Problem::at("--config-file", message)])?,
            None => Map::new(),
        };
        for text in &self.config {
            let (key, value) = pair("--config", text)?;
            options.insert(key.into(), serde_json::from_str(value).unwrap_or_else(|_| Value::String(value.into())));
        }
        Ok(options)
    }

    fn secrets(&self) -> Result<Map<String, Value>, Vec<Problem>> {
        let mut secrets = Map::new();
        for text in &self.secret {
            let (name, variable) = pair("--secret", text)?;
            let value = std::env::var(variable);
            let value = value.map_err(|_| vec![Problem::at("--secret", format!("the environment variable `{variable}` is not set"))])?;
            secrets.insert(name.into(), Value::String(value));
        }
        Ok(secrets)
    }

    fn limit_table(&self) -> Result<Map<String, Value>, Vec<Problem>> {
        let mut limits = Map::new();
        for text in &self.limits {
            let (key, value) = pair("--limits", text)?;
            limits.insert(key.into(), serde_json::from_str(value).unwrap_or_else(|_| Value::String(value.into())));
        }
        Ok(limits)
    }
}

fn pair<'a>(argument: &str, text: &'a str) -> Result<(&'a str, &'a str), Vec<Problem>> {
    let pair = text.split_once('=').filter(|(key, _)| !key.is_empty());
    pair.ok_or_else(|| vec![Problem::at(argument, format!("`{text}` is not KEY=VALUE"))])
}

fn read_options(file: &Path) -> Result<Map<String, Value>, String> {
    let text = tidegate::file::read_text(file).map_err(|error| format!("`{}` cannot be read: {error}", file.display()))?;
    let json = file.extension().is_some_and(|ending| ending == "json");
    let read = if json {
        serde_json::from_str(&text).map_err(|error| error.to_string())
    } else {
        toml::from_str(&text).map_err(|error| error.to_string())
    };
    read.map_err(|error| format!("`{}`: {error}", file.display()))
}

/// The table `allow`: grants with a value are lists, others are switched on.
fn grants(texts: &[String]) -> Map<String, Value> {
    let mut table = Map::new();
    for text in texts {
        match text.split_once('=') {
            None => drop(table.insert(text.clone(), Value::Bool(true))),
            Some((key, value)) => {
                let list = table.entry(key).or_insert_with(|| Value::Array(Vec::new()));
                match list {
                    Value::Array(list) => list.push(value.into()),
                    // Both `clock` and `clock=…`: the value is what the host complains of.
                    other => *other = value.into(),
                }
            }
        }
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn grants_become_the_table_of_a_pipeline_file() {
        let texts = ["dirs=in=/in", "dirs=out=/out:rw", "clock", "env=HOME"].map(str::to_string);
        let expected = json!({ "dirs": ["in=/in", "out=/out:rw"], "clock": true, "env": ["HOME"] });
        assert_eq!(Value::Object(grants(&texts)), expected);
    }

    #[test]
    fn options_are_json_or_text_and_go_on_top_of_the_file() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("o.toml");
        std::fs::write(&file, "dir = \"/in\"\nrows = 1\n").unwrap();
        let config = ["rows=2", "name=plain text", "list=[1]"].map(str::to_string).to_vec();
        let args = LoadArgs { config, config_file: Some(file), allow: Vec::new(), secret: Vec::new(), limits: Vec::new() };
        let options = Value::Object(args.options().unwrap());
        assert_eq!(options, json!({ "dir": "/in", "rows": 2, "name": "plain text", "list": [1] }));
        let args = LoadArgs { config: vec!["x".into()], config_file: None, ..args };
        assert!(args.options().unwrap_err()[0].to_string().contains("`x` is not KEY=VALUE"));
    }
}

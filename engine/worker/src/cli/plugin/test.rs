//! `tidegate plugin test`: the conformance kit over one component.

use super::{LoadArgs, registered};
use crate::cli::{CONFIG, failed};
use clap::Args;
use serde_json::Value;
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use std::path::{Path, PathBuf};
use tidegate::host::PluginHost;
use tidegate_api::{Error, Result};
use tidegate_conformance::Progress;
use tidegate_conformance::plugin::{Conformance, end_all, judge};

/// The exit code when a promise was found broken.
const CONVICTED: u8 = 1;
/// The file with the table `[conformance]`.
const TABLE: &str = "plugin.toml";
/// How far above the component that file is looked for: the component stands in `target/tidegate`.
const ABOVE: usize = 4;

/// What to judge, and how.
#[derive(Debug, Args)]
pub(in crate::cli) struct TestArgs {
    /// The component, or the transform.toml of a transform of the registry
    file: PathBuf,
    /// The file whose table `[conformance]` says how to judge it; without this the plugin.toml in the component's folder or one above it
    #[arg(long, value_name = "FILE")]
    plugin_toml: Option<PathBuf>,
    /// An older build of the plugin, whose positions and commit tokens this one must read
    #[arg(long, value_name = "FILE")]
    upgrade_from: Option<PathBuf>,
    /// Calls made to find a leak, in place of `calls`; all of them, however long they take
    #[arg(long)]
    calls: Option<usize>,
    /// Print the report as one JSON object
    #[arg(long)]
    json: bool,
    /// Write the report into this folder, as report.json and report.txt
    #[arg(long, value_name = "DIR")]
    report: Option<PathBuf>,
    #[command(flatten)]
    load: LoadArgs,
}

/// Judges it, prints the report, and gives the exit code.
pub(super) fn test(args: &TestArgs) -> u8 {
    let spec = match args.load.spec(super::named(&args.file)) {
        Ok(spec) => spec,
        Err(problems) => {
            problems.iter().for_each(|problem| eprintln!("{problem}"));
            return CONFIG;
        }
    };
    let judged = PluginHost::new(super::host_config()).and_then(|host| {
        end_with_signals()?;
        let mut conformance = table(args)?;
        if let Some(calls) = args.calls {
            conformance.calls = calls;
            conformance.leak_time = None;
        }
        // What is done at present stands on stderr: a plugin may be slow, and its outside may hang.
        conformance.progress = Progress::new(|what| eprintln!("judging: {what}"));
        if registered::is_registered(&args.file) {
            let mut config = spec.config.as_object().cloned().unwrap_or_default();
            config.extend(conformance.config.clone());
            return registered::judge(&args.file, config, &conformance);
        }
        conformance.upgrade_from.clone_from(&args.upgrade_from);
        conformance.version = Some(host.load(&spec)?.describe()?.version);
        judge(&host, &spec, &conformance)
    });
    let report = match judged {
        Ok(report) => report,
        Err(error) => return failed(&error),
    };
    let json = report.to_json();
    match args.json {
        true => println!("{json}"),
        false => print!("{report}"),
    }
    if let Some(folder) = &args.report
        && let Err(error) = write(folder, &json, &report.to_string())
    {
        return failed(&error);
    }
    if report.passed() { 0 } else { CONVICTED }
}

/// Told to end, by Ctrl-C or otherwise, it takes the programs along that stand for the plugin's outside: they run in groups of their own,
/// which the terminal does not reach.
fn end_with_signals() -> Result<()> {
    /// What a shell adds to the number of the signal by which a program ended.
    const BY_SIGNAL: i32 = 128;
    let failed = |error: std::io::Error| Error::internal("cannot listen to signals").caused_by(error);
    let mut signals = Signals::new([SIGINT, SIGTERM]).map_err(failed)?;
    let listen = move || {
        if let Some(signal) = signals.forever().next() {
            end_all();
            // At once: the judging thread would convict the plugin of what its outside no longer does.
            signal_hook::low_level::exit(BY_SIGNAL + signal);
        }
    };
    std::thread::Builder::new().name("signals".into()).spawn(listen).map_err(failed)?;
    Ok(())
}

fn write(folder: &Path, json: &Value, page: &str) -> Result<()> {
    let at = |error: std::io::Error| Error::config(format!("the report cannot be written into `{}`", folder.display())).caused_by(error);
    std::fs::create_dir_all(folder).map_err(at)?;
    std::fs::write(folder.join("report.json"), format!("{json:#}\n")).map_err(at)?;
    std::fs::write(folder.join("report.txt"), page).map_err(at)
}

/// How it is judged: the table of the file that was named or found, or nothing but the defaults.
fn table(args: &TestArgs) -> Result<Conformance> {
    let found = match &args.plugin_toml {
        Some(file) => Some(file.clone()),
        None => above(&args.file),
    };
    let Some(file) = found else {
        eprintln!("there is no {TABLE} beside `{}` or above it; it is judged without an outside", args.file.display());
        return Ok(Conformance::new("."));
    };
    let shown = file.display();
    let text = tidegate::file::read_text(&file).map_err(|error| Error::config(format!("`{shown}` cannot be read: {error}")))?;
    let document: Value = toml::from_str(&text).map_err(|error| Error::config(format!("`{shown}`: {error}")))?;
    let folder = file.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or_else(|| Path::new("."));
    match document.get("conformance") {
        None => Ok(Conformance::new(folder)),
        Some(Value::Object(table)) => {
            Conformance::parse(table, folder).map_err(|problems| Error::from(problems).context(format!("`{shown}`: `[conformance]`")))
        }
        Some(_) => Err(Error::config(format!("`{shown}`: `conformance` is a table, `[conformance]`"))),
    }
}

fn above(component: &Path) -> Option<PathBuf> {
    let component = component.canonicalize().ok()?;
    component.ancestors().skip(1).take(ABOVE).map(|folder| folder.join(TABLE)).find(|file| file.is_file())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_found_above_the_component() {
        let folder = tempfile::tempdir().unwrap();
        let target = folder.path().join("target/tidegate");
        std::fs::create_dir_all(&target).unwrap();
        let component = target.join("x.wasm");
        std::fs::write(&component, "").unwrap();
        assert_eq!(above(&component).filter(|file| file.starts_with(folder.path().canonicalize().unwrap())), None);
        std::fs::write(folder.path().join(TABLE), "").unwrap();
        assert_eq!(above(&component), Some(folder.path().canonicalize().unwrap().join(TABLE)));
    }
}

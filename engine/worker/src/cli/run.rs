//! `tidegate run`.

use super::plan::block_on;
use super::progress::Progress;
use super::sample::Sample;
use super::trial::Trial;
use super::{read, refuse};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use tidegate::Prepared;
use tidegate::control::StartOptions;
use tidegate::file::{FileHost, PipelineFile, TrialHost};
use tidegate::{host::HostConfig, run_stream};
use tidegate_api::Error;
use tidegate_connectors::stdout::StdoutTarget;
use tidegate_runtime::{KillHook, KillPoint};

/// What `run` was asked for.
pub(super) struct RunArgs {
    pub(super) start: StartOptions,
    pub(super) limit: Option<u64>,
    pub(super) pause_at: Option<String>,
    pub(super) freeze_at: Option<String>,
    pub(super) trial: Option<String>,
}

pub(super) fn run(path: &Path, args: &RunArgs) -> u8 {
    let file = match read(path) {
        Ok(file) => file,
        Err(mistakes) => return refuse(&mistakes),
    };
    let trial = match args.trial.as_deref().map(serde_json::from_str::<Trial>).transpose() {
        Ok(trial) => trial,
        Err(error) => {
            eprintln!("this is no trial: {error}");
            return super::USAGE;
        }
    };
    let mut sample = None;
    let redirected = match (&trial, args.limit) {
        (Some(trial), _) => redirect(trial, file),
        (None, Some(limit)) => Sample::new().and_then(|made| sample.insert(made).of(file, limit)),
        (None, None) => Ok((file, TrialHost::default())),
    };
    let (file, trial_host) = match redirected {
        Ok(redirected) => redirected,
        Err(code) => return code,
    };
    let stop = Arc::new(AtomicBool::new(false));
    if let Err(error) = stop_on_signals(&stop) {
        eprintln!("cannot listen for signals: {error}");
        return 70;
    }
    let progress = Arc::new(Progress::new());
    let shown = Arc::clone(&progress);
    let mut settings = file
        .host_settings()
        .with_local_claims()
        .with_default_state_dir(default_state_dir(&file))
        .with_start(args.start.clone())
        .with_default_heartbeat(std::time::Duration::from_millis(200));
    for (text, still) in [(&args.pause_at, Still::Parked), (&args.freeze_at, Still::Frozen)] {
        let Some(text) = text else { continue };
        match pause_hook(text, still) {
            Some(hook) => settings = settings.with_kill_hook(hook),
            None => {
                eprintln!("`{text}` is no point of the protocol");
                return super::USAGE;
            }
        }
    }
    if let Some(hook) = trial.as_ref().and_then(Trial::hook) {
        settings = settings.with_kill_hook(hook);
    }
    let traps = trial.as_ref().and_then(|trial| trial.trap_every_ms).map(std::time::Duration::from_millis);
    let plugins = host_config().with_trap_every(traps);
    let stdout = StdoutTarget::new(Pipe { stop: Arc::clone(&stop) });
    let host = FileHost::new(Arc::clone(&file), settings, plugins, stop, Box::new(move |record| shown.show(record)));
    let trial_host = match &sample {
        Some(sample) => sample.labelled(trial_host, &stdout),
        None => trial_host,
    };
    let host = Arc::new(host.with_stdout(stdout).with_trial(trial_host));
    // All mistakes with their lines, before anything starts; the run itself would only name their paths.
    match block_on(host.check()) {
        Ok(prepared) => tell_inferred(&prepared, |text| file.mask().apply(text)),
        Err(mistakes) => return refuse(&mistakes),
    }
    let pipeline = file.name().to_string();
    block_on(run_stream(Arc::clone(&host) as Arc<dyn tidegate::ControlPlane>, String::new(), pipeline, json!({})));
    progress.finish();
    if let Some(trial) = &trial {
        // Who waits for it finds no record, and says so.
        let _ = std::fs::write(trial.record(), host.last_record().to_string());
    }
    report(&host.last_record(), |text| file.mask().apply(text))
}

/// The pipeline and the host of a trial, or the exit code of a refusal.
fn redirect(trial: &Trial, file: Arc<PipelineFile>) -> Result<(Arc<PipelineFile>, TrialHost), u8> {
    let file = Arc::into_inner(file).ok_or(70u8)?;
    let redirected = trial.redirect(file).map_err(|problems| {
        problems.iter().for_each(|problem| eprintln!("{problem}"));
        super::CONFIG
    })?;
    let host = trial.host(&redirected.places).map_err(|error| {
        eprintln!("{error}");
        super::CONFIG
    })?;
    Ok((Arc::new(redirected.file), host))
}

/// Says which schemas this start has inferred; those of an earlier start were said by it.
fn tell_inferred(prepared: &Prepared, mask: impl Fn(&str) -> String) {
    for source in prepared.planned.sources.iter().filter(|source| !source.pinned) {
        if let Some(schema) = &source.resolved {
            let text = format!("dataset `{}`: inferred {schema}; it is kept for the whole run", source.dataset);
            eprintln!("{}", mask(&text));
        }
    }
}

/// Where epochs are kept if the file does not say.
pub(super) fn default_state_dir(file: &PipelineFile) -> PathBuf {
    file.base_dir().join(".tidegate").join(file.name())
}

/// Says how the run ended, and gives the exit code for it.
fn report(record: &Value, mask: impl Fn(&str) -> String) -> u8 {
    let text = |key: &str| record[key].as_str().map(&mask);
    if let Some(warning) = text("warning") {
        eprintln!("warning: {warning}");
    }
    let metrics = &record["metrics"];
    let count = |key: &str| metrics[key].as_u64().unwrap_or(0);
    match (text("error"), text("reason").as_deref()) {
        (Some(error), _) => {
            eprintln!("failed: {error}");
            return record["exitCode"].as_u64().and_then(|code| u8::try_from(code).ok()).unwrap_or(70);
        }
        (None, Some("complete")) => {
            eprintln!("already complete at epoch {}; --fresh starts over", count("epoch"));
        }
        (None, reason) => {
            let (rows_in, rows_out, epoch) = (count("rowsIn"), count("rowsOut"), count("epoch"));
            eprintln!("{}: {rows_in} rows in, {rows_out} rows out, epoch {epoch}", reason.unwrap_or("stopped"));
        }
    }
    for key in ["lateRows", "badRows", "futureRows"] {
        if count(key) > 0 {
            eprintln!("{key}: {}", count(key));
        }
    }
    0
}

/// The first SIGINT or SIGTERM asks for a stop with a final epoch, the second quits.
fn stop_on_signals(stop: &Arc<AtomicBool>) -> std::io::Result<()> {
    for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM] {
        // In this order: the shutdown fires only if an earlier signal has set the flag.
        signal_hook::flag::register_conditional_shutdown(signal, 130, Arc::clone(stop))?;
        signal_hook::flag::register(signal, Arc::clone(stop))?;
    }
    Ok(())
}

/// The command's plugin host: compiled code is cached for this user, and what is granted of the environment is this process's.
pub(super) fn host_config() -> HostConfig {
    let cache = std::env::var_os("XDG_CACHE_HOME")
        .map(PathBuf::from)
        .or_else(|| std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".cache")))
        .map(|cache| cache.join("tidegate").join("compiled"));
    HostConfig::default().with_cache_dir(cache).with_environment(Arc::new(|name| std::env::var(name).ok()))
}

/// How a process stands still.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Still {
    /// The thread that came to the point, until somebody kills the process.
    Parked,
    /// The whole process, until somebody thaws it; then it goes on.
    Frozen,
}

/// Stands still at the `n`-th passing of a point, saying so.
fn pause_hook(text: &str, still: Still) -> Option<KillHook> {
    let (name, count) = text.split_once(':').unwrap_or((text, "1"));
    let point = KillPoint::named(name)?;
    let left = AtomicU64::new(count.parse().ok().filter(|count| *count > 0)?);
    Some(Arc::new(move |at, epoch| {
        if at != point || left.fetch_sub(1, Ordering::SeqCst) != 1 {
            return Ok(());
        }
        eprintln!("paused at {name} epoch {epoch}", name = at.name());
        match still {
            Still::Parked => loop {
                std::thread::park();
            },
            Still::Frozen => {
                signal_hook::low_level::raise(libc::SIGSTOP).map_err(|error| Error::internal("cannot freeze this process").caused_by(error))
            }
        }
    }))
}

/// Standard output whose reader may go away: that is a stop, and what follows is nobody's.
struct Pipe {
    stop: Arc<AtomicBool>,
}

impl Pipe {
    fn unless_closed<T>(&self, result: std::io::Result<T>, instead: T) -> std::io::Result<T> {
        match result {
            Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => {
                self.stop.store(true, Ordering::Relaxed);
                Ok(instead)
            }
            other => other,
        }
    }
}

impl std::io::Write for Pipe {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.unless_closed(std::io::stdout().write(bytes), bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.unless_closed(std::io::stdout().flush(), ())
    }
}

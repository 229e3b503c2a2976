//! `tidegate run`.

use super::plan::block_on;
use super::progress::Progress;
use super::{read, refuse};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use tidegate::Prepared;
use tidegate::control::StartOptions;
use tidegate::file::{FileHost, PipelineFile};
use tidegate::{host::HostConfig, run_stream};
use tidegate_connectors::stdout::StdoutTarget;
use tidegate_runtime::{KillHook, KillPoint};

pub(super) fn run(path: &Path, fresh: bool, takeover: bool, pause_at: Option<&str>) -> u8 {
    let file = match read(path) {
        Ok(file) => file,
        Err(mistakes) => return refuse(&mistakes),
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
        .with_start(StartOptions::default().with_fresh(fresh).with_takeover(takeover))
        .with_default_heartbeat(std::time::Duration::from_millis(200));
    if let Some(text) = pause_at {
        match pause_hook(text) {
            Some(hook) => settings = settings.with_kill_hook(hook),
            None => {
                eprintln!("`{text}` is no point of the protocol");
                return super::USAGE;
            }
        }
    }
    let stdout = StdoutTarget::new(Pipe { stop: Arc::clone(&stop) });
    let host = FileHost::new(Arc::clone(&file), settings, host_config(), stop, Box::new(move |record| shown.show(record)));
    let host = Arc::new(host.with_stdout(stdout));
    // All mistakes with their lines, before anything starts; the run itself would only name their paths.
    match block_on(host.check()) {
        Ok(prepared) => tell_inferred(&prepared, |text| file.mask().apply(text)),
        Err(mistakes) => return refuse(&mistakes),
    }
    let pipeline = file.name().to_string();
    block_on(run_stream(Arc::clone(&host) as Arc<dyn tidegate::ControlPlane>, String::new(), pipeline, json!({})));
    progress.finish();
    report(&host.last_record(), |text| file.mask().apply(text))
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

/// The command's plugin host: compiled code is cached for this user.
pub(super) fn host_config() -> HostConfig {
    let cache = std::env::var_os("XDG_CACHE_HOME")
        .map(PathBuf::from)
        .or_else(|| std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".cache")))
        .map(|cache| cache.join("tidegate").join("compiled"));
    HostConfig::default().with_cache_dir(cache)
}

/// Stands still at the `n`-th passing of a point, saying so, until somebody kills the process.
fn pause_hook(text: &str) -> Option<KillHook> {
    let (name, count) = text.split_once(':').unwrap_or((text, "1"));
    let point = KillPoint::ALL.into_iter().find(|point| point.name() == name)?;
    let left = AtomicU64::new(count.parse().ok().filter(|count| *count > 0)?);
    Some(Arc::new(move |at, epoch| {
        if at == point && left.fetch_sub(1, Ordering::SeqCst) == 1 {
            eprintln!("paused at {name} epoch {epoch}", name = at.name());
            loop {
                std::thread::park();
            }
        }
        Ok(())
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

//! Keys that come once and never again leave nothing behind: the pipelines of `cargo xtask soak`, for a moment, by their state.

#![allow(clippy::unwrap_used, reason = "a test may end by panicking")]

use serde_json::{Value, json};
use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tidegate::file::{FileHost, PipelineFile};
use tidegate::host::HostConfig;
use tidegate::{ControlPlane, run_stream};
use tidegate_tests::root;

/// Keys per pipeline; 1,000 of them are live at a time.
const EVENTS: u64 = 2_000_000;

/// How far above the greatest of the first tenth state may go, because containers double.
const ALLOWED: f64 = 2.0;

/// Or by how many bytes per key. One split may run ahead of the other by what edges hold, so that thousands of rows wait where hundreds did in
/// the first tenth, but that does not grow with the keys; a byte that stayed behind of every key would be twice this.
const PER_KEY: f64 = 0.5;

/// One moment of a run: rows read, and bytes of state of the stage that is watched.
type Moment = (u64, u64);

/// Runs a pipeline; its moments, and the last record.
fn watch(file: &Path) -> (Vec<Moment>, Value) {
    let text = std::fs::read_to_string(file).unwrap();
    let lines = text.lines().map(|line| if line.starts_with("events = ") { format!("events = {EVENTS}") } else { line.to_string() });
    let folder = tempfile::tempdir().unwrap();
    let text = lines.collect::<Vec<_>>().join("\n");
    let file = PipelineFile::parse(&text, "soak.toml", "soak", folder.path().to_path_buf(), Arc::new(|_| None)).unwrap();
    let moments: Arc<Mutex<Vec<Moment>>> = Arc::default();
    let seen = Arc::clone(&moments);
    let show = move |record: &Value| {
        let nodes = record["metrics"]["nodes"].as_array().into_iter().flatten();
        let state: u64 = nodes.filter(|node| node["name"] == "soaked").map(|node| node["stateBytes"].as_u64().unwrap()).sum();
        seen.lock().unwrap().push((record["metrics"]["rowsIn"].as_u64().unwrap_or(0), state));
    };
    let file = Arc::new(file);
    let settings =
        file.host_settings().with_default_state_dir(folder.path().join("state")).with_default_heartbeat(Duration::from_millis(2));
    let host =
        Arc::new(FileHost::new(Arc::clone(&file), settings, HostConfig::default(), Arc::new(AtomicBool::new(false)), Box::new(show)));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    let plane = Arc::clone(&host) as Arc<dyn ControlPlane>;
    runtime.block_on(run_stream(plane, String::new(), file.name().to_string(), json!({})));
    let record = host.last_record();
    let moments = moments.lock().unwrap().clone();
    (moments, record)
}

#[test]
fn keys_that_come_once_leave_no_state_behind() {
    let mut watched = 0;
    for file in std::fs::read_dir(root().join("tests/soak")).unwrap().map(|entry| entry.unwrap().path()) {
        let (moments, record) = watch(&file);
        let name = file.file_stem().unwrap().to_string_lossy().into_owned();
        let metrics = &record["metrics"];
        assert_eq!((record["status"].as_str(), record["reason"].as_str()), (Some("STOPPED"), Some("ended")), "{name}: {record}");
        // Every key comes out, and none is late: what is looked at is all of the work.
        assert_eq!((&metrics["rowsOut"], &metrics["lateRows"], &metrics["badRows"]), (&json!(EVENTS), &json!(0), &json!(0)), "{name}");
        let (start, later): (Vec<Moment>, Vec<Moment>) = moments.iter().partition(|(rows, _)| *rows <= EVENTS / 10);
        let most = |moments: &[Moment]| moments.iter().map(|(_, bytes)| *bytes).max().unwrap_or(0);
        let (start, later) = (most(&start), most(&later));
        assert!(start > 0 && later > 0, "{name}: no state was seen, in {} moments", moments.len());
        let allowed = (start as f64 * ALLOWED).max(start as f64 + EVENTS as f64 * PER_KEY);
        assert!(later as f64 <= allowed, "{name}: {start} bytes of state at first, {later} later");
        watched += 1;
    }
    assert_eq!(watched, 5);
}

//! One stream build, from its first question to the host to its last record.

use crate::control::{BuildSignal, ControlPlane};
use crate::prepare::{Prepared, epoch_store, prepare};
use crate::record::{Ending, Record};
use crate::settings::{AtEnd, Settings};
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;
use tidegate_api::{Clock, Epoch, Error, EventTime, Result, RunId, SystemClock};
use tidegate_runtime::RestartPolicy;
use tidegate_runtime::edge::Capacity;
use tidegate_runtime::metrics::{MetricsSnapshot, NodeRole, NodeSnapshot};
use tidegate_runtime::{Ending as JobEnding, Job, JobConfig, JobControl, MemoryLimit, Outcome};

/// Validates and runs one stream build to its terminal state against any host.
///
/// Every mistake in topology, settings, plugins and datasets is reported together as one FAILED record. A stop request lands as
/// STOPPED, an input that ends as STOPPED with `reason = "ended"`, a stream that an earlier build had finished as STOPPED with
/// `reason = "complete"`; never SUCCEEDED. Nothing is returned: the run owns its record, which begins as `record` and is stored
/// through the host.
///
/// Must be called inside a Tokio runtime with timers, of any flavour; the job's tasks have threads of their own. A future that is
/// dropped asks its job for a stop.
pub async fn run_stream(control_plane: Arc<dyn ControlPlane>, build_id: String, pipeline: String, record: Value) {
    let mut build = Build { control_plane, build_id, record: Record::new(record), clock: Arc::new(SystemClock) };
    match build.run(&pipeline).await {
        Ok(ending) => build.record.stopped(ending, build.clock.wall()),
        Err(error) => build.record.failed(&error, build.clock.wall()),
    }
    build.put_last().await;
}

struct Build {
    control_plane: Arc<dyn ControlPlane>,
    build_id: String,
    record: Record,
    clock: Arc<dyn Clock>,
}

/// Asks for a stop when the build's future is dropped.
struct StopOnDrop(JobControl);

impl Drop for StopOnDrop {
    fn drop(&mut self) {
        self.0.request_stop();
    }
}

impl Build {
    async fn run(&mut self, pipeline: &str) -> Result<Ending> {
        let prepared = prepare(self.control_plane.as_ref(), pipeline).await?;
        if let Some(clock) = &prepared.host.clock {
            self.clock = Arc::clone(clock);
        }
        let (host, settings) = (prepared.host.clone(), prepared.settings.clone());
        let opened = tokio::task::spawn_blocking(move || epoch_store(&host, &settings, new_run_id().as_str())).await;
        let (store, warning) = opened.map_err(|error| Error::internal(format!("opening the epoch store ended: {error}")))??;
        if let Some(warning) = warning {
            self.record.warn(&warning);
        }
        let every = self.heartbeat_every(&prepared);
        let config = self.job_config(pipeline, &prepared);
        let outputs = outputs_of(&prepared);
        let job = Job::prepare(prepared.planned.graph, config, store)?;

        self.record.running(outputs, self.clock.wall());
        self.put().await;
        let control = JobControl::new();
        let guard = StopOnDrop(control.clone());
        let mut running = {
            let control = control.clone();
            tokio::task::spawn_blocking(move || job.run(&control))
        };
        let outcome = loop {
            tokio::select! {
                biased;
                joined = &mut running => break joined.map_err(|error| Error::internal(format!("the job's thread ended: {error}")))?,
                () = tokio::time::sleep(every) => self.beat(&control).await,
            }
        };
        drop(guard);
        let now = self.clock.wall();
        match outcome {
            Ok(Outcome { end, metrics, restarts }) => {
                let epoch = match end {
                    JobEnding::Ended { epoch } | JobEnding::Stopped { epoch } | JobEnding::AlreadyComplete { epoch } => epoch,
                };
                self.record.beat(metrics_of(&metrics, epoch, restarts, now), now);
                Ok(match end {
                    JobEnding::Ended { .. } => Ending::Ended,
                    JobEnding::Stopped { .. } => Ending::Requested,
                    JobEnding::AlreadyComplete { .. } => Ending::Complete,
                })
            }
            Err(error) => {
                self.record.beat(metrics_now(&control, now), now);
                Err(error)
            }
        }
    }

    fn heartbeat_every(&self, prepared: &Prepared) -> Duration {
        let said = prepared.host.settings.contains_key("heartbeatEvery") || prepared.host.settings.contains_key("heartbeatEveryMs");
        match prepared.host.default_heartbeat {
            Some(every) if !said => every,
            _ => prepared.settings.heartbeat_every,
        }
    }

    /// One round trip: liveness out, control in, then the record unless the host cannot be reached.
    async fn beat(&mut self, control: &JobControl) {
        match self.control_plane.heartbeat(&self.build_id).await {
            BuildSignal::Continue => {}
            BuildSignal::ContinueUnreachable => return,
            BuildSignal::Stop => control.request_stop(),
        }
        let now = self.clock.wall();
        self.record.beat(metrics_now(control, now), now);
        self.put().await;
    }

    async fn put(&self) {
        if let Err(error) = self.control_plane.put_record(&self.build_id, self.record.to_value()).await {
            tracing::warn!(%error, "the record was not stored; the next heartbeat tries again");
        }
    }

    /// The last record matters more than a prompt return.
    async fn put_last(&self) {
        const TRIES: u32 = 5;
        for attempt in 1..=TRIES {
            match self.control_plane.put_record(&self.build_id, self.record.to_value()).await {
                Ok(()) => return,
                Err(error) => tracing::error!(%error, attempt, "the last record was not stored"),
            }
            if attempt < TRIES {
                tokio::time::sleep(Duration::from_millis(100 << attempt)).await;
            }
        }
    }

    fn job_config(&self, pipeline: &str, prepared: &Prepared) -> JobConfig {
        let Settings { restarts, .. } = prepared.settings;
        let settings = &prepared.settings;
        let (run_id, holder) = identity();
        let mut config = JobConfig::new(pipeline, run_id, holder);
        config.build = self.build_id.clone();
        config.batch_rows = settings.batch_rows;
        config.batch_bytes = settings.batch_bytes;
        config.edge = Capacity { rows: settings.edge_rows, bytes: settings.edge_bytes };
        config.cores = std::thread::available_parallelism().ok().map(std::num::NonZero::get);
        config.memory =
            Some(MemoryLimit { bytes: settings.max_memory.unwrap_or_else(|| crate::memory::available() / 2), spill: prepared.spill_dir() });
        config.checkpoint_every = settings.checkpoint_every;
        config.max_epoch_delay = settings.max_epoch_delay;
        config.vnodes = settings.vnodes;
        config.keep_epochs = settings.keep_epochs;
        config.at_end = match settings.at_end {
            AtEnd::Drain => tidegate_epochs::AtEnd::Drain,
            AtEnd::Suspend => tidegate_epochs::AtEnd::Suspend,
        };
        config.fresh = prepared.host.start.fresh;
        config.takeover = prepared.host.start.takeover;
        config.from = prepared.host.start.from.map(Epoch);
        config.drop_state = prepared.host.start.drop_state.iter().map(|stage| crate::plan::stage_id(stage)).collect();
        config.plugins = prepared.plugins.digests();
        config.is_gone = prepared.host.is_gone.clone();
        config.restarts = RestartPolicy {
            max: restarts.max,
            within: restarts.within,
            first_wait: restarts.backoff_from,
            longest_wait: restarts.backoff_to,
        };
        config.clock = Arc::clone(&self.clock);
        config.rebuild_sink = prepared.host.rebuild_sink.clone();
        config.kill = prepared.host.kill_hook.clone();
        config
    }
}

/// A name that no run has had: for a copy of an epoch that is to be a run of its own.
pub fn new_run_id() -> RunId {
    identity().0
}

/// A new run's name, and this start's own.
#[allow(clippy::disallowed_methods, reason = "the one place that names runs")]
fn identity() -> (RunId, String) {
    let run = uuid::Uuid::new_v4().simple().to_string();
    let start = uuid::Uuid::new_v4().simple().to_string();
    (RunId::new(&run[..16]), holder(std::process::id(), &start[..8]))
}

/// Names a start so that a host on the same machine can tell whether its process still lives: process, its start, and a nonce.
fn holder(process: u32, nonce: &str) -> String {
    let started = started_at(process).unwrap_or_default();
    format!("{process}@{}/{started}/{nonce}", machine())
}

/// Whether the process that a holder names has ended on this very machine. `false` if it cannot be told.
pub(crate) fn is_gone(holder: &str) -> bool {
    let mut parts = holder.splitn(3, '/');
    let (Some(place), Some(started)) = (parts.next(), parts.next()) else { return false };
    let Some((process, machine_name)) = place.split_once('@') else { return false };
    let Ok(process) = process.parse::<u32>() else { return false };
    if machine_name != machine() || machine_name.is_empty() || started.is_empty() {
        return false;
    }
    started_at(process).as_deref() != Some(started)
}

/// Names this boot of this machine; empty where that cannot be told.
fn machine() -> String {
    let read = |path: &str| std::fs::read_to_string(path).ok().map(|text| text.trim().to_string());
    read("/proc/sys/kernel/random/boot_id").unwrap_or_default()
}

/// When a process of this machine began, in the kernel's ticks; `None` if there is none of this number, or it is a corpse.
fn started_at(process: u32) -> Option<String> {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    // The name is in parentheses and may hold anything; the fields after it are fixed.
    let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
    let state = fields.first()?;
    (*state != "Z" && *state != "X").then(|| fields.get(19).map(|ticks| (*ticks).to_string())).flatten()
}

fn outputs_of(prepared: &Prepared) -> Value {
    let outputs = prepared.planned.outputs.iter().map(|output| {
        json!({
            "dataset": output.dataset,
            "guarantee": output.guarantee,
            "mode": output.mode,
            "loweredBy": output.lowered_by,
            "keys": output.keys,
            "clocks": output.clocks,
        })
    });
    outputs.collect()
}

fn metrics_now(control: &JobControl, now: EventTime) -> Value {
    let progress = control.progress(now);
    metrics_of(&control.metrics(), progress.epoch, progress.restarts, now)
}

/// Totals on top, then every node and edge.
fn metrics_of(metrics: &MetricsSnapshot, epoch: Epoch, restarts: u32, now: EventTime) -> Value {
    let (mut rows_in, mut rows_out, mut late, mut future, mut bad) = (0, 0, 0, 0, 0);
    let mut watermark: Option<EventTime> = None;
    for node in &metrics.nodes {
        bad += node.bad.values().sum::<u64>() + node.steps.iter().flat_map(|step| step.bad.values()).sum::<u64>();
        match node.role {
            NodeRole::Source(_) => {
                rows_in += node.rows_in;
                future += node.late;
                watermark = Some(watermark.map_or(node.watermark, |lowest| lowest.min(node.watermark)));
            }
            NodeRole::Operator(_) => late += node.late,
            NodeRole::Sink(_) => rows_out += node.rows_out,
        }
    }
    let known = watermark.filter(|at| *at != EventTime::MIN && *at != EventTime::MAX);
    json!({
        "rowsIn": rows_in,
        "rowsOut": rows_out,
        "lateRows": late,
        "futureRows": future,
        "badRows": bad,
        "watermark": known.map(|at| at.to_string()),
        "lagSeconds": known.map(|at| now.0.saturating_sub(at.0) as f64 / 1e6),
        "epoch": epoch.0,
        "restarts": restarts,
        "nodes": metrics.nodes.iter().map(node_of).collect::<Vec<_>>(),
        "edges": metrics.edges.iter().map(|edge| json!({ "edge": edge.edge, "sent": edge.sent, "received": edge.received })).collect::<Vec<_>>(),
    })
}

fn node_of(node: &NodeSnapshot) -> Value {
    let (kind, name) = match &node.role {
        NodeRole::Source(dataset) => ("source", dataset),
        NodeRole::Operator(stage) => ("operator", stage),
        NodeRole::Sink(dataset) => ("sink", dataset),
    };
    json!({
        "id": node.id,
        "kind": kind,
        "name": name,
        "rowsIn": node.rows_in,
        "rowsOut": node.rows_out,
        "filtered": node.filtered,
        "absorbed": node.absorbed,
        "lateRows": node.late,
        "lateWindows": node.late_windows,
        "badRows": node.bad,
        "badOutputRows": node.bad_output,
        "stateBytes": node.state_bytes,
        "spilledBytes": node.spilled_bytes,
        "spills": node.spills,
        "bytes": node.bytes,
        "retries": node.retries,
        "errors": node.errors,
        "behindRows": node.behind_rows,
        "behindBytes": node.behind_bytes,
        "steps": node.steps.iter().map(|step| json!({
            "stage": step.stage,
            "step": step.label,
            "rowsIn": step.rows_in,
            "rowsOut": step.rows_out,
            "filtered": step.filtered,
            "badRows": step.bad,
        })).collect::<Vec<_>>(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_holder_is_gone_only_when_its_own_process_is() {
        let alive = holder(std::process::id(), "nonce");
        assert!(!is_gone(&alive), "{alive}");
        // It waits for input that never comes, so it is alive while it is named.
        let mut child = std::process::Command::new("cat").stdin(std::process::Stdio::piped()).spawn().unwrap();
        let dead = holder(child.id(), "nonce");
        assert!(!is_gone(&dead), "{dead}");
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!(is_gone(&dead), !machine().is_empty(), "{dead}");
        assert!(!is_gone("somebody@elsewhere/12/nonce"));
        assert!(!is_gone("free text"));
    }
}

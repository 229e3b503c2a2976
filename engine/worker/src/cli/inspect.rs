//! `tidegate inspect`: what a store of epochs holds.

use super::place;
use serde_json::{Value, json};
use std::fmt::Write;
use tidegate_api::{Clock, EventTime, Result, SystemClock, VnodeRange};
use tidegate_epochs::manifest::{End, OperatorEntry, SplitStatus};
use tidegate_epochs::{EpochStore, InspectedEpoch, Inspection, Manifest, inspect, read_pieces};

/// How much is shown.
pub(super) struct Wanted {
    /// The epoch to look into; the newest without it.
    pub(super) epoch: Option<u64>,
    /// Keys per stage.
    pub(super) keys: usize,
    /// Read every object.
    pub(super) verify: bool,
    /// As lines of JSON.
    pub(super) json: bool,
}

pub(super) fn run(state: &str, wanted: &Wanted) -> u8 {
    let store = match place::existing(state) {
        Ok(store) => store,
        Err(code) => return code,
    };
    match look(store.as_ref(), wanted) {
        Ok(Some((found, lines))) => {
            if wanted.json {
                lines.iter().for_each(|line| println!("{line}"));
            } else {
                print!("{}", text_of(&lines));
            }
            let damaged = !found.unreadable.is_empty() || found.epochs.iter().any(|epoch| epoch.is_whole && epoch.damage.is_some());
            if damaged { super::CONVICTED } else { 0 }
        }
        Ok(None) => {
            eprintln!("there is no epoch in `{state}`");
            super::USAGE
        }
        Err(error) => super::failed(&error),
    }
}

/// Everything there is to show, a JSON object each.
fn look(store: &dyn EpochStore, wanted: &Wanted) -> Result<Option<(Inspection, Vec<Value>)>> {
    let Some(found) = inspect(store, wanted.verify)? else { return Ok(None) };
    let mut lines = vec![run_line(&found)];
    lines.extend(found.epochs.iter().map(epoch_line));
    lines.extend(found.unreadable.iter().map(|(epoch, why)| json!({ "epoch": epoch.0, "unreadable": why })));
    let chosen = match wanted.epoch {
        None => found.epochs.last(),
        Some(number) => Some(found.epochs.iter().find(|epoch| epoch.manifest.epoch.0 == number).ok_or_else(|| {
            let known: Vec<String> = found.epochs.iter().map(|epoch| epoch.manifest.epoch.to_string()).collect();
            tidegate_api::Error::config(format!("there is no epoch {number} that can be read; there are {}", known.join(", ")))
        })?),
    };
    if let Some(chosen) = chosen {
        lines.extend(source_lines(&chosen.manifest));
        for (name, operator) in &chosen.manifest.operators {
            lines.push(stage_line(store, chosen, name, operator, wanted.keys)?);
        }
        lines.extend(pending_lines(chosen));
    }
    Ok(Some((found, lines)))
}

fn run_line(found: &Inspection) -> Value {
    let newest = found.epochs.last().map(|epoch| &epoch.manifest);
    let now = SystemClock.wall();
    json!({
        "run": newest.map(|newest| newest.run_id.as_str()),
        "number": found.run,
        "earlierRuns": found.earlier.len(),
        "holder": found.claim.as_ref().map(|claim| claim.holder.as_str()),
        "lastSeen": found.claim.as_ref().map(|claim| claim.renewed.to_string()),
        "seemsAlive": found.claim.as_ref().is_some_and(|claim| claim.is_live(now)),
        "plugins": newest.map(|newest| &newest.plugins),
    })
}

fn epoch_line(epoch: &InspectedEpoch) -> Value {
    let manifest = &epoch.manifest;
    let ended = manifest.ended.as_ref().map(|end| match end {
        End::Drain => "complete",
        End::Suspend => "stopped",
        End::Superseded => "superseded",
    });
    json!({
        "epoch": manifest.epoch.0,
        "generation": manifest.generation.0,
        "written": manifest.written.to_string(),
        "opensGeneration": manifest.opens_generation,
        "ended": ended,
        "committed": epoch.is_settled,
        "stateBytes": epoch.state_bytes().values().sum::<u64>(),
        "restorable": epoch.is_whole && epoch.damage.is_none(),
        "damage": epoch.damage,
        "oneCopyOnly": epoch.is_single,
    })
}

fn source_lines(manifest: &Manifest) -> Vec<Value> {
    let lines = manifest.sources.iter().flat_map(|(name, source)| {
        source.splits.iter().map(move |split| {
            json!({
                "source": dataset(name),
                "split": split.id.to_string(),
                "status": match split.status { SplitStatus::Reading => "reading", SplitStatus::Finished => "finished" },
                "position": split.position.as_ref().map(|position| shown(position)),
                "maxEventTime": split.max_event_time.filter(|at| *at != EventTime::MIN).map(|at| at.to_string()),
            })
        })
    });
    lines.collect()
}

fn stage_line(store: &dyn EpochStore, epoch: &InspectedEpoch, name: &str, operator: &OperatorEntry, limit: usize) -> Result<Value> {
    let mut keys = Vec::new();
    let mut left = limit;
    // One piece at a time: they may be large, and the first ones have enough.
    for piece in operator.pieces.iter().filter(|_| epoch.is_whole) {
        if left == 0 {
            break;
        }
        for restored in read_pieces(store, std::slice::from_ref(piece), VnodeRange::all(epoch.manifest.vnodes))? {
            let found = tidegate_operators::sample_keys(&operator.signature, &restored.data, left)?;
            left -= found.len();
            keys.extend(found);
        }
    }
    let written = operator.pieces.iter().filter(|piece| piece.object.contains(&format!("/{:020}/", epoch.manifest.epoch.0)));
    Ok(json!({
        "stage": dataset(name),
        "operator": operator.signature.operator,
        "format": operator.signature.version,
        "pieces": operator.pieces.len(),
        "stateBytes": operator.pieces.iter().map(|piece| piece.length).sum::<u64>(),
        "writtenInThisEpoch": written.map(|piece| piece.length).sum::<u64>(),
        "sampleKeys": keys,
    }))
}

fn pending_lines(epoch: &InspectedEpoch) -> Vec<Value> {
    let pending = epoch.manifest.sinks.iter().filter(|_| !epoch.is_settled).flat_map(|(name, sink)| {
        sink.pending
            .iter()
            .map(move |token| json!({ "pending": dataset(name), "epoch": token.epoch.0, "task": token.task, "token": shown(&token.token) }))
    });
    pending.collect()
}

/// What a source or sink has encoded for itself: most of it is text.
fn shown(bytes: &[u8]) -> String {
    match std::str::from_utf8(bytes) {
        Ok(text) if !text.chars().any(char::is_control) => text.to_string(),
        _ => bytes.escape_ascii().to_string(),
    }
}

/// A node's name as its user knows it.
fn dataset(node: &str) -> &str {
    node.split_once('/').map_or(node, |(_, name)| name)
}

/// The same lines, for a terminal.
fn text_of(lines: &[Value]) -> String {
    let mut text = String::new();
    for line in lines {
        let shown = |key: &str| match &line[key] {
            Value::String(found) => found.clone(),
            Value::Null => "-".to_string(),
            other => other.to_string(),
        };
        let is = |key: &str| line[key].as_bool().unwrap_or(false);
        let written = if line.get("number").is_some() {
            let life = if is("seemsAlive") { "running" } else { "not running" };
            let earlier = line["earlierRuns"].as_u64().filter(|earlier| *earlier > 0);
            let earlier = earlier.map(|earlier| format!(", {earlier} earlier")).unwrap_or_default();
            writeln!(text, "run {}{earlier}; {life}, {} last seen {}", shown("run"), shown("holder"), shown("lastSeen"))
        } else if line.get("unreadable").is_some() {
            writeln!(text, "epoch {}  UNREADABLE: {}", shown("epoch"), shown("unreadable"))
        } else if line.get("generation").is_some() {
            let mut notes = vec![if is("committed") { "committed".to_string() } else { "commits pending".to_string() }];
            notes.extend(is("opensGeneration").then(|| "opens its generation".to_string()));
            notes.extend(line["ended"].as_str().map(str::to_string));
            notes.extend(is("oneCopyOnly").then(|| "one copy of its manifest only".to_string()));
            match line["damage"].as_str() {
                Some(damage) => notes.push(format!("DAMAGED: {damage}")),
                None if !is("restorable") => notes.push("its state is pruned".to_string()),
                None => {}
            }
            let size = bytes(&line["stateBytes"]);
            writeln!(
                text,
                "epoch {}  generation {}  {}  state {size}  {}",
                shown("epoch"),
                shown("generation"),
                shown("written"),
                notes.join(", ")
            )
        } else if line.get("split").is_some() {
            let (source, split, status) = (shown("source"), shown("split"), shown("status"));
            writeln!(text, "source {source}  split {split}  {status} at {}  event time {}", shown("position"), shown("maxEventTime"))
        } else if line.get("stage").is_some() {
            let (size, fresh) = (bytes(&line["stateBytes"]), bytes(&line["writtenInThisEpoch"]));
            let head = writeln!(
                text,
                "stage {}  {} (format {})  state {size} in {} pieces, {fresh} of it new",
                shown("stage"),
                shown("operator"),
                shown("format"),
                shown("pieces")
            );
            let keys = line["sampleKeys"].as_array().into_iter().flatten().filter_map(Value::as_str);
            keys.fold(head, |so_far, key| so_far.and_then(|()| writeln!(text, "  key {key}")))
        } else {
            writeln!(text, "pending {}  epoch {} task {}  {}", shown("pending"), shown("epoch"), shown("task"), shown("token"))
        };
        debug_assert!(written.is_ok(), "a text takes everything");
    }
    text
}

/// A size for a person.
fn bytes(value: &Value) -> String {
    let bytes = value.as_u64().unwrap_or(0);
    match bytes {
        0..1024 => format!("{bytes} B"),
        1024..0x10_0000 => format!("{:.1} KiB", bytes as f64 / 1024.0),
        0x10_0000..0x4000_0000 => format!("{:.1} MiB", bytes as f64 / f64::from(1 << 20)),
        _ => format!("{:.1} GiB", bytes as f64 / f64::from(1 << 30)),
    }
}

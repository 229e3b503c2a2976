//! What every plugin promises: no trap whatever it is told, and no leak however often it is called.

use super::Judged;
use super::sinks::Rows;
use crate::rules::Rule;
use crate::source::patiently;
use crate::verdict::{Judgement, Record, Verdict, cut};
use arrow::array::{BinaryArray, RecordBatch};
use serde_json::{Map, Value, json};
use std::time::Duration;
use tidegate_api::{
    AnySink, ChangeMode, Clock, Epoch, ErrorKind, EventTime, Flushed, Generation, Output, PollRequest, PreCommit, Result, RunId,
    RunIdentity, SinkCtx, SinkInput, SourceCtx, SourceRequest, StepCtx, SystemClock,
};
use tidegate_host::World;

/// How much memory may still grow after half of the calls: allocators take it in steps.
const SLACK: u64 = 512 << 10;
/// Rows of a batch of a transform that is called over and over.
const BATCH: i64 = 64;
/// Writes of one epoch of a sink that is called over and over.
const EPOCH: usize = 64;
/// How deep a hostile value nests, and how long one is.
const DEEP: usize = 400;
const LONG: usize = 1 << 20;

/// How often its memory is looked at.
const SAMPLES: usize = 1000;
/// How often it is told how many calls were made.
const TELL: Duration = Duration::from_secs(5);

/// Asks for a plan under configurations that nobody means well with.
pub(super) fn hostile(judged: &Judged<'_>) -> Judgement {
    let record = judged.record();
    record.script("hostile configurations");
    let verdict = ask_all(judged, &record);
    record.close(verdict)
}

fn values() -> Vec<Value> {
    let mut deep = Value::Null;
    for level in 0..DEEP {
        deep = if level % 2 == 0 { json!([deep]) } else { json!({ "a": deep }) };
    }
    vec![
        Value::Null,
        json!(true),
        json!(-1),
        json!(i64::MIN),
        json!(u64::MAX),
        json!(1e308),
        json!(""),
        json!("\0\u{202e}../../../etc"),
        json!("x".repeat(LONG)),
        json!([]),
        json!(vec![0; 10_000]),
        json!([[[]], {}]),
        json!({}),
        deep,
    ]
}

fn ask_all(judged: &Judged<'_>, record: &Record) -> Verdict {
    let good = judged.whole_config();
    let mut configs: Vec<(String, Map<String, Value>)> = Vec::new();
    for key in good.keys() {
        for value in values() {
            let mut config = good.clone();
            config.insert(key.clone(), value.clone());
            configs.push((format!("`{key}` = {}", cut(&value.to_string())), config));
        }
    }
    for value in values() {
        let mut config = good.clone();
        config.insert("no such key".to_string(), value.clone());
        configs.push((format!("`no such key` = {}", cut(&value.to_string())), config));
    }
    for (what, config) in configs {
        let before = judged.plugin.metrics().traps();
        let answer = ask(judged, &Value::Object(config.clone()));
        let traps = judged.plugin.metrics().traps() - before;
        record.hold(Rule::HostileConfig, traps == 0, || {
            let error = answer.as_ref().err().map_or_else(String::new, |error| cut(&error.to_string()));
            format!("with {what} it traps: {error}")
        })?;
        if config.contains_key("no such key") {
            let refused = answer.as_ref().is_err_and(|error| error.kind() == ErrorKind::Config);
            record.hold(Rule::UnknownKeys, refused, || match &answer {
                Ok(()) => format!("{what} is taken"),
                Err(error) => format!("{what} is no mistake of the configuration to it, but: {error}"),
            })?;
        }
    }
    Ok(())
}

/// Asks for a plan.
fn ask(judged: &Judged<'_>, config: &Value) -> Result<()> {
    match judged.world {
        World::Source => judged.plugin.source(config)?.plan(&SourceRequest::all()).map(drop),
        World::Sink => {
            let input = SinkInput::new(judged.input(), ChangeMode::Append);
            judged.plugin.sink(config)?.plan(&input).map(drop)
        }
        _ => judged.plugin.transform(config, judged.input()).map(drop),
    }
}

/// Calls it very often.
pub(super) fn leak(judged: &Judged<'_>) -> Judgement {
    let record = judged.record();
    record.script("very many calls");
    let verdict = leak_verdict(judged, &record);
    record.close(verdict)
}

fn leak_verdict(judged: &Judged<'_>, record: &Record) -> Verdict {
    let calls = judged.conformance.calls;
    let failed = |error: tidegate_api::Error| record.convict(Rule::NoLeak, format!("the plugin cannot be called so often: {error}"));
    let mut caller = Caller::open(judged).map_err(failed)?;
    let peak = || judged.plugin.metrics().peak_memory();
    // Peaks on the way, since nobody knows yet where half of the way is: a slow plugin is not called as often.
    let (mut peaks, mut made) = (Vec::new(), 0);
    let begun = SystemClock.monotonic();
    let mut told = begun;
    while made < calls {
        let now = SystemClock.monotonic();
        if judged.conformance.leak_time.is_some_and(|most| now.saturating_sub(begun) >= most) {
            break;
        }
        if now.saturating_sub(told) >= TELL {
            judged.conformance.progress.tell(&format!("very many calls: {made} of {calls}"));
            told = now;
        }
        if made % (calls / SAMPLES).max(1) == 0 {
            peaks.push((made, peak()));
        }
        caller.call(made).map_err(|error| record.convict(Rule::NoLeak, format!("call {made} of {calls} failed: {error}")))?;
        made += 1;
    }
    let half = peaks.iter().rev().find(|(call, _)| *call <= made / 2);
    let (half, at_half) = half.copied().unwrap_or_default();
    let end = peak();
    record.hold(Rule::NoLeak, made == 0 || end <= at_half + SLACK, || {
        format!("after {half} calls it had {at_half} bytes of memory, after {made} {end}")
    })
}

/// One open instance, and a call of it that can be made again and again.
enum Caller {
    Source(Box<dyn tidegate_api::SourceReader>),
    Transform(Box<dyn tidegate_api::Step>, RecordBatch),
    Sink(Box<SinkCaller>),
}

struct SinkCaller {
    writer: AnySink,
    committer: Option<Box<dyn tidegate_api::Committer>>,
    rows: RecordBatch,
    wants_keys: bool,
}

impl Caller {
    fn open(judged: &Judged<'_>) -> Result<Caller> {
        let config = Value::Object(judged.conformance.config.clone());
        let run = RunIdentity::new("conformance", RunId::new("leak"), Generation(1), "operator");
        match judged.world {
            World::Source => {
                let source = judged.plugin.source(&config)?;
                let splits = source.discover(None)?.added;
                Ok(Caller::Source(source.open(SourceCtx::new(run).with_start(splits))?))
            }
            World::Sink => {
                let sink = judged.plugin.sink(&config)?;
                let plan = sink.plan(&SinkInput::new(judged.input(), ChangeMode::Append))?;
                let writer = sink.open(SinkCtx::new(run.clone(), judged.input()).with_keys(plan.wants_keys))?;
                let committer = match &writer {
                    AnySink::Transactional(_) => Some(sink.committer(SinkCtx::for_commit(run))?),
                    AnySink::AtLeastOnce(_) => None,
                };
                let rows = Rows::of(&judged.input())?.batch(0..1)?;
                Ok(Caller::Sink(Box::new(SinkCaller { writer, committer, rows, wants_keys: plan.wants_keys })))
            }
            _ => {
                let bound = judged.plugin.transform(&config, judged.input())?;
                let step = bound.factory.open(StepCtx::new(run, 0, 1))?;
                Ok(Caller::Transform(step, Rows::of(&judged.input())?.batch(0..BATCH)?))
            }
        }
    }

    fn call(&mut self, number: usize) -> Result<()> {
        match self {
            Caller::Source(reader) => {
                let request = PollRequest { max_rows: 2, max_bytes: 1 << 16, wait: Duration::ZERO };
                patiently(|| reader.poll(request)).map(drop)
            }
            Caller::Transform(step, batch) => step.apply(batch.clone(), EventTime(0), &mut Output::default()),
            Caller::Sink(sink) => sink.call(number),
        }
    }
}

impl SinkCaller {
    fn call(&mut self, number: usize) -> Result<()> {
        let epoch = Epoch((number / EPOCH) as u64 + 1);
        let key = BinaryArray::from_iter_values([b"key"]);
        let keys = self.wants_keys.then_some(&key);
        let barrier = number % EPOCH == EPOCH - 1;
        match &mut self.writer {
            AnySink::AtLeastOnce(writer) => {
                patiently(|| writer.write(&self.rows, keys))?;
                if barrier && patiently(|| writer.flush(epoch))? == Flushed::Later {
                    return Err(tidegate_api::Error::internal("the barrier is not answered at once"));
                }
            }
            AnySink::Transactional(writer) => {
                patiently(|| writer.write(&self.rows, keys))?;
                if barrier
                    && let PreCommit::Token(token) = patiently(|| writer.pre_commit(epoch))?
                    && let Some(committer) = &mut self.committer
                {
                    patiently(|| committer.commit(epoch, std::slice::from_ref(&token)))?;
                }
            }
        }
        Ok(())
    }
}

//! Instances come and go: nothing is left of them, many work at a time, and rows of any size have an answer.

#![allow(clippy::unwrap_used, reason = "a test may end by panicking")]

#[macro_use]
mod kit;

use arrow::array::RecordBatch;
use kit::{TransformGuest, World, run};
use serde_json::Value;
use std::sync::{Arc, Mutex};
use tidegate_api::{Error, ErrorKind, EventTime, Output, Step, StepCtx};
use tidegate_host::{Limits, Plugin};

/// One test at a time: they look at the memory of the process.
static ALONE: Mutex<()> = Mutex::new(());

fn open(plugin: &Arc<Plugin>, input: &RecordBatch) -> Box<dyn Step> {
    plugin.transform(&Value::Null, input.schema()).unwrap().factory.open(StepCtx::new(run(), 0, 1)).unwrap()
}

fn apply(step: &mut dyn Step, batch: &RecordBatch) -> Result<Output, Error> {
    let mut out = Output::default();
    step.apply(batch.clone(), EventTime(0), &mut out).map(|()| out)
}

/// Resident memory, in bytes, where the system tells.
fn resident() -> Option<u64> {
    let statm = std::fs::read_to_string("/proc/self/statm").ok()?;
    Some(statm.split(' ').nth(1)?.parse::<u64>().ok()? * 4096)
}

/// P163.
#[test]
fn ten_thousand_instances_leave_nothing_behind() {
    let _alone = ALONE.lock();
    let world = World::new();
    let plugin = world.load(&TransformGuest::default().component(), Limits::default());
    let batch = rows!(("id", Int64Array, [1, 2, 3]));
    let transform = plugin.transform(&Value::Null, batch.schema()).unwrap();
    let come_and_go = |times: usize| {
        for _ in 0..times {
            let mut step = transform.factory.open(StepCtx::new(run(), 0, 1)).unwrap();
            assert_eq!(apply(step.as_mut(), &batch).unwrap().batches.len(), 1);
        }
    };
    come_and_go(500);
    let before = resident();
    come_and_go(9_500);
    if let (Some(before), Some(after)) = (before, resident()) {
        assert!(after < before + (32 << 20), "from {before} to {after} bytes");
    }
}

/// P171.
#[test]
fn fifty_threads_share_what_was_compiled_once() {
    let _alone = ALONE.lock();
    let world = World::new();
    let plugin = world.load(&TransformGuest::default().component(), Limits::default());
    std::thread::scope(|scope| {
        for thread in 0..50 {
            let plugin = Arc::clone(&plugin);
            scope.spawn(move || {
                let batch = rows!(("id", Int64Array, [thread, thread + 1]));
                let mut step = open(&plugin, &batch);
                for _ in 0..20 {
                    assert_eq!(apply(step.as_mut(), &batch).unwrap().batches, std::slice::from_ref(&batch));
                }
            });
        }
    });
    assert_eq!(plugin.metrics().traps(), 0);
}

/// P175.
#[test]
fn a_row_too_large_for_the_limits_is_said_to_be_and_smaller_ones_pass() {
    let _alone = ALONE.lock();
    let world = World::new();
    let plugin = world.load(&TransformGuest::default().component(), Limits::default());
    let batch = |bytes: usize| rows!(("text", StringViewArray, ["x".repeat(bytes)]));
    let mut step = open(&plugin, &batch(1));
    for bytes in [1 << 10, 1 << 20, 16 << 20] {
        assert_eq!(apply(step.as_mut(), &batch(bytes)).unwrap().batches, [batch(bytes)], "{bytes} bytes");
    }
    let error = apply(step.as_mut(), &batch(65 << 20)).err().unwrap();
    assert_eq!(error.kind(), ErrorKind::Limit, "{error}");
    assert!(error.to_string().contains("plugin `hostile`: call `processor.process`") && error.to_string().contains("limits."), "{error}");
}

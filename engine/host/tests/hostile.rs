//! Hostile guests, as real components: whatever they do gives an error that names the plugin, the call and the remedy, and the process
//! stays up with its memory bounded.

#![allow(clippy::unwrap_used, reason = "a test may end by panicking")]

#[macro_use]
mod kit;

use arrow::array::{Int64Array, RecordBatch, StringViewArray};
use arrow::datatypes::{DataType, Field, Schema};
use kit::{POISON, SinkGuest, SourceGuest, TransformGuest, World, component, data, described, run, small, trap_on_poison, ways};
use serde_json::Value;
use std::sync::Arc;
use std::time::Duration;
use tidegate_api::{
    AnySink, BadReason, CommitToken, Epoch, Error, ErrorKind, EventTime, Output, PollRequest, Retry, SinkCtx, SourceCtx, Step, StepCtx,
    hidden,
};
use tidegate_host::{Limits, Plugin, Shape};

fn ids(values: impl IntoIterator<Item = i64>) -> RecordBatch {
    RecordBatch::try_from_iter([("id", Arc::new(Int64Array::from_iter_values(values)) as _)]).unwrap()
}

fn open(plugin: &Arc<Plugin>, input: &RecordBatch) -> Box<dyn Step> {
    let transform = plugin.transform(&Value::Null, input.schema()).unwrap();
    transform.factory.open(StepCtx::new(run(), 0, 1)).unwrap()
}

fn apply(step: &mut dyn Step, batch: &RecordBatch) -> Result<Output, Error> {
    let mut out = Output::default();
    step.apply(batch.clone(), EventTime(0), &mut out).map(|()| out)
}

/// What a transform's call on a batch of numbers ends in.
fn process_error(guest: &TransformGuest, limits: Limits) -> Error {
    let world = World::new();
    let plugin = world.load(&guest.component(), limits);
    let batch = ids(0..100);
    let error = apply(open(&plugin, &batch).as_mut(), &batch).expect_err("it must fail");
    assert!(plugin.metrics().peak_memory() <= limits.memory);
    error
}

#[track_caller]
fn assert_says(error: &Error, parts: &[&str]) {
    let text = error.to_string();
    for part in parts {
        assert!(text.contains(part), "`{part}` is missing in: {text}");
    }
}

#[test]
fn the_identity_by_hand_gives_its_rows_back() {
    let world = World::new();
    let plugin = world.load(&TransformGuest::default().component(), Limits::default());
    let batch = rows!(("id", Int64Array, [1, 2, 3]), ("name", StringViewArray, ["a", "", "ü"]));
    let transform = plugin.transform(&Value::Null, batch.schema()).unwrap();
    assert_eq!((transform.shape, transform.reads.len(), transform.carries.len()), (Shape::Rowwise, 2, 0));
    let mut step = transform.factory.open(StepCtx::new(run(), 0, 1)).unwrap();
    for _ in 0..3 {
        assert_eq!(apply(step.as_mut(), &batch).unwrap().batches, std::slice::from_ref(&batch));
    }
    assert_eq!(plugin.metrics().traps(), 0);
}

#[test]
fn hidden_columns_never_reach_a_guest_and_are_carried() {
    let world = World::new();
    let plugin = world.load(&TransformGuest::default().component(), Limits::default());
    let schema = Schema::new(vec![Field::new("id", DataType::Int64, false), hidden::op_field()]);
    let columns: Vec<arrow::array::ArrayRef> =
        vec![Arc::new(Int64Array::from(vec![1, 2])), Arc::new(arrow::array::UInt8Array::from(vec![0, 1]))];
    let batch = RecordBatch::try_new(Arc::new(schema), columns).unwrap();
    let transform = plugin.transform(&Value::Null, batch.schema()).unwrap();
    assert_eq!((transform.reads.as_slice(), transform.output.clone()), (["id".to_string()].as_slice(), batch.schema()));
    assert_eq!(apply(open(&plugin, &batch).as_mut(), &batch).unwrap().batches, [batch]);
}

#[test]
fn a_mask_filters_what_is_made_and_what_is_carried() {
    let made = rows!(("keep", BooleanArray, [true, false, true, false]), ("twice", Int64Array, [2, 4, 6, 8]));
    let answer = kit::batch_message(&made);
    let guest = TransformGuest {
        shape: 1,
        declares: Some(kit::schema_message(made.schema_ref())),
        // Reads nothing: batches of rows without columns cross.
        in_bind: "(i32.store8 (i32.const 1032) (i32.const 1))".into(),
        extra: data(20000, &answer),
        before_return: format!("(i32.store (i32.const 1280) (i32.const 20000)) (i32.store (i32.const 1284) (i32.const {}))", answer.len()),
        ..TransformGuest::default()
    };
    let world = World::new();
    let plugin = world.load(&guest.component(), Limits::default());
    let batch = rows!(("id", Int64Array, [1, 2, 3, 4]), ("name", StringViewArray, ["a", "b", "c", "d"]));
    let transform = plugin.transform(&Value::Null, batch.schema()).unwrap();
    assert_eq!((transform.shape, transform.rowwise, transform.reads.len()), (Shape::RowwiseFilter, true, 0));
    assert_eq!(
        (transform.carries.as_slice(), transform.makes.as_slice()),
        (["id".into(), "name".into()].as_slice(), ["twice".to_string()].as_slice())
    );
    let out = apply(open(&plugin, &batch).as_mut(), &batch).unwrap();
    let expected = rows!(("id", Int64Array, [1, 3]), ("name", StringViewArray, ["a", "c"]), ("twice", Int64Array, [2, 6]));
    assert_eq!((out.batches.as_slice(), out.filtered), ([expected].as_slice(), 2));
}

/// P149.
#[test]
fn an_endless_loop_ends_at_its_deadline() {
    let error = process_error(&TransformGuest { in_process: ways::LOOP.into(), ..TransformGuest::default() }, small());
    assert_eq!(error.kind(), ErrorKind::Limit);
    assert_says(&error, &["plugin `hostile`", "call `processor.process`", "deadline of 200ms", "limits.deadline"]);
}

#[test]
fn an_endless_loop_while_planning_ends_too() {
    let world = World::new();
    let guest = TransformGuest { in_bind: ways::LOOP.into(), ..TransformGuest::default() };
    let plugin = world.load(&guest.component(), small());
    let error = plugin.transform(&Value::Null, ids(0..1).schema()).err().expect("it must fail");
    assert_says(&error, &["plugin `hostile`", "call `bind`", "limits.deadline"]);
}

/// P148.
#[test]
fn allocation_without_end_stops_at_the_memory_limit() {
    let error = process_error(&TransformGuest { in_process: ways::ALLOCATE.into(), ..TransformGuest::default() }, small());
    assert_eq!(error.kind(), ErrorKind::Limit);
    assert_says(&error, &["plugin `hostile`", "call `processor.process`", "its limit is 8MiB", "limits.memory"]);
}

#[test]
fn a_memory_that_is_too_large_from_the_start_is_refused() {
    let world = World::new();
    let core = TransformGuest::default().core().replace("(memory (export \"memory\") 2)", "(memory (export \"memory\") 1000)");
    let plugin = world.load(&component(&core, "transform-plugin"), small());
    let error = plugin.transform(&Value::Null, ids(0..1).schema()).err().expect("it must fail");
    assert_says(&error, &["plugin `hostile`", "call `instantiate`", "limits.memory"]);
}

/// P149.
#[test]
fn endless_recursion_is_a_trap_with_its_function_names() {
    let error = process_error(&TransformGuest { in_process: ways::RECURSE.into(), ..TransformGuest::default() }, small());
    assert_says(&error, &["plugin `hostile`", "call `processor.process`", "call stack exhausted", "in recurse < recurse"]);
}

#[test]
fn output_over_the_cap_is_refused_before_it_is_copied() {
    let guest = TransformGuest {
        before_return: "(drop (memory.grow (i32.const 40))) (i32.store (i32.const 1284) (i32.const 2000000))".into(),
        ..TransformGuest::default()
    };
    let error = process_error(&guest, small());
    assert_eq!(error.kind(), ErrorKind::Limit);
    assert_says(&error, &["plugin `hostile`", "call `processor.process`", "output limit of 1MiB", "limits.output"]);
}

/// P152.
#[test]
fn an_answer_that_points_outside_its_memory_is_a_trap() {
    let guest = TransformGuest { before_return: "(i32.store (i32.const 1280) (i32.const -16))".into(), ..TransformGuest::default() };
    assert_says(&process_error(&guest, small()), &["plugin `hostile`", "call `processor.process`"]);
}

#[test]
fn rows_of_another_schema_than_declared_are_refused() {
    let other = Schema::new(vec![Field::new("id", DataType::Utf8, true)]);
    let guest = TransformGuest { declares: Some(kit::schema_message(&other)), ..TransformGuest::default() };
    let error = process_error(&guest, small());
    assert_eq!(error.kind(), ErrorKind::Config);
    assert_says(&error, &["plugin `hostile`", "call `processor.process`", "declared schema", "column `id`", "mended build"]);
}

#[test]
fn garbage_for_rows_or_for_a_schema_is_refused() {
    let guest = TransformGuest { before_return: "(i32.store (i32.const 1284) (i32.const 11))".into(), ..TransformGuest::default() };
    assert_says(&process_error(&guest, small()), &["plugin `hostile`", "declared schema", "mended build"]);

    let world = World::new();
    let guest = TransformGuest { declares: Some(b"not a schema".to_vec()), ..TransformGuest::default() };
    let error = world.load(&guest.component(), small()).transform(&Value::Null, ids(0..1).schema()).err().expect("it must fail");
    assert_says(&error, &["plugin `hostile`", "call `bind`", "schema of its output is unusable"]);
}

#[test]
fn rows_more_or_fewer_than_its_plan_says_are_refused() {
    let batch = kit::batch_message(&ids(0..5));
    let guest = TransformGuest {
        extra: data(20000, &batch),
        before_return: format!("(i32.store (i32.const 1280) (i32.const 20000)) (i32.store (i32.const 1284) (i32.const {}))", batch.len()),
        declares: Some(kit::schema_message(&ids([]).schema())),
        ..TransformGuest::default()
    };
    assert_says(&process_error(&guest, small()), &["it made 5 rows of 100"]);
}

#[test]
fn a_bad_row_out_of_range_is_refused() {
    // row-error { row: u64, column: none, message: "" } at 1300: row 100 of 100.
    let guest = TransformGuest {
        before_return: "(i64.store (i32.const 1304) (i64.const 100)) (i32.store (i32.const 1168) (i32.const 1304)) (i32.store (i32.const 1172) (i32.const 1))"
            .into(),
        ..TransformGuest::default()
    };
    assert_says(&process_error(&guest, small()), &["row 100 of 100 bad"]);
}

/// P153, P155.
#[test]
fn one_poisoned_row_costs_itself_and_nothing_else() {
    let world = World::new();
    let guest = TransformGuest { in_process: trap_on_poison(), ..TransformGuest::default() };
    let plugin = world.load(&guest.component(), Limits::default());
    let mut values: Vec<i64> = (0..5000).collect();
    values[1234] = POISON;
    let batch = ids(values.clone());
    let mut step = open(&plugin, &batch);
    let out = apply(step.as_mut(), &batch).unwrap();
    values.remove(1234);
    let got: Vec<i64> =
        out.batches.iter().flat_map(|batch| batch.column(0).as_any().downcast_ref::<Int64Array>().unwrap().values().to_vec()).collect();
    assert_eq!(got, values, "in order, without the poisoned one");
    let [bad] = out.bad.as_slice() else { panic!("one bad row, not {}", out.bad.len()) };
    assert_eq!(bad.reason, BadReason::PluginTrap);
    assert_eq!(bad.raw, format!("{{\"id\":{POISON}}}").into_bytes());
    assert!(
        bad.message.starts_with("plugin `hostile`: call `processor.process`: ") && bad.message.contains("unreachable"),
        "{}",
        bad.message
    );
    assert_eq!(bad.message.matches("plugin `hostile`").count(), 1, "{}", bad.message);
    assert_eq!(plugin.metrics().convicted_rows(), 1);
    // The step goes on as if nothing had been.
    assert_eq!(apply(step.as_mut(), &ids(0..10)).unwrap().batches, [ids(0..10)]);
}

#[test]
fn rows_that_trap_too_often_end_the_run() {
    let world = World::new();
    let guest = TransformGuest { in_process: trap_on_poison(), ..TransformGuest::default() };
    let bytes = guest.component();
    let spec = tidegate_host::PluginSpec::new("hostile", world.file(&bytes)).with_max_bad_ratio(0.000_02);
    let plugin = world.host.load(&spec).unwrap();
    let batch = ids([1, POISON]);
    let mut step = open(&plugin, &batch);
    assert!(apply(step.as_mut(), &batch).is_ok());
    assert!(apply(step.as_mut(), &batch).is_ok());
    let error = apply(step.as_mut(), &batch).expect_err("the third of 100,000 is more than 0.00002");
    assert_eq!(error.kind(), ErrorKind::Data);
    assert_says(&error, &["plugin `hostile`", "maxBadRatio"]);
}

/// P150, P154, P155.
#[test]
fn a_guest_that_always_traps_is_given_up_with_its_last_words() {
    let words = "thread main panicked at src/lib.rs:7: no such column";
    let guest = TransformGuest {
        extra: data(20000, words.as_bytes()),
        in_process: format!(
            "(call $log (i32.const 4) (i32.const 20000) (i32.const {}) (i32.const 0) (i32.const 0)) unreachable",
            words.len()
        ),
        ..TransformGuest::default()
    };
    let error = process_error(&guest, Limits::default());
    assert_eq!(error.kind(), ErrorKind::External { retry: Retry::No });
    assert_says(&error, &["plugin `hostile`", "call `processor.process`", "unreachable", words, "given up", "mended build"]);
}

#[test]
fn a_log_storm_is_cut() {
    let world = World::new();
    let storm = "(local.set $at (i32.const 10000)) (loop $again (call $log (i32.const 2) (i32.const 0) (i32.const 0) (i32.const 0) (i32.const 0)) (local.set $at (i32.sub (local.get $at) (i32.const 1))) (br_if $again (local.get $at)))";
    let guest = TransformGuest { in_process: storm.into(), ..TransformGuest::default() };
    let plugin = world.load(&guest.component(), Limits::default());
    let batch = ids(0..1);
    apply(open(&plugin, &batch).as_mut(), &batch).unwrap();
    assert!(plugin.metrics().log_lines_dropped() >= 9000, "{}", plugin.metrics().log_lines_dropped());
}

/// P159.
#[test]
fn a_core_module_is_packed_if_it_says_what_it_wants_to_be_and_refused_if_not() {
    let world = World::new();
    let core = TransformGuest::default().core();
    let plugin = world.load(&described(&core, "transform-plugin"), Limits::default());
    let batch = ids(0..3);
    assert_eq!(apply(open(&plugin, &batch).as_mut(), &batch).unwrap().batches, [batch]);
    let error = world.load_error(&wat::parse_str(&core).unwrap());
    assert!(
        error.contains("plugin `hostile`") && error.contains("core module, not a component") && error.contains("wasm32-wasip2"),
        "{error}"
    );
}

/// P164.
#[test]
fn code_from_the_cache_does_the_same_and_a_damaged_entry_is_compiled_anew() {
    let dir = tempfile::tempdir().unwrap();
    let cache = dir.path().join("cache");
    let bytes = TransformGuest::default().component();
    let file = dir.path().join("p.wasm");
    std::fs::write(&file, &bytes).unwrap();
    let load = || {
        let host = tidegate_host::PluginHost::new(tidegate_host::HostConfig::new().with_cache_dir(Some(cache.clone()))).unwrap();
        let plugin = host.load(&tidegate_host::PluginSpec::new("p", &file)).unwrap();
        let batch = ids(0..3);
        assert_eq!(apply(open(&plugin, &batch).as_mut(), &batch).unwrap().batches, [batch]);
    };
    load();
    let entry = std::fs::read_dir(&cache).unwrap().next().unwrap().unwrap().path();
    let whole = std::fs::read(&entry).unwrap();
    load();
    std::fs::write(&entry, &whole[..whole.len() / 2]).unwrap();
    load();
    assert_eq!(std::fs::read(&entry).unwrap().len(), whole.len(), "it was written anew");
}

fn source_rows() -> RecordBatch {
    rows!(("id", Int64Array, [1, 2, 3]), ("name", StringArray, ["a", "b", "c"]))
}

fn poll(limits: Limits, guest: &SourceGuest) -> Result<tidegate_api::Polled, Error> {
    let world = World::new();
    let source = world.load(&guest.component(), limits).source(&Value::Null).unwrap();
    let splits = source.discover(None).unwrap().added;
    let mut reader = source.open(SourceCtx::new(run()).with_start(splits)).unwrap();
    reader.poll(PollRequest { max_rows: 100, max_bytes: 1 << 20, wait: Duration::ZERO })
}

#[test]
fn a_source_by_hand_is_planned_discovered_and_read() {
    let world = World::new();
    let source = world.load(&SourceGuest::new(&source_rows()).component(), Limits::default()).source(&Value::Null).unwrap();
    let request = tidegate_api::SourceRequest::all().with_columns(Some(vec!["name".into()]));
    let plan = source.plan(&request).unwrap();
    assert_eq!((plan.schema.fields().len(), plan.bounded, plan.replayable), (1, true, true), "the host drops the other column");
    let splits = source.discover(None).unwrap().added;
    let mut reader = source.open(SourceCtx::new(run()).with_start(splits).with_request(request)).unwrap();
    let request = PollRequest { max_rows: 100, max_bytes: 1 << 20, wait: Duration::ZERO };
    let first = reader.poll(request).unwrap();
    let rows = first.chunks[0].rows.column(0).as_any().downcast_ref::<StringViewArray>().unwrap();
    assert_eq!(rows, &StringViewArray::from(vec!["a", "b", "c"]));
    assert_eq!(first.chunks[0].position.0, b"1");
    reader.committed(&[(first.chunks[0].split.clone(), first.chunks[0].position.clone())]).unwrap();
    let second = reader.poll(request).unwrap();
    assert_eq!(second.states[0].1, tidegate_api::SplitState::Finished);
}

#[test]
fn a_source_that_traps_is_opened_again_once_and_then_given_up() {
    let error = poll(small(), &SourceGuest { in_poll: ways::TRAP.into(), ..SourceGuest::new(&source_rows()) }).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::External { retry: Retry::No });
    assert_says(&error, &["plugin `hostile`", "call `reader.poll`", "unreachable"]);
}

#[test]
fn a_source_that_computes_for_ever_ends_at_its_deadline() {
    let error = poll(small(), &SourceGuest { in_poll: ways::LOOP.into(), ..SourceGuest::new(&source_rows()) }).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Limit);
    assert_says(&error, &["plugin `hostile`", "call `reader.poll`", "limits.deadline"]);
}

#[test]
fn a_source_that_waits_in_the_host_for_ever_is_ended() {
    let guest = SourceGuest {
        world: "waiting-source",
        imports: r#"(import "wasi:clocks/monotonic-clock@0.2.0" "subscribe-duration" (func $timer (param i64) (result i32)))
                    (import "wasi:io/poll@0.2.0" "[method]pollable.block" (func $block (param i32)))"#
            .into(),
        in_poll: "(call $block (call $timer (i64.const 1000000000000000)))".into(),
        ..SourceGuest::new(&source_rows())
    };
    let error = poll(small(), &guest).unwrap_err();
    assert_says(&error, &["plugin `hostile`", "call `reader.poll`", "waited for the outside", "limits.ioTimeout"]);
}

#[test]
fn a_schema_that_changes_while_running_is_refused() {
    let guest = SourceGuest { then: 3, in_poll: "(global.set $polls (i32.const 1))".into(), ..SourceGuest::new(&source_rows()) };
    let error = poll(small(), &guest).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Config);
    assert_says(&error, &["plugin `hostile`", "schema of split `s` changed", "start it again"]);
}

#[test]
fn a_source_that_traps_while_planning_names_the_call() {
    let world = World::new();
    let guest = SourceGuest { in_discover: ways::TRAP.into(), ..SourceGuest::new(&source_rows()) };
    let source = world.load(&guest.component(), small()).source(&Value::Null).unwrap();
    assert_says(&source.discover(None).unwrap_err(), &["plugin `hostile`", "call `discover`"]);
    // From within an async runtime, as a host may plan, it is the same.
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let error = runtime.block_on(async { source.discover(None).unwrap_err() });
    assert_says(&error, &["plugin `hostile`", "call `discover`"]);
}

fn sink(guest: &SinkGuest) -> (World, AnySink) {
    let world = World::new();
    let sink = world.load(&guest.component(), small()).sink(&Value::Null).unwrap();
    let writer = sink.open(SinkCtx::new(run(), source_rows().schema())).unwrap();
    (world, writer)
}

#[test]
fn a_writer_that_traps_fails_the_run_and_is_of_no_more_use() {
    let (_world, writer) = sink(&SinkGuest { in_write: ways::TRAP.into(), ..SinkGuest::default() });
    let AnySink::AtLeastOnce(mut writer) = writer else { panic!("it is at-least-once") };
    let error = writer.write(&source_rows(), None).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::External { retry: Retry::No });
    assert_says(&error, &["plugin `hostile`", "call `writer.write`", "unreachable"]);
    let error = writer.flush(Epoch(1)).unwrap_err();
    assert_says(&error, &["plugin `hostile`", "trapped before"]);
}

#[test]
fn a_two_phase_sink_by_hand_prepares_and_commits_on_another_instance() {
    let world = World::new();
    let sink = world.load(&SinkGuest { guarantee: 2, ..SinkGuest::default() }.component(), small()).sink(&Value::Null).unwrap();
    let AnySink::Transactional(mut writer) = sink.open(SinkCtx::new(run(), source_rows().schema())).unwrap() else {
        panic!("it is two-phase")
    };
    writer.write(&source_rows(), None).unwrap();
    let token = CommitToken(b"t".to_vec());
    assert_eq!(writer.pre_commit(Epoch(1)).unwrap(), tidegate_api::PreCommit::Token(token.clone()));
    let mut committer = sink.committer(SinkCtx::for_commit(run())).unwrap();
    assert_eq!(committer.commit(Epoch(1), std::slice::from_ref(&token)).unwrap(), [tidegate_api::CommitOutcome::Done]);
    let error = committer.commit(Epoch(1), &[token.clone(), token]).unwrap_err();
    assert_says(&error, &["call `commit`", "1 outcomes for 2 tokens"]);
    committer.recover(&[]).unwrap();
}

/// `retryable`, in 20 ms, at the given call; all others pass.
fn retryable_at(call: u32) -> SinkGuest {
    let mut answer = [0_u8; 40];
    (answer[0], answer[24], answer[32]) = (1, 1, 20);
    SinkGuest {
        extra: format!("(global $calls (mut i32) (i32.const 0)) {}", data(3600, &answer)),
        in_write: format!(
            "(global.set $heap (i32.const 65536)) (global.set $calls (i32.add (global.get $calls) (i32.const 1)))
             (if (i32.eq (global.get $calls) (i32.const {call})) (then (return (i32.const 3600))))"
        ),
        ..SinkGuest::default()
    }
}

fn write_20_000(guest: &SinkGuest) -> (Result<tidegate_api::Written, Error>, u64) {
    let world = World::new();
    let sink = world.load(&guest.component(), Limits::default()).sink(&Value::Null).unwrap();
    let rows = ids(0..20_000);
    let ctx = SinkCtx::new(run(), rows.schema());
    let emitted = ctx.emitted.clone();
    let AnySink::AtLeastOnce(mut writer) = sink.open(ctx).unwrap() else { panic!("it is at-least-once") };
    (writer.write(&rows, None), emitted.get())
}

#[test]
fn a_retryable_write_is_the_engines_to_repeat_while_nothing_was_taken() {
    let (error, emitted) = write_20_000(&retryable_at(1));
    assert_eq!(error.unwrap_err().kind(), ErrorKind::External { retry: Retry::After(Duration::from_millis(20)) });
    assert_eq!(emitted, 0);
}

#[test]
fn a_retryable_write_of_a_later_part_is_repeated_by_the_host() {
    let (written, emitted) = write_20_000(&retryable_at(2));
    assert!(written.unwrap().bad.is_empty());
    assert_eq!(emitted, 20_000);
}

#[test]
fn a_sink_that_computes_for_ever_ends_at_its_deadline() {
    let (_world, writer) = sink(&SinkGuest { in_flush: ways::LOOP.into(), ..SinkGuest::default() });
    let AnySink::AtLeastOnce(mut writer) = writer else { panic!("it is at-least-once") };
    assert_says(&writer.flush(Epoch(1)).unwrap_err(), &["plugin `hostile`", "call `writer.flush`", "limits.deadline"]);
}

#[test]
fn a_plugin_is_used_as_what_it_is() {
    let world = World::new();
    let plugin = world.load(&SinkGuest::default().component(), small());
    let error = plugin.source(&Value::Null).err().expect("it is a sink");
    assert_says(&error, &["plugin `hostile` is a sink and cannot be used as a source"]);
}

//! An output whose rows replace each other, written by a plugin.

#![allow(clippy::unwrap_used, reason = "a test may end by panicking")]

use arrow::array::{ArrayRef, Int64Array, RecordBatch, StringViewArray, UInt8Array};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use serde_json::json;
use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;
use tidegate_api::{AnySink, ChangeMode, Epoch, Generation, Guarantee, OutputSink, RunId, RunIdentity, Sink, SinkCtx, SinkInput, hidden};
use tidegate_host::{HostConfig, PluginHost, PluginSpec};

fn visible() -> SchemaRef {
    Arc::new(Schema::new(vec![Field::new("n", DataType::Int64, true), Field::new("id", DataType::Utf8View, false)]))
}

fn upsert() -> ChangeMode {
    ChangeMode::Upsert { keys: vec!["id".into()] }
}

fn rows(of: &[(i64, &str, u8)]) -> RecordBatch {
    let fields: Vec<_> = visible().fields().iter().cloned().chain([Arc::new(hidden::op_field())]).collect();
    let columns: Vec<ArrayRef> = vec![
        Arc::new(of.iter().map(|row| Some(row.0)).collect::<Int64Array>()),
        Arc::new(of.iter().map(|row| Some(row.1)).collect::<StringViewArray>()),
        Arc::new(of.iter().map(|row| Some(row.2)).collect::<UInt8Array>()),
    ];
    RecordBatch::try_new(Arc::new(Schema::new(fields)), columns).unwrap()
}

fn sink(dir: &Path) -> Arc<dyn OutputSink> {
    let component = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/guests/target/components/latest.wasm");
    let allow = json!({ "dirs": [format!("{}=/out:rw", dir.display())] });
    let spec = PluginSpec::new("latest", component).with_allow(allow.as_object().unwrap()).unwrap();
    PluginHost::new(HostConfig::new()).unwrap().load(&spec).unwrap().sink(&json!({ "dir": "/out" })).unwrap()
}

fn open(sink: &dyn OutputSink) -> Box<dyn Sink> {
    let run = RunIdentity::new("pipe", RunId::new("run"), Generation(1), "out");
    match sink.open(SinkCtx::new(run, visible()).with_mode(upsert())).unwrap() {
        AnySink::AtLeastOnce(writer) => writer,
        AnySink::Transactional(_) => panic!("it has one phase"),
    }
}

fn kept(dir: &Path) -> BTreeSet<String> {
    std::fs::read_dir(dir).unwrap().map(|entry| std::fs::read_to_string(entry.unwrap().path()).unwrap()).collect()
}

#[test]
fn a_guest_sees_keys_and_kinds_and_rows_that_come_again_change_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let sink = sink(dir.path());
    let plan = sink.plan(&SinkInput::new(visible(), upsert())).unwrap();
    assert_eq!(plan.guarantee, Guarantee::Idempotent);
    let first = [(1, "a", hidden::UPSERT), (2, "b", hidden::UPSERT), (3, "a", hidden::UPSERT)];
    let second = [(2, "b", hidden::DELETE), (5, "c", hidden::UPSERT)];
    let mut writer = open(&*sink);
    writer.write(&rows(&first), None).unwrap();
    assert_eq!(kept(dir.path()), BTreeSet::new(), "nothing is delivered before the barrier");
    writer.flush(Epoch(1)).unwrap();
    assert_eq!(kept(dir.path()), ["n=2 id=b", "n=3 id=a"].map(String::from).into());
    // The epoch's manifest is never written, and everything comes again in another instance, cut otherwise.
    let mut again = open(&*sink);
    again.write(&rows(&first[..1]), None).unwrap();
    again.write(&rows(&first[1..]), None).unwrap();
    again.write(&rows(&second), None).unwrap();
    again.flush(Epoch(1)).unwrap();
    assert_eq!(kept(dir.path()), ["n=3 id=a", "n=5 id=c"].map(String::from).into());
}

#[test]
fn a_sink_of_final_rows_and_one_of_rows_that_change_are_not_taken_for_each_other() {
    let dir = tempfile::tempdir().unwrap();
    let error = sink(dir.path()).plan(&SinkInput::new(visible(), ChangeMode::Append)).unwrap_err().to_string();
    assert!(error.contains("rows of this output are final"), "{error}");
    let component = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../plugins/target/components/jsonl.wasm");
    let allow = json!({ "dirs": [format!("{}=/out:rw", dir.path().display())] });
    let spec = PluginSpec::new("jsonl", component).with_allow(allow.as_object().unwrap()).unwrap();
    let jsonl = PluginHost::new(HostConfig::new()).unwrap().load(&spec).unwrap().sink(&json!({ "dir": "/out" })).unwrap();
    let error = jsonl.plan(&SinkInput::new(visible(), upsert())).unwrap_err().to_string();
    assert!(error.contains("takes final rows only") && error.contains("changelog = true"), "{error}");
}

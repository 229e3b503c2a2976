//! What `cargo xtask fuzz` runs on arbitrary bytes. A fault is a panic: of the host, or of a promise that is checked here.

use crate::ipc::{Decoder, Encoder, decode_schema};
use crate::{HostConfig, Limits, Plugin, PluginHost, PluginSpec, World};
use arrow::array::{Array, ArrayRef, Int64Array, RecordBatch, StringArray};
use arrow::datatypes::{Field, Schema};
use serde_json::Value;
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use tidegate_api::{ErrorKind, EventTime, Generation, Output, Result, ResultExt, RunId, RunIdentity, SourceRequest, StepCtx};

/// Four bytes of a length, so many bytes of a schema message, and a record-batch message. What is accepted must be whole and of the declared schema.
///
/// # Panics
/// If a lie is accepted.
pub fn ipc(data: &[u8]) {
    let Some((length, rest)) = data.split_first_chunk::<4>() else { return };
    let (schema, message) = rest.split_at(rest.len().min(u32::from_le_bytes(*length) as usize));
    let Ok(declared) = decode_schema(schema) else { return };
    let nullable: Vec<bool> = declared.fields().iter().map(|field| field.is_nullable()).collect();
    let decoder = Decoder::new(declared);
    let Ok(rows) = decoder.decode(message.to_vec()) else { return };
    assert_eq!(rows.schema_ref(), decoder.schema(), "rows of another schema");
    for (column, nullable) in rows.columns().iter().zip(nullable) {
        assert!(column.to_data().validate_full().is_ok(), "a column that is not valid");
        assert!(nullable || column.logical_null_count() == 0, "nulls where none may be");
        assert_eq!(column.len(), rows.num_rows(), "columns of different lengths");
    }
    let indices = (0..rows.num_columns()).collect();
    let Ok(mut encoder) = Encoder::new(rows.schema_ref(), indices) else { return };
    let Ok(projected) = encoder.project(&rows) else { return };
    let Ok(again) = encoder.encode(&projected).cloned() else { return };
    let Ok(declared) = decode_schema(encoder.schema_message()) else { panic!("a schema that the host itself wrote is refused") };
    match Decoder::new(declared).decode(again) {
        Ok(again) => assert_eq!(again.num_rows(), rows.num_rows(), "rows that cross again change"),
        Err(error) => panic!("rows that crossed do not cross again: {error}"),
    }
}

/// Bytes as a plugin: loaded, bound to a schema, and given rows. Each step may fail, with an error that names the plugin; it may not panic, hang or grow.
///
/// # Panics
/// If an error does not say whose it is, or is called the engine's own fault.
pub fn component(data: &[u8]) {
    let spec = spec();
    // What names the file is around this; here it is added as `load` does.
    let plugin = host().load_bytes(&spec, data).context(|| "plugin `fuzzed`".to_string());
    if let Err(error) = plugin.and_then(|plugin| used(&plugin)) {
        explained(&error);
    }
}

fn used(plugin: &Arc<Plugin>) -> Result<()> {
    if plugin.worlds().contains(&World::Source) {
        plugin.source(&Value::Null)?.plan(&SourceRequest::default())?;
    }
    if plugin.worlds().contains(&World::Sink) {
        plugin.sink(&Value::Null)?;
    }
    if !plugin.worlds().contains(&World::Transform) {
        return Ok(());
    }
    let rows = rows();
    let transform = plugin.transform(&Value::Null, rows.schema())?;
    let identity = RunIdentity::new("fuzz", RunId::new("run"), Generation(1), "stage");
    let mut step = transform.factory.open(StepCtx::new(identity, 0, 1))?;
    let mut out = Output::default();
    step.apply(rows, EventTime(0), &mut out)?;
    for batch in &out.batches {
        assert_eq!(batch.schema_ref(), &transform.output, "rows of another schema");
    }
    Ok(())
}

fn explained(error: &tidegate_api::Error) {
    let text = error.to_string();
    assert!(text.contains("fuzzed"), "an error that names no plugin: {text}");
    assert!(error.kind() != ErrorKind::Internal, "the engine blames itself: {text}");
}

fn spec() -> PluginSpec {
    let moment = Duration::from_millis(200);
    let limits = Limits { memory: 64 << 20, output: 4 << 20, deadline: moment, io_timeout: moment, ..Limits::default() };
    PluginSpec::new("fuzzed", "fuzzed.wasm").limited_to(limits)
}

fn host() -> &'static Arc<PluginHost> {
    static HOST: OnceLock<Arc<PluginHost>> = OnceLock::new();
    HOST.get_or_init(|| PluginHost::new(HostConfig::new()).unwrap_or_else(|error| panic!("this machine can run WebAssembly: {error}")))
}

fn rows() -> RecordBatch {
    let columns: [(&str, ArrayRef); 2] =
        [("n", Arc::new(Int64Array::from(vec![Some(1), None]))), ("s", Arc::new(StringArray::from(vec![Some("a"), None])))];
    let schema = Schema::new(columns.iter().map(|(name, column)| Field::new(*name, column.data_type().clone(), true)).collect::<Vec<_>>());
    let columns = columns.into_iter().map(|(_, column)| column).collect();
    RecordBatch::try_new(Arc::new(schema), columns).unwrap_or_else(|error| unreachable!("columns of one length: {error}"))
}

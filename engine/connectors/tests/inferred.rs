//! A schema that nobody declared is inferred once and holds from then on.

#![allow(clippy::unwrap_used, reason = "a test may end by panicking")]

use arrow::datatypes::DataType;
use serde_json::{Value, json};
use std::fs;
use std::path::Path;
use std::sync::Arc;
use tidegate_api::testkit::{read_source, source_contract};
use tidegate_api::{ErrorKind, Generation, InlineSource, PollRequest, RunId, RunIdentity, SourceCtx, SourceRequest};
use tidegate_connectors::ConnectorCtx;

fn source(folder: &Path, options: &Value) -> Arc<dyn InlineSource> {
    tidegate_connectors::source("files", options.as_object().unwrap(), &ConnectorCtx::new(folder, "in")).unwrap()
}

fn types(source: &dyn InlineSource, request: &SourceRequest) -> Vec<(String, DataType)> {
    let schema = source.plan(request).unwrap().schema;
    schema.fields().iter().map(|field| (field.name().clone(), field.data_type().clone())).collect()
}

#[test]
fn a_pinned_schema_is_used_although_the_sample_would_give_another() {
    for (ending, before, after) in
        [("csv", "id,x\n1,2\n", "id,x,y\n3,4.0,late\n"), ("json", "{\"id\":1,\"x\":2}\n", "{\"id\":3,\"x\":4.0,\"y\":\"late\"}\n")]
    {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join(format!("b.{ending}")), before).unwrap();
        let options = json!({ "path": "." });
        let plan = source(folder.path(), &options).plan(&SourceRequest::all()).unwrap();
        let pinned = plan.pinned.unwrap();
        assert_eq!(pinned, r#"[{"name":"id","type":"int64"},{"name":"x","type":"int64"}]"#);

        // Another file comes first now.
        fs::write(folder.path().join(format!("a.{ending}")), after).unwrap();
        let restarted = source(folder.path(), &options);
        let anew = types(restarted.as_ref(), &SourceRequest::all());
        assert!(anew.contains(&("y".to_string(), DataType::Utf8View)) && anew.contains(&("x".to_string(), DataType::Float64)), "{anew:?}");
        let request = SourceRequest::all().with_pinned(Some(pinned.clone()));
        assert_eq!(types(restarted.as_ref(), &request), [("id".to_string(), DataType::Int64), ("x".to_string(), DataType::Int64)]);
        assert_eq!(restarted.plan(&request).unwrap().pinned, Some(pinned));
        source_contract(restarted.as_ref(), &request);
        let rows: usize = read_source(restarted.as_ref(), &request, 1, 10, None).values().map(|read| read.rows.num_rows()).sum();
        assert_eq!(rows, 2);
    }
}

#[test]
fn what_is_declared_or_the_same_for_every_file_is_not_pinned() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("a.csv"), "id\n1\n").unwrap();
    let pinned = |options: Value, request: &SourceRequest| source(folder.path(), &options).plan(request).unwrap().pinned;
    let request = SourceRequest::all().with_pinned(Some(r#"[{"name":"other","type":"date"}]"#.to_string()));
    let declared = json!({ "path": "a.csv", "schema": [{ "name": "id", "type": "string" }] });
    assert_eq!(pinned(declared.clone(), &request), None, "a declared schema overrules the pinned one");
    assert_eq!(types(source(folder.path(), &declared).as_ref(), &request)[0].0, "id");
    assert_eq!(pinned(json!({ "path": "a.csv", "format": "raw" }), &SourceRequest::all()), None);
}

#[test]
fn a_file_that_lacks_a_pinned_column_says_that_it_is_pinned_and_what_can_be_done() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("a.csv"), "id\n1\n").unwrap();
    let source = source(folder.path(), &json!({ "path": "a.csv" }));
    let request = SourceRequest::all().with_pinned(Some(r#"[{"name":"old","type":"int64"}]"#.to_string()));
    let run = RunIdentity::new("p", RunId::new("r"), Generation(1), "in");
    let splits = source.discover(None).unwrap().added;
    let mut reader = source.open(SourceCtx::new(run).with_start(splits).with_request(request)).unwrap();
    let error = reader.poll(PollRequest { max_rows: 1, max_bytes: 1, wait: std::time::Duration::ZERO }).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Config);
    for part in ["a.csv", "`old`", "inferred when the run began", "declare a `schema`", "--fresh"] {
        assert!(error.to_string().contains(part), "{part} is missing in: {error}");
    }
}

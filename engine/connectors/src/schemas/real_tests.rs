//! The client against a real registry: `TIDEGATE_TEST_REGISTRY` is its URL. Any that speaks Confluent's API will do.

use super::http::{Http, Login};
use super::registry::{Registry, Schema};
use super::{latest, pinned};
use crate::decode::registered::Reads;
use crate::decode::{Schemas as _, Written};
use serde_json::json;
use std::sync::Arc;
use std::time::Duration;
use tidegate_api::{ErrorKind, SystemClock};
use url::Url;

fn record(fields: &str) -> Schema {
    Schema { kind: "AVRO", text: format!(r#"{{"type":"record","name":"R","fields":[{fields}]}}"#) }
}

#[test]
#[ignore = "needs TIDEGATE_TEST_REGISTRY"]
fn registry_a_real_one_is_spoken_to_as_it_wants() {
    let url = std::env::var("TIDEGATE_TEST_REGISTRY").expect("set TIDEGATE_TEST_REGISTRY to the URL of a schema registry");
    let http = Http::new(Url::parse(&url).unwrap(), Login::None, None);
    let registry = Registry::new(http, Arc::new(SystemClock), Duration::from_secs(20));
    let random = std::fs::read_to_string("/proc/sys/kernel/random/uuid").unwrap();
    let subject = format!("tidegate test/{}", random.trim());

    let one = record(r#"{"name":"n","type":"int"}"#);
    let error = registry.id_of(&subject, &one, false).unwrap_err();
    assert!(error.kind() == ErrorKind::Config && error.to_string().contains("autoRegister"), "{error}");
    let error = latest(&registry, &subject, &Reads::Avro(None), None).unwrap_err();
    assert!(error.kind() == ErrorKind::Config && error.to_string().contains(&subject), "{error}");
    assert!(registry.find(2_000_000_000).unwrap().is_none());
    assert!(registry.find(u32::MAX).unwrap().is_none());

    let first = registry.id_of(&subject, &one, true).unwrap();
    assert_eq!(registry.id_of(&subject, &one, true).unwrap(), first);
    assert_eq!(registry.id_of(&subject, &one, false).unwrap(), first);
    let config = format!("{url}/config/{}", super::http::step(&subject));
    let set = ureq::put(&config)
        .header("content-type", "application/vnd.schemaregistry.v1+json")
        .send(json!({ "compatibility": "BACKWARD" }).to_string().as_bytes());
    assert!(set.is_ok(), "{set:?}");
    let two = record(r#"{"name":"n","type":"long"},{"name":"m","type":"string","default":"x"}"#);
    let second = registry.id_of(&subject, &two, true).unwrap();
    assert_ne!(first, second);
    let error = registry.id_of(&subject, &record(r#"{"name":"z","type":"int"}"#), true).unwrap_err();
    assert!(error.kind() == ErrorKind::Config && error.to_string().contains("does not take the schema of these rows"), "{error}");
    assert!(error.to_string().to_lowercase().contains("incompatible"), "{error}");

    assert!(matches!(registry.find(first).unwrap().as_deref(), Some(Written::Avro(texts)) if texts.len() == 1));
    let found = latest(&registry, &subject, &Reads::Avro(None), None).unwrap();
    let names: Vec<_> = found.schema.fields().iter().map(|field| field.name().as_str()).collect();
    assert_eq!((names, pinned(&found.text).unwrap().schema), (vec!["n", "m"], found.schema.clone()));
    assert!(registry.describe(second).contains(&subject), "{}", registry.describe(second));

    let subject = format!("{subject}-json");
    let json = Schema { kind: "JSON", text: r#"{"type":"object","properties":{"n":{"type":"integer"}}}"#.into() };
    let id = registry.id_of(&subject, &json, true).unwrap();
    assert!(matches!(registry.find(id).unwrap().as_deref(), Some(Written::Json)));
    assert_eq!(latest(&registry, &subject, &Reads::Json, None).unwrap().schema.field(0).name(), "n");

    let subject = format!("{subject}-protobuf");
    let text = "syntax = \"proto3\"; package t; message A { int64 n = 1; }";
    let id = registry.id_of(&subject, &Schema { kind: "PROTOBUF", text: text.into() }, true).unwrap();
    match registry.find(id).unwrap().as_deref() {
        Some(Written::Protobuf(file)) => assert_eq!(file.messages().next().unwrap().full_name(), "t.A"),
        // Not every registry compiles; then it is said.
        Some(Written::Unusable(why)) => assert!(why.contains("`format=serialized`"), "{why}"),
        other => panic!("{other:?}"),
    }
}

//! Messages whose schemas are in a registry.

use crate::registry::FakeRegistry;
use crate::support::{Reading, Record, World, record};
use arrow::array::AsArray;
use arrow::datatypes::Int64Type;
use serde_json::{Value, json};
use tidegate_api::{ErrorKind, SourceRequest, SplitState};

const ONE: &str = r#"{"type":"record","name":"R","fields":[{"name":"n","type":"int"}]}"#;
const TWO: &str = r#"{"type":"record","name":"R","fields":[{"name":"m","type":"int","default":7},{"name":"n","type":"long"}]}"#;

/// A message behind its id.
fn framed(id: u32, body: &[u8]) -> Record {
    record([&[0][..], &id.to_be_bytes(), body].concat())
}

fn options(fake: &FakeRegistry, more: Value) -> Value {
    let mut all = json!({ "format": "avro", "schema": null, "end": "latest", "registry": { "url": fake.url(), "timeout": "2s" } });
    all.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    all
}

/// A number below 64 as Avro writes it.
fn small(n: u8) -> u8 {
    n << 1
}

#[test]
#[ignore = "needs a broker"]
fn kafka_schemas_of_a_registry_change_from_message_to_message_and_the_rows_do_not() {
    let (world, fake) = (World::real(), FakeRegistry::start());
    let topic = world.topic("registered", 1);
    let subject = format!("{topic}-value");
    let (one, two) = (fake.avro(&subject, ONE, &[]), fake.avro(&subject, TWO, &[]));
    let records: Vec<Record> =
        (0..60).map(|n| if n % 3 == 0 { framed(one, &[small(n)]) } else { framed(two, &[small(n % 3), small(n)]) }).collect();
    world.send(&topic, 0, &records);
    world.send(&topic, 0, &[record("{}"), framed(77, &[2]), framed(two, &[2])]);
    let source = world.source(&topic, options(&fake, json!({})));
    let plan = source.plan(&SourceRequest::all()).unwrap();
    assert_eq!(plan.schema.fields().iter().map(|field| field.name().as_str()).collect::<Vec<_>>(), ["m", "n"]);
    // A run reads by the schema that it began with, whatever is registered later.
    fake.avro(&subject, &TWO.replace("\"m\"", "\"other\""), &[]);
    let source = world.source(&topic, options(&fake, json!({})));
    let request = SourceRequest::all().with_ordinals(true).with_pinned(plan.pinned.clone());
    assert_eq!(source.plan(&request).unwrap(), plan);
    let found = source.discover(None).unwrap();
    let mut seen = Vec::new();
    for most in [8192, 7] {
        let mut reading = Reading::open(source.as_ref(), request.clone(), found.added.clone()).unwrap();
        reading.request.max_rows = most;
        reading.until_all(SplitState::Finished);
        let taken = reading.only();
        let column = |at: usize| -> Vec<i64> {
            let values = taken.batches.iter().map(|batch| {
                let column = arrow::compute::cast(batch.column(at), &arrow::datatypes::DataType::Int64).unwrap();
                column.as_primitive::<Int64Type>().values().to_vec()
            });
            values.flatten().collect()
        };
        assert_eq!(column(0), (0..60).map(|n| if n % 3 == 0 { 7 } else { n % 3 }).collect::<Vec<_>>());
        assert_eq!(column(1), (0..60).collect::<Vec<_>>());
        assert_eq!((taken.ordinals.as_slice(), taken.position()), (&(0..60).collect::<Vec<u64>>()[..], "63".to_string()));
        let bad: Vec<_> = taken.bad.iter().map(|bad| bad.position.clone().unwrap()).collect();
        assert_eq!(bad, (60..63).map(|offset| format!("partition 0, offset {offset}")).collect::<Vec<_>>());
        seen.push(taken.bad.iter().map(|bad| bad.message.clone()).collect::<Vec<_>>());
    }
    assert_eq!(seen[0], seen[1]);
    assert!(seen[0][1].contains("schema 77, which the registry does not know"), "{seen:?}");
}

#[test]
#[ignore = "needs a broker"]
fn kafka_a_registry_out_of_reach_is_waited_for_and_no_row_is_lost_or_told_twice() {
    let (world, fake) = (World::real(), FakeRegistry::start());
    let topic = world.topic("away", 2);
    let id = fake.avro("s", ONE, &[]);
    world.send(&topic, 0, &(0..20).map(|n| framed(id, &[small(n)])).collect::<Vec<_>>());
    world.send(&topic, 1, &(20..40).map(|n| framed(id, &[small(n)])).collect::<Vec<_>>());
    let source = world.source(&topic, options(&fake, json!({ "schema": [{ "name": "n", "type": "int64" }] })));
    let found = source.discover(None).unwrap();
    fake.state().failing = (3, 503);
    let mut reading = Reading::open(source.as_ref(), SourceRequest::all(), found.added.clone()).unwrap();
    let mut waited = 0;
    while reading.taken.values().any(|taken| taken.state != Some(SplitState::Finished)) {
        if let Err(error) = reading.poll() {
            assert!(matches!(error.kind(), ErrorKind::External { retry: tidegate_api::Retry::After(_) }), "{error}");
            waited += 1;
            std::thread::park_timeout(std::time::Duration::from_millis(20));
        }
    }
    assert!(waited > 0);
    assert_eq!(reading.numbers(), (0..40).collect::<Vec<_>>());

    // Too long is an error that says who and what.
    let source = world.source(&topic, options(&fake, json!({ "schema": [{ "name": "n", "type": "int64" }] })));
    fake.state().failing = (1000, 500);
    let mut reading = Reading::open(source.as_ref(), SourceRequest::all(), found.added).unwrap();
    let error = loop {
        match reading.poll() {
            Err(error) if !matches!(error.kind(), ErrorKind::External { retry: tidegate_api::Retry::After(_) }) => break error,
            _ => std::thread::park_timeout(std::time::Duration::from_millis(20)),
        }
    };
    assert!(error.to_string().contains(&fake.url()) && error.to_string().contains("asked for schema 1"), "{error}");
}

#[test]
#[ignore = "needs a broker"]
fn kafka_json_and_protobuf_of_a_registry_are_read() {
    let (world, fake) = (World::real(), FakeRegistry::start());
    let topic = world.topic("json", 1);
    let id = fake.json(&format!("{topic}-value"), r#"{"type":"object","properties":{"n":{"type":"integer"}}}"#);
    world.send(&topic, 0, &[framed(id, b"{\"n\":1}"), framed(id, b"{\"n\":2}")]);
    let source = world.source(&topic, options(&fake, json!({ "format": "json" })));
    let request = SourceRequest::all().with_pinned(source.plan(&SourceRequest::all()).unwrap().pinned);
    let mut reading = Reading::open(source.as_ref(), request, source.discover(None).unwrap().added).unwrap();
    assert_eq!(reading.until_all(SplitState::Finished).only().numbers(), [1, 2]);

    let topic = world.topic("protobuf", 1);
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("a.proto"), "syntax = \"proto3\"; package t; message A { int64 n = 1; }").unwrap();
    let set = protox::Compiler::new([folder.path()]).unwrap().open_file("a.proto").unwrap().file_descriptor_set();
    let id = fake.protobuf("p", &prost_reflect::prost::Message::encode_to_vec(&set.file[0]), &[]);
    world.send(&topic, 0, &[framed(id, &[0, 8, 5]), framed(id, &[2, 0, 8, 6])]);
    let registry = json!({ "url": fake.url(), "subject": "p" });
    let source = world.source(&topic, options(&fake, json!({ "format": "protobuf", "registry": registry })));
    let request = SourceRequest::all().with_pinned(source.plan(&SourceRequest::all()).unwrap().pinned);
    let mut reading = Reading::open(source.as_ref(), request, source.discover(None).unwrap().added).unwrap();
    assert_eq!(reading.until_all(SplitState::Finished).only().numbers(), [5, 6]);
}

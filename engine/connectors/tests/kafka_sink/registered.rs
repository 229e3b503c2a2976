//! Rows whose schema is put into a registry before the first of them is written.

use super::cluster::{World, brokers, rows, token};
use super::registry::FakeRegistry;
use arrow::array::{ArrayRef, RecordBatch};
use serde_json::{Value, json};
use std::sync::Arc;
use tidegate_api::{ErrorKind, InlineSource, PollRequest, SourceCtx, SourceRequest, SplitState};
use tidegate_connectors::ConnectorCtx;

/// What the source makes of all that is in the world's topic.
fn read_back(world: &World, registry: &Value, format: &str) -> RecordBatch {
    let options = json!({ "brokers": world.brokers, "topic": world.topic, "format": format, "registry": registry, "end": "latest" });
    let source: Arc<dyn InlineSource> = tidegate_connectors::source("kafka", options.as_object().unwrap(), &ConnectorCtx::new(".", "in"))
        .unwrap_or_else(|problems| panic!("{problems:?}"));
    let plan = source.plan(&SourceRequest::all()).unwrap();
    let request = SourceRequest::all().with_pinned(plan.pinned);
    let found = source.discover(None).unwrap();
    let count = found.added.len();
    let ctx = SourceCtx::new(world.ctx(1).run).with_request(request).with_start(found.added);
    let mut reader = source.open(ctx).unwrap();
    let (mut batches, mut ended) = (Vec::new(), 0);
    while ended < count {
        let polled = reader.poll(PollRequest { max_rows: 1000, max_bytes: 1 << 20, wait: std::time::Duration::from_millis(50) }).unwrap();
        assert!(polled.chunks.iter().all(|chunk| chunk.bad.is_empty()));
        batches.extend(polled.chunks.into_iter().map(|chunk| chunk.rows));
        ended += polled.states.iter().filter(|(_, state)| *state == SplitState::Finished).count();
    }
    arrow::compute::concat_batches(&plan.schema, &batches).unwrap()
}

#[test]
#[ignore = "needs TIDEGATE_TEST_KAFKA"]
fn kafka_what_a_sink_registers_a_source_reads() {
    for format in ["avro", "json"] {
        let fake = FakeRegistry::start();
        let world = World::new(&brokers(), 1).with("format", json!(format)).with("registry", json!({ "url": fake.url() }));
        let sink = world.sink();
        let mut writers: Vec<_> = (0..2)
            .map(|task| match sink.open(world.ctx(1).with_task(task, 2)).unwrap() {
                tidegate_api::AnySink::Transactional(writer) => writer,
                tidegate_api::AnySink::AtLeastOnce(_) => panic!("no two phases"),
            })
            .collect();
        let subject = format!("{}-value", world.topic);
        let (id, text) = fake.newest(&subject).expect("registered before the first row");
        assert!(text.contains("\"n\""), "{text}");
        assert_eq!(fake.state().asked.iter().filter(|line| line.starts_with("POST")).count(), 1, "one task asks for all");
        assert_eq!(writers[1].write(&rows(0..50), None).unwrap().bad, []);
        let token = token(writers[1].as_mut(), 1);
        world.committer(1).commit(tidegate_api::Epoch(1), &[token]).unwrap();
        let found = super::cluster::read(&world.brokers, &world.topic, "read_committed");
        assert!(found.iter().all(|read| read.value.as_ref().unwrap().as_bytes().starts_with(&[0, 0, 0, 0, id as u8])));
        let back = read_back(&world, &json!(fake.url()), format);
        let wanted = rows(0..50);
        let columns: Vec<ArrayRef> = ["n", "s"].iter().map(|name| Arc::clone(back.column_by_name(name).unwrap())).collect();
        assert_eq!(columns, wanted.columns(), "{format}");
    }
}

#[test]
#[ignore = "needs TIDEGATE_TEST_KAFKA"]
fn kafka_a_registry_that_refuses_the_schema_keeps_the_sink_from_opening() {
    let fake = FakeRegistry::start();
    let world = World::new(&brokers(), 1).with("format", json!("avro"));
    let looks_up = world.clone().with("registry", json!({ "url": fake.url(), "autoRegister": false, "subject": "mine" }));
    let error = looks_up.sink().open(looks_up.ctx(1)).map(drop).unwrap_err();
    assert!(error.kind() == ErrorKind::Config && error.to_string().contains("subject `mine`"), "{error}");
    let world = world.with("registry", json!(fake.url()));
    fake.state().refuses = Some((409, 409, "Schema being registered is incompatible: READER_FIELD_MISSING_DEFAULT_VALUE"));
    let error = world.sink().open(world.ctx(1)).map(drop).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Config);
    assert!(error.to_string().contains("READER_FIELD_MISSING_DEFAULT_VALUE") && error.to_string().contains(&fake.url()), "{error}");
    assert_eq!(world.committed(), Vec::<String>::new());
}

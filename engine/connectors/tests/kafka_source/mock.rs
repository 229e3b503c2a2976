//! Error paths, against the client's own stand-in for a cluster; these need no broker. What it says of transactions proves nothing, so
//! none is used here.

use crate::support::{Reading, World, now, range, rows};
use rdkafka::mocking::MockCluster;
use rdkafka::producer::DefaultProducerContext;
use rdkafka::types::{RDKafkaApiKey, RDKafkaRespErr};
use serde_json::json;
use std::time::Duration;
use tidegate_api::{ErrorKind, SplitState};

fn mock<'c>() -> (MockCluster<'c, DefaultProducerContext>, World) {
    let cluster = MockCluster::new(1).unwrap();
    let world = World { brokers: cluster.bootstrap_servers() };
    (cluster, world)
}

#[test]
fn a_topic_that_may_not_be_read_is_a_mistake_and_no_reason_to_try_again() {
    let (cluster, world) = mock();
    cluster.create_topic("secret", 1, 1).unwrap();
    cluster.topic_error("secret", RDKafkaRespErr::RD_KAFKA_RESP_ERR_TOPIC_AUTHORIZATION_FAILED).unwrap();
    let error = world.source("secret", json!({})).check().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Config, "{error}");
    assert!(error.to_string().contains("topic `secret`"), "{error}");
}

#[test]
fn a_broker_that_is_not_there_is_told_with_what_the_client_heard() {
    let world = World { brokers: "127.0.0.1:1".into() };
    let begun = now();
    let error = world.source("t", json!({})).discover(None).unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::External { .. }));
    let told = error.to_string();
    assert!(told.contains("asking for topic `t` at `127.0.0.1:1`") && told.contains("Connection refused"), "{told}");
    assert!(begun.elapsed() < Duration::from_secs(40), "{:?}", begun.elapsed());
}

#[test]
fn a_cluster_that_goes_away_is_waited_for_within_the_budget() {
    let (cluster, world) = mock();
    cluster.create_topic("t", 2, 1).unwrap();
    world.send("t", 0, &rows(0..5));
    let mut reading = Reading::all(world.source("t", json!({ "brokerTimeout": "5s" })).as_ref());
    reading.until_all(SplitState::CaughtUp);
    assert_eq!(reading.numbers(), range(0..5));

    // Away and back: nobody counts as caught up in between, and all do afterwards, though nothing came.
    cluster.broker_down(1).unwrap();
    reading.until("doubt", |taken| taken.values().all(|taken| taken.state == Some(SplitState::Pending)));
    cluster.broker_up(1).unwrap();
    reading.until_all(SplitState::CaughtUp);
    world.send("t", 1, &rows(5..8));
    reading.until("rows", |taken| taken.values().map(crate::support::Taken::rows).sum::<usize>() == 8);

    // Away for longer than the budget.
    cluster.broker_down(1).unwrap();
    let error = reading.until_error();
    assert!(matches!(error.kind(), ErrorKind::External { .. }), "{error}");
    let told = error.to_string();
    assert!(told.contains("has been out of reach for") && told.contains("`brokerTimeout`") && told.contains("the client says: "), "{told}");
    // Leaving does not wait for the broker either.
    let begun = now();
    drop(reading);
    assert!(begun.elapsed() < Duration::from_secs(5), "{:?}", begun.elapsed());
}

#[test]
fn errors_that_pass_are_not_seen() {
    let (cluster, world) = mock();
    cluster.create_topic("t", 1, 1).unwrap();
    world.send("t", 0, &rows(0..5));
    use RDKafkaRespErr as Code;
    let source = world.source("t", json!({ "end": "latest" }));
    // An answer that is refused is never taken for an empty partition, which would begin at its end.
    for refused in [1, 2, 3, 4] {
        cluster.request_errors(RDKafkaApiKey::ListOffsets, &vec![Code::RD_KAFKA_RESP_ERR_NOT_LEADER_FOR_PARTITION; refused]);
        let found = source.discover(None).unwrap();
        assert_eq!(found.added[0].position, Some(tidegate_api::Position::number(0)), "{refused}");
        assert!(found.added[0].details.ends_with(b"\"end\":5}"), "{refused}");
    }
    let found = source.discover(None).unwrap();
    cluster.request_errors(
        RDKafkaApiKey::Fetch,
        &[Code::RD_KAFKA_RESP_ERR_NOT_LEADER_FOR_PARTITION, Code::RD_KAFKA_RESP_ERR_KAFKA_STORAGE_ERROR],
    );
    let mut reading = Reading::open(source.as_ref(), tidegate_api::SourceRequest::all(), found.added).unwrap();
    reading.until_all(SplitState::Finished);
    assert_eq!(reading.numbers(), range(0..5));
}

#[test]
fn properties_that_do_not_fit_each_other_are_a_mistake() {
    let world = World { brokers: "127.0.0.1:1".into() };
    let source = world.source("t", json!({ "properties": { "fetch.max.bytes": 10_000, "receive.message.max.bytes": 5000 } }));
    let error = source.discover(None).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Config, "{error}");
}

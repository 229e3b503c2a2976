//! Topics that come, grow, go, and are made again.

use crate::support::{Reading, World, range, rows, until};
use serde_json::json;
use tidegate_api::{ErrorKind, SourceRequest, SplitState};

#[test]
#[ignore = "needs a broker"]
fn kafka_p188_p189_partitions_added_while_running_are_read_from_their_beginning() {
    let world = World::real();
    let topic = world.topic("grows", 1);
    world.send(&topic, 0, &rows(0..3));
    let source = world.source(&topic, json!({ "start": "latest" }));
    assert!(source.discover_every().is_some(), "discovery is on");
    let found = source.discover(None).unwrap();
    let mut reading = Reading::open(source.as_ref(), SourceRequest::all(), found.added).unwrap();
    world.grow(&topic, 6);
    world.send(&topic, 5, &rows(10..15));
    let more = source.discover(found.cursor.as_deref()).unwrap();
    let ids: Vec<_> = more.added.iter().map(|split| split.id.to_string()).collect();
    assert_eq!(ids, (1..6).map(|number| format!("{topic}/{number}")).collect::<Vec<_>>());
    reading.assign(more.added);
    world.send(&topic, 0, &rows(15..16));
    reading.until_all(SplitState::CaughtUp);
    reading.until("all rows", |taken| taken.values().map(crate::support::Taken::rows).sum::<usize>() == 6);
    assert_eq!(reading.numbers(), range(10..16));
    let again = source.discover(more.cursor.as_deref()).unwrap();
    assert!(again.added.is_empty() && again.gone.is_empty() && !again.complete);
}

#[test]
#[ignore = "needs a broker"]
fn kafka_a_pattern_finds_topics_made_later_and_misses_those_that_go() {
    let world = World::real();
    let stem = world.name("pattern");
    for (suffix, first) in [("-a", 0), ("-b", 10), ("-b-not", 90)] {
        world.create(&format!("{stem}{suffix}"), 1, &[]);
        world.send(&format!("{stem}{suffix}"), 0, &rows(first..first + 2));
    }
    let options = json!({ "pattern": format!("{stem}-[a-z]"), "schema": [{ "name": "n", "type": "int64" }] });
    let source = world.bare_source(options);
    source.check().unwrap();
    let found = source.discover(None).unwrap();
    let mut reading = Reading::open(source.as_ref(), SourceRequest::all(), found.added).unwrap();
    reading.until_all(SplitState::CaughtUp);
    assert_eq!(reading.numbers(), [0, 1, 10, 11]);
    world.create(&format!("{stem}-c"), 1, &[]);
    world.send(&format!("{stem}-c"), 0, &rows(20..22));
    let more = source.discover(found.cursor.as_deref()).unwrap();
    reading.assign(more.added);
    reading.until_all(SplitState::CaughtUp);
    reading.until("rows of the new one", |taken| taken.len() == 3 && taken.values().all(|taken| taken.rows() == 2));
    drop(reading);
    world.delete(&format!("{stem}-a"));
    let error = source.discover(more.cursor.as_deref()).unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::External { .. }));
    assert!(error.to_string().contains(&format!("topic `{stem}-a` is gone")), "{error}");
}

#[test]
#[ignore = "needs a broker"]
fn kafka_a_topic_that_is_not_there_is_told_with_the_nearest_and_not_made() {
    let world = World::real();
    let topic = world.topic("missing", 1);
    let wrong = format!("{topic}x");
    let source = world.source(&wrong, json!({}));
    for error in [source.check().unwrap_err(), source.discover(None).unwrap_err()] {
        let told = error.to_string();
        assert!(told.contains(&format!("topic `{wrong}` does not exist at `{}`, did you mean `{topic}`?", world.brokers)), "{told}");
    }
    // Looking for it did not make it.
    assert!(source.check().is_err());
    let source = world.bare_source(json!({ "pattern": format!("{topic}-.*"), "schema": [{ "name": "n", "type": "int64" }] }));
    assert!(source.discover(None).unwrap_err().to_string().contains("no topic at"));
}

#[test]
#[ignore = "needs a broker"]
fn kafka_a_topic_deleted_and_made_again_is_an_error_that_says_so_to_whoever_discovers() {
    let world = World::real();
    let topic = world.topic("again", 2);
    world.send(&topic, 0, &rows(0..3));
    let source = world.source(&topic, json!({}));
    let found = source.discover(None).unwrap();
    // The same identity at the next start, by another process.
    let later = world.source(&topic, json!({}));
    let cursor = later.discover(found.cursor.as_deref()).unwrap().cursor;
    world.delete(&topic);
    let error = source.discover(cursor.as_deref()).unwrap_err();
    assert!(error.to_string().contains("a topic that was read is gone"), "{error}");
    // More rows than before, so that no offset tells.
    world.create(&topic, 2, &[]);
    world.send(&topic, 0, &rows(100..110));
    for source in [source, later, world.source(&topic, json!({}))] {
        let error = source.discover(cursor.as_deref()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Config);
        assert!(error.to_string().contains(&format!("topic `{topic}` was deleted and made again")), "{error}");
    }
}

#[test]
#[ignore = "needs a broker"]
fn kafka_a_topic_made_again_gives_a_running_reader_no_row() {
    let world = World::real();
    let topic = world.topic("swapped", 1);
    world.send(&topic, 0, &rows(0..3));
    let source = world.source(&topic, json!({ "properties": { "topic.metadata.refresh.interval.ms": 500 } }));
    let found = source.discover(None).unwrap();
    let mut reading = Reading::open(source.as_ref(), SourceRequest::all(), found.added.clone()).unwrap();
    reading.until_all(SplitState::CaughtUp);
    world.delete(&topic);
    world.create(&topic, 1, &[]);
    world.send(&topic, 0, &rows(100..200));
    let error = reading.until_error();
    assert_eq!(reading.numbers(), range(0..3), "{error}");
    let told = error.to_string();
    assert!(told.contains("made again") || told.contains("is gone"), "{told}");
    // Nor one that goes on at the recorded places.
    let mut later = Reading::open(source.as_ref(), SourceRequest::all(), found.added).unwrap();
    let error = later.until_error();
    assert_eq!((error.kind(), later.numbers()), (ErrorKind::Config, range(0..0)));
    assert!(error.to_string().contains(&format!("topic `{topic}` was deleted and made again")), "{error}");
}

#[test]
#[ignore = "needs a broker"]
fn kafka_a_topic_that_is_deleted_while_it_is_read_is_an_error() {
    let world = World::real();
    let topic = world.topic("vanishes", 1);
    world.send(&topic, 0, &rows(0..3));
    let options = json!({ "properties": { "topic.metadata.refresh.interval.ms": 500, "topic.metadata.propagation.max.ms": 1000 } });
    let mut reading = Reading::all(world.source(&topic, options).as_ref());
    reading.until_all(SplitState::CaughtUp);
    world.delete(&topic);
    let error = reading.until_error();
    assert!(matches!(error.kind(), ErrorKind::External { .. }));
    assert!(error.to_string().contains(&format!("partition `{topic}/0` is gone")), "{error}");
}

#[test]
#[ignore = "needs a broker"]
fn kafka_many_partitions_share_what_is_fetched_ahead() {
    let world = World::real();
    let topic = world.topic("many", 40);
    for partition in 0..40 {
        world.send(&topic, partition, &rows(i64::from(partition) * 10..i64::from(partition) * 10 + 10));
    }
    let source = world.source(&topic, json!({ "prefetch": "1MiB" }));
    let mut splits = source.discover(None).unwrap().added;
    let rest = splits.split_off(3);
    let mut reading = Reading::open(source.as_ref(), SourceRequest::all(), splits).unwrap();
    reading.request.max_rows = 7;
    reading.until("some rows", |taken| taken.values().any(|taken| taken.rows() > 0));
    // A client that was made for three makes way for one for forty, and no row is lost or repeated.
    reading.assign(rest);
    reading.until_all(SplitState::CaughtUp);
    until("all rows", || {
        reading.poll().unwrap();
        reading.numbers().len() >= 400
    });
    assert_eq!(reading.numbers(), range(0..400));
}

//! Offsets that hold no rows: control records, aborted transactions, compaction, retention.

use crate::support::{PATIENCE, Reading, Record, World, range, rows, until};
use rdkafka::producer::Producer;
use serde_json::json;
use tidegate_api::{ErrorKind, Position, SourceRequest, SplitState};

#[test]
#[ignore = "needs a broker"]
fn kafka_p179_p180_p181_an_end_behind_control_records_is_reached() {
    let world = World::real();
    let topic = world.topic("gaps", 1);
    world.transact(&topic, 0, &rows(0..3), true);
    world.transact(&topic, 0, &rows(3..5), false);
    let (_, high) = world.range(&topic, 0);
    assert_eq!(high, 7, "two markers stand among five rows");

    // Bounded: ends though the last offset is no row.
    let source = world.source(&topic, json!({ "end": "latest" }));
    let mut bounded = Reading::all(source.as_ref());
    bounded.until_all(SplitState::Finished);
    assert_eq!((bounded.numbers(), bounded.only().position().as_str()), (range(0..3), "7"));

    // Unbounded: caught up, and the position stands behind the gap.
    let source = world.source(&topic, json!({}));
    let mut reading = Reading::all(source.as_ref());
    reading.until_all(SplitState::CaughtUp);
    assert_eq!((reading.numbers(), reading.only().position().as_str()), (range(0..3), "7"));

    // What comes later comes, also to a reader that begins where this one stood after everything before was deleted.
    world.forget(&topic, 0, 7);
    world.send(&topic, 0, &rows(5..7));
    let splits = source.discover(None).unwrap().added;
    let restored = splits.into_iter().map(|mut split| {
        split.position = Some(Position::number(7));
        split
    });
    let mut restored = Reading::open(source.as_ref(), SourceRequest::all(), restored.collect()).unwrap();
    restored.until_all(SplitState::CaughtUp);
    assert_eq!(restored.numbers(), range(5..7));
    reading.until("rows behind a gap", |taken| taken.values().all(|taken| taken.rows() == 5));
}

#[test]
#[ignore = "needs a broker"]
fn kafka_p184_aborted_rows_never_show_and_hide_nothing() {
    let world = World::real();
    let topic = world.topic("aborted", 2);
    // An abort without rows in a partition, and aborts of compressed rows between commits.
    world.transact(&topic, 0, &[], false);
    for round in 0..6 {
        world.transact(&topic, (round % 2) as i32, &rows(round * 10..round * 10 + 10), round % 3 != 1);
    }
    let source = world.source(&topic, json!({ "end": "latest" }));
    let mut reading = Reading::all(source.as_ref());
    reading.until_all(SplitState::Finished);
    let expected: Vec<i64> = [0, 2, 3, 5].into_iter().flat_map(|round| round * 10..round * 10 + 10).collect();
    assert_eq!(reading.numbers(), expected);
}

#[test]
#[ignore = "needs a broker"]
fn kafka_rows_of_an_open_transaction_come_once_it_is_committed() {
    let world = World::real();
    let topic = world.topic("open", 1);
    world.send(&topic, 0, &rows(0..2));
    let open = world.begin(&topic, 0, &rows(2..5));
    world.send(&topic, 0, &rows(5..6));
    // What ends now ends before the transaction; what begins at the latest begins there.
    let mut bounded = Reading::all(world.source(&topic, json!({ "end": "latest" })).as_ref());
    bounded.until_all(SplitState::Finished);
    assert_eq!(bounded.numbers(), range(0..2));
    let mut reading = Reading::all(world.source(&topic, json!({})).as_ref());
    reading.until_all(SplitState::CaughtUp);
    assert_eq!((reading.numbers(), reading.only().position().as_str()), (range(0..2), "2"));
    let mut latest = Reading::all(world.source(&topic, json!({ "start": "latest" })).as_ref());
    open.commit_transaction(PATIENCE).unwrap();
    reading.until("rows of the transaction", |taken| taken.values().all(|taken| taken.rows() == 6));
    assert_eq!(reading.numbers(), range(0..6));
    latest.until("rows of the transaction", |taken| taken.values().all(|taken| taken.rows() == 4));
}

#[test]
#[ignore = "needs a broker"]
fn kafka_offsets_that_retention_deleted_are_an_error_that_names_them() {
    let world = World::real();
    let topic = world.topic("deleted", 1);
    world.send(&topic, 0, &rows(0..10));
    let source = world.source(&topic, json!({}));
    let splits = source.discover(None).unwrap().added;
    world.forget(&topic, 0, 6);
    let error = Reading::open(source.as_ref(), SourceRequest::all(), splits).unwrap().until_error();
    assert_eq!(error.kind(), ErrorKind::Config);
    let told = error.to_string();
    assert!(told.contains(&format!("partition `{topic}/0`: the rows from offset 0 to 5 were deleted before they were read")), "{told}");
    assert!(told.contains("begins at 6"), "{told}");
    // A new run begins at what there is.
    let mut reading = Reading::all(source.as_ref());
    reading.until_all(SplitState::CaughtUp);
    assert_eq!(reading.numbers(), range(6..10));
}

#[test]
#[ignore = "needs a broker"]
fn kafka_offsets_beyond_the_end_are_an_error_that_names_the_range() {
    let world = World::real();
    let topic = world.topic("beyond", 1);
    world.send(&topic, 0, &rows(0..3));
    let source = world.source(&topic, json!({}));
    let mut splits = source.discover(None).unwrap().added;
    splits[0].position = Some(Position::number(50));
    let error = Reading::open(source.as_ref(), SourceRequest::all(), splits).unwrap().until_error();
    let told = error.to_string();
    assert_eq!(error.kind(), ErrorKind::Config);
    assert!(told.contains(&format!("partition `{topic}/0`: offset 50 does not exist, the partition has 0 to 3")), "{told}");
}

#[test]
#[ignore = "needs a broker"]
fn kafka_p182_reading_goes_on_behind_what_compaction_removed() {
    let world = World::real();
    let topic = world.name("compacted");
    let settings = [
        ("cleanup.policy", "compact"),
        ("segment.ms", "100"),
        ("min.cleanable.dirty.ratio", "0.01"),
        ("delete.retention.ms", "100"),
        ("max.compaction.lag.ms", "200"),
    ];
    world.create(&topic, 1, &settings);
    let keyed = |key: &str, n: i64| Record { key: Some(key.into()), payload: Some(format!("{{\"n\":{n}}}").into()), ..Record::default() };
    for n in 0..9 {
        // Each in a segment of its own; only the last of a key stays.
        world.send(&topic, 0, &[keyed(if (3..6).contains(&n) { "again" } else { "key" }, n)]);
        std::thread::park_timeout(std::time::Duration::from_millis(150));
    }
    let source = world.source(&topic, json!({ "end": "latest" }));
    let read = || {
        let mut reading = Reading::all(source.as_ref());
        reading.until_all(SplitState::Finished);
        reading.numbers()
    };
    until("compaction", || {
        world.send(&topic, 0, &[keyed("filler", 100)]);
        // The last of each key stays.
        read().into_iter().filter(|n| *n < 100).eq([5, 8])
    });
    let splits = source.discover(None).unwrap().added;
    for at in 0..9 {
        let mut split = splits[0].clone();
        split.position = Some(Position::number(at));
        let mut reading = Reading::open(source.as_ref(), SourceRequest::all(), vec![split]).unwrap();
        reading.until_all(SplitState::Finished);
        let numbers: Vec<i64> = reading.numbers().into_iter().filter(|n| *n < 100).collect();
        let expected: Vec<i64> = [5, 8].into_iter().filter(|n| *n >= at as i64).collect();
        assert_eq!(numbers, expected, "from {at}");
    }
}

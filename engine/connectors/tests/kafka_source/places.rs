//! Where reading begins, ends and goes on, and what is told about it.

use crate::support::{Reading, Record, Taken, World, range, record, rows, until};
use arrow::array::AsArray;
use arrow::datatypes::{Int32Type, Int64Type, TimestampMillisecondType};
use serde_json::json;
use std::time::Duration;
use tidegate_api::{BadReason, ErrorKind, PollRequest, SourceRequest, SplitState};

#[test]
#[ignore = "needs a broker"]
fn kafka_p082_p094_latest_is_a_place_before_the_first_poll() {
    let world = World::real();
    let topic = world.topic("latest", 2);
    world.send(&topic, 0, &rows(0..5));
    let source = world.source(&topic, json!({ "start": "latest" }));
    let found = source.discover(None).unwrap();
    // Written before anything was opened or polled, and read all the same; also by whoever restores these splits later.
    world.send(&topic, 0, &rows(5..8));
    world.send(&topic, 1, &rows(8..9));
    for _ in 0..2 {
        let mut reading = Reading::open(source.as_ref(), SourceRequest::all(), found.added.clone()).unwrap();
        reading.until_all(SplitState::CaughtUp);
        assert_eq!(reading.numbers(), range(5..9));
    }
}

#[test]
#[ignore = "needs a broker"]
fn kafka_a_start_by_time_begins_at_the_first_row_stamped_then_or_later() {
    let world = World::real();
    let topic = world.topic("time", 2);
    let stamped = |n: i64, timestamp: i64| Record { timestamp: Some(timestamp), ..record(format!("{{\"n\":{n}}}")) };
    let base = 1_700_000_000_000;
    world.send(&topic, 0, &[stamped(0, base), stamped(1, base + 10), stamped(2, base + 20)]);
    world.send(&topic, 1, &[stamped(3, base)]);
    let read = |at: serde_json::Value| {
        let mut reading = Reading::all(world.source(&topic, json!({ "start": "timestamp", "startTimestamp": at })).as_ref());
        reading.until_all(SplitState::CaughtUp);
        reading.numbers()
    };
    assert_eq!(read(json!(base)), range(0..4));
    assert_eq!(read(json!(base + 1)), [1, 2]);
    assert_eq!(read(json!("2023-11-14T22:13:20.020Z")), [2]);
    // Nothing is that new: the end.
    assert_eq!(read(json!("2033-01-01T00:00:00Z")), range(0..0));
}

#[test]
#[ignore = "needs a broker"]
fn kafka_a_start_by_offsets_is_exact_and_checked() {
    let world = World::real();
    let topic = world.topic("offsets", 2);
    world.send(&topic, 0, &rows(0..5));
    world.send(&topic, 1, &rows(5..8));
    let source = |offsets| world.source(&topic, json!({ "start": "offsets", "startOffsets": offsets }));
    let mut reading = Reading::all(source(json!({ "0": 3, "1": 3 })).as_ref());
    reading.until_all(SplitState::CaughtUp);
    assert_eq!(reading.numbers(), range(3..5));
    let refused = |offsets| {
        let error = source(offsets).discover(None).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Config);
        error.to_string()
    };
    let told = refused(json!({ "0": 6, "1": 0 }));
    assert!(
        told.contains(&format!("partition `{topic}/0` has the offsets 0 to 5; offset 6, what `startOffsets` says, is not there")),
        "{told}"
    );
    assert!(refused(json!({ "0": 0 })).contains("says nothing about partition"), "{told}");
    assert!(refused(json!({ "0": 0, "1": 0, "2": 0 })).contains("does not exist"), "{told}");
}

#[test]
#[ignore = "needs a broker"]
fn kafka_it_tells_what_it_has_read_and_how_far_it_is_behind() {
    let world = World::real();
    let topic = world.topic("behind", 2);
    world.send(&topic, 0, &rows(0..50));
    world.transact(&topic, 1, &rows(50..60), true);
    let source = world.source(&topic, json!({}));
    let found = source.discover(None).unwrap();
    let mut reading = Reading::open(source.as_ref(), SourceRequest::all(), found.added).unwrap();
    assert_eq!(reading.meters.behind_rows.get(), None, "nothing was asked yet");
    reading.request.max_rows = 5;
    reading.until("the first rows", |taken| taken.values().map(Taken::rows).sum::<usize>() > 0);
    let behind = reading.meters.behind_rows.get().unwrap();
    // The mark that ends the transaction has an offset too.
    assert!((50..=61).contains(&behind), "{behind}");
    reading.request.max_rows = 8192;
    reading.until_all(SplitState::CaughtUp);
    reading.poll_until(|meters| meters.behind_rows.get() == Some(0));
    assert!(reading.meters.bytes.get() > 60, "{:?}", reading.meters);
    world.send(&topic, 0, &rows(60..67));
    // As of the last discovery: nobody has looked since.
    source.discover(found.cursor.as_deref()).unwrap();
    reading.until("the rest", |taken| taken.values().map(Taken::rows).sum::<usize>() == 67);
    reading.poll_until(|meters| meters.behind_rows.get() == Some(0));
}

#[test]
#[ignore = "needs a broker"]
fn kafka_p071_p178_p191_a_group_holds_what_was_durable_and_can_be_begun_at() {
    let world = World::real();
    let topic = world.topic("group", 2);
    world.transact(&topic, 0, &rows(0..5), true);
    world.send(&topic, 1, &rows(5..6));
    let group = world.name("group");
    let source = world.source(&topic, json!({ "groupId": group }));
    let mut reading = Reading::all(source.as_ref());
    reading.request.max_rows = 3;
    reading.until_all(SplitState::CaughtUp);
    // Reading commits nothing.
    assert_eq!(world.committed(&group, &topic, 0), None);
    let split = tidegate_api::SplitId::new(format!("{topic}/0"));
    let (rows_durable, durable) = reading.taken[&split].marks[0].clone();
    reading.reader.committed(&[(split, durable)]).unwrap();
    until("a commit", || {
        reading.poll().unwrap();
        world.committed(&group, &topic, 0) == Some(rows_durable as i64)
    });
    // The durable position alone, though more was read: and where nothing was committed, the beginning.
    let mut again = Reading::all(world.source(&topic, json!({ "start": "group", "groupId": group })).as_ref());
    again.until_all(SplitState::CaughtUp);
    assert_eq!(again.numbers(), range(rows_durable as i64..6));
}

#[test]
#[ignore = "needs a broker"]
fn kafka_commits_that_fail_end_nothing() {
    let world = World::real();
    let topic = world.topic("commits", 1);
    world.send(&topic, 0, &rows(0..5));
    let group = world.name("busy");
    // A member that owns the partition makes commits from outside fail.
    let mut config = rdkafka::config::ClientConfig::new();
    config.set("bootstrap.servers", &world.brokers).set("group.id", &group);
    let member: rdkafka::consumer::BaseConsumer = config.create().unwrap();
    rdkafka::consumer::Consumer::subscribe(&member, &[&topic]).unwrap();
    until("an assignment", || {
        let _ = member.poll(Duration::from_millis(100));
        rdkafka::consumer::Consumer::assignment(&member).unwrap().count() == 1
    });
    let mut reading = Reading::all(world.source(&topic, json!({ "groupId": group })).as_ref());
    reading.until_all(SplitState::CaughtUp);
    let (id, position) = (reading.taken.keys().next().unwrap().clone(), reading.only().marks[0].1.clone());
    for _ in 0..3 {
        let _ = reading.reader.committed(&[(id.clone(), position.clone())]);
        for _ in 0..20 {
            reading.poll().unwrap();
        }
    }
    world.send(&topic, 0, &rows(5..6));
    reading.until("the next row", |taken| taken.values().all(|taken| taken.rows() == 6));
}

#[test]
#[ignore = "needs a broker"]
fn kafka_a_source_that_ends_reads_what_was_there_and_no_more() {
    let world = World::real();
    let topic = world.topic("ends", 3);
    world.send(&topic, 0, &rows(0..5));
    world.send(&topic, 1, &rows(5..8));
    let source = world.source(&topic, json!({ "end": "latest" }));
    let plan = source.plan(&SourceRequest::all()).unwrap();
    assert!(plan.bounded && source.discover_every().is_none());
    let found = source.discover(None).unwrap();
    assert!(found.complete);
    // Too late, and in the partition that was empty too.
    for partition in 0..3 {
        world.send(&topic, partition, &rows(100..110));
    }
    let mut reading = Reading::open(source.as_ref(), SourceRequest::all(), found.added.clone()).unwrap();
    reading.until_all(SplitState::Finished);
    assert_eq!(reading.numbers(), range(0..8));
    // Somebody who restores a split at its end finishes at once.
    let mut ends = found.added;
    for split in &mut ends {
        split.position =
            Some(reading.taken[&split.id].marks.last().map_or(split.position.clone().unwrap(), |(_, position)| position.clone()));
    }
    let mut restored = Reading::open(source.as_ref(), SourceRequest::all(), ends).unwrap();
    restored.poll().unwrap();
    restored.until_all(SplitState::Finished);
    assert_eq!(restored.numbers(), range(0..0));
    let again = source.discover(found.cursor.as_deref()).unwrap();
    assert!(again.added.is_empty() && again.gone.is_empty() && again.complete);
}

#[test]
#[ignore = "needs a broker"]
fn kafka_from_every_position_exactly_the_rest_comes() {
    let world = World::real();
    let topic = world.topic("restore", 1);
    for round in 0..6 {
        world.transact(&topic, 0, &rows(round * 5..round * 5 + 5), round % 2 == 0);
        world.send(&topic, 0, &rows(100 + round..101 + round));
    }
    let source = world.source(&topic, json!({}));
    let splits = source.discover(None).unwrap().added;
    let mut whole = Reading::open(source.as_ref(), SourceRequest::all(), splits.clone()).unwrap();
    whole.request.max_rows = 2;
    whole.until_all(SplitState::CaughtUp);
    let all = whole.only().numbers();
    assert_eq!(all.len(), 21);
    for (rows, position) in &whole.only().marks {
        let mut split = splits[0].clone();
        split.position = Some(position.clone());
        let mut rest = Reading::open(source.as_ref(), SourceRequest::all(), vec![split]).unwrap();
        rest.until_all(SplitState::CaughtUp);
        assert_eq!(rest.only().numbers(), all[*rows..], "from {position}");
    }
}

#[test]
#[ignore = "needs a broker"]
fn kafka_what_is_known_beside_a_payload_becomes_columns() {
    let world = World::real();
    let topic = world.topic("meta", 2);
    let base = 1_700_000_000_000;
    let first = Record {
        key: Some(b"k".to_vec()),
        payload: Some(b"{\"n\":1}".to_vec()),
        headers: vec![("h", Some(b"1")), ("none", None), ("h", Some(b""))],
        timestamp: Some(base),
    };
    let tombstone = Record { key: Some(b"gone".to_vec()), timestamp: Some(base + 5), ..Record::default() };
    world.send(&topic, 1, &[first, tombstone, record("{\"n\":3}")]);
    let options = json!({ "meta": ["headers", "key", "partition", "offset", "timestamp"], "tombstones": "nulls", "end": "latest" });
    let source = world.source(&topic, options.clone());
    let mut reading = Reading::all(source.as_ref());
    reading.until_all(SplitState::Finished);
    let taken = &reading.taken[&tidegate_api::SplitId::new(format!("{topic}/1"))];
    let rows = arrow::compute::concat_batches(&taken.batches[0].schema(), &taken.batches).unwrap();
    let names: Vec<_> = rows.schema().fields().iter().map(|field| field.name().clone()).collect();
    assert_eq!(names, ["n", "headers", "key", "partition", "offset", "timestamp"]);
    assert_eq!(rows.column(0).as_primitive::<Int64Type>().iter().collect::<Vec<_>>(), [Some(1), None, Some(3)]);
    assert_eq!(rows.column(2).as_binary::<i32>().iter().collect::<Vec<_>>(), [Some(&b"k"[..]), Some(b"gone"), None]);
    assert_eq!(rows.column(3).as_primitive::<Int32Type>().values(), &[1, 1, 1]);
    assert_eq!(rows.column(4).as_primitive::<Int64Type>().values(), &[0, 1, 2]);
    assert_eq!(rows.column(5).as_primitive::<TimestampMillisecondType>().values()[..2], [base, base + 5]);
    let headers = rows.column(1).as_list::<i32>();
    assert_eq!((0..3).map(|row| headers.value_length(row)).collect::<Vec<_>>(), [3, 0, 0]);
    let values = headers.values().as_struct().column(1).as_binary::<i32>().iter().collect::<Vec<_>>();
    assert_eq!(values, [Some(&b"1"[..]), None, Some(b"")]);

    // Only what is asked for is made, and tombstones that are left out are counted.
    let source = world.source(&topic, json!({ "meta": ["key", "offset"], "end": "latest" }));
    let request = SourceRequest::all().with_columns(Some(vec!["offset".into()])).with_ordinals(true);
    let found = source.discover(None).unwrap();
    let mut pruned = Reading::open(source.as_ref(), request.clone(), found.added).unwrap();
    pruned.until_all(SplitState::Finished);
    let taken = &pruned.taken[&tidegate_api::SplitId::new(format!("{topic}/1"))];
    assert_eq!(taken.batches[0].schema(), source.plan(&request).unwrap().schema);
    assert_eq!((taken.numbers(), taken.ordinals.clone(), taken.filtered), (vec![0, 2], vec![0, 2], 1));
}

#[test]
#[ignore = "needs a broker"]
fn kafka_rows_that_cannot_be_used_say_where_they_are_and_cost_only_themselves() {
    let world = World::real();
    let topic = world.topic("bad", 1);
    world.send(&topic, 0, &[record("{\"n\":1}"), record("nonsense"), record("{\"n\":\"x\"}"), record(""), record("{\"n\":2}")]);
    let mut reading = Reading::all(world.source(&topic, json!({ "end": "latest" })).as_ref());
    reading.until_all(SplitState::Finished);
    assert_eq!(reading.numbers(), [1, 2]);
    let bad: Vec<_> = reading.only().bad.iter().map(|bad| (bad.reason, bad.position.clone().unwrap(), bad.raw.clone())).collect();
    assert_eq!(
        bad,
        [
            (BadReason::Malformed, "partition 0, offset 1".to_string(), b"nonsense".to_vec()),
            (BadReason::TypeMismatch, "partition 0, offset 2".into(), b"{\"n\":\"x\"}".to_vec()),
            (BadReason::Malformed, "partition 0, offset 3".into(), Vec::new()),
        ]
    );
    assert!(reading.only().bad.iter().all(|bad| bad.split.as_ref().is_some_and(|split| split.as_str() == format!("{topic}/0"))));

    // Rescued, they are rows and their text.
    let source = world.source(&topic, json!({ "end": "latest", "meta": ["offset"] }));
    let found = source.discover(None).unwrap();
    let mut rescued = Reading::open(source.as_ref(), SourceRequest::all().with_rescue(true), found.added).unwrap();
    rescued.until_all(SplitState::Finished);
    let rows = arrow::compute::concat_batches(&rescued.only().batches[0].schema(), &rescued.only().batches).unwrap();
    assert_eq!((rows.num_rows(), rescued.only().bad.len()), (5, 0));
    let texts = rows.column_by_name("_rescued_data").unwrap().as_string_view();
    assert_eq!(texts.iter().collect::<Vec<_>>(), [None, Some("nonsense"), Some("{\"n\":\"x\"}"), Some(""), None]);
}

#[test]
#[ignore = "needs a broker"]
fn kafka_partitions_take_turns_and_a_poll_is_no_larger_than_asked() {
    let world = World::real();
    let topic = world.topic("fair", 3);
    for partition in 0..3 {
        world.send(&topic, partition, &rows(0..3000));
    }
    let mut reading = Reading::all(world.source(&topic, json!({})).as_ref());
    reading.request = PollRequest { max_rows: 600, max_bytes: 1 << 20, wait: Duration::from_millis(10) };
    // Fetching ahead goes on while nobody polls.
    std::thread::park_timeout(Duration::from_millis(1500));
    for _ in 0..6 {
        reading.poll().unwrap();
    }
    let rows: Vec<_> = reading.taken.values().map(crate::support::Taken::rows).collect();
    assert!(rows.iter().all(|rows| *rows >= 900), "{rows:?}");
    reading.until_all(SplitState::CaughtUp);
    assert_eq!(reading.numbers().len(), 9000);

    // Of one byte a message comes all the same, and of a poll that does not wait nothing is lost.
    let mut small = Reading::all(world.source(&topic, json!({ "end": "latest" })).as_ref());
    small.request = PollRequest { max_rows: 8192, max_bytes: 1, wait: Duration::ZERO };
    small.until("a message at a time", |taken| taken.values().map(crate::support::Taken::rows).sum::<usize>() >= 10);
    assert!(small.taken.values().flat_map(|taken| &taken.batches).all(|batch| batch.num_rows() <= 1));
    small.request.max_bytes = 1 << 20;
    small.until_all(SplitState::Finished);
    assert_eq!(small.numbers().len(), 9000);
}

#[test]
#[ignore = "needs a broker"]
fn kafka_p035_p069_a_quiet_partition_is_caught_up_and_a_busy_one_is_not() {
    let world = World::real();
    let topic = world.topic("quiet", 2);
    world.send(&topic, 0, &rows(0..5000));
    let mut reading = Reading::all(world.source(&topic, json!({})).as_ref());
    reading.request.max_rows = 10;
    let [busy, quiet] = [0, 1].map(|number| tidegate_api::SplitId::new(format!("{topic}/{number}")));
    reading.until("the quiet one", |taken| taken[&quiet].state == Some(SplitState::CaughtUp));
    reading.until("rows", |taken| taken[&busy].rows() > 0);
    assert_ne!(reading.taken[&busy].state, Some(SplitState::CaughtUp), "{} rows were read", reading.taken[&busy].rows());
    // A pause of ours changes nothing: what waits is not nothing.
    std::thread::park_timeout(Duration::from_millis(300));
    reading.poll().unwrap();
    assert_ne!(reading.taken[&busy].state, Some(SplitState::CaughtUp));
    reading.request.max_rows = 8192;
    reading.until_all(SplitState::CaughtUp);
    world.send(&topic, 1, &rows(0..1));
    reading.until("its return", |taken| taken[&quiet].rows() == 1);
    reading.until_all(SplitState::CaughtUp);
}

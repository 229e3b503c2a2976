//! Commits that die, stand still and are raced, against a real broker: none twice, none missing, by the eyes of a `read_committed` consumer.

#[allow(dead_code, reason = "shared with the tests of the outside, which use other parts of it")]
#[path = "../../../tests/kafka_sink/cluster.rs"]
mod cluster;
#[path = "../../../tests/kafka_sink/mortal.rs"]
mod mortal;

use super::super::staged::StagedWriter;
use super::*;
use cluster::{World, brokers, make_topic, rows, token, unused, values};
use mortal::{Mortal, alone};
use serde_json::json;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;
use tidegate_api::testkit::{ManualClock, MemoryStaging};
use tidegate_api::{ErrorKind, EventTime, PreCommit, TransactionalSink as _};

fn delete_topic(brokers: &str, name: &str) {
    let options = rdkafka::admin::AdminOptions::new().operation_timeout(Some(Duration::from_secs(20)));
    cluster::wait(cluster::admin(brokers).delete_topics(&[name], &options)).unwrap();
}

const POINTS: [Point; 6] = [Point::TakenOver, Point::Begun, Point::Produced, Point::Marked, Point::Committed, Point::Noted];

fn parts(world: &World) -> (KafkaSinkConfig, Arc<Topics>) {
    let config = KafkaSinkConfig::parse(world.options.as_object().unwrap(), std::path::Path::new(".")).unwrap();
    let topics = Arc::new(Topics::new(config.clone(), Arc::new(tidegate_api::SystemClock)));
    (config, topics)
}

/// A committer whose transactions take about two segments of [`prepared`].
fn committer_of(world: &World, run: &str, generation: u64) -> KafkaCommitter {
    let (config, topics) = parts(world);
    let mut committer = KafkaCommitter::new(config, topics, &world.ctx_of(run, generation)).unwrap();
    (committer.part, committer.most) = (800, 800);
    committer
}

fn committer(world: &World, generation: u64) -> KafkaCommitter {
    committer_of(world, "run", generation)
}

/// A token of many small segments.
fn prepared_of(world: &World, run: &str, generation: u64, task: usize, epoch: u64, numbers: std::ops::Range<i64>) -> CommitToken {
    let (config, topics) = parts(world);
    let writer = StagedWriter::open(&config, topics, None, world.ctx_of(run, generation).with_task(task, 4)).unwrap();
    let mut writer = writer.with_segments_of(500);
    assert_eq!(writer.write(&rows(numbers), None).unwrap().bad, []);
    token(&mut writer, epoch)
}

fn prepared(world: &World, generation: u64, task: usize, epoch: u64, numbers: std::ops::Range<i64>) -> CommitToken {
    prepared_of(world, "run", generation, task, epoch, numbers)
}

fn segments_of(token: &CommitToken) -> usize {
    serde_json::from_slice::<Token>(&token.0).unwrap().segments.len()
}

/// Calls `then` the `number`th time that a commit passes the point.
fn at(committer: &mut KafkaCommitter, point: Point, number: usize, then: impl Fn() + Send + Sync + 'static) -> Arc<AtomicUsize> {
    let passed = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&passed);
    committer.hook = Some(Arc::new(move |passing| {
        if passing == point && count.fetch_add(1, Ordering::SeqCst) + 1 == number {
            then();
        }
    }));
    passed
}

fn is_visible(outcomes: &[CommitOutcome]) -> bool {
    outcomes.iter().all(|outcome| matches!(outcome, CommitOutcome::Done | CommitOutcome::AlreadyDone))
}

/// P201, P205: what was committed is known by its mark, whatever answer came or did not come.
#[test]
#[ignore = "needs TIDEGATE_TEST_KAFKA"]
fn kafka_a_commit_that_dies_anywhere_is_finished_by_another_instance() {
    let brokers = brokers();
    let mut deaths = 0;
    for point in POINTS {
        for number in 1.. {
            let world = World::new(&brokers, 3);
            let tokens = [prepared(&world, 1, 0, 2, 0..60), prepared(&world, 1, 2, 2, 60..120)];
            assert!(segments_of(&tokens[0]) >= 3);
            let mut dying = committer(&world, 1);
            at(&mut dying, point, number, || panic!("the process dies here"));
            if catch_unwind(AssertUnwindSafe(|| dying.commit(Epoch(2), &tokens))).is_ok() {
                assert!(number > 1, "{point:?} is never passed");
                assert_eq!(world.committed(), values(0..120));
                break;
            }
            deaths += 1;
            // Another process, perhaps on another machine: it has the tokens and the staging.
            let mut next = committer(&world, 2);
            let outcomes = next.commit(Epoch(2), &tokens).unwrap();
            assert!(is_visible(&outcomes), "{point:?} {number}: {outcomes:?}");
            next.recover(&tokens).unwrap();
            assert_eq!(world.committed(), values(0..120), "{point:?} {number}");
            let more = prepared(&world, 2, 1, 3, 120..130);
            assert_eq!(next.commit(Epoch(3), &[more]).unwrap(), [CommitOutcome::Done]);
            // The dead one thaws.
            dying.hook = None;
            let outcomes = dying.commit(Epoch(2), &tokens);
            assert!(
                matches!(outcomes.as_deref(), Ok([CommitOutcome::AlreadyDone, CommitOutcome::AlreadyDone])),
                "{point:?} {number}: {outcomes:?}"
            );
            assert_eq!(world.committed(), values(0..130), "{point:?} {number}");
        }
    }
    assert!(deaths > 12, "{deaths}");
}

/// The old process stands still in the middle of its commit; a start takes over and goes on; then the old one goes on too.
fn zombie(point: Point, take_over: impl FnOnce(&mut World, &[CommitToken]), expected: impl FnOnce(Result<Vec<CommitOutcome>>)) -> World {
    let mut world = World::new(&brokers(), 3);
    let first: Vec<_> = (0..4).map(|task| prepared(&world, 1, task, 1, 10 * task as i64..10 * (task as i64 + 1))).collect();
    let second: Vec<_> = (0..4).map(|task| prepared(&world, 1, task, 2, 40 + 10 * task as i64..40 + 10 * (task as i64 + 1))).collect();
    let mut old = committer(&world, 1);
    old.recover(&[]).unwrap();
    assert_eq!(old.commit(Epoch(1), &first).unwrap(), vec![CommitOutcome::Done; 4]);
    let (frozen, is_frozen) = mpsc::channel();
    let (thaw, is_thawed) = mpsc::channel::<()>();
    let is_thawed = std::sync::Mutex::new(is_thawed);
    if point == Point::TakenOver {
        // A process that took the id anew just before it froze.
        old.held = None;
    }
    at(&mut old, point, 1, move || {
        frozen.send(()).unwrap();
        is_thawed.lock().unwrap().recv().unwrap();
    });
    std::thread::scope(|scope| {
        let commit = scope.spawn(|| old.commit(Epoch(2), &second));
        is_frozen.recv().unwrap();
        take_over(&mut world, &second);
        thaw.send(()).unwrap();
        expected(commit.join().unwrap());
    });
    world
}

/// What a start that has taken over makes of a commit by the old process: found done, or given up.
fn writes_nothing(answer: Result<Vec<CommitOutcome>>) {
    match answer {
        Ok(outcomes) => assert!(outcomes.iter().all(|outcome| *outcome == CommitOutcome::AlreadyDone), "{outcomes:?}"),
        Err(error) => assert_eq!(error.kind(), ErrorKind::Fenced, "{error}"),
    }
}

/// P203: a commit that arrives after the next start has looked.
#[test]
#[ignore = "needs TIDEGATE_TEST_KAFKA"]
fn kafka_a_zombie_that_thaws_commits_nothing() {
    for point in [Point::TakenOver, Point::Begun, Point::Produced, Point::Marked] {
        let take_over = |world: &mut World, pending: &[CommitToken]| {
            let mut next = committer(world, 2);
            assert!(is_visible(&next.commit(Epoch(2), pending).unwrap()));
            next.recover(pending).unwrap();
            let token = prepared(world, 2, 0, 4, 80..90);
            assert_eq!(committer(world, 2).commit(Epoch(4), &[token]).unwrap(), [CommitOutcome::Done]);
        };
        let world = zombie(point, take_over, writes_nothing);
        assert_eq!(world.committed(), values(0..90), "{point:?}");
    }
}

/// What was pending is given up (`--from`), and the old process must not bring it back.
#[test]
#[ignore = "needs TIDEGATE_TEST_KAFKA"]
fn kafka_an_epoch_that_a_start_gave_up_is_not_brought_back_by_a_zombie() {
    for point in [Point::TakenOver, Point::Produced, Point::Marked] {
        let take_over = |world: &mut World, _: &[CommitToken]| committer(world, 2).recover(&[]).unwrap();
        let expected = |answer: Result<Vec<CommitOutcome>>| assert_eq!(answer.unwrap_err().kind(), ErrorKind::Fenced);
        let world = zombie(point, take_over, expected);
        assert_eq!(world.committed(), values(0..40), "{point:?}");
        assert_eq!(world.segments(), Vec::<String>::new());
    }
}

#[test]
#[ignore = "needs TIDEGATE_TEST_KAFKA"]
fn kafka_four_tasks_become_two_and_the_old_four_are_fenced() {
    let take_over = |world: &mut World, pending: &[CommitToken]| {
        let mut next = committer(world, 2);
        assert!(is_visible(&next.commit(Epoch(2), pending).unwrap()));
        next.recover(pending).unwrap();
        let tokens = [prepared(world, 2, 0, 4, 80..100), prepared(world, 2, 1, 4, 100..120)];
        let mut running = committer(world, 2);
        assert_eq!(running.commit(Epoch(4), &tokens).unwrap(), [CommitOutcome::Done, CommitOutcome::Done]);
    };
    let world = zombie(Point::Produced, take_over, writes_nothing);
    assert_eq!(world.committed(), values(0..120));
}

#[test]
#[ignore = "needs TIDEGATE_TEST_KAFKA"]
fn kafka_a_lost_state_directory_fences_the_run_that_had_it() {
    for point in [Point::TakenOver, Point::Produced, Point::Marked] {
        // Another run of the same pipeline, which knows of nothing.
        let take_over = |world: &mut World, _: &[CommitToken]| {
            let new = World { staging: Arc::new(MemoryStaging::new()), ..world.clone() };
            let mut next = committer_of(&new, "another", 1);
            next.recover(&[]).unwrap();
            let token = prepared_of(&new, "another", 1, 0, 1, 40..50);
            assert_eq!(next.commit(Epoch(1), &[token]).unwrap(), [CommitOutcome::Done]);
        };
        let expected = |answer: Result<Vec<CommitOutcome>>| {
            let error = answer.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Fenced, "{error}");
            assert!(error.to_string().contains("run `another`"), "{error}");
        };
        let world = zombie(point, take_over, expected);
        assert_eq!(world.committed(), values(0..50), "{point:?}");
    }
}

#[test]
#[ignore = "needs TIDEGATE_TEST_KAFKA"]
fn kafka_a_damaged_segment_is_lost_and_said_so() {
    let world = World::new(&brokers(), 2);
    let tokens: Vec<_> = (0..3).map(|task| prepared(&world, 1, task, 1, 60 * task as i64..60 * (task as i64 + 1))).collect();
    let key = |task: usize, number: u64| format!("run/segments/1/{task}/{number}");
    world.staging.put(&key(0, 0), b"something else").unwrap();
    world.staging.delete(&key(2, 2)).unwrap();
    let outcomes = committer(&world, 1).commit(Epoch(1), &tokens).unwrap();
    let [CommitOutcome::Lost(first), CommitOutcome::Done, CommitOutcome::Lost(third)] = outcomes.as_slice() else { panic!("{outcomes:?}") };
    assert!(first.contains(&key(0, 0)) && first.contains("damaged"), "{first}");
    assert!(third.contains(&key(2, 2)) && third.contains("is gone"), "{third}");
    let found = world.committed();
    assert!(values(60..120).iter().all(|value| found.contains(value)) && values(0..60).iter().all(|value| !found.contains(value)));
}

#[test]
#[ignore = "needs TIDEGATE_TEST_KAFKA"]
fn kafka_whatever_dies_before_the_manifest_leaves_nothing() {
    let world = World::new(&brokers(), 2);
    let named = prepared(&world, 1, 0, 1, 0..60);
    drop(prepared(&world, 1, 1, 1, 100..160));
    let (config, topics) = parts(&world);
    let writer = StagedWriter::open(&config, topics, None, world.ctx(1).with_task(2, 3)).unwrap();
    writer.with_segments_of(500).write(&rows(200..300), None).unwrap();
    let foreign = prepared_of(&world, "run2", 1, 0, 1, 300..360);
    let later = prepared(&world, 3, 0, 2, 60..70);
    let kept = segments_of(&named) + segments_of(&foreign) + segments_of(&later);
    assert!(world.segments().len() > kept);
    let mut next = committer(&world, 2);
    assert_eq!(next.commit(Epoch(1), std::slice::from_ref(&named)).unwrap(), [CommitOutcome::Done]);
    next.recover(std::slice::from_ref(&named)).unwrap();
    assert_eq!((world.segments().len(), world.committed()), (kept, values(0..60)));
    // What is committed stays until the next epoch's manifest says that it is marked.
    let mut running = committer(&world, 3);
    running.recover(&[]).unwrap();
    assert_eq!(world.segments().len(), kept - segments_of(&named));
    running.commit(Epoch(2), std::slice::from_ref(&later)).unwrap();
    let last = prepared(&world, 3, 0, 3, 70..71);
    running.commit(Epoch(3), std::slice::from_ref(&last)).unwrap();
    assert_eq!(world.segments().len(), segments_of(&foreign) + 1);
}

#[test]
#[ignore = "starts a broker by TIDEGATE_TEST_KAFKA_MORTAL"]
fn kafka_mortal_a_topic_that_is_gone_ends_the_run() {
    let _alone = alone();
    // One that does not make topics by itself.
    let broker = Mortal::start(&["auto.create.topics.enable=false"]);
    let world = World::new(&broker.brokers(), 1).with("properties", json!({ "transaction.timeout.ms": 6000 }));
    let mut running = committer(&world, 1);
    running.commit(Epoch(1), &[prepared(&world, 1, 0, 1, 0..10)]).unwrap();
    let token = prepared(&world, 1, 0, 2, 10..20);
    delete_topic(&world.brokers, &world.topic);
    let error = running.commit(Epoch(2), &[token]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Config, "{error}");
    assert!(error.to_string().contains("does not exist"), "{error}");
    assert!(world.segments().len() >= 2, "the rows stay staged");
    // Nor does a row, or an option, that names a topic which is not there.
    let open = |topic: &str, column: Option<&str>| {
        let mut world =
            World { topic: topic.to_string(), ..world.clone() }.with("topic", json!(topic)).with("delivery", json!("at-least-once"));
        if let Some(column) = column {
            world = world.with("topicColumn", json!(column));
        }
        world.sink().open(world.ctx(1))
    };
    let error = open("no-such", None).err().unwrap();
    assert!(error.kind() == ErrorKind::Config && error.to_string().contains("`no-such` of `"), "{error}");
    let there = unused("there");
    make_topic(&world.brokers, &there, 1, &[]);
    let Ok(tidegate_api::AnySink::AtLeastOnce(mut writer)) = open(&there, Some("s")) else { panic!("it does not open") };
    let s = arrow::array::StringViewArray::from(vec![Some("no-such"), None, Some(there.as_str())]);
    let n = arrow::array::Int64Array::from(vec![1, 2, 3]);
    let batch = arrow::array::RecordBatch::try_new(cluster::schema(), vec![Arc::new(n), Arc::new(s)]).unwrap();
    let bad = writer.write(&batch, None).unwrap().bad;
    assert!(bad.len() == 1 && bad[0].row == 0 && bad[0].message.contains("topic `no-such` does not exist"), "{bad:?}");
}

#[test]
#[ignore = "needs TIDEGATE_TEST_KAFKA"]
fn kafka_a_mark_moves_with_the_topic() {
    let brokers = brokers();
    let old = World::new(&brokers, 2);
    let first = prepared(&old, 1, 0, 1, 0..10);
    committer(&old, 1).commit(Epoch(1), std::slice::from_ref(&first)).unwrap();
    let topic = unused("moved");
    make_topic(&brokers, &topic, 2, &[]);
    let new = World { topic: topic.clone(), ..old.clone() }.with("topic", json!(topic));
    // Recovery asks both configurations, and then only the new one goes on.
    committer(&old, 2).recover(&[]).unwrap();
    let mut moved = committer(&new, 2);
    moved.recover(&[]).unwrap();
    let second = prepared(&new, 2, 0, 3, 10..20);
    moved.commit(Epoch(3), std::slice::from_ref(&second)).unwrap();
    assert_eq!(committer(&new, 2).commit(Epoch(1), &[first]).unwrap(), [CommitOutcome::AlreadyDone]);
    assert_eq!((old.committed(), new.committed()), (values(0..10), values(10..20)));
}

#[test]
#[ignore = "needs TIDEGATE_TEST_KAFKA"]
fn kafka_a_group_that_others_commit_to_is_not_overwritten() {
    use rdkafka::consumer::{BaseConsumer, CommitMode, Consumer as _};
    let world = World::new(&brokers(), 1);
    let group = Names::of(&world.ctx(1).run).id;
    let mut offsets = rdkafka::TopicPartitionList::new();
    offsets.add_partition_offset(&world.topic, 0, rdkafka::Offset::Offset(7)).unwrap();
    let mut config = rdkafka::config::ClientConfig::new();
    let consumer: BaseConsumer = config.set("bootstrap.servers", &world.brokers).set("group.id", &group).create().unwrap();
    consumer.commit(&offsets, CommitMode::Sync).unwrap();
    let error = committer(&world, 1).commit(Epoch(1), &[prepared(&world, 1, 0, 1, 0..1)]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Config);
    assert!(error.to_string().contains(&group), "{error}");
}

#[test]
#[ignore = "starts a broker by TIDEGATE_TEST_KAFKA_MORTAL"]
fn kafka_mortal_p195_a_broker_killed_in_the_middle_of_a_commit() {
    let _alone = alone();
    for point in [Point::TakenOver, Point::Begun, Point::Produced, Point::Marked, Point::Committed] {
        let broker = Arc::new(std::sync::Mutex::new(Mortal::start(&[])));
        let world = World::new(&Mortal::endpoint(), 2);
        let mut running = committer(&world, 1);
        running.commit(Epoch(1), &[prepared(&world, 1, 0, 1, 0..60)]).unwrap();
        if point == Point::TakenOver {
            running.held = None;
        }
        let tokens = [prepared(&world, 1, 0, 2, 60..120), prepared(&world, 1, 1, 2, 120..180)];
        let mortal = Arc::clone(&broker);
        at(&mut running, point, 1, move || mortal.lock().unwrap().again());
        // As the epoch machine does: what failed outside is called again.
        let outcomes = (0..5).find_map(|_| match running.commit(Epoch(2), &tokens) {
            Ok(outcomes) => Some(outcomes),
            Err(error) => {
                assert!(matches!(error.kind(), ErrorKind::External { .. }), "{point:?}: {error}");
                None
            }
        });
        assert!(is_visible(&outcomes.unwrap()), "{point:?}");
        assert_eq!(world.committed(), values(0..180), "{point:?}");
    }
}

#[test]
#[ignore = "starts a broker by TIDEGATE_TEST_KAFKA_MORTAL"]
fn kafka_mortal_a_frozen_broker_delays_and_loses_nothing() {
    let _alone = alone();
    for point in [Point::Begun, Point::Produced, Point::Marked] {
        let broker = Arc::new(std::sync::Mutex::new(Mortal::start(&[])));
        // Longer than the transaction may last, so that the broker has given it up when it wakes.
        let world = World::new(&Mortal::endpoint(), 2).with("properties", json!({ "transaction.timeout.ms": 4000 }));
        let mut running = committer(&world, 1);
        running.commit(Epoch(1), &[prepared(&world, 1, 0, 1, 0..60)]).unwrap();
        let tokens = [prepared(&world, 1, 0, 2, 60..120)];
        let mortal = Arc::clone(&broker);
        at(&mut running, point, 1, move || {
            mortal.lock().unwrap().freeze();
            let mortal = Arc::clone(&mortal);
            #[allow(clippy::disallowed_methods, reason = "the broker is to be asleep while the commit goes on")]
            std::thread::spawn(move || {
                std::thread::sleep(Duration::from_secs(9));
                mortal.lock().unwrap().thaw();
            });
        });
        let outcomes = (0..5).find_map(|_| running.commit(Epoch(2), &tokens).ok());
        assert!(is_visible(&outcomes.unwrap()), "{point:?}");
        assert_eq!(world.committed(), values(0..120), "{point:?}");
    }
}

/// P196: the broker is away between the records and the commit, for longer than records are tried.
#[test]
#[ignore = "starts a broker by TIDEGATE_TEST_KAFKA_MORTAL"]
fn kafka_mortal_p196_a_commit_without_its_rows_fails() {
    let _alone = alone();
    let mut broker = Mortal::start(&[]);
    let properties = json!({ "delivery.timeout.ms": 1500, "transaction.timeout.ms": 10_000 });
    let world = World::new(&broker.brokers(), 2).with("properties", properties);
    let (config, topics) = parts(&world);
    let names = Names::of(&world.ctx(1).run);
    let marks = Marks::open(&config, &names.id).unwrap();
    let patience = Patience::new(Arc::new(tidegate_api::SystemClock), Duration::from_secs(30));
    let session = Session::begin(topics.producer().unwrap(), &config, &names.id, &patience).unwrap();
    let mark = Mark { run: "run".into(), generation: 1, progress: Progress::default() };
    let token = prepared(&world, 1, 0, 1, 0..60);
    let segment = world.staging.get(&serde_json::from_slice::<Token>(&token.0).unwrap().segments[0].key).unwrap().unwrap();
    session.transact(&[], (&marks, &world.topic), &mark, &patience, &|_| {}).unwrap();
    broker.freeze();
    let trouble = session.transact(&[segment], (&marks, &world.topic), &mark, &patience, &|_| {}).unwrap_err();
    assert!(matches!(&trouble, Trouble::Again(_)), "{trouble:?}");
    broker.thaw();
    session.give_up();
    assert_eq!(world.committed(), Vec::<String>::new());
    assert_eq!(committer(&world, 1).commit(Epoch(1), &[token]).unwrap(), [CommitOutcome::Done]);
    assert_eq!(world.committed(), values(0..60));
}

const FORGETFUL: &[&str] = &["offsets.retention.minutes=1", "offsets.retention.check.interval.ms=1000"];

/// Waits until the broker has forgotten the mark.
fn forgotten(world: &World) {
    let (config, _) = parts(world);
    let marks = Marks::open(&config, &Names::of(&world.ctx(1).run).id).unwrap();
    for _ in 0..300 {
        if marks.read(&world.topic, Duration::from_secs(10)).unwrap() == super::super::mark::Found::None {
            return;
        }
        pause(Duration::from_millis(500));
    }
    panic!("the broker never forgets the mark");
}

/// P204: a mark that the broker has forgotten.
#[test]
#[ignore = "starts a broker by TIDEGATE_TEST_KAFKA_MORTAL"]
fn kafka_mortal_a_mark_that_expired_stops_the_commit_of_pending_rows() {
    let _alone = alone();
    let broker = Mortal::start(FORGETFUL);
    let (pending, at_rest) = (World::new(&broker.brokers(), 1), World::new(&broker.brokers(), 1));
    for world in [&pending, &at_rest] {
        committer(world, 1).commit(Epoch(1), &[prepared(world, 1, 0, 1, 0..10)]).unwrap();
    }
    let token = prepared(&pending, 1, 0, 2, 10..20);
    // It was committed, and the process died before the engine noted that.
    committer(&pending, 1).commit(Epoch(2), std::slice::from_ref(&token)).unwrap();
    forgotten(&pending);
    forgotten(&at_rest);
    let keep = std::slice::from_ref(&token);
    for error in [committer(&pending, 2).commit(Epoch(2), keep).unwrap_err(), committer(&pending, 2).recover(keep).unwrap_err()] {
        assert_eq!(error.kind(), ErrorKind::Config, "{error}");
        assert!(error.to_string().contains("offsets.retention.minutes"), "{error}");
    }
    assert_eq!(pending.committed(), values(0..20));
    // A rest longer than the retention is no harm where nothing is pending.
    let mut next = committer(&at_rest, 2);
    next.recover(&[]).unwrap();
    next.commit(Epoch(3), &[prepared(&at_rest, 2, 0, 3, 10..20)]).unwrap();
    assert_eq!(at_rest.committed(), values(0..20));
}

#[test]
#[ignore = "starts a broker by TIDEGATE_TEST_KAFKA_MORTAL"]
fn kafka_mortal_a_sink_without_rows_keeps_its_mark_alive() {
    let _alone = alone();
    let broker = Mortal::start(FORGETFUL);
    let world = World::new(&broker.brokers(), 1);
    let clock = Arc::new(ManualClock::at(EventTime(0)));
    let (config, topics) = parts(&world);
    let open = |task| {
        StagedWriter::open(
            &config,
            Arc::clone(&topics),
            None,
            world.ctx(1).with_task(task, 2).with_clock(Arc::clone(&clock) as Arc<dyn Clock>),
        )
        .unwrap()
    };
    let (mut first, mut second) = (open(0), open(1));
    let mut running = committer(&world, 1);
    first.write(&rows(0..5), None).unwrap();
    running.commit(Epoch(1), &[token(&mut first, 1)]).unwrap();
    for epoch in 2..20 {
        clock.advance(Duration::from_secs(10));
        pause(Duration::from_secs(5));
        assert_eq!(second.pre_commit(Epoch(epoch)).unwrap(), PreCommit::Nothing);
        match first.pre_commit(Epoch(epoch)).unwrap() {
            PreCommit::Token(token) => {
                assert_eq!(segments_of(&token), 0);
                assert_eq!(running.commit(Epoch(epoch), &[token]).unwrap(), [CommitOutcome::Done]);
            }
            other => assert_eq!(other, PreCommit::Nothing),
        }
    }
    // A new process finds it, a minute and a half after the last row.
    let token = prepared(&world, 1, 0, 20, 5..10);
    assert_eq!(committer(&world, 1).commit(Epoch(20), &[token]).unwrap(), [CommitOutcome::Done]);
    assert_eq!(world.committed(), values(0..10));
}

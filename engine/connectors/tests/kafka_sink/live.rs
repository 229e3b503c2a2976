//! At-least-once.

use super::cluster::{World, brokers, make_topic, read, rows, unused, values};
use arrow::array::{ArrayRef, Int32Array, Int64Array, RecordBatch, StringViewArray, UInt8Array};
use arrow::datatypes::{DataType, Field, Schema};
use serde_json::json;
use std::sync::Arc;
use std::time::Duration;
use tidegate_api::sink::Acknowledged;
use tidegate_api::{ChangeMode, Counter, Epoch, ErrorKind, Flushed, OutsideMeters, Sink, SinkCtx, hidden};

/// Flushes and waits for the answer.
fn flush(writer: &mut dyn Sink, ctx: &SinkCtx, epoch: u64) -> tidegate_api::Result<()> {
    if writer.flush(Epoch(epoch))? == Flushed::Done {
        return Ok(());
    }
    for _ in 0..3000 {
        if let Some(Acknowledged { epoch: answered, answer }) = ctx.acker.take().into_iter().next() {
            assert_eq!(answered, Epoch(epoch));
            return answer.map(|_| ());
        }
        std::thread::park_timeout(Duration::from_millis(20));
    }
    panic!("the barrier of epoch {epoch} is never answered");
}

#[test]
#[ignore = "needs TIDEGATE_TEST_KAFKA"]
fn kafka_rows_are_there_when_the_barrier_is_answered() {
    let world = World::new(&brokers(), 3).with("delivery", json!("at-least-once"));
    let emitted = Counter::new();
    let meters = OutsideMeters::default();
    let ctx = world.ctx(1).with_emitted(emitted.clone()).with_meters(meters.clone());
    let mut writer = world.live_in(ctx.clone());
    flush(writer.as_mut(), &ctx, 1).unwrap();
    for epoch in 2..5_i64 {
        writer.write(&rows((epoch - 2) * 1000..(epoch - 1) * 1000), None).unwrap();
        flush(writer.as_mut(), &ctx, epoch as u64).unwrap();
        assert_eq!(world.committed(), values(0..(epoch - 1) * 1000));
    }
    assert_eq!(emitted.get(), 3000);
    assert!(meters.bytes.get() > 3000, "{}", meters.bytes.get());
}

#[test]
#[ignore = "needs TIDEGATE_TEST_KAFKA"]
fn kafka_key_headers_partition_and_topic_are_the_rows() {
    let brokers = brokers();
    let other = unused("other");
    make_topic(&brokers, &other, 2, &[]);
    let world = World::new(&brokers, 4)
        .with("delivery", json!("at-least-once"))
        .with("keyColumns", json!(["k"]))
        .with("headerColumns", json!(["h"]))
        .with("partitionColumn", json!("p"))
        .with("topicColumn", json!("where"));
    let columns: Vec<(&str, ArrayRef)> = vec![
        ("k", Arc::new(StringViewArray::from(vec![Some("a"), None, Some("b"), Some("c")]))),
        ("h", Arc::new(StringViewArray::from(vec![Some("x"), None, Some(""), None]))),
        ("p", Arc::new(Int32Array::from(vec![Some(3), Some(1), Some(1), Some(9)]))),
        ("where", Arc::new(StringViewArray::from(vec![None, None, Some(other.as_str()), None]))),
        ("v", Arc::new(Int64Array::from(vec![1, 2, 3, 4]))),
    ];
    let fields: Vec<_> = columns.iter().map(|(name, column)| Field::new(*name, column.data_type().clone(), true)).collect();
    let rows = RecordBatch::try_new(Arc::new(Schema::new(fields)), columns.into_iter().map(|(_, column)| column).collect()).unwrap();
    let mut ctx = world.ctx(1);
    ctx.schema = rows.schema();
    let mut writer = world.live_in(ctx.clone());
    let bad = writer.write(&rows, None).unwrap().bad;
    assert_eq!(bad.len(), 1);
    assert!(bad[0].row == 3 && bad[0].message.contains("has 4 partitions and none of number 9"), "{bad:?}");
    flush(writer.as_mut(), &ctx, 1).unwrap();
    let found = read(&brokers, &world.topic, "read_committed");
    let shown: Vec<_> =
        found.iter().map(|read| (read.partition, read.key.as_deref(), read.value.as_deref().unwrap(), &read.headers[..])).collect();
    assert!(shown.contains(&(3, Some("a"), r#"{"k":"a","v":1}"#, &[("h".to_string(), Some("x".to_string()))])), "{shown:?}");
    assert!(shown.contains(&(1, None, r#"{"k":null,"v":2}"#, &[("h".to_string(), None)])), "{shown:?}");
    let found = read(&brokers, &other, "read_committed");
    assert_eq!((found.len(), found[0].partition, found[0].headers[0].1.as_deref()), (1, 1, Some("")));
}

#[test]
#[ignore = "needs TIDEGATE_TEST_KAFKA"]
fn kafka_a_deletion_is_a_tombstone_in_the_partition_of_its_row() {
    let world = World::new(&brokers(), 4).with("delivery", json!("at-least-once"));
    let schema = Schema::new(vec![Field::new("id", DataType::Int64, false), Field::new("v", DataType::Int64, false), hidden::op_field()]);
    let rows = |op: u8| {
        let ids = || Arc::new(Int64Array::from_iter_values(0..40));
        let ops = UInt8Array::from_iter_values(std::iter::repeat_n(op, 40));
        RecordBatch::try_new(Arc::new(schema.clone()), vec![ids(), ids(), Arc::new(ops)]).unwrap()
    };
    let mut ctx = world.ctx(1).with_mode(ChangeMode::Upsert { keys: vec!["id".into()] });
    ctx.schema = Arc::new(schema.project(&[0, 1]).unwrap());
    let mut writer = world.live_in(ctx.clone());
    writer.write(&rows(hidden::UPSERT), None).unwrap();
    writer.write(&rows(hidden::DELETE), None).unwrap();
    flush(writer.as_mut(), &ctx, 1).unwrap();
    let found = read(&world.brokers, &world.topic, "read_committed");
    assert_eq!(found.len(), 80);
    for id in 0..40 {
        let key = format!(r#"{{"id":{id}}}"#);
        let of_key: Vec<_> = found.iter().filter(|read| read.key.as_deref() == Some(&key)).collect();
        let values: Vec<_> = of_key.iter().map(|read| read.value.is_some()).collect();
        assert_eq!((values, of_key[0].partition), (vec![true, false], of_key[1].partition), "row, then tombstone, in one partition");
    }
    let partitions: std::collections::BTreeSet<_> = found.iter().map(|read| read.partition).collect();
    assert!(partitions.len() > 1);
}

#[test]
#[ignore = "needs TIDEGATE_TEST_KAFKA"]
fn kafka_a_record_larger_than_the_topic_takes_is_refused_before_the_barrier() {
    let brokers = brokers();
    let mut world = World::new(&brokers, 1).with("delivery", json!("at-least-once"));
    let small = unused("small");
    make_topic(&brokers, &small, 1, &[("max.message.bytes", "2000")]);
    world.topic.clone_from(&small);
    world = world.with("topic", json!(small));
    let ctx = world.ctx(1);
    let mut writer = world.live_in(ctx.clone());
    // Many small rows fill batches of the client that the topic takes too.
    assert_eq!(writer.write(&rows(0..1000), None).unwrap().bad, []);
    let large = |length: usize| {
        let s: ArrayRef = Arc::new(StringViewArray::from(vec!["x".repeat(length)]));
        RecordBatch::try_new(super::cluster::schema(), vec![Arc::new(Int64Array::from(vec![1])), s]).unwrap()
    };
    let mut refused = 0;
    for length in 1700..2100 {
        refused += writer.write(&large(length), None).unwrap().bad.len();
    }
    assert!((100..300).contains(&refused), "{refused}");
    flush(writer.as_mut(), &ctx, 1).unwrap();
    assert_eq!(world.committed().len(), 1000 + 400 - refused, "what was not refused has arrived");
}

#[test]
#[ignore = "needs TIDEGATE_TEST_KAFKA"]
fn kafka_a_broker_that_is_not_there_is_an_error_that_names_it() {
    let mut world = World::new(&brokers(), 1).with("delivery", json!("at-least-once"));
    world = world.with("brokers", json!("127.0.0.1:1"));
    let error = world.sink().open(world.ctx(1)).err().unwrap();
    assert!(matches!(error.kind(), ErrorKind::External { .. }), "{error}");
    assert!(error.to_string().contains("127.0.0.1:1"), "{error}");
}

#[test]
#[ignore = "needs TIDEGATE_TEST_KAFKA"]
fn kafka_a_timeout_above_the_brokers_is_refused_at_open() {
    let world = World::new(&brokers(), 1).with("properties", json!({ "transaction.timeout.ms": 3_600_000 }));
    let error = world.sink().open(world.ctx(1)).err().unwrap();
    assert_eq!(error.kind(), ErrorKind::Config);
    assert!(error.to_string().contains("`transaction.max.timeout.ms`"), "{error}");
}

/// Rows for as long as the broker is slow: the producer is full, and says so before it takes anything.
#[test]
#[ignore = "needs TIDEGATE_TEST_KAFKA"]
fn kafka_a_full_producer_is_backpressure_and_loses_nothing() {
    let world = World::new(&brokers(), 2).with("delivery", json!("at-least-once"));
    let ctx = world.ctx(1);
    let mut writer = world.live_in(ctx.clone());
    let wide = {
        let s: ArrayRef = Arc::new(StringViewArray::from_iter_values((0..2000).map(|n| format!("{n:01000}"))));
        RecordBatch::try_new(super::cluster::schema(), vec![Arc::new(Int64Array::from_iter_values(0..2000)), s]).unwrap()
    };
    let (mut taken, mut full) = (0, 0);
    while taken < 60 {
        match writer.write(&wide, None) {
            Ok(written) => {
                assert_eq!(written.bad, []);
                taken += 1;
            }
            Err(error) => {
                assert!(matches!(error.kind(), ErrorKind::External { retry: tidegate_api::Retry::After(_) }), "{error}");
                full += 1;
                assert!(full < 1000);
            }
        }
    }
    flush(writer.as_mut(), &ctx, 1).unwrap();
    assert_eq!(read(&world.brokers, &world.topic, "read_committed").len(), 120_000);
}

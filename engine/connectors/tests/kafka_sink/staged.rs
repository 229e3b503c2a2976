//! Exactly-once, from outside: what the conformance kit finds, and what a reader sees.

use super::cluster::{World, brokers, make_topic, read, rows, schema, token, unused, values};
use arrow::array::{Int64Array, RecordBatch, StringViewArray};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use tidegate_api::testkit::MemoryStaging;
use tidegate_api::{
    AnySink, CommitOutcome, Committer, Counter, Epoch, OutputSink, OutsideMeters, PreCommit, Result, SinkCtx, SinkInput, SinkPlan, Staging,
};
use tidegate_conformance::sink::{SinkWorld, sink_contract_in_parts};

#[test]
#[ignore = "needs TIDEGATE_TEST_KAFKA"]
fn kafka_an_epoch_is_visible_with_its_commit_and_not_before() {
    let world = World::new(&brokers(), 3);
    let (emitted, meters) = (Counter::new(), OutsideMeters::default());
    let mut writer = world.writer_in(world.ctx(1).with_emitted(emitted.clone()).with_meters(meters.clone()));
    let mut committer = world.committer(1);
    committer.recover(&[]).unwrap();
    for epoch in 1..5_i64 {
        assert_eq!(writer.write(&rows((epoch - 1) * 500..epoch * 500), None).unwrap().bad, []);
        let token = token(writer.as_mut(), epoch as u64);
        assert_eq!(
            read(&world.brokers, &world.topic, "read_uncommitted").len() as i64,
            (epoch - 1) * 500,
            "nothing is even sent before the commit"
        );
        assert_eq!(committer.commit(Epoch(epoch as u64), std::slice::from_ref(&token)).unwrap(), [CommitOutcome::Done]);
        assert_eq!(world.committed(), values(0..epoch * 500));
        assert_eq!(committer.commit(Epoch(epoch as u64), &[token]).unwrap(), [CommitOutcome::AlreadyDone]);
    }
    assert_eq!(writer.pre_commit(Epoch(5)).unwrap(), PreCommit::Nothing);
    assert_eq!(emitted.get(), 2000);
    assert!(meters.bytes.get() > 2000, "{}", meters.bytes.get());
}

/// More than a segment and more than a transaction.
#[test]
#[ignore = "needs TIDEGATE_TEST_KAFKA"]
fn kafka_an_epoch_larger_than_a_transaction_is_committed_in_parts() {
    let world = World::new(&brokers(), 2).with("keyColumns", json!(["n"]));
    let mut writer = world.writer_in(world.ctx(1));
    for start in 0..60 {
        let numbers = start * 1000..(start + 1) * 1000;
        let s = StringViewArray::from_iter_values(numbers.clone().map(|n| format!("{n:01000}")));
        let batch = RecordBatch::try_new(schema(), vec![Arc::new(Int64Array::from_iter_values(numbers)), Arc::new(s)]).unwrap();
        assert_eq!(writer.write(&batch, None).unwrap().bad, []);
    }
    assert!(world.segments().len() >= 6, "segments are staged while the epoch goes on: {}", world.segments().len());
    let token = token(writer.as_mut(), 1);
    assert_eq!(world.committer(1).commit(Epoch(1), &[token]).unwrap(), [CommitOutcome::Done]);
    let found = read(&world.brokers, &world.topic, "read_committed");
    let mut of_partition: BTreeMap<i32, Vec<i64>> = BTreeMap::new();
    for read in &found {
        let key: Value = serde_json::from_str(read.key.as_deref().unwrap()).unwrap();
        of_partition.entry(read.partition).or_default().push(key["n"].as_i64().unwrap());
    }
    assert_eq!((found.len(), of_partition.len()), (60_000, 2));
    assert!(of_partition.values().all(|numbers| numbers.is_sorted()), "rows of a partition keep their order");
}

/// Gives every sink of every run of a world its staging, as an engine does.
struct Staged {
    inner: Arc<dyn OutputSink>,
    stores: Arc<Mutex<BTreeMap<String, Arc<MemoryStaging>>>>,
}

impl Staged {
    fn staged(&self, ctx: SinkCtx) -> SinkCtx {
        let store = Arc::clone(self.stores.lock().unwrap().entry(ctx.run.operator.clone()).or_default());
        ctx.with_staging(store as Arc<dyn Staging>)
    }
}

impl OutputSink for Staged {
    fn plan(&self, input: &SinkInput) -> Result<SinkPlan> {
        self.inner.plan(input)
    }

    fn open(&self, ctx: SinkCtx) -> Result<AnySink> {
        self.inner.open(self.staged(ctx))
    }

    fn committer(&self, ctx: SinkCtx) -> Result<Box<dyn Committer>> {
        self.inner.committer(self.staged(ctx))
    }
}

#[test]
#[ignore = "needs TIDEGATE_TEST_KAFKA"]
fn kafka_the_conformance_kit_finds_it_exactly_once() {
    let brokers = brokers();
    // In parts: it waits for brokers most of the time.
    sink_contract_in_parts(&schema(), &[rows(0..5), rows(5..8)], 8, || {
        let topic = unused("kit");
        make_topic(&brokers, &topic, 2, &[]);
        let options = json!({ "brokers": brokers, "topic": topic });
        let stores = Arc::default();
        let sink = move || -> Arc<dyn OutputSink> {
            let inner =
                tidegate_connectors::sink("kafka", options.as_object().unwrap(), &tidegate_connectors::ConnectorCtx::new(".", "out"))
                    .unwrap();
            Arc::new(Staged { inner, stores: Arc::clone(&stores) })
        };
        let brokers = brokers.clone();
        let visible = move || {
            let found = read(&brokers, &topic, "read_committed");
            let values: Vec<Value> = found.iter().map(|read| serde_json::from_str(read.value.as_deref().unwrap()).unwrap()).collect();
            let n = Int64Array::from_iter_values(values.iter().map(|value| value["n"].as_i64().unwrap()));
            let s = StringViewArray::from_iter_values(values.iter().map(|value| value["s"].as_str().unwrap()));
            vec![RecordBatch::try_new(schema(), vec![Arc::new(n), Arc::new(s)]).unwrap()]
        };
        // Segments stay until the engine's commit mark, of which the kit knows nothing, so it cannot count what is hidden.
        SinkWorld { hidden: None, ..SinkWorld::new(sink, visible, || 0) }
    });
}

//! The conformance kit, the same scripts that other connectors and components pass.

use crate::support::{World, record, rows};
use serde_json::json;
use std::time::Duration;
use tidegate_api::SourceRequest;
use tidegate_conformance::Rule;
use tidegate_conformance::source::{SourceOptions, SourceWorld, judge};

#[test]
#[ignore = "needs a broker"]
fn kafka_passes_the_conformance_kit() {
    let world = World::real();
    let topic = world.topic("judged", 3);
    for round in 0..4 {
        let at = round * 20;
        world.transact(&topic, (round % 2) as i32, &rows(at..at + 20), round != 2);
        world.send(&topic, (round % 2) as i32, &[record("nonsense"), record(format!("{{\"n\":{}}}", 1000 + round))]);
    }
    let (ours, name) = (world.clone(), topic.clone());
    let options = json!({ "end": "latest", "meta": ["key", "offset", "timestamp"] });
    let bounded = SourceWorld::new(move || Ok(ours.source(&name, options.clone())));
    let settings = SourceOptions::default().with_request(SourceRequest::all().with_ordinals(true)).with_wait(Duration::from_millis(20));
    let judgement = judge(&bounded, &settings);
    judgement.expect_passed();
    for rule in
        [Rule::ReplaySame, Rule::AnyTasks, Rule::AnyPoll, Rule::PositionSkips, Rule::PositionRepeats, Rule::KilledAnywhere, Rule::Pruning]
    {
        assert!(judgement.kept.contains(&rule), "`{rule}` was not judged");
    }

    // Without an end, and with partitions that appear.
    let (ours, name) = (world.clone(), topic.clone());
    let (grows, grown) = (world.clone(), topic.clone());
    let unbounded = SourceWorld::new(move || Ok(ours.source(&name, json!({})))).with_more(move || {
        grows.grow(&grown, 5);
        grows.send(&grown, 4, &rows(500..510));
        Ok(())
    });
    let settings = SourceOptions::default().with_wait(Duration::from_millis(20)).with_positions(8);
    let judgement = judge(&unbounded, &settings);
    judgement.expect_passed();
    assert!(judgement.kept.contains(&Rule::NewSplits), "new partitions were not judged");
}

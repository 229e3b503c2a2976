//! A process that was frozen finds, once it is thawed, that another has taken over.

use crate::broker::shared;
use crate::cluster::Cluster;
use crate::pipeline::{Pipeline, as_json, closing};
use tidegate_tests::flights::Flights;

/// Frozen with rows that are staged, rows that a manifest promises, and in the middle of making them visible.
const POINTS: [&str; 5] = ["prepare", "before-manifest", "after-manifest", "mid-commit", "before-mark"];

#[test]
#[ignore = "needs a Kafka broker: `cargo xtask services up kafka`, and TIDEGATE_TEST_KAFKA"]
fn kafka_a_zombie_commits_nothing() {
    let cluster = Cluster::new(shared());
    let flights = Flights::week();
    let rows = as_json(&flights.text);
    for point in POINTS {
        let pipeline = Pipeline::hourly(&cluster, 4);
        let rows = rows.iter().enumerate().map(|(number, row)| ((number % 4) as i32, row.as_str()));
        cluster.produce(&pipeline.input, rows.chain((0..4).map(|partition| (partition, closing()))));
        let mut first = pipeline.start(4, &[&format!("--freeze-at={point}:1")]);
        first.wait_for("paused at").unwrap_or_else(|said| panic!("{point}: {said}"));
        first.wait_until_frozen();
        let mut second = pipeline.start(2, &[]);
        pipeline.wait_for_rows(&cluster, flights.hourly.len(), &mut second);
        let before = cluster.committed(&pipeline.output);

        first.thaw();
        let (status, said) = first.end();
        assert_eq!(status.code(), Some(75), "frozen at {point}, thawed after another start took over: {status}\n{said}");
        pipeline.wait_for_epochs(&mut second);
        second.stop();
        assert_eq!(cluster.committed(&pipeline.output), before, "frozen at {point}: it has written after its fence");
        pipeline.check_hourly(&cluster, &flights.hourly);
    }
}

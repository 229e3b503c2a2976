//! Topics change under a pipeline: partitions are added, a topic is deleted and made again.

use crate::broker::shared;
use crate::cluster::Cluster;
use crate::pipeline::{Pipeline, numbered};

#[test]
#[ignore = "needs a Kafka broker: `cargo xtask services up kafka`, and TIDEGATE_TEST_KAFKA"]
fn kafka_partitions_added_while_running_are_read_from_their_start() {
    let cluster = Cluster::new(shared());
    let pipeline = Pipeline::numbers(&cluster, 1);
    let first = numbered(0..100);
    cluster.produce(&pipeline.input, first.iter().map(|row| (0, row.as_str())));
    // Rows that are there are left out, those of a partition that comes later never are.
    let latest = "start = \"latest\"";
    let mut run = pipeline.start_reading(2, latest, &[]);
    pipeline.wait_for_epochs(&mut run);
    cluster.widen(&pipeline.input, 3);
    let added = numbered(100..300);
    cluster.produce(&pipeline.input, added.iter().enumerate().map(|(number, row)| ((number % 3) as i32, row.as_str())));
    pipeline.wait_for_rows(&cluster, 200, &mut run);
    run.kill();
    // The next start knows of them.
    let more = numbered(300..360);
    cluster.produce(&pipeline.input, more.iter().enumerate().map(|(number, row)| ((number % 3) as i32, row.as_str())));
    let mut run = pipeline.start_reading(3, latest, &[]);
    pipeline.wait_for_rows(&cluster, 260, &mut run);
    run.stop();
    assert_eq!(pipeline.numbers_of(&cluster), (100..360).collect::<Vec<_>>());
}

#[test]
#[ignore = "needs a Kafka broker: `cargo xtask services up kafka`, and TIDEGATE_TEST_KAFKA"]
fn kafka_a_topic_deleted_and_made_again_is_an_error_that_says_so() {
    let cluster = Cluster::new(shared());
    let rows = numbered(0..50);
    // Under the pipeline, and while it rests: with fewer rows than before, and with more.
    for (while_running, again) in [(true, 10), (false, 10), (false, 500)] {
        let pipeline = Pipeline::numbers(&cluster, 2);
        cluster.produce(&pipeline.input, rows.iter().enumerate().map(|(number, row)| ((number % 2) as i32, row.as_str())));
        let mut run = pipeline.start(2, &[]);
        pipeline.wait_for_rows(&cluster, 50, &mut run);
        let resting = if while_running {
            Some(run)
        } else {
            run.stop();
            None
        };
        cluster.delete(&pipeline.input);
        cluster.make_again(&pipeline.input, 2);
        let others = numbered(1000..1000 + again);
        cluster.produce(&pipeline.input, others.iter().enumerate().map(|(number, row)| ((number % 2) as i32, row.as_str())));
        let (status, said) = resting.unwrap_or_else(|| pipeline.start(2, &[])).end();
        let place = format!("running {while_running}, {again} rows: {status}\n{said}");
        assert!(!status.success(), "{place}");
        assert!(said.contains("failed:") && said.contains(&pipeline.input) && said.contains("made again"), "{place}");
        assert_eq!(pipeline.numbers_of(&cluster), (0..50).collect::<Vec<_>>(), "nothing of the other topic passes for this one");
    }
}

//! The example: three files in turn, as its README says.

use crate::broker::shared;
use crate::cluster::Cluster;
use crate::pipeline::check_hourly;
use serde_json::Value;
use std::path::Path;
use std::process::Command;
use tidegate_tests::flights::Flights;
use tidegate_tests::{command, root};

/// Runs a file of the example with topics and a name that no other test has; what it printed.
fn run(file: &str, folder: &Path, [flights, hourly]: [&str; 2]) -> String {
    let example = root().join("examples/kafka").join(file);
    let text = std::fs::read_to_string(&example).unwrap();
    let data = format!("path = \"{}/examples/flights/", root().display());
    let text = text.replace("path = \"../flights/", &data).replace("name = \"hourly-flights\"", &format!("name = {hourly:?}"));
    let text = text.replace("name = \"load-flights\"", &format!("name = {flights:?}"));
    let text =
        text.replace("topic = \"flights\"", &format!("topic = {flights:?}")).replace("topic = \"hourly\"", &format!("topic = {hourly:?}"));
    std::fs::write(folder.join(file), text).unwrap();
    let output = Command::new(command()).arg("run").arg(folder.join(file)).env("KAFKA", shared()).output().unwrap();
    assert!(output.status.success(), "{file}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

#[test]
#[ignore = "needs a Kafka broker: `cargo xtask services up kafka`, and TIDEGATE_TEST_KAFKA"]
fn kafka_the_example_does_what_its_readme_says() {
    let cluster = Cluster::new(shared());
    let topics = [cluster.topic("flights", 4), cluster.topic("hourly", 4)];
    let topics = [topics[0].as_str(), topics[1].as_str()];
    let folder = tempfile::tempdir().unwrap();
    run("load.toml", folder.path(), topics);
    assert_eq!(cluster.committed(topics[0]).len(), 6099);
    run("hourly.toml", folder.path(), topics);
    check_hourly(&cluster, topics[1], &Flights::week().hourly);
    let shown = run("show.toml", folder.path(), topics);
    let rows: Vec<Value> = shown.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert!(!rows.is_empty() && rows.iter().all(|row| row["delay_max"].as_i64() >= Some(240)), "{shown}");
}

//! TLS and SASL against a listener that wants both, and what is shown of secrets: nothing.

use crate::broker::{secure, shared};
use crate::cluster::Cluster;
use crate::pipeline::{Pipeline, numbered};
use serde_json::Value;
use std::path::Path;
use std::process::{Command, Output};
use tidegate_tests::command;

/// The variable that holds the password.
const PASSWORD: &str = "KAFKA_PASSWORD";

/// The keys that both datasets reach the secure listener by.
fn reached(listener: &Value, mechanism: &str, user: &str) -> String {
    let text = |key: &str| listener[key].as_str().unwrap();
    let who = match mechanism {
        "OAUTHBEARER" => String::new(),
        _ => format!("\"sasl.username\" = {user:?}\n\"sasl.password\" = \"${{{PASSWORD}}}\"\n"),
    };
    let token = if mechanism == "OAUTHBEARER" { format!("oauthTokenFile = {:?}\n", text("token")) } else { String::new() };
    let properties =
        format!("\"security.protocol\" = \"SASL_SSL\"\n\"ssl.ca.location\" = {:?}\n\"sasl.mechanism\" = {mechanism:?}\n{who}", text("ca"));
    let properties: Vec<&str> = properties.lines().collect();
    format!("brokers = {:?}\n{token}properties = {{ {} }}", text("endpoint"), properties.join(", "))
}

fn pipeline(cluster: &Cluster, mechanism: &str, user: &str) -> Pipeline {
    let listener = secure();
    let mut pipeline = Pipeline::numbers(cluster, 2).reached_by(reached(&listener, mechanism, user));
    pipeline.variables = vec![(PASSWORD, listener["password"].as_str().unwrap().to_string())];
    pipeline
}

/// The verb that does not run anything, with the same variables.
fn tidegate(pipeline: &Pipeline, arguments: &[&str]) -> Output {
    let variables = pipeline.variables.iter().map(|(name, value)| (*name, value));
    Command::new(command()).args(arguments).envs(variables).output().unwrap()
}

/// Every file below a folder that holds `text`.
fn holding(folder: &Path, text: &str) -> Vec<String> {
    let mut found = Vec::new();
    for path in std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
        if path.is_dir() {
            found.extend(holding(&path, text));
        } else if String::from_utf8_lossy(&std::fs::read(&path).unwrap()).contains(text) {
            found.push(path.display().to_string());
        }
    }
    found
}

#[test]
#[ignore = "needs a Kafka broker: `cargo xtask services up kafka`, and TIDEGATE_TEST_KAFKA_SECURE"]
fn kafka_every_mechanism_reads_and_writes_exactly_once() {
    let cluster = Cluster::new(shared());
    let rows = numbered(0..200);
    for mechanism in ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER"] {
        let pipeline = pipeline(&cluster, mechanism, "tidegate");
        cluster.produce(&pipeline.input, rows.iter().enumerate().map(|(number, row)| ((number % 2) as i32, row.as_str())));
        pipeline.start_reading(2, "end = \"latest\"", &[]).succeed();
        assert_eq!(pipeline.numbers_of(&cluster), (0..200).collect::<Vec<_>>(), "{mechanism}");
    }
}

#[test]
#[ignore = "needs a Kafka broker: `cargo xtask services up kafka`, and TIDEGATE_TEST_KAFKA_SECURE"]
fn kafka_secrets_are_in_no_output_no_log_and_no_state() {
    let cluster = Cluster::new(shared());
    let rows = numbered(0..200);
    let mut pipeline = pipeline(&cluster, "SCRAM-SHA-512", "tidegate");
    let password = pipeline.variables[0].1.clone();
    // Everything that anybody says, librdkafka's own account of its configuration and its conversation included.
    pipeline.variables.push(("TIDEGATE_LOG", "debug".to_string()));
    let pipeline = pipeline.reached_also("\"debug\" = \"all\"");
    cluster.produce(&pipeline.input, rows.iter().map(|row| (0, row.as_str())));
    let said = pipeline.start_reading(2, "end = \"latest\"", &[]).succeed();
    assert!(said.contains("sasl.password") && said.contains("SASL"), "it logs what librdkafka says: {said}");
    assert!(!said.contains(&password), "{said}");
    assert_eq!(holding(&pipeline.state(), &password), Vec::<String>::new());
    // By name it is there: that is how a sink of an older configuration is reached again.
    assert_ne!(holding(&pipeline.state(), &format!("${{{PASSWORD}}}")), Vec::<String>::new());
    let file = pipeline.write(2, "").display().to_string();
    for verb in
        [vec!["plan", &file, "--explain"], vec!["validate", &file], vec!["inspect", &file], vec!["inspect", &file, "--format", "json"]]
    {
        let output = tidegate(&pipeline, &verb);
        assert!(output.status.success(), "{verb:?}: {}", String::from_utf8_lossy(&output.stderr));
        for text in [output.stdout, output.stderr] {
            assert!(!String::from_utf8_lossy(&text).contains(&password), "{verb:?}");
        }
    }
}

#[test]
#[ignore = "needs a Kafka broker: `cargo xtask services up kafka`, and TIDEGATE_TEST_KAFKA_SECURE"]
fn kafka_whoever_is_refused_is_told_why_without_the_secret() {
    let cluster = Cluster::new(shared());
    let mut wrong = pipeline(&cluster, "PLAIN", "tidegate");
    wrong.variables[0].1 = "ebb-and-autumn".to_string();
    let strange = pipeline(&cluster, "SCRAM-SHA-256", "stranger");
    for (refused, secret, words) in [(wrong, "ebb-and-autumn", "authentication"), (strange, "neap-and-spring", "authoriz")] {
        let (status, said) = refused.start(1, &[]).end();
        assert_eq!(status.code(), Some(78), "{status}\n{said}");
        assert!(said.to_lowercase().contains(words), "{words}: {said}");
        assert!(!said.contains(secret), "{said}");
    }
}

#[test]
#[ignore = "needs a Kafka broker: `cargo xtask services up kafka`, and TIDEGATE_TEST_KAFKA_SECURE"]
fn kafka_a_certificate_of_another_authority_is_refused() {
    let cluster = Cluster::new(shared());
    let pipeline = pipeline(&cluster, "PLAIN", "tidegate");
    let listener = secure();
    let trusting_nobody =
        reached(&listener, "PLAIN", "tidegate").replace(&format!("\"ssl.ca.location\" = {:?}, ", listener["ca"].as_str().unwrap()), "");
    let pipeline = pipeline.reached_by(trusting_nobody);
    let (status, said) = pipeline.start(1, &[]).end();
    assert!(!status.success(), "{status}\n{said}");
    assert!(said.contains("certificate"), "{said}");
}

#[test]
fn a_literal_password_is_refused_at_its_line_and_not_repeated() {
    let text = r#"
[datasets.rows]
connector = "kafka"
brokers = "127.0.0.1:1"
topic = "t"
format = "json"
schema = [{ name = "n", type = "int64" }]
[datasets.rows.properties]
"sasl.username" = "me"
"sasl.password" = "plainly-there"
[datasets.told]
sink = "blackhole"
[[stages]]
inputs = ["rows"]
output = "told"
steps = []
"#;
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("p.toml");
    for (written, variable) in
        [("plainly-there", None), ("${KAFKA_PASSWORD:-plainly-there}", None), ("x${KAFKA_PASSWORD}", Some("plainly-there"))]
    {
        std::fs::write(&file, text.replace("plainly-there", written)).unwrap();
        let mut validate = Command::new(command());
        validate.args(["validate", "p.toml"]).current_dir(folder.path()).env_remove(PASSWORD);
        let output = validate.envs(variable.map(|value| (PASSWORD, value))).output().unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(78), "{written}: {said}");
        assert!(said.contains("p.toml:10: datasets.rows.properties.sasl.password: `sasl.password` is a secret"), "{written}: {said}");
        assert!(!said.contains("plainly-there"), "{said}");
    }
}

//! Apache Kafka in KRaft mode: one node that is broker and controller, from the jars of Maven Central.
//!
//! It has two listeners. The plain one asks nobody who he is, and whoever comes through it may do everything. The secure one speaks TLS
//! with a certificate of an authority made for it, and knows two users by every mechanism: one who may do everything, and a stranger
//! who may do nothing.

mod certificate;

use super::install::installed;
use super::recipe::{Recipe, free_ports};
use crate::process::{answers, run, run_quietly};
use crate::system;
use anyhow::{Context, Result, bail, ensure};
use serde_json::json;
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

const VERSION: &str = "4.1.2";

/// The oldest Java that runs it.
const JAVA: u32 = 17;

/// Who may do everything, and who may do nothing; both have the same password.
const USER: &str = "tidegate";
const STRANGER: &str = "stranger";
const PASSWORD: &str = "neap-and-spring";

/// Sixteen bytes in base64url, as Kafka wants them.
const CLUSTER: &str = "dGlkZWdhdGUtYnJva2VyMQ";

/// A JSON Web Token without signature that speaks for the user until the year 2100: `{"alg":"none"}`,
/// `{"sub":"tidegate","iat":1700000000,"exp":4102444800}`.
const TOKEN: &str = "eyJhbGciOiJub25lIn0.eyJzdWIiOiJ0aWRlZ2F0ZSIsImlhdCI6MTcwMDAwMDAwMCwiZXhwIjo0MTAyNDQ0ODAwfQ.";

/// The variables by which tests find it: `host:port`, and for the secure listener a JSON object of `endpoint`, `ca`, `username`,
/// `password`, `stranger` and `token` (a file).
pub(crate) const VARIABLE: &str = "TIDEGATE_TEST_KAFKA";
pub(crate) const SECURE: &str = "TIDEGATE_TEST_KAFKA_SECURE";

/// A broker over `folder`, on `wanted` and the next port if those are free.
///
/// # Errors
/// If it can be neither found nor installed, or does not format its disk.
pub(crate) fn over(folder: &Path, wanted: u16) -> Result<Recipe> {
    let classes = install()?.join("lib").join("*").display().to_string();
    let ports = free_ports(&[wanted, if wanted == 0 { 0 } else { wanted + 1 }, 0])?;
    let [plain, secure, controller] = ports[..] else { bail!("as many ports as were asked for") };
    let (ca, keystore) = certificate::of_this_machine(folder)?;
    let token = folder.join("token");
    std::fs::write(&token, TOKEN).with_context(|| format!("cannot write `{}`", token.display()))?;
    let settings = folder.join("server.properties");
    let data = folder.join("data");
    std::fs::write(&settings, properties([plain, secure, controller], &data, &keystore))
        .with_context(|| format!("cannot write `{}`", settings.display()))?;
    let java = |class: &str| -> Vec<String> {
        let mut arguments: Vec<String> = VIRTUAL_MACHINE.iter().map(|option| (*option).to_string()).collect();
        arguments.extend(["-cp".to_string(), classes.clone(), class.to_string()]);
        arguments
    };
    format(folder, &data, Command::new("java").args(java("kafka.tools.StorageTool")), &settings)?;
    let mut arguments = java("kafka.Kafka");
    arguments.push(settings.display().to_string());
    let told = json!({
        "endpoint": format!("127.0.0.1:{secure}"), "ca": ca, "username": USER, "password": PASSWORD, "stranger": STRANGER, "token": token,
    });
    let endpoint = format!("127.0.0.1:{plain}");
    Ok(Recipe {
        what: "the Kafka broker",
        program: "java".into(),
        arguments,
        environment: Vec::new(),
        log: folder.join("server.log"),
        ready: "Kafka Server started",
        port: plain,
        told: [(VARIABLE.to_string(), endpoint.clone()), (SECURE.to_string(), told.to_string())].into(),
        endpoint,
    })
}

/// For tests: up soon, and small, as several may run beside a build.
const VIRTUAL_MACHINE: &[&str] = &[
    "-Xmx384m",
    "-XX:+UseSerialGC",
    "-XX:TieredStopAtLevel=1",
    "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
    "-Dorg.slf4j.simpleLogger.log.kafka.server.KafkaRaftServer=info",
];

/// Everything a broker must be told: first what makes it one node alone, then what lets tests wait for nothing, then who may what.
fn properties([plain, secure, controller]: [u16; 3], data: &Path, keystore: &Path) -> String {
    let login = "org.apache.kafka.common.security";
    let mut text = format!(
        "process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:{controller}
listeners=PLAIN://127.0.0.1:{plain},SECURE://127.0.0.1:{secure},CONTROLLER://127.0.0.1:{controller}
advertised.listeners=PLAIN://127.0.0.1:{plain},SECURE://127.0.0.1:{secure}
listener.security.protocol.map=PLAIN:PLAINTEXT,SECURE:SASL_SSL,CONTROLLER:PLAINTEXT
controller.listener.names=CONTROLLER
inter.broker.listener.name=PLAIN
log.dirs={}
default.replication.factor=1
offsets.topic.replication.factor=1
offsets.topic.num.partitions=4
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
transaction.state.log.num.partitions=4
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1
log.index.size.max.bytes=1048576
log.cleaner.dedupe.buffer.size=8388608
auto.create.topics.enable=false
group.initial.rebalance.delay.ms=0
transaction.abort.timed.out.transaction.cleanup.interval.ms=1000
broker.heartbeat.interval.ms=500
broker.session.timeout.ms=3000
log.cleaner.backoff.ms=500
ssl.keystore.type=PEM
ssl.keystore.location={}
authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer
super.users=User:ANONYMOUS;User:{USER}
listener.name.secure.sasl.enabled.mechanisms=PLAIN,SCRAM-SHA-256,SCRAM-SHA-512,OAUTHBEARER
listener.name.secure.plain.sasl.jaas.config={login}.plain.PlainLoginModule required user_{USER}=\"{PASSWORD}\" user_{STRANGER}=\"{PASSWORD}\";
listener.name.secure.oauthbearer.sasl.jaas.config={login}.oauthbearer.OAuthBearerLoginModule required unsecuredLoginStringClaim_sub=\"{USER}\";
",
        data.display(),
        keystore.display()
    );
    for mechanism in ["256", "512"] {
        let key = format!("listener.name.secure.scram-sha-{mechanism}.sasl.jaas.config");
        let _ = writeln!(text, "{key}={login}.scram.ScramLoginModule required;");
    }
    text
}

/// Formats the disk, unless that was done: with the passwords, which SCRAM wants to be there from the beginning.
fn format(folder: &Path, data: &Path, tool: &mut Command, settings: &Path) -> Result<()> {
    let done = folder.join("formatted");
    if done.exists() {
        return Ok(());
    }
    if data.exists() {
        std::fs::remove_dir_all(data).with_context(|| format!("cannot remove `{}`, which is half formatted", data.display()))?;
    }
    tool.args(["format", "-t", CLUSTER, "-c"]).arg(settings);
    for (user, mechanism) in [USER, STRANGER].into_iter().flat_map(|user| [(user, "256"), (user, "512")]) {
        tool.arg("--add-scram").arg(format!("SCRAM-SHA-{mechanism}=[name={user},password={PASSWORD}]"));
    }
    run_quietly(tool).context("the disk of the Kafka broker cannot be formatted")?;
    std::fs::write(&done, "").with_context(|| format!("cannot write `{}`", done.display()))
}

/// The folder of its jars; they are brought from Maven Central into the cache if they are not there.
fn install() -> Result<PathBuf> {
    if java_version().is_none_or(|version| version < JAVA) {
        system::install(&["default-jre-headless"])?;
        let found = java_version().context("`java` does not say its version")?;
        ensure!(found >= JAVA, "Kafka {VERSION} needs Java {JAVA} or newer, `java` is {found}");
    }
    installed(&format!("kafka-{VERSION}"), &format!("lib/kafka_2.13-{VERSION}.jar"), |fresh| {
        if !answers("mvn", "--version") {
            system::install(&["maven"])?;
        }
        let project = fresh.join("pom.xml");
        std::fs::write(&project, pom()).context("cannot write the list of jars")?;
        let mut maven = Command::new("mvn");
        maven.args(["--quiet", "--batch-mode", "--file"]).arg(&project);
        maven.arg("org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy-dependencies");
        maven.arg(format!("-DoutputDirectory={}", fresh.join("lib").display())).arg("-DincludeScope=runtime");
        run(&mut maven).with_context(|| format!("Kafka {VERSION} cannot be brought from Maven Central; this needs a network once"))
    })
}

/// What Maven copies: the broker, its tools, and what writes its log to the standard output.
fn pom() -> String {
    let jars = [
        ("org.apache.kafka", "kafka_2.13", VERSION),
        ("org.apache.kafka", "kafka-tools", VERSION),
        ("org.slf4j", "slf4j-simple", "1.7.36"),
    ];
    let mut text = "<project xmlns=\"http://maven.apache.org/POM/4.0.0\"><modelVersion>4.0.0</modelVersion>\
        <groupId>tidegate</groupId><artifactId>broker</artifactId><version>1</version><packaging>pom</packaging><dependencies>\n"
        .to_string();
    for (group, name, version) in jars {
        let _ = writeln!(
            text,
            "<dependency><groupId>{group}</groupId><artifactId>{name}</artifactId><version>{version}</version></dependency>"
        );
    }
    text + "</dependencies></project>\n"
}

/// The version of `java`: the first number of it.
fn java_version() -> Option<u32> {
    let output = Command::new("java").arg("--version").output().ok().filter(|output| output.status.success())?;
    parse_version(&String::from_utf8_lossy(&output.stdout))
}

/// Of `openjdk 17.0.15 2025-04-15`, 17.
fn parse_version(said: &str) -> Option<u32> {
    said.split_whitespace().nth(1)?.split(['.', '-', '+']).next()?.parse().ok()
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test may end by panicking")]
mod tests {
    use super::*;

    #[test]
    fn the_version_of_java_is_its_first_number() {
        assert_eq!(parse_version("openjdk 17.0.15 2025-04-15\nOpenJDK Runtime Environment"), Some(17));
        assert_eq!(parse_version("java 21-ea 2023-09-19"), Some(21));
        assert_eq!(parse_version("no java here"), None);
        assert_eq!(parse_version(""), None);
    }

    #[test]
    fn no_property_is_told_twice_and_every_listener_has_its_port() {
        let text = properties([1, 2, 3], Path::new("/data"), Path::new("/keys.pem"));
        let mut keys: Vec<&str> = text.lines().map(|line| line.split_once('=').unwrap().0).collect();
        let all = keys.len();
        keys.sort_unstable();
        keys.dedup();
        assert_eq!(keys.len(), all);
        assert!(text.contains("\nlisteners=PLAIN://127.0.0.1:1,SECURE://127.0.0.1:2,CONTROLLER://127.0.0.1:3\n"));
    }
}

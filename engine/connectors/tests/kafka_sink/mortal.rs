//! A broker of the tests' own, to be killed, frozen and configured.
//!
//! `TIDEGATE_TEST_KAFKA_MORTAL` is JSON: `endpoint`, `program`, `arguments`, `log`. Settings of a test are appended as `--override NAME=VALUE`.

use rdkafka::config::ClientConfig;
use rdkafka::consumer::{BaseConsumer, Consumer as _};
use serde_json::Value;
use std::fs::OpenOptions;
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// One at a time: they share endpoint and data.
static ALONE: Mutex<()> = Mutex::new(());

pub(crate) struct Mortal {
    child: Child,
    settings: Vec<String>,
}

/// Whoever holds this has the broker for itself.
pub(crate) fn alone() -> MutexGuard<'static, ()> {
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

fn how() -> Value {
    let how = std::env::var("TIDEGATE_TEST_KAFKA_MORTAL").unwrap_or_else(|_| {
        panic!("set TIDEGATE_TEST_KAFKA_MORTAL={{\"endpoint\":…,\"program\":…,\"arguments\":[…],\"log\":…}} to a broker that these tests may start and kill")
    });
    serde_json::from_str(&how).unwrap()
}

impl Mortal {
    pub(crate) fn start(settings: &[&str]) -> Self {
        let settings: Vec<String> = settings.iter().flat_map(|setting| ["--override".to_string(), (*setting).to_string()]).collect();
        Mortal { child: spawn(&settings), settings }
    }

    pub(crate) fn endpoint() -> String {
        how()["endpoint"].as_str().unwrap().to_string()
    }

    pub(crate) fn brokers(&self) -> String {
        Self::endpoint()
    }

    /// SIGKILL, and once more from what is on disk.
    pub(crate) fn again(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
        self.child = spawn(&self.settings);
    }

    /// SIGSTOP: connections stay, and nothing answers.
    pub(crate) fn freeze(&mut self) {
        self.signal("STOP");
    }

    pub(crate) fn thaw(&mut self) {
        self.signal("CONT");
    }

    fn signal(&self, name: &str) {
        assert!(Command::new("kill").args(["-s", name, &self.child.id().to_string()]).status().unwrap().success());
    }
}

impl Drop for Mortal {
    fn drop(&mut self) {
        // This also ends one that is frozen.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Starts it and waits until it answers.
fn spawn(settings: &[String]) -> Child {
    let how = how();
    let log = OpenOptions::new().create(true).append(true).open(how["log"].as_str().unwrap()).unwrap();
    let arguments = how["arguments"].as_array().unwrap().iter().map(|argument| argument.as_str().unwrap());
    let mut command = Command::new(how["program"].as_str().unwrap());
    command.args(arguments).args(settings).stdin(Stdio::null()).stdout(log.try_clone().unwrap()).stderr(log);
    let mut child = command.spawn().unwrap();
    let probe: BaseConsumer = ClientConfig::new().set("bootstrap.servers", how["endpoint"].as_str().unwrap()).create().unwrap();
    for _ in 0..60 {
        if probe.fetch_metadata(None, Duration::from_secs(2)).is_ok() {
            return child;
        }
    }
    let _ = child.kill();
    let _ = child.wait();
    panic!("the broker does not answer; see {}", how["log"]);
}

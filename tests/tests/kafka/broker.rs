//! The brokers of the tests: the one that all share, its secure listener, and one that is killed.

use serde_json::Value;
use std::fs::{self, File};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use tidegate_tests::process::wait_until;

/// `host:port` of the plain listener.
pub(crate) fn shared() -> String {
    std::env::var("TIDEGATE_TEST_KAFKA").expect("TIDEGATE_TEST_KAFKA names no broker; `cargo xtask services up kafka` starts one")
}

/// What is told of the secure listener.
pub(crate) fn secure() -> Value {
    let told = std::env::var("TIDEGATE_TEST_KAFKA_SECURE")
        .expect("TIDEGATE_TEST_KAFKA_SECURE tells of no listener; `cargo xtask services up kafka` starts one");
    serde_json::from_str(&told).unwrap()
}

/// There is one place where it listens and keeps its data, so one test at a time has it.
static TURN: Mutex<()> = Mutex::new(());

/// A broker to be killed and started again over what it has on disk. `TIDEGATE_TEST_KAFKA_MORTAL` says how.
pub(crate) struct Mortal {
    pub(crate) endpoint: String,
    how: Value,
    child: Option<Child>,
    _turn: MutexGuard<'static, ()>,
}

impl Mortal {
    pub(crate) fn start() -> Mortal {
        let turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
        let how = std::env::var("TIDEGATE_TEST_KAFKA_MORTAL")
            .expect("TIDEGATE_TEST_KAFKA_MORTAL does not say how a broker is started; `cargo xtask test` does");
        let how: Value = serde_json::from_str(&how).unwrap();
        let mut broker = Mortal { endpoint: how["endpoint"].as_str().unwrap().to_string(), how, child: None, _turn: turn };
        broker.restart();
        broker
    }

    /// SIGKILL.
    pub(crate) fn kill(&mut self) {
        let mut child = self.child.take().unwrap();
        child.kill().unwrap();
        child.wait().unwrap();
    }

    /// Starts it again, and waits until it serves.
    pub(crate) fn restart(&mut self) {
        let text = |key: &str| self.how[key].as_str().unwrap();
        let (log, ready) = (text("log"), text("ready"));
        let output = File::create(log).unwrap();
        let arguments = self.how["arguments"].as_array().unwrap().iter().map(|argument| argument.as_str().unwrap());
        let mut command = Command::new(text("program"));
        command.args(arguments).stdin(Stdio::null()).stdout(output.try_clone().unwrap()).stderr(output);
        self.child = Some(command.spawn().unwrap());
        let is_up = || fs::read_to_string(log).unwrap().contains(ready) && TcpStream::connect(&self.endpoint).is_ok();
        wait_until(is_up, "the broker does not come up");
    }

    /// SIGSTOP: connections stay, and nothing answers.
    pub(crate) fn freeze(&self) {
        self.signal("STOP");
    }

    /// SIGCONT.
    pub(crate) fn thaw(&self) {
        self.signal("CONT");
    }

    fn signal(&self, name: &str) {
        let process = self.child.as_ref().unwrap().id().to_string();
        assert!(Command::new("kill").args(["-s", name, &process]).status().unwrap().success(), "kill -s {name}");
    }
}

impl Drop for Mortal {
    fn drop(&mut self) {
        if let Some(child) = &mut self.child {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

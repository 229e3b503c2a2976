//! One start of a pipeline: watched by what it says, killed, frozen and thawed.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc;
use std::time::Duration;
use tidegate_tests::command;

/// What is not there by then will not come.
const PATIENCE: Duration = Duration::from_secs(180);

pub(crate) struct Run {
    child: Child,
    said: mpsc::Receiver<String>,
    heard: Vec<String>,
}

impl Run {
    pub(crate) fn start(file: &Path, arguments: &[String]) -> Run {
        let mut run = Command::new(command());
        let mut child = run.arg("run").arg(file).args(arguments).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        let stderr = child.stderr.take().unwrap();
        let (tell, said) = mpsc::channel();
        #[allow(clippy::disallowed_methods, reason = "a pipe must be drained beside the process")]
        std::thread::spawn(move || {
            for line in BufReader::new(stderr).lines().map_while(Result::ok) {
                if tell.send(line).is_err() {
                    return;
                }
            }
        });
        Run { child, said, heard: Vec::new() }
    }

    /// Waits for a line that holds `text`; all lines so far if the process ends before.
    pub(crate) fn wait_for(&mut self, text: &str) -> Result<String, String> {
        loop {
            match self.said.recv_timeout(PATIENCE) {
                Ok(line) => {
                    self.heard.push(line.clone());
                    if line.contains(text) {
                        return Ok(line);
                    }
                }
                Err(error) => return Err(format!("`{text}` was never said ({error}):\n{}", self.heard.join("\n"))),
            }
        }
    }

    /// Whether it has ended by itself.
    pub(crate) fn has_ended(&mut self) -> bool {
        self.child.try_wait().unwrap().is_some()
    }

    /// SIGKILL.
    pub(crate) fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Waits for its end; its status, and everything it has said.
    pub(crate) fn end(mut self) -> (ExitStatus, String) {
        loop {
            match self.said.recv_timeout(PATIENCE) {
                Ok(line) => self.heard.push(line),
                Err(mpsc::RecvTimeoutError::Disconnected) => break,
                Err(mpsc::RecvTimeoutError::Timeout) => panic!("it does not end:\n{}", self.heard.join("\n")),
            }
        }
        (self.child.wait().unwrap(), self.heard.join("\n"))
    }

    pub(crate) fn succeed(self) -> String {
        let (status, said) = self.end();
        assert!(status.success(), "{status}:\n{said}");
        said
    }

    /// Waits until it has frozen itself.
    pub(crate) fn wait_until_frozen(&self) {
        wait_until(|| self.state() == 'T', "it does not freeze");
    }

    /// SIGSTOP, wherever it is.
    pub(crate) fn freeze(&self) {
        self.signal("STOP");
        self.wait_until_frozen();
    }

    /// SIGCONT.
    pub(crate) fn thaw(&self) {
        self.signal("CONT");
    }

    fn signal(&self, name: &str) {
        let status = Command::new("kill").args(["-s", name, &self.child.id().to_string()]).status().unwrap();
        assert!(status.success(), "kill -s {name}: {status}");
    }

    fn state(&self) -> char {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.child.id())).unwrap();
        stat.rsplit_once(')').unwrap().1.trim_start().chars().next().unwrap()
    }
}

pub(crate) fn wait_until(mut is_so: impl FnMut() -> bool, otherwise: &str) {
    let step = Duration::from_millis(2);
    let mut waited = Duration::ZERO;
    while !is_so() {
        assert!(waited < PATIENCE, "{otherwise}");
        pause(step);
        waited += step;
    }
}

/// Waits for another process, which no clock of ours can hurry.
#[allow(clippy::disallowed_methods, reason = "the process watched has its own clock")]
pub(crate) fn pause(time: Duration) {
    std::thread::sleep(time);
}

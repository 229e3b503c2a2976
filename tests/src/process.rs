//! One start of a pipeline: watched by what it says, killed, frozen and thawed.

#![allow(clippy::unwrap_used, reason = "only tests call this")]

use crate::command;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc;
use std::time::Duration;

/// What is not there by then will not come.
const PATIENCE: Duration = Duration::from_secs(180);

/// A process that runs a pipeline.
pub struct Run {
    child: Child,
    said: mpsc::Receiver<String>,
    heard: Vec<String>,
}

impl Run {
    /// Starts it with further arguments.
    ///
    /// # Panics
    /// If the command cannot be started.
    pub fn start(file: &Path, arguments: &[String]) -> Run {
        Run::start_with(file, arguments, &[])
    }

    /// Starts it with further arguments and variables of the environment.
    ///
    /// # Panics
    /// If the command cannot be started.
    pub fn start_with(file: &Path, arguments: &[String], variables: &[(&str, String)]) -> Run {
        let mut run = Command::new(command());
        run.arg("run").arg(file).args(arguments).envs(variables.iter().map(|(name, value)| (*name, value)));
        let mut child = run.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
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

    /// Waits for a line that holds `text`.
    ///
    /// # Errors
    /// All lines so far, if the process ends before.
    pub fn wait_for(&mut self, text: &str) -> Result<String, String> {
        self.wait_for_within(text, PATIENCE)
    }

    /// The same, for so long after each line.
    ///
    /// # Errors
    /// All lines so far, if it does not come.
    pub fn wait_for_within(&mut self, text: &str, patience: Duration) -> Result<String, String> {
        loop {
            match self.said.recv_timeout(patience) {
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
    ///
    /// # Panics
    /// If the system does not say.
    pub fn has_ended(&mut self) -> bool {
        self.child.try_wait().unwrap().is_some()
    }

    /// SIGKILL.
    ///
    /// # Panics
    /// If it has been waited for already.
    pub fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Waits for its end; its status, and everything it has said.
    ///
    /// # Panics
    /// If it does not end.
    pub fn end(mut self) -> (ExitStatus, String) {
        loop {
            match self.said.recv_timeout(PATIENCE) {
                Ok(line) => self.heard.push(line),
                Err(mpsc::RecvTimeoutError::Disconnected) => break,
                Err(mpsc::RecvTimeoutError::Timeout) => panic!("it does not end:\n{}", self.heard.join("\n")),
            }
        }
        (self.child.wait().unwrap(), self.heard.join("\n"))
    }

    /// Waits for its end; everything it has said.
    ///
    /// # Panics
    /// If it does not end well.
    pub fn succeed(self) -> String {
        let (status, said) = self.end();
        assert!(status.success(), "{status}:\n{said}");
        said
    }

    /// Waits until it has frozen itself.
    ///
    /// # Panics
    /// If it does not.
    pub fn wait_until_frozen(&self) {
        wait_until(|| self.state() == 'T', "it does not freeze");
    }

    /// SIGSTOP, wherever it is.
    ///
    /// # Panics
    /// If it has ended.
    pub fn freeze(&self) {
        self.signal("STOP");
        self.wait_until_frozen();
    }

    /// SIGCONT.
    ///
    /// # Panics
    /// If it has ended.
    pub fn thaw(&self) {
        self.signal("CONT");
    }

    /// SIGTERM, and its end; everything it has said.
    ///
    /// # Panics
    /// If it does not end well.
    pub fn stop(self) -> String {
        self.signal("TERM");
        self.succeed()
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

/// A test that fails leaves nothing behind.
impl Drop for Run {
    fn drop(&mut self) {
        // It has ended, or ends now.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Waits until something is so.
///
/// # Panics
/// With `otherwise` if that takes too long.
pub fn wait_until(mut is_so: impl FnMut() -> bool, otherwise: &str) {
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
pub fn pause(time: Duration) {
    std::thread::sleep(time);
}

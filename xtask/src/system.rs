//! What a machine must have before anything is built.

use crate::process::{answers, run, succeeds};
use anyhow::{Result, bail};
use std::process::Command;

/// Something of the system, known by a command that succeeds where it is there, and the Debian package that brings it.
struct Need {
    program: &'static str,
    arguments: &'static [&'static str],
    package: &'static str,
}

/// Everything beside Rust that a build calls. C code is compiled for compression libraries; librdkafka is configured by `make`, with a
/// C++ compiler that it insists on, and linked with the system's OpenSSL.
const NEEDS: &[Need] = &[
    Need { program: "cc", arguments: &["--version"], package: "gcc" },
    Need { program: "c++", arguments: &["--version"], package: "g++" },
    Need { program: "make", arguments: &["--version"], package: "make" },
    Need { program: "git", arguments: &["--version"], package: "git" },
    Need { program: "pkg-config", arguments: &["--version"], package: "pkg-config" },
    Need { program: "pkg-config", arguments: &["--exists", "openssl"], package: "libssl-dev" },
];

/// Checks every need, installing what is missing as root.
///
/// # Errors
/// The one `apt-get install` line, for everybody else.
pub(crate) fn check() -> Result<()> {
    let is_there = |need: &Need| succeeds(need.program, need.arguments) || (need.package == "libssl-dev" && openssl_is_named());
    let missing: Vec<&str> = NEEDS.iter().filter(|need| !is_there(need)).map(|need| need.package).collect();
    if missing.is_empty() { Ok(()) } else { install(&missing) }
}

/// Whether somebody says where an OpenSSL is that `pkg-config` does not know.
fn openssl_is_named() -> bool {
    std::env::var_os("OPENSSL_DIR").is_some() || std::env::var_os("OPENSSL_LIB_DIR").is_some()
}

/// Installs Debian packages, if this user may.
pub(crate) fn install(packages: &[&str]) -> Result<()> {
    if !answers("apt-get", "--version") {
        bail!("missing: {}; install what your system calls so with its package manager", packages.join(", "));
    }
    if !is_root() {
        bail!("missing: {}; run\n  sudo apt-get install -y --no-install-recommends {}", packages.join(", "), packages.join(" "));
    }
    run(Command::new("apt-get").args(["-qq", "update"]))?;
    run(Command::new("apt-get").args(["install", "-y", "-qq", "--no-install-recommends"]).args(packages))
}

pub(crate) fn is_root() -> bool {
    Command::new("id").arg("-u").output().is_ok_and(|output| output.stdout.trim_ascii() == b"0")
}

//! `cargo xtask test`: what CI runs. `cargo xtask chaos`: the crash test at length.

use crate::process::{build_commands, cargo, guest_target, run};
use crate::services::Service;
use crate::services::recipe::{Mortal, Private};
use crate::{guests, system};
use anyhow::{Result, bail};
use std::collections::BTreeMap;
use std::path::Path;

pub(crate) fn run_all(root: &Path) -> Result<()> {
    system::check()?;
    run(cargo(root).args(["fmt", "--all", "--check"]))?;
    guests::build(root, &guest_target(root))?;
    // The command is what the end-to-end tests run, so it is built before them, with the tests' own profile.
    build_commands(root)?;
    run(cargo(root).args(["test", "--workspace"]))?;
    let untested = on_servers(root)?;
    guests::test(root, &guest_target(root))?;
    run(cargo(root).args(["clippy", "--workspace", "--all-targets", "--quiet", "--", "-D", "warnings"]))?;
    run(cargo(root).args(["doc", "--workspace", "--no-deps", "--quiet"]).env("RUSTDOCFLAGS", "-D warnings"))?;
    if let Some(untested) = untested {
        bail!("every other check passed, but {untested}");
    }
    eprintln!("all checks passed");
    Ok(())
}

/// The tests that need a real server. Answers what could not be tested on this machine, and why: that is no pass.
fn on_servers(root: &Path) -> Result<Option<String>> {
    let mut command = cargo(root);
    command.args(["test", "--workspace", "--tests", "--", "--ignored"]);
    let (mut servers, mut untested) = (Vec::new(), Vec::new());
    for service in Service::TESTED {
        match Servers::start(service) {
            Ok(server) => {
                command.arg(format!("{}_", service.name())).envs(server.told());
                servers.push(server);
            }
            Err(error) => untested.push(format!("what needs `{}` was NOT tested, for want of a server: {error:#}", service.name())),
        }
    }
    if !servers.is_empty() {
        run(&mut command)?;
    }
    Ok((!untested.is_empty()).then(|| untested.join("\n")))
}

/// What the tests of one service need: a server that runs, and one that they kill, if there are tests that do.
struct Servers {
    runs: Private,
    mortal: Option<(&'static str, Mortal)>,
}

impl Servers {
    fn start(service: Service) -> Result<Self> {
        let mortal = match mortal_variable(service) {
            Some(variable) => Some((variable, mortal(service)?)),
            None => None,
        };
        Ok(Servers { runs: Private::start(|folder| service.over(folder, 0))?, mortal })
    }

    /// The environment variables by which tests find them.
    fn told(&self) -> BTreeMap<String, String> {
        let mut told = self.runs.running.told.clone();
        told.extend(self.mortal.iter().map(|(variable, mortal)| ((*variable).to_string(), mortal.told())));
        told
    }
}

/// The variable by which tests learn how to start a server that they kill.
fn mortal_variable(service: Service) -> Option<&'static str> {
    match service {
        Service::S3 => Some("TIDEGATE_TEST_S3_MORTAL"),
        Service::Kafka => Some("TIDEGATE_TEST_KAFKA_MORTAL"),
        Service::Postgres => None,
    }
}

fn mortal(service: Service) -> Result<Mortal> {
    Mortal::new(|folder| service.over(folder, 0))
}

pub(crate) fn chaos(root: &Path, kills: u32) -> Result<()> {
    system::check()?;
    guests::build(root, &guest_target(root))?;
    build_commands(root)?;
    for (service, test, filter) in
        [(Service::S3, "chaos", &["--include-ignored"][..]), (Service::Kafka, "kafka", &["--ignored", "kafka_mortal_"])]
    {
        let mut command = cargo(root);
        // One after the other: what is measured against a clock of its own must not wait for the other.
        command.args(["test", "--package", "tidegate-tests", "--test", test, "--", "--nocapture", "--test-threads=1"]).args(filter);
        let mortal = mortal(service)?;
        command.env("TIDEGATE_CHAOS_KILLS", kills.to_string());
        command.envs(mortal_variable(service).map(|variable| (variable, mortal.told())));
        run(&mut command)?;
    }
    Ok(())
}

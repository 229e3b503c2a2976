//! `cargo xtask services up|down`: servers to test against, on this machine, without containers.
//!
//! A server is installed once into the cache of this user and started on loopback. `up` starts it unless the one it started before
//! still runs; `down` ends exactly that one, known by the number and the start of its process, and no other.

mod install;
pub(crate) mod kafka;
pub(crate) mod postgres;
pub(crate) mod recipe;
mod running;
pub(crate) mod s3;

use anyhow::{Context, Result};
use clap::ValueEnum;
use recipe::Recipe;
use running::Running;
use std::path::{Path, PathBuf};

/// What to do.
#[derive(Debug, Clone, Copy, ValueEnum)]
pub(crate) enum Order {
    /// Start it, unless it runs
    Up,
    /// Stop what `up` started
    Down,
}

/// A server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Service {
    /// SeaweedFS, which speaks the language of Amazon S3
    S3,
    /// One node of Apache Kafka, with a plain and a secure listener
    Kafka,
    /// PostgreSQL
    Postgres,
}

impl Service {
    /// Those that tests need.
    pub(crate) const TESTED: [Service; 3] = [Service::S3, Service::Kafka, Service::Postgres];

    /// All of them.
    pub(crate) const ALL: [Service; 3] = [Service::S3, Service::Kafka, Service::Postgres];

    /// Its name, which also begins the names of the tests that need it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Service::S3 => "s3",
            Service::Kafka => "kafka",
            Service::Postgres => "postgres",
        }
    }

    /// The port that `up` takes if it is free.
    fn port(self) -> u16 {
        match self {
            Service::S3 => 8333,
            Service::Kafka => 9092,
            Service::Postgres => 5432,
        }
    }

    fn home(self) -> Result<PathBuf> {
        match self {
            Service::S3 | Service::Kafka => Ok(install::cache()?.join(self.name())),
            Service::Postgres => postgres::home(),
        }
    }

    /// How it is started over a folder, on `wanted` if that port is free; 0 is any.
    pub(crate) fn over(self, folder: &Path, wanted: u16) -> Result<Recipe> {
        match self {
            Service::S3 => s3::over(folder, wanted),
            Service::Kafka => kafka::over(folder, wanted),
            Service::Postgres => postgres::over(folder, wanted),
        }
    }

    /// What a person wants to know beside where it is.
    fn notes(self) -> String {
        match self {
            Service::S3 => format!("keys {} / {}, bucket `{}`", s3::ACCESS_KEY, s3::SECRET_KEY, s3::BUCKET),
            Service::Kafka => format!("{} tells of its secure listener", kafka::SECURE),
            Service::Postgres => "the address has user and password".to_string(),
        }
    }
}

/// Starts or stops one server, or all of them.
pub(crate) fn run(order: Order, service: Option<Service>) -> Result<()> {
    let services = service.map_or(Service::ALL.to_vec(), |service| vec![service]);
    for service in services {
        match order {
            Order::Up => {
                let running = up(service)?;
                println!("{}", running.endpoint);
                eprintln!("{} at {} ({})", service.name(), running.endpoint, service.notes());
                let told: Vec<String> = running.told.iter().map(|(name, value)| format!("{name}='{value}'")).collect();
                let name = service.name();
                eprintln!("its tests: {} cargo test --workspace --tests -- --ignored {name}_ --skip {name}_mortal", told.join(" "));
            }
            Order::Down => match down(service)? {
                Some(running) => eprintln!("stopped {} at {}", service.name(), running.endpoint),
                None => eprintln!("{} is not running, or was not started by `up`", service.name()),
            },
        }
    }
    if matches!(order, Order::Up) {
        eprintln!("tests that kill their server are told how to start one of their own by `cargo xtask test` and `cargo xtask chaos`");
    }
    Ok(())
}

/// Starts the server of this user, unless it runs.
fn up(service: Service) -> Result<Running> {
    let folder = service.home()?;
    std::fs::create_dir_all(&folder).with_context(|| format!("cannot make `{}`", folder.display()))?;
    let record = folder.join("running.json");
    if let Some(running) = Running::read(&record).filter(Running::is_alive) {
        return Ok(running);
    }
    let (_, running) = service.over(&folder, service.port())?.start()?;
    running.record(&record)?;
    Ok(running)
}

/// Stops the server that [`up`] started; `None` if there is none.
fn down(service: Service) -> Result<Option<Running>> {
    let record = service.home()?.join("running.json");
    let Some(running) = Running::read(&record) else { return Ok(None) };
    let was_alive = running.is_alive();
    running.stop()?;
    std::fs::remove_file(&record).with_context(|| format!("cannot remove `{}`", record.display()))?;
    Ok(was_alive.then_some(running))
}

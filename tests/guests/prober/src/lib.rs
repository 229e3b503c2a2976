//! `prober`: a source that tries what its configuration says and gives one row per attempt: what it tried, whether it succeeded, what it found.
//!
//! It is the stranger in the tests of the sandbox: it asks for files, names, sockets, time and memory as a hostile component would.

mod files;
mod machine;
mod requests;
mod sockets;

use serde::Deserialize;
use std::sync::Arc;
use tidegate_sdk::arrow::array::{BooleanArray, RecordBatch, StringArray};
use tidegate_sdk::arrow::schema::{DataType, Field, Schema, SchemaRef};
use tidegate_sdk::{
    Chunk, Discovered, Error, Info, PollRequest, Polled, Result, Scope, Source, SourcePlan, Split, SplitState, export_source,
};

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct Config {
    probes: Vec<Probe>,
    /// Whether an attempt that fails is an error of the source, as an honest plugin would have it.
    #[serde(default)]
    honest: bool,
}

/// One attempt.
#[derive(Debug, Clone, Deserialize)]
#[serde(tag = "do", rename_all = "kebab-case", deny_unknown_fields)]
enum Probe {
    /// Reads a file.
    Read { path: String },
    /// Lists a directory.
    List { path: String },
    /// Writes a file.
    Write { path: String },
    /// Makes a symbolic link.
    Link { to: String, at: String },
    /// Moves a file.
    Move { from: String, to: String },
    /// The environment and the arguments.
    Environment,
    /// The wall clock.
    WallTime,
    /// Secure random numbers.
    Random,
    /// A random seed for hash maps, and the clock that only runs forward.
    HarmlessChance,
    /// More and more handles.
    Handles,
    /// Text of this many bytes.
    Grow { bytes: usize },
    /// This many lines for the log and for stderr each.
    Log { lines: usize },
    /// A request; at most `most` bytes of the body are read.
    Get {
        url: String,
        #[serde(default = "much")]
        most: usize,
    },
    /// A request that posts a body.
    Post { url: String, body: String },
    /// A TCP connection to a name or an address: sends a line and reads what comes back.
    Tcp { host: String, port: u16 },
    /// A TCP connection to an address, without a look-up before.
    Connect { address: [u8; 4], port: u16 },
    /// A datagram to an address, and the answer.
    Udp { address: [u8; 4], port: u16 },
    /// Waits for connections.
    Listen,
    /// Takes a port of its own.
    Bind { port: u16 },
}

fn much() -> usize {
    1 << 20
}

impl Probe {
    fn attempt(&self) -> std::result::Result<String, String> {
        match self {
            Probe::Read { path } => files::read(path),
            Probe::List { path } => files::list(path),
            Probe::Write { path } => files::write(path),
            Probe::Link { to, at } => files::link(to, at),
            Probe::Move { from, to } => files::rename(from, to),
            Probe::Environment => Ok(machine::environment()),
            Probe::WallTime => Ok(machine::wall_time()),
            Probe::Random => Ok(machine::random()),
            Probe::HarmlessChance => Ok(machine::harmless()),
            Probe::Handles => Ok(machine::handles()),
            Probe::Grow { bytes } => Ok("x".repeat(*bytes)),
            Probe::Log { lines } => Ok(machine::log(*lines)),
            Probe::Get { url, most } => requests::send(url, None, *most),
            Probe::Post { url, body } => requests::send(url, Some(body), much()),
            Probe::Tcp { host, port } => sockets::by_name(host, *port),
            Probe::Connect { address, port } => sockets::connect(*address, *port),
            Probe::Udp { address, port } => sockets::datagram(*address, *port),
            Probe::Listen => sockets::listen(),
            Probe::Bind { port } => sockets::bind(*port),
        }
    }
}

fn schema() -> Schema {
    let field = |name: &str, data_type| Field::new(name, data_type, false);
    Schema::new(vec![field("tried", DataType::Utf8), field("succeeded", DataType::Boolean), field("found", DataType::Utf8)])
}

struct Prober {
    config: Config,
    schema: SchemaRef,
    split: Option<String>,
}

impl Source for Prober {
    type Config = Config;

    fn info() -> Info {
        Info::new(env!("CARGO_PKG_NAME"), env!("CARGO_PKG_VERSION"))
    }

    fn bind(_: &Config, _: &Scope, _: Option<&[String]>) -> Result<SourcePlan> {
        Ok(SourcePlan::new(schema()).bounded(true))
    }

    fn discover(_: &Config, _: &Scope, cursor: Option<&[u8]>) -> Result<Discovered> {
        let split = Split { id: "all".into(), details: Vec::new(), position: None };
        let added = if cursor.is_some() { Vec::new() } else { vec![split] };
        Ok(Discovered { added, gone: Vec::new(), cursor: Some(b"all".to_vec()) })
    }

    fn open(config: Config, _: &Scope, _: Option<&[String]>) -> Result<Self> {
        Ok(Prober { config, schema: Arc::new(schema()), split: None })
    }

    fn assign(&mut self, splits: Vec<Split>) -> Result<()> {
        self.split = splits.into_iter().next().map(|split| split.id);
        Ok(())
    }

    fn poll(&mut self, _: PollRequest) -> Result<Polled> {
        let mut polled = Polled::default();
        let Some(split) = self.split.take() else { return Ok(polled) };
        let (mut tried, mut succeeded, mut found) = (Vec::new(), Vec::new(), Vec::new());
        for probe in &self.config.probes {
            let outcome = probe.attempt();
            if let (true, Err(error)) = (self.config.honest, &outcome) {
                return Err(Error::fatal(error.clone()));
            }
            tried.push(format!("{probe:?}"));
            succeeded.push(outcome.is_ok());
            found.push(outcome.unwrap_or_else(|error| error));
        }
        let columns = vec![
            Arc::new(StringArray::from(tried)) as _,
            Arc::new(BooleanArray::from(succeeded)) as _,
            Arc::new(StringArray::from(found)) as _,
        ];
        polled.chunks.push(Chunk::new(split.as_str(), RecordBatch::try_new(Arc::clone(&self.schema), columns)?, b"end".to_vec()));
        polled.states.push((split, SplitState::Finished));
        Ok(polled)
    }
}

export_source!(Prober);

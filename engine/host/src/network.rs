//! The network as a guest finds it: what its grants name, and nothing else.
//!
//! Names are resolved here, once, and what is connected to is the address that was checked: a name that is granted and leads to
//! this machine or into a private network is refused (DNS rebinding). Every refusal is kept with the call, so that the error which
//! follows names the grant that is missing.

mod handler;
mod http;
mod patience;
mod sockets;
mod tls;

pub(crate) use handler::link as link_handler;
pub(crate) use http::Hooks;
pub(crate) use sockets::link_lookup;
pub(crate) use tls::Tls;

use crate::grants::{Host, HostGrant};
use crate::plugin::Shared;
use crate::words::{Rate, Words};
use patience::{Calls, Patience};
use std::collections::HashSet;
use std::fmt::Display;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::Semaphore;

/// HTTP connections that one instance may have at a time.
const MAX_CONNECTIONS: usize = 64;
/// Addresses that the names an instance asked for may have led to; when there are more, the earlier ones are forgotten.
const MAX_OPENED: usize = 4096;

/// What a socket speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Protocol {
    Tcp,
    Udp,
}

/// One instance's way to the outside.
pub(crate) struct Network {
    shared: Arc<Shared>,
    words: Words,
    rate: Rate,
    calls: Calls,
    connections: Arc<Semaphore>,
    /// Where the granted names that this instance resolved led to.
    opened: Mutex<HashSet<(Protocol, SocketAddr)>>,
}

/// Why a host that is granted was not found.
#[derive(Debug)]
enum Unreachable {
    /// The name did not resolve.
    Unknown(std::io::Error),
    /// It resolved to addresses that a name may not lead to; this is one.
    Forbidden(IpAddr),
}

impl Network {
    pub(crate) fn new(shared: Arc<Shared>, words: Words, rate: Rate) -> Arc<Network> {
        let connections = Arc::new(Semaphore::new(MAX_CONNECTIONS));
        Arc::new(Network { shared, words, rate, calls: Calls::default(), connections, opened: Mutex::default() })
    }

    /// A call begins: what waits from an earlier one has its time again.
    pub(crate) fn begin(&self) {
        self.calls.begin();
    }

    fn patience(&self, wanted: Option<Duration>) -> Patience {
        let most = self.shared.spec.limits.io_timeout;
        Patience::new(wanted.map_or(most, |wanted| wanted.min(most)), self.calls.clone())
    }

    /// Keeps and logs that a grant is missing. `granted` are the grants there are, `needed` the one that would do.
    fn not_granted<G: Display>(&self, key: &str, what: impl Display, granted: &[G], needed: impl Display) {
        let list: Vec<String> = granted.iter().map(|grant| format!("\"{grant}\"")).chain([format!("\"{needed}\"")]).collect();
        let name = &self.shared.spec.name;
        let line = format!("it is not granted {what}; set `allow.{key} = [{}]` of [plugins.{name}]", list.join(", "));
        self.log(&line);
        self.words.refuse(line, true);
    }

    /// Keeps and logs that a name leads where no name may lead.
    fn forbidden(&self, key: &str, host: &Host, address: IpAddr, grant: impl Display) {
        let name = &self.shared.spec.name;
        let line = format!(
            "the granted name `{host}` led to {address}, which is no public address, and was not followed; if that is meant, grant the address itself, or `\"private:{grant}\"` where it is your own network, in `allow.{key}` of [plugins.{name}]"
        );
        self.log(&line);
        self.words.refuse(line, false);
    }

    fn log(&self, line: &str) {
        if self.rate.admits(self.shared.clock.monotonic()) {
            tracing::warn!(target: "tidegate::plugin", plugin = self.shared.spec.name.as_str(), "{line}");
        } else {
            self.shared.metrics.dropped_line();
        }
    }

    /// The addresses of a name. Takes a thread for as long as the look-up takes.
    async fn addresses(&self, name: &str) -> std::io::Result<Vec<IpAddr>> {
        let (resolver, name) = (Arc::clone(&self.shared.resolver), name.to_string());
        tokio::task::spawn_blocking(move || resolver(&name)).await.map_err(std::io::Error::other)?
    }

    /// The addresses at which one of these grants may find a host.
    async fn find(&self, host: &Host, grants: &[&HostGrant]) -> Result<Vec<IpAddr>, Unreachable> {
        let addresses = match host {
            Host::Address(address) => vec![*address],
            Host::Name(name) | Host::Below(name) => self.addresses(name).await.map_err(Unreachable::Unknown)?,
        };
        let (good, bad): (Vec<IpAddr>, Vec<IpAddr>) =
            addresses.into_iter().partition(|address| grants.iter().any(|grant| grant.admits(*address)));
        match (good.is_empty(), bad.first()) {
            (false, _) => Ok(good),
            (true, Some(address)) => Err(Unreachable::Forbidden(*address)),
            (true, None) => Err(Unreachable::Unknown(std::io::Error::other("it has no address"))),
        }
    }

    fn opened(&self) -> std::sync::MutexGuard<'_, HashSet<(Protocol, SocketAddr)>> {
        self.opened.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

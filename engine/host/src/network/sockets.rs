//! `wasi:sockets` under the grants `tcp` and `udp`.
//!
//! A guest resolves a name and then connects to an address, and between the two only the host remembers which name it was: the
//! addresses that a granted name led to are kept for the instance, and connecting is allowed to these. Nothing listens.

use super::{Network, Protocol, Unreachable};
use crate::grants::{Host, HostGrant};
use crate::state::State;
use std::collections::VecDeque;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use wasmtime::StoreContextMut;
use wasmtime::component::{Linker, Resource, ResourceType};
use wasmtime_wasi::p2::bindings::sockets::network::{ErrorCode, IpAddress};
use wasmtime_wasi::p2::{DynPollable, Network as Handle, Pollable, subscribe};
use wasmtime_wasi::sockets::SocketAddrUse;
use wasmtime_wasi::{WasiCtxBuilder, WasiView};

/// The interface that this file has of its own, under the version of it that the rest of WASI is linked with.
const LOOKUP: &str = "wasi:sockets/ip-name-lookup@0.2.12";

/// The addresses of a name, handed out one by one.
struct Found(VecDeque<IpAddr>);

#[async_trait::async_trait]
impl Pollable for Found {
    /// They are there from the start.
    async fn ready(&mut self) {}
}

impl Network {
    /// Has every address of every socket asked for here.
    pub(crate) fn guard(self: &Arc<Self>, wasi: &mut WasiCtxBuilder) {
        let network = Arc::clone(self);
        wasi.socket_addr_check(move |address, purpose| {
            let allowed = network.allows(address, purpose);
            Box::pin(async move { allowed })
        });
    }

    fn allows(&self, address: SocketAddr, purpose: SocketAddrUse) -> bool {
        let address = SocketAddr::new(address.ip().to_canonical(), address.port());
        match purpose {
            // Comes before every connection: the system picks the port.
            SocketAddrUse::TcpBind | SocketAddrUse::UdpBind if address.ip().is_unspecified() && address.port() == 0 => true,
            SocketAddrUse::TcpBind | SocketAddrUse::UdpBind => {
                self.words.refuse(format!("it wanted to bind to {address}; a plugin connects from wherever the system lets it"), false);
                false
            }
            SocketAddrUse::TcpListen | SocketAddrUse::TcpAccept => {
                self.words.refuse("it wanted to listen; a plugin connects to others and nobody connects to it".into(), false);
                false
            }
            SocketAddrUse::TcpConnect => self.reaches(Protocol::Tcp, address, true),
            SocketAddrUse::UdpSend => self.reaches(Protocol::Udp, address, true),
            // Anybody may send a datagram; what comes from elsewhere is not for the guest, and no fault of its.
            SocketAddrUse::UdpReceive => self.reaches(Protocol::Udp, address, false),
        }
    }

    fn reaches(&self, protocol: Protocol, address: SocketAddr, say: bool) -> bool {
        let host = Host::Address(address.ip());
        let (key, grants) = self.grants(protocol);
        if grants.iter().any(|grant| grant.covers(&host, address.port())) || self.opened().contains(&(protocol, address)) {
            return true;
        }
        if say {
            self.not_granted(key, format_args!("to connect to {address} ({key})"), grants, address);
        }
        false
    }

    fn grants(&self, protocol: Protocol) -> (&'static str, &[HostGrant]) {
        match protocol {
            Protocol::Tcp => ("tcp", &self.shared.spec.allow.tcp),
            Protocol::Udp => ("udp", &self.shared.spec.allow.udp),
        }
    }

    /// The addresses of a granted name. Connecting to them is allowed from now on, at the ports that were granted with it.
    async fn look_up(&self, name: &str) -> Result<Vec<IpAddr>, ErrorCode> {
        // Not `Host::read` alone: an IPv6 address has no brackets here.
        let host = name.parse().map(|address: IpAddr| Host::Address(address.to_canonical())).ok().or_else(|| Host::read(name));
        let host = match host.ok_or(ErrorCode::InvalidArgument)? {
            // Nothing to look up; whether it may be reached is asked when it is connected to.
            Host::Address(address) => return Ok(vec![address]),
            host => host,
        };
        let mut covering: Vec<(Protocol, &HostGrant)> = Vec::new();
        for protocol in [Protocol::Tcp, Protocol::Udp] {
            covering.extend(self.grants(protocol).1.iter().filter(|grant| grant.covers_name(&host)).map(|grant| (protocol, grant)));
        }
        let Some((protocol, first)) = covering.first().copied() else {
            let (key, grants) = self.grants(Protocol::Tcp);
            self.not_granted(key, format_args!("to look up the name `{host}`"), grants, format_args!("{host}:PORT"));
            return Err(ErrorCode::AccessDenied);
        };
        let grants: Vec<&HostGrant> = covering.iter().map(|(_, grant)| *grant).collect();
        let found = self.patience(None).wait(self.find(&host, &grants)).await;
        let addresses = match found {
            None => return Err(ErrorCode::TemporaryResolverFailure),
            Some(Err(Unreachable::Unknown(error))) => {
                self.log(&format!("the name `{host}` did not resolve: {error}"));
                return Err(ErrorCode::NameUnresolvable);
            }
            Some(Err(Unreachable::Forbidden(address))) => {
                self.forbidden(self.grants(protocol).0, &host, address, first);
                return Err(ErrorCode::AccessDenied);
            }
            Some(Ok(addresses)) => addresses,
        };
        let mut opened = self.opened();
        for address in &addresses {
            for (protocol, grant) in covering.iter().filter(|(_, grant)| grant.admits(*address)) {
                if opened.len() >= super::MAX_OPENED {
                    opened.clear();
                }
                opened.insert((*protocol, SocketAddr::new(address.to_canonical(), grant.port)));
            }
        }
        Ok(addresses)
    }
}

/// Puts our look-up of names in the place of WASI's, which asks nobody.
pub(crate) fn link_lookup(linker: &mut Linker<State>) -> wasmtime::Result<()> {
    let mut instance = linker.instance(LOOKUP)?;
    instance.resource("resolve-address-stream", ResourceType::host::<Found>(), |mut store: StoreContextMut<'_, State>, rep| {
        store.data_mut().ctx().table.delete(Resource::<Found>::new_own(rep))?;
        Ok(())
    })?;
    instance.func_wrap_async("resolve-addresses", |mut store: StoreContextMut<'_, State>, (_, name): (Resource<Handle>, String)| {
        Box::new(async move {
            let network = store.data().network();
            let answer = match network.look_up(&name).await {
                Ok(addresses) => Ok(store.data_mut().ctx().table.push(Found(addresses.into()))?),
                Err(code) => Err(code),
            };
            Ok((answer,))
        })
    })?;
    instance.func_wrap(
        "[method]resolve-address-stream.resolve-next-address",
        |mut store: StoreContextMut<'_, State>, (found,): (Resource<Found>,)| {
            let next = store.data_mut().ctx().table.get_mut(&found)?.0.pop_front().map(IpAddress::from);
            Ok((Ok::<_, ErrorCode>(next),))
        },
    )?;
    instance.func_wrap("[method]resolve-address-stream.subscribe", |mut store: StoreContextMut<'_, State>, (found,): (Resource<Found>,)| {
        let pollable: Resource<DynPollable> = subscribe(store.data_mut().ctx().table, found)?;
        Ok((pollable,))
    })
}

//! Connections over `wasi:sockets`.

use super::tcp::Wire;
use crate::{Error, Result};
use std::io::{self, Read, Write};
use std::net::IpAddr;
use std::time::Duration;
use wasip2::clocks::monotonic_clock;
use wasip2::io::poll::{Pollable, poll};
use wasip2::io::streams::{InputStream, OutputStream, StreamError};
use wasip2::sockets::instance_network::instance_network;
use wasip2::sockets::ip_name_lookup::resolve_addresses;
use wasip2::sockets::network::{ErrorCode, IpAddress, IpAddressFamily, IpSocketAddress, Ipv4SocketAddress, Ipv6SocketAddress};
use wasip2::sockets::tcp::TcpSocket;
use wasip2::sockets::tcp_create_socket::create_tcp_socket;

/// A connection. The streams are dropped before their socket.
pub(super) struct Inner {
    input: InputStream,
    output: OutputStream,
    _socket: TcpSocket,
    timeout: Duration,
}

/// A moment on the clock that only runs forward.
struct Deadline(u64);

impl Deadline {
    fn after(duration: Duration) -> Self {
        Deadline(monotonic_clock::now().saturating_add(u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)))
    }

    /// Waits for one of these; false when the time is over first.
    fn wait(&self, ready: &[&Pollable]) -> bool {
        let timer = monotonic_clock::subscribe_instant(self.0);
        let mut all = ready.to_vec();
        all.push(&timer);
        poll(&all).iter().any(|index| (*index as usize) < ready.len())
    }
}

pub(super) fn connect(host: &str, port: u16, timeout: Duration) -> Result<Inner> {
    let deadline = Deadline::after(timeout);
    let mut last = Error::retryable("the name leads to no address");
    for address in addresses(host, &deadline)? {
        match open(address, port, &deadline) {
            Ok(stream) => return Ok(stream),
            Err(error) => last = error,
        }
    }
    Err(last)
}

/// The addresses of a host; an address is its own, and a name is asked for.
fn addresses(host: &str, deadline: &Deadline) -> Result<Vec<IpAddress>> {
    if let Ok(address) = host.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>() {
        return Ok(vec![match address {
            IpAddr::V4(address) => IpAddress::Ipv4(address.octets().into()),
            IpAddr::V6(address) => IpAddress::Ipv6(address.segments().into()),
        }]);
    }
    let found = resolve_addresses(&instance_network(), host).map_err(failed)?;
    let mut addresses = Vec::new();
    loop {
        match found.resolve_next_address() {
            Ok(Some(address)) => addresses.push(address),
            Ok(None) => return Ok(addresses),
            Err(ErrorCode::WouldBlock) if deadline.wait(&[&found.subscribe()]) => {}
            Err(ErrorCode::WouldBlock) => return Err(failed(ErrorCode::Timeout)),
            Err(_) if !addresses.is_empty() => return Ok(addresses),
            Err(code) => return Err(failed(code)),
        }
    }
}

fn open(address: IpAddress, port: u16, deadline: &Deadline) -> Result<Inner> {
    let (family, address) = match address {
        IpAddress::Ipv4(address) => (IpAddressFamily::Ipv4, IpSocketAddress::Ipv4(Ipv4SocketAddress { port, address })),
        IpAddress::Ipv6(address) => {
            (IpAddressFamily::Ipv6, IpSocketAddress::Ipv6(Ipv6SocketAddress { port, flow_info: 0, address, scope_id: 0 }))
        }
    };
    let socket = create_tcp_socket(family).map_err(failed)?;
    socket.start_connect(&instance_network(), address).map_err(failed)?;
    loop {
        match socket.finish_connect() {
            Ok((input, output)) => return Ok(Inner { input, output, _socket: socket, timeout: Duration::ZERO }),
            Err(ErrorCode::WouldBlock) if deadline.wait(&[&socket.subscribe()]) => {}
            Err(ErrorCode::WouldBlock) => return Err(failed(ErrorCode::Timeout)),
            Err(code) => return Err(failed(code)),
        }
    }
}

/// What a failure means for whoever asked.
fn failed(code: ErrorCode) -> Error {
    match code {
        ErrorCode::AccessDenied => Error::config("the connection is not granted; name host and port in `allow.tcp`"),
        ErrorCode::InvalidArgument => Error::config("this is no host and port to connect to"),
        ErrorCode::ConnectionRefused => Error::retryable("the connection was refused"),
        ErrorCode::Timeout => Error::retryable("the connection was not made in time"),
        ErrorCode::NameUnresolvable | ErrorCode::TemporaryResolverFailure | ErrorCode::PermanentResolverFailure => {
            Error::retryable("the name cannot be looked up")
        }
        other => Error::retryable(format!("the connection failed ({other:?})")),
    }
}

pub(super) fn wait_any(streams: &[&Inner], timeout: Duration) {
    let ready: Vec<Pollable> = streams.iter().map(|stream| stream.input.subscribe()).collect();
    Deadline::after(timeout).wait(&ready.iter().collect::<Vec<_>>());
}

fn broken(error: StreamError) -> io::Error {
    match error {
        StreamError::Closed => io::Error::new(io::ErrorKind::BrokenPipe, "the other side has closed the connection"),
        StreamError::LastOperationFailed(error) => io::Error::other(error.to_debug_string()),
    }
}

fn late() -> io::Error {
    io::Error::new(io::ErrorKind::TimedOut, "nothing happened in time")
}

impl Wire for Inner {
    fn set_timeout(&mut self, timeout: Duration) {
        self.timeout = timeout;
    }
}

impl Read for Inner {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        if into.is_empty() {
            return Ok(0);
        }
        let deadline = Deadline::after(self.timeout);
        loop {
            match self.input.read(into.len().min(64 << 10) as u64) {
                Ok(bytes) if bytes.is_empty() => {
                    if self.timeout.is_zero() {
                        return Err(io::ErrorKind::WouldBlock.into());
                    }
                    if !deadline.wait(&[&self.input.subscribe()]) {
                        return Err(late());
                    }
                }
                Ok(bytes) => {
                    into[..bytes.len()].copy_from_slice(&bytes);
                    return Ok(bytes.len());
                }
                Err(StreamError::Closed) => return Ok(0),
                Err(error) => return Err(broken(error)),
            }
        }
    }
}

impl Write for Inner {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let deadline = Deadline::after(self.timeout);
        loop {
            match self.output.check_write().map_err(broken)? {
                0 if bytes.is_empty() => return Ok(0),
                0 if self.timeout.is_zero() => return Err(io::ErrorKind::WouldBlock.into()),
                0 => {
                    if !deadline.wait(&[&self.output.subscribe()]) {
                        return Err(late());
                    }
                }
                room => {
                    let now = &bytes[..bytes.len().min(usize::try_from(room).unwrap_or(usize::MAX))];
                    self.output.write(now).map_err(broken)?;
                    return Ok(now.len());
                }
            }
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        self.output.flush().map_err(broken)?;
        let deadline = Deadline::after(self.timeout);
        // While a flush goes on, there is no room to write.
        while self.output.check_write().map_err(broken)? == 0 {
            if !deadline.wait(&[&self.output.subscribe()]) {
                return Err(late());
            }
        }
        Ok(())
    }
}

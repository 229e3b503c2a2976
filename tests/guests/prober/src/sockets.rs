//! TCP and UDP through `wasi:sockets`.

use wasip2::sockets::instance_network::instance_network;
use wasip2::sockets::ip_name_lookup::resolve_addresses;
use wasip2::sockets::network::{ErrorCode, IpAddress, IpAddressFamily, IpSocketAddress, Ipv4SocketAddress};
use wasip2::sockets::tcp::TcpSocket;
use wasip2::sockets::tcp_create_socket::create_tcp_socket;
use wasip2::sockets::udp::OutgoingDatagram;
use wasip2::sockets::udp_create_socket::create_udp_socket;

type Outcome = Result<String, String>;

fn said(code: ErrorCode) -> String {
    format!("{code:?}")
}

fn at([a, b, c, d]: [u8; 4], port: u16) -> IpSocketAddress {
    IpSocketAddress::Ipv4(Ipv4SocketAddress { port, address: (a, b, c, d) })
}

fn tcp() -> Result<TcpSocket, String> {
    create_tcp_socket(IpAddressFamily::Ipv4).map_err(said)
}

/// Looks a name up and connects to the first of its addresses that is of the old kind.
pub(crate) fn by_name(host: &str, port: u16) -> Outcome {
    let addresses = resolve_addresses(&instance_network(), host).map_err(|code| format!("look-up: {code:?}"))?;
    loop {
        match addresses.resolve_next_address() {
            Ok(Some(IpAddress::Ipv4((a, b, c, d)))) => return connect([a, b, c, d], port),
            Ok(Some(IpAddress::Ipv6(_))) => {}
            Ok(None) => return Err("look-up: no address".into()),
            Err(ErrorCode::WouldBlock) => addresses.subscribe().block(),
            Err(code) => return Err(format!("look-up: {code:?}")),
        }
    }
}

/// Connects, sends a line and gives the first bytes that come back.
pub(crate) fn connect(address: [u8; 4], port: u16) -> Outcome {
    let socket = tcp()?;
    socket.start_connect(&instance_network(), at(address, port)).map_err(said)?;
    let (input, output) = loop {
        match socket.finish_connect() {
            Err(ErrorCode::WouldBlock) => socket.subscribe().block(),
            Err(code) => return Err(said(code)),
            Ok(streams) => break streams,
        }
    };
    output.blocking_write_and_flush(b"hello\n").map_err(|error| format!("{error:?}"))?;
    let answer = input.blocking_read(1000).map_err(|error| format!("{error:?}"))?;
    Ok(String::from_utf8_lossy(&answer).into_owned())
}

pub(crate) fn listen() -> Outcome {
    let socket = tcp()?;
    socket.start_bind(&instance_network(), at([0, 0, 0, 0], 0)).map_err(said)?;
    socket.finish_bind().map_err(said)?;
    socket.start_listen().map_err(said)?;
    loop {
        match socket.finish_listen() {
            Err(ErrorCode::WouldBlock) => socket.subscribe().block(),
            Err(code) => return Err(said(code)),
            Ok(()) => return Ok("it listens".into()),
        }
    }
}

pub(crate) fn bind(port: u16) -> Outcome {
    let socket = tcp()?;
    socket.start_bind(&instance_network(), at([127, 0, 0, 1], port)).map_err(said)?;
    socket.finish_bind().map_err(said)?;
    Ok("it has the port".into())
}

/// Sends a datagram and gives the answer.
pub(crate) fn datagram(address: [u8; 4], port: u16) -> Outcome {
    let socket = create_udp_socket(IpAddressFamily::Ipv4).map_err(said)?;
    socket.start_bind(&instance_network(), at([0, 0, 0, 0], 0)).map_err(said)?;
    socket.finish_bind().map_err(said)?;
    let (input, output) = socket.stream(None).map_err(said)?;
    output.subscribe().block();
    output.check_send().map_err(said)?;
    output.send(&[OutgoingDatagram { data: b"hello".to_vec(), remote_address: Some(at(address, port)) }]).map_err(said)?;
    loop {
        let received = input.receive(1).map_err(said)?;
        match received.first() {
            Some(datagram) => return Ok(String::from_utf8_lossy(&datagram.data).into_owned()),
            None => input.subscribe().block(),
        }
    }
}

//! What answers in a unit test, where a component would have the network.

use super::double;
use crate::net::http::{Request, Response};
use crate::net::tcp::Wire;
use crate::{Error, Result};

/// Answers the requests of this thread. A closure is one.
pub trait HttpServer {
    /// The answer, or why there is none.
    ///
    /// # Errors
    /// What [`Request::send`] is to answer.
    fn answer(&mut self, request: &Request) -> Result<Response>;
}

impl<F: FnMut(&Request) -> Result<Response>> HttpServer for F {
    fn answer(&mut self, request: &Request) -> Result<Response> {
        self(request)
    }
}

/// Takes the connections of this thread. A closure is one.
pub trait TcpServer {
    /// The connection, or why there is none.
    ///
    /// # Errors
    /// What [`Stream::connect`](crate::net::tcp::Stream::connect) is to answer.
    fn accept(&mut self, host: &str, port: u16) -> Result<Box<dyn Wire>>;
}

impl<F: FnMut(&str, u16) -> Result<Box<dyn Wire>>> TcpServer for F {
    fn accept(&mut self, host: &str, port: u16) -> Result<Box<dyn Wire>> {
        self(host, port)
    }
}

/// Has all requests of this thread answered by `server`.
pub fn serve_http(server: impl HttpServer + 'static) {
    double::with(|double| double.http = Some(Box::new(server)));
}

/// Has all connections of this thread taken by `server`.
pub fn serve_tcp(server: impl TcpServer + 'static) {
    double::with(|double| double.tcp = Some(Box::new(server)));
}

/// The server stands outside the double while it answers, since it may log or ask for a secret itself.
pub(crate) fn answer(request: &Request) -> Result<Response> {
    let Some(mut server) = double::with(|double| double.http.take()) else {
        return Err(Error::retryable("no server stands behind this test; see `testing::serve_http`"));
    };
    let answer = server.answer(request);
    double::with(|double| double.http = Some(server));
    answer
}

pub(crate) fn connect(host: &str, port: u16) -> Result<Box<dyn Wire>> {
    let Some(mut server) = double::with(|double| double.tcp.take()) else {
        return Err(Error::retryable("no server stands behind this test; see `testing::serve_tcp`"));
    };
    let connection = server.accept(host, port);
    double::with(|double| double.tcp = Some(server));
    connection
}

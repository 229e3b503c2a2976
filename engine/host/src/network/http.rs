//! `wasi:http` outgoing under the grant `http`.
//!
//! Every request is checked when it is made: scheme, host and port must be an origin that is granted. A redirect is an answer like any
//! other here; following it is the guest's next request. Each request has a connection of its own; bodies stream.

use super::patience::Patience;
use super::{Network, Unreachable};
use crate::grants::{Host, HostGrant, HttpGrant};
use bytes::Bytes;
use http::uri::Scheme;
use http::{Method, Request, Response, Uri};
use http_body::{Body, Frame, SizeHint};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use tokio::net::TcpStream;
use wasmtime_wasi_http::io::TokioIo;
use wasmtime_wasi_http::p2::bindings::http::types::ErrorCode;
use wasmtime_wasi_http::{Error, RequestOptions, WasiBody, WasiHttpHooks};

type Handshake = (hyper::client::conn::http1::SendRequest<WasiBody>, Pin<Box<dyn Future<Output = hyper::Result<()>> + Send>>);
type Io = Box<dyn Future<Output = Result<(), Error>> + Send>;

/// What `wasi:http` asks before and while it does something.
pub(crate) struct Hooks(pub(crate) Arc<Network>);

impl WasiHttpHooks for Hooks {
    fn send_request(
        &mut self,
        request: Request<WasiBody>,
        options: Option<RequestOptions>,
        _: Box<dyn Future<Output = Result<(), Error>> + Send>,
    ) -> Box<dyn Future<Output = Result<(Response<WasiBody>, Io), Error>> + Send> {
        let network = Arc::clone(&self.0);
        Box::new(async move { network.send(request, options.unwrap_or_default()).await })
    }

    fn p2_error_from_hyper(&mut self, error: &hyper::Error) -> ErrorCode {
        self.0.log(&format!("a request failed: {}", chain(error)));
        match () {
            () if error.is_incomplete_message() => ErrorCode::HttpResponseIncomplete,
            () if error.is_closed() || error.is_canceled() => ErrorCode::ConnectionTerminated,
            () if error.is_timeout() => ErrorCode::HttpResponseTimeout,
            () => ErrorCode::HttpProtocolError,
        }
    }

    fn p2_error_from_connect(&mut self, error: &io::Error) -> ErrorCode {
        match error.kind() {
            io::ErrorKind::ConnectionRefused => ErrorCode::ConnectionRefused,
            io::ErrorKind::TimedOut => ErrorCode::ConnectionTimeout,
            io::ErrorKind::ConnectionReset | io::ErrorKind::ConnectionAborted => ErrorCode::ConnectionTerminated,
            _ => ErrorCode::DestinationUnavailable,
        }
    }

    fn p2_error_from_tls(&mut self, error: &io::Error) -> ErrorCode {
        use tokio_rustls::rustls;
        match error.get_ref().and_then(|inner| inner.downcast_ref()) {
            Some(rustls::Error::InvalidCertificate(_) | rustls::Error::NoCertificatesPresented) => ErrorCode::TlsCertificateError,
            _ => ErrorCode::TlsProtocolError,
        }
    }
}

/// An error with its causes.
fn chain(error: &(dyn std::error::Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(inner) = cause {
        text.push_str(": ");
        text.push_str(&inner.to_string());
        cause = inner.source();
    }
    text
}

/// Where a request goes, under the grants that cover it.
struct Target<'a> {
    secure: bool,
    host: Host,
    port: u16,
    grants: Vec<&'a HostGrant>,
}

impl Network {
    async fn send(self: Arc<Self>, mut request: Request<WasiBody>, options: RequestOptions) -> Result<(Response<WasiBody>, Io), Error> {
        let target = self.target(request.uri())?;
        if request.method() == Method::CONNECT {
            // A tunnel: what goes through it nobody could check.
            return Err(Error::HttpRequestMethodInvalid);
        }
        let permit = Arc::clone(&self.connections).try_acquire_owned().map_err(|_| Error::ConnectionLimitReached)?;
        let connected = self.patience(options.connect_timeout).wait(self.connect(&target)).await;
        let (mut sender, connection) = connected.ok_or(Error::ConnectionTimeout)??;
        // The connection speaks on beside its request, and ends with whoever holds it: the answer, then its body.
        let connection = wasmtime_wasi::runtime::spawn(async move {
            let ended = connection.await;
            drop(permit);
            ended
        });
        let path = request.uri().path_and_query().map_or("/", |path| path.as_str()).to_string();
        *request.uri_mut() = Uri::try_from(path).map_err(|_| Error::HttpRequestUriInvalid)?;
        let answer = self.patience(options.first_byte_timeout).wait(sender.send_request(request)).await;
        let answer = answer.ok_or(Error::ConnectionReadTimeout)??;
        let patience = self.patience(options.between_bytes_timeout);
        let answer = answer.map(|incoming| Streamed { incoming, patience }.boxed_unsync());
        Ok((answer, Box::new(async move { connection.await.map_err(Error::from) })))
    }

    /// Where a request goes, if that is granted.
    fn target(&self, uri: &Uri) -> Result<Target<'_>, Error> {
        let secure = match uri.scheme() {
            Some(scheme) if *scheme == Scheme::HTTP => false,
            Some(scheme) if *scheme == Scheme::HTTPS => true,
            _ => return Err(Error::HttpRequestUriInvalid),
        };
        // `granted.example@elsewhere.example` goes elsewhere, and nothing here has users.
        let authority = uri.authority().filter(|authority| !authority.as_str().contains('@')).ok_or(Error::HttpRequestUriInvalid)?;
        let host = Host::read(authority.host()).ok_or(Error::HttpRequestUriInvalid)?;
        let port = match authority.port() {
            Some(port) => port.as_u16(),
            None if authority.as_str().ends_with(|last: char| last == ']' || !last.is_ascii_punctuation()) => {
                if secure {
                    443
                } else {
                    80
                }
            }
            None => return Err(Error::HttpRequestUriInvalid),
        };
        let granted = &self.shared.spec.allow.http;
        let grants: Vec<&HostGrant> = granted.iter().filter(|grant| grant.covers(secure, &host, port)).map(|grant| &grant.at).collect();
        if grants.is_empty() {
            let needed = HttpGrant::of(secure, host, port);
            self.not_granted("http", format_args!("requests to {needed}"), granted, &needed);
            return Err(Error::HttpRequestDenied);
        }
        Ok(Target { secure, host, port, grants })
    }

    /// Resolves once and connects to what was checked.
    async fn connect(&self, target: &Target<'_>) -> Result<Handshake, Error> {
        let host = &target.host;
        let addresses = match self.find(host, &target.grants).await {
            Ok(addresses) => addresses,
            Err(Unreachable::Forbidden(address)) => {
                self.forbidden("http", host, address, HttpGrant::of(target.secure, host.clone(), target.port));
                return Err(Error::DestinationIpProhibited);
            }
            Err(Unreachable::Unknown(error)) => {
                self.log(&format!("the name `{host}` did not resolve: {error}"));
                return Err(Error::DnsError { rcode: Some(format!("`{host}` did not resolve")), info_code: None });
            }
        };
        let mut last = io::Error::other("it has no address");
        for address in addresses {
            match TcpStream::connect(SocketAddr::new(address, target.port)).await {
                Ok(stream) => return self.greet(target, stream).await,
                Err(error) => last = error,
            }
        }
        self.log(&format!("`{host}` cannot be connected to: {last}"));
        Err(Error::Connect(last))
    }

    async fn greet(&self, target: &Target<'_>, stream: TcpStream) -> Result<Handshake, Error> {
        // Small requests should leave at once; where this cannot be set they leave a little later.
        let _ = stream.set_nodelay(true);
        if !target.secure {
            let (sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await?;
            return Ok((sender, Box::pin(connection)));
        }
        let secured = self.shared.tls.secure(&target.host, stream).await.map_err(|error| {
            self.log(&format!("no secure connection to `{}`: {}", target.host, chain(&error)));
            Error::Tls(error)
        })?;
        let (sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(secured)).await?;
        Ok((sender, Box::pin(connection)))
    }
}

/// An answer's body as it comes in.
struct Streamed {
    incoming: Incoming,
    patience: Patience,
}

impl Body for Streamed {
    type Data = Bytes;
    type Error = Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Error>>> {
        let frame = Pin::new(&mut self.incoming).poll_frame(cx);
        if frame.is_pending() && self.patience.exhausted(cx) {
            return Poll::Ready(Some(Err(Error::ConnectionReadTimeout)));
        }
        let frame = ready!(frame);
        self.patience.rest();
        Poll::Ready(frame.map(|frame| frame.map_err(Error::from)))
    }

    fn is_end_stream(&self) -> bool {
        self.incoming.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.incoming.size_hint()
    }
}

//! Requests over `wasi:http`.

use super::http::{Request, Response};
use crate::{Error, Result};
use std::io::{self, Read};
use wasip2::http::outgoing_handler;
use wasip2::http::types::{
    ErrorCode, Fields, IncomingBody, IncomingResponse, Method, OutgoingBody, OutgoingRequest, RequestOptions, Scheme,
};
use wasip2::io::streams::{InputStream, OutputStream, StreamError};

pub(super) fn send(request: &Request) -> Result<Response> {
    let (outgoing, body) = head(request)?;
    let options = RequestOptions::new();
    let nanos = |duration: std::time::Duration| Some(u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX));
    // A host that has no such limits is no error: it has its own.
    let _ = options.set_connect_timeout(nanos(request.timeouts.connect));
    let _ = options.set_first_byte_timeout(nanos(request.timeouts.first_byte));
    let _ = options.set_between_bytes_timeout(nanos(request.timeouts.between_bytes));
    let answer = outgoing_handler::handle(outgoing, Some(options)).map_err(|code| failed(&code))?;
    // A server may answer before it has read all, and then close; so what goes wrong here is told by the answer.
    if let Ok(stream) = body.write() {
        let _ = write(&stream, &request.body);
    }
    let _ = OutgoingBody::finish(body, None);
    answer.subscribe().block();
    let incoming = match answer.get() {
        Some(Ok(Ok(incoming))) => incoming,
        Some(Ok(Err(code))) => return Err(failed(&code)),
        Some(Err(())) | None => return Err(Error::fatal("the host gave no answer where it said there was one")),
    };
    let headers = incoming.headers().entries();
    let headers = headers.into_iter().map(|(name, value)| (name, String::from_utf8_lossy(&value).into_owned())).collect();
    let status = incoming.status();
    Ok(Response::new(status, headers, Body::of(incoming)?))
}

fn head(request: &Request) -> Result<(OutgoingRequest, OutgoingBody)> {
    let refused = |what: &str, value: &str| Error::config(format!("the host takes no {what} `{value}`"));
    let headers = Fields::new();
    for (name, value) in &request.headers {
        // Not the value: it may be a secret.
        headers
            .append(name, value.as_bytes())
            .map_err(|error| Error::config(format!("the host takes no such header `{name}`: {error:?}")))?;
    }
    if !request.body.is_empty() || !matches!(request.method, "GET" | "HEAD") {
        let length = request.body.len().to_string();
        headers.append("content-length", length.as_bytes()).map_err(|_| refused("header", "content-length"))?;
    }
    let outgoing = OutgoingRequest::new(headers);
    let method = match request.method {
        "GET" => Method::Get,
        "HEAD" => Method::Head,
        "POST" => Method::Post,
        "PUT" => Method::Put,
        "DELETE" => Method::Delete,
        "PATCH" => Method::Patch,
        other => Method::Other(other.to_owned()),
    };
    outgoing.set_method(&method).map_err(|()| refused("method", request.method))?;
    let scheme = if request.url.is_secure() { Scheme::Https } else { Scheme::Http };
    outgoing.set_scheme(Some(&scheme)).map_err(|()| refused("URL", &request.url.origin()))?;
    outgoing.set_authority(Some(request.url.authority())).map_err(|()| refused("host", request.url.authority()))?;
    outgoing.set_path_with_query(Some(request.url.target())).map_err(|()| refused("path", request.url.target()))?;
    let body = outgoing.body().map_err(|()| Error::fatal("the host gave no body for a request"))?;
    Ok((outgoing, body))
}

fn write(stream: &OutputStream, mut bytes: &[u8]) -> std::result::Result<(), StreamError> {
    while !bytes.is_empty() {
        match stream.check_write()? {
            0 => stream.subscribe().block(),
            room => {
                let (now, later) = bytes.split_at(bytes.len().min(usize::try_from(room).unwrap_or(usize::MAX)));
                stream.write(now)?;
                bytes = later;
            }
        }
    }
    stream.blocking_flush()
}

/// What a failure means for whoever asked.
fn failed(code: &ErrorCode) -> Error {
    let retry = |why: &str| Error::retryable(why.to_owned());
    match code {
        ErrorCode::HttpRequestDenied => Error::config("the request is not granted; name its origin in `allow.http`"),
        ErrorCode::DestinationIpProhibited => Error::config("the name leads to an address that it may not lead to"),
        ErrorCode::TlsCertificateError => Error::config("the server's certificate is not one to trust for this host"),
        ErrorCode::HttpRequestUriInvalid | ErrorCode::HttpRequestMethodInvalid => {
            Error::config(format!("the request is not one that may be sent ({code:?})"))
        }
        ErrorCode::DnsTimeout | ErrorCode::DnsError(_) => retry("the name cannot be looked up"),
        ErrorCode::ConnectionRefused => retry("the connection was refused"),
        ErrorCode::ConnectionTerminated | ErrorCode::HttpResponseIncomplete => retry("the connection broke before the answer was there"),
        ErrorCode::ConnectionTimeout => retry("the connection was not made in time"),
        ErrorCode::ConnectionReadTimeout | ErrorCode::HttpResponseTimeout => retry("there was no answer in time"),
        other => retry(&format!("the request failed ({other:?})")),
    }
}

/// The body of an answer. A stream is dropped before its body, and that before its answer.
struct Body {
    stream: InputStream,
    _body: IncomingBody,
    _answer: IncomingResponse,
}

impl Body {
    fn of(answer: IncomingResponse) -> Result<Self> {
        let body = answer.consume().map_err(|()| Error::fatal("the host gave no body for an answer"))?;
        let stream = body.stream().map_err(|()| Error::fatal("the host gave no stream for a body"))?;
        Ok(Body { stream, _body: body, _answer: answer })
    }
}

impl Read for Body {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        if into.is_empty() {
            return Ok(0);
        }
        // An empty piece is not the end.
        loop {
            match self.stream.blocking_read(into.len().min(64 << 10) as u64) {
                Ok(bytes) if bytes.is_empty() => {}
                Ok(bytes) => {
                    into[..bytes.len()].copy_from_slice(&bytes);
                    return Ok(bytes.len());
                }
                Err(StreamError::Closed) => return Ok(0),
                Err(StreamError::LastOperationFailed(error)) => return Err(io::Error::other(error.to_debug_string())),
            }
        }
    }
}

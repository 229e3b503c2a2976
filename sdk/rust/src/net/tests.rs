use super::http::{Request, Response, passes_by_itself};
use super::tcp::{Stream, Wire};
use super::{Url, percent_encoded};
use crate::testing::{serve_http, serve_tcp};
use crate::{Error, Result};
use std::io::{self, Cursor, Read, Write};
use std::time::Duration;

fn url(text: &str) -> Url {
    Url::parse(text).unwrap()
}

#[test]
fn addresses_are_taken_apart_and_what_is_none_says_why() {
    let parsed = url("HTTPS://API.example.com:8443/a/b?c=d#e");
    assert!(parsed.is_secure());
    assert_eq!((parsed.authority(), parsed.target()), ("api.example.com:8443", "/a/b?c=d"));
    assert_eq!(url("http://h?x=1").to_string(), "http://h/?x=1");
    for (text, why) in [
        ("api.example.com/", "no `http://`"),
        ("ftp://h/", "neither"),
        ("http:///x", "no host"),
        ("http://me:secret@h/", "has a user"),
        ("http://h/a b", "blank"),
        ("http://h/a\r\nx: y", "blank"),
    ] {
        let error = Url::parse(text).unwrap_err();
        assert!(matches!(&error, Error::Config(message) if message.contains(why)), "{text}: {error}");
    }
}

#[test]
fn references_lead_on_from_where_they_stand() {
    let here = url("https://h/v1/rows?page=1");
    for (reference, there) in [
        ("?page=2", "https://h/v1/rows?page=2"),
        ("/x", "https://h/x"),
        ("next", "https://h/v1/next"),
        ("http://other/y", "http://other/y"),
        ("//other/y", "https://other/y"),
        ("", "https://h/v1/rows?page=1"),
    ] {
        assert_eq!(here.join(reference).unwrap().to_string(), there, "{reference}");
    }
    assert_eq!(here.with_parameter("a b", "ü/=").target(), "/v1/rows?page=1&a%20b=%C3%BC%2F%3D");
    assert_eq!(url("http://h/p").with_parameter("a", "1").target(), "/p?a=1");
    assert_eq!(percent_encoded("a/b~c +", true), "a/b~c%20%2B");
}

#[test]
fn a_status_says_what_to_do() {
    for status in [408, 425, 429, 500, 503, 599] {
        assert!(passes_by_itself(status));
    }
    let busy = Response::of(503, &[("Retry-After", "7")], "try\n later").refusal();
    let message = "the server answered with status 503: try later".to_owned();
    assert_eq!(busy, Error::Retryable { message, after: Some(Duration::from_secs(7)) });
    let dated = Response::of(429, &[("retry-after", "Wed, 21 Oct 2015 07:28:00 GMT")], "").refusal();
    assert!(matches!(dated, Error::Retryable { after: None, .. }), "nobody knows since when");
    for (date, after) in [("Wed, 21 Oct 2015 07:27:18 GMT", 42), ("Wed, 21 Oct 2015 08:00:00 GMT", 0)] {
        let headers = [("Date", date), ("Retry-After", "Wed, 21 Oct 2015 07:28:00 GMT")];
        assert_eq!(Response::of(429, &headers, "").retry_after(), Some(Duration::from_secs(after)));
    }
    let moved = Response::of(301, &[("location", "https://there/")], "").refusal();
    assert!(matches!(&moved, Error::Config(message) if message.contains("`https://there/`")), "{moved}");
    assert!(matches!(Response::of(404, &[], "").refusal(), Error::Config(_)));
    let long = Response::of(400, &[], "x".repeat(10_000)).refusal();
    assert!(long.message().len() < 500);
}

/// Some bytes, then a broken connection.
struct Broken(Cursor<Vec<u8>>);

impl Read for Broken {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        match self.0.read(into)? {
            0 => Err(io::ErrorKind::ConnectionReset.into()),
            count => Ok(count),
        }
    }
}

#[test]
fn bodies_have_a_limit_and_may_break_off() {
    assert_eq!(Response::of(200, &[], "abc").bytes(3).unwrap(), b"abc");
    assert!(matches!(Response::of(200, &[], "abcd").bytes(3), Err(Error::Fatal(_))));
    assert!(matches!(Response::new(200, Vec::new(), io::repeat(0)).bytes(1000), Err(Error::Fatal(_))), "endless");
    let error = Response::new(200, Vec::new(), Broken(Cursor::new(b"ab".to_vec()))).bytes(10).unwrap_err();
    assert!(matches!(&error, Error::Retryable { message, .. } if message.contains("after 2 bytes")), "{error}");
}

#[test]
fn a_test_answers_requests_and_secrets_are_not_shown() {
    let request = Request::new("POST", url("https://h/p?token=t")).with_header("Authorization", "hush").with_body(b"x".to_vec());
    let error = request.send().unwrap_err();
    assert!(error.message().starts_with("POST https://h/p: "), "{error}");
    serve_http(|request: &Request| -> Result<Response> {
        assert_eq!((request.method, request.header("authorization")), ("POST", Some("hush")));
        Ok(Response::of(201, &[("Set-Cookie", "a"), ("set-cookie", "b")], request.body.clone()))
    });
    let answer = request.send().unwrap();
    assert!(answer.is_success());
    assert_eq!(answer.headers("SET-COOKIE").collect::<Vec<_>>(), ["a", "b"]);
    assert_eq!(answer.bytes(10).unwrap(), b"x");
    let shown = format!("{request:?}");
    assert!(!shown.contains("hush") && !shown.contains("token=t"), "{shown}");
}

/// Gives back in capitals what it was told.
#[derive(Default)]
struct Louder(Vec<u8>);

impl Read for Louder {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let count = self.0.len().min(into.len());
        into[..count].copy_from_slice(&self.0[..count]);
        self.0.drain(..count);
        Ok(count)
    }
}

impl Write for Louder {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.extend(bytes.to_ascii_uppercase());
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Wire for Louder {
    fn set_timeout(&mut self, _: Duration) {}
}

#[test]
fn a_test_takes_connections() {
    let error = Stream::connect("h", 7, Duration::ZERO).err().unwrap();
    assert!(error.message().starts_with("`h:7`: "), "{error}");
    serve_tcp(|_: &str, port: u16| -> Result<Box<dyn Wire>> {
        if port == 7 { Ok(Box::new(Louder::default())) } else { Err(Error::retryable("the connection was refused")) }
    });
    let mut stream = Stream::connect("h", 7, Duration::ZERO).unwrap();
    stream.write_all(b"hello").unwrap();
    let mut said = String::new();
    stream.read_to_string(&mut said).unwrap();
    assert_eq!(said, "HELLO");
    assert!(matches!(Stream::connect("h", 8, Duration::ZERO), Err(Error::Retryable { .. })));
}

//! Requests of a guest: only to the origins it is granted, only to the addresses these may have, and never for longer than it may wait.

#![allow(clippy::unwrap_used, reason = "a test may end by panicking")]

#[macro_use]
mod kit;

use kit::prober::Prober;
use kit::servers::{Server, answer, request};
use kit::small;
use serde_json::{Value, json};
use std::io::Write;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use tidegate_api::ErrorKind;

/// Public as far as anybody can tell, and kept for documents: nobody is there.
const PUBLIC: IpAddr = IpAddr::V4(Ipv4Addr::new(203, 0, 113, 1));
const HERE: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

fn hello() -> Server {
    Server::http(|path, body| answer("200 OK", "", &format!("hello {path} {body}")))
}

fn get(url: String) -> Value {
    json!({ "do": "get", "url": url })
}

/// An origin on this machine.
fn origin(server: &Server) -> String {
    format!("http://127.0.0.1:{}", server.port())
}

#[test]
fn a_granted_origin_is_reached_and_answers() {
    let server = hello();
    let prober = Prober::new().granted(json!({ "http": [origin(&server)] }));
    assert_eq!(prober.finds(get(format!("{}/a?b=c", origin(&server)))), "200: hello /a?b=c ");
    let post = json!({ "do": "post", "url": format!("{}/in", origin(&server)), "body": "x".repeat(10_000) });
    assert_eq!(prober.finds(post), format!("200: hello /in {}", "x".repeat(10_000)));
}

#[test]
fn without_a_grant_no_request_leaves_and_the_error_names_the_grant() {
    let server = hello();
    let probe = get(format!("{}/", origin(&server)));
    assert!(Prober::new().fails(probe.clone()).contains("HttpRequestDenied"));
    let error = Prober::new().ends_with(probe);
    assert_eq!(error.kind(), ErrorKind::Config, "it would be refused the next time, too");
    let text = error.to_string();
    let remedy = format!("set `allow.http = [\"{}\"]` of [plugins.stranger]", origin(&server));
    assert!(text.contains("plugin `stranger`: call `reader.poll`") && text.contains(&remedy), "{text}");
    assert_eq!(server.visits(), 0);
}

#[test]
fn another_scheme_port_or_host_is_another_origin() {
    let (server, other) = (hello(), hello());
    let prober = Prober::new().granted(json!({ "http": [origin(&server), "https://api.example.com", "https://*.example.org"] }));
    for url in [
        format!("http://127.0.0.1:{}/", other.port()),
        format!("https://127.0.0.1:{}/", server.port()),
        format!("http://localhost:{}/", server.port()),
        "http://api.example.com/".into(),
        "https://api.example.com:8443/".into(),
        "https://api.example.com.evil.example/".into(),
        "https://example.org/".into(),
    ] {
        let said = prober.fails(get(url.clone()));
        assert!(said.contains("HttpRequestDenied"), "{url}: {said}");
    }
    for url in ["https://api.example.com@127.0.0.1/", "ftp://api.example.com/"] {
        let said = prober.fails(get(url.into()));
        assert!(
            said.contains("HttpRequestUriInvalid") || said.contains("HttpProtocolError") || said.contains("takes no such"),
            "{url}: {said}"
        );
    }
    assert_eq!((server.visits(), other.visits()), (0, 0));
    // Another writing of the granted address is the granted address.
    assert!(prober.finds(get(format!("http://127.1:{}/", server.port()))).starts_with("200"));
}

#[test]
fn a_redirect_is_a_new_request_and_checked_anew() {
    let secret = hello();
    let elsewhere = format!("{}/secret", origin(&secret));
    let location = format!("location: {elsewhere}\r\n");
    let server = Server::http(move |_, _| answer("302 Found", &location, ""));
    let prober = Prober::new().granted(json!({ "http": [origin(&server)] }));
    assert_eq!(prober.finds(get(origin(&server))), format!("302 to {elsewhere}: "), "the host follows nothing");
    assert!(prober.fails(get(elsewhere)).contains("HttpRequestDenied"));
    assert_eq!(secret.visits(), 0);
}

#[test]
fn a_granted_name_that_leads_to_this_machine_is_not_followed() {
    let server = hello();
    let origin = format!("http://api.example.com:{}", server.port());
    for address in ["127.0.0.1", "::1", "10.0.0.1", "192.168.0.1", "169.254.169.254", "fd00::1", "::ffff:127.0.0.1", "0.0.0.0"] {
        let led_to: IpAddr = address.parse().unwrap();
        let prober = Prober::new().granted(json!({ "http": [&origin] })).resolving(move |_| Ok(vec![led_to]));
        assert!(prober.fails(get(origin.clone())).contains("DestinationIpProhibited"), "{address}");
    }
    let prober = Prober::new().granted(json!({ "http": [&origin] })).resolving(|_| Ok(vec![HERE]));
    let text = prober.ends_with(get(origin.clone())).to_string();
    assert!(text.contains("`api.example.com` led to 127.0.0.1") && text.contains(&format!("\"private:{origin}\"")), "{text}");
    assert_eq!(server.visits(), 0);
}

#[test]
fn a_name_is_resolved_once_and_what_was_checked_is_connected_to() {
    let server = hello();
    let origin = format!("http://api.example.com:{}", server.port());
    let asked = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&asked);
    // Public when it is asked the first time, this machine ever after: what a rebinding name server does.
    let resolve = move |_: &str| Ok(vec![if counted.fetch_add(1, Ordering::Relaxed) == 0 { PUBLIC } else { HERE }]);
    let mut limits = small();
    limits.deadline = Duration::from_secs(5);
    let prober = Prober::new().granted(json!({ "http": [&origin] })).limited(limits).resolving(resolve);
    let attempts = prober.attempt(json!([get(origin.clone()), get(origin)]));
    assert!(!attempts[0].found.contains("IpProhibited") && !attempts[0].succeeded, "{:?}", attempts[0]);
    assert!(attempts[1].found.contains("DestinationIpProhibited"), "{:?}", attempts[1]);
    assert_eq!((server.visits(), asked.load(Ordering::Relaxed)), (0, 2), "one look-up for each request");
}

#[test]
fn a_name_that_is_granted_as_private_may_lead_into_ones_own_network() {
    let server = hello();
    let origin = format!("http://api.corp.example:{}", server.port());
    let prober = Prober::new().granted(json!({ "http": [format!("private:{origin}")] }));
    let here = prober.resolving(|_| Ok(vec![HERE]));
    assert!(here.finds(get(origin.clone())).starts_with("200"));
    let metadata = here.resolving(|_| Ok(vec!["169.254.169.254".parse().unwrap()]));
    assert!(metadata.fails(get(origin)).contains("DestinationIpProhibited"), "what hands out credentials is private to nobody");
    // `localhost` is this machine, whoever answers for it.
    let origin = format!("http://localhost:{}", server.port());
    let local = Prober::new().granted(json!({ "http": [&origin] }));
    assert!(local.resolving(|_| Ok(vec![PUBLIC, HERE])).finds(get(origin)).starts_with("200"));
}

#[test]
fn a_server_that_never_answers_costs_the_guest_its_patience_and_no_more() {
    let silent = Server::start(|mut stream| {
        request(&mut stream);
        std::thread::sleep(Duration::from_secs(60));
    });
    let stalled = Server::start(|mut stream| {
        request(&mut stream);
        let _ = stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\nand then");
        std::thread::sleep(Duration::from_secs(60));
    });
    let mut limits = small();
    limits.deadline = Duration::from_secs(5);
    let prober = Prober::new().granted(json!({ "http": [origin(&silent), origin(&stalled)] })).limited(limits);
    let began = Instant::now();
    let attempts = prober.attempt(json!([get(origin(&silent)), get(origin(&stalled))]));
    assert!(attempts[0].found.contains("ConnectionReadTimeout"), "{:?}", attempts[0]);
    assert!(!attempts[1].succeeded && attempts[1].found.to_lowercase().contains("timeout"), "{:?}", attempts[1]);
    assert!(began.elapsed() < Duration::from_secs(20), "{:?}", began.elapsed());
}

#[test]
fn an_endless_body_streams_and_is_not_gathered() {
    let sent = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&sent);
    let server = Server::start(move |mut stream| {
        request(&mut stream);
        let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nconnection: close\r\n\r\n");
        while stream.write_all(&[b'x'; 65536]).is_ok() {
            counted.fetch_add(65536, Ordering::Relaxed);
        }
    });
    let prober = Prober::new().granted(json!({ "http": [origin(&server)] }));
    let plugin = prober.load();
    let probes = json!([{ "do": "get", "url": origin(&server), "most": 1000 }]);
    let mut reader = prober.reader(&plugin, &probes, false);
    let request = tidegate_api::PollRequest { max_rows: 100, max_bytes: 1 << 20, wait: Duration::ZERO };
    assert_eq!(reader.poll(request).unwrap().chunks[0].rows.num_rows(), 1);
    // The guest took 1000 bytes. What was sent beyond that lies in the buffers of two sockets, which a system lets grow to some megabytes.
    assert!(sent.load(Ordering::Relaxed) < 64 << 20, "{} bytes", sent.load(Ordering::Relaxed));
}

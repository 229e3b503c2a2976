//! Sockets of a guest: connections only to what it is granted, by the address that was checked; it never waits for connections itself.

#![allow(clippy::unwrap_used, reason = "a test may end by panicking")]

#[macro_use]
mod kit;

use kit::prober::Prober;
use kit::servers::{Server, udp_echo};
use kit::small;
use serde_json::{Value, json};
use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;
use tidegate_api::ErrorKind;

const HERE: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

fn by_name(host: &str, port: u16) -> Value {
    json!({ "do": "tcp", "host": host, "port": port })
}

fn connect(port: u16) -> Value {
    json!({ "do": "connect", "address": [127, 0, 0, 1], "port": port })
}

#[test]
fn a_granted_address_is_connected_to() {
    let server = Server::echo();
    let prober = Prober::new().granted(json!({ "tcp": [format!("127.0.0.1:{}", server.port())] }));
    assert_eq!(prober.finds(connect(server.port())), "you said hello\n");
    assert_eq!(prober.finds(by_name("127.0.0.1", server.port())), "you said hello\n", "an address is not looked up");
}

#[test]
fn without_a_grant_nothing_is_connected_to_and_the_error_names_the_grant() {
    let (server, other) = (Server::echo(), Server::echo());
    assert!(Prober::new().fails(connect(server.port())).contains("access-denied"));
    let error = Prober::new().ends_with(connect(server.port()));
    assert_eq!(error.kind(), ErrorKind::Config);
    let remedy = format!("set `allow.tcp = [\"127.0.0.1:{}\"]` of [plugins.stranger]", server.port());
    assert!(error.to_string().contains(&remedy), "{error}");
    // A grant is for its port, for its protocol, and no grant for requests.
    let granted = json!({ "tcp": [format!("127.0.0.1:{}", other.port())], "udp": [format!("127.0.0.1:{}", server.port())], "http": [format!("http://127.0.0.1:{}", server.port())] });
    assert!(Prober::new().granted(granted).fails(connect(server.port())).contains("access-denied"));
    assert_eq!((server.visits(), other.visits()), (0, 0));
}

#[test]
fn a_granted_name_is_looked_up_and_may_be_connected_to_at_its_port() {
    let (server, other) = (Server::echo(), Server::echo());
    let grants = json!({ "tcp": [format!("private:db.corp.example:{}", server.port())] });
    let prober = Prober::new().granted(grants).resolving(|_| Ok(vec![HERE]));
    assert_eq!(prober.finds(by_name("db.corp.example", server.port())), "you said hello\n");
    assert_eq!(prober.finds(by_name("DB.Corp.Example.", server.port())), "you said hello\n");
    assert!(prober.fails(by_name("db.corp.example", other.port())).contains("access-denied"));
    // Having looked a name up opens its addresses; before that, and for another instance, they are closed.
    assert!(prober.fails(connect(server.port())).contains("access-denied"));
    assert_eq!(other.visits(), 0);
}

#[test]
fn a_name_that_is_not_granted_is_not_even_looked_up() {
    let prober = Prober::new().granted(json!({ "tcp": ["db.example.com:5432"] })).resolving(|name| panic!("`{name}` was looked up"));
    assert!(prober.fails(by_name("secret-data.evil.example", 5432)).contains("look-up: "));
    let text = prober.ends_with(by_name("secret-data.evil.example", 5432)).to_string();
    assert!(
        text.contains("to look up the name `secret-data.evil.example`") && text.contains("allow.tcp = [\"db.example.com:5432\", "),
        "{text}"
    );
}

#[test]
fn a_granted_name_that_leads_to_this_machine_is_not_connected_to() {
    let server = Server::echo();
    let grants = json!({ "tcp": [format!("db.example.com:{}", server.port())] });
    let prober = Prober::new().granted(grants).resolving(|_| Ok(vec![HERE]));
    assert!(prober.fails(by_name("db.example.com", server.port())).contains("look-up: "));
    let text = prober.ends_with(by_name("db.example.com", server.port())).to_string();
    assert!(text.contains("`db.example.com` led to 127.0.0.1") && text.contains("private:db.example.com"), "{text}");
    assert_eq!(server.visits(), 0);
}

#[test]
fn datagrams_go_where_they_are_granted() {
    let (server, other) = (udp_echo(), udp_echo());
    let prober = Prober::new().granted(json!({ "udp": [server.to_string()] }));
    let probe = |port: u16| json!({ "do": "udp", "address": [127, 0, 0, 1], "port": port });
    assert_eq!(prober.finds(probe(server.port())), "hello");
    let text = prober.ends_with(probe(other.port())).to_string();
    assert!(text.contains(&format!("set `allow.udp = [\"{server}\", \"{other}\"]`")), "{text}");
}

#[test]
fn nobody_connects_to_a_guest() {
    let prober = Prober::new().granted(json!({ "tcp": ["127.0.0.1:1"] }));
    let text = prober.ends_with(json!({ "do": "listen" })).to_string();
    assert!(text.contains("it wanted to listen"), "{text}");
    let text = prober.ends_with(json!({ "do": "bind", "port": 0 })).to_string();
    assert!(text.contains("it wanted to bind to 127.0.0.1:0"), "{text}");
}

#[test]
fn a_server_that_never_answers_ends_the_call_by_io_timeout() {
    let silent = Server::start(|_stream| std::thread::sleep(Duration::from_secs(60)));
    let prober = Prober::new().granted(json!({ "tcp": [format!("127.0.0.1:{}", silent.port())] })).limited(small());
    let text = prober.ends_with(connect(silent.port())).to_string();
    assert!(text.contains("plugin `stranger`: call `reader.poll`"), "{text}");
}

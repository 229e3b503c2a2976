//! A server that sees requests whole: method, headers, bytes. It answers as it is told, or breaks off.
#![allow(dead_code, unreachable_pub, clippy::unwrap_used, clippy::disallowed_methods, reason = "a server of a test has threads of its own")]

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

/// A request.
#[derive(Debug, Clone)]
pub struct Seen {
    pub method: String,
    pub target: String,
    headers: Vec<(String, String)>,
    pub body: Vec<u8>,
}

impl Seen {
    /// The value of a header, by its name in lower case.
    pub fn header(&self, name: &str) -> Option<String> {
        self.headers.iter().find(|(key, _)| key == name).map(|(_, value)| value.clone())
    }

    pub fn text(&self) -> String {
        String::from_utf8(self.body.clone()).unwrap()
    }
}

/// What is done about a request.
pub enum Reply {
    Answer(u16, Vec<(String, String)>, Vec<u8>),
    /// The connection is closed without a word.
    Drop,
    /// Half of an answer, then the connection is closed.
    Half(Vec<u8>),
    /// Nothing, until the other side has had enough.
    Silence,
}

impl Reply {
    pub fn of(status: u16, body: &str) -> Reply {
        Reply::Answer(status, Vec::new(), body.as_bytes().to_vec())
    }

    #[must_use]
    pub fn with(self, name: &str, value: &str) -> Reply {
        match self {
            Reply::Answer(status, mut headers, body) => {
                headers.push((name.into(), value.into()));
                Reply::Answer(status, headers, body)
            }
            other => other,
        }
    }
}

/// A server and what it has seen.
pub struct Exchange {
    pub at: SocketAddr,
    seen: Arc<Mutex<Vec<Seen>>>,
}

impl Exchange {
    /// Answers with what `reply` makes of the number of a request, from 1, and the request.
    pub fn start(reply: impl Fn(usize, &Seen) -> Reply + Send + Sync + 'static) -> Exchange {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let at = listener.local_addr().unwrap();
        let seen: Arc<Mutex<Vec<Seen>>> = Arc::default();
        let (noted, reply) = (Arc::clone(&seen), Arc::new(reply));
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let (noted, reply) = (Arc::clone(&noted), Arc::clone(&reply));
                std::thread::spawn(move || {
                    let mut stream = stream;
                    let Some(request) = read(&stream) else { return };
                    let number = {
                        let mut noted = noted.lock().unwrap();
                        noted.push(request.clone());
                        noted.len()
                    };
                    answer(&mut stream, &request, reply(number, &request));
                });
            }
        });
        Exchange { at, seen }
    }

    pub fn origin(&self) -> String {
        format!("http://{}", self.at)
    }

    pub fn seen(&self) -> Vec<Seen> {
        self.seen.lock().unwrap().clone()
    }
}

fn answer(stream: &mut TcpStream, request: &Seen, reply: Reply) {
    // The other side may be gone by now.
    let _ = match reply {
        Reply::Answer(status, headers, body) => {
            let headers: String = headers.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
            let length = body.len();
            let head = format!("HTTP/1.1 {status} X\r\n{headers}content-length: {length}\r\nconnection: close\r\n\r\n");
            let body = if request.method == "HEAD" { &[][..] } else { &body };
            stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(body))
        }
        Reply::Half(body) => {
            let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\nconnection: close\r\n\r\n", body.len() * 2);
            stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(&body))
        }
        Reply::Silence => stream.read_to_end(&mut Vec::new()).map(|_| ()),
        Reply::Drop => Ok(()),
    };
}

/// Reads a request; `None` when it breaks off.
fn read(stream: &TcpStream) -> Option<Seen> {
    let mut reader = BufReader::new(stream);
    let mut first = String::new();
    reader.read_line(&mut first).ok()?;
    let mut parts = first.split(' ');
    let (method, target) = (parts.next()?.to_owned(), parts.next()?.to_owned());
    let mut headers = Vec::new();
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).ok()?;
        let Some((name, value)) = line.trim_end().split_once(':') else { break };
        headers.push((name.to_ascii_lowercase(), value.trim().to_owned()));
    }
    let value = |wanted: &str| headers.iter().find(|(name, _)| name == wanted).map(|(_, value)| value.clone());
    assert!(value("transfer-encoding").is_none(), "a client of the SDK says how long a body is");
    let mut body = vec![0; value("content-length").map_or(0, |length| length.parse().unwrap())];
    reader.read_exact(&mut body).ok()?;
    Some(Seen { method, target, headers, body })
}

//! Small servers on this machine, for guests to talk to.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// A server that counts who comes.
pub struct Server {
    pub at: SocketAddr,
    visits: Arc<AtomicUsize>,
}

impl Server {
    /// Serves each connection with `serve`, on a thread of its own.
    pub fn start(serve: impl Fn(TcpStream) + Send + Sync + 'static) -> Server {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let at = listener.local_addr().unwrap();
        let visits = Arc::new(AtomicUsize::new(0));
        let (serve, counted) = (Arc::new(serve), Arc::clone(&visits));
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                counted.fetch_add(1, Ordering::Relaxed);
                let serve = Arc::clone(&serve);
                std::thread::spawn(move || serve(stream));
            }
        });
        Server { at, visits }
    }

    /// Answers every request with what `answer` makes of its path and body.
    pub fn http(answer: impl Fn(&str, &str) -> String + Send + Sync + 'static) -> Server {
        Server::start(move |mut stream| {
            let (path, body) = request(&mut stream);
            let _ = stream.write_all(answer(&path, &body).as_bytes());
        })
    }

    /// Answers a line with it.
    pub fn echo() -> Server {
        Server::start(|mut stream| {
            let mut line = String::new();
            let _ = BufReader::new(stream.try_clone().unwrap()).read_line(&mut line);
            let _ = stream.write_all(format!("you said {line}").as_bytes());
        })
    }

    pub fn port(&self) -> u16 {
        self.at.port()
    }

    pub fn visits(&self) -> usize {
        self.visits.load(Ordering::Relaxed)
    }
}

/// Reads one request; its path and its body.
pub fn request(stream: &mut TcpStream) -> (String, String) {
    let mut reader = BufReader::new(stream.try_clone().unwrap());
    let (mut first, mut length, mut chunked) = (String::new(), 0, false);
    let _ = reader.read_line(&mut first);
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line).unwrap_or(0) == 0 || line == "\r\n" {
            break;
        }
        let line = line.to_ascii_lowercase();
        if let Some(value) = line.strip_prefix("content-length:") {
            length = value.trim().parse().unwrap();
        }
        chunked |= line.starts_with("transfer-encoding: chunked");
    }
    let mut body = vec![0; length];
    let _ = reader.read_exact(&mut body);
    if chunked {
        body = chunks(&mut reader);
    }
    (first.split(' ').nth(1).unwrap_or_default().to_string(), String::from_utf8(body).unwrap())
}

fn chunks(reader: &mut impl BufRead) -> Vec<u8> {
    let mut body = Vec::new();
    loop {
        let mut size = String::new();
        reader.read_line(&mut size).unwrap();
        let mut chunk = vec![0; usize::from_str_radix(size.trim(), 16).unwrap() + 2];
        reader.read_exact(&mut chunk).unwrap();
        if chunk.len() == 2 {
            return body;
        }
        body.extend(&chunk[..chunk.len() - 2]);
    }
}

/// A complete answer.
pub fn answer(status: &str, headers: &str, body: &str) -> String {
    format!("HTTP/1.1 {status}\r\n{headers}content-length: {}\r\nconnection: close\r\n\r\n{body}", body.len())
}

/// A socket that answers datagrams with what they said.
pub fn udp_echo() -> SocketAddr {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let at = socket.local_addr().unwrap();
    std::thread::spawn(move || {
        let mut datagram = [0; 1000];
        while let Ok((length, from)) = socket.recv_from(&mut datagram) {
            let _ = socket.send_to(&datagram[..length], from);
        }
    });
    at
}

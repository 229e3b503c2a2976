//! A registry for tests, with the paths, the JSON and the error codes of Confluent's. What it holds is put there by the test, or by
//! whoever registers; it judges no compatibility, but refuses what it is told to refuse.

#![allow(dead_code, reason = "shared with the tests of the outside, which use other parts of it")]

use ::base64::Engine as _;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread::JoinHandle;

#[derive(Debug, Clone)]
struct Held {
    kind: String,
    text: String,
    /// What `?format=serialized` answers.
    serialized: Option<String>,
    references: Value,
}

#[derive(Default)]
pub(crate) struct State {
    /// The id of a schema is its place, from 1.
    schemas: Vec<Held>,
    /// The ids of a subject's versions.
    subjects: BTreeMap<String, Vec<usize>>,
    /// What was asked for, with the login.
    pub(crate) asked: Vec<String>,
    /// So many questions are answered with this status.
    pub(crate) failing: (usize, u16),
    /// What is answered to those who register.
    pub(crate) refuses: Option<(u16, u64, &'static str)>,
}

pub(crate) struct FakeRegistry {
    address: String,
    state: Arc<Mutex<State>>,
    ends: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl FakeRegistry {
    pub(crate) fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let (state, ends) = (Arc::<Mutex<State>>::default(), Arc::new(AtomicBool::new(false)));
        let (shared, over) = (Arc::clone(&state), Arc::clone(&ends));
        #[allow(clippy::disallowed_methods, reason = "a server of a test")]
        let thread = std::thread::spawn(move || {
            for stream in listener.incoming() {
                if over.load(Ordering::SeqCst) {
                    return;
                }
                let _ = serve(stream.unwrap(), &shared);
            }
        });
        FakeRegistry { address, state, ends, thread: Some(thread) }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }

    fn hold(&self, subject: &str, held: Held) -> u32 {
        self.state().register(subject, held) as u32
    }

    pub(crate) fn avro(&self, subject: &str, text: &str, references: &[(&str, &str, u64)]) -> u32 {
        let references = listed(references);
        self.hold(subject, Held { kind: "AVRO".into(), text: text.into(), serialized: None, references })
    }

    pub(crate) fn json(&self, subject: &str, text: &str) -> u32 {
        self.hold(subject, Held { kind: "JSON".into(), text: text.into(), serialized: None, references: json!([]) })
    }

    /// A file descriptor, which is what the registry would have compiled the text to.
    pub(crate) fn protobuf(&self, subject: &str, descriptor: &[u8], references: &[(&str, &str, u64)]) -> u32 {
        let serialized = Some(::base64::engine::general_purpose::STANDARD.encode(descriptor));
        let held = Held { kind: "PROTOBUF".into(), text: "syntax = …".into(), serialized, references: listed(references) };
        self.hold(subject, held)
    }

    /// The newest text of a subject.
    pub(crate) fn newest(&self, subject: &str) -> Option<(u32, String)> {
        let state = self.state();
        let id = *state.subjects.get(subject)?.last()?;
        Some((id as u32, state.schemas[id - 1].text.clone()))
    }
}

impl Drop for FakeRegistry {
    fn drop(&mut self) {
        self.ends.store(true, Ordering::SeqCst);
        let _ = TcpStream::connect(&self.address);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn listed(references: &[(&str, &str, u64)]) -> Value {
    references.iter().map(|(name, subject, version)| json!({ "name": name, "subject": subject, "version": version })).collect()
}

type Answer = Result<Value, (u16, u64, String)>;

impl State {
    fn find(&self, kind: &str, text: &str) -> Option<usize> {
        self.schemas.iter().position(|held| held.kind == kind && held.text == text).map(|place| place + 1)
    }

    fn register(&mut self, subject: &str, held: Held) -> usize {
        let id = self.find(&held.kind, &held.text).filter(|_| held.serialized.is_none()).unwrap_or_else(|| {
            self.schemas.push(held);
            self.schemas.len()
        });
        let versions = self.subjects.entry(subject.into()).or_default();
        if !versions.contains(&id) {
            versions.push(id);
        }
        id
    }

    fn shown(&self, id: usize) -> Value {
        let held = &self.schemas[id - 1];
        let mut answer = json!({ "schema": held.text });
        if held.kind != "AVRO" {
            answer["schemaType"] = json!(held.kind);
        }
        if held.references != json!([]) {
            answer["references"] = held.references.clone();
        }
        answer
    }

    fn version(&self, subject: &str, version: &str) -> Answer {
        let none = |code, what: &str| Err((404, code, format!("{what} not found.")));
        let Some(versions) = self.subjects.get(subject) else { return none(40401, &format!("Subject '{subject}'")) };
        let number = if version == "latest" { versions.len() } else { version.parse().unwrap() };
        let Some(id) = number.checked_sub(1).and_then(|place| versions.get(place)) else {
            return none(40402, &format!("Version {version}"));
        };
        let mut answer = self.shown(*id);
        (answer["subject"], answer["version"], answer["id"]) = (json!(subject), json!(number), json!(id));
        Ok(answer)
    }

    fn answer(&mut self, method: &str, path: &str, body: &Value) -> Answer {
        let (path, query) = path.split_once('?').unwrap_or((path, ""));
        let steps: Vec<String> = path.trim_matches('/').split('/').map(unescaped).collect();
        let steps: Vec<&str> = steps.iter().map(String::as_str).collect();
        let no_schema = || (404, 40403, "Schema not found".to_string());
        match (method, steps.as_slice()) {
            ("GET", ["schemas", "ids", id, rest @ ..]) => {
                let id: usize = id.parse().unwrap();
                let held = id.checked_sub(1).and_then(|place| self.schemas.get(place)).ok_or_else(no_schema)?;
                if let ["versions"] = rest {
                    let places = self.subjects.iter().flat_map(|(subject, ids)| {
                        let here = ids.iter().enumerate().filter(|(_, other)| **other == id);
                        here.map(move |(version, _)| json!({ "subject": subject, "version": version + 1 }))
                    });
                    return Ok(places.collect());
                }
                let mut answer = self.shown(id);
                if query == "format=serialized" {
                    answer["schema"] = json!(held.serialized.clone().unwrap_or_else(|| held.text.clone()));
                }
                Ok(answer)
            }
            ("GET", ["subjects", subject, "versions", version]) => self.version(subject, version),
            ("POST", ["subjects", subject, rest @ ..]) => {
                if let Some((status, code, words)) = self.refuses {
                    return Err((status, code, words.to_string()));
                }
                let text = |key: &str| body.get(key).and_then(Value::as_str).map(str::to_string);
                let kind = text("schemaType").unwrap_or_else(|| "AVRO".into());
                let Some(text) = text("schema") else { return Err((422, 42201, "Empty schema".into())) };
                if rest == ["versions"] {
                    let held = Held { kind, text, serialized: None, references: json!([]) };
                    return Ok(json!({ "id": self.register(subject, held) }));
                }
                let versions = self.subjects.get(*subject);
                let versions = versions.ok_or_else(|| (404, 40401, format!("Subject '{subject}' not found.")))?;
                let id = self.find(&kind, &text).filter(|id| versions.contains(id)).ok_or_else(no_schema)?;
                Ok(json!({ "subject": subject, "id": id, "version": 1, "schema": text }))
            }
            _ => Err((404, 404, "HTTP 404 Not Found".into())),
        }
    }
}

fn unescaped(step: &str) -> String {
    let mut bytes = Vec::new();
    let mut rest = step.bytes();
    while let Some(byte) = rest.next() {
        bytes.push(if byte == b'%' {
            let digits = [rest.next().unwrap(), rest.next().unwrap()];
            u8::from_str_radix(std::str::from_utf8(&digits).unwrap(), 16).unwrap()
        } else {
            byte
        });
    }
    String::from_utf8(bytes).unwrap()
}

fn serve(stream: TcpStream, state: &Mutex<State>) -> std::io::Result<()> {
    let mut reader = BufReader::new(stream);
    let mut first = String::new();
    reader.read_line(&mut first)?;
    let (mut length, mut login) = (0, String::new());
    loop {
        let mut line = String::new();
        reader.read_line(&mut line)?;
        let Some((name, value)) = line.trim().split_once(": ") else { break };
        match name.to_ascii_lowercase().as_str() {
            "content-length" => length = value.parse().unwrap(),
            "authorization" => login = value.to_string(),
            _ => {}
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body)?;
    let mut words = first.split_whitespace();
    let (Some(method), Some(path)) = (words.next(), words.next()) else { return Ok(()) };
    let answer = {
        let mut state = state.lock().unwrap();
        state.asked.push(format!("{method} {path} {login}").trim().to_string());
        if state.failing.0 > 0 {
            state.failing.0 -= 1;
            let status = state.failing.1;
            Err((status, u64::from(status) * 100 + 1, "later".to_string()))
        } else {
            state.answer(method, path, &serde_json::from_slice(&body).unwrap_or(Value::Null))
        }
    };
    let (status, body) = match answer {
        Ok(found) => (200, found),
        Err((status, code, message)) => (status, json!({ "error_code": code, "message": message })),
    };
    let body = body.to_string();
    let mut stream = reader.into_inner();
    write!(
        stream,
        "HTTP/1.1 {status} Whatever\r\ncontent-type: application/vnd.schemaregistry.v1+json\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}",
        body.len()
    )
}

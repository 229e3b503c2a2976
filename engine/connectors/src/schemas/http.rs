//! One question to a registry and its answer, sorted by what is to be done next.
//!
//! No redirect is followed, so that no other host is ever told the login; no answer is read past a limit; nothing waits without end.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;
use std::fmt;
use std::path::PathBuf;
use std::sync::OnceLock;
use std::time::Duration;
use tidegate_api::{Error, Result};
use ureq::Agent;
use ureq::tls::{Certificate, PemItem, RootCerts, TlsConfig, parse_pem};
use url::Url;

/// The longest answer.
const LARGEST: u64 = 8 << 20;
const CONNECT: Duration = Duration::from_secs(5);
/// How long a question may take, from the name's address to the last byte.
const WHOLE: Duration = Duration::from_secs(10);
/// What registries of Confluent answer in; others accept it.
const MEDIA: &str = "application/vnd.schemaregistry.v1+json";

/// Who asks.
pub(super) enum Login {
    None,
    Basic { username: String, password: String },
    Token(String),
}

/// An answer.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Answer {
    Found(Value),
    /// The registry's own reason: its code, or the status where it has none, and its words.
    Refused {
        code: u64,
        message: String,
    },
    /// Nobody answered, or only that it cannot be now; and how long to wait, if that was said.
    Away {
        why: String,
        wait: Option<Duration>,
    },
}

/// The server of a registry.
pub(super) struct Http {
    base: String,
    header: Option<String>,
    ca: Option<PathBuf>,
    agent: OnceLock<Agent>,
}

/// Without the login.
impl fmt::Debug for Http {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Http").field("base", &self.base).finish_non_exhaustive()
    }
}

impl Http {
    pub(super) fn new(url: Url, login: Login, ca: Option<PathBuf>) -> Self {
        let header = match login {
            Login::None => None,
            Login::Basic { username, password } => Some(format!("Basic {}", STANDARD.encode(format!("{username}:{password}")))),
            Login::Token(token) => Some(format!("Bearer {token}")),
        };
        Http { base: url.as_str().trim_end_matches('/').to_string(), header, ca, agent: OnceLock::new() }
    }

    /// Where it is, for messages.
    pub(super) fn base(&self) -> &str {
        &self.base
    }

    fn agent(&self) -> Result<&Agent> {
        if let Some(agent) = self.agent.get() {
            return Ok(agent);
        }
        let mut config = Agent::config_builder()
            .http_status_as_error(false)
            .max_redirects(0)
            .max_redirects_will_error(false)
            // The library would read variables of the environment.
            .proxy(None)
            .user_agent("tidegate")
            .timeout_connect(Some(CONNECT))
            .timeout_global(Some(WHOLE));
        if self.base.starts_with("https:") {
            config = config.tls_config(TlsConfig::builder().root_certs(self.roots()?).build());
        }
        Ok(self.agent.get_or_init(|| config.build().new_agent()))
    }

    /// Whom the system trusts, and whom `ca` names.
    fn roots(&self) -> Result<RootCerts> {
        let system = rustls_native_certs::load_native_certs();
        let mut roots: Vec<Certificate<'static>> =
            system.certs.iter().map(|certificate| Certificate::from_der(certificate.as_ref()).to_owned()).collect();
        if let Some(path) = &self.ca {
            let shown = path.display();
            let pem = std::fs::read(path).map_err(|error| Error::config(format!("`registry.ca`: `{shown}` cannot be read: {error}")))?;
            let before = roots.len();
            for item in parse_pem(&pem) {
                match item {
                    Ok(PemItem::Certificate(certificate)) => roots.push(certificate),
                    Ok(_) => {}
                    Err(error) => return Err(Error::config(format!("`registry.ca`: `{shown}` is no PEM: {error}"))),
                }
            }
            if roots.len() == before {
                return Err(Error::config(format!("`registry.ca`: `{shown}` holds no certificate")));
            }
        }
        if roots.is_empty() {
            let why = system.errors.first().map(|error| format!(": {error}")).unwrap_or_default();
            return Err(Error::config(format!("the system has no certificates to trust{why}; name some by `ca` of `registry`")));
        }
        Ok(RootCerts::from(roots))
    }

    /// Asks once. `body` makes it a `POST`.
    ///
    /// # Errors
    /// `Config` for what asking again will not mend.
    pub(super) fn ask(&self, path: &str, body: Option<&Value>) -> Result<Answer> {
        let agent = self.agent()?;
        let url = format!("{}{path}", self.base);
        let sent = match body {
            None => {
                let mut request = agent.get(&url).header("accept", MEDIA);
                if let Some(header) = &self.header {
                    request = request.header("authorization", header);
                }
                request.call()
            }
            Some(body) => {
                let mut request = agent.post(&url).header("accept", MEDIA).header("content-type", MEDIA);
                if let Some(header) = &self.header {
                    request = request.header("authorization", header);
                }
                request.send(body.to_string().as_bytes())
            }
        };
        let mut response = match sent {
            Ok(response) => response,
            Err(error) => return self.failed(&error),
        };
        let status = response.status().as_u16();
        let said = |name: &str| response.headers().get(name).and_then(|value| value.to_str().ok()).map(str::to_string);
        let (location, wait) = (said("location"), said("retry-after"));
        let bytes = match response.body_mut().with_config().limit(LARGEST).read_to_vec() {
            Ok(bytes) => bytes,
            Err(error) => return self.failed(&error),
        };
        self.sort(status, location.as_deref(), wait.as_deref(), &bytes)
    }

    fn sort(&self, status: u16, location: Option<&str>, wait: Option<&str>, bytes: &[u8]) -> Result<Answer> {
        let base = &self.base;
        let json: Option<Value> = serde_json::from_slice(bytes).ok();
        let message = || match json.as_ref().and_then(|json| json.get("message")).and_then(Value::as_str) {
            Some(message) => message.to_string(),
            None => shortened(&String::from_utf8_lossy(bytes)),
        };
        let code = json.as_ref().and_then(|json| json.get("error_code")).and_then(Value::as_u64);
        match status {
            200..=299 => match json {
                Some(json) => Ok(Answer::Found(json)),
                None => Err(Error::config(format!("`registry`: `{base}` does not answer as a schema registry does; is its path right?"))),
            },
            300..=399 => {
                let to = location.map(|to| format!(" to `{}`", shortened(to))).unwrap_or_default();
                Err(Error::config(format!("`registry`: `{base}` sends elsewhere{to}, which is not followed; write where it is")))
            }
            401 | 403 => Err(Error::config(format!("`registry`: `{base}` refuses who asks ({status}): {}", message()))),
            408 | 425 | 429 | 500..=599 => {
                let wait = wait.and_then(|seconds| seconds.trim().parse().ok()).map(Duration::from_secs);
                Ok(Answer::Away { why: format!("it answers {status}: {}", message()), wait })
            }
            404 if code.is_none() => {
                Err(Error::config(format!("`registry`: `{base}` has nothing of a schema registry (404); is its path right?")))
            }
            _ => Ok(Answer::Refused { code: code.unwrap_or(u64::from(status)), message: message() }),
        }
    }

    fn failed(&self, error: &ureq::Error) -> Result<Answer> {
        let base = &self.base;
        match error {
            ureq::Error::BodyExceedsLimit(_) => {
                Err(Error::limit(format!("`registry`: an answer of `{base}` is longer than {} MiB", LARGEST >> 20)))
            }
            ureq::Error::Http(_) | ureq::Error::BadUri(_) => Err(Error::config(format!("`registry`: `{base}` cannot be asked: {error}"))),
            ureq::Error::Tls(_) | ureq::Error::Rustls(_) | ureq::Error::Pem(_) => Err(self.untrusted(error)),
            // What a handshake fails by is handed on as data that makes no sense.
            ureq::Error::Io(inner) if inner.kind() == std::io::ErrorKind::InvalidData => Err(self.untrusted(inner)),
            other => Ok(Answer::Away { why: other.to_string(), wait: None }),
        }
    }

    fn untrusted(&self, error: &dyn fmt::Display) -> Error {
        Error::config(format!("`registry`: TLS with `{}` fails: {error}; name who signed its certificate by `ca`", self.base))
    }
}

/// The beginning of what a server said, on one line.
fn shortened(text: &str) -> String {
    const MOST: usize = 200;
    let line: String = text.split_whitespace().collect::<Vec<_>>().join(" ");
    match line.char_indices().nth(MOST) {
        Some((end, _)) => format!("{}…", &line[..end]),
        None if line.is_empty() => "it says no more".to_string(),
        None => line,
    }
}

/// A name as one step of a path.
pub(super) fn step(name: &str) -> String {
    let mut text = String::with_capacity(name.len());
    for byte in name.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => text.push(char::from(byte)),
            _ => text.push_str(&format!("%{byte:02X}")),
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sort(status: u16, body: &str) -> Result<Answer> {
        let http = Http::new(Url::parse("http://host/").unwrap(), Login::None, None);
        http.sort(status, Some("https://other"), Some("3"), body.as_bytes())
    }

    #[test]
    fn answers_are_sorted_by_what_is_to_be_done_next() {
        assert_eq!(sort(200, "{\"id\":1}").unwrap(), Answer::Found(serde_json::json!({ "id": 1 })));
        let refused = |code, message: &str| Answer::Refused { code, message: message.into() };
        assert_eq!(sort(404, r#"{"error_code":40403,"message":"gone"}"#).unwrap(), refused(40403, "gone"));
        assert_eq!(sort(409, "<p>no\n\n way").unwrap(), refused(409, "<p>no way"));
        let wait = Some(Duration::from_secs(3));
        assert_eq!(sort(503, "").unwrap(), Answer::Away { why: "it answers 503: it says no more".into(), wait });
        for (status, body, part) in [
            (200, "<html>", "does not answer as a schema registry"),
            (404, "<html>", "is its path right?"),
            (401, "no", "refuses who asks (401): no"),
            (302, "", "sends elsewhere to `https://other`"),
        ] {
            let error = sort(status, body).unwrap_err();
            assert!(error.message().contains(part) && error.message().contains("`http://host`"), "{error}");
        }
    }

    #[test]
    fn a_name_is_one_step_of_a_path_whatever_it_is() {
        assert_eq!(step("a-b.c_9~"), "a-b.c_9~");
        assert_eq!(step("a/b c?é"), "a%2Fb%20c%3F%C3%A9");
    }
}

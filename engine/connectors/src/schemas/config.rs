//! What a dataset says of its registry.

use super::http::{Http, Login};
use super::registry::Registry;
use serde_json::Value;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use tidegate_api::SystemClock;
use tidegate_api::config::{Options, Problem};
use url::Url;

/// The keys that are secrets.
pub(crate) const SECRET: &[&str] = &["password", "token"];
/// The option, for people.
pub(crate) const REGISTRY_DOC: &str = "a schema registry with Confluent's API, where the schemas of avro, protobuf and json are: its URL, or \
    `{ url, username, password, token, ca, subject, timeout }` (and `autoRegister` in a sink), with password and token by reference only \
    ([more](#kafka-schema-registries))";

/// How long a registry may be out of reach, unless the options say.
const TIMEOUT: Duration = Duration::from_secs(60);

/// Which half of a connector asks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Half {
    Source,
    Sink,
}

/// A registry and what is wanted of it.
#[derive(Debug, Clone)]
pub(crate) struct RegistryConfig {
    pub(crate) registry: Arc<Registry>,
    /// The subject, if it is not the topic's.
    pub(crate) subject: Option<String>,
    /// Whether a sink makes what is not there.
    pub(crate) registers: bool,
}

impl RegistryConfig {
    /// Reads `registry`; nothing if it is not there. Mistakes are left with `options`.
    pub(crate) fn read(options: &mut Options<'_>, base: &Path, half: Half) -> Option<Self> {
        let table = match options.value("registry")? {
            Value::String(url) => [("url".to_string(), Value::String(url.clone()))].into_iter().collect(),
            Value::Object(table) => table.clone(),
            _ => {
                options.problem("registry", "expected a URL, or a table with one as `url`");
                return None;
            }
        };
        let mut inner = Options::new(&table);
        let url = inner.require_string("url").and_then(|text| match address(&text) {
            Ok(url) => Some(url),
            Err(why) => {
                inner.problem("url", why);
                None
            }
        });
        let (username, password, token) = (inner.string("username"), inner.string("password"), inner.string("token"));
        let login = match (username, password, token) {
            (None, None, None) => Login::None,
            (Some(username), password, None) => Login::Basic { username, password: password.unwrap_or_default() },
            (None, None, Some(token)) => Login::Token(token),
            (_, _, Some(_)) => {
                inner.problem("token", "`token` stands beside `username` or `password`; keep one");
                Login::None
            }
            (None, Some(_), None) => {
                inner.problem("username", "`username` is missing: a `password` is somebody's");
                Login::None
            }
        };
        let ca = inner.string("ca").map(|path| base.join(path));
        let subject = inner.string("subject");
        if subject.as_ref().is_some_and(String::is_empty) {
            inner.problem("subject", "expected the name of a subject");
        }
        let timeout = inner.duration("timeout").unwrap_or(TIMEOUT);
        let registers = match half {
            Half::Sink => inner.boolean("autoRegister").unwrap_or(true),
            Half::Source => false,
        };
        let problems = inner.finish();
        let is_good = problems.is_empty();
        let under = |problem: Problem| problem.under(["registry".to_string()]);
        // A plain URL has no key of its own.
        let is_table = options.value("registry").is_some_and(Value::is_object);
        options.problems(problems.into_iter().map(
            |problem| {
                if is_table { under(problem) } else { Problem::at("registry", problem.message) }
            },
        ));
        let registry = Registry::new(Http::new(url?, login, ca), Arc::new(SystemClock), timeout);
        is_good.then(|| RegistryConfig { registry: Arc::new(registry), subject, registers })
    }
}

/// The URL of a registry, or why it is none.
fn address(text: &str) -> Result<Url, String> {
    let url = Url::parse(text).map_err(|error| format!("`{text}` is no URL: {error}"))?;
    if !matches!(url.scheme(), "http" | "https") || url.host().is_none() {
        return Err(format!("`{text}` is no address of a registry; write `https://HOST:PORT`"));
    }
    // Whatever stands there would be shown with the URL.
    if !url.username().is_empty() || url.password().is_some() {
        return Err("a user and a password do not stand in the URL; say `username` and `password`".to_string());
    }
    if url.query().is_some() || url.fragment().is_some() {
        return Err(format!("`{text}` has a query or a fragment, a registry's address has none"));
    }
    Ok(url)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn read(registry: Value) -> (Option<RegistryConfig>, Vec<String>) {
        let map = json!({ "registry": registry }).as_object().cloned().unwrap();
        let mut options = Options::new(&map);
        let config = RegistryConfig::read(&mut options, Path::new("/base"), Half::Sink);
        (config, options.finish().iter().map(ToString::to_string).collect())
    }

    #[test]
    fn a_url_alone_or_a_table_is_a_registry() {
        for registry in [
            json!("http://localhost:8081"),
            json!({ "url": "https://registry.example/path/", "username": "u", "password": "p", "subject": "s", "timeout": "5s" }),
            json!({ "url": "https://registry.example", "token": "t", "ca": "ca.pem", "autoRegister": false }),
        ] {
            let (config, problems) = read(registry.clone());
            assert!(config.is_some() && problems.is_empty(), "{registry}: {problems:?}");
        }
    }

    #[test]
    fn every_mistake_is_told_at_its_key_and_no_secret_is_shown() {
        for (registry, part) in [
            (json!(7), "registry: expected a URL"),
            (json!("localhost:8081"), "registry: `localhost:8081` is no address"),
            (json!("http://me:hidden@host"), "registry: a user and a password do not stand in the URL"),
            (json!("http://host/?a=b"), "has a query"),
            (json!({}), "registry.url: `url` is missing"),
            (json!({ "url": "http://h", "tokn": "hidden" }), "registry.tokn: unknown key"),
            (json!({ "url": "http://h", "token": "hidden", "username": "u" }), "registry.token: `token` stands beside"),
            (json!({ "url": "http://h", "password": "hidden" }), "registry.username: `username` is missing"),
            (json!({ "url": "http://h", "subject": "" }), "registry.subject: expected"),
        ] {
            let (config, problems) = read(registry);
            let told = problems.join("\n");
            assert!(config.is_none() && told.contains(part) && !told.contains("hidden"), "{part} in {told}");
        }
        let (config, _) = read(json!({ "url": "http://h", "username": "u", "password": "hidden" }));
        assert!(!format!("{config:?}").contains("hidden"));
    }
}

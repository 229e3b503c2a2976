//! Headers, authorization and timeouts: what the plugins share that send requests.

use std::collections::BTreeMap;
use std::time::Duration;
use tidegate_sdk::net::Url;
use tidegate_sdk::net::http::{Request, Timeouts};
use tidegate_sdk::{Error, Result, secrets};

/// The timeout of a configuration that names none, in milliseconds: below the host's own.
pub const TIMEOUT_MS: u64 = 25_000;

/// Makes requests as a configuration says.
#[derive(Debug, Clone)]
pub struct Client {
    headers: BTreeMap<String, String>,
    authorization: Option<String>,
    timeouts: Timeouts,
}

impl Client {
    /// With these headers; `authorization` is the name of the secret that is the value of the header `Authorization`. Names in `own` are the plugin's own.
    ///
    /// # Errors
    /// `Config` for a header that cannot be set, and for a secret that the pipeline file does not have.
    pub fn new(headers: &BTreeMap<String, String>, authorization: Option<&str>, timeout_ms: u64, own: &[&str]) -> Result<Self> {
        for (name, value) in headers {
            let wrong = |why: &str| Err(Error::config(format!("`headers` has `{name}`, {why}")));
            let is_name = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.!#$%&'*+^`|~".contains(&byte);
            if name.is_empty() || !name.bytes().all(is_name) {
                return wrong("which is no name of a header");
            }
            if value.bytes().any(|byte| byte < b' ' && byte != b'\t') {
                return wrong("whose value has a line break or control character in it");
            }
            if name.eq_ignore_ascii_case("authorization") {
                return wrong("which would stand in the pipeline file for all to read; name a secret in `authorization` instead");
            }
            if own.iter().any(|own| own.eq_ignore_ascii_case(name)) {
                return wrong("which the plugin sets itself");
            }
        }
        if timeout_ms == 0 {
            return Err(Error::config("`timeoutMs` is 0, and every answer takes longer"));
        }
        if let Some(name) = authorization {
            secrets::get(name)?;
        }
        let patience = Duration::from_millis(timeout_ms);
        let timeouts = Timeouts { connect: patience.min(Timeouts::default().connect), first_byte: patience, between_bytes: patience };
        Ok(Client { headers: headers.clone(), authorization: authorization.map(str::to_owned), timeouts })
    }

    /// A request. The secret is asked for each time: it may change during a run.
    ///
    /// # Errors
    /// `Config` when the secret is gone.
    pub fn request(&self, method: &'static str, url: Url) -> Result<Request> {
        let mut request = Request::new(method, url).with_timeouts(self.timeouts);
        for (name, value) in &self.headers {
            request = request.with_header(name, value);
        }
        if let Some(name) = &self.authorization {
            request = request.with_header("authorization", secrets::get(name)?.trim());
        }
        Ok(request)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tidegate_sdk::testing::set_secret;

    fn client(headers: &[(&str, &str)], authorization: Option<&str>) -> Result<Client> {
        let headers = headers.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        Client::new(&headers, authorization, 5000, &["Idempotency-Key"])
    }

    #[test]
    fn headers_and_the_secret_of_the_moment_are_sent() {
        let url = Url::parse("http://h/").unwrap();
        assert!(matches!(client(&[], Some("token")), Err(Error::Config(message)) if message.contains("`token`")));
        set_secret("token", "Bearer a\n");
        let client = client(&[("X-Team", "blue")], Some("token")).unwrap();
        let request = client.request("GET", url.clone()).unwrap();
        assert_eq!((request.header("x-team"), request.header("authorization")), (Some("blue"), Some("Bearer a")));
        assert_eq!((request.timeouts.connect, request.timeouts.first_byte), (Duration::from_secs(5), Duration::from_secs(5)));
        set_secret("token", "Bearer b");
        assert_eq!(client.request("GET", url).unwrap().header("authorization"), Some("Bearer b"));
    }

    #[test]
    fn headers_that_cannot_be_set_say_why() {
        for (name, value, why) in [
            ("", "x", "no name"),
            ("a b", "x", "no name"),
            ("A", "x\r\nB: y", "line break"),
            ("Authorization", "x", "name a secret"),
            ("idempotency-key", "x", "sets itself"),
        ] {
            let error = client(&[(name, value)], None).unwrap_err();
            assert!(matches!(&error, Error::Config(message) if message.contains(why)), "{name}: {error}");
        }
    }
}

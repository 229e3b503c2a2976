//! As much of URLs as a client needs.

use crate::{Error, Result};
use std::fmt;

/// An address of `http:` or `https:`, without user, password and fragment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Url {
    secure: bool,
    authority: String,
    /// Begins with `/`; query and all.
    target: String,
}

impl Url {
    /// Reads an address.
    ///
    /// # Errors
    /// `Config`, with what is wrong about it.
    pub fn parse(text: &str) -> Result<Self> {
        let wrong = |why: &str| Error::config(format!("the URL `{text}` {why}"));
        if text.bytes().any(|byte| byte <= b' ' || byte == 0x7f) {
            return Err(wrong("has a blank or control character in it; write it as %20 or the like"));
        }
        let (scheme, rest) = text.split_once("://").ok_or_else(|| wrong("has no `http://` or `https://` before it"))?;
        let secure = match scheme.to_ascii_lowercase().as_str() {
            "https" => true,
            "http" => false,
            _ => return Err(wrong("is neither `http://` nor `https://`")),
        };
        let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
        let (authority, target) = rest.split_at(end);
        if authority.is_empty() {
            return Err(wrong("names no host"));
        }
        if authority.contains('@') {
            return Err(wrong("has a user in it; put what authorises requests into a secret"));
        }
        let target = target.split('#').next().unwrap_or_default();
        let target = if target.starts_with('/') { target.to_owned() } else { format!("/{target}") };
        Ok(Url { secure, authority: authority.to_ascii_lowercase(), target })
    }

    /// Whether it is `https:`.
    pub fn is_secure(&self) -> bool {
        self.secure
    }

    /// Host and port, as written.
    pub fn authority(&self) -> &str {
        &self.authority
    }

    /// Path and query.
    pub fn target(&self) -> &str {
        &self.target
    }

    /// Scheme, host and port: what a grant names.
    pub fn origin(&self) -> String {
        format!("{}://{}", if self.secure { "https" } else { "http" }, self.authority)
    }

    /// The same with another path and query, which begins with `/`.
    #[must_use]
    pub fn with_target(&self, target: &str) -> Self {
        let target = if target.starts_with('/') { target.to_owned() } else { format!("/{target}") };
        Url { target, ..self.clone() }
    }

    /// The same with one more parameter in its query.
    #[must_use]
    pub fn with_parameter(&self, name: &str, value: &str) -> Self {
        let between = if self.target.contains('?') { '&' } else { '?' };
        let target = format!("{}{between}{}={}", self.target, percent_encoded(name, false), percent_encoded(value, false));
        Url { target, ..self.clone() }
    }

    /// What a reference in an answer from here means.
    ///
    /// # Errors
    /// `Config` when it is no reference to an address.
    pub fn join(&self, reference: &str) -> Result<Self> {
        if reference.contains("://") {
            return Url::parse(reference);
        }
        if let Some(rest) = reference.strip_prefix("//") {
            return Url::parse(&format!("{}://{rest}", if self.secure { "https" } else { "http" }));
        }
        let path = self.target.split('?').next().unwrap_or_default();
        let target = match reference.as_bytes().first() {
            Some(b'/') => reference.to_owned(),
            Some(b'?') => format!("{path}{reference}"),
            None => self.target.clone(),
            Some(_) => format!("{}/{reference}", path.rsplit_once('/').map_or("", |(folder, _)| folder)),
        };
        Url::parse(&format!("{}{target}", self.origin()))
    }
}

impl fmt::Display for Url {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.origin(), self.target)
    }
}

/// Everything but letters, digits and `-_.~` as `%` and two capital hexadecimal digits per byte; `/` stays if wanted.
pub fn percent_encoded(text: &str, keep_slashes: bool) -> String {
    let mut encoded = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-_.~".contains(&byte) || (keep_slashes && byte == b'/') {
            encoded.push(char::from(byte));
        } else {
            encoded.push_str(&format!("%{byte:02X}"));
        }
    }
    encoded
}

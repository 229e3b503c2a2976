//! Files that are objects of a bucket: where they are, and which of them a path means.

use super::partition::is_hidden;
use serde_json::Value;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, OnceLock};
use tidegate_api::config::{Options, Problem};
use tidegate_api::{Error, Result};
use tidegate_objects::{Bucket, BucketUrl, Depth, Names, ObjectInfo, config};

/// How the options of files call things.
const NAMES: Names = Names { url: "path", options: "storeOptions", rights: "read, list and, for a sink, write and delete" };
const WILD: [char; 3] = ['*', '?', '['];

/// The options that are secrets, of every provider.
pub(super) const SECRETS: &[&str] = &["secretAccessKey", "sessionToken", "serviceAccountKey", "accountKey", "sasToken", "clientSecret"];

/// A bucket, and an object, a prefix or a pattern in it.
#[derive(Clone)]
pub(super) struct Remote {
    pub(super) url: BucketUrl,
    key: String,
    options: BTreeMap<String, String>,
    /// Made when it is first asked for something.
    bucket: Arc<OnceLock<Arc<Bucket>>>,
}

impl fmt::Debug for Remote {
    // Without the options, which hold credentials.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

impl fmt::Display for Remote {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.url, self.key)
    }
}

impl Remote {
    /// Reads `path`, an address, and `storeOptions`; what those leave out comes from the provider's own environment variables.
    pub(super) fn parse(path: &str, options: &mut Options<'_>) -> Option<Remote> {
        let mut given = BTreeMap::new();
        for (name, value) in options.table("storeOptions").into_iter().flatten() {
            match value {
                Value::String(text) => drop(given.insert(name.clone(), text.clone())),
                Value::Bool(_) | Value::Number(_) => drop(given.insert(name.clone(), value.to_string())),
                Value::Null | Value::Array(_) | Value::Object(_) => {
                    options.problems([Problem::at("storeOptions", format!("`{name}` must be a text"))]);
                }
            }
        }
        let (url, key) = match BucketUrl::parse_key(path, NAMES) {
            Ok(parsed) => parsed,
            Err(message) => {
                options.problem("path", message);
                return None;
            }
        };
        config::complete(&url, &mut given, &|name| std::env::var(name).ok());
        if let Err(error) = config::check(&url, &given) {
            options.problem("storeOptions", error.message());
            return None;
        }
        if let Err(error) = glob::Pattern::new(&key) {
            options.problem("path", format!("pattern `{key}`: {error}"));
            return None;
        }
        Some(Remote { url, key, options: given, bucket: Arc::default() })
    }

    /// The same place in a bucket that is already there.
    #[cfg(test)]
    pub(super) fn over(self, bucket: Arc<Bucket>) -> Remote {
        Remote { bucket: Arc::new(OnceLock::from(bucket)), ..self }
    }

    pub(super) fn bucket(&self) -> Result<Arc<Bucket>> {
        if let Some(bucket) = self.bucket.get() {
            return Ok(Arc::clone(bucket));
        }
        let made = Arc::new(Bucket::open(self.url.clone(), &self.options, NAMES)?);
        Ok(Arc::clone(self.bucket.get_or_init(|| made)))
    }

    /// The prefix that parts are written below, without slashes at its ends.
    pub(super) fn prefix(&self) -> &str {
        self.key.trim_matches('/')
    }

    pub(super) fn is_pattern(&self) -> bool {
        self.key.contains(WILD)
    }

    /// The name for ever of an object's file.
    pub(super) fn name_of(&self, key: &str) -> String {
        format!("{}/{key}", self.url)
    }

    /// The object of a file's name; `None` if it is gone.
    pub(super) fn find(&self, name: &str) -> Result<Option<ObjectInfo>> {
        let key = name.strip_prefix(&self.url.to_string()).and_then(|rest| rest.strip_prefix('/'));
        let key = key
            .ok_or_else(|| Error::config(format!("file `{name}` was found elsewhere than in `{}`; start over with `--fresh`", self.url)))?;
        self.bucket()?.head(key)
    }

    /// The objects that are meant, by key. Below a prefix those directly below it, as in a folder.
    pub(super) fn list(&self) -> Result<Vec<ObjectInfo>> {
        let bucket = self.bucket()?;
        let Some(wild) = self.key.find(WILD) else {
            if !self.key.is_empty()
                && !self.key.ends_with('/')
                && let Some(object) = bucket.head(&self.key)?
            {
                return Ok(vec![object]);
            }
            let prefix = match self.key.trim_end_matches('/') {
                "" => String::new(),
                folder => format!("{folder}/"),
            };
            let mut found = bucket.list(&prefix, Depth::Direct)?;
            found.retain(|object| is_data(&object.key, prefix.len()));
            return Ok(found);
        };
        // What stands for itself narrows the listing.
        let literal = self.key[..wild].rfind('/').map_or(0, |slash| slash + 1);
        let depth = if self.key[literal..].contains('/') || self.key.contains("**") { Depth::All } else { Depth::Direct };
        let pattern = glob::Pattern::new(&self.key).map_err(|error| Error::config(format!("pattern `{self}`: {error}")))?;
        let options = glob::MatchOptions { require_literal_separator: true, ..glob::MatchOptions::new() };
        let mut found = bucket.list(&self.key[..literal], depth)?;
        found.retain(|object| pattern.matches_with(&object.key, options) && is_data(&object.key, literal));
        Ok(found)
    }
}

/// Whether no part of a key behind its first `literal` bytes is hidden.
fn is_data(key: &str, literal: usize) -> bool {
    key.get(literal..).is_some_and(|rest| rest.split('/').all(|part| !is_hidden(part)))
}

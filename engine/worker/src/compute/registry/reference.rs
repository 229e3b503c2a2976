//! `id` and `id@version`.

use semver::Version;

/// A transform as a step names it.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Reference<'a> {
    pub(super) id: &'a str,
    /// None: the highest.
    pub(super) version: Option<Version>,
}

impl Reference<'_> {
    pub(super) fn parse(text: &str) -> Result<Reference<'_>, String> {
        let (id, version) = match text.split_once('@') {
            Some((id, version)) => (id, Some(parse_version(version)?)),
            None => (text, None),
        };
        check_id(id)?;
        Ok(Reference { id, version })
    }
}

/// A version of three numbers.
pub(super) fn parse_version(text: &str) -> Result<Version, String> {
    Version::parse(text).map_err(|error| format!("`{text}` is no version ({error}); write three numbers, such as `1.4.0`"))
}

/// An id stands in references, logs and the run's manifest.
pub(super) fn check_id(id: &str) -> Result<(), String> {
    let fits = !id.is_empty() && id.len() <= 100 && id.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.'));
    if fits { Ok(()) } else { Err(format!("`{id}` is no transform's id; use up to 100 letters, digits, `-`, `_` and `.`")) }
}

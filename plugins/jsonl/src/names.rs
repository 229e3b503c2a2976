//! The names of files.
//!
//! A part is `<operator>.<run>.g<generation>.e<epoch>.t<task>.jsonl` in the directory. Before its commit it is `g<generation>.e<epoch>.t<task>.jsonl`, or while it is written
//! `g<generation>.open.t<task>.jsonl`, in the folder `.tidegate-jsonl/<run>/<operator>`. Every start has a generation of its own, so no name is used twice, and
//! recovery looks only into the folder of its own run and operator.

use tidegate_sdk::Scope;

/// The hidden folder.
pub(crate) const STAGING: &str = ".tidegate-jsonl";
/// Put behind a staged file's name: an empty file that says its commit was begun.
pub(crate) const BEGUN: &str = ".begun";

/// A name made fit for a path: letters, digits, `-` and `_` stay, anything else is `%` and two hexadecimal digits per byte. Different names stay different.
pub(crate) fn escaped(name: &str) -> String {
    let mut text = String::with_capacity(name.len());
    for byte in name.bytes() {
        if byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_' {
            text.push(char::from(byte));
        } else {
            text.push_str(&format!("%{byte:02x}"));
        }
    }
    if text.is_empty() { "%".into() } else { text }
}

/// The staging folder of a run's operator, relative to the directory.
pub(crate) fn folder(scope: &Scope) -> String {
    format!("{STAGING}/{}/{}", escaped(&scope.run_id), escaped(&scope.operator))
}

/// The file being written.
pub(crate) fn open_file(scope: &Scope) -> String {
    format!("g{}.open.t{}.jsonl", scope.generation, scope.index)
}

/// The file of a prepared epoch.
pub(crate) fn staged_file(scope: &Scope, epoch: u64) -> String {
    format!("g{}.e{epoch:010}.t{}.jsonl", scope.generation, scope.index)
}

/// The part it becomes.
pub(crate) fn part(scope: &Scope, epoch: u64) -> String {
    format!("{}.{}.{}", escaped(&scope.operator), escaped(&scope.run_id), staged_file(scope, epoch))
}

/// What the name of a file in a staging folder says.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Entry {
    /// Rows, of this generation: being written, or of a prepared epoch.
    Rows {
        /// The generation that wrote it.
        generation: u64,
    },
    /// The commit of this epoch was begun.
    Begun {
        /// The epoch.
        epoch: u64,
    },
}

impl Entry {
    /// Reads a name; `None` for what is not ours.
    pub(crate) fn parse(name: &str) -> Option<Entry> {
        let (rows, begun) = match name.strip_suffix(BEGUN) {
            Some(rows) => (rows, true),
            None => (name, false),
        };
        let mut parts = rows.strip_suffix(".jsonl")?.split('.');
        let generation = parts.next()?.strip_prefix('g')?.parse().ok()?;
        let middle = parts.next()?;
        let epoch: Option<u64> = middle.strip_prefix('e').and_then(|epoch| epoch.parse().ok());
        parts.next()?.strip_prefix('t')?.parse::<u32>().ok()?;
        match (parts.next(), begun, epoch) {
            (None, true, Some(epoch)) => Some(Entry::Begun { epoch }),
            (None, false, Some(_)) => Some(Entry::Rows { generation }),
            (None, false, None) if middle == "open" => Some(Entry::Rows { generation }),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_back() {
        let scope = Scope { generation: 7, index: 3, ..tidegate_sdk::testing::scope("{}") };
        assert_eq!(Entry::parse(&open_file(&scope)), Some(Entry::Rows { generation: 7 }));
        assert_eq!(Entry::parse(&staged_file(&scope, 12)), Some(Entry::Rows { generation: 7 }));
        assert_eq!(Entry::parse(&format!("{}{BEGUN}", staged_file(&scope, 12))), Some(Entry::Begun { epoch: 12 }));
        for foreign in ["notes.txt", "g7.jsonl", "g7.e1.t0.jsonl.bak", "gx.e1.t0.jsonl", "g7.open.t0.jsonl.begun", "g7.e1.t0.x.jsonl"] {
            assert_eq!(Entry::parse(foreign), None, "{foreign}");
        }
    }

    #[test]
    fn escaped_names_stay_apart_and_leave_no_folder() {
        assert_eq!(escaped("hourly-by_origin"), "hourly-by_origin");
        assert_eq!(escaped("../a.b"), "%2e%2e%2fa%2eb");
        assert_ne!(escaped("a.b"), escaped("a_b"));
        assert_eq!(escaped(""), "%");
    }
}

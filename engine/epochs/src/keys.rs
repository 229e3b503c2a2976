//! Where everything lies in a store. Part of the manifest's format: keys are never reused and their shape never changes.
//!
//! | key | what | written by |
//! |---|---|---|
//! | `manifests/RUN/EPOCH/a`, `…/b` | a manifest, twice; creating `a` is the decision | create, then put |
//! | `marks/RUN/EPOCH` | everything pending in that manifest is committed | put |
//! | `claims/RUN/GENERATION` | who runs this generation, and when it last said so | put |
//! | `objects/RUNID/GENERATION/EPOCH/TASK/SEQ` | operator state | put, once |
//! | `staging/SINK/…` | what a sink holds until its commit | put |
//!
//! RUN is the run's number, EPOCH and GENERATION are padded with zeros so that a listing is in order.

use serde::{Deserialize, Serialize};
use std::fmt;
use tidegate_api::{Epoch, Generation, RunId};

/// The number of a run within its store: 1 for the first, one more with every `--fresh`. The highest that has a manifest is
/// the current one. A number, not the run-id, is in a manifest's key, so that two fresh starts contend for the same key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct RunNumber(pub u64);

impl RunNumber {
    /// The first run of a store.
    pub const FIRST: RunNumber = RunNumber(1);

    /// The run that supersedes this one.
    #[must_use]
    pub fn next(self) -> RunNumber {
        RunNumber(self.0 + 1)
    }
}

impl fmt::Display for RunNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The two copies of a manifest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Copy {
    /// Created if absent: its creation decides.
    A,
    /// Written afterwards, read when the first cannot be.
    B,
}

/// The folder of all manifests.
pub const MANIFESTS: &str = "manifests/";

/// The folder of all marks.
pub const MARKS: &str = "marks/";

/// The folder of all claims.
pub const CLAIMS: &str = "claims/";

/// The folder of all state objects.
pub const OBJECTS: &str = "objects/";

/// The folder of one run's manifests.
pub fn manifests(run: RunNumber) -> String {
    format!("{MANIFESTS}{:08}/", run.0)
}

/// One copy of a manifest.
pub fn manifest(run: RunNumber, epoch: Epoch, copy: Copy) -> String {
    let name = match copy {
        Copy::A => 'a',
        Copy::B => 'b',
    };
    format!("{}{:020}/{name}", manifests(run), epoch.0)
}

/// Reads back the run and epoch of a manifest's key; `None` for any other key.
pub fn parse_manifest(key: &str) -> Option<(RunNumber, Epoch)> {
    let mut parts = key.strip_prefix(MANIFESTS)?.split('/');
    let run = parts.next()?.parse().ok()?;
    let epoch = parts.next()?.parse().ok()?;
    let copy = parts.next()?;
    (parts.next().is_none() && matches!(copy, "a" | "b")).then_some((RunNumber(run), Epoch(epoch)))
}

/// The mark that an epoch's commits are done.
pub fn mark(run: RunNumber, epoch: Epoch) -> String {
    format!("{}{:020}", marks(run), epoch.0)
}

/// The folder of one run's marks.
pub fn marks(run: RunNumber) -> String {
    format!("{MARKS}{:08}/", run.0)
}

/// The claim of a generation.
pub fn claim(run: RunNumber, generation: Generation) -> String {
    format!("{CLAIMS}{:08}/{:010}", run.0, generation.0)
}

/// The folder of the objects of one run.
pub fn objects(run_id: &RunId) -> String {
    format!("{OBJECTS}{}/", segment(run_id.as_str()))
}

/// A state object. `task` names operator and task; `seq` numbers the objects of one task and epoch.
pub fn object(run_id: &RunId, generation: Generation, epoch: Epoch, operator: &str, task: u32, seq: u32) -> String {
    format!("{}{:010}/{:020}/{}.{task}/{seq}", objects(run_id), generation.0, epoch.0, segment(operator))
}

/// The generation that wrote an object of the run whose objects lie in `folder`.
pub(crate) fn generation_of(folder: &str, object: &str) -> Option<Generation> {
    object.strip_prefix(folder)?.split('/').next()?.parse().ok().map(Generation)
}

/// The folder of what a sink stages.
pub fn staging(sink: &str) -> String {
    format!("staging/{}/", segment(sink))
}

/// Any text as one part of a key: bytes other than letters, digits, `-`, `_` and inner dots become `%XX`; two texts never become
/// one. Text too long for a file name is cut and ends in its hash.
pub fn segment(text: &str) -> String {
    const LIMIT: usize = 120;
    let mut out = String::with_capacity(text.len());
    for (index, byte) in text.bytes().enumerate() {
        if byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_') || (byte == b'.' && index > 0) {
            out.push(char::from(byte));
        } else {
            out.push_str(&format!("%{byte:02X}"));
        }
    }
    if out.is_empty() {
        // An empty segment is no key; `%` alone encodes nothing else.
        out.push('%');
    }
    if out.len() > LIMIT {
        let hash = xxhash_rust::xxh3::xxh3_128(text.as_bytes());
        // `~` never comes out of the encoding, so a cut text cannot meet a whole one.
        out.truncate(LIMIT - 33);
        out.push_str(&format!("~{hash:032x}"));
    }
    out
}

/// Reads back [`segment`]; `None` for a text that was cut, or that it never makes.
pub(crate) fn unsegment(encoded: &str) -> Option<String> {
    if encoded == "%" {
        return Some(String::new());
    }
    let mut bytes = Vec::with_capacity(encoded.len());
    let mut rest = encoded.as_bytes();
    while let [first, tail @ ..] = rest {
        rest = match (first, tail) {
            (b'~', _) => return None,
            (b'%', [high, low, tail @ ..]) => {
                let digit = |byte: u8| char::from(byte).to_digit(16);
                bytes.push(u8::try_from(digit(*high)? * 16 + digit(*low)?).ok()?);
                tail
            }
            (b'%', _) => return None,
            _ => {
                bytes.push(*first);
                tail
            }
        };
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::check_key;
    use proptest::prelude::*;

    #[test]
    fn the_layout_is_frozen() {
        let run = RunNumber(3);
        assert_eq!(manifest(run, Epoch(42), Copy::A), "manifests/00000003/00000000000000000042/a");
        assert_eq!(mark(run, Epoch(42)), "marks/00000003/00000000000000000042");
        assert_eq!(claim(run, Generation(7)), "claims/00000003/0000000007");
        assert_eq!(
            object(&RunId::new("r-1"), Generation(7), Epoch(42), "a stage", 1, 0),
            "objects/r-1/0000000007/00000000000000000042/a%20stage.1/0"
        );
        assert_eq!(staging("../out"), "staging/%2E.%2Fout/");
    }

    #[test]
    fn a_manifest_key_reads_back() {
        let key = manifest(RunNumber(3), Epoch(u64::MAX), Copy::B);
        assert_eq!(parse_manifest(&key), Some((RunNumber(3), Epoch(u64::MAX))));
        assert_eq!(parse_manifest("manifests/00000003/00000000000000000042/c"), None);
        assert_eq!(parse_manifest("marks/00000003/00000000000000000042"), None);
    }

    proptest! {
        #[test]
        fn every_text_is_a_sound_segment_of_its_own(one in any::<String>(), two in any::<String>(), long in "é{0,80}") {
            for text in [&one, &two, &long] {
                let encoded = segment(text);
                prop_assert!(!encoded.contains('/'));
                prop_assert!(check_key(&encoded).is_ok(), "{encoded}");
            }
            prop_assert_eq!(segment(&one) == segment(&two), one == two);
            let whole = (!segment(&one).contains('~')).then(|| one.clone());
            prop_assert_eq!(unsegment(&segment(&one)), whole);
        }
    }
}

//! What a commit token says, and what things of a sink are called outside.

use super::segment::SegmentName;
use serde::{Deserialize, Serialize};
use tidegate_api::{CommitToken, Epoch, Error, Generation, Result, RunIdentity};

const VERSION: u32 = 1;

/// One task's rows of one epoch. Fields may be added, never changed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Token {
    pub(super) version: u32,
    pub(super) run: String,
    pub(super) sink: String,
    pub(super) generation: u64,
    pub(super) epoch: u64,
    pub(super) task: usize,
    /// Whose transactions the rows go into; for people who look at a manifest.
    #[serde(rename = "transactionalId")]
    pub(super) transactional_id: String,
    /// In the order of the rows. Without any the token only refreshes the mark.
    pub(super) segments: Vec<SegmentName>,
}

/// Who a sink is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Names {
    pub(super) run: String,
    pub(super) sink: String,
    pub(super) generation: Generation,
    /// The transactional id, which is the name of the group that holds the mark too. Nothing in it changes from run to run.
    pub(super) id: String,
}

/// A name in which no dot is left, so that names joined by dots are never mistaken for each other.
fn safe(name: &str) -> String {
    let mut out = String::new();
    for byte in name.bytes() {
        if byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_') {
            out.push(char::from(byte));
        } else {
            out.push_str(&format!("%{byte:02x}"));
        }
    }
    out
}

impl Names {
    pub(super) fn of(run: &RunIdentity) -> Self {
        Names {
            run: run.run_id.as_str().to_string(),
            sink: run.operator.clone(),
            generation: run.generation,
            id: format!("tidegate.{}.{}", safe(&run.pipeline), safe(&run.operator)),
        }
    }

    /// Where in staging everything of this run is.
    fn folder(&self) -> String {
        safe(&self.run)
    }

    /// Where the run notes that it has a mark.
    pub(super) fn record(&self) -> String {
        format!("{}/mark", self.folder())
    }

    /// Where the segments of the run are.
    pub(super) fn segments(&self) -> String {
        format!("{}/segments/", self.folder())
    }

    /// Where those of one task of one generation are.
    pub(super) fn segments_of(&self, task: usize) -> String {
        format!("{}{}/{task}/", self.segments(), self.generation)
    }

    /// The generation that wrote a segment.
    pub(super) fn generation_of(&self, key: &str) -> Option<Generation> {
        key.strip_prefix(&self.segments())?.split('/').next()?.parse().ok().map(Generation)
    }

    /// The number of a segment among those of its task and generation.
    pub(super) fn number_of(key: &str) -> Option<u64> {
        key.rsplit('/').next()?.parse().ok()
    }

    pub(super) fn token(&self, epoch: Epoch, task: usize, segments: Vec<SegmentName>) -> Result<CommitToken> {
        let token = Token {
            version: VERSION,
            run: self.run.clone(),
            sink: self.sink.clone(),
            generation: self.generation.0,
            epoch: epoch.0,
            task,
            transactional_id: self.id.clone(),
            segments,
        };
        serde_json::to_vec(&token).map(CommitToken).map_err(|error| Error::internal(error.to_string()))
    }

    /// Reads a token, which may be of another generation but must be of this run and sink.
    pub(super) fn read(&self, token: &CommitToken) -> Result<Token> {
        let read: Token = serde_json::from_slice(&token.0)
            .map_err(|error| Error::internal(format!("`{token:?}` is no token of a kafka sink")).caused_by(error))?;
        if read.version != VERSION {
            return Err(Error::config(format!(
                "a token of epoch {} has version {} and this program reads {VERSION}; start the one that wrote it once, so that it can be committed",
                read.epoch, read.version
            )));
        }
        if read.run != self.run || read.sink != self.sink {
            return Err(Error::internal(format!(
                "a token of run `{}`, sink `{}` came to run `{}`, sink `{}`",
                read.run, read.sink, self.run, self.sink
            )));
        }
        if let Some(foreign) = read.segments.iter().find(|segment| !segment.key.starts_with(&self.segments())) {
            return Err(Error::internal(format!("a token names `{}`, which is none of this sink's segments", foreign.key)));
        }
        Ok(read)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tidegate_api::RunId;

    fn names(pipeline: &str, run: &str, sink: &str) -> Names {
        Names::of(&RunIdentity::new(pipeline, RunId::new(run), Generation(3), sink))
    }

    #[test]
    fn a_token_comes_back_and_another_runs_or_sinks_does_not() {
        let one = names("p", "r", "out");
        let key = format!("{}0", one.segments_of(4));
        assert_eq!((key.as_str(), one.generation_of(&key), Names::number_of(&key)), ("r/segments/3/4/0", Some(Generation(3)), Some(0)));
        let segment = SegmentName { key, records: 1, bytes: 2, crc: 3 };
        let token = one.token(Epoch(9), 4, vec![segment.clone()]).unwrap();
        let read = one.read(&token).unwrap();
        assert_eq!((read.epoch, read.task, read.generation, read.segments), (9, 4, 3, vec![segment]));
        assert!(names("p", "r2", "out").read(&token).is_err());
        assert!(names("p", "r", "out.1").read(&token).is_err());
        assert!(one.read(&CommitToken(b"{}".to_vec())).is_err());
        let elsewhere = SegmentName { key: "q/segments/3/4/0".into(), records: 1, bytes: 2, crc: 3 };
        assert!(one.read(&one.token(Epoch(9), 4, vec![elsewhere]).unwrap()).is_err());
        let newer = String::from_utf8(token.0).unwrap().replace("\"version\":1", "\"version\":2");
        assert!(one.read(&CommitToken(newer.into_bytes())).unwrap_err().to_string().contains("version 2"));
    }

    #[test]
    fn names_that_are_joined_are_never_mistaken_for_each_other() {
        assert_eq!(names("hot-auctions", "r", "out").id, "tidegate.hot-auctions.out");
        assert_ne!(names("a.b", "r", "c").id, names("a", "r", "b.c").id);
        assert_ne!(names("a", "r/segments", "c").record(), names("a", "r", "c").record());
    }
}

//! What a manifest keeps of this source: the names of splits, positions, details and the cursor. All are read again by later versions, so
//! what is written here is never written otherwise.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;
use tidegate_api::{Error, Position, Result, Split, SplitId};

/// A partition of a topic, which is a split. Its name is `TOPIC/NUMBER`; no topic has a `/` in its name.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Partition {
    pub(super) topic: String,
    pub(super) number: i32,
}

impl Partition {
    pub(super) fn new(topic: impl Into<String>, number: i32) -> Self {
        Partition { topic: topic.into(), number }
    }

    /// The partition of a split's name.
    pub(super) fn parse(name: &str) -> Option<Self> {
        let (topic, number) = name.split_once('/')?;
        let parsed = number.parse::<i32>().ok().filter(|parsed| *parsed >= 0 && parsed.to_string() == number)?;
        (!topic.is_empty()).then(|| Partition::new(topic, parsed))
    }

    pub(super) fn split(&self) -> SplitId {
        SplitId::new(self.to_string())
    }
}

impl fmt::Display for Partition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.topic, self.number)
    }
}

/// Where to read next: an offset, and how many rows of the message there were handed over already. Only messages of several rows are ever
/// divided. Written `OFFSET` or `OFFSET:ROWS`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Place {
    pub(super) offset: i64,
    pub(super) within: usize,
}

impl Place {
    /// The beginning of what stands at an offset.
    pub(super) fn at(offset: i64) -> Self {
        Place { offset, within: 0 }
    }

    pub(super) fn position(self) -> Position {
        let text = if self.within == 0 { self.offset.to_string() } else { format!("{}:{}", self.offset, self.within) };
        Position(text.into_bytes())
    }

    pub(super) fn parse(position: &Position) -> Option<Self> {
        let text = std::str::from_utf8(&position.0).ok()?;
        let (offset, within) = match text.split_once(':') {
            Some((offset, within)) => (offset, within.parse().ok()?),
            None => (text, 0),
        };
        offset.parse().ok().filter(|offset| *offset >= 0).map(|offset| Place { offset, within })
    }
}

/// What a reader needs to know of a partition.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Details {
    /// The identity of the topic, if the cluster gives it one: a topic that is made again has another.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) id: Option<String>,
    /// Where it ends, for a source that ends.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) end: Option<i64>,
}

impl Details {
    pub(super) fn bytes(&self) -> Result<Vec<u8>> {
        serde_json::to_vec(self).map_err(|error| Error::internal(error.to_string()))
    }
}

/// A split as it was discovered or recorded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Assigned {
    pub(super) id: SplitId,
    pub(super) partition: Partition,
    pub(super) place: Place,
    pub(super) details: Details,
}

impl Assigned {
    /// Reads what the engine hands back.
    ///
    /// # Errors
    /// `Internal` if this source did not write it.
    pub(super) fn read(split: Split) -> Result<Self> {
        let wrong = |what: &str| Error::internal(format!("split `{}` has {what} that no Kafka source wrote", split.id));
        let partition = Partition::parse(split.id.as_str()).ok_or_else(|| wrong("a name"))?;
        let place = split.position.as_ref().and_then(Place::parse).ok_or_else(|| wrong("a position"))?;
        let details = match split.details.as_slice() {
            [] => Details::default(),
            bytes => serde_json::from_slice(bytes).map_err(|error| wrong("details").caused_by(error))?,
        };
        Ok(Assigned { id: split.id, partition, place, details })
    }
}

/// What a discovery remembers of every topic.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Known {
    pub(super) topics: BTreeMap<String, KnownTopic>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct KnownTopic {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) id: Option<String>,
    /// How many partitions were given out.
    pub(super) partitions: i32,
}

impl Known {
    pub(super) fn read(cursor: Option<&[u8]>) -> Result<Option<Self>> {
        let Some(bytes) = cursor else { return Ok(None) };
        let known = serde_json::from_slice(bytes)
            .map_err(|error| Error::internal("the cursor of a Kafka source cannot be read").caused_by(error))?;
        Ok(Some(known))
    }

    pub(super) fn bytes(&self) -> Result<Vec<u8>> {
        serde_json::to_vec(self).map_err(|error| Error::internal(error.to_string()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn what_a_manifest_keeps_comes_back(topic in "[a-zA-Z0-9._-]{1,20}", number in 0..i32::MAX, offset in 0..i64::MAX, within in 0..usize::MAX, end: Option<u32>) {
            let partition = Partition::new(topic.clone(), number);
            prop_assert_eq!(Partition::parse(&partition.to_string()), Some(partition.clone()));
            let place = Place { offset, within };
            prop_assert_eq!(Place::parse(&place.position()), Some(place));
            let details = Details { id: Some(topic.clone()), end: end.map(i64::from) };
            let split = Split { id: partition.split(), details: details.bytes().unwrap(), position: Some(place.position()) };
            prop_assert_eq!(Assigned::read(split).unwrap(), Assigned { id: partition.split(), partition, place, details });
            let known = Known { topics: BTreeMap::from([(topic, KnownTopic { id: None, partitions: number })]) };
            prop_assert_eq!(Known::read(Some(&known.bytes().unwrap())).unwrap(), Some(known));
        }

        #[test]
        fn nothing_else_is_taken_for_a_position(text in ".{0,12}") {
            if let Some(place) = Place::parse(&Position(text.clone().into_bytes())) {
                prop_assert!(place.offset >= 0);
            }
            let _ = Partition::parse(&text);
        }
    }

    /// Manifests hold these; they are never written otherwise.
    #[test]
    fn the_encodings_are_fixed() {
        assert_eq!(Partition::new("a.b-c", 7).to_string(), "a.b-c/7");
        assert_eq!(Place::at(42).position(), Position::number(42));
        assert_eq!(Place { offset: 42, within: 3 }.position(), Position(b"42:3".to_vec()));
        let details = Details { id: Some("x".into()), end: Some(9) };
        assert_eq!(details.bytes().unwrap(), br#"{"id":"x","end":9}"#);
        assert_eq!(Details::default().bytes().unwrap(), b"{}");
        let known = Known { topics: BTreeMap::from([("t".into(), KnownTopic { id: Some("x".into()), partitions: 2 })]) };
        assert_eq!(known.bytes().unwrap(), br#"{"topics":{"t":{"id":"x","partitions":2}}}"#);
        for wrong in ["", "t", "t/", "/1", "t/-1", "t/01", "t/x", "t/1/2"] {
            assert_eq!(Partition::parse(wrong), None, "{wrong}");
        }
        for wrong in ["", "-1", "1:", ":1", "1:2:3", "x"] {
            assert_eq!(Place::parse(&Position(wrong.as_bytes().to_vec())), None, "{wrong}");
        }
    }
}

//! Staged records: what a segment looks like, and what becomes of one that is damaged.
//!
//! A segment is a version byte and records, each a byte of flags, the topic if it is another than the record's before, the partition if
//! it is given, key, value and headers, with lengths as varints. Length, number of records and CRC-32 stand in the token.

use super::record::Record;
use serde::{Deserialize, Serialize};

const VERSION: u8 = 1;
const TOPIC: u8 = 1;
const PARTITION: u8 = 2;
const KEY: u8 = 4;
const VALUE: u8 = 8;
const HEADERS: u8 = 16;

/// A segment as a token names it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct SegmentName {
    /// Its key in staging.
    pub(super) key: String,
    pub(super) records: u64,
    pub(super) bytes: u64,
    pub(super) crc: u32,
}

/// A segment that is being written.
#[derive(Default)]
pub(super) struct Segment {
    bytes: Vec<u8>,
    records: u64,
    topic: String,
}

impl Segment {
    pub(super) fn is_empty(&self) -> bool {
        self.records == 0
    }

    pub(super) fn len(&self) -> usize {
        self.bytes.len()
    }

    pub(super) fn push(&mut self, record: &Record<'_>) {
        if self.bytes.is_empty() {
            self.bytes.push(VERSION);
        }
        let mut flags = 0;
        for (flag, set) in [
            (TOPIC, record.topic != self.topic),
            (PARTITION, record.partition.is_some()),
            (KEY, record.key.is_some()),
            (VALUE, record.value.is_some()),
            (HEADERS, !record.headers.is_empty()),
        ] {
            flags |= if set { flag } else { 0 };
        }
        let out = &mut self.bytes;
        out.push(flags);
        if flags & TOPIC != 0 {
            field(out, record.topic.as_bytes());
            self.topic.clear();
            self.topic.push_str(record.topic);
        }
        if let Some(partition) = record.partition {
            varint(out, u64::from(partition.unsigned_abs()));
        }
        for part in [record.key, record.value].into_iter().flatten() {
            field(out, part);
        }
        if flags & HEADERS != 0 {
            varint(out, record.headers.len() as u64);
            for (name, value) in record.headers {
                field(out, name.as_bytes());
                // Null is zero, anything else its length and one more.
                varint(out, value.map_or(0, |value| value.len() as u64 + 1));
                out.extend_from_slice(value.unwrap_or_default());
            }
        }
        self.records += 1;
    }

    /// The bytes and how a token names them, which leaves an empty segment.
    pub(super) fn end(&mut self, key: String) -> (SegmentName, Vec<u8>) {
        let bytes = std::mem::take(&mut self.bytes);
        let records = std::mem::take(&mut self.records);
        self.topic.clear();
        (SegmentName { key, records, bytes: bytes.len() as u64, crc: crc32fast::hash(&bytes) }, bytes)
    }
}

fn varint(out: &mut Vec<u8>, mut value: u64) {
    while value > 0x7F {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

fn field(out: &mut Vec<u8>, bytes: &[u8]) {
    varint(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

impl SegmentName {
    /// Why these bytes are not the segment.
    pub(super) fn fault(&self, bytes: &[u8]) -> Option<String> {
        let whole = bytes.len() as u64 == self.bytes && crc32fast::hash(bytes) == self.crc;
        let fits = whole && records(bytes, &mut |_| Ok::<(), ()>(())) == Ok(Ok(self.records));
        (!fits).then(|| format!("staged segment `{}` is damaged: it has not the {} bytes that were written", self.key, self.bytes))
    }
}

/// The bytes are no segment.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Malformed;

/// Hands out the records of a segment, in order; answers how many there were, or the first error of `each`.
pub(super) fn records<E>(bytes: &[u8], each: &mut dyn FnMut(&Record<'_>) -> Result<(), E>) -> Result<Result<u64, E>, Malformed> {
    let mut reader = Reader(bytes);
    if reader.byte()? != VERSION {
        return Err(Malformed);
    }
    let (mut topic, mut count) = ("", 0);
    let mut headers = Vec::new();
    while !reader.0.is_empty() {
        let flags = reader.byte()?;
        if flags & TOPIC != 0 {
            topic = std::str::from_utf8(reader.field()?).map_err(|_| Malformed)?;
        }
        let partition = if flags & PARTITION != 0 { Some(i32::try_from(reader.varint()?).map_err(|_| Malformed)?) } else { None };
        let key = if flags & KEY != 0 { Some(reader.field()?) } else { None };
        let value = if flags & VALUE != 0 { Some(reader.field()?) } else { None };
        headers.clear();
        if flags & HEADERS != 0 {
            for _ in 0..reader.varint()? {
                let name = std::str::from_utf8(reader.field()?).map_err(|_| Malformed)?;
                let value = match reader.varint()? {
                    0 => None,
                    length => Some(reader.take(length - 1)?),
                };
                headers.push((name, value));
            }
        }
        if let Err(error) = each(&Record { topic, partition, key, value, headers: &headers }) {
            return Ok(Err(error));
        }
        count += 1;
    }
    Ok(Ok(count))
}

struct Reader<'b>(&'b [u8]);

impl<'b> Reader<'b> {
    fn byte(&mut self) -> Result<u8, Malformed> {
        let (first, rest) = self.0.split_first().ok_or(Malformed)?;
        self.0 = rest;
        Ok(*first)
    }

    fn varint(&mut self) -> Result<u64, Malformed> {
        let mut value = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            value |= u64::from(byte & 0x7F) << shift;
            if byte & 0x80 == 0 {
                return Ok(value);
            }
        }
        Err(Malformed)
    }

    fn take(&mut self, length: u64) -> Result<&'b [u8], Malformed> {
        let length = usize::try_from(length).map_err(|_| Malformed)?;
        let (taken, rest) = self.0.split_at_checked(length).ok_or(Malformed)?;
        self.0 = rest;
        Ok(taken)
    }

    fn field(&mut self) -> Result<&'b [u8], Malformed> {
        let length = self.varint()?;
        self.take(length)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::collection::vec;
    use proptest::option;
    use proptest::prelude::*;

    type Owned = (String, Option<i32>, Option<Vec<u8>>, Option<Vec<u8>>, Vec<(String, Option<Vec<u8>>)>);

    fn records_of(bytes: &[u8]) -> Result<Vec<Owned>, Malformed> {
        let mut found = Vec::new();
        let owned = |bytes: &[u8]| bytes.to_vec();
        let read = records(bytes, &mut |record| {
            let headers = record.headers.iter().map(|(name, value)| ((*name).to_string(), value.map(owned))).collect();
            found.push((record.topic.to_string(), record.partition, record.key.map(owned), record.value.map(owned), headers));
            Ok::<(), ()>(())
        })?;
        assert_eq!(read, Ok(found.len() as u64));
        Ok(found)
    }

    fn record() -> impl Strategy<Value = Owned> {
        let bytes = || option::of(vec(any::<u8>(), 0..40));
        ("[ab]", option::of(0..i32::MAX), bytes(), bytes(), vec(("[a-zé]{0,3}", bytes()), 0..3))
    }

    fn write(rows: &[Owned]) -> Segment {
        let mut segment = Segment::default();
        for (topic, partition, key, value, headers) in rows {
            let headers: Vec<_> = headers.iter().map(|(name, value)| (name.as_str(), value.as_deref())).collect();
            segment.push(&Record { topic, partition: *partition, key: key.as_deref(), value: value.as_deref(), headers: &headers });
        }
        segment
    }

    proptest! {
        #[test]
        fn records_come_back_as_they_went_in(rows in vec(record(), 1..20)) {
            let mut segment = write(&rows);
            let (name, bytes) = segment.end("k".into());
            prop_assert!(segment.is_empty() && name.fault(&bytes).is_none());
            prop_assert_eq!(records_of(&bytes).unwrap(), rows);
        }

        #[test]
        fn any_damage_is_noticed_and_nothing_panics(rows in vec(record(), 1..5), at in any::<prop::sample::Index>(), flip in 1u8.., cut in any::<bool>()) {
            let (name, mut bytes) = write(&rows).end("k".into());
            let at = at.index(bytes.len());
            if cut { bytes.truncate(at) } else { bytes[at] ^= flip }
            prop_assert!(name.fault(&bytes).unwrap().contains("`k` is damaged"));
            let _ = records(&bytes, &mut |_| Ok::<(), ()>(()));
        }
    }
}

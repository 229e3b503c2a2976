//! What waits for a part that lies on disk: rows and watermarks, in the order in which they came.
//!
//! The newest wait in memory. When all parts of a task together have enough, each writes its own as one block: the entries, then
//! the rows of every input as one Arrow IPC stream, which the entries cut up again.

use super::file::{Filed, SpillFile};
use crate::size::batch_bytes;
use arrow::array::{Array, ArrayRef, AsArray, RecordBatch};
use arrow::compute::concat_batches;
use arrow::datatypes::DataType;
use arrow::ipc::reader::StreamReader;
use arrow::ipc::writer::StreamWriter;
use std::collections::VecDeque;
use std::sync::Arc;
use tidegate_api::{Error, EventTime, Result, Watermark};

/// One thing that came.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Entry {
    /// Rows of an input.
    Rows(usize, RecordBatch),
    /// The merged watermark.
    Watermark(EventTime),
    /// What an input promises by itself.
    Input(usize, Watermark),
}

/// See the module's documentation.
#[derive(Debug, Default)]
pub(super) struct Log {
    blocks: VecDeque<Filed>,
    /// Behind the blocks.
    open: VecDeque<Entry>,
    open_bytes: u64,
}

impl Log {
    pub(super) fn push(&mut self, entry: Entry) {
        match (&entry, self.open.back_mut()) {
            // Of watermarks in a row only the last says anything.
            (Entry::Watermark(at), Some(Entry::Watermark(last))) => *last = *at,
            (Entry::Input(input, at), Some(Entry::Input(last_input, last))) if input == last_input => *last = *at,
            (Entry::Rows(..) | Entry::Watermark(_) | Entry::Input(..), _) => {
                if let Entry::Rows(_, rows) = &entry {
                    self.open_bytes += batch_bytes(rows) as u64;
                }
                self.open.push_back(entry);
            }
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.blocks.is_empty() && self.open.is_empty()
    }

    /// Memory held, about.
    pub(super) fn open_bytes(&self) -> u64 {
        self.open_bytes + (self.open.len() * size_of::<Entry>()) as u64
    }

    /// Bytes on disk.
    pub(super) fn filed_bytes(&self) -> u64 {
        self.blocks.iter().map(Filed::length).sum()
    }

    /// Writes what waits in memory.
    ///
    /// # Errors
    /// `External` if the disk does not take it.
    pub(super) fn flush(&mut self, file: &Arc<SpillFile>) -> Result<()> {
        if !self.open.is_empty() {
            self.blocks.push_back(file.append(&encode(&self.open)?)?);
            self.open.clear();
            self.open_bytes = 0;
        }
        Ok(())
    }

    /// Takes the next entries out, in their order: those of the first block, or those that wait in memory.
    ///
    /// # Errors
    /// `External` if the block cannot be read back.
    pub(super) fn take(&mut self) -> Result<VecDeque<Entry>> {
        match self.blocks.pop_front() {
            Some(block) => decode(&block.read()?),
            None => {
                self.open_bytes = 0;
                Ok(std::mem::take(&mut self.open))
            }
        }
    }
}

const ROWS: u8 = 0;
const WATERMARK: u8 = 1;
const INPUT: u8 = 2;
const INPUT_IDLE: u8 = 3;

/// Number of entries, entries of a tag and two words, then per input: its number, the length of its stream, the stream.
fn encode(entries: &VecDeque<Entry>) -> Result<Vec<u8>> {
    let mut data = (entries.len() as u64).to_le_bytes().to_vec();
    let mut by_input: Vec<Vec<&RecordBatch>> = Vec::new();
    for entry in entries {
        let (tag, input, word) = match entry {
            Entry::Rows(input, rows) => {
                if by_input.len() <= *input {
                    by_input.resize(input + 1, Vec::new());
                }
                by_input[*input].push(rows);
                (ROWS, *input, rows.num_rows() as i64)
            }
            Entry::Watermark(at) => (WATERMARK, 0, at.0),
            Entry::Input(input, Watermark::At(at)) => (INPUT, *input, at.0),
            Entry::Input(input, Watermark::Idle) => (INPUT_IDLE, *input, 0),
        };
        data.push(tag);
        data.extend_from_slice(&(input as u64).to_le_bytes());
        data.extend_from_slice(&word.to_le_bytes());
    }
    for (input, batches) in by_input.iter().enumerate() {
        let Some(first) = batches.first() else { continue };
        let rows = compacted(&concat_batches(&first.schema(), batches.iter().copied())?)?;
        let mut writer = StreamWriter::try_new(Vec::new(), &rows.schema())?;
        writer.write(&rows)?;
        let stream = writer.into_inner()?;
        data.extend_from_slice(&(input as u64).to_le_bytes());
        data.extend_from_slice(&(stream.len() as u64).to_le_bytes());
        data.extend_from_slice(&stream);
    }
    Ok(data)
}

/// The same rows without the texts that views of other rows point at.
fn compacted(rows: &RecordBatch) -> Result<RecordBatch> {
    let columns = rows.columns().iter().map(|column| match column.data_type() {
        DataType::Utf8View => Arc::new(column.as_string_view().gc()) as ArrayRef,
        DataType::BinaryView => Arc::new(column.as_binary_view().gc()) as ArrayRef,
        _ => Arc::clone(column),
    });
    Ok(RecordBatch::try_new(rows.schema(), columns.collect())?)
}

fn decode(data: &[u8]) -> Result<VecDeque<Entry>> {
    // The checksum was right, so only a mistake of ours leads here.
    let cut = || Error::internal("a block of waiting rows ends too early");
    let mut rest = data;
    let word = |rest: &mut &[u8]| -> Result<u64> {
        let (word, left) = rest.split_first_chunk::<8>().ok_or_else(cut)?;
        *rest = left;
        Ok(u64::from_le_bytes(*word))
    };
    let count = word(&mut rest)?;
    let mut entries = Vec::new();
    for _ in 0..count {
        let (tag, left) = rest.split_first().ok_or_else(cut)?;
        rest = left;
        entries.push((*tag, word(&mut rest)? as usize, word(&mut rest)? as i64));
    }
    let mut by_input: Vec<Option<(RecordBatch, usize)>> = Vec::new();
    while !rest.is_empty() {
        let (input, length) = (word(&mut rest)? as usize, word(&mut rest)? as usize);
        let (stream, left) = rest.split_at_checked(length).ok_or_else(cut)?;
        rest = left;
        let mut batches = StreamReader::try_new(stream, None)?;
        let rows = batches.next().ok_or_else(cut)??;
        by_input.resize(by_input.len().max(input + 1), None);
        by_input[input] = Some((rows, 0));
    }
    let entry = |(tag, input, word): (u8, usize, i64)| match tag {
        ROWS => {
            let (rows, at) = by_input.get_mut(input).and_then(Option::as_mut).ok_or_else(cut)?;
            let count = word as usize;
            if *at + count > rows.num_rows() {
                return Err(cut());
            }
            let part = rows.slice(*at, count);
            *at += count;
            Ok(Entry::Rows(input, part))
        }
        WATERMARK => Ok(Entry::Watermark(EventTime(word))),
        INPUT => Ok(Entry::Input(input, Watermark::At(EventTime(word)))),
        INPUT_IDLE => Ok(Entry::Input(input, Watermark::Idle)),
        other => Err(Error::internal(format!("a waiting entry has the unknown tag {other}"))),
    };
    entries.into_iter().map(entry).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::{Int64Array, StringViewArray};
    use proptest::prelude::*;

    fn rows(values: &[i64]) -> RecordBatch {
        let texts = values.iter().map(|value| (value % 3 != 0).then(|| format!("a text too long to be inline {value}")));
        let columns: Vec<(&str, ArrayRef)> =
            vec![("n", Arc::new(Int64Array::from(values.to_vec()))), ("text", Arc::new(texts.collect::<StringViewArray>()))];
        RecordBatch::try_from_iter_with_nullable(columns.into_iter().map(|(name, column)| (name, column, true))).unwrap()
    }

    fn entry() -> impl Strategy<Value = Entry> {
        prop_oneof![
            4 => (0usize..3, prop::collection::vec(any::<i64>(), 1..20)).prop_map(|(input, values)| Entry::Rows(input, rows(&values))),
            1 => any::<i64>().prop_map(|at| Entry::Watermark(EventTime(at))),
            1 => (0usize..3, any::<Option<i64>>())
                .prop_map(|(input, at)| Entry::Input(input, at.map_or(Watermark::Idle, |at| Watermark::At(EventTime(at))))),
        ]
    }

    proptest! {
        #[test]
        fn entries_come_out_as_they_went_in(entries in prop::collection::vec((entry(), prop::bool::weighted(0.2)), 0..40)) {
            let folder = tempfile::tempdir().unwrap();
            let file = SpillFile::create(folder.path()).unwrap();
            let mut log = Log::default();
            let mut expected: Vec<Entry> = Vec::new();
            let mut flushed = true;
            for (entry, flush) in entries {
                match (&entry, expected.last_mut()) {
                    (Entry::Watermark(at), Some(Entry::Watermark(last))) if !flushed => *last = *at,
                    (Entry::Input(a, at), Some(Entry::Input(b, last))) if a == b && !flushed => *last = *at,
                    _ => expected.push(entry.clone()),
                }
                log.push(entry);
                flushed = flush;
                if flush {
                    log.flush(&file).unwrap();
                    prop_assert_eq!(log.open_bytes(), 0);
                }
            }
            let mut found = Vec::new();
            while !log.is_empty() {
                found.extend(log.take().unwrap());
            }
            prop_assert_eq!(found, expected);
            prop_assert_eq!((log.open_bytes(), log.filed_bytes()), (0, 0));
        }
    }
}

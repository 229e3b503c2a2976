//! What all formats of one record per message share: columns that stay level, bad records taken out or kept with null.

use super::cells::{CellError, Faults};
use super::column::{Column, Kind};
use super::{BadRecord, Decoded, Rescue, Wanted};
use arrow::array::{ArrayRef, RecordBatch, RecordBatchOptions, StringViewBuilder};
use std::borrow::Cow;
use std::ops::Range;
use std::sync::Arc;
use tidegate_api::{Error, Result};

/// The bytes of one call. Places in them are counted in 32 bits, and a column of a batch cannot hold more.
const MOST_BYTES: usize = 1 << 30;

/// Reads records that are whole and stand alone.
pub(super) trait RowsDecoder: Send {
    /// Appends a value of every row to every column, and notes what does not fit.
    fn decode(&mut self, rows: &[&[u8]], columns: &mut [Column], faults: &mut Faults) -> Result<()>;

    /// What is read.
    fn wanted(&self) -> &Wanted;

    /// What columns are made for.
    fn kind(&self) -> Kind;
}

/// Reads messages one by one. One that breaks off, however much of it is in the columns by then, is bad and costs no other.
pub(super) fn one_by_one(
    messages: &[&[u8]],
    wanted: &Wanted,
    columns: &mut [Column],
    faults: &mut Faults,
    mut read: impl FnMut(&[u8], &mut [Column], usize, &mut Faults) -> Result<(), String>,
) {
    for (record, message) in messages.iter().enumerate() {
        if let Err(what) = read(message, columns, record, faults) {
            give_up(record, what, wanted, columns, faults);
        }
    }
}

/// Makes a record bad that broke off, and the columns level behind it.
pub(super) fn give_up(record: usize, what: String, wanted: &Wanted, columns: &mut [Column], faults: &mut Faults) {
    faults.replace_broken(record, wanted, what);
    columns.iter_mut().for_each(|column| column.level(record + 1));
}

/// What became of records.
pub(super) struct Rows {
    /// The good ones.
    pub(super) batch: RecordBatch,
    /// The bad ones, by number, in order, and their text.
    pub(super) bad: Vec<(usize, CellError, Vec<u8>)>,
    /// How many of the good ones were kept with null for what did not fit.
    pub(super) rescued: usize,
    pub(super) records: usize,
}

/// Where records stand in the input.
pub(super) enum Framed<'a> {
    At(&'a [Range<usize>]),
}

impl Rows {
    /// Reads records.
    pub(super) fn decode(decoder: &mut dyn RowsDecoder, rows: &[&[u8]]) -> Result<Rows> {
        if rows.iter().map(|row| row.len()).sum::<usize>() > MOST_BYTES {
            return Err(Error::internal(format!("more than {MOST_BYTES} bytes to decode at a time; hand over fewer records")));
        }
        let mut columns = decoder.kind().columns(decoder.wanted(), rows.len())?;
        let mut faults = Faults::default();
        decoder.decode(rows, &mut columns, &mut faults)?;
        let arrays = columns.into_iter().map(Column::finish).collect::<Result<Vec<_>>>()?;
        Rows::settle(decoder.wanted(), arrays, faults, rows.len(), |record| rows[record])
    }

    /// Takes out the bad records, or keeps them if the columns are to rescue them. `raw` is the text of a record.
    pub(super) fn settle<'a>(
        wanted: &Wanted,
        mut columns: Vec<ArrayRef>,
        mut faults: Faults,
        records: usize,
        raw: impl Fn(usize) -> &'a [u8],
    ) -> Result<Rows> {
        let spared = if wanted.rescue == Rescue::No { Vec::new() } else { faults.take_spared() };
        if wanted.rescue == Rescue::WithText {
            // All were read for the text; those that nobody wants have done their part.
            columns = wanted.columns.iter().map(|index| Arc::clone(&columns[*index])).collect();
            let mut texts = StringViewBuilder::with_capacity(records);
            let mut spared = spared.iter().peekable();
            for record in 0..records {
                if spared.next_if(|next| **next == record).is_some() {
                    texts.append_value(readable(raw(record)));
                } else {
                    texts.append_null();
                }
            }
            columns.push(Arc::new(texts.finish()));
        }
        let columns = faults.strip(columns, records)?;
        let options = RecordBatchOptions::new().with_row_count(Some(faults.good(records)));
        let batch = RecordBatch::try_new_with_options(Arc::clone(&wanted.schema), columns, &options)?;
        let bad = faults.into_iter().map(|(record, error)| (record, error, raw(record).to_vec())).collect();
        Ok(Rows { batch, bad, rescued: spared.len(), records })
    }

    /// The same with the places of the bad records.
    pub(super) fn into_decoded(self, consumed: usize, framed: Framed<'_>) -> Decoded {
        let bad = self.bad.into_iter().map(|(record, error, raw)| {
            let Framed::At(spans) = &framed;
            BadRecord { record, offset: spans[record].start, row: error.into_row(raw) }
        });
        Decoded { rows: self.batch, bad: bad.collect(), rescued: self.rescued, records: self.records, consumed }
    }
}

/// The text of a record, or what stands for it if it is none: `base64:` and its bytes.
pub(super) fn readable(raw: &[u8]) -> Cow<'_, str> {
    match std::str::from_utf8(raw) {
        Ok(text) => Cow::Borrowed(text),
        Err(_) => {
            let mut text = b"base64:".to_vec();
            crate::base64::encode(raw, &mut text);
            Cow::Owned(String::from_utf8(text).unwrap_or_default())
        }
    }
}

//! From messages of one partition to rows: one call of the decoder for all that a poll took of it, and no copy of a payload before.

use super::place::Place;
use super::source_config::SourceConfig;
use crate::decode::{Header, Message as Payload, MessageDecoder, MessageFormat, Meta, Tombstones, Wanted};
use crate::shape;
use arrow::array::{RecordBatch, UInt64Array};
use arrow::datatypes::SchemaRef;
use rdkafka::message::Headers;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use tidegate_api::{BadReason, BadRow, Error, Ordinals, Result, SourceRequest};

/// Rows of one message that can be numbered; see [`Run::ordinals`].
const ROWS_BITS: u32 = 20;

/// How messages are decoded.
#[derive(Clone)]
pub(super) struct Decoding {
    format: MessageFormat,
    wanted: Wanted,
    meta: Vec<Meta>,
    tombstones: Tombstones,
    numbers: bool,
    schema: SchemaRef,
}

impl Decoding {
    /// What a request makes of messages with these columns.
    ///
    /// # Errors
    /// `Config` for columns that the format cannot hold, or that `meta` has too.
    pub(super) fn new(config: &SourceConfig, request: &SourceRequest, format: MessageFormat, schema: SchemaRef) -> Result<Self> {
        let clash = config.meta.iter().map(|meta| meta.field()).find(|field| schema.index_of(field.name()).is_ok());
        if let Some(field) = clash {
            return Err(Error::config(format!("`{}` is both a column of the schema and one of `meta`", field.name())));
        }
        let wanted = shape::wanted(request, schema)?;
        let meta = config.meta.iter().copied().filter(|meta| request.wants(meta.field().name())).collect();
        let mut decoding = Decoding {
            format,
            schema: SchemaRef::clone(&wanted.schema),
            wanted,
            meta,
            tombstones: config.tombstones,
            numbers: request.ordinals,
        };
        decoding.schema = decoding.decoder()?.schema();
        Ok(decoding)
    }

    /// A decoder for one partition.
    pub(super) fn decoder(&self) -> Result<MessageDecoder> {
        MessageDecoder::new(self.format.clone(), self.wanted.clone(), &self.meta, self.tombstones)
    }

    /// The schema of the rows.
    pub(super) fn schema(&self) -> SchemaRef {
        SchemaRef::clone(&self.schema)
    }

    /// Decodes what was taken of a partition. `skip`: so many rows of the message at `first` were handed over before.
    pub(super) fn run<M: rdkafka::Message>(&self, decoder: &mut MessageDecoder, taken: &[M], first: Place) -> Result<Run> {
        let HeadersOf { all: headers, spans, mut broken } = self.headers(taken);
        let wants = |meta| self.meta.contains(&meta);
        let (wants_key, wants_time) = (wants(Meta::Key), wants(Meta::Timestamp));
        let mut messages = Vec::with_capacity(taken.len());
        let mut offsets = Vec::with_capacity(taken.len());
        let mut is_broken = broken.iter().map(|(offset, _)| *offset).peekable();
        for (number, message) in taken.iter().enumerate() {
            let offset = message.offset();
            if is_broken.next_if_eq(&offset).is_some() {
                continue;
            }
            let mut payload = Payload::new(message.payload()).at(message.partition(), offset);
            if wants_key {
                payload = payload.with_key(message.key());
            }
            if wants_time {
                payload = payload.with_timestamp(message.timestamp().to_millis());
            }
            if let Some(span) = spans.get(number) {
                payload = payload.with_headers(&headers[span.clone()]);
            }
            messages.push(payload);
            offsets.push(offset);
        }
        let decoded = decoder.decode(&messages)?;
        let mut bad: Vec<BadRow> = Vec::with_capacity(decoded.bad.len() + broken.len());
        let mut broken = broken.drain(..).peekable();
        for record in decoded.bad {
            let offset = offsets[record.record];
            while let Some((_, row)) = broken.next_if(|(before, _)| *before < offset) {
                bad.push(row);
            }
            bad.push(record.row);
        }
        bad.extend(broken.map(|(_, row)| row));
        let mut run = Run {
            rows: decoded.rows,
            message_of: decoded.message_of,
            offsets,
            bad,
            tombstones: decoded.tombstones as u64,
            handed: 0,
            numbers: self.numbers,
            several: matches!(self.format, MessageFormat::Arrow),
        };
        if first.within > 0 && run.offsets.first() == Some(&first.offset) {
            run.handed = run.message_of.iter().take_while(|message| **message == 0).count().min(first.within);
        }
        Ok(run)
    }

    fn headers<'m, M: rdkafka::Message>(&self, taken: &'m [M]) -> HeadersOf<'m> {
        let mut found = HeadersOf::default();
        if !self.meta.contains(&Meta::Headers) {
            return found;
        }
        for message in taken {
            let begin = found.all.len();
            // The client's library takes a name that is no text for a mistake of its own and panics; a producer can write one.
            let read = catch_unwind(AssertUnwindSafe(|| {
                let Some(headers) = message.headers() else { return };
                for number in 0..headers.count() {
                    let Some(header) = headers.try_get(number) else { break };
                    found.all.push(Header { key: header.key, value: header.value });
                }
            }));
            if read.is_err() {
                found.all.truncate(begin);
                let raw = message.payload().unwrap_or_default().to_vec();
                let row = BadRow::new(BadReason::Malformed, "the name of a header is not UTF-8", raw).at(format!(
                    "partition {}, offset {}",
                    message.partition(),
                    message.offset()
                ));
                found.broken.push((message.offset(), row));
            }
            found.spans.push(begin..found.all.len());
        }
        found
    }
}

/// The headers of messages.
#[derive(Default)]
struct HeadersOf<'m> {
    all: Vec<Header<'m>>,
    /// Where each message has its own.
    spans: Vec<Range<usize>>,
    /// The messages whose headers cannot be read, in order.
    broken: Vec<(i64, BadRow)>,
}

/// Decoded rows of one partition, handed over from the front.
pub(super) struct Run {
    rows: RecordBatch,
    /// For every row its message, by number in `offsets`.
    message_of: Vec<u32>,
    offsets: Vec<i64>,
    bad: Vec<BadRow>,
    tombstones: u64,
    /// How many rows were handed over.
    handed: usize,
    numbers: bool,
    /// Whether a message may be several rows.
    several: bool,
}

/// What is handed over at once.
pub(super) struct Handed {
    pub(super) rows: RecordBatch,
    pub(super) ordinals: Ordinals,
    /// The bad rows and the tombstones of the whole run come with its first part.
    pub(super) bad: Vec<BadRow>,
    pub(super) tombstones: u64,
    /// Where reading goes on, if there is more of the run.
    pub(super) next: Option<Place>,
}

impl Run {
    /// At most so many rows.
    pub(super) fn hand(&mut self, most: usize) -> Result<Handed> {
        let length = (self.rows.num_rows() - self.handed).min(most.max(1));
        let (from, to) = (self.handed, self.handed + length);
        let handed = Handed {
            rows: self.rows.slice(from, length),
            ordinals: if self.numbers { self.ordinals(from, to)? } else { Ordinals::None },
            bad: std::mem::take(&mut self.bad),
            tombstones: std::mem::take(&mut self.tombstones),
            next: (to < self.rows.num_rows()).then(|| self.place(to)),
        };
        self.handed = to;
        Ok(handed)
    }

    /// Where a row is: its message, and how many rows of that stand before it.
    fn place(&self, row: usize) -> Place {
        let message = self.message_of[row];
        let within = self.message_of[..row].iter().rev().take_while(|other| **other == message).count();
        Place { offset: self.offsets[message as usize], within }
    }

    /// A row's number is its message's offset; where a message may be several rows, that and the row's number in it.
    fn ordinals(&self, from: usize, to: usize) -> Result<Ordinals> {
        if from == to {
            return Ok(Ordinals::From(0));
        }
        if self.several {
            let mut place = self.place(from);
            let mut numbers = Vec::with_capacity(to - from);
            for row in from..to {
                let offset = self.offsets[self.message_of[row] as usize];
                if offset != place.offset {
                    place = Place::at(offset);
                }
                if place.within >> ROWS_BITS > 0 || offset >> (63 - ROWS_BITS) > 0 {
                    return Err(Error::limit(format!(
                        "the message at offset {offset} has more than {} rows, which cannot be numbered",
                        1u64 << ROWS_BITS
                    )));
                }
                numbers.push((offset as u64) << ROWS_BITS | place.within as u64);
                place.within += 1;
            }
            return Ok(Ordinals::Each(UInt64Array::from(numbers)));
        }
        let number = |row: usize| self.offsets[self.message_of[row] as usize] as u64;
        let (first, last) = (number(from), number(to - 1));
        if last - first == (to - from - 1) as u64 {
            return Ok(Ordinals::From(first));
        }
        Ok(Ordinals::Each((from..to).map(number).collect::<Vec<_>>().into()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::{Array, Int64Array};
    use arrow::datatypes::{DataType, Field, Schema};
    use proptest::prelude::*;
    use std::sync::Arc;

    /// A run of messages with so many rows each; the value of a row is its number.
    fn run(rows_of: &[usize], gap: i64, several: bool) -> Run {
        let message_of: Vec<u32> =
            rows_of.iter().enumerate().flat_map(|(message, rows)| std::iter::repeat_n(message as u32, *rows)).collect();
        let values: Int64Array = (0..message_of.len() as i64).collect::<Vec<_>>().into();
        let schema = Arc::new(Schema::new(vec![Field::new("n", DataType::Int64, false)]));
        Run {
            rows: RecordBatch::try_new(schema, vec![Arc::new(values)]).unwrap(),
            message_of,
            offsets: (0..rows_of.len() as i64).map(|message| 10 + message * gap).collect(),
            bad: Vec::new(),
            tombstones: 3,
            handed: 0,
            numbers: true,
            several,
        }
    }

    fn numbers(ordinals: &Ordinals, rows: usize) -> Vec<u64> {
        match ordinals {
            Ordinals::None => Vec::new(),
            Ordinals::From(first) => (0..rows as u64).map(|row| first + row).collect(),
            Ordinals::Each(each) => each.values().to_vec(),
        }
    }

    proptest! {
        /// However a run is cut, its rows come once and in order, with the same numbers, and from the place of every cut the rest comes.
        #[test]
        fn a_run_is_handed_over_in_any_parts(rows_of in prop::collection::vec(0usize..5, 1..8), most in 1usize..6) {
            let total: usize = rows_of.iter().sum();
            let whole = run(&rows_of, 2, true).hand(usize::MAX).unwrap();
            let expected = numbers(&whole.ordinals, total);
            let mut parts = run(&rows_of, 2, true);
            let (mut seen, mut order) = (Vec::new(), Vec::new());
            loop {
                let part = parts.hand(most).unwrap();
                prop_assert_eq!(part.tombstones, if order.is_empty() && seen.is_empty() { 3 } else { part.tombstones });
                let values: Vec<i64> = part.rows.column(0).as_any().downcast_ref::<Int64Array>().unwrap().values().to_vec();
                order.extend(numbers(&part.ordinals, values.len()).into_iter().take(values.len()));
                seen.extend(values);
                let Some(next) = part.next else { break };
                let row = seen.len();
                let message = rows_of.iter().scan(0, |sum, rows| { *sum += rows; Some(*sum) }).position(|end| row < end).unwrap();
                let before: usize = rows_of[..message].iter().sum();
                prop_assert_eq!(next, Place { offset: 10 + message as i64 * 2, within: row - before });
            }
            prop_assert_eq!(seen, (0..total as i64).collect::<Vec<_>>());
            if total > 0 {
                prop_assert_eq!(&order, &expected);
                prop_assert!(order.windows(2).all(|pair| pair[0] < pair[1]));
            }
        }
    }

    #[test]
    fn numbers_are_offsets_where_a_message_is_a_row() {
        let dense = run(&[1, 1, 1], 1, false).hand(9).unwrap().ordinals;
        assert_eq!(dense, Ordinals::From(10));
        let gaps = run(&[1, 0, 1], 1, false).hand(9).unwrap().ordinals;
        assert_eq!(numbers(&gaps, 2), [10, 12]);
        let several = run(&[2, 1], 1, true).hand(9).unwrap().ordinals;
        assert_eq!(numbers(&several, 3), [10 << 20, (10 << 20) + 1, 11 << 20]);
    }
}

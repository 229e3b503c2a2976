//! One block of a container file, read value by value, any number at a time.
//!
//! Values in a block do not tell where the next begins, so behind one that cannot be read the rest of its block is lost: as many
//! bad records as the block says it has left, the first of which carries the bytes. The block's length, or the mark behind it
//! where the length is wrong, tells where the next block begins.

use super::super::cells::Faults;
use super::super::column::Column;
use super::super::rows::give_up;
use super::super::{MAX_RECORD, Rescue, Wanted};
use super::KIND;
use super::body::{Cursor, Place, Read};
use super::container::{Header, damaged};
use super::plan::Plan;
use flate2::read::DeflateDecoder;
use std::io::{self, Read as _};
use std::ops::Range;
use tidegate_api::Result;

/// How blocks are compressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Codec {
    Null,
    Deflate,
    Snappy,
    Zstd,
}

/// What is made of blocks.
pub(super) struct Made {
    pub(super) columns: Vec<Column>,
    pub(super) faults: Faults,
    /// For every record the place of its block.
    pub(super) spans: Vec<Range<usize>>,
    /// The bytes of records at fault, in order.
    pub(super) raws: Vec<(usize, Vec<u8>)>,
}

impl Made {
    pub(super) fn new(wanted: &Wanted, rows: usize) -> Result<Self> {
        let columns = KIND.columns(wanted, rows.min(1 << 13))?;
        Ok(Made { columns, faults: Faults::default(), spans: Vec::new(), raws: Vec::new() })
    }

    pub(super) fn records(&self) -> usize {
        self.spans.len()
    }

    /// Appends a record of which nothing can be read.
    fn lose(&mut self, why: &str, raw: &[u8], at: usize, wanted: &Wanted) {
        let record = self.records();
        give_up(record, why.to_string(), wanted, &mut self.columns, &mut self.faults);
        self.raws.push((record, raw.to_vec()));
        self.spans.push(at..at);
    }
}

/// Records that fewer bytes than this may claim to be.
const FEW: usize = 1 << 16;

/// A block that is begun.
pub(super) struct Block {
    /// Its values, if they had to be decompressed. Else they stand in the input, at `body` from the block's beginning.
    inflated: Option<Vec<u8>>,
    body: Range<usize>,
    /// How long it is in the file, its mark included.
    length: usize,
    /// How many records it has.
    count: usize,
    taken: usize,
    place: Place,
    /// Why the rest of it is lost.
    lost: Option<&'static str>,
    /// Whether the bytes of the rest have been handed over.
    told: bool,
}

/// What stands before the values.
struct Claim {
    count: usize,
    size: usize,
    /// Where they begin.
    at: usize,
}

fn claim(input: &[u8]) -> Result<Claim, &'static str> {
    let mut cursor = Cursor::new(input);
    let read = (|| -> Read<(i64, i64)> { Ok((cursor.long()?, cursor.long()?)) })();
    let (count, size) = read.map_err(|broken| broken.what)?;
    let (Ok(count), Ok(size)) = (usize::try_from(count), usize::try_from(size)) else {
        return Err("a block has a negative length");
    };
    if size > MAX_RECORD {
        return Err("a block is longer than 64 MiB");
    }
    Ok(Claim { count, size, at: cursor.at() })
}

impl Block {
    /// The block at the beginning of the input; `None` if it is not whole.
    ///
    /// # Errors
    /// `External` if it is no block, and no mark tells where the next one begins.
    pub(super) fn open(input: &[u8], header: &Header, last: bool) -> Result<Option<Self>> {
        /// No header of a block is longer.
        const LONGEST: usize = 20;
        if input.len() < LONGEST && !last && claim(input).is_err() {
            return Ok(None);
        }
        let (why, count) = match claim(input) {
            Err(why) => (why, 1),
            Ok(claim) => {
                let end = claim.at + claim.size;
                match input.get(end..end + header.mark.len()) {
                    Some(mark) if *mark == header.mark => return Ok(Some(Block::of(claim, input, header.codec))),
                    Some(_) => ("the mark behind a block is another", claim.count),
                    None if last => ("it ends within a block", claim.count),
                    None => return Ok(None),
                }
            }
        };
        match memchr::memmem::find(input, &header.mark) {
            Some(mark) => {
                let count = if count <= mark.max(FEW) { count.max(1) } else { 1 };
                Ok(Some(Block::lost(why, count, 0..mark, mark + header.mark.len())))
            }
            None if !last && input.len() < MAX_RECORD => Ok(None),
            None => Err(damaged(why)),
        }
    }

    fn lost(why: &'static str, count: usize, body: Range<usize>, length: usize) -> Self {
        let place = Place::before(body.len());
        Block { inflated: None, body, length, count, taken: 0, place, lost: Some(why), told: false }
    }

    fn of(claim: Claim, input: &[u8], codec: Codec) -> Self {
        const MARK: usize = 16;
        let Claim { count, size, at } = claim;
        let body = at..at + size;
        let length = body.end + MARK;
        let inflated = match inflated(&input[body.clone()], codec) {
            Ok(inflated) => inflated,
            Err(why) => {
                // No codec makes so much of so little.
                let most = size.saturating_mul(1 << 12).clamp(FEW, MAX_RECORD);
                return Block::lost(why, if count <= most { count } else { 1 }, body, length);
            }
        };
        let bytes = inflated.as_ref().map_or(size, Vec::len);
        // A value of no bytes at all is possible, but not as many as a count can claim.
        if count > bytes.max(FEW) {
            return Block { inflated, ..Block::lost("a block claims more values than its bytes can hold", 1, body, length) };
        }
        Block { inflated, body, length, count, taken: 0, place: Place::before(bytes), lost: None, told: false }
    }

    pub(super) fn length(&self) -> usize {
        self.length
    }

    pub(super) fn taken(&self) -> u64 {
        self.taken as u64
    }

    fn bytes<'a>(&'a self, input: &'a [u8]) -> &'a [u8] {
        self.inflated.as_deref().unwrap_or(&input[self.body.clone()])
    }

    /// Whether nothing of it is left.
    pub(super) fn is_done(&self, input: &[u8]) -> bool {
        self.taken == self.count && (self.lost.is_some() || self.place.at == self.bytes(input).len())
    }

    /// Reads at most `most` records, which stand at `at`; answers how many bytes they took. `input` begins with the block.
    pub(super) fn read(
        &mut self,
        input: &[u8],
        header: &Header,
        plan: &Plan,
        wanted: &Wanted,
        most: usize,
        at: usize,
        made: &mut Made,
    ) -> usize {
        let bytes = match &self.inflated {
            Some(bytes) => bytes.as_slice(),
            None => &input[self.body.clone()],
        };
        let begun = self.place.at;
        let mut cursor = Cursor::resume(bytes, self.place);
        let end = made.records().saturating_add(most);
        while made.records() < end && self.lost.is_none() && self.taken < self.count {
            let (record, start, faults) = (made.records(), cursor.place(), made.faults.len());
            match read_value(header, plan, wanted, &mut cursor, made, record) {
                Ok(()) => {
                    made.spans.push(at..at);
                    self.taken += 1;
                    self.place = cursor.place();
                    if made.faults.len() > faults {
                        made.raws.push((record, bytes[start.at..cursor.at()].to_vec()));
                    }
                }
                Err(broken) => {
                    self.place = start;
                    self.lost = Some(broken);
                }
            }
        }
        if self.lost.is_none() && self.taken == self.count && !cursor.is_empty() && made.records() < end {
            self.lost = Some("a block is longer than its values");
            self.count += 1;
        }
        if let Some(why) = self.lost {
            while made.records() < end && self.taken < self.count {
                match self.told {
                    false => made.lose(why, &bytes[self.place.at..], at, wanted),
                    true => made.lose("a value before it in the same block cannot be read", &[], at, wanted),
                }
                self.told = true;
                self.taken += 1;
            }
        }
        self.place.at - begun
    }

    /// Passes over records that were handed over before.
    ///
    /// # Errors
    /// `External` if the block has not so many.
    pub(super) fn pass_over(&mut self, records: u64, input: &[u8], header: &Header, plan: &Plan, wanted: &Wanted) -> Result<()> {
        const AT_A_TIME: u64 = 1 << 12;
        while self.taken() < records {
            let mut made = Made::new(wanted, 0)?;
            let some = AT_A_TIME.min(records - self.taken()) as usize;
            self.read(input, header, plan, wanted, some, 0, &mut made);
            if made.records() == 0 {
                return Err(damaged(format!("the block has fewer values than the {records} that were read of it, it was changed")));
            }
        }
        Ok(())
    }
}

/// Reads one value into the columns.
fn read_value(
    header: &Header,
    plan: &Plan,
    wanted: &Wanted,
    cursor: &mut Cursor<'_>,
    made: &mut Made,
    record: usize,
) -> Result<(), &'static str> {
    if wanted.rescue != Rescue::No {
        // Nothing of a value that breaks off may be kept, so all of it is read before any of it is.
        plan.skip_record(&header.schema, &mut cursor.clone()).map_err(|broken| broken.what)?;
    }
    plan.read_record(&header.schema, cursor, &mut made.columns, record, &mut made.faults).map_err(|broken| broken.what)
}

/// What a block is when it is decompressed; `None`: as it is.
fn inflated(body: &[u8], codec: Codec) -> Result<Option<Vec<u8>>, &'static str> {
    const BROKEN: &str = "a block cannot be decompressed";
    const LONG: &str = "a block is longer than 64 MiB";
    let whole = |reader: &mut dyn io::Read| {
        let mut bytes = Vec::new();
        reader.take(MAX_RECORD as u64 + 1).read_to_end(&mut bytes).map_err(|_| BROKEN)?;
        if bytes.len() > MAX_RECORD { Err(LONG) } else { Ok(Some(bytes)) }
    };
    match codec {
        Codec::Null => Ok(None),
        Codec::Deflate => whole(&mut DeflateDecoder::new(body)),
        Codec::Zstd => whole(&mut zstd::stream::read::Decoder::new(body).map_err(|_| BROKEN)?),
        Codec::Snappy => {
            let (body, checksum) = body.split_last_chunk::<4>().ok_or(BROKEN)?;
            // It says itself how long it becomes.
            if snap::raw::decompress_len(body).map_err(|_| BROKEN)? > MAX_RECORD {
                return Err(LONG);
            }
            let bytes = snap::raw::Decoder::new().decompress_vec(body).map_err(|_| BROKEN)?;
            if crc32fast::hash(&bytes) != u32::from_be_bytes(*checksum) {
                return Err("a block has another checksum than it says");
            }
            Ok(Some(bytes))
        }
    }
}

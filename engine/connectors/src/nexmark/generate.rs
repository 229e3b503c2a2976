//! From row numbers to columns.
//!
//! The loop goes epoch by epoch, because within an epoch the hot ids and id windows are constants; inside it each wanted column
//! is filled by a straight loop over the epoch's words. Rows of a kind that lacks a column hold zero there and are masked by a
//! validity pattern that repeats with the epoch and is made once.

use super::config::NexmarkConfig;
use super::draw::{Draws, FIRST_CATEGORY, FIRST_ID, Ids, Purpose, below, price};
use super::layout::{AUCTIONS, BIDS, EPOCH, FIRST_AUCTION, FIRST_BID, Kind, Kinds, Share};
use super::text::{self, CHANNELS, HOT_CHANNELS, SAMPLES, texts};
use arrow::array::{
    ArrayBuilder, ArrayRef, Int64Array, RecordBatch, RecordBatchOptions, StringViewArray, StringViewBuilder, TimestampMillisecondArray,
    UInt32Array, new_null_array,
};
use arrow::buffer::{BooleanBuffer, NullBuffer, ScalarBuffer};
use arrow::compute::take;
use arrow::datatypes::{DataType, Field, SchemaRef, TimeUnit};
use std::sync::Arc;
use tidegate_api::Result;

/// The columns, in the source's order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Column {
    Type,
    Id,
    Name,
    EmailAddress,
    CreditCard,
    City,
    State,
    ItemName,
    Description,
    InitialBid,
    Reserve,
    Expires,
    Seller,
    Category,
    Auction,
    Bidder,
    Price,
    Channel,
    Url,
    DateTime,
    Extra,
}

impl Column {
    pub(super) const ALL: [(Column, &'static str); 21] = [
        (Column::Type, "type"),
        (Column::Id, "id"),
        (Column::Name, "name"),
        (Column::EmailAddress, "emailAddress"),
        (Column::CreditCard, "creditCard"),
        (Column::City, "city"),
        (Column::State, "state"),
        (Column::ItemName, "itemName"),
        (Column::Description, "description"),
        (Column::InitialBid, "initialBid"),
        (Column::Reserve, "reserve"),
        (Column::Expires, "expires"),
        (Column::Seller, "seller"),
        (Column::Category, "category"),
        (Column::Auction, "auction"),
        (Column::Bidder, "bidder"),
        (Column::Price, "price"),
        (Column::Channel, "channel"),
        (Column::Url, "url"),
        (Column::DateTime, "dateTime"),
        (Column::Extra, "extra"),
    ];

    /// The kinds that have it.
    fn owners(self) -> Kinds {
        match self {
            Column::Type | Column::DateTime | Column::Extra => Kinds::ALL,
            Column::Id => Kinds::of(Kind::Person).with(Kind::Auction),
            Column::Name | Column::EmailAddress | Column::CreditCard | Column::City | Column::State => Kinds::of(Kind::Person),
            Column::ItemName
            | Column::Description
            | Column::InitialBid
            | Column::Reserve
            | Column::Expires
            | Column::Seller
            | Column::Category => Kinds::of(Kind::Auction),
            Column::Auction | Column::Bidder | Column::Price | Column::Channel | Column::Url => Kinds::of(Kind::Bid),
        }
    }

    /// Whether all rows of these kinds hold the same in it.
    fn is_constant(self, kinds: Kinds) -> bool {
        let is_one = Kind::ALL.into_iter().any(|kind| kinds == Kinds::of(kind));
        self.owners().both(kinds) == Kinds::NONE || (self == Column::Type && is_one)
    }

    pub(super) fn field(self, name: &str) -> Field {
        let data_type = match self {
            Column::DateTime | Column::Expires => DataType::Timestamp(TimeUnit::Millisecond, None),
            Column::Id
            | Column::InitialBid
            | Column::Reserve
            | Column::Seller
            | Column::Category
            | Column::Auction
            | Column::Bidder
            | Column::Price => DataType::Int64,
            Column::Type
            | Column::Name
            | Column::EmailAddress
            | Column::CreditCard
            | Column::City
            | Column::State
            | Column::ItemName
            | Column::Description
            | Column::Channel
            | Column::Url
            | Column::Extra => DataType::Utf8View,
        };
        Field::new(name, data_type, true)
    }
}

/// Makes the rows of one split.
pub(super) struct Generator {
    draws: Draws,
    share: Share,
    kinds: Kinds,
    schema: SchemaRef,
    columns: Vec<Column>,
    pad_extra: bool,
    /// Validity of a column that these kinds own, from the first row of an epoch; by [`Kinds::index`].
    patterns: [Option<BooleanBuffer>; 8],
    /// Columns whose rows are all alike, by column: what no kind owns, and the type where there is one kind.
    constant: Vec<(Column, ArrayRef)>,
}

impl Generator {
    /// `schema` is that of `columns`; `kinds` are the kinds to make rows of.
    pub(super) fn new(config: &NexmarkConfig, share: Share, kinds: Kinds, schema: SchemaRef, columns: Vec<Column>) -> Self {
        let pad_extra = config.extra;
        Generator {
            draws: Draws::new(config),
            share,
            kinds,
            schema,
            columns,
            pad_extra,
            patterns: Default::default(),
            constant: Vec::new(),
        }
    }

    pub(super) fn draws(&self) -> &Draws {
        &self.draws
    }

    pub(super) fn share(&self) -> Share {
        self.share
    }

    /// Rows `from..to` of the split.
    pub(super) fn rows(&mut self, from: u64, to: u64) -> Result<RecordBatch> {
        let count = (to - from) as usize;
        // Without kinds there are no rows, and any width will do.
        let width = self.kinds.width().max(1);
        let kinds = self.kinds;
        let made_columns = self.columns.iter().copied().filter(|column| !column.is_constant(kinds));
        let mut made = Made::new(made_columns, count);
        let mut row = from;
        while row < to {
            let (own, first) = (row / width, row % width);
            let last = width.min(first + (to - row));
            made.epoch(&self.draws, self.kinds, self.share.epoch(own), first, last, self.pad_extra);
            row += last - first;
        }
        let phase = (from % width) as usize;
        let columns = self.columns.clone();
        let arrays = columns.into_iter().map(|column| self.finish(column, &mut made, phase, count)).collect::<Result<Vec<_>>>()?;
        let options = RecordBatchOptions::new().with_row_count(Some(count));
        Ok(RecordBatch::try_new_with_options(Arc::clone(&self.schema), arrays, &options)?)
    }

    fn finish(&mut self, column: Column, made: &mut Made, phase: usize, count: usize) -> Result<ArrayRef> {
        if column.is_constant(self.kinds) {
            return Ok(self.constant(column, count));
        }
        let nulls = self.nulls(column.owners(), phase, count);
        let numbers = |values: &mut Option<Vec<i64>>| ScalarBuffer::from(values.take().unwrap_or_default());
        let lookup = |table: &StringViewArray, indices: &mut Option<Vec<u32>>, nulls: Option<NullBuffer>| {
            let indices = UInt32Array::new(ScalarBuffer::from(indices.take().unwrap_or_default()), nulls);
            take(table, &indices, None)
        };
        let texts = texts();
        Ok(match column {
            Column::Type => lookup(&texts.types, &mut made.kind, nulls)?,
            Column::Name => lookup(&texts.names, &mut made.name, nulls)?,
            Column::City => lookup(&texts.cities, &mut made.city, nulls)?,
            Column::State => lookup(&texts.states, &mut made.state, nulls)?,
            Column::ItemName => lookup(&texts.item_names, &mut made.item_name, nulls)?,
            Column::Description => lookup(&texts.descriptions, &mut made.description, nulls)?,
            Column::Channel => lookup(&texts.channels, &mut made.channel, nulls)?,
            Column::Url => lookup(&texts.urls, &mut made.url, nulls)?,
            Column::Extra => lookup(if self.pad_extra { &texts.extras } else { &texts.empty }, &mut made.extra, nulls)?,
            Column::EmailAddress => {
                let mut fresh = made.email.take().unwrap_or_default();
                lookup(&fresh.texts.finish(), &mut fresh.indices, nulls)?
            }
            Column::CreditCard => {
                let mut fresh = made.credit_card.take().unwrap_or_default();
                lookup(&fresh.texts.finish(), &mut fresh.indices, nulls)?
            }
            Column::DateTime => Arc::new(TimestampMillisecondArray::new(numbers(&mut made.date_time), nulls)),
            Column::Expires => Arc::new(TimestampMillisecondArray::new(numbers(&mut made.expires), nulls)),
            Column::Id => Arc::new(Int64Array::new(numbers(&mut made.id), nulls)),
            Column::InitialBid => Arc::new(Int64Array::new(numbers(&mut made.initial_bid), nulls)),
            Column::Reserve => Arc::new(Int64Array::new(numbers(&mut made.reserve), nulls)),
            Column::Seller => Arc::new(Int64Array::new(numbers(&mut made.seller), nulls)),
            Column::Category => Arc::new(Int64Array::new(numbers(&mut made.category), nulls)),
            Column::Auction => Arc::new(Int64Array::new(numbers(&mut made.auction), nulls)),
            Column::Bidder => Arc::new(Int64Array::new(numbers(&mut made.bidder), nulls)),
            Column::Price => Arc::new(Int64Array::new(numbers(&mut made.price), nulls)),
        })
    }

    /// So many rows of a column whose rows are all alike.
    fn constant(&mut self, column: Column, count: usize) -> ArrayRef {
        if let Some((_, array)) = self.constant.iter().find(|(known, array)| *known == column && array.len() >= count) {
            return array.slice(0, count);
        }
        self.constant.retain(|(known, _)| *known != column);
        let kind = Kind::ALL.into_iter().find(|kind| column == Column::Type && self.kinds == Kinds::of(*kind));
        let array: ArrayRef = match kind {
            Some(kind) => Arc::new(StringViewArray::from_iter_values(std::iter::repeat_n(kind.name(), count))),
            None => new_null_array(column.field("").data_type(), count),
        };
        self.constant.push((column, Arc::clone(&array)));
        array
    }

    /// The validity of a column of these owners; `None` when every row has it.
    fn nulls(&mut self, owners: Kinds, phase: usize, count: usize) -> Option<NullBuffer> {
        if self.kinds.is_within(owners) {
            return None;
        }
        let (kinds, pattern) = (self.kinds, &mut self.patterns[owners.index()]);
        if pattern.as_ref().is_none_or(|pattern| pattern.len() < phase + count) {
            let width = kinds.width() as usize;
            let period: Vec<bool> = kinds.runs(0, kinds.width()).flat_map(|(kind, a, b)| (a..b).map(move |_| owners.has(kind))).collect();
            let length = (phase + count).max(8_192 + width);
            *pattern = Some(BooleanBuffer::collect_bool(length, |row| period[row % width]));
        }
        pattern.as_ref().map(|pattern| NullBuffer::new(pattern.slice(phase, count)))
    }
}

/// The columns in the making; those not wanted are `None`.
#[derive(Default)]
struct Made {
    kind: Option<Vec<u32>>,
    id: Option<Vec<i64>>,
    name: Option<Vec<u32>>,
    email: Option<Fresh>,
    credit_card: Option<Fresh>,
    city: Option<Vec<u32>>,
    state: Option<Vec<u32>>,
    item_name: Option<Vec<u32>>,
    description: Option<Vec<u32>>,
    initial_bid: Option<Vec<i64>>,
    reserve: Option<Vec<i64>>,
    expires: Option<Vec<i64>>,
    seller: Option<Vec<i64>>,
    category: Option<Vec<i64>>,
    auction: Option<Vec<i64>>,
    bidder: Option<Vec<i64>>,
    price: Option<Vec<i64>>,
    channel: Option<Vec<u32>>,
    url: Option<Vec<u32>>,
    date_time: Option<Vec<i64>>,
    extra: Option<Vec<u32>>,
    /// Whether any column of persons, of auctions is wanted: if not, rows of other kinds need no padding there.
    persons: bool,
    auctions: bool,
}

/// Fills rows of a kind that lacks the columns.
macro_rules! pad {
    ($count:expr; $($column:expr),+) => { $( if let Some(values) = &mut $column { values.resize(values.len() + $count, 0); } )+ };
}

/// Appends one value per row, if the column is wanted.
macro_rules! fill {
    ($column:expr, $values:expr) => {
        if let Some(values) = &mut $column {
            values.extend($values);
        }
    };
}

/// Texts that are drawn letter by letter, each once: few, since only persons have them.
#[derive(Default)]
struct Fresh {
    texts: StringViewBuilder,
    /// For each row, its text; always there.
    indices: Option<Vec<u32>>,
}

impl Fresh {
    fn with_capacity(rows: usize) -> Self {
        Fresh { texts: StringViewBuilder::new(), indices: Some(Vec::with_capacity(rows)) }
    }

    fn push(&mut self, ascii: &[u8]) {
        let index = self.texts.len() as u32;
        self.texts.append_value(String::from_utf8_lossy(ascii));
        fill!(self.indices, [index]);
    }
}

impl Made {
    fn new(columns: impl Iterator<Item = Column>, rows: usize) -> Self {
        let mut made = Made::default();
        let numbers = || Some(Vec::with_capacity(rows));
        let indices = || Some(Vec::with_capacity(rows));
        for column in columns {
            match column {
                Column::Type => made.kind = indices(),
                Column::Id => made.id = numbers(),
                Column::Name => made.name = indices(),
                Column::EmailAddress => made.email = Some(Fresh::with_capacity(rows)),
                Column::CreditCard => made.credit_card = Some(Fresh::with_capacity(rows)),
                Column::City => made.city = indices(),
                Column::State => made.state = indices(),
                Column::ItemName => made.item_name = indices(),
                Column::Description => made.description = indices(),
                Column::InitialBid => made.initial_bid = numbers(),
                Column::Reserve => made.reserve = numbers(),
                Column::Expires => made.expires = numbers(),
                Column::Seller => made.seller = numbers(),
                Column::Category => made.category = numbers(),
                Column::Auction => made.auction = numbers(),
                Column::Bidder => made.bidder = numbers(),
                Column::Price => made.price = numbers(),
                Column::Channel => made.channel = indices(),
                Column::Url => made.url = indices(),
                Column::DateTime => made.date_time = numbers(),
                Column::Extra => made.extra = indices(),
            }
            let owners = column.owners();
            made.persons |= owners == Kinds::of(Kind::Person);
            made.auctions |= owners == Kinds::of(Kind::Auction);
        }
        made
    }

    /// Rows `first..last` of an epoch.
    fn epoch(&mut self, draws: &Draws, kinds: Kinds, epoch: u64, first: u64, last: u64, pad_extra: bool) {
        let base = epoch * EPOCH;
        for (kind, from, to) in kinds.runs(first, last) {
            let count = (to - from) as usize;
            let start = base
                + match kind {
                    Kind::Person => 0,
                    Kind::Auction => FIRST_AUCTION + from,
                    Kind::Bid => FIRST_BID + from,
                };
            match kind {
                Kind::Person => self.person(draws, epoch, start),
                Kind::Auction => self.auctions(draws, epoch, from, to, start),
                Kind::Bid => self.bids(draws, epoch, start, count),
            }
            self.shared(draws, kind, start, count, pad_extra);
        }
        if let Some(prices) = &mut self.price {
            // The words' bits become prices in a pass of their own, which the compiler vectorises; it is done here, while they are in cache.
            let made = prices.len() - (last - first) as usize;
            prices[made..].iter_mut().for_each(|value| *value = price(value.cast_unsigned()));
        }
    }

    /// Columns that all kinds have.
    fn shared(&mut self, draws: &Draws, kind: Kind, start: u64, count: usize, pad_extra: bool) {
        if let Some(times) = &mut self.date_time {
            if draws.is_ordered() {
                let (first, step) = (draws.base_time(start), draws.step_ms());
                times.extend((0..count as i64).map(|place| first + place * step));
            } else {
                times.extend((start..start + count as u64).map(|event| draws.time(event)));
            }
        }
        fill!(self.kind, std::iter::repeat_n(kind as u32, count));
        if let Some(extras) = &mut self.extra {
            if pad_extra {
                let base = kind as u32 * SAMPLES;
                extras.extend((start..start + count as u64).map(|event| base + (draws.word(Purpose::More, event) as u32 & (SAMPLES - 1))));
            } else {
                extras.resize(extras.len() + count, 0);
            }
        }
    }

    fn person(&mut self, draws: &Draws, epoch: u64, event: u64) {
        if self.persons {
            let word = draws.word(Purpose::Numbers, event);
            fill!(self.name, [below(word, text::name_count()) as u32]);
            fill!(self.city, [below(word >> 16, text::city_count()) as u32]);
            fill!(self.state, [below(word >> 32, text::state_count()) as u32]);
            if let Some(emails) = &mut self.email {
                emails.push(&text::email(draws.word(Purpose::Text, event), word.rotate_left(17)));
            }
            if let Some(cards) = &mut self.credit_card {
                cards.push(&text::credit_card(draws.word(Purpose::More, event).rotate_left(32)));
            }
        }
        fill!(self.id, [FIRST_ID + epoch.cast_signed()]);
        self.pad_auctions(1);
        self.pad_bids(1);
    }

    fn auctions(&mut self, draws: &Draws, epoch: u64, from: u64, to: u64, start: u64) {
        let count = (to - from) as usize;
        fill!(self.id, (from..to).map(|place| FIRST_ID + (epoch * AUCTIONS + place).cast_signed()));
        if self.auctions {
            let ids = Ids::of_epoch(epoch);
            for event in start..start + count as u64 {
                let (word, more) = (draws.word(Purpose::Numbers, event), draws.word(Purpose::Text, event));
                fill!(self.item_name, [word as u32 & (SAMPLES - 1)]);
                fill!(self.description, [more as u32 & (SAMPLES - 1)]);
                let initial = price(word >> 32);
                fill!(self.initial_bid, [initial]);
                fill!(self.reserve, [initial + price(more >> 32)]);
                fill!(self.expires, [draws.time(event) + draws.duration(more.rotate_left(32) ^ word)]);
                fill!(self.seller, [ids.seller(word)]);
                fill!(self.category, [FIRST_CATEGORY + below(more >> 13, 5).cast_signed()]);
            }
        }
        self.pad_persons(count);
        self.pad_bids(count);
    }

    fn bids(&mut self, draws: &Draws, epoch: u64, start: u64, count: usize) {
        let ids = Ids::of_epoch(epoch);
        if self.auction.is_some() || self.bidder.is_some() || self.price.is_some() {
            // Words first, then column by column: the draws are scalar multiplications and the rest is vector work, and a loop of
            // both would move every word back and forth between the two kinds of registers.
            let mut words = [0; BIDS as usize];
            let words = &mut words[..count];
            words.iter_mut().zip(start..).for_each(|(slot, event)| *slot = draws.word(Purpose::Numbers, event));
            fill!(self.auction, words.iter().map(|word| ids.auction(*word)));
            fill!(self.bidder, words.iter().map(|word| ids.bidder(*word)));
            fill!(self.price, words.iter().map(|word| (word >> 32).cast_signed()));
        }
        if self.channel.is_some() || self.url.is_some() {
            let mut channels = [0; BIDS as usize];
            let channels = &mut channels[..count];
            channels
                .iter_mut()
                .zip(start..start + count as u64)
                .for_each(|(channel, event)| *channel = channel_of(draws.word(Purpose::Text, event)));
            fill!(self.channel, channels.iter().copied());
            fill!(self.url, channels.iter().copied());
        }
        pad!(count; self.id);
        self.pad_persons(count);
        self.pad_auctions(count);
    }

    fn pad_persons(&mut self, count: usize) {
        if self.persons {
            pad!(count; self.name, self.city, self.state);
            for fresh in [&mut self.email, &mut self.credit_card].into_iter().flatten() {
                pad!(count; fresh.indices);
            }
        }
    }

    fn pad_auctions(&mut self, count: usize) {
        if self.auctions {
            pad!(count; self.item_name, self.description);
            pad!(count; self.initial_bid, self.reserve, self.expires, self.seller, self.category);
        }
    }

    fn pad_bids(&mut self, count: usize) {
        pad!(count; self.auction, self.bidder, self.price);
        pad!(count; self.channel, self.url);
    }
}

/// Bits 0 to 2 choose a hot channel, the upper half a cold one.
#[inline(always)]
fn channel_of(word: u64) -> u32 {
    let hot = (word >> 1) as u32 & (HOT_CHANNELS - 1);
    let cold = HOT_CHANNELS + (((word >> 32) * u64::from(CHANNELS)) >> 32) as u32;
    cold ^ ((cold ^ hot) & (word as u32 & 1).wrapping_neg())
}

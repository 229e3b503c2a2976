//! The words that events are made of: tables of ready views over shared buffers, so that a text column costs an index per row.

use super::draw::mix;
use super::layout::Kind;
use arrow::array::{StringViewArray, StringViewBuilder};
use arrow::buffer::Buffer;
use std::sync::LazyLock;

/// Channels that half the bids come through.
pub(super) const HOT_CHANNELS: u32 = 4;
/// All other channels.
pub(super) const CHANNELS: u32 = 10_000;
/// Ready paddings, item names and descriptions of each kind; a power of two.
pub(super) const SAMPLES: u32 = 8_192;

const FIRST_NAMES: [&str; 11] = ["peter", "paul", "luke", "john", "saul", "vicky", "kate", "julie", "sarah", "deiter", "walter"];
const LAST_NAMES: [&str; 9] = ["shultz", "abrams", "spencer", "white", "bartels", "walton", "smith", "jones", "noris"];
const CITIES: [&str; 10] =
    ["phoenix", "los angeles", "san francisco", "boise", "portland", "bend", "redmond", "seattle", "kent", "cheyenne"];
const STATES: [&str; 6] = ["az", "ca", "id", "or", "wa", "wy"];

/// The average size of a person, an auction and a bid, in bytes, `extra` included.
const SIZES: [usize; 3] = [200, 500, 100];
/// What the other columns of each kind weigh; of persons, whose texts differ, the average.
const OTHER_COLUMNS: [usize; 3] = [65, 168, 32];

/// Every table. Row 0 of each stands for null.
pub(super) struct Texts {
    pub(super) types: StringViewArray,
    pub(super) names: StringViewArray,
    pub(super) cities: StringViewArray,
    pub(super) states: StringViewArray,
    pub(super) item_names: StringViewArray,
    pub(super) descriptions: StringViewArray,
    pub(super) channels: StringViewArray,
    pub(super) urls: StringViewArray,
    /// [`SAMPLES`] paddings for each kind, one kind after the other.
    pub(super) extras: StringViewArray,
    /// One empty text.
    pub(super) empty: StringViewArray,
}

/// The tables; equal in every process.
pub(super) fn texts() -> &'static Texts {
    static TEXTS: LazyLock<Texts> = LazyLock::new(Texts::new);
    &TEXTS
}

impl Texts {
    fn new() -> Self {
        let names = FIRST_NAMES.iter().flat_map(|first| LAST_NAMES.iter().map(move |last| format!("{first} {last}")));
        let pool = Pool::new();
        Texts {
            types: Kind::ALL.iter().map(|kind| Some(kind.name())).collect(),
            names: names.map(Some).collect(),
            cities: CITIES.iter().map(Some).collect(),
            states: STATES.iter().map(Some).collect(),
            item_names: pool.samples([(20, 20)], 1),
            descriptions: pool.samples([(100, 100)], 2),
            channels: hot_then_cold(
                |hot| ["Google", "Facebook", "Baidu", "Apple"][hot as usize].to_string(),
                |cold| format!("channel-{cold}"),
            ),
            urls: hot_then_cold(url, cold_url),
            extras: pool.samples(Kind::ALL.map(padding), 3),
            empty: StringViewArray::from_iter_values([""]),
        }
    }
}

pub(super) fn name_count() -> u64 {
    (FIRST_NAMES.len() * LAST_NAMES.len()) as u64
}

pub(super) fn city_count() -> u64 {
    CITIES.len() as u64
}

pub(super) fn state_count() -> u64 {
    STATES.len() as u64
}

/// The shortest and longest padding of a kind: a fifth around what is missing to its size.
fn padding(kind: Kind) -> (usize, usize) {
    let missing = SIZES[kind as usize] - OTHER_COLUMNS[kind as usize];
    let around = (missing + 2) / 5;
    (missing - around, missing + around - 1)
}

fn hot_then_cold(hot: impl Fn(u64) -> String, cold: impl Fn(u64) -> String) -> StringViewArray {
    let hot = (0..u64::from(HOT_CHANNELS)).map(hot);
    hot.chain((0..u64::from(CHANNELS)).map(cold)).map(Some).collect()
}

fn url(number: u64) -> String {
    let segment = |which: u64| -> String {
        let letter = |place: u64| {
            let word = mix((number << 8) | (which << 4) | place);
            if word.is_multiple_of(13) { '_' } else { char::from(b'a' + ((word >> 32) % 26) as u8) }
        };
        (0..3 + (mix((number << 8) | (which << 4) | 15) & 1)).map(letter).collect()
    };
    format!("https://www.nexmark.com/{}/{}/{}/item.htm?query=1", segment(0), segment(1), segment(2))
}

/// Nine in ten cold urls carry the channel's id.
fn cold_url(channel: u64) -> String {
    let with_id = !mix(channel | (1 << 40)).is_multiple_of(10);
    let id = (channel as u32).reverse_bits().cast_signed().unsigned_abs();
    if with_id { format!("{}&channel_id={id}", url(channel)) } else { url(channel) }
}

/// Letters at random, to point into.
struct Pool(Buffer);

impl Pool {
    const LETTERS: u64 = 1 << 16;

    fn new() -> Self {
        let letters: Vec<u8> = (0..Self::LETTERS).map(|place| b'a' + (mix(place | (1 << 41)) % 26) as u8).collect();
        Pool(Buffer::from_vec(letters))
    }

    /// [`SAMPLES`] texts for each pair of shortest and longest.
    fn samples<const N: usize>(&self, lengths: [(usize, usize); N], salt: u64) -> StringViewArray {
        let mut builder = StringViewBuilder::with_capacity(N * SAMPLES as usize);
        let block = builder.append_block(self.0.clone());
        for (which, (shortest, longest)) in lengths.into_iter().enumerate() {
            for sample in 0..u64::from(SAMPLES) {
                let word = mix(sample | ((which as u64) << 32) | (salt << 42));
                let length = shortest as u64 + (word >> 32) % (longest - shortest + 1) as u64;
                let offset = (word & 0xFFFF_FFFF) % (Self::LETTERS - length);
                builder.try_append_view(block, offset as u32, length as u32).expect("offset and length lie within the pool of letters");
            }
        }
        builder.finish()
    }
}

/// Seven letters, an at sign, five letters and `.com`.
pub(super) fn email(word: u64, more: u64) -> [u8; 17] {
    let mut text = *b".......@......com";
    for (place, letter) in text[..7].iter_mut().enumerate() {
        *letter = b'a' + ((word >> (8 * place)) as u8) % 26;
    }
    for (place, letter) in text[8..13].iter_mut().enumerate() {
        *letter = b'a' + ((more >> (8 * place)) as u8) % 26;
    }
    text
}

/// Four groups of four digits.
pub(super) fn credit_card(word: u64) -> [u8; 19] {
    let mut text = *b"0000 0000 0000 0000";
    for group in 0..4 {
        let mut number = (((word >> (16 * group)) & 0xFFFF) * 10_000) >> 16;
        for place in (0..4).rev() {
            text[group * 5 + place] = b'0' + (number % 10) as u8;
            number /= 10;
        }
    }
    text
}

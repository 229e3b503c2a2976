//! The layout of machine-written messages: what stands between their values, learned from one message and compared with others.
//!
//! A message whose bytes between values are those of a layout has the same keys in the same order, so its values are found
//! without looking at keys. Values themselves are read by the same functions that the full parser uses. A message that departs
//! anywhere is left to the full parser: the two can differ in speed only.

use super::scan::{Kind, Token, value};
use std::ops::Range;

/// Layouts remembered at a time.
const MOST_LAYOUTS: usize = 4;
/// Values in a layout; a message of more is rare, and not worth the memory.
const MOST_VALUES: usize = 512;
/// What fits nowhere costs so many times what fits earns.
const PRICE: i32 = 8;
/// The most that can be saved up.
const SAVINGS: i32 = 128;
/// Messages left to the full parser when nothing fits; doubled every time.
const PAUSE: u32 = 1_024;
const LONGEST_PAUSE: u32 = 1 << 20;

/// Bytes that must stand there, compared 16 at a time.
#[derive(Debug)]
struct Literal {
    bytes: Box<[u8]>,
    head: u128,
    mask: u128,
}

impl Literal {
    fn new(bytes: &[u8]) -> Self {
        let mut head = [0; 16];
        let length = bytes.len().min(16);
        head[..length].copy_from_slice(&bytes[..length]);
        let mask = if length == 16 { u128::MAX } else { (1 << (8 * length)) - 1 };
        Literal { bytes: bytes.into(), head: u128::from_le_bytes(head), mask }
    }

    /// Where the row goes on behind these bytes, if they stand there.
    #[inline(always)]
    fn after(&self, row: &[u8], at: usize) -> Option<usize> {
        let rest = row.get(at..)?;
        let fits = match rest.first_chunk::<16>() {
            Some(chunk) if self.bytes.len() <= 16 => (u128::from_le_bytes(*chunk) ^ self.head) & self.mask == 0,
            Some(chunk) => u128::from_le_bytes(*chunk) == self.head && rest.starts_with(&self.bytes),
            None => rest.starts_with(&self.bytes),
        };
        fits.then_some(at + self.bytes.len())
    }
}

/// A value of a layout.
#[derive(Debug)]
struct Place {
    before: Literal,
    /// The column that the value belongs to.
    slot: Option<usize>,
}

#[derive(Debug)]
struct Layout {
    places: Vec<Place>,
    end: Box<[u8]>,
}

/// What the full parser notes of a message, for a layout to be made of it.
#[derive(Debug, Default)]
pub(super) struct Trace {
    values: Vec<(Range<usize>, Option<usize>)>,
}

impl Trace {
    pub(super) fn clear(&mut self) {
        self.values.clear();
    }

    /// Notes a value; `token` leaves the quotes of a text out.
    pub(super) fn note(&mut self, token: Token, slot: Option<usize>) {
        let quote = usize::from(matches!(token.kind, Kind::Text | Kind::Escaped));
        self.values.push((token.start as usize - quote..token.end as usize + quote, slot));
    }
}

impl Layout {
    /// The layout of a message; `None` if it has a column twice or is too long.
    fn of(row: &[u8], trace: &Trace) -> Option<Self> {
        if trace.values.len() > MOST_VALUES {
            return None;
        }
        let mut at = 0;
        let mut seen = Vec::new();
        let mut places = Vec::with_capacity(trace.values.len());
        for (span, slot) in &trace.values {
            if let Some(slot) = slot {
                if seen.contains(slot) {
                    return None;
                }
                seen.push(*slot);
            }
            places.push(Place { before: Literal::new(&row[at..span.start]), slot: *slot });
            at = span.end;
        }
        Some(Layout { places, end: row[at..].into() })
    }

    /// Reads a message of this layout; false if it is not. Slots that the layout lacks are not touched.
    #[inline]
    fn read(&self, row: &[u8], record: usize, slots: &mut [Vec<Token>], mut escaped: impl FnMut(&mut Token)) -> bool {
        let mut at = 0;
        for place in &self.places {
            let Some(start) = place.before.after(row, at) else { return false };
            let Ok((mut token, end)) = value(row, start, 1) else { return false };
            if let Some(slot) = place.slot {
                if token.kind == Kind::Escaped {
                    escaped(&mut token);
                }
                slots[slot][record] = token;
            }
            at = end;
        }
        row[at..] == *self.end
    }
}

/// The layouts of a stream, and whether looking for one is worth it.
#[derive(Debug)]
pub(super) struct Layouts {
    known: Vec<Layout>,
    /// The one that fitted last.
    current: usize,
    /// The one to be replaced next.
    oldest: usize,
    savings: i32,
    /// Messages yet to be left to the full parser.
    resting: u32,
    next_rest: u32,
}

/// What came of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Outcome {
    /// Its values are in the slots.
    Read,
    /// The full parser must read it, and its layout should be learned.
    Learn,
    /// The full parser must read it.
    Parse,
}

impl Default for Layouts {
    fn default() -> Self {
        Layouts { known: Vec::new(), current: 0, oldest: 0, savings: SAVINGS, resting: 0, next_rest: PAUSE }
    }
}

impl Layouts {
    /// Reads a message with the layout it has, if that is known.
    #[inline]
    pub(super) fn read(&mut self, row: &[u8], record: usize, slots: &mut [Vec<Token>], mut escaped: impl FnMut(&mut Token)) -> Outcome {
        if self.resting > 0 {
            self.resting -= 1;
            return Outcome::Parse;
        }
        if let Some(layout) = self.known.get(self.current)
            && layout.read(row, record, slots, &mut escaped)
        {
            self.savings = (self.savings + 1).min(SAVINGS);
            return Outcome::Read;
        }
        self.others(row, record, slots, escaped)
    }

    fn others(&mut self, row: &[u8], record: usize, slots: &mut [Vec<Token>], mut escaped: impl FnMut(&mut Token)) -> Outcome {
        for (index, layout) in self.known.iter().enumerate() {
            if index != self.current && layout.read(row, record, slots, &mut escaped) {
                self.current = index;
                self.savings = (self.savings + 1).min(SAVINGS);
                // Something repeats, so the next pause need not be longer.
                self.next_rest = PAUSE;
                return Outcome::Read;
            }
        }
        self.savings -= PRICE;
        if self.savings < 0 {
            self.savings = SAVINGS / 2;
            self.resting = self.next_rest;
            self.next_rest = (self.next_rest * 2).min(LONGEST_PAUSE);
            return Outcome::Parse;
        }
        Outcome::Learn
    }

    /// Remembers the layout of a message that the full parser read.
    pub(super) fn learn(&mut self, row: &[u8], trace: &Trace) {
        let Some(layout) = Layout::of(row, trace) else { return };
        if self.known.len() < MOST_LAYOUTS {
            self.current = self.known.len();
            self.known.push(layout);
        } else {
            self.current = self.oldest;
            self.known[self.oldest] = layout;
            self.oldest = (self.oldest + 1) % MOST_LAYOUTS;
        }
    }
}

//! Masking one column.

use crate::config::Mode;
use foldhash::fast::FixedState;
use sha2::{Digest, Sha256};
use std::collections::HashMap;
use std::sync::Arc;
use tidegate_sdk::arrow::array::{Array, ArrayRef, GenericStringArray, OffsetSizeTrait, cast::AsArray};
use tidegate_sdk::arrow::buffer::{Buffer, OffsetBuffer};
use tidegate_sdk::arrow::schema::DataType;

/// How many hexadecimal digits of the SHA-256 remain: 128 bits, enough that two values never meet by chance.
pub(crate) const HASH_DIGITS: usize = 32;
/// What stands for every redacted value.
pub(crate) const REDACTED: &str = "[redacted]";
/// How many values' hashes are remembered. Names and numbers of people and machines repeat, and a look-up costs a tenth of a hash.
const REMEMBERED: usize = 16_384;

type Hash = [u8; HASH_DIGITS];

/// Masks the values of one column. What it remembers only saves work: it changes no result.
pub(crate) struct Masker {
    mode: Mode,
    salted: Sha256,
    /// Which of `hashes`. Fixed seeds: a transform has no randomness, and what an attacker can make slow is bounded by [`REMEMBERED`].
    remembered: HashMap<Box<str>, u32, FixedState>,
    hashes: Vec<Hash>,
}

impl Masker {
    pub(crate) fn new(mode: Mode, salt: Option<&str>) -> Self {
        let salted = salt.map_or_else(Sha256::new, Sha256::new_with_prefix);
        Masker { mode, salted, remembered: HashMap::default(), hashes: Vec::new() }
    }

    /// The masked column, of the same type, with the same nulls.
    pub(crate) fn mask(&mut self, column: &ArrayRef) -> ArrayRef {
        match column.data_type() {
            DataType::LargeUtf8 => Arc::new(self.mask_text(column.as_string::<i64>())),
            _ => Arc::new(self.mask_text(column.as_string::<i32>())),
        }
    }

    fn mask_text<O: OffsetSizeTrait>(&mut self, values: &GenericStringArray<O>) -> GenericStringArray<O> {
        let width = match self.mode {
            Mode::Hash => HASH_DIGITS,
            Mode::Redact => REDACTED.len(),
        };
        let mut bytes = Vec::with_capacity(width * (values.len() - values.null_count()));
        let mut lengths = Vec::with_capacity(values.len());
        for row in 0..values.len() {
            let before = bytes.len();
            if values.is_valid(row) {
                match self.mode {
                    Mode::Hash => bytes.extend_from_slice(&self.hash(values.value(row))),
                    Mode::Redact => bytes.extend_from_slice(REDACTED.as_bytes()),
                }
            }
            lengths.push(bytes.len() - before);
        }
        GenericStringArray::new(OffsetBuffer::from_lengths(lengths), Buffer::from_vec(bytes), values.nulls().cloned())
    }

    fn hash(&mut self, value: &str) -> Hash {
        if let Some(at) = self.remembered.get(value) {
            return self.hashes[*at as usize];
        }
        let mut digest = self.salted.clone();
        digest.update(value.as_bytes());
        let hash = digits(&digest.finalize());
        if self.hashes.len() == REMEMBERED {
            self.remembered.clear();
            self.hashes.clear();
        }
        self.remembered.insert(value.into(), self.hashes.len() as u32);
        self.hashes.push(hash);
        hash
    }
}

fn digits(digest: &[u8]) -> Hash {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let mut hash = [0; HASH_DIGITS];
    for (pair, byte) in hash.chunks_exact_mut(2).zip(digest) {
        pair[0] = DIGITS[usize::from(byte >> 4)];
        pair[1] = DIGITS[usize::from(byte & 15)];
    }
    hash
}

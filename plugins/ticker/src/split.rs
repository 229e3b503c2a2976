//! Splits and the place in them.

use crate::config::Config;
use crate::foreign;
use tidegate_sdk::{Error, Result, Split};

/// The splits of a fresh run. Their ids name the number of splits: positions do not fit another number.
pub(crate) fn all(splits: u64) -> Vec<Split> {
    (0..splits).map(|index| Split { id: format!("{index}-of-{splits}"), details: Vec::new(), position: None }).collect()
}

/// A split being read.
#[derive(Debug)]
pub(crate) struct Cursor {
    /// Its id.
    pub(crate) split: String,
    /// The number of its next tick.
    pub(crate) next: u64,
    /// The step from one of its ticks to the next.
    splits: u64,
    /// Whether the host was told that it is finished.
    pub(crate) told: bool,
}

impl Cursor {
    pub(crate) fn open(split: Split, config: &Config) -> Result<Self> {
        let (index, splits) = split
            .id
            .split_once("-of-")
            .and_then(|(index, splits)| Some((index.parse::<u64>().ok()?, splits.parse::<u64>().ok()?)))
            .ok_or_else(|| foreign("split", split.id.as_bytes()))?;
        if splits != config.splits || index >= splits {
            let wanted = config.splits;
            return Err(Error::config(format!(
                "the state has the split `{}`, and `splits` is {wanted}; set it back, or start over",
                split.id
            )));
        }
        let next = match &split.position {
            None => index,
            Some(position) => std::str::from_utf8(position)
                .ok()
                .and_then(|text| text.parse::<u64>().ok())
                .filter(|next| next % splits == index)
                .ok_or_else(|| foreign("position", position))?,
        };
        Ok(Cursor { split: split.id, next, splits, told: false })
    }

    /// Where to read next: the number of the next tick, in decimal digits.
    pub(crate) fn position(&self) -> Vec<u8> {
        self.next.to_string().into_bytes()
    }

    /// How many ticks it still has of `rows` in all.
    pub(crate) fn remaining(&self, rows: Option<u64>) -> u64 {
        match rows {
            None => u64::MAX,
            Some(rows) => rows.saturating_sub(self.next).div_ceil(self.splits),
        }
    }
}

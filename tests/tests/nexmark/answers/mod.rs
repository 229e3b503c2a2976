//! The oracle: every query again in plain Rust, from all events at once. Each function says what its query means exactly.

mod joins;
mod prices;
mod ranks;
mod single;
mod windows;

use crate::rows::Row;

pub(crate) use joins::{q3, q8, q20};
pub(crate) use prices::{q4, q6, q9};
pub(crate) use ranks::{is_of_bids, q18, q19};
pub(crate) use single::{q0, q1, q2, q10, q13, q14, q21, q22};
pub(crate) use windows::{q5, q7, q11, q12, q15, q16, q17, tumble};

/// What a query must answer.
pub(crate) struct Answer {
    /// The output's columns, in order.
    pub(crate) columns: &'static [&'static str],
    /// Of an upsert output, the columns that make a key.
    pub(crate) keys: Option<&'static [&'static str]>,
    /// The rows, in any order; of an upsert output, the table that its updates come to.
    pub(crate) rows: Vec<Row>,
}

impl Answer {
    pub(crate) fn append(columns: &'static [&'static str], rows: Vec<Row>) -> Answer {
        Answer { columns, keys: None, rows }
    }

    fn upsert(columns: &'static [&'static str], keys: &'static [&'static str], rows: Vec<Row>) -> Answer {
        Answer { columns, keys: Some(keys), rows }
    }
}

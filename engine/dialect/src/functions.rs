//! The functions: one line of [`FUNCTIONS`], one file, and the examples in it, which a test runs.

mod args;
mod kernels;

mod abs;
mod ceil;
mod coalesce;
mod concat;
mod contains;
mod date_trunc;
mod div;
mod ends_with;
mod epoch_to_iso;
mod field_of;
mod floor;
mod is_null;
mod length;
mod lower;
mod now;
mod regex_extract;
mod regex_match;
mod replace;
mod round;
mod split_part;
mod starts_with;
mod substring;
mod to_int;
mod to_number;
mod to_string;
mod trim;
mod upper;

use crate::Diagnostic;
use crate::node::Node;
pub(crate) use args::Args;
pub(crate) use concat::join;

/// A function of the dialect.
#[derive(Debug)]
#[non_exhaustive]
pub struct Function {
    /// Its name.
    pub name: &'static str,
    /// Arguments and result, such as `lower(text) -> string`.
    pub signature: &'static str,
    /// What it does, with its answer to awkward values.
    pub doc: &'static str,
    /// Expressions and their values, both as written in the dialect; `error` stands for a bad row.
    pub examples: &'static [(&'static str, &'static str)],
    /// The least and the most arguments.
    pub(crate) arity: (usize, usize),
    pub(crate) bind: fn(Args<'_>) -> Result<Node, Diagnostic>,
}

/// Every function, by name.
static FUNCTIONS: [Function; 35] = [
    abs::FUNCTION,
    ceil::FUNCTION,
    coalesce::FUNCTION,
    concat::FUNCTION,
    contains::FUNCTION,
    date_trunc::FUNCTION,
    field_of::DAY,
    field_of::DAY_OF_WEEK,
    field_of::DAY_OF_YEAR,
    div::FUNCTION,
    ends_with::FUNCTION,
    epoch_to_iso::FUNCTION,
    floor::FUNCTION,
    field_of::HOUR,
    is_null::NOT_NULL,
    is_null::FUNCTION,
    length::FUNCTION,
    lower::FUNCTION,
    field_of::MINUTE,
    field_of::MONTH,
    now::FUNCTION,
    regex_extract::FUNCTION,
    regex_match::FUNCTION,
    replace::FUNCTION,
    round::FUNCTION,
    field_of::SECOND,
    split_part::FUNCTION,
    starts_with::FUNCTION,
    substring::FUNCTION,
    to_int::FUNCTION,
    to_number::FUNCTION,
    to_string::FUNCTION,
    trim::FUNCTION,
    upper::FUNCTION,
    field_of::YEAR,
];

/// Every function of the dialect.
pub fn functions() -> &'static [Function] {
    &FUNCTIONS
}

pub(crate) fn find(name: &str) -> Option<&'static Function> {
    FUNCTIONS.iter().find(|function| function.name == name)
}

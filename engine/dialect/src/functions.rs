//! The functions: a line of [`GROUPS`], a file for one or for a few of a kind, and the examples in it, which a test runs.

mod answers;
mod args;
mod kernels;
mod rows;

mod abs;
mod array;
mod bits;
mod calendar;
mod cast;
mod ceil;
mod choice;
mod coalesce;
mod concat;
mod contains;
mod date_trunc;
mod div;
mod ellipsoid;
mod encoding;
mod ends_with;
mod epoch_to_iso;
mod epochs;
mod field_of;
mod floor;
mod geo;
mod geo_relations;
mod hash;
mod is_null;
mod json;
mod json_read;
mod json_scan;
mod json_write;
mod kinds;
mod length;
pub(crate) mod list_kernels;
mod list_lambda;
mod list_make;
pub(crate) mod list_order;
mod list_parts;
pub(crate) mod list_search;
mod list_sum;
mod lower;
mod math;
mod now;
mod object_members;
mod pattern;
mod places;
mod regex_extract;
mod regex_match;
mod replace;
mod round;
mod shapes;
mod split_part;
mod starts_with;
mod substring;
mod text;
mod text_make;
mod time_pattern;
mod time_text;
mod to_int;
mod to_number;
mod to_string;
mod trim;
mod upper;
mod web;
mod whole;

use crate::Diagnostic;
use crate::node::Node;
pub(crate) use args::Args;
pub(crate) use concat::join;
use std::sync::LazyLock;

/// A function of the dialect.
#[derive(Debug, Clone, Copy)]
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

/// Every group of functions; a file that holds several functions has a group of its own.
static GROUPS: &[&[Function]] = &[
    &[abs::FUNCTION, ceil::FUNCTION, coalesce::FUNCTION, concat::FUNCTION, contains::FUNCTION, date_trunc::FUNCTION, div::FUNCTION],
    &[ends_with::FUNCTION, epoch_to_iso::FUNCTION, floor::FUNCTION, is_null::FUNCTION, is_null::NOT_NULL, length::FUNCTION],
    &[lower::FUNCTION, now::FUNCTION, regex_extract::FUNCTION, regex_match::FUNCTION, replace::FUNCTION, round::FUNCTION],
    &[split_part::FUNCTION, starts_with::FUNCTION, substring::FUNCTION, to_int::FUNCTION, to_number::FUNCTION, to_string::FUNCTION],
    &[trim::FUNCTION, upper::FUNCTION],
    field_of::FUNCTIONS,
    geo::FUNCTIONS,
    geo_relations::FUNCTIONS,
    ellipsoid::FUNCTIONS,
    kinds::FUNCTIONS,
    array::FUNCTIONS,
    web::FUNCTIONS,
    encoding::FUNCTIONS,
    hash::FUNCTIONS,
    cast::FUNCTIONS,
    json::FUNCTIONS,
    time_text::FUNCTIONS,
    calendar::FUNCTIONS,
    epochs::FUNCTIONS,
    list_lambda::FUNCTIONS,
    list_make::FUNCTIONS,
    list_order::FUNCTIONS,
    list_parts::FUNCTIONS,
    list_search::FUNCTIONS,
    list_sum::FUNCTIONS,
    object_members::FUNCTIONS,
    text_make::FUNCTIONS,
    pattern::FUNCTIONS,
    whole::FUNCTIONS,
    text::FUNCTIONS,
    math::FUNCTIONS,
    choice::FUNCTIONS,
    bits::FUNCTIONS,
];

/// Every function, by name.
static FUNCTIONS: LazyLock<Vec<Function>> = LazyLock::new(|| {
    let mut all: Vec<Function> = GROUPS.iter().flat_map(|group| group.iter().copied()).collect();
    all.sort_by_key(|function| function.name.to_lowercase());
    all
});

/// Every function of the dialect, by name.
pub fn functions() -> &'static [Function] {
    &FUNCTIONS
}

pub(crate) fn find(name: &str) -> Option<&'static Function> {
    FUNCTIONS.iter().find(|function| function.name == name)
}

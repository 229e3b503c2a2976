//! Bit operations on int64, in two's complement

use super::Function;
use super::args::Shape;
use super::rows::In;

macro_rules! bits {
    ($name:literal, $arguments:literal, $count:literal, $map:expr, $doc:literal, $examples:expr) => {
        Function {
            name: $name,
            signature: concat!($name, $arguments, " -> int64"),
            doc: $doc,
            examples: &$examples,
            arity: ($count, $count),
            bind: |mut args| {
                args.take(&[Shape::Integer])?;
                Ok(args.into_int($map))
            },
        }
    };
}

pub(super) const FUNCTIONS: &[Function] = &[
    bits!(
        "bitAnd",
        "(a, b)",
        2,
        |row: In<'_>| row.int(0) & row.int(1),
        "The bits that both int64 have.",
        [("bitAnd(12, 10)", "8"), ("bitAnd(-1, 7)", "7")]
    ),
    bits!("bitOr", "(a, b)", 2, |row: In<'_>| row.int(0) | row.int(1), "The bits that one of two int64 has.", [("bitOr(12, 10)", "14")]),
    bits!(
        "bitXor",
        "(a, b)",
        2,
        |row: In<'_>| row.int(0) ^ row.int(1),
        "The bits that just one of two int64 has.",
        [("bitXor(12, 10)", "6")]
    ),
    bits!(
        "bitNot",
        "(integer)",
        1,
        |row: In<'_>| !row.int(0),
        "Every bit of an int64 turned over, which is `-a - 1`.",
        [("bitNot(0)", "-1"), ("bitNot(-1)", "0")]
    ),
    bits!(
        "bitCount",
        "(integer)",
        1,
        |row: In<'_>| i64::from(row.int(0).count_ones()),
        "How many of the 64 bits are one.",
        [("bitCount(7)", "3"), ("bitCount(-1)", "64")]
    ),
    bits!(
        "shiftLeft",
        "(integer, by)",
        2,
        |row: In<'_>| Ok::<i64, String>(row.int(0) << by(row.int(1))?),
        "The bits moved `by` places (0 to 63, else a bad row) to the left; those that leave the 64 are lost.",
        [("shiftLeft(1, 4)", "16"), ("shiftLeft(-1, 63)", "-9223372036854775808"), ("shiftLeft(1, 64)", "error")]
    ),
    bits!(
        "shiftRight",
        "(integer, by)",
        2,
        |row: In<'_>| Ok::<i64, String>(row.int(0) >> by(row.int(1))?),
        "The bits moved `by` places (0 to 63, else a bad row) to the right, keeping the sign.",
        [("shiftRight(16, 4)", "1"), ("shiftRight(-16, 2)", "-4"), ("shiftRight(1, -1)", "error")]
    ),
    bits!(
        "shiftRightUnsigned",
        "(integer, by)",
        2,
        |row: In<'_>| Ok::<i64, String>(((row.int(0) as u64) >> by(row.int(1))?) as i64),
        "The bits moved `by` places (0 to 63, else a bad row) to the right, zeros moving in from the left.",
        [("shiftRightUnsigned(-1, 60)", "15")]
    ),
];

fn by(places: i64) -> Result<u32, String> {
    match u32::try_from(places) {
        Ok(places) if places < 64 => Ok(places),
        _ => Err(format!("`{places}` is not a number of places from 0 to 63")),
    }
}

//! Bytes and numbers in digits and letters: hexadecimal, base64, other bases

use super::Function;
use super::args::Shape;
use super::rows::In;
use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};

/// Both read what has its padding and what has not.
const LENIENT: GeneralPurposeConfig = GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent);
const READ_STANDARD: GeneralPurpose = GeneralPurpose::new(&base64::alphabet::STANDARD, LENIENT);
const READ_URL: GeneralPurpose = GeneralPurpose::new(&base64::alphabet::URL_SAFE, LENIENT);

macro_rules! base64 {
    (encode $name:literal, $engine:expr, $doc:literal, $examples:expr) => {
        Function {
            name: $name,
            signature: concat!($name, "(value) -> string"),
            doc: $doc,
            examples: &$examples,
            arity: (1, 1),
            bind: |mut args| {
                args.take(&[Shape::Bytes])?;
                Ok(args.into_text(|row: In<'_>, out: &mut String| $engine.encode_string(row.bytes(0), out)))
            },
        }
    };
    (decode $name:literal, $engine:expr, $doc:literal, $examples:expr) => {
        Function {
            name: $name,
            signature: concat!($name, "(text) -> binary"),
            doc: $doc,
            examples: &$examples,
            arity: (1, 1),
            bind: |mut args| {
                args.take(&[Shape::Text])?;
                Ok(args.into_bytes(|row: In<'_>, out: &mut Vec<u8>| {
                    $engine.decode_vec(row.text(0), out).map_err(|error| format!("not base64: {error}"))
                }))
            },
        }
    };
}

pub(super) const FUNCTIONS: &[Function] = &[
    base64!(encode "base64Encode", STANDARD, "The bytes of a text (in UTF-8) or of binary in base64, with padding.", [("base64Encode('Größe')", "'R3LDtsOfZQ=='"), ("base64Encode('')", "''")]),
    base64!(decode "base64Decode", READ_STANDARD, "The bytes that base64 text stands for, with padding or without; `fromUtf8` makes text of them. Anything else makes a bad row.", [
        ("fromUtf8(base64Decode('R3LDtsOfZQ=='))", "'Größe'"),
        ("byteLength(base64Decode('_'))", "error"),
    ]),
    base64!(encode "base64UrlEncode", URL_SAFE_NO_PAD, "The bytes of a text (in UTF-8) or of binary in the base64 of URLs, with `-` and `_` and without padding.", [("base64UrlEncode('a?>')", "'YT8-'")]),
    base64!(decode "base64UrlDecode", READ_URL, "The bytes that base64 of URLs stands for, with padding or without. Anything else makes a bad row.", [("fromUtf8(base64UrlDecode('YT8-'))", "'a?>'")]),
    Function {
        name: "hexEncode",
        signature: "hexEncode(value) -> string",
        doc: "The bytes of a text (in UTF-8) or of binary in hexadecimal digits, two for each.",
        examples: &[("hexEncode('Az')", "'417a'"), ("hexEncode('')", "''")],
        arity: (1, 1),
        bind: |mut args| {
            args.take(&[Shape::Bytes])?;
            Ok(args.into_text(|row, out: &mut String| hex(row.bytes(0), out)))
        },
    },
    Function {
        name: "hexDecode",
        signature: "hexDecode(text) -> binary",
        doc: "The bytes that hexadecimal digits, in any case, stand for; `fromUtf8` makes text of them. An odd number of digits and anything else make a bad row.",
        examples: &[("fromUtf8(hexDecode('417A'))", "'Az'"), ("hexDecode('4') == null", "error")],
        arity: (1, 1),
        bind: |mut args| {
            args.take(&[Shape::Text])?;
            Ok(args
                .into_bytes(|row, out: &mut Vec<u8>| unhex(row.text(0), out).ok_or_else(|| "not pairs of hexadecimal digits".to_string())))
        },
    },
    Function {
        name: "toHex",
        signature: "toHex(integer) -> string",
        doc: "An int64 in hexadecimal digits, a negative one by its 64 bits in two's complement.",
        examples: &[("toHex(255)", "'ff'"), ("toHex(-1)", "'ffffffffffffffff'")],
        arity: (1, 1),
        bind: |mut args| {
            args.take(&[Shape::Integer])?;
            Ok(args.into_text(|row, out: &mut String| {
                use std::fmt::Write;
                let _ = write!(out, "{:x}", row.int(0));
            }))
        },
    },
    Function {
        name: "fromHex",
        signature: "fromHex(text) -> int64",
        doc: "The int64 of up to 16 hexadecimal digits, with `0x` before them or without, as `toHex` writes it. Anything else makes a bad row.",
        examples: &[("fromHex('ff')", "255"), ("fromHex('0xFFFFFFFFFFFFFFFF')", "-1"), ("fromHex('g')", "error")],
        arity: (1, 1),
        bind: |mut args| {
            args.take(&[Shape::Text])?;
            Ok(args.into_int(|row| {
                let digits = row.text(0).strip_prefix("0x").unwrap_or(row.text(0));
                let found = u64::from_str_radix(digits, 16).ok().filter(|_| !digits.starts_with('+'));
                found.map(|bits| bits as i64).ok_or_else(|| format!("`{}` is not a hexadecimal number of 64 bits", row.text(0)))
            }))
        },
    },
    Function {
        name: "toBase",
        signature: "toBase(integer, base) -> string",
        doc: "An int64 in the digits 0 to 9 and a to z of a base from 2 to 36, with a minus sign if it is negative. Another base makes a bad row.",
        examples: &[("toBase(10, 2)", "'1010'"), ("toBase(-35, 36)", "'-z'"), ("toBase(1, 1)", "error")],
        arity: (2, 2),
        bind: |mut args| {
            args.take(&[Shape::Integer])?;
            Ok(args.into_text(|row, out: &mut String| {
                let base = base(row.int(1))?;
                let mut digits = [0_u8; 64];
                let (mut rest, mut at) = (row.int(0).unsigned_abs(), digits.len());
                loop {
                    at -= 1;
                    digits[at] = (rest % u64::from(base)) as u8;
                    rest /= u64::from(base);
                    if rest == 0 {
                        break;
                    }
                }
                if row.int(0) < 0 {
                    out.push('-');
                }
                out.extend(digits[at..].iter().filter_map(|digit| char::from_digit((*digit).into(), base)));
                Ok::<(), String>(())
            }))
        },
    },
    Function {
        name: "fromBase",
        signature: "fromBase(text, base) -> int64",
        doc: "The int64 that digits of a base from 2 to 36, with a sign or without, stand for. Anything else, another base, and what int64 does not hold make a bad row.",
        examples: &[("fromBase('1010', 2)", "10"), ("fromBase('-Z', 36)", "-35"), ("fromBase('12', 2)", "error")],
        arity: (2, 2),
        bind: |mut args| {
            args.take(&[Shape::Text, Shape::Integer])?;
            Ok(args.into_int(|row| {
                let base = base(row.int(1))?;
                i64::from_str_radix(row.text(0), base).map_err(|_| format!("`{}` is not an int64 in base {base}", row.text(0)))
            }))
        },
    },
];

const DIGITS: &[u8; 16] = b"0123456789abcdef";

/// Appends bytes in hexadecimal digits.
pub(super) fn hex(bytes: &[u8], out: &mut String) {
    for byte in bytes {
        out.push(char::from(DIGITS[usize::from(byte >> 4)]));
        out.push(char::from(DIGITS[usize::from(byte & 15)]));
    }
}

fn unhex(text: &str, out: &mut Vec<u8>) -> Option<()> {
    let digit = |byte: u8| char::from(byte).to_digit(16).map(|digit| digit as u8);
    if !text.len().is_multiple_of(2) {
        return None;
    }
    for pair in text.as_bytes().chunks_exact(2) {
        out.push(digit(pair[0])? << 4 | digit(pair[1])?);
    }
    Some(())
}

fn base(base: i64) -> Result<u32, String> {
    u32::try_from(base).ok().filter(|base| (2..=36).contains(base)).ok_or_else(|| format!("`{base}` is not a base from 2 to 36"))
}

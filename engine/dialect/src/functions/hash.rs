//! Hashes of a text's UTF-8, or of binary

use super::Function;
use super::args::Shape;
use super::encoding::hex;
use super::rows::In;
use md5::{Digest, Md5};
use sha2::{Sha224, Sha256, Sha384, Sha512};
use xxhash_rust::xxh3::xxh3_64;
use xxhash_rust::xxh64::xxh64;

macro_rules! digest {
    ($name:literal, $algorithm:ty, $bits:literal, $examples:expr) => {
        Function {
            name: $name,
            signature: concat!($name, "(value) -> string"),
            doc: concat!("The ", $bits, " bits of that hash of a text (in UTF-8) or of binary, in hexadecimal digits."),
            examples: &$examples,
            arity: (1, 1),
            bind: |mut args| {
                args.take(&[Shape::Bytes])?;
                Ok(args.into_text(|row: In<'_>, out: &mut String| hex(&<$algorithm>::digest(row.bytes(0)), out)))
            },
        }
    };
}

pub(super) const FUNCTIONS: &[Function] = &[
    digest!("md5", Md5, "128", [("md5('abc')", "'900150983cd24fb0d6963f7d28e17f72'"), ("md5('')", "'d41d8cd98f00b204e9800998ecf8427e'")]),
    digest!("sha224", Sha224, "224", [("sha224('abc')", "'23097d223405d8228642a477bda255b32aadbce4bda0b3f7e36c9da7'")]),
    digest!(
        "sha256",
        Sha256,
        "256",
        [("sha256('abc')", "'ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad'"), ("sha256(null)", "null")]
    ),
    digest!("sha384", Sha384, "384", [("left(sha384('abc'), 16)", "'cb00753f45a35e8b'")]),
    digest!("sha512", Sha512, "512", [("left(sha512('abc'), 16)", "'ddaf35a193617aba'")]),
    Function {
        name: "xxhash64",
        signature: "xxhash64(value, seed?) -> int64",
        doc: "The 64 bits of xxHash (XXH64) of a text (in UTF-8) or of binary, as an int64 in two's complement; `seed` is 0 by default. Fast, and not for secrets.",
        examples: &[
            ("xxhash64('')", "-1205034819632174695"),
            ("xxhash64('abc')", "4952883123889572249"),
            ("xxhash64('', 1) == xxhash64('')", "false"),
        ],
        arity: (1, 2),
        bind: |mut args| {
            args.take(&[Shape::Bytes, Shape::Integer])?;
            Ok(args.into_int(|row| xxh64(row.bytes(0), row.int_or(1, 0) as u64) as i64))
        },
    },
    Function {
        name: "xxhash3",
        signature: "xxhash3(value) -> int64",
        doc: "The 64 bits of XXH3 of a text (in UTF-8) or of binary, as an int64 in two's complement. Faster still, and not for secrets.",
        examples: &[("xxhash3('')", "3244421341483603138")],
        arity: (1, 1),
        bind: |mut args| {
            args.take(&[Shape::Bytes])?;
            Ok(args.into_int(|row| xxh3_64(row.bytes(0)) as i64))
        },
    },
    Function {
        name: "crc32",
        signature: "crc32(value) -> int64",
        doc: "The CRC-32 (as of zip and Ethernet) of a text (in UTF-8) or of binary.",
        examples: &[("crc32('123456789')", "3421780262"), ("crc32('')", "0")],
        arity: (1, 1),
        bind: |mut args| {
            args.take(&[Shape::Bytes])?;
            Ok(args.into_int(|row| i64::from(crc32fast::hash(row.bytes(0)))))
        },
    },
    Function {
        name: "uuidOf",
        signature: "uuidOf(namespace, name) -> string",
        doc: "The UUID of version 3 (by MD5) of a name within a namespace: 'dns', 'url', 'oid', 'x500', or a UUID of one's own. The same name always gives the same UUID. A namespace that is none makes a bad row.",
        examples: &[("uuidOf('dns', 'www.example.com')", "'5df41881-3aed-3515-88a7-2f4a814cf09e'"), ("uuidOf('x', 'a')", "error")],
        arity: (2, 2),
        bind: |mut args| {
            args.take(&[Shape::Text])?;
            Ok(args.into_text(|row, out: &mut String| {
                let namespace = namespace(row.text(0)).ok_or_else(|| format!("`{}` is not a namespace of UUIDs", row.text(0)))?;
                let digest = Md5::new().chain_update(namespace).chain_update(row.text(1)).finalize();
                let mut bytes: [u8; 16] = digest.into();
                bytes[6] = bytes[6] & 0x0F | 0x30;
                bytes[8] = bytes[8] & 0x3F | 0x80;
                for (at, part) in [&bytes[..4], &bytes[4..6], &bytes[6..8], &bytes[8..10], &bytes[10..]].into_iter().enumerate() {
                    if at > 0 {
                        out.push('-');
                    }
                    hex(part, out);
                }
                Ok::<(), String>(())
            }))
        },
    },
    Function {
        name: "isUuid",
        signature: "isUuid(text) -> bool",
        doc: "Whether the text is a UUID: 32 hexadecimal digits, with hyphens behind the 8th, 12th, 16th and 20th.",
        examples: &[("isUuid('5df41881-3aed-3515-88a7-2f4a814cf09e')", "true"), ("isUuid('5df41881')", "false")],
        arity: (1, 1),
        bind: |mut args| {
            args.take(&[Shape::Text])?;
            Ok(args.into_bool(|row| uuid(row.text(0)).is_some()))
        },
    },
];

fn namespace(text: &str) -> Option<[u8; 16]> {
    // Those of RFC 9562 differ in one byte.
    let well_known = |byte| [0x6b, 0xa7, 0xb8, byte, 0x9d, 0xad, 0x11, 0xd1, 0x80, 0xb4, 0x00, 0xc0, 0x4f, 0xd4, 0x30, 0xc8];
    match text {
        "dns" => Some(well_known(0x10)),
        "url" => Some(well_known(0x11)),
        "oid" => Some(well_known(0x12)),
        "x500" => Some(well_known(0x14)),
        _ => uuid(text),
    }
}

fn uuid(text: &str) -> Option<[u8; 16]> {
    let bytes = text.as_bytes();
    if bytes.len() != 36 {
        return None;
    }
    let mut uuid = [0; 16];
    let mut digits = 0;
    for (at, byte) in bytes.iter().enumerate() {
        if matches!(at, 8 | 13 | 18 | 23) {
            if *byte != b'-' {
                return None;
            }
            continue;
        }
        uuid[digits / 2] = uuid[digits / 2] << 4 | char::from(*byte).to_digit(16)? as u8;
        digits += 1;
    }
    Some(uuid)
}

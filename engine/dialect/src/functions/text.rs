//! Parts of texts, search in them, and their measures. Positions and lengths count characters (code points), the first is 1.

use super::args::Shape;
use super::rows::In;
use super::{Function, substring};

macro_rules! text {
    ($name:literal, $arguments:literal -> $result:literal, $arity:expr, $shapes:expr, $make:ident, $map:expr, $doc:literal, $examples:expr) => {
        Function {
            name: $name,
            signature: concat!($name, $arguments, " -> ", $result),
            doc: $doc,
            examples: &$examples,
            arity: $arity,
            bind: |mut args| {
                args.take($shapes)?;
                Ok(args.$make($map))
            },
        }
    };
}
pub(super) use text;

use Shape::{Bytes, Integer, Text};

pub(super) const FUNCTIONS: &[Function] = &[
    text!("left", "(text, n)" -> "string", (2, 2), &[Text, Integer], into_part,
        |row: In<'_>| Some(&row.text(0)[..place(row.text(0), count(row.int(1)))]),
        "The first `n` characters; all of them if there are fewer, none for a negative `n`.",
        [("left('Größe', 3)", "'Grö'"), ("left('ab', 5)", "'ab'"), ("left('ab', -1)", "''")]),
    text!("right", "(text, n)" -> "string", (2, 2), &[Text, Integer], into_part,
        |row: In<'_>| Some(&row.text(0)[place_from_end(row.text(0), count(row.int(1)))..]),
        "The last `n` characters; all of them if there are fewer, none for a negative `n`.",
        [("right('Größe', 2)", "'ße'"), ("right('ab', 5)", "'ab'")]),
    text!("charAt", "(text, position)" -> "string", (2, 2), &[Text, Integer], into_part,
        |row: In<'_>| char_at(row.text(0), row.int(1)),
        "The character at a position, from the end for a negative one; null outside the text.",
        [("charAt('Größe', 3)", "'ö'"), ("charAt('abc', -1)", "'c'"), ("charAt('abc', 4)", "null")]),
    Function {
        name: "substr",
        signature: "substr(text, start, length?) -> string",
        doc: "The same as `substring`: the first position is 1.",
        examples: &[("substr('stream', 2, 3)", "'tre'"), ("substr('Größe', 3)", "'öße'"), ("substr('abc', 2, null)", "null")],
        arity: (2, 3),
        bind: substring::FUNCTION.bind,
    },
    text!("substringBefore", "(text, part)" -> "string", (2, 2), &[Text], into_part,
        |row: In<'_>| Some(row.text(0).split_once(row.text(1)).map_or(row.text(0), |(before, _)| before)),
        "What stands before the first `part`; the whole text without one.",
        [("substringBefore('user@host', '@')", "'user'"), ("substringBefore('user', '@')", "'user'")]),
    text!("substringAfter", "(text, part)" -> "string", (2, 2), &[Text], into_part,
        |row: In<'_>| Some(row.text(0).split_once(row.text(1)).map_or("", |(_, after)| after)),
        "What stands behind the first `part`; the empty text without one.",
        [("substringAfter('user@host', '@')", "'host'"), ("substringAfter('user', '@')", "''")]),
    text!("removePrefix", "(text, part)" -> "string", (2, 2), &[Text], into_part,
        |row: In<'_>| Some(row.text(0).strip_prefix(row.text(1)).unwrap_or(row.text(0))),
        "The text without `part` at its start, once.",
        [("removePrefix('v1.2', 'v')", "'1.2'"), ("removePrefix('1.2', 'v')", "'1.2'")]),
    text!("removeSuffix", "(text, part)" -> "string", (2, 2), &[Text], into_part,
        |row: In<'_>| Some(row.text(0).strip_suffix(row.text(1)).unwrap_or(row.text(0))),
        "The text without `part` at its end, once.",
        [("removeSuffix('a.json', '.json')", "'a'"), ("removeSuffix('a', '.json')", "'a'")]),
    text!("trimStart", "(text, characters?)" -> "string", (1, 2), &[Text], into_part,
        |row: In<'_>| Some(trim_start(row)),
        "The text without white space, or without any of the `characters`, at its start.",
        [("trimStart('  a ')", "'a '"), ("trimStart('007', '0')", "'7'")]),
    text!("trimEnd", "(text, characters?)" -> "string", (1, 2), &[Text], into_part,
        |row: In<'_>| Some(trim_end(row)),
        "The text without white space, or without any of the `characters`, at its end.",
        [("trimEnd(' a  ')", "' a'"), ("trimEnd('a,;', ';,')", "'a'")]),
    text!("nullIfEmpty", "(text)" -> "string", (1, 1), &[Text], into_part,
        |row: In<'_>| Some(row.text(0)).filter(|text| !text.is_empty()),
        "The text, or null for the empty one.",
        [("nullIfEmpty('')", "null"), ("nullIfEmpty(' ')", "' '")]),
    text!("position", "(text, part)" -> "int64", (2, 2), &[Text], into_int,
        |row: In<'_>| row.text(0).find(row.text(1)).map_or(0, |at| position(row.text(0), at)),
        "The position of the first `part`; 0 without one.",
        [("position('Größe', 'ß')", "4"), ("position('abc', 'x')", "0"), ("position('abc', '')", "1")]),
    text!("indexOf", "(text, part)" -> "int64", (2, 2), &[Text], into_int,
        |row: In<'_>| row.text(0).find(row.text(1)).map_or(-1, |at| position(row.text(0), at) - 1),
        "How many characters stand before the first `part`; -1 without one. `position` counts from 1.",
        [("indexOf('Größe', 'ß')", "3"), ("indexOf('abc', 'x')", "-1"), ("indexOf('abc', '')", "0"), ("indexOf(null, 'a')", "null")]),
    text!("lastPosition", "(text, part)" -> "int64", (2, 2), &[Text], into_int,
        |row: In<'_>| row.text(0).rfind(row.text(1)).map_or(0, |at| position(row.text(0), at)),
        "The position of the last `part`; 0 without one.",
        [("lastPosition('a/b/c', '/')", "4"), ("lastPosition('abc', 'x')", "0")]),
    text!("countOf", "(text, part)" -> "int64", (2, 2), &[Text], into_int,
        |row: In<'_>| if row.text(1).is_empty() { 0 } else { memchr::memmem::find_iter(row.text(0).as_bytes(), row.text(1)).count() as i64 },
        "How often `part` stands in the text, counted without overlap; never for an empty part.",
        [("countOf('banana', 'an')", "2"), ("countOf('aaa', 'aa')", "1"), ("countOf('abc', '')", "0")]),
    text!("byteLength", "(text)" -> "int64", (1, 1), &[Bytes], into_int,
        |row: In<'_>| row.bytes(0).len() as i64,
        "The number of bytes of a binary, or of a text in UTF-8.",
        [("byteLength('Größe')", "7"), ("byteLength(toBinary('ab'))", "2")]),
    text!("codePoint", "(text)" -> "int64", (1, 1), &[Text], into_int,
        |row: In<'_>| row.text(0).chars().next().map(|c| i64::from(u32::from(c))),
        "The code point of the first character; null of the empty text.",
        [("codePoint('A')", "65"), ("codePoint('€')", "8364"), ("codePoint('')", "null")]),
    text!("ascii", "(text)" -> "int64", (1, 1), &[Text], into_int,
        |row: In<'_>| row.text(0).chars().next().map(|c| i64::from(u32::from(c))),
        "The same as `codePoint`.",
        [("ascii('a')", "97")]),
    text!("levenshtein", "(a, b)" -> "int64", (2, 2), &[Text], into_int,
        |row: In<'_>| levenshtein(row.text(0), row.text(1)),
        "The least number of characters to insert, delete or replace that makes one text of the other. Texts whose lengths multiply to more than 4,000,000 make a bad row.",
        [("levenshtein('kitten', 'sitting')", "3"), ("levenshtein('', 'abc')", "3")]),
    text!("hammingDistance", "(a, b)" -> "int64", (2, 2), &[Text], into_int,
        |row: In<'_>| hamming(row.text(0), row.text(1)),
        "At how many positions two texts of one length differ; texts of different lengths make a bad row.",
        [("hammingDistance('10111', '10010')", "2"), ("hammingDistance('a', 'ab')", "error")]),
    text!("isEmpty", "(text)" -> "bool", (1, 1), &[Text], into_bool, |row: In<'_>| row.text(0).is_empty(),
        "Whether the text has no character.",
        [("isEmpty('')", "true"), ("isEmpty(' ')", "false"), ("isEmpty(null)", "null")]),
    text!("isBlank", "(text)" -> "bool", (1, 1), &[Text], into_bool, |row: In<'_>| row.text(0).chars().all(char::is_whitespace),
        "Whether the text has nothing but white space, or nothing at all.",
        [("isBlank('  ')", "true"), ("isBlank('')", "true"), ("isBlank(' a')", "false")]),
    text!("isAlpha", "(text)" -> "bool", (1, 1), &[Text], into_bool, |row: In<'_>| all(row.text(0), char::is_alphabetic),
        "Whether the text has characters and all are letters, by Unicode.",
        [("isAlpha('Größe')", "true"), ("isAlpha('a1')", "false"), ("isAlpha('')", "false")]),
    text!("isDigits", "(text)" -> "bool", (1, 1), &[Text], into_bool, |row: In<'_>| all(row.text(0), |c| c.is_ascii_digit()),
        "Whether the text has characters and all are digits from 0 to 9.",
        [("isDigits('0123')", "true"), ("isDigits('-1')", "false"), ("isDigits('')", "false")]),
    text!("isAlphanumeric", "(text)" -> "bool", (1, 1), &[Text], into_bool, |row: In<'_>| all(row.text(0), char::is_alphanumeric),
        "Whether the text has characters and all are letters or digits, by Unicode.",
        [("isAlphanumeric('ä1')", "true"), ("isAlphanumeric('a-1')", "false")]),
    text!("containsAny", "(text, part, ...)" -> "bool", (2, 64), &[Text], into_bool,
        |row: In<'_>| (1..row.len()).any(|at| row.text(0).contains(row.text(at))),
        "Whether the text holds one of the parts.",
        [("containsAny('stream', 'x', 'rea')", "true"), ("containsAny('stream', 'x', 'y')", "false")]),
    text!("containsAll", "(text, part, ...)" -> "bool", (2, 64), &[Text], into_bool,
        |row: In<'_>| (1..row.len()).all(|at| row.text(0).contains(row.text(at))),
        "Whether the text holds every one of the parts.",
        [("containsAll('stream', 'st', 'am')", "true"), ("containsAll('stream', 'st', 'x')", "false")]),
    text!("equalsIgnoreCase", "(a, b)" -> "bool", (2, 2), &[Text], into_bool,
        |row: In<'_>| folded(row.text(0)).eq(folded(row.text(1))),
        "Whether two texts are the same in lower case, character by character by Unicode's rules.",
        [("equalsIgnoreCase('Größe', 'GRÖßE')", "true"), ("equalsIgnoreCase('a', 'b')", "false")]),
    text!("like", "(text, pattern)" -> "bool", (2, 2), &[Text], into_bool,
        |row: In<'_>| like(row.text(0), row.text(1)),
        "Whether the whole text has the form of the pattern, in which `%` stands for any characters, `_` for one, and `\\` takes the next character as it is.",
        [("like('order-17', 'order-%')", "true"), ("like('abc', 'a_')", "false"), ("like('100%', r'100\\%')", "true"), ("like('', '%')", "true")]),
];

/// An argument that counts characters; fewer than none are none.
fn count(n: i64) -> usize {
    usize::try_from(n).unwrap_or(0)
}

/// Where the character with this index begins, or the end of the text.
pub(super) fn place(text: &str, index: usize) -> usize {
    match text.is_ascii() {
        true => index.min(text.len()),
        false => text.char_indices().nth(index).map_or(text.len(), |(at, _)| at),
    }
}

/// Where the last `n` characters begin.
fn place_from_end(text: &str, n: usize) -> usize {
    match n.checked_sub(1) {
        None => text.len(),
        Some(_) if text.is_ascii() => text.len() - n.min(text.len()),
        Some(index) => text.char_indices().nth_back(index).map_or(0, |(at, _)| at),
    }
}

fn char_at(text: &str, position: i64) -> Option<&str> {
    let index = usize::try_from(position.unsigned_abs()).ok()?.checked_sub(1)?;
    let (at, found) = if position > 0 { text.char_indices().nth(index)? } else { text.char_indices().nth_back(index)? };
    Some(&text[at..at + found.len_utf8()])
}

/// The position of the character that begins at a byte.
fn position(text: &str, at: usize) -> i64 {
    text[..at].chars().count() as i64 + 1
}

fn trim_start(row: In<'_>) -> &str {
    match row.len() {
        1 => row.text(0).trim_start(),
        _ => row.text(0).trim_start_matches(|c| row.text(1).contains(c)),
    }
}

fn trim_end(row: In<'_>) -> &str {
    match row.len() {
        1 => row.text(0).trim_end(),
        _ => row.text(0).trim_end_matches(|c| row.text(1).contains(c)),
    }
}

fn all(text: &str, test: impl Fn(char) -> bool) -> bool {
    !text.is_empty() && text.chars().all(test)
}

fn folded(text: &str) -> impl Iterator<Item = char> {
    text.chars().flat_map(char::to_lowercase)
}

fn levenshtein(a: &str, b: &str) -> Result<i64, String> {
    let size = |text: &str| text.chars().count();
    if size(a).saturating_mul(size(b)) > 4_000_000 {
        return Err("the texts are too long for `levenshtein`".to_string());
    }
    let mut costs: Vec<usize> = (0..=size(b)).collect();
    for (i, from) in a.chars().enumerate() {
        let mut diagonal = i;
        costs[0] = i + 1;
        for (j, to) in b.chars().enumerate() {
            let replaced = diagonal + usize::from(from != to);
            diagonal = costs[j + 1];
            costs[j + 1] = replaced.min(costs[j] + 1).min(diagonal + 1);
        }
    }
    Ok(costs[size(b)] as i64)
}

fn hamming(a: &str, b: &str) -> Result<i64, String> {
    if a.chars().count() != b.chars().count() {
        return Err("the texts differ in length".to_string());
    }
    Ok(a.chars().zip(b.chars()).filter(|(a, b)| a != b).count() as i64)
}

/// Wildcards by trying again from the last `%`: no worse than the product of the two lengths, and linear for one `%`.
fn like(text: &str, pattern: &str) -> bool {
    let (mut text, mut pattern) = (text.chars(), pattern.chars());
    let mut retry: Option<(std::str::Chars<'_>, std::str::Chars<'_>)> = None;
    loop {
        let mut ahead = pattern.clone();
        let wanted = ahead.next();
        if wanted == Some('%') {
            retry = Some((text.clone(), ahead.clone()));
            pattern = ahead;
            continue;
        }
        let mut rest = text.clone();
        let found = rest.next();
        let matches = match (wanted, found) {
            (None, None) => return true,
            (Some('_'), Some(_)) => true,
            (Some('\\'), Some(found)) => ahead.next().unwrap_or('\\') == found,
            (Some(wanted), Some(found)) => wanted == found,
            _ => false,
        };
        if matches {
            (text, pattern) = (rest, ahead);
            continue;
        }
        let Some((from, after)) = &mut retry else { return false };
        if from.next().is_none() {
            return false;
        }
        (text, pattern) = (from.clone(), after.clone());
    }
}

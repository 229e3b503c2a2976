//! Reading JSON as RFC 8259 has it, byte by byte and strictly: where values begin and end, and nothing about what they mean.
//!
//! Whatever is skipped is checked as well as what is kept, so whether a message is malformed never depends on the columns read.

/// How deep the values of a message may stand inside each other, the message itself counted.
pub(super) const MAX_NESTING: usize = 128;

/// What a value is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// The key is not there, or its value is null.
    Null,
    /// What would hold the key is null itself.
    Masked,
    True,
    False,
    Number,
    /// A text without escapes; the span leaves the quotes out.
    Text,
    /// A text with escapes; the span leaves the quotes out.
    Escaped,
    /// A text whose escapes have been replaced; the span is in the arena.
    Unescaped,
    Object,
    Array,
}

/// A value of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Token {
    pub(super) start: u32,
    pub(super) end: u32,
    pub(super) kind: Kind,
}

pub(super) const ABSENT: Token = Token { start: 0, end: 0, kind: Kind::Null };
pub(super) const MASKED: Token = Token { start: 0, end: 0, kind: Kind::Masked };

/// Why a message is no JSON.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Broken {
    at: usize,
    what: &'static str,
}

impl Broken {
    #[cold]
    fn at<T>(at: usize, what: &'static str) -> Result<T, Broken> {
        Err(Broken { at, what })
    }
}

impl std::fmt::Display for Broken {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.what == TOO_DEEP {
            return write!(formatter, "{TOO_DEEP} {MAX_NESTING} levels");
        }
        write!(formatter, "{}, at byte {}", self.what, self.at + 1)
    }
}

const TOO_DEEP: &str = "values are nested deeper than";

type Scan<T> = Result<T, Broken>;

const fn repeated(byte: u8) -> u64 {
    u64::from_ne_bytes([byte; 8])
}

/// The high bit of every byte that a text cannot simply go on over: quotes, backslashes, control characters, parts of characters
/// that are not ASCII. Bits behind the first may be wrong.
#[inline(always)]
fn special(chunk: u64) -> u64 {
    let quote = chunk ^ repeated(b'"');
    let escape = chunk ^ repeated(b'\\');
    // A byte less one, or less a space, has its high bit if it was nothing, or less than a space; or if it had it before, as bytes
    // that are not ASCII do, which are looked for too.
    (quote.wrapping_sub(repeated(1)) | escape.wrapping_sub(repeated(1)) | chunk.wrapping_sub(repeated(0x20)) | chunk) & repeated(0x80)
}

/// Whether a text cannot simply go on over these bytes. Written so that the compiler sees one comparison of all of them.
#[inline(always)]
fn has_special(chunk: &[u8; 16]) -> bool {
    // As a signed number, a byte that is not ASCII is less than a space too.
    let found = |found: u8, byte: &u8| found | u8::from(*byte == b'"') | u8::from(*byte == b'\\') | u8::from(byte.cast_signed() < 0x20);
    chunk.iter().fold(0, found) != 0
}

/// Finds the end of a text that begins at `start`, behind its quote: where the closing quote is, and whether it has escapes.
#[inline(always)]
pub(super) fn text(row: &[u8], start: usize) -> Scan<(usize, bool)> {
    let mut at = start;
    while let Some(chunk) = row.get(at..).and_then(<[u8]>::first_chunk::<16>) {
        if has_special(chunk) {
            break;
        }
        at += 16;
    }
    while let Some(chunk) = row.get(at..).and_then(<[u8]>::first_chunk::<8>) {
        let found = special(u64::from_le_bytes(*chunk));
        if found == 0 {
            at += 8;
            continue;
        }
        at += (found.trailing_zeros() / 8) as usize;
        if row[at] == b'"' {
            return Ok((at, false));
        }
        break;
    }
    slow_text(row, start, at)
}

/// The same for the end of a row and for texts that are not plain; `at` is how far it is plain.
#[inline(never)]
fn slow_text(row: &[u8], start: usize, mut at: usize) -> Scan<(usize, bool)> {
    let (mut escaped, mut foreign) = (false, false);
    loop {
        match row.get(at) {
            None => return Broken::at(start.saturating_sub(1), "a text is never closed"),
            Some(b'"') => break,
            Some(b'\\') => {
                escaped = true;
                at = escape(row, at)?.1;
            }
            Some(0..0x20) => return Broken::at(at, "a text holds a control character, which must be escaped"),
            Some(0x80..) => {
                foreign = true;
                at += 1;
            }
            Some(_) => {
                at += 1;
                // Back to eight at a time.
                while let Some(chunk) = row.get(at..).and_then(<[u8]>::first_chunk::<8>) {
                    let found = special(u64::from_le_bytes(*chunk));
                    if found != 0 {
                        at += (found.trailing_zeros() / 8) as usize;
                        break;
                    }
                    at += 8;
                }
            }
        }
    }
    if foreign && let Err(error) = std::str::from_utf8(&row[start..at]) {
        return Broken::at(start + error.valid_up_to(), "the text is not UTF-8");
    }
    Ok((at, escaped))
}

/// The character of an escape, and where it ends.
fn escape(row: &[u8], at: usize) -> Scan<(char, usize)> {
    let simple = match row.get(at + 1) {
        Some(byte @ (b'"' | b'\\' | b'/')) => char::from(*byte),
        Some(b'b') => '\u{8}',
        Some(b'f') => '\u{c}',
        Some(b'n') => '\n',
        Some(b'r') => '\r',
        Some(b't') => '\t',
        Some(b'u') => return unicode(row, at),
        _ => return Broken::at(at, "an escape that JSON does not have"),
    };
    Ok((simple, at + 2))
}

/// The same for `\uXXXX`. Half of a surrogate pair is no character and cannot be kept in UTF-8, so it is refused, never replaced.
fn unicode(row: &[u8], at: usize) -> Scan<(char, usize)> {
    const ALONE: &str = "half of a surrogate pair stands alone";
    let unit = |at: usize| -> Scan<u32> {
        let digits = row.get(at + 2..at + 6).filter(|_| row[at] == b'\\' && row[at + 1] == b'u');
        let number =
            digits.and_then(|digits| digits.iter().try_fold(0, |number, digit| Some(number * 16 + char::from(*digit).to_digit(16)?)));
        number.map_or_else(|| Broken::at(at, "an escape that JSON does not have"), Ok)
    };
    let first = unit(at)?;
    if !(0xD800..0xE000).contains(&first) {
        return Ok((char::from_u32(first).unwrap_or(char::REPLACEMENT_CHARACTER), at + 6));
    }
    if first >= 0xDC00 || row.get(at + 6..at + 8) != Some(b"\\u") {
        return Broken::at(at, ALONE);
    }
    let second = unit(at + 6)?;
    if !(0xDC00..0xE000).contains(&second) {
        return Broken::at(at, ALONE);
    }
    let character = char::from_u32(0x10000 + ((first - 0xD800) << 10) + (second - 0xDC00));
    Ok((character.unwrap_or(char::REPLACEMENT_CHARACTER), at + 12))
}

/// Appends a text with its escapes replaced. It has been read before.
pub(super) fn unescape(mut text: &[u8], out: &mut Vec<u8>) {
    while let Some(at) = memchr::memchr(b'\\', text) {
        out.extend_from_slice(&text[..at]);
        let Ok((character, end)) = escape(text, at) else { break };
        out.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes());
        text = &text[end..];
    }
    out.extend_from_slice(text);
}

/// Where digits end.
#[inline(always)]
fn digits(row: &[u8], mut at: usize) -> usize {
    while let Some(chunk) = row.get(at..).and_then(<[u8]>::first_chunk::<8>) {
        let chunk = u64::from_le_bytes(*chunk) ^ repeated(b'0');
        let others = (chunk.wrapping_add(repeated(0x76)) | chunk) & repeated(0x80);
        if others != 0 {
            return at + (others.trailing_zeros() / 8) as usize;
        }
        at += 8;
    }
    while row.get(at).is_some_and(u8::is_ascii_digit) {
        at += 1;
    }
    at
}

/// Where the number that begins here ends.
#[inline(always)]
pub(super) fn number(row: &[u8], start: usize) -> Scan<usize> {
    let first = start + usize::from(row.get(start) == Some(&b'-'));
    let at = digits(row, first);
    let plain = at > first && (row[first] != b'0' || at == first + 1) && !matches!(row.get(at), Some(b'.' | b'e' | b'E'));
    if plain { Ok(at) } else { long_number(row, start) }
}

/// The same for numbers with a fraction or an exponent.
#[inline(never)]
fn long_number(row: &[u8], start: usize) -> Scan<usize> {
    let first = start + usize::from(row.get(start) == Some(&b'-'));
    let mut at = digits(row, first);
    if at == first || (row[first] == b'0' && at > first + 1) {
        return Broken::at(start, "a number that JSON does not have");
    }
    if let Some(b'.' | b'e' | b'E') = row.get(at) {
        if row[at] == b'.' {
            let fraction = digits(row, at + 1);
            if fraction == at + 1 {
                return Broken::at(start, "a number that JSON does not have");
            }
            at = fraction;
        }
        if let Some(b'e' | b'E') = row.get(at) {
            let sign = usize::from(matches!(row.get(at + 1), Some(b'+' | b'-')));
            let exponent = digits(row, at + 1 + sign);
            if exponent == at + 1 + sign {
                return Broken::at(start, "a number that JSON does not have");
            }
            at = exponent;
        }
    }
    Ok(at)
}

#[inline]
pub(super) fn space(row: &[u8], mut at: usize) -> usize {
    while let Some(b' ' | b'\n' | b'\r' | b'\t') = row.get(at) {
        at += 1;
    }
    at
}

fn token(start: usize, end: usize, kind: Kind) -> Token {
    Token { start: start as u32, end: end as u32, kind }
}

/// The value that begins here, and where the next byte is. `depth`: of the values it stands in.
#[inline(always)]
pub(super) fn value(row: &[u8], at: usize, depth: usize) -> Scan<(Token, usize)> {
    match row.get(at) {
        Some(b'"') => {
            let (end, escaped) = text(row, at + 1)?;
            Ok((token(at + 1, end, if escaped { Kind::Escaped } else { Kind::Text }), end + 1))
        }
        Some(b'-' | b'0'..=b'9') => {
            let end = number(row, at)?;
            Ok((token(at, end, Kind::Number), end))
        }
        _ => other_value(row, at, depth),
    }
}

/// The same for what is neither text nor number.
#[inline(never)]
fn other_value(row: &[u8], at: usize, depth: usize) -> Scan<(Token, usize)> {
    let word = |word: &[u8], kind: Kind| {
        let end = at + word.len();
        if row.get(at..end) == Some(word) { Ok((token(at, end, kind), end)) } else { Broken::at(at, "expected a value") }
    };
    match row.get(at) {
        Some(b'{') => {
            let end = object(row, at, depth, |_, _| {})?;
            Ok((token(at, end, Kind::Object), end))
        }
        Some(b'[') => {
            let end = array(row, at, depth, |_| {})?;
            Ok((token(at, end, Kind::Array), end))
        }
        Some(b't') => word(b"true", Kind::True),
        Some(b'f') => word(b"false", Kind::False),
        Some(b'n') => word(b"null", Kind::Null),
        _ => Broken::at(at, "expected a value"),
    }
}

/// Reads an object, handing over keys, as texts, and their values; answers where it ends.
#[inline]
pub(super) fn object(row: &[u8], start: usize, depth: usize, mut member: impl FnMut(Token, Token)) -> Scan<usize> {
    if depth >= MAX_NESTING {
        return Broken::at(start, TOO_DEEP);
    }
    let mut at = space(row, start + 1);
    if row.get(at) == Some(&b'}') {
        return Ok(at + 1);
    }
    loop {
        if row.get(at) != Some(&b'"') {
            return Broken::at(at, "expected a key");
        }
        let (end, escaped) = text(row, at + 1)?;
        let kind = if escaped { Kind::Escaped } else { Kind::Text };
        let key = Token { start: (at + 1) as u32, end: end as u32, kind };
        at = space(row, end + 1);
        if row.get(at) != Some(&b':') {
            return Broken::at(at, "expected `:`");
        }
        let (found, next) = value(row, space(row, at + 1), depth + 1)?;
        member(key, found);
        at = space(row, next);
        match row.get(at) {
            Some(b',') => at = space(row, at + 1),
            Some(b'}') => return Ok(at + 1),
            _ => return Broken::at(at, "expected `,` or `}`"),
        }
    }
}

/// Reads an array, handing over its items; answers where it ends.
pub(super) fn array(row: &[u8], start: usize, depth: usize, mut item: impl FnMut(Token)) -> Scan<usize> {
    if depth >= MAX_NESTING {
        return Broken::at(start, TOO_DEEP);
    }
    let mut at = space(row, start + 1);
    if row.get(at) == Some(&b']') {
        return Ok(at + 1);
    }
    loop {
        let (found, next) = value(row, at, depth + 1)?;
        item(found);
        at = space(row, next);
        match row.get(at) {
            Some(b',') => at = space(row, at + 1),
            Some(b']') => return Ok(at + 1),
            _ => return Broken::at(at, "expected `,` or `]`"),
        }
    }
}

/// Reads a message, which is one object and nothing else.
pub(super) fn message(row: &[u8], member: impl FnMut(Token, Token)) -> Scan<()> {
    let start = space(row, 0);
    if row.get(start) != Some(&b'{') {
        return Broken::at(start, "expected an object");
    }
    let end = object(row, start, 0, member)?;
    if space(row, end) != row.len() {
        return Broken::at(space(row, end), "something follows the object");
    }
    Ok(())
}

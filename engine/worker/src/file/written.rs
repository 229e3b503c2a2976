//! From a byte of a text value to the byte of the file that wrote it.

use std::ops::Range;

/// The byte of `file` that wrote byte `wanted` of the value whose literal, quotes included, stands at `literal`. The end of the value
/// is its closing quote. `None` if a `$` comes before it, or the literal is not understood.
pub(super) fn source_of(file: &str, literal: Range<usize>, wanted: usize) -> Option<usize> {
    let written = file.get(literal.clone())?;
    let quote = ["\"\"\"", "'''", "\"", "'"].into_iter().find(|quote| written.starts_with(quote))?;
    let mut at = quote.len();
    if quote.len() == 3 {
        // A line end right behind the quotes is not part of the value.
        at += ["\r\n", "\n"].into_iter().find(|end| written[at..].starts_with(end)).map_or(0, str::len);
    }
    let end = written.len().checked_sub(quote.len())?;
    let escapes = quote.starts_with('"');
    let mut value = 0;
    while value < wanted && at < end {
        let next = written.get(at..end)?.chars().next()?;
        if next == '$' {
            return None;
        }
        if escapes && next == '\\' {
            let (taken, made) = escape(&written[at..end])?;
            at += taken;
            value += made;
        } else {
            at += next.len_utf8();
            value += next.len_utf8();
        }
    }
    // What makes nothing stands before the byte, not in its place.
    while escapes && at < end && written[at..].starts_with('\\') {
        match escape(&written[at..end])? {
            (taken, 0) => at += taken,
            _ => break,
        }
    }
    (value == wanted).then_some(literal.start + at)
}

/// How many bytes an escape takes, and how many it makes.
fn escape(written: &str) -> Option<(usize, usize)> {
    let kind = written[1..].chars().next()?;
    match kind {
        'b' | 't' | 'n' | 'f' | 'r' | 'e' | '"' | '\\' => Some((2, 1)),
        'x' | 'u' | 'U' => {
            let digits = match kind {
                'x' => 2,
                'u' => 4,
                _ => 8,
            };
            let made = char::from_u32(u32::from_str_radix(written.get(2..2 + digits)?, 16).ok()?)?;
            Some((2 + digits, made.len_utf8()))
        }
        // The rest of the line, and all white space after it, are not part of the value.
        space if space.is_whitespace() => Some((1 + written[1..].len() - written[1..].trim_start().len(), 0)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(file: &str, wanted: usize) -> Option<&str> {
        source_of(file, 0..file.len(), wanted).map(|at| &file[at..])
    }

    #[test]
    fn every_kind_of_literal_is_followed() {
        assert_eq!(shown("'a + b'", 4), Some("b'"));
        assert_eq!(shown("\"\\t\\\"\\u00e4b\"", 4), Some("b\""));
        assert_eq!(shown("'''\na\nb'''", 2), Some("b'''"));
        assert_eq!(shown("\"\"\"\r\na \\\n   b\"\"\"", 2), Some("b\"\"\""));
        assert_eq!(shown("'größe'", 7), Some("'"));
    }

    #[test]
    fn what_may_have_been_replaced_has_no_place() {
        assert_eq!(shown("'a == ${X}'", 2), Some("== ${X}'"));
        assert_eq!(shown("'${X} == a'", 5), None);
        assert_eq!(shown("'a'", 9), None);
        assert_eq!(shown("bare", 1), None);
    }
}

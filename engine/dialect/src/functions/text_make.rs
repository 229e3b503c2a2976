//! Texts made of others: padding, repetition, case, templates

use super::args::Shape;
use super::rows::{In, room};
use super::text::{place, text};
use super::{Args, Function};
use crate::Diagnostic;
use crate::node::Node;
use crate::types::Class;

use Shape::{Integer, Text};

pub(super) const FUNCTIONS: &[Function] = &[
    text!("padLeft", "(text, length, filler?)" -> "string", (2, 3), &[Text, Integer, Text], into_text, |row: In<'_>, out: &mut String| pad(row, out, true),
        "The text with `filler` (by default a blank, repeated and cut) in front up to `length` characters; a longer text stays as it is. An empty filler adds nothing. More than 16 MiB make a bad row.",
        [("padLeft('7', 3, '0')", "'007'"), ("padLeft('abcd', 3, '0')", "'abcd'"), ("padLeft('ü', 4, 'ab')", "'abaü'"), ("padLeft('a', 1000000000)", "error")]),
    text!("padRight", "(text, length, filler?)" -> "string", (2, 3), &[Text, Integer, Text], into_text, |row: In<'_>, out: &mut String| pad(row, out, false),
        "The text with `filler` (by default a blank, repeated and cut) behind up to `length` characters; a longer text stays as it is. An empty filler adds nothing. More than 16 MiB make a bad row.",
        [("padRight('a', 3)", "'a  '"), ("padRight('a', 4, 'xy')", "'axyx'")]),
    text!("padStart", "(text, length, filler?)" -> "string", (2, 3), &[Text, Integer, Text], into_text, |row: In<'_>, out: &mut String| pad(row, out, true),
        "The same as `padLeft`.", [("padStart('7', 2, '0')", "'07'")]),
    text!("padEnd", "(text, length, filler?)" -> "string", (2, 3), &[Text, Integer, Text], into_text, |row: In<'_>, out: &mut String| pad(row, out, false),
        "The same as `padRight`.", [("padEnd('7', 2, '0')", "'70'")]),
    text!("repeat", "(text, n)" -> "string", (2, 2), &[Text, Integer], into_text, |row: In<'_>, out: &mut String| {
            let n = usize::try_from(row.int(1)).unwrap_or(0);
            room(row.text(0).len().saturating_mul(n))?;
            (0..if row.text(0).is_empty() { 0 } else { n }).for_each(|_| out.push_str(row.text(0)));
            Ok::<(), String>(())
        },
        "The text `n` times; never for a negative `n`. More than 16 MiB make a bad row.",
        [("repeat('ab', 3)", "'ababab'"), ("repeat('ab', -1)", "''"), ("repeat('ab', 1000000000)", "error")]),
    text!("reverseText", "(text)" -> "string", (1, 1), &[Text], into_text, |row: In<'_>, out: &mut String| out.extend(row.text(0).chars().rev()),
        "The characters (code points) in reverse order.",
        [("reverseText('Größe')", "'eßörG'"), ("reverseText('')", "''")]),
    text!("capitalize", "(text)" -> "string", (1, 1), &[Text], into_text, |row: In<'_>, out: &mut String| words(row.text(0), out, |_, first| first, false),
        "The text with its first character in upper case and the rest in lower case.",
        [("capitalize('hELLO world')", "'Hello world'"), ("capitalize('')", "''")]),
    text!("titleCase", "(text)" -> "string", (1, 1), &[Text], into_text, |row: In<'_>, out: &mut String| words(row.text(0), out, |inside, _| !inside, true),
        "The text with the first character of every word (run of letters and digits) in upper case and the rest in lower case.",
        [("titleCase('hello wORLD-wide')", "'Hello World-Wide'"), ("titleCase('élan vital')", "'Élan Vital'")]),
    text!("initcap", "(text)" -> "string", (1, 1), &[Text], into_text, |row: In<'_>, out: &mut String| words(row.text(0), out, |inside, _| !inside, true),
        "The same as `titleCase`.", [("initcap('ab cd')", "'Ab Cd'")]),
    text!("swapCase", "(text)" -> "string", (1, 1), &[Text], into_text, |row: In<'_>, out: &mut String| {
            for c in row.text(0).chars() {
                if c.is_uppercase() { out.extend(c.to_lowercase()) } else { out.extend(c.to_uppercase()) }
            }
        },
        "The text with upper and lower case exchanged.",
        [("swapCase('aBc')", "'AbC'")]),
    text!("toSnakeCase", "(text)" -> "string", (1, 1), &[Text], into_text, |row: In<'_>, out: &mut String| joined(row.text(0), out, Some('_')),
        "The words of the text in lower case with `_` between them. A word ends before an upper case letter that follows a lower case one or a digit, and at every character that is neither letter nor digit.",
        [("toSnakeCase('orderId')", "'order_id'"), ("toSnakeCase('Total  price-EUR')", "'total_price_eur'"), ("toSnakeCase('HTTPServer2Go')", "'httpserver2_go'")]),
    text!("toKebabCase", "(text)" -> "string", (1, 1), &[Text], into_text, |row: In<'_>, out: &mut String| joined(row.text(0), out, Some('-')),
        "The words of the text, as `toSnakeCase` finds them, in lower case with `-` between them.",
        [("toKebabCase('orderId')", "'order-id'")]),
    text!("toCamelCase", "(text)" -> "string", (1, 1), &[Text], into_text, |row: In<'_>, out: &mut String| joined(row.text(0), out, None),
        "The words of the text, as `toSnakeCase` finds them, written together, all but the first with an upper case letter.",
        [("toCamelCase('order_id')", "'orderId'"), ("toCamelCase('Total price')", "'totalPrice'")]),
    text!("chr", "(integer)" -> "string", (1, 1), &[Integer], into_text, |row: In<'_>, out: &mut String| match u32::try_from(row.int(0)).ok().and_then(char::from_u32) {
            Some(c) => {
                out.push(c);
                Ok(())
            }
            None => Err(format!("`{}` is not the code point of a character", row.int(0))),
        },
        "The character with that code point; what is not a code point of a character (a surrogate, say) makes a bad row.",
        [("chr(65)", "'A'"), ("chr(8364)", "'€'"), ("chr(55296)", "error")]),
    text!("translate", "(text, from, to)" -> "string", (3, 3), &[Text], into_text, |row: In<'_>, out: &mut String| translate(row, out),
        "The text with every character of `from` replaced by the one at the same position of `to`, or left out where `to` is shorter.",
        [("translate('2026/01/31', '/', '-')", "'2026-01-31'"), ("translate('a-b_c', '-_', ' ')", "'a bc'")]),
    text!("squeeze", "(text)" -> "string", (1, 1), &[Text], into_text, |row: In<'_>, out: &mut String| {
            for (at, word) in row.text(0).split_whitespace().enumerate() {
                if at > 0 {
                    out.push(' ');
                }
                out.push_str(word);
            }
        },
        "The text without white space at its ends and with one blank for every run of white space inside.",
        [("squeeze('  a \\n b  ')", "'a b'")]),
    text!("overlay", "(text, by, start, length?)" -> "string", (3, 4), &[Text, Text, Integer], into_text, |row: In<'_>, out: &mut String| {
            let text = row.text(0);
            let length = row.int_or(3, row.text(1).chars().count() as i64).max(0);
            let skipped = row.int(2).saturating_sub(1).max(0);
            let index = |n: i64| place(text, usize::try_from(n).unwrap_or(usize::MAX));
            out.push_str(&text[..index(skipped)]);
            out.push_str(row.text(1));
            out.push_str(&text[index(skipped.saturating_add(length))..]);
        },
        "The text with `length` characters (by default as many as `by` has) from position `start` on replaced by `by`. Positions before the text count as its first.",
        [("overlay('Txxxxas', 'hom', 2, 4)", "'Thomas'"), ("overlay('abcdef', '12', 3)", "'ab12ef'"), ("overlay('abc', 'X', 9)", "'abcX'")]),
    text!("abbreviate", "(text, length)" -> "string", (2, 2), &[Text, Integer], into_text, |row: In<'_>, out: &mut String| {
            let (text, most) = (row.text(0), usize::try_from(row.int(1)).unwrap_or(0));
            if place(text, most) == text.len() {
                out.push_str(text);
            } else if let Some(kept) = most.checked_sub(1) {
                out.push_str(&text[..place(text, kept)]);
                out.push('…');
            }
        },
        "The text, or its beginning and `…` where it has more than `length` characters.",
        [("abbreviate('Größenwahn', 6)", "'Größe…'"), ("abbreviate('abc', 3)", "'abc'")]),
    text!("mask", "(text, keep?, by?)" -> "string", (1, 3), &[Text, Integer, Text], into_text, |row: In<'_>, out: &mut String| {
            let (text, kept) = (row.text(0), usize::try_from(row.int_or(1, 0)).unwrap_or(0));
            let hidden = text.chars().count().saturating_sub(kept);
            let by = row.text_or(2, "*");
            room(by.len().saturating_mul(hidden).saturating_add(text.len()))?;
            (0..hidden).for_each(|_| out.push_str(by));
            out.push_str(&text[place(text, hidden)..]);
            Ok::<(), String>(())
        },
        "The text with `by` (by default `*`) for every character but the last `keep` (by default none).",
        [("mask('4111111111111111', 4)", "'************1111'"), ("mask('abc')", "'***'"), ("mask('abc', 1, '#')", "'##c'")]),
    Function {
        name: "format",
        signature: "format(template, value, ...) -> string",
        doc: "The template, a constant, with the values in the places of its `{}`, each as `toString` writes it; `{{` and `}}` stand for braces. Null if a value is null.",
        examples: &[
            ("format('{}-{}', 'a', 7)", "'a-7'"),
            ("format('{{{}}}', 1.50m)", "'{1.50}'"),
            ("format('no places')", "'no places'"),
            ("format('{}', null)", "null"),
        ],
        arity: (1, 64),
        bind: format,
    },
];

fn pad(row: In<'_>, out: &mut String, left: bool) -> Result<(), String> {
    let (text, filler) = (row.text(0), row.text_or(2, " "));
    let missing = usize::try_from(row.int(1)).unwrap_or(0).saturating_sub(text.chars().count());
    // No character has more than four bytes.
    room(missing.saturating_mul(filler.len().min(4)).saturating_add(text.len()))?;
    if !left {
        out.push_str(text);
    }
    if !filler.is_empty() {
        out.extend(filler.chars().cycle().take(missing));
    }
    if left {
        out.push_str(text);
    }
    Ok(())
}

/// Every character in lower case, but in upper case where `upper` says so, told whether a word has begun and whether it is the
/// first of the text.
fn words(text: &str, out: &mut String, upper: fn(bool, bool) -> bool, only_words: bool) {
    let mut inside = false;
    for (at, c) in text.char_indices() {
        if upper(inside, at == 0) {
            out.extend(c.to_uppercase())
        } else {
            out.extend(c.to_lowercase())
        }
        inside = !only_words || c.is_alphanumeric();
    }
}

/// The words of a name in lower case with a separator between them, or each but the first with a capital.
fn joined(text: &str, out: &mut String, separator: Option<char>) {
    let (mut ended, mut begun, mut small) = (false, false, false);
    for c in text.chars() {
        if !c.is_alphanumeric() {
            ended = true;
            small = false;
            continue;
        }
        let starts = begun && (ended || (small && c.is_uppercase()));
        if starts && let Some(separator) = separator {
            out.push(separator);
        }
        if starts && separator.is_none() {
            out.extend(c.to_uppercase())
        } else {
            out.extend(c.to_lowercase())
        }
        (ended, begun, small) = (false, true, c.is_lowercase() || c.is_numeric());
    }
}

fn translate(row: In<'_>, out: &mut String) -> Result<(), String> {
    let (text, from, to) = (row.text(0), row.text(1), row.text(2));
    room(text.len().saturating_mul(4))?;
    // Both lists are short by nature; what is not would take the product of the lengths.
    if from.len() > 1_024 {
        return Err("`translate` takes no more than 1024 bytes of characters to replace".to_string());
    }
    for c in text.chars() {
        match from.chars().position(|known| known == c) {
            None => out.push(c),
            Some(at) => out.extend(to.chars().nth(at)),
        }
    }
    Ok(())
}

/// The pieces of a template between its places.
fn pieces(template: &str) -> Option<Vec<String>> {
    let mut pieces = vec![String::new()];
    let mut rest = template.chars();
    while let Some(c) = rest.next() {
        match (c, rest.clone().next()) {
            ('{', Some('}')) => pieces.push(String::new()),
            ('{', Some('{')) | ('}', Some('}')) => pieces.last_mut()?.push(c),
            ('{' | '}', _) => return None,
            (c, _) => {
                pieces.last_mut()?.push(c);
                continue;
            }
        }
        rest.next();
    }
    Some(pieces)
}

fn format(mut args: Args<'_>) -> Result<Node, Diagnostic> {
    let Some(pieces) = pieces(args.constant_text(0)?) else {
        return Err(args.refuse(0, "a template has `{}` for a value, `{{` and `}}` for braces"));
    };
    let values = args.len() - 1;
    if pieces.len() - 1 != values {
        return Err(args.refuse(0, format!("the template has {} places, but {values} values follow", pieces.len() - 1)));
    }
    for at in 1..args.len() {
        if args.class(at) != Class::Text {
            args.nodes[at] = super::to_string::written(&args, at)?;
        }
        args.text(at)?;
    }
    Ok(args.into_text(move |row, out: &mut String| {
        out.push_str(&pieces[0]);
        for (at, piece) in pieces.iter().enumerate().skip(1) {
            out.push_str(row.text(at));
            out.push_str(piece);
        }
    }))
}

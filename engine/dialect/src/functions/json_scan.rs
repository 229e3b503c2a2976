//! A strict reader of JSON (RFC 8259) that keeps to the text: numbers are never turned into floats, nothing is built, and
//! nesting is limited. Every function here takes a whole document and reads all of it, so that a broken text is never half believed.

/// How deep arrays and objects may nest.
const MAX_DEPTH: usize = 128;

/// What a value is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Null,
    Bool,
    Number,
    Text,
    List,
    Object,
}

/// A step of a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Step {
    Member(String),
    Element(usize),
}

/// Reads a path such as `$.a.b[0]['c d']`.
pub(super) fn path(text: &str) -> Result<Vec<Step>, String> {
    let wrong = || format!("`{text}` is not a path: write `$` for the whole, then `.name`, `['any name']` or `[0]` for each step");
    let mut rest = text.strip_prefix('$').ok_or_else(wrong)?;
    let mut steps = Vec::new();
    while !rest.is_empty() {
        if let Some(name) = rest.strip_prefix('.') {
            let end = name.find(['.', '[']).unwrap_or(name.len());
            if end == 0 {
                return Err(wrong());
            }
            steps.push(Step::Member(name[..end].to_string()));
            rest = &name[end..];
            continue;
        }
        let inside = rest.strip_prefix('[').ok_or_else(wrong)?;
        match inside.chars().next() {
            Some(quote @ ('\'' | '"')) => {
                let (name, behind) = inside[1..].split_once(quote).ok_or_else(wrong)?;
                steps.push(Step::Member(name.to_string()));
                rest = behind.strip_prefix(']').ok_or_else(wrong)?;
            }
            _ => {
                let (index, behind) = inside.split_once(']').ok_or_else(wrong)?;
                steps.push(Step::Element(index.parse().map_err(|_| wrong())?));
                rest = behind;
            }
        }
    }
    Ok(steps)
}

/// A value of a document: its kind and its text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Found<'a> {
    pub(super) kind: Kind,
    pub(super) text: &'a str,
}

/// Reads a document and gives the value at a path, if there is one. Of members of one name the last counts.
pub(super) fn find<'a>(text: &'a str, path: &[Step]) -> Result<Option<Found<'a>>, String> {
    let mut scan = Scan { text, at: 0 };
    let found = scan.value(Some(path), 0).and_then(|found| {
        scan.space();
        if scan.at == text.len() { Some(found) } else { None }
    });
    found.ok_or_else(|| format!("not JSON, at byte {}", scan.at))
}

/// Calls `each` with the name, if it is an object's, and the value of every member or element of a value that was found.
pub(super) fn children<'a>(value: Found<'a>, mut each: impl FnMut(Option<&'a str>, Found<'a>)) {
    let mut scan = Scan { text: value.text, at: 1 };
    loop {
        scan.space();
        let name = match value.kind {
            Kind::Object => {
                let from = scan.at;
                if scan.string().is_none() {
                    return;
                }
                let name = &value.text[from..scan.at];
                scan.space();
                scan.at += 1;
                scan.space();
                Some(name)
            }
            _ => None,
        };
        match scan.value(Some(&[]), 0) {
            Some(Some(found)) => each(name, found),
            _ => return,
        }
        scan.space();
        scan.at += 1;
    }
}

/// Appends the characters of a string that was found, whose text stands in quotes; `None` for a lone surrogate, which no text
/// can hold.
pub(super) fn unescape(quoted: &str, out: &mut String) -> Option<()> {
    let mut rest = quoted.get(1..quoted.len().checked_sub(1)?)?;
    while let Some(at) = memchr::memchr(b'\\', rest.as_bytes()) {
        out.push_str(&rest[..at]);
        let escape = rest.as_bytes().get(at + 1)?;
        rest = rest.get(at + 2..)?;
        out.push(match escape {
            b'n' => '\n',
            b't' => '\t',
            b'r' => '\r',
            b'b' => '\u{8}',
            b'f' => '\u{c}',
            b'u' => {
                let unit = |text: &str| u32::from_str_radix(text, 16).ok();
                let first = unit(rest.get(..4)?)?;
                rest = &rest[4..];
                match first {
                    0xD800..=0xDBFF => {
                        let second = unit(rest.strip_prefix("\\u")?.get(..4)?)?.checked_sub(0xDC00).filter(|low| *low < 0x400)?;
                        rest = &rest[6..];
                        char::from_u32(0x10000 + ((first - 0xD800) << 10) + second)?
                    }
                    _ => char::from_u32(first)?,
                }
            }
            other => char::from(*other),
        });
    }
    out.push_str(rest);
    Some(())
}

/// Appends a text as a JSON string.
pub(super) fn quote(text: &str, out: &mut String) {
    out.push('"');
    let mut from = 0;
    for (at, byte) in text.bytes().enumerate() {
        let escape = match byte {
            b'"' => "\\\"",
            b'\\' => "\\\\",
            b'\n' => "\\n",
            b'\r' => "\\r",
            b'\t' => "\\t",
            0..0x20 => "",
            _ => continue,
        };
        out.push_str(&text[from..at]);
        from = at + 1;
        if escape.is_empty() {
            use std::fmt::Write;
            let _ = write!(out, "\\u{byte:04x}");
        } else {
            out.push_str(escape);
        }
    }
    out.push_str(&text[from..]);
    out.push('"');
}

/// Appends a value that was found without white space, strings escaped no more than they must be.
pub(super) fn compact(value: Found<'_>, out: &mut String) -> Option<()> {
    let mut rest = value.text;
    let mut characters = String::new();
    while let Some(at) = rest.find(|c: char| c == '"' || c.is_ascii_whitespace()) {
        out.push_str(&rest[..at]);
        rest = &rest[at..];
        if !rest.starts_with('"') {
            rest = &rest[1..];
            continue;
        }
        let mut scan = Scan { text: rest, at: 0 };
        scan.string()?;
        characters.clear();
        unescape(&rest[..scan.at], &mut characters)?;
        quote(&characters, out);
        rest = &rest[scan.at..];
    }
    out.push_str(rest);
    Some(())
}

struct Scan<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Scan<'a> {
    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    fn eat(&mut self, byte: u8) -> Option<()> {
        (self.peek()? == byte).then(|| self.at += 1)
    }

    fn space(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\n' | b'\r' | b'\t')) {
            self.at += 1;
        }
    }

    /// Reads a value; gives what stands at a path from it. The outer `None` says that this is no JSON.
    fn value(&mut self, path: Option<&[Step]>, depth: usize) -> Option<Option<Found<'a>>> {
        self.space();
        let from = self.at;
        let mut inner = None;
        let kind = match self.peek()? {
            b'{' => {
                self.members(path, depth, &mut inner)?;
                Kind::Object
            }
            b'[' => {
                self.elements(path, depth, &mut inner)?;
                Kind::List
            }
            b'"' => {
                self.string()?;
                Kind::Text
            }
            b't' => self.word("true", Kind::Bool)?,
            b'f' => self.word("false", Kind::Bool)?,
            b'n' => self.word("null", Kind::Null)?,
            _ => {
                self.number()?;
                Kind::Number
            }
        };
        Some(match path {
            Some([]) => Some(Found { kind, text: &self.text[from..self.at] }),
            _ => inner,
        })
    }

    fn members(&mut self, path: Option<&[Step]>, depth: usize, inner: &mut Option<Found<'a>>) -> Option<()> {
        self.eat(b'{')?;
        if depth == MAX_DEPTH {
            return None;
        }
        self.space();
        if self.eat(b'}').is_some() {
            return Some(());
        }
        loop {
            self.space();
            let from = self.at;
            self.string()?;
            let name = &self.text[from..self.at];
            self.space();
            self.eat(b':')?;
            let wanted = match path {
                Some([Step::Member(member), further @ ..]) if same(name, member) => Some(further),
                _ => None,
            };
            let found = self.value(wanted, depth + 1)?;
            if wanted.is_some() {
                *inner = found;
            }
            self.space();
            if self.eat(b',').is_none() {
                return self.eat(b'}');
            }
        }
    }

    fn elements(&mut self, path: Option<&[Step]>, depth: usize, inner: &mut Option<Found<'a>>) -> Option<()> {
        self.eat(b'[')?;
        if depth == MAX_DEPTH {
            return None;
        }
        self.space();
        if self.eat(b']').is_some() {
            return Some(());
        }
        for index in 0.. {
            let wanted = match path {
                Some([Step::Element(element), further @ ..]) if *element == index => Some(further),
                _ => None,
            };
            let found = self.value(wanted, depth + 1)?;
            if wanted.is_some() {
                *inner = found;
            }
            self.space();
            if self.eat(b',').is_none() {
                return self.eat(b']');
            }
        }
        None
    }

    fn word(&mut self, word: &str, kind: Kind) -> Option<Kind> {
        self.text[self.at..].starts_with(word).then(|| {
            self.at += word.len();
            kind
        })
    }

    fn digits(&mut self) -> Option<()> {
        let from = self.at;
        while self.peek().is_some_and(|byte| byte.is_ascii_digit()) {
            self.at += 1;
        }
        (self.at > from).then_some(())
    }

    fn number(&mut self) -> Option<()> {
        let _ = self.eat(b'-');
        match self.eat(b'0') {
            Some(()) => {}
            None => self.digits()?,
        }
        if self.eat(b'.').is_some() {
            self.digits()?;
        }
        if self.eat(b'e').or_else(|| self.eat(b'E')).is_some() {
            let _ = self.eat(b'+').or_else(|| self.eat(b'-'));
            self.digits()?;
        }
        Some(())
    }

    fn string(&mut self) -> Option<()> {
        self.eat(b'"')?;
        loop {
            match self.peek()? {
                b'"' => {
                    self.at += 1;
                    return Some(());
                }
                b'\\' => {
                    self.at += 1;
                    match self.peek()? {
                        b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't' => self.at += 1,
                        b'u' => {
                            let hex = self.text.as_bytes().get(self.at + 1..self.at + 5)?;
                            if !hex.iter().all(u8::is_ascii_hexdigit) {
                                return None;
                            }
                            self.at += 5;
                        }
                        _ => return None,
                    }
                }
                0..0x20 => return None,
                _ => self.at += 1,
            }
        }
    }
}

/// Whether a quoted name is `wanted`.
fn same(quoted: &str, wanted: &str) -> bool {
    let inside = &quoted[1..quoted.len() - 1];
    if !inside.contains('\\') {
        return inside == wanted;
    }
    let mut name = String::new();
    unescape(quoted, &mut name).is_some() && name == wanted
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn json() -> impl Strategy<Value = serde_json::Value> {
        let leaf = prop_oneof![
            Just(serde_json::Value::Null),
            any::<bool>().prop_map(Into::into),
            any::<i64>().prop_map(Into::into),
            "\\PC{0,6}|[\\x00-\\x20\"\\\\]{0,4}".prop_map(Into::into),
        ];
        leaf.prop_recursive(4, 24, 4, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(Into::into),
                prop::collection::vec(("[a-c\"\\\\]{0,2}", inner), 0..4)
                    .prop_map(|members| serde_json::Value::Object(members.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn what_another_reader_reads_this_reads_the_same(value in json(), pretty: bool) {
            let text = if pretty { serde_json::to_string_pretty(&value).unwrap() } else { value.to_string() };
            let whole = find(&text, &[]).unwrap().unwrap();
            let mut compacted = String::new();
            compact(whole, &mut compacted).unwrap();
            prop_assert_eq!(serde_json::from_str::<serde_json::Value>(&compacted).unwrap(), value.clone());
            if let serde_json::Value::Object(members) = &value {
                for (name, member) in members {
                    let found = find(&text, &[Step::Member(name.clone())]).unwrap().unwrap();
                    prop_assert_eq!(&serde_json::from_str::<serde_json::Value>(found.text).unwrap(), member);
                }
                let mut count = 0;
                children(whole, |_, _| count += 1);
                prop_assert_eq!(count, members.len());
            }
        }

        #[test]
        fn texts_are_refused_as_another_reader_refuses_them(text in "[\\[\\]{}\",:0-9.eE+ truefalsn\\\\-]{0,16}") {
            let ours = find(&text, &[]).is_ok();
            // The other reader refuses numbers that float64 does not hold, and lone surrogates, which are caught where they are read.
            let theirs = serde_json::from_str::<&serde_json::value::RawValue>(&text).is_ok();
            prop_assert_eq!(ours, theirs, "{}", text);
        }
    }

    #[test]
    fn deep_nesting_is_refused_without_a_deep_stack() {
        for open in ["[", "{\"a\":"] {
            assert!(find(&open.repeat(100_000), &[]).is_err());
        }
        assert!(find(&format!("{}{}", "[".repeat(MAX_DEPTH), "]".repeat(MAX_DEPTH)), &[]).is_ok());
        assert!(find(&format!("{}{}", "[".repeat(MAX_DEPTH + 1), "]".repeat(MAX_DEPTH + 1)), &[]).is_err());
    }
}

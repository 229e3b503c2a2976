//! From text to tokens, each with its bytes.

use crate::Diagnostic;
use crate::time;
use arrow::datatypes::TimeUnit;
use std::ops::Range;

/// A token's meaning.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Token {
    /// A whole number; its sign is an operator.
    Integer(u128),
    Float(f64),
    /// Unscaled digits and the number of decimals.
    Decimal(i128, i8),
    Text(String),
    /// A point in time in the unit its digits need.
    Timestamp(i64, TimeUnit),
    /// A length of time in milliseconds.
    Duration(i64),
    /// A bare name: a column, a function, or one of the words `true`, `false`, `null`, `in`.
    Name(String),
    /// A name in backticks: always a column or a member.
    Quoted(String),
    /// An operator or a mark of punctuation.
    Symbol(&'static str),
    End,
}

/// A token and the bytes it came from.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Spanned {
    pub(crate) token: Token,
    pub(crate) span: Range<usize>,
}

/// Longest first, so that `<=` is not read as `<` and `=`.
const SYMBOLS: [&str; 29] = [
    "==", "!=", "<=", ">=", "&&", "||", "??", "?.", "->", "..", "{", "}", "<", ">", "!", "+", "-", "*", "/", "%", "?", ":", "(", ")", "[",
    "]", ",", ".", "=",
];

/// All tokens of `text`, closed by [`Token::End`].
pub(crate) fn tokens(text: &str) -> Result<Vec<Spanned>, Diagnostic> {
    let mut lexer = Lexer { text, at: 0 };
    let mut tokens = Vec::new();
    loop {
        let spanned = lexer.next()?;
        let end = spanned.token == Token::End;
        tokens.push(spanned);
        if end {
            return Ok(tokens);
        }
    }
}

struct Lexer<'a> {
    text: &'a str,
    at: usize,
}

impl Lexer<'_> {
    fn rest(&self) -> &str {
        &self.text[self.at..]
    }

    fn fail<T>(&self, span: Range<usize>, message: impl Into<String>) -> Result<T, Diagnostic> {
        Err(Diagnostic::new(self.text, span, message))
    }

    fn next(&mut self) -> Result<Spanned, Diagnostic> {
        self.skip_blanks()?;
        let start = self.at;
        let Some(first) = self.rest().chars().next() else {
            return Ok(Spanned { token: Token::End, span: start..start });
        };
        let token = match first {
            '\'' | '"' => Token::Text(self.string(Escapes::Read)?),
            '`' => Token::Quoted(self.quoted()?),
            '0'..='9' => self.number()?,
            first if first.is_alphabetic() || first == '_' => self.word()?,
            first => match SYMBOLS.iter().find(|symbol| self.rest().starts_with(**symbol)) {
                Some(symbol) => {
                    self.at += symbol.len();
                    Token::Symbol(symbol)
                }
                None => {
                    let hint = match first {
                        '&' => ", write `&&`",
                        '|' => ", write `||`",
                        _ => "",
                    };
                    return self.fail(start..start + first.len_utf8(), format!("unexpected character `{first}`{hint}"));
                }
            },
        };
        Ok(Spanned { token, span: start..self.at })
    }

    fn skip_blanks(&mut self) -> Result<(), Diagnostic> {
        loop {
            let rest = self.rest();
            if rest.starts_with("//") {
                self.at += rest.find('\n').unwrap_or(rest.len());
            } else if rest.starts_with("/*") {
                match rest.find("*/") {
                    Some(end) => self.at += end + 2,
                    None => return self.fail(self.at..self.at + 2, "comment without an end, expected `*/`"),
                }
            } else {
                let blanks = rest.len() - rest.trim_start().len();
                if blanks == 0 {
                    return Ok(());
                }
                self.at += blanks;
            }
        }
    }

    fn word(&mut self) -> Result<Token, Diagnostic> {
        let start = self.at;
        let length = self.rest().find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(self.rest().len());
        let word = self.rest()[..length].to_string();
        self.at += length;
        if !self.rest().starts_with(['\'', '"']) {
            return Ok(Token::Name(word));
        }
        match word.as_str() {
            "r" => Ok(Token::Text(self.string(Escapes::Keep)?)),
            "ts" => {
                let written = self.string(Escapes::Read)?;
                match time::parse_timestamp(&written) {
                    Some((value, unit)) => Ok(Token::Timestamp(value, unit)),
                    None => self.fail(
                        start..self.at,
                        format!("`{written}` is not a point in time, write it like `ts'2026-01-31T12:00:00Z'` or `ts'2026-01-31'`"),
                    ),
                }
            }
            "dur" => {
                let written = self.string(Escapes::Read)?;
                match time::parse_duration(&written) {
                    Some(millis) => Ok(Token::Duration(millis)),
                    None => {
                        self.fail(start..self.at, format!("`{written}` is not a length of time, write it like `dur'5s'` (ms, s, m, h, d)"))
                    }
                }
            }
            _ => self.fail(start..self.at, format!("unknown kind of literal `{word}'…'`, known are `ts'…'`, `dur'…'` and `r'…'`")),
        }
    }

    fn number(&mut self) -> Result<Token, Diagnostic> {
        let start = self.at;
        let digits = |text: &str| text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
        self.at += digits(self.rest());
        let whole_end = self.at;
        let mut fraction = 0;
        if self.rest().starts_with('.') && self.rest()[1..].starts_with(|c: char| c.is_ascii_digit()) {
            self.at += 1;
            fraction = digits(self.rest());
            self.at += fraction;
        }
        let mantissa_end = self.at;
        if self.rest().starts_with(['e', 'E']) {
            let sign = usize::from(self.rest()[1..].starts_with(['+', '-']));
            let exponent = digits(&self.rest()[1 + sign..]);
            if exponent > 0 {
                self.at += 1 + sign + exponent;
            }
        }
        let written = &self.text[start..self.at];
        let decimal = self.at == mantissa_end && self.rest().starts_with('m');
        let suffix_end = self.at + usize::from(decimal);
        if self.text[suffix_end..].starts_with(|c: char| c.is_alphanumeric() || c == '_') {
            return self.fail(start..suffix_end + 1, "a name cannot start with a digit, quote it with backticks");
        }
        if decimal {
            let plain = written.replace('.', "");
            self.at = suffix_end;
            if plain.trim_start_matches('0').len() > 38 || fraction > 38 {
                return self.fail(start..self.at, "a decimal has at most 38 digits");
            }
            let unscaled = plain.parse::<i128>().expect("at most 38 digits fit in 128 bits");
            return Ok(Token::Decimal(unscaled, fraction as i8));
        }
        if self.at == whole_end {
            return match written.parse::<u128>() {
                Ok(value) if value <= u128::from(u64::MAX) => Ok(Token::Integer(value)),
                _ => self.fail(start..self.at, format!("`{written}` does not fit in 64 bits, write `{written}m` for a decimal")),
            };
        }
        match written.parse::<f64>() {
            Ok(value) if value.is_finite() => Ok(Token::Float(value)),
            _ => self.fail(start..self.at, format!("`{written}` does not fit in a float64")),
        }
    }

    fn quoted(&mut self) -> Result<String, Diagnostic> {
        let start = self.at;
        let mut name = String::new();
        let mut rest = self.text[start + 1..].char_indices().peekable();
        while let Some((at, c)) = rest.next() {
            if c != '`' {
                name.push(c);
            } else if rest.peek().is_some_and(|(_, next)| *next == '`') {
                name.push('`');
                rest.next();
            } else {
                self.at = start + 1 + at + 1;
                return Ok(name);
            }
        }
        self.fail(start..self.text.len(), "name without an end, expected a backtick")
    }

    fn string(&mut self, escapes: Escapes) -> Result<String, Diagnostic> {
        let start = self.at;
        let quote = self.rest().chars().next().expect("the caller saw a quote");
        let mut value = String::new();
        let mut rest = self.text[start + 1..].char_indices();
        while let Some((at, c)) = rest.next() {
            let here = start + 1 + at;
            if c == quote {
                self.at = here + 1;
                return Ok(value);
            }
            if c != '\\' || escapes == Escapes::Keep {
                value.push(c);
                continue;
            }
            let Some((_, escape)) = rest.next() else { break };
            match escape {
                'n' => value.push('\n'),
                't' => value.push('\t'),
                'r' => value.push('\r'),
                '0' => value.push('\0'),
                '\\' | '\'' | '"' | '/' => value.push(escape),
                'u' => {
                    let tail = rest.as_str();
                    let (digits, length) = match tail.strip_prefix('{') {
                        Some(braced) => (braced.split('}').next().unwrap_or(""), braced.find('}').map(|end| end + 2)),
                        None => (tail.get(..4).unwrap_or(""), Some(4)),
                    };
                    let read = u32::from_str_radix(digits, 16).ok().and_then(char::from_u32);
                    let (Some(c), Some(length)) = (read, length) else {
                        return self.fail(here..here + 2, "expected four hexadecimal digits or `{…}` after `\\u`, naming a character");
                    };
                    value.push(c);
                    for _ in 0..tail[..length].chars().count() {
                        rest.next();
                    }
                }
                other => {
                    let end = here + 1 + other.len_utf8();
                    return self.fail(
                        here..end,
                        format!("unknown escape `\\{other}`, write `\\\\` for a backslash or `r'…'` for text without escapes"),
                    );
                }
            }
        }
        self.fail(start..self.text.len(), format!("text without an end, expected {quote}"))
    }
}

#[derive(Clone, Copy, PartialEq)]
enum Escapes {
    Read,
    Keep,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Vec<Token> {
        tokens(text).unwrap().into_iter().map(|spanned| spanned.token).collect()
    }

    fn refuse(text: &str) -> String {
        tokens(text).unwrap_err().message
    }

    #[test]
    fn numbers_keep_their_kind() {
        assert_eq!(
            read("1 1.5 1e3 1.50m 18446744073709551615")[..5],
            [Token::Integer(1), Token::Float(1.5), Token::Float(1000.0), Token::Decimal(150, 2), Token::Integer(u128::from(u64::MAX)),]
        );
        assert!(refuse("18446744073709551616").contains("64 bits"));
        assert!(refuse("1e999").contains("float64"));
        assert!(refuse("12ab").contains("backticks"));
        assert!(refuse(&format!("{}m", "9".repeat(39))).contains("38"));
    }

    #[test]
    fn strings_have_escapes_and_raw_strings_have_none() {
        assert_eq!(
            read(r#"'a\'b' "c\n\u00e9\u{1F600}" r'\d+'"#)[..3],
            [Token::Text("a'b".into()), Token::Text("c\né😀".into()), Token::Text(r"\d+".into()),]
        );
        for broken in [r"'\q'", r"'\u12'", r"'\ud800'", r"'\u{110000}'", "'abc", "'abc\\", r"'\u{12", r"'\u"] {
            assert!(tokens(broken).is_err(), "{broken}");
        }
    }

    #[test]
    fn comments_are_blanks_and_two_minus_signs_are_not_a_comment() {
        assert_eq!(read("1 // one\n /* two */ 2"), [Token::Integer(1), Token::Integer(2), Token::End]);
        assert_eq!(read("1--2").len(), 5);
        assert!(refuse("1 /* 2").contains("comment"));
    }

    #[test]
    fn a_doubled_backtick_stands_for_one() {
        assert_eq!(read("`a``b`"), [Token::Quoted("a`b".into()), Token::End]);
        assert!(refuse("`a``").contains("backtick"));
    }

    #[test]
    fn every_prefix_of_a_text_is_read_or_refused_without_a_panic() {
        let text = r#"`ü`.é == r'\x' && ts'2026-01-01T00:00:00Z' - dur'5s' <= "\u{e9}\n" ?? 1.5e-3m /* é */ // ü"#;
        for (at, _) in text.char_indices() {
            let _ = tokens(&text[..at]);
            let _ = tokens(&text[at..]);
        }
    }
}

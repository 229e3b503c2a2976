//! Lines out of bytes that come in pieces, in bounded memory.

/// What was found.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Line {
    /// A whole line, without its end.
    Whole(String),
    /// What is no line: its bytes, as far as they are shown, and why.
    Bad(Vec<u8>, String),
}

/// How much of a bad line is shown.
const MAX_RAW: usize = 4096;

/// Bytes that are no whole line yet.
#[derive(Debug)]
pub(crate) struct Lines {
    bytes: Vec<u8>,
    /// How many of them were taken already.
    taken: usize,
    max: usize,
    /// A line that was too long is passed over up to its end.
    skipping: bool,
}

impl Lines {
    pub(crate) fn new(max: usize) -> Self {
        Lines { bytes: Vec::new(), taken: 0, max, skipping: false }
    }

    /// Adds what came.
    pub(crate) fn push(&mut self, bytes: &[u8]) {
        self.bytes.drain(..self.taken);
        self.taken = 0;
        self.bytes.extend_from_slice(bytes);
    }

    /// The next line; `None` when there is none yet.
    pub(crate) fn next(&mut self) -> Option<Line> {
        loop {
            let rest = &self.bytes[self.taken..];
            let Some(end) = rest.iter().position(|byte| *byte == b'\n') else {
                // One byte more than the longest may be the first half of its end.
                if !self.skipping && rest.len() > self.max + 1 {
                    let bad = self.too_long(rest);
                    (self.skipping, self.taken) = (true, self.bytes.len());
                    return Some(bad);
                }
                if self.skipping {
                    self.taken = self.bytes.len();
                }
                return None;
            };
            let line = rest[..end].strip_suffix(b"\r").unwrap_or(&rest[..end]);
            let found = if self.skipping { None } else { Some(self.judge(line)) };
            self.taken += end + 1;
            self.skipping = false;
            if found.is_some() {
                return found;
            }
        }
    }

    /// What is left when nothing more comes, if it is not the rest of something that was told.
    pub(crate) fn end(&mut self) -> Option<Line> {
        let rest = std::mem::take(&mut self.bytes).split_off(self.taken);
        self.taken = 0;
        let skipped = std::mem::take(&mut self.skipping);
        (!skipped && !rest.is_empty()).then(|| self.judge(rest.strip_suffix(b"\r").unwrap_or(&rest)))
    }

    fn judge(&self, line: &[u8]) -> Line {
        if line.len() > self.max {
            return self.too_long(line);
        }
        match std::str::from_utf8(line) {
            Ok(text) => Line::Whole(text.to_owned()),
            Err(_) => Line::Bad(shown(line), "the line is no UTF-8 text".into()),
        }
    }

    fn too_long(&self, line: &[u8]) -> Line {
        Line::Bad(shown(line), format!("the line is longer than {} bytes; see `maxLineBytes`", self.max))
    }
}

/// The beginning of what is bad.
fn shown(line: &[u8]) -> Vec<u8> {
    line[..line.len().min(MAX_RAW)].to_vec()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// All lines of a text that comes in pieces of one size, and what is left.
    fn cut(text: &[u8], size: usize, max: usize) -> (Vec<Line>, Option<Line>) {
        let mut lines = Lines::new(max);
        let mut found = Vec::new();
        for piece in text.chunks(size) {
            lines.push(piece);
            assert!(lines.bytes.len() <= max + size + 2, "bounded");
            while let Some(line) = lines.next() {
                found.push(line);
            }
        }
        let rest = lines.end();
        assert_eq!(lines.end(), None, "it is told once");
        (found, rest)
    }

    #[test]
    fn the_cut_of_the_bytes_changes_nothing() {
        let text = "a\r\nüb\n\n12345678\n123456789\r\nz\n123456789012345678901234567890\nlast".as_bytes();
        let whole = |text: &str| Line::Whole(text.into());
        for size in 1..text.len() {
            let (found, rest) = cut(text, size, 8);
            let is_bad = |line: &Line| matches!(line, Line::Bad(_, why) if why.contains("longer than 8 bytes"));
            assert_eq!(found[..4], [whole("a"), whole("üb"), whole(""), whole("12345678")], "{size}");
            assert!(is_bad(&found[4]) && found[5] == whole("z") && is_bad(&found[6]), "{size}: {found:?}");
            assert_eq!((found.len(), rest), (7, Some(whole("last"))), "{size}");
        }
    }

    #[test]
    fn what_is_no_text_costs_its_line() {
        let (found, rest) = cut(b"a\n\xff\xfe\nb\n", 3, 8);
        let bad = Line::Bad(vec![0xff, 0xfe], "the line is no UTF-8 text".into());
        assert_eq!((found, rest), (vec![Line::Whole("a".into()), bad, Line::Whole("b".into())], None));
    }

    #[test]
    fn a_long_line_without_an_end_is_told_once() {
        let (found, rest) = cut(&[b'x'; 5000], 100, 8);
        assert_eq!((found.len(), rest), (1, None));
    }
}

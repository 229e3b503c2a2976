//! Records of CSV text (RFC 4180), taken one by one from the bytes that are at hand.
//!
//! A field in double quotes may hold delimiters, line breaks and doubled quotes. A quote within a field that does not begin with one is a character like any other.
//! Lines end with LF or CR LF. The reader keeps nothing from record to record, so reading can begin at any of them.

/// One record. Its memory is used again for the next one.
#[derive(Debug, Default)]
pub struct Record {
    /// The fields' bytes, without quotes, one field after the other.
    data: Vec<u8>,
    /// Where each ends in `data`.
    ends: Vec<usize>,
    quoted: Vec<bool>,
}

/// One field of a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Field<'a> {
    /// What it says.
    pub bytes: &'a [u8],
    /// Whether it stood in quotes: an empty field without them is as good as none.
    pub quoted: bool,
}

/// What stands at the beginning of some bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// A record that takes this many bytes, its line end included.
    Record(usize),
    /// An empty line that takes this many bytes.
    Blank(usize),
    /// What is no record, and this many bytes to leave out before reading on.
    Malformed(usize, &'static str),
    /// A record that goes on behind the bytes.
    Incomplete,
}

impl Record {
    /// The number of fields.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Whether there are no fields, as before the first record.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// A field.
    pub fn get(&self, index: usize) -> Option<Field<'_>> {
        let end = *self.ends.get(index)?;
        let start = if index == 0 { 0 } else { self.ends[index - 1] };
        Some(Field { bytes: &self.data[start..end], quoted: self.quoted[index] })
    }

    /// Reads the record at the beginning of `bytes`. `last` says that nothing follows them. Quotes that are never closed cost their first line, so that one stray quote
    /// does not cost all lines below it.
    pub fn read(&mut self, bytes: &[u8], delimiter: u8, last: bool) -> Step {
        self.data.clear();
        self.ends.clear();
        self.quoted.clear();
        let mut at = 0;
        loop {
            at = match bytes.get(at) {
                Some(b'"') => match self.quoted_field(bytes, at + 1) {
                    Some(end) => end,
                    None if last => return Step::Malformed(line(bytes), "a field begins with a quote that is never closed"),
                    None => return Step::Incomplete,
                },
                _ => match self.plain_field(bytes, at, delimiter, last) {
                    Some(end) => end,
                    None => return Step::Incomplete,
                },
            };
            match &bytes[at..] {
                [first, ..] if *first == delimiter => at += 1,
                [b'\n', ..] => return self.ended(at + 1),
                [b'\r', b'\n', ..] => return self.ended(at + 2),
                [] | [b'\r'] if last => return self.ended(bytes.len()),
                [] | [b'\r'] => return Step::Incomplete,
                rest if last || rest.contains(&b'\n') => {
                    return Step::Malformed(at + line(rest), "text follows the closing quote of a field");
                }
                _ => return Step::Incomplete,
            }
        }
    }

    /// Takes a field from behind its opening quote; `None` if it is not closed. A quote at the very end may be the first half of a doubled one, which shows only when
    /// more bytes come.
    fn quoted_field(&mut self, bytes: &[u8], start: usize) -> Option<usize> {
        let mut at = start;
        loop {
            let length = bytes[at..].iter().position(|byte| *byte == b'"')?;
            self.data.extend_from_slice(&bytes[at..at + length]);
            at += length + 1;
            if bytes.get(at) != Some(&b'"') {
                self.end_field(true);
                return Some(at);
            }
            self.data.push(b'"');
            at += 1;
        }
    }

    fn plain_field(&mut self, bytes: &[u8], start: usize, delimiter: u8, last: bool) -> Option<usize> {
        let rest = &bytes[start..];
        let length = match rest.iter().position(|byte| *byte == delimiter || *byte == b'\n') {
            Some(length) => length,
            None if last => rest.len(),
            None => return None,
        };
        let ends_line = rest.get(length).is_none_or(|byte| *byte == b'\n');
        // The CR before a line's end belongs to it.
        let length = if ends_line && rest[..length].ends_with(b"\r") { length - 1 } else { length };
        self.data.extend_from_slice(&rest[..length]);
        self.end_field(false);
        Some(start + length)
    }

    fn end_field(&mut self, quoted: bool) {
        self.ends.push(self.data.len());
        self.quoted.push(quoted);
    }

    fn ended(&self, length: usize) -> Step {
        if self.len() == 1 && self.data.is_empty() && !self.quoted[0] { Step::Blank(length) } else { Step::Record(length) }
    }
}

/// The length of the first line, its end included.
fn line(bytes: &[u8]) -> usize {
    bytes.iter().position(|byte| *byte == b'\n').map_or(bytes.len(), |at| at + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// All records of a text; blank lines are left out and what is malformed is its reason.
    fn records(text: &str) -> Vec<Vec<String>> {
        let mut record = Record::default();
        let (mut bytes, mut all) = (text.as_bytes(), Vec::new());
        while !bytes.is_empty() {
            let length = match record.read(bytes, b',', true) {
                Step::Record(length) => {
                    let text = |index| String::from_utf8(record.get(index).unwrap().bytes.to_vec()).unwrap();
                    all.push((0..record.len()).map(text).collect());
                    length
                }
                Step::Malformed(length, why) => {
                    all.push(vec![why.to_owned()]);
                    length
                }
                Step::Blank(length) => length,
                Step::Incomplete => panic!("the last record is incomplete"),
            };
            bytes = &bytes[length..];
        }
        all
    }

    #[test]
    fn fields_with_quotes_delimiters_and_line_breaks() {
        assert_eq!(records("a,b\r\n1,\"x,\r\n\"\"y\"\"\"\n"), [["a", "b"], ["1", "x,\r\n\"y\""]]);
        assert_eq!(records("a,,\n,\n\"\",5\" pipe"), [vec!["a", "", ""], vec!["", ""], vec!["", "5\" pipe"]]);
        assert_eq!(records("a\rb,c\r"), [["a\rb", "c"]], "a CR within a line is no line end");
        assert_eq!(records("a,"), [["a", ""]]);
    }

    #[test]
    fn empty_lines_are_no_records_and_an_empty_field_in_quotes_is_one() {
        assert_eq!(records("\n\r\na\n\n\"\"\n\r"), [["a"], [""]]);
        let mut record = Record::default();
        assert!(record.is_empty());
        assert_eq!(record.read(b"\"\",", b',', true), Step::Record(3));
        assert_eq!(record.get(0), Some(Field { bytes: b"", quoted: true }));
        assert_eq!((record.get(1), record.get(2)), (Some(Field { bytes: b"", quoted: false }), None));
    }

    #[test]
    fn a_broken_record_costs_its_line() {
        let follows = "text follows the closing quote of a field";
        assert_eq!(records("\"a\"b,1\nc,2\n"), [vec![follows], vec!["c", "2"]]);
        assert_eq!(records("\"a\nb\" ,1\nc,2\n"), [vec![follows], vec!["c", "2"]]);
        let open = "a field begins with a quote that is never closed";
        assert_eq!(records("x,\"a\nc,2\nd,3"), [vec![open], vec!["c", "2"], vec!["d", "3"]]);
        assert_eq!(records("\"a"), [[open]]);
    }

    /// Whether more bytes follow must never change what a prefix is taken for: else a row would depend on how the file was read.
    #[test]
    fn a_cut_anywhere_is_incomplete_or_changes_nothing() {
        let mut record = Record::default();
        for text in ["a,\"b\"\"\r\nc\"\r\nd,e\n", "\"x\"y\nz\n", "\r\na\n", "\"\"\r\n", "a\r\r\nb\n"] {
            let whole = record.read(text.as_bytes(), b',', true);
            let fields: Vec<_> = (0..record.len()).map(|index| record.get(index).unwrap().bytes.to_vec()).collect();
            for cut in 0..text.len() {
                let step = record.read(&text.as_bytes()[..cut], b',', false);
                if step != Step::Incomplete {
                    assert_eq!(step, whole, "{text:?} cut at {cut}");
                    let cut_fields: Vec<_> = (0..record.len()).map(|index| record.get(index).unwrap().bytes.to_vec()).collect();
                    assert_eq!(cut_fields, fields, "{text:?} cut at {cut}");
                }
            }
        }
    }
}

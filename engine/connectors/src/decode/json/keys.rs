//! Which column a key belongs to.

use super::scan::{Kind, Token, unescape};

/// The names of columns.
#[derive(Debug)]
pub(super) struct Keys {
    names: Vec<Box<[u8]>>,
    /// Indices of `names`, by length and then by bytes.
    sorted: Vec<usize>,
    /// Where the next key is expected, which most writers keep to.
    next: usize,
    scratch: Vec<u8>,
}

impl Keys {
    pub(super) fn new<'a>(names: impl Iterator<Item = &'a str>) -> Self {
        let names: Vec<Box<[u8]>> = names.map(|name| name.as_bytes().into()).collect();
        let mut sorted: Vec<usize> = (0..names.len()).collect();
        sorted.sort_by_key(|index| (names[*index].len(), &*names[*index]));
        Keys { names, sorted, next: 0, scratch: Vec::new() }
    }

    /// The column of a key of `row`.
    #[inline]
    pub(super) fn find(&mut self, row: &[u8], key: Token) -> Option<usize> {
        let span = &row[key.start as usize..key.end as usize];
        if key.kind == Kind::Escaped {
            self.scratch.clear();
            unescape(span, &mut self.scratch);
            return Self::search(&self.names, &self.sorted, &self.scratch);
        }
        let names = &self.names;
        if names.get(self.next).is_some_and(|name| **name == *span) {
            self.next += 1;
            return Some(self.next - 1);
        }
        let found = Self::search(names, &self.sorted, span);
        if let Some(found) = found {
            self.next = found + 1;
        }
        found
    }

    fn search(names: &[Box<[u8]>], sorted: &[usize], key: &[u8]) -> Option<usize> {
        let at = sorted.binary_search_by_key(&(key.len(), key), |index| (names[*index].len(), &*names[*index])).ok()?;
        Some(sorted[at])
    }

    /// The next key is the first of its object.
    pub(super) fn begin(&mut self) {
        self.next = 0;
    }
}

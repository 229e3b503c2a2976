//! A vector in chunks that never move: growing copies nothing and never holds the values twice.

const BITS: u32 = 12;
/// Values per chunk.
const CHUNK: usize = 1 << BITS;

/// See the module's documentation. The first chunk grows with its values, so that few of them cost little.
#[derive(Debug)]
pub(crate) struct Chunked<T> {
    chunks: Vec<Vec<T>>,
    len: usize,
}

impl<T> Default for Chunked<T> {
    fn default() -> Self {
        Chunked { chunks: Vec::new(), len: 0 }
    }
}

impl<T: Copy> Chunked<T> {
    /// How many values there are.
    #[inline(always)]
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Adds a value behind the others.
    #[inline]
    pub(crate) fn push(&mut self, value: T) {
        if self.len & (CHUNK - 1) == 0 {
            self.begin();
        }
        self.chunks[self.len >> BITS].push(value);
        self.len += 1;
    }

    #[cold]
    fn begin(&mut self) {
        // A cleared vector keeps its first chunk.
        if self.len > 0 {
            self.chunks.push(Vec::with_capacity(CHUNK));
        } else if self.chunks.is_empty() {
            self.chunks.push(Vec::new());
        }
    }

    /// The value at a place.
    ///
    /// # Panics
    /// Beyond the last one.
    #[inline(always)]
    pub(crate) fn get(&self, index: usize) -> T {
        self.chunks[index >> BITS][index & (CHUNK - 1)]
    }

    /// The value at a place, to be changed.
    ///
    /// # Panics
    /// Beyond the last one.
    #[inline(always)]
    pub(crate) fn get_mut(&mut self, index: usize) -> &mut T {
        &mut self.chunks[index >> BITS][index & (CHUNK - 1)]
    }

    /// All values in order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = T> + '_ {
        self.chunks.iter().flatten().copied()
    }

    /// Forgets the values, and keeps the memory of one chunk.
    pub(crate) fn clear(&mut self) {
        self.chunks.truncate(1);
        self.chunks.iter_mut().for_each(Vec::clear);
        self.len = 0;
    }

    /// Memory held.
    pub(crate) fn bytes(&self) -> usize {
        self.chunks.iter().map(|chunk| chunk.capacity() * size_of::<T>()).sum()
    }
}

impl<T: Copy> FromIterator<T> for Chunked<T> {
    fn from_iter<I: IntoIterator<Item = T>>(values: I) -> Self {
        let mut chunked = Chunked::default();
        values.into_iter().for_each(|value| chunked.push(value));
        chunked
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_found_by_their_place_also_after_clearing() {
        for count in [0, 1, CHUNK - 1, CHUNK, CHUNK + 1, 3 * CHUNK + 7] {
            let mut chunked: Chunked<usize> = (0..count).collect();
            for _ in 0..2 {
                assert_eq!((chunked.len(), chunked.iter().count()), (count, count));
                (0..count).for_each(|index| *chunked.get_mut(index) += 1);
                assert!((0..count).all(|index| chunked.get(index) == index + 1));
                assert!(chunked.bytes() >= count * 8 && chunked.bytes() <= count.next_multiple_of(CHUNK).max(4) * 8);
                chunked.clear();
                assert_eq!((chunked.len(), chunked.iter().next()), (0, None));
                (0..count).for_each(|index| chunked.push(index));
            }
        }
    }
}

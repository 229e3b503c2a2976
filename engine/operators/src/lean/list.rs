//! The candidates of one group in their order: one vector while they are few, blocks once they are many.

/// A row that may be ranked: the first bits of its place, the last, and its number in the store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) head: u64,
    pub(crate) hash: u64,
    pub(crate) id: u32,
}

/// Entries that one vector holds at most.
const BLOCK: usize = 512;

/// See the module's documentation.
#[derive(Debug)]
pub(crate) enum List {
    Flat(Vec<Entry>),
    /// None of them is empty.
    Blocks(Vec<Vec<Entry>>),
}

/// The order of two entries; equal ones are told apart by their number, which is the order of arrival.
pub(crate) trait Compare: Fn(&Entry, &Entry) -> std::cmp::Ordering {}
impl<F: Fn(&Entry, &Entry) -> std::cmp::Ordering> Compare for F {}

impl List {
    /// None.
    pub(crate) fn new() -> Self {
        List::Flat(Vec::new())
    }

    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        match self {
            List::Flat(entries) => entries.len(),
            List::Blocks(blocks) => blocks.iter().map(Vec::len).sum(),
        }
    }

    /// Whether there is none.
    pub(crate) fn is_empty(&self) -> bool {
        match self {
            List::Flat(entries) => entries.is_empty(),
            List::Blocks(blocks) => blocks.is_empty(),
        }
    }

    /// The last one.
    pub(crate) fn last(&self) -> Option<&Entry> {
        match self {
            List::Flat(entries) => entries.last(),
            List::Blocks(blocks) => blocks.last().and_then(|block| block.last()),
        }
    }

    /// All of them in order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Entry> + Clone {
        let (flat, blocks): (&[Entry], &[Vec<Entry>]) = match self {
            List::Flat(entries) => (entries, &[]),
            List::Blocks(blocks) => (&[], blocks),
        };
        flat.iter().chain(blocks.iter().flatten())
    }

    /// All of them, to be changed in what does not order them.
    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Entry> {
        let (flat, blocks): (&mut [Entry], &mut [Vec<Entry>]) = match self {
            List::Flat(entries) => (entries, &mut []),
            List::Blocks(blocks) => (&mut [], blocks),
        };
        flat.iter_mut().chain(blocks.iter_mut().flatten())
    }

    /// Adds one behind those that it does not precede. There will be no more than `most`, for which memory is asked.
    pub(crate) fn insert(&mut self, entry: Entry, most: usize, compare: impl Compare) {
        match self {
            List::Flat(entries) => {
                if entries.len() == entries.capacity() {
                    let more = entries.len().max(4).min(most.saturating_sub(entries.len())).max(1);
                    entries.reserve_exact(more);
                }
                let at = entries.partition_point(|other| compare(other, &entry).is_le());
                entries.insert(at, entry);
                if entries.len() > BLOCK {
                    let second = entries.split_off(BLOCK / 2);
                    *self = List::Blocks(vec![std::mem::take(entries), second]);
                }
            }
            List::Blocks(blocks) => {
                let last = |block: &Vec<Entry>| block.last().is_some_and(|last| compare(last, &entry).is_le());
                let at = blocks.partition_point(last).min(blocks.len().saturating_sub(1));
                let Some(block) = blocks.get_mut(at) else {
                    *self = List::Flat(vec![entry]);
                    return;
                };
                let within = block.partition_point(|other| compare(other, &entry).is_le());
                block.insert(within, entry);
                if block.len() > BLOCK {
                    let second = block.split_off(BLOCK / 2);
                    blocks.insert(at + 1, second);
                }
            }
        }
    }

    /// Takes one out that is there.
    pub(crate) fn remove(&mut self, entry: &Entry, compare: impl Compare) -> bool {
        let before = |other: &Entry| compare(other, entry).is_lt();
        match self {
            List::Flat(entries) => take_out(entries, entry, before),
            List::Blocks(blocks) => {
                let mut at = blocks.partition_point(|block| block.last().is_some_and(before));
                while let Some(block) = blocks.get_mut(at) {
                    if take_out(block, entry, before) {
                        if block.is_empty() {
                            blocks.remove(at);
                        }
                        return true;
                    }
                    // Equal ones may reach over the edge of a block.
                    if block.last().is_some_and(|last| compare(last, entry).is_gt()) {
                        break;
                    }
                    at += 1;
                }
                false
            }
        }
    }

    /// Takes the last one out.
    pub(crate) fn pop(&mut self) -> Option<Entry> {
        match self {
            List::Flat(entries) => entries.pop(),
            List::Blocks(blocks) => {
                let block = blocks.last_mut()?;
                let entry = block.pop();
                if block.is_empty() {
                    blocks.pop();
                }
                entry
            }
        }
    }

    /// Memory held beside the list itself.
    pub(crate) fn bytes(&self) -> usize {
        let of = |block: &Vec<Entry>| block.capacity() * size_of::<Entry>();
        match self {
            List::Flat(entries) => of(entries),
            List::Blocks(blocks) => blocks.iter().map(|block| of(block) + size_of::<Vec<Entry>>()).sum(),
        }
    }
}

fn take_out(entries: &mut Vec<Entry>, entry: &Entry, before: impl Fn(&Entry) -> bool) -> bool {
    let from = entries.partition_point(before);
    let found = entries[from..].iter().take_while(|other| other.head == entry.head).position(|other| other.id == entry.id);
    if let Some(at) = found {
        entries.remove(from + at);
    }
    found.is_some()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(32))]

        #[test]
        fn a_list_is_a_sorted_vector_whatever_its_size(acts in prop::collection::vec((any::<bool>(), 0u64..300, any::<u16>()), 0..4000)) {
            let compare = |a: &Entry, b: &Entry| (a.head, a.hash).cmp(&(b.head, b.hash));
            let (mut list, mut plain) = (List::new(), Vec::<Entry>::new());
            for (id, (add, head, pick)) in acts.into_iter().enumerate() {
                if add || plain.is_empty() || id < 1500 {
                    let entry = Entry { head, hash: head % 3, id: id as u32 };
                    list.insert(entry, usize::MAX, compare);
                    let at = plain.partition_point(|other| compare(other, &entry).is_le());
                    plain.insert(at, entry);
                } else if pick % 5 == 0 {
                    prop_assert_eq!(list.pop(), plain.pop());
                } else {
                    let entry = plain.remove(usize::from(pick) % plain.len());
                    prop_assert!(list.remove(&entry, compare));
                    prop_assert!(!list.remove(&entry, compare));
                }
                prop_assert_eq!((list.len(), list.last(), list.is_empty()), (plain.len(), plain.last(), plain.is_empty()));
            }
            prop_assert_eq!(list.iter().copied().collect::<Vec<_>>(), plain);
        }
    }
}

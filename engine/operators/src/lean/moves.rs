//! Rows that move from the chunks of a store that are dead in part to its end.

use super::store::{BITS, CHUNK, Store};
use tidegate_api::Result;

/// Per chunk that was emptied, the new numbers of its rows by their place in it.
#[derive(Debug)]
pub(crate) struct Moves(Vec<Option<Vec<u32>>>);

fn chunk_of(id: u32) -> usize {
    (id >> BITS) as usize
}

impl Moves {
    /// Empties the chunks of which a quarter is dead; `living` are the numbers of the rows that are not. Whoever does this once half
    /// as many are dead as alive moves a row a few times at most: at least a sixth of what lives has to die in between.
    ///
    /// # Errors
    /// `Internal` when a kernel fails.
    pub(crate) fn make(store: &mut Store, living: impl Iterator<Item = u32> + Clone) -> Result<Moves> {
        let mut counts = vec![0usize; store.end() / CHUNK];
        living.clone().for_each(|id| counts[chunk_of(id)] += 1);
        let is_left = |(chunk, count): (usize, &usize)| store.is_full(chunk) && count * 4 <= CHUNK * 3;
        let mut moving: Vec<Option<Vec<u32>>> =
            counts.iter().enumerate().map(|place| is_left(place).then(|| Vec::with_capacity(*place.1))).collect();
        for id in living {
            if let Some(ids) = &mut moving[chunk_of(id)] {
                ids.push(id);
            }
        }
        for (chunk, ids) in moving.iter_mut().enumerate() {
            let Some(old) = ids else { continue };
            old.sort_unstable();
            let mut new = Vec::with_capacity(old.len());
            store.evacuate(chunk, old, &mut new)?;
            let mut by_place = vec![0; CHUNK];
            for (from, to) in old.iter().zip(new) {
                by_place[*from as usize & (CHUNK - 1)] = to;
            }
            *ids = Some(by_place);
        }
        Ok(Moves(moving))
    }

    /// The number of a living row now.
    #[inline]
    pub(crate) fn number(&self, id: u32) -> u32 {
        self.0[chunk_of(id)].as_ref().map_or(id, |by_place| by_place[id as usize & (CHUNK - 1)])
    }
}

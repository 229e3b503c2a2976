//! Which groups have met a value that is not null.

use arrow::buffer::NullBuffer;

/// One bit of knowledge per group, kept only once it is needed: while no null was ever met, every group has met a value.
#[derive(Debug, Default)]
pub(super) struct Seen {
    groups: usize,
    flags: Option<Vec<bool>>,
}

impl Seen {
    /// Takes rows of `groups`, of which those that `nulls` leaves valid have a value; there are `total` groups from now on.
    pub(super) fn update(&mut self, groups: &[u32], total: usize, nulls: Option<&NullBuffer>) {
        let nulls = nulls.filter(|nulls| nulls.null_count() > 0);
        let before = std::mem::replace(&mut self.groups, total);
        let flags = match (&mut self.flags, nulls) {
            (None, None) => return,
            (Some(flags), _) => flags,
            (none, Some(_)) => none.insert(vec![true; before]),
        };
        flags.resize(total, false);
        match nulls {
            None => groups.iter().for_each(|group| flags[*group as usize] = true),
            Some(nulls) => nulls.valid_indices().for_each(|row| flags[groups[row] as usize] = true),
        }
    }

    /// The groups that have met none, as nulls of a result.
    pub(super) fn nulls(&self) -> Option<NullBuffer> {
        let flags = self.flags.as_ref().filter(|flags| flags.contains(&false))?;
        Some(NullBuffer::from(flags.as_slice()))
    }

    /// The same of some groups.
    pub(super) fn select(&self, groups: &[u32]) -> Self {
        Seen { groups: groups.len(), flags: self.flags.as_ref().map(|flags| super::gathered(flags, groups)) }
    }

    /// Forgets the groups.
    pub(super) fn clear(&mut self) {
        *self = Seen::default();
    }

    /// Memory held.
    pub(super) fn bytes(&self) -> usize {
        self.flags.as_ref().map_or(0, Vec::capacity)
    }
}

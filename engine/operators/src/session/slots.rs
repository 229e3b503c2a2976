//! The sessions of a task as columns, and the earliest start of them.

/// A start that no session has.
const GONE: i64 = i64::MAX;
const BLOCK: usize = 1024;

/// Sessions by number. A number is an index into every accumulator too.
#[derive(Debug, Default)]
pub(super) struct Slots {
    starts: Vec<i64>,
    lasts: Vec<i64>,
    keys: Vec<u32>,
    /// The rows of one millisecond, which wait for the watermark.
    waiting: Vec<bool>,
    /// The session it went into; itself as long as it is one of its own.
    into: Vec<u32>,
    /// The earliest start of each block, and whether it must be looked for anew.
    earliest: Vec<i64>,
    stale: Vec<bool>,
    gone: usize,
}

impl Slots {
    /// How many numbers are given away, those of gone sessions included.
    pub(super) fn len(&self) -> usize {
        self.starts.len()
    }

    /// How many sessions are gone.
    pub(super) fn gone(&self) -> usize {
        self.gone
    }

    /// Adds a session.
    pub(super) fn add(&mut self, key: u32, start: i64, last: i64, waiting: bool) -> u32 {
        // More than four billion sessions would have met the memory limit long before.
        let slot = u32::try_from(self.starts.len()).ok().filter(|slot| *slot != u32::MAX).expect("a task holds fewer than 2^32 sessions");
        self.starts.push(GONE);
        self.lasts.push(last);
        self.keys.push(key);
        self.waiting.push(waiting);
        self.into.push(slot);
        if self.earliest.len() * BLOCK < self.starts.len() {
            self.earliest.push(GONE);
            self.stale.push(false);
        }
        self.lower(slot, start);
        slot
    }

    /// Moves a start towards the past.
    pub(super) fn lower(&mut self, slot: u32, start: i64) {
        self.starts[slot as usize] = start;
        let block = &mut self.earliest[slot as usize / BLOCK];
        *block = (*block).min(start);
    }

    /// Moves the last row's time on.
    pub(super) fn extend(&mut self, slot: u32, last: i64) {
        self.lasts[slot as usize] = last;
    }

    /// When a session began.
    #[inline(always)]
    pub(super) fn start(&self, slot: u32) -> i64 {
        self.starts[slot as usize]
    }

    /// When its last row was.
    #[inline(always)]
    pub(super) fn last(&self, slot: u32) -> i64 {
        self.lasts[slot as usize]
    }

    /// Whose it is.
    pub(super) fn key(&self, slot: u32) -> u32 {
        self.keys[slot as usize]
    }

    /// Whether it waits for the watermark.
    pub(super) fn waits(&self, slot: u32) -> bool {
        self.waiting[slot as usize]
    }

    /// It has waited long enough.
    pub(super) fn form(&mut self, slot: u32) {
        self.waiting[slot as usize] = false;
    }

    /// Whether it is there.
    pub(super) fn is_open(&self, slot: u32) -> bool {
        self.starts[slot as usize] != GONE
    }

    /// Takes a session away.
    pub(super) fn remove(&mut self, slot: u32) {
        self.starts[slot as usize] = GONE;
        self.stale[slot as usize / BLOCK] = true;
        self.gone += 1;
    }

    /// One session becomes part of another.
    pub(super) fn join(&mut self, slot: u32, into: u32) {
        if self.start(slot) < self.start(into) {
            self.lower(into, self.start(slot));
        }
        self.extend(into, self.last(into).max(self.last(slot)));
        self.into[slot as usize] = into;
        self.remove(slot);
    }

    /// Where the rows of a session have gone.
    pub(super) fn root(&self, mut slot: u32) -> u32 {
        while self.into[slot as usize] != slot {
            slot = self.into[slot as usize];
        }
        slot
    }

    /// The sessions that are there.
    pub(super) fn open(&self) -> Vec<u32> {
        (0..self.len() as u32).filter(|slot| self.is_open(*slot)).collect()
    }

    /// Brings the earliest start up to date.
    pub(super) fn refresh(&mut self) {
        for (block, stale) in self.stale.iter_mut().enumerate().filter(|(_, stale)| **stale) {
            let end = ((block + 1) * BLOCK).min(self.starts.len());
            self.earliest[block] = self.starts[block * BLOCK..end].iter().copied().min().unwrap_or(GONE);
            *stale = false;
        }
    }

    /// The earliest start as of the last refresh, or before it; `None` when there is no session.
    pub(super) fn earliest(&self) -> Option<i64> {
        self.earliest.iter().copied().min().filter(|start| *start != GONE)
    }

    /// Memory held.
    pub(super) fn bytes(&self) -> usize {
        self.starts.capacity() * 16 + self.keys.capacity() * 9
    }
}

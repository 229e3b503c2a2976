//! The sessions of a task by number, and the earliest start of them.

/// No session.
pub(super) const NONE: u32 = u32::MAX;
/// In place of the session before one: those before it are in the ordered map.
pub(super) const MANY: u32 = u32::MAX - 1;
/// A start that no session has.
const GONE: i64 = i64::MAX;
const BLOCK: usize = 1024;

/// One session, in half a cache line.
#[derive(Debug, Clone, Copy)]
pub(super) struct Slot {
    pub(super) start: i64,
    pub(super) last: i64,
    pub(super) key: u32,
    /// The session of the same key before it, [`NONE`], or [`MANY`].
    pub(super) before: u32,
    /// The session it went into; itself as long as it is one of its own.
    into: u32,
    /// The rows of one millisecond, which wait for the watermark.
    waiting: bool,
    /// It took rows since it was last told of.
    changed: bool,
}

/// Sessions by number. A number is an index into every accumulator too.
#[derive(Debug, Default)]
pub(super) struct Slots {
    all: Vec<Slot>,
    /// The earliest start of each block, and whether it must be looked for anew.
    earliest: Vec<i64>,
    stale: Vec<bool>,
    gone: usize,
}

impl Slots {
    /// How many numbers are given away, those of gone sessions included.
    pub(super) fn len(&self) -> usize {
        self.all.len()
    }

    /// How many sessions are gone.
    pub(super) fn gone(&self) -> usize {
        self.gone
    }

    /// Adds a session.
    pub(super) fn add(&mut self, key: u32, start: i64, last: i64, waiting: bool) -> u32 {
        // More than four billion sessions would have met the memory limit long before.
        let slot = u32::try_from(self.all.len()).ok().filter(|slot| *slot < MANY).expect("a task holds fewer than 2^32 - 1 sessions");
        self.all.push(Slot { start, last, key, before: NONE, into: slot, waiting, changed: false });
        if self.earliest.len() * BLOCK < self.all.len() {
            self.earliest.push(GONE);
            self.stale.push(false);
        }
        self.lower_block(slot, start);
        slot
    }

    #[inline(always)]
    fn lower_block(&mut self, slot: u32, start: i64) {
        let block = &mut self.earliest[slot as usize / BLOCK];
        *block = (*block).min(start);
    }

    /// Moves a start towards the past.
    pub(super) fn lower(&mut self, slot: u32, start: i64) {
        self.all[slot as usize].start = start;
        self.lower_block(slot, start);
    }

    /// Moves the last row's time on.
    pub(super) fn extend(&mut self, slot: u32, last: i64) {
        self.all[slot as usize].last = last;
    }

    /// The session itself.
    #[inline(always)]
    pub(super) fn at(&mut self, slot: u32) -> &mut Slot {
        &mut self.all[slot as usize]
    }

    /// A copy of the session.
    pub(super) fn get(&self, slot: u32) -> Slot {
        self.all[slot as usize]
    }

    /// When a session began.
    #[inline(always)]
    pub(super) fn start(&self, slot: u32) -> i64 {
        self.all[slot as usize].start
    }

    /// When its last row was.
    #[inline(always)]
    pub(super) fn last(&self, slot: u32) -> i64 {
        self.all[slot as usize].last
    }

    /// The session of the same key before it, [`NONE`], or [`MANY`].
    #[inline(always)]
    pub(super) fn before(&self, slot: u32) -> u32 {
        self.all[slot as usize].before
    }

    /// Whose it is.
    pub(super) fn key(&self, slot: u32) -> u32 {
        self.all[slot as usize].key
    }

    /// Whether it waits for the watermark.
    pub(super) fn waits(&self, slot: u32) -> bool {
        self.all[slot as usize].waiting
    }

    /// It has waited long enough.
    pub(super) fn form(&mut self, slot: u32) {
        self.all[slot as usize].waiting = false;
    }

    /// Whether it took rows since it was last told of; only where sessions are told of more than once.
    pub(super) fn has_changed(&self, slot: u32) -> bool {
        self.all[slot as usize].changed
    }

    /// Says so.
    pub(super) fn set_changed(&mut self, slot: u32, changed: bool) {
        self.all[slot as usize].changed = changed;
    }

    /// Whether it is there.
    pub(super) fn is_open(&self, slot: u32) -> bool {
        self.all[slot as usize].start != GONE
    }

    /// Takes a session away.
    pub(super) fn remove(&mut self, slot: u32) {
        self.all[slot as usize].start = GONE;
        self.stale[slot as usize / BLOCK] = true;
        self.gone += 1;
    }

    /// One session becomes part of another.
    pub(super) fn join(&mut self, slot: u32, into: u32) {
        if self.start(slot) < self.start(into) {
            self.lower(into, self.start(slot));
        }
        self.extend(into, self.last(into).max(self.last(slot)));
        self.all[into as usize].changed |= self.all[slot as usize].changed;
        self.all[slot as usize].into = into;
        self.remove(slot);
    }

    /// Where the rows of a session have gone.
    pub(super) fn root(&self, mut slot: u32) -> u32 {
        while self.all[slot as usize].into != slot {
            slot = self.all[slot as usize].into;
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
            let end = ((block + 1) * BLOCK).min(self.all.len());
            self.earliest[block] = self.all[block * BLOCK..end].iter().map(|slot| slot.start).min().unwrap_or(GONE);
            *stale = false;
        }
    }

    /// The earliest start as of the last refresh, or before it; `None` when there is no session.
    pub(super) fn earliest(&self) -> Option<i64> {
        self.earliest.iter().copied().min().filter(|start| *start != GONE)
    }

    /// When the last row of all sessions was; `None` when there is no session. Looks at each.
    pub(super) fn latest(&self) -> Option<i64> {
        self.all.iter().filter(|slot| slot.start != GONE).map(|slot| slot.last).max()
    }

    /// Memory held.
    pub(super) fn bytes(&self) -> usize {
        self.all.capacity() * size_of::<Slot>()
    }
}

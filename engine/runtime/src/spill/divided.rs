//! An operator task in parts.

use super::file::SpillFile;
use super::log::Entry;
use super::part::{Part, Piece, Told};
use super::pool::{Member, shown};
use super::whole::Place;
use crate::exchange::Exchange;
use crate::size::batch_bytes;
use arrow::array::RecordBatch;
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;
use tidegate_api::{
    Counter, Epoch, Error, EventTime, Flow, Operator, OperatorCtx, OperatorFactory, Output, PieceId, Result, StatePiece, VnodeRange,
    Watermark,
};

/// Parts of a task at most: each has a file open.
const MOST: usize = 64;
/// How often parts that lie on disk catch up when the task has nothing else to do.
const PATIENCE: Duration = Duration::from_secs(1);
/// An operator takes something for itself, however little it holds.
const OVERHEAD: u64 = 1 << 20;
/// Entries of a log worked through in one portion.
const ENTRIES: usize = 8;
/// Waiting rows on disk that are always allowed, because a round through all parts should be worth it.
const WAITING: u64 = 1 << 20;

/// See the module's documentation.
pub(super) struct Divided {
    factory: Arc<dyn OperatorFactory>,
    ctx: OperatorCtx,
    place: Place,
    member: Member,
    /// Per input, deals rows out among the parts.
    exchanges: Vec<Exchange>,
    parts: Vec<Part>,
    /// An operator that gets no rows and hears of all inputs: it says which of them are to be held, which every part would say alike
    /// if it were in memory.
    pilot: Box<dyn Operator>,
    /// Where the waiting rows of all parts lie.
    waiting: Arc<SpillFile>,
    /// Names parts, pieces and moments, each once.
    numbers: usize,
    ids: u64,
    moments: u64,
    watermark: EventTime,
    /// Through which part a watermark has been told.
    advancing: Option<usize>,
    /// The next part to be asked what the clock made due.
    ticking: usize,
    /// The next part to be drained, once that has begun.
    draining: Option<usize>,
    catching: Option<Catching>,
    /// Whether parts on disk must catch up before more is taken.
    pub(super) is_due: bool,
    /// Whether parts in memory must leave before more is taken.
    pub(super) is_tight: bool,
    caught_up: bool,
    last_round: Duration,
    unmeasured: u64,
    named: Vec<PieceId>,
}

/// A part that works through its log.
struct Catching {
    part: usize,
    entries: VecDeque<Entry>,
    /// A watermark that is not worked through yet.
    at: Option<EventTime>,
}

/// What a task's state is divided from.
pub(super) struct Inheritance {
    pub(super) pieces: Vec<Piece>,
    /// What it takes in memory, about.
    pub(super) bytes: u64,
    pub(super) watermark: EventTime,
    /// What it has been told of inputs.
    pub(super) told: Told,
    pub(super) next_id: u64,
}

impl Divided {
    /// Divides a task whose whole state lies in these pieces.
    pub(super) fn new(
        factory: Arc<dyn OperatorFactory>,
        ctx: OperatorCtx,
        place: Place,
        member: Member,
        from: Inheritance,
    ) -> Result<Self> {
        let waiting = SpillFile::create(&place.folder)?;
        let vnodes = usize::from(ctx.vnodes.end - ctx.vnodes.start);
        // So many that one part is a small part of the budget.
        let parts = usize::try_from(from.bytes.saturating_mul(8) / member.budget().max(1)).unwrap_or(MOST).clamp(8, MOST).min(vnodes);
        let last_round = ctx.clock.monotonic();
        let mut apart = ctx.clone();
        apart.state_bytes = Counter::new();
        let mut pilot = factory.open(apart)?;
        from.told.tell(pilot.as_mut());
        let mut divided = Divided {
            factory,
            ctx,
            place,
            member,
            exchanges: Vec::new(),
            parts: Vec::new(),
            pilot,
            waiting,
            numbers: 0,
            ids: from.next_id,
            moments: 0,
            watermark: from.watermark,
            advancing: None,
            ticking: 0,
            draining: None,
            catching: None,
            is_due: false,
            is_tight: false,
            caught_up: false,
            last_round,
            unmeasured: 0,
            named: Vec::new(),
        };
        divided.parts = divided.divide(divided.ctx.vnodes, parts, &from.pieces, &from.told)?;
        divided.deal();
        divided.measure();
        Ok(divided)
    }

    /// Parts of a range of vnodes, with the state of these pieces, all on disk.
    fn divide(&mut self, vnodes: VnodeRange, parts: usize, pieces: &[Piece], told: &Told) -> Result<Vec<Part>> {
        let count = vnodes.end - vnodes.start;
        let mut made = Vec::with_capacity(parts);
        for part in 0..parts {
            let own = VnodeRange::of_task(part, parts, count);
            let own = VnodeRange { start: vnodes.start + own.start, end: vnodes.start + own.end };
            let theirs = pieces.iter().filter(|piece| piece.vnodes.overlaps(own)).cloned().collect();
            let mut part = Part::new(&self.ctx, self.numbers, own, theirs, told, &self.place.folder)?;
            self.numbers += 1;
            part.load(self.factory.as_ref())?;
            self.put_aside(&mut part)?;
            made.push(part);
        }
        Ok(made)
    }

    fn put_aside(&mut self, part: &mut Part) -> Result<()> {
        self.moments += 1;
        // Beyond every epoch, so that the names of pieces never meet.
        part.save(Epoch((1 << 62) + self.moments), &mut self.ids, &self.place.folder)?;
        part.leave(self.watermark);
        self.place.spills.add(1);
        Ok(())
    }

    /// Makes the exchanges for the parts as they are.
    fn deal(&mut self) {
        let ranges: Vec<VnodeRange> = self.parts.iter().map(Part::vnodes).collect();
        let exchange = |columns: &Vec<usize>| Exchange::among(columns.clone(), &ranges, self.ctx.vnode_count);
        self.exchanges = self.place.keys.iter().map(exchange).collect();
    }

    fn measure(&mut self) {
        self.parts.iter_mut().for_each(Part::measure);
        self.account();
    }

    fn resident(&self) -> u64 {
        self.parts.iter().filter(|part| part.operator.is_some()).map(Part::bytes).sum()
    }

    fn account(&mut self) {
        let open: u64 = self.parts.iter().map(|part| part.log.open_bytes()).sum();
        let filed = |part: &Part| if part.operator.is_some() { 0 } else { part.filed_bytes() } + part.log.filed_bytes();
        let aside: u64 = self.parts.iter().map(filed).sum();
        let resident = self.resident();
        self.member.set(resident + open);
        self.ctx.state_bytes.set(resident + open + aside);
        self.place.aside.set(aside);
        self.is_tight |= resident > self.member.budget();
    }

    /// Whether rows or watermarks wait that a part has not seen.
    pub(super) fn is_behind(&self) -> bool {
        self.catching.is_some() || self.parts.iter().any(|part| !part.log.is_empty())
    }

    /// Writes waiting rows once enough are in memory, and asks for a round once enough wait on disk.
    fn settle_waiting(&mut self) -> Result<()> {
        let open: u64 = self.parts.iter().map(|part| part.log.open_bytes()).sum();
        if open > self.member.budget() / 4 {
            for part in &mut self.parts {
                part.log.flush(&self.waiting)?;
            }
            let waiting: u64 = self.parts.iter().map(|part| part.log.filed_bytes()).sum();
            let state: u64 = self.parts.iter().map(Part::filed_bytes).sum();
            self.is_due |= waiting > WAITING.max(self.member.budget()).max(state / 2);
            self.account();
        }
        Ok(())
    }

    fn is_in_memory(&self, part: usize) -> bool {
        self.parts[part].operator.is_some() && self.catching.as_ref().is_none_or(|catching| catching.part != part)
    }

    /// Brings parts out of memory, the largest first, until `room` is left of the budget. All of them must be at rest.
    fn make_room(&mut self, room: u64) -> Result<()> {
        while self.resident().saturating_add(room) > self.member.budget() {
            let in_memory = (0..self.parts.len()).filter(|part| self.is_in_memory(*part));
            let Some(largest) = in_memory.max_by_key(|part| self.parts[*part].bytes()) else { break };
            self.take_out(largest)?;
        }
        Ok(())
    }

    fn take_out(&mut self, index: usize) -> Result<()> {
        let mut part = self.parts.remove(index);
        let vnodes = part.vnodes();
        let count = vnodes.end - vnodes.start;
        let too_large = part.bytes() > self.member.budget() / 2;
        self.put_aside(&mut part)?;
        if too_large && count > 1 && self.parts.len() + 1 < MOST && self.draining.is_none() {
            let halves = self.divide(vnodes, 2, &part.pieces, part.told())?;
            self.parts.splice(index..index, halves);
            if let Some(catching) = self.catching.as_mut().filter(|catching| catching.part > index) {
                catching.part += 1;
            }
            self.advancing = self.advancing.map(|at| if at > index { at + 1 } else { at });
            self.deal();
            return Ok(());
        }
        if part.bytes() > self.member.limit().max(OVERHEAD) && count == 1 {
            return Err(Error::limit(format!(
                "stage `{}`: the state of one key, of keys that hash alike, or of one split under `keyBy = false`, takes {}, and what cannot be \
                 divided must have room in `maxMemory`; raise it, shorten windows or `ttl`, group by more columns, or leave `keyBy = false` out",
                self.ctx.run.operator,
                shown(part.bytes()),
            )));
        }
        self.parts.insert(index, part);
        Ok(())
    }

    /// One portion of bringing every part up to date.
    fn catch_up(&mut self, out: &mut Output) -> Result<Flow> {
        for _ in 0..ENTRIES {
            if self.catching.is_none() {
                let Some(part) = (0..self.parts.len()).find(|part| !self.parts[*part].log.is_empty()) else {
                    return self.end_round();
                };
                self.make_room(self.parts[part].bytes())?;
                // Making room may have divided a part before this one.
                let Some(part) = (0..self.parts.len()).find(|part| !self.parts[*part].log.is_empty()) else { continue };
                self.parts[part].load(self.factory.as_ref())?;
                self.catching = Some(Catching { part, entries: VecDeque::new(), at: None });
            }
            self.replay(out)?;
            if !out.batches.is_empty() || !out.late.is_empty() || !out.bad.is_empty() {
                break;
            }
        }
        Ok(Flow::More)
    }

    fn end_round(&mut self) -> Result<Flow> {
        if self.waiting.length() > 0 {
            self.waiting = SpillFile::create(&self.place.folder)?;
        }
        self.is_due = false;
        self.caught_up = true;
        self.last_round = self.ctx.clock.monotonic();
        self.account();
        Ok(Flow::Done)
    }

    /// The next entry of the part that catches up.
    fn replay(&mut self, out: &mut Output) -> Result<()> {
        let Some(mut catching) = self.catching.take() else { return Ok(()) };
        let part = &mut self.parts[catching.part];
        let Some(operator) = &mut part.operator else { return Err(Error::internal("a part catches up outside of memory")) };
        if let Some(at) = catching.at {
            if operator.on_watermark(at, out)? == Flow::Done {
                catching.at = None;
            }
            self.catching = Some(catching);
            return Ok(());
        }
        if catching.entries.is_empty() {
            catching.entries = part.log.take()?;
        }
        match catching.entries.pop_front() {
            Some(Entry::Rows(input, rows)) => {
                out.resumed += rows.num_rows() as u64;
                operator.on_batch(input, rows, out)?;
            }
            Some(Entry::Watermark(at)) => catching.at = Some(at),
            Some(Entry::Input(input, at)) => part.tell(input, at),
            // What its clock made due, and rows that still look for partners.
            None => {
                if operator.on_time(out)? == Flow::Done && out.batches.is_empty() {
                    return self.caught(catching.part);
                }
            }
        }
        self.catching = Some(catching);
        Ok(())
    }

    /// A part has caught up. It stays if there is room.
    fn caught(&mut self, part: usize) -> Result<()> {
        self.parts[part].measure();
        if self.resident() > self.member.budget() / 2 {
            self.take_out(part)?;
        }
        self.account();
        Ok(())
    }

    fn ended(&self) -> bool {
        self.watermark == EventTime::MAX
    }
}

impl Operator for Divided {
    fn on_batch(&mut self, input: usize, batch: RecordBatch, out: &mut Output) -> Result<()> {
        self.unmeasured += batch_bytes(&batch) as u64;
        let mut dealt = Vec::new();
        let exchange = self.exchanges.get_mut(input).ok_or_else(|| Error::internal(format!("no keys of input {input}")))?;
        exchange.split(batch, |part, rows| dealt.push((part, rows)))?;
        for (part, rows) in dealt {
            if rows.num_rows() == 0 {
                continue;
            }
            if self.is_in_memory(part) {
                if let Some(operator) = &mut self.parts[part].operator {
                    operator.on_batch(input, rows, out)?;
                }
            } else {
                out.deferred += rows.num_rows() as u64;
                self.parts[part].log.push(Entry::Rows(input, rows));
            }
        }
        if self.unmeasured > self.member.budget() / 8 {
            self.unmeasured = 0;
            self.measure();
        }
        self.settle_waiting()
    }

    fn on_watermark(&mut self, watermark: EventTime, out: &mut Output) -> Result<Flow> {
        let mut next = match self.advancing {
            Some(next) => next,
            None => {
                self.watermark = self.watermark.max(watermark);
                for part in 0..self.parts.len() {
                    if !self.is_in_memory(part) {
                        self.parts[part].log.push(Entry::Watermark(watermark));
                    }
                }
                0
            }
        };
        while next < self.parts.len() {
            let in_memory = self.is_in_memory(next);
            let flow = match &mut self.parts[next].operator {
                Some(operator) if in_memory => operator.on_watermark(watermark, out)?,
                Some(_) | None => Flow::Done,
            };
            if flow == Flow::Done {
                next += 1;
            }
            self.advancing = Some(next);
            if !out.batches.is_empty() || flow == Flow::More {
                return Ok(Flow::More);
            }
        }
        if self.ended() && (self.is_behind() || self.is_due) {
            self.advancing = Some(next);
            let flow = self.catch_up(out)?;
            if flow == Flow::Done {
                self.advancing = None;
            }
            return Ok(flow);
        }
        self.advancing = None;
        Ok(Flow::Done)
    }

    fn on_drain(&mut self, out: &mut Output) -> Result<Flow> {
        let mut at = self.draining.unwrap_or(0);
        while at < self.parts.len() {
            // From here on no part is divided: its halves would emit again what it has emitted.
            self.draining = Some(at);
            if self.parts[at].operator.is_none() {
                self.make_room(self.parts[at].bytes())?;
                self.parts[at].load(self.factory.as_ref())?;
            }
            let Some(operator) = &mut self.parts[at].operator else { break };
            if operator.on_drain(out)? == Flow::Done {
                self.parts[at].measure();
                at += 1;
                self.draining = Some(at);
            }
            if !out.batches.is_empty() {
                return Ok(Flow::More);
            }
        }
        Ok(Flow::Done)
    }

    fn on_time(&mut self, out: &mut Output) -> Result<Flow> {
        while self.ticking < self.parts.len() {
            let in_memory = self.is_in_memory(self.ticking);
            let flow = match &mut self.parts[self.ticking].operator {
                Some(operator) if in_memory => operator.on_time(out)?,
                Some(_) | None => Flow::Done,
            };
            if flow == Flow::Done {
                self.ticking += 1;
            }
            if flow == Flow::More || !out.batches.is_empty() {
                return Ok(Flow::More);
            }
        }
        if self.is_tight && self.catching.is_none() {
            self.make_room(self.member.budget() / 2)?;
            self.account();
            self.is_tight = false;
            return Ok(Flow::More);
        }
        let waited = self.ctx.clock.monotonic().saturating_sub(self.last_round) >= PATIENCE;
        if self.is_due || self.catching.is_some() || (waited && self.is_behind()) {
            // Nothing more is taken meanwhile, or the round might never end.
            self.is_due = true;
            self.catch_up(out)?;
            return Ok(Flow::More);
        }
        self.ticking = 0;
        Ok(Flow::Done)
    }

    fn on_barrier(&mut self, out: &mut Output) -> Result<Flow> {
        if self.is_behind() {
            self.is_due = true;
            return self.catch_up(out).map(|_| Flow::More);
        }
        Ok(Flow::Done)
    }

    fn has_caught_up(&mut self) -> bool {
        std::mem::take(&mut self.caught_up)
    }

    fn on_input_watermark(&mut self, input: usize, watermark: Watermark) {
        self.pilot.on_input_watermark(input, watermark);
        for part in 0..self.parts.len() {
            if self.is_in_memory(part) {
                self.parts[part].tell(input, watermark);
            } else {
                self.parts[part].log.push(Entry::Input(input, watermark));
            }
        }
    }

    fn holds(&self, input: usize) -> bool {
        self.is_due || self.is_tight || self.pilot.holds(input)
    }

    fn output_watermark(&self, watermark: EventTime) -> EventTime {
        let promised = |(index, part): (usize, &Part)| match &part.operator {
            Some(operator) if self.is_in_memory(index) => operator.output_watermark(watermark),
            // What it will emit may be as early as when it left; a part with nothing to do has nothing to emit earlier.
            Some(_) | None => part.promised,
        };
        self.parts.iter().enumerate().map(promised).min().unwrap_or(watermark).min(watermark)
    }

    fn measure(&mut self) {
        Divided::measure(self);
    }

    fn snapshot(&mut self, _: Epoch) -> Result<Vec<StatePiece>> {
        if self.is_behind() {
            return Err(Error::internal("a snapshot was asked for while rows wait for state that lies on disk"));
        }
        let mut pieces = Vec::new();
        self.named.clear();
        for index in 0..self.parts.len() {
            self.moments += 1;
            let part = &mut self.parts[index];
            part.save(Epoch((1 << 62) + self.moments), &mut self.ids, &self.place.folder)?;
            pieces.append(&mut part.snapshot(&mut self.named));
        }
        self.account();
        Ok(pieces)
    }

    fn pieces_named(&mut self, _: Epoch, ids: Vec<PieceId>) {
        let mut named = self.named.drain(..).zip(ids).peekable();
        // Both are in the order of parts and pieces.
        for piece in self.parts.iter_mut().flat_map(|part| &mut part.pieces) {
            if let Some((_, stored)) = named.next_if(|(id, _)| *id == piece.id) {
                piece.stored = Some(stored);
            }
        }
    }

    fn restore(&mut self, _: Vec<tidegate_api::RestoredPiece>) -> Result<()> {
        Err(Error::internal("a divided operator is made from its pieces"))
    }
}

impl Drop for Divided {
    fn drop(&mut self) {
        self.member.set(0);
    }
}

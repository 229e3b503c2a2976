//! What every operator task runs behind: the whole operator while there is memory, its parts after that.

use super::divided::{Divided, Inheritance};
use super::file::SpillFile;
use super::part::{Piece, Told};
use super::pool::{Member, shown};
use crate::size::batch_bytes;
use arrow::array::RecordBatch;
use std::path::PathBuf;
use std::sync::Arc;
use tidegate_api::{
    Counter, Epoch, Error, EventTime, Flow, Operator, OperatorCtx, OperatorFactory, Output, PieceId, RestoredPiece, Result, StatePiece,
    Watermark,
};

/// Where and how a task may put state aside.
#[derive(Debug, Clone)]
pub(crate) struct Place {
    /// The directory.
    pub(crate) folder: PathBuf,
    /// Per input, the columns that decide a row's vnode.
    pub(crate) keys: Vec<Vec<usize>>,
    /// A gauge of the bytes put aside.
    pub(crate) aside: Counter,
    /// Counts how often a part of the state left memory.
    pub(crate) spills: Counter,
}

/// See the module's documentation.
pub(crate) struct Spilling {
    factory: Arc<dyn OperatorFactory>,
    ctx: OperatorCtx,
    /// `None`: the state cannot be divided, or nothing may be put aside.
    place: Option<Place>,
    member: Option<Member>,
    mode: Mode,
    watermark: EventTime,
    /// What the whole operator has been told of inputs.
    told: Told,
    /// Bytes of rows that came since the state was last measured.
    unmeasured: u64,
    /// Too much is in memory; the state is divided once the operator is at rest.
    is_due: bool,
    /// Whether the state has keys to be divided by; known where there is a place for it.
    is_keyed: bool,
}

enum Mode {
    Whole(Box<dyn Operator>),
    Divided(Box<Divided>),
    /// Between the two, and after a failure there.
    Neither,
}

impl Spilling {
    /// Opens the operator of one task.
    ///
    /// # Errors
    /// Those of opening it.
    pub(crate) fn open(factory: Arc<dyn OperatorFactory>, ctx: OperatorCtx, place: Option<Place>, member: Member) -> Result<Self> {
        let is_keyed = place.as_ref().is_none_or(|place| place.keys.iter().any(|keys| !keys.is_empty()));
        let place = place.filter(|place| factory.divides() && place.keys.iter().any(|keys| !keys.is_empty()));
        let mode = Mode::Whole(factory.open(ctx.clone())?);
        Ok(Spilling {
            factory,
            ctx,
            place,
            member: Some(member),
            mode,
            watermark: EventTime::MIN,
            told: Told::default(),
            unmeasured: 0,
            is_due: false,
            is_keyed,
        })
    }

    /// Whether something waits for state that lies on disk, and may come out later than the watermark says.
    pub(crate) fn is_behind(&self) -> bool {
        matches!(&self.mode, Mode::Divided(divided) if divided.is_behind())
    }

    fn operator(&mut self) -> Result<&mut dyn Operator> {
        match &mut self.mode {
            Mode::Whole(operator) => Ok(operator.as_mut()),
            Mode::Divided(divided) => Ok(divided.as_mut()),
            Mode::Neither => Err(Error::internal("the operator was lost while its state was divided")),
        }
    }

    /// Asks the whole operator how much it takes, and what follows from that.
    fn weigh(&mut self) -> Result<()> {
        let (Mode::Whole(operator), Some(member)) = (&mut self.mode, &self.member) else { return Ok(()) };
        self.unmeasured = 0;
        operator.measure();
        member.set(self.ctx.state_bytes.get());
        if self.place.is_some() {
            self.is_due = member.must_shrink();
            return Ok(());
        }
        if member.is_beyond() {
            let (why, allow) = match (self.factory.divides(), self.is_keyed) {
                (false, _) => ("which cannot be put aside on disk", ""),
                (true, false) => ("without groups or keys by which it could be put aside on disk", ", or group by a column"),
                (true, true) => ("and nothing may be put aside on disk", ", or allow `spill`"),
            };
            return Err(Error::limit(format!(
                "stage `{}`: `{}` holds {} of state {why}; all state together is more than `maxMemory` = {}. Raise `maxMemory`, \
                 shorten windows, bounds or `ttl`{allow}",
                self.ctx.run.operator,
                self.factory.name(),
                shown(member.own()),
                shown(member.limit()),
            )));
        }
        Ok(())
    }

    /// Divides the whole operator, which is at rest.
    fn divide(&mut self) -> Result<()> {
        let Mode::Whole(mut operator) = std::mem::replace(&mut self.mode, Mode::Neither) else { return Ok(()) };
        let Some(place) = self.place.clone() else { return Ok(()) };
        operator.forget_pieces();
        let snapshot = operator.snapshot(Epoch(1 << 62))?;
        drop(operator);
        let file = SpillFile::create(&place.folder)?;
        let mut pieces = Vec::with_capacity(snapshot.len());
        for piece in snapshot {
            // Each is let go of before the next is made.
            let Some((name, vnodes, data)) = piece.into_new()? else {
                return Err(Error::internal(format!("`{}` keeps pieces that it was told to forget", self.factory.name())));
            };
            let id = PieceId(format!("aside/whole/{}", pieces.len()));
            pieces.push(Piece { id, name, vnodes, data: file.append(&data)?, stored: None });
        }
        let bytes = self.member.as_ref().map_or(0, Member::own);
        tracing::warn!(
            stage = &*self.ctx.run.operator,
            task = self.ctx.task,
            bytes,
            folder = %place.folder.display(),
            "state has come to the memory limit; from now on the part of it that finds no room is kept on disk"
        );
        self.divide_from(pieces, bytes)
    }

    fn divide_from(&mut self, pieces: Vec<Piece>, bytes: u64) -> Result<()> {
        let (Some(place), Some(member)) = (self.place.clone(), self.member.take()) else {
            return Err(Error::internal("state is divided twice"));
        };
        let from = Inheritance { pieces, bytes, watermark: self.watermark, told: std::mem::take(&mut self.told), next_id: 0 };
        let divided = Divided::new(Arc::clone(&self.factory), self.ctx.clone(), place, member, from)?;
        self.mode = Mode::Divided(Box::new(divided));
        self.is_due = false;
        Ok(())
    }
}

impl Operator for Spilling {
    fn on_batch(&mut self, input: usize, batch: RecordBatch, out: &mut Output) -> Result<()> {
        let Mode::Whole(operator) = &mut self.mode else { return self.operator()?.on_batch(input, batch, out) };
        self.unmeasured += batch_bytes(&batch) as u64;
        operator.on_batch(input, batch, out)?;
        if self.member.as_ref().is_some_and(|member| self.unmeasured > member.budget() / 8) {
            self.weigh()?;
        }
        Ok(())
    }

    fn on_watermark(&mut self, watermark: EventTime, out: &mut Output) -> Result<Flow> {
        let flow = self.operator()?.on_watermark(watermark, out)?;
        if flow == Flow::Done {
            self.watermark = self.watermark.max(watermark);
        }
        Ok(flow)
    }

    fn on_drain(&mut self, out: &mut Output) -> Result<Flow> {
        self.operator()?.on_drain(out)
    }

    fn on_time(&mut self, out: &mut Output) -> Result<Flow> {
        let flow = self.operator()?.on_time(out)?;
        if flow == Flow::Done && self.is_due && out.batches.is_empty() {
            // Firing may have made room meanwhile.
            self.weigh()?;
            if self.is_due {
                self.divide()?;
            }
            return Ok(Flow::More);
        }
        Ok(flow)
    }

    fn on_barrier(&mut self, out: &mut Output) -> Result<Flow> {
        self.operator()?.on_barrier(out)
    }

    fn has_caught_up(&mut self) -> bool {
        match &mut self.mode {
            Mode::Divided(divided) => divided.has_caught_up(),
            Mode::Whole(_) | Mode::Neither => false,
        }
    }

    fn on_input_watermark(&mut self, input: usize, watermark: Watermark) {
        match &mut self.mode {
            Mode::Whole(operator) => {
                self.told.note(input, watermark);
                operator.on_input_watermark(input, watermark);
            }
            Mode::Divided(divided) => divided.on_input_watermark(input, watermark),
            Mode::Neither => {}
        }
    }

    fn holds(&self, input: usize) -> bool {
        match &self.mode {
            Mode::Whole(operator) => self.is_due || operator.holds(input),
            Mode::Divided(divided) => divided.holds(input),
            Mode::Neither => false,
        }
    }

    fn output_watermark(&self, watermark: EventTime) -> EventTime {
        match &self.mode {
            Mode::Whole(operator) => operator.output_watermark(watermark),
            Mode::Divided(divided) => divided.output_watermark(watermark),
            Mode::Neither => EventTime::MIN,
        }
    }

    fn measure(&mut self) {
        match &mut self.mode {
            Mode::Whole(operator) => operator.measure(),
            Mode::Divided(divided) => divided.as_mut().measure(),
            Mode::Neither => {}
        }
    }

    fn snapshot(&mut self, epoch: Epoch) -> Result<Vec<StatePiece>> {
        let pieces = self.operator()?.snapshot(epoch)?;
        if let (Mode::Whole(_), Some(member)) = (&self.mode, &self.member) {
            member.set(self.ctx.state_bytes.get());
        }
        Ok(pieces)
    }

    fn pieces_named(&mut self, epoch: Epoch, ids: Vec<PieceId>) {
        match &mut self.mode {
            Mode::Whole(operator) => operator.pieces_named(epoch, ids),
            Mode::Divided(divided) => divided.pieces_named(epoch, ids),
            Mode::Neither => {}
        }
    }

    fn restore(&mut self, pieces: Vec<RestoredPiece>) -> Result<()> {
        let bytes: u64 = pieces.iter().map(|piece| piece.data.len() as u64).sum();
        let is_large = self.member.as_ref().is_some_and(|member| bytes > member.budget());
        if self.place.is_some() && is_large {
            self.mode = Mode::Neither;
            let Some(place) = self.place.clone() else { return Ok(()) };
            let file = SpillFile::create(&place.folder)?;
            let mut filed = Vec::with_capacity(pieces.len());
            for piece in pieces {
                // Each is let go of before the next is written.
                let (data, stored) = (file.append(&piece.data)?, Some(piece.id.clone()));
                filed.push(Piece { id: piece.id, name: piece.name, vnodes: piece.vnodes, data, stored });
            }
            // In memory it takes more than on disk: half as much again is a guess.
            return self.divide_from(filed, bytes.saturating_add(bytes / 2));
        }
        self.operator()?.restore(pieces)?;
        self.weigh()
    }
}

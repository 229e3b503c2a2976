//! Some vnodes of a task: an operator of their own, in memory or as pieces in a file.

use super::file::{Filed, SpillFile};
use super::log::Log;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use tidegate_api::{
    Counter, DeferredBytes, Epoch, Error, EventTime, Operator, OperatorCtx, OperatorFactory, PieceId, RestoredPiece, Result, StatePiece,
    VnodeRange, Watermark,
};

/// A file is written anew when it is larger than this and more than half of it is garbage.
const WORTHWHILE: u64 = 1 << 20;

/// A piece of state in a file.
#[derive(Debug, Clone)]
pub(super) struct Piece {
    /// Its name among the pieces of this task; operators refer to it by that.
    pub(super) id: PieceId,
    pub(super) name: String,
    pub(super) vnodes: VnodeRange,
    pub(super) data: Filed,
    /// Where the epochs' store has it too.
    pub(super) stored: Option<PieceId>,
}

/// What the inputs have promised by themselves, as far as an operator has been told.
#[derive(Debug, Clone, Default)]
pub(super) struct Told {
    /// Per input: whether it has ever been idle, and what it said last.
    inputs: BTreeMap<usize, (bool, Watermark)>,
}

impl Told {
    /// Notes what an input has said.
    pub(super) fn note(&mut self, input: usize, watermark: Watermark) {
        let (idle, last) = self.inputs.entry(input).or_insert((false, watermark));
        (*idle, *last) = (*idle || watermark == Watermark::Idle, watermark);
    }

    /// Tells an operator that was opened since. An input that has been idle was there once, which operators remember.
    pub(super) fn tell(&self, operator: &mut dyn Operator) {
        for (input, (idle, last)) in &self.inputs {
            if *idle {
                operator.on_input_watermark(*input, Watermark::Idle);
            }
            operator.on_input_watermark(*input, *last);
        }
    }
}

/// See the module's documentation.
pub(super) struct Part {
    ctx: OperatorCtx,
    file: Arc<SpillFile>,
    /// The state as of the last save, in the operator's order.
    pub(super) pieces: Vec<Piece>,
    /// There while the part is in memory.
    pub(super) operator: Option<Box<dyn Operator>>,
    /// What has come since the part left memory.
    pub(super) log: Log,
    /// What its operator has been told of inputs. It is in no snapshot: a start hears it anew.
    told: Told,
    /// What it promised downstream when it left memory.
    pub(super) promised: EventTime,
    /// How much it took when it was last in memory.
    bytes: u64,
}

impl Part {
    /// A part with the state of these pieces, which may hold other vnodes too.
    ///
    /// # Errors
    /// `External` if a file cannot be made.
    pub(super) fn new(
        ctx: &OperatorCtx,
        number: usize,
        vnodes: VnodeRange,
        pieces: Vec<Piece>,
        told: &Told,
        folder: &Path,
    ) -> Result<Self> {
        let mut ctx = ctx.clone();
        // Operators name pieces after their task. Parts must differ in that, from the parts of other tasks too.
        ctx.task += ctx.tasks * (number + 1);
        ctx.vnodes = vnodes;
        ctx.state_bytes = Counter::new();
        let file = SpillFile::create(folder)?;
        Ok(Part { ctx, file, pieces, operator: None, log: Log::default(), told: told.clone(), promised: EventTime::MIN, bytes: 0 })
    }

    pub(super) fn vnodes(&self) -> VnodeRange {
        self.ctx.vnodes
    }

    /// What its operator has been told of inputs.
    pub(super) fn told(&self) -> &Told {
        &self.told
    }

    /// Tells its operator, which is in memory, what an input has promised by itself.
    pub(super) fn tell(&mut self, input: usize, watermark: Watermark) {
        self.told.note(input, watermark);
        if let Some(operator) = &mut self.operator {
            operator.on_input_watermark(input, watermark);
        }
    }

    /// How much it takes in memory; an estimate while it is not there.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Bytes of its state on disk.
    pub(super) fn filed_bytes(&self) -> u64 {
        self.pieces.iter().map(|piece| piece.data.length()).sum()
    }

    /// Asks the operator how much it takes.
    pub(super) fn measure(&mut self) {
        if let Some(operator) = &mut self.operator {
            operator.measure();
            self.bytes = self.ctx.state_bytes.get();
        }
    }

    /// Brings it into memory.
    ///
    /// # Errors
    /// `External` if its pieces cannot be read back; those of opening and restoring.
    pub(super) fn load(&mut self, factory: &dyn OperatorFactory) -> Result<()> {
        if self.operator.is_some() {
            return Ok(());
        }
        let mut operator = factory.open(self.ctx.clone())?;
        let pieces = self.pieces.iter().map(|piece| {
            Ok(RestoredPiece { id: piece.id.clone(), name: piece.name.clone(), vnodes: piece.vnodes, data: piece.data.read()? })
        });
        let pieces: Vec<RestoredPiece> = pieces.collect::<Result<_>>()?;
        if !pieces.is_empty() {
            operator.restore(pieces)?;
        }
        self.told.tell(operator.as_mut());
        self.operator = Some(operator);
        self.measure();
        Ok(())
    }

    /// Writes what has changed since the last save. `ids` names new pieces; `moment` is no epoch of the job and used once.
    ///
    /// # Errors
    /// `External` if the disk does not take it; those of the snapshot.
    pub(super) fn save(&mut self, moment: Epoch, ids: &mut u64, folder: &Path) -> Result<()> {
        let Some(operator) = &mut self.operator else { return Ok(()) };
        let mut pieces = Vec::new();
        let mut named = Vec::new();
        for piece in operator.snapshot(moment)? {
            if let StatePiece::Kept(id) = piece {
                match self.pieces.iter().find(|piece| piece.id == id) {
                    Some(piece) => pieces.push(piece.clone()),
                    None => return Err(Error::internal(format!("an operator keeps the piece `{id}`, which it was never given"))),
                }
            } else if let Some((name, vnodes, data)) = piece.into_new()? {
                let id = PieceId(format!("aside/{ids}"));
                *ids += 1;
                named.push(id.clone());
                pieces.push(Piece { id, name, vnodes, data: self.file.append(&data)?, stored: None });
            }
        }
        operator.pieces_named(moment, named);
        self.pieces = pieces;
        self.measure();
        self.compact(folder)
    }

    /// Lets go of the operator, whose state was saved.
    pub(super) fn leave(&mut self, watermark: EventTime) {
        if let Some(operator) = self.operator.take() {
            self.promised = self.promised.max(operator.output_watermark(watermark));
        }
    }

    /// Where the state lies, for a snapshot of the whole task.
    pub(super) fn snapshot(&self, new: &mut Vec<PieceId>) -> Vec<StatePiece> {
        let piece = |piece: &Piece| match &piece.stored {
            Some(id) => StatePiece::Kept(id.clone()),
            None => {
                new.push(piece.id.clone());
                StatePiece::Deferred { name: piece.name.clone(), vnodes: piece.vnodes, data: DeferredBytes(Arc::new(piece.data.clone())) }
            }
        };
        self.pieces.iter().map(piece).collect()
    }

    fn compact(&mut self, folder: &Path) -> Result<()> {
        let length = self.file.length();
        if length < WORTHWHILE || self.filed_bytes() > length / 2 {
            return Ok(());
        }
        let file = SpillFile::create(folder)?;
        for piece in &mut self.pieces {
            piece.data = file.append(&piece.data.read()?)?;
        }
        self.file = file;
        Ok(())
    }
}

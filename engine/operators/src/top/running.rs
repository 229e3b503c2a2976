//! The operator for ranks that change: after every batch the ranks that have another row are told.
//!
//! One row may move every rank of its group, so a batch may make far more rows than it has. What does not fit into a few
//! portions waits and is told when the task is idle, before a watermark, and before a barrier.

use super::plan::{Beside, Plan};
use crate::lean::{Change, Ranking, visible_columns};
use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use std::sync::Arc;
use tidegate_api::{
    Epoch, EventTime, Flow, Operator, OperatorCtx, OperatorFactory, Output, PieceId, RestoredPiece, Result, Signature, StatePiece,
};

/// Portions that are told at once.
const PORTIONS: usize = 4;

/// Opens the operator of each task.
#[derive(Debug)]
pub(super) struct RunningFactory {
    plan: Arc<Plan>,
}

impl RunningFactory {
    pub(super) fn new(plan: Plan) -> Self {
        RunningFactory { plan: Arc::new(plan) }
    }
}

impl OperatorFactory for RunningFactory {
    fn name(&self) -> &str {
        "topN"
    }

    fn signature(&self) -> Signature {
        self.plan.signature.clone()
    }

    fn output_schema(&self) -> SchemaRef {
        Arc::clone(&self.plan.schema)
    }

    fn open(&self, ctx: OperatorCtx) -> Result<Box<dyn Operator>> {
        let ranking = Ranking::new(&Arc::new(self.plan.shape()?), true)?;
        Ok(Box::new(Running { plan: Arc::clone(&self.plan), ctx, ranking }))
    }
}

struct Running {
    plan: Arc<Plan>,
    ctx: OperatorCtx,
    ranking: Ranking,
}

impl Operator for Running {
    fn on_batch(&mut self, _input: usize, batch: RecordBatch, out: &mut Output) -> Result<()> {
        let ranked = self.plan.ranked(&batch)?;
        out.filtered += ranked.filtered as u64;
        let (columns, rows) = (visible_columns(&ranked.batch), ranked.batch.num_rows());
        if rows == 0 {
            return Ok(());
        }
        match self.plan.updates {
            Some(_) => self.ranking.update(&columns, rows, &ranked.ranked)?,
            None => self.ranking.absorb(&columns, rows)?,
        }
        for _ in 0..PORTIONS {
            if self.tell(out)? == Flow::Done {
                break;
            }
        }
        Ok(())
    }

    fn on_watermark(&mut self, _watermark: EventTime, out: &mut Output) -> Result<Flow> {
        self.tell(out)
    }

    fn on_time(&mut self, out: &mut Output) -> Result<Flow> {
        self.tell(out)
    }

    fn on_drain(&mut self, out: &mut Output) -> Result<Flow> {
        self.tell(out)
    }

    fn measure(&mut self) {
        self.ctx.state_bytes.set(self.ranking.bytes() as u64);
    }

    fn snapshot(&mut self, _epoch: Epoch) -> Result<Vec<StatePiece>> {
        let mut pieces = Vec::new();
        self.ranking.snapshot("", &self.ctx, &mut pieces)?;
        self.ctx.state_bytes.set(self.ranking.bytes() as u64);
        Ok(pieces)
    }

    fn forget_pieces(&mut self) {
        self.ranking.forget_pieces();
    }

    fn pieces_named(&mut self, _epoch: Epoch, ids: Vec<PieceId>) {
        self.ranking.named(&mut ids.into_iter());
    }

    fn restore(&mut self, pieces: Vec<RestoredPiece>) -> Result<()> {
        let named: Vec<(&str, &RestoredPiece)> = pieces.iter().map(|piece| (piece.name.as_str(), piece)).collect();
        self.ranking.restore(&named, &self.ctx, |_| {})?;
        self.ctx.state_bytes.set(self.ranking.bytes() as u64);
        Ok(())
    }
}

impl Running {
    /// Tells a portion of what has changed.
    fn tell(&mut self, out: &mut Output) -> Result<Flow> {
        let Some(changes) = self.ranking.next_changes(self.ctx.batch_rows.max(1)) else { return Ok(Flow::Done) };
        let ids: Vec<u32> = changes.iter().map(|change| change.id).collect();
        let columns = self.ranking.rows(&ids)?;
        let beside = Beside {
            ranks: changes.iter().map(|change| i64::from(change.rank)).collect(),
            ops: Some(changes.iter().map(|Change { op, .. }| *op).collect()),
            bounds: None,
        };
        out.emit(self.plan.output(&columns, beside)?);
        if !self.ranking.is_told() {
            return Ok(Flow::More);
        }
        self.ranking.tidy()?;
        Ok(Flow::Done)
    }
}

//! Writes what arrives, reports refusals before the barrier goes on, and acknowledges the barrier when the sink has.

use super::retry::Retries;
use super::{Report, Seat, Task, Turn};
use crate::bad::{BadRows, Finder, Origin};
use crate::graph::SinkNode;
use crate::input::{Incoming, Inputs};
use crate::killpoint::{KillHook, KillPoint};
use crate::metrics::NodeMeters;
use crate::output::Outputs;
use crate::planted::Planted;
use arrow::array::{AsArray, BinaryArray, RecordBatch, RecordBatchOptions};
use arrow::datatypes::{DataType, Schema, SchemaRef};
use std::collections::BTreeSet;
use std::sync::Arc;
use tidegate_api::bad::dead_letter_schema;
use tidegate_api::sink::RowError;
use tidegate_api::{
    AnySink, BadReason, BadRow, Barrier, BarrierAcker, ChangeMode, CommitToken, Epoch, Error, Flushed, PreCommit, Result, Written, hidden,
};
use tidegate_epochs::TaskSnapshot;

const EVENTS: usize = 8;

/// What a sink task is made of.
pub(crate) struct SinkParts {
    pub(crate) seat: Seat,
    pub(crate) node: SinkNode,
    pub(crate) writer: AnySink,
    pub(crate) acker: BarrierAcker,
    pub(crate) inputs: Inputs,
    pub(crate) bad: BadRows,
    /// The bad edge, if there is one.
    pub(crate) outputs: Outputs,
    pub(crate) meters: Arc<NodeMeters>,
    /// For chaos tests.
    pub(crate) kill: Option<KillHook>,
    /// For the simulator.
    pub(crate) planted: Planted,
}

/// See the module's documentation.
pub(crate) struct SinkTask {
    parts: SinkParts,
    opened: bool,
    /// What the writer is given: the declared columns, and `_op` behind them for upserts.
    schema: SchemaRef,
    /// The schema of the last batch, and which of its columns the writer and the keys are.
    layout: Option<Layout>,
    /// Rows that a retryable write has not taken yet.
    held: Option<Rows>,
    /// A barrier whose flush has not succeeded yet.
    barrier: Option<Barrier>,
    retries: Retries,
    /// Epochs that the sink will answer for through the acker.
    awaited: BTreeSet<Epoch>,
    ended: bool,
}

struct Layout {
    of: SchemaRef,
    kept: Vec<usize>,
    key: Option<usize>,
}

struct Rows {
    rows: RecordBatch,
    keys: Option<BinaryArray>,
}

/// A flush's or pre-commit's outcome, whatever the kind of sink.
enum Barriered {
    Done(Option<CommitToken>),
    Later,
}

impl SinkTask {
    pub(crate) fn new(parts: SinkParts) -> Self {
        let schema = match parts.node.mode {
            ChangeMode::Append => Arc::clone(&parts.node.schema),
            ChangeMode::Upsert { .. } => {
                let fields = parts.node.schema.fields().iter().cloned().chain([Arc::new(hidden::op_field())]);
                Arc::new(Schema::new_with_metadata(fields.collect::<Vec<_>>(), parts.node.schema.metadata().clone()))
            }
        };
        let retries = Retries::new(parts.meters.counters.errors.clone());
        SinkTask { parts, opened: false, schema, layout: None, held: None, barrier: None, retries, awaited: BTreeSet::new(), ended: false }
    }

    fn take_answers(&mut self) -> Result<()> {
        for answered in self.parts.acker.take() {
            // The first answer counts; a repeated one, or one for an epoch of which the sink said `Done`, changes nothing.
            let first = self.awaited.remove(&answered.epoch);
            if first || self.parts.planted.is(Planted::AnsweredTwice) {
                let token = answered.answer.map_err(|error| error.context(format!("epoch {}", answered.epoch)))?;
                self.acknowledge(answered.epoch, token);
            }
        }
        Ok(())
    }

    fn acknowledge(&self, epoch: Epoch, token: Option<CommitToken>) {
        let seat = &self.parts.seat;
        let tokens = token.map(|token| (seat.node.clone(), seat.task as u32, token)).into_iter().collect();
        seat.report(Report::Acknowledged { epoch, snapshot: Box::new(TaskSnapshot { tokens, ..TaskSnapshot::default() }) });
    }

    fn read(&mut self) -> Result<Turn> {
        for event in 0..EVENTS {
            let Some(incoming) = self.parts.inputs.read()? else {
                return if event == 0 { self.rest() } else { Ok(Turn::Progress) };
            };
            match incoming {
                Incoming::Nothing => {}
                Incoming::Watermark(watermark) => {
                    self.parts.meters.watermarks[self.parts.seat.task].set(watermark);
                    self.parts.outputs.watermark(watermark);
                }
                Incoming::Batch(_, batch) => {
                    self.parts.meters.counters.rows_in.add(batch.num_rows() as u64);
                    self.held = Some(self.prepare(&batch)?);
                    if !self.write()? {
                        break;
                    }
                }
                Incoming::Barrier(barrier) => {
                    self.barrier = Some(barrier);
                    break;
                }
                Incoming::End => {
                    self.end()?;
                    break;
                }
            }
            if !self.parts.outputs.flush()? {
                break;
            }
        }
        Ok(Turn::Progress)
    }

    /// The batch as the writer gets it: hidden columns taken off, under the declared schema, no copy.
    fn prepare(&mut self, batch: &RecordBatch) -> Result<Rows> {
        let known = self.layout.as_ref().is_some_and(|layout| Arc::ptr_eq(&layout.of, batch.schema_ref()));
        if !known {
            self.layout = Some(self.lay_out(batch.schema())?);
        }
        let Some(layout) = &self.layout else { return Err(Error::internal("the layout was just made")) };
        let columns = layout.kept.iter().map(|index| Arc::clone(batch.column(*index))).collect();
        let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
        let rows = RecordBatch::try_new_with_options(Arc::clone(&self.schema), columns, &options)?;
        Ok(Rows { rows, keys: layout.key.map(|index| batch.column(index).as_binary::<i32>().clone()) })
    }

    fn lay_out(&self, of: SchemaRef) -> Result<Layout> {
        let keep_op = matches!(self.parts.node.mode, ChangeMode::Upsert { .. });
        let visible = (0..of.fields().len()).filter(|index| !hidden::is_hidden(of.field(*index).name()));
        let mut kept: Vec<usize> = visible.collect();
        if keep_op {
            kept.push(of.index_of(hidden::OP)?);
        }
        let key = if self.parts.node.wants_keys { Some(of.index_of(hidden::KEY)?) } else { None };
        if let Some(index) = key
            && *of.field(index).data_type() != DataType::Binary
        {
            return Err(Error::internal("the hidden key column is not binary"));
        }
        Ok(Layout { of, kept, key })
    }

    /// Writes the rows held. Answers whether they were taken.
    fn write(&mut self) -> Result<bool> {
        let Some(held) = &self.held else { return Ok(true) };
        let keys = held.keys.as_ref();
        let written = match &mut self.parts.writer {
            AnySink::AtLeastOnce(sink) => sink.write(&held.rows, keys),
            AnySink::Transactional(sink) => sink.write(&held.rows, keys),
        };
        match written {
            Ok(written) => {
                self.retries.succeeded();
                let rows = self.held.take().map(|held| held.rows);
                rows.map_or(Ok(()), |rows| self.refused(&rows, written))?;
                Ok(true)
            }
            Err(error) => {
                self.retries.failed(error, self.parts.seat.clock.monotonic(), &self.parts.seat.name)?;
                Ok(false)
            }
        }
    }

    fn refused(&mut self, rows: &RecordBatch, written: Written) -> Result<()> {
        let counters = &self.parts.meters.counters;
        let taken = rows.num_rows().checked_sub(written.bad.len());
        let taken = taken.ok_or_else(|| Error::internal("the sink refused more rows than it was given"))?;
        counters.rows_out.add(taken as u64);
        if written.bad.is_empty() {
            return Ok(());
        }
        let bad: Vec<BadRow> = written.bad.iter().map(|error| bad_row(rows, error)).collect::<Result<_>>()?;
        let takes_dead_letters = self.parts.node.schema == dead_letter_schema();
        let finder = Finder { stage: None, step: Some("sink"), takes_dead_letters };
        let origin = Origin { source: Some(&self.parts.node.dataset), ..Origin::default() };
        self.parts.bad.report(bad, self.parts.node.on_bad, finder, origin, &counters.bad, &mut self.parts.outputs)
    }

    /// Delivers what was taken and, once the sink has answered or promised to, sends the barrier on.
    fn flush(&mut self, barrier: Barrier) -> Result<Turn> {
        self.pass(KillPoint::BeforePreCommit, barrier.epoch)?;
        let outcome = match &mut self.parts.writer {
            AnySink::AtLeastOnce(sink) => sink.flush(barrier.epoch).map(|flushed| match flushed {
                Flushed::Done => Barriered::Done(None),
                Flushed::Later => Barriered::Later,
            }),
            AnySink::Transactional(sink) => sink.pre_commit(barrier.epoch).map(|prepared| match prepared {
                PreCommit::Nothing => Barriered::Done(None),
                PreCommit::Token(token) => Barriered::Done(Some(token)),
                PreCommit::Later => Barriered::Later,
            }),
        };
        match outcome {
            Ok(outcome) => {
                self.pass(KillPoint::AfterPreCommit, barrier.epoch)?;
                self.retries.succeeded();
                self.barrier = None;
                self.parts.outputs.barrier(barrier)?;
                match outcome {
                    Barriered::Done(token) => self.acknowledge(barrier.epoch, token),
                    Barriered::Later => {
                        self.awaited.insert(barrier.epoch);
                        self.take_answers()?;
                    }
                }
                if self.parts.inputs.release() {
                    self.end()?;
                }
            }
            Err(error) => self.retries.failed(error, self.parts.seat.clock.monotonic(), &self.parts.seat.name)?,
        }
        Ok(Turn::Progress)
    }

    fn pass(&self, point: KillPoint, epoch: Epoch) -> Result<()> {
        self.parts.kill.as_ref().map_or(Ok(()), |hook| hook(point, epoch))
    }

    fn end(&mut self) -> Result<()> {
        self.ended = true;
        self.parts.outputs.end()
    }

    fn rest(&mut self) -> Result<Turn> {
        self.parts.outputs.settle()?;
        if self.parts.outputs.flush()? { Ok(Turn::Starved { until: None }) } else { Ok(Turn::Backpressured) }
    }
}

fn bad_row(rows: &RecordBatch, error: &RowError) -> Result<BadRow> {
    if error.row >= rows.num_rows() {
        return Err(Error::internal(format!("the sink refused row {} of {}", error.row, rows.num_rows())));
    }
    Ok(BadRow::of(rows, error.row, BadReason::Sink, error.message.as_str()).in_column(error.column.clone()))
}

impl Task for SinkTask {
    fn step(&mut self) -> Result<Turn> {
        if !self.opened {
            self.opened = true;
            self.parts.seat.report(Report::Opened);
        }
        self.take_answers()?;
        if !self.parts.outputs.flush()? {
            return Ok(Turn::Backpressured);
        }
        if self.ended {
            return if self.awaited.is_empty() { Ok(Turn::Done) } else { Ok(Turn::Starved { until: None }) };
        }
        if let Some(at) = self.retries.wait(self.parts.seat.clock.monotonic()) {
            return Ok(Turn::Starved { until: Some(at) });
        }
        if self.held.is_some() {
            self.write()?;
            return Ok(Turn::Progress);
        }
        match self.barrier {
            Some(barrier) => self.flush(barrier),
            None => self.read(),
        }
    }
}

//! The source: one split for every process that reads.

use super::config::{Format, StdinConfig};
use super::input::{State, StdinInput};
use crate::decode::csv::CsvDecoder;
use crate::decode::json::JsonDecoder;
use crate::decode::raw::RawDecoder;
use crate::decode::{Decoder, MAX_RECORD};
use crate::registry::ConnectorCtx;
use crate::shape;
use serde_json::{Map, Value};
use std::sync::Arc;
use std::time::Duration;
use tidegate_api::config::Problem;
use tidegate_api::{
    BadReason, BadRow, Chunk, Clock, Discovered, Error, InlineSource, Ordinals, PollRequest, Polled, Position, Result, SourceCtx,
    SourcePlan, SourceReader, SourceRequest, Split, SplitId, SplitState,
};

/// How much of a record that is too long goes to the bad rows.
const SHOWN: usize = 4 << 10;
/// How much is decoded at a time, at least: a line is found sooner or later.
const LEAST: usize = 64 << 10;
/// How soon to look again when nothing has come.
const PAUSE: Duration = Duration::from_millis(10);

pub(crate) fn build(options: &Map<String, Value>, cx: &ConnectorCtx) -> Result<Arc<dyn InlineSource>, Vec<Problem>> {
    Ok(Arc::new(StdinSource::new(StdinConfig::parse(options)?, cx.stdin.clone(), &cx.dataset)))
}

/// Lines of standard input.
///
/// A process that reads is a split of its own, `stdin-1`, `stdin-2` and so on: a run that goes on in another process reads what that one
/// is fed with, and what an earlier one did not read before it died is gone.
#[derive(Debug)]
pub struct StdinSource {
    config: StdinConfig,
    input: StdinInput,
    dataset: String,
}

impl StdinSource {
    /// A source of the lines of `input`, for the dataset of this name.
    pub fn new(config: StdinConfig, input: StdinInput, dataset: &str) -> Self {
        StdinSource { config, input, dataset: dataset.to_string() }
    }
}

fn name(split: u64) -> SplitId {
    SplitId::new(format!("stdin-{split}"))
}

impl InlineSource for StdinSource {
    fn plan(&self, request: &SourceRequest) -> Result<SourcePlan> {
        self.input.claim(&self.dataset)?;
        let schema = shape::wanted(request, Arc::clone(&self.config.schema))?.schema;
        Ok(SourcePlan::new(schema).with_replayable(false).with_max_parallelism(1))
    }

    fn discover(&self, cursor: Option<&[u8]>) -> Result<Discovered> {
        let wrong = || Error::internal("the cursor of a stdin source cannot be read");
        let known = match cursor {
            None => 0,
            Some(bytes) => std::str::from_utf8(bytes).ok().and_then(|text| text.parse::<u64>().ok()).ok_or_else(wrong)?,
        };
        let mut state = self.input.state();
        let mut found = Discovered { complete: true, cursor: Some(known.to_string().into_bytes()), ..Discovered::default() };
        // Found by this process before, in a start of which the manifest knows.
        if state.split.is_some_and(|split| split <= known) {
            return Ok(found);
        }
        let split = *state.split.insert(known + 1);
        found.added.push(Split { id: name(split), details: Vec::new(), position: Some(Position::number(0)) });
        found.cursor = Some(split.to_string().into_bytes());
        Ok(found)
    }

    fn open(&self, ctx: SourceCtx) -> Result<Box<dyn SourceReader>> {
        let wanted = shape::wanted(&ctx.request, Arc::clone(&self.config.schema))?;
        let mut decoder: Box<dyn Decoder> = match self.config.format {
            Format::Json => Box::new(JsonDecoder::new(wanted)?),
            Format::Csv => Box::new(CsvDecoder::new(self.config.csv.clone(), wanted)?),
            Format::Raw => Box::new(RawDecoder::new(wanted)?),
        };
        if let Some(head) = &self.input.state().head {
            decoder.begin(head, true)?;
        }
        let mut reader =
            Reader { input: self.input.clone(), decoder, clock: ctx.clock, ordinals: ctx.request.ordinals, open: None, gone: Vec::new() };
        reader.assign(ctx.start)?;
        Ok(Box::new(reader))
    }
}

struct Reader {
    input: StdinInput,
    decoder: Box<dyn Decoder>,
    clock: Arc<dyn Clock>,
    ordinals: bool,
    open: Option<SplitId>,
    /// Splits of processes that are no more.
    gone: Vec<SplitId>,
}

impl SourceReader for Reader {
    fn assign(&mut self, splits: Vec<Split>) -> Result<()> {
        let own = self.input.state().split.map(name);
        for split in splits {
            match own.as_ref() == Some(&split.id) {
                true => self.open = Some(split.id),
                false => self.gone.push(split.id),
            }
        }
        Ok(())
    }

    fn poll(&mut self, request: PollRequest) -> Result<Polled> {
        let mut polled = Polled { states: self.gone.drain(..).map(|split| (split, SplitState::Finished)).collect(), ..Polled::default() };
        let Some(split) = self.open.clone() else {
            polled.retry_after = Some(Duration::from_secs(1));
            return Ok(polled);
        };
        let input = self.input.clone();
        let mut state = input.state();
        let until = self.clock.monotonic().saturating_add(request.wait);
        loop {
            if let Some(chunk) = self.take(&mut state, &split, &request)? {
                polled.chunks.push(chunk);
                return Ok(polled);
            }
            if state.ended() {
                self.open = None;
                polled.states.push((split, SplitState::Finished));
                return Ok(polled);
            }
            let now = self.clock.monotonic();
            if !state.fill(until.saturating_sub(now))? && now >= until {
                polled.states.push((split, SplitState::CaughtUp));
                polled.retry_after = Some(PAUSE);
                return Ok(polled);
            }
        }
    }
}

impl Reader {
    /// Rows of what was read; none if there is no whole record.
    fn take(&mut self, state: &mut State, split: &SplitId, request: &PollRequest) -> Result<Option<Chunk>> {
        if state.head.is_none() {
            let Some(length) = self.decoder.begin(state.bytes(), state.ended())? else { return Ok(None) };
            state.head = Some(state.bytes()[..length].to_vec());
            state.consume(length);
        }
        if state.skipping && !skip(state) {
            return Ok(None);
        }
        let mut window = request.max_bytes.max(LEAST);
        loop {
            if state.bytes().is_empty() {
                return Ok(None);
            }
            let limit = state.bytes().len().min(window);
            let last = state.ended() && limit == state.bytes().len();
            let decoded = self.decoder.decode(&state.bytes()[..limit], last, request.max_rows.max(1))?;
            if decoded.consumed == 0 && decoded.records == 0 {
                if limit > MAX_RECORD {
                    return Ok(Some(too_long(state, split, decoded.rows, self.ordinals)));
                }
                if limit == state.bytes().len() {
                    return Ok(None);
                }
                window = window.saturating_mul(2);
                continue;
            }
            let first = state.row;
            state.consume(decoded.consumed);
            state.row += decoded.records as u64;
            let mut chunk = Chunk::new(split.clone(), decoded.rows, Position::number(state.row));
            let mut lost = decoded.bad.iter().map(|bad| bad.record).peekable();
            if self.ordinals {
                let kept = (0..decoded.records).filter(|record| lost.next_if_eq(record).is_none());
                chunk.ordinals = Ordinals::Each(kept.map(|record| first + record as u64).collect::<Vec<_>>().into());
            }
            chunk.bad = decoded.bad.into_iter().map(|bad| placed(bad.row, split, first + bad.record as u64)).collect();
            return Ok(Some(chunk));
        }
    }
}

fn placed(mut row: BadRow, split: &SplitId, number: u64) -> BadRow {
    row.split = Some(split.clone());
    row.at(format!("row {number}"))
}

/// Passes over the rest of a record that is too long; answers whether its end has come.
fn skip(state: &mut State) -> bool {
    let end = state.bytes().iter().position(|byte| *byte == b'\n');
    let length = end.map_or(state.bytes().len(), |end| end + 1);
    state.consume(length);
    state.skipping = end.is_none();
    !state.skipping
}

/// The bad row of a record that is longer than what is kept of any; what is known of it is its beginning.
fn too_long(state: &mut State, split: &SplitId, none: arrow::array::RecordBatch, ordinals: bool) -> Chunk {
    let raw = state.bytes()[..SHOWN.min(state.bytes().len())].to_vec();
    let number = state.row;
    state.row += 1;
    skip(state);
    let mut chunk = Chunk::new(split.clone(), none, Position::number(state.row));
    let bad = BadRow::new(BadReason::TooLarge, format!("a record is longer than {MAX_RECORD} bytes"), raw);
    chunk.bad = vec![placed(bad, split, number)];
    if ordinals {
        chunk.ordinals = Ordinals::Each(Vec::<u64>::new().into());
    }
    chunk
}

#[cfg(test)]
mod tests;

//! The source over the generator: splits, positions, the rate, and the condition on `type` that it applies itself.

use super::config::NexmarkConfig;
use super::generate::{Column, Generator};
use super::layout::{Kinds, Share};
use crate::registry::ConnectorCtx;
use arrow::datatypes::{Schema, SchemaRef};
use serde_json::{Map, Value};
use std::sync::Arc;
use std::time::Duration;
use tidegate_api::config::Problem;
use tidegate_api::{
    Chunk, Clock, Discovered, EqualTo, Error, EventTime, InlineSource, Ordinals, PollRequest, Polled, Position, Result, SourceCtx,
    SourcePlan, SourceReader, SourceRequest, Split, SplitId, SplitState,
};

pub(crate) fn build(options: &Map<String, Value>, _: &ConnectorCtx) -> Result<Arc<dyn InlineSource>, Vec<Problem>> {
    Ok(Arc::new(NexmarkSource::new(NexmarkConfig::parse(options)?)))
}

/// All columns of the source.
pub fn schema() -> SchemaRef {
    Arc::new(Schema::new(Column::ALL.map(|(column, name)| column.field(name)).to_vec()))
}

/// The generator as a source. A split's position is the number of the next event, as decimal text.
#[derive(Debug, Clone)]
pub struct NexmarkSource {
    config: NexmarkConfig,
}

impl NexmarkSource {
    /// A source of this configuration.
    pub fn new(config: NexmarkConfig) -> Self {
        NexmarkSource { config }
    }
}

/// The columns of a request and the kinds it leaves.
fn asked(config: &NexmarkConfig, request: &SourceRequest) -> (SchemaRef, Vec<Column>, Kinds, Vec<usize>) {
    let wanted: Vec<_> = Column::ALL.iter().filter(|(_, name)| request.wants(name)).collect();
    let schema = Schema::new(wanted.iter().map(|(column, name)| column.field(name)).collect::<Vec<_>>());
    let mut kinds = config.kinds;
    let mut applied = Vec::new();
    for (index, equal) in request.equals.iter().enumerate() {
        if equal.column == "type" {
            kinds = kinds.both(named(equal));
            applied.push(index);
        }
    }
    (Arc::new(schema), wanted.iter().map(|(column, _)| *column).collect(), kinds, applied)
}

fn named(equal: &EqualTo) -> Kinds {
    let names = equal.values.iter().filter_map(Value::as_str);
    names.filter_map(Kinds::named).fold(Kinds::NONE, Kinds::with)
}

impl InlineSource for NexmarkSource {
    fn plan(&self, request: &SourceRequest) -> Result<SourcePlan> {
        let (schema, _, _, applied) = asked(&self.config, request);
        Ok(SourcePlan::new(schema).with_bounded(self.config.events.is_some()).with_applied(applied))
    }

    fn discover(&self, cursor: Option<&[u8]>) -> Result<Discovered> {
        let split = |index: u64| Split { id: SplitId::new(index.to_string()), details: Vec::new(), position: Some(Position::number(0)) };
        let added = if cursor.is_some() { Vec::new() } else { (0..self.config.partitions).map(split).collect() };
        Ok(Discovered { added, gone: Vec::new(), cursor: Some(b"all".to_vec()), complete: true })
    }

    fn open(&self, ctx: SourceCtx) -> Result<Box<dyn SourceReader>> {
        let mut reader = Reader {
            config: self.config.clone(),
            request: ctx.request.clone(),
            clock: Arc::clone(&ctx.clock),
            pace: None,
            splits: Vec::new(),
        };
        reader.assign(ctx.start)?;
        Ok(Box::new(reader))
    }
}

struct Reader {
    config: NexmarkConfig,
    request: SourceRequest,
    clock: Arc<dyn Clock>,
    pace: Option<Pace>,
    splits: Vec<Part>,
}

/// One split being read.
struct Part {
    id: SplitId,
    next: u64,
    generator: Generator,
    kinds: Kinds,
    /// The kinds one by one, where nobody sees two of them: rows without the columns of others are cheaper to make and to filter.
    apart: Vec<(Kinds, Generator)>,
    caught_up: bool,
}

/// Where the rate was first asked for: event `event` was due at `at`.
struct Pace {
    event: u64,
    at: Duration,
}

impl SourceReader for Reader {
    fn assign(&mut self, splits: Vec<Split>) -> Result<()> {
        for split in splits {
            let index = split.id.as_str().parse::<u64>().ok().filter(|index| *index < self.config.partitions);
            let index = index.ok_or_else(|| {
                Error::config(format!(
                    "split `{}` does not exist with `partitions` = {}; a state keeps its number of partitions",
                    split.id, self.config.partitions
                ))
            })?;
            let next = split.position.as_ref().map_or(Some(0), Position::as_number);
            let next = next.ok_or_else(|| Error::internal(format!("split `{}` has a position that is not an event's number", split.id)))?;
            let (schema, columns, kinds, _) = asked(&self.config, &self.request);
            let share = Share { index, of: self.config.partitions };
            let generator = |kinds| Generator::new(&self.config, share, kinds, Arc::clone(&schema), columns.clone());
            let is_apart = self.request.apart.as_deref() == Some("type");
            let apart = if is_apart { kinds.each().map(|kind| (kind, generator(kind))).collect() } else { Vec::new() };
            self.splits.push(Part { id: split.id, next, generator: generator(kinds), kinds, apart, caught_up: false });
        }
        Ok(())
    }

    fn poll(&mut self, request: PollRequest) -> Result<Polled> {
        // The split that is furthest behind goes first, so that the splits of a task advance together in event time.
        self.splits.sort_by_key(|part| part.next);
        let available = self.available();
        let mut polled = Polled::default();
        for index in 0..self.splits.len() {
            let part = &mut self.splits[index];
            let chunks = part.read(&self.config, &self.request, available, request.max_rows.max(1))?;
            if chunks.is_empty() {
                continue;
            }
            polled.chunks.extend(chunks);
            if part.next >= self.config.end() {
                polled.states.push((part.id.clone(), SplitState::Finished));
                self.splits.remove(index);
            } else if part.caught_up {
                part.caught_up = false;
                polled.states.push((part.id.clone(), SplitState::Pending));
            }
            return Ok(polled);
        }
        for part in self.splits.iter_mut().filter(|part| !part.caught_up) {
            part.caught_up = true;
            polled.states.push((part.id.clone(), SplitState::CaughtUp));
        }
        polled.retry_after = Some(self.pause());
        Ok(polled)
    }
}

impl Reader {
    /// One past the last event that the rate allows by now.
    fn available(&mut self) -> u64 {
        let end = self.config.end();
        if self.config.rate == 0 {
            return end;
        }
        let now = self.clock.monotonic();
        let first = self.splits.first().map_or(0, |part| part.next);
        let pace = self.pace.get_or_insert(Pace { event: first, at: now });
        let due = now.saturating_sub(pace.at).as_nanos() * u128::from(self.config.rate) / 1_000_000_000;
        pace.event.saturating_add(u64::try_from(due).unwrap_or(u64::MAX)).min(end)
    }

    /// How long until about a hundredth of a second's events are due.
    fn pause(&self) -> Duration {
        let Some(pace) = &self.pace else { return Duration::from_secs(1) };
        let Some(part) = self.splits.first() else { return Duration::from_secs(1) };
        let events = part.next.saturating_sub(pace.event) + (self.config.rate / 100).max(1);
        let due = u128::from(events) * 1_000_000_000 / u128::from(self.config.rate);
        let due = pace.at + Duration::from_nanos(u64::try_from(due).unwrap_or(u64::MAX));
        due.saturating_sub(self.clock.monotonic()).clamp(Duration::from_millis(1), Duration::from_secs(1))
    }
}

impl Part {
    /// The next rows of events before `available`; nothing if there are none yet.
    fn read(&mut self, config: &NexmarkConfig, request: &SourceRequest, available: u64, max_rows: usize) -> Result<Vec<Chunk>> {
        let share = self.generator.share();
        let end = config.end();
        if self.kinds == Kinds::NONE {
            // Nothing passes the condition on `type`: time and position move on without rows.
            let next = available.min(self.next.saturating_add(1 << 20)).max(self.next);
            let chunk = (next > self.next || next >= end).then(|| self.chunk(config, 0, 0, next)).transpose()?;
            return Ok(chunk.into_iter().collect());
        }
        if available <= self.next && available < end {
            // A split that was ahead of the others when they were stopped waits until they have come as far.
            return Ok(Vec::new());
        }
        let from = share.row_at(self.kinds, self.next);
        // A position past the end, left by a stream that was longer, has nothing before it any more.
        let last = share.row_at(self.kinds, available).max(from);
        let to = last.min(from.saturating_add(max_rows as u64));
        if to == from && available < end {
            return Ok(Vec::new());
        }
        let next = if to == last && available >= end { end.max(self.next) } else { share.event_at(self.kinds, to) };
        if !self.apart.is_empty() {
            return self.kind_by_kind(config, request, next);
        }
        let mut chunk = self.chunk(config, from, to, next)?;
        if request.ordinals {
            chunk.ordinals = ordinals(self.generator.share(), self.kinds, from, to);
        }
        Ok(vec![chunk])
    }

    /// The rows before event `next`, a chunk for each kind. The last one says where to go on, and what was left out.
    fn kind_by_kind(&mut self, config: &NexmarkConfig, request: &SourceRequest, next: u64) -> Result<Vec<Chunk>> {
        let (share, first) = (self.generator.share(), self.next);
        let mut chunks = Vec::with_capacity(self.apart.len());
        for (kind, generator) in &mut self.apart {
            let (from, to) = (share.row_at(*kind, first), share.row_at(*kind, next));
            if from < to {
                let mut chunk = Chunk::new(self.id.clone(), generator.rows(from, to)?, Position::number(first));
                if request.ordinals {
                    chunk.ordinals = ordinals(share, *kind, from, to);
                }
                chunks.push(chunk);
            }
        }
        let mut last = match chunks.pop() {
            Some(chunk) => chunk,
            None => Chunk::new(self.id.clone(), self.generator.rows(0, 0)?, Position::number(first)),
        };
        self.finish(config, &mut last, next);
        chunks.push(last);
        Ok(chunks)
    }

    /// Rows `from..to`, and everything left out before event `next`.
    fn chunk(&mut self, config: &NexmarkConfig, from: u64, to: u64, next: u64) -> Result<Chunk> {
        let rows = self.generator.rows(from, to)?;
        let mut chunk = Chunk::new(self.id.clone(), rows, Position::number(next));
        self.finish(config, &mut chunk, next);
        Ok(chunk)
    }

    /// Moves the position to event `next`, and says what was left out before it.
    fn finish(&mut self, config: &NexmarkConfig, chunk: &mut Chunk, next: u64) {
        chunk.position = Position::number(next);
        let left_out = config.kinds.without(self.kinds);
        if left_out != Kinds::NONE {
            let share = self.generator.share();
            let (first, last) = (share.row_at(left_out, self.next), share.row_at(left_out, next));
            chunk.filtered = last - first;
            chunk.filtered_max_time = self.latest(left_out, first, last);
        }
        self.next = next;
    }

    /// The largest time among rows `first..last` of `kinds`. Displacement is bounded, so only the last few are looked at.
    fn latest(&self, kinds: Kinds, first: u64, last: u64) -> Option<EventTime> {
        let (share, draws) = (self.generator.share(), self.generator.draws());
        let mut latest: Option<i64> = None;
        for row in (first..last).rev() {
            let event = share.event_at(kinds, row);
            if latest.is_some_and(|latest| draws.base_time(event) <= latest) {
                break;
            }
            latest = latest.max(Some(draws.time(event)));
        }
        latest.map(EventTime::from_millis)
    }
}

/// A row's ordinal is its event's number.
fn ordinals(share: Share, kinds: Kinds, from: u64, to: u64) -> Ordinals {
    if share.of == 1 && kinds == Kinds::ALL {
        return Ordinals::From(share.event_at(kinds, from));
    }
    Ordinals::Each((from..to).map(|row| share.event_at(kinds, row)).collect::<Vec<u64>>().into())
}

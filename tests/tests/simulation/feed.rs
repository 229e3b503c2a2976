//! Sources that are slow, fall asleep, hand rows over in any cut, find splits while they run, and forget what was acknowledged.

use super::rows::{Row, batch, schema};
use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tidegate_api::{
    Chunk, Clock, Discovered, Error, InlineSource, Ordinals, PollRequest, Polled, Position, Result, SourceCtx, SourcePlan, SourceReader,
    SourceRequest, Split, SplitId, SplitState,
};
use tidegate_runtime::simulate::SimRandom;

/// Splits that come into being together. No row of a later wave is before a row of an earlier one.
#[derive(Debug, Clone)]
pub struct Wave {
    /// How often the job must have come to its end before.
    pub after_ends: u32,
    /// When, on the monotonic clock.
    pub born: Duration,
    pub splits: Vec<(SplitId, Vec<Row>)>,
}

/// A dataset as the outside holds it.
#[derive(Debug, Default)]
pub struct Dataset {
    pub waves: Vec<Wave>,
    /// Whether splits are caught up for a while now and then, so that they become idle.
    pub sleeps: bool,
    /// Whether acknowledged rows are gone for good.
    pub forgets: bool,
    pub forgotten: Mutex<BTreeMap<SplitId, u64>>,
}

impl Dataset {
    /// Every row there will ever be.
    pub fn rows(&self) -> Vec<Row> {
        self.waves.iter().flat_map(|wave| &wave.splits).flat_map(|(_, rows)| rows.iter().copied()).collect()
    }
}

/// A dataset as one start reads it.
#[derive(Clone)]
pub struct Feed {
    pub dataset: Arc<Dataset>,
    pub ended: u32,
    pub clock: Arc<dyn Clock>,
    pub seed: u64,
}

fn projection(request: &SourceRequest) -> Vec<usize> {
    let schema = schema();
    (0..schema.fields().len()).filter(|index| request.wants(schema.field(*index).name())).collect()
}

/// The plan of every feed.
pub fn plan(request: &SourceRequest) -> Result<SourcePlan> {
    let narrow: SchemaRef = Arc::new(schema().project(&projection(request))?);
    Ok(SourcePlan::new(narrow))
}

impl InlineSource for Feed {
    fn plan(&self, request: &SourceRequest) -> Result<SourcePlan> {
        plan(request)
    }

    fn discover(&self, cursor: Option<&[u8]>) -> Result<Discovered> {
        let known = cursor.and_then(|cursor| Position(cursor.to_vec()).as_number()).unwrap_or(0) as usize;
        let waves = &self.dataset.waves;
        let now = self.clock.monotonic();
        let may_be = waves.iter().take_while(|wave| wave.after_ends <= self.ended).count();
        // The first wave after an end is there at once, or a start would find nothing to do.
        let there = waves[..may_be].iter().enumerate().take_while(|(at, wave)| {
            let first = *at == 0 || waves[at - 1].after_ends < wave.after_ends;
            *at < known || first || wave.born <= now
        });
        let there = there.count().max(known);
        let split = |(id, _): &(SplitId, Vec<Row>)| Split { id: id.clone(), details: Vec::new(), position: Some(Position::number(0)) };
        Ok(Discovered {
            added: waves[known..there].iter().flat_map(|wave| wave.splits.iter().map(split)).collect(),
            gone: Vec::new(),
            cursor: Some(Position::number(there as u64).0),
            complete: there == may_be,
        })
    }

    fn discover_every(&self) -> Option<Duration> {
        Some(Duration::from_millis(2))
    }

    fn open(&self, ctx: SourceCtx) -> Result<Box<dyn SourceReader>> {
        let random = SimRandom::new(self.seed ^ ctx.task as u64);
        let mut reader = Reader { feed: self.clone(), projection: projection(&ctx.request), open: Vec::new(), random };
        reader.assign(ctx.start)?;
        Ok(Box::new(reader))
    }
}

struct Open {
    id: SplitId,
    rows: RecordBatch,
    at: u64,
    asleep_until: Duration,
}

struct Reader {
    feed: Feed,
    projection: Vec<usize>,
    open: Vec<Open>,
    random: SimRandom,
}

impl Reader {
    /// One chunk of a split; `None` at its end.
    fn chunk(&mut self, index: usize, most: usize) -> Option<Chunk> {
        let split = &mut self.open[index];
        let forgotten = self.feed.dataset.forgotten.lock().unwrap().get(&split.id).copied().unwrap_or(0);
        // What is forgotten is not there any more: reading goes on behind it, and nobody is told.
        let from = split.at.max(forgotten) as usize;
        let left = split.rows.num_rows().saturating_sub(from);
        if left == 0 {
            return None;
        }
        let count = 1 + self.random.below(left.min(most) as u64) as usize;
        split.at = (from + count) as u64;
        let mut chunk = Chunk::new(split.id.clone(), split.rows.slice(from, count), Position::number(split.at));
        chunk.ordinals = Ordinals::From(from as u64);
        Some(chunk)
    }
}

impl SourceReader for Reader {
    fn assign(&mut self, splits: Vec<Split>) -> Result<()> {
        for split in splits {
            let all = self.feed.dataset.waves.iter().flat_map(|wave| &wave.splits);
            let found = all.into_iter().find(|(id, _)| *id == split.id).map(|(_, rows)| batch(rows));
            let rows = found.ok_or_else(|| Error::internal(format!("no split `{}`", split.id)))?.project(&self.projection)?;
            let at = split.position.and_then(|position| position.as_number()).unwrap_or(0);
            self.open.push(Open { id: split.id, rows, at, asleep_until: Duration::ZERO });
        }
        Ok(())
    }

    fn poll(&mut self, request: PollRequest) -> Result<Polled> {
        let mut polled = Polled::default();
        if self.open.is_empty() {
            return Ok(polled);
        }
        match self.random.below(40) {
            0 => return Err(Error::retryable("the outside is busy", Duration::from_millis(1))),
            1 | 2 => return Ok(polled),
            3..=5 => {
                polled.retry_after = Some(Duration::from_micros(self.random.below(20_000)));
                return Ok(polled);
            }
            _ => {}
        }
        let now = self.feed.clock.monotonic();
        let mut room = request.max_rows.max(1);
        for _ in 0..=self.random.below(3) {
            if room == 0 || self.open.is_empty() {
                break;
            }
            let index = self.random.below(self.open.len() as u64) as usize;
            if self.feed.dataset.sleeps {
                if self.random.one_in(8) {
                    self.open[index].asleep_until = now + Duration::from_micros(self.random.below(60_000));
                }
                if self.open[index].asleep_until > now {
                    polled.states.push((self.open[index].id.clone(), SplitState::CaughtUp));
                    continue;
                }
            }
            match self.chunk(index, room) {
                Some(chunk) => {
                    room -= chunk.rows.num_rows();
                    polled.states.retain(|(split, _)| *split != chunk.split);
                    polled.states.push((chunk.split.clone(), SplitState::Pending));
                    polled.chunks.push(chunk);
                }
                None => {
                    let ended = self.open.swap_remove(index);
                    polled.states.retain(|(split, _)| *split != ended.id);
                    polled.states.push((ended.id, SplitState::Finished));
                }
            }
        }
        if polled.chunks.is_empty() && self.random.one_in(2) {
            polled.retry_after = Some(Duration::from_micros(self.random.below(10_000)));
        }
        Ok(polled)
    }

    fn committed(&mut self, positions: &[(SplitId, Position)]) -> Result<()> {
        if self.feed.dataset.forgets {
            let mut forgotten = self.feed.dataset.forgotten.lock().unwrap();
            for (split, position) in positions {
                let slot = forgotten.entry(split.clone()).or_default();
                *slot = (*slot).max(position.as_number().unwrap_or(0));
            }
        }
        Ok(())
    }
}

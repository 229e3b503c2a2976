//! A source that reads no further than a script allows, and that fails where the script says so.

use std::collections::BTreeMap;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tidegate_api::{
    Discovered, Error, InlineSource, PollRequest, Polled, Position, Result, SourceCtx, SourcePlan, SourceReader, SourceRequest, Split,
    SplitId, SplitState,
};

/// What the failure says.
pub(crate) const CRASH: &str = "the crash that the test planned";

/// By split, the number of the next event.
pub(crate) type Positions = BTreeMap<SplitId, u64>;

/// How far the readers of one start may read, and how far they are.
#[derive(Debug, Default)]
pub(crate) struct Gate {
    state: Mutex<State>,
    opened: Condvar,
}

#[derive(Debug, Default)]
struct State {
    /// Events below this may be read.
    limit: u64,
    /// Whether to fail once they are.
    crash: bool,
    at: Positions,
    began_at: Positions,
    restoring: bool,
}

impl Gate {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Lets the readers go on to event `limit`. Where `crash` is set, the reader that gets there last fails.
    pub(crate) fn open(&self, limit: u64, crash: bool) {
        let mut state = self.lock();
        (state.limit, state.crash) = (limit, crash);
        drop(state);
        self.opened.notify_all();
    }

    /// Whether every split has been read up to the limit.
    pub(crate) fn is_reached(&self) -> bool {
        self.lock().is_reached()
    }

    /// Where the readers are.
    pub(crate) fn at(&self) -> Positions {
        self.lock().at.clone()
    }

    /// Where they began, and whether that came from a manifest.
    pub(crate) fn began(&self) -> (Positions, bool) {
        let state = self.lock();
        (state.began_at.clone(), state.restoring)
    }
}

impl State {
    fn is_reached(&self) -> bool {
        !self.at.is_empty() && self.at.values().all(|at| *at >= self.limit)
    }
}

/// The generator behind a gate.
pub(crate) struct Gated {
    pub(crate) inner: Arc<dyn InlineSource>,
    pub(crate) gate: Arc<Gate>,
    /// How many splits share the events.
    pub(crate) splits: u64,
}

impl InlineSource for Gated {
    fn plan(&self, request: &SourceRequest) -> Result<SourcePlan> {
        self.inner.plan(request)
    }

    fn discover(&self, cursor: Option<&[u8]>) -> Result<Discovered> {
        self.inner.discover(cursor)
    }

    fn open(&self, ctx: SourceCtx) -> Result<Box<dyn SourceReader>> {
        let mut state = self.gate.lock();
        state.restoring = ctx.restoring;
        let mut own = Vec::new();
        for split in &ctx.start {
            let at = split.position.as_ref().and_then(Position::as_number).unwrap_or(0);
            state.at.insert(split.id.clone(), at);
            state.began_at.insert(split.id.clone(), at);
            own.push(split.id.clone());
        }
        drop(state);
        Ok(Box::new(Reader { inner: self.inner.open(ctx)?, gate: Arc::clone(&self.gate), own, events_per_row: 50 * self.splits }))
    }
}

struct Reader {
    inner: Box<dyn SourceReader>,
    gate: Arc<Gate>,
    /// Its splits that have not ended.
    own: Vec<SplitId>,
    /// How far a row moves a split: at first the most, an event of fifty, so that no poll goes far past the limit.
    events_per_row: u64,
}

impl SourceReader for Reader {
    fn assign(&mut self, splits: Vec<Split>) -> Result<()> {
        self.inner.assign(splits)
    }

    fn poll(&mut self, request: PollRequest) -> Result<Polled> {
        let state = self.gate.lock();
        let behind = self.own.iter().map(|split| state.at[split]).min().unwrap_or(u64::MAX);
        if behind != u64::MAX && behind >= state.limit {
            // A barrier waits for this as well, so it is short. The splits have more, and say so: they are not idle.
            let (state, _) = self.gate.opened.wait_timeout(state, Duration::from_millis(1)).unwrap_or_else(PoisonError::into_inner);
            drop(state);
            return Ok(Polled { states: self.own.iter().map(|split| (split.clone(), SplitState::Pending)).collect(), ..Polled::default() });
        }
        let rows = state.limit.saturating_sub(behind) / self.events_per_row;
        drop(state);
        let rows = request.max_rows.min(usize::try_from(rows).unwrap_or(usize::MAX)).max(1);
        let polled = self.inner.poll(PollRequest { max_rows: rows, ..request })?;

        let mut state = self.gate.lock();
        for chunk in &polled.chunks {
            let next = chunk.position.as_number().unwrap_or(u64::MAX);
            let before = state.at.insert(chunk.split.clone(), next).unwrap_or(0);
            if chunk.rows.num_rows() > 0 {
                self.events_per_row = (next.saturating_sub(before) / chunk.rows.num_rows() as u64).max(1);
            }
        }
        self.own.retain(|split| !polled.states.contains(&(split.clone(), SplitState::Finished)));
        if state.crash && state.is_reached() {
            return Err(Error::external(CRASH));
        }
        Ok(polled)
    }

    fn committed(&mut self, positions: &[(SplitId, Position)]) -> Result<()> {
        self.inner.committed(positions)
    }
}

//! A source that ends after so many rows, for a look at what a pipeline makes of its inputs.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tidegate_api::{
    Clock, Discovered, InlineSource, PollRequest, Polled, Position, Result, SourceCtx, SourcePlan, SourceReader, SourceRequest, Split,
    SplitId, SplitState, SystemClock,
};

/// How long a task waits that may read no more while others hold what is left.
const PAUSE: Duration = Duration::from_millis(5);
/// How often it is looked whether all was read, where splits may still be found.
const LOOK: Duration = Duration::from_millis(200);

/// See the module's documentation. A table that is looked up is read whole all the same: half of it would answer otherwise. All tasks share the rows; the outside is told of nothing that was read.
pub(super) struct Limited {
    source: Arc<dyn InlineSource>,
    budget: Arc<Budget>,
    /// When the source was asked for splits.
    asked: Mutex<Option<Duration>>,
    /// Whether it is such a table, as its plan said.
    reloads: AtomicBool,
}

/// Rows that may still be read. What a poll may take is set aside before it, so that no two take the same.
#[derive(Debug)]
struct Budget {
    limit: u64,
    aside: AtomicU64,
    read: AtomicU64,
}

impl Limited {
    pub(super) fn new(source: Arc<dyn InlineSource>, limit: u64) -> Self {
        let budget = Arc::new(Budget { limit, aside: AtomicU64::new(0), read: AtomicU64::new(0) });
        Limited { source, budget, asked: Mutex::new(None), reloads: AtomicBool::new(false) }
    }
}

impl Budget {
    /// Sets rows aside, at most `wanted`.
    fn take(&self, wanted: u64) -> u64 {
        let mut taken = 0;
        // Never fails for good: the update answers something whatever is there.
        let _ = self.aside.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |aside| {
            taken = self.limit.saturating_sub(aside).min(wanted);
            Some(aside + taken)
        });
        taken
    }

    /// Of what was set aside so many were read.
    fn settle(&self, taken: u64, read: u64) {
        self.read.fetch_add(read, Ordering::SeqCst);
        // More than was asked for: nobody else may have them.
        match read.checked_sub(taken) {
            Some(more) => self.aside.fetch_add(more, Ordering::SeqCst),
            None => self.aside.fetch_sub(taken - read, Ordering::SeqCst),
        };
    }

    fn is_spent(&self) -> bool {
        self.read.load(Ordering::SeqCst) >= self.limit
    }
}

/// Without conditions: rows that a source leaves out are rows that it has read, however it counts what it was asked for.
fn whole(request: SourceRequest) -> SourceRequest {
    request.with_equals(Vec::new())
}

impl InlineSource for Limited {
    fn plan(&self, request: &SourceRequest) -> Result<SourcePlan> {
        let plan = self.source.plan(&whole(request.clone()))?;
        self.reloads.store(plan.reloads, Ordering::SeqCst);
        Ok(plan.with_bounded(true))
    }

    fn check(&self) -> Result<()> {
        self.source.check()
    }

    fn discover(&self, cursor: Option<&[u8]>) -> Result<Discovered> {
        let nothing = |complete| Discovered { cursor: cursor.map(<[u8]>::to_vec), complete, ..Discovered::default() };
        if self.budget.is_spent() {
            return Ok(nothing(true));
        }
        let mut asked = self.asked.lock().unwrap_or_else(PoisonError::into_inner);
        let now = SystemClock.monotonic();
        // Looked at more often than the source wants, so that the end is noticed soon; the source is asked as it wants.
        let soon = asked.zip(self.source.discover_every()).is_some_and(|(asked, every)| now.saturating_sub(asked) < every);
        if soon && cursor.is_some() {
            return Ok(nothing(false));
        }
        *asked = Some(now);
        self.source.discover(cursor)
    }

    fn discover_every(&self) -> Option<Duration> {
        self.source.discover_every().map(|every| every.min(LOOK))
    }

    fn remembers_splits(&self) -> bool {
        self.source.remembers_splits()
    }

    fn open(&self, mut ctx: SourceCtx) -> Result<Box<dyn SourceReader>> {
        ctx.request = whole(ctx.request);
        if self.reloads.load(Ordering::SeqCst) {
            return self.source.open(ctx);
        }
        let open = ctx.start.iter().map(|split| split.id.clone()).collect();
        Ok(Box::new(Reader { reader: self.source.open(ctx)?, budget: Arc::clone(&self.budget), open }))
    }
}

struct Reader {
    reader: Box<dyn SourceReader>,
    budget: Arc<Budget>,
    /// Splits that have not finished.
    open: BTreeSet<SplitId>,
}

impl SourceReader for Reader {
    fn assign(&mut self, splits: Vec<Split>) -> Result<()> {
        self.open.extend(splits.iter().map(|split| split.id.clone()));
        self.reader.assign(splits)
    }

    fn poll(&mut self, request: PollRequest) -> Result<Polled> {
        if self.budget.is_spent() {
            let states = std::mem::take(&mut self.open).into_iter().map(|split| (split, SplitState::Finished)).collect();
            return Ok(Polled { states, retry_after: Some(PAUSE), ..Polled::default() });
        }
        let taken = self.budget.take(request.max_rows as u64);
        if taken == 0 {
            return Ok(Polled { retry_after: Some(PAUSE), ..Polled::default() });
        }
        let polled = self.reader.poll(PollRequest { max_rows: usize::try_from(taken).unwrap_or(usize::MAX), ..request });
        let count =
            |polled: &Polled| polled.chunks.iter().map(|chunk| (chunk.rows.num_rows() + chunk.bad.len()) as u64 + chunk.filtered).sum();
        self.budget.settle(taken, polled.as_ref().map_or(0, count));
        let polled = polled?;
        for (split, state) in &polled.states {
            if *state == SplitState::Finished {
                self.open.remove(split);
            }
        }
        Ok(polled)
    }

    fn committed(&mut self, _: &[(SplitId, Position)]) -> Result<()> {
        // A queue would let go of rows that a real run is still to read.
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Whatever is set aside and given back, no more rows are read than there are, but for those that a source adds unasked.
        #[test]
        fn a_budget_is_never_overdrawn(limit in 1u64..100, polls in proptest::collection::vec((0u64..20, 0u64..20), 0..50)) {
            let budget = Budget { limit, aside: AtomicU64::new(0), read: AtomicU64::new(0) };
            let mut read = 0;
            for (wanted, there) in polls {
                let taken = budget.take(wanted);
                prop_assert!(taken <= wanted && read + taken <= limit);
                budget.settle(taken, there.min(taken));
                read += there.min(taken);
                prop_assert_eq!(budget.is_spent(), read == limit);
            }
            prop_assert_eq!(budget.take(u64::MAX), limit - read);
        }
    }

    #[test]
    fn rows_that_nobody_asked_for_are_spent_too() {
        let budget = Budget { limit: 10, aside: AtomicU64::new(0), read: AtomicU64::new(0) };
        assert_eq!(budget.take(4), 4);
        budget.settle(4, 12);
        assert!(budget.is_spent());
        assert_eq!(budget.take(1), 0);
    }
}

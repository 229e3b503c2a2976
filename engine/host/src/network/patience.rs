//! Waiting for the outside, as long as `limits.ioTimeout` at a time.
//!
//! An instance's connections live from call to call and stand still in between. So the time between two calls, which is the engine's
//! and may be long, does not count: a wait that a new call finds begins anew.

use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::time::{Sleep, sleep};

/// Counts an instance's calls.
#[derive(Debug, Clone, Default)]
pub(super) struct Calls(Arc<AtomicU64>);

impl Calls {
    pub(super) fn begin(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    fn current(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// How long something may take before it counts as dead.
#[derive(Debug)]
pub(super) struct Patience {
    limit: Duration,
    calls: Calls,
    /// The call in which the wait began, and its end.
    armed: Option<(u64, Pin<Box<Sleep>>)>,
}

impl Patience {
    pub(super) fn new(limit: Duration, calls: Calls) -> Self {
        Patience { limit, calls, armed: None }
    }

    /// Something happened; the next wait has all the time again.
    pub(super) fn rest(&mut self) {
        self.armed = None;
    }

    /// Whether the wait is over its time; otherwise the task is woken when it is.
    pub(super) fn exhausted(&mut self, cx: &mut Context<'_>) -> bool {
        let call = self.calls.current();
        loop {
            let limit = self.limit;
            let (began, end) = self.armed.get_or_insert_with(|| (call, Box::pin(sleep(limit))));
            if end.as_mut().poll(cx).is_pending() {
                return false;
            }
            if *began == call {
                return true;
            }
            self.armed = None;
        }
    }

    /// Waits for a future; `None` when it takes too long.
    pub(super) async fn wait<T>(mut self, future: impl Future<Output = T>) -> Option<T> {
        let mut future = pin!(future);
        poll_fn(|cx| match future.as_mut().poll(cx) {
            Poll::Ready(value) => Poll::Ready(Some(value)),
            Poll::Pending if self.exhausted(cx) => Poll::Ready(None),
            Poll::Pending => Poll::Pending,
        })
        .await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn block_on<T>(future: impl Future<Output = T>) -> T {
        tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap().block_on(future)
    }

    #[test]
    fn a_wait_ends_with_its_time() {
        let patience = Patience::new(Duration::from_millis(20), Calls::default());
        assert_eq!(block_on(patience.wait(std::future::pending::<()>())), None);
        let patience = Patience::new(Duration::from_millis(20), Calls::default());
        assert_eq!(block_on(patience.wait(async { 7 })), Some(7));
    }

    #[test]
    fn the_time_between_two_calls_does_not_count() {
        let calls = Calls::default();
        let mut patience = Patience::new(Duration::from_millis(20), calls.clone());
        block_on(async {
            let exhausted = |patience: &mut Patience| {
                let context = &mut Context::from_waker(std::task::Waker::noop());
                patience.exhausted(context)
            };
            assert!(!exhausted(&mut patience));
            sleep(Duration::from_millis(40)).await;
            calls.begin();
            assert!(!exhausted(&mut patience), "it begins anew with the call");
            sleep(Duration::from_millis(40)).await;
            assert!(exhausted(&mut patience));
        });
    }
}

//! The client that fetches ahead for one task: a queue per partition, all of them together bounded, and a bell that rings when an empty
//! one gets something.
//!
//! With a queue for each partition it is known whose rows and whose end came, a partition that is behind cannot hide another, and rows of
//! one partition stand together as they are to be decoded.

use super::discovery::list;
use super::listener::{Listener, consumer_config};
use super::place::Partition;
use super::source_config::SourceConfig;
use rdkafka::consumer::base_consumer::PartitionQueue;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::topic_partition_list::Offset;
use std::collections::BTreeSet;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tidegate_api::{Error, Result};

pub(super) type Queue = PartitionQueue<Listener>;

/// What the client itself needs for a message that waits, about.
const MESSAGE_OVERHEAD: u64 = 512;
/// The least that a partition may fetch at a time.
const LEAST_SHARE: u64 = 64 << 10;

/// Rings when a queue that was empty is not.
#[derive(Debug, Default)]
pub(super) struct Bell {
    rung: Mutex<BTreeSet<usize>>,
    any: Condvar,
}

impl Bell {
    fn rung(&self) -> MutexGuard<'_, BTreeSet<usize>> {
        self.rung.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Called by the client's own threads, which hold a lock of the queue: nothing here may call the client.
    fn ring(&self, number: usize) {
        self.rung().insert(number);
        self.any.notify_one();
    }

    /// Who rang since the last time.
    pub(super) fn take(&self) -> BTreeSet<usize> {
        std::mem::take(&mut *self.rung())
    }

    /// Waits until somebody has rung, not longer than this.
    pub(super) fn wait(&self, most: Duration) {
        let waited = self.any.wait_timeout_while(self.rung(), most, |rung| rung.is_empty());
        drop(waited.unwrap_or_else(PoisonError::into_inner));
    }
}

/// Fetches ahead.
pub(super) struct Ahead {
    consumer: Arc<BaseConsumer<Listener>>,
    bell: Arc<Bell>,
    /// For how many partitions the bounds were computed.
    fits: usize,
}

impl Ahead {
    /// A client for about so many partitions.
    ///
    /// # Errors
    /// `Config` for properties that do not fit each other.
    pub(super) fn open(config: &SourceConfig, partitions: usize) -> Result<Self> {
        let fits = partitions.next_power_of_two();
        let mut settings = consumer_config(&config.cluster, Some(&config.group));
        for (key, value) in bounds(config.prefetch, fits) {
            if config.cluster.property(key).is_none() {
                settings.set(key, value.to_string());
            }
        }
        let made = settings.create_with_context(Listener::new(&config.cluster));
        let consumer: BaseConsumer<Listener> = made.map_err(|error| super::client::failed("making a Kafka client", &error))?;
        Ok(Ahead { consumer: Arc::new(consumer), bell: Arc::default(), fits })
    }

    /// Whether so many partitions stay within the bounds.
    pub(super) fn fits(&self, partitions: usize) -> bool {
        partitions <= self.fits
    }

    pub(super) fn consumer(&self) -> &BaseConsumer<Listener> {
        &self.consumer
    }

    pub(super) fn listener(&self) -> &Listener {
        self.consumer.context()
    }

    pub(super) fn bell(&self) -> &Bell {
        &self.bell
    }

    /// The queue of a partition, which rings with this number. Before [`Ahead::fetch`], so that nothing comes beside it.
    pub(super) fn queue(&self, partition: &Partition, number: usize) -> Result<Queue> {
        let queue = self.consumer.split_partition_queue(&partition.topic, partition.number);
        let mut queue = queue.ok_or_else(|| Error::internal(format!("the client has no queue for partition `{partition}`")))?;
        let bell = Arc::clone(&self.bell);
        queue.set_nonempty_callback(move || bell.ring(number));
        Ok(queue)
    }

    /// Begins to fetch partitions at offsets.
    pub(super) fn fetch(&self, partitions: &[(&Partition, i64)]) -> Result<()> {
        let offset = |partition: &Partition| {
            let found = partitions.iter().find(|(other, _)| *other == partition);
            found.map_or(Offset::Invalid, |(_, offset)| Offset::Offset(*offset))
        };
        let assigned = list(partitions.iter().map(|(partition, _)| *partition), offset)?;
        self.consumer
            .incremental_assign(&assigned)
            .map_err(|error| Error::internal(format!("the client does not take partitions: {error}")))
    }

    /// Fetches nothing more of a partition that has ended.
    pub(super) fn leave(&self, partition: &Partition) -> Result<()> {
        let left = list(std::iter::once(partition), |_| Offset::Invalid)?;
        if let Err(error) = self.consumer.incremental_unassign(&left) {
            // It fetches a little too much, up to its bound.
            tracing::debug!(%error, %partition, "a partition that has ended is still fetched");
        }
        Ok(())
    }
}

/// What each partition may hold ahead, so that all together hold about `prefetch`. The client counts per queue.
fn bounds(prefetch: u64, partitions: usize) -> [(&'static str, u64); 3] {
    let share = (prefetch / partitions.max(1) as u64).max(LEAST_SHARE);
    [
        ("queued.max.messages.kbytes", share.div_ceil(1024).clamp(64, 2_097_151)),
        ("queued.min.messages", (share / MESSAGE_OVERHEAD).clamp(100, 100_000)),
        ("fetch.message.max.bytes", share.min(1 << 20)),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_partitions_together_hold_what_one_may() {
        let total = |partitions: usize| bounds(64 << 20, partitions)[0].1 * 1024 * partitions as u64;
        for partitions in [1, 2, 64, 1024] {
            assert_eq!(total(partitions), 64 << 20, "{partitions}");
        }
        assert_eq!(
            bounds(64 << 20, 1),
            [("queued.max.messages.kbytes", 65_536), ("queued.min.messages", 100_000), ("fetch.message.max.bytes", 1 << 20)]
        );
        assert_eq!(bounds(1 << 20, 4096)[2].1, LEAST_SHARE);
        assert_eq!(bounds(u64::MAX, 1)[0].1, 2_097_151);
    }

    #[test]
    fn a_bell_remembers_who_rang() {
        let bell = Bell::default();
        for number in [4, 2, 4] {
            bell.ring(number);
        }
        bell.wait(Duration::from_secs(60));
        assert_eq!(bell.take().into_iter().collect::<Vec<_>>(), [2, 4]);
        bell.wait(Duration::ZERO);
        assert!(bell.take().is_empty());
    }
}

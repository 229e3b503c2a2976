//! Tells a consumer group where the newest durable epoch stands, for those who watch it. Nothing waits for the answer.
//!
//! A client of its own, since the client that fetches takes no new partitions while a commit is under way, and cannot be closed before
//! it is answered, which a broker that is away never does. It belongs to the source, so readers come and go without it.

use super::discovery::list;
use super::listener::{Listener, consumer_config};
use super::place::Partition;
use super::source_config::SourceConfig;
use rdkafka::consumer::{BaseConsumer, CommitMode, Consumer};
use rdkafka::topic_partition_list::Offset;
use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;
use tidegate_api::{Error, Result};

/// So many commits may be under way; what comes then is told with the next epoch.
const MOST: usize = 16;
/// How long the end of a run waits for the last commits.
const PATIENCE: Duration = Duration::from_secs(2);
const PAUSE: Duration = Duration::from_millis(20);

/// Commits offsets to one group.
#[derive(Default)]
pub(super) struct Teller {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    client: Option<BaseConsumer<Listener>>,
    /// What was told.
    told: BTreeMap<Partition, i64>,
    /// What is to be told, and found no room.
    waiting: BTreeMap<Partition, i64>,
}

impl Teller {
    /// Commits where each partition is read on.
    ///
    /// # Errors
    /// `External` if the client does not take it. What the cluster answers later is logged.
    pub(super) fn tell(&self, config: &SourceConfig, offsets: BTreeMap<Partition, i64>) -> Result<()> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let State { client, told, waiting } = &mut *state;
        waiting.extend(offsets.into_iter().filter(|(partition, offset)| told.get(partition) != Some(offset)));
        if client.is_none() && waiting.is_empty() {
            return Ok(());
        }
        let client = match client {
            Some(client) => client,
            none => {
                let settings = consumer_config(&config.cluster, Some(&config.group));
                let made = settings.create_with_context(Listener::new(&config.cluster));
                none.insert(made.map_err(|error| super::client::failed("making a Kafka client", &error))?)
            }
        };
        listen(client);
        if waiting.is_empty() || client.context().commits() >= MOST {
            return Ok(());
        }
        commit(client, waiting).map_err(|error| error.context(format!("committing offsets to the consumer group `{}`", config.group)))?;
        told.append(waiting);
        Ok(())
    }
}

fn commit(client: &BaseConsumer<Listener>, offsets: &BTreeMap<Partition, i64>) -> Result<()> {
    let asked = list(offsets.keys(), |partition| offsets.get(partition).map_or(Offset::Invalid, |offset| Offset::Offset(*offset)))?;
    client.context().commit_begins();
    client.commit(&asked, CommitMode::Async).map_err(|error| {
        client.context().commit_ends();
        Error::external(error.to_string())
    })
}

/// Hears answers and errors; no error here is more than a commit that fails.
fn listen(client: &BaseConsumer<Listener>) {
    loop {
        let before = client.context().heard();
        if client.poll(Duration::ZERO).is_none() && client.context().heard() == before {
            return;
        }
    }
}

impl Drop for Teller {
    fn drop(&mut self) {
        let state = self.state.get_mut().unwrap_or_else(PoisonError::into_inner);
        let Some(client) = state.client.take() else { return };
        listen(&client);
        if !state.waiting.is_empty() && client.context().commits() < MOST {
            // Who watches sees the end, if the cluster answers.
            let _ = commit(&client, &state.waiting);
        }
        let mut left = PATIENCE;
        while client.context().commits() > 0 && !left.is_zero() {
            let _ = client.poll(PAUSE);
            listen(&client);
            left = left.saturating_sub(PAUSE);
        }
        if client.context().commits() > 0 {
            // Closing would wait for an answer, for minutes if the cluster is away. The client stays, and ends with the process.
            tracing::debug!("a client is left behind whose last commit is not answered");
            std::mem::forget(client);
        }
    }
}

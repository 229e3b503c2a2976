//! Finishing and undoing epochs, without a writer.

use super::{instance, operator};
use crate::bindings::sink::SinkPlugin;
use crate::bindings::sink::exports::tidegate::plugin::sink as wit;
use crate::bindings::types;
use crate::fault::{Failure, broken};
use crate::instance::{Instance, file_name, task_scope};
use crate::plugin::Plugin;
use std::sync::Arc;
use std::time::Duration;
use tidegate_api::{CommitOutcome, CommitToken, Committer, Epoch, Result, SinkCtx};

/// Calls `commit`, `abort` and `recover`, each on a new instance: what one call left in an instance must not matter to the next.
pub(super) struct PluginCommitter {
    plugin: Arc<Plugin>,
    operator: String,
    scope: types::Scope,
}

impl PluginCommitter {
    pub(super) fn new(plugin: Arc<Plugin>, config: &str, ctx: &SinkCtx) -> Self {
        let operator = operator(ctx);
        let mut scope = task_scope(config, &ctx.run, 0, 1);
        scope.operator = file_name(&operator);
        PluginCommitter { plugin, operator, scope }
    }

    /// One call; once more in another instance if it traps.
    fn call<T>(&self, call: impl Fn(&mut Instance<SinkPlugin>) -> Result<T, Failure>) -> Result<T> {
        let attempt = || {
            let mut instance = instance(&self.plugin, &self.operator, 0).map_err(Failure::Fault)?;
            instance.set_now(self.plugin.shared().clock.wall());
            call(&mut instance)
        };
        match attempt() {
            Err(Failure::Trap(error)) => {
                tracing::warn!(%error, "a sink trapped in a call that may be repeated, and it is");
                attempt().map_err(Failure::into_error)
            }
            answer => answer.map_err(Failure::into_error),
        }
    }
}

fn bytes(tokens: &[CommitToken]) -> Vec<Vec<u8>> {
    tokens.iter().map(|token| token.0.clone()).collect()
}

impl Committer for PluginCommitter {
    fn commit(&mut self, epoch: Epoch, tokens: &[CommitToken]) -> Result<Vec<CommitOutcome>> {
        let list = bytes(tokens);
        let outcomes = self.call(|instance| {
            instance.call("commit", Duration::ZERO, async |store, guest| {
                guest.tidegate_plugin_sink().call_commit(store, &self.scope, epoch.0, &list).await
            })
        })?;
        let name = self.plugin.name();
        if outcomes.len() != tokens.len() {
            return Err(broken(name, "commit", format!("it gave {} outcomes for {} tokens", outcomes.len(), tokens.len())));
        }
        let outcomes = outcomes.into_iter().zip(tokens).map(|(outcome, token)| match outcome {
            wit::Outcome::Done => CommitOutcome::Done,
            wit::Outcome::AlreadyDone => CommitOutcome::AlreadyDone,
            wit::Outcome::Lost => CommitOutcome::Lost(format!("plugin `{name}` finds nothing of token `{token:?}` of epoch {epoch}")),
        });
        Ok(outcomes.collect())
    }

    fn abort(&mut self, epoch: Epoch, tokens: &[CommitToken]) -> Result<()> {
        let list = bytes(tokens);
        self.call(|instance| {
            instance.call("abort", Duration::ZERO, async |store, guest| {
                guest.tidegate_plugin_sink().call_abort(store, &self.scope, epoch.0, &list).await
            })
        })
    }

    fn recover(&mut self, keep: &[CommitToken]) -> Result<()> {
        let list = bytes(keep);
        self.call(|instance| {
            instance.call("recover", Duration::ZERO, async |store, guest| {
                guest.tidegate_plugin_sink().call_recover(store, &self.scope, &list).await
            })
        })
    }
}

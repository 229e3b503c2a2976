//! From one version to the next: what the older one left in a manifest is read by the newer one.

use super::sinks::{Rows, world};
use super::{Judged, source_options, source_world};
use crate::rules::Rule;
use crate::verdict::{Judgement, Record, Verdict};
use arrow::array::RecordBatch;
use std::sync::Arc;
use tidegate_api::{
    AnySink, ChangeMode, CommitOutcome, CommitToken, Epoch, Error, Generation, Guarantee, OutputSink, PreCommit, Result, RunId,
    RunIdentity, SinkCtx, SinkInput,
};
use tidegate_host::{PluginSpec, World};

/// Judges `new` against what the component of `old` leaves behind.
pub(super) fn judge(new: &Judged<'_>, old: &PluginSpec) -> Result<Judgement> {
    let older = new.host.load(old)?;
    if older.worlds() != new.plugin.worlds() {
        return Err(Error::config(format!("the older version is a {:?} and the newer one a {}", older.worlds(), new.world)));
    }
    match new.world {
        World::Source => {
            let (before, after) = (source_world(&older, &new.conformance), source_world(&new.plugin, &new.conformance));
            Ok(crate::source::judge_upgrade(&before, &after, &source_options(&new.conformance)))
        }
        World::Sink => {
            let old_sink = older.sink(&new.config())?;
            let plan = old_sink.plan(&SinkInput::new(new.input(), ChangeMode::Append))?;
            // Without two phases nothing is left in a manifest.
            if plan.guarantee != Guarantee::ExactlyOnce {
                return Ok(Judgement::default());
            }
            world(new)?;
            let rows = Rows::of(&new.input())?.batch(0..3)?;
            let record = new.record();
            record.script("tokens of the older version");
            let verdict = tokens(&record, old_sink.as_ref(), new.plugin.sink(&new.config())?.as_ref(), &rows);
            Ok(record.close(verdict))
        }
        // A transform keeps nothing.
        _ => Ok(Judgement::default()),
    }
}

fn run(generation: u64) -> RunIdentity {
    RunIdentity::new("conformance", RunId::new("upgrade"), Generation(generation), "out")
}

/// The older one prepares three epochs: the newer one commits one, gives one up, and finds the third unnamed at its start.
fn tokens(record: &Record, old: &dyn OutputSink, new: &dyn OutputSink, rows: &RecordBatch) -> Verdict {
    let rule = Rule::UpgradeTokens;
    let failed = |what: &str, error: &Error| record.convict(rule, format!("{what}: {error}"));
    let prepared =
        prepare(old, rows).map_err(|error| record.convict(Rule::CallsSucceed, format!("the older version does not prepare: {error}")))?;
    let [commit, give_up, unnamed] = prepared.as_slice() else {
        return Err(record.convict(Rule::CommitShows, "the older version gives no token for an epoch with rows"));
    };
    let committer = || new.committer(SinkCtx::for_commit(run(2))).map_err(|error| failed("the committer does not open", &error));
    let outcome = |epoch: u64, token: &CommitToken| {
        let outcomes = committer()?.commit(Epoch(epoch), std::slice::from_ref(token));
        let outcomes = outcomes.map_err(|error| failed("a token of the older version is not committed", &error))?;
        Ok(outcomes.into_iter().next())
    };
    let done = outcome(1, commit)?;
    record.hold(rule, done == Some(CommitOutcome::Done), || format!("the commit of an older version's token says {done:?}"))?;
    let given_up = committer()?.abort(Epoch(2), std::slice::from_ref(give_up));
    given_up.map_err(|error| failed("a token of the older version is not given up", &error))?;
    let recovered = committer()?.recover(std::slice::from_ref(commit));
    recovered.map_err(|error| failed("a start after the older version fails", &error))?;
    for (epoch, token) in [(2, give_up), (3, unnamed)] {
        let lost = outcome(epoch, token)?;
        record.hold(rule, matches!(lost, Some(CommitOutcome::Lost(_))), || {
            format!("what the older version prepared in epoch {epoch} was undone, and its commit says {lost:?}")
        })?;
    }
    Ok(())
}

fn prepare(sink: &dyn OutputSink, rows: &RecordBatch) -> Result<Vec<CommitToken>> {
    let mut tokens = Vec::new();
    let AnySink::Transactional(mut writer) = sink.open(SinkCtx::new(run(1), Arc::clone(rows.schema_ref())).with_exactly_once(true))? else {
        return Ok(tokens);
    };
    for epoch in 1..=3 {
        writer.write(rows, None)?;
        if let PreCommit::Token(token) = writer.pre_commit(Epoch(epoch))? {
            tokens.push(token);
        }
    }
    Ok(tokens)
}

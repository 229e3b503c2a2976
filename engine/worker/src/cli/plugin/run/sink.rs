//! A sink: one epoch, from recovery to commit.

use crate::cli::drain::{Drain, attempt, later, show_bad};
use arrow::array::RecordBatch;
use serde_json::Value;
use std::sync::Arc;
use tidegate::host::Plugin;
use tidegate_api::{
    AnySink, BadReason, BadRow, ChangeMode, CommitOutcome, Counter, Epoch, Error, Flushed, Guarantee, InlineSource, OutputSink, PreCommit,
    Result, RunIdentity, SinkCtx, SinkInput, SplitId, Written, key,
};

const EPOCH: Epoch = Epoch(1);

/// Writes the rows of the input, commits, and says what was done.
pub(super) fn sink(plugin: &Arc<Plugin>, input: &dyn InlineSource, identity: &RunIdentity, limit: Option<u64>) -> Result<()> {
    let mut drain = Drain::open(input, identity, limit)?;
    let sink = plugin.sink(&Value::Null)?;
    let plan = sink.plan(&SinkInput::new(drain.schema(), ChangeMode::Append))?;
    let emitted = Counter::new();
    let exactly_once = plan.guarantee == Guarantee::ExactlyOnce;
    let context = SinkCtx::new(identity.clone(), drain.schema()).with_emitted(emitted.clone());
    let context = context.with_exactly_once(exactly_once).with_keys(plan.wants_keys);
    if exactly_once {
        attempt(|| sink.committer(SinkCtx::for_commit(identity.clone()))?.recover(&[]))?;
    }
    let mut writer = sink.open(context)?;
    let (mut read, mut bad) = (0, 0);
    while let Some(chunks) = drain.next()? {
        for chunk in chunks {
            chunk.bad.iter().for_each(show_bad);
            let keys = if plan.wants_keys { Some(keys(&chunk.split, read, chunk.rows.num_rows())?) } else { None };
            let written = attempt(|| write(&mut writer, &chunk.rows, keys.as_deref()))?;
            for refused in &written.bad {
                let row = BadRow::of(&chunk.rows, refused.row, BadReason::Plugin, refused.message.clone());
                show_bad(&row.in_column(refused.column.clone()));
            }
            bad += chunk.bad.len() + written.bad.len();
            read += chunk.rows.num_rows() as u64;
        }
    }
    let done = finish(&mut writer, &*sink, identity)?;
    eprintln!("{} rows written, {bad} bad; {done}", emitted.get());
    Ok(())
}

fn write(writer: &mut AnySink, rows: &RecordBatch, keys: Option<&arrow::array::BinaryArray>) -> Result<Written> {
    match writer {
        AnySink::AtLeastOnce(sink) => sink.write(rows, keys),
        AnySink::Transactional(sink) => sink.write(rows, keys),
    }
}

/// Keys as a source's rows have them: the split, and the row's number.
fn keys(split: &SplitId, first: u64, rows: usize) -> Result<Arc<arrow::array::BinaryArray>> {
    key::build(rows, |row, key| {
        key::push_origin(key, split, first + row as u64);
        Ok(())
    })
}

/// The barrier, and the commit after it; what was done, for a person.
fn finish(writer: &mut AnySink, sink: &dyn OutputSink, identity: &RunIdentity) -> Result<String> {
    let sink_writer = match writer {
        AnySink::AtLeastOnce(writer) => {
            return match attempt(|| writer.flush(EPOCH))? {
                Flushed::Done => Ok("flushed, in one phase".into()),
                Flushed::Later => Err(later("flush")),
            };
        }
        AnySink::Transactional(writer) => writer,
    };
    let token = match sink_writer.pre_commit(EPOCH)? {
        PreCommit::Nothing => return Ok("prepared: nothing to commit".into()),
        PreCommit::Token(token) => token,
        PreCommit::Later => return Err(later("pre-commit")),
    };
    let bytes = token.0.len();
    let mut committer = sink.committer(SinkCtx::for_commit(identity.clone()))?;
    let tokens = [token];
    match attempt(|| committer.commit(EPOCH, &tokens))?.first() {
        Some(CommitOutcome::Done) => Ok(format!("prepared with a token of {bytes} bytes, committed")),
        Some(CommitOutcome::AlreadyDone) => {
            Ok(format!("prepared with a token of {bytes} bytes, and it says that this was committed before"))
        }
        Some(CommitOutcome::Lost(why)) => Err(Error::external(format!("the rows are lost: {why}"))),
        None => Err(Error::internal("a commit without an outcome")),
    }
}

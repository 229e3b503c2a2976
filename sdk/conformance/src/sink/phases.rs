//! Nothing is visible before its commit, all of it after.

use super::bench::{Bench, generation};
use crate::rules::Rule;
use crate::verdict::Verdict;
use tidegate_api::CommitOutcome;

pub(super) fn phases(bench: &Bench<'_>) -> Verdict {
    let it = bench.world()?;
    let (first, second) = (bench.rows(0), bench.rows(1));
    let mut writer = it.writer(generation(1))?;
    writer.write(first)?;
    it.sees(Rule::NothingEarly, &[], "written rows are invisible")?;
    let token = writer.token(2)?;
    it.sees(Rule::NothingEarly, &[], "prepared rows are invisible")?;
    it.hides(Rule::NothingEarly, 1, "what is prepared lies somewhere")?;
    writer.write(second)?;
    let mut committer = it.committer(generation(1))?;
    it.rule(Rule::TokenAnywhere, committer.commit_one(2, &token)? == CommitOutcome::Done, "a commit is done")?;
    it.sees(Rule::CommitShows, &[first], "a commit shows its epoch and nothing of the next")?;
    let next = writer.token(3)?;
    it.sees(Rule::NothingEarly, &[first], "the next epoch waits for its own commit")?;
    it.rule(Rule::TokenAnywhere, committer.commit_one(3, &next)? == CommitOutcome::Done, "the next epoch commits")?;
    it.sees(Rule::CommitShows, &[first, second], "each epoch is visible once")?;
    it.hides(Rule::NothingLeft, 0, "what is committed is not kept beside")?;
    Ok(())
}

pub(super) fn empty_epochs(bench: &Bench<'_>) -> Verdict {
    let it = bench.world()?;
    let rows = bench.rows(0);
    it.committer(generation(1))?.recover(&[])?;
    let mut writer = it.writer(generation(1))?;
    for epoch in 1..4 {
        it.rule(Rule::EmptyEpochs, writer.pre_commit(epoch)?.is_none(), "an epoch without rows has no token")?;
        it.rule(Rule::EmptyEpochs, it.committer(generation(1))?.commit(epoch, &[])?.is_empty(), "no tokens, no outcomes")?;
    }
    // A batch without rows may have a token, which then commits like any other.
    writer.write(&bench.no_rows())?;
    if let Some(token) = writer.pre_commit(4)? {
        it.rule(
            Rule::EmptyEpochs,
            it.committer(generation(1))?.commit_one(4, &token)? == CommitOutcome::Done,
            "an epoch of nothing commits",
        )?;
    }
    it.sees(Rule::EmptyEpochs, &[], "epochs without rows show nothing")?;
    it.hides(Rule::NothingLeft, 0, "epochs without rows leave nothing")?;
    writer.write(rows)?;
    let token = writer.token(5)?;
    it.committer(generation(1))?.commit_one(5, &token)?;
    it.rule(Rule::EmptyEpochs, writer.pre_commit(6)?.is_none(), "the epoch after one with rows may be empty")?;
    it.committer(generation(2))?.recover(&[])?;
    it.committer(generation(2))?.abort(7, &[])?;
    it.sees(Rule::EmptyEpochs, &[rows], "rows among empty epochs are visible once")?;
    // An epoch is committed only when the next, without rows, is prepared already.
    let mut writer = it.writer(generation(3))?;
    writer.write(rows)?;
    let token = writer.token(8)?;
    it.rule(Rule::EmptyEpochs, writer.pre_commit(9)?.is_none(), "an epoch without rows has no token")?;
    let outcome = it.committer(generation(3))?.commit_one(8, &token)?;
    it.rule(
        Rule::EmptyEpochs,
        outcome == CommitOutcome::Done,
        &format!("an epoch before one without rows commits, and this says {outcome:?}"),
    )?;
    it.sees(Rule::EmptyEpochs, &[rows, rows], "rows before an empty epoch are visible once")?;
    Ok(())
}

pub(super) fn several_tasks(bench: &Bench<'_>) -> Verdict {
    let it = bench.world()?;
    let (first, second) = (bench.rows(0), bench.rows(1));
    let mut writers = (0..3).map(|task| it.writer(generation(1).task(task))).collect::<Verdict<Vec<_>>>()?;
    for epoch in 1..3 {
        writers[0].write(first)?;
        writers[2].write(second)?;
        let tokens = writers.iter_mut().map(|writer| writer.pre_commit(epoch)).collect::<Verdict<Vec<_>>>()?;
        it.rule(Rule::EmptyEpochs, tokens[1].is_none(), "a task without rows has no token")?;
        let tokens: Vec<_> = tokens.into_iter().flatten().collect();
        let outcomes = it.committer(generation(1))?.commit(epoch, &tokens)?;
        it.rule(Rule::TasksApart, outcomes == [CommitOutcome::Done, CommitOutcome::Done], "the tokens of all tasks commit together")?;
    }
    it.sees(Rule::TasksApart, &[first, first, second, second], "all tasks' rows are visible once")?;
    it.hides(Rule::NothingLeft, 0, "what is committed is not kept beside")?;
    Ok(())
}

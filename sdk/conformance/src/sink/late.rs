//! An old process that was frozen goes on when a later start has long taken over (P203: its commit arrives after the next start has looked).

use super::bench::{Bench, generation, is_visible};
use crate::rules::Rule;
use crate::verdict::{Conviction, Verdict};
use tidegate_api::CommitOutcome;

pub(super) fn recovery(bench: &Bench<'_>) -> Verdict {
    let (first, second) = (bench.rows(0), bench.rows(1));
    for committed_before in [false, true] {
        let it = bench.world()?;
        let named = it.prepared(generation(1), 1, first)?;
        let keep = std::slice::from_ref(&named);
        // Generation 2 has opened and stands still before it commits and undoes.
        let mut stalled = it.committer(generation(2))?;
        let mut third = it.committer(generation(3))?;
        it.rule(Rule::TokenAnywhere, third.commit(1, keep)? == [CommitOutcome::Done], "the later start commits")?;
        third.recover(keep)?;
        let mut writer = it.writer(generation(3))?;
        writer.write(second)?;
        let token = writer.token(2)?;
        if committed_before {
            third.commit_one(2, &token)?;
        }
        writer.write(first)?;
        // It wakes, and does its part with what it knew.
        it.rule(Rule::LateCalls, stalled.commit(1, keep)? == [CommitOutcome::AlreadyDone], "the old start finds its commit done")?;
        stalled.recover(keep)?;
        let outcome = third.commit_one(2, &token)?;
        it.rule(Rule::LateCalls, is_visible(&outcome), "what a later start prepared is not undone by an older one")?;
        let next = writer.token(3)?;
        it.rule(
            Rule::LateCalls,
            third.commit_one(3, &next)? == CommitOutcome::Done,
            "what a later start was writing is not undone either",
        )?;
        it.sees(Rule::LateCalls, &[first, second, first], "a recovery that wakes late changes nothing")?;
    }
    // In the middle of what the later one does.
    for _ in 0..5 {
        let it = bench.world()?;
        drop(it.prepared(generation(1), 1, first)?);
        let mut stalled = it.committer(generation(2))?;
        let mut writer = it.writer(generation(3))?;
        let tokens = std::thread::scope(|scope| {
            let late = scope.spawn(move || (0..20).try_for_each(|_| stalled.recover(&[])));
            let mut tokens = Vec::new();
            for epoch in 2..6 {
                writer.write(second)?;
                tokens.push((epoch, writer.token(epoch)?));
            }
            late.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
            Ok::<_, Conviction>(tokens)
        })?;
        for (epoch, token) in &tokens {
            let outcome = it.committer(generation(3))?.commit_one(*epoch, token)?;
            it.rule(Rule::LateCalls, outcome == CommitOutcome::Done, "a recovery beside a later start's writing undoes nothing of it")?;
        }
        it.sees(Rule::LateCalls, &[second; 4], "a recovery beside a later start's writing changes nothing")?;
    }
    Ok(())
}

pub(super) fn writer(bench: &Bench<'_>) -> Verdict {
    let it = bench.world()?;
    let (first, second) = (bench.rows(0), bench.rows(1));
    let mut old = it.writer(generation(1))?;
    old.write(first)?;
    let mut second_start = it.committer(generation(2))?;
    second_start.recover(&[])?;
    let token = it.prepared(generation(2), 1, second)?;
    second_start.commit_one(1, &token)?;
    // It may fail, as its place was swept; what it prepares nobody commits, since its manifest is lost.
    let _ = old.late(1, first);
    let _ = old.late(2, first);
    it.sees(Rule::LateCalls, &[second], "what an old writer does never appears")?;
    it.committer(generation(3))?.recover(&[])?;
    it.hides(Rule::NothingLeft, 0, "what an old writer prepared late is undone by the next start")?;
    let token = it.prepared(generation(3), 2, first)?;
    it.rule(
        Rule::LateCalls,
        it.committer(generation(3))?.commit_one(2, &token)? == CommitOutcome::Done,
        "the next start goes on in the same place",
    )?;
    it.sees(Rule::LateCalls, &[second, first], "an old writer disturbs nobody")?;
    Ok(())
}

pub(super) fn commit(bench: &Bench<'_>) -> Verdict {
    let it = bench.world()?;
    let (first, second) = (bench.rows(0), bench.rows(1));
    let tokens = [it.prepared(generation(1), 1, first)?, it.prepared(generation(1).task(1), 1, second)?];
    let mut old = it.committer(generation(1))?;
    // Its manifest exists and it stands still before the commit; the next start does it, and goes on.
    let mut next = it.committer(generation(2))?;
    next.commit(1, &tokens)?;
    next.recover(&tokens)?;
    let mut writer = it.writer(generation(2))?;
    for epoch in 2..5 {
        writer.write(second)?;
        let token = writer.token(epoch)?;
        next.commit_one(epoch, &token)?;
    }
    let outcomes = old.commit(1, &tokens)?;
    it.rule(
        Rule::LateCalls,
        outcomes == [CommitOutcome::AlreadyDone, CommitOutcome::AlreadyDone],
        "a commit that wakes late finds it done",
    )?;
    it.sees(Rule::LateCalls, &[first, second, second, second, second], "a commit that wakes late shows nothing again")?;
    it.hides(Rule::NothingLeft, 0, "a commit that wakes late leaves nothing")?;
    Ok(())
}

//! Calls that come again: replayed, at once, after an answer that was lost, after half of the work (P205: what was
//! reported as failed and has happened is not undone).

use super::bench::{Bench, generation, is_visible};
use crate::rules::Rule;
use crate::verdict::Verdict;
use tidegate_api::{CommitOutcome, CommitToken};

pub(super) fn replayed(bench: &Bench<'_>) -> Verdict {
    let it = bench.world()?;
    let (first, second) = (bench.rows(0), bench.rows(1));
    let mut writer = it.writer(generation(1))?;
    let mut tokens = Vec::new();
    for epoch in 1..4 {
        writer.write(if epoch % 2 == 1 { first } else { second })?;
        tokens.push(writer.token(epoch)?);
        let mut committer = it.committer(generation(1))?;
        it.rule(
            Rule::TokenAnywhere,
            committer.commit_one(epoch, &tokens[epoch as usize - 1])? == CommitOutcome::Done,
            "each epoch commits",
        )?;
        let again = committer.commit_one(epoch, &tokens[epoch as usize - 1])?;
        it.rule(Rule::CommitIdempotent, again == CommitOutcome::AlreadyDone, "a second commit finds it done")?;
    }
    // By another instance, of a later generation, after later epochs.
    for (epoch, token) in (1..).zip(&tokens) {
        let again = it.committer(generation(7))?.commit_one(epoch, token)?;
        it.rule(Rule::CommitIdempotent, again == CommitOutcome::AlreadyDone, "a commit that is replayed late finds it done")?;
    }
    it.sees(Rule::CommitIdempotent, &[first, second, first], "replayed commits show nothing again")?;
    Ok(())
}

pub(super) fn at_once(bench: &Bench<'_>) -> Verdict {
    for _ in 0..5 {
        let it = bench.world()?;
        let (first, second) = (bench.rows(0), bench.rows(1));
        let tokens = [it.prepared(generation(1), 1, first)?, it.prepared(generation(1).task(1), 1, second)?];
        let committers = (1..5).map(|number| it.committer(generation(number))).collect::<Verdict<Vec<_>>>()?;
        let answers: Vec<Verdict<Vec<CommitOutcome>>> = std::thread::scope(|scope| {
            let mut joins = Vec::new();
            for mut committer in committers {
                let tokens = &tokens;
                let join = scope.spawn(move || committer.commit(1, tokens));
                joins.push(join);
            }
            joins.into_iter().map(|join| join.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))).collect()
        });
        for outcomes in answers {
            let outcomes = outcomes?;
            let visible = outcomes.iter().all(is_visible);
            it.rule(Rule::CommitIdempotent, visible, &format!("nothing is lost between commits at once: {outcomes:?}"))?;
        }
        it.sees(Rule::CommitIdempotent, &[first, second], "commits at once show every row once")?;
        it.hides(Rule::NothingLeft, 0, "commits at once leave nothing")?;
    }
    Ok(())
}

/// Every call takes effect and its answer is lost: whoever called dies, and another begins anew.
pub(super) fn lost_answers(bench: &Bench<'_>) -> Verdict {
    let it = bench.world()?;
    let (first, second) = (bench.rows(0), bench.rows(1));
    // Of a pre-commit: nobody has the token.
    drop(it.prepared(generation(1), 1, first)?);
    for _ in 0..2 {
        it.committer(generation(2))?.recover(&[])?;
    }
    it.hides(Rule::RecoverUndoes, 0, "what was prepared and never told is undone")?;
    // Of a commit, and of the recovery after it.
    let token = it.prepared(generation(2), 1, second)?;
    let keep = std::slice::from_ref(&token);
    drop(it.committer(generation(2))?.commit(1, keep)?);
    for number in 3..6 {
        let again = it.committer(generation(number))?.commit_one(1, &token)?;
        it.rule(Rule::CommitIdempotent, again == CommitOutcome::AlreadyDone, "a commit whose answer was lost is found done")?;
        it.committer(generation(number))?.recover(keep)?;
    }
    it.sees(Rule::CommitIdempotent, &[second], "rows whose commit was asked for again are visible once")?;
    // Of giving up.
    let token = it.prepared(generation(6), 2, first)?;
    for _ in 0..2 {
        it.committer(generation(6))?.abort(2, std::slice::from_ref(&token))?;
    }
    it.sees(Rule::AbortUndoes, &[second], "what was given up twice never appears")?;
    it.hides(Rule::AbortUndoes, 0, "what was given up twice is gone")?;
    Ok(())
}

pub(super) fn in_part(bench: &Bench<'_>) -> Verdict {
    let it = bench.world()?;
    let (first, second) = (bench.rows(0), bench.rows(1));
    let token = |task: usize, rows| it.prepared(generation(1).task(task), 1, rows);
    let tokens: Vec<CommitToken> = vec![token(0, first)?, token(1, second)?, token(2, first)?];
    it.rule(
        Rule::TokenAnywhere,
        it.committer(generation(1))?.commit_one(1, &tokens[1])? == CommitOutcome::Done,
        "one of an epoch's tokens commits",
    )?;
    it.committer(generation(1))?.abort(1, &tokens[2..])?;
    let outcomes = it.committer(generation(2))?.commit(1, &tokens)?;
    let told = matches!(outcomes.as_slice(), [CommitOutcome::Done, CommitOutcome::AlreadyDone, CommitOutcome::Lost(_)]);
    it.rule(Rule::OutcomesMatch, told, &format!("each outcome is that of its token, in their order: {outcomes:?}"))?;
    it.sees(Rule::CommitShows, &[first, second], "the rest of a commit shows the rest of the rows")?;
    Ok(())
}

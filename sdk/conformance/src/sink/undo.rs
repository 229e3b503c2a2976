//! A start undoes what no manifest names, and nothing else.

use super::bench::{Bench, Who, generation};
use crate::rules::Rule;
use crate::verdict::Verdict;
use tidegate_api::CommitOutcome;

pub(super) fn nothing_else(bench: &Bench<'_>) -> Verdict {
    let it = bench.world()?;
    let rows = bench.rows(0);
    let visible = it.prepared(generation(1), 1, rows)?;
    it.committer(generation(1))?.commit_one(1, &visible)?;
    let named = it.prepared(generation(1), 2, rows)?;
    let not_named = it.prepared(generation(1).task(1), 2, rows)?;
    let open = {
        let mut writer = it.writer(generation(1).task(2))?;
        writer.write(rows)?;
        writer
    };
    drop(open);
    let own = it.prepared(generation(2), 3, rows)?;
    let later = it.prepared(generation(3), 4, rows)?;
    for _ in 0..2 {
        it.committer(generation(2))?.recover(std::slice::from_ref(&named))?;
    }
    it.sees(Rule::VisibleFinal, &[rows], "recovery shows nothing and takes nothing back that is visible")?;
    let lost = it.committer(generation(2))?.commit_one(2, &not_named)?;
    it.rule(Rule::RecoverUndoes, matches!(lost, CommitOutcome::Lost(_)), "what no manifest names is undone, and a commit of it says so")?;
    for (epoch, token, whose) in [(2, &named, "what the manifest names"), (3, &own, "the start's own"), (4, &later, "a later start's")] {
        it.rule(
            Rule::RecoverKeeps,
            it.committer(generation(3))?.commit_one(epoch, token)? == CommitOutcome::Done,
            &format!("{whose} is left alone"),
        )?;
    }
    it.sees(Rule::RecoverKeeps, &[rows, rows, rows, rows], "what was left alone is visible once")?;
    it.hides(Rule::NothingLeft, 0, "what was undone and what was committed is not kept")?;
    Ok(())
}

pub(super) fn names_that_begin_alike(bench: &Bench<'_>) -> Verdict {
    let it = bench.world()?;
    let rows = bench.rows(0);
    let others: [Who; 6] = [
        generation(1).sink("out2"),
        generation(1).sink("out.1"),
        generation(1).sink("ou"),
        generation(1).run("run2"),
        generation(1).run("ru"),
        generation(1).run("run").sink("out-1"),
    ];
    let tokens = others.iter().map(|who| it.prepared(*who, 1, rows)).collect::<Verdict<Vec<_>>>()?;
    it.committer(generation(9))?.recover(&[])?;
    for (who, token) in others.iter().zip(&tokens) {
        let committed = it.committer(*who)?.commit_one(1, token)?;
        it.rule(
            Rule::RecoverSpares,
            committed == CommitOutcome::Done,
            &format!("what `{}` of run `{}` prepared is another's", who.sink, who.run),
        )?;
    }
    it.sees(Rule::RecoverSpares, &[rows; 6], "sinks and runs whose names begin alike do not meet")?;
    Ok(())
}

pub(super) fn abort(bench: &Bench<'_>) -> Verdict {
    let it = bench.world()?;
    let (first, second) = (bench.rows(0), bench.rows(1));
    let mut writer = it.writer(generation(1))?;
    writer.write(first)?;
    let given_up = writer.token(1)?;
    writer.write(second)?;
    let kept = writer.token(2)?;
    it.committer(generation(1))?.abort(1, std::slice::from_ref(&given_up))?;
    let lost = it.committer(generation(1))?.commit_one(1, &given_up)?;
    it.rule(Rule::AbortUndoes, matches!(lost, CommitOutcome::Lost(_)), "an epoch that was given up cannot be committed")?;
    it.rule(
        Rule::AbortUndoes,
        it.committer(generation(1))?.commit_one(2, &kept)? == CommitOutcome::Done,
        "the epoch after one that was given up commits",
    )?;
    it.committer(generation(1))?.abort(2, std::slice::from_ref(&kept))?;
    it.sees(Rule::VisibleFinal, &[second], "what is visible is not taken back")?;
    writer.write(first)?;
    let token = writer.token(3)?;
    it.rule(
        Rule::AbortUndoes,
        it.committer(generation(1))?.commit_one(3, &token)? == CommitOutcome::Done,
        "a writer goes on after an epoch was given up",
    )?;
    it.sees(Rule::AbortUndoes, &[second, first], "rows of an epoch that was given up never appear")?;
    Ok(())
}

pub(super) fn second_sink(bench: &Bench<'_>) -> Verdict {
    let it = bench.world()?;
    let (first, second) = (bench.rows(0), bench.rows(1));
    let other = |number| generation(number).sink("other");
    // Two sinks of one run, and one of another run, write the same epochs by the same tasks, each with a start in between.
    let (mut one, mut two, mut three) = (it.writer(generation(1))?, it.writer(other(1))?, it.writer(generation(1).run("another"))?);
    for writer in [&mut one, &mut two, &mut three] {
        writer.write(first)?;
    }
    let tokens = [one.token(1)?, two.token(1)?, three.token(1)?];
    it.committer(generation(2))?.recover(&tokens[..1])?;
    it.rule(
        Rule::RecoverSpares,
        it.committer(other(1))?.commit_one(1, &tokens[1])? == CommitOutcome::Done,
        "a start of one sink leaves the other's rows",
    )?;
    it.rule(
        Rule::RecoverSpares,
        it.committer(generation(2))?.commit_one(1, &tokens[0])? == CommitOutcome::Done,
        "a commit of one leaves the other's rows",
    )?;
    two.write(second)?;
    let next = two.token(2)?;
    it.committer(generation(3))?.recover(&[])?;
    it.rule(Rule::RecoverSpares, it.committer(other(1))?.commit_one(2, &next)? == CommitOutcome::Done, "the other sink goes on meanwhile")?;
    let third = it.committer(generation(1).run("another"))?.commit_one(1, &tokens[2])?;
    it.rule(Rule::RecoverSpares, third == CommitOutcome::Done, "so does the other run")?;
    it.sees(Rule::RecoverSpares, &[first, first, first, second], "every sink's rows are visible once")?;
    it.hides(Rule::NothingLeft, 0, "nobody's rows are kept beside")?;
    Ok(())
}

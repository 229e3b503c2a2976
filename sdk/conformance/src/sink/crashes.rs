//! A crash before and after each call, of the run and of every start after it.

use super::bench::{Bench, World, generation, is_visible};
use crate::rules::Rule;
use crate::verdict::Verdict;
use tidegate_api::{CommitOutcome, CommitToken};

/// Calls of an epoch after which a process may die; the manifest is made when this many have returned.
const CALLS: usize = 8;
const MANIFEST: usize = 5;
/// After how many of their calls, which are commit and recover, the two starts that follow die in turn.
const STARTS: [[usize; 2]; 4] = [[0, 0], [1, 0], [1, 2], [2, 1]];
/// All calls of a start.
const WHOLE: usize = 2;

pub(super) fn everywhere(bench: &Bench<'_>) -> Verdict {
    let all = (0..=CALLS).flat_map(|calls| STARTS.map(|starts| (calls, starts)));
    for (_, (calls, starts)) in all.enumerate().filter(|(number, _)| bench.part().has(*number)) {
        crash(bench, calls, starts)?;
    }
    Ok(())
}

/// Epoch 1 is complete; epoch 2 dies after so many calls, and two starts after it after so many of theirs. The third goes on.
fn crash(bench: &Bench<'_>, calls: usize, starts: [usize; 2]) -> Verdict {
    let it = bench.world()?;
    let (first, second) = (bench.rows(0), bench.rows(1));
    let manifest = run(&it, bench, calls)?;
    let place = format!("epoch 2 died after {calls} of its calls, the starts after it after {starts:?} of theirs");
    let mut now = 1;
    for calls in starts {
        now += 1;
        start(&it, now, &manifest, calls, &place)?;
        // What a manifest names may be visible by now, and nothing else.
        if manifest.is_empty() {
            it.sees(Rule::RecoverUndoes, &[first], &format!("{place}: what no manifest names never appears"))?;
        }
    }
    now += 1;
    start(&it, now, &manifest, WHOLE, &place)?;
    let both: &[_] = &[first, second, first];
    it.sees(
        Rule::VisibleOnce,
        if manifest.is_empty() { &both[..1] } else { both },
        &format!("{place}: what the manifest names is visible once, and nothing else"),
    )?;
    it.hides(Rule::NothingLeft, 0, &format!("{place}: nothing is left of it"))?;
    // The run goes on; rows that were undone come again.
    let mut expected: Vec<_> = if manifest.is_empty() { vec![first] } else { both.to_vec() };
    let token = it.prepared(generation(now), 3, second)?;
    it.rule(
        Rule::VisibleOnce,
        it.committer(generation(now))?.commit_one(3, &token)? == CommitOutcome::Done,
        &format!("{place}: the run goes on"),
    )?;
    expected.push(second);
    it.sees(Rule::VisibleOnce, &expected, &format!("{place}: rows written again appear once"))?;
    Ok(())
}

/// The tokens of epoch 2 that a manifest names.
fn run(it: &World<'_>, bench: &Bench<'_>, calls: usize) -> Verdict<Vec<CommitToken>> {
    let (first, second) = (bench.rows(0), bench.rows(1));
    let (mut one, mut two) = (it.writer(generation(1))?, it.writer(generation(1).task(1))?);
    one.write(first)?;
    let token = one.token(1)?;
    it.committer(generation(1))?.commit_one(1, &token)?;
    let mut tokens = Vec::new();
    for call in 0..calls {
        match call {
            0 => one.write(second)?,
            1 => two.write(first)?,
            2 => tokens.push(one.token(2)?),
            // Between two tasks' answers.
            3 => tokens.push(two.token(2)?),
            4 => {}
            // The next epoch begins before this one is committed.
            5 => one.write(second)?,
            6 => {
                it.committer(generation(1))?.commit_one(2, &tokens[0])?;
            }
            _ => {
                it.committer(generation(1))?.commit(2, &tokens)?;
            }
        }
    }
    Ok(if calls < MANIFEST { Vec::new() } else { tokens })
}

/// A start: commits what the manifest names, undoes the rest; dies after so many calls.
fn start(it: &World<'_>, number: u64, manifest: &[CommitToken], calls: usize, place: &str) -> Verdict {
    let mut committer = it.committer(generation(number))?;
    if calls > 0 {
        let outcomes = committer.commit(2, manifest)?;
        it.rule(
            Rule::VisibleOnce,
            outcomes.iter().all(is_visible),
            &format!("{place}: what a manifest names is never lost: {outcomes:?}"),
        )?;
    }
    if calls > 1 {
        committer.recover(manifest)?;
    }
    Ok(())
}

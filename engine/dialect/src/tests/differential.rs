//! Random well-typed expressions over random batches: the compiled form must agree with the reference evaluator in every
//! value, bit for bit, and in which rows are bad. Would catch any kernel, of ours, of Arrow's or of DataFusion's, that answers
//! an awkward value in another way than the manual says.
//!
//! Functions are called as their examples call them, with other arguments: see `calls.rs`. A function added to the list is
//! covered by that, or the test says that it is not.

mod calls;
mod columns;
mod random;

use super::{NOW, assert_same};
use crate::{bind, functions};
use arrow::array::{BooleanArray, RecordBatch};
use arrow::compute::{filter, filter_record_batch};
use calls::Calls;
use columns::random_batch;
use random::Random;
use tidegate_api::{Clock, SystemClock};

const DEFAULT_CASES: u64 = 4_000;
const DEFAULT_SEED: u64 = 20_260_131;

/// Rows of the batches that expressions are evaluated on; the large one is halved in search of bad rows.
const ROWS: [usize; 4] = [20, 1, 0, 150];

fn setting(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().map_or(default, |text| text.parse().unwrap())
}

#[test]
fn random_expressions_mean_the_same_to_both_evaluators() {
    let (cases, seed) = (setting("TIDEGATE_DIALECT_CASES", DEFAULT_CASES), setting("TIDEGATE_DIALECT_SEED", DEFAULT_SEED));
    println!("TIDEGATE_DIALECT_SEED={seed} TIDEGATE_DIALECT_CASES={cases}");
    let (calls, began) = (Calls::find(), SystemClock.monotonic());
    let mut refused = 0;
    let mut batches: Vec<RecordBatch> = Vec::new();
    for case in 0..cases {
        let mut random = Random::new(seed.wrapping_add(case), &calls);
        if case % 1_000 == 0 {
            batches = ROWS.iter().map(|rows| random_batch(&mut random, *rows)).collect();
        }
        let depth = 1 + random.below(3);
        let text = random.anything(depth);
        let rows = &batches[random.pick(&[0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 2, 3])];
        match bind(&text, &rows.schema()) {
            Ok(typed) => check(&typed.compile(), rows, &format!("case {case} of seed {seed}: {text}")),
            // The generator knows families of types, not every rule.
            Err(mistake) => {
                assert!(!mistake.message.is_empty() && mistake.span.end <= text.len(), "{text}");
                refused += 1;
            }
        }
    }
    println!("{refused} refused, {:?}", SystemClock.monotonic() - began);
    assert!(refused * 2 < cases.max(100), "{refused} of {cases} expressions were refused: the generator is off");
}

#[test]
fn every_function_means_the_same_to_both_evaluators() {
    let (calls, seed) = (Calls::find(), setting("TIDEGATE_DIALECT_SEED", DEFAULT_SEED));
    println!("TIDEGATE_DIALECT_SEED={seed}");
    let mut uncovered = Vec::new();
    for (at, function) in functions().iter().enumerate() {
        let mut random = Random::new(seed.wrapping_add(at as u64), &calls);
        let rows = random_batch(&mut random, 40);
        let mut evaluated = 0;
        for _ in 0..12 {
            let Some(text) = random.call(function.name, 1) else { break };
            if let Ok(typed) = bind(&text, &rows.schema()) {
                check(&typed.compile(), &rows, &format!("seed {seed}: {text}"));
                evaluated += 1;
            }
        }
        let replaced = calls.of(function.name).iter().any(|call| call.args.iter().any(|arg| !arg.columns.is_empty()));
        if evaluated == 0 || !(replaced || function.arity.1 == 0) {
            uncovered.push(function.name);
        }
    }
    assert!(uncovered.is_empty(), "no example of these can be called with columns: {uncovered:?}");
}

fn check(compiled: &crate::Compiled, rows: &RecordBatch, what: &str) {
    let (values, bad) = compiled.by_row(rows, NOW);
    let found = compiled.evaluate(rows, NOW);
    assert_same(&found.values, &values, what);
    assert_eq!(found.bad, bad, "{what}");
    // The rows that are not bad must pass the kernels, or the fast path would be slow for no reason.
    if bad.is_empty() {
        assert!(compiled.fast(rows, NOW).is_some(), "the fast path gave up without a bad row: {what}");
        return;
    }
    assert!(compiled.fast(rows, NOW).is_none(), "the fast path did not see a bad row: {what}");
    let mut good = vec![true; rows.num_rows()];
    bad.iter().for_each(|(row, _)| good[*row] = false);
    let good = BooleanArray::from(good);
    let rest = filter_record_batch(rows, &good).unwrap();
    let fast = compiled.fast(&rest, NOW).unwrap_or_else(|| panic!("the fast path gave up without a bad row: {what}"));
    assert_same(&fast, &filter(&values, &good).unwrap(), what);
}

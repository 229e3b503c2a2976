//! The scripts, in the order in which they say the most about a lie.

use super::{Bench, Made};
use crate::rules::Rule;
use crate::verdict::{Verdict, cut, difference, row_texts};
use arrow::array::RecordBatch;

/// Sizes of the batches that the larger table is cut into.
const CUTS: [usize; 6] = [2, 3, 7, 31, 127, 500];

pub(super) fn bound_again(bench: &Bench<'_>) -> Verdict {
    let rule = Rule::BindPure;
    let bind = || {
        let bound = (bench.world.bind)(&bench.world.input);
        bound.map_err(|error| bench.record.convict(rule, format!("it was bound before, and now: {error}")))
    };
    bind()?;
    // What it says of another input must not matter.
    let fields = bench.world.input.fields();
    let fewer = arrow::datatypes::Schema::new(fields.iter().take(fields.len() / 2).cloned().collect::<Vec<_>>());
    drop((bench.world.bind)(&std::sync::Arc::new(fewer)));
    let again = bind()?;
    let (one, other) = (&bench.bound.plan, &again.plan);
    bench.record.hold(rule, one == other, || format!("the plan was {one}, and is {other}"))
}

/// Every value of every type: it is processed, or its row is bad; no row traps.
pub(super) fn extremes(bench: &Bench<'_>) -> Verdict {
    let rule = Rule::Extremes;
    let mut step = bench.open(Rule::CallsSucceed)?;
    let made = bench.apply(step.as_mut(), std::slice::from_ref(&bench.many), rule)?;
    bench.record.hold(rule, made.trapped.is_none(), || {
        let row = made.bad.iter().find(|(_, message)| Some(message) == made.trapped.as_ref()).map_or(0, |(row, _)| *row);
        let shown = row_texts(&bench.many.slice(row.min(bench.many.num_rows() - 1), 1)).concat();
        format!("it traps on the row `{}`: {}", cut(&shown), made.trapped.clone().unwrap_or_default())
    })
}

pub(super) fn empty(bench: &Bench<'_>) -> Verdict {
    let rule = Rule::EmptyBatch;
    let mut step = bench.open(rule)?;
    let none = bench.few.slice(0, 0);
    for batches in [vec![none.clone()], vec![bench.few.clone(), none]] {
        let before = bench.apply(step.as_mut(), &batches[..batches.len() - 1], rule)?;
        let made = bench.apply(step.as_mut(), &batches[batches.len() - 1..], rule)?;
        bench.record.hold(rule, made.rows.num_rows() == 0 && made.bad.is_empty(), || {
            format!("it made {} rows of none, after {} rows", made.rows.num_rows(), before.rows.num_rows())
        })?;
    }
    Ok(())
}

pub(super) fn same_again(bench: &Bench<'_>) -> Verdict {
    let rule = Rule::Deterministic;
    let batch = std::slice::from_ref(&bench.few);
    let mut step = bench.open(rule)?;
    let first = bench.apply(step.as_mut(), batch, rule)?;
    let second = bench.apply(step.as_mut(), batch, rule)?;
    equal(bench, rule, "the same instance", &first, &second)?;
    let mut other = bench.open(rule)?;
    // Another one, that has seen other rows before.
    bench.apply(other.as_mut(), &[bench.many.slice(0, bench.many.num_rows() / 3)], rule)?;
    let third = bench.apply(other.as_mut(), batch, rule)?;
    equal(bench, rule, "another instance", &first, &third)
}

/// Rows alone are what they are among others, each in its place.
pub(super) fn row_by_row(bench: &Bench<'_>) -> Verdict {
    let mut step = bench.open(Rule::BatchCuts)?;
    let whole = bench.apply(step.as_mut(), std::slice::from_ref(&bench.few), Rule::BatchCuts)?;
    let rows: Vec<RecordBatch> = (0..bench.few.num_rows()).map(|row| bench.few.slice(row, 1)).collect();
    let alone = bench.apply(step.as_mut(), &rows, Rule::BatchCuts)?;
    compare(bench, "batches of one row", &alone, &whole)?;
    if bench.bound.rowwise {
        let rows = whole.rows.num_rows() + whole.bad.len() + usize::try_from(whole.filtered).unwrap_or(usize::MAX);
        bench.record.hold(Rule::RowMapping, rows == bench.few.num_rows(), || {
            format!("{} rows went in, and {rows} were made, filtered or bad", bench.few.num_rows())
        })?;
    }
    Ok(())
}

pub(super) fn other_cuts(bench: &Bench<'_>) -> Verdict {
    let mut step = bench.open(Rule::BatchCuts)?;
    let whole = bench.apply(step.as_mut(), std::slice::from_ref(&bench.many), Rule::BatchCuts)?;
    for size in CUTS {
        let starts = (0..bench.many.num_rows()).step_by(size);
        let batches: Vec<RecordBatch> = starts.map(|at| bench.many.slice(at, size.min(bench.many.num_rows() - at))).collect();
        let made = bench.apply(step.as_mut(), &batches, Rule::BatchCuts)?;
        compare(bench, &format!("batches of {size} rows"), &made, &whole)?;
    }
    Ok(())
}

fn equal(bench: &Bench<'_>, rule: Rule, who: &str, expected: &Made, found: &Made) -> Verdict {
    let what = difference(&expected.rows, &found.rows).or_else(|| bad_difference(expected, found));
    bench.record.hold(rule, what.is_none(), || format!("{who} makes other rows of the same batch: {}", what.unwrap_or_default()))
}

fn bad_difference(expected: &Made, found: &Made) -> Option<String> {
    let (expected, found) = (&expected.bad, &found.bad);
    let index = (0..expected.len().max(found.len())).find(|index| expected.get(*index) != found.get(*index))?;
    let shown = |bad: Option<&(usize, String)>| bad.map_or("none".to_string(), |(row, message)| format!("row {row} ({})", cut(message)));
    Some(format!("a bad row is {} instead of {}", shown(found.get(index)), shown(expected.get(index))))
}

/// Compares the whole with the same rows in smaller batches. Where the same values came and in other places, the lie is about which row is which.
fn compare(bench: &Bench<'_>, how: &str, cut: &Made, whole: &Made) -> Verdict {
    let Some(what) = difference(&cut.rows, &whole.rows).or_else(|| bad_difference(cut, whole)) else {
        bench.record.kept(Rule::BatchCuts);
        if bench.bound.rowwise {
            bench.record.kept(Rule::RowMapping);
        }
        return Ok(());
    };
    let rule = if bench.bound.rowwise && same_values(&cut.rows, &whole.rows) { Rule::RowMapping } else { Rule::BatchCuts };
    Err(bench.record.convict(rule, format!("one batch of all rows, compared with {how}: {what}")))
}

/// Whether every column has the same values, in whatever order.
fn same_values(one: &RecordBatch, other: &RecordBatch) -> bool {
    let sorted = |batch: &RecordBatch, column: usize| {
        let mut texts = batch.project(&[column]).map(|column| row_texts(&column)).unwrap_or_default();
        texts.sort();
        texts
    };
    one.num_columns() == other.num_columns() && (0..one.num_columns()).all(|column| sorted(one, column) == sorted(other, column))
}

//! Plans, splits and columns.

use super::Bench;
use super::read::{failed, open_source, patiently};
use crate::rules::Rule;
use crate::verdict::{Verdict, cut, row_texts};
use arrow::array::RecordBatch;
use std::collections::BTreeSet;
use std::time::Duration;
use tidegate_api::{Generation, PollRequest, RunId, RunIdentity, SourceCtx, Split, hidden};

pub(super) fn again(bench: &Bench<'_>) -> Verdict {
    let rule = Rule::PlanConstant;
    let source = open_source(bench.world, bench.record, rule)?;
    let request = &bench.options.request;
    let plan = || source.plan(request).map_err(|error| failed(bench.record, rule, "plan", &error));
    let first = plan()?;
    // Another question between.
    let none = request.clone().with_columns(Some(Vec::new()));
    source.plan(&none).map_err(|error| failed(bench.record, Rule::Pruning, "plan without columns", &error))?;
    let second = plan()?;
    bench.record.hold(rule, first == second, || format!("the plan was {first:?}, then {second:?}"))
}

pub(super) fn splits_again(bench: &Bench<'_>) -> Verdict {
    let rule = Rule::SplitsStable;
    let source = open_source(bench.world, bench.record, rule)?;
    let names = |splits: &[Split]| splits.iter().map(|split| split.id.to_string()).collect::<Vec<_>>().join(", ");
    // Asked in another instance, and there again.
    for _ in 0..2 {
        let found = source.discover(None).map_err(|error| failed(bench.record, rule, "discover", &error))?;
        let ids: BTreeSet<_> = found.added.iter().map(|split| &split.id).collect();
        bench.record.hold(rule, ids.len() == found.added.len(), || "one discovery names a split twice".to_string())?;
        bench.record.hold(rule, found.added == bench.splits, || {
            let (now, before) = (names(&found.added), names(&bench.splits));
            if now == before {
                "the details or positions of a fresh split differ".to_string()
            } else {
                format!("splits are {now}, and were {before}")
            }
        })?;
    }
    Ok(())
}

pub(super) fn nothing_assigned(bench: &Bench<'_>) -> Verdict {
    let rule = Rule::EmptyPolls;
    let source = open_source(bench.world, bench.record, rule)?;
    let run = RunIdentity::new("conformance", RunId::new("run"), Generation(1), "source");
    let ctx = SourceCtx::new(run).with_request(bench.options.request.clone());
    let mut reader = source.open(ctx).map_err(|error| failed(bench.record, rule, "open without splits", &error))?;
    for _ in 0..3 {
        let request = PollRequest { max_rows: 10, max_bytes: 1 << 20, wait: Duration::ZERO };
        let polled = patiently(|| reader.poll(request)).map_err(|error| failed(bench.record, rule, "poll without splits", &error))?;
        let nothing = polled.chunks.is_empty() && polled.states.is_empty();
        bench.record.hold(rule, nothing, || "a poll without splits gives rows or states".to_string())?;
        reader.assign(Vec::new()).map_err(|error| failed(bench.record, rule, "assign of nothing", &error))?;
        reader.committed(&[]).map_err(|error| failed(bench.record, rule, "committed of nothing", &error))?;
    }
    Ok(())
}

/// Each column alone, none, and every second one.
pub(super) fn fewer_columns(bench: &Bench<'_>) -> Verdict {
    let rule = Rule::Pruning;
    let Some(schema) = bench.whole.values().next().map(|read| read.rows.schema()) else { return Ok(()) };
    let names: Vec<String> = hidden::visible_schema(&schema).fields().iter().map(|field| field.name().clone()).collect();
    let mut choices: Vec<Vec<String>> = names.iter().take(32).map(|name| vec![name.clone()]).collect();
    choices.push(Vec::new());
    choices.push(names.iter().step_by(2).cloned().collect());
    for columns in choices {
        let source = open_source(bench.world, bench.record, rule)?;
        let mut reading = bench.reading();
        reading.rule = rule;
        reading.request = bench.options.request.clone().with_columns(Some(columns.clone()));
        let shown = format!("[{}]", columns.join(", "));
        let plan = source.plan(&reading.request).map_err(|error| failed(bench.record, rule, "plan", &error))?;
        bench.record.hold(rule, plan.mode == bench.mode, || format!("with the columns {shown} rows replace each other by another key"))?;
        for (id, read) in reading.of(source.as_ref()).map_err(|mut conviction| {
            conviction.detail = format!("with the columns {shown}: {}", conviction.detail);
            conviction
        })? {
            let whole = &bench.whole[&id];
            for name in &columns {
                let (Ok(wide), Ok(narrow)) = (whole.rows.schema().index_of(name), read.rows.schema().index_of(name)) else {
                    return Err(bench.record.convict(rule, format!("column `{name}` is missing when {shown} is wanted")));
                };
                let wide = whole.rows.project(&[wide]).map_err(|error| bench.record.convict(rule, error.to_string()))?;
                let narrow = read.rows.project(&[narrow]).map_err(|error| bench.record.convict(rule, error.to_string()))?;
                let kept = column_kept(&wide, &narrow, whole.ended && read.ended, whole.bad.is_empty());
                bench
                    .record
                    .hold(rule, kept.is_none(), || format!("split `{id}`, column `{name}` of {shown}: {}", kept.unwrap_or_default()))?;
            }
            if columns.is_empty() && whole.bad.is_empty() && whole.ended && read.ended {
                let (rows, all) = (read.rows.num_rows(), whole.rows.num_rows());
                bench.record.hold(rule, rows == all, || format!("split `{id}` without columns has {rows} rows instead of {all}"))?;
            }
        }
    }
    Ok(())
}

/// A value that nobody decodes cannot be bad, so where there are bad rows a narrower read may have more rows.
fn column_kept(wide: &RecordBatch, narrow: &RecordBatch, ended: bool, no_bad: bool) -> Option<String> {
    if no_bad {
        let rows = if ended { usize::MAX } else { wide.num_rows().min(narrow.num_rows()) };
        let part = |batch: &RecordBatch| batch.slice(0, batch.num_rows().min(rows));
        return crate::verdict::difference(&part(wide), &part(narrow));
    }
    if !ended {
        return None;
    }
    let narrow = row_texts(narrow);
    let mut rest = narrow.iter();
    let missing = row_texts(wide).into_iter().find(|row| !rest.any(|other| other == row))?;
    Some(format!("the row `{}` is missing", cut(&missing)))
}

pub(super) fn new_splits(bench: &Bench<'_>) -> Verdict {
    let rule = Rule::NewSplits;
    let source = open_source(bench.world, bench.record, rule)?;
    let discover =
        || source.discover(bench.cursor.as_deref()).map_err(|error| failed(bench.record, rule, "discover with a cursor", &error));
    // Naming a split again is harmless, so nothing is asked of this one but that it answers.
    discover()?;
    let Some(more) = &bench.world.more else { return Ok(()) };
    more().map_err(|error| failed(bench.record, rule, "what makes new splits appear", &error))?;
    let found = discover()?;
    let known: BTreeSet<_> = bench.splits.iter().map(|split| &split.id).collect();
    let new: Vec<Split> = found.added.into_iter().filter(|split| !known.contains(&split.id)).collect();
    bench.record.hold(rule, !new.is_empty(), || "a discovery with the cursor finds none of the new splits".to_string())?;
    let again = source.discover(found.cursor.as_deref().or(bench.cursor.as_deref()));
    again.map_err(|error| failed(bench.record, rule, "discover with the next cursor", &error))?;
    let mut reading = bench.reading();
    reading.rule = rule;
    reading.splits = new;
    let rows: usize = reading.of(source.as_ref())?.values().map(|read| read.rows.num_rows() + read.bad.len()).sum();
    bench.record.hold(rule, rows > 0, || "the new splits have no rows".to_string())
}

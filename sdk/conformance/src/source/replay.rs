//! The same rows again: by another instance, by more tasks, in other polls, from any position, after any death.

use super::read::{Between, Read, Reading, open_source};
use super::{Bench, SourceWorld};
use crate::rules::Rule;
use crate::verdict::{Verdict, difference};
use arrow::array::RecordBatch;
use std::collections::BTreeMap;
use tidegate_api::{Split, SplitId};

/// Rows of one poll where many positions are wanted.
const SMALL: usize = 7;
/// Splits that are read from many positions.
const SPLITS: usize = 4;

pub(super) fn again(bench: &Bench<'_>) -> Verdict {
    if !bench.replayable {
        return Ok(());
    }
    read_and_compare(bench, Rule::ReplaySame, "read again", |_| {})
}

pub(super) fn tasks(bench: &Bench<'_>) -> Verdict {
    for tasks in [2, 3] {
        if bench.replayable && tasks <= bench.max_tasks {
            read_and_compare(bench, Rule::AnyTasks, &format!("read by {tasks} tasks"), |reading| reading.tasks = tasks)?;
        }
    }
    Ok(())
}

pub(super) fn polls(bench: &Bench<'_>) -> Verdict {
    for max_rows in [1, SMALL] {
        if bench.replayable {
            let how = format!("read in polls of {max_rows} rows");
            read_and_compare(bench, Rule::AnyPoll, &how, |reading| reading.max_rows = max_rows)?;
        }
    }
    Ok(())
}

pub(super) fn killed(bench: &Bench<'_>) -> Verdict {
    for after in [1, 2, 5] {
        if bench.replayable {
            let how = format!("read by instances that die after {after} polls");
            read_and_compare(bench, Rule::KilledAnywhere, &how, |reading| {
                reading.max_rows = SMALL;
                reading.between = Between::Kill(after);
            })?;
        }
    }
    Ok(())
}

pub(super) fn committed(bench: &Bench<'_>) -> Verdict {
    if !bench.replayable {
        return Ok(());
    }
    read_and_compare(bench, Rule::CommittedHarmless, "read with notices of durable positions", |reading| {
        reading.max_rows = SMALL;
        reading.between = Between::Commit;
    })
}

/// Reads by another instance and compares with the first reading.
fn read_and_compare(bench: &Bench<'_>, rule: Rule, how: &str, change: impl FnOnce(&mut Reading<'_>)) -> Verdict {
    let source = open_source(bench.world, bench.record, rule)?;
    let mut reading = bench.reading();
    reading.rule = rule;
    change(&mut reading);
    let read = reading.of(source.as_ref())?;
    same(bench, rule, how, &read)
}

fn same(bench: &Bench<'_>, rule: Rule, how: &str, read: &BTreeMap<SplitId, Read>) -> Verdict {
    for (id, expected) in &bench.whole {
        let Some(found) = read.get(id) else {
            return Err(bench.record.convict(rule, format!("split `{id}` is not {how}")));
        };
        let compared = match (expected.ended, found.ended) {
            (true, true) => difference(&expected.rows, &found.rows).or_else(|| bad_difference(&expected.bad, &found.bad)),
            // As far as both were read.
            _ => {
                let rows = expected.rows.num_rows().min(found.rows.num_rows());
                difference(&expected.rows.slice(0, rows), &found.rows.slice(0, rows))
            }
        };
        if let Some(what) = compared {
            return Err(bench.record.convict(rule, format!("split `{id}` {how}: {what}")));
        }
        if found.rows.num_rows() > 0 {
            bench.record.kept(rule);
        }
    }
    Ok(())
}

fn bad_difference(expected: &[String], found: &[String]) -> Option<String> {
    (expected != found).then(|| format!("{} rows could not be decoded, and {} before, or for other reasons", found.len(), expected.len()))
}

/// From positions all over a split exactly the rest comes.
pub(super) fn positions(bench: &Bench<'_>) -> Verdict {
    if !bench.replayable {
        return Ok(());
    }
    let source = open_source(bench.world, bench.record, Rule::ReplaySame)?;
    let mut reading = bench.reading();
    reading.rule = Rule::ReplaySame;
    reading.max_rows = SMALL;
    let cut = reading.of(source.as_ref())?;
    for split in bench.splits.iter().take(SPLITS) {
        let Some(read) = cut.get(&split.id) else { continue };
        let step = (read.marks.len() / bench.options.positions.max(1)).max(1);
        let mut before: Option<(usize, usize)> = None;
        // The last one too: behind it there is nothing.
        let places = (0..read.marks.len()).step_by(step).chain(read.marks.len().checked_sub(1));
        for mark in places.filter_map(|place| read.marks.get(place)) {
            let start = Split { position: Some(mark.position.clone()), ..split.clone() };
            let mut reading = bench.reading();
            reading.rule = Rule::ReplaySame;
            reading.splits = vec![start];
            let rest = reading.of(open_source(bench.world, bench.record, Rule::ReplaySame)?.as_ref())?;
            let Some(rest) = rest.get(&split.id) else { continue };
            let expected = read.rows.slice(mark.rows, read.rows.num_rows() - mark.rows);
            let place = format!("split `{}` from `{}`, behind {} rows", split.id, mark.position, mark.rows);
            let ended = read.ended && rest.ended;
            suffix(bench, &place, read, &expected, &rest.rows, ended)?;
            if ended {
                let bad = bad_difference(&read.bad[mark.bad..], &rest.bad);
                if let Some(what) = bad {
                    return Err(bench.record.convict(Rule::ReplaySame, format!("{place}: {what}")));
                }
                let shorter = before.is_none_or(|(rows, length)| rows >= mark.rows || rest.rows.num_rows() < length);
                bench
                    .record
                    .hold(Rule::PositionAdvances, shorter, || format!("{place}: {} rows, as many as before", rest.rows.num_rows()))?;
                before = Some((mark.rows, rest.rows.num_rows()));
            }
        }
    }
    Ok(())
}

/// Says in which way a rest is not the rest.
fn suffix(bench: &Bench<'_>, place: &str, whole: &Read, expected: &RecordBatch, found: &RecordBatch, ended: bool) -> Verdict {
    // A source without end is compared as far as both were read.
    let rows = if ended { usize::MAX } else { expected.num_rows().min(found.num_rows()) };
    let part = |batch: &RecordBatch| batch.slice(0, batch.num_rows().min(rows));
    let Some(what) = difference(&part(expected), &part(found)) else {
        for rule in [Rule::ReplaySame, Rule::PositionSkips, Rule::PositionRepeats] {
            bench.record.kept(rule);
        }
        return Ok(());
    };
    let rule = match shift(&whole.rows, expected.num_rows(), found) {
        Some(Shift::Skips) => Rule::PositionSkips,
        Some(Shift::Repeats) => Rule::PositionRepeats,
        None => Rule::ReplaySame,
    };
    Err(bench.record.convict(rule, format!("{place}: {what}")))
}

enum Shift {
    Skips,
    Repeats,
}

/// Whether what was found is the whole from another row on than the one expected, and to which side.
fn shift(whole: &RecordBatch, expected: usize, found: &RecordBatch) -> Option<Shift> {
    let all = whole.num_rows();
    let right = all - expected;
    // The first rows of what was found, looked for all over the split; all of it would only be found when the source ends.
    let head = found.slice(0, found.num_rows().min(16));
    if head.num_rows() == 0 {
        return (expected > 0).then_some(Shift::Skips);
    }
    let at = |start: usize| {
        let length = head.num_rows().min(all - start);
        length > 0 && whole.slice(start, length) == head.slice(0, length)
    };
    if (right + 1..all).any(at) {
        return Some(Shift::Skips);
    }
    (0..right).any(at).then_some(Shift::Repeats)
}

/// A newer version reads on from positions of the older one.
pub(super) fn upgrade(bench: &Bench<'_>, new: &SourceWorld) -> Verdict {
    let rule = Rule::UpgradePositions;
    let newer = open_source(new, bench.record, rule)?;
    let found = newer.discover(bench.cursor.as_deref());
    found.map_err(|error| super::read::failed(bench.record, rule, "discover with the older cursor", &error))?;
    let mut reading = bench.reading();
    reading.max_rows = SMALL;
    let cut = reading.of(open_source(bench.world, bench.record, Rule::CallsSucceed)?.as_ref())?;
    for split in bench.splits.iter().take(SPLITS) {
        let Some(read) = cut.get(&split.id) else { continue };
        let step = (read.marks.len() / 8).max(1);
        for mark in read.marks.iter().step_by(step) {
            let mut reading = bench.reading();
            reading.rule = rule;
            reading.splits = vec![Split { position: Some(mark.position.clone()), ..split.clone() }];
            let rest = reading.of(open_source(new, bench.record, rule)?.as_ref())?;
            let Some(rest) = rest.get(&split.id) else { continue };
            let expected = read.rows.slice(mark.rows, read.rows.num_rows() - mark.rows);
            let rows = if read.ended && rest.ended { usize::MAX } else { expected.num_rows().min(rest.rows.num_rows()) };
            let part = |batch: &RecordBatch| batch.slice(0, batch.num_rows().min(rows));
            let what = difference(&part(&expected), &part(&rest.rows));
            bench.record.hold(rule, what.is_none(), || {
                format!("split `{}` from the older version's `{}`: {}", split.id, mark.position, what.unwrap_or_default())
            })?;
        }
    }
    Ok(())
}

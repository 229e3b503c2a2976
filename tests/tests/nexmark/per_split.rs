//! State per origin split: windows and sessions of every split by itself, whatever the tasks, crashes and restores.

use crate::answers::Answer;
use crate::events::Events;
use crate::host::{Leg, SPLITS, Setting, run_text};
use crate::rows::{Row, assert_equal, row};
use crate::{EVENTS, SOURCE, State, name, rows_of_run, runs};
use serde_json::json;
use std::collections::BTreeMap;

/// Neighbouring events that the generator gives to one split.
const TOGETHER: i64 = 50;
const WINDOW: i64 = 10_000;
const GAP: i64 = 2_000;

fn text(step: &str) -> String {
    format!(
        "name = \"apart\"\n[datasets.events]\n{}\n[datasets.out]\nsink = \"blackhole\"\n\
         [[stages]]\nid = \"apart\"\ninputs = [\"events\"]\noutput = \"out\"\n\
         steps = [{{ op = \"filter\", expression = 'type == \"bid\"' }}, {step}]\n",
        SOURCE.options()
    )
}

/// Time and auction of the bids of each split, in the order of time.
fn bids(events: &Events) -> Vec<Vec<(i64, i64)>> {
    let mut splits = vec![Vec::new(); SPLITS as usize];
    for bid in &events.bids {
        let event = (bid.time - SOURCE.start_ms) / SOURCE.step_ms;
        splits[(event / TOGETHER % SPLITS as i64) as usize].push((bid.time, bid.auction));
    }
    splits
}

fn check(step: &str, settings: &[Setting], rows: Vec<Row>) {
    let answer = Answer::append(&["windowStart", "windowEnd", "auction", "bids"], rows);
    assert!(answer.rows.len() > EVENTS as usize / 100);
    for legs in runs(settings) {
        let what = name("apart", &legs);
        let output = run_text(&text(step), &legs);
        assert_equal(rows_of_run(output, &answer, State::Stateful, &what), &answer.rows, &what);
    }
}

fn windows() -> Vec<Row> {
    let mut counts: BTreeMap<(usize, i64, i64), i64> = BTreeMap::new();
    for (split, bids) in bids(&Events::of(SOURCE)).into_iter().enumerate() {
        for (time, auction) in bids {
            *counts.entry((split, time - time.rem_euclid(WINDOW), auction)).or_default() += 1;
        }
    }
    counts.into_iter().map(|((_, start, auction), bids)| row![start, start + WINDOW, auction, bids]).collect()
}

const COUNT: &str = "{ op = \"windowedAggregate\", timeColumn = \"dateTime\", windowMs = 10000, groupBy = [\"auction\"], keyBy = false, \
                     aggs = [{ op = \"count\", alias = \"bids\" }] }";

#[test]
fn windows_of_every_split() {
    check(COUNT, &[], windows());
}

#[test]
fn windows_of_every_split_on_disk() {
    let folder = tempfile::tempdir().unwrap();
    check(COUNT, &[("maxMemory", json!("64KiB")), ("spill", json!(folder.path()))], windows());
}

#[test]
fn sessions_of_every_split() {
    let mut rows = Vec::new();
    for bids in bids(&Events::of(SOURCE)) {
        let mut open: BTreeMap<i64, (i64, i64, i64)> = BTreeMap::new();
        let closed = |auction: i64, (first, last, bids): (i64, i64, i64)| row![first, last + GAP, auction, bids];
        for (time, auction) in bids {
            let session = open.entry(auction).or_insert((time, time, 0));
            if time - session.1 > GAP {
                rows.push(closed(auction, *session));
                *session = (time, time, 0);
            }
            (session.1, session.2) = (time, session.2 + 1);
        }
        rows.extend(open.into_iter().map(|(auction, session)| closed(auction, session)));
    }
    let step = "{ op = \"sessionAggregate\", timeColumn = \"dateTime\", gapMs = 2000, groupBy = [\"auction\"], keyBy = false, \
                aggs = [{ op = \"count\", alias = \"bids\" }] }";
    check(step, &[], rows);
}

/// Rows are dealt out by split, and a group comes out once for each that has it: the counts add up to those of all splits together.
#[test]
fn what_splits_count_apart_adds_up() {
    let together = COUNT.replace("keyBy = false, ", "");
    let legs = [Leg::new(3)];
    let sums = |step: &str| {
        let mut sums: BTreeMap<String, i64> = BTreeMap::new();
        let rows = run_text(&text(step), &legs).rows;
        let count = rows.len();
        for mut row in rows {
            let crate::rows::Cell::Int(bids) = row.pop().unwrap() else { panic!("a count is an integer") };
            *sums.entry(format!("{row:?}")).or_default() += bids;
        }
        (sums, count)
    };
    let (apart, whole) = (sums(COUNT), sums(&together));
    assert_eq!(apart.0, whole.0);
    assert!(apart.1 > whole.1);
}

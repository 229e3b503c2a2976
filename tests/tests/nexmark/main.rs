//! Every Nexmark query of `examples/nexmark` is right: for 100,000 events it equals an oracle that recomputes it in plain Rust from
//! all events at once; with one, two and four tasks, with a crash and a restore in the middle, and rescaled at every restore.
//!
//! The files are run as they are, but for the options of the generator and the sink. [`host`] makes the crashes, [`answers`] says
//! what each query means, and [`rows`] what equal means.

#![allow(clippy::unwrap_used, reason = "a test may end by panicking")]

mod answers;
mod events;
mod gate;
mod host;
mod per_split;
mod rows;

use answers::Answer;
use events::Events;
use host::{Act, Leg, Output, Setting, Source, WALL, run_query};
use rows::{Row, assert_equal};
use serde_json::json;

const EVENTS: u64 = 100_000;

/// A thousand seconds around a midnight, so that days end in the middle; no window of any query begins with the first event.
const SOURCE: Source = Source { events: EVENTS, start_ms: 1_704_153_600_000 - 498_766, step_ms: 10 };

/// Whether a query keeps anything between two rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Stateless,
    Stateful,
}
use State::{Stateful, Stateless};

/// Reads `from`, settles an epoch, and crashes at `to`.
fn crash(from: u64, to: u64) -> [Act; 3] {
    [Act::ReadTo(EVENTS * from / 100), Act::Epoch, Act::CrashAt(EVENTS * to / 100)]
}

/// The starts that every query goes through, under these settings.
fn runs(settings: &[Setting]) -> Vec<Vec<Leg>> {
    let mut runs = Vec::new();
    for (tasks, batch_rows) in [(1, 8192), (2, 1000), (4, 301)] {
        let leg = || Leg::new(tasks).with_batch_rows(batch_rows).with_settings(settings);
        runs.push(vec![leg().with_acts(crash(40, 55)), leg()]);
    }
    let rescaled = [(1, Some((20, 30))), (4, Some((45, 55))), (3, Some((70, 80))), (1, None)];
    let rescaled = rescaled.map(|(tasks, at)| {
        Leg::new(tasks).with_batch_rows(2000).with_settings(settings).with_acts(at.into_iter().flat_map(|(from, to)| crash(from, to)))
    });
    runs.push(rescaled.into());
    runs
}

/// Looks at what one run says of itself, and gives its rows; of an upsert output the table.
fn rows_of_run(output: Output, answer: &Answer, state: State, what: &str) -> Vec<Row> {
    assert_eq!(output.columns, answer.columns, "{what}: the columns");
    for manifest in &output.restored {
        let pieces = manifest.operators.values().map(|operator| operator.pieces.len()).sum::<usize>();
        assert_eq!(pieces > 0, state == Stateful, "{what}: whether there was state to restore");
    }
    let mode = &output.record["outputs"][0]["mode"];
    match answer.keys {
        None => {
            assert_eq!(mode, "append", "{what}");
            output.rows
        }
        Some(keys) => {
            assert_eq!(mode["upsert"]["keys"], json!(keys), "{what}: {mode}");
            rows::table_of(output.rows, answer.columns, keys)
        }
    }
}

fn name(query: &str, legs: &[Leg]) -> String {
    format!("{query} with {:?} tasks", legs.iter().map(|leg| leg.tasks).collect::<Vec<_>>())
}

/// Goes through every run of a query and hands its rows, and what to call it, to `judge`.
fn each_run(query: &str, state: State, source: Source, settings: &[Setting], answer: &Answer, judge: impl Fn(Vec<Row>, &str)) {
    assert!(answer.rows.len() > 1, "{query} answers something");
    for legs in runs(settings) {
        let what = name(query, &legs);
        let rows = rows_of_run(run_query(query, source, &legs), answer, state, &what);
        judge(rows, &what);
    }
}

fn check(query: &str, state: State, source: Source, settings: &[Setting], answer: impl Fn(&Events) -> Answer) {
    let answer = answer(&Events::of(source));
    each_run(query, state, source, settings, &answer, |rows, what| assert_equal(rows, &answer.rows, what));
}

macro_rules! queries {
    ($($test:ident: $query:ident, $state:ident;)+) => {
        $(#[test]
        fn $test() {
            check(stringify!($query), $state, SOURCE, &[], answers::$query);
        })+
    };
}

queries! {
    q0_bids_as_they_are: q0, Stateless;
    q1_prices_in_another_currency: q1, Stateless;
    q2_bids_on_some_auctions: q2, Stateless;
    q3_sellers_of_a_category: q3, Stateful;
    q4_average_winning_price_of_categories: q4, Stateful;
    q5_hot_auctions: q5, Stateful;
    q6_average_winning_price_of_sellers: q6, Stateful;
    q7_highest_bids: q7, Stateful;
    q8_new_sellers: q8, Stateful;
    q9_winning_bids: q9, Stateful;
    q10_bids_in_folders_of_minutes: q10, Stateless;
    q11_sessions_of_bidders: q11, Stateful;
    q13_bids_beside_a_table: q13, Stateful;
    q15_totals_of_days: q15, Stateful;
    q16_totals_of_channels: q16, Stateful;
    q17_totals_of_auctions: q17, Stateful;
    q18_last_bids: q18, Stateful;
    q20_bids_with_their_auctions: q20, Stateful;
    q21_channels_as_numbers: q21, Stateless;
    q22_folders_of_urls: q22, Stateless;
    tumbling_counts: tumble, Stateful;
}

/// The stages have a few kilobytes of memory; what they keep lies on disk, and the answers are the same.
macro_rules! spilling {
    ($($test:ident: $query:ident;)+) => {
        $(#[test]
        fn $test() {
            let folder = tempfile::tempdir().unwrap();
            let settings = [("maxMemory", json!("64KiB")), ("spill", json!(folder.path()))];
            let answer = answers::$query(&Events::of(SOURCE));
            for legs in runs(&settings) {
                let what = name(stringify!($query), &legs);
                let output = run_query(stringify!($query), SOURCE, &legs);
                let nodes = output.record["metrics"]["nodes"].as_array().unwrap().clone();
                let spills: u64 = nodes.iter().filter_map(|node| node["spills"].as_u64()).sum();
                assert!(spills > 0, "{what}: nothing was put aside: {nodes:?}");
                assert_equal(rows_of_run(output, &answer, Stateful, &what), &answer.rows, &what);
            }
        })+
    };
}

spilling! {
    q4_on_disk: q4;
    q5_on_disk: q5;
    q9_on_disk: q9;
    q13_on_disk: q13;
    q18_on_disk: q18;
    q20_on_disk: q20;
}

/// More than a day in a thousand times the usual steps, so that every hour is seen.
#[test]
fn q14_prices_and_the_time_of_day() {
    check("q14", Stateless, Source { step_ms: 1000, ..SOURCE }, &[], answers::q14);
}

/// So few bids in a window that auctions with equally many are common.
#[test]
fn q5_auctions_that_are_equally_hot() {
    check("q5", Stateful, Source { step_ms: 1000, ..SOURCE }, &[], answers::q5);
}

/// Two events take ten seconds, so that many persons list an auction exactly at the bound.
#[test]
fn q8_sellers_at_the_bound() {
    check("q8", Stateful, Source { step_ms: 5000, ..SOURCE }, &[], answers::q8);
}

/// Equal bids may stand in any order, so ranks are compared by their prices, and the rest of each row with the bids.
#[test]
fn q19_ten_highest_bids() {
    let events = Events::of(SOURCE);
    let answer = answers::q19(&events);
    each_run("q19", Stateful, SOURCE, &[], &answer, |rows, what| {
        assert!(answers::is_of_bids(&rows, &events), "{what}: every row is a bid of its own");
        let ranks = rows.iter().map(|row| vec![row[0].clone(), row[1].clone(), row[3].clone()]).collect();
        assert_equal(ranks, &answer.rows, what);
    });
}

/// The clock moves on by four seconds for every five hundredths of the events, and stands still from the epoch that is restored
/// until the point of the crash has been passed again.
#[test]
fn q12_bids_in_windows_of_the_clock() {
    const WALL_STEP: i64 = 4_000;
    let moves = |part: u64| [Act::ReadTo(EVENTS * part / 100), Act::Epoch, Act::Wall(WALL + part as i64 / 5 * WALL_STEP + 500)];
    for (before, after, batch_rows) in [(1, 1, 8192), (2, 2, 1000), (4, 4, 301), (1, 4, 2000), (3, 1, 2000)] {
        let first =
            (5..=40).step_by(5).flat_map(moves).chain([Act::ReadTo(EVENTS * 42 / 100), Act::Epoch, Act::CrashAt(EVENTS * 45 / 100)]);
        let legs = [
            Leg::new(before).with_batch_rows(batch_rows).with_acts(first),
            Leg::new(after).with_batch_rows(batch_rows).with_acts((45..=95).step_by(5).flat_map(moves)),
        ];
        let output = run_query("q12", SOURCE, &legs);
        let answer = answers::q12(&Events::of(SOURCE), &output.walls);
        let what = name("q12", &legs);
        assert_equal(rows_of_run(output, &answer, Stateful, &what), &answer.rows, &what);
    }
}

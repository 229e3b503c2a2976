//! The look-up in a table that every start reads anew: whatever is snapshot, killed, rescaled, put aside or half read, every row of the
//! stream is joined once, with the table as it stands then, and nothing that was deleted while nobody looked comes back.

use super::tests::{Entry, Row, STREAM, TABLE, inputs, shown, step, stream, table};
use crate::parse_step;
use crate::step::BindCtx;
use crate::testing::{Job, Made, Snapshot};
use proptest::prelude::*;
use std::collections::BTreeMap;
use tidegate_api::{EventTime, Watermark};

#[derive(Debug, Clone)]
enum Story {
    Stream(Vec<Row>),
    /// Changes of the database, seen at once while it is followed.
    Change(Vec<(i32, Option<i64>)>),
    /// So many rows of the reading that makes the table whole.
    Part(usize),
    /// The rest of it.
    Whole,
    Snapshot,
    /// A new start with so many tasks.
    Crash(usize),
    /// The state is written and read within one start, as it is for want of memory.
    Aside,
}

fn stories() -> impl Strategy<Value = Vec<Story>> {
    let row = (Just(Some(0i64)), prop::option::weighted(0.9, 0i64..5), any::<i64>());
    let change = (0i32..5, prop::option::weighted(0.6, 0i64..1000));
    let story = prop_oneof![
        5 => prop::collection::vec(row, 0..6).prop_map(Story::Stream),
        4 => prop::collection::vec(change, 0..5).prop_map(Story::Change),
        2 => (0usize..4).prop_map(Story::Part),
        3 => Just(Story::Whole),
        3 => Just(Story::Snapshot),
        2 => (1usize..6).prop_map(Story::Crash),
        1 => Just(Story::Aside),
    ];
    prop::collection::vec(story, 0..30)
}

/// What a snapshot covers.
#[derive(Clone, Default)]
struct Saved {
    snapshot: Snapshot,
    made: Made,
    joined: Vec<String>,
    waiting: Vec<Row>,
    next: usize,
}

struct World {
    job: Job,
    /// The database, which no crash takes back.
    base: BTreeMap<i32, i64>,
    /// What this start has handed over of it.
    sent: BTreeMap<i32, i64>,
    ready: bool,
    joined: Vec<String>,
    waiting: Vec<Row>,
}

impl World {
    fn new(inner: bool, batch_rows: usize) -> Self {
        let bound = parse_step(&step(false, inner)).unwrap().bind(&inputs(), &BindCtx::new().with_reloads(true)).unwrap();
        World {
            job: Job::new(bound, 2, batch_rows),
            base: BTreeMap::new(),
            sent: BTreeMap::new(),
            ready: false,
            joined: Vec::new(),
            waiting: Vec::new(),
        }
    }

    /// Hands over what differs, at most so many rows.
    fn hand_over(&mut self, most: usize) {
        let puts = self.base.iter().filter(|(key, value)| self.sent.get(key) != Some(value)).map(|(key, value)| (*key, Some(*value)));
        let gone = self.sent.keys().filter(|key| !self.base.contains_key(key)).map(|key| (*key, None));
        let changes: Vec<(i32, Option<i64>)> = puts.chain(gone).take(most).collect();
        for (key, value) in &changes {
            match value {
                Some(value) => self.sent.insert(*key, *value),
                None => self.sent.remove(key),
            };
        }
        let entries: Vec<Entry> = changes.into_iter().map(|(key, value)| (0, Some(key), value)).collect();
        self.job.batch(TABLE, &table(&entries));
    }

    /// The table is whole.
    fn whole(&mut self, inner: bool) {
        self.hand_over(usize::MAX);
        self.job.input_watermark(TABLE, Watermark::At(EventTime::MAX));
        self.job.time();
        self.ready = true;
        let waiting = std::mem::take(&mut self.waiting);
        self.join(&waiting, inner);
    }

    fn join(&mut self, rows: &[Row], inner: bool) {
        for row in rows {
            let key = row.1.and_then(|key| i32::try_from(key).ok());
            let found: Option<Entry> = key.and_then(|key| Some((0, Some(key), Some(*self.base.get(&key)?))));
            if found.is_some() || !inner {
                self.joined.push(shown(row, found.as_ref()));
            }
        }
    }
}

fn run(stories: &[Story], inner: bool, batch_rows: usize) -> Result<(), TestCaseError> {
    let mut world = World::new(inner, batch_rows);
    let mut saved = Saved::default();
    let mut done = vec![false; stories.len()];
    let mut at = 0;
    while at < stories.len() {
        let first = !std::mem::replace(&mut done[at], true);
        prop_assert_eq!(world.job.holds(STREAM), !world.ready);
        match &stories[at] {
            Story::Stream(rows) => {
                world.job.batch(STREAM, &stream(rows));
                if world.ready { world.join(rows, inner) } else { world.waiting.extend(rows) }
            }
            // What was changed before a crash stays changed.
            Story::Change(changes) if first => {
                for (key, value) in changes {
                    match value {
                        Some(value) => world.base.insert(*key, *value),
                        None => world.base.remove(key),
                    };
                }
                if world.ready {
                    world.hand_over(usize::MAX);
                }
            }
            Story::Change(_) => {}
            Story::Part(rows) if !world.ready => world.hand_over(*rows),
            Story::Part(_) => {}
            Story::Whole => world.whole(inner),
            Story::Snapshot => {
                let snapshot = world.job.snapshot();
                let (made, joined, waiting) = (world.job.made.clone(), world.joined.clone(), world.waiting.clone());
                saved = Saved { snapshot, made, joined, waiting, next: at + 1 };
            }
            Story::Crash(tasks) if first => {
                world.job.start_again(&saved.snapshot, *tasks);
                world.job.made = saved.made.clone();
                (world.joined, world.waiting, world.ready) = (saved.joined.clone(), saved.waiting.clone(), false);
                world.sent.clear();
                at = saved.next;
                continue;
            }
            Story::Crash(_) => {}
            Story::Aside => {
                let snapshot = world.job.snapshot();
                world.job.restore(&snapshot, 3);
                if world.ready {
                    world.job.input_watermark(TABLE, Watermark::At(EventTime::MAX));
                }
            }
        }
        at += 1;
    }
    world.whole(inner);
    world.job.end();
    world.joined.sort();
    prop_assert_eq!(world.job.made.rows(), world.joined);
    Ok(())
}

proptest! {
    #[test]
    fn a_table_that_is_read_anew_is_never_what_it_was_before(stories in stories(), inner in any::<bool>(), batch_rows in 1usize..20) {
        run(&stories, inner, batch_rows)?;
    }
}

#[test]
fn a_row_deleted_while_nobody_looked_does_not_come_back() {
    let bids = |n: i64| Story::Stream(vec![(Some(0), Some(1), n)]);
    let stories = [
        Story::Change(vec![(1, Some(2)), (2, Some(4))]),
        Story::Whole,
        bids(10),
        Story::Snapshot,
        Story::Change(vec![(1, None)]),
        Story::Crash(2),
        bids(11),
        Story::Whole,
        bids(12),
    ];
    run(&stories, false, 10).unwrap();
}

//! Seeded simulation of a whole job: deaths anywhere, slow and failing stores, successors beside those that were only cut off.
//!
//! What the sinks show at the end equals an oracle that recomputes it from the whole input, as a multiset, and every transition
//! keeps the simulator's invariants. The same judges must convict planted mistakes; `tests/tests/simulation` at the root plants all of
//! them, in jobs of real operators. `TIDEGATE_SIM_SEEDS` sets the number of seeds, `TIDEGATE_SIM_FIRST` the first of them.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "everything here is a test")]

mod support;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use support::doubles::Finding;
use support::pipeline::{Tasks, World, sink, source as source_node, world};
use support::sorted;
use support::tumbling::PARTS;
use tidegate_api::testkit::Collector;
use tidegate_api::{Error, Result, RunId};
use tidegate_epochs::PlantedBug;
use tidegate_runtime::graph::{EdgeId, EdgeSpec, JobGraph, Pipe, Routing};
use tidegate_runtime::simulate::seeds::Seeds;
use tidegate_runtime::simulate::{SimConfig, SimRandom, SimReport, SimStart, simulate};
use tidegate_runtime::{Capacity, JobConfig, KillPoint, MemoryLimit, Planted};

/// Runs one seed and compares what the sinks show.
fn run(seed: u64, planted: Planted) -> Result<SimReport> {
    let mut random = SimRandom::new(seed ^ 0x5eed);
    let rows = 20 + random.below(60) as i64;
    let world: World = world(rows, &mut |limit| random.below(limit));
    let interval = Duration::from_micros(500 + random.below(20_000));
    let report = simulate(SimConfig::new(seed), &mut |start: SimStart<'_>| {
        let tasks = Tasks { sources: draw(start.random, 3), stages: draw(start.random, 4), sinks: draw(start.random, 2) };
        let mut config = JobConfig::new("simulated", RunId::new(format!("run-{seed}-{}", start.number)), "");
        config.batch_rows = 1 + start.random.below(9) as usize;
        config.edge = Capacity { rows: 4 + start.random.below(40) as usize, bytes: 1 << 20 };
        config.checkpoint_every = interval;
        // Half of all starts have hardly any memory for state, whatever those before and after them have.
        if start.random.below(2) == 0 {
            config.memory = Some(MemoryLimit { bytes: 2048, spill: Some(spill_folder()) });
        }
        config.planted = planted;
        (world.graph(tasks), config)
    })?;
    compare("raw", sorted(&world.raw.visible()), world.expected_raw())?;
    compare("sums", sorted(&world.sums.visible()), world.expected_sums())?;
    compare("dead", world.visible_dead(), world.expected_dead())?;
    Ok(report)
}

/// In memory where there is such a folder: thousands of files come and go.
fn spill_folder() -> PathBuf {
    let shared = Path::new("/dev/shm");
    if shared.is_dir() { shared.to_path_buf() } else { std::env::temp_dir() }
}

fn draw(random: &mut SimRandom, most: u64) -> usize {
    1 + random.below(most) as usize
}

fn compare<T: PartialEq>(sink: &str, got: Vec<T>, expected: Vec<T>) -> Result<()> {
    if got == expected {
        return Ok(());
    }
    Err(Error::data(format!("sink `{sink}` shows {} rows instead of {}", got.len(), expected.len())))
}

/// Seeds that found a mistake once, with what it was.
const NAMED: &[(u64, &str)] = &[];

#[test]
fn every_row_comes_out_once_whatever_dies_and_when() {
    for (seed, found) in NAMED {
        run(*seed, Planted::None).unwrap_or_else(|error| panic!("{found}: {error}"));
    }
    let seeds = Seeds::from_env(300);
    println!("{} seeds from {} on", seeds.count, seeds.first);
    let total = seeds.run(&|seed| run(seed, Planted::None)).unwrap_or_else(|failed| {
        panic!(
            "{}; again by: TIDEGATE_SIM_FIRST={} TIDEGATE_SIM_SEEDS=1 cargo test -p tidegate-runtime --test simulation every_row",
            failed.error, failed.seed
        )
    });
    println!("{total:?}");
    if seeds.count < 300 {
        return;
    }
    assert!(total.deaths > 0 && total.fenced > 0 && total.stops > 0 && total.late_calls > 0, "{total:?}");
    // A point that is passed seldom may be missing by chance; more seeds find it.
    let mut points: BTreeSet<_> = total.kill_points.keys().copied().collect();
    for round in 1..=4 {
        if points.len() < KillPoint::ALL.len() {
            let more = Seeds { first: seeds.first + round * seeds.count, ..seeds };
            points.extend(
                more.run(&|seed| run(seed, Planted::None)).unwrap_or_else(|failed| panic!("{}", failed.error)).kill_points.keys().copied(),
            );
        }
    }
    assert_eq!(points.len(), KillPoint::ALL.len(), "{total:?}");
    let parts = PARTS.load(Ordering::Relaxed);
    println!("parts of state were opened {parts} times");
    assert!(parts > 1000, "state was put aside too seldom: {parts}");
}

/// The sink shows every row of every split once, though finished splits are forgotten while others are found.
fn run_finding(seed: u64) -> Result<SimReport> {
    const SPLITS: u64 = 12;
    let source = Finding { grows: true, ..Finding::new(SPLITS) };
    let out = Collector::new();
    let report = simulate(SimConfig::new(seed), &mut |start: SimStart<'_>| {
        let mut config = JobConfig::new("simulated", RunId::new(format!("run-{seed}-{}", start.number)), "");
        config.batch_rows = 1 + start.random.below(9) as usize;
        config.checkpoint_every = Duration::from_micros(500 + start.random.below(5000));
        let finding = source_node("finding", Arc::new(source.clone())).with_parallelism(draw(start.random, 3));
        let edge = EdgeSpec {
            id: EdgeId(0),
            from: "finding".into(),
            to: "out".into(),
            input: 0,
            schema: Arc::clone(&source.schema),
            routing: Routing::RoundRobin,
        };
        let nodes = vec![finding.with_main(Pipe::to_edge(EdgeId(0))), sink("out", &out, &source.schema)];
        (JobGraph { nodes, edges: vec![edge] }, config)
    })?;
    let rows = |split: u64| (0..10).map(move |row| split * 100 + row).map(|n| vec![n as i64, 0, n as i64]);
    compare("out", sorted(&out.visible()), (0..SPLITS).flat_map(rows).collect())?;
    Ok(report)
}

#[test]
fn splits_that_are_found_and_forgotten_while_running_come_out_once() {
    let seeds = Seeds::from_env(150);
    let total = seeds.run(&run_finding).unwrap_or_else(|failed| panic!("seed {}: {}", failed.seed, failed.error));
    println!("{total:?}");
    assert!(seeds.count < 150 || (total.deaths > 0 && total.fenced > 0 && total.stops > 0), "{total:?}");
}

#[test]
fn equal_seeds_give_equal_traces() {
    for seed in 0..20 {
        assert_eq!(run(seed, Planted::None).unwrap(), run(seed, Planted::None).unwrap());
    }
    assert_ne!(run(1, Planted::None).unwrap().trace, run(2, Planted::None).unwrap().trace);
}

fn convict(planted: Planted) {
    match (Seeds { first: 0, count: 500 }).run(&|seed| run(seed, planted)) {
        Err(found) => println!("{planted:?}: {}", found.error),
        Ok(_) => panic!("{planted:?} was not found within 500 seeds"),
    }
}

#[test]
fn a_source_acknowledged_before_the_manifest_is_found() {
    convict(Planted::Epochs(PlantedBug::AckBeforeManifest));
}

#[test]
fn a_sink_committed_before_the_manifest_is_found() {
    convict(Planted::Epochs(PlantedBug::CommitBeforeManifest));
}

#[test]
fn a_skipped_fence_is_found() {
    convict(Planted::Epochs(PlantedBug::FenceSkipped));
}

#[test]
fn a_mark_before_the_commit_is_found() {
    convict(Planted::Epochs(PlantedBug::MarkBeforeCommit));
}

#[test]
fn a_position_taken_after_the_next_batch_is_found() {
    convict(Planted::PositionRunsAhead);
}

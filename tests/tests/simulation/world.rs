//! One seed's world: its rows, its outside, and the job that each start runs.

use super::feed::{Dataset, Feed, Wave};
use super::rows::Row;
use super::shapes::{DISORDER, Outputs, Shape, WIDEST};
use super::sinks::{Letters, Owed, Tardy};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tidegate_api::testkit::Collector;
use tidegate_api::{OutputSink, Result, RunId, SplitId};
use tidegate_runtime::graph::{NodeKind, Routing};
use tidegate_runtime::simulate::{SimConfig, SimJob, SimRandom, SimReport, SimStart, simulate};
use tidegate_runtime::{Capacity, JobConfig, JobGraph, MemoryLimit, Planted};

/// Runs one seed and compares what the sinks show.
pub fn run(seed: u64, planted: Planted) -> Result<SimReport> {
    let mut random = SimRandom::new(seed ^ 0x000b_5eed);
    let mut world = World::new(seed, &mut random, planted);
    let mut config = SimConfig::new(seed);
    config.ends = world.ends;
    let report = simulate(config, &mut world).map_err(|error| error.context(format!("{:?}", world.shape)))?;
    world.judge().map_err(|error| error.context(format!("seed {seed}, {:?}", world.shape)))?;
    Ok(report)
}

struct World {
    seed: u64,
    shape: Shape,
    ends: u32,
    sleeps: bool,
    interval: Duration,
    keep_epochs: usize,
    inputs: BTreeMap<&'static str, Arc<Dataset>>,
    collectors: BTreeMap<&'static str, Collector>,
    letters: Letters,
    owed: Owed,
    planted: Planted,
}

impl World {
    fn new(seed: u64, random: &mut SimRandom, planted: Planted) -> Self {
        let shape = Shape::ALL[random.below(Shape::ALL.len() as u64) as usize];
        let ends = if random.one_in(4) { 2 + random.below(2) as u32 } else { 1 };
        let sleeps = shape.may_be_late() && random.one_in(2);
        let waves: Vec<(u32, Duration)> = (0..ends)
            .flat_map(|end| {
                // Splits that are found while others are read may be late, as those that fall asleep may.
                let waves = 1 + if shape.may_be_late() { random.below(2) } else { 0 };
                (0..waves).map(|_| (end, Duration::from_micros(random.below(30_000)))).collect::<Vec<_>>()
            })
            .collect();
        let budget = 20 + random.below(50);
        let mut inputs = BTreeMap::new();
        for name in shape.reads() {
            let splits = 1 + random.below(3);
            let rows = (budget / (splits * waves.len() as u64 * shape.reads().len() as u64)).max(2) as i64;
            // No two rows of the world are equal.
            let mut id = if *name == "a" { 0 } else { 10_000 };
            let wave = |(at, (after_ends, born)): (usize, &(u32, Duration))| {
                // What comes later is nowhere earlier, or it would be late.
                let base = at as i64 * (budget as i64 + 8) * 8;
                let split = (0..splits).map(|split| (SplitId::new(format!("{name}{at}.{split}")), rows_of(base, rows, &mut id, random)));
                Wave { after_ends: *after_ends, born: *born, splits: split.collect() }
            };
            let mut waves: Vec<Wave> = waves.iter().enumerate().map(wave).collect();
            if shape == Shape::AsOf {
                // Of two versions with one time, which of them holds is nobody's promise.
                let mut versions = BTreeSet::new();
                let splits = waves.iter_mut().flat_map(|wave| &mut wave.splits);
                splits.for_each(|(_, rows)| rows.retain(|row| versions.insert((row.key, row.time)) || *name == "a"));
            }
            let dataset = Dataset { waves, sleeps, forgets: random.one_in(2), forgotten: Default::default() };
            inputs.insert(*name, Arc::new(dataset));
        }
        let owed = Owed::default();
        World {
            seed,
            shape,
            ends,
            sleeps,
            interval: Duration::from_micros(500 + random.below(20_000)),
            keep_epochs: 1 + random.below(3) as usize,
            inputs,
            collectors: shape.writes().iter().map(|name| (*name, Collector::new())).collect(),
            letters: Letters::new(&owed, random.draw()),
            owed,
            planted,
        }
    }

    fn graph(&self, start: &mut SimStart<'_>) -> JobGraph {
        let mut graph = self.shape.graph().clone();
        let stages = 1 + start.random.below(WIDEST as u64) as usize;
        for node in &mut graph.nodes {
            let widest = node.parallelism.min(3) as u64;
            node.parallelism = 1 + start.random.below(widest) as usize;
            match &mut node.kind {
                NodeKind::Source(source) => {
                    let dataset = Arc::clone(&self.inputs[source.dataset.as_str()]);
                    let seed = start.random.draw();
                    source.source = Arc::new(Feed { dataset, ended: start.ended, clock: Arc::clone(&start.clock), seed });
                    if let Some(time) = &mut source.time {
                        time.idle_timeout = self.sleeps.then_some(Duration::from_millis(5));
                    }
                }
                NodeKind::Operator(_) if widest > 1 => node.parallelism = stages,
                NodeKind::Operator(_) => {}
                NodeKind::Sink(sink) if sink.dataset == "copy" => sink.sink = Arc::new(self.letters.clone()),
                NodeKind::Sink(sink) => {
                    let inner: Arc<dyn OutputSink> = self.collectors[sink.dataset.as_str()].sink();
                    sink.sink = if start.random.one_in(2) { inner } else { Arc::new(Tardy::new(inner, &self.owed, start.random.draw())) };
                }
            }
        }
        let tasks: BTreeMap<String, usize> = graph.nodes.iter().map(|node| (node.id.clone(), node.parallelism)).collect();
        for edge in &mut graph.edges {
            // The planner routes for the tasks that it deals out.
            if edge.routing == Routing::Forward || edge.routing == Routing::RoundRobin {
                edge.routing = if tasks[&edge.from] == tasks[&edge.to] { Routing::Forward } else { Routing::RoundRobin };
            }
        }
        graph
    }

    fn judge(&self) -> Result<()> {
        let rows = |name: &str| self.inputs.get(name).map(|dataset| dataset.rows()).unwrap_or_default();
        let splits: Vec<Vec<Row>> =
            self.inputs["a"].waves.iter().flat_map(|wave| wave.splits.iter().map(|(_, rows)| rows.clone())).collect();
        let of = |name: &str| if name == "copy" { self.letters.delivered() } else { self.collectors[name].visible() };
        self.shape.judge(&rows("a"), &rows("b"), &splits, &Outputs { of: &of })
    }
}

/// In memory where there is such a folder: thousands of files come and go.
fn spill_folder() -> PathBuf {
    let shared = Path::new("/dev/shm");
    if shared.is_dir() { shared.to_path_buf() } else { std::env::temp_dir() }
}

/// The rows of one split, of which none lags further behind than it may.
fn rows_of(base: i64, rows: i64, id: &mut i64, random: &mut SimRandom) -> Vec<Row> {
    let row = |at: i64| {
        *id += 1;
        let lag = random.below(DISORDER as u64 + 1) as i64;
        Row { id: *id, time: base + DISORDER + at * 8 - lag, key: random.below(5) as i64, value: random.below(40) as i64 }
    };
    (0..rows).map(row).collect()
}

impl SimJob for World {
    fn start(&mut self, mut start: SimStart<'_>) -> (JobGraph, JobConfig) {
        let graph = self.graph(&mut start);
        let mut config = JobConfig::new("simulated", RunId::new(format!("run-{}-{}", self.seed, start.number)), "");
        let random = start.random;
        config.batch_rows = if random.one_in(3) { 64 } else { 1 + random.below(9) as usize };
        config.edge = Capacity { rows: 4 + random.below(40) as usize, bytes: 1 << 20 };
        config.cores = random.one_in(2).then_some(2);
        config.checkpoint_every = self.interval;
        config.keep_epochs = self.keep_epochs;
        if start.ended + 1 < self.ends {
            config.at_end = tidegate::epochs::AtEnd::Suspend;
        }
        // Some starts have hardly any memory for state, whatever those before and after them have.
        if random.one_in(8) {
            config.memory = Some(MemoryLimit { bytes: 4096, spill: Some(spill_folder()) });
        }
        config.planted = self.planted;
        (graph, config)
    }

    fn outside(&mut self, random: &mut SimRandom) {
        self.owed.answer(random);
    }
}

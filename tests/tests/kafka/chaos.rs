//! Flights through hourly windows, while the pipeline and the broker die and freeze.

use crate::broker::Mortal;
use crate::cluster::{Cluster, Feed};
use crate::pipeline::{Pipeline, as_json, closing};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;
use tidegate_tests::flights::Flights;
use tidegate_tests::process::{Run, pause};

const PARTITIONS: i32 = 4;

/// How many rows of the share of one fault are written at once, and how long it takes to write the share.
const PIECES: usize = 40;
const SHARE: Duration = Duration::from_millis(2500);

/// What is done to pipeline and broker; each ends with the death of the process.
#[derive(Debug, Clone, Copy)]
enum Fault {
    /// SIGKILL at any moment.
    Kill,
    /// SIGKILL at a point of the protocol.
    KillAt(&'static str),
    /// The broker is killed and started again under the pipeline.
    BrokerKilled,
    /// Both are killed, the broker first.
    BothKilled,
    /// The broker is frozen for a while under the pipeline.
    BrokerFrozen,
    /// The pipeline is killed while the broker is frozen, and started again before it is thawed.
    KilledBesideFrozenBroker,
    /// The pipeline is frozen, another start takes over, it is thawed.
    Zombie,
}

/// In this order, again and again; a short run meets the first six.
const FAULTS: [Fault; 12] = [
    Fault::Kill,
    Fault::BrokerKilled,
    Fault::KillAt("mid-commit"),
    Fault::BrokerFrozen,
    Fault::Zombie,
    Fault::BothKilled,
    Fault::KillAt("after-manifest"),
    Fault::KilledBesideFrozenBroker,
    Fault::KillAt("before-mark"),
    Fault::Kill,
    Fault::KillAt("mid-recommit"),
    Fault::KillAt("prepare"),
];

/// Numbers of tasks, in turn.
const TASKS: [usize; 4] = [2, 4, 1, 3];

#[test]
#[ignore = "needs a Kafka broker of its own: `cargo xtask test`, or `cargo xtask chaos`"]
fn kafka_mortal_disturbed_again_and_again_every_window_comes_once() {
    let kills = std::env::var("TIDEGATE_CHAOS_KILLS").map_or(6, |kills| kills.parse().unwrap());
    let flights = Flights::largest();
    let rows = as_json(&flights.text);
    let mut broker = Mortal::start();
    let cluster = Cluster::new(&broker.endpoint);
    let pipeline = Pipeline::hourly(&cluster, PARTITIONS);
    eprintln!("{} flights, {} windows, {kills} deaths", rows.len(), flights.hourly.len());

    let (share, feeder) = Feeder::start(cluster.feed(&pipeline.input), rows, kills + 1);
    let mut disturbed = Disturbed { pipeline: &pipeline, broker: &mut broker, starts: 0, random: kills as u64 };
    let mut done: BTreeMap<String, usize> = BTreeMap::new();
    for death in 0..kills {
        share.fetch_add(1, Ordering::SeqCst);
        let what = disturbed.suffer(FAULTS[death % FAULTS.len()]);
        eprintln!("{}: {what}", death + 1);
        *done.entry(what).or_default() += 1;
    }
    share.fetch_add(1, Ordering::SeqCst);
    feeder.join().unwrap();
    let mut last = disturbed.start(&[]);
    pipeline.wait_for_rows(&cluster, flights.hourly.len(), &mut last);
    last.stop();
    pipeline.check_hourly(&cluster, &flights.hourly);
    for (what, times) in &done {
        eprintln!("{times:>4} {what}");
    }
    assert_eq!(done.values().sum::<usize>(), kills);
    if kills >= FAULTS.len() {
        assert!(done.contains_key("SIGKILL at mid-commit") && done.contains_key("SIGKILL at mid-recommit"), "{done:?}");
    }
}

/// Writes rows into a topic beside the test, a share of them for each fault.
struct Feeder;

impl Feeder {
    /// Starts it; the number answered is how many shares may be written.
    #[allow(clippy::disallowed_methods, reason = "rows come beside the test")]
    fn start(mut feed: Feed, rows: Vec<String>, shares: usize) -> (Arc<AtomicUsize>, JoinHandle<()>) {
        let allowed = Arc::new(AtomicUsize::new(0));
        let shared = Arc::clone(&allowed);
        let written = std::thread::spawn(move || {
            let piece = rows.len().div_ceil(shares * PIECES);
            for (number, row) in rows.iter().enumerate() {
                if number % piece == 0 {
                    while number / (piece * PIECES) >= allowed.load(Ordering::SeqCst) {
                        pause(Duration::from_millis(5));
                    }
                    pause(SHARE / PIECES as u32);
                }
                feed.send((number % PARTITIONS as usize) as i32, row);
            }
            (0..PARTITIONS).for_each(|partition| feed.send(partition, closing()));
            feed.finish();
        });
        (shared, written)
    }
}

struct Disturbed<'t> {
    pipeline: &'t Pipeline,
    broker: &'t mut Mortal,
    starts: usize,
    random: u64,
}

impl Disturbed<'_> {
    fn draw(&mut self, limit: u64) -> u64 {
        self.random = self.random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.random >> 33) % limit
    }

    /// A start, with another number of tasks than the one before.
    fn start(&mut self, arguments: &[&str]) -> Run {
        self.starts += 1;
        self.pipeline.start(TASKS[self.starts % TASKS.len()], arguments)
    }

    /// A run at any moment of an epoch.
    fn somewhere(&mut self) -> Run {
        let mut run = self.start(&[]);
        self.pipeline.wait_for_epochs(&mut run);
        pause(Duration::from_millis(self.draw(400)));
        run
    }

    /// One fault; what it came to.
    fn suffer(&mut self, fault: Fault) -> String {
        match fault {
            Fault::Kill => {
                self.somewhere().kill();
                "SIGKILL at any moment".to_string()
            }
            Fault::KillAt(point) => self.kill_at(point),
            Fault::BrokerKilled => {
                let mut run = self.somewhere();
                self.broker.kill();
                pause(Duration::from_millis(self.draw(1500)));
                self.broker.restart();
                self.pipeline.wait_for_epochs(&mut run);
                run.kill();
                "broker killed, went on, SIGKILL".to_string()
            }
            Fault::BothKilled => {
                let run = self.somewhere();
                self.broker.kill();
                pause(Duration::from_millis(self.draw(100)));
                run.kill();
                self.broker.restart();
                "broker and pipeline killed".to_string()
            }
            Fault::BrokerFrozen => {
                let mut run = self.somewhere();
                self.broker.freeze();
                pause(Duration::from_millis(1000 + self.draw(4000)));
                self.broker.thaw();
                self.pipeline.wait_for_epochs(&mut run);
                run.kill();
                "broker frozen, went on, SIGKILL".to_string()
            }
            Fault::KilledBesideFrozenBroker => {
                let run = self.somewhere();
                self.broker.freeze();
                pause(Duration::from_millis(self.draw(500)));
                run.kill();
                let mut next = self.start(&[]);
                pause(Duration::from_millis(1000 + self.draw(2000)));
                self.broker.thaw();
                self.pipeline.wait_for_epochs(&mut next);
                next.kill();
                "SIGKILL beside a frozen broker, started before it was thawed".to_string()
            }
            Fault::Zombie => {
                let run = self.somewhere();
                run.freeze();
                let mut second = self.start(&[]);
                self.pipeline.wait_for_epochs(&mut second);
                run.thaw();
                let (status, said) = run.end();
                assert_eq!(status.code(), Some(75), "thawed after another start took over: {status}\n{said}");
                self.pipeline.wait_for_epochs(&mut second);
                second.kill();
                "SIGSTOP, taken over, thawed: fenced; SIGKILL".to_string()
            }
        }
    }

    fn kill_at(&mut self, point: &str) -> String {
        if point == "mid-recommit" {
            // In the middle of a commit there are rows, and no mark: the next start commits them again.
            let before = self.kill_at("mid-commit");
            if !before.ends_with("mid-commit") {
                return before;
            }
        }
        let passing = if point == "mid-recommit" { 1 } else { 1 + self.draw(3) };
        let mut run = self.start(&[&format!("--pause-at={point}:{passing}")]);
        // Points of a commit are passed only if there are rows to commit, which time decides.
        let came = run.wait_for_within("paused at", Duration::from_secs(20)).is_ok();
        run.kill();
        if came { format!("SIGKILL at {point}") } else { format!("SIGKILL before {point} came") }
    }
}

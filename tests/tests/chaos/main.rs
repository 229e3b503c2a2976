//! Killed, frozen, out of disk: a pipeline writes the same rows as one that was left alone, and says in words what went wrong.
//!
//! Five pipelines (three kinds of transactional sinks, the flights example, a window, a join and a rank of Nexmark) take the faults of one deck:
//! SIGKILL and SIGSTOP at every named point of the protocol and at any moment, disks that are full or read-only. A process that was frozen finds,
//! once it is thawed, that another start has taken over, and ends as fenced having changed nothing. A sixth keeps its epochs on an S3 server,
//! which is killed and started again. `TIDEGATE_CHAOS_KILLS` sets how many; `cargo xtask chaos` runs it at length.

#![allow(clippy::unwrap_used, clippy::print_stderr, reason = "a test may end by panicking, and a long one says how far it is")]

mod both_ends;
mod deck;
mod mounts;
mod server;
mod world;

use deck::{Deck, Disk, Fault, Lasting, OF_THE_DISK, OF_THE_STORE};
use server::Server;
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::time::Duration;
use tidegate_tests::process::{Run, pause, wait_until};
use world::{Pipeline, Settings, World, of_a_server, pipelines};

/// How long an input lasts for every fault, so that each leaves work for the next start.
const SECONDS_PER_FAULT: f64 = 0.8;

#[test]
fn disturbed_again_and_again_it_writes_the_same_rows() {
    if let Some(output) = mounts::again_in_private("disturbed_again_and_again_it_writes_the_same_rows") {
        let (said, errors) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        assert!(output.status.success(), "{said}\n{errors}");
        println!("{errors}");
        return;
    }
    let kills = kills(30);
    let pipelines = pipelines();
    let mut deck = Deck::default();
    let mut done: BTreeMap<String, usize> = BTreeMap::new();
    for (number, pipeline) in pipelines.iter().enumerate() {
        let share = kills / pipelines.len() + usize::from(number < kills % pipelines.len());
        let faults = deck.deal(share, if mounts::are_possible() { &OF_THE_DISK } else { &[] });
        for what in disturb(pipeline, &faults, None) {
            *done.entry(what).or_default() += 1;
        }
    }
    for (what, times) in &done {
        eprintln!("{times:>4} {what}");
    }
    let kills_done: usize = done.iter().filter(|(what, _)| what.starts_with("SIG")).map(|(_, times)| times).sum();
    assert_eq!(kills_done, kills);
    assert!(done.keys().any(|what| what.starts_with("SIGSTOP")), "{done:#?}");
    if kills >= 200 {
        for point in deck::POINTS {
            assert!(done.contains_key(&format!("SIGKILL at {point}")), "{point} was never hit: {done:#?}");
        }
    }
}

fn kills(usual: usize) -> usize {
    std::env::var("TIDEGATE_CHAOS_KILLS").map_or(usual, |kills| kills.parse().unwrap())
}

#[test]
#[ignore = "needs an S3 server of its own: `cargo xtask chaos`, or `cargo xtask test`"]
fn s3_mortal_killed_with_the_store_it_writes_the_same_rows() {
    // A sixth of the kills, as many as each of the other pipelines has, and at least so many that every fault of the store has its turn.
    let faults = Deck::default().deal((kills(30) / 6).max(18), &OF_THE_STORE);
    let mut server = Server::start();
    let done = disturb(&of_a_server(), &faults, Some(&mut server));
    for what in &done {
        eprintln!("     {what}");
    }
    for wanted in ["store killed for good", "store killed for a moment", "store and pipeline killed", "SIGKILL at", "SIGSTOP at"] {
        assert!(done.iter().any(|what| what.starts_with(wanted)), "`{wanted}` was never done: {done:#?}");
    }
}

/// Runs a pipeline through faults to its end; what was done to it, in words.
fn disturb(pipeline: &Pipeline, faults: &[Fault], server: Option<&mut Server>) -> Vec<String> {
    disturb_with(pipeline, faults, server).0
}

/// The same, and what is left.
fn disturb_with<'p>(pipeline: &'p Pipeline, faults: &[Fault], mut server: Option<&mut Server>) -> (Vec<String>, World<'p>) {
    let calm = World::new(pipeline, None);
    calm.start(&[], true).succeed();
    let expected = calm.rows();
    let total: usize = expected.values().map(Vec::len).sum();
    eprintln!("{}: {total} rows undisturbed, {} faults", pipeline.name, faults.len());
    assert!(total > 100 && expected.values().all(|rows| !rows.is_empty()), "the pipeline writes something");

    let lasts = 5.0 + SECONDS_PER_FAULT * faults.len() as f64;
    let world = match &server {
        None => World::new(pipeline, Some(lasts)),
        Some(server) => World::with_epochs_at(pipeline, lasts, &server.endpoint),
    };
    let mut disturbed = Disturbed { world: &world, seen: BTreeMap::new(), random: faults.len() as u64 };
    let mut done = Vec::new();
    for fault in faults {
        let what = disturbed.suffer(*fault, server.as_deref_mut());
        eprintln!("{}: {what}, newest manifest {:?}", pipeline.name, world.newest_manifest());
        disturbed.seen = world.check_visible(&disturbed.seen);
        done.push(what);
    }
    world.start(&[], true).succeed();
    world.check_visible(&disturbed.seen);
    let found = world.rows();
    assert!(found.keys().eq(expected.keys()), "{}: {:?} and not {:?}", pipeline.name, found.keys(), expected.keys());
    for (output, expected) in &expected {
        assert_eq!(found[output].len(), expected.len(), "{}: rows of `{output}`", pipeline.name);
        assert!(found[output] == *expected, "{}: `{output}` differs", pipeline.name);
    }
    // Another start has nothing to do, and says so.
    assert!(world.start(&[], true).succeed().contains("already complete at epoch"));
    (done, world)
}

struct Disturbed<'w> {
    world: &'w World<'w>,
    /// What readers have seen so far.
    seen: BTreeMap<PathBuf, Vec<u8>>,
    random: u64,
}

impl Disturbed<'_> {
    fn draw(&mut self, limit: u64) -> u64 {
        self.random = self.random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.random >> 33) % limit
    }

    /// One fault; what it came to.
    fn suffer(&mut self, fault: Fault, server: Option<&mut Server>) -> String {
        match fault {
            Fault::StoreKilled(lasting) => self.kill_store(server.unwrap(), lasting),
            Fault::StoreAndPipelineKilled => {
                let (server, run) = (server.unwrap(), self.somewhere());
                server.kill();
                pause(Duration::from_millis(self.draw(60)));
                run.kill();
                server.restart();
                "store and pipeline killed".to_string()
            }
            Fault::Kill(point) => self.kill(point),
            Fault::KillAnywhere => {
                let run = self.somewhere();
                run.kill();
                "SIGKILL at any moment".to_string()
            }
            Fault::Freeze(point) => {
                self.prime(point);
                let mut run = self.world.start(&[&format!("--freeze-at={}", self.passing(point))], false);
                run.wait_for("paused at").unwrap_or_else(|said| panic!("{point}: {said}"));
                run.wait_until_frozen();
                self.take_over_from(run, point)
            }
            Fault::FreezeAnywhere => {
                let run = self.somewhere();
                run.freeze();
                self.take_over_from(run, "any moment")
            }
            Fault::Full(disk, lasting) => self.fill(disk, lasting),
            Fault::ReadOnly(disk) => self.make_read_only(disk),
        }
    }

    /// What a point of recovery needs: epochs to recover from, or rows to commit again.
    fn prime(&mut self, point: &str) {
        let needed = match point {
            // In the middle of a commit there are rows, and no mark; an epoch without rows leaves nothing to commit.
            "mid-recommit" => "mid-commit",
            "mid-recover" | "after-opening" if self.world.newest_manifest().is_none() => "after-manifest",
            _ => return,
        };
        let mut run = self.world.start(&[&format!("--pause-at={needed}:1")], false);
        run.wait_for("paused at").unwrap_or_else(|said| panic!("{needed}: {said}"));
        run.kill();
    }

    fn passing(&mut self, point: &str) -> String {
        let passing = match point {
            "before-opening" | "after-opening" | "mid-recommit" | "mid-recover" | "after-recover" | "opened" => 1,
            "before-pre-commit" | "after-pre-commit" => 1 + self.draw(4),
            // So that there are epochs to delete.
            "mid-prune" | "after-prune" => 4,
            _ => 1 + self.draw(2),
        };
        format!("{point}:{passing}")
    }

    fn kill(&mut self, point: &str) -> String {
        self.prime(point);
        let mut run = self.world.start(&[&format!("--pause-at={}", self.passing(point))], false);
        run.wait_for("paused at").unwrap_or_else(|said| panic!("{point}: {said}"));
        run.kill();
        format!("SIGKILL at {point}")
    }

    /// A run that has published at least one manifest, at any moment of the epoch that follows.
    fn somewhere(&mut self) -> Run {
        let mut run = self.world.start(&[], false);
        self.wait_for_manifest(&mut run);
        pause(Duration::from_millis(self.draw(100)));
        run
    }

    fn wait_for_manifest(&self, run: &mut Run) {
        // The one that opens its generation is the first, and one of its own the second.
        let before = self.world.newest_manifest();
        let enough = before.map_or(2, |epoch| epoch + 2);
        wait_until(|| self.world.newest_manifest() >= Some(enough) || run.has_ended(), "no new manifest");
        assert!(!run.has_ended(), "the input was too short for this many faults");
    }

    /// Another start takes over from a frozen one, which is thawed and must change nothing any more.
    fn take_over_from(&mut self, frozen: Run, at: &str) -> String {
        let before = self.world.everything();
        let mut second = self.world.start(&["--takeover", "--freeze-at=prepare:2"], false);
        second.wait_for("paused at").unwrap_or_else(|said| panic!("the second start, first frozen at {at}: {said}"));
        second.wait_until_frozen();
        let (visible, all) = (self.world.visible(), self.world.everything());
        let own: BTreeSet<&PathBuf> = all.keys().filter(|path| before.get(*path) != all.get(*path)).collect();

        frozen.thaw();
        let (status, said) = frozen.end();
        assert_eq!(status.code(), Some(75), "frozen at {at}, thawed after another start took over: {status}\n{said}");
        let told = ["later start of this pipeline", "has taken this pipeline over"].iter().any(|words| said.contains(words));
        assert!(said.contains("failed:") && told, "frozen at {at}: {said}");

        let (now_visible, now) = (self.world.visible(), self.world.everything());
        assert!(
            visible.keys().eq(now_visible.keys()) && visible == now_visible,
            "frozen at {at}: it has published or taken back after its fence"
        );
        for path in own {
            assert!(all.get(path) == now.get(path), "frozen at {at}: it has changed `{}`, which is another start's", path.display());
        }
        let manifests = |files: &BTreeMap<PathBuf, Vec<u8>>| -> BTreeSet<PathBuf> {
            let is = |path: &&PathBuf| path.components().any(|part| part.as_os_str() == "manifests");
            files.keys().filter(is).cloned().collect()
        };
        assert!(manifests(&now).is_subset(&manifests(&all)), "frozen at {at}: it has published a manifest after its fence");
        second.kill();
        format!("SIGSTOP at {at}, taken over, thawed: fenced")
    }

    fn fill(&mut self, disk: Disk, lasting: Lasting) -> String {
        let disks = self.world.disks.as_ref().unwrap();
        let (small, name) = match disk {
            Disk::State => (&disks.state, "epochs"),
            Disk::Out => (&disks.out, "outputs"),
        };
        let mut run = self.world.start(&[], false);
        self.wait_for_manifest(&mut run);
        small.fill();
        match lasting {
            Lasting::UntilItFails => {
                let (status, said) = run.end();
                small.relieve();
                assert_eq!(status.code(), Some(69), "no space for {name}: {status}\n{said}");
                assert!(said.contains("failed:") && said.contains("No space left on device"), "no space for {name}: {said}");
                format!("disk of {name} full: exit 69, in words")
            }
            Lasting::AMoment => {
                pause(Duration::from_millis(150));
                small.relieve();
                // It has gone on, by itself or by a restart within the process.
                self.wait_for_manifest(&mut run);
                run.kill();
                format!("disk of {name} full for a moment: went on")
            }
        }
    }

    fn kill_store(&mut self, server: &mut Server, lasting: Lasting) -> String {
        let mut run = self.somewhere();
        server.kill();
        match lasting {
            Lasting::UntilItFails => {
                let (status, said) = run.end();
                assert_eq!(status.code(), Some(69), "the store is gone: {status}\n{said}");
                assert!(said.contains("failed:") && said.contains("in bucket `tidegate`"), "the store is gone: {said}");
                // And so is every other start, in words, until it is there again.
                let (status, said) = self.world.start(&[], false).end();
                assert_eq!(status.code(), Some(69), "started without the store: {status}\n{said}");
                assert!(said.contains("in bucket `tidegate`"), "started without the store: {said}");
                server.restart();
                "store killed for good: exit 69, in words".to_string()
            }
            Lasting::AMoment => {
                run.wait_for("in bucket `tidegate`").unwrap_or_else(|said| panic!("the store is gone: {said}"));
                server.restart();
                // It has gone on, by itself or by a restart within the process.
                self.wait_for_manifest(&mut run);
                run.kill();
                "store killed for a moment: said so, went on".to_string()
            }
        }
    }

    fn make_read_only(&mut self, disk: Disk) -> String {
        let disks = self.world.disks.as_ref().unwrap();
        let (small, name) = match disk {
            Disk::State => (&disks.state, "epochs"),
            Disk::Out => (&disks.out, "outputs"),
        };
        let run = match disk {
            // Epochs are written at once and closed.
            Disk::State => {
                let mut run = self.world.start(&[], false);
                self.wait_for_manifest(&mut run);
                wait_until(|| small.try_make_read_only(), "the disk does not become read-only");
                run
            }
            // A part that is open prevents it, so nobody runs meanwhile.
            Disk::Out => {
                assert!(small.try_make_read_only());
                self.world.start(&[], false)
            }
        };
        let (status, said) = run.end();
        small.make_writable();
        assert!(matches!(status.code(), Some(69 | 78)), "{name} on a read-only disk: {status}\n{said}");
        assert!(said.to_lowercase().contains("read-only file system"), "{name} on a read-only disk: {said}");
        format!("disk of {name} read-only: exit {}, in words", status.code().unwrap())
    }
}

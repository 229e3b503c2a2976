use super::*;
use std::collections::BTreeMap;
use std::sync::Arc;
use tidegate_api::MakeBytes;

#[derive(Debug)]
struct Nothing;

impl MakeBytes for Nothing {
    fn estimate(&self) -> u64 {
        0
    }

    fn make(&self) -> Result<Vec<u8>> {
        Ok(Vec::new())
    }
}

/// Numbered records with a version each, and the pieces that hold them.
#[derive(Default)]
struct World {
    runs: Runs,
    versions: Vec<u64>,
    store: BTreeMap<PieceId, Vec<(u32, u64)>>,
    epoch: u64,
}

impl World {
    fn change(&mut self, numbers: impl IntoIterator<Item = u32>) {
        for number in numbers {
            self.versions.resize(self.versions.len().max(number as usize + 1), 0);
            self.versions[number as usize] += 1;
            self.runs.mark(number);
        }
    }

    /// How many pieces are kept, and the records that are written.
    fn snapshot(&mut self) -> (usize, Vec<u32>) {
        self.epoch += 1;
        let (mut pieces, mut written) = (Vec::new(), Vec::new());
        let made = |numbers: &[u32]| {
            written.push(numbers.to_vec());
            Ok(DeferredBytes(Arc::new(Nothing)))
        };
        self.runs.snapshot(self.versions.len(), VnodeRange::all(256), &mut pieces, made).unwrap();
        let mut ids = Vec::new();
        for numbers in &written {
            let id = PieceId(format!("{}/{}", self.epoch, ids.len()));
            self.store.insert(id.clone(), numbers.iter().map(|number| (*number, self.versions[*number as usize])).collect());
            ids.push(id);
        }
        // A snapshot is in the order of its pieces' runs, once they are sorted by their names; a test needs no more than their epochs.
        let kept: Vec<PieceId> = pieces
            .iter()
            .filter_map(|piece| match piece {
                StatePiece::Kept(id) => Some(id.clone()),
                _ => None,
            })
            .collect();
        self.check(kept.iter().chain(&ids));
        self.runs.named(&mut ids.into_iter());
        (kept.len(), written.concat())
    }

    /// The newest piece of every record holds what it is now.
    fn check<'a>(&self, pieces: impl Iterator<Item = &'a PieceId>) {
        let mut pieces: Vec<&PieceId> = pieces.collect();
        pieces.sort_by_key(|id| id.0.split('/').next().unwrap().parse::<u64>().unwrap());
        let mut found = vec![0; self.versions.len()];
        for id in pieces {
            for (number, version) in &self.store[id] {
                found[*number as usize] = *version;
            }
        }
        assert_eq!(found, self.versions);
    }

    fn restart(&mut self) {
        let ranges = self.runs.ranges.iter().filter_map(|range| range.piece.clone());
        let runs = self.runs.runs.iter().map(|run| (run.id.clone(), run.records));
        self.runs = Runs::resumed(ranges.chain(runs).collect::<Vec<_>>(), self.runs.next - 1);
    }
}

#[test]
fn a_small_snapshot_writes_what_has_changed_and_all_when_most_is_superseded() {
    let mut world = World::default();
    world.change(0..8);
    assert_eq!(world.snapshot().1.len(), 8);
    assert_eq!(world.snapshot(), (1, Vec::new()));
    world.change([3, 7]);
    assert_eq!(world.snapshot(), (1, vec![3, 7]));
    let mut kept = Vec::new();
    for _ in 0..20 {
        world.change(0..8);
        kept.push(world.snapshot().0);
    }
    let anew = kept.iter().position(|kept| *kept == 0).unwrap();
    assert_eq!(anew, SLACK / 8);
    world.runs.renumbered();
    assert_eq!(world.snapshot().1.len(), 8);
}

#[test]
fn many_records_are_never_written_all_at_once_again() {
    const LIVE: u32 = 100_000;
    let mut world = World::default();
    world.change(0..LIVE);
    assert_eq!(world.snapshot().1.len(), LIVE as usize);
    let mut written = 0;
    for epoch in 0..300u32 {
        world.change((0..LIVE / 100).map(|number| (number * 7919 + epoch * 104_729) % LIVE));
        let (kept, now) = world.snapshot();
        written += now.len();
        assert!(now.len() < LIVE as usize / 20, "{} records in epoch {epoch}", now.len());
        assert!(kept < RANGES + MANY, "{kept} pieces in epoch {epoch}");
        let held: usize = world.runs.runs.iter().map(|run| run.records).sum();
        assert!(held < LIVE as usize, "{held} records in runs in epoch {epoch}");
    }
    assert!(written < 300 * LIVE as usize / 30, "{written} records");
}

#[test]
fn small_changes_do_not_pile_pieces_up() {
    let mut world = World::default();
    world.change(0..10_000);
    world.snapshot();
    for epoch in 0..1000 {
        world.change([epoch % 7]);
        let (kept, written) = world.snapshot();
        assert!(kept <= RANGES + MANY && written.len() < 500, "{kept} pieces, {} records", written.len());
    }
}

#[test]
fn a_restart_after_every_snapshot_does_not_pile_pieces_up() {
    for live in [8, 10_000] {
        let mut world = World::default();
        world.change(0..live);
        world.snapshot();
        for epoch in 0..3000 {
            world.restart();
            world.change([epoch % 7]);
            assert!(world.snapshot().0 <= 8 * (RANGES + 1));
        }
    }
}

proptest::proptest! {
    #![proptest_config(proptest::prelude::ProptestConfig::with_cases(64))]

    #[test]
    fn the_newest_piece_of_every_record_holds_it(
        acts in proptest::collection::vec((0u32..400, 1u32..200, 0u32..3000, 0u8..12), 1..60),
    ) {
        let mut world = World::default();
        for (from, step, count, what) in acts {
            let top = world.versions.len() as u32 + from;
            world.change((0..count).map(|number| number * step % (top + 1)));
            match what {
                0 => world.restart(),
                1 => world.runs.renumbered(),
                _ => {}
            }
            // What was noted before a restart is lost with it, as is what had changed.
            if what == 0 {
                world.change(0..world.versions.len() as u32);
            }
            world.snapshot();
        }
    }
}

use super::*;
use crate::manifest::{OperatorEntry, PieceRef};
use crate::store::memory::MemoryStore;
use proptest::prelude::*;
use tidegate_api::{EventTime, Generation, PieceId, RunId, Signature, VnodeRange};

const RUN: RunNumber = RunNumber(1);

fn manifest(epoch: u64, opens_generation: bool, objects: &BTreeSet<u8>) -> Manifest {
    let piece = |object: &u8| PieceRef {
        id: PieceId(object.to_string()),
        name: String::new(),
        vnodes: VnodeRange::all(8),
        object: format!("objects/r/1/{object}"),
        offset: 0,
        length: 1,
        checksum: 0,
    };
    let entry = OperatorEntry { signature: Signature::new("count", 1), pieces: objects.iter().map(piece).collect() };
    Manifest {
        run: RUN,
        run_id: RunId::new("r"),
        generation: Generation(1),
        epoch: Epoch(epoch),
        owner: String::new(),
        written: EventTime(0),
        interval_ms: 0,
        opens_generation,
        now: EventTime(0),
        ended: None,
        vnodes: 8,
        hash_version: 1,
        sources: BTreeMap::new(),
        operators: BTreeMap::from([("count".to_string(), entry)]),
        sinks: BTreeMap::new(),
        plugins: BTreeMap::new(),
    }
}

proptest! {
    /// The oracle: after any history, exactly the objects of the last `keep` manifests are left, with their manifests and those that open generations.
    #[test]
    fn what_is_left_is_what_the_retained_manifests_name(
        history in prop::collection::vec((prop::collection::btree_set(any::<u8>(), 0..6), prop::bool::weighted(0.2), any::<bool>()), 1..30),
        keep in 1..4_usize,
    ) {
        let store = MemoryStore::new();
        let strangers = ["objects/other/1/1", "staging/out/1", "savepoints/1"];
        for stranger in strangers {
            store.put(stranger, b"").unwrap();
        }
        let mut pruner = Pruner::new(RUN, keep, []);
        let mut all = Vec::new();
        for (epoch, (objects, opens, prunes)) in history.iter().enumerate() {
            let manifest = manifest(epoch as u64, *opens || epoch == 0, objects);
            for object in manifest.objects() {
                store.put(object, b"x").unwrap();
            }
            crate::publish(&store, &manifest).unwrap();
            crate::mark_committed(&store, &manifest).unwrap();
            pruner.published(&manifest);
            all.push(manifest);
            if *prunes {
                pruner.prune(&store).unwrap();
            }
            for kept in all.iter().rev().take(keep) {
                for object in kept.objects() {
                    prop_assert!(store.get(object).unwrap().is_some(), "epoch {} lost `{object}`", kept.epoch);
                }
            }
        }
        pruner.prune(&store).unwrap();
        let retained: BTreeSet<String> = all.iter().rev().take(keep).flat_map(Manifest::objects).map(str::to_string).collect();
        let left: BTreeSet<String> = store.list("objects/r/").unwrap().into_iter().collect();
        prop_assert_eq!(left, retained);
        let border = all.len().saturating_sub(keep);
        for (index, manifest) in all.iter().enumerate() {
            let there = store.get(&keys::manifest(RUN, manifest.epoch, Copy::A)).unwrap().is_some();
            prop_assert_eq!(there, index >= border || manifest.opens_generation, "epoch {}", manifest.epoch);
        }
        for stranger in strangers {
            prop_assert!(store.get(stranger).unwrap().is_some());
        }
        prop_assert_eq!(pruner.expired().objects.len(), 0);
    }
}

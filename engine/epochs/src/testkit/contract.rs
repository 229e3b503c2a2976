use crate::store::{Created, EpochStore};
use std::sync::Barrier;

/// What every [`EpochStore`] must do. A store's test calls this with a way to make empty stores and nothing else.
///
/// # Panics
/// When the store breaks the contract.
pub fn store_contract<S: EpochStore>(make_store: impl Fn() -> S) {
    an_absent_object_is_none(&make_store());
    a_put_replaces_as_a_whole(&make_store());
    a_create_has_one_winner(&make_store());
    a_create_after_a_put_or_a_delete(&make_store());
    a_listing_is_sorted_and_of_a_folder(&make_store());
    a_delete_is_idempotent(&make_store());
    unsound_keys_are_refused(&make_store());
    bytes_come_back_as_they_were(&make_store());
    of_many_creators_one_wins(&make_store());
    a_reader_never_sees_half_a_put(&make_store());
}

fn an_absent_object_is_none(store: &dyn EpochStore) {
    assert_eq!(store.get("a/b").unwrap(), None);
    assert_eq!(store.list("").unwrap(), Vec::<String>::new());
    assert_eq!(store.list("a/").unwrap(), Vec::<String>::new());
}

fn a_put_replaces_as_a_whole(store: &dyn EpochStore) {
    store.put("a/b", b"longer than the next").unwrap();
    store.put("a/b", b"next").unwrap();
    assert_eq!(store.get("a/b").unwrap(), Some(b"next".to_vec()));
    assert_eq!(store.list("").unwrap(), ["a/b"]);
}

fn a_create_has_one_winner(store: &dyn EpochStore) {
    assert_eq!(store.create("a/b", b"1").unwrap(), Created::New);
    assert_eq!(store.create("a/b", b"2").unwrap(), Created::Exists(b"1".to_vec()));
    assert_eq!(store.create("a/b", b"1").unwrap(), Created::Exists(b"1".to_vec()));
    assert_eq!(store.get("a/b").unwrap(), Some(b"1".to_vec()));
}

fn a_create_after_a_put_or_a_delete(store: &dyn EpochStore) {
    store.put("a", b"1").unwrap();
    assert_eq!(store.create("a", b"2").unwrap(), Created::Exists(b"1".to_vec()));
    store.delete("a").unwrap();
    assert_eq!(store.create("a", b"2").unwrap(), Created::New);
}

fn a_listing_is_sorted_and_of_a_folder(store: &dyn EpochStore) {
    for key in ["b/2", "b/10", "a/1", "b/1/x", "bb/1", "c"] {
        store.put(key, b"").unwrap();
    }
    assert_eq!(store.list("").unwrap(), ["a/1", "b/1/x", "b/10", "b/2", "bb/1", "c"]);
    assert_eq!(store.list("b/").unwrap(), ["b/1/x", "b/10", "b/2"]);
    assert_eq!(store.list("b/1/").unwrap(), ["b/1/x"]);
    assert_eq!(store.list("absent/").unwrap(), Vec::<String>::new());
    assert!(store.list("b").is_err());
}

fn a_delete_is_idempotent(store: &dyn EpochStore) {
    store.put("a/b", b"1").unwrap();
    store.put("a/c", b"1").unwrap();
    store.delete("a/b").unwrap();
    store.delete("a/b").unwrap();
    store.delete("x/y/z").unwrap();
    assert_eq!(store.list("").unwrap(), ["a/c"]);
}

fn unsound_keys_are_refused(store: &dyn EpochStore) {
    let long = "x".repeat(crate::store::MAX_SEGMENT + 1);
    for key in ["", "/a", "a/", "a//b", "..", "a/../b", ".hidden", "a b", "a\\b", "ä", long.as_str()] {
        assert!(store.put(key, b"1").is_err(), "{key}");
        assert!(store.create(key, b"1").is_err(), "{key}");
        assert!(store.get(key).is_err(), "{key}");
        assert!(store.delete(key).is_err(), "{key}");
    }
    assert_eq!(store.list("").unwrap(), Vec::<String>::new());
    let longest = "x".repeat(crate::store::MAX_SEGMENT);
    store.put(&longest, b"1").unwrap();
    assert_eq!(store.get(&longest).unwrap(), Some(b"1".to_vec()));
}

fn bytes_come_back_as_they_were(store: &dyn EpochStore) {
    let every: Vec<u8> = (0..=255).cycle().take(1 << 20).collect();
    store.put("large", &every).unwrap();
    store.put("empty", b"").unwrap();
    assert_eq!(store.get("large").unwrap(), Some(every));
    assert_eq!(store.get("empty").unwrap(), Some(Vec::new()));
}

fn of_many_creators_one_wins(store: &dyn EpochStore) {
    const WRITERS: usize = 4;
    const RACES: usize = 25;
    let line = Barrier::new(WRITERS);
    let answers: Vec<Vec<(bool, String)>> = std::thread::scope(|scope| {
        let race = |writer: usize| {
            let line = &line;
            scope.spawn(move || {
                let name = format!("writer {writer}");
                let mut answers = Vec::new();
                for race in 0..RACES {
                    line.wait();
                    answers.push(match store.create(&format!("race/{race}"), name.as_bytes()).unwrap() {
                        Created::New => (true, name.clone()),
                        Created::Exists(other) => (false, String::from_utf8(other).unwrap()),
                    });
                }
                answers
            })
        };
        let writers: Vec<_> = (0..WRITERS).map(race).collect();
        writers.into_iter().map(|writer| writer.join().unwrap()).collect()
    });
    for race in 0..RACES {
        let winners = answers.iter().filter(|answers| answers[race].0).count();
        assert_eq!(winners, 1, "race {race}");
        assert!(answers.iter().all(|own| own[race].1 == answers[0][race].1), "race {race}");
    }
}

fn a_reader_never_sees_half_a_put(store: &dyn EpochStore) {
    store.put("a", &[0; 100_000]).unwrap();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for round in 1..=20_u8 {
                store.put("a", &vec![round; 100_000]).unwrap();
            }
        });
        loop {
            let seen = store.get("a").unwrap().unwrap();
            assert_eq!(seen.len(), 100_000);
            assert!(seen.iter().all(|byte| *byte == seen[0]));
            if seen[0] == 20 {
                break;
            }
        }
    });
}

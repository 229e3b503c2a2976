use super::*;
use crate::testkit::store_contract;
use std::process::Command;
use std::sync::atomic::AtomicUsize;

#[test]
fn the_directory_store_keeps_the_contract() {
    let world = tempfile::tempdir().unwrap();
    let count = AtomicUsize::new(0);
    store_contract(|| DirectoryStore::open(world.path().join(count.fetch_add(1, Ordering::SeqCst).to_string())).unwrap());
}

#[test]
fn another_store_on_the_same_directory_sees_everything() {
    let world = tempfile::tempdir().unwrap();
    let one = DirectoryStore::open(world.path()).unwrap();
    one.put("a/b/c", b"1").unwrap();
    assert_eq!(one.create("a/b/d", b"2").unwrap(), Created::New);
    let two = DirectoryStore::open(world.path()).unwrap();
    assert_eq!(two.list("").unwrap(), ["a/b/c", "a/b/d"]);
    assert_eq!(two.create("a/b/d", b"3").unwrap(), Created::Exists(b"2".to_vec()));
}

#[test]
fn leftovers_of_a_crash_are_not_listed_and_are_swept_unless_somebody_holds_them() {
    let world = tempfile::tempdir().unwrap();
    let store = DirectoryStore::open(world.path()).unwrap();
    let temporaries = world.path().join(TEMPORARY);
    fs::write(temporaries.join("999999-0"), b"half").unwrap();
    let (held, file) = store.write_temporary(b"whole").unwrap();
    assert_eq!(store.list("").unwrap(), Vec::<String>::new());
    DirectoryStore::open(world.path()).unwrap();
    let left: Vec<_> = fs::read_dir(&temporaries).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert_eq!(left, std::slice::from_ref(&held));
    drop(file);
    DirectoryStore::open(world.path()).unwrap();
    assert!(!held.exists());
}

#[test]
fn no_key_leaves_the_root_and_no_temporary_file_is_reachable() {
    let world = tempfile::tempdir().unwrap();
    fs::write(world.path().join("secret"), b"1").unwrap();
    let store = DirectoryStore::open(world.path().join("state")).unwrap();
    for key in ["../secret", "/etc/hostname", "a/../../secret", ".tmp/x", "", "a//b", "a/", "./a", "a\0b", "a b"] {
        assert!(store.get(key).is_err(), "{key}");
        assert!(store.put(key, b"2").is_err(), "{key}");
        assert!(store.create(key, b"2").is_err(), "{key}");
        assert!(store.delete(key).is_err(), "{key}");
    }
    assert_eq!(fs::read(world.path().join("secret")).unwrap(), b"1");
}

#[test]
fn deleting_the_last_object_of_a_folder_removes_the_folder_and_writing_brings_it_back() {
    let world = tempfile::tempdir().unwrap();
    let store = DirectoryStore::open(world.path()).unwrap();
    for _ in 0..3 {
        store.put("a/b/c", b"1").unwrap();
        store.delete("a/b/c").unwrap();
        assert!(!world.path().join("a").exists());
    }
}

#[test]
fn writers_and_deleters_of_one_folder_do_not_disturb_each_other() {
    let world = tempfile::tempdir().unwrap();
    std::thread::scope(|scope| {
        for task in 0..4 {
            let root = world.path();
            scope.spawn(move || {
                for round in 0..40 {
                    // Opening sweeps, while the others write.
                    let store = DirectoryStore::open(root).unwrap();
                    let key = format!("shared/{}/{task}", round % 2);
                    store.put(&key, key.as_bytes()).unwrap();
                    assert_eq!(store.get(&key).unwrap(), Some(key.clone().into_bytes()));
                    store.delete(&key).unwrap();
                }
            });
        }
    });
}

const RACE_ROOT: &str = "TIDEGATE_TEST_RACE_ROOT";
const RACE_NAME: &str = "TIDEGATE_TEST_RACE_NAME";
const RACES: usize = 60;

/// The body of the processes of the next test; does nothing when it runs as a test of its own.
#[test]
fn child_of_the_race() {
    let (Ok(root), Ok(name)) = (std::env::var(RACE_ROOT), std::env::var(RACE_NAME)) else {
        return;
    };
    let store = DirectoryStore::open(root).unwrap();
    let mut answers = String::new();
    for race in 0..RACES {
        let winner = match store.create(&format!("race/{race}"), name.as_bytes()).unwrap() {
            Created::New => name.clone(),
            Created::Exists(other) => String::from_utf8(other).unwrap(),
        };
        answers.push_str(&winner);
        answers.push('\n');
    }
    store.put(&format!("answers/{name}"), answers.as_bytes()).unwrap();
}

#[test]
fn of_two_processes_one_wins_each_create_and_both_know_which() {
    let world = tempfile::tempdir().unwrap();
    let start = |name: &str| {
        Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "store::directory::tests::child_of_the_race"])
            .env(RACE_ROOT, world.path())
            .env(RACE_NAME, name)
            .stdout(std::process::Stdio::null())
            .spawn()
            .unwrap()
    };
    let mut children = [start("one"), start("two")];
    for child in &mut children {
        assert!(child.wait().unwrap().success());
    }
    let store = DirectoryStore::open(world.path()).unwrap();
    let answers = |name: &str| String::from_utf8(store.get(&format!("answers/{name}")).unwrap().unwrap()).unwrap();
    assert_eq!(answers("one"), answers("two"));
    assert_eq!(answers("one").lines().count(), RACES);
    for (race, winner) in answers("one").lines().enumerate() {
        assert_eq!(store.get(&format!("race/{race}")).unwrap(), Some(winner.as_bytes().to_vec()));
    }
}

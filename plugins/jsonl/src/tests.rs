//! Every crash point of the protocol, with what a reader of the directory sees at each moment.

use crate::Jsonl;
use crate::names::STAGING;
use std::fs;
use std::path::Path;
use std::sync::Arc;
use tempfile::TempDir;
use tidegate_sdk::arrow::array::{ArrayRef, Int64Array, RecordBatch};
use tidegate_sdk::testing::{SinkHarness, Writer};
use tidegate_sdk::{Error, Outcome, Token};

fn rows(numbers: std::ops::Range<i64>) -> RecordBatch {
    RecordBatch::try_from_iter([("n", Arc::new(Int64Array::from_iter_values(numbers)) as ArrayRef)]).unwrap()
}

fn sink(dir: &Path) -> SinkHarness<Jsonl> {
    SinkHarness::new(&format!(r#"{{"dir": {:?}}}"#, dir.to_str().unwrap()), rows(0..0).schema())
}

/// What a reader of the directory sees: the numbers of all lines of all parts, sorted.
fn seen(dir: &Path) -> Vec<i64> {
    let mut numbers = Vec::new();
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_file() {
            assert!(path.extension().is_some_and(|ending| ending == "jsonl"), "`{}` is no part", path.display());
            for line in fs::read_to_string(path).unwrap().lines() {
                let value: serde_json::Value = serde_json::from_str(line).unwrap();
                numbers.push(value["n"].as_i64().unwrap());
            }
        }
    }
    numbers.sort_unstable();
    numbers
}

/// All files below the staging folder.
fn staged(dir: &Path) -> Vec<String> {
    fn walk(folder: &Path, files: &mut Vec<String>) {
        for entry in fs::read_dir(folder).into_iter().flatten() {
            let path = entry.unwrap().path();
            match path.is_dir() {
                true => walk(&path, files),
                false => files.push(path.file_name().unwrap().to_str().unwrap().to_owned()),
            }
        }
    }
    let mut files = Vec::new();
    walk(&dir.join(STAGING), &mut files);
    files.sort_unstable();
    files
}

fn epoch(writer: &mut Writer<Jsonl>, epoch: u64, numbers: std::ops::Range<i64>) -> Token {
    assert!(writer.write(&rows(numbers)).unwrap().bad.is_empty());
    writer.barrier(epoch).unwrap().unwrap()
}

#[test]
fn rows_appear_at_the_commit_and_not_before() {
    let dir = TempDir::new().unwrap();
    let sink = sink(dir.path());
    let mut writer = sink.open().unwrap();
    assert_eq!(staged(dir.path()), [""; 0], "opening touches nothing");
    writer.write(&rows(0..3)).unwrap();
    writer.write(&rows(3..5)).unwrap();
    assert_eq!(seen(dir.path()), [0_i64; 0]);
    let token = writer.barrier(1).unwrap().unwrap();
    assert_eq!(seen(dir.path()), [0_i64; 0]);
    // The next epoch begins before this one is committed.
    let next = epoch(&mut writer, 2, 5..6);
    assert_eq!(sink.commit(1, &[token]).unwrap(), [Outcome::Done]);
    assert_eq!(seen(dir.path()), [0, 1, 2, 3, 4]);
    assert_eq!(sink.commit(2, &[next]).unwrap(), [Outcome::Done]);
    assert_eq!(seen(dir.path()), [0, 1, 2, 3, 4, 5]);
}

#[test]
fn an_empty_epoch_has_no_token() {
    let dir = TempDir::new().unwrap();
    let mut writer = sink(dir.path()).open().unwrap();
    assert_eq!(writer.barrier(1).unwrap(), None);
    writer.write(&rows(0..0)).unwrap();
    assert_eq!(writer.barrier(2).unwrap(), None);
    epoch(&mut writer, 3, 0..1);
    assert_eq!(writer.barrier(4).unwrap(), None);
}

#[test]
fn a_commit_may_be_repeated_by_anybody() {
    let dir = TempDir::new().unwrap();
    let sink = sink(dir.path());
    let token = epoch(&mut sink.open().unwrap(), 1, 0..2);
    assert_eq!(sink.commit(1, std::slice::from_ref(&token)).unwrap(), [Outcome::Done]);
    let later = sink.at_generation(2);
    assert_eq!(later.commit(1, std::slice::from_ref(&token)).unwrap(), [Outcome::AlreadyDone]);
    let next = epoch(&mut later.open().unwrap(), 2, 2..3);
    later.commit(2, &[next]).unwrap();
    assert_eq!(later.commit(1, &[token]).unwrap(), [Outcome::AlreadyDone], "after later epochs too");
    assert_eq!(seen(dir.path()), [0, 1, 2]);
}

#[test]
fn two_commits_at_once_make_the_rows_appear_once() {
    let dir = TempDir::new().unwrap();
    let sink = sink(dir.path());
    for number in 0..40 {
        let token = epoch(&mut sink.open().unwrap(), number as u64, number..number + 1);
        let mut outcomes = std::thread::scope(|scope| {
            let commit = || sink.commit(number as u64, std::slice::from_ref(&token)).unwrap()[0];
            let (left, right) = (scope.spawn(commit), scope.spawn(commit));
            [left.join().unwrap(), right.join().unwrap()]
        });
        outcomes.sort_unstable();
        assert_eq!(outcomes, [Outcome::Done, Outcome::AlreadyDone]);
    }
    assert_eq!(seen(dir.path()), (0..40).collect::<Vec<_>>());
}

#[test]
fn what_is_gone_is_lost_and_what_a_reader_took_is_done() {
    let dir = TempDir::new().unwrap();
    let sink = sink(dir.path());
    let mut writer = sink.open().unwrap();
    let (taken, lost) = (epoch(&mut writer, 1, 0..1), epoch(&mut writer, 2, 1..2));
    sink.commit(1, std::slice::from_ref(&taken)).unwrap();
    for entry in fs::read_dir(dir.path()).unwrap() {
        let path = entry.unwrap().path();
        if path.is_file() {
            fs::remove_file(path).unwrap();
        }
    }
    assert_eq!(sink.commit(1, std::slice::from_ref(&taken)).unwrap(), [Outcome::AlreadyDone]);
    fs::remove_dir_all(dir.path().join(STAGING)).unwrap();
    assert_eq!(sink.commit(2, &[lost]).unwrap(), [Outcome::Lost]);
}

#[test]
fn a_file_that_lost_its_end_is_lost_and_stays_invisible() {
    let dir = TempDir::new().unwrap();
    let sink = sink(dir.path());
    let token = epoch(&mut sink.open().unwrap(), 1, 0..100);
    let file = dir.path().join(STAGING).join("run/operator").join(&staged(dir.path())[0]);
    fs::OpenOptions::new().write(true).open(file).unwrap().set_len(10).unwrap();
    assert_eq!(sink.commit(1, &[token]).unwrap(), [Outcome::Lost]);
    assert_eq!(seen(dir.path()), [0_i64; 0]);
}

#[test]
fn marks_do_not_pile_up() {
    let dir = TempDir::new().unwrap();
    let sink = sink(dir.path());
    let mut writer = sink.open().unwrap();
    for number in 1..20 {
        let token = epoch(&mut writer, number, 0..1);
        sink.commit(number, &[token]).unwrap();
    }
    assert_eq!(staged(dir.path()).len(), 1);
}

#[test]
fn recovery_undoes_older_generations_and_keeps_what_is_named() {
    let dir = TempDir::new().unwrap();
    let first = sink(dir.path());
    let mut writer = first.open().unwrap();
    let (kept, _unnamed) = (epoch(&mut writer, 5, 0..1), epoch(&mut writer, 6, 1..2));
    writer.write(&rows(2..3)).unwrap(); // a crash in the middle of epoch 7
    let second = first.at_generation(2);
    second.recover(std::slice::from_ref(&kept)).unwrap();
    second.recover(std::slice::from_ref(&kept)).unwrap();
    assert_eq!(staged(dir.path()), ["g1.e0000000005.t0.jsonl"]);
    assert_eq!(second.commit(5, &[kept]).unwrap(), [Outcome::Done]);
    // The rows come again, under the same epochs, in the new generation.
    let mut writer = second.open().unwrap();
    let again = epoch(&mut writer, 6, 1..3);
    second.recover(&[]).unwrap();
    assert_eq!(second.commit(6, &[again]).unwrap(), [Outcome::Done], "its own generation is not touched");
    assert_eq!(seen(dir.path()), [0, 1, 2]);
}

#[test]
fn a_fenced_writer_cannot_disturb_its_successor() {
    let dir = TempDir::new().unwrap();
    let old = sink(dir.path());
    let mut zombie = old.open().unwrap();
    zombie.write(&rows(0..1)).unwrap();
    let new = old.at_generation(2);
    new.recover(&[]).unwrap();
    let token = epoch(&mut new.open().unwrap(), 1, 0..1);
    zombie.write(&rows(1..2)).unwrap();
    assert!(matches!(zombie.barrier(1), Err(Error::Fatal(_))), "its file was undone");
    assert_eq!(new.commit(1, &[token]).unwrap(), [Outcome::Done]);
    assert_eq!(seen(dir.path()), [0]);
}

#[test]
fn another_sink_in_the_same_directory_is_not_touched() {
    let dir = TempDir::new().unwrap();
    let mine = sink(dir.path());
    let others = [mine.of("run", "other"), mine.of("other", "operator"), mine.of("run", "operat")];
    let tokens: Vec<Token> = others.iter().map(|other| epoch(&mut other.open().unwrap(), 1, 0..1)).collect();
    fs::create_dir_all(dir.path().join(STAGING).join("run/operator")).unwrap();
    fs::write(dir.path().join(STAGING).join("run/operator/notes.txt"), "a stranger's").unwrap();
    let before = staged(dir.path());
    mine.at_generation(9).recover(&[]).unwrap();
    assert_eq!(staged(dir.path()), before);
    for (other, token) in others.iter().zip(tokens) {
        assert_eq!(other.commit(1, &[token]).unwrap(), [Outcome::Done]);
    }
    assert_eq!(seen(dir.path()), [0, 0, 0], "equal epochs and tasks of different sinks have different names");
}

#[test]
fn abort_undoes_and_may_be_repeated() {
    let dir = TempDir::new().unwrap();
    let sink = sink(dir.path());
    let tasks = [sink.at_task(0, 2), sink.at_task(1, 2)];
    let tokens: Vec<Token> = tasks.iter().map(|task| epoch(&mut task.open().unwrap(), 1, 0..1)).collect();
    sink.abort(1, &tokens[..1]).unwrap();
    sink.abort(1, &tokens[..1]).unwrap();
    assert_eq!(sink.commit(1, &tokens).unwrap(), [Outcome::Lost, Outcome::Done]);
    sink.abort(1, &tokens).unwrap();
    assert_eq!(seen(dir.path()), [0], "what was committed stays");
}

#[test]
fn a_missing_directory_names_the_grant() {
    let dir = TempDir::new().unwrap();
    let error = sink(&dir.path().join("absent")).bind().err().unwrap();
    assert!(matches!(error, Error::Config(message) if message.contains("allow = { dirs = [\"HOST=")));
    assert!(sink(dir.path()).bind().is_ok());
}

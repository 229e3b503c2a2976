//! A test can crash between any two calls: it drops the writer and goes on in another generation.

use crate::Lines;
use std::fs;
use std::path::Path;
use std::sync::Arc;
use tempfile::TempDir;
use tidegate_sdk::arrow::array::{ArrayRef, RecordBatch, StringArray};
use tidegate_sdk::testing::SinkHarness;
use tidegate_sdk::{Error, Outcome, Token};

fn rows(lines: &[Option<&str>]) -> RecordBatch {
    let lines: ArrayRef = Arc::new(StringArray::from_iter(lines.iter().copied()));
    RecordBatch::try_from_iter_with_nullable([("line", lines, true)]).unwrap()
}

fn sink() -> (TempDir, SinkHarness<Lines>) {
    let folder = tempfile::tempdir().unwrap();
    let config = serde_json::json!({ "dir": folder.path(), "column": "line" }).to_string();
    (folder, SinkHarness::new(&config, rows(&[]).schema()))
}

/// Writes one line and stops before the commit.
fn prepared(sink: &SinkHarness<Lines>, line: &str, epoch: u64) -> Token {
    let mut writer = sink.open().unwrap();
    writer.write(&rows(&[Some(line)])).unwrap();
    writer.barrier(epoch).unwrap().unwrap()
}

/// What a reader of the directory sees.
fn visible(folder: &Path) -> Vec<String> {
    let files = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path());
    let texts = files
        .filter(|path| path.is_file())
        .map(|path| fs::read_to_string(path).unwrap());
    let mut lines: Vec<String> = texts
        .flat_map(|text| text.lines().map(str::to_owned).collect::<Vec<_>>())
        .collect();
    lines.sort();
    lines
}

#[test]
fn rows_are_visible_once_their_epoch_is_committed() {
    let (folder, sink) = sink();
    let mut writer = sink.open().unwrap();
    let written = writer
        .write(&rows(&[Some("one"), None, Some("two"), Some("a\nb")]))
        .unwrap();
    assert_eq!(
        written.bad.iter().map(|bad| bad.row).collect::<Vec<_>>(),
        [1, 3]
    );
    let token = writer.barrier(1).unwrap().unwrap();
    assert!(visible(folder.path()).is_empty());
    assert_eq!(sink.commit(1, &[token]).unwrap(), [Outcome::Done]);
    assert_eq!(visible(folder.path()), ["one", "two"]);
    assert_eq!(
        writer.barrier(2).unwrap(),
        None,
        "an empty epoch has no token"
    );
}

#[test]
fn a_commit_may_come_twice_and_from_anybody() {
    let (folder, sink) = sink();
    let tokens = [prepared(&sink, "one", 1)];
    let later = sink.at_generation(2);
    assert_eq!(later.commit(1, &tokens).unwrap(), [Outcome::Done]);
    assert_eq!(sink.commit(1, &tokens).unwrap(), [Outcome::AlreadyDone]);
    assert_eq!(visible(folder.path()), ["one"]);
}

#[test]
fn recovery_keeps_what_is_asked_for_and_removes_the_rest() {
    let (folder, sink) = sink();
    let kept = [prepared(&sink, "kept", 1)];
    let dropped = prepared(&sink, "dropped", 2);
    let another = prepared(&sink.of("another-run", "operator"), "another", 1);
    sink.open()
        .unwrap()
        .write(&rows(&[Some("never prepared")]))
        .unwrap();
    let later = sink.at_generation(2);
    later.recover(&kept).unwrap();
    later.recover(&kept).unwrap();
    assert_eq!(later.commit(1, &kept).unwrap(), [Outcome::Done]);
    assert_eq!(later.commit(2, &[dropped]).unwrap(), [Outcome::Lost]);
    assert_eq!(later.commit(1, &[another]).unwrap(), [Outcome::Done]);
    assert_eq!(visible(folder.path()), ["another", "kept"]);
}

#[test]
fn an_aborted_epoch_is_never_seen() {
    let (folder, sink) = sink();
    let tokens = [prepared(&sink, "one", 1)];
    sink.abort(1, &tokens).unwrap();
    sink.abort(1, &tokens).unwrap();
    assert!(visible(folder.path()).is_empty());
}

#[test]
fn two_tasks_and_two_epochs_do_not_meet() {
    let (folder, sink) = sink();
    let tokens = [
        prepared(&sink.at_task(0, 2), "a", 1),
        prepared(&sink.at_task(1, 2), "b", 1),
    ];
    let next = prepared(&sink.at_task(0, 2), "c", 2);
    sink.commit(2, &[next]).unwrap();
    sink.commit(1, &tokens).unwrap();
    assert_eq!(visible(folder.path()), ["a", "b", "c"]);
}

#[test]
fn a_foreign_token_and_a_wrong_column_are_refused() {
    let (_folder, sink) = sink();
    let escape = br#"{"version":1,"staged":"../x","part":"y"}"#.to_vec();
    for token in [b"{}".to_vec(), escape] {
        assert!(matches!(sink.commit(1, &[token]), Err(Error::Fatal(_))));
    }
    let config = r#"{"dir": "/", "column": "lines"}"#;
    let error = SinkHarness::<Lines>::new(config, rows(&[]).schema())
        .bind()
        .unwrap_err();
    assert!(
        error.to_string().contains("did you mean `line`?"),
        "{error}"
    );
}

//! The harness reads the source again from every position it gave.

use crate::Lines;
use std::fs;
use tempfile::TempDir;
use tidegate_sdk::arrow::array::cast::AsArray;
use tidegate_sdk::testing::SourceHarness;

fn folder(files: &[(&str, &[u8])]) -> (TempDir, String) {
    let folder = tempfile::tempdir().unwrap();
    for (name, bytes) in files {
        fs::write(folder.path().join(name), bytes).unwrap();
    }
    let config = serde_json::json!({ "dir": folder.path() }).to_string();
    (folder, config)
}

fn lines(config: &str, max_rows: u32) -> Vec<String> {
    let source = SourceHarness::<Lines>::bind(config, None).unwrap();
    let reads = source
        .read(source.splits().unwrap(), max_rows, usize::MAX)
        .unwrap();
    let columns = reads
        .values()
        .map(|read| read.rows.column(1).as_string::<i32>().clone());
    columns
        .flat_map(|column| {
            column
                .iter()
                .flatten()
                .map(str::to_owned)
                .collect::<Vec<_>>()
        })
        .collect()
}

#[test]
fn every_line_is_read_once_whatever_the_polls() {
    let (_folder, config) = folder(&[
        ("a.txt", b"one\r\ntwo\n\n"),
        ("b.txt", b"three"),
        (".hidden", b"x\n"),
        ("empty", b""),
    ]);
    for max_rows in [1, 2, 100] {
        assert_eq!(lines(&config, max_rows), ["one", "two", "", "three"]);
    }
}

#[test]
fn every_position_gives_the_rest() {
    let (_folder, config) = folder(&[("a.txt", b"one\ntwo\nthree\nfour"), ("b.txt", b"five\n")]);
    SourceHarness::<Lines>::bind(&config, None)
        .unwrap()
        .assert_replays(1)
        .unwrap();
}

#[test]
fn what_is_appended_later_is_not_read() {
    let (folder, config) = folder(&[("a.txt", b"one\n")]);
    let source = SourceHarness::<Lines>::bind(&config, None).unwrap();
    let splits = source.splits().unwrap();
    fs::write(folder.path().join("a.txt"), "one\ntwo\n").unwrap();
    assert_eq!(
        source.read(splits, 10, usize::MAX).unwrap()["a.txt"]
            .rows
            .num_rows(),
        1
    );
}

#[test]
fn a_bad_line_costs_itself() {
    let long = vec![b'x'; 3 << 20];
    let text = [b"one\n\xff\xfe\ntwo\n".as_slice(), &long, b"\nthree\n"].concat();
    let (_folder, config) = folder(&[("a.txt", &text)]);
    assert_eq!(lines(&config, 1), ["one", "two", "three"]);
    let source = SourceHarness::<Lines>::bind(&config, None).unwrap();
    let read = source
        .read(source.splits().unwrap(), 100, usize::MAX)
        .unwrap()
        .remove("a.txt")
        .unwrap();
    assert_eq!(
        read.bad.iter().map(|bad| bad.row).collect::<Vec<_>>(),
        [Some(1), Some(2)]
    );
    assert!(
        read.bad[1].message.contains("longer than 1048576 bytes"),
        "{}",
        read.bad[1].message
    );
}

#[test]
fn a_directory_that_is_not_granted_is_named() {
    let error = SourceHarness::<Lines>::bind(r#"{"dir": "/not/here"}"#, None)
        .err()
        .unwrap();
    assert!(
        error.to_string().contains("`dir` is `/not/here`"),
        "{error}"
    );
}

use crate::CsvDir;
use crate::directory::HEAD;
use crate::split::MAX_RECORD;
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use tempfile::TempDir;
use tidegate_sdk::arrow::array::types::{Int64Type, TimestampMillisecondType};
use tidegate_sdk::arrow::array::{RecordBatch, cast::AsArray};
use tidegate_sdk::testing::{Read, SourceHarness, logs, scope};
use tidegate_sdk::{Discovered, Error, Result, Source, Split, parse_config};

const COLUMNS: &str = r#"[{"name": "n", "type": "int64"}, {"name": "s", "type": "string"}]"#;

/// A directory with these files.
fn dir(files: &[(&str, &str)]) -> TempDir {
    let dir = tempfile::tempdir().unwrap();
    for (name, text) in files {
        fs::write(dir.path().join(name), text).unwrap();
    }
    dir
}

fn config(dir: &Path, columns: &str, more: &str) -> String {
    format!(r#"{{"dir": "{}", "columns": {columns}{more}}}"#, dir.display())
}

fn bind(dir: &TempDir, more: &str) -> SourceHarness<CsvDir> {
    SourceHarness::bind(&config(dir.path(), COLUMNS, more), None).unwrap()
}

fn read_all(source: &SourceHarness<CsvDir>, max_rows: u32) -> Result<BTreeMap<String, Read>> {
    source.read(source.splits()?, max_rows, usize::MAX)
}

/// The one file of a directory, read to its end.
fn read_one(text: &str) -> Read {
    let dir = dir(&[("a.csv", text)]);
    read_all(&bind(&dir, ""), 100).unwrap().remove("a.csv").unwrap()
}

fn rows(batch: &RecordBatch) -> Vec<(Option<i64>, Option<String>)> {
    let (n, s) = (batch.column(0).as_primitive::<Int64Type>(), batch.column(1).as_string::<i32>());
    n.iter().zip(s).map(|(n, s)| (n, s.map(str::to_owned))).collect()
}

fn row(n: i64, s: &str) -> (Option<i64>, Option<String>) {
    (Some(n), Some(s.to_owned()))
}

fn reasons(read: &Read) -> Vec<(Option<u64>, String)> {
    read.bad.iter().map(|bad| (bad.row, bad.message.clone())).collect()
}

#[test]
fn records_become_rows() {
    let read = read_one("\u{feff}s,x,n\r\n\"a, \"\"b\"\"\r\nc\",0,1\r\n\r\n,,\n\"\",0,-2\nü,0,3");
    assert_eq!(rows(&read.rows), [row(1, "a, \"b\"\r\nc"), (None, None), row(-2, ""), row(3, "ü")]);
    assert!(read.bad.is_empty() && read.finished);
    let dir = dir(&[("a.csv", "n;s\nNA;\"NA\"\n1;2,5\n")]);
    let read = read_all(&bind(&dir, r#", "delimiter": ";", "nulls": ["NA"]"#), 100).unwrap().remove("a.csv").unwrap();
    assert_eq!(rows(&read.rows), [(None, Some("NA".into())), row(1, "2,5")]);
}

#[test]
fn bad_records_say_where_and_why() {
    let read = read_one("n,s\n1,a\nx,b\n2,c\n3\n\"4\"5,d\n6,e\n");
    assert_eq!(rows(&read.rows), [row(1, "a"), row(2, "c"), row(6, "e")]);
    let expected = [
        (Some(1), "file `a.csv`, record 2: column `n` is `x`, which is no int64".to_owned()),
        (Some(2), "file `a.csv`, record 4: it has 1 fields, and the header has 2".to_owned()),
        (Some(2), "file `a.csv`, record 5: text follows the closing quote of a field".to_owned()),
    ];
    assert_eq!(reasons(&read), expected);
    let raw: Vec<_> = read.bad.iter().map(|bad| (bad.raw.as_slice(), bad.position.as_slice())).collect();
    assert_eq!(raw, [(&b"x,b"[..], &b"8:1"[..]), (b"3", b"16:3"), (b"\"4\"5,d", b"18:4")]);
}

#[test]
fn a_file_that_was_cut_off_loses_no_more_than_its_last_record() {
    let read = read_one("n,s\n1,a\n2,\"b\nc");
    assert_eq!(rows(&read.rows), [row(1, "a")]);
    let [quote, rest] = read.bad.as_slice() else { panic!("{:?}", read.bad) };
    assert!(quote.message.ends_with("a field begins with a quote that is never closed") && quote.raw == b"2,\"b", "{quote:?}");
    assert!(rest.message.ends_with("it has 1 fields, and the header has 2") && rest.raw == b"c", "{rest:?}");
}

#[test]
fn bytes_that_are_no_text_cost_their_record() {
    let dir = dir(&[]);
    fs::write(dir.path().join("a.csv"), b"n,s\n1,\xff\n2,b\n").unwrap();
    let read = read_all(&bind(&dir, ""), 100).unwrap().remove("a.csv").unwrap();
    assert_eq!(rows(&read.rows), [row(2, "b")]);
    assert_eq!(reasons(&read), [(Some(0), "file `a.csv`, record 1: column `s` is no UTF-8 text".into())]);
}

#[test]
fn a_record_that_is_too_long_costs_its_first_line() {
    let long = "x".repeat(MAX_RECORD);
    let text = format!("n,s\n1,{long}\n2,\"y\n3,z\n4,\"{long}\n5,{}\n", "w".repeat(MAX_RECORD - 3));
    let read = read_one(&text);
    let numbers: Vec<_> = rows(&read.rows).into_iter().map(|(n, _)| n.unwrap()).collect();
    assert_eq!(numbers, [3, 5], "the last one is as long as one may be");
    let messages: Vec<_> = read.bad.iter().map(|bad| bad.message.as_str()).collect();
    let why = "it is longer than 1048576 bytes, or a quote is never closed";
    let expected = [1, 2, 4].map(|record| format!("file `a.csv`, record {record}: {why}"));
    assert_eq!(messages[0], expected[0]);
    assert_eq!(messages.len(), 3, "{messages:?}");
    assert!(read.bad.iter().all(|bad| bad.raw.len() <= 4096));
}

/// Files with everything in them that makes positions hard.
fn hard(dir: &Path) {
    for file in 0..11 {
        let mut text = String::from(if file % 2 == 0 { "\u{feff}n,s\r\n" } else { "s,extra,n\n" });
        for row in 0..(file * 7) {
            let n = file * 1000 + row;
            text += &match (file % 2, row % 5) {
                (0, 1) => format!("{n},\"line\r\nbreak, \"\"{n}\"\"\"\r\n"),
                (0, 2) => format!("{n},\r\n\r\n"),
                (0, 3) => "bad\r\n".into(),
                (0, _) => format!("{n},plain\r\n"),
                (_, 1) => format!("\"two\n\nlines\",{n},{n}\n"),
                (_, 3) => format!("\"x\"y,,{n}\n"),
                (_, 4) if row == file * 7 - 1 => format!("open,\"end,{n}"),
                (_, _) => format!("ü,,{n}\n"),
            };
        }
        fs::write(dir.join(format!("{file:02}.csv")), text).unwrap();
    }
}

#[test]
fn every_position_gives_the_rest() {
    let dir = dir(&[]);
    hard(dir.path());
    for max_rows in [1, 4, 1000] {
        bind(&dir, "").assert_replays(max_rows).unwrap();
    }
}

#[test]
fn any_number_of_tasks_and_any_poll_gives_the_same() {
    let dir = dir(&[]);
    hard(dir.path());
    let source = bind(&dir, "");
    assert!(source.bounded());
    let splits = source.splits().unwrap();
    assert_eq!(splits.len(), 11, "more files than are open at once");
    let view = |read: &Read| (rows(&read.rows), reasons(read));
    let whole: BTreeMap<String, _> = read_all(&source, 1000).unwrap().iter().map(|(id, read)| (id.clone(), view(read))).collect();
    assert!(whole.values().map(|(rows, _)| rows.len()).sum::<usize>() > 200);
    assert!(whole.values().map(|(_, bad)| bad.len()).sum::<usize>() > 50);
    for tasks in [1, 2, 3, 11] {
        for max_rows in [1, 3, 50] {
            let mut all = BTreeMap::new();
            for task in 0..tasks {
                let mine = splits.iter().enumerate().filter(|(index, _)| index % tasks == task).map(|(_, split)| split.clone());
                let read = source.read(mine.collect(), max_rows, usize::MAX).unwrap();
                all.extend(read.iter().map(|(id, read)| (id.clone(), view(read))));
            }
            assert!(all == whole, "{tasks} tasks, polls of {max_rows}");
        }
    }
}

#[test]
fn no_file_starves() {
    let text = format!("n,s\n{}", "1,a\n".repeat(1000));
    let names: Vec<String> = (0..20).map(|file| format!("{file}.csv")).collect();
    let dir = dir(&names.iter().map(|name| (name.as_str(), text.as_str())).collect::<Vec<_>>());
    let source = bind(&dir, "");
    let reads = source.read(source.splits().unwrap(), 80, 4000).unwrap();
    for (split, read) in &reads {
        assert!((150..=250).contains(&read.rows.num_rows()), "{split} has {} rows", read.rows.num_rows());
    }
}

#[test]
fn a_file_is_read_as_it_was_when_it_was_found() {
    let dir = dir(&[("a.csv", "n,s\n1,a\n2,b\n")]);
    let path = dir.path().join("a.csv");
    let source = bind(&dir, "");
    let splits = source.splits().unwrap();
    fs::write(&path, "n,s\n1,a\n2,b\n3,c\n").unwrap();
    let read = source.read(splits.clone(), 100, usize::MAX).unwrap().remove("a.csv").unwrap();
    assert_eq!(rows(&read.rows), [row(1, "a"), row(2, "b")]);
    assert!(logs().iter().any(|(_, line)| line.contains("file `a.csv` grew")), "it is told");
    let refused = |why: &str| match source.read(splits.clone(), 100, usize::MAX) {
        Err(Error::Fatal(message)) => assert!(message.contains(why), "{message}"),
        other => panic!("{other:?}"),
    };
    fs::write(&path, "n,s\n1,a\n").unwrap();
    refused("shrank: it had 12 bytes when it was found, and has 8");
    fs::write(&path, "n,s\n9,a\n2,b\n").unwrap();
    refused("its beginning has changed");
    fs::remove_file(&path).unwrap();
    refused("is gone before it was read to its end");
}

#[test]
fn a_file_that_shrinks_while_it_is_read_is_no_end() {
    let text = format!("n,s\n{}", "1,a\n".repeat(100_000));
    let dir = dir(&[("a.csv", &text)]);
    let config = config(dir.path(), COLUMNS, "");
    let split = bind(&dir, "").splits().unwrap();
    let mut reader = CsvDir::open(parse_config(&config).unwrap(), &scope(&config), None).unwrap();
    reader.assign(split).unwrap();
    let request = tidegate_sdk::PollRequest { max_rows: 10, max_bytes: 1 << 20, deadline: std::time::Duration::ZERO };
    assert_eq!(reader.poll(request).unwrap().chunks[0].rows.num_rows(), 10);
    fs::File::options().write(true).open(dir.path().join("a.csv")).unwrap().set_len(HEAD * 20).unwrap();
    let error = loop {
        if let Err(error) = reader.poll(tidegate_sdk::PollRequest { max_rows: 8192, ..request }) {
            break error;
        }
    };
    assert!(matches!(&error, Error::Fatal(message) if message.contains("shrank")), "{error:?}");
}

fn discover(dir: &Path, more: &str, cursor: Option<&[u8]>) -> Result<Discovered> {
    let config = config(dir, COLUMNS, more);
    CsvDir::discover(&parse_config(&config)?, &scope(&config), cursor)
}

fn ids(found: &Discovered) -> Vec<&str> {
    found.added.iter().map(|split| split.id.as_str()).collect()
}

#[test]
fn files_that_come_later_are_found_when_they_are_watched_for() {
    const WATCH: &str = r#", "watch": true"#;
    let dir = dir(&[("b.csv", "n,s\n"), ("A.CSV", "n,s\n"), (".hidden.csv", ""), ("c.csv.part", ""), ("d.txt", "")]);
    fs::create_dir(dir.path().join("folder.csv")).unwrap();
    assert!(!bind(&dir, WATCH).bounded());
    let first = discover(dir.path(), WATCH, None).unwrap();
    assert_eq!(ids(&first), ["A.CSV", "b.csv"]);
    fs::rename(dir.path().join("c.csv.part"), dir.path().join("a.csv")).unwrap();
    let second = discover(dir.path(), WATCH, first.cursor.as_deref()).unwrap();
    assert_eq!(ids(&second), ["a.csv"], "also one whose name comes before others");
    let third = discover(dir.path(), WATCH, second.cursor.as_deref()).unwrap();
    assert!(ids(&third).is_empty());
    fs::remove_file(dir.path().join("b.csv")).unwrap();
    let fourth = discover(dir.path(), WATCH, third.cursor.as_deref()).unwrap();
    assert!(fourth.cursor.unwrap().len() < third.cursor.unwrap().len(), "what is gone is forgotten");
    let bounded = discover(dir.path(), "", first.cursor.as_deref()).unwrap();
    assert_eq!((bounded.added.len(), bounded.cursor), (0, None), "without `watch` the input is what was there at first");
    assert!(matches!(discover(dir.path(), WATCH, Some(b"{}")), Err(Error::Fatal(message)) if message.contains("none of this source's")));
}

#[test]
fn files_without_rows_are_ends_and_a_directory_without_files_is_told() {
    let dir = dir(&[("a.csv", ""), ("b.csv", "n,s"), ("c.csv", "\u{feff}n,s\r\n\r\n")]);
    for (split, read) in read_all(&bind(&dir, ""), 10).unwrap() {
        assert!(read.finished && read.rows.num_rows() == 0 && read.bad.is_empty(), "{split}");
    }
    let empty = tempfile::tempdir().unwrap();
    assert!(read_all(&bind(&empty, ""), 10).unwrap().is_empty());
    assert!(logs().iter().any(|(_, line)| line.contains("has no file `*.csv`")));
}

const TIMED: &str = r#"[{"name": "n", "type": "int64"}, {"name": "at", "type": "timestamp_ms"}]"#;

#[test]
fn the_watermark_is_the_latest_time_and_no_row_is_before_it() {
    let dir = dir(&[("a.csv", "n,at\n1,1970-01-01T00:00:02Z\n2,\n3,1000\n4,2000\n5,3000\n")]);
    let config = config(dir.path(), TIMED, r#", "timeColumn": "at""#);
    for wanted in [None, Some(&["n"][..])] {
        let source = SourceHarness::<CsvDir>::bind(&config, wanted).unwrap();
        for max_rows in [1, 100] {
            let read = read_all(&source, max_rows).unwrap().remove("a.csv").unwrap();
            let numbers: Vec<_> = read.rows.column(0).as_primitive::<Int64Type>().values().to_vec();
            assert_eq!((numbers, read.watermark_us), (vec![1, 2, 4, 5], Some(3_000_000)));
            assert!(read.bad[0].message.contains("record 3: its time is before that of a row above it"), "{:?}", read.bad);
            source.assert_replays(max_rows).unwrap();
        }
        assert_eq!(source.schema().fields().len(), wanted.map_or(2, <[_]>::len));
    }
    let source = SourceHarness::<CsvDir>::bind(&config, Some(&["at"])).unwrap();
    let read = read_all(&source, 100).unwrap().remove("a.csv").unwrap();
    let times: Vec<_> = read.rows.column(0).as_primitive::<TimestampMillisecondType>().iter().collect();
    assert_eq!(times, [Some(2000), None, Some(2000), Some(3000)]);
}

#[test]
fn a_column_that_nobody_reads_is_not_looked_at() {
    let dir = dir(&[("a.csv", "n,s\nx,a\n1,b\n")]);
    let config = config(dir.path(), COLUMNS, "");
    let read = |wanted: &[&str]| {
        let source = SourceHarness::<CsvDir>::bind(&config, Some(wanted)).unwrap();
        let read = read_all(&source, 10).unwrap().remove("a.csv").unwrap();
        (read.rows.num_rows(), read.rows.num_columns(), read.bad.len())
    };
    assert_eq!(read(&["s"]), (2, 1, 0));
    assert_eq!(read(&["n"]), (1, 1, 1));
    assert_eq!(read(&[]), (2, 0, 0));
}

#[test]
fn mistakes_are_named() {
    let dir = dir(&[]);
    let mistake =
        |columns: &str, more: &str| SourceHarness::<CsvDir>::bind(&config(dir.path(), columns, more), None).err().unwrap().to_string();
    assert_eq!(mistake("[]", ""), "`columns` is empty; name the columns to read");
    assert_eq!(mistake(COLUMNS, r#", "wacth": true"#), "unknown key `wacth`, did you mean `watch`?");
    assert_eq!(mistake(TIMED, r#", "timeColumn": "att""#), "`timeColumn` names `att`, which `columns` does not have, did you mean `at`?");
    assert_eq!(mistake(TIMED, r#", "timeColumn": "n""#), "`timeColumn` names `n`, which is int64, and timestamp_ms is wanted");
    assert!(mistake(COLUMNS, r#", "delimiter": "\"""#).starts_with("`delimiter` is '\"'"));
    let twice = r#"[{"name": "n", "type": "int64"}, {"name": "n", "type": "string"}]"#;
    assert_eq!(mistake(twice, ""), "`columns` has the name `n` twice");
    let absent = SourceHarness::<CsvDir>::bind(&config(&dir.path().join("in"), COLUMNS, ""), None).err().unwrap().to_string();
    assert!(absent.contains("no such directory is granted") && absent.contains("allow = { dirs"), "{absent}");
}

#[test]
fn a_header_that_does_not_fit_names_its_file() {
    let of = |header: &str| {
        let dir = dir(&[("a.csv", header)]);
        match read_all(&bind(&dir, ""), 10) {
            Err(Error::Config(message)) => message,
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(of("n,S\n1,a\n"), "file `a.csv` has no column `s`, did you mean `S`?");
    assert_eq!(of("n,s,n\n"), "file `a.csv` has two columns `n`");
    assert_eq!(of("\"n,s\n1,2\n"), "file `a.csv`: its header cannot be read: a field begins with a quote that is never closed");
    assert_eq!(of("\n\n"), "file `a.csv`: its header cannot be read: there is none");
}

#[test]
fn splits_and_positions_of_another_source_are_refused() {
    let dir = dir(&[("a.csv", "n,s\n1,a\n")]);
    let source = bind(&dir, "");
    let split = source.splits().unwrap().remove(0);
    for foreign in [
        Split { id: "../a.csv".into(), ..split.clone() },
        Split { id: "..".into(), ..split.clone() },
        Split { details: b"{}".to_vec(), ..split.clone() },
        Split { position: Some(b"x".to_vec()), ..split.clone() },
        Split { position: Some(b"9:1".to_vec()), ..split.clone() },
    ] {
        let error = source.read(vec![foreign.clone()], 1, 1).err();
        assert!(matches!(&error, Some(Error::Fatal(message)) if message.contains("none of this source's")), "{foreign:?}: {error:?}");
    }
}

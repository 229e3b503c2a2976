//! Folders in which files come, change and go while they are read.

use super::*;
use arrow::datatypes::Int64Type;
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::time::Duration;
use tidegate_api::testkit::ManualClock;
use tidegate_api::{Clock, Discovered, Error, EventTime, PollRequest, Result, SourceCtx, SourceReader, Split, SplitId, SplitState};

fn config(folder: &Path, options: Value) -> FilesSourceConfig {
    let mut options = map(options);
    options.entry("path").or_insert(json!("in"));
    options.entry("format").or_insert(json!("json"));
    options.entry("schema").or_insert(json!([{ "name": "n", "type": "int64" }]));
    FilesSourceConfig::parse(&options, folder).unwrap()
}

fn watched(folder: &Path, mut options: Value) -> FilesSource {
    options["watch"] = json!("10ms");
    if options.get("settle").is_none() {
        options["settle"] = json!("0ms");
    }
    FilesSource::new(config(folder, options))
}

fn rows_of(numbers: impl IntoIterator<Item = i64>) -> String {
    numbers.into_iter().map(|n| format!("{{\"n\":{n}}}\n")).collect()
}

fn folder() -> TempDir {
    let folder = TempDir::new().unwrap();
    fs::create_dir(folder.path().join("in")).unwrap();
    folder
}

/// What a manifest holds, and what was read since.
#[derive(Clone, Default)]
struct Book {
    cursor: Option<Vec<u8>>,
    splits: BTreeMap<SplitId, (Split, bool)>,
}

/// One source with one task and manifests, driven by hand.
struct Run {
    folder: PathBuf,
    options: Value,
    source: FilesSource,
    reader: Box<dyn SourceReader>,
    durable: Book,
    now: Book,
    read: Vec<i64>,
    committed: Vec<i64>,
}

impl Run {
    fn begin(folder: &Path, options: Value) -> Run {
        let source = watched(folder, options.clone());
        let reader = Run::open(&source, Vec::new());
        let (folder, now) = (folder.to_path_buf(), Book::default());
        Run { folder, options, source, reader, durable: now.clone(), now, read: Vec::new(), committed: Vec::new() }
    }

    fn open(source: &FilesSource, start: Vec<Split>) -> Box<dyn SourceReader> {
        source.plan(&SourceRequest::all()).unwrap();
        let run = RunIdentity::new("test", RunId::new("run"), Generation(1), "in");
        source.open(SourceCtx::new(run).with_start(start)).unwrap()
    }

    fn discover(&mut self) -> Result<usize> {
        let Discovered { added, gone, cursor, complete } = self.source.discover(self.now.cursor.as_deref())?;
        assert!(gone.is_empty() && !complete);
        self.now.cursor = cursor;
        for split in &added {
            let before = self.now.splits.insert(split.id.clone(), (split.clone(), false));
            assert!(before.is_none(), "split `{}` was named twice", split.id);
        }
        let count = added.len();
        self.reader.assign(added)?;
        Ok(count)
    }

    /// Polls once; whether there was something.
    fn poll(&mut self) -> Result<bool> {
        let polled = self.reader.poll(PollRequest { max_rows: 2, max_bytes: 1 << 20, wait: Duration::ZERO })?;
        for chunk in &polled.chunks {
            self.read.extend(chunk.rows.column(0).as_primitive::<Int64Type>().values());
            self.now.splits.get_mut(&chunk.split).unwrap().0.position = Some(chunk.position.clone());
        }
        for (split, state) in &polled.states {
            assert_eq!(*state, SplitState::Finished);
            self.now.splits.get_mut(split).unwrap().1 = true;
        }
        Ok(!polled.chunks.is_empty() || !polled.states.is_empty())
    }

    fn checkpoint(&mut self) {
        self.committed.append(&mut self.read);
        self.durable = self.now.clone();
        self.now.splits.retain(|_, (_, finished)| !*finished);
    }

    fn restart(&mut self) -> Result<()> {
        self.now = self.durable.clone();
        self.read.clear();
        self.source = watched(&self.folder, self.options.clone());
        let start = self.now.splits.values().filter(|(_, finished)| !finished).map(|(split, _)| split.clone()).collect();
        self.reader = Run::open(&self.source, start);
        self.discover().map(drop)
    }

    fn drain(&mut self) -> Result<()> {
        while self.discover()? > 0 || self.poll()? {}
        self.checkpoint();
        Ok(())
    }

    fn write(&self, name: &str, numbers: impl IntoIterator<Item = i64>) {
        fs::write(self.folder.join("in").join(name), rows_of(numbers)).unwrap();
    }

    fn error(result: Result<()>) -> Error {
        result.unwrap_err()
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Files appear by rename, are read, made durable, deleted once they were; the run dies between any two steps. Every row of every file
    /// is committed once. Fails if a file is forgotten too early, named twice, or its rows are lost or repeated at a restart.
    #[test]
    fn every_row_of_every_file_comes_once_whatever_dies_and_when(steps in proptest::collection::vec(0u8..12, 1..120), modified: bool) {
        let folder = folder();
        let mut run = Run::begin(folder.path(), json!({ "order": if modified { "modified" } else { "name" } }));
        let (mut next, mut expected, mut names) = (0i64, Vec::new(), Vec::new());
        for step in steps {
            match step {
                0..=2 => {
                    let name = format!("{:02}-{next}.json", (next * 37) % 100);
                    let rows = next * 10..next * 10 + next % 5;
                    run.write(&format!(".{name}.part"), rows.clone());
                    let to = folder.path().join("in").join(&name);
                    fs::rename(folder.path().join("in").join(format!(".{name}.part")), to).unwrap();
                    expected.extend(rows);
                    names.push(name);
                    next += 1;
                }
                3..=4 => assert!(run.discover().unwrap() <= names.len()),
                5..=8 => {
                    run.poll().unwrap();
                }
                9 => run.checkpoint(),
                10 => run.restart().unwrap(),
                _ => {
                    // Files that were read to their end and committed go; nobody may ask for them.
                    let unread: Vec<String> = run.durable.splits.values().chain(run.now.splits.values())
                        .map(|(split, _)| split.id.to_string()).collect();
                    let is_read = |name: &String| {
                        let first = name[3..name.len() - 5].parse::<i64>().unwrap() * 10;
                        run.committed.contains(&first) && unread.iter().all(|id| !id.contains(name.as_str()))
                    };
                    if let Some(at) = names.iter().position(is_read) {
                        fs::remove_file(folder.path().join("in").join(names.remove(at))).unwrap();
                    }
                }
            }
        }
        run.restart().unwrap();
        run.drain().unwrap();
        run.committed.sort_unstable();
        prop_assert_eq!(run.committed, expected);
        prop_assert!(run.now.splits.is_empty());
    }
}

#[test]
fn hidden_files_are_not_read_and_files_come_in_the_order_asked_for() {
    let folder = folder();
    let mut run = Run::begin(folder.path(), json!({ "order": "modified" }));
    for (name, n) in [("c.json", 1), ("b.json", 2), (".a.json", 3), ("_d.json", 4)] {
        run.write(name, [n]);
        let file = fs::File::options().write(true).open(folder.path().join("in").join(name)).unwrap();
        file.set_modified(std::time::UNIX_EPOCH + Duration::from_secs(n as u64)).unwrap();
    }
    run.drain().unwrap();
    assert_eq!(run.committed, [1, 2]);
    assert_eq!(run.source.discover_every(), Some(Duration::from_millis(10)));
    assert!(run.source.remembers_splits() && !run.source.plan(&SourceRequest::all()).unwrap().bounded);
}

#[test]
fn a_file_that_is_being_written_waits_until_it_has_settled() {
    let folder = folder();
    let clock = Arc::new(ManualClock::at(EventTime(0)));
    let options = json!({ "watch": true, "settle": "3s" });
    let source = FilesSource::new(config(folder.path(), options)).with_clock(Arc::clone(&clock) as Arc<dyn Clock>);
    fs::write(folder.path().join("in/a.json"), rows_of([1])).unwrap();
    let changed = super::super::place::Stamp::of(&folder.path().join("in/a.json")).unwrap().unwrap().time;
    let first = source.discover(None).unwrap();
    assert!(first.added.is_empty(), "the clock says that it comes from the future");
    clock.jump_to(EventTime(changed + 2_999_999));
    let second = source.discover(first.cursor.as_deref()).unwrap();
    assert!(second.added.is_empty());
    clock.jump_to(EventTime(changed + 3_000_000));
    let third = source.discover(second.cursor.as_deref()).unwrap();
    assert_eq!(third.added.len(), 1);
    assert!(source.discover(third.cursor.as_deref()).unwrap().added.is_empty());
}

#[test]
fn a_file_that_changes_after_it_was_read_is_an_error_a_new_file_or_left_alone() {
    for (policy, rows) in [("error", vec![]), ("read", vec![1, 1, 2, 3]), ("skip", vec![1, 3])] {
        let folder = folder();
        let mut run = Run::begin(folder.path(), json!({ "changed": policy }));
        run.write("a.json", [1]);
        run.drain().unwrap();
        run.write("a.json", [1, 2]);
        run.write("b.json", [3]);
        if rows.is_empty() {
            let error = Run::error(run.drain()).to_string();
            assert!(error.contains("file `in/a.json` was changed after it was found") && error.contains("raise `settle`"), "{error}");
            continue;
        }
        run.drain().unwrap();
        run.restart().unwrap();
        run.drain().unwrap();
        run.committed.sort_unstable();
        assert_eq!(run.committed, rows, "{policy}");
    }
}

#[test]
fn a_file_that_changes_while_it_waits_or_is_read_is_found_out() {
    for (policy, polls, rows) in [
        ("error", 0, None),
        ("error", 1, None),
        // Nothing was read of it, so what it is now is read instead.
        ("read", 0, Some(vec![1, 2, 3, 4, 5])),
        ("read", 1, None),
        // The file was in memory by then.
        ("skip", 1, Some(vec![1, 2, 3])),
    ] {
        let folder = folder();
        let mut run = Run::begin(folder.path(), json!({ "changed": policy }));
        run.write("a.json", [1, 2, 3]);
        run.discover().unwrap();
        (0..polls).for_each(|_| assert!(run.poll().unwrap()));
        run.write("a.json", [1, 2, 3, 4, 5]);
        let mut read = || {
            while run.poll()? {}
            run.drain()
        };
        match (read(), rows) {
            (Ok(()), Some(rows)) => assert_eq!(run.committed, rows, "{policy} {polls}"),
            (Err(error), None) => assert!(error.to_string().contains("was changed before it was read to its end"), "{error}"),
            (other, _) => panic!("{policy} {polls}: {other:?}"),
        }
    }
}

#[test]
fn a_file_that_is_gone_before_it_was_read_is_an_error_or_left_out() {
    let folder = folder();
    let mut run = Run::begin(folder.path(), json!({}));
    run.write("a.json", [1]);
    run.write("b.json", [2]);
    run.discover().unwrap();
    run.checkpoint();
    fs::remove_file(folder.path().join("in/a.json")).unwrap();
    for _ in 0..2 {
        let error = Run::error(run.poll().map(drop)).to_string();
        assert!(error.contains("file `in/a.json` is gone before it was read") && error.contains("set `missing` to `skip`"), "{error}");
        run.restart().unwrap();
    }
    run.options = json!({ "missing": "skip" });
    run.restart().unwrap();
    run.drain().unwrap();
    assert_eq!(run.committed, [2]);
    // One that is read has an open end: its rows come though its name is gone.
    run.write("c.json", 3..9);
    run.discover().unwrap();
    run.poll().unwrap();
    fs::remove_file(folder.path().join("in/c.json")).unwrap();
    run.drain().unwrap();
    assert_eq!(run.committed, (2..9).collect::<Vec<_>>());
    // And a name that was free in between is another file.
    run.write("c.json", [9]);
    run.drain().unwrap();
    assert_eq!(run.committed, (2..10).collect::<Vec<_>>());
}

#[test]
fn a_run_that_was_not_watched_goes_on_watched_and_the_other_way_round() {
    let folder = folder();
    fs::write(folder.path().join("in/a.json"), rows_of([1])).unwrap();
    let unwatched = FilesSource::new(config(folder.path(), json!({})));
    let first = unwatched.discover(None).unwrap();
    assert_eq!((first.added.len(), first.complete), (1, true));
    let source = watched(folder.path(), json!({}));
    let second = source.discover(first.cursor.as_deref()).unwrap();
    assert!(second.added.is_empty() && !second.complete);
    fs::write(folder.path().join("in/b.json"), rows_of([2])).unwrap();
    let third = unwatched.discover(second.cursor.as_deref()).unwrap();
    assert_eq!((third.added.len(), third.complete), (1, true));
    let reader = Run::open(&unwatched, third.added).poll(PollRequest { max_rows: 9, max_bytes: 99, wait: Duration::ZERO }).unwrap();
    assert_eq!(reader.chunks[0].rows.num_rows(), 1);
}

#[test]
fn an_empty_folder_is_waited_for_and_a_missing_one_is_not() {
    let folder = folder();
    let mut run = Run::begin(folder.path(), json!({}));
    assert_eq!(run.discover().unwrap(), 0);
    assert!(!run.poll().unwrap());
    run.source.check().unwrap();
    let missing = watched(folder.path(), json!({ "path": "out" }));
    assert!(missing.check().unwrap_err().to_string().contains("does not exist"));
    let mut options = map(json!({ "path": "in", "format": "json", "watch": true }));
    let inferring = FilesSource::new(FilesSourceConfig::parse(&options, folder.path()).unwrap());
    let error = inferring.plan(&SourceRequest::all()).unwrap_err().to_string();
    assert!(error.contains("declare a `schema`"), "{error}");
    options.insert("watch".into(), json!(false));
    options.insert("settle".into(), json!("1s"));
    options.insert("changed".into(), json!("never"));
    let problems = FilesSourceConfig::parse(&options, folder.path()).unwrap_err();
    let text: Vec<String> = problems.iter().map(ToString::to_string).collect();
    assert!(text.iter().any(|text| text.contains("set `watch` too")) && text.iter().any(|text| text.contains("never")), "{text:?}");
}

//! Files in buckets: every test in a bucket in memory, and again against a server.

use super::super::remote::Remote;
use super::*;
use object_store::memory::InMemory;
use object_store::path::Path as Key;
use object_store::{ObjectStore, ObjectStoreExt};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tidegate_api::{Discovered, PollRequest, Result, SourceCtx, SourceReader, Split, SplitState};
use tidegate_objects::{Bucket, BucketUrl, Names};

/// A prefix of a bucket that nobody else uses.
struct World {
    bucket: Arc<Bucket>,
    prefix: String,
    options: Value,
}

impl World {
    fn in_memory() -> World {
        let store = Arc::new(InMemory::new());
        let url = BucketUrl::parse("s3://tidegate").unwrap();
        let bucket = Bucket::over(Arc::clone(&store) as Arc<dyn ObjectStore>, url, Names::STATE).unwrap().with_multipart(store);
        World { bucket: Arc::new(bucket), prefix: "own".into(), options: json!({}) }
    }

    #[allow(clippy::disallowed_methods, reason = "the server outlives the test, so the name must differ from run to run")]
    fn on_server() -> World {
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        let endpoint =
            std::env::var("TIDEGATE_TEST_S3").expect("TIDEGATE_TEST_S3 names no server; `cargo xtask services up s3` starts one");
        let options = json!({ "endpoint": endpoint, "accessKeyId": "test", "secretAccessKey": "testsecret" });
        let given: BTreeMap<String, String> =
            options.as_object().unwrap().iter().map(|(name, value)| (name.clone(), value.as_str().unwrap().into())).collect();
        let bucket = Bucket::open(BucketUrl::parse("s3://tidegate").unwrap(), &given, Names::STATE).unwrap();
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_nanos();
        let prefix = format!("files/{now}-{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::SeqCst));
        World { bucket: Arc::new(bucket), prefix, options }
    }

    fn put(&self, name: &str, bytes: impl Into<Vec<u8>>) {
        let (store, key, bytes) = (self.bucket.store(), Key::from(format!("{}/{name}", self.prefix)), bytes.into());
        self.bucket.call(0, async move { store.put(&key, bytes.into()).await }).unwrap();
    }

    fn delete(&self, name: &str) {
        let (store, key) = (self.bucket.store(), Key::from(format!("{}/{name}", self.prefix)));
        self.bucket.call(0, async move { store.delete(&key).await }).unwrap();
    }

    fn source(&self, path: &str, options: Value) -> FilesSource {
        let mut options = map(options);
        options.insert("path".into(), json!(format!("s3://tidegate/{}/{path}", self.prefix)));
        if self.options.as_object().is_some_and(|options| !options.is_empty()) {
            options.insert("storeOptions".into(), self.options.clone());
            return FilesSource::new(FilesSourceConfig::parse(&options, Path::new(".")).unwrap());
        }
        let mut config = FilesSourceConfig::parse(&options, Path::new(".")).unwrap();
        config.remote = config.remote.map(|remote: Remote| remote.over(Arc::clone(&self.bucket)));
        FilesSource::new(config)
    }
}

fn sink(world: &World, path: &str, options: Value) -> Arc<dyn OutputSink> {
    let mut options = map(options);
    options.insert("path".into(), json!(format!("s3://tidegate/{}/{path}", world.prefix)));
    if world.options.as_object().is_some_and(|options| !options.is_empty()) {
        options.insert("storeOptions".into(), world.options.clone());
    } else {
        options.insert("storeOptions".into(), json!({ "accessKeyId": "key", "secretAccessKey": "hidden" }));
    }
    let mut config = FilesSinkConfig::parse(&options, Path::new(".")).unwrap();
    config.remote = config.remote.map(|remote: Remote| remote.over(Arc::clone(&world.bucket)));
    Arc::new(FilesSink { config, options })
}

/// Rows appear with their commit, once, from any process, and what is given up is gone.
fn the_sink_keeps_its_contract(world: fn() -> World) {
    let rows = [sample(0..20), sample(20..25)];
    for format in ["json", "parquet"] {
        sink_contract(&rows[0].schema(), &rows, || {
            let world = Arc::new(world());
            let (of_sink, of_hidden) = (Arc::clone(&world), Arc::clone(&world));
            let sink = move || sink(&of_sink, "out", json!({ "format": format }));
            let hidden = move || {
                let below = format!("{}/out/{STAGING}/", of_hidden.prefix);
                of_hidden.bucket.list(&below, tidegate_objects::Depth::All).unwrap().len()
            };
            let visible = move || {
                let source = world.source("out/*", json!({ "schema": schema_option(), "format": format, "watch": true }));
                let splits = source.discover(None).unwrap().added;
                let read = read_source(&source, &SourceRequest::all(), 1, 1000, Some(&splits));
                read.into_values().map(|read| read.rows).collect()
            };
            SinkWorld::new(sink, visible, hidden)
        });
    }
}

/// Objects of many pieces in folders of partitions. P199: what stands there already is not replaced.
fn large_parts_lie_in_their_partitions(world: &World) {
    let sink = sink(world, "out", json!({ "format": "json", "partitionBy": ["n"] }));
    let text: StringViewArray = (0..2000).map(|_| Some("x".repeat(10_000))).collect();
    let numbers = Int64Array::from_iter_values((0..2000).map(|row| i64::from(row % 100 == 0)));
    let rows = RecordBatch::try_from_iter([("n", Arc::new(numbers) as ArrayRef), ("text", Arc::new(text))]).unwrap();
    let run = RunIdentity::new("test", RunId::new("run"), Generation(1), "out");
    let AnySink::Transactional(mut writer) = sink.open(SinkCtx::new(run.clone(), rows.schema())).unwrap() else { panic!() };
    for from in (0..2000).step_by(100) {
        writer.write(&rows.slice(from, 100), None).unwrap();
    }
    let PreCommit::Token(token) = writer.pre_commit(Epoch(1)).unwrap() else { panic!() };
    let found = || {
        let found = world.bucket.list(&format!("{}/out/", world.prefix), tidegate_objects::Depth::All).unwrap();
        let own = |key: &str| key.strip_prefix(&format!("{}/out/", world.prefix)).unwrap().to_string();
        found.into_iter().map(|object| (own(&object.key), object.size)).filter(|(key, _)| !key.starts_with('.')).collect::<Vec<_>>()
    };
    assert!(found().is_empty());
    let said: Value = serde_json::from_slice(&token.0).unwrap();
    let names: Vec<String> = said["parts"]
        .as_array()
        .unwrap()
        .iter()
        .map(|part| format!("{}/{}", part["folder"].as_str().unwrap(), part["name"].as_str().unwrap()))
        .collect();
    let second = names.iter().find(|name| name.starts_with("n=1/")).unwrap();
    world.put(&format!("out/{second}"), "somebody else's");
    let mut committer = sink.committer(SinkCtx::for_commit(run)).unwrap();
    let error = committer.commit(Epoch(1), std::slice::from_ref(&token)).unwrap_err();
    assert!(error.kind() == ErrorKind::Data && error.to_string().contains("nothing is overwritten"), "{error}");
    world.delete(&format!("out/{second}"));
    committer.commit(Epoch(1), &[token]).unwrap();
    let found = found();
    assert!(names.len() == 2 && found.len() == 2 && found.iter().all(|(key, _)| names.contains(key)), "{names:?} {found:?}");
    assert!(found[0].1 > 19_000_000 && found[1].1 > 200_000, "{found:?}");
    let source = world.source("out/**/*.json", json!({ "schema": [{ "name": "text", "type": "string" }] }));
    assert_eq!(all_rows(&source).iter().map(RecordBatch::num_rows).sum::<usize>(), 2000);
}

/// Everything that the sink writes locally is read from a bucket, from any position.
fn every_format_is_read(world: &World) {
    let batches = [sample(0..40), sample(40..43)];
    for (format, compression) in
        [("json", "none"), ("json", "gz"), ("csv", "zst"), ("parquet", "zst"), ("arrow", "none"), ("arrow", "gz"), ("avro", "none")]
    {
        let folder = TempDir::new().unwrap();
        write_parts(folder.path(), json!({ "path": "parts", "format": format, "compression": compression }), &batches);
        let at = format!("{format}-{compression}");
        for name in names(&folder.path().join("parts")) {
            world.put(&format!("{at}/{name}"), fs::read(folder.path().join("parts").join(&name)).unwrap());
        }
        let source = world.source(&at, json!({ "schema": schema_option() }));
        source_contract(&source, &SourceRequest::all());
        assert_eq!(sorted_rows(&all_rows(&source)), sorted_rows(&batches), "{at}");
        let inferred = world.source(&format!("{at}/*"), json!({})).plan(&SourceRequest::all()).unwrap();
        assert_eq!(inferred.schema.fields().len(), 3, "{at}");
    }
    // An Arrow file, and a text that is longer than what is asked for at once.
    let mut file = arrow::ipc::writer::FileWriter::try_new(Vec::new(), &batches[0].schema()).unwrap();
    batches.iter().for_each(|batch| file.write(batch).unwrap());
    world.put("file/x.arrow", file.into_inner().unwrap());
    let source = world.source("file/x.arrow", json!({ "schema": schema_option() }));
    source_contract(&source, &SourceRequest::all());
    let text: String = (0..700_000).map(|n| format!("{{\"n\":{n}}}\n")).collect();
    world.put("long/x.json", text);
    let source = world.source("long/x.json", json!({ "schema": [{ "name": "n", "type": "int64" }] }));
    let rows: usize = all_rows(&source).iter().map(RecordBatch::num_rows).sum();
    assert_eq!(rows, 700_000);
}

fn a_path_means_its_objects(world: &World) {
    for name in ["a.json", "b.json", "c.csv", "_d.json", "sub/e.json", "sub/.f/g.json"] {
        world.put(name, "{\"n\":1}\n");
    }
    let found = |path: &str| {
        let discovered = world.source(path, json!({ "format": "json" })).discover(None).unwrap();
        assert!(discovered.complete);
        let start = format!("s3://tidegate/{}/", world.prefix);
        discovered.added.iter().map(|split| split.id.as_str().strip_prefix(&start).unwrap().to_string()).collect::<Vec<_>>()
    };
    assert_eq!(found(""), ["a.json", "b.json", "c.csv"]);
    assert_eq!(found("*.json"), ["a.json", "b.json"]);
    assert_eq!(found("**/*.json"), ["a.json", "b.json", "sub/e.json"]);
    assert_eq!(found("sub"), ["sub/e.json"]);
    assert_eq!(found("?.csv"), ["c.csv"]);
    assert_eq!(found("a.json"), ["a.json"]);
    for (path, part) in [("none", "there are no objects in"), ("*.txt", "no object matches")] {
        let error = world.source(path, json!({})).discover(None).unwrap_err().to_string();
        assert!(error.contains(part) && error.contains(&world.prefix), "{error}");
    }
}

/// One reader driven by hand.
struct Run {
    source: FilesSource,
    cursor: Option<Vec<u8>>,
    reader: Box<dyn SourceReader>,
    splits: Vec<Split>,
}

impl Run {
    fn new(source: FilesSource) -> Run {
        let reader = Run::open(&source, Vec::new());
        Run { source, cursor: None, reader, splits: Vec::new() }
    }

    fn open(source: &FilesSource, start: Vec<Split>) -> Box<dyn SourceReader> {
        let run = RunIdentity::new("test", RunId::new("run"), Generation(1), "in");
        source.open(SourceCtx::new(run).with_start(start)).unwrap()
    }

    fn discover(&mut self) -> Result<usize> {
        let Discovered { added, cursor, .. } = self.source.discover(self.cursor.as_deref())?;
        self.cursor = cursor;
        self.splits.extend(added.iter().cloned());
        let count = added.len();
        self.reader.assign(added)?;
        Ok(count)
    }

    fn poll(&mut self) -> Result<Vec<i64>> {
        let mut rows = Vec::new();
        loop {
            let polled = self.reader.poll(PollRequest { max_rows: 1, max_bytes: 64, wait: Duration::ZERO })?;
            for (id, state) in &polled.states {
                assert_eq!(*state, SplitState::Finished);
                self.splits.retain(|split| split.id != *id);
            }
            for chunk in &polled.chunks {
                rows.extend(chunk.rows.column(0).as_primitive::<Int64Type>().values());
                self.splits.iter_mut().find(|split| split.id == chunk.split).unwrap().position = Some(chunk.position.clone());
            }
            if polled.chunks.is_empty() && polled.states.is_empty() {
                return Ok(rows);
            }
        }
    }
}

fn a_watched_prefix_is_read_once(world: &World) {
    let options = |more: Value| {
        let mut options = json!({ "watch": "10ms", "schema": [{ "name": "n", "type": "int64" }], "format": "json" });
        more.as_object().unwrap().iter().for_each(|(key, value)| options[key] = value.clone());
        options
    };
    let mut run = Run::new(world.source("in/*", options(json!({}))));
    assert_eq!(run.discover().unwrap(), 0, "an empty prefix is waited for");
    world.put("in/b", "{\"n\":1}\n{\"n\":2}\n");
    world.put("in/c", "{\"n\":3}\n");
    assert_eq!((run.discover().unwrap(), run.discover().unwrap()), (2, 0));
    assert_eq!(run.poll().unwrap(), [1, 2, 3]);
    world.put("in/a", "{\"n\":4}\n");
    world.delete("in/c");
    assert_eq!((run.discover().unwrap(), run.poll().unwrap()), (1, vec![4]));
    world.put("in/a", "{\"n\":5}\n");
    let error = run.discover().unwrap_err().to_string();
    assert!(error.contains("/in/a` was changed after it was found"), "{error}");
    // The same memory under another policy.
    run.source = world.source("in/*", options(json!({ "changed": "read", "missing": "skip" })));
    run.reader = Run::open(&run.source, Vec::new());
    assert_eq!((run.discover().unwrap(), run.poll().unwrap()), (1, vec![5]));
    world.put("in/x", "{\"n\":6}\n");
    world.put("in/y", "{\"n\":7}\n");
    assert_eq!(run.discover().unwrap(), 2);
    world.delete("in/x");
    world.put("in/y", "{\"n\":8}\n");
    assert_eq!(run.poll().unwrap(), Vec::<i64>::new(), "one is gone, and the other is another by now");
    assert_eq!((run.discover().unwrap(), run.poll().unwrap()), (1, vec![8]));
    assert!(run.splits.is_empty());
}

/// Rows of two versions are never mixed, not even when the object is replaced between two requests.
fn an_object_that_is_replaced_under_way_is_an_error(world: &World) {
    let text = |first: i64| (first..first + 100_000).map(|n| format!("{{\"n\":{n}}}\n")).collect::<String>();
    world.put("under/way.json", text(1_000_000));
    let mut run = Run::new(world.source("under/way.json", json!({ "schema": [{ "name": "n", "type": "int64" }] })));
    run.discover().unwrap();
    let polled = run.reader.poll(PollRequest { max_rows: 10, max_bytes: 4096, wait: Duration::ZERO }).unwrap();
    run.splits[0].position = Some(polled.chunks[0].position.clone());
    world.put("under/way.json", text(2_000_000));
    let mut read = || loop {
        let polled = run.reader.poll(PollRequest { max_rows: 10_000, max_bytes: 1 << 20, wait: Duration::ZERO });
        match polled {
            Ok(polled) => {
                for chunk in polled.chunks {
                    assert!(chunk.rows.column(0).as_primitive::<Int64Type>().values().iter().all(|n| *n < 1_100_000));
                }
                assert!(polled.states.is_empty(), "it came to its end");
            }
            Err(error) => return error.to_string(),
        }
    };
    let error = read();
    assert!(error.contains("way.json` was replaced while it was read"), "{error}");
    // A restart finds it out before the first row.
    let mut reader = Run::open(&run.source, run.splits.clone());
    let error = reader.poll(PollRequest { max_rows: 10, max_bytes: 4096, wait: Duration::ZERO }).unwrap_err().to_string();
    assert!(error.contains("way.json` was changed before it was read to its end"), "{error}");
}

macro_rules! both {
    ($($body:ident, $here:ident, $server:ident;)*) => {$(
        #[test]
        fn $here() {
            $body(&World::in_memory());
        }

        #[test]
        #[ignore = "needs an S3 server: `cargo xtask services up s3`, and TIDEGATE_TEST_S3"]
        fn $server() {
            $body(&World::on_server());
        }
    )*};
}

both! {
    every_format_is_read, every_format_is_read_from_a_bucket, s3_every_format_is_read;
    a_path_means_its_objects, a_path_in_a_bucket_means_its_objects, s3_a_path_means_its_objects;
    a_watched_prefix_is_read_once, a_watched_prefix_of_a_bucket_is_read_once, s3_a_watched_prefix_is_read_once;
    large_parts_lie_in_their_partitions, large_parts_lie_in_their_partitions_of_a_bucket, s3_large_parts_lie_in_their_partitions;
    an_object_that_is_replaced_under_way_is_an_error, an_object_that_is_replaced_is_an_error, s3_an_object_that_is_replaced_is_an_error;
}

#[test]
fn the_sink_of_a_bucket_keeps_its_contract() {
    the_sink_keeps_its_contract(World::in_memory);
}

#[test]
#[ignore = "needs an S3 server: `cargo xtask services up s3`, and TIDEGATE_TEST_S3"]
fn s3_the_sink_keeps_its_contract() {
    the_sink_keeps_its_contract(World::on_server);
}

#[test]
fn what_a_bucket_is_reached_by_is_checked_and_never_shown() {
    let parse = |options: Value| {
        let problems = FilesSourceConfig::parse(&map(options), Path::new(".")).map(|_| ()).unwrap_err();
        problems.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
    };
    let unknown = parse(json!({ "path": "s3://b/x", "storeOptions": { "regoin": "x" } }));
    assert!(unknown.contains("no option `regoin`") && unknown.contains("region"), "{unknown}");
    assert!(parse(json!({ "path": "s4://b/x" })).contains("no store for `s4://`"));
    assert!(parse(json!({ "path": "x", "storeOptions": {} })).contains("is for a `path` in a bucket"));
    let secret = parse(json!({ "path": "s3://key:hidden@b/x" }));
    assert!(!secret.contains("hidden") && secret.contains("storeOptions"), "{secret}");
    let options = json!({ "path": "s3://b/x/[ab]?.json", "storeOptions": { "endpoint": "http://127.0.0.1:1", "accessKeyId": "key", "secretAccessKey": "hidden" } });
    let config = FilesSourceConfig::parse(&map(options), Path::new(".")).unwrap();
    assert!(!format!("{config:?}").contains("hidden"));
}

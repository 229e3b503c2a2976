//! The first-party plugins that use the network, against servers on this machine that misbehave.

#![allow(clippy::unwrap_used, reason = "a test may end by panicking")]

#[macro_use]
mod kit;
#[path = "kit/exchange.rs"]
mod exchange;
#[path = "../../../plugins/s3-jsonl/src/fake.rs"]
#[allow(dead_code, unreachable_pub, reason = "the plugin's own tests use the rest")]
mod fake;

use arrow::array::{Array, BinaryArray, Int64Array, RecordBatch, StringViewArray};
use exchange::{Exchange, Reply, Seen};
use fake::Fake;
use kit::run;
use serde_json::{Value, json};
use std::collections::VecDeque;
use std::io::Write;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tidegate_api::{
    AnySink, ChangeMode, CommitOutcome, Epoch, Error, ErrorKind, Generation, Guarantee, InlineSource, OutputSink, PollRequest, Polled,
    PreCommit, Retry, RunId, RunIdentity, SinkCtx, SinkInput, SourceCtx, SourceReader, SourceRequest,
};
use tidegate_conformance::sink::{SinkTrial, SinkWorld, sink_contract};
use tidegate_conformance::source::{SourceOptions, SourceWorld, source_contract};
use tidegate_host::{HostConfig, Limits, Plugin, PluginHost, PluginSpec};

fn built(name: &str) -> PathBuf {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../../plugins/target/components/{name}.wasm"));
    assert!(path.exists(), "`{}` is missing; run `cargo xtask guests` first, or all tests with `cargo xtask test`", path.display());
    path
}

fn load(name: &str, allow: &Value) -> Arc<Plugin> {
    // Compiled once for all tests; two that compile at the same time do not disturb each other.
    let cache = Path::new(env!("CARGO_TARGET_TMPDIR")).join("compiled");
    let host = PluginHost::new(HostConfig::new().with_cache_dir(Some(cache))).unwrap();
    let secrets = json!({ "token": "Bearer xyz", "accessKeyId": "test", "secretAccessKey": "testsecret" });
    let mut limits = Limits::default();
    limits.io_timeout = Duration::from_secs(20);
    let spec = PluginSpec::new(name, built(name)).limited_to(limits).with_secrets(secrets.as_object().unwrap()).unwrap();
    host.load(&spec.with_allow(allow.as_object().unwrap()).unwrap()).unwrap()
}

fn may_be_tried_again(error: &Error) -> bool {
    matches!(error.kind(), ErrorKind::External { retry: Retry::After(_) })
}

fn numbers(values: std::ops::Range<i64>) -> RecordBatch {
    RecordBatch::try_from_iter([("n", Arc::new(Int64Array::from_iter_values(values)) as _)]).unwrap()
}

fn keys(values: std::ops::Range<i64>) -> BinaryArray {
    BinaryArray::from_iter_values(values.map(i64::to_be_bytes))
}

fn identity(generation: u64) -> RunIdentity {
    RunIdentity::new("pipe", RunId::new("run"), Generation(generation), "out")
}

// http-post

fn poster(server: &Exchange, more: Value) -> Arc<dyn OutputSink> {
    let mut config = json!({ "url": format!("{}/in", server.origin()), "authorization": "token", "maxRows": 2, "timeoutMs": 300 });
    config.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    load("http-post", &json!({ "http": [server.origin()] })).sink(&config).unwrap()
}

fn at_least_once(sink: &Arc<dyn OutputSink>, rows: &RecordBatch) -> Box<dyn tidegate_api::Sink> {
    let plan = sink.plan(&SinkInput::new(rows.schema(), ChangeMode::Append)).unwrap();
    let ctx = SinkCtx::new(identity(1), rows.schema()).with_keys(plan.wants_keys);
    let AnySink::AtLeastOnce(writer) = sink.open(ctx).unwrap() else { panic!("it has one phase") };
    writer
}

#[test]
fn http_post_sends_again_what_a_server_dropped_refused_or_never_answered() {
    let server = Exchange::start(|number, _| match number {
        1 => Reply::Drop,
        2 => Reply::of(503, "busy").with("retry-after", "3"),
        3 => Reply::Silence,
        _ => Reply::of(200, ""),
    });
    let sink = poster(&server, json!({ "idempotencyKey": true }));
    let rows = numbers(0..3);
    let mut writer = at_least_once(&sink, &rows);
    for after in [None, Some(3), None] {
        let error = writer.write(&rows, Some(&keys(0..3))).unwrap_err();
        assert!(may_be_tried_again(&error), "{error}");
        if let Some(seconds) = after {
            assert_eq!(error.kind(), ErrorKind::External { retry: Retry::After(Duration::from_secs(seconds)) });
        }
    }
    assert!(writer.write(&rows, Some(&keys(0..3))).unwrap().bad.is_empty());
    writer.flush(Epoch(1)).unwrap();
    let seen = server.seen();
    let bodies: Vec<String> = seen.iter().map(Seen::text).collect();
    assert_eq!(bodies[..4], ["{\"n\":0}\n{\"n\":1}\n"; 4]);
    assert_eq!(bodies[4..], ["{\"n\":2}\n"]);
    let key = seen[0].header("idempotency-key");
    assert!(key.is_some() && seen[..4].iter().all(|seen| seen.header("idempotency-key") == key));
    assert!(seen.iter().all(|seen| seen.header("authorization").as_deref() == Some("Bearer xyz") && seen.method == "POST"));
}

#[test]
fn http_post_convicts_the_rows_that_a_server_refuses() {
    let server = Exchange::start(|_, seen| if seen.text().contains('3') { Reply::of(422, "no 3 here") } else { Reply::of(200, "") });
    let rows = numbers(0..6);
    let mut writer = at_least_once(&poster(&server, json!({ "perRow": true })), &rows);
    let bad = writer.write(&rows, None).unwrap().bad;
    assert_eq!((bad.len(), bad[0].row), (1, 3));
    assert!(bad[0].message.contains("status 422: no 3 here"), "{}", bad[0].message);
    let mut writer = at_least_once(&poster(&server, json!({ "format": "array" })), &rows);
    let bad: Vec<usize> = writer.write(&rows, None).unwrap().bad.iter().map(|bad| bad.row).collect();
    assert_eq!(bad, [2, 3], "the request of two");
    assert_eq!(server.seen()[6].text(), r#"[{"n":0},{"n":1}]"#);
}

#[test]
fn http_post_without_its_grant_says_which_one_is_missing() {
    let server = Exchange::start(|_, _| Reply::of(200, ""));
    let sink = load("http-post", &json!({})).sink(&json!({ "url": format!("{}/in", server.origin()) })).unwrap();
    let error = at_least_once(&sink, &numbers(0..1)).write(&numbers(0..1), None).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Config, "{error}");
    assert!(error.to_string().contains(&format!("set `allow.http = [\"{}\"]` of [plugins.http-post]", server.origin())), "{error}");
    assert!(server.seen().is_empty());
}

/// A reader's view of a server that keeps rows, and if it knows keys, each of them once.
fn kept(seen: &[Seen], knows_keys: bool) -> Vec<RecordBatch> {
    let mut known = std::collections::BTreeSet::new();
    let fresh = seen.iter().filter(|seen| !knows_keys || known.insert(seen.header("idempotency-key")));
    let values = fresh.flat_map(|seen| seen.text().lines().map(number).collect::<Vec<_>>());
    vec![RecordBatch::try_from_iter([("n", Arc::new(Int64Array::from_iter_values(values)) as _)]).unwrap()]
}

fn number(line: &str) -> i64 {
    serde_json::from_str::<Value>(line).unwrap()["n"].as_i64().unwrap()
}

#[test]
fn http_post_earns_what_it_claims() {
    let (rows, schema) = ([numbers(0..5), numbers(5..7)], numbers(0..0).schema());
    let idempotent = json!({ "perRow": true, "idempotencyKey": true });
    for (more, claimed) in [
        (json!({}), Guarantee::AtLeastOnce),
        (json!({ "acrossBatches": true }), Guarantee::AtLeastOnce),
        (json!({ "idempotencyKey": true }), Guarantee::AtLeastOnce),
        (idempotent.clone(), Guarantee::Idempotent),
    ] {
        let server = Exchange::start(|_, _| Reply::of(200, ""));
        let plan = poster(&server, more.clone()).plan(&SinkInput::new(Arc::clone(&schema), ChangeMode::Append)).unwrap();
        assert_eq!(plan.guarantee, claimed, "{more}");
        let world = || {
            let server = Arc::new(Exchange::start(|_, _| Reply::of(200, "")));
            let (sink, visible) = (poster(&server, more.clone()), Arc::clone(&server));
            let knows_keys = claimed == Guarantee::Idempotent;
            Ok(SinkWorld {
                sink: Box::new(move || Ok(Arc::clone(&sink))),
                visible: Box::new(move || Ok(kept(&visible.seen(), knows_keys))),
                hidden: None,
            })
        };
        let judged = SinkTrial { schema: Arc::clone(&schema), rows: &rows, world: &world }.judge(claimed);
        assert_eq!(judged.earned, Some(claimed), "{more}: {judged:?}");
    }
}

// http-poll

fn poller(server: &Exchange, more: Value) -> Arc<dyn InlineSource> {
    let columns = json!([{ "name": "n", "type": "int64" }, { "name": "s", "path": "in.s", "type": "string" }]);
    let mut config = json!({ "url": format!("{}/rows", server.origin()), "columns": columns, "timeoutMs": 300 });
    config.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    load("http-poll", &json!({ "http": [server.origin()] })).source(&config).unwrap()
}

fn paged() -> Value {
    json!({ "rows": "items", "nextField": "next", "cursorParam": "after" })
}

/// A page of an API of 25 rows, seven per page.
fn page(seen: &Seen) -> Reply {
    let from: i64 = seen.target.split_once("after=").map_or(0, |(_, from)| from.parse().unwrap());
    let items: Vec<Value> = (from..25.min(from + 7)).map(|n| json!({ "n": n, "in": { "s": format!("x{n}") } })).collect();
    let next = if from + 7 < 25 { json!(from + 7) } else { Value::Null };
    Reply::of(200, &json!({ "items": items, "next": next }).to_string())
}

fn poll(reader: &mut dyn SourceReader) -> Result<Polled, Error> {
    reader.poll(PollRequest { max_rows: 5, max_bytes: 1 << 20, wait: Duration::from_millis(50) })
}

fn column(rows: &RecordBatch) -> Vec<i64> {
    rows.column(0).as_any().downcast_ref::<Int64Array>().unwrap().values().to_vec()
}

#[test]
fn http_poll_asks_again_after_every_kind_of_failure_and_skips_nothing() {
    let server = Exchange::start(|number, seen| match number {
        1 => Reply::Drop,
        3 => Reply::of(500, "oops"),
        5 => Reply::Half(br#"{"items": ["#.to_vec()),
        6 => Reply::of(200, r#"{"items": [{"n": 1}, "#),
        8 => Reply::Silence,
        9 => Reply::of(429, "").with("retry-after", "2"),
        _ => page(seen),
    });
    let source = poller(&server, paged());
    let splits = source.discover(None).unwrap().added;
    let mut reader = source.open(SourceCtx::new(run()).with_start(splits)).unwrap();
    let (mut read, mut failures) = (Vec::new(), 0);
    while read.len() < 25 {
        match poll(reader.as_mut()) {
            Ok(polled) => read.extend(polled.chunks.iter().flat_map(|chunk| column(&chunk.rows))),
            Err(error) => {
                assert!(may_be_tried_again(&error), "{error}");
                failures += 1;
            }
        }
    }
    assert_eq!((read, failures), ((0..25).collect(), 6));
}

#[test]
fn http_poll_keeps_the_contract_of_replayable_sources() {
    let server = Arc::new(Exchange::start(|_, seen| page(seen)));
    let plan = poller(&server, paged()).plan(&SourceRequest::all()).unwrap();
    assert!(plan.bounded && plan.replayable);
    assert!(!poller(&server, json!({ "watch": true })).plan(&SourceRequest::all()).unwrap().replayable);
    let world = SourceWorld::new(move || Ok(poller(&server, paged())));
    source_contract(&world, &SourceOptions::default());
}

#[test]
fn http_poll_ends_at_a_server_that_says_no() {
    let server = Exchange::start(|_, _| Reply::of(401, "who are you?"));
    let source = poller(&server, paged());
    let mut reader = source.open(SourceCtx::new(run()).with_start(source.discover(None).unwrap().added)).unwrap();
    let error = poll(reader.as_mut()).err().unwrap();
    assert_eq!(error.kind(), ErrorKind::Config);
    assert!(error.to_string().contains("plugin `http-poll`") && error.to_string().contains("who are you?"), "{error}");
}

// tcp-lines

/// Serves these texts, one per connection.
fn serve(texts: &[&'static str]) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let mut texts: VecDeque<&'static str> = texts.iter().copied().collect();
    #[allow(clippy::disallowed_methods, reason = "a server of a test has threads of its own")]
    std::thread::spawn(move || {
        let mut open = Vec::new();
        for mut stream in listener.incoming().map_while(Result::ok) {
            let Some(text) = texts.pop_front() else { return };
            // In two pieces, so that a line may come in two.
            let (first, second) = text.split_at(text.len() / 2);
            let _ = stream.write_all(first.as_bytes());
            std::thread::sleep(Duration::from_millis(5));
            let _ = stream.write_all(second.as_bytes());
            if texts.is_empty() {
                open.push(stream);
            }
        }
    });
    address
}

#[test]
fn tcp_lines_reads_on_over_connections_that_end_and_says_what_was_cut() {
    let address = serve(&["a\nb\r\nhal", "", "c\n123456789\nd\n"]);
    let source = load("tcp-lines", &json!({ "tcp": [&address] }))
        .source(&json!({ "addresses": [&address], "reconnectMs": 5, "maxReconnectMs": 20, "maxLineBytes": 8 }))
        .unwrap();
    let plan = source.plan(&SourceRequest::all()).unwrap();
    assert!(!plan.replayable && !plan.bounded);
    let mut reader = source.open(SourceCtx::new(run()).with_start(source.discover(None).unwrap().added)).unwrap();
    let (mut lines, mut bad) = (Vec::<String>::new(), Vec::new());
    while lines.last().is_none_or(|line| line != "d") {
        let polled = poll(reader.as_mut()).unwrap();
        for chunk in polled.chunks {
            let column = chunk.rows.column(0).as_any().downcast_ref::<StringViewArray>().unwrap().clone();
            lines.extend(column.iter().flatten().map(str::to_owned));
            bad.extend(chunk.bad.into_iter().map(|bad| bad.message));
        }
    }
    assert_eq!(lines, ["a", "b", "c", "d"]);
    assert_eq!(bad.len(), 2, "{bad:?}");
    assert!(bad[0].contains("line 3: the connection ended within the line"), "{bad:?}");
    assert!(bad[1].contains("line 5: the line is longer than 8 bytes"), "{bad:?}");
}

#[test]
fn tcp_lines_waits_for_a_server_that_is_not_there_and_needs_its_grant() {
    let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
    let open = |allow: &Value| {
        let source = load("tcp-lines", allow).source(&json!({ "addresses": [&address] })).unwrap();
        source.open(SourceCtx::new(run()).with_start(source.discover(None).unwrap().added)).unwrap()
    };
    let polled = poll(open(&json!({ "tcp": [&address] })).as_mut()).unwrap();
    assert!(polled.chunks.is_empty());
    let error = poll(open(&json!({})).as_mut()).err().unwrap();
    assert_eq!(error.kind(), ErrorKind::Config);
    assert!(error.to_string().contains(&format!("`allow.tcp = [\"{address}\"]`")), "{error}");
}

// s3-jsonl

/// A small S3 behind a server; every `every`th request fails, one before it is done and one after.
struct Bucket {
    server: Exchange,
    fake: Arc<Mutex<Fake>>,
}

impl Bucket {
    fn start(every: usize) -> Self {
        let fake: Arc<Mutex<Fake>> = Arc::default();
        let served = Arc::clone(&fake);
        let server = Exchange::start(move |number, seen| {
            let fails = every > 0 && number % every == 0;
            if fails && number % (2 * every) == 0 {
                return Reply::of(503, "<Error><Code>SlowDown</Code></Error>");
            }
            let answer = served.lock().unwrap().answer(&seen.method, &seen.target, |name| seen.header(name), &seen.body);
            if fails { Reply::Drop } else { Reply::Answer(answer.0, answer.1, answer.2) }
        });
        Bucket { server, fake }
    }

    fn sink(&self) -> Arc<dyn OutputSink> {
        let config = json!({ "bucket": "bucket", "prefix": "t/", "endpoint": self.server.origin(), "timeoutMs": 5000 });
        load("s3-jsonl", &json!({ "http": [self.server.origin()], "clock": true })).sink(&config).unwrap()
    }

    fn visible(&self) -> Vec<RecordBatch> {
        let fake = self.fake.lock().unwrap();
        let values = fake
            .objects
            .values()
            .flat_map(|object| String::from_utf8(object.bytes.clone()).unwrap().lines().map(number).collect::<Vec<_>>());
        vec![RecordBatch::try_from_iter([("n", Arc::new(Int64Array::from_iter_values(values)) as _)]).unwrap()]
    }
}

#[test]
fn s3_jsonl_keeps_the_contract_of_transactional_sinks() {
    sink_contract(&numbers(0..0).schema(), &[numbers(0..5), numbers(5..7)], || {
        let bucket = Arc::new(Bucket::start(0));
        let (sink, visible, hidden) = (bucket.sink(), Arc::clone(&bucket), Arc::clone(&bucket));
        SinkWorld::new(move || Arc::clone(&sink), move || visible.visible(), move || hidden.fake.lock().unwrap().waiting().len())
    });
}

/// Makes a call until it is done; counts how often it was to be made again.
fn patiently<T>(again: &mut usize, mut call: impl FnMut() -> Result<T, Error>) -> T {
    loop {
        match call() {
            Ok(value) => return value,
            Err(error) => assert!(may_be_tried_again(&error), "{error}"),
        }
        *again += 1;
        assert!(*again < 100);
    }
}

#[test]
fn s3_jsonl_gets_through_a_server_that_fails_every_third_request() {
    let bucket = Bucket::start(3);
    let sink = bucket.sink();
    let mut again = 0;
    for epoch in 1..8 {
        let rows = numbers(epoch * 10..epoch * 10 + 5);
        let ctx = SinkCtx::new(identity(1), rows.schema());
        let AnySink::Transactional(mut writer) = sink.open(ctx).unwrap() else { panic!("it has two phases") };
        patiently(&mut again, || writer.write(&rows, None));
        let token = patiently(&mut again, || match writer.pre_commit(Epoch(epoch as u64))? {
            PreCommit::Token(token) => Ok(token),
            _ => panic!("rows were written"),
        });
        let mut committer = sink.committer(SinkCtx::for_commit(identity(1))).unwrap();
        let outcome = patiently(&mut again, || committer.commit(Epoch(epoch as u64), std::slice::from_ref(&token)));
        assert!(matches!(outcome.as_slice(), [CommitOutcome::Done | CommitOutcome::AlreadyDone]), "{outcome:?}");
    }
    assert!(again > 5, "{again}");
    let mut seen: Vec<i64> = bucket.visible().iter().flat_map(column).collect();
    seen.sort_unstable();
    assert_eq!(seen, (1..8).flat_map(|epoch| epoch * 10..epoch * 10 + 5).collect::<Vec<_>>());
}

#[test]
fn s3_jsonl_needs_the_clock_and_says_so() {
    let bucket = Bucket::start(0);
    let config = json!({ "bucket": "bucket", "endpoint": bucket.server.origin() });
    let sink = load("s3-jsonl", &json!({ "http": [bucket.server.origin()] })).sink(&config).unwrap();
    let mut committer = sink.committer(SinkCtx::for_commit(identity(1))).unwrap();
    let error = committer.recover(&[]).unwrap_err();
    assert!(error.to_string().contains("set `clock = true` in `allow` of [plugins.s3-jsonl]"), "{error}");
}

/// Against the server that `TIDEGATE_TEST_S3` names, with a bucket `tidegate`.
#[test]
#[ignore = "needs an S3 server: `cargo xtask services up s3` starts one and names it"]
#[allow(clippy::disallowed_methods, reason = "a name, not a time")]
fn s3_jsonl_on_a_real_server() {
    let endpoint = std::env::var("TIDEGATE_TEST_S3").expect("TIDEGATE_TEST_S3 names no server");
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default().as_nanos();
    let config = json!({ "bucket": "tidegate", "prefix": format!("tests/{now}/"), "endpoint": endpoint });
    let sink = load("s3-jsonl", &json!({ "http": [endpoint.trim_end_matches('/')], "clock": true })).sink(&config).unwrap();
    let prepare = |generation: u64, epoch: u64| {
        let rows = numbers(0..3);
        let AnySink::Transactional(mut writer) = sink.open(SinkCtx::new(identity(generation), rows.schema())).unwrap() else {
            panic!("it has two phases")
        };
        writer.write(&rows, None).unwrap();
        let PreCommit::Token(token) = writer.pre_commit(Epoch(epoch)).unwrap() else { panic!("rows were written") };
        token
    };
    let (kept, undone) = (prepare(1, 1), prepare(1, 2));
    let mut committer = sink.committer(SinkCtx::for_commit(identity(2))).unwrap();
    committer.recover(std::slice::from_ref(&kept)).unwrap();
    assert_eq!(committer.commit(Epoch(1), std::slice::from_ref(&kept)).unwrap(), [CommitOutcome::Done]);
    assert_eq!(committer.commit(Epoch(1), &[kept]).unwrap(), [CommitOutcome::AlreadyDone]);
    let lost = committer.commit(Epoch(2), &[undone]).unwrap();
    assert!(matches!(lost.as_slice(), [CommitOutcome::Lost(_)]), "{lost:?}");
    let aborted = prepare(2, 3);
    committer.abort(Epoch(3), std::slice::from_ref(&aborted)).unwrap();
    committer.abort(Epoch(3), &[aborted]).unwrap();
}

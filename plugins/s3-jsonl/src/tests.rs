//! Every crash point of the protocol against a small S3, with what a reader of the bucket sees at each moment.

use crate::S3Jsonl;
use crate::fake::Fake;
use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use tidegate_sdk::arrow::array::{ArrayRef, Int64Array, RecordBatch, StringArray};
use tidegate_sdk::net::http::{Request, Response};
use tidegate_sdk::testing::{SinkHarness, Writer, serve_http, set_secret};
use tidegate_sdk::{Error, Outcome, Result, Sink, Token, TwoPhaseSink, parse_config};

const CONFIG: &str = r#"{"bucket": "bucket", "prefix": "a/b/", "endpoint": "http://s3", "partBytes": 5242880}"#;

/// What goes wrong with a request, by its method and target.
type Faults = Rc<RefCell<Vec<(&'static str, &'static str, Fault)>>>;

#[derive(Clone, Copy)]
enum Fault {
    /// The server says this before it does anything.
    Says(u16),
    /// The server does it, and its answer is lost.
    AnswerLost,
}

/// A server, and the faults that it is to have; each happens once.
fn server() -> (Rc<RefCell<Fake>>, Faults) {
    set_secret("accessKeyId", "test");
    set_secret("secretAccessKey", "testsecret\n");
    let (fake, faults) = (Rc::new(RefCell::new(Fake::default())), Faults::default());
    let (served, failing) = (Rc::clone(&fake), Rc::clone(&faults));
    serve_http(move |request: &Request| -> Result<Response> {
        let target = request.url.target();
        let mut failing = failing.borrow_mut();
        let fault = failing.iter().position(|(method, part, _)| *method == request.method && target.contains(part));
        let fault = fault.map(|at| failing.remove(at).2);
        if let Some(Fault::Says(status)) = fault {
            return Ok(Response::of(status, &[("retry-after", "1")], ""));
        }
        let header = |name: &str| request.header(name).map(str::to_owned);
        let (status, headers, body) = served.borrow_mut().answer(request.method, target, header, &request.body);
        if fault.is_some() {
            return Err(Error::retryable("the connection broke before the answer was there"));
        }
        Ok(Response::new(status, headers, std::io::Cursor::new(body)))
    });
    (fake, faults)
}

fn rows(numbers: std::ops::Range<i64>) -> RecordBatch {
    RecordBatch::try_from_iter([("n", Arc::new(Int64Array::from_iter_values(numbers)) as ArrayRef)]).unwrap()
}

fn sink() -> SinkHarness<S3Jsonl> {
    SinkHarness::new(CONFIG, rows(0..0).schema())
}

fn epoch(writer: &mut Writer<S3Jsonl>, epoch: u64, numbers: std::ops::Range<i64>) -> Token {
    assert!(writer.write(&rows(numbers)).unwrap().bad.is_empty());
    writer.barrier(epoch).unwrap().unwrap()
}

/// The numbers of all lines of all objects, sorted.
fn seen(fake: &RefCell<Fake>) -> Vec<i64> {
    let mut numbers = Vec::new();
    for (key, object) in &fake.borrow().objects {
        assert!(key.starts_with("a/b/") && key.ends_with(".jsonl"), "{key}");
        for line in std::str::from_utf8(&object.bytes).unwrap().lines() {
            numbers.push(serde_json::from_str::<serde_json::Value>(line).unwrap()["n"].as_i64().unwrap());
        }
    }
    numbers.sort_unstable();
    numbers
}

fn is_retryable<T>(result: Result<T>) -> bool {
    matches!(result, Err(Error::Retryable { .. }))
}

#[test]
fn rows_appear_at_the_commit_and_not_before() {
    let (fake, _) = server();
    let sink = sink();
    let mut writer = sink.open().unwrap();
    assert!(fake.borrow().waiting().is_empty(), "opening touches nothing");
    writer.write(&rows(0..3)).unwrap();
    let token = epoch(&mut writer, 1, 3..5);
    // The next epoch begins before this one is committed.
    let next = epoch(&mut writer, 2, 5..6);
    assert!(seen(&fake).is_empty());
    assert_eq!(sink.commit(1, &[token]).unwrap(), [Outcome::Done]);
    assert_eq!(seen(&fake), [0, 1, 2, 3, 4]);
    assert_eq!(sink.commit(2, &[next]).unwrap(), [Outcome::Done]);
    assert_eq!(seen(&fake), [0, 1, 2, 3, 4, 5]);
    assert_eq!(writer.barrier(3).unwrap(), None, "an empty epoch has no token");
    assert!(fake.borrow().waiting().is_empty());
}

/// Rows of 100 kB each.
fn wide(numbers: std::ops::Range<i64>) -> RecordBatch {
    let text = "x".repeat(100_000);
    let texts = StringArray::from_iter_values(numbers.clone().map(|_| text.as_str()));
    RecordBatch::try_from_iter([("n", Arc::new(Int64Array::from_iter_values(numbers)) as ArrayRef), ("s", Arc::new(texts) as ArrayRef)])
        .unwrap()
}

#[test]
fn large_epochs_have_several_parts_and_a_failed_one_is_sent_again() {
    let (fake, faults) = server();
    let sink = SinkHarness::<S3Jsonl>::new(CONFIG, wide(0..0).schema());
    let mut writer = sink.open().unwrap();
    writer.write(&wide(0..60)).unwrap();
    faults.borrow_mut().extend([("POST", "uploads=", Fault::Says(503)), ("PUT", "partNumber=1", Fault::AnswerLost)]);
    assert!(is_retryable(writer.write(&wide(60..120))), "the upload was not begun");
    assert!(is_retryable(writer.write(&wide(60..120))), "the part may or may not be there");
    writer.write(&wide(60..120)).unwrap();
    let token = writer.barrier(1).unwrap().unwrap();
    assert_eq!(sink.commit(1, &[token]).unwrap(), [Outcome::Done]);
    assert_eq!(seen(&fake), (0..120).collect::<Vec<_>>());
}

#[test]
fn rows_behind_a_flush_that_no_prepare_follows_are_of_the_same_epoch() {
    let (fake, faults) = server();
    let sink = sink();
    let scope = tidegate_sdk::testing::scope(CONFIG);
    let mut writer = S3Jsonl::open(parse_config(CONFIG).unwrap(), &scope, &rows(0..0).schema()).unwrap();
    writer.write(&rows(0..2), None).unwrap();
    faults.borrow_mut().push(("PUT", "partNumber=1", Fault::Says(500)));
    assert!(is_retryable(writer.flush()));
    for numbers in [2..3, 3..5] {
        writer.flush().unwrap();
        writer.write(&rows(numbers), None).unwrap();
    }
    let token = writer.prepare(1).unwrap().unwrap();
    sink.commit(1, &[token]).unwrap();
    assert_eq!(seen(&fake), [0, 1, 2, 3, 4]);
}

#[test]
fn a_commit_may_be_repeated_by_anybody_and_its_answer_be_lost() {
    let (fake, faults) = server();
    let sink = sink();
    let token = epoch(&mut sink.open().unwrap(), 1, 0..2);
    let tokens = std::slice::from_ref(&token);
    faults.borrow_mut().extend([("HEAD", "", Fault::Says(503)), ("POST", "uploadId=", Fault::AnswerLost)]);
    assert!(is_retryable(sink.commit(1, tokens)));
    assert!(is_retryable(sink.commit(1, tokens)));
    assert_eq!(sink.commit(1, tokens).unwrap(), [Outcome::AlreadyDone]);
    assert_eq!(sink.at_generation(5).commit(1, tokens).unwrap(), [Outcome::AlreadyDone]);
    sink.abort(1, tokens).unwrap();
    assert_eq!(seen(&fake), [0, 1], "what was committed stays");
}

#[test]
fn what_was_given_up_or_has_expired_is_lost() {
    let (fake, _) = server();
    let sink = sink();
    let tokens: Vec<Token> = (0..2).map(|task| epoch(&mut sink.at_task(task, 2).open().unwrap(), 1, 0..1)).collect();
    sink.abort(1, &tokens[..1]).unwrap();
    sink.abort(1, &tokens[..1]).unwrap();
    assert_eq!(sink.commit(1, &tokens).unwrap(), [Outcome::Lost, Outcome::Done]);
    let expired = epoch(&mut sink.open().unwrap(), 2, 1..2);
    fake.borrow_mut().expire();
    assert_eq!(sink.commit(2, &[expired]).unwrap(), [Outcome::Lost]);
    assert_eq!(seen(&fake), [0]);
}

#[test]
fn recovery_undoes_older_generations_and_touches_nothing_else() {
    let (fake, faults) = server();
    let first = sink();
    let mut writer = first.open().unwrap();
    let kept = epoch(&mut writer, 5, 0..1);
    let _unnamed = epoch(&mut writer, 6, 1..2);
    let others = [first.of("run", "other"), first.of("other", "operator"), first.of("run", "operato"), first.at_generation(2)];
    let tokens: Vec<Token> = others.iter().map(|other| epoch(&mut other.open().unwrap(), 1, 7..8)).collect();
    let before = fake.borrow().waiting().len();
    let second = first.at_generation(2);
    faults.borrow_mut().push(("GET", "uploads=", Fault::Says(503)));
    assert!(is_retryable(second.recover(std::slice::from_ref(&kept))));
    for _ in 0..2 {
        second.recover(std::slice::from_ref(&kept)).unwrap();
        assert_eq!(fake.borrow().waiting().len(), before - 1);
    }
    assert_eq!(second.commit(5, &[kept]).unwrap(), [Outcome::Done]);
    for (other, token) in others.iter().zip(tokens) {
        assert_eq!(other.commit(1, &[token]).unwrap(), [Outcome::Done]);
    }
    assert_eq!(seen(&fake), [0, 7, 7, 7, 7]);
    // More uploads than a page of the list has.
    for number in 0..7 {
        epoch(&mut second.at_task(number, 7).open().unwrap(), 3, 0..1);
    }
    second.at_generation(3).recover(&[]).unwrap();
    assert!(fake.borrow().waiting().is_empty());
}

#[test]
fn a_fenced_writer_cannot_disturb_its_successor() {
    let (fake, _) = server();
    let old = sink();
    let scope = tidegate_sdk::testing::scope(CONFIG);
    let mut zombie = S3Jsonl::open(parse_config(CONFIG).unwrap(), &scope, &rows(0..0).schema()).unwrap();
    zombie.write(&rows(0..1), None).unwrap();
    zombie.flush().unwrap();
    let new = old.at_generation(2);
    new.recover(&[]).unwrap();
    let token = epoch(&mut new.open().unwrap(), 1, 0..1);
    zombie.write(&rows(1..2), None).unwrap();
    assert!(matches!(zombie.flush(), Err(Error::Fatal(message)) if message.contains("is gone")));
    assert_eq!(new.commit(1, &[token]).unwrap(), [Outcome::Done]);
    assert_eq!(seen(&fake), [0]);
}

#[test]
fn servers_that_refuse_say_why_and_no_secret_is_shown() {
    let (_, faults) = server();
    set_secret("accessKeyId", "somebody else");
    let mut writer = sink().open().unwrap();
    writer.write(&rows(0..1)).unwrap();
    let error = writer.barrier(1).unwrap_err();
    assert!(matches!(&error, Error::Config(message) if message.contains("403 AccessDenied: it is so")), "{error:?}");
    assert!(!error.message().contains("somebody") && !error.message().contains("testsecret"));
    set_secret("accessKeyId", "test");
    faults.borrow_mut().push(("POST", "uploads=", Fault::Says(429)));
    let error = writer.barrier(1).unwrap_err();
    assert!(matches!(&error, Error::Retryable { after: Some(_), .. }), "{error:?}");
    let token = writer.barrier(1).unwrap().unwrap();
    assert!(!String::from_utf8(token).unwrap().contains("testsecret"));
}

#[test]
fn mistakes_are_found_before_anything_runs() {
    let bind = |config: &str| SinkHarness::<S3Jsonl>::new(config, rows(0..0).schema()).bind();
    let error = bind(CONFIG).err().unwrap();
    assert!(matches!(&error, Error::Config(message) if message.contains("`accessKeyId`")), "{error}");
    server();
    bind(CONFIG).unwrap();
    for (config, why) in [
        (r#"{"bucket": ""}"#, "`bucket`"),
        (r#"{"bucket": "B/c"}"#, "`bucket`"),
        (r#"{"bucket": "b", "prefix": "a"}"#, "ends with `/`"),
        (r#"{"bucket": "b", "prefix": "/a/"}"#, "does not begin"),
        (r#"{"bucket": "b", "partBytes": 1000}"#, "`partBytes`"),
        (r#"{"bucket": "b", "endpoint": "http://h/x"}"#, "has no path"),
        (r#"{"bucket": "b", "endpoint": "h"}"#, "`endpoint`"),
        (r#"{"bucket": "b", "part": 1}"#, "unknown key"),
    ] {
        let error = bind(config).err().unwrap();
        assert!(matches!(&error, Error::Config(message) if message.contains(why)), "{config}: {error}");
    }
}

#[test]
fn the_bucket_stands_in_the_path_or_in_the_host() {
    server();
    for (more, authority, target) in [
        ("", "s3.us-east-1.amazonaws.com", "/b?prefix=o%2Foperator.run.g&uploads="),
        (r#", "pathStyle": false, "region": "eu-west-1""#, "b.s3.eu-west-1.amazonaws.com", "/?prefix=o%2Foperator.run.g&uploads="),
    ] {
        serve_http(move |request: &Request| {
            assert_eq!((request.url.authority(), request.url.target()), (authority, target));
            Ok(Response::of(200, &[], "<R/>"))
        });
        let config = format!(r#"{{"bucket": "b", "prefix": "o/"{more}}}"#);
        SinkHarness::<S3Jsonl>::new(&config, rows(0..0).schema()).recover(&[]).unwrap();
    }
}

//! The sink against a server that a test scripts. It is driven by its own functions: the harness of sinks is for two phases.

use crate::HttpPost;
use crate::config::Config;
use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;
use tidegate_sdk::arrow::array::{ArrayRef, BinaryArray, Int64Array, RecordBatch};
use tidegate_sdk::net::http::{Request, Response};
use tidegate_sdk::testing::{SinkHarness, scope, serve_http, set_secret};
use tidegate_sdk::{Error, Result, RowError, Sink, parse_config};

fn rows(numbers: std::ops::Range<i64>) -> RecordBatch {
    RecordBatch::try_from_iter([("n", Arc::new(Int64Array::from_iter_values(numbers)) as ArrayRef)]).unwrap()
}

fn keys(numbers: std::ops::Range<i64>) -> BinaryArray {
    BinaryArray::from_iter_values(numbers.map(i64::to_be_bytes))
}

fn config(more: &str) -> String {
    format!(r#"{{"url": "http://h/in"{more}}}"#)
}

fn open(more: &str) -> HttpPost {
    let text = config(more);
    HttpPost::open(parse_config::<Config>(&text).unwrap(), &scope(&text), &rows(0..0).schema()).unwrap()
}

fn write(sink: &mut HttpPost, numbers: std::ops::Range<i64>) -> Result<()> {
    sink.write(&rows(numbers.clone()), Some(&keys(numbers))).map(|written| assert!(written.bad.is_empty()))
}

/// What the server was told: body and key of each request.
type Seen = Rc<RefCell<Vec<(String, Option<String>)>>>;

/// Notes every request, and answers with what `answer` makes of its number and body.
fn server(answer: impl Fn(usize, &str) -> Result<Response> + 'static) -> Seen {
    let seen = Seen::default();
    let noted = Rc::clone(&seen);
    serve_http(move |request: &Request| {
        let body = String::from_utf8(request.body.clone()).unwrap();
        noted.borrow_mut().push((body.clone(), request.header("idempotency-key").map(str::to_owned)));
        let number = noted.borrow().len();
        answer(number, &body)
    });
    seen
}

fn ok() -> Result<Response> {
    Ok(Response::of(200, &[], ""))
}

fn bodies(seen: &Seen) -> Vec<String> {
    seen.borrow().iter().map(|(body, _)| body.clone()).collect()
}

#[test]
fn rows_are_cut_into_requests_and_a_flush_delivers_the_rest() {
    let seen = server(|_, _| ok());
    let mut sink = open(r#", "maxRows": 2, "acrossBatches": true"#);
    write(&mut sink, 0..3).unwrap();
    assert!(bodies(&seen).is_empty(), "a batch is taken before anything is sent");
    write(&mut sink, 3..4).unwrap();
    assert_eq!(bodies(&seen), ["{\"n\":0}\n{\"n\":1}\n"]);
    assert!(sink.flush().unwrap().bad.is_empty());
    assert_eq!(bodies(&seen)[1..], ["{\"n\":2}\n{\"n\":3}\n"]);
    sink.flush().unwrap();
    assert_eq!(bodies(&seen).len(), 2, "an empty flush sends nothing");
}

#[test]
fn a_request_is_an_array_or_one_row_if_that_is_wanted() {
    let seen = server(|_, _| ok());
    let mut sink = open(r#", "format": "array""#);
    write(&mut sink, 0..2).unwrap();
    sink.flush().unwrap();
    let mut sink = open(r#", "perRow": true, "maxRows": 7"#);
    write(&mut sink, 2..4).unwrap();
    sink.flush().unwrap();
    assert_eq!(bodies(&seen), [r#"[{"n":0},{"n":1}]"#, r#"{"n":2}"#, r#"{"n":3}"#]);
}

#[test]
fn bytes_bound_a_request_and_one_row_may_exceed_them() {
    let seen = server(|_, _| ok());
    let mut sink = open(r#", "maxBytes": 17, "acrossBatches": true"#);
    write(&mut sink, 0..3).unwrap();
    write(&mut sink, 10_000_000_000_000..10_000_000_000_001).unwrap();
    sink.flush().unwrap();
    assert_eq!(bodies(&seen), ["{\"n\":0}\n{\"n\":1}\n", "{\"n\":2}\n", "{\"n\":10000000000000}\n"]);
}

#[test]
fn what_fails_is_sent_again_under_the_same_key_and_nothing_is_lost() {
    let seen = server(|number, _| match number {
        2 => Ok(Response::of(503, &[("retry-after", "3")], "busy")),
        3 => Err(Error::retryable("the connection was refused")),
        _ => ok(),
    });
    let mut sink = open(r#", "maxRows": 2, "idempotencyKey": true, "acrossBatches": true"#);
    write(&mut sink, 0..4).unwrap();
    let error = write(&mut sink, 4..5).unwrap_err();
    assert!(
        matches!(&error, Error::Retryable { after: Some(after), message } if *after == Duration::from_secs(3) && message.contains("busy"))
    );
    assert!(matches!(write(&mut sink, 4..5), Err(Error::Retryable { after: None, .. })));
    write(&mut sink, 4..5).unwrap();
    sink.flush().unwrap();
    let pairs = seen.borrow().clone();
    let bodies: Vec<&str> = pairs.iter().map(|(body, _)| body.as_str()).collect();
    assert_eq!(
        bodies,
        ["{\"n\":0}\n{\"n\":1}\n", "{\"n\":2}\n{\"n\":3}\n", "{\"n\":2}\n{\"n\":3}\n", "{\"n\":2}\n{\"n\":3}\n", "{\"n\":4}\n"]
    );
    assert!(pairs[1].1 == pairs[2].1 && pairs[2].1 == pairs[3].1 && pairs[0].1 != pairs[1].1, "{pairs:?}");
}

#[test]
fn keys_are_the_same_after_a_crash_and_others_for_other_rows() {
    let seen = server(|_, _| ok());
    for numbers in [0..2, 0..2, 0..3] {
        let mut sink = open(r#", "idempotencyKey": true"#);
        write(&mut sink, numbers).unwrap();
        sink.flush().unwrap();
    }
    let mut other = HttpPost::open(
        parse_config(&config(r#", "idempotencyKey": true"#)).unwrap(),
        &tidegate_sdk::Scope { run_id: "another".into(), ..scope("{}") },
        &rows(0..0).schema(),
    )
    .unwrap();
    write(&mut other, 0..2).unwrap();
    other.flush().unwrap();
    let keys: Vec<String> = seen.borrow().iter().map(|(_, key)| key.clone().unwrap()).collect();
    assert_eq!(keys[0], keys[1]);
    assert_ne!(keys[1], keys[2], "it begins alike and has a row more");
    assert_ne!(keys[0], keys[3], "another run");
    assert!(keys.iter().all(|key| key.len() == 32));
}

#[test]
fn a_batch_is_delivered_by_its_own_call_and_goes_on_where_it_failed() {
    let seen = server(|number, _| if number == 2 { Ok(Response::of(500, &[], "")) } else { ok() });
    let mut sink = open(r#", "maxRows": 2, "idempotencyKey": true"#);
    assert!(matches!(write(&mut sink, 0..5), Err(Error::Retryable { .. })));
    sink.flush().unwrap();
    assert_eq!(bodies(&seen).len(), 2, "a batch that was not taken is not flushed");
    write(&mut sink, 0..5).unwrap();
    let expected = ["{\"n\":0}\n{\"n\":1}\n", "{\"n\":2}\n{\"n\":3}\n", "{\"n\":2}\n{\"n\":3}\n", "{\"n\":4}\n"];
    assert_eq!(bodies(&seen), expected);
    sink.flush().unwrap();
    // The same rows as a batch of their own are other rows.
    write(&mut sink, 0..1).unwrap();
    write(&mut sink, 0..1).unwrap();
    assert_eq!(bodies(&seen)[4..], ["{\"n\":0}\n", "{\"n\":0}\n"]);
}

#[test]
fn a_batch_that_does_not_come_again_is_not_delivered() {
    let seen = server(|number, _| if number == 1 { Err(Error::retryable("refused")) } else { ok() });
    let mut sink = open("");
    assert!(write(&mut sink, 0..2).is_err());
    write(&mut sink, 7..8).unwrap();
    assert_eq!(bodies(&seen)[1..], ["{\"n\":7}\n"]);
}

#[test]
fn a_status_about_the_rows_makes_them_bad_rows() {
    server(|_, body| if body.contains('2') { Ok(Response::of(422, &[], "no such n")) } else { ok() });
    let message = "the server answered with status 422: no such n (a request of 2 rows)";
    let expected = |rows: [u64; 2]| rows.map(|row| RowError { row, column: None, message: message.into() });
    // Across batches a row is known by its number since the last flush.
    let mut sink = open(r#", "maxRows": 2, "acrossBatches": true"#);
    write(&mut sink, 0..3).unwrap();
    write(&mut sink, 3..5).unwrap();
    assert_eq!(sink.flush().unwrap().bad, expected([2, 3]));
    // Otherwise by its number in the batch, at once.
    let mut sink = open(r#", "maxRows": 2"#);
    assert_eq!(sink.write(&rows(0..4), None).unwrap().bad, expected([2, 3]));
    let mut sink = open(r#", "perRow": true"#);
    for _ in 0..2 {
        let bad = sink.write(&rows(1..4), None).unwrap().bad;
        assert_eq!((bad.len(), bad[0].row, bad[0].message.as_str()), (1, 1, "the server answered with status 422: no such n"));
    }
    assert!(sink.flush().unwrap().bad.is_empty());
}

#[test]
fn a_status_about_the_address_or_who_asks_costs_no_row() {
    for status in [301, 401, 403, 404, 405] {
        server(move |number, _| if number == 1 { Ok(Response::of(status, &[], "")) } else { ok() });
        let mut sink = open("");
        let refused = write(&mut sink, 0..1);
        assert!(matches!(refused, Err(Error::Config(message)) if message.contains(&status.to_string())), "{status}");
        write(&mut sink, 0..1).unwrap();
    }
}

#[test]
fn the_secret_is_sent_and_its_absence_is_told_before_anything_runs() {
    let bind = |more: &str| SinkHarness::<HttpPost>::new(&config(more), rows(0..0).schema()).bind();
    let with = r#", "authorization": "token", "headers": {"X-Team": "blue"}"#;
    assert!(matches!(bind(with), Err(Error::Config(message)) if message.contains("`token`")));
    set_secret("token", "Bearer xyz");
    bind(with).unwrap();
    serve_http(|request: &Request| {
        assert_eq!((request.header("authorization"), request.header("x-team")), (Some("Bearer xyz"), Some("blue")));
        assert_eq!(request.header("content-type"), Some("application/x-ndjson"));
        ok()
    });
    let mut sink = open(with);
    write(&mut sink, 0..1).unwrap();
    sink.flush().unwrap();
}

#[test]
fn mistakes_are_found_before_anything_runs() {
    for (more, why) in [
        (r#", "maxRows": 0"#, "`maxRows`"),
        (r#", "maxBytes": 0"#, "`maxBytes`"),
        (r#", "timeoutMs": 0"#, "`timeoutMs`"),
        (r#", "headers": {"Idempotency-Key": "x"}"#, "sets itself"),
        (r#", "formats": "array""#, "did you mean `format`?"),
    ] {
        let error = SinkHarness::<HttpPost>::new(&config(more), rows(0..0).schema()).bind().err().unwrap();
        assert!(matches!(&error, Error::Config(message) if message.contains(why)), "{more}: {error}");
    }
    let error = SinkHarness::<HttpPost>::new(r#"{"url": "h/in"}"#, rows(0..0).schema()).bind().err().unwrap();
    assert!(error.message().starts_with("`url`: "), "{error}");
}

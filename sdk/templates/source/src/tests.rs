//! The harness reads the source again from every position it gave. No request leaves the machine: `serve_http` answers.

use crate::Api;
use serde_json::{Value, json};
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::Duration;
use tidegate_sdk::arrow::array::cast::AsArray;
use tidegate_sdk::arrow::array::types::Int64Type;
use tidegate_sdk::net::http::{Request, Response};
use tidegate_sdk::testing::{Read, SourceHarness, scope, serve_http, set_secret};
use tidegate_sdk::{Error, PollRequest, Polled, Result, Source, parse_config};

/// A collection that may grow, in pages of three.
fn serve(items: &Rc<RefCell<Vec<Value>>>) {
    set_secret("token", "sesame");
    let items = Rc::clone(items);
    serve_http(move |request: &Request| -> Result<Response> {
        assert_eq!(request.header("authorization"), Some("Bearer sesame"));
        let (path, query) = request.url.target().split_once('?').unwrap();
        assert_eq!(path, "/v1/teas");
        let from = match query.strip_prefix("limit=3") {
            Some("") => 0,
            more => more
                .unwrap()
                .strip_prefix("&cursor=%23")
                .unwrap()
                .parse()
                .unwrap(),
        };
        let items = items.borrow();
        let page: Vec<&Value> = items.iter().skip(from).take(3).collect();
        let next = (from + 3 < items.len()).then(|| format!("#{}", from + 3));
        Ok(Response::of(
            200,
            &[],
            json!({ "items": page, "next": next }).to_string(),
        ))
    });
}

fn teas(count: usize) -> Rc<RefCell<Vec<Value>>> {
    let tea = |id| json!({ "id": id, "name": "tea", "amount": 2.5 });
    Rc::new(RefCell::new((0..count).map(tea).collect()))
}

fn config() -> String {
    json!({ "url": "https://h/v1/", "collections": ["teas"], "pageRows": 3 }).to_string()
}

fn read(max_rows: u32) -> Read {
    let source = SourceHarness::<Api>::bind(&config(), None).unwrap();
    let mut reads = source
        .read(source.splits().unwrap(), max_rows, usize::MAX)
        .unwrap();
    reads.remove("teas").unwrap()
}

fn ids(read: &Read) -> Vec<i64> {
    read.rows
        .column(1)
        .as_primitive::<Int64Type>()
        .values()
        .to_vec()
}

#[test]
fn every_item_is_read_once_whatever_the_polls() {
    for count in [0, 1, 3, 8] {
        serve(&teas(count));
        for max_rows in [1, 2, 100] {
            assert_eq!(ids(&read(max_rows)), (0..count as i64).collect::<Vec<_>>());
        }
    }
}

#[test]
fn every_position_gives_the_rest() {
    serve(&teas(8));
    let source = SourceHarness::<Api>::bind(&config(), None).unwrap();
    for max_rows in [1, 2, 100] {
        source.assert_replays(max_rows).unwrap();
    }
}

#[test]
fn an_item_that_is_none_costs_itself() {
    let items = teas(5);
    items.borrow_mut()[1] = json!({ "id": "x" });
    items.borrow_mut()[4] = json!("tea");
    serve(&items);
    let read = read(2);
    assert_eq!(ids(&read), [0, 2, 3]);
    let raw: Vec<&[u8]> = read.bad.iter().map(|bad| bad.raw.as_slice()).collect();
    assert_eq!(raw, [br#"{"id":"x"}"#.as_slice(), br#""tea""#]);
}

/// An opened reader of all the teas.
fn open() -> Api {
    let source = SourceHarness::<Api>::bind(&config(), None).unwrap();
    let mut api = Api::open(parse_config(&config()).unwrap(), &scope(&config()), None).unwrap();
    api.assign(source.splits().unwrap()).unwrap();
    // So that a test has not to wait before it polls again.
    api.interval = Duration::ZERO;
    api
}

fn poll(api: &mut Api) -> Result<Polled> {
    api.poll(PollRequest {
        max_rows: 100,
        max_bytes: 1 << 20,
        deadline: Duration::ZERO,
    })
}

/// How many rows a poll gives, and whether these were all for now.
fn polled(api: &mut Api) -> (usize, bool) {
    let polled = poll(api).unwrap();
    (polled.chunks[0].rows.num_rows(), !polled.states.is_empty())
}

#[test]
fn what_comes_later_is_read_later() {
    let items = teas(2);
    serve(&items);
    let mut api = open();
    assert_eq!(polled(&mut api), (2, true));
    assert_eq!(polled(&mut api), (0, true));
    *items.borrow_mut() = teas(7).take();
    let polls: Vec<_> = (0..3).map(|_| polled(&mut api)).collect();
    assert_eq!(polls, [(1, false), (3, false), (1, true)]);
}

#[test]
fn a_busy_server_is_asked_again_and_one_that_refuses_is_not() {
    set_secret("token", "sesame");
    let asked = Rc::new(Cell::new(0));
    serve_http(move |_: &Request| -> Result<Response> {
        asked.set(asked.get() + 1);
        Ok(match asked.get() {
            1 => Response::of(429, &[("retry-after", "7")], "slowly"),
            2 => Response::of(503, &[], ""),
            3 => Response::of(200, &[], "<html>"),
            4 => Response::of(200, &[], r#"{"items": [{"id": 1}]}"#),
            _ => Response::of(401, &[], "who are you?"),
        })
    });
    let mut api = open();
    let after = |error: Error| match error {
        Error::Retryable { after, .. } => after,
        other => panic!("{other}"),
    };
    assert_eq!(
        after(poll(&mut api).err().unwrap()),
        Some(Duration::from_secs(7))
    );
    assert_eq!(after(poll(&mut api).err().unwrap()), None);
    assert_eq!(after(poll(&mut api).err().unwrap()), None);
    assert_eq!(polled(&mut api), (1, true));
    let error = poll(&mut api).err().unwrap();
    assert!(
        matches!(&error, Error::Config(message) if message.contains("who are you?")),
        "{error}"
    );
}

#[test]
fn mistakes_are_found_while_planning() {
    let bind = |config: &str| {
        SourceHarness::<Api>::bind(config, None)
            .err()
            .unwrap()
            .to_string()
    };
    assert!(bind(&config()).contains("no secret `token`"));
    set_secret("token", "sesame");
    for (config, why) in [
        (json!({ "url": "h", "collections": [] }), "no `http://`"),
        (
            json!({ "url": "http://h/?a=b", "collections": [] }),
            "has a query",
        ),
        (
            json!({ "url": "http://h", "collections": [" "] }),
            "a name that is none",
        ),
        (
            json!({ "url": "http://h", "collections": [], "pageRows": 0 }),
            "`pageRows` is 0",
        ),
        (
            json!({ "url": "http://h", "colections": [] }),
            "did you mean `collections`?",
        ),
    ] {
        let error = bind(&config.to_string());
        assert!(error.contains(why), "{config}: {error}");
    }
}

use crate::HttpPoll;
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::Duration;
use tidegate_sdk::arrow::array::types::Int64Type;
use tidegate_sdk::arrow::array::{RecordBatch, cast::AsArray};
use tidegate_sdk::net::http::{Request, Response};
use tidegate_sdk::testing::{Read, SourceHarness, metric, scope, serve_http};
use tidegate_sdk::{Error, PollRequest, Polled, Result, Source, Split, SplitState, parse_config};

const COLUMNS: &str = r#"[{"name": "n", "type": "int64"}, {"name": "s", "path": "in.s", "type": "string"}]"#;

fn config(more: &str) -> String {
    format!(r#"{{"url": "http://h/rows", "columns": {COLUMNS}{more}}}"#)
}

fn bind(more: &str) -> SourceHarness<HttpPoll> {
    SourceHarness::bind(&config(more), None).unwrap()
}

fn read(source: &SourceHarness<HttpPoll>, max_rows: u32) -> Result<Read> {
    Ok(source.read(source.splits()?, max_rows, usize::MAX)?.remove("all").unwrap())
}

fn numbers(rows: &RecordBatch) -> Vec<Option<i64>> {
    rows.column(0).as_primitive::<Int64Type>().iter().collect()
}

fn item(n: i64) -> String {
    format!(r#"{{"n": {n}, "in": {{"s": "x{n}"}}}}"#)
}

fn items(numbers: std::ops::Range<i64>) -> String {
    format!("[{}]", numbers.map(item).collect::<Vec<_>>().join(", "))
}

fn page(body: String) -> Result<Response> {
    Ok(Response::of(200, &[], body))
}

const BY_CURSOR: &str = r#", "rows": "data.items", "nextField": "next", "cursorParam": "after""#;

/// Four pages of an API with cursors: 3 rows, 2, none, 1.
fn by_cursor(request: &Request) -> Result<Response> {
    let (rows, next) = match request.url.target() {
        "/rows" => (items(0..3), r#""a b""#),
        "/rows?after=a%20b" => (items(3..5), "17"),
        "/rows?after=17" => ("null".into(), r#""end""#),
        "/rows?after=end" => (items(5..6), "null"),
        other => panic!("nobody asks for {other}"),
    };
    page(format!(r#"{{"data": {{"items": {rows}}}, "next": {next}}}"#))
}

#[test]
fn pages_follow_their_cursors_and_every_position_goes_on_behind_its_rows() {
    serve_http(by_cursor);
    let source = bind(BY_CURSOR);
    assert!(source.bounded());
    for max_rows in [1, 2, 3, 100] {
        let read = read(&source, max_rows).unwrap();
        assert_eq!(numbers(&read.rows), (0..6).map(Some).collect::<Vec<_>>());
        assert_eq!(read.rows.column(1).as_string::<i32>().value(4), "x4");
        assert!(read.finished);
        source.assert_replays(max_rows).unwrap();
    }
}

#[test]
fn pages_follow_links_in_the_header_and_only_on_the_same_server() {
    serve_http(|request: &Request| {
        let (rows, link) = match request.url.target() {
            "/rows" => (items(0..2), "</rows?p=1>; rel=first, <?p=2>; rel=\"next\""),
            "/rows?p=2" => (items(2..3), "<http://h/rows?p=3>; rel=next"),
            _ => (items(3..4), "<?p=1>; rel=first"),
        };
        Ok(Response::of(200, &[("Link", link)], rows))
    });
    let source = bind(r#", "nextLink": true"#);
    assert_eq!(numbers(&read(&source, 100).unwrap().rows), (0..4).map(Some).collect::<Vec<_>>());
    source.assert_replays(1).unwrap();
    serve_http(|_: &Request| Ok(Response::of(200, &[("Link", "<https://elsewhere/>; rel=next")], items(0..1))));
    let error = read(&source, 100).unwrap_err();
    assert!(matches!(&error, Error::Config(message) if message.contains("https://elsewhere, which is not http://h")), "{error}");
}

#[test]
fn a_page_may_be_lines_and_an_address_may_stand_in_the_page() {
    serve_http(|_: &Request| page(format!("{}\r\n\n{}\n", item(1), item(2))));
    assert_eq!(numbers(&read(&bind(r#", "format": "lines""#), 100).unwrap().rows), [Some(1), Some(2)]);
    serve_http(|request: &Request| match request.url.target() {
        "/rows" => page(r#"{"items": [{"n": 1}], "more": "/rows/2"}"#.into()),
        _ => page(r#"{"items": [{"n": 2}], "more": ""}"#.into()),
    });
    assert_eq!(numbers(&read(&bind(r#", "rows": "items", "nextField": "more""#), 100).unwrap().rows), [Some(1), Some(2)]);
}

#[test]
fn what_is_no_row_is_a_null_or_a_bad_record_that_says_where() {
    serve_http(|_: &Request| page(r#"[{"n": 1}, {"n": "x"}, 7, {"n": null, "in": {"s": 5}}, {"n": 1.5}]"#.into()));
    let read_null = read(&bind(""), 2).unwrap();
    assert_eq!(numbers(&read_null.rows), [Some(1), None, None, None, None]);
    assert_eq!(metric("unreadable"), Some(3.0));
    let read_bad = read(&bind(r#", "onError": "bad""#), 2).unwrap();
    assert_eq!(numbers(&read_bad.rows), [Some(1), None]);
    let bad: Vec<_> = read_bad.bad.iter().map(|bad| (bad.row, bad.message.as_str(), bad.raw.as_slice())).collect();
    let expected = [
        (Some(1), "column `n` is `\"x\"`, which is no int64", &br#"{"n": "x"}"#[..]),
        (Some(1), "`7` is no JSON object", b"7"),
        (Some(2), "column `n` is `1.5`, which is no int64", br#"{"n": 1.5}"#),
    ];
    assert_eq!(bad, expected);
}

#[test]
fn servers_that_fail_are_asked_again_and_those_that_refuse_end_the_run() {
    let asked = Rc::new(Cell::new(0));
    let count = Rc::clone(&asked);
    serve_http(move |request: &Request| {
        count.set(count.get() + 1);
        match count.get() {
            1 => Err(Error::retryable("the connection was refused")),
            2 => Ok(Response::of(429, &[("retry-after", "2")], "")),
            3 => page("[{\"n\": 1".into()),
            4 => page("<html>a proxy's excuse</html>".into()),
            _ => by_cursor(request),
        }
    });
    let (mut source, text) = open(BY_CURSOR, None);
    for why in ["refused", "429", "no JSON", "no JSON"] {
        let error = poll(&mut source).unwrap_err();
        let Error::Retryable { message, after } = &error else { panic!("{error:?}") };
        assert!(message.contains(why), "{error}");
        assert_eq!(*after, (why == "429").then(|| Duration::from_secs(2)));
    }
    assert_eq!(poll(&mut source).unwrap().chunks[0].rows.num_rows(), 3, "{text}");
    for (answer, why) in [
        (Response::of(404, &[], "nothing here"), "nothing here"),
        (Response::of(200, &[], "{\"data\": {\"items\": {}}}"), "no array"),
        (Response::of(200, &[], "x".repeat(200)), "raise `maxPageBytes`"),
    ] {
        let answer = RefCell::new(Some(answer));
        serve_http(move |_: &Request| Ok(answer.borrow_mut().take().unwrap()));
        let (mut source, _) = open(&format!(r#"{BY_CURSOR}, "maxPageBytes": 100"#), None);
        let error = poll(&mut source).err().unwrap();
        assert!(matches!(&error, Error::Config(message) if message.contains(why)), "{error:?}");
    }
}

/// A reader of the one split at a position.
fn open(more: &str, position: Option<Vec<u8>>) -> (HttpPoll, String) {
    let text = config(more);
    let mut source = HttpPoll::open(parse_config(&text).unwrap(), &scope(&text), None).unwrap();
    source.assign(vec![Split { id: "all".into(), details: Vec::new(), position }]).unwrap();
    (source, text)
}

fn poll(source: &mut HttpPoll) -> Result<Polled> {
    source.poll(PollRequest { max_rows: 100, max_bytes: 1 << 20, deadline: Duration::ZERO })
}

/// The numbers of a poll, and whether it had caught up.
fn polled(source: &mut HttpPoll) -> (Vec<Option<i64>>, bool) {
    let polled = poll(source).unwrap();
    let caught_up = matches!(polled.states.as_slice(), [(_, SplitState::CaughtUp)]);
    assert_eq!(caught_up, polled.retry_after == Some(Duration::from_millis(500)));
    (polled.chunks.iter().flat_map(|chunk| numbers(&chunk.rows)).collect(), caught_up)
}

#[test]
fn one_document_is_read_again_when_its_tag_has_changed() {
    let document = Rc::new(RefCell::new(("\"v1\"", items(0..2))));
    let served = Rc::clone(&document);
    serve_http(move |request: &Request| {
        let (tag, body) = served.borrow().clone();
        if request.header("if-none-match") == Some(tag) {
            return Ok(Response::of(304, &[("etag", tag)], ""));
        }
        Ok(Response::of(200, &[("ETag", tag)], body))
    });
    let more = r#", "watch": true, "intervalMs": 500"#;
    assert!(!bind(more).bounded());
    let (mut source, _) = open(more, None);
    assert_eq!(polled(&mut source), (vec![Some(0), Some(1)], true));
    assert_eq!(polled(&mut source), (vec![], true));
    *document.borrow_mut() = ("\"v2\"", items(7..8));
    assert_eq!(polled(&mut source), (vec![Some(7)], true));
    // Opened again in the middle of a document: the rest of it, or all of another one.
    let middle = br#"{"row":1,"tag":"\"v1\""}"#.to_vec();
    *document.borrow_mut() = ("\"v1\"", items(0..2));
    assert_eq!(polled(&mut open(more, Some(middle.clone())).0), (vec![Some(1)], true));
    *document.borrow_mut() = ("\"v3\"", items(0..2));
    assert_eq!(polled(&mut open(more, Some(middle)).0), (vec![Some(0), Some(1)], true));
}

#[test]
fn a_document_without_a_tag_is_known_by_its_bytes() {
    let document = Rc::new(RefCell::new(items(0..1)));
    let served = Rc::clone(&document);
    serve_http(move |_: &Request| page(served.borrow().clone()));
    let (mut source, _) = open(r#", "watch": true, "intervalMs": 500"#, None);
    assert_eq!(polled(&mut source), (vec![Some(0)], true));
    assert_eq!(polled(&mut source), (vec![], true));
    *document.borrow_mut() = items(4..5);
    assert_eq!(polled(&mut source), (vec![Some(4)], true));
}

#[test]
fn the_last_page_is_watched_for_rows_and_for_a_next_one() {
    let last = Rc::new(RefCell::new((items(0..1), "null")));
    let served = Rc::clone(&last);
    serve_http(move |request: &Request| match request.url.target() {
        "/rows" => {
            let (rows, next) = served.borrow().clone();
            page(format!(r#"{{"data": {{"items": {rows}}}, "next": {next}}}"#))
        }
        _ => page(format!(r#"{{"data": {{"items": {}}}}}"#, items(10..11))),
    });
    let (mut source, _) = open(&format!(r#"{BY_CURSOR}, "watch": true, "intervalMs": 500"#), None);
    assert_eq!(polled(&mut source), (vec![Some(0)], true));
    *last.borrow_mut() = (items(0..3), "null");
    assert_eq!(polled(&mut source), (vec![Some(1), Some(2)], true));
    *last.borrow_mut() = (items(0..3), "2");
    assert_eq!(polled(&mut source), (vec![], false));
    assert_eq!(polled(&mut source), (vec![Some(10)], true));
    // A page that has lost rows gives no others in their place.
    *last.borrow_mut() = (items(0..1), "null");
    let more = format!(r#"{BY_CURSOR}, "watch": true"#);
    let error = poll(&mut open(&more, Some(br#"{"row":3}"#.to_vec())).0).err().unwrap();
    assert!(matches!(&error, Error::Fatal(message) if message.contains("1 rows now, and 3 were read")), "{error}");
}

#[test]
fn only_the_columns_that_somebody_reads_are_made() {
    serve_http(|_: &Request| page(items(0..2)));
    let source = SourceHarness::<HttpPoll>::bind(&config(""), Some(&["s"])).unwrap();
    let read = read(&source, 10).unwrap();
    assert_eq!((read.rows.num_columns(), read.rows.schema().field(0).name().as_str()), (1, "s"));
}

#[test]
fn mistakes_are_found_before_anything_runs() {
    for (more, why) in [
        (r#", "cursorParam": "after""#, "`nextField` does not say"),
        (r#", "nextField": "a", "nextLink": true"#, "leave one out"),
        (r#", "nextField": "a..b""#, "a name is empty"),
        (r#", "format": "lines", "rows": "a""#, "every line is a row"),
        (r#", "maxPageBytes": 0"#, "`maxPageBytes`"),
        (r#", "authorization": "token""#, "`token`"),
        (r#", "row": "a""#, "did you mean `rows`?"),
    ] {
        let error = SourceHarness::<HttpPoll>::bind(&config(more), None).err().unwrap();
        assert!(matches!(&error, Error::Config(message) if message.contains(why)), "{more}: {error}");
    }
}

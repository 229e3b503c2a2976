use crate::TcpLines;
use std::collections::VecDeque;
use std::io::{self, Read, Write};
use std::time::Duration;
use tidegate_sdk::arrow::array::cast::AsArray;
use tidegate_sdk::net::tcp::Wire;
use tidegate_sdk::testing::{SourceHarness, logs, metric, scope, serve_tcp};
use tidegate_sdk::{Error, PollRequest, Polled, Result, Source, Split, SplitState, parse_config};

/// What a connection gives, read by read.
#[derive(Debug, Clone)]
enum Piece {
    Bytes(&'static str),
    /// Nothing yet.
    Silence,
    Break,
}
use Piece::{Break, Bytes, Silence};

/// A connection that gives these pieces and ends.
struct Script(VecDeque<Piece>);

impl Read for Script {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        match self.0.pop_front() {
            None => Ok(0),
            Some(Bytes(text)) => {
                into[..text.len()].copy_from_slice(text.as_bytes());
                Ok(text.len())
            }
            Some(Silence) => Err(io::ErrorKind::WouldBlock.into()),
            Some(Break) => Err(io::ErrorKind::ConnectionReset.into()),
        }
    }
}

impl Write for Script {
    fn write(&mut self, _: &[u8]) -> io::Result<usize> {
        panic!("nothing is written")
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Wire for Script {
    fn set_timeout(&mut self, _: Duration) {}
}

/// Serves these connections, one after the other; then nobody is there.
fn serve(connections: &[&[Piece]]) {
    let mut connections: VecDeque<Vec<Piece>> = connections.iter().map(|pieces| pieces.to_vec()).collect();
    serve_tcp(move |_: &str, _: u16| -> Result<Box<dyn Wire>> {
        let next = connections.pop_front().ok_or_else(|| Error::retryable("the connection was refused"))?;
        Ok(Box::new(Script(next.into())))
    });
}

fn config(more: &str) -> String {
    format!(r#"{{"addresses": ["h:1"]{more}}}"#)
}

fn open(more: &str) -> TcpLines {
    let text = config(more);
    let mut source = TcpLines::open(parse_config(&text).unwrap(), &scope(&text), None).unwrap();
    source.assign(vec![Split { id: "h:1".into(), details: Vec::new(), position: None }]).unwrap();
    source
}

fn poll(source: &mut TcpLines, max_rows: usize) -> Polled {
    source.poll(PollRequest { max_rows, max_bytes: 1 << 20, deadline: Duration::from_millis(1) }).unwrap()
}

/// The lines of a poll, the reasons of its bad records and its states.
fn seen(polled: &Polled) -> (Vec<String>, Vec<String>, Vec<SplitState>) {
    let lines = polled.chunks.iter().flat_map(|chunk| chunk.rows.column(0).as_string::<i32>().iter().flatten().map(str::to_owned));
    let bad = polled.chunks.iter().flat_map(|chunk| chunk.bad.iter().map(|bad| bad.message.clone()));
    (lines.collect(), bad.collect(), polled.states.iter().map(|(_, state)| state.clone()).collect())
}

fn texts(texts: &[&str]) -> Vec<String> {
    texts.iter().map(|text| (*text).to_owned()).collect()
}

#[test]
fn lines_come_as_they_are_sent_and_a_poll_takes_no_more_than_it_may() {
    serve(&[&[Bytes("a\nb\r\nc"), Silence, Silence, Bytes("d\n\ne\n"), Silence, Silence]]);
    let mut source = open("");
    let first = poll(&mut source, 1);
    assert_eq!(seen(&first).0, ["a"]);
    assert_eq!(first.chunks[0].position, b"1");
    assert_eq!(first.chunks[0].rows.column(1).as_string::<i32>().value(0), "h:1");
    let second = poll(&mut source, 10);
    assert_eq!((seen(&second).0, second.states.len()), (texts(&["b"]), 1));
    assert!(matches!(second.states[0].1, SplitState::CaughtUp));
    let third = poll(&mut source, 10);
    assert_eq!(seen(&third).0, ["cd", "", "e"]);
    assert_eq!(third.chunks[0].position, b"5");
    let idle = poll(&mut source, 10);
    assert!(idle.chunks.is_empty() && idle.retry_after.is_some());
}

#[test]
fn a_connection_that_ends_is_made_again_after_a_pause_that_grows() {
    serve(&[&[Bytes("a\nhal")], &[Break], &[Bytes("b\n"), Silence, Silence]]);
    let mut source = open(r#", "reconnectMs": 20, "maxReconnectMs": 1000"#);
    let (lines, bad, _) = seen(&poll(&mut source, 10));
    assert_eq!((lines, bad), (texts(&["a"]), texts(&["`h:1`, line 2: the connection ended within the line"])));
    let mut pauses = Vec::new();
    loop {
        let polled = poll(&mut source, 10);
        if !polled.chunks.is_empty() {
            assert_eq!(seen(&polled).0, ["b"]);
            assert_eq!(polled.chunks[0].position, b"3");
            break;
        }
        let pause = polled.retry_after.unwrap();
        assert!(pause <= Duration::from_millis(40));
        pauses.push(pause);
        std::thread::sleep(pause);
    }
    assert!(pauses.iter().max().unwrap() > &Duration::from_millis(20), "{pauses:?}");
    assert_eq!(metric("disconnects"), Some(2.0));
    let said: Vec<String> = logs().into_iter().map(|(_, line)| line).collect();
    assert!(said[0].contains("closed the connection; connecting again in 20 ms") && said[1].contains("in 40 ms"), "{said:?}");
}

#[test]
fn nobody_there_is_no_error_and_a_missing_grant_is() {
    serve(&[]);
    let mut source = open("");
    let polled = poll(&mut source, 10);
    assert!(polled.chunks.is_empty() && polled.retry_after.unwrap() > Duration::from_millis(100));
    serve_tcp(|_: &str, _: u16| -> Result<Box<dyn Wire>> { Err(Error::config("not granted")) });
    let mut source = open("");
    let error = source.poll(PollRequest { max_rows: 1, max_bytes: 1, deadline: Duration::ZERO }).err().unwrap();
    assert!(matches!(&error, Error::Config(message) if message == "`h:1`: not granted"), "{error:?}");
}

#[test]
fn without_reconnecting_the_input_ends_and_its_last_line_may_count() {
    for (last_line, lines, bad) in [("bad", &["a"][..], 1), ("row", &["a", "b"], 0)] {
        serve(&[&[Bytes("a\n"), Bytes("b")]]);
        let source =
            SourceHarness::<TcpLines>::bind(&config(&format!(r#", "reconnect": false, "lastLine": "{last_line}""#)), None).unwrap();
        assert!(source.bounded());
        let read = source.read(source.splits().unwrap(), 10, usize::MAX).unwrap().remove("h:1").unwrap();
        let found: Vec<&str> = read.rows.column(0).as_string::<i32>().iter().flatten().collect();
        assert_eq!((found.as_slice(), read.bad.len(), read.finished), (lines, bad, true));
    }
}

#[test]
fn bad_lines_stand_among_the_good_ones() {
    serve(&[&[Bytes("1\n123456789\n2\n123456789"), Silence, Silence]]);
    let polled = poll(&mut open(r#", "maxLineBytes": 4"#), 10);
    let [chunk] = polled.chunks.as_slice() else { panic!("{polled:?}") };
    let bad: Vec<_> = chunk.bad.iter().map(|bad| (bad.row, bad.position.as_slice(), bad.raw.as_slice())).collect();
    assert_eq!(bad, [(Some(1), &b"1"[..], &b"123456789"[..]), (None, b"3", b"123456789")]);
    assert_eq!(chunk.position, b"4");
}

#[test]
fn a_connection_with_much_to_say_starves_no_other() {
    serve_tcp(|host: &str, _: u16| -> Result<Box<dyn Wire>> {
        let text = if host == "loud" { "l\nl\nl\nl\nl\nl\nl\nl\n" } else { "q\n" };
        Ok(Box::new(Script(vec![Bytes(text), Silence, Silence].into())))
    });
    let text = r#"{"addresses": ["loud:1", "quiet:1"]}"#;
    let mut source = TcpLines::open(parse_config(text).unwrap(), &scope(text), None).unwrap();
    let found = TcpLines::discover(&parse_config(text).unwrap(), &scope(text), None).unwrap();
    assert_eq!(found.added.len(), 2);
    source.assign(found.added).unwrap();
    let (mut lines, ..) = seen(&poll(&mut source, 4));
    lines.sort_unstable();
    assert_eq!(lines, ["l", "l", "q"]);
}

#[test]
fn a_new_address_is_found_beside_the_known_ones_and_a_dropped_one_goes() {
    let config = parse_config(r#"{"addresses": ["a:1", "b:1"]}"#).unwrap();
    let found = TcpLines::discover(&config, &scope("{}"), Some(b"a:1\nc:1")).unwrap();
    let added: Vec<&str> = found.added.iter().map(|split| split.id.as_str()).collect();
    assert_eq!((added, found.gone, found.cursor), (vec!["b:1"], texts(&["c:1"]), Some(b"a:1\nc:1\nb:1".to_vec())));
}

#[test]
fn mistakes_are_found_before_anything_runs() {
    for (more, why) in [
        (r#", "maxLineBytes": 0"#, "`maxLineBytes`"),
        (r#", "reconnectMs": 0"#, "`reconnectMs`"),
        (r#", "lastLine": "drop""#, "one of `bad`, `row`"),
        (r#", "adresses": []"#, "unknown key"),
    ] {
        let error = SourceHarness::<TcpLines>::bind(&config(more), None).err().unwrap();
        assert!(matches!(&error, Error::Config(message) if message.contains(why)), "{more}: {error}");
    }
}

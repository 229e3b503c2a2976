use super::*;
use arrow::array::AsArray;
use arrow::datatypes::Int64Type;
use proptest::prelude::*;
use serde_json::json;
use std::io::Write;
use tidegate_api::{Generation, RunId, RunIdentity};

const NOW: PollRequest = PollRequest { max_rows: 3, max_bytes: 1 << 20, wait: Duration::ZERO };
const SOON: PollRequest = PollRequest { wait: Duration::from_secs(20), ..NOW };

fn source(input: &StdinInput, options: &Value) -> StdinSource {
    StdinSource::new(StdinConfig::parse(options.as_object().unwrap()).unwrap(), input.clone(), "lines")
}

fn open(source: &StdinSource, start: Vec<Split>) -> Box<dyn SourceReader> {
    let run = RunIdentity::new("p", RunId::new("r"), Generation(1), "lines");
    let request = SourceRequest::all().with_ordinals(true);
    source.plan(&request).unwrap();
    source.open(SourceCtx::new(run).with_start(start).with_request(request)).unwrap()
}

#[derive(Debug, Default, PartialEq)]
struct Seen {
    rows: Vec<i64>,
    ordinals: Vec<u64>,
    bad: Vec<String>,
    finished: bool,
}

fn add(seen: &mut Seen, polled: Polled) {
    for chunk in polled.chunks {
        seen.rows.extend(chunk.rows.column(0).as_primitive::<Int64Type>().values());
        let Ordinals::Each(ordinals) = chunk.ordinals else { panic!("ordinals were asked for") };
        seen.ordinals.extend(ordinals.values());
        seen.bad.extend(chunk.bad.iter().map(|bad| bad.position.clone().unwrap()));
    }
    seen.finished |= polled.states.iter().any(|(_, state)| *state == SplitState::Finished);
}

fn schema() -> Value {
    json!([{ "name": "n", "type": "int64" }])
}

proptest! {
    /// Whatever pieces the bytes come in, and wherever the reader is opened again within the process, every line comes once.
    #[test]
    fn lines_come_once_however_they_are_cut(
        lines in proptest::collection::vec(prop_oneof![4 => (0i64..1000).prop_map(Ok), 1 => Just(Err(()))], 0..12),
        cuts in proptest::collection::vec((any::<prop::sample::Index>(), any::<bool>()), 0..8),
        csv in any::<bool>(),
        ends in any::<bool>(),
    ) {
        let mut text = if csv { "n\n".to_string() } else { String::new() };
        for line in &lines {
            match (line, csv) {
                (Ok(n), true) => text.push_str(&format!("{n}\n")),
                (Ok(n), false) => text.push_str(&format!("{{\"n\": {n}}}\n")),
                (Err(()), _) => text.push_str("x\n"),
            }
        }
        if !ends {
            text.truncate(text.trim_end().len());
        }
        let mut cuts: Vec<(usize, bool)> = cuts.into_iter().map(|(cut, again)| (cut.index(text.len() + 1), again)).collect();
        cuts.sort_unstable();
        let (reading, mut writing) = std::io::pipe().unwrap();
        let input = StdinInput::new(reading);
        let format = if csv { "csv" } else { "json" };
        let source = source(&input, &json!({ "format": format, "schema": schema() }));
        let found = source.discover(None).unwrap();
        let mut reader = open(&source, found.added.clone());
        let (mut seen, mut sent) = (Seen::default(), 0);
        for (cut, again) in cuts {
            writing.write_all(&text.as_bytes()[sent..cut]).unwrap();
            sent = cut;
            add(&mut seen, reader.poll(NOW).unwrap());
            if again {
                reader = open(&source, found.added.clone());
            }
        }
        writing.write_all(&text.as_bytes()[sent..]).unwrap();
        drop(writing);
        while !seen.finished {
            add(&mut seen, reader.poll(SOON).unwrap());
        }
        let numbered = lines.iter().enumerate();
        let expected = Seen {
            rows: lines.iter().filter_map(|line| line.ok()).collect(),
            ordinals: numbered.clone().filter(|(_, line)| line.is_ok()).map(|(row, _)| row as u64).collect(),
            bad: numbered.filter(|(_, line)| line.is_err()).map(|(row, _)| format!("row {row}")).collect(),
            finished: true,
        };
        prop_assert_eq!(seen, expected);
    }
}

#[test]
fn nothing_to_read_is_no_end_and_takes_no_longer_than_allowed() {
    let (reading, mut writing) = std::io::pipe().unwrap();
    let input = StdinInput::new(reading);
    let source = source(&input, &json!({ "schema": schema() }));
    let mut reader = open(&source, source.discover(None).unwrap().added);
    let polled = reader.poll(NOW).unwrap();
    assert_eq!(polled.states, [(SplitId::new("stdin-1"), SplitState::CaughtUp)]);
    writing.write_all(b"{\"n\": 1}\n{\"n\": 2").unwrap();
    let mut seen = Seen::default();
    add(&mut seen, reader.poll(SOON).unwrap());
    assert_eq!((seen.rows, seen.finished), (vec![1], false), "half a line is none");
}

#[test]
fn another_process_is_another_split_and_what_an_earlier_one_left_is_gone() {
    let (reading, mut writing) = std::io::pipe().unwrap();
    let first = source(&StdinInput::new(std::io::pipe().unwrap().0), &json!({ "schema": schema() })).discover(None).unwrap();
    assert_eq!(first.added[0].id, SplitId::new("stdin-1"));
    let input = StdinInput::new(reading);
    let source = source(&input, &json!({ "schema": schema() }));
    let second = source.discover(first.cursor.as_deref()).unwrap();
    assert_eq!(second.added[0].id, SplitId::new("stdin-2"));
    // A start within the process that knows of it adds nothing; one that does not, the same.
    assert_eq!(source.discover(second.cursor.as_deref()).unwrap().added, []);
    assert_eq!(source.discover(first.cursor.as_deref()).unwrap().added, second.added);
    writing.write_all(b"{\"n\": 7}\n").unwrap();
    let mut reader = open(&source, [first.added, second.added].concat());
    let polled = reader.poll(SOON).unwrap();
    assert_eq!(polled.states, [(SplitId::new("stdin-1"), SplitState::Finished)]);
    assert_eq!(polled.chunks[0].split, SplitId::new("stdin-2"));
}

#[test]
fn a_line_longer_than_any_may_be_costs_itself() {
    let file = tempfile::tempfile().unwrap();
    let mut writing = file.try_clone().unwrap();
    let long = vec![b'x'; MAX_RECORD + (1 << 20)];
    for part in [&b"{\"n\": 1}\n"[..], &long, b"\n{\"n\": 2}\n"] {
        writing.write_all(part).unwrap();
    }
    std::io::Seek::rewind(&mut writing).unwrap();
    let source = source(&StdinInput::new(file), &json!({ "schema": schema() }));
    let mut reader = open(&source, source.discover(None).unwrap().added);
    let mut seen = Seen::default();
    while !seen.finished {
        add(&mut seen, reader.poll(SOON).unwrap());
    }
    assert_eq!((seen.rows, seen.bad), (vec![1, 2], vec!["row 1".to_string()]));
}

#[test]
fn standard_input_is_read_by_one_dataset_and_not_twice() {
    let input = StdinInput::new(std::io::pipe().unwrap().0);
    let options = json!({ "format": "raw" });
    source(&input, &options).plan(&SourceRequest::all()).unwrap();
    source(&input, &options).plan(&SourceRequest::all()).unwrap();
    let config = StdinConfig::parse(options.as_object().unwrap()).unwrap();
    let other = StdinSource::new(config.clone(), input, "other").plan(&SourceRequest::all()).unwrap_err().to_string();
    assert!(other.contains("is read by the dataset `lines` already"), "{other}");
    let taken = StdinSource::new(config, StdinInput::taken("it is gone"), "x").plan(&SourceRequest::all()).unwrap_err().to_string();
    assert_eq!(taken, "standard input cannot be read: it is gone");
}

#[test]
fn every_mistake_in_the_options_is_told() {
    let told = |options: Value| StdinConfig::parse(options.as_object().unwrap()).unwrap_err()[0].to_string();
    assert!(told(json!({})).contains("`schema` is missing: what has not come yet cannot be guessed"));
    assert!(told(json!({ "format": "parquet" })).contains("format"));
    assert!(told(json!({ "schema": [] })).contains("at least one column"));
    assert!(told(json!({ "format": "raw", "path": "x" })).contains("unknown key `path`"));
}

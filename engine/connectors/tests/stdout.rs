//! The `stdout` sink into an injected writer.

#![allow(clippy::unwrap_used, reason = "a test may end by panicking")]

use arrow::array::{Int64Array, RecordBatch};
use serde_json::json;
use std::io::{self, Write};
use std::sync::{Arc, Mutex};
use tidegate_api::{AnySink, Counter, Epoch, Generation, Guarantee, RunId, RunIdentity, Sink, SinkCtx, SinkInput};
use tidegate_connectors::stdout::{StdoutTarget, is_closed_pipe};
use tidegate_connectors::{ConnectorCtx, sink};

/// Takes at most seven bytes at a time, and fails while told to.
#[derive(Clone, Default)]
struct Pipe(Arc<Mutex<(Vec<u8>, Option<io::ErrorKind>)>>);

impl Write for Pipe {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut state = self.0.lock().unwrap();
        match state.1 {
            Some(kind) if state.0.len() > 10 => Err(kind.into()),
            _ => {
                let taken = bytes.len().min(7);
                state.0.extend(&bytes[..taken]);
                Ok(taken)
            }
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Pipe {
    fn fail(&self, kind: Option<io::ErrorKind>) {
        self.0.lock().unwrap().1 = kind;
    }

    fn text(&self) -> String {
        String::from_utf8(self.0.lock().unwrap().0.clone()).unwrap()
    }
}

fn rows() -> RecordBatch {
    RecordBatch::try_from_iter([("n", Arc::new(Int64Array::from(vec![Some(1), None, Some(3)])) as _)]).unwrap()
}

fn open(pipe: &Pipe, format: &str, emitted: &Counter) -> Box<dyn Sink> {
    let cx = ConnectorCtx::new(".", "out").with_stdout(StdoutTarget::new(pipe.clone()));
    let sink = sink("stdout", json!({ "format": format }).as_object().unwrap(), &cx).unwrap();
    let input = SinkInput::new(rows().schema(), tidegate_api::ChangeMode::Append);
    assert_eq!(sink.plan(&input).unwrap().guarantee, Guarantee::AtLeastOnce);
    let run = RunIdentity::new("test", RunId::new("run"), Generation(1), "out");
    match sink.open(SinkCtx::new(run, rows().schema()).with_emitted(emitted.clone())).unwrap() {
        AnySink::AtLeastOnce(sink) => sink,
        AnySink::Transactional(_) => panic!("standard output has no transactions"),
    }
}

#[test]
fn rows_are_lines_as_soon_as_they_are_written() {
    let (pipe, emitted) = (Pipe::default(), Counter::new());
    let mut sink = open(&pipe, "json", &emitted);
    sink.write(&rows(), None).unwrap();
    assert_eq!(pipe.text(), "{\"n\":1}\n{\"n\":null}\n{\"n\":3}\n");
    assert_eq!(emitted.get(), 3);
    let pipe = Pipe::default();
    let mut sink = open(&pipe, "csv", &emitted);
    sink.write(&rows(), None).unwrap();
    sink.write(&rows(), None).unwrap();
    assert_eq!(pipe.text(), "n\n1\n\"\"\n3\n1\n\"\"\n3\n");
}

#[test]
fn what_was_not_delivered_is_delivered_later_and_once() {
    let (pipe, emitted) = (Pipe::default(), Counter::new());
    let mut sink = open(&pipe, "json", &emitted);
    pipe.fail(Some(io::ErrorKind::WouldBlock));
    let error = sink.write(&rows(), None).unwrap_err();
    assert!(!is_closed_pipe(&error), "{error}");
    assert!(sink.flush(Epoch(1)).is_err());
    pipe.fail(None);
    sink.flush(Epoch(1)).unwrap();
    assert_eq!(pipe.text(), "{\"n\":1}\n{\"n\":null}\n{\"n\":3}\n");
}

#[test]
fn a_closed_pipe_is_told_from_other_failures() {
    let (pipe, emitted) = (Pipe::default(), Counter::new());
    let mut sink = open(&pipe, "json", &emitted);
    pipe.fail(Some(io::ErrorKind::BrokenPipe));
    let error = sink.write(&rows(), None).unwrap_err();
    assert!(is_closed_pipe(&error), "{error}");
    assert!(is_closed_pipe(&error.context("stage `out`")));
}

//! A container for the tests: speaks the protocol of `docs/container-protocol.md`, and breaks it in one way where its first argument says so.
//!
//! It reads `n` (int64) and `t` (text) and makes `twice` and `loud`. The second argument is a file: where it is given, the first process
//! misbehaves, and makes the file; later ones behave.

#![allow(clippy::unwrap_used, clippy::print_stderr, reason = "a child of a test may end by panicking, and talks on stderr")]

use arrow::array::cast::AsArray;
use arrow::array::{Array, ArrayRef, BooleanArray, Int64Array, RecordBatch, StringArray, UInt64Array};
use arrow::compute::{concat_batches, take_record_batch};
use arrow::datatypes::Int64Type;
use arrow::ipc::reader::StreamReader;
use arrow::ipc::writer::StreamWriter;
use serde_json::{Value, json};
use std::io::{Read, Write, stdin, stdout};
use std::sync::Arc;

/// The next frame, or nothing where stdin ends.
fn read() -> Option<([u8; 4], u64, Vec<u8>)> {
    let mut header = [0; 16];
    stdin().read_exact(&mut header).ok()?;
    let length = u32::from_le_bytes(header[..4].try_into().unwrap());
    let mut payload = vec![0; length as usize];
    stdin().read_exact(&mut payload).ok()?;
    Some((header[4..8].try_into().unwrap(), u64::from_le_bytes(header[8..].try_into().unwrap()), payload))
}

fn frame(kind: &[u8; 4], number: u64, payload: &[u8]) -> Vec<u8> {
    let mut frame = (payload.len() as u32).to_le_bytes().to_vec();
    frame.extend_from_slice(kind);
    frame.extend_from_slice(&number.to_le_bytes());
    frame.extend_from_slice(payload);
    frame
}

fn send(bytes: &[u8]) {
    let mut out = stdout().lock();
    // Whoever is killed while it writes has nobody to tell.
    let _ = out.write_all(bytes).and_then(|()| out.flush());
}

fn stream(batch: &RecordBatch) -> Vec<u8> {
    let mut writer = StreamWriter::try_new(Vec::new(), batch.schema_ref()).unwrap();
    writer.write(batch).unwrap();
    writer.into_inner().unwrap()
}

fn for_ever() -> ! {
    loop {
        std::thread::park();
    }
}

/// The honest answer to some rows, and the rows that it refuses.
fn answer(rows: &RecordBatch) -> (Vec<(&'static str, ArrayRef)>, Vec<Value>) {
    let numbers = rows.column_by_name("n").unwrap().as_primitive::<Int64Type>();
    let texts = rows.column_by_name("t").unwrap().as_string::<i32>();
    let twice: Int64Array = numbers.iter().map(|number| number.map(|number| number.wrapping_mul(2))).collect();
    let loud: StringArray = texts.iter().map(|text| text.map(str::to_uppercase)).collect();
    let unlucky = (0..numbers.len()).filter(|row| numbers.is_valid(*row) && numbers.value(*row) == 13);
    let refused = unlucky.map(|row| json!({ "row": row, "column": "n", "message": "thirteen is unlucky" }));
    (vec![("twice", Arc::new(twice)), ("loud", Arc::new(loud))], refused.collect())
}

fn batch(columns: Vec<(&'static str, ArrayRef)>) -> RecordBatch {
    RecordBatch::try_from_iter_with_nullable(columns.into_iter().map(|(name, column)| (name, column, true))).unwrap()
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let mut mode = arguments.first().cloned().unwrap_or_default();
    if let Some(once) = arguments.get(1) {
        if std::path::Path::new(once).exists() {
            mode = String::new();
        } else {
            std::fs::write(once, "").unwrap();
        }
    }
    match mode.as_str() {
        "start-hang" => for_ever(),
        "start-die" => {
            eprintln!("no licence");
            std::process::exit(4);
        }
        "start-print" => send(b"Hello, I am a program\n"),
        _ => {}
    }
    let mut previous = Vec::new();
    while let Some((kind, number, payload)) = read() {
        match &kind {
            b"open" => {
                let greeting: Value = serde_json::from_slice(&payload).unwrap();
                let reply = if mode == "config" && greeting["config"]["volume"] != "high" {
                    frame(b"fail", number, json!({ "kind": "config", "message": "`volume` must be `high`" }).to_string().as_bytes())
                } else {
                    frame(b"open", number, b"{\"protocol\":1}")
                };
                send(&reply);
                if mode == "never-reads" {
                    for_ever();
                }
            }
            b"rows" => {
                let read = StreamReader::try_new(payload.as_slice(), None).unwrap();
                let schema = read.schema();
                let rows = concat_batches(&schema, &read.map(Result::unwrap).collect::<Vec<_>>()).unwrap();
                respond(&mode, number, &rows, &mut previous);
            }
            _ => panic!("an unknown frame"),
        }
    }
    if mode == "ignores-the-end" {
        for_ever();
    }
}

fn respond(mode: &str, number: u64, rows: &RecordBatch, previous: &mut Vec<u8>) {
    let (mut columns, mut refused) = answer(rows);
    match mode {
        "die" => {
            eprintln!("about to die");
            eprintln!("out of luck");
            std::process::exit(3);
        }
        "hang" => for_ever(),
        "flood-stdout" => loop {
            send(&[b'y'; 4096]);
        },
        "announce" => send(&[&u32::MAX.to_le_bytes()[..], b"rows", &number.to_le_bytes()].concat()),
        "flood-stderr" => {
            for line in 0..50_000 {
                eprintln!("line {line} of a flood");
            }
        }
        "endless-line" => (0..5_000).for_each(|_| eprint!("{}", "x".repeat(1000))),
        "torn" => {
            let whole = frame(b"rows", number, &stream(&batch(columns)));
            send(&whole[..whole.len() / 2]);
            std::process::exit(0);
        }
        "wrong-type" => columns[0].1 = Arc::new(StringArray::from(vec!["x"; rows.num_rows()])),
        "counts-calls" => columns[0].1 = Arc::new(Int64Array::from(vec![number as i64; rows.num_rows()])),
        "missing-column" => drop(columns.pop()),
        "more-columns" => columns.push(("secret", Arc::clone(&columns[0].1))),
        "nulls" => columns[1].1 = arrow::array::new_null_array(columns[1].1.data_type(), rows.num_rows()),
        "fewer-rows" => {
            for (_, column) in &mut columns {
                *column = column.slice(1, rows.num_rows() - 1);
            }
        }
        "bad-index" => refused = vec![json!({ "row": rows.num_rows(), "message": "x" })],
        "bad-twice" => refused = vec![json!({ "row": 0 }), json!({ "row": 0 })],
        "no-arrow" => return send(&frame(b"rows", number, &[0xff; 100])),
        "unknown-frame" => return send(&frame(b"what", number, b"")),
        "wrong-answer" => return send(&frame(b"open", number, b"{\"protocol\":1}")),
        "old-number" if !previous.is_empty() => return send(previous),
        "retry" => return send(&frame(b"fail", number, br#"{ "kind": "retry", "afterMs": 20, "message": "not now" }"#)),
        "fatal" => return send(&frame(b"fail", number, b"all is lost")),
        "filter" => {
            let even = |row| rows.column_by_name("n").unwrap().as_primitive::<Int64Type>().value(row) % 2 == 0;
            columns.insert(0, ("keep", Arc::new(BooleanArray::from_iter((0..rows.num_rows()).map(|row| Some(even(row)))))));
        }
        "free" => {
            let whole = batch(std::mem::take(&mut columns));
            let twice = UInt64Array::from_iter_values((0..rows.num_rows() as u64).flat_map(|row| [row, row]));
            return send(&frame(b"rows", number, &stream(&take_record_batch(&whole, &twice).unwrap())));
        }
        "environment" => {
            let mut variables: Vec<String> = std::env::vars().map(|(name, value)| format!("{name}={value}")).collect();
            variables.sort();
            columns[1].1 = Arc::new(StringArray::from(vec![variables.join(" "); rows.num_rows()]));
        }
        "grandchild" => {
            // It holds the pipes open, and outlives its parent unless the whole group is killed.
            let mut command = std::process::Command::new(std::env::current_exe().unwrap());
            drop(command.arg("start-hang").args(std::env::args().skip(2)).spawn());
            std::process::exit(3);
        }
        _ => {}
    }
    let mut reply = Vec::new();
    if !refused.is_empty() {
        reply = frame(b"bads", number, Value::from(refused).to_string().as_bytes());
    }
    reply.extend(frame(b"rows", number, &stream(&batch(columns))));
    send(&reply);
    if mode == "answers-twice" {
        send(&reply);
    }
    *previous = reply;
}

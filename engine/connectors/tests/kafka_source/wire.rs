//! A message that no client library would write: the name of a header that is not UTF-8, put together byte by byte.

use crate::support::{Reading, World, record};
use serde_json::json;
use std::io::{Read, Write};
use std::net::TcpStream;
use tidegate_api::{BadReason, SplitState};

/// CRC-32C, as a record batch has it.
fn checksum(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(!0u32, |sum, byte| {
        (0..8).fold(sum ^ u32::from(*byte), |sum, _| if sum & 1 == 1 { (sum >> 1) ^ 0x82F6_3B78 } else { sum >> 1 })
    })
}

/// Small lengths as the format has them: zigzag, one byte.
fn length(n: usize) -> u8 {
    u8::try_from(n * 2).unwrap()
}

/// A batch of one record with one header.
fn batch(payload: &[u8], header: &[u8]) -> Vec<u8> {
    let mut body = vec![0, 0, 0, 1, length(payload.len())];
    body.extend_from_slice(payload);
    body.extend([length(1), length(header.len())]);
    body.extend_from_slice(header);
    body.extend([length(1), b'v']);
    let mut summed = Vec::new();
    summed.extend([0; 2]); // attributes
    summed.extend(0i32.to_be_bytes()); // the last record's distance
    summed.extend([1_700_000_000_000i64.to_be_bytes(); 2].concat()); // first and last time
    summed.extend((-1i64).to_be_bytes()); // no producer
    summed.extend((-1i16).to_be_bytes());
    summed.extend((-1i32).to_be_bytes());
    summed.extend(1i32.to_be_bytes()); // records
    summed.push(length(body.len()));
    summed.extend(body);
    let mut batch = Vec::new();
    batch.extend(0i64.to_be_bytes());
    batch.extend((summed.len() as i32 + 9).to_be_bytes());
    batch.extend((-1i32).to_be_bytes());
    batch.push(2);
    batch.extend(checksum(&summed).to_be_bytes());
    batch.extend(summed);
    batch
}

fn text(text: &str) -> Vec<u8> {
    [&(text.len() as i16).to_be_bytes()[..], text.as_bytes()].concat()
}

/// Sends a request to produce, version 3, and answers the code of its one partition.
fn produce(world: &World, topic: &str, batch: &[u8]) -> i16 {
    let mut request = Vec::new();
    request.extend(0i16.to_be_bytes());
    request.extend(3i16.to_be_bytes());
    request.extend(1i32.to_be_bytes());
    request.extend(text("wire"));
    request.extend((-1i16).to_be_bytes()); // no transaction
    request.extend(1i16.to_be_bytes());
    request.extend(10_000i32.to_be_bytes());
    request.extend(1i32.to_be_bytes());
    request.extend(text(topic));
    request.extend(1i32.to_be_bytes());
    request.extend(0i32.to_be_bytes()); // partition
    request.extend((batch.len() as i32).to_be_bytes());
    request.extend(batch);
    let mut stream = TcpStream::connect(&world.brokers).unwrap();
    stream.write_all(&(request.len() as i32).to_be_bytes()).unwrap();
    stream.write_all(&request).unwrap();
    let mut size = [0; 4];
    stream.read_exact(&mut size).unwrap();
    let mut answer = vec![0; i32::from_be_bytes(size) as usize];
    stream.read_exact(&mut answer).unwrap();
    // The number of the request, one topic, its name, one partition, its number; then the code.
    let at = 4 + 4 + 2 + topic.len() + 4 + 4;
    i16::from_be_bytes([answer[at], answer[at + 1]])
}

#[test]
#[ignore = "needs a broker"]
fn kafka_a_header_whose_name_is_no_text_costs_its_message_and_no_more() {
    let world = World::real();
    let topic = world.topic("wire", 1);
    world.send(&topic, 0, &[record("{\"n\":1}")]);
    assert_eq!(produce(&world, &topic, &batch(b"{\"n\":2}", b"\xff\xfe")), 0);
    world.send(&topic, 0, &[record("nonsense"), record("{\"n\":3}")]);
    let mut reading = Reading::all(world.source(&topic, json!({ "meta": ["headers"], "end": "latest" })).as_ref());
    reading.until_all(SplitState::Finished);
    assert_eq!(reading.numbers(), [1, 3]);
    let bad: Vec<_> = reading.only().bad.iter().map(|bad| (bad.reason, bad.message.as_str(), bad.position.clone().unwrap())).collect();
    assert_eq!(bad[0], (BadReason::Malformed, "the name of a header is not UTF-8", "partition 0, offset 1".to_string()));
    assert_eq!((bad.len(), bad[1].2.as_str()), (2, "partition 0, offset 2"));
    // Nobody who does not read headers is concerned.
    let mut reading = Reading::all(world.source(&topic, json!({ "end": "latest" })).as_ref());
    reading.until_all(SplitState::Finished);
    assert_eq!(reading.numbers(), [1, 2, 3]);
}

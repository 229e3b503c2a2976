use super::*;
use proptest::prelude::*;
use xxhash_rust::xxh3::xxh3_64;

/// The fixture of format 1. It is loaded by this test for ever; a change of the format gets a new number and a fixture beside it.
const V1: &[u8] = include_bytes!("../../fixtures/manifest-v1.json");

/// What the fixture of format 1 says, with every field in use.
fn of_v1() -> Manifest {
    let piece = |id: &str, start, end, offset| PieceRef {
        id: PieceId(id.to_string()),
        name: "pane".to_string(),
        vnodes: VnodeRange { start, end },
        object: "objects/0190-demo/0000000002/00000000000000000041/hourly.0/0".to_string(),
        offset,
        length: 3,
        checksum: xxh3_64(b"abc"),
    };
    let reading = SplitEntry {
        id: SplitId::new("flights.csv.gz"),
        details: b"\x00\xff details".to_vec(),
        position: Some(b"4096".to_vec()),
        max_event_time: Some(EventTime(-1)),
        status: SplitStatus::Reading,
    };
    let finished =
        SplitEntry { id: SplitId::new("é"), details: Vec::new(), position: None, max_event_time: None, status: SplitStatus::Finished };
    Manifest {
        run: RunNumber(1),
        run_id: RunId::new("0190-demo"),
        generation: Generation(2),
        epoch: Epoch(42),
        owner: "host/123/abc".to_string(),
        written: EventTime(1_764_441_600_000_000),
        interval_ms: 5000,
        opens_generation: false,
        now: EventTime(1_764_441_599_000_000),
        ended: Some(End::Suspend),
        vnodes: 256,
        hash_version: 1,
        sources: BTreeMap::from([(
            "flights".to_string(),
            SourceEntry {
                splits: vec![reading, finished],
                cursor: Some(vec![1, 2, 3]),
                complete: true,
                schema: "origin: string".to_string(),
                pinned: None,
            },
        )]),
        operators: BTreeMap::from([(
            "hourly".to_string(),
            OperatorEntry {
                signature: Signature::new("windowedAggregate", 1).with("size", 3_600_000).with("groupBy", vec!["origin"]),
                pieces: vec![piece("2.41.0.0.hourly", 0, 128, 0), piece("2.41.0.1.hourly", 128, 256, 3)],
            },
        )]),
        sinks: BTreeMap::from([
            (
                "out".to_string(),
                SinkEntry {
                    two_phase: true,
                    config: serde_json::json!({ "path": "out", "token": "${ORDERS_TOKEN}" }),
                    pending: vec![PendingToken { epoch: Epoch(42), task: 1, token: vec![0, 255] }],
                },
            ),
            ("console".to_string(), SinkEntry { two_phase: false, config: serde_json::Value::Null, pending: Vec::new() }),
        ]),
        plugins: BTreeMap::from([("mask".to_string(), "sha256:00ff".to_string())]),
    }
}

#[test]
fn the_first_format_is_read_for_ever() {
    assert_eq!(Manifest::decode(V1).unwrap(), of_v1());
}

#[test]
fn the_current_format_is_written_as_it_was() {
    assert_eq!(String::from_utf8(of_v1().encode()).unwrap(), String::from_utf8(V1.to_vec()).unwrap());
}

#[test]
fn a_format_of_a_later_version_is_told_from_a_damaged_one() {
    let body = serde_json::to_string(&of_v1()).unwrap();
    let error = Manifest::decode(&seal(2, &body)).unwrap_err();
    assert_eq!(error.kind(), tidegate_api::ErrorKind::Config, "{error}");
    let damaged = String::from_utf8(V1.to_vec()).unwrap().replace("\"format\":1", "\"format\":2");
    let error = Manifest::decode(damaged.as_bytes()).unwrap_err();
    assert!(error.to_string().contains("damaged"), "{error}");
}

#[test]
fn no_flipped_bit_goes_unnoticed() {
    for at in 0..V1.len() {
        for bit in 0..8 {
            let mut bytes = V1.to_vec();
            bytes[at] ^= 1 << bit;
            match Manifest::decode(&bytes) {
                Err(_) => {}
                // The case of a hexadecimal digit, or another space at the end.
                Ok(read) => assert_eq!(read, of_v1(), "bit {bit} of byte {at}"),
            }
        }
    }
}

proptest! {
    #[test]
    fn cut_short_it_is_damaged(length in 0..V1.len() - 1) {
        prop_assert!(Manifest::decode(&V1[..length]).is_err());
    }

    #[test]
    fn bytes_and_integers_come_back(position in prop::collection::vec(any::<u8>(), 0..64), time in any::<i64>(), epoch in any::<u64>()) {
        let mut manifest = of_v1();
        let split = &mut manifest.sources.get_mut("flights").unwrap().splits[0];
        split.position = Some(position);
        split.max_event_time = Some(EventTime(time));
        manifest.epoch = Epoch(epoch);
        prop_assert_eq!(Manifest::decode(&manifest.encode()).unwrap(), manifest);
    }
}

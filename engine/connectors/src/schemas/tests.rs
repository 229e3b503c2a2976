//! A registry, asked and waited for; messages of many schemas, read as one.

use super::fake::FakeRegistry;
use super::http::{Http, Login};
use super::registry::{Registry, Schema as Registrable};
use super::{latest, pinned};
use crate::decode::registered::Reads;
use crate::decode::{DecodedMessages, Message, MessageDecoder, MessageFormat, RegisteredFormat, Schemas, Tombstones, Wanted};
use arrow::datatypes::{Field, Schema, SchemaRef};
use arrow::json::LineDelimitedWriter;
use proptest::prelude::*;
use serde_json::{Value, json};
use std::io::{Read as _, Write as _};
use std::sync::Arc;
use std::time::Duration;
use tidegate_api::testkit::ManualClock;
use tidegate_api::{BadReason, Clock, ErrorKind, EventTime, Result, Retry, SystemClock, types};
use url::Url;

fn registry_at(url: &str, clock: Arc<dyn Clock>, budget: Duration) -> Arc<Registry> {
    Arc::new(Registry::new(Http::new(Url::parse(url).unwrap(), Login::None, None), clock, budget))
}

fn registry(fake: &FakeRegistry) -> Arc<Registry> {
    registry_at(&fake.url(), Arc::new(SystemClock), Duration::from_secs(5))
}

fn record(fields: &str) -> String {
    format!(r#"{{"type":"record","name":"R","fields":[{fields}]}}"#)
}

/// A message behind its id.
fn framed(id: u32, body: &[u8]) -> Vec<u8> {
    [&[0][..], &id.to_be_bytes(), body].concat()
}

fn columns(columns: &[(&str, &str)]) -> SchemaRef {
    Arc::new(Schema::new(columns.iter().map(|(name, kind)| Field::new(*name, types::parse(kind).unwrap(), true)).collect::<Vec<_>>()))
}

fn decoder(registry: &Arc<Registry>, reads: Reads, schema: &SchemaRef) -> MessageDecoder {
    let format = RegisteredFormat { reads, schemas: Arc::clone(registry) as Arc<dyn Schemas> };
    MessageDecoder::new(MessageFormat::Registered(format), Wanted::all(Arc::clone(schema)), &[], Tombstones::Drop).unwrap()
}

fn decode(decoder: &mut MessageDecoder, payloads: &[Vec<u8>]) -> Result<DecodedMessages> {
    let messages: Vec<_> = payloads.iter().enumerate().map(|(at, payload)| Message::new(Some(payload)).at(0, at as i64)).collect();
    decoder.decode(&messages)
}

/// The rows as JSON.
fn shown(decoded: &DecodedMessages) -> Vec<Value> {
    let mut lines = Vec::new();
    let mut writer = LineDelimitedWriter::new(&mut lines);
    writer.write(&decoded.rows).unwrap();
    writer.finish().unwrap();
    lines.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()).map(|line| serde_json::from_slice(line).unwrap()).collect()
}

fn complaints(decoded: &DecodedMessages) -> Vec<(usize, &str)> {
    decoded.bad.iter().map(|bad| (bad.record, bad.row.message.as_str())).collect()
}

#[test]
fn rows_of_many_schemas_are_read_as_the_newest() {
    let fake = FakeRegistry::start();
    let a = r#"{"name":"a","type":"int"}"#;
    let ids = [
        // As it began; one with the fields in another order and one more that is gone; one that renames.
        fake.avro("t-value", &record(&format!(r#"{a},{{"name":"old","type":"string"}}"#)), &[]),
        fake.avro("t-value", &record(&format!(r#"{{"name":"gone","type":"bytes"}},{{"name":"old","type":"string"}},{a}"#)), &[]),
        fake.avro(
            "t-value",
            &record(
                r#"{"name":"a","type":"long"},{"name":"b","type":"string","aliases":["old"]},{"name":"c","type":["null","int"],"default":null},
                {"name":"d","type":{"type":"record","name":"S","fields":[{"name":"x","type":"int","default":5},{"name":"y","type":"int"}]},
                "default":{"y":6}},{"name":"e","type":{"type":"array","items":"string"},"default":["p"]}"#,
            ),
            &[],
        ),
    ];
    let registry = registry(&fake);
    let found = latest(&registry, "t-value", &Reads::Avro(None), None).unwrap();
    assert_eq!(found.schema.field(0).data_type(), &types::parse("int64").unwrap());
    // A manifest keeps all of it.
    let kept = pinned(&found.text).unwrap();
    assert_eq!((&kept.schema, &kept.text), (&found.schema, &found.text));
    let mut all = decoder(&registry, kept.reads, &kept.schema);
    let payloads = [
        framed(ids[0], &[2, 2, b'x']),
        framed(ids[1], &[4, 9, 9, 2, b'y', 4]),
        framed(ids[2], &[6, 2, b'z', 2, 8, 10, 12, 0]),
        framed(ids[0], &[8, 2, b'w']),
    ];
    let decoded = decode(&mut all, &payloads).unwrap();
    assert_eq!(complaints(&decoded), []);
    let standing = |a: i64, b: &str| json!({ "a": a, "b": b, "d": { "x": 5, "y": 6 }, "e": ["p"] });
    let expected =
        [standing(1, "x"), standing(2, "y"), json!({ "a": 3, "b": "z", "c": 4, "d": { "x": 5, "y": 6 }, "e": [] }), standing(4, "w")];
    assert_eq!(shown(&decoded), expected);
    // Any cut gives the same rows.
    for cut in 1..4 {
        let (left, right) = payloads.split_at(cut);
        let parts = [decode(&mut all, left).unwrap(), decode(&mut all, right).unwrap()];
        assert_eq!(parts.iter().flat_map(shown).collect::<Vec<_>>(), expected);
    }
    // Each id was asked for once.
    let asked = fake.state().asked.clone();
    for id in ids {
        assert_eq!(asked.iter().filter(|line| **line == format!("GET /schemas/ids/{id}")).count(), 1, "{asked:?}");
    }
}

#[test]
fn messages_that_cannot_be_read_cost_themselves_and_say_why() {
    let fake = FakeRegistry::start();
    let good = fake.avro("t-value", &record(r#"{"name":"a","type":"int"},{"name":"b","type":"int","default":1}"#), &[]);
    let newest = fake.avro("t-value", &record(r#"{"name":"a","type":"int"},{"name":"b","type":"int"}"#), &[]);
    let lacking = fake.avro("t-value", &record(r#"{"name":"a","type":"int"}"#), &[]);
    let text = fake.avro("u", &record(r#"{"name":"a","type":{"type":"array","items":"int"}},{"name":"b","type":"int"}"#), &[]);
    let other = fake.json("j", r#"{"type":"object"}"#);
    let dangling = fake.avro("d", &record(r#"{"name":"a","type":"X"}"#), &[("X", "x", 3)]);
    let registry = registry(&fake);
    // The reader is the second version, which has no default for `b`.
    let reader = crate::decode::avro::AvroReader::parse(&[record(r#"{"name":"a","type":"int"},{"name":"b","type":"int"}"#)]).unwrap();
    let schema = reader.columns().unwrap();
    let mut all = decoder(&registry, Reads::Avro(Some(reader)), &schema);
    let payloads = [
        framed(good, &[2, 4]),
        b"{\"a\":1}".to_vec(),
        framed(lacking, &[2]),
        framed(newest, &[4, 6]),
        framed(999, &[2]),
        framed(text, &[0, 2]),
        framed(other, b"{}"),
        framed(dangling, &[2]),
        framed(newest, &[4]),
        vec![0, 1],
        framed(u32::MAX, &[]),
        framed(good, &[8, 8]),
    ];
    let decoded = decode(&mut all, &payloads).unwrap();
    assert_eq!(shown(&decoded), [json!({"a": 1, "b": 2}), json!({"a": 2, "b": 3}), json!({"a": 4, "b": 4})]);
    let told = complaints(&decoded);
    let expected = [
        (1, "the message does not begin with the zero of a schema registry"),
        (
            2,
            "written with schema 3 (`t-value` version 3), which cannot be read here: field `b` was not written, and the reader's schema has no default",
        ),
        (4, "schema 999, which the registry does not know"),
        (5, "schema 4 (`u` version 1), which cannot be read here: column `a`: the Avro schema has an array"),
        (6, "it is a schema of JSON, and the format here is Avro"),
        (7, "it refers to `X`, version 3 of subject `x`, which is not there (40401): Subject 'x' not found."),
        (8, "the value ends too early"),
        (9, "ends within its header"),
        (10, "schema 4294967295, which the registry does not know"),
    ];
    assert_eq!(told.len(), expected.len(), "{told:?}");
    for ((record, message), (at, part)) in told.iter().zip(expected) {
        assert!(*record == at && message.contains(part), "{at} {part} in {record} {message}");
    }
    assert!(decoded.bad.iter().all(|bad| bad.row.reason == BadReason::Malformed && bad.row.raw == payloads[bad.record]));
    // Nobody is asked again for what is known to be wrong.
    let before = fake.state().asked.len();
    assert_eq!(decode(&mut all, &payloads).unwrap().bad.len(), expected.len());
    assert_eq!(fake.state().asked.len(), before);
}

#[test]
fn columns_that_were_declared_are_found_by_name_and_null_where_nothing_was_written() {
    let fake = FakeRegistry::start();
    let first = fake.avro("t", &record(r#"{"name":"a","type":"int"}"#), &[]);
    let second = fake.avro("t", &record(r#"{"name":"b","type":"bytes"},{"name":"a","type":"double"},{"name":"c","type":"string"}"#), &[]);
    let registry = registry(&fake);
    let mut all = decoder(&registry, Reads::Avro(None), &columns(&[("a", "float64"), ("b", "string"), ("c", "binary")]));
    let body = [&[2, b'q'][..], &2.5f64.to_le_bytes(), &[2, b'r']].concat();
    let decoded = decode(&mut all, &[framed(first, &[2]), framed(second, &body)]).unwrap();
    assert_eq!(shown(&decoded), [json!({ "a": 1.0 }), json!({ "a": 2.5, "b": "q", "c": "72" })]);
    let required = Arc::new(Schema::new(vec![Field::new("z", types::parse("int64").unwrap(), false)]));
    let decoded = decode(&mut decoder(&registry, Reads::Avro(None), &required), &[framed(first, &[2])]).unwrap();
    assert!(complaints(&decoded)[0].1.ends_with("field `z` was not written, and its column may not be null"), "{decoded:?}");
}

#[test]
fn types_of_other_subjects_are_asked_for() {
    let fake = FakeRegistry::start();
    fake.avro("inner", r#"{"type":"record","name":"n.Inner","fields":[{"name":"x","type":"int"}]}"#, &[]);
    let middle = record(r#"{"name":"i","type":"n.Inner"}"#).replace("\"R\"", "\"n.Middle\"");
    fake.avro("middle", &middle, &[("n.Inner", "inner", 1)]);
    let references = [("n.Middle", "middle", 1), ("n.Inner", "inner", 1)];
    let fields = r#"{"name":"m","type":"n.Middle"},{"name":"i","type":"n.Inner"}"#;
    let id = fake.avro("odd/subject name", &record(fields), &references);
    let registry = registry(&fake);
    let found = latest(&registry, "odd/subject name", &Reads::Avro(None), None).unwrap();
    let decoded = decode(&mut decoder(&registry, found.reads, &found.schema), &[framed(id, &[2, 4])]).unwrap();
    assert_eq!(shown(&decoded), [json!({ "m": { "i": { "x": 1 } }, "i": { "x": 2 } })]);
    // Schemas that refer to each other without end have one here.
    for (name, other) in [("p", "q"), ("q", "p")] {
        fake.avro(name, &record("").replace("\"R\"", &format!("\"{name}\"")), &[("x", other, 1)]);
    }
    let endless = fake.avro("e", &record(r#"{"name":"f","type":"int"}"#), &[("p", "p", 1)]);
    let decoded = decode(&mut decoder(&registry, Reads::Avro(None), &columns(&[("f", "int64")])), &[framed(endless, &[2])]).unwrap();
    assert_eq!(shown(&decoded), [json!({ "f": 1 })]);
}

#[test]
fn schemas_that_stand_for_more_than_they_say_are_refused() {
    let fake = FakeRegistry::start();
    // Each holds the one before it twice: a value of no bytes, that would take for ever to walk over.
    let fields = |kind: &dyn Fn(usize) -> String| -> String {
        let mut fields = vec![r#"{"name":"f0","type":{"type":"record","name":"R0","fields":[{"name":"n","type":"null"}]}}"#.to_string()];
        for at in 1..60 {
            let inner = kind(at - 1);
            let record =
                format!(r#"{{"type":"record","name":"R{at}","fields":[{{"name":"a","type":{inner}}},{{"name":"b","type":{inner}}}]}}"#);
            fields.push(format!(r#"{{"name":"f{at}","type":{record}}}"#));
        }
        fields.join(",")
    };
    let direct = fake.avro("d", &record(&fields(&|at| format!("\"R{at}\""))), &[]);
    let endless = fake.avro("e", &record(r#"{"name":"n","type":"R"}"#), &[]);
    fake.avro("l", &record(&fields(&|at| format!(r#"{{"type":"array","items":"R{at}"}}"#))), &[]);
    let registry = registry(&fake);
    let decoded =
        decode(&mut decoder(&registry, Reads::Avro(None), &columns(&[("x", "int64")])), &[framed(direct, &[]), framed(endless, &[])]);
    let decoded = decoded.unwrap();
    let told = complaints(&decoded);
    assert!(told[0].1.contains("more than 100000 fields") && told[1].1.contains("without end"), "{told:?}");
    let error = latest(&registry, "l", &Reads::Avro(None), None).unwrap_err();
    assert!(error.to_string().contains("declare a `schema`"), "{error}");
}

/// The descriptor of a file of Protobuf, as a registry serves it.
fn compiled(files: &[(&str, &str)]) -> Vec<u8> {
    use prost_reflect::prost::Message as _;
    let folder = tempfile::tempdir().unwrap();
    files.iter().for_each(|(name, text)| std::fs::write(folder.path().join(name), text).unwrap());
    let last = files.last().unwrap().0;
    let mut compiler = protox::Compiler::new([folder.path()]).unwrap();
    let set = compiler.include_imports(true).open_file(last).unwrap().file_descriptor_set();
    let mut file = set.file.into_iter().find(|file| file.name() == last).unwrap();
    file.name = Some("default".into());
    file.encode_to_vec()
}

#[test]
fn protobuf_is_read_by_number_whatever_fields_were_called_and_every_message_of_a_file_is_known() {
    let fake = FakeRegistry::start();
    let other = ("other.proto", "syntax = \"proto3\"; package t; message O { int32 x = 1; }");
    let one = "syntax = \"proto3\"; package t; message A { int32 n = 1; string was = 2; } message B { message C { int64 n = 1; } }";
    let two = "syntax = \"proto3\"; package t; import \"other.proto\"; import \"google/protobuf/timestamp.proto\";
        message A { int64 n = 1; string now = 2; O o = 3; repeated int32 l = 4; google.protobuf.Timestamp at = 5; }";
    let first = fake.protobuf("p", &compiled(&[("a.proto", one)]), &[]);
    fake.protobuf("o", &compiled(&[other]), &[]);
    let second = fake.protobuf("p", &compiled(&[other, ("a.proto", two)]), &[("other.proto", "o", 1)]);
    let registry = registry(&fake);
    let found = latest(&registry, "p", &Reads::Protobuf(None), None).unwrap();
    let kept = pinned(&found.text).unwrap();
    assert_eq!(kept.schema, found.schema);
    let mut all = decoder(&registry, kept.reads, &kept.schema);
    let payloads = [
        framed(first, &[0, 8, 7, 18, 1, b'x']),
        // The same message by its path, and the one inside of the second.
        framed(second, &[2, 0, 8, 8, 18, 1, b'y', 26, 2, 8, 9, 34, 2, 1, 2]),
        framed(first, &[4, 2, 0, 8, 9]),
        framed(first, &[2, 8, 8, 9]),
        framed(first, &[0]),
    ];
    let decoded = decode(&mut all, &payloads).unwrap();
    assert_eq!(
        shown(&decoded),
        [
            json!({ "n": 7, "now": "x", "l": [] }),
            json!({ "n": 8, "now": "y", "o": { "x": 9 }, "l": [1, 2] }),
            json!({ "n": 0, "now": "", "l": [] })
        ]
    );
    let told = complaints(&decoded);
    assert!(told[0].0 == 2 && told[0].1.contains("it is a `t.B.C` and not a `t.A`"), "{told:?}");
    assert!(told[1].0 == 3 && told[1].1.contains("no message at [4]"), "{told:?}");
    // Declared columns are found by the names that the writer has for them.
    let mut by_name = decoder(&registry, Reads::Protobuf(None), &columns(&[("n", "int64"), ("was", "string"), ("l", "list<int64>")]));
    let decoded = decode(&mut by_name, &payloads[..3]).unwrap();
    assert_eq!(shown(&decoded), [json!({ "n": 7, "was": "x", "l": [] }), json!({ "n": 8, "l": [1, 2] }), json!({ "n": 9, "l": [] })]);
}

#[test]
fn json_is_read_behind_its_header() {
    let fake = FakeRegistry::start();
    let id = fake.json("j", r#"{"type":"object","properties":{"a":{"type":"integer"},"s":{"type":"string"}}}"#);
    let registry = registry(&fake);
    let found = latest(&registry, "j", &Reads::Json, None).unwrap();
    let kept = pinned(&found.text).unwrap();
    let mut all = decoder(&registry, kept.reads, &kept.schema);
    let payloads =
        [framed(id, b"{\"a\":1,\"s\":\"x\"}"), b"{\"a\":2}".to_vec(), framed(id, b"{\"a\":3}"), framed(77, b"{\"a\":4}"), framed(id, b"")];
    let decoded = decode(&mut all, &payloads).unwrap();
    assert_eq!(shown(&decoded), [json!({ "a": 1, "s": "x" }), json!({ "a": 3 })]);
    assert_eq!(decoded.bad.iter().map(|bad| bad.record).collect::<Vec<_>>(), [1, 3, 4]);
    let error = latest(&registry, "j", &Reads::Avro(None), None).unwrap_err();
    assert!(error.to_string().contains("version 1 of subject `j`") && error.to_string().contains("of another `format`"), "{error}");
    let error = latest(&registry, "none", &Reads::Json, None).unwrap_err();
    assert!(error.kind() == ErrorKind::Config && error.to_string().contains("has no schema (40401): Subject 'none' not found."), "{error}");
}

fn is_again(error: &tidegate_api::Error) -> bool {
    matches!(error.kind(), ErrorKind::External { retry: Retry::After(_) })
}

#[test]
fn a_registry_out_of_reach_costs_no_row_and_ends_the_run_after_its_budget() {
    let fake = FakeRegistry::start();
    let id = fake.avro("t", &record(r#"{"name":"a","type":"int"}"#), &[]);
    let clock = Arc::new(ManualClock::at(EventTime(0)));
    let registry = registry_at(&fake.url(), Arc::clone(&clock) as Arc<dyn Clock>, Duration::from_secs(10));
    let mut all = decoder(&registry, Reads::Avro(None), &columns(&[("a", "int64")]));
    let payloads = [framed(id, &[2]), framed(id, &[4])];
    fake.state().failing = (2, 503);
    assert!(is_again(&decode(&mut all, &payloads).unwrap_err()));
    // Before its time nobody asks.
    assert!(is_again(&decode(&mut all, &payloads).unwrap_err()));
    assert_eq!(fake.state().asked.len(), 1);
    clock.advance(Duration::from_millis(200));
    assert!(is_again(&decode(&mut all, &payloads).unwrap_err()));
    clock.advance(Duration::from_millis(400));
    assert_eq!(decode(&mut all, &payloads).unwrap().rows.num_rows(), 2);

    fake.state().failing = (100, 429);
    let mut waited = 0;
    let error = loop {
        let error = registry.find(55).unwrap_err();
        if !is_again(&error) {
            break error;
        }
        waited += 1;
        clock.advance(Duration::from_millis(100));
    };
    assert!(waited > 30, "{waited}");
    assert_eq!(error.kind(), ErrorKind::External { retry: Retry::No });
    let told = error.to_string();
    assert!(told.contains(&fake.url()) && told.contains("asked for schema 55") && told.contains("it answers 429: later"), "{told}");
    // What is known needs no registry.
    assert_eq!(decode(&mut all, &payloads).unwrap().rows.num_rows(), 2);

    // Nobody there at all.
    let url = fake.url();
    drop(fake);
    let error = registry_at(&url, Arc::new(SystemClock), Duration::from_millis(300)).patiently(|registry| registry.find(1)).unwrap_err();
    assert!(error.kind() == ErrorKind::External { retry: Retry::No } && error.to_string().contains(&url), "{error}");
}

#[test]
fn a_schema_is_registered_or_looked_up_and_a_refusal_is_in_the_registrys_words() {
    let fake = FakeRegistry::start();
    let registry = registry(&fake);
    let schema = Registrable { kind: "AVRO", text: record(r#"{"name":"a","type":"int"}"#) };
    let error = registry.id_of("s", &schema, false).unwrap_err();
    assert!(error.kind() == ErrorKind::Config && error.to_string().contains("autoRegister"), "{error}");
    assert_eq!(registry.id_of("s", &schema, true).unwrap(), 1);
    assert_eq!(registry.id_of("s", &schema, true).unwrap(), 1);
    assert_eq!(registry.id_of("s", &schema, false).unwrap(), 1);
    let json = Registrable { kind: "JSON", text: "{}".into() };
    assert_eq!(registry.id_of("s", &json, true).unwrap(), 2);
    for (status, code) in [(409, 409), (422, 42201)] {
        fake.state().refuses = Some((status, code, "Schema being registered is incompatible with an earlier schema"));
        let error = registry.id_of("s", &schema, true).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Config);
        assert!(error.to_string().contains(&format!("({code}): Schema being registered is incompatible")), "{error}");
    }
}

#[test]
fn who_asks_is_told_to_the_registry_and_to_nobody_else() {
    let fake = FakeRegistry::start();
    for (login, header) in
        [(Login::Basic { username: "me".into(), password: "pw".into() }, "Basic bWU6cHc="), (Login::Token("tok".into()), "Bearer tok")]
    {
        let http = Http::new(Url::parse(&fake.url()).unwrap(), login, None);
        let registry = Registry::new(http, Arc::new(SystemClock), Duration::from_secs(5));
        assert!(registry.find(1).unwrap().is_none());
        assert!(fake.state().asked.last().unwrap().ends_with(header));
    }
    fake.state().failing = (1, 401);
    let error = registry(&fake).find(2).unwrap_err();
    assert!(error.kind() == ErrorKind::Config && error.to_string().contains("refuses who asks (401): later"), "{error}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Whatever stands behind an id, every message is a row or bad, however they are cut, and nobody panics.
    #[test]
    fn no_message_is_too_strange(bodies in prop::collection::vec((0u32..6, prop::collection::vec(any::<u8>(), 0..24)), 1..40), cut in 0usize..40) {
        let fake = FakeRegistry::start();
        let fields = r#"{"name":"a","type":["null","long"],"default":null},{"name":"s","type":{"type":"array","items":"string"},"default":[]}"#;
        let avro = fake.avro("a", &record(fields), &[]);
        fake.avro("a", &record(r#"{"name":"x","type":{"type":"map","values":"bytes"}},{"name":"a","type":"int"}"#), &[]);
        fake.json("j", r#"{"type":"object","properties":{"a":{"type":"integer"}}}"#);
        let text = "syntax = \"proto3\"; package t; message A { int64 a = 1; repeated string s = 2; message B { A a = 1; } }";
        fake.protobuf("p", &compiled(&[("a.proto", text)]), &[]);
        prop_assert_eq!(avro, 1);
        let registry = registry(&fake);
        let payloads: Vec<Vec<u8>> = bodies.iter().map(|(id, body)| if *id == 0 { body.clone() } else { framed(*id, body) }).collect();
        let schema = columns(&[("a", "int64"), ("s", "list<string>")]);
        for reads in [Reads::Avro(None), latest(&registry, "a", &Reads::Avro(None), None).unwrap().reads, Reads::Protobuf(None), Reads::Json] {
            let mut all = decoder(&registry, reads, &schema);
            let whole = decode(&mut all, &payloads).unwrap();
            prop_assert_eq!(whole.rows.num_rows() + whole.bad.len(), payloads.len());
            let (left, right) = payloads.split_at(cut.min(payloads.len()));
            let parts = [decode(&mut all, left).unwrap(), decode(&mut all, right).unwrap()];
            prop_assert_eq!(parts.iter().flat_map(shown).collect::<Vec<_>>(), shown(&whole));
            let told = |decoded: &DecodedMessages| decoded.bad.iter().map(|bad| bad.row.message.clone()).collect::<Vec<_>>();
            prop_assert_eq!(parts.iter().flat_map(told).collect::<Vec<_>>(), told(&whole));
        }
    }
}

/// A server that answers one question over TLS as nobody's registry does, with a certificate that it signed itself.
fn tls(folder: &std::path::Path) -> (u16, std::path::PathBuf) {
    use openssl::asn1::Asn1Time;
    use openssl::hash::MessageDigest;
    use openssl::ssl::{SslAcceptor, SslMethod};
    use openssl::x509::extension::{BasicConstraints, SubjectAlternativeName};
    let key = openssl::pkey::PKey::from_rsa(openssl::rsa::Rsa::generate(2048).unwrap()).unwrap();
    let mut name = openssl::x509::X509Name::builder().unwrap();
    name.append_entry_by_text("CN", "localhost").unwrap();
    let name = name.build();
    let mut certificate = openssl::x509::X509::builder().unwrap();
    certificate.set_version(2).unwrap();
    certificate.set_subject_name(&name).unwrap();
    certificate.set_issuer_name(&name).unwrap();
    certificate.set_pubkey(&key).unwrap();
    certificate.set_not_before(&Asn1Time::days_from_now(0).unwrap()).unwrap();
    certificate.set_not_after(&Asn1Time::days_from_now(2).unwrap()).unwrap();
    let alternative = SubjectAlternativeName::new().dns("localhost").build(&certificate.x509v3_context(None, None)).unwrap();
    certificate.append_extension(alternative).unwrap();
    certificate.append_extension(BasicConstraints::new().build().unwrap()).unwrap();
    certificate.sign(&key, MessageDigest::sha256()).unwrap();
    let certificate = certificate.build();
    let path = folder.join("ca.pem");
    std::fs::write(&path, certificate.to_pem().unwrap()).unwrap();
    let mut acceptor = SslAcceptor::mozilla_intermediate_v5(SslMethod::tls()).unwrap();
    acceptor.set_private_key(&key).unwrap();
    acceptor.set_certificate(&certificate).unwrap();
    let acceptor = acceptor.build();
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    #[allow(clippy::disallowed_methods, reason = "a server of a test")]
    std::thread::spawn(move || {
        for stream in listener.incoming().take(2) {
            let Ok(mut stream) = acceptor.accept(stream.unwrap()) else { continue };
            let mut read = [0; 4096];
            let _ = stream.read(&mut read);
            let body = r#"{"error_code":40403,"message":"Schema not found"}"#;
            let _ = write!(stream, "HTTP/1.1 404 No\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}", body.len());
            let _ = stream.shutdown();
        }
    });
    (port, path)
}

#[test]
fn a_certificate_is_trusted_when_somebody_says_so() {
    let folder = tempfile::tempdir().unwrap();
    let (port, ca) = tls(folder.path());
    let url = Url::parse(&format!("https://localhost:{port}")).unwrap();
    let registry = |ca| Registry::new(Http::new(url.clone(), Login::None, ca), Arc::new(SystemClock), Duration::from_secs(5));
    let error = registry(None).find(1).unwrap_err();
    assert!(error.kind() == ErrorKind::Config && error.to_string().contains("name who signed its certificate by `ca`"), "{error}");
    assert!(registry(Some(ca)).find(1).unwrap().is_none());
    let (none, empty) = (folder.path().join("none.pem"), folder.path().join("empty.pem"));
    std::fs::write(&empty, "nothing").unwrap();
    for (path, part) in [(none, "cannot be read"), (empty, "holds no certificate")] {
        let error = registry(Some(path)).find(1).unwrap_err();
        assert!(error.kind() == ErrorKind::Config && error.to_string().contains(part), "{error}");
    }
}

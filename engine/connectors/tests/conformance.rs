//! Native sources under the conformance kit, the same scripts that components pass.

#![allow(clippy::unwrap_used, reason = "a test may end by panicking")]

use serde_json::{Value, json};
use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use tidegate_api::{EqualTo, SourceRequest};
use tidegate_conformance::Rule;
use tidegate_conformance::source::{SourceOptions, SourceWorld, judge, source_contract};
use tidegate_connectors::ConnectorCtx;

fn world(connector: &'static str, folder: &Path, options: Value) -> SourceWorld {
    let folder = folder.to_path_buf();
    SourceWorld::new(move || {
        Ok(tidegate_connectors::source(connector, options.as_object().unwrap(), &ConnectorCtx::new(&folder, "in")).unwrap())
    })
}

#[test]
fn nexmark_passes_whatever_is_asked_of_it() {
    let here = Path::new("");
    for (options, request) in [
        (json!({ "events": 700, "partitions": 3, "outOfOrderMs": 200 }), SourceRequest::all()),
        // Without an end, as far as the kit reads.
        (json!({ "partitions": 2 }), SourceRequest::all()),
        (
            json!({ "events": 700, "partitions": 2 }),
            SourceRequest::all().with_equals(vec![EqualTo { column: "type".into(), values: vec![json!("bid")] }]),
        ),
    ] {
        source_contract(&world("nexmark", here, options), &SourceOptions::default().with_request(request).with_rows(200));
    }
}

/// Files with quoted fields and lines that are no rows.
fn write(folder: &Path, name: &str, rows: std::ops::Range<i64>) {
    let mut text = String::from("n,s,t\n");
    for n in rows {
        if n % 10 == 7 {
            let _ = writeln!(text, "x{n},bad,2013-01-01T00:00:00Z");
        }
        let _ = writeln!(text, "{n},\"a \"\"{n}\"\"\",2013-01-01T00:{:02}:{:02}Z", (n / 60) % 60, n % 60);
    }
    fs::write(folder.join(name), text).unwrap();
}

#[test]
fn files_pass_with_bad_rows_among_the_good() {
    let folder = tempfile::tempdir().unwrap();
    write(folder.path(), "a.csv", 0..90);
    write(folder.path(), "b.csv", 90..130);
    fs::write(folder.path().join("empty.csv"), "n,s,t\n").unwrap();
    let schema = json!([{ "name": "n", "type": "int64" }, { "name": "s", "type": "string" }, { "name": "t", "type": "timestamp_ms" }]);
    let judgement = judge(&world("files", folder.path(), json!({ "path": ".", "schema": schema })), &SourceOptions::default());
    judgement.expect_passed();
    for rule in
        [Rule::ReplaySame, Rule::AnyTasks, Rule::AnyPoll, Rule::PositionSkips, Rule::PositionRepeats, Rule::KilledAnywhere, Rule::Pruning]
    {
        assert!(judgement.kept.contains(&rule), "`{rule}` was not judged");
    }
}

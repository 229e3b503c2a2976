//! Partitions: every row in its folder and nowhere else, through every format; bounds; what values cannot do.

use super::*;
use crate::files::parts::{MAX_OPEN, Parts};
use crate::files::staging::Place;
use arrow::array::BooleanArray;
use arrow::datatypes::DataType;
use proptest::prelude::*;
use std::time::Duration;
use tidegate_api::config::problems_of;
use tidegate_api::testkit::ManualClock;
use tidegate_api::{CommitToken, EventTime};

/// What a folder of a day and a number, as its name gives them, holds.
type ByFolder = std::collections::BTreeMap<(Option<String>, Option<String>), Vec<(i64, bool)>>;

/// Every visible file below a folder, with the folders it is in.
fn files(root: &Path) -> Vec<(Vec<String>, PathBuf)> {
    fn walk(folder: &Path, within: &[String], found: &mut Vec<(Vec<String>, PathBuf)>) {
        for name in names(folder).into_iter().filter(|name| !name.starts_with('.')) {
            let path = folder.join(&name);
            if path.is_dir() {
                walk(&path, &[within, &[name]].concat(), found);
            } else {
                found.push((within.to_vec(), path));
            }
        }
    }
    let mut found = Vec::new();
    if root.exists() {
        walk(root, &[], &mut found);
    }
    found
}

/// The value of a folder's name, decoded as a reader does; `None` for the default partition.
fn value_of(folder: &str, column: &str) -> Option<String> {
    let value = folder.strip_prefix(&format!("{column}=")).unwrap_or_else(|| panic!("`{folder}` is no folder of `{column}`"));
    if value == "__HIVE_DEFAULT_PARTITION__" {
        return None;
    }
    let (mut bytes, mut rest) = (Vec::new(), value.bytes());
    while let Some(byte) = rest.next() {
        let code = |byte: Option<u8>| char::from(byte.unwrap()).to_digit(16).unwrap() as u8;
        bytes.push(if byte == b'%' { code(rest.next()) * 16 + code(rest.next()) } else { byte });
    }
    Some(String::from_utf8(bytes).unwrap())
}

/// All visible rows, the column `column` put back in its place from the names of folders.
fn read_back(root: &Path, schema: &SchemaRef, column: &str) -> Vec<RecordBatch> {
    let at = schema.index_of(column).unwrap();
    let content: Vec<Value> =
        serde_json::from_str::<Vec<Value>>(SCHEMA).unwrap().into_iter().filter(|field| field["name"] != column).collect();
    let read = |(folders, path): (Vec<String>, PathBuf)| {
        let source = source_in(root, json!({ "path": path.to_str().unwrap(), "schema": content }));
        let value = value_of(&folders[0], column);
        all_rows(source.as_ref()).into_iter().map(move |rows| {
            let restored = vec![value.as_deref(); rows.num_rows()];
            let mut columns = rows.columns().to_vec();
            columns.insert(at, Arc::new(StringViewArray::from_iter(restored)));
            RecordBatch::try_new(Arc::new(sample(0..1).schema().as_ref().clone()), columns).unwrap()
        })
    };
    files(root).into_iter().flat_map(read).collect()
}

#[test]
fn the_partitioned_sink_keeps_its_contract_in_every_format() {
    let rows = [sample(0..20), sample(20..25)];
    for format in ["json", "csv", "parquet", "arrow", "avro"] {
        sink_contract(&rows[0].schema(), &rows, || {
            let folder = Arc::new(TempDir::new().unwrap());
            let place = Arc::clone(&folder);
            let sink = move || sink_in(place.path(), json!({ "path": "out", "format": format, "partitionBy": ["text"] }));
            let place = Arc::clone(&folder);
            let hidden = move || staged(&place.path().join("out"));
            let visible = move || read_back(&folder.path().join("out"), &sample(0..1).schema(), "text");
            SinkWorld::new(sink, visible, hidden)
        });
    }
}

fn text() -> impl Strategy<Value = Option<String>> {
    prop_oneof![
        Just(None),
        Just(Some(String::new())),
        prop::sample::select(vec!["..", ".", "/", "../../x", "a/b", "a=b", "%2F", "\0", "a b", "\\", ".hidden", "_x", "é\u{1F600}", "C:"])
            .prop_map(|text| Some(text.to_string())),
        "[\u{0}-\u{7f}]{1,6}".prop_map(Some),
        "[ab]".prop_map(Some),
    ]
}

type Row = (Option<String>, Option<i32>, bool);

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]
    /// The oracle deals rows out one by one.
    #[test]
    fn every_row_is_in_its_folder_in_order(
        epochs in prop::collection::vec(prop::collection::vec(prop::collection::vec((text(), prop::option::of(-2i32..3), any::<bool>()), 0..30), 1..4), 1..4),
        format in prop::sample::select(vec!["json", "csv", "parquet", "arrow", "avro"]),
        roll in any::<bool>(),
    ) {
        let folder = TempDir::new().unwrap();
        let mut options = json!({ "path": "out", "format": format, "partitionBy": ["key", "day"] });
        if roll {
            options["rollBytes"] = json!(64);
        }
        let sink = sink_in(folder.path(), options);
        let run = RunIdentity::new("test", RunId::new("run"), Generation(1), "out");
        let batch = |rows: &[Row], first: i64| {
            let columns: Vec<(&str, ArrayRef, bool)> = vec![
                ("key", Arc::new(StringViewArray::from_iter(rows.iter().map(|row| row.0.as_deref()))), true),
                ("n", Arc::new(Int64Array::from_iter_values(first..first + rows.len() as i64)), true),
                ("day", Arc::new(arrow::array::Date32Array::from_iter(rows.iter().map(|row| row.1))), true),
                ("flag", Arc::new(BooleanArray::from_iter(rows.iter().map(|row| Some(row.2)))), true),
            ];
            RecordBatch::try_from_iter_with_nullable(columns).unwrap()
        };
        let AnySink::Transactional(mut writer) = sink.open(SinkCtx::new(run.clone(), batch(&[], 0).schema())).unwrap() else { panic!() };
        let mut committer = sink.committer(SinkCtx::for_commit(run)).unwrap();
        let mut expected: ByFolder = Default::default();
        let mut n = 0;
        for (epoch, batches) in (1..).zip(&epochs) {
            for rows in batches {
                prop_assert!(writer.write(&batch(rows, n), None).unwrap().bad.is_empty());
                for row in rows {
                    let days = ["1969-12-30", "1969-12-31", "1970-01-01", "1970-01-02", "1970-01-03"];
                    let day = row.1.map(|day| days[(day + 2) as usize].to_string());
                    let key = row.0.clone().filter(|text| !text.is_empty());
                    expected.entry((key, day)).or_default().push((n, row.2));
                    n += 1;
                }
            }
            match writer.pre_commit(Epoch(epoch)).unwrap() {
                PreCommit::Token(token) => { committer.commit(Epoch(epoch), &[token]).unwrap(); }
                _ => prop_assert!(batches.iter().all(Vec::is_empty)),
            }
        }
        let mut found: ByFolder = Default::default();
        let mut all = files(&folder.path().join("out"));
        let number = |path: &Path| -> Vec<u64> {
            path.file_stem().unwrap().to_str().unwrap().split('-').filter_map(|part| part.parse().ok()).collect()
        };
        all.sort_by_key(|(_, path)| number(path));
        for (folders, path) in all {
            prop_assert_eq!(folders.len(), 2);
            let place = (value_of(&folders[0], "key"), value_of(&folders[1], "day"));
            let schema = json!([{ "name": "n", "type": "int64" }, { "name": "flag", "type": "bool" }]);
            let source = source_in(folder.path(), json!({ "path": path.to_str().unwrap(), "schema": schema }));
            for rows in all_rows(source.as_ref()) {
                let flags = rows.column(1).as_boolean();
                let numbers = rows.column(0).as_primitive::<Int64Type>().values();
                found.entry(place.clone()).or_default().extend(numbers.iter().zip(flags.iter()).map(|(n, flag)| (*n, flag.unwrap())));
            }
        }
        prop_assert_eq!(found, expected);
        prop_assert!(names(folder.path()).iter().all(|name| name == "out"), "nothing is written elsewhere");
    }
}

/// A batch of a key column and a number.
fn keyed(keys: &[Option<&str>]) -> RecordBatch {
    let columns: Vec<(&str, ArrayRef)> = vec![
        ("k", Arc::new(StringViewArray::from_iter(keys.iter().copied()))),
        ("n", Arc::new(Int64Array::from_iter_values(0..keys.len() as i64))),
    ];
    RecordBatch::try_from_iter_with_nullable(columns.into_iter().map(|(name, column)| (name, column, true))).unwrap()
}

#[test]
fn folders_are_named_as_hive_and_spark_name_them() {
    let folder = TempDir::new().unwrap();
    let keys = ["2024-01-01 10:00", "a b", "100%", "x=y", "a/b", "..", "é", "~-_.!$&()+,;@", "\"#'*?\\{[]^\n"];
    let keys: Vec<Option<&str>> = keys.into_iter().map(Some).chain([Some(""), None]).collect();
    write_parts(folder.path(), json!({ "path": "out", "partitionBy": "k" }), &[keyed(&keys)]);
    let mut expected = [
        "k=2024-01-01 10%3A00",
        "k=a b",
        "k=100%25",
        "k=x%3Dy",
        "k=a%2Fb",
        "k=..",
        "k=é",
        "k=~-_.!$&()+,;@",
        "k=%22%23%27%2A%3F%5C%7B%5B%5D%5E%0A",
        "k=__HIVE_DEFAULT_PARTITION__",
    ];
    expected.sort_unstable();
    assert_eq!(names(&folder.path().join("out")), expected);
    let part = folder.path().join("out/k=a b/part-run-out-1-1-0-1.json");
    assert_eq!(fs::read_to_string(part).unwrap(), "{\"n\":1}\n", "the column is in the folder's name alone");
}

#[test]
fn the_number_of_open_parts_is_bounded_and_every_row_is_written() {
    let folder = TempDir::new().unwrap();
    let options = map(json!({ "path": "out", "partitionBy": ["k"] }));
    let config = FilesSinkConfig::parse(&options, folder.path()).unwrap();
    let run = RunIdentity::new("test", RunId::new("run"), Generation(1), "out");
    let content = keyed(&[]).project(&[1]).unwrap().schema();
    let place = Place::new(&folder.path().join("out"), &SinkCtx::for_commit(run.clone()));
    let mut parts = Parts::new(config, place, 0, content);
    let row = keyed(&[None]).project(&[1]).unwrap();
    let write = |parts: &mut Parts, folder: usize| {
        parts.write(&format!("k={folder}"), &row, Duration::ZERO).unwrap();
        assert!(parts.open() <= MAX_OPEN);
    };
    (0..MAX_OPEN).for_each(|folder| write(&mut parts, folder));
    write(&mut parts, 0);
    // The least recently written is 1 now; 0 stays open.
    write(&mut parts, 1000);
    write(&mut parts, 0);
    write(&mut parts, 1);
    let ended = parts.end_all(Epoch(1)).unwrap();
    let of = |folder: &str| ended.iter().filter(|part| part.folder == folder).count();
    assert_eq!((of("k=0"), of("k=1"), of("k=1000"), ended.len()), (1, 2, 1, MAX_OPEN + 2));

    // The same through the sink: far more folders than may be open, again and again.
    let keys: Vec<String> = (0..1000).map(|n| (n % 200).to_string()).collect();
    let rows = keyed(&keys.iter().map(|key| Some(key.as_str())).collect::<Vec<_>>());
    write_parts(folder.path(), json!({ "path": "many", "partitionBy": ["k"], "format": "csv" }), &[rows.clone(), rows]);
    let found = files(&folder.path().join("many"));
    assert_eq!(found.len(), 400);
    let lines: usize = found.iter().map(|(_, path)| fs::read_to_string(path).unwrap().lines().count() - 1).sum();
    assert_eq!(lines, 2000);
}

#[test]
fn a_part_is_ended_when_it_has_been_open_for_long_enough() {
    let folder = TempDir::new().unwrap();
    let clock = Arc::new(ManualClock::at(EventTime(0)));
    let sink = sink_in(folder.path(), json!({ "path": "out", "rollEvery": "1m" }));
    let run = RunIdentity::new("test", RunId::new("run"), Generation(1), "out");
    let ctx = SinkCtx::new(run.clone(), sample(0..1).schema()).with_clock(Arc::clone(&clock) as Arc<dyn tidegate_api::Clock>);
    let AnySink::Transactional(mut writer) = sink.open(ctx).unwrap() else { panic!() };
    for n in 0..7 {
        writer.write(&sample(n..n + 1), None).unwrap();
        clock.advance(Duration::from_secs(30));
    }
    let PreCommit::Token(token) = writer.pre_commit(Epoch(1)).unwrap() else { panic!() };
    sink.committer(SinkCtx::for_commit(run)).unwrap().commit(Epoch(1), &[token]).unwrap();
    let out = folder.path().join("out");
    let lines: Vec<usize> = names(&out).iter().map(|name| fs::read_to_string(out.join(name)).unwrap().lines().count()).collect();
    assert_eq!(lines, [3, 3, 1]);
}

#[test]
fn mistakes_in_partition_by_are_found_while_planning() {
    let folder = TempDir::new().unwrap();
    let mistakes = |by: Value, schema: &SchemaRef| -> Vec<String> {
        let sink = sink_in(folder.path(), json!({ "path": "out", "partitionBy": by }));
        let error = sink.plan(&SinkInput::new(Arc::clone(schema), ChangeMode::Append)).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Config);
        problems_of(&error).iter().map(ToString::to_string).collect()
    };
    let field = |name: &str, data_type: DataType| arrow::datatypes::Field::new(name, data_type, true);
    let list = DataType::List(Arc::new(field("item", DataType::Int64)));
    let fields = vec![field("day", DataType::Utf8View), field("f", DataType::Float64), field("l", list), field("b", DataType::Binary)];
    let schema: SchemaRef = Arc::new(arrow::datatypes::Schema::new(fields));
    assert_eq!(
        mistakes(json!(["dya", "f", "l", "day", "day", "b"]), &schema),
        [
            "partitionBy.0: there is no column `dya`, did you mean `day`?",
            "partitionBy.1: column `f` is `float64`: floats are no names of folders, `cast` it to a decimal, an integer or a string",
            "partitionBy.2: column `l` is `list<int64>`: lists and structs are no names of folders, take a value out of it first",
            "partitionBy.4: `day` stands here twice",
            "partitionBy.5: column `b` is `binary`: bytes are no names of folders, make it text first",
        ]
    );
    let both = ["n", "text", "at"];
    assert_eq!(
        mistakes(json!(both), &sample(0..1).schema()),
        ["partitionBy: these are all columns, and nothing would be left for the files"]
    );
    let options = map(json!({ "path": "out", "partitionBy": [1], "rollEveryMs": 0 }));
    let keys: Vec<String> =
        FilesSinkConfig::parse(&options, Path::new(".")).unwrap_err().into_iter().map(|problem| problem.path.join(".")).collect();
    assert_eq!(keys, ["rollEveryMs", "partitionBy"]);
}

#[test]
fn a_row_without_a_folder_costs_itself() {
    let folder = TempDir::new().unwrap();
    let (long, fits, evil) = ("x".repeat(254), "x".repeat(253), "/".repeat(100));
    let keys = [Some("a"), Some(long.as_str()), Some("b"), Some(evil.as_str()), None, Some(fits.as_str())];
    let sink = sink_in(folder.path(), json!({ "path": "out", "partitionBy": ["k"] }));
    let run = RunIdentity::new("test", RunId::new("run"), Generation(1), "out");
    let AnySink::Transactional(mut writer) = sink.open(SinkCtx::new(run.clone(), keyed(&[]).schema())).unwrap() else { panic!() };
    let bad = writer.write(&keyed(&keys), None).unwrap().bad;
    assert_eq!(bad.iter().map(|error| error.row).collect::<Vec<_>>(), [1, 3]);
    assert!(bad[0].column.as_deref() == Some("k") && bad[0].message.contains("too long"), "{bad:?}");
    let PreCommit::Token(token) = writer.pre_commit(Epoch(1)).unwrap() else { panic!() };
    sink.committer(SinkCtx::for_commit(run.clone())).unwrap().commit(Epoch(1), &[token]).unwrap();
    assert_eq!(files(&folder.path().join("out")).len(), 4);

    // Of a time that no text can say, in a partition column and in another, both by their place in the batch.
    let at = |at: &[i64]| -> ArrayRef { Arc::new(arrow::array::TimestampSecondArray::from(at.to_vec())) };
    let columns = [("p", at(&[0, i64::MAX, 0, 60, 0])), ("q", at(&[0, 0, 0, 0, i64::MAX]))];
    let rows = RecordBatch::try_from_iter_with_nullable(columns.into_iter().map(|(name, column)| (name, column, true))).unwrap();
    let sink = sink_in(folder.path(), json!({ "path": "times", "partitionBy": ["p"] }));
    let AnySink::Transactional(mut writer) = sink.open(SinkCtx::new(run, rows.schema())).unwrap() else { panic!() };
    let bad = writer.write(&rows, None).unwrap().bad;
    assert_eq!(bad.iter().map(|error| (error.row, error.column.as_deref())).collect::<Vec<_>>(), [(1, Some("p")), (4, Some("q"))]);
}

#[test]
fn a_token_whose_folder_leads_elsewhere_is_refused() {
    let folder = TempDir::new().unwrap();
    let sink = sink_in(folder.path(), json!({ "path": "out", "partitionBy": ["k"] }));
    let run = RunIdentity::new("test", RunId::new("run"), Generation(1), "out");
    let mut committer = sink.committer(SinkCtx::for_commit(run)).unwrap();
    for place in ["../k=1", "k=1/..", "/k=1", "k=1/", "x", "k=1//k=2", "..\\k=1"] {
        let parts = json!([{ "staged": "1-0-0.json", "name": "y", "folder": place }]);
        let token = CommitToken(serde_json::to_vec(&json!({ "run": "run", "sink": "out", "parts": parts })).unwrap());
        let error = committer.commit(Epoch(1), &[token]).unwrap_err();
        assert!(error.to_string().contains("outside its folder"), "{place}: {error}");
    }
}

#[test]
fn folders_below_a_folder_are_read_by_a_pattern_and_staged_parts_never() {
    let folder = TempDir::new().unwrap();
    let options = json!({ "path": "out", "partitionBy": ["k"] });
    write_parts(folder.path(), options.clone(), &[keyed(&[Some("a"), Some("b"), None])]);
    fs::create_dir_all(folder.path().join("out/_old")).unwrap();
    fs::write(folder.path().join("out/_old/x.json"), "{\"n\":9}\n").unwrap();
    // Prepared and not committed.
    let run = RunIdentity::new("test", RunId::new("other"), Generation(1), "out");
    let AnySink::Transactional(mut writer) = sink_in(folder.path(), options).open(SinkCtx::new(run, keyed(&[]).schema())).unwrap() else {
        panic!()
    };
    writer.write(&keyed(&[Some("a")]), None).unwrap();
    writer.pre_commit(Epoch(1)).unwrap();
    let count = |path: &str| -> usize {
        all_rows(source_in(folder.path(), json!({ "path": path })).as_ref()).iter().map(RecordBatch::num_rows).sum()
    };
    assert_eq!(count("out/**/*.json"), 3);
    assert_eq!(count("out/*/*.json"), 3);
    assert_eq!(count("out/_old/*.json"), 1, "what a pattern names itself is read");
}

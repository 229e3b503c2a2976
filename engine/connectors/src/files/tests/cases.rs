//! Cases of the public collection about sinks of files.

use super::*;
use tidegate_api::{CommitOutcome, CommitToken, TransactionalSink};

fn run(id: &str, generation: u64) -> RunIdentity {
    RunIdentity::new("test", RunId::new(id), Generation(generation), "out")
}

fn opened(sink: &dyn OutputSink, run: &RunIdentity, task: usize) -> Box<dyn TransactionalSink> {
    let ctx = SinkCtx::new(run.clone(), sample(0..1).schema()).with_task(task, 2);
    let AnySink::Transactional(writer) = sink.open(ctx).unwrap() else { panic!("it is transactional") };
    writer
}

fn prepared(writer: &mut dyn TransactionalSink, epoch: u64, rows: std::ops::Range<i64>) -> CommitToken {
    writer.write(&sample(rows), None).unwrap();
    let PreCommit::Token(token) = writer.pre_commit(Epoch(epoch)).unwrap() else { panic!("there are rows") };
    token
}

/// P198, P200, P201: epochs, tasks, generations and runs that write beside each other never make one name twice; committing again is
/// harmless. P202: nor do parts that end within one moment.
#[test]
fn p198_p200_p201_p202_no_two_parts_have_one_name() {
    let folder = TempDir::new().unwrap();
    let sink = sink_in(folder.path(), json!({ "path": "out", "rollBytes": "1KiB" }));
    let mut rows = 0;
    for (id, generation) in [("one", 1), ("one", 2), ("two", 1)] {
        let run = run(id, generation);
        let mut writers = [opened(sink.as_ref(), &run, 0), opened(sink.as_ref(), &run, 1)];
        let mut committer = sink.committer(SinkCtx::for_commit(run)).unwrap();
        for epoch in [1, 2] {
            let tokens = writers.each_mut().map(|writer| {
                for row in rows..rows + 39 {
                    writer.write(&sample(row..row + 1), None).unwrap();
                }
                rows += 40;
                prepared(writer.as_mut(), epoch, rows - 1..rows)
            });
            committer.commit(Epoch(epoch), &tokens).unwrap();
            committer.commit(Epoch(epoch), &tokens).unwrap();
        }
    }
    assert!(names(&folder.path().join("out")).len() > 12 * 2, "parts were rolled");
    let found = all_rows(source_in(folder.path(), json!({ "path": "out", "schema": schema_option() })).as_ref());
    assert_eq!(sorted_rows(&found), sorted_rows(&[sample(0..rows)]));
}

/// P199: what stands under a part's name and is not that part is never replaced. P097: after a crash behind the commit, the same file is
/// success, and another one is an error.
#[test]
fn p097_p199_a_name_that_is_taken_is_success_only_for_the_same_part() {
    let folder = TempDir::new().unwrap();
    let sink = sink_in(folder.path(), json!({ "path": "out" }));
    let run = run("run", 1);
    let mut writer = opened(sink.as_ref(), &run, 0);
    let commit = |epoch: u64, token: &CommitToken| {
        sink.committer(SinkCtx::for_commit(run.clone())).unwrap().commit(Epoch(epoch), std::slice::from_ref(token))
    };
    let token = prepared(writer.as_mut(), 1, 0..5);
    let name = folder.path().join("out/part-run-out-1-1-0-0.json");
    fs::write(&name, "somebody else's\n").unwrap();
    let error = commit(1, &token).unwrap_err();
    assert!(error.to_string().contains("nothing is overwritten") && error.to_string().contains("part-run-out-1-1-0-0.json"), "{error}");
    assert_eq!(fs::read_to_string(&name).unwrap(), "somebody else's\n");
    // Once that is out of the way nothing is lost.
    fs::remove_file(&name).unwrap();
    assert_eq!(commit(1, &token).unwrap(), [CommitOutcome::Done]);
    let whole = fs::read(&name).unwrap();
    assert_eq!(commit(1, &token).unwrap(), [CommitOutcome::AlreadyDone]);
    // A copy that was brought back from elsewhere, beside the staged part.
    let token = prepared(writer.as_mut(), 2, 5..9);
    let second = folder.path().join("out/part-run-out-1-2-0-0.json");
    assert_eq!(commit(2, &token).unwrap(), [CommitOutcome::Done]);
    let bytes = fs::read(&second).unwrap();
    fs::remove_file(&second).unwrap();
    fs::write(&second, &bytes).unwrap();
    assert_eq!(commit(2, &token).unwrap(), [CommitOutcome::AlreadyDone]);
    fs::write(&second, &bytes[..bytes.len() - 1]).unwrap();
    assert!(commit(2, &token).unwrap_err().to_string().contains("nothing is overwritten"));
    fs::remove_file(&second).unwrap();
    assert!(matches!(commit(2, &token).unwrap().as_slice(), [CommitOutcome::Lost(_)]));
    assert_eq!(fs::read(&name).unwrap(), whole);
}

/// P102: a record of many times the usual size is a row like any other; one that nobody would hold in memory is a bad row, and those behind it are
/// read.
#[test]
fn p102_one_large_record_does_not_end_the_writer() {
    let folder = TempDir::new().unwrap();
    let text = "x".repeat(40 << 20);
    let row = |text: &str| RecordBatch::try_from_iter([("text", Arc::new(StringViewArray::from(vec![text])) as ArrayRef)]).unwrap();
    write_parts(folder.path(), json!({ "path": "out" }), &[row("before"), row(&text), row("behind")]);
    let schema = json!([{ "name": "text", "type": "string" }]);
    let found = all_rows(source_in(folder.path(), json!({ "path": "out", "schema": schema })).as_ref());
    let mut lengths: Vec<usize> = found.iter().flat_map(|batch| batch.column(0).as_string_view().iter().flatten().map(str::len)).collect();
    lengths.sort_unstable();
    assert_eq!(lengths, ["before".len(), "behind".len(), text.len()]);

    for (name, line) in [("a.json", "{\"text\":\"LONG\"}\n"), ("a.csv", "\"LONG\"\n"), ("a.txt", "LONG\n")] {
        let head = if name == "a.csv" { "text\n" } else { "" };
        let long = line.replace("LONG", &"x".repeat(65 << 20));
        fs::write(folder.path().join(name), format!("{head}{}{long}{}", line.replace("LONG", "before"), line.replace("LONG", "behind")))
            .unwrap();
        let mut options = json!({ "path": name, "schema": schema });
        if name == "a.txt" {
            options = json!({ "path": name, "format": "raw" });
        }
        let source = source_in(folder.path(), options);
        let read = read_source(source.as_ref(), &SourceRequest::all(), 1, 1000, None).into_values().next().unwrap();
        let texts: Vec<String> = read.rows.column(0).as_string_view().iter().flatten().map(str::to_string).collect();
        assert_eq!(texts, ["before", "behind"], "{name}");
        assert_eq!(read.bad.len(), 1, "{name}");
    }
}

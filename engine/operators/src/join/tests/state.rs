//! State: what is written again and what is not, what is let go, and pieces that are damaged.

use super::harness::{Row, batch, inputs, job, left, results, right, row, step};
use crate::step::{BindCtx, BoundNode};
use crate::testing::Act;
use tidegate_api::{Epoch, EventTime, Generation, Operator, OperatorCtx, Output, PieceId, RestoredPiece, RunId, RunIdentity, VnodeRange};

fn many(from: i64, count: i64) -> Vec<Row> {
    (from..from + count).map(|n| row(n / 100, n, n)).collect()
}

fn open() -> Box<dyn Operator> {
    let bound = crate::parse_step(&step("full", &["k"], -10, 10)).unwrap().bind(&inputs(), &BindCtx::new()).unwrap();
    let BoundNode::Operator { factory, .. } = bound.node else { panic!("a join is an operator") };
    factory.open(OperatorCtx::new(RunIdentity::new("test", RunId::new("run"), Generation(1), "stage"))).unwrap()
}

#[test]
fn a_large_chunk_is_written_once_and_marks_apart_from_it() {
    let mut job = job(&step("left", &["k"], -1_000_000, 1_000_000), 1, 8192);
    job.batch(0, &batch(&many(0, 20_000)));
    job.snapshot();
    assert_eq!((job.made.written, job.made.kept), (2, 0));
    job.snapshot();
    assert_eq!((job.made.written, job.made.kept), (2, 2));
    // A partner comes: a small chunk of its own, and a mark on the large one, which stays as it is.
    job.batch(1, &batch(&[row(0, 77, 1)]));
    job.watermark(EventTime::from_millis(50));
    job.snapshot();
    assert_eq!((job.made.written, job.made.kept), (5, 3));
    job.snapshot();
    assert_eq!((job.made.written, job.made.kept), (5, 7));
}

#[test]
fn a_restore_of_everything_writes_no_chunk_again_and_a_part_is_written_once() {
    let mut job = job(&step("full", &["k"], -1_000_000, 1_000_000), 1, 8192);
    job.batch(0, &batch(&many(0, 20_000)));
    job.batch(1, &batch(&many(10_000, 5)));
    let snapshot = job.snapshot();
    let written = job.made.written;
    job.restore(&snapshot, 1);
    job.snapshot();
    // Marks, and how far time has come; not the two chunks.
    assert_eq!(job.made.written - written, 3);
    job.restore(&snapshot, 2);
    let written = job.made.written;
    let halves = job.snapshot();
    assert!(job.made.written > written + 2);
    job.restore(&halves, 1);
    job.end();
    // Five pairs came out before, and all other rows alone.
    assert_eq!(job.made.rows().len(), 20_000);
}

#[test]
fn memory_follows_the_rows_that_wait() {
    let mut operator = open();
    let mut out = Output::default();
    let mut most = 0;
    let gauge = tidegate_api::Counter::new();
    let mut bounded = {
        let bound = crate::parse_step(&step("inner", &["k"], -10, 10)).unwrap().bind(&inputs(), &BindCtx::new()).unwrap();
        let BoundNode::Operator { factory, .. } = bound.node else { panic!("a join is an operator") };
        let ctx = OperatorCtx::new(RunIdentity::new("test", RunId::new("run"), Generation(1), "stage")).with_state_bytes(gauge.clone());
        factory.open(ctx).unwrap()
    };
    for part in 0..200 {
        // In no order of time, so that rows die in the middle of chunks.
        let rows: Vec<Row> = (0..1000).map(|n| row(part * 5 + n * 7919 % 1000 * (n % 50) / 50, n + part * 1000, n)).collect();
        for operator in [&mut operator, &mut bounded] {
            operator.on_batch((part % 2) as usize, batch(&rows), &mut out).unwrap();
            while operator.on_watermark(EventTime::from_millis(part * 5), &mut out).unwrap() == tidegate_api::Flow::More {}
        }
        out = Output::default();
        most = most.max(gauge.get());
    }
    // About 200 ms of rows wait at a time: 40,000; held are less than twice those and a chunk.
    assert!(most < 30_000_000, "{most} bytes");
    while bounded.on_watermark(EventTime::MAX, &mut out).unwrap() == tidegate_api::Flow::More {}
    assert!(gauge.get() < 100_000, "{} bytes", gauge.get());
}

#[test]
fn damaged_and_foreign_pieces_are_refused_by_name() {
    let mut operator = open();
    let mut out = Output::default();
    operator.on_batch(0, batch(&many(0, 10)), &mut out).unwrap();
    operator.on_batch(1, batch(&many(0, 3)), &mut out).unwrap();
    let pieces: Vec<RestoredPiece> = operator
        .snapshot(Epoch(1))
        .unwrap()
        .into_iter()
        .enumerate()
        .filter_map(|(index, piece)| {
            let (name, vnodes, data) = piece.into_new().unwrap()?;
            Some(RestoredPiece { id: PieceId(index.to_string()), name, vnodes, data })
        })
        .collect();
    assert_eq!(pieces.len(), 5);
    open().restore(pieces.clone()).unwrap();
    for (index, piece) in pieces.iter().enumerate() {
        let mut torn = pieces.clone();
        torn[index].data.truncate(piece.data.len() / 2 + 1);
        let error = open().restore(torn).unwrap_err().to_string();
        assert!(error.contains(&format!("`{}`", piece.name)), "{error}");
    }
    let foreign = RestoredPiece { id: PieceId("x".into()), name: "pane/3".into(), vnodes: VnodeRange::all(256), data: Vec::new() };
    assert!(open().restore(vec![foreign]).unwrap_err().to_string().contains("none of this operator's"));
}

#[test]
fn vnodes_of_different_progress_keep_their_own_late_rows_and_emit_once() {
    let mut job = job(&step("left", &["k"], 0, 10), 2, 100);
    let rows: Vec<Row> = (0..64).map(|n| row(20, n, n)).collect();
    job.batch(0, &batch(&rows));
    let vnodes = job.vnodes(0, &batch(&rows));
    // Only the first task has come so far that its rows are over.
    job.watermark_of(0, EventTime::from_millis(31));
    let early = job.made.rows().len();
    assert_eq!(early, vnodes.iter().filter(|vnode| **vnode < 128).count());
    let snapshot = job.snapshot();
    job.restore(&snapshot, 1);
    // Partners at 25: late for the vnodes of the first task, in time for the others.
    let partners: Vec<Row> = (0..64).map(|n| row(25, n, 100)).collect();
    job.batch(1, &batch(&partners));
    assert_eq!(job.made.late, early);
    job.watermark(EventTime::from_millis(28));
    job.end();
    let made = job.made.rows();
    assert_eq!(made.len(), 64);
    assert_eq!(made.iter().filter(|row| row.ends_with("25 - - 100")).count(), 64 - early);
}

#[test]
fn a_row_whose_partners_are_before_it_survives_a_restore() {
    // It can find no partner any more when it comes, and was not told so yet.
    let acts = [Act::Watermark(-70), left(&[row(-33, 1, 1)]), Act::Snapshot, Act::Crash(2), Act::Watermark(-33)];
    assert_eq!(results(&step("left", &["k"], -38, -38), &acts), ["-33 1 - - 1 - - - -"]);
}

#[test]
fn small_batches_become_few_chunks() {
    let mut job = job(&step("inner", &["k"], -1000, 1000), 1, 8192);
    for n in 0..3000 {
        job.batch((n % 2) as usize, &batch(&[row(0, n, n)]));
    }
    let pieces = job.snapshot().len();
    assert!(pieces <= 2 * 12 + 1, "{pieces} pieces");
    let found = [left(&[row(5, 1, 0)]), right(&[row(5, 2998, 0)])];
    for act in found {
        let Act::Rows(input, rows) = act else { continue };
        job.batch(input, &rows);
    }
    assert_eq!(job.made.rows().len(), 2);
}

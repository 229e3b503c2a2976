//! What every source must keep, as functions that a connector's test calls. They panic with the rule that was broken. Transactional
//! sinks have a kit of their own, `tidegate-conformance`.

use crate::{
    BadRow, Generation, InlineSource, Ordinals, PollRequest, Position, RunId, RunIdentity, SourceCtx, SourceRequest, Split, SplitId,
    SplitState,
};
use arrow::array::RecordBatch;
use arrow::compute::concat_batches;
use arrow::util::display::{ArrayFormatter, FormatOptions};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

/// What was read of one split.
#[derive(Debug, Clone)]
pub struct SplitRead {
    /// The rows.
    pub rows: RecordBatch,
    /// The rows' numbers, if asked for and known.
    pub ordinals: Vec<u64>,
    /// The bad ones, in order.
    pub bad: Vec<BadRow>,
    /// Rows left out by applied conditions.
    pub filtered: u64,
    /// After how many rows and bad rows which position was reported.
    pub positions: Vec<(usize, usize, Position)>,
}

/// Reads a bounded source to its end, with so many tasks and rows per poll; `starts` replaces the discovered positions.
///
/// # Panics
/// If the source fails or does not end.
pub fn read_source(
    source: &dyn InlineSource,
    request: &SourceRequest,
    tasks: usize,
    max_rows: usize,
    starts: Option<&[Split]>,
) -> BTreeMap<SplitId, SplitRead> {
    let plan = source.plan(request).expect("the source plans");
    let discovered = source.discover(None).expect("the source discovers");
    let splits = starts.map_or(discovered.added, <[Split]>::to_vec);
    let mut all = BTreeMap::new();
    for task in 0..tasks {
        let own: Vec<Split> = splits.iter().skip(task).step_by(tasks).cloned().collect();
        let run = RunIdentity::new("contract", RunId::new("run"), Generation(1), "source");
        let ctx = SourceCtx::new(run).with_task(task, tasks).with_start(own.clone()).with_request(request.clone());
        let mut reader = source.open(ctx).expect("the source opens");
        let mut open: BTreeSet<SplitId> = own.iter().map(|split| split.id.clone()).collect();
        let mut reads: BTreeMap<SplitId, (Vec<RecordBatch>, SplitRead)> = BTreeMap::new();
        for id in &open {
            let empty = RecordBatch::new_empty(Arc::clone(&plan.schema));
            let read = SplitRead { rows: empty, ordinals: Vec::new(), bad: Vec::new(), filtered: 0, positions: Vec::new() };
            reads.insert(id.clone(), (Vec::new(), read));
        }
        let poll = PollRequest { max_rows, max_bytes: 1 << 20, wait: Duration::ZERO };
        let mut idle = 0;
        while !open.is_empty() {
            let polled = reader.poll(poll).expect("the source polls");
            let rows: usize = polled.chunks.iter().map(|chunk| chunk.rows.num_rows()).sum();
            assert!(rows <= max_rows, "a poll returns at most the rows asked for");
            idle = if polled.chunks.is_empty() && polled.states.is_empty() { idle + 1 } else { 0 };
            assert!(idle < 10_000, "the source does not end");
            for chunk in polled.chunks {
                assert!(open.contains(&chunk.split), "rows come from assigned splits that have not finished");
                assert_eq!(chunk.rows.schema(), plan.schema, "chunks have the planned schema");
                let (batches, read) = reads.get_mut(&chunk.split).expect("the split is assigned");
                match &chunk.ordinals {
                    Ordinals::None => {}
                    Ordinals::From(first) => read.ordinals.extend((*first..).take(chunk.rows.num_rows())),
                    Ordinals::Each(each) => {
                        assert_eq!(each.len(), chunk.rows.num_rows(), "each row has an ordinal");
                        read.ordinals.extend(each.values());
                    }
                }
                batches.push(chunk.rows);
                read.bad.extend(chunk.bad);
                read.filtered += chunk.filtered;
                let rows = batches.iter().map(RecordBatch::num_rows).sum();
                read.positions.push((rows, read.bad.len(), chunk.position));
            }
            for (split, state) in polled.states {
                if state == SplitState::Finished {
                    assert!(open.remove(&split), "a split finishes once");
                }
            }
        }
        let polled = reader.poll(poll).expect("a poll after the end is no error");
        assert!(polled.chunks.is_empty(), "nothing comes after the end");
        for (id, (batches, mut read)) in reads {
            read.rows = concat_batches(&plan.schema, &batches).expect("chunks have one schema");
            all.insert(id, read);
        }
    }
    all
}

/// A bounded, replayable source: the same rows for any number of tasks and any cut, exactly the rest from any position, and
/// fewer columns are the same columns.
///
/// # Panics
/// With the rule that was broken.
pub fn source_contract(source: &dyn InlineSource, request: &SourceRequest) {
    let request = request.clone().with_ordinals(true);
    let whole = read_source(source, &request, 1, 1000, None);
    for (tasks, max_rows) in [(1, 7), (2, 1), (3, 100), (2, 100_000)] {
        let other = read_source(source, &request, tasks, max_rows, None);
        assert_eq!(whole.keys().collect::<Vec<_>>(), other.keys().collect::<Vec<_>>(), "{tasks} tasks read the same splits");
        for (id, read) in &whole {
            let what = format!("split `{id}` with {tasks} tasks and {max_rows} rows a poll");
            assert_eq!(other[id].rows, read.rows, "{what}: the same rows");
            assert_eq!(other[id].ordinals, read.ordinals, "{what}: the same ordinals");
            assert_eq!(other[id].bad, read.bad, "{what}: the same bad rows");
            assert_eq!(other[id].filtered, read.filtered, "{what}: as many left out");
        }
    }
    let cut = read_source(source, &request, 1, 7, None);
    for (id, read) in &cut {
        let step = (read.positions.len() / 25).max(1);
        for (rows, bad, position) in read.positions.iter().step_by(step) {
            let start = Split { id: id.clone(), details: Vec::new(), position: Some(position.clone()) };
            let rest = &read_source(source, &request, 1, 1000, Some(&[start]))[id];
            let what = format!("split `{id}` from `{position}`");
            assert_eq!(rest.rows, read.rows.slice(*rows, read.rows.num_rows() - rows), "{what}: exactly the rest");
            assert_eq!(rest.bad, read.bad[*bad..], "{what}: exactly the rest of the bad rows");
            if !read.ordinals.is_empty() {
                assert_eq!(rest.ordinals, read.ordinals[*rows..], "{what}: the same ordinals");
            }
        }
    }
    let schema = source.plan(&request).expect("the source plans").schema;
    for (index, field) in schema.fields().iter().enumerate() {
        let only = request.clone().with_columns(Some(vec![field.name().clone()]));
        for (id, read) in read_source(source, &only, 1, 1000, None) {
            // A value that nobody decodes cannot be bad, so a narrower read may have more rows; it is compared by ordinal.
            let column = read.rows.schema().index_of(field.name()).expect("the column asked for is there");
            let at: Vec<Option<usize>> =
                whole[&id].ordinals.iter().map(|ordinal| read.ordinals.iter().position(|other| other == ordinal)).collect();
            let places: arrow::array::UInt64Array = at.iter().map(|place| place.map(|place| place as u64)).collect();
            assert_eq!(arrow::array::Array::null_count(&places), 0, "column `{}` alone has every row", field.name());
            let narrow = arrow::compute::take(read.rows.column(column), &places, None).expect("the places are within the column");
            assert_eq!(&narrow, whole[&id].rows.column(index), "column `{}` alone is the same", field.name());
        }
    }
}

/// Rows as sorted text, to be compared as multisets.
pub fn sorted_rows(batches: &[RecordBatch]) -> Vec<String> {
    let options = FormatOptions::new().with_null("∅");
    let mut rows = Vec::new();
    for batch in batches {
        let columns: Vec<_> =
            batch.columns().iter().map(|column| ArrayFormatter::try_new(column, &options).expect("a column prints")).collect();
        rows.extend(
            (0..batch.num_rows()).map(|row| columns.iter().map(|column| column.value(row).to_string()).collect::<Vec<_>>().join(" | ")),
        );
    }
    rows.sort();
    rows
}

//! The host's part of a source: finds splits, opens readers at positions, keeps the newest position of each split.

use crate::source::OpenSource;
use crate::{BadRecord, PollRequest, Result, Scope, Source, SourceGuest, SourcePlan, Split, SplitState, ipc};
use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;
use arrow_select::concat::concat_batches;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

/// What was read of one split.
#[derive(Debug, Clone, PartialEq)]
pub struct Read {
    /// The rows, in the split's order.
    pub rows: RecordBatch,
    /// Where each poll's chunk ended: the rows read by then, and the position.
    pub positions: Vec<(usize, Vec<u8>)>,
    /// Whether it said that nothing will come.
    pub finished: bool,
    /// The last watermark.
    pub watermark_us: Option<i64>,
    /// The records that could not be decoded; `row` counts from the first row read.
    pub bad: Vec<BadRecord>,
}

/// A source and the host around it.
pub struct SourceHarness<S> {
    scope: Scope,
    wanted: Option<Vec<String>>,
    plan: SourcePlan,
    schema: SchemaRef,
    source: std::marker::PhantomData<S>,
}

impl<S: Source> SourceHarness<S> {
    /// Binds the source under a configuration (JSON), asking for some columns or all.
    ///
    /// # Errors
    /// What `bind` answered.
    pub fn bind(config: &str, wanted: Option<&[&str]>) -> Result<Self> {
        let scope = super::scope(config);
        let wanted = wanted.map(|names| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>());
        let plan = SourceGuest::<S>::bind_plan(&scope, wanted.as_deref())?;
        let schema = Arc::new(ipc::decode_schema(&ipc::encode_schema(&plan.output)?)?);
        Ok(SourceHarness { scope, wanted, plan, schema, source: std::marker::PhantomData })
    }

    /// The schema of its rows.
    pub fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// Whether its input ends.
    pub fn bounded(&self) -> bool {
        self.plan.bounded
    }

    /// All splits of a fresh run.
    ///
    /// # Errors
    /// What `discover` answered.
    ///
    /// # Panics
    /// When a later discovery from the cursor names one of them again.
    pub fn splits(&self) -> Result<Vec<Split>> {
        let found = SourceGuest::<S>::find(&self.scope, None)?;
        let again = SourceGuest::<S>::find(&self.scope, found.cursor.as_deref())?;
        for split in &again.added {
            assert!(!found.added.iter().any(|known| known.id == split.id), "split `{}` is found twice", split.id);
        }
        Ok(found.added)
    }

    /// Reads these splits in one reader, `max_rows` rows a poll, until all have finished or caught up, or `limit` rows were read.
    ///
    /// # Errors
    /// What `open`, `assign` or `poll` answered.
    ///
    /// # Panics
    /// When an answer breaks the border's rules.
    pub fn read(&self, splits: Vec<Split>, max_rows: u32, limit: usize) -> Result<BTreeMap<String, Read>> {
        let mut reads: BTreeMap<String, (Vec<RecordBatch>, Read)> = BTreeMap::new();
        for split in &splits {
            let empty = Read {
                rows: RecordBatch::new_empty(self.schema.clone()),
                positions: Vec::new(),
                finished: false,
                watermark_us: None,
                bad: Vec::new(),
            };
            reads.insert(split.id.clone(), (Vec::new(), empty));
        }
        let reader = OpenSource::<S>::open(&self.scope, self.wanted.as_deref())?;
        reader.assign(splits)?;
        let request = PollRequest { max_rows: max_rows as usize, max_bytes: 2 << 20, deadline: Duration::ZERO };
        let (mut total, mut caught_up) = (0, BTreeSet::new());
        while total < limit && reads.iter().any(|(split, (_, read))| !read.finished && !caught_up.contains(split)) {
            let polled = reader.poll(request)?;
            let mut rows_of_poll = 0;
            // A chunk without rows is progress too: it moves the position, past bad records say.
            let idle = polled.chunks.is_empty() && polled.states.is_empty();
            for chunk in polled.chunks {
                let rows = ipc::decode(chunk.rows, &self.schema)?;
                rows_of_poll += rows.num_rows();
                if rows.num_rows() > 0 {
                    caught_up.remove(&chunk.split);
                }
                let (batches, read) = reads.get_mut(&chunk.split).expect("a chunk is of a split that was assigned");
                assert!(!read.finished, "split `{}` has rows after it had finished", chunk.split);
                if let (Some(before), Some(now)) = (read.watermark_us, chunk.watermark_us) {
                    assert!(before <= now, "the watermark of split `{}` moves back", chunk.split);
                }
                read.watermark_us = chunk.watermark_us.or(read.watermark_us);
                let before: usize = batches.iter().map(RecordBatch::num_rows).sum();
                let so_far = before + rows.num_rows();
                for bad in chunk.bad {
                    assert!(
                        bad.row.is_none_or(|row| row < rows.num_rows() as u64),
                        "a bad record stands before a row that is not there: {bad:?}"
                    );
                    read.bad.push(BadRecord { row: Some(before as u64 + bad.row.unwrap_or(rows.num_rows() as u64)), ..bad });
                }
                batches.push(rows);
                read.positions.push((so_far, chunk.position));
            }
            assert!(rows_of_poll <= max_rows as usize, "{rows_of_poll} rows where {max_rows} were asked for");
            assert!(!idle || polled.retry_after_ms.is_some(), "an empty poll asks to be repeated at once");
            total += rows_of_poll;
            for (split, state) in polled.states {
                let (_, read) = reads.get_mut(&split).expect("a state is of a split that was assigned");
                read.finished = matches!(state, SplitState::Finished);
                match state {
                    SplitState::CaughtUp => drop(caught_up.insert(split)),
                    _ => drop(caught_up.remove(&split)),
                }
            }
        }
        let mut all = BTreeMap::new();
        for (id, (batches, mut read)) in reads {
            read.rows = concat_batches(&self.schema, &batches)?;
            all.insert(id, read);
        }
        Ok(all)
    }

    /// Reads every split to its end, or until it has caught up, then again from every position it gave, and compares: the rest must be the same rows.
    ///
    /// # Errors
    /// What the source answered.
    ///
    /// # Panics
    /// When a position does not give the rest, naming split and position.
    pub fn assert_replays(&self, max_rows: u32) -> Result<()> {
        for split in self.splits()? {
            let whole = self.read(vec![split.clone()], max_rows, usize::MAX)?.remove(&split.id).expect("it was read");
            for (rows, position) in &whole.positions {
                let from = Split { position: Some(position.clone()), ..split.clone() };
                let rest = self.read(vec![from], max_rows, usize::MAX)?.remove(&split.id).expect("it was read");
                let expected = whole.rows.slice(*rows, whole.rows.num_rows() - rows);
                assert_eq!(rest.rows, expected, "split `{}` from `{}`", split.id, position.escape_ascii());
            }
        }
        Ok(())
    }
}

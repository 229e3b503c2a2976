//! Sessions as output rows.

use super::operator::{Plan, SessionAggregate};
use super::sessions::Columns;
use super::shown::{Gone, Told};
use super::views::View;
use crate::aggregates::{BoundAggregate, Finished};
use crate::expression::BadRows;
use crate::last::with_none;
use arrow::array::{ArrayRef, BooleanArray, RecordBatch, TimestampMillisecondArray, UInt8Array};
use arrow::buffer::BooleanBuffer;
use arrow::compute::{concat, filter_record_batch};
use std::sync::Arc;
use tidegate_api::{BadReason, EventTime, Output, Result, hidden, key, raw, time::raw_times, types};

impl SessionAggregate {
    /// Sessions that come out once and are done with.
    ///
    /// # Errors
    /// `Internal` when a kernel fails.
    pub(super) fn emit(&mut self, slots: &[u32], out: &mut Output) -> Result<()> {
        let columns = self.sessions.columns(slots)?;
        let (mut columns, passing) = self.plan.judged(columns, out)?;
        if let Some(passing) = passing {
            columns = filtered(&self.plan, columns, passing)?;
        }
        self.deliver(columns, None)
    }

    /// Tells of sessions as they are now, and takes back what was told of their rows before.
    ///
    /// # Errors
    /// `Internal` when a kernel fails.
    pub(super) fn tell(&mut self, views: &[View], out: &mut Output) -> Result<()> {
        if views.is_empty() {
            return Ok(());
        }
        let keys: Vec<u32> = views.iter().map(|view| view.key).collect();
        self.sessions.saved.note(&keys, self.sessions.newest.len());
        let columns = Columns {
            starts: views.iter().map(|view| view.start).collect(),
            lasts: views.iter().map(|view| view.last).collect(),
            groups: self.sessions.groups_by(&keys)?,
            results: self.sessions.results(views)?,
        };
        let (mut columns, passing) = self.plan.judged(columns, out)?;
        let mut gone = Vec::new();
        for (row, view) in views.iter().enumerate() {
            let stands = passing.as_ref().is_none_or(|passing| passing.value(row));
            self.sessions.is_told(view);
            if let Some(shown) = &mut self.sessions.shown {
                shown.tell(view.key, view.start, Told { last: view.last, stands }, &mut gone);
            }
        }
        if let Some(passing) = passing {
            columns = filtered(&self.plan, columns, passing)?;
        }
        self.deliver(columns, Some(gone))
    }

    /// Puts rows onto the queue, and behind them those that take others back.
    fn deliver(&mut self, mut columns: Vec<ArrayRef>, gone: Option<Vec<Gone>>) -> Result<()> {
        let told = columns.first().map_or(0, |column| column.len());
        let mut rows = told;
        if let Some(gone) = gone {
            columns = self.with_gone(columns, &gone)?;
            rows += gone.len();
        }
        if rows == 0 {
            return Ok(());
        }
        if self.plan.keyed {
            let window = |at: usize| raw_times(&columns[at]).map(|(times, _)| times);
            let (starts, ends, groups) = (window(0)?, window(1)?, &columns[2..2 + self.plan.groups.len()]);
            columns.push(key::build(rows, |row, bytes| {
                key::push_millis(bytes, starts.value(row));
                key::push_millis(bytes, ends.value(row));
                groups.iter().try_for_each(|group| key::push_value(bytes, group.as_ref(), row))
            })?);
        }
        if self.plan.when.updates() {
            let mut ops = vec![hidden::UPSERT; told];
            ops.resize(rows, hidden::DELETE);
            columns.push(Arc::new(UInt8Array::from(ops)));
        }
        let batch = RecordBatch::try_new(Arc::clone(&self.plan.schema), columns)?;
        let portion = self.ctx.batch_rows.max(1);
        for from in (0..rows).step_by(portion) {
            self.queue.push_back(batch.slice(from, portion.min(rows - from)));
        }
        Ok(())
    }

    fn with_gone(&self, columns: Vec<ArrayRef>, gone: &[Gone]) -> Result<Vec<ArrayRef>> {
        if gone.is_empty() {
            return Ok(columns);
        }
        let keys: Vec<u32> = gone.iter().map(|gone| gone.key).collect();
        let gap = self.plan.limits.gap;
        let mut theirs = vec![
            self.plan.times(gone.iter().map(|gone| gone.start).collect()),
            self.plan.times(gone.iter().map(|gone| gone.last + gap).collect()),
        ];
        theirs.extend(self.sessions.groups_by(&keys)?);
        let named = theirs.len();
        let mut together = Vec::with_capacity(columns.len());
        for (index, column) in columns.into_iter().enumerate() {
            together.push(match theirs.get(index) {
                Some(more) => concat(&[column.as_ref(), more.as_ref()])?,
                None => with_none(column, gone.len(), self.plan.aggregates[index - named].field.is_nullable())?,
            });
        }
        Ok(together)
    }
}

/// Rows that pass, of all visible columns.
fn filtered(plan: &Plan, columns: Vec<ArrayRef>, passing: BooleanBuffer) -> Result<Vec<ArrayRef>> {
    let visible = Arc::new(plan.schema.project(&(0..columns.len()).collect::<Vec<_>>())?);
    let whole = RecordBatch::try_new(visible, columns)?;
    Ok(filter_record_batch(&whole, &BooleanArray::new(passing, None))?.columns().to_vec())
}

impl Plan {
    fn times(&self, millis: Vec<i64>) -> ArrayRef {
        Arc::new(TimestampMillisecondArray::from(millis).with_timezone_opt(self.time.zone()))
    }

    /// The visible columns of sessions, and which of them are good, if not all. The others are reported.
    fn judged(&self, columns: Columns, out: &mut Output) -> Result<(Vec<ArrayRef>, Option<BooleanBuffer>)> {
        let Columns { starts, lasts, groups, results } = columns;
        let ends: Vec<i64> = lasts.iter().map(|last| last + self.limits.gap).collect();
        let bad = self.misfits(&starts, &ends, &groups, &results);
        let mut columns = vec![self.times(starts.clone()), self.times(ends)];
        columns.extend(groups);
        columns.extend(results.into_iter().map(|result| result.values));
        if bad.is_empty() {
            return Ok((columns, None));
        }
        let visible = Arc::new(self.schema.project(&(0..columns.len()).collect::<Vec<_>>())?);
        let whole = RecordBatch::try_new(visible, columns.clone())?;
        let passing = bad.good(starts.len());
        let reported = out.bad.len();
        bad.report(&whole, out);
        for row in &mut out.bad[reported..] {
            row.event_time = row.row.map(|index| EventTime::from_millis(starts[index]));
        }
        Ok((columns, Some(passing)))
    }

    fn misfits(&self, starts: &[i64], ends: &[i64], groups: &[ArrayRef], results: &[Finished]) -> BadRows {
        let mut bad = BadRows::default();
        for (bound, result) in self.aggregates.iter().zip(results) {
            for (row, value) in &result.misfits {
                bad.add(*row, BadReason::Overflow, Some(bound.field.name()), || {
                    self.misfit(bound, value, EventTime::from_millis(starts[*row]), EventTime::from_millis(ends[*row]), groups, *row)
                });
            }
        }
        bad
    }

    fn misfit(&self, bound: &BoundAggregate, value: &str, start: EventTime, end: EventTime, groups: &[ArrayRef], row: usize) -> String {
        let names = self.schema.fields().iter().skip(2);
        let shown: Vec<String> = names.zip(groups).map(|(field, group)| format!("{}={}", field.name(), raw::value(group, row))).collect();
        let group = if shown.is_empty() { String::new() } else { format!(", group {}", shown.join(", ")) };
        let (name, of) = (bound.field.name(), types::name(bound.field.data_type()));
        format!("`{name}` is `{value}`, which `{of}` cannot hold (session {start} to {end}{group})")
    }
}

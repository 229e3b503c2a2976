//! Windows on their way out: which is due, what it holds, and its rows in portions.

use super::super::panes::Columns;
use super::{Plan, WindowedAggregate};
use crate::aggregates::BoundAggregate;
use crate::expression::BadRows;
use arrow::array::{Array, ArrayRef, BooleanArray, RecordBatch, TimestampMillisecondArray, UInt8Array};
use arrow::buffer::BooleanBuffer;
use arrow::compute::{concat, filter_record_batch};
use arrow::datatypes::SchemaRef;
use std::sync::Arc;
use tidegate_api::{BadReason, EventTime, Output, Result, hidden, key, raw};

/// A window on its way out; its bounds are marks.
#[derive(Debug)]
pub(super) struct Firing {
    pub(super) start: i64,
    pub(super) end: i64,
    pub(super) columns: Columns,
    pub(super) next: usize,
    /// Whether what changed comes out again, or early.
    pub(super) again: bool,
}

impl WindowedAggregate {
    /// The end of the next window to fire, if it is at `through` or before. Closes panes that no window needs any more: those of
    /// windows that have fired and end at `closed` or before. All three are marks.
    pub(super) fn next_due(&mut self, through: i64, closed: i64) -> Option<i64> {
        let windows = self.plan.grid.windows;
        while let Some(pane) = self.panes.first().filter(|pane| windows.last_end(*pane) <= closed.min(self.cursor)) {
            if let Some(closed) = self.panes.close(pane) {
                self.panes.recycle(closed);
            }
        }
        // Windows over panes before this have fired.
        let pane = self.panes.from(self.cursor.saturating_sub(windows.size())).find(|pane| windows.last_end(*pane) > self.cursor)?;
        let end = windows.first_end(pane).max(windows.end_after(self.cursor));
        (end <= through).then_some(end)
    }

    /// A window whose time has come.
    pub(super) fn fire(&mut self, end: i64) -> Result<Firing> {
        let windows = self.plan.grid.windows;
        let start = windows.start_of(end);
        self.cursor = end;
        let alone = windows.tumbling() && self.plan.when.lateness == 0;
        let columns = match alone.then(|| self.panes.close(start)).flatten() {
            Some(mut pane) => {
                let columns = pane.finish(self.panes.shape(), true)?;
                self.panes.recycle(pane);
                columns
            }
            None => self.panes.combined(start, end, &mut self.scratch.numbers, false)?,
        };
        Ok(Firing { start, end, columns, next: 0, again: false })
    }

    /// The next `rows` groups of a window as output rows.
    pub(super) fn portion(&mut self, firing: &Firing, rows: usize, out: &mut Output) -> Result<Part> {
        let part = |column: &ArrayRef| if rows == column.len() { Arc::clone(column) } else { column.slice(firing.next, rows) };
        let groups: Vec<ArrayRef> = firing.columns.groups.iter().map(part).collect();
        let mut columns = groups.clone();
        columns.extend(firing.columns.results.iter().map(|result| part(&result.values)));

        let ours = if firing.again { self.still_open(firing.end, &groups, rows)? } else { self.not_yet_fired(firing.end, &groups, rows)? };
        let mut bad = BadRows::default();
        for (bound, result) in self.plan.aggregates.iter().zip(&firing.columns.results) {
            let within = result.misfits.iter().filter(|(group, _)| (firing.next..firing.next + rows).contains(group));
            for (row, value) in within.map(|(group, value)| (group - firing.next, value)) {
                if ours.as_ref().is_none_or(|ours| ours.value(row)) {
                    bad.add(row, BadReason::Overflow, Some(bound.field.name()), || self.misfit(bound, value, firing, &groups, row));
                }
            }
        }
        if ours.is_none() && bad.is_empty() {
            return self.with_keys(firing, &groups, columns, rows);
        }
        let width = columns.len();
        let visible = Arc::new(self.plan.schema.project(&(0..width + 2).collect::<Vec<_>>())?);
        let (start, end) = self.bounds(firing);
        let whole = batch_of(&visible, &self.plan, &[Part { start, end, rows, columns }])?;
        let mut passing = bad.good(rows);
        if let Some(ours) = ours {
            passing = &passing & &ours;
        }
        let reported = out.bad.len();
        bad.report(&whole, out);
        out.bad[reported..].iter_mut().for_each(|row| row.event_time = Some(EventTime::from_millis(start)));
        let passed = filter_record_batch(&whole, &BooleanArray::new(passing, None))?;
        let columns = passed.columns()[2..].to_vec();
        let groups = columns[..groups.len()].to_vec();
        self.with_keys(firing, &groups, columns, passed.num_rows())
    }

    /// The groups whose vnode has not fired this window yet; `None` for all.
    fn not_yet_fired(&mut self, end: i64, groups: &[ArrayRef], rows: usize) -> Result<Option<BooleanBuffer>> {
        if end > self.plan.grid.reached(self.fired.high) {
            return Ok(None);
        }
        let mut ours = Vec::with_capacity(rows);
        for vnode in self.dealt(groups, rows)? {
            ours.push(self.plan.grid.reached(self.fired.of(vnode)?) < end);
        }
        Ok(Some(BooleanBuffer::from(ours)))
    }

    /// The groups for whose vnode a window may come out again: it is not done with, and it has fired unless results come early.
    /// `None` for all.
    fn still_open(&mut self, end: i64, groups: &[ArrayRef], rows: usize) -> Result<Option<BooleanBuffer>> {
        if self.fired.low == self.fired.high {
            return Ok(None);
        }
        let early = self.plan.when.early.is_some();
        let mut ours = Vec::with_capacity(rows);
        for vnode in self.dealt(groups, rows)? {
            let through = self.fired.of(vnode)?;
            ours.push(self.closed(through) < end && (early || end <= self.plan.grid.reached(through)));
        }
        Ok(Some(BooleanBuffer::from(ours)))
    }

    /// When a window begins and ends.
    fn bounds(&self, firing: &Firing) -> (i64, i64) {
        (self.plan.grid.moment(firing.start), self.plan.grid.moment(firing.end))
    }

    fn with_keys(&self, firing: &Firing, groups: &[ArrayRef], mut columns: Vec<ArrayRef>, rows: usize) -> Result<Part> {
        let (start, end) = self.bounds(firing);
        if self.plan.keyed {
            columns.push(key::build(rows, |row, bytes| {
                key::push_millis(bytes, start);
                key::push_millis(bytes, end);
                groups.iter().try_for_each(|group| key::push_value(bytes, group.as_ref(), row))
            })?);
        }
        if self.plan.when.updates() {
            columns.push(Arc::new(UInt8Array::from(vec![hidden::UPSERT; rows])));
        }
        Ok(Part { start, end, rows, columns })
    }

    fn misfit(&self, bound: &BoundAggregate, value: &str, firing: &Firing, groups: &[ArrayRef], row: usize) -> String {
        let names = self.plan.schema.fields().iter().skip(2);
        let shown: Vec<String> = names.zip(groups).map(|(field, group)| format!("{}={}", field.name(), raw::value(group, row))).collect();
        let group = if shown.is_empty() { String::new() } else { format!(", group {}", shown.join(", ")) };
        format!(
            "`{}` is `{value}`, which `{}` cannot hold (window {} to {}{group})",
            bound.field.name(),
            tidegate_api::types::name(bound.field.data_type()),
            EventTime::from_millis(self.bounds(firing).0),
            EventTime::from_millis(self.bounds(firing).1),
        )
    }
}

/// Output rows of one call, put together into few batches: small windows would otherwise make small batches.
pub(super) struct Made {
    parts: Vec<Part>,
    rows: usize,
    limit: usize,
}

impl Made {
    pub(super) fn new(limit: usize) -> Self {
        Made { parts: Vec::new(), rows: 0, limit }
    }

    pub(super) fn room(&self) -> usize {
        self.limit - self.rows
    }

    /// Takes what became of `rows` groups; fewer may be left of them.
    pub(super) fn push(&mut self, part: Part, rows: usize) {
        self.rows += rows;
        if part.rows > 0 {
            self.parts.push(part);
        }
    }

    pub(super) fn flush(&mut self, plan: &Plan, out: &mut Output) -> Result<()> {
        self.rows = 0;
        if !self.parts.is_empty() {
            out.emit(batch_of(&plan.schema, plan, &std::mem::take(&mut self.parts))?);
        }
        Ok(())
    }
}

/// Output rows of one window: the columns behind its bounds.
pub(super) struct Part {
    start: i64,
    end: i64,
    rows: usize,
    columns: Vec<ArrayRef>,
}

/// Parts as one batch, the bounds of each before its columns.
fn batch_of(schema: &SchemaRef, plan: &Plan, parts: &[Part]) -> Result<RecordBatch> {
    let zone = plan.time.zone();
    let bounds = |of: fn(&Part) -> i64| -> ArrayRef {
        let mut millis: Vec<i64> = Vec::with_capacity(parts.iter().map(|part| part.rows).sum());
        parts.iter().for_each(|part| millis.extend(std::iter::repeat_n(of(part), part.rows)));
        Arc::new(TimestampMillisecondArray::from(millis).with_timezone_opt(zone.clone()))
    };
    let mut columns = vec![bounds(|part| part.start), bounds(|part| part.end)];
    for index in 0..parts.first().map_or(0, |part| part.columns.len()) {
        columns.push(match parts {
            [one] => Arc::clone(&one.columns[index]),
            several => concat(&several.iter().map(|part| part.columns[index].as_ref()).collect::<Vec<_>>())?,
        });
    }
    Ok(RecordBatch::try_new(Arc::clone(schema), columns)?)
}

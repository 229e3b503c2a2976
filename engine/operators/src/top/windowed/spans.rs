//! Which window a row belongs to, by runs of neighbouring rows: rows come mostly window by window.

use super::super::plan::{Plan, Window};
use crate::expression::BadRows;
use crate::window::LONGEST_MS;
use arrow::array::{Array, Int64Array, RecordBatch};
use tidegate_api::{BadReason, Error, Result, TimeScale, time::raw_times};

/// Times beyond this many milliseconds from 1970 have no windows that 64 bits of microseconds hold.
pub(super) const FARTHEST_MS: i64 = i64::MAX / 1000 - 4 * LONGEST_MS;

/// A window: when it closes, in milliseconds, and its bounds as its rows have them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Bounds {
    pub(super) due: i64,
    pub(super) start: i64,
    pub(super) end: i64,
}

impl Bounds {
    pub(super) fn prefix(self) -> String {
        format!("window/{}/{}/{}/", self.due, self.start, self.end)
    }

    /// What the name of a piece says, and the rest of it.
    pub(super) fn of_name(name: &str) -> Option<(Bounds, &str)> {
        let mut parts = name.strip_prefix("window/")?.splitn(4, '/');
        let mut number = || parts.next()?.parse().ok();
        let bounds = Bounds { due: number()?, start: number()?, end: number()? };
        Some((bounds, parts.next()?))
    }
}

/// Neighbouring rows of one window.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Span {
    pub(super) bounds: Bounds,
    /// The first row.
    pub(super) from: usize,
    /// One past the last row.
    pub(super) to: usize,
}

impl Span {
    /// The rows' numbers.
    pub(super) fn rows(&self) -> std::ops::Range<u32> {
        self.from as u32..self.to as u32
    }
}

impl Plan {
    /// The windows of a batch's rows, in the order of the rows. Rows without a window are bad, and what they are in means nothing.
    ///
    /// # Errors
    /// `Internal` when a column is not a time.
    pub(super) fn spans(&self, batch: &RecordBatch, bad: &mut BadRows) -> Result<Vec<Span>> {
        let name = |index: usize| batch.schema_ref().field(index).name().as_str();
        let mut nulls = |times: &Int64Array, column: &str| {
            if let Some(nulls) = times.nulls().filter(|nulls| nulls.null_count() > 0) {
                for row in (0..times.len()).filter(|row| nulls.is_null(*row)) {
                    bad.add(row, BadReason::MissingValue, Some(column), || format!("the time column `{column}` is null"));
                }
            }
        };
        let millis = |scale: TimeScale, value: i64| scale.event_time(value).as_millis();
        let mut spans: Vec<Span> = Vec::new();
        match &self.window {
            None => return Err(Error::internal("a stage without windows closes none")),
            Some(Window::Of { time, name, size, .. }) => {
                let (times, scale) = raw_times(batch.column(*time))?;
                nulls(&times, name);
                for (row, value) in times.values().iter().enumerate() {
                    let millis = millis(scale, *value);
                    if !(-FARTHEST_MS..=FARTHEST_MS).contains(&millis) && times.is_valid(row) {
                        bad.add(row, BadReason::TypeMismatch, Some(name), || {
                            format!("the time `{value}` in column `{name}` is too far from 1970 for a window")
                        });
                    }
                    let millis = millis.clamp(-FARTHEST_MS, FARTHEST_MS);
                    match spans.last_mut() {
                        Some(last) if (last.bounds.start..last.bounds.end).contains(&millis) => last.to = row + 1,
                        _ => {
                            let start = millis.div_euclid(*size) * size;
                            let bounds = Bounds { due: start + size, start, end: start + size };
                            spans.push(Span { bounds, from: row, to: row + 1 });
                        }
                    }
                }
            }
            Some(Window::Named { start, end }) => {
                let ((starts, scale), (ends, _)) = (raw_times(batch.column(*start))?, raw_times(batch.column(*end))?);
                nulls(&starts, name(*start));
                nulls(&ends, name(*end));
                for (row, (start, end)) in starts.values().iter().zip(ends.values()).enumerate() {
                    match spans.last_mut() {
                        Some(last) if last.bounds.start == *start && last.bounds.end == *end => last.to = row + 1,
                        _ => {
                            let bounds = Bounds { due: millis(scale, *start).saturating_add(1), start: *start, end: *end };
                            spans.push(Span { bounds, from: row, to: row + 1 });
                        }
                    }
                }
            }
        }
        Ok(spans)
    }
}

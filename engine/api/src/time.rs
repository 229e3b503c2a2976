//! Event time and what a dataset says about it.

use crate::{Error, Result};
use arrow::array::{Array, ArrayRef, Int64Array, PrimitiveArray};
use arrow::datatypes::{
    ArrowPrimitiveType, DataType, Int64Type, TimeUnit, TimestampMicrosecondType, TimestampMillisecondType, TimestampNanosecondType,
    TimestampSecondType,
};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// A point in event time: microseconds since 1970, negative before.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct EventTime(pub i64);

impl EventTime {
    /// Before every row.
    pub const MIN: EventTime = EventTime(i64::MIN);
    /// After every row: what an ended input promises.
    pub const MAX: EventTime = EventTime(i64::MAX);

    /// From milliseconds, saturating.
    pub fn from_millis(millis: i64) -> Self {
        EventTime(millis.saturating_mul(1000))
    }

    /// In milliseconds, rounded towards the past.
    pub fn as_millis(self) -> i64 {
        self.0.div_euclid(1000)
    }

    /// Earlier by `duration`, saturating. `MAX` and `MIN` stay what they are.
    #[must_use]
    pub fn minus(self, duration: Duration) -> Self {
        self.shifted(-micros_of(duration))
    }

    /// Later by `duration`, saturating. `MAX` and `MIN` stay what they are.
    #[must_use]
    pub fn plus(self, duration: Duration) -> Self {
        self.shifted(micros_of(duration))
    }

    fn shifted(self, micros: i64) -> Self {
        match self {
            EventTime::MIN | EventTime::MAX => self,
            EventTime(at) => EventTime(at.saturating_add(micros)),
        }
    }
}

impl fmt::Display for EventTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            EventTime::MIN => f.write_str("-∞"),
            EventTime::MAX => f.write_str("∞"),
            EventTime(micros) => match arrow::temporal_conversions::timestamp_us_to_datetime(micros) {
                Some(at) => write!(f, "{}Z", at.format("%Y-%m-%dT%H:%M:%S%.f")),
                None => write!(f, "{micros}us"),
            },
        }
    }
}

fn micros_of(duration: Duration) -> i64 {
    i64::try_from(duration.as_micros()).unwrap_or(i64::MAX)
}

/// How a column's integers become microseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TimeScale {
    /// Multiply, saturating.
    Times(i64),
    /// Divide, rounding towards the past.
    Over(i64),
}

impl TimeScale {
    /// The scale of a column that can be a time column: int64 milliseconds, or a timestamp of any unit and zone.
    pub fn of(data_type: &DataType) -> Option<TimeScale> {
        match data_type {
            DataType::Int64 => Some(TimeScale::Times(1000)),
            DataType::Timestamp(TimeUnit::Second, _) => Some(TimeScale::Times(1_000_000)),
            DataType::Timestamp(TimeUnit::Millisecond, _) => Some(TimeScale::Times(1000)),
            DataType::Timestamp(TimeUnit::Microsecond, _) => Some(TimeScale::Times(1)),
            DataType::Timestamp(TimeUnit::Nanosecond, _) => Some(TimeScale::Over(1000)),
            _ => None,
        }
    }

    /// One value in microseconds.
    pub fn to_micros(self, value: i64) -> i64 {
        match self {
            TimeScale::Times(factor) => value.saturating_mul(factor),
            TimeScale::Over(divisor) => value.div_euclid(divisor),
        }
    }

    /// The largest event time of this scale's column value.
    pub fn event_time(self, value: i64) -> EventTime {
        EventTime(self.to_micros(value))
    }
}

/// A time column as plain integers of its own unit, without copying, and the scale that turns them into microseconds.
///
/// # Errors
/// `Internal` if the column's type cannot be a time; `validate` has refused such a plan before.
pub fn raw_times(column: &ArrayRef) -> Result<(Int64Array, TimeScale)> {
    fn raw<T: ArrowPrimitiveType<Native = i64>>(column: &ArrayRef) -> Option<Int64Array> {
        let typed = column.as_any().downcast_ref::<PrimitiveArray<T>>()?;
        Some(typed.reinterpret_cast::<Int64Type>())
    }
    let scale = TimeScale::of(column.data_type());
    let values = match column.data_type() {
        DataType::Int64 => raw::<Int64Type>(column),
        DataType::Timestamp(TimeUnit::Second, _) => raw::<TimestampSecondType>(column),
        DataType::Timestamp(TimeUnit::Millisecond, _) => raw::<TimestampMillisecondType>(column),
        DataType::Timestamp(TimeUnit::Microsecond, _) => raw::<TimestampMicrosecondType>(column),
        DataType::Timestamp(TimeUnit::Nanosecond, _) => raw::<TimestampNanosecondType>(column),
        _ => None,
    };
    values.zip(scale).ok_or_else(|| Error::internal(format!("a column of type `{}` cannot be a time column", column.data_type())))
}

/// What to do with a row stamped further ahead than `max_future_skew`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum FutureRows {
    /// Send it where late rows go.
    #[default]
    Late,
    /// Let it pass; it still does not move the watermark.
    Keep,
}

/// How watermarks are made from a dataset's rows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TimeSpec {
    /// The event-time column: int64 milliseconds or a timestamp.
    pub column: Arc<str>,
    /// How far a row may lag behind the newest of its split.
    pub out_of_orderness: Duration,
    /// A caught-up split without rows for this long leaves the minimum; `None` never.
    pub idle_timeout: Option<Duration>,
    /// A row further ahead of wall time than this never moves the watermark; `None` switches the guard off.
    pub max_future_skew: Option<Duration>,
    /// Where such a row goes.
    pub future_rows: FutureRows,
    /// Splits are read in their order and later ones hold no earlier rows, so an unread split does not hold the watermark.
    pub splits_in_order: bool,
}

impl TimeSpec {
    /// The defaults for a time column: no disorder, 30 s to idle, one hour of future skew.
    pub fn new(column: impl AsRef<str>) -> Self {
        TimeSpec {
            column: Arc::from(column.as_ref()),
            out_of_orderness: Duration::ZERO,
            idle_timeout: Some(Duration::from_secs(30)),
            max_future_skew: Some(Duration::from_secs(3600)),
            future_rows: FutureRows::Late,
            splits_in_order: false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nanoseconds_before_1970_round_towards_the_past() {
        assert_eq!(TimeScale::Over(1000).to_micros(-1), -1);
        assert_eq!(EventTime(-1).as_millis(), -1);
    }

    #[test]
    fn the_ends_of_time_do_not_move() {
        assert_eq!(EventTime::MAX.minus(Duration::from_secs(1)), EventTime::MAX);
        assert_eq!(EventTime::MIN.plus(Duration::from_secs(1)), EventTime::MIN);
        assert_eq!(EventTime(i64::MAX - 1).plus(Duration::from_secs(1)), EventTime(i64::MAX));
    }

    #[test]
    fn raw_times_keeps_unit_and_nulls() {
        let column: ArrayRef = Arc::new(arrow::array::TimestampSecondArray::from(vec![Some(-5), None]).with_timezone("UTC"));
        let (values, scale) = raw_times(&column).unwrap();
        assert_eq!(values, Int64Array::from(vec![Some(-5), None]));
        assert_eq!(scale.to_micros(-5), -5_000_000);
    }
}

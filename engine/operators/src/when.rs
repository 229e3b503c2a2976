//! When results come out: the clock they go by, late rows, early results and silence. What windows and sessions say alike.

use crate::binding::{length, show, time_column};
use crate::step::KeyInfo;
use crate::window::LONGEST_MS;
use arrow::datatypes::SchemaRef;
use std::sync::Arc;
use std::time::Duration;
use tidegate_api::EventTime;
use tidegate_api::config::{Options, Problem};

/// The zone of times of the clock.
const CLOCK_ZONE: &str = "UTC";

pub(crate) const TIME_COLUMN: KeyInfo =
    KeyInfo { name: "timeColumn", takes: "column, unless `ingestTime`", text: "the event time: a timestamp, or int64 milliseconds" };

pub(crate) const INGEST_TIME: KeyInfo = KeyInfo {
    name: "ingestTime",
    takes: "true or false?",
    text: "instead of `timeColumn`: a row's time is that of the clock when it is taken, and windows fire by the clock",
};

pub(crate) const ALLOWED_LATENESS: KeyInfo = KeyInfo {
    name: "allowedLatenessMs",
    takes: "milliseconds, or `allowedLateness` as text?",
    text: "how long a window is kept after it has fired: what late rows change comes out again",
};

pub(crate) const FIRING_DELAY: KeyInfo = KeyInfo {
    name: "firingDelayMs",
    takes: "milliseconds, or `firingDelay` as text?",
    text: "how far the watermark must be past a window's end before it fires; what comes meanwhile is not late. In a file with `[[transforms]]` this is what `allowedLatenessMs` says",
};

pub(crate) const EMIT: KeyInfo = KeyInfo {
    name: "emit",
    takes: "`{ everyRows }` or `{ everyMs }`?",
    text: "what changed comes out before its window fires: after so many rows of a task, or so many milliseconds after the first of them",
};

pub(crate) const IDLE_TIMEOUT: KeyInfo = KeyInfo {
    name: "idleTimeoutMs",
    takes: "milliseconds, or `idleTimeout` as text?",
    text: "after so long without rows every open window fires; what comes for it later is late",
};

/// What tells a row's time.
#[derive(Debug, Clone)]
pub(crate) enum Time {
    /// A column: its index, name and zone.
    Column { index: usize, name: String, zone: Option<Arc<str>> },
    /// The clock, when a row is taken.
    Clock,
}

impl Time {
    /// The time of a schema's rows: a column of it, or without a name the clock.
    pub(crate) fn bind(name: Option<&str>, schema: &SchemaRef, problems: &mut Vec<Problem>) -> Option<Time> {
        let Some(name) = name else { return Some(Time::Clock) };
        let (index, zone) = time_column(schema, name, "timeColumn", problems)?;
        Some(Time::Column { index, name: name.to_string(), zone })
    }

    /// The index of the column.
    pub(crate) fn index(&self) -> Option<usize> {
        match self {
            Time::Column { index, .. } => Some(*index),
            Time::Clock => None,
        }
    }

    /// The zone in which bounds are told.
    pub(crate) fn zone(&self) -> Option<Arc<str>> {
        match self {
            Time::Column { zone, .. } => zone.clone(),
            Time::Clock => Some(Arc::from(CLOCK_ZONE)),
        }
    }
}

/// When results come out before they are final.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Early {
    /// After so many rows of a task.
    rows: Option<u64>,
    /// So many milliseconds after the first change.
    millis: Option<u64>,
}

/// What has changed since the last early results.
#[derive(Debug, Default)]
pub(crate) struct Pace {
    rows: u64,
    since: Option<Duration>,
}

impl Pace {
    /// So many rows were taken.
    pub(crate) fn took(&mut self, rows: usize, now: impl FnOnce() -> Duration) {
        self.rows += rows as u64;
        self.since.get_or_insert_with(now);
    }

    /// Whether early results are due.
    pub(crate) fn is_due(&self, early: Option<Early>, now: impl FnOnce() -> Duration) -> bool {
        let Some(early) = early else { return false };
        let waited = self.since.map(|since| now().saturating_sub(since));
        early.rows.is_some_and(|rows| self.rows >= rows)
            || early.millis.zip(waited).is_some_and(|(millis, waited)| waited >= Duration::from_millis(millis))
    }
}

/// When results come out, and how long they can be put right. Lengths in milliseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct When {
    /// How long a result is kept after it has fired.
    pub(crate) lateness: i64,
    /// How far the watermark must be past an end before it fires.
    pub(crate) delay: i64,
    pub(crate) early: Option<Early>,
    /// After how long without rows everything fires.
    pub(crate) idle: Option<u64>,
}

impl When {
    /// Whether a row may replace an earlier one.
    pub(crate) fn updates(&self) -> bool {
        self.lateness > 0 || self.early.is_some()
    }

    /// Through when results fire at this watermark. The end of time waits for nothing.
    pub(crate) fn through(&self, watermark: EventTime) -> i64 {
        match watermark {
            EventTime::MIN | EventTime::MAX => watermark.as_millis(),
            at => at.as_millis().saturating_sub(self.delay),
        }
    }

    /// Behind the other details of a step.
    pub(crate) fn describe(&self) -> String {
        let mut details = String::new();
        if self.lateness > 0 {
            details += &format!("; kept for {} after firing", show(self.lateness));
        }
        if self.delay > 0 {
            details += &format!("; fires {} late", show(self.delay));
        }
        if let Some(early) = &self.early {
            let rows = early.rows.map(|rows| format!("{rows} rows"));
            let millis = early.millis.map(|millis| show(i64::try_from(millis).unwrap_or(i64::MAX)));
            details += &format!("; updates every {}", rows.into_iter().chain(millis).collect::<Vec<_>>().join(" or "));
        }
        details
    }

    /// Reads `allowedLateness`, `firingDelay`, `emit` and `idleTimeout`, as they may stand beside `ingestTime`.
    pub(crate) fn read(options: &mut Options<'_>) -> When {
        let of_clock = options.boolean("ingestTime").unwrap_or(false);
        let lateness = lateness(options, of_clock);
        let delay = length(options, "firingDelay").unwrap_or(0);
        if of_clock && delay > 0 {
            options.problem(named(options, "firingDelay", "firingDelayMs"), "with `ingestTime` windows fire by the clock; leave this out");
        }
        let early = early(options);
        let idle = length(options, "idleTimeout").and_then(|millis| u64::try_from(millis).ok());
        if of_clock && idle.is_some() {
            let message = "with `ingestTime` windows fire by the clock, rows or not; leave this out";
            options.problem(named(options, "idleTimeout", "idleTimeoutMs"), message);
        }
        When { lateness, delay, early, idle }
    }
}

/// Reads `ingestTime` and `timeColumn`: the column, or none for the clock.
pub(crate) fn read_time(options: &mut Options<'_>) -> Option<String> {
    let of_clock = options.boolean("ingestTime").unwrap_or(false);
    let time_column = if of_clock { options.string("timeColumn") } else { options.require_string("timeColumn") };
    if of_clock && time_column.is_some() {
        options.problem("timeColumn", "with `ingestTime` rows are put into windows by the clock; leave `timeColumn` out");
    }
    time_column
}

/// The key that stands in the file for a length of time.
fn named(options: &Options<'_>, base: &'static str, millis: &'static str) -> &'static str {
    if options.has(base) { base } else { millis }
}

fn lateness(options: &mut Options<'_>, of_clock: bool) -> i64 {
    let key = named(options, "allowedLateness", "allowedLatenessMs");
    let lateness = options.duration("allowedLateness").map_or(0, |lateness| i64::try_from(lateness.as_millis()).unwrap_or(i64::MAX));
    if lateness > LONGEST_MS {
        options.problem(key, "a window is kept for at most 100 years");
        return 0;
    }
    if of_clock && lateness > 0 {
        options.problem(key, "with `ingestTime` no row is ever late; leave this out");
    }
    lateness
}

fn early(options: &mut Options<'_>) -> Option<Early> {
    let table = options.table("emit")?;
    let mut inner = Options::new(table);
    let rows = inner.unsigned("everyRows");
    let millis = inner.duration("every").map(|every| u64::try_from(every.as_millis()).unwrap_or(u64::MAX));
    match (rows, millis) {
        (Some(0), _) => inner.problem("everyRows", "expected an integer of 1 or more"),
        (_, Some(0)) => inner.problem(if table.contains_key("every") { "every" } else { "everyMs" }, "expected a millisecond or more"),
        (None, None) if table.keys().all(|key| !["everyRows", "everyMs", "every"].contains(&key.as_str())) => {
            inner.problem("everyRows", "say how often: `{ everyRows = 1000 }` or `{ everyMs = 5000 }`");
        }
        _ => {}
    }
    options.problems(inner.finish().into_iter().map(|problem| problem.under(["emit"])));
    Some(Early { rows, millis })
}

/// How long no rows have come.
#[derive(Debug, Default)]
pub(crate) struct Quiet {
    elapsed: Duration,
    seen: Option<Duration>,
}

/// What two looks at the clock tell of quiet at most: the task may have been held up between them.
const LOOK: Duration = Duration::from_secs(1);

impl Quiet {
    /// It is not quiet any more.
    pub(crate) fn rows_came(&mut self) {
        *self = Quiet::default();
    }

    /// How long it has been quiet by now; time in which nobody looked does not count.
    pub(crate) fn look(&mut self, now: Duration) -> Duration {
        let since = self.seen.map_or(Duration::ZERO, |seen| now.saturating_sub(seen));
        self.elapsed += since.min(LOOK);
        self.seen = Some(now);
        self.elapsed
    }
}

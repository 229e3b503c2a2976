//! `windowedAggregate` as it is written: which windows, on which clock, and when they come out.

use super::arithmetic::{LONGEST_MS, Windows};
use super::calendar::{Calendar, DAY_MS, Grid};
use super::config::WindowDef;
use crate::aggregates;
use crate::binding::{length, show};
use crate::per_split::PerSplitFactory;
use crate::step::{KeyInfo, StepDef};
use crate::when::{When, read_time};
use chrono_tz::Tz;
use serde_json::{Map, Value};
use std::sync::Arc;
use tidegate_api::config::{Options, Problem};
use tidegate_api::{OperatorFactory, hidden};

/// How many windows may hold one row: enough for a month by the minute. One watermark fires at least as many, and a barrier waits
/// for them.
const MAX_OVERLAP: i64 = 50_000;

/// Which windows, as they enter the signature and as `plan` shows them.
#[derive(Debug)]
pub(super) struct Shape {
    pub(super) size: i64,
    pub(super) slide: i64,
    /// How far growing windows grow at a time.
    pub(super) step: Option<i64>,
    pub(super) offset: i64,
    pub(super) zone: Option<Tz>,
}

impl Shape {
    /// The windows on their clock.
    pub(super) fn grid(&self) -> Grid {
        let (offset, calendar) = match self.zone {
            None => (self.offset, None),
            // Whole days move the windows, the rest moves the days.
            Some(zone) => (self.offset.div_euclid(DAY_MS) * DAY_MS, Some(Calendar::new(zone, self.offset.rem_euclid(DAY_MS)))),
        };
        let windows = match self.step {
            Some(step) => Windows::cumulating(self.size, step, offset),
            None => Windows::new(self.size, self.slide, offset),
        };
        Grid::new(windows, calendar)
    }

    /// In words.
    pub(super) fn describe(&self) -> String {
        let size = show(self.size);
        let kind = match self.step {
            Some(step) => format!("cumulating {size} by {}", show(step)),
            None if self.slide == self.size => format!("tumbling {size}"),
            None => format!("hopping {size} every {}", show(self.slide)),
        };
        match self.zone {
            Some(zone) => format!("{kind} in {zone}"),
            None => kind,
        }
    }
}

pub(super) fn parse(map: &Map<String, Value>) -> Result<Box<dyn StepDef>, Vec<Problem>> {
    let mut options = Options::new(map);
    let _ = options.string("op");
    let time_column = read_time(&mut options);
    let shape = shape(&mut options);
    let when = When::read(&mut options);
    let group_by = options.strings("groupBy").unwrap_or_default();
    let key_by = key_by(&mut options, &group_by, &when);
    let aggregates = aggregates::read(&mut options);
    let late_output = options.string("lateOutput");
    let problems = options.finish();
    match shape {
        Some(shape) if problems.is_empty() => {
            Ok(Box::new(WindowDef { time_column, when, shape, group_by, key_by, aggregates, late_output }))
        }
        _ => Err(problems),
    }
}

fn shape(options: &mut Options<'_>) -> Option<Shape> {
    let size = length(options, "window");
    if size.is_none() && !options.has("window") && !options.has("windowMs") {
        options.problem("windowMs", "`windowMs` is missing");
    }
    let slide = length(options, "slide");
    let step = length(options, "step");
    let offset = offset(options);
    let zone = zone(options);
    let size = size?;
    let named = |options: &Options<'_>, base: &'static str, millis: &'static str| if options.has(base) { base } else { millis };
    if let Some(slide) = slide {
        let key = named(options, "slide", "slideMs");
        if step.is_some() {
            options.problem(key, "windows either slide or grow; keep `slideMs` or `stepMs`");
        }
        if slide > size {
            let message = format!("windows of {} that start every {} would leave out rows between them", show(size), show(slide));
            options.problem(key, message);
        }
        if size / slide > MAX_OVERLAP {
            let message = format!(
                "windows of {} that start every {} put every row into {} of them, and {MAX_OVERLAP} is the most: windows fire one after \
                 the other, and no epoch ends in between; let them start further apart",
                show(size),
                show(slide),
                size / slide
            );
            options.problem(key, message);
        }
    }
    if let Some(step) = step {
        let key = named(options, "step", "stepMs");
        if size % step != 0 {
            options.problem(key, format!("windows of {} cannot grow by {}: it does not divide them", show(size), show(step)));
        } else if size / step > MAX_OVERLAP {
            let message = format!(
                "windows of {} that grow by {} are {} each, and {MAX_OVERLAP} is the most; let them grow by more at a time",
                show(size),
                show(step),
                size / step
            );
            options.problem(key, message);
        }
    }
    let slide = slide.unwrap_or(size);
    if zone.is_some() && [size, slide, step.unwrap_or(DAY_MS)].iter().any(|length| length % DAY_MS != 0) {
        options.problem(
            "timeZone",
            "a time zone is for windows of whole days, whose days may have 23 or 25 hours; shorter windows are the same in every zone: \
             give `offsetMs` where its clock is not a whole number of them from UTC",
        );
        return None;
    }
    Some(Shape { size, slide, step, offset, zone })
}

fn zone(options: &mut Options<'_>) -> Option<Tz> {
    let name = options.string("timeZone")?;
    let zone = name.parse::<Tz>().ok();
    if zone.is_none() {
        options.problem("timeZone", format!("there is no time zone `{name}`; zones are named as `Europe/Berlin` or `UTC`"));
    }
    zone
}

/// Which rows share state.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum KeyBy {
    /// Those of equal values; these columns decide which task takes a row.
    Columns(Vec<String>),
    /// Those of one split.
    Split,
}

impl KeyBy {
    /// The columns that decide which task takes a row.
    pub(crate) fn dealt(&self) -> Vec<String> {
        match self {
            KeyBy::Columns(columns) => columns.clone(),
            KeyBy::Split => vec![hidden::SPLIT.to_string()],
        }
    }

    /// The places among the groups of the columns that decide a row's vnode.
    pub(crate) fn among(&self, groups: &[String]) -> Vec<usize> {
        match self {
            KeyBy::Columns(columns) => columns.iter().filter_map(|name| groups.iter().position(|group| group == name)).collect(),
            // State belongs to the split whole.
            KeyBy::Split => (0..groups.len()).collect(),
        }
    }

    /// Whether rows of different splits share nothing.
    pub(crate) fn keeps_splits_apart(&self) -> bool {
        *self == KeyBy::Split
    }

    /// The operator that keeps rows apart as this says.
    pub(crate) fn factory(&self, inner: Arc<dyn OperatorFactory>) -> Arc<dyn OperatorFactory> {
        match self {
            KeyBy::Columns(_) => inner,
            KeyBy::Split => Arc::new(PerSplitFactory::new(inner)),
        }
    }

    /// Behind the other details of a step.
    pub(crate) fn describe(&self) -> &'static str {
        match self {
            KeyBy::Columns(_) => "",
            KeyBy::Split => "; every split apart, on its own time",
        }
    }
}

/// What `keyBy` means; `updates` says whether rows of the output may replace earlier ones.
pub(crate) const KEY_BY: KeyInfo = KeyInfo {
    name: "keyBy",
    takes: "column or list of columns, or false?",
    text: "those of `groupBy` that decide which task takes a row; without it all of them. `false`: the rows of every split of the source are kept apart, on its own time, and none is moved to its group's task; a group comes out once per split",
};

/// Reads `keyBy`: columns of `groupBy`, without it all of them, or splits.
pub(crate) fn key_by(options: &mut Options<'_>, group_by: &[String], when: &When) -> KeyBy {
    match options.value("keyBy").and_then(serde_json::Value::as_bool) {
        Some(false) => {
            if when.updates() {
                options.problem(
                    "keyBy",
                    "rows of two splits with the same window and groups would replace each other; leave `emit` and `allowedLatenessMs` out, \
                     or `keyBy = false`, and group by a column that tells splits apart",
                );
            }
            return KeyBy::Split;
        }
        Some(true) => return KeyBy::Columns(group_by.to_vec()),
        None => {}
    }
    let Some(columns) = options.strings("keyBy") else { return KeyBy::Columns(group_by.to_vec()) };
    for column in columns.iter().filter(|column| !group_by.contains(column)) {
        options.problem(
            "keyBy",
            format!(
                "`{column}` is not in `groupBy`; a group whose rows differ in it would be spread over several tasks, and come out in parts"
            ),
        );
    }
    if let Some((_, twice)) = columns.iter().enumerate().find(|(at, column)| columns[..*at].contains(column)) {
        options.problem("keyBy", format!("`{twice}` stands there twice"));
    }
    if columns.is_empty() {
        options.problem("keyBy", "name at least one column of `groupBy`, or leave `keyBy` out");
    }
    KeyBy::Columns(columns)
}

fn offset(options: &mut Options<'_>) -> i64 {
    let offset = if options.has("offset") {
        options.duration("offset").map_or(0, |offset| i64::try_from(offset.as_millis()).unwrap_or(i64::MAX))
    } else {
        options.value("offset");
        options.integer("offsetMs").unwrap_or(0)
    };
    if !(-LONGEST_MS..=LONGEST_MS).contains(&offset) {
        options.problem("offsetMs", "an offset is at most 100 years");
        return 0;
    }
    offset
}

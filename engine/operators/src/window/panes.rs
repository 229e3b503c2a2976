//! Open panes: each a key table and the accumulators over its groups. Recycled once nobody needs them.

use super::running::Running;
use crate::aggregates::{Accumulator, Aggregate, Content, Finished};
use crate::keys::{GroupBy, Groups, Keys};
use crate::lean::Saved;
use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, Int64Array};
use arrow::compute::filter;
use arrow::datatypes::{DataType, Int64Type};
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;
use tidegate_api::{Error, Result};

/// One slice of time.
#[derive(Debug)]
pub(crate) struct Pane {
    groups: Groups,
    accumulators: Accumulators,
    /// How the last snapshot holds it.
    pub(crate) saved: Saved,
    /// The groups that have changed since they were last emitted, as far as anybody asked; empty when none has.
    changes: Vec<bool>,
}

#[derive(Debug)]
enum Accumulators {
    /// A single count of rows: raised while keys are looked up, without group numbers in between.
    Rows(Vec<i64>),
    /// The general case.
    Each(Vec<Box<dyn Accumulator>>),
}

/// What all panes of a task share.
#[derive(Debug)]
pub(crate) struct Shape {
    by: GroupBy,
    aggregates: Vec<Aggregate>,
}

/// A pane's groups and their values, as arrays.
#[derive(Debug)]
pub(crate) struct Columns {
    /// The group columns.
    pub(crate) groups: Vec<ArrayRef>,
    /// One result per aggregate.
    pub(crate) results: Vec<Finished>,
    /// How many groups.
    pub(crate) rows: usize,
}

impl Columns {
    /// Some of the groups.
    fn filtered(self, wanted: &BooleanArray) -> Result<Self> {
        let mut places = vec![None; self.rows];
        let mut rows = 0;
        for (_, place) in places.iter_mut().enumerate().filter(|(group, _)| wanted.value(*group)) {
            *place = Some(rows);
            rows += 1;
        }
        let groups = self.groups.iter().map(|column| Ok(filter(column, wanted)?)).collect::<Result<_>>()?;
        let some = |result: Finished| {
            let misfits = result.misfits.into_iter().filter_map(|(group, value)| Some((places[group]?, value))).collect();
            Ok(Finished { values: filter(&result.values, wanted)?, misfits })
        };
        let results = self.results.into_iter().map(some).collect::<Result<_>>()?;
        Ok(Columns { groups, results, rows })
    }
}

impl Shape {
    /// The shape of a stage.
    ///
    /// # Errors
    /// `Internal` for types that binding refuses.
    pub(crate) fn new(group_types: Vec<DataType>, aggregates: Vec<Aggregate>) -> Result<Self> {
        Ok(Shape { by: GroupBy::new(group_types)?, aggregates })
    }

    /// The group columns of a batch as keys.
    ///
    /// # Errors
    /// `Internal` when a kernel fails.
    pub(crate) fn keys(&self, columns: &[ArrayRef]) -> Result<Keys> {
        self.by.keys(columns)
    }

    /// How many state columns each aggregate has, in order.
    ///
    /// # Errors
    /// `Internal` for types that binding refuses.
    pub(crate) fn state_widths(&self) -> Result<Vec<usize>> {
        Ok(match self.pane()?.accumulators {
            Accumulators::Rows(_) => vec![1],
            Accumulators::Each(each) => each.iter().map(|accumulator| Ok(accumulator.state()?.len())).collect::<Result<_>>()?,
        })
    }

    /// Whether a single count of rows is all there is.
    fn counts_rows(&self) -> bool {
        matches!(self.aggregates.as_slice(), [one] if one.counts_rows())
    }

    fn pane(&self) -> Result<Pane> {
        let accumulators = if self.counts_rows() {
            Accumulators::Rows(Vec::new())
        } else {
            Accumulators::Each(self.aggregates.iter().map(Aggregate::accumulator).collect::<Result<_>>()?)
        };
        Ok(Pane { groups: self.by.table(), accumulators, saved: Saved::No, changes: Vec::new() })
    }
}

impl Pane {
    /// Takes rows. `values` are prepared, one per aggregate, of the whole batch. With `watch` it remembers which groups changed.
    ///
    /// # Errors
    /// `Internal` when keys are of another stage.
    pub(crate) fn absorb(
        &mut self,
        keys: &Keys,
        values: &[Option<ArrayRef>],
        rows: Range<usize>,
        numbers: &mut Vec<u32>,
        watch: bool,
    ) -> Result<()> {
        let noted = matches!(self.saved, Saved::Runs(_));
        match &mut self.accumulators {
            Accumulators::Rows(counts) if watch || noted => {
                numbers.clear();
                self.groups.intern(keys, rows, |group| numbers.push(group))?;
                counts.resize(self.groups.len(), 0);
                numbers.iter().for_each(|group| counts[*group as usize] += 1);
                self.note(numbers, watch);
                Ok(())
            }
            Accumulators::Rows(counts) => {
                self.saved = Saved::No;
                if matches!(keys, Keys::None) {
                    counts.resize(1, 0);
                    counts[0] += rows.len() as i64;
                    return self.groups.intern(keys, rows, |_| {});
                }
                self.groups.intern(keys, rows, |group| match counts.get_mut(group as usize) {
                    Some(count) => *count += 1,
                    None => counts.push(1),
                })
            }
            Accumulators::Each(accumulators) => {
                numbers.clear();
                numbers.reserve(rows.len());
                self.groups.intern(keys, rows.clone(), |group| numbers.push(group))?;
                let total = self.groups.len();
                for (accumulator, values) in accumulators.iter_mut().zip(values) {
                    match values {
                        Some(values) if rows.len() != values.len() => {
                            accumulator.update(numbers, total, Some(&values.slice(rows.start, rows.len())))?;
                        }
                        whole => accumulator.update(numbers, total, whole.as_ref())?,
                    }
                }
                self.note(numbers, watch);
                Ok(())
            }
        }
    }

    /// Notes which groups have changed, as far as anybody will ask.
    fn note(&mut self, groups: &[u32], watch: bool) {
        self.saved.note(groups, self.groups.len());
        if watch {
            self.changed(groups);
        }
    }

    fn changed(&mut self, groups: &[u32]) {
        self.changes.resize(self.groups.len(), false);
        groups.iter().for_each(|group| self.changes[*group as usize] = true);
    }

    /// Whether groups have changed that are to be emitted again.
    pub(crate) fn has_changes(&self) -> bool {
        !self.changes.is_empty()
    }

    /// They have been emitted.
    pub(crate) fn forget_changes(&mut self) {
        self.changes.clear();
    }

    /// Which groups have changed.
    fn changes(&self) -> BooleanArray {
        let mut changes = self.changes.clone();
        changes.resize(self.groups.len(), false);
        BooleanArray::from(changes)
    }

    /// Takes in another pane of the same stage.
    ///
    /// # Errors
    /// `Internal` when it is of another stage.
    pub(crate) fn merge(&mut self, other: &Pane, numbers: &mut Vec<u32>) -> Result<()> {
        numbers.clear();
        self.groups.merge(&other.groups, |group| numbers.push(group));
        match (&mut self.accumulators, &other.accumulators) {
            (Accumulators::Rows(counts), Accumulators::Rows(theirs)) => {
                counts.resize(self.groups.len(), 0);
                numbers.iter().zip(theirs).for_each(|(group, count)| counts[*group as usize] += count);
            }
            (Accumulators::Each(accumulators), Accumulators::Each(theirs)) => {
                for (accumulator, other) in accumulators.iter_mut().zip(theirs) {
                    accumulator.merge(numbers, self.groups.len(), &other.state()?)?;
                }
            }
            _ => return Err(Error::internal("panes of two stages meet")),
        }
        if other.has_changes() {
            let theirs = numbers.iter().zip(&other.changes).filter(|(_, changed)| **changed);
            let changed: Vec<u32> = theirs.map(|(group, _)| *group).collect();
            self.changed(&changed);
        }
        self.note(numbers, false);
        Ok(())
    }

    /// Takes state back: the keys of some groups, each once, and their state columns, per aggregate. A group that is there already
    /// is left as it is: the newest state of a group comes first.
    ///
    /// # Errors
    /// `External` when the columns are not the state of this stage.
    pub(crate) fn merge_state(&mut self, keys: &Keys, rows: usize, state: &[&[ArrayRef]]) -> Result<()> {
        let known = self.groups.len();
        let mut numbers = Vec::with_capacity(rows);
        self.groups.intern(keys, 0..rows, |group| numbers.push(group))?;
        if numbers.iter().all(|group| *group as usize >= known) {
            return self.add_state(&numbers, state);
        }
        let new: BooleanArray = numbers.iter().map(|group| Some(*group as usize >= known)).collect();
        numbers.retain(|group| *group as usize >= known);
        let filtered = |column: &ArrayRef| Ok(filter(column, &new)?);
        let state = state.iter().map(|columns| columns.iter().map(filtered).collect()).collect::<Result<Vec<Vec<ArrayRef>>>>()?;
        self.add_state(&numbers, &state.iter().map(Vec::as_slice).collect::<Vec<_>>())
    }

    fn add_state(&mut self, numbers: &[u32], state: &[&[ArrayRef]]) -> Result<()> {
        match &mut self.accumulators {
            Accumulators::Rows(counts) => {
                let foreign = || Error::external("a state piece does not hold counts");
                let theirs: &Int64Array =
                    state.first().and_then(|one| one.first()).and_then(|one| one.as_primitive_opt::<Int64Type>()).ok_or_else(foreign)?;
                counts.resize(self.groups.len(), 0);
                numbers.iter().zip(theirs.values()).for_each(|(group, count)| counts[*group as usize] += count);
            }
            Accumulators::Each(accumulators) => {
                for (accumulator, state) in accumulators.iter_mut().zip(state) {
                    accumulator.merge(numbers, self.groups.len(), state)?;
                }
            }
        }
        Ok(())
    }

    /// How many groups there are.
    pub(crate) fn len(&self) -> usize {
        self.groups.len()
    }

    /// Some groups and the state of every aggregate over them, for a snapshot. It costs what they are, not what the pane is.
    ///
    /// # Errors
    /// `Internal` when an array cannot be made.
    pub(crate) fn content_of(&self, shape: &Shape, groups: &[u32]) -> Result<Content> {
        let states = match &self.accumulators {
            Accumulators::Rows(counts) => {
                let counts: Vec<i64> = groups.iter().map(|group| counts[*group as usize]).collect();
                vec![vec![Arc::new(Int64Array::from(counts)) as ArrayRef]]
            }
            Accumulators::Each(accumulators) => {
                accumulators.iter().map(|accumulator| accumulator.select(groups)?.state()).collect::<Result<_>>()?
            }
        };
        Ok(Content { own: Vec::new(), groups: shape.by.columns_of(&self.groups, groups)?, states, rows: groups.len() })
    }

    /// All groups and the state of every aggregate, for a snapshot.
    ///
    /// # Errors
    /// `Internal` when an array cannot be made.
    pub(crate) fn content(&mut self, shape: &Shape) -> Result<Content> {
        let states = match &self.accumulators {
            Accumulators::Rows(counts) => vec![vec![Arc::new(Int64Array::from(counts.clone())) as ArrayRef]],
            Accumulators::Each(accumulators) => accumulators.iter().map(|accumulator| accumulator.state()).collect::<Result<_>>()?,
        };
        Ok(Content { own: Vec::new(), groups: shape.by.columns(&mut self.groups, false)?, states, rows: self.groups.len() })
    }

    /// The groups and the results. `last` when the pane is to be cleared next.
    ///
    /// # Errors
    /// `Internal` when an array cannot be made.
    pub(crate) fn finish(&mut self, shape: &Shape, last: bool) -> Result<Columns> {
        let results = match &self.accumulators {
            Accumulators::Rows(counts) => {
                vec![Finished { values: Arc::new(Int64Array::from(counts.clone())), misfits: Vec::new() }]
            }
            Accumulators::Each(accumulators) => accumulators.iter().map(|accumulator| accumulator.finish()).collect::<Result<_>>()?,
        };
        let rows = self.groups.len();
        Ok(Columns { groups: shape.by.columns(&mut self.groups, last)?, results, rows })
    }

    fn clear(&mut self) {
        self.groups.clear();
        match &mut self.accumulators {
            Accumulators::Rows(counts) => counts.clear(),
            Accumulators::Each(accumulators) => accumulators.iter_mut().for_each(|accumulator| accumulator.clear()),
        }
        self.saved = Saved::No;
        self.changes.clear();
    }

    fn bytes(&self) -> usize {
        let accumulators = match &self.accumulators {
            Accumulators::Rows(counts) => counts.capacity() * 8,
            Accumulators::Each(accumulators) => accumulators.iter().map(|accumulator| accumulator.bytes()).sum(),
        };
        self.groups.bytes() + accumulators + self.saved.bytes()
    }
}

/// How many emptied panes are kept for later, and how much they hold: a batch may open a hundred small ones before the watermark
/// closes them, but a few great ones must not be held for ever.
const SPARES: usize = 256;
const SPARE_BYTES: usize = 4 << 20;
/// Windows of no more panes than this are put together anew each time.
const FEW_PANES: usize = 2;

/// The open panes of a task, by their start.
#[derive(Debug)]
pub(crate) struct Panes {
    shape: Shape,
    open: BTreeMap<i64, Pane>,
    spares: Vec<Pane>,
    spare_bytes: usize,
    /// The window that was combined last, where it can move on.
    running: Option<Running>,
}

impl Panes {
    /// None open.
    pub(crate) fn new(shape: Shape) -> Self {
        Panes { shape, open: BTreeMap::new(), spares: Vec::new(), spare_bytes: 0, running: None }
    }

    /// What they share.
    pub(crate) fn shape(&self) -> &Shape {
        &self.shape
    }

    /// The pane that starts at `start`, opened if need be.
    ///
    /// # Errors
    /// `Internal` for types that binding refuses.
    pub(crate) fn at(&mut self, start: i64) -> Result<&mut Pane> {
        if self.running.as_ref().is_some_and(|running| running.holds(start)) {
            // It holds what the pane has been.
            self.running = None;
        }
        if !self.open.contains_key(&start) {
            let pane = self.fresh()?;
            self.open.insert(start, pane);
        }
        self.open.get_mut(&start).ok_or_else(|| Error::internal("a pane was opened and is not there"))
    }

    /// The pane that starts at `start`, if it is open.
    pub(crate) fn get(&mut self, start: i64) -> Option<&mut Pane> {
        self.open.get_mut(&start)
    }

    /// The start of the earliest open pane.
    pub(crate) fn first(&self) -> Option<i64> {
        self.open.keys().next().copied()
    }

    /// The start of the latest open pane.
    pub(crate) fn last(&self) -> Option<i64> {
        self.open.keys().next_back().copied()
    }

    /// The starts of the open panes at or after a time, earliest first.
    pub(crate) fn from(&self, start: i64) -> impl Iterator<Item = i64> + '_ {
        self.open.range(start..).map(|(start, _)| *start)
    }

    /// Closes a pane; it is to be given back with [`Panes::recycle`].
    pub(crate) fn close(&mut self, start: i64) -> Option<Pane> {
        let pane = self.open.remove(&start)?;
        match (&mut self.running, &pane.accumulators) {
            (Some(running), Accumulators::Rows(counts)) if running.holds(start) => {
                running.take_away(&pane.groups, counts);
                running.from = running.from.max(start.saturating_add(1));
            }
            _ => {}
        }
        Some(pane)
    }

    /// Empties a pane and keeps it for later.
    pub(crate) fn recycle(&mut self, mut pane: Pane) {
        pane.clear();
        let bytes = pane.bytes();
        if self.spares.is_empty() || (self.spares.len() < SPARES && self.spare_bytes + bytes <= SPARE_BYTES) {
            self.spare_bytes += bytes;
            self.spares.push(pane);
        }
    }

    /// An empty pane.
    fn fresh(&mut self) -> Result<Pane> {
        let Some(spare) = self.spares.pop() else { return self.shape.pane() };
        // An empty pane takes what it took when it was put aside.
        self.spare_bytes -= spare.bytes();
        Ok(spare)
    }

    /// The open panes between two times, merged; the panes stay open. Either all groups, or those that have changed.
    ///
    /// # Errors
    /// `Internal` when a merge fails.
    pub(crate) fn combined(&mut self, from: i64, to: i64, numbers: &mut Vec<u32>, only_changed: bool) -> Result<Columns> {
        if !only_changed && self.open.range(from..to).nth(FEW_PANES).is_some() && self.shape.counts_rows() {
            return self.moved_on(from, to);
        }
        let mut within = self.open.range_mut(from..to);
        if let (Some((_, only)), None) = (within.next(), within.next()) {
            let columns = only.finish(&self.shape, false)?;
            return if only_changed { columns.filtered(&only.changes()) } else { Ok(columns) };
        }
        let mut merged = self.fresh()?;
        for pane in self.open.range(from..to).map(|(_, pane)| pane) {
            merged.merge(pane, numbers)?;
        }
        let columns = merged.finish(&self.shape, true)?;
        let columns = if only_changed { columns.filtered(&merged.changes())? } else { columns };
        self.recycle(merged);
        Ok(columns)
    }

    /// The open panes between two times, by moving on from the window before.
    fn moved_on(&mut self, from: i64, to: i64) -> Result<Columns> {
        let by = &self.shape.by;
        let mut running = self.running.take().unwrap_or_else(|| Running::new(by, from));
        if running.from > from || running.to < from || running.to > to || running.is_sparse() {
            running.reset(from);
        }
        for pane in self.open.range(running.from..from).map(|(_, pane)| pane) {
            if let Accumulators::Rows(counts) = &pane.accumulators {
                running.take_away(&pane.groups, counts);
            }
        }
        for pane in self.open.range(running.to..to).map(|(_, pane)| pane) {
            if let Accumulators::Rows(counts) = &pane.accumulators {
                running.add(&pane.groups, counts);
            }
        }
        (running.from, running.to) = (from, to);
        let (groups, counts) = running.columns(by)?;
        let rows = counts.len();
        self.running = Some(running);
        Ok(Columns { groups, results: vec![Finished { values: counts, misfits: Vec::new() }], rows })
    }

    /// All open panes with what they share, earliest first.
    pub(crate) fn all(&mut self) -> (impl Iterator<Item = (i64, &mut Pane)>, &Shape) {
        (self.open.iter_mut().map(|(start, pane)| (*start, pane)), &self.shape)
    }

    /// Memory held, spares included.
    pub(crate) fn bytes(&self) -> usize {
        self.open.values().chain(&self.spares).map(Pane::bytes).sum::<usize>() + self.running.as_ref().map_or(0, Running::bytes)
    }
}

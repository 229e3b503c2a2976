//! The state of a session stage in snapshots: open sessions, what was told of them, and up to when each vnode has fired
//! (`crate::fired`).
//!
//! Few sessions are one piece, `sessions`, that is written whole when any has changed, and beside it `told`. Many are written by key
//! (`crate::lean::Runs`), in pieces `sessions/RUN/PART`: what the piece of the greatest run holds of a key is all there is of it. A
//! row of such a piece is a session; or what was told of one, where it does not say whether it waits and has in the place of
//! `changed` whether a row stands; or a key that has neither, without a start. A restore begins with the newest and leaves out keys
//! that it has seen.

use super::operator::SessionAggregate;
use super::saved::Span;
use super::shown::Told;
use crate::aggregates::{self, Content, Dealing};
use crate::fired::FIRED;
use crate::lean::{Runs, Saved, run_number};
use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, Int64Array};
use arrow::compute::{FilterBuilder, FilterPredicate};
use arrow::datatypes::Int64Type;
use std::cmp::Reverse;
use std::sync::Arc;
use tidegate_api::{Error, PieceId, RestoredPiece, Result, StatePiece};

/// The version of this format; part of the signature.
pub(super) const VERSION: u32 = 1;
/// The piece that holds the open sessions. Where sessions are told of more than once, it has a column more: whether they took rows
/// since.
const OPEN: &str = "sessions";
/// What the names of pieces by key begin with.
const BY_KEY: &str = "sessions/";
/// More keys than this are written by key.
const LARGE: usize = if cfg!(test) { 3 } else { 1 << 14 };
/// The piece that holds what was told of them.
const TOLD: &str = "told";

/// What a new piece of the last snapshot holds.
#[derive(Debug, Clone, Copy)]
pub(super) enum Named {
    /// Sessions, or what was told of them.
    Open,
    /// So many pieces of sessions by key.
    ByKey(usize),
    Fired,
}

impl SessionAggregate {
    /// The whole state.
    ///
    /// # Errors
    /// `Internal` when an array cannot be made or written.
    pub(super) fn pieces(&mut self) -> Result<Vec<StatePiece>> {
        let vnodes = self.ctx.vnodes;
        let mut pieces = Vec::new();
        self.named.clear();
        let dealing = Dealing { by: self.plan.dealt_by.clone(), count: self.ctx.vnode_count };
        match std::mem::take(&mut self.sessions.saved) {
            Saved::Whole(ids) => {
                pieces.extend(ids.iter().cloned().map(StatePiece::Kept));
                self.sessions.saved = Saved::Whole(ids);
            }
            Saved::No if self.sessions.newest.len() <= LARGE => {
                for (name, content) in [(OPEN, self.open_sessions()?), (TOLD, self.told()?)] {
                    if let Some(content) = content {
                        pieces.push(StatePiece::New { name: name.into(), vnodes, data: content.encode(&dealing)? });
                        self.named.push(Named::Open);
                    }
                }
                self.sessions.saved = Saved::Whole(Vec::new());
            }
            saved => {
                let mut runs = if let Saved::Runs(runs) = saved { runs } else { Box::default() };
                let sessions = &self.sessions;
                let made = |keys: &[u32]| Ok(sessions.content_of(keys)?.deferred(&dealing));
                runs.snapshot_as(BY_KEY, sessions.newest.len(), vnodes, &mut pieces, made)?;
                self.named.push(Named::ByKey(runs.new_pieces()));
                self.sessions.saved = Saved::Runs(runs);
            }
        }
        match &self.fired.saved {
            Some(id) => pieces.push(StatePiece::Kept(id.clone())),
            None => {
                pieces.push(StatePiece::New { name: FIRED.into(), vnodes, data: self.fired.encode() });
                self.named.push(Named::Fired);
            }
        }
        Ok(pieces)
    }

    fn open_sessions(&self) -> Result<Option<Content>> {
        let open = self.sessions.slots.open();
        if open.is_empty() { Ok(None) } else { self.sessions.content(&open, &[], &[]).map(Some) }
    }

    fn told(&self) -> Result<Option<Content>> {
        let all: Vec<(u32, i64, Told)> = self.sessions.shown.iter().flat_map(|shown| shown.all()).collect();
        if all.is_empty() {
            return Ok(None);
        }
        let groups = self.sessions.groups_by(&all.iter().map(|(key, ..)| *key).collect::<Vec<_>>())?;
        let own: Vec<ArrayRef> = vec![
            Arc::new(all.iter().map(|(_, start, _)| Some(*start)).collect::<Int64Array>()),
            Arc::new(all.iter().map(|(.., told)| Some(told.last)).collect::<Int64Array>()),
            Arc::new(all.iter().map(|(.., told)| Some(told.stands)).collect::<BooleanArray>()),
        ];
        Ok(Some(Content { own, groups, states: Vec::new(), rows: all.len() }))
    }

    /// The names under which the new pieces are known.
    pub(super) fn take_names(&mut self, ids: Vec<PieceId>) {
        let mut ids = ids.into_iter();
        for named in self.named.drain(..) {
            match (named, &mut self.sessions.saved) {
                (Named::Fired, _) => self.fired.saved = ids.next(),
                (Named::Open, Saved::Whole(saved)) => saved.extend(ids.next()),
                (Named::ByKey(new), Saved::Runs(runs)) => runs.named(&mut ids.by_ref().take(new)),
                // The sessions have changed since the snapshot, so their pieces are of no more use.
                (Named::Open, _) => drop(ids.next()),
                (Named::ByKey(new), _) => ids.by_ref().take(new).for_each(drop),
            }
        }
    }

    /// Takes pieces back, as far as they are ours.
    ///
    /// # Errors
    /// `External` for a piece that is none of this stage's.
    pub(super) fn take_back(&mut self, pieces: &[RestoredPiece]) -> Result<()> {
        let mut open: Vec<(Option<i64>, &RestoredPiece)> = Vec::new();
        let mut told = Vec::new();
        for piece in pieces {
            let run = piece.name.strip_prefix(BY_KEY).map(run_number);
            match (piece.name.as_str(), run) {
                (FIRED, _) => self.fired.restore(piece)?,
                (OPEN, _) => open.push((None, piece)),
                (_, Some(Some(run))) => open.push((Some(run), piece)),
                (TOLD, _) if self.plan.when.updates() => told.push(piece),
                (other, _) => return Err(Error::external(format!("state piece `{other}` is none of this operator's"))),
            }
        }
        open.sort_by_key(|(run, _)| Reverse(*run));
        let mut saved = Vec::with_capacity(open.len());
        for run in open.chunk_by(|(a, _), (b, _)| a == b) {
            let known = self.sessions.newest.len();
            for (_, piece) in run {
                saved.push((piece.id.clone(), self.take_sessions(piece, known)?));
            }
        }
        for piece in &told {
            self.take_told(piece)?;
            saved.push((piece.id.clone(), 0));
        }
        let whole = open.iter().map(|(_, piece)| piece).chain(&told).all(|piece| self.ctx.vnodes.covers(piece.vnodes));
        // The state is unchanged only if all of its pieces are ours whole.
        self.sessions.saved = match open.first() {
            _ if !whole => Saved::No,
            Some((Some(greatest), _)) => Saved::Runs(Box::new(Runs::resumed(saved.into_iter().rev(), *greatest))),
            _ => Saved::Whole(saved.into_iter().map(|(id, _)| id).collect()),
        };
        if self.sessions.shown.as_ref().is_some_and(|shown| shown.has_changes()) {
            // How many rows those were is forgotten; the time begins anew.
            let clock = &self.ctx.clock;
            self.pace.took(0, || clock.monotonic());
        }
        Ok(())
    }

    /// Takes a piece of sessions, less what belongs to the first `known` keys; gives how many keys it holds, a key with sessions and
    /// with what was told twice.
    fn take_sessions(&mut self, piece: &RestoredPiece, known: usize) -> Result<usize> {
        let foreign = || Error::external(format!("state piece `{}` does not hold sessions", piece.name));
        let widths = self.sessions.state_widths()?;
        let columns = if self.plan.when.updates() { 4 } else { 3 };
        let mut held = 0;
        aggregates::restore(piece, columns, self.plan.groups.len(), &widths, self.ctx.vnodes, |part| {
            let keys = self.sessions.by.keys(part.groups)?;
            let numbers = self.sessions.number(&keys, part.rows)?;
            held += numbers.chunk_by(|a, b| a == b).count();
            let (starts, waiting) = (&part.own[0], &part.own[2]);
            let wanted = |is: &dyn Fn(usize) -> bool| -> BooleanArray {
                numbers.iter().enumerate().map(|(row, key)| Some(*key as usize >= known && starts.is_valid(row) && is(row))).collect()
            };
            let (sessions, told) = (wanted(&|row| waiting.is_valid(row)), wanted(&|row| waiting.is_null(row)));
            self.sessions.numbers = numbers;
            let filter = FilterBuilder::new(&sessions).optimize().build();
            let some = |columns: &[ArrayRef]| filtered(columns, &filter);
            let (own, groups) = (some(part.own)?, some(part.groups)?);
            let states = part.states.iter().map(|state| some(state)).collect::<Result<Vec<_>>>()?;
            let (starts, lasts) = (ints(&own[0]).ok_or_else(foreign)?, ints(&own[1]).ok_or_else(foreign)?);
            let flags = own[2..].iter().map(|column| column.as_boolean_opt().ok_or_else(foreign)).collect::<Result<Vec<_>>>()?;
            let span = |row: usize| Span {
                start: starts.value(row),
                last: lasts.value(row),
                waiting: flags[0].value(row),
                changed: flags.get(1).is_some_and(|changed| changed.value(row)),
            };
            let spans: Vec<Span> = (0..starts.len()).map(span).collect();
            self.sessions.restore(&groups, &spans, &states.iter().map(Vec::as_slice).collect::<Vec<_>>())?;
            if told.true_count() == 0 {
                return Ok(());
            }
            let filter = FilterBuilder::new(&told).optimize().build();
            let (own, groups) = (filtered(part.own, &filter)?, filtered(part.groups, &filter)?);
            self.restore_told(&groups, [&own[0], &own[1], own.get(3).ok_or_else(foreign)?], foreign)
        })?;
        Ok(held)
    }

    fn take_told(&mut self, piece: &RestoredPiece) -> Result<()> {
        let foreign = || Error::external(format!("state piece `{}` does not hold what was told of sessions", piece.name));
        aggregates::restore(piece, 3, self.plan.groups.len(), &[], self.ctx.vnodes, |part| {
            self.restore_told(part.groups, [&part.own[0], &part.own[1], &part.own[2]], foreign)
        })
    }

    /// What was told: when sessions had begun, when their last rows were, whether rows stand.
    fn restore_told(&mut self, groups: &[ArrayRef], [starts, lasts, stands]: [&ArrayRef; 3], foreign: impl Fn() -> Error) -> Result<()> {
        let (starts, lasts) = (ints(starts).ok_or_else(&foreign)?, ints(lasts).ok_or_else(&foreign)?);
        let stands = stands.as_boolean_opt().ok_or_else(&foreign)?;
        let told = |row: usize| (starts.value(row), Told { last: lasts.value(row), stands: stands.value(row) });
        self.sessions.restore_told(groups, &(0..starts.len()).map(told).collect::<Vec<_>>())
    }
}

fn filtered(columns: &[ArrayRef], filter: &FilterPredicate) -> Result<Vec<ArrayRef>> {
    columns.iter().map(|column| Ok(filter.filter(column)?)).collect()
}

fn ints(column: &ArrayRef) -> Option<&Int64Array> {
    column.as_primitive_opt::<Int64Type>()
}

//! The state of a session stage in snapshots: open sessions, what was told of them, and up to when each vnode has fired
//! (`crate::fired`).

use super::operator::SessionAggregate;
use super::saved::Span;
use super::shown::Told;
use crate::aggregates;
use crate::fired::FIRED;
use arrow::array::{ArrayRef, AsArray, BooleanArray, Int64Array};
use arrow::datatypes::Int64Type;
use std::sync::Arc;
use tidegate_api::{Error, PieceId, RestoredPiece, Result, StatePiece};

/// The version of this format; part of the signature.
pub(super) const VERSION: u32 = 1;
/// The piece that holds the open sessions. Where sessions are told of more than once, it has a column more: whether they took rows
/// since.
const OPEN: &str = "sessions";
/// The piece that holds what was told of them.
const TOLD: &str = "told";

/// What a new piece of the last snapshot holds.
#[derive(Debug, Clone, Copy)]
pub(super) enum Named {
    /// Sessions, or what was told of them.
    Open,
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
        match &self.saved {
            Some(ids) => pieces.extend(ids.iter().cloned().map(StatePiece::Kept)),
            None => {
                self.saved = Some(Vec::new());
                for (name, data) in [(OPEN, self.open_sessions()?), (TOLD, self.told()?)] {
                    if let Some(data) = data {
                        pieces.push(StatePiece::New { name: name.into(), vnodes, data });
                        self.named.push(Named::Open);
                    }
                }
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

    fn open_sessions(&mut self) -> Result<Option<Vec<u8>>> {
        let state = self.sessions.state()?;
        let rows = state.starts.len();
        if rows == 0 {
            return Ok(None);
        }
        let dealt = self.dealt(&state.groups, rows)?;
        let mut own: Vec<ArrayRef> = vec![
            Arc::new(Int64Array::from(state.starts)),
            Arc::new(Int64Array::from(state.lasts)),
            Arc::new(BooleanArray::from(state.waiting)),
        ];
        if self.plan.when.updates() {
            own.push(Arc::new(BooleanArray::from(state.changed)));
        }
        Ok(Some(aggregates::encode(dealt, own, state.groups, state.states)?))
    }

    fn told(&mut self) -> Result<Option<Vec<u8>>> {
        let all: Vec<(u32, i64, Told)> = self.sessions.shown.iter().flat_map(|shown| shown.all()).collect();
        if all.is_empty() {
            return Ok(None);
        }
        let groups = self.sessions.groups_by(&all.iter().map(|(key, ..)| *key).collect::<Vec<_>>())?;
        let dealt = self.dealt(&groups, all.len())?;
        let own: Vec<ArrayRef> = vec![
            Arc::new(all.iter().map(|(_, start, _)| Some(*start)).collect::<Int64Array>()),
            Arc::new(all.iter().map(|(.., told)| Some(told.last)).collect::<Int64Array>()),
            Arc::new(all.iter().map(|(.., told)| Some(told.stands)).collect::<BooleanArray>()),
        ];
        Ok(Some(aggregates::encode(dealt, own, groups, Vec::new())?))
    }

    /// The names under which the new pieces are known.
    pub(super) fn take_names(&mut self, ids: Vec<PieceId>) {
        for (named, id) in self.named.drain(..).zip(ids) {
            match named {
                Named::Fired => self.fired.saved = Some(id),
                Named::Open => self.saved.get_or_insert_default().push(id),
            }
        }
    }

    /// Takes pieces back, as far as they are ours.
    ///
    /// # Errors
    /// `External` for a piece that is none of this stage's.
    pub(super) fn take_back(&mut self, pieces: &[RestoredPiece]) -> Result<()> {
        // The state is unchanged only if all of its pieces are ours whole.
        let mut saved = Some(Vec::new());
        for piece in pieces {
            match piece.name.as_str() {
                FIRED => {
                    self.fired.restore(piece)?;
                    continue;
                }
                OPEN => self.take_sessions(piece)?,
                TOLD if self.plan.when.updates() => self.take_told(piece)?,
                other => return Err(Error::external(format!("state piece `{other}` is none of this operator's"))),
            }
            saved = saved.filter(|_| self.ctx.vnodes.covers(piece.vnodes)).map(|mut ids: Vec<PieceId>| {
                ids.push(piece.id.clone());
                ids
            });
        }
        self.saved = saved;
        if self.sessions.shown.as_ref().is_some_and(|shown| shown.has_changes()) {
            // How many rows those were is forgotten; the time begins anew.
            let clock = &self.ctx.clock;
            self.pace.took(0, || clock.monotonic());
        }
        Ok(())
    }

    fn take_sessions(&mut self, piece: &RestoredPiece) -> Result<()> {
        let foreign = || Error::external(format!("state piece `{}` does not hold sessions", piece.name));
        let widths = self.sessions.state_widths()?;
        let columns = if self.plan.when.updates() { 4 } else { 3 };
        aggregates::restore(piece, columns, self.plan.groups.len(), &widths, self.ctx.vnodes, |part| {
            let (starts, lasts) = (ints(&part.own[0]).ok_or_else(foreign)?, ints(&part.own[1]).ok_or_else(foreign)?);
            let flags = part.own[2..].iter().map(|column| column.as_boolean_opt().ok_or_else(foreign)).collect::<Result<Vec<_>>>()?;
            let span = |row: usize| Span {
                start: starts.value(row),
                last: lasts.value(row),
                waiting: flags[0].value(row),
                changed: flags.get(1).is_some_and(|changed| changed.value(row)),
            };
            self.sessions.restore(part.groups, &(0..part.rows).map(span).collect::<Vec<_>>(), &part.states)
        })
    }

    fn take_told(&mut self, piece: &RestoredPiece) -> Result<()> {
        let foreign = || Error::external(format!("state piece `{}` does not hold what was told of sessions", piece.name));
        aggregates::restore(piece, 3, self.plan.groups.len(), &[], self.ctx.vnodes, |part| {
            let (starts, lasts) = (ints(&part.own[0]).ok_or_else(foreign)?, ints(&part.own[1]).ok_or_else(foreign)?);
            let stands = part.own[2].as_boolean_opt().ok_or_else(foreign)?;
            let told = |row: usize| (starts.value(row), Told { last: lasts.value(row), stands: stands.value(row) });
            self.sessions.restore_told(part.groups, &(0..part.rows).map(told).collect::<Vec<_>>())
        })
    }
}

fn ints(column: &ArrayRef) -> Option<&Int64Array> {
    column.as_primitive_opt::<Int64Type>()
}

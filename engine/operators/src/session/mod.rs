//! `sessionAggregate`: aggregates per group over sessions of event time.
//!
//! Rows of a group belong to one session as long as each comes at most `gap` after the one before; exactly one gap later
//! still belongs. Times count in whole milliseconds. A session's window begins at its first row and ends one gap after its
//! last.
//!
//! **Firing.** A watermark `w` promises no more rows before `w`, so a session fires when its end lies before `w`: at
//! `end == w` a row at `w` could still join it.
//!
//! **Late rows.** A row is late when a session of it alone would have fired: its time plus the gap lies before the watermark
//! through which its vnode has fired. That depends on the row and the watermark alone, never on which sessions happen to be
//! open, so the order of rows between two watermarks does not matter; a row that late is not put into the session after it. A
//! row behind the watermark by no more than a gap is taken; the sessions that were given up stay as they are.
//!
//! **The longest session.** With `maxMs` no session's rows are further apart than that: rows are taken in the order of their
//! times, and one that would make a session longer begins the next. Since that takes the order of all rows, they wait, one
//! slot per group and millisecond, until the watermark has passed them. A session that was cut fires at once.
//!
//! **Updates.** With `allowedLateness` or `emit` sessions are told of before they are done with, and told again when they have
//! changed. A session's bounds are part of its rows' key, so what was told of its rows before is taken back. Giving up is what it
//! is without updates, only later: the last that is told of every session is what would have come out at a watermark later by the
//! lateness. What is told earlier are views, sessions as they would be if nothing more came.
//!
//! **State** is the open sessions; it leaves with the watermark, and so do the keys. What this step forwards as its watermark is
//! held back to the earliest start it may still emit: that of an open session, or the watermark less lateness and gap.
//!
//! | file | what |
//! |---|---|
//! | `config.rs` | the step's keys, and its types |
//! | `sessions.rs` | which row belongs to which session |
//! | `settle.rs` | sessions of at most a length |
//! | `slots.rs` | start, end and key of each session |
//! | `timers.rs` | which sessions are due that were not over at once |
//! | `shown.rs` | what was told of sessions that may still change |
//! | `views.rs` | sessions as they would be if nothing more came |
//! | `rounds.rs` | what a watermark or the clock makes due |
//! | `emission.rs` | sessions as output rows |
//! | `late.rs` | rows whose sessions are given up |
//! | `saved.rs` | sessions in snapshots |
//! | `state.rs` | pieces of snapshots |
//! | `operator.rs` | rows in, sessions out |

mod config;
mod emission;
mod late;
mod operator;
mod rounds;
mod saved;
mod sessions;
mod settle;
mod shown;
mod slots;
mod state;
mod timers;
mod views;

pub(crate) use config::INFO;

#[cfg(test)]
mod tests;

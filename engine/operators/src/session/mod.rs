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
//! row behind the watermark by no more than a gap is taken; the sessions that have fired stay as they are.
//!
//! **The longest session.** With `maxMs` no session's rows are further apart than that: rows are taken in the order of their
//! times, and one that would make a session longer begins the next. Since that takes the order of all rows, they wait, one
//! slot per group and millisecond, until the watermark has passed them. A session that was cut fires at once.
//!
//! **State** is the open sessions; it leaves with the watermark, and so do the keys. What this step forwards as its watermark is
//! held back to the earliest start it may still emit: that of an open session, or the watermark less a gap.
//!
//! | file | what |
//! |---|---|
//! | `config.rs` | the step's keys, and its types |
//! | `sessions.rs` | which row belongs to which session |
//! | `settle.rs` | sessions of at most a length |
//! | `slots.rs` | start, end and key of each session |
//! | `timers.rs` | which sessions are due that were not over at once |
//! | `operator.rs` | rows in, sessions out, snapshots |

mod config;
mod operator;
mod sessions;
mod settle;
mod slots;
mod timers;

pub(crate) use config::INFO;

#[cfg(test)]
mod tests;

//! State per origin split (`keyBy = false`): the rows of every split of a source are kept apart, and each split has its own time.
//!
//! A source's rows say which split they come from and what that split promises once they are taken. Here every split has an
//! operator of its own, told of its own promises; what all splits have promised together counts as well, so that the state of a
//! split that has ended leaves. The state of a split belongs to the split's vnode, so it moves as all state does.
//! `docs/design/per-split.md` says who does what.
//!
//! | file | what |
//! |---|---|
//! | `rows.rs` | a batch cut by split and promise |
//! | `operator.rs` | one operator per split |

mod operator;
mod rows;

pub(crate) use operator::PerSplitFactory;

#[cfg(test)]
mod tests;

//! The mark that says what was committed, and the decision that it gives. Facts in, decision out; nothing here asks anybody.

use super::token::Token;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use tidegate_api::Generation;

const VERSION: u32 = 1;

/// How far the newest epoch that was committed got: of each task how many segments, or that all are.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Progress {
    /// `None` before the first.
    pub(super) epoch: Option<u64>,
    whole: Vec<u8>,
    parts: BTreeMap<usize, usize>,
}

impl Progress {
    /// How many segments of a token are committed.
    pub(super) fn of(&self, token: &Token) -> Done {
        match self.epoch {
            None => Done::Segments(0),
            // Epochs are committed in order.
            Some(epoch) if epoch > token.epoch => Done::Whole,
            Some(epoch) if epoch < token.epoch => Done::Segments(0),
            Some(_) if self.is_whole(token.task) => Done::Whole,
            Some(_) => Done::Segments(self.parts.get(&token.task).copied().unwrap_or(0)),
        }
    }

    fn is_whole(&self, task: usize) -> bool {
        self.whole.get(task / 8).is_some_and(|byte| byte & (1 << (task % 8)) != 0)
    }

    /// What it is once so many segments of a token are committed too.
    pub(super) fn with(&self, token: &Token, segments: usize) -> Progress {
        let mut next =
            if self.epoch == Some(token.epoch) { self.clone() } else { Progress { epoch: Some(token.epoch), ..Progress::default() } };
        if segments < token.segments.len() {
            next.parts.insert(token.task, segments);
        } else {
            next.parts.remove(&token.task);
            if next.whole.len() <= token.task / 8 {
                next.whole.resize(token.task / 8 + 1, 0);
            }
            next.whole[token.task / 8] |= 1 << (token.task % 8);
        }
        next
    }
}

/// How much of a token is committed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Done {
    Whole,
    Segments(usize),
}

/// What is in the metadata of the offset.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Mark {
    pub(super) run: String,
    /// The newest generation that has taken the sink over.
    pub(super) generation: u64,
    pub(super) progress: Progress,
}

#[derive(Serialize, Deserialize)]
struct Written {
    tidegate: u32,
    run: String,
    generation: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    epoch: Option<u64>,
    /// Tasks whose token is committed whole, a bit each, in hexadecimal.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    whole: String,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    parts: Vec<(usize, usize)>,
}

impl Mark {
    pub(super) fn write(&self) -> String {
        let mut whole = String::new();
        for byte in &self.progress.whole {
            let _ = write!(whole, "{byte:02x}");
        }
        let written = Written {
            tidegate: VERSION,
            run: self.run.clone(),
            generation: self.generation,
            epoch: self.progress.epoch,
            whole,
            parts: self.progress.parts.iter().map(|(task, segments)| (*task, *segments)).collect(),
        };
        serde_json::to_string(&written).unwrap_or_default()
    }

    /// Reads it back; `None` if it is not ours to read.
    pub(super) fn read(text: &str) -> Option<Mark> {
        let written: Written = serde_json::from_str(text).ok().filter(|written: &Written| written.tidegate == VERSION)?;
        if !written.whole.len().is_multiple_of(2) || !written.whole.is_ascii() {
            return None;
        }
        let byte = |at: usize| u8::from_str_radix(&written.whole[at..at + 2], 16).ok();
        let whole = (0..written.whole.len()).step_by(2).map(byte).collect::<Option<Vec<u8>>>()?;
        let progress = Progress { epoch: written.epoch, whole, parts: written.parts.into_iter().collect() };
        Some(Mark { run: written.run, generation: written.generation, progress })
    }
}

/// What was found where the mark should be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Found {
    None,
    Mark(Mark),
    /// An offset with this metadata, which somebody else wrote.
    Foreign(String),
}

/// Whether the run has noted that it has a mark.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Noted {
    Yes,
    No,
}

/// What a mark means to a run of a generation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Decision {
    /// This run has committed so much; the generation is the newest that took over.
    GoOn(Progress, u64),
    /// A later generation of this run has taken over; this much is committed.
    Superseded(Progress),
    /// Another run has taken over.
    OtherRun(String),
    /// There was a mark and it is gone.
    Lost,
    /// Somebody else writes to the group.
    Foreign(String),
}

/// Decides. `run` and `generation` are those of who asks.
pub(super) fn decide(run: &str, generation: Generation, found: Found, noted: Noted) -> Decision {
    match (found, noted) {
        (Found::Foreign(metadata), _) => Decision::Foreign(metadata),
        (Found::None, Noted::No) => Decision::GoOn(Progress::default(), 0),
        (Found::None, Noted::Yes) => Decision::Lost,
        (Found::Mark(mark), _) if mark.run == run && mark.generation > generation.0 => Decision::Superseded(mark.progress),
        (Found::Mark(mark), _) if mark.run == run => Decision::GoOn(mark.progress, mark.generation),
        // That run was before this one, which has not committed anything yet.
        (Found::Mark(_), Noted::No) => Decision::GoOn(Progress::default(), 0),
        (Found::Mark(mark), Noted::Yes) => Decision::OtherRun(mark.run),
    }
}

#[cfg(test)]
mod tests {
    use super::super::segment::SegmentName;
    use super::*;
    use proptest::collection::vec;
    use proptest::prelude::*;

    fn token(epoch: u64, task: usize, segments: usize) -> Token {
        let segment = |number: usize| SegmentName { key: number.to_string(), records: 1, bytes: 1, crc: 0 };
        Token {
            version: 1,
            run: "r".into(),
            sink: "s".into(),
            generation: 1,
            epoch,
            task,
            transactional_id: String::new(),
            segments: (0..segments).map(segment).collect(),
        }
    }

    fn mark(run: &str, generation: u64, epoch: u64) -> Mark {
        Mark { run: run.into(), generation, progress: Progress::default().with(&token(epoch, 0, 1), 1) }
    }

    #[test]
    fn every_row_of_the_table_in_the_design_page() {
        let ours = |found, noted| decide("r", Generation(2), found, noted);
        let progress = mark("r", 2, 7).progress;
        assert_eq!(ours(Found::None, Noted::No), Decision::GoOn(Progress::default(), 0));
        assert_eq!(ours(Found::None, Noted::Yes), Decision::Lost);
        for noted in [Noted::Yes, Noted::No] {
            assert_eq!(ours(Found::Mark(mark("r", 1, 7)), noted), Decision::GoOn(progress.clone(), 1));
            assert_eq!(ours(Found::Mark(mark("r", 2, 7)), noted), Decision::GoOn(progress.clone(), 2));
            assert_eq!(ours(Found::Mark(mark("r", 3, 7)), noted), Decision::Superseded(progress.clone()));
            assert_eq!(ours(Found::Foreign("x".into()), noted), Decision::Foreign("x".into()));
        }
        // Compared exactly: a name that begins alike is another's.
        for other in ["r2", "R", ""] {
            assert_eq!(ours(Found::Mark(mark(other, 1, 7)), Noted::No), Decision::GoOn(Progress::default(), 0));
            assert_eq!(ours(Found::Mark(mark(other, 1, 7)), Noted::Yes), Decision::OtherRun(other.into()));
        }
    }

    #[test]
    fn what_a_mark_covers_is_its_epoch_task_by_task_and_all_before() {
        let progress = Progress::default().with(&token(5, 9, 3), 3).with(&token(5, 2, 3), 1);
        assert_eq!(progress.of(&token(5, 9, 3)), Done::Whole);
        assert_eq!(progress.of(&token(5, 2, 3)), Done::Segments(1));
        assert_eq!(progress.of(&token(5, 0, 3)), Done::Segments(0));
        assert_eq!(progress.of(&token(4, 0, 3)), Done::Whole);
        assert_eq!(progress.of(&token(6, 9, 3)), Done::Segments(0));
        assert_eq!(progress.with(&token(6, 0, 0), 0).of(&token(6, 0, 0)), Done::Whole);
        assert_eq!(Progress::default().of(&token(0, 0, 1)), Done::Segments(0));
    }

    #[test]
    fn a_mark_of_a_thousand_tasks_fits_what_brokers_take_as_metadata() {
        let progress = (0..1000).fold(Progress::default(), |progress, task| progress.with(&token(u64::MAX, task, 1), 1));
        let text = Mark { run: "x".repeat(60), generation: u64::MAX, progress }.write();
        assert!(text.len() < 4096, "{}", text.len());
    }

    #[test]
    fn what_is_not_ours_is_not_read() {
        for text in [
            "",
            "{}",
            "7",
            "{\"tidegate\":2,\"run\":\"r\",\"generation\":1}",
            "{\"tidegate\":1,\"run\":\"r\",\"generation\":1,\"whole\":\"0\"}",
        ] {
            assert_eq!(Mark::read(text), None, "{text}");
        }
        assert_eq!(Mark::read("{\"tidegate\":1,\"run\":\"r\",\"generation\":1,\"whole\":\"é\"}"), None);
    }

    proptest! {
        /// However tokens of an epoch are cut into parts and in whichever order they are committed, what the mark covers is what was committed.
        #[test]
        fn a_mark_covers_what_was_committed_and_nothing_else(
            sizes in vec(0usize..5, 1..20),
            steps in vec((0usize..20, 1usize..4), 0..40),
        ) {
            let tokens: Vec<Token> = sizes.iter().enumerate().map(|(task, segments)| token(3, task, *segments)).collect();
            let mut committed = vec![None; tokens.len()];
            let mut progress = Progress::default().with(&token(2, 1, 4), 2);
            for (task, more) in steps {
                let task = task % tokens.len();
                let segments = (committed[task].unwrap_or(0) + more).min(sizes[task]);
                progress = progress.with(&tokens[task], segments);
                committed[task] = Some(segments);
                let written = Mark { run: "r".into(), generation: 1, progress: progress.clone() };
                prop_assert_eq!(Mark::read(&written.write()), Some(written));
            }
            for (token, committed) in tokens.iter().zip(&committed) {
                let expected = match committed {
                    Some(segments) if *segments == token.segments.len() => Done::Whole,
                    Some(segments) => Done::Segments(*segments),
                    None => Done::Segments(0),
                };
                prop_assert_eq!(progress.of(token), expected);
            }
        }
    }
}

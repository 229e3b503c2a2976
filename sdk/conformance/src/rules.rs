//! The names of the promises. They are stable: reports, tests and authors go by them.

use std::fmt;

/// Who makes a promise.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Suite {
    /// Every plugin.
    Any,
    /// Sources.
    Source,
    /// Transforms.
    Transform,
    /// Sinks of every guarantee.
    Sink,
    /// Sinks whose replayed rows overwrite themselves.
    Idempotent,
    /// Sinks with two phases.
    TwoPhase,
}

impl Suite {
    /// Its name in reports.
    pub fn name(self) -> &'static str {
        match self {
            Suite::Any => "any",
            Suite::Source => "source",
            Suite::Transform => "transform",
            Suite::Sink => "sink",
            Suite::Idempotent => "idempotent sink",
            Suite::TwoPhase => "two-phase sink",
        }
    }
}

macro_rules! rules {
    ($($suite:ident: $($rule:ident $name:literal $promise:literal)+;)+) => {
        /// A promise that a script can find broken.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
        pub enum Rule {
            $($(#[doc = $promise] $rule,)+)+
        }

        impl Rule {
            /// All of them, suite by suite.
            pub const ALL: &'static [Rule] = &[$($(Rule::$rule,)+)+];

            /// Its stable name, in kebab case.
            pub fn name(self) -> &'static str {
                match self {
                    $($(Rule::$rule => $name,)+)+
                }
            }

            /// What is promised.
            pub fn promise(self) -> &'static str {
                match self {
                    $($(Rule::$rule => $promise,)+)+
                }
            }

            /// Who promises it.
            pub fn suite(self) -> Suite {
                match self {
                    $($(Rule::$rule)|+ => Suite::$suite,)+
                }
            }
        }
    };
}

rules! {
    Any:
        CallsSucceed "calls-succeed" "With a good configuration and good rows no call fails."
        NeverTraps "never-traps" "No call traps, and none runs into a limit."
        HostileConfig "hostile-config-never-traps" "A configuration of wrong types, of absurd size or depth gives an error at the most, never a trap."
        UnknownKeys "unknown-keys-are-refused" "A configuration with a key that the plugin does not know is an error."
        NoLeak "no-leak" "Memory is flat and no handle is left, however many calls are made."
        UpgradePositions "upgrade-reads-positions" "Positions of the older version are read by the newer one."
        UpgradeTokens "upgrade-reads-tokens" "Commit tokens of the older version are finished and undone by the newer one.";
    Source:
        PlanConstant "plan-is-constant" "The same question gets the same plan."
        SplitsStable "splits-are-stable" "A fresh discovery names the same splits, each once, in the same order."
        ReplaySame "replay-gives-the-same-rows" "A split read again gives the same rows in the same order."
        AnyTasks "same-rows-for-any-task-count" "Any number of tasks reads the same rows."
        AnyPoll "same-rows-for-any-poll-size" "Any size of poll reads the same rows."
        MaxRows "max-rows-respected" "A poll gives at most the rows asked for."
        OwnSplits "rows-of-assigned-splits" "Rows and states are of splits that were assigned and have not finished."
        EmptyPolls "empty-polls-are-harmless" "A poll without splits, or after the end, gives nothing and costs nothing."
        WatermarkBack "watermark-never-goes-back" "A split's watermark only rises."
        WatermarkTrue "watermark-is-true" "No row comes whose event time is below its split's watermark."
        Pruning "pruned-columns-are-the-same" "Fewer wanted columns are the same columns of the same rows, and a plan that says it prunes does."
        PositionSkips "position-skips-nothing" "A position never points past rows that were not handed over."
        PositionRepeats "position-repeats-nothing" "A position points behind all rows that were handed over."
        PositionAdvances "later-position-is-shorter" "The rest from a later position is strictly shorter."
        KilledAnywhere "killed-anywhere-goes-on" "A new instance on the last positions goes on where the old one died."
        CommittedHarmless "committed-changes-nothing" "Notices of durable positions that are lost, repeated or late change no row."
        KeysApart "key-stays-in-one-split" "Where rows replace each other, all rows of one key come from one split."
        NewSplits "new-splits-are-found" "What appears while running is found by a discovery with the cursor, and read.";
    Transform:
        BindPure "bind-is-pure" "The same input and configuration get the same plan, whatever was asked or processed between."
        Deterministic "deterministic" "The same batch gives the same rows, in the same instance and in another."
        RowMapping "row-mapping-is-honest" "In a row-wise shape, output row i belongs to input row i."
        BatchCuts "any-batch-cut-gives-the-same-rows" "The same rows cut into other batches become the same rows."
        Extremes "nulls-and-extremes-are-survived" "Nulls and the extreme values of every type are processed, or reported row by row."
        EmptyBatch "empty-batch-is-empty" "A batch without rows becomes no rows.";
    Sink:
        FlushDelivers "flush-delivers" "Every row taken before a flush (and its commit, if there is one) is seen by a reader after it."
        CrashLosesNothing "crash-loses-nothing" "After a crash at any point and a replay from the last barrier, no row is missing."
        NothingInvented "nothing-is-invented" "A reader sees no row that was never written.";
    Idempotent:
        ReplayOverwrites "replay-overwrites" "Rows that come again under their keys are seen once.";
    TwoPhase:
        NothingEarly "nothing-visible-before-commit" "Rows are invisible until their epoch is committed."
        TokenAnywhere "token-works-anywhere" "A token alone lets any other instance finish or undo its epoch."
        CommitShows "commit-shows-its-epoch" "A commit shows all rows of its epoch and none of another."
        EmptyEpochs "empty-epochs-lose-nothing" "An epoch without rows has no token, and disturbs none that has."
        TasksApart "tasks-do-not-meet" "What several tasks write in one epoch is kept apart, and commits together."
        CommitIdempotent "commit-is-idempotent" "A commit that comes again, late or twice at once, shows nothing again and says that it was done."
        OutcomesMatch "outcomes-match-tokens" "There is one outcome per token, in their order, and it is that token's."
        AbortUndoes "abort-undoes" "An epoch that was given up never appears, cannot be committed, and leaves nothing."
        VisibleFinal "visible-is-final" "What a reader has seen is not taken back."
        RecoverKeeps "recover-keeps-the-named" "A start leaves alone what its manifest names, and what its own or a later generation prepared."
        RecoverUndoes "recover-undoes-the-unnamed" "A start undoes what an earlier generation prepared and no manifest names."
        RecoverSpares "recover-spares-others" "A start touches no other run's, operator's or program's rows."
        VisibleOnce "visible-once" "Whatever crashes between two calls, every committed row is visible once."
        LateCalls "late-calls-change-nothing" "An old process that wakes late loses nothing and shows nothing."
        NothingLeft "nothing-left-behind" "What was committed or undone does not lie about.";
}

impl Rule {
    /// The rule of a name.
    pub fn named(name: &str) -> Option<Rule> {
        Rule::ALL.iter().copied().find(|rule| rule.name() == name)
    }
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn names_are_kebab_case_and_unique() {
        let names: BTreeSet<_> = Rule::ALL.iter().map(|rule| rule.name()).collect();
        assert_eq!(names.len(), Rule::ALL.len());
        for rule in Rule::ALL {
            assert!(rule.name().bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'-'), "{rule}");
            assert_eq!(Rule::named(rule.name()), Some(*rule));
        }
    }

    /// `docs/plugins/conformance.md` has one table line per rule, in this order.
    #[test]
    fn the_documented_table_is_that_of_the_code() {
        let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/plugins/conformance.md");
        let page = std::fs::read_to_string(page).unwrap();
        let expected: Vec<String> =
            Rule::ALL.iter().map(|rule| format!("| `{rule}` | {} | {} |", rule.suite().name(), rule.promise())).collect();
        let found: Vec<&str> = page.lines().filter(|line| line.starts_with("| `") && line.matches('|').count() == 4).collect();
        assert_eq!(found, expected, "the table of rules should be:\n{}", expected.join("\n"));
    }
}

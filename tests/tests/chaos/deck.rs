//! Which fault comes next: every named point of the protocol in turn, for deaths and for freezes, and faults of the disk in between.

/// Points passed while a start begins, then those of an epoch.
pub(crate) const POINTS: [&str; 18] = [
    "before-opening",
    "after-opening",
    "mid-recommit",
    "mid-recover",
    "after-recover",
    "opened",
    "before-pre-commit",
    "after-pre-commit",
    "prepare",
    "mid-states",
    "before-manifest",
    "mid-manifest",
    "after-manifest",
    "mid-commit",
    "before-mark",
    "after-mark",
    "mid-prune",
    "after-prune",
];

/// One fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Fault {
    /// SIGKILL at a point.
    Kill(&'static str),
    /// SIGKILL at any moment.
    KillAnywhere,
    /// SIGSTOP at a point, another start with `--takeover`, SIGCONT.
    Freeze(&'static str),
    /// The same at any moment.
    FreezeAnywhere,
    /// No space left where epochs or outputs are, for good or for a moment.
    Full(Disk, Lasting),
    /// Epochs or outputs are on a file system that has become read-only.
    ReadOnly(Disk),
    /// The server that keeps the epochs is killed, and started again: once the pipeline has given up, or a moment later.
    StoreKilled(Lasting),
    /// Both are killed, the server first.
    StoreAndPipelineKilled,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Disk {
    State,
    Out,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Lasting {
    UntilItFails,
    AMoment,
}

impl Fault {
    /// Whether it ends or freezes a process, and so counts as a kill.
    pub(crate) fn is_kill(self) -> bool {
        match self {
            Fault::Kill(_) | Fault::KillAnywhere | Fault::Freeze(_) | Fault::FreezeAnywhere => true,
            Fault::Full(..) | Fault::ReadOnly(_) | Fault::StoreKilled(_) | Fault::StoreAndPipelineKilled => false,
        }
    }
}

/// Faults of the disk, in turn.
pub(crate) const OF_THE_DISK: [Fault; 5] = [
    Fault::ReadOnly(Disk::Out),
    Fault::Full(Disk::State, Lasting::UntilItFails),
    Fault::Full(Disk::Out, Lasting::UntilItFails),
    Fault::ReadOnly(Disk::State),
    Fault::Full(Disk::State, Lasting::AMoment),
];

/// Faults of a server that keeps the epochs, in turn.
pub(crate) const OF_THE_STORE: [Fault; 3] =
    [Fault::StoreKilled(Lasting::AMoment), Fault::StoreAndPipelineKilled, Fault::StoreKilled(Lasting::UntilItFails)];

/// Deals faults; shared by all pipelines, so that the points are spread over all of them.
#[derive(Default)]
pub(crate) struct Deck {
    killed: usize,
    frozen: usize,
    around: usize,
    dealt: usize,
}

impl Deck {
    /// So many kills, and among them faults of what is around the pipeline, from this list in turn.
    pub(crate) fn deal(&mut self, kills: usize, around: &[Fault]) -> Vec<Fault> {
        let mut faults = Vec::new();
        let mut left = kills;
        while left > 0 {
            let fault = self.next(around);
            left -= usize::from(fault.is_kill());
            faults.push(fault);
        }
        faults
    }

    fn next(&mut self, around: &[Fault]) -> Fault {
        self.dealt += 1;
        match self.dealt % 8 {
            3 => {
                // A start that has not published anything is not older than the one that takes over from it.
                let points: Vec<&'static str> = POINTS.into_iter().filter(|point| *point != "before-opening").collect();
                self.frozen += 1;
                // Not in their order, so that a short run meets both halves; 7 and 17 have no divisor in common.
                Fault::Freeze(points[self.frozen * 7 % points.len()])
            }
            5 if self.dealt % 16 == 5 => Fault::FreezeAnywhere,
            5 => Fault::KillAnywhere,
            2 if !around.is_empty() => {
                self.around += 1;
                around[(self.around - 1) % around.len()]
            }
            _ => {
                self.killed += 1;
                Fault::Kill(POINTS[self.killed * 5 % POINTS.len()])
            }
        }
    }
}

#[test]
fn every_point_has_its_turn() {
    let faults = Deck::default().deal(200, &OF_THE_DISK);
    let count = |wanted: &dyn Fn(&Fault) -> bool| faults.iter().filter(|fault| wanted(fault)).count();
    for point in POINTS {
        assert!(count(&|fault| *fault == Fault::Kill(point)) >= 5, "{point}");
        assert!(point == "before-opening" || count(&|fault| *fault == Fault::Freeze(point)) >= 1, "{point}");
    }
    assert_eq!(count(&|fault| fault.is_kill()), 200);
    assert!(OF_THE_DISK.iter().all(|fault| count(&|other| other == fault) >= 4));
}

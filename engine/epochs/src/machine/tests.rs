//! The machine under random facts. A driver answers what was asked, late, twice, or with a failure; every invariant of the order of an
//! epoch is a named predicate over the trace, checked after every transition.

use super::*;
use proptest::prelude::*;
use std::collections::BTreeSet;
use tidegate_api::Retry;

/// What the trace of facts and actions has shown so far.
#[derive(Debug, Default)]
struct Trace {
    injected: Vec<(Epoch, BarrierKind)>,
    acked: BTreeSet<usize>,
    states: BTreeSet<Epoch>,
    created: BTreeSet<Epoch>,
    committed: BTreeSet<Epoch>,
    marked: BTreeSet<Epoch>,
    conflicted: bool,
    over: bool,
    sent_end: bool,
}

type Check = (&'static str, fn(&Trace, &Action, &MachineConfig) -> bool);

const SILENT: &str = "nothing is done after the end, a failure or the fence";

/// Each holds for every action at the moment it is returned.
const INVARIANTS: &[Check] = &[
    ("one epoch is in flight, and none is skipped", |trace, action, config| match action {
        Action::InjectBarrier(barrier) => {
            let before = trace.injected.last().map_or(config.after, |(epoch, _)| *epoch);
            barrier.epoch == before.next() && (before == config.after || trace.marked.contains(&before))
        }
        _ => true,
    }),
    ("states are written when every task has acknowledged", |trace, action, config| match action {
        Action::WriteStates { epoch } => trace.current() == Some(*epoch) && trace.acked.len() == config.tasks,
        _ => true,
    }),
    ("a manifest is created when the states are durable and the one before has its mark", |trace, action, config| match action {
        Action::CreateManifest { epoch, .. } => {
            trace.states.contains(epoch) && (epoch.0 == config.after.0 + 1 || trace.marked.contains(&Epoch(epoch.0 - 1)))
        }
        _ => true,
    }),
    ("sinks are committed after the manifest", |trace, action, _| match action {
        Action::CommitSinks { epoch } => trace.created.contains(epoch),
        _ => true,
    }),
    ("sources are acknowledged after the sinks", |trace, action, _| match action {
        Action::AcknowledgeSources { epoch } => trace.created.contains(epoch) && trace.committed.contains(epoch),
        _ => true,
    }),
    ("the mark is written after the sinks", |trace, action, _| match action {
        Action::WriteMark { epoch } => trace.committed.contains(epoch),
        _ => true,
    }),
    ("pruning comes after the mark", |trace, action, _| match action {
        Action::Prune { newest } => trace.marked.contains(newest),
        _ => true,
    }),
    ("a manifest says what its barrier said", |trace, action, _| match (action, trace.injected.last()) {
        (Action::CreateManifest { ended, .. }, Some((_, kind))) => *ended == end_of(*kind),
        (Action::Finish { end, epoch }, Some((last, kind))) => end_of(*kind).as_ref() == Some(end) && epoch == last,
        (Action::SendEndOfStream, Some((last, kind))) => end_of(*kind).is_some() && trace.marked.contains(last),
        _ => true,
    }),
    ("no barrier follows a last one", |trace, action, _| match (action, trace.injected.last()) {
        (Action::InjectBarrier(_), Some((_, kind))) => *kind == BarrierKind::Checkpoint,
        _ => true,
    }),
    ("a run finishes once its end of stream is sent", |trace, action, _| match action {
        Action::Finish { .. } => trace.sent_end,
        _ => true,
    }),
    (SILENT, |trace, action, _| {
        !trace.over && (!trace.conflicted || matches!(action, Action::Fail(error) if error.kind() == ErrorKind::Fenced))
    }),
];

fn end_of(kind: BarrierKind) -> Option<End> {
    match kind {
        BarrierKind::Checkpoint => None,
        BarrierKind::Drain => Some(End::Drain),
        BarrierKind::Suspend => Some(End::Suspend),
    }
}

impl Trace {
    fn current(&self) -> Option<Epoch> {
        self.injected.last().map(|(epoch, _)| *epoch)
    }

    fn saw(&mut self, fact: &Fact) {
        match fact {
            Fact::TaskAcked { task, .. } => {
                self.acked.insert(*task);
            }
            Fact::StatesDurable { epoch } => {
                self.states.insert(*epoch);
            }
            Fact::ManifestCreated { epoch } => {
                self.created.insert(*epoch);
            }
            Fact::SinksCommitted { epoch } => {
                self.committed.insert(*epoch);
            }
            Fact::MarkWritten { epoch } => {
                self.marked.insert(*epoch);
            }
            Fact::ManifestConflict { .. } => self.conflicted = true,
            Fact::Tick { .. }
            | Fact::SinkLost { .. }
            | Fact::Failed { .. }
            | Fact::JobFailed { .. }
            | Fact::StopRequested
            | Fact::AllSourcesEnded => {}
        }
    }

    fn did(&mut self, action: &Action) {
        match action {
            Action::InjectBarrier(barrier) => {
                self.injected.push((barrier.epoch, barrier.kind));
                self.acked.clear();
            }
            Action::SendEndOfStream => self.sent_end = true,
            Action::Finish { .. } | Action::Fail(_) => self.over = true,
            Action::WriteStates { .. }
            | Action::CreateManifest { .. }
            | Action::CommitSinks { .. }
            | Action::AcknowledgeSources { .. }
            | Action::WriteMark { .. }
            | Action::Prune { .. }
            | Action::RenewClaim => {}
        }
    }
}

/// A machine, its trace, and the world that answers it.
struct World {
    machine: EpochMachine,
    config: MachineConfig,
    trace: Trace,
    time: Duration,
    /// Steps asked for and not yet answered.
    open: Vec<(Epoch, Step)>,
    /// Answers that were given, to be given again.
    answered: Vec<(Epoch, Step)>,
    unacked: Vec<usize>,
    broken: Vec<&'static str>,
}

const TICK: Duration = Duration::from_millis(100);

impl World {
    fn new(config: MachineConfig) -> Self {
        World {
            machine: EpochMachine::new(config.clone()),
            config,
            trace: Trace::default(),
            time: Duration::ZERO,
            open: Vec::new(),
            answered: Vec::new(),
            unacked: Vec::new(),
            broken: Vec::new(),
        }
    }

    fn planted(config: MachineConfig, bug: PlantedBug) -> Self {
        let mut world = World::new(config);
        world.machine = world.machine.with_planted_bug(bug);
        world
    }

    /// A world whose first barrier is on its way.
    fn aligning(config: MachineConfig) -> Self {
        let mut world = World::new(config);
        while world.machine.phase() == Phase::Idle {
            world.tick();
        }
        world
    }

    fn feed(&mut self, fact: Fact) -> Vec<Action> {
        self.trace.saw(&fact);
        let actions = self.machine.on(fact);
        for action in &actions {
            for (name, holds) in INVARIANTS {
                if !holds(&self.trace, action, &self.config) {
                    self.broken.push(name);
                }
            }
            self.trace.did(action);
            match action {
                Action::InjectBarrier(_) => self.unacked = (0..self.config.tasks).collect(),
                Action::WriteStates { epoch } => self.open.push((*epoch, Step::States)),
                Action::CreateManifest { epoch, .. } => self.open.push((*epoch, Step::Manifest)),
                Action::CommitSinks { epoch } => self.open.push((*epoch, Step::Sinks)),
                Action::WriteMark { epoch } => self.open.push((*epoch, Step::Mark)),
                Action::AcknowledgeSources { .. }
                | Action::Prune { .. }
                | Action::RenewClaim
                | Action::SendEndOfStream
                | Action::Finish { .. }
                | Action::Fail(_) => {}
            }
        }
        actions
    }

    fn tick(&mut self) -> Vec<Action> {
        self.time += TICK;
        let wall = EventTime(i64::try_from(self.time.as_micros()).unwrap());
        self.feed(Fact::Tick { monotonic: self.time, wall })
    }

    fn ack(&mut self, pick: usize) -> Vec<Action> {
        if self.unacked.is_empty() {
            return Vec::new();
        }
        let task = self.unacked.swap_remove(pick % self.unacked.len());
        let epoch = self.trace.current().unwrap();
        self.feed(Fact::TaskAcked { task, epoch })
    }

    fn ack_all(&mut self) {
        while !self.unacked.is_empty() {
            self.ack(0);
        }
    }

    fn answer(&mut self, pick: usize) -> Vec<Action> {
        if self.open.is_empty() {
            return Vec::new();
        }
        let asked = self.open.remove(pick % self.open.len());
        self.answered.push(asked);
        self.feed(done(asked))
    }

    fn again(&mut self, pick: usize) -> Vec<Action> {
        if self.answered.is_empty() {
            return Vec::new();
        }
        let asked = self.answered[pick % self.answered.len()];
        self.feed(done(asked))
    }

    fn fail(&mut self, pick: usize, error: Error) -> Vec<Action> {
        if self.open.is_empty() {
            return Vec::new();
        }
        let (epoch, step) = self.open.remove(pick % self.open.len());
        self.feed(Fact::Failed { epoch, step, error })
    }

    /// Answers everything at once until nothing is left to answer.
    fn settle(&mut self) -> Vec<Action> {
        let mut actions = Vec::new();
        while !self.unacked.is_empty() || !self.open.is_empty() {
            actions.extend(self.ack(0));
            actions.extend(self.answer(0));
        }
        actions
    }
}

fn done((epoch, step): (Epoch, Step)) -> Fact {
    match step {
        Step::States => Fact::StatesDurable { epoch },
        Step::Manifest => Fact::ManifestCreated { epoch },
        Step::Sinks => Fact::SinksCommitted { epoch },
        Step::Mark => Fact::MarkWritten { epoch },
    }
}

fn config() -> MachineConfig {
    MachineConfig::new(3, Duration::from_secs(1), Epoch(7))
}

fn kinds(actions: &[Action]) -> Vec<String> {
    let name = |action: &Action| match action {
        Action::InjectBarrier(barrier) => format!("inject {} {:?}", barrier.epoch, barrier.kind),
        Action::WriteStates { epoch } => format!("states {epoch}"),
        Action::CreateManifest { epoch, .. } => format!("manifest {epoch}"),
        Action::CommitSinks { epoch } => format!("commit {epoch}"),
        Action::AcknowledgeSources { epoch } => format!("acknowledge {epoch}"),
        Action::WriteMark { epoch } => format!("mark {epoch}"),
        Action::Prune { newest } => format!("prune {newest}"),
        Action::RenewClaim => "claim".to_string(),
        Action::SendEndOfStream => "end of stream".to_string(),
        Action::Finish { epoch, end } => format!("finish {epoch} {end:?}"),
        Action::Fail(error) => format!("fail {}", error.kind().name()),
    };
    actions.iter().filter(|action| !matches!(action, Action::RenewClaim)).map(name).collect()
}

const NOTHING: [&str; 0] = [];

/// P071, P079: sources are told that rows are safe once manifest and sinks have them, never before.
#[test]
fn an_epoch_goes_through_every_step_in_order() {
    let mut world = World::aligning(config());
    assert_eq!(kinds(&world.settle()), ["states 8", "manifest 8", "commit 8", "acknowledge 8", "mark 8", "prune 8"]);
    assert_eq!(world.machine.settled(), Epoch(8));
}

#[test]
fn the_barrier_carries_the_now_of_the_next_epoch() {
    let mut world = World::new(config());
    let mut actions = Vec::new();
    for _ in 0..11 {
        actions.extend(world.tick());
    }
    let barrier = actions.iter().find_map(|action| if let Action::InjectBarrier(barrier) = action { Some(*barrier) } else { None });
    assert_eq!(barrier.unwrap().now, EventTime(1_100_000));
}

#[test]
fn an_epoch_that_takes_longer_than_the_interval_is_followed_at_once() {
    let mut world = World::aligning(config());
    for _ in 0..50 {
        world.tick();
    }
    assert_eq!(world.trace.injected.len(), 1);
    world.ack_all();
    for _ in 0..3 {
        world.answer(0);
    }
    assert_eq!(kinds(&world.answer(0)), ["prune 8", "inject 9 Checkpoint"]);
}

#[test]
fn ended_sources_drain_without_waiting_for_the_interval() {
    let mut world = World::new(config());
    world.tick();
    assert_eq!(kinds(&world.feed(Fact::AllSourcesEnded)), ["inject 8 Drain"]);
    assert_eq!(kinds(&world.settle())[5..], ["prune 8", "end of stream", "finish 8 Drain"]);
    assert_eq!(world.machine.phase(), Phase::Over);
}

#[test]
fn ended_sources_suspend_when_the_pipeline_says_so() {
    let mut world = World::new(config().with_at_end(AtEnd::Suspend));
    world.tick();
    assert_eq!(kinds(&world.feed(Fact::AllSourcesEnded)), ["inject 8 Suspend"]);
}

#[test]
fn a_source_that_ends_before_the_first_tick_drains_at_the_first_tick() {
    let mut world = World::new(config());
    assert_eq!(kinds(&world.feed(Fact::AllSourcesEnded)), NOTHING);
    assert_eq!(kinds(&world.tick()), ["inject 8 Drain"]);
}

#[test]
fn a_stop_waits_for_the_epoch_in_flight_and_comes_next() {
    let mut world = World::aligning(config());
    assert_eq!(kinds(&world.feed(Fact::StopRequested)), NOTHING);
    let names = kinds(&world.settle());
    assert_eq!(names[6], "inject 9 Suspend");
    assert_eq!(names.last().unwrap(), "finish 9 Suspend");
}

#[test]
fn a_stop_during_the_drain_lets_it_complete() {
    let mut world = World::new(config());
    world.tick();
    world.feed(Fact::AllSourcesEnded);
    world.feed(Fact::StopRequested);
    assert_eq!(kinds(&world.settle()).last().unwrap(), "finish 8 Drain");
}

#[test]
fn a_failed_write_is_repeated_after_a_growing_number_of_ticks() {
    let mut world = World::aligning(config().with_attempts(5));
    world.ack_all();
    let mut waits = Vec::new();
    for _ in 0..4 {
        assert_eq!(kinds(&world.fail(0, Error::external("down"))), NOTHING);
        let mut ticks = 1;
        while kinds(&world.tick()) != ["states 8"] {
            ticks += 1;
        }
        waits.push(ticks);
    }
    assert_eq!(waits, [1, 2, 4, 8]);
    assert_eq!(kinds(&world.fail(0, Error::external("down"))), ["fail external"]);
}

#[test]
fn attempts_are_counted_per_step() {
    let mut world = World::aligning(config().with_attempts(2));
    world.ack_all();
    for step in ["states 8", "manifest 8", "commit 8", "mark 8"] {
        assert_eq!(kinds(&world.fail(0, Error::retryable("slow", Duration::ZERO))), NOTHING);
        assert_eq!(kinds(&world.tick()), [step]);
        world.answer(0);
    }
    assert_eq!(world.machine.settled(), Epoch(8));
}

#[test]
fn an_error_that_is_not_external_is_not_repeated() {
    let mut world = World::aligning(config());
    world.ack_all();
    assert_eq!(kinds(&world.fail(0, Error::limit("too large"))), ["fail limit"]);
}

#[test]
fn whoever_loses_the_create_is_fenced_and_silent() {
    let mut world = World::aligning(config());
    world.ack_all();
    world.answer(0);
    let actions = world.feed(Fact::ManifestConflict { epoch: Epoch(8), owner: "other".to_string() });
    assert_eq!(kinds(&actions), ["fail fenced"]);
    for _ in 0..100 {
        assert!(world.tick().is_empty());
    }
    assert!(world.feed(Fact::ManifestCreated { epoch: Epoch(8) }).is_empty());
    assert!(world.feed(Fact::StopRequested).is_empty());
}

/// P092: what was prepared and is gone is loss, and is said loudly.
#[test]
fn lost_rows_end_the_run_as_data_loss() {
    let mut world = World::new(config());
    let actions = world.feed(Fact::SinkLost { epoch: Epoch(8), sink: "out".to_string(), reason: "expired".to_string() });
    let Action::Fail(error) = &actions[0] else { panic!("{actions:?}") };
    assert_eq!(error.kind(), ErrorKind::Data);
    assert!(error.to_string().contains("`out`") && error.to_string().contains("expired"));
}

#[test]
fn an_answer_that_nobody_asked_for_ends_the_run() {
    for fact in
        [Fact::TaskAcked { task: 0, epoch: Epoch(8) }, Fact::ManifestCreated { epoch: Epoch(8) }, Fact::MarkWritten { epoch: Epoch(9) }]
    {
        let mut world = World::new(config());
        world.tick();
        assert_eq!(kinds(&world.feed(fact)), ["fail internal"]);
    }
}

#[test]
fn a_task_acknowledges_once() {
    let mut world = World::aligning(config());
    world.feed(Fact::TaskAcked { task: 1, epoch: Epoch(8) });
    assert_eq!(kinds(&world.feed(Fact::TaskAcked { task: 1, epoch: Epoch(8) })), ["fail internal"]);
}

#[test]
fn the_claim_is_renewed_every_interval_and_not_after_the_end() {
    let mut world = World::new(config());
    let mut renewals = 0;
    for _ in 0..35 {
        renewals += world.tick().iter().filter(|action| matches!(action, Action::RenewClaim)).count();
        world.settle();
    }
    assert_eq!(renewals, 4);
    world.feed(Fact::StopRequested);
    world.settle();
    assert_eq!(world.machine.phase(), Phase::Over);
    assert!((0..50).all(|_| world.tick().is_empty()));
}

/// One move of the random world.
#[derive(Debug, Clone)]
enum Move {
    Tick,
    Ack(usize),
    Answer(usize),
    Again(usize),
    FailStep(usize),
    Stop,
    EndOfSources,
    Conflict,
    JobFails,
    Arbitrary(usize, u64),
}

fn moves() -> impl Strategy<Value = Vec<Move>> {
    let one = prop_oneof![
        30 => Just(Move::Tick),
        30 => any::<usize>().prop_map(Move::Ack),
        30 => any::<usize>().prop_map(Move::Answer),
        6 => any::<usize>().prop_map(Move::Again),
        8 => any::<usize>().prop_map(Move::FailStep),
        1 => Just(Move::Stop),
        1 => Just(Move::EndOfSources),
    ];
    prop::collection::vec(one, 1..400)
}

fn hostile() -> impl Strategy<Value = Vec<Move>> {
    let one = prop_oneof![
        20 => Just(Move::Tick),
        20 => any::<usize>().prop_map(Move::Ack),
        20 => any::<usize>().prop_map(Move::Answer),
        1 => Just(Move::Conflict),
        1 => Just(Move::JobFails),
        2 => (any::<usize>(), 0..12_u64).prop_map(|(kind, epoch)| Move::Arbitrary(kind, epoch)),
    ];
    prop::collection::vec(one, 1..200)
}

fn play(world: &mut World, moves: &[Move]) {
    for next in moves {
        match next {
            Move::Tick => world.tick(),
            Move::Ack(pick) => world.ack(*pick),
            Move::Answer(pick) => world.answer(*pick),
            Move::Again(pick) => world.again(*pick),
            Move::FailStep(pick) => world.fail(*pick, Error::new(ErrorKind::External { retry: Retry::No }, "down")),
            Move::Stop => world.feed(Fact::StopRequested),
            Move::EndOfSources => world.feed(Fact::AllSourcesEnded),
            Move::Conflict => {
                let epoch = world.machine.current();
                world.feed(Fact::ManifestConflict { epoch, owner: String::new() })
            }
            Move::JobFails => world.feed(Fact::JobFailed { error: Error::external("trap") }),
            Move::Arbitrary(kind, epoch) => {
                let steps = [Step::States, Step::Manifest, Step::Sinks, Step::Mark];
                world.feed(done((Epoch(*epoch), steps[kind % 4])))
            }
        };
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    /// With an honest driver (it answers only what was asked, perhaps late and twice) no invariant breaks and every run ends in order.
    #[test]
    fn an_honest_driver_sees_the_order_kept(tasks in 1..5_usize, suspend in any::<bool>(), script in moves()) {
        let at_end = if suspend { AtEnd::Suspend } else { AtEnd::Drain };
        let config = MachineConfig::new(tasks, Duration::from_millis(300), Epoch(7)).with_at_end(at_end).with_attempts(500);
        let mut world = World::new(config);
        play(&mut world, &script);
        prop_assert_eq!(&world.broken, &Vec::<&str>::new());
        // Whatever came before, a stop now ends the run in order.
        world.feed(Fact::StopRequested);
        for _ in 0..100 {
            world.tick();
            world.settle();
        }
        prop_assert_eq!(&world.broken, &Vec::<&str>::new());
        prop_assert_eq!(world.machine.phase(), Phase::Over);
        prop_assert!(world.trace.sent_end);
        prop_assert_eq!(world.trace.marked.len(), world.trace.injected.len());
    }

    /// Whatever is fed, the machine neither panics nor acts after its end, and a lost create is the last thing it hears.
    #[test]
    fn a_hostile_driver_gets_an_error_and_then_silence(script in hostile()) {
        let mut world = World::new(MachineConfig::new(2, Duration::from_millis(300), Epoch(3)));
        play(&mut world, &script);
        prop_assert!(!world.broken.contains(&SILENT), "{:?}", world.broken);
    }
}

#[test]
fn every_planted_bug_breaks_the_invariant_it_is_named_after() {
    for (bug, broken) in [
        (PlantedBug::None, None),
        (PlantedBug::AckBeforeManifest, Some("sources are acknowledged after the sinks")),
        (PlantedBug::CommitBeforeManifest, Some("sinks are committed after the manifest")),
        (PlantedBug::FenceSkipped, Some(SILENT)),
        (PlantedBug::MarkBeforeCommit, Some("the mark is written after the sinks")),
    ] {
        let mut world = World::planted(config(), bug);
        while world.machine.phase() == Phase::Idle {
            world.tick();
        }
        world.ack_all();
        if bug == PlantedBug::FenceSkipped {
            world.answer(0);
            world.open.clear();
            world.feed(Fact::ManifestConflict { epoch: Epoch(8), owner: String::new() });
        }
        world.settle();
        match broken {
            None => assert_eq!(world.broken, NOTHING),
            Some(name) => assert!(world.broken.contains(&name), "{bug:?}: {:?}", world.broken),
        }
        assert_eq!(world.machine.settled(), Epoch(8), "{bug:?} still completes its epochs");
    }
}

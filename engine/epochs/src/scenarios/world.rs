//! A job of two tasks (a source with a counting operator, and a two-phase sink), its outside, and one start of it in steps.

use crate::testkit::{FaultPlan, FaultyStore};
use crate::{Step, *};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tidegate_api::*;

pub(super) const ROWS: u64 = 24;
const ROWS_PER_POLL: u64 = 3;
pub(super) const KEEP: usize = 2;
const TICK: Duration = Duration::from_millis(100);

/// What outlives every process: the store, what readers of the sink see, and the queue that the source reads.
#[derive(Debug, Clone, Default)]
pub(super) struct Outside {
    pub(super) store: MemoryStore,
    pub(super) shared: Arc<Mutex<Shared>>,
}

#[derive(Debug, Default)]
pub(super) struct Shared {
    /// By token: who prepared it, and its rows.
    prepared: BTreeMap<Vec<u8>, (Generation, Vec<u64>)>,
    committed: BTreeSet<Vec<u8>>,
    pub(super) visible: Vec<u64>,
    /// The queue forgets what lies before this.
    acknowledged: u64,
}

impl Outside {
    pub(super) fn shared(&self) -> MutexGuard<'_, Shared> {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What every undisturbed or disturbed history must end in.
    pub(super) fn assert_exactly_once(&self) {
        let mut visible = self.shared().visible.clone();
        visible.sort_unstable();
        assert_eq!(visible, (0..ROWS).collect::<Vec<u64>>());
    }

    pub(super) fn assert_nothing_is_left_prepared(&self) {
        assert!(self.shared().prepared.is_empty(), "{:?}", self.shared().prepared);
    }
}

impl Shared {
    /// For runs that begin the queue anew.
    pub(super) fn forget_acknowledgements(&mut self) {
        self.acknowledged = 0;
    }
}

#[derive(Debug)]
struct OutsideSink {
    outside: Outside,
    generation: Generation,
    /// Asked before every effect, so that a plan can crash a start in the middle of a commit.
    probe: FaultyStore,
}

impl Committer for OutsideSink {
    fn commit(&mut self, _: Epoch, tokens: &[CommitToken]) -> Result<Vec<CommitOutcome>> {
        let mut outcomes = Vec::new();
        for token in tokens {
            self.probe.get("probe/commit")?;
            let mut shared = self.outside.shared();
            outcomes.push(match shared.prepared.remove(&token.0) {
                Some((_, rows)) => {
                    shared.visible.extend(rows);
                    shared.committed.insert(token.0.clone());
                    CommitOutcome::Done
                }
                None if shared.committed.contains(&token.0) => CommitOutcome::AlreadyDone,
                None => CommitOutcome::Lost("nobody knows this token".to_string()),
            });
        }
        Ok(outcomes)
    }

    fn abort(&mut self, _: Epoch, tokens: &[CommitToken]) -> Result<()> {
        for token in tokens {
            self.outside.shared().prepared.remove(&token.0);
        }
        Ok(())
    }

    fn recover(&mut self, keep: &[CommitToken]) -> Result<()> {
        self.probe.get("probe/recover")?;
        let keep: BTreeSet<&Vec<u8>> = keep.iter().map(|token| &token.0).collect();
        let generation = self.generation;
        self.outside.shared().prepared.retain(|token, (by, _)| *by >= generation || keep.contains(token));
        Ok(())
    }
}

pub(super) fn shape() -> JobShape {
    JobShape {
        vnodes: 8,
        sources: BTreeMap::from([("queue".to_string(), "number: int64".to_string())]),
        operators: BTreeMap::from([("count".to_string(), Signature::new("count", 1))]),
        sinks: BTreeMap::from([("out".to_string(), SinkShape { two_phase: true, config: serde_json::json!({ "path": "out" }) })]),
        ..JobShape::default()
    }
}

pub(super) fn request(holder: &str) -> OpenRequest {
    OpenRequest::new(RunId::new(format!("run-of-{holder}")), holder, Duration::from_millis(200), shape()).with_takeover(true)
}

/// What became of a start.
#[derive(Debug)]
pub(super) enum Outcome {
    Running,
    Finished(End),
    /// An earlier start has done everything.
    Complete,
    Failed(Error),
}

/// One start. Each [`Start::step`] does one thing to the outside, so that a test can interleave two, or stop anywhere.
pub(super) struct Start {
    outside: Outside,
    pub(super) store: FaultyStore,
    request: OpenRequest,
    now: u64,
    running: Option<Running>,
    planted: PlantedBug,
}

struct Running {
    machine: EpochMachine,
    ledger: Ledger,
    pruner: Pruner,
    actions: VecDeque<Action>,
    generation: Generation,
    /// The barrier on its way, and how many tasks it has passed.
    barrier: Option<(Barrier, usize)>,
    position: u64,
    count: u64,
    /// The epoch's rows, written to the sink and not prepared yet.
    written: Vec<u64>,
    history: Vec<PieceId>,
    said_end: bool,
    outcome: Option<Outcome>,
}

impl Start {
    pub(super) fn new(outside: &Outside, plan: &FaultPlan, request: OpenRequest) -> Self {
        let store = FaultyStore::new(Arc::new(outside.store.clone()), plan.clone());
        Start { outside: outside.clone(), store, request, now: 0, running: None, planted: PlantedBug::None }
    }

    pub(super) fn with_planted_bug(mut self, bug: PlantedBug) -> Self {
        self.planted = bug;
        self
    }

    fn wall(&self) -> EventTime {
        EventTime(i64::try_from(self.now).unwrap() * 100_000)
    }

    /// Runs until something ends it, at most `steps` steps.
    pub(super) fn run(&mut self, steps: usize) -> Outcome {
        for _ in 0..steps {
            match self.step() {
                Outcome::Running => {}
                end @ (Outcome::Finished(_) | Outcome::Complete | Outcome::Failed(_)) => return end,
            }
        }
        Outcome::Running
    }

    pub(super) fn step(&mut self) -> Outcome {
        self.now += 1;
        match self.running.take() {
            None => match self.begin() {
                Ok(Some(running)) => {
                    self.running = Some(running);
                    Outcome::Running
                }
                Ok(None) => Outcome::Complete,
                Err(error) => Outcome::Failed(error),
            },
            Some(mut running) => {
                self.advance(&mut running);
                match running.outcome.take() {
                    Some(outcome) => outcome,
                    None => {
                        self.running = Some(running);
                        Outcome::Running
                    }
                }
            }
        }
    }

    fn committer(&self, generation: Generation) -> OutsideSink {
        OutsideSink { outside: self.outside.clone(), generation, probe: self.store.clone() }
    }

    fn settle(&self, plan: &RecoveryPlan) -> Result<()> {
        settle(&self.store, plan, &mut |_| Ok(Box::new(self.committer(plan.generation()))))
    }

    fn begin(&mut self) -> Result<Option<Running>> {
        let (manifest, pruner, count, history) = loop {
            match open(&self.store, &self.request, self.wall())? {
                Opening::First(first) => {
                    if let Some(closed) = &first.closed {
                        self.settle(closed)?;
                    }
                    let split = Split { id: SplitId::new("0"), details: b"all".to_vec(), position: Some(Position::number(0)) };
                    let found = Discovered { added: vec![split], complete: true, ..Discovered::default() };
                    let manifest = first.manifest(&self.request, &BTreeMap::from([("queue".to_string(), found)]), self.wall())?;
                    if publish(&self.store, &manifest)? == Published::Ours {
                        let pruner = Pruner::new(first.run, KEEP, [&manifest]);
                        break (manifest, pruner, 0, Vec::new());
                    }
                }
                Opening::Resume(plan) => {
                    self.settle(&plan)?;
                    let pruner = Pruner::open(&self.store, &plan, KEEP)?;
                    let pieces = read_pieces(&self.store, plan.pieces("count"), VnodeRange::all(8))?;
                    let total = pieces.iter().map(|piece| String::from_utf8(piece.data.clone()).unwrap().parse::<u64>().unwrap()).sum();
                    let history = pieces.into_iter().map(|piece| piece.id).collect();
                    break (plan.manifest.clone(), pruner, total, history);
                }
                Opening::Complete { unsettled, .. } => {
                    if let Some(plan) = unsettled {
                        self.settle(&plan)?;
                    }
                    return Ok(None);
                }
            }
        };
        let config = MachineConfig::new(2, Duration::from_millis(200), manifest.epoch).with_attempts(20);
        let split = &manifest.sources["queue"].splits[0];
        let position = Position(split.position.clone().unwrap()).as_number().unwrap();
        assert_eq!(count, position, "the state and the positions of epoch {} are of one moment", manifest.epoch);
        Ok(Some(Running {
            machine: EpochMachine::new(config).with_planted_bug(self.planted),
            generation: manifest.generation,
            ledger: Ledger::new(manifest, &self.request.shape),
            pruner,
            actions: VecDeque::new(),
            barrier: None,
            position,
            count,
            written: Vec::new(),
            history,
            said_end: false,
            outcome: None,
        }))
    }

    fn advance(&mut self, running: &mut Running) {
        if let Some(action) = running.actions.pop_front() {
            self.execute(running, action);
        } else if let Some((barrier, passed)) = running.barrier {
            self.pass(running, barrier, passed);
        } else if running.machine.phase() == Phase::Idle && running.position < ROWS {
            self.read(running);
            self.tick(running);
        } else if running.machine.phase() == Phase::Idle && !running.said_end {
            running.said_end = true;
            self.feed(running, Fact::AllSourcesEnded);
        } else {
            self.tick(running);
        }
    }

    fn read(&self, running: &mut Running) {
        // Rows that the queue has forgotten are not delivered again: whoever reads on from before them loses them, and the output shows it.
        let begin = running.position.max(self.outside.shared().acknowledged);
        let end = ROWS.min(begin + ROWS_PER_POLL);
        running.written.extend(begin..end);
        running.count += end - begin;
        running.position = end;
    }

    fn tick(&self, running: &mut Running) {
        let monotonic = TICK * u32::try_from(self.now).unwrap();
        self.feed(running, Fact::Tick { monotonic, wall: self.wall() });
    }

    fn feed(&self, running: &mut Running, fact: Fact) {
        let actions = running.machine.on(fact);
        running.actions.extend(actions);
    }

    /// The barrier passes one task.
    fn pass(&self, running: &mut Running, barrier: Barrier, task: usize) {
        let mut snapshot = TaskSnapshot::default();
        if task == 0 {
            let progress = SplitProgress {
                id: SplitId::new("0"),
                position: Some(Position::number(running.position)),
                max_event_time: Some(EventTime(i64::try_from(running.position).unwrap())),
                status: if running.position == ROWS { manifest::SplitStatus::Finished } else { manifest::SplitStatus::Reading },
            };
            snapshot.splits.insert("queue".to_string(), vec![progress]);
            snapshot.states.push(running.state(barrier.epoch));
        } else if !running.written.is_empty() {
            let token = CommitToken(format!("{}-{}", running.generation, barrier.epoch).into_bytes());
            let rows = std::mem::take(&mut running.written);
            self.outside.shared().prepared.insert(token.0.clone(), (running.generation, rows));
            snapshot.tokens.push(("out".to_string(), 0, token));
        }
        running.barrier = (task == 0).then_some((barrier, 1));
        running.ledger.add(snapshot).unwrap();
        self.feed(running, Fact::TaskAcked { task, epoch: barrier.epoch });
    }

    fn execute(&self, running: &mut Running, action: Action) {
        let failed = |epoch, step| move |error| Fact::Failed { epoch, step, error };
        let fact = match action {
            Action::InjectBarrier(barrier) => {
                running.ledger.begin(barrier);
                running.barrier = Some((barrier, 0));
                return;
            }
            Action::WriteStates { epoch } => {
                let written = running.ledger.write_objects(|key, bytes| self.store.put(key, bytes));
                written.map_or_else(failed(epoch, Step::States), |()| Fact::StatesDurable { epoch })
            }
            Action::CreateManifest { epoch, ended } => {
                let manifest = running.ledger.seal(ended, self.wall()).unwrap().clone();
                match publish(&self.store, &manifest) {
                    Ok(Published::Ours) => {
                        running.ledger.published();
                        running.pruner.published(&manifest);
                        Fact::ManifestCreated { epoch }
                    }
                    Ok(Published::Theirs { owner }) => Fact::ManifestConflict { epoch, owner },
                    Err(error) => failed(epoch, Step::Manifest)(error),
                }
            }
            Action::CommitSinks { epoch } => {
                let tokens = running.ledger.pending(epoch, "out");
                let mut committer = self.committer(running.generation);
                recovery::commit(&mut committer, "out", epoch, &tokens)
                    .map_or_else(failed(epoch, Step::Sinks), |()| Fact::SinksCommitted { epoch })
            }
            Action::AcknowledgeSources { epoch } => {
                let positions = running.ledger.positions(epoch, "queue");
                let mut shared = self.outside.shared();
                shared.acknowledged = shared.acknowledged.max(positions[0].1.as_number().unwrap());
                return;
            }
            Action::WriteMark { epoch } => mark_committed(&self.store, running.ledger.manifest())
                .map_or_else(failed(epoch, Step::Mark), |()| Fact::MarkWritten { epoch }),
            Action::Prune { .. } => {
                // A failure is found again by the next pass.
                let _ = running.pruner.prune(&self.store);
                return;
            }
            Action::RenewClaim => {
                let _ = claim::renew(&self.store, running.ledger.manifest(), self.wall());
                return;
            }
            Action::SendEndOfStream => return,
            Action::Finish { end, .. } => {
                running.outcome = Some(Outcome::Finished(end));
                return;
            }
            Action::Fail(error) => {
                running.outcome = Some(Outcome::Failed(error));
                return;
            }
        };
        self.feed(running, fact);
    }
}

impl Running {
    /// The count as runs: what was counted since the last epoch is new, the rest is kept; every third epoch they are merged.
    fn state(&mut self, epoch: Epoch) -> OperatorSnapshot {
        let merge = epoch.0.is_multiple_of(3);
        let kept = if merge { Vec::new() } else { self.history.clone() };
        let before = self.ledger.manifest().sources["queue"].splits[0].position.clone().unwrap();
        let new = if merge { self.count } else { self.count - Position(before).as_number().unwrap() };
        let mut pieces: Vec<StatePiece> = kept.into_iter().map(StatePiece::Kept).collect();
        pieces.push(StatePiece::New { name: "run".to_string(), vnodes: VnodeRange::all(8), data: new.to_string().into_bytes() });
        let (snapshot, ids) = name_pieces(self.generation, epoch, "count", 0, pieces);
        if merge {
            self.history.clear();
        }
        self.history.extend(ids);
        snapshot
    }
}

//! Making epochs visible, or undoing them; without any writer, any number of times, from any process. The mark decides, see the design page.

use super::super::client::PATIENCE;
use super::config::KafkaSinkConfig;
use super::mark::{Decision, Done, Mark, Noted, Progress, decide};
use super::session::{Marks, Patience, Point, Session, Trouble};
use super::staged::SEGMENT;
use super::token::{Names, Token};
use super::topics::{Standing, Topics, pause};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;
use tidegate_api::{Clock, CommitOutcome, CommitToken, Committer, Epoch, Error, Result, SinkCtx, Staging};

/// Bytes of segments in one transaction.
const PART: u64 = 4 * SEGMENT as u64;
/// How long a commit may go without progress.
const STALLED: Duration = Duration::from_secs(60);
/// How long the first look at the mark waits. A transaction that a dead process left open hides it until the id is taken over.
const LOOK: Duration = Duration::from_secs(3);

/// Where the run has its mark; an object in staging.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Note {
    version: u32,
    cluster: Option<String>,
    group: String,
    topic: String,
}

/// See the module's documentation.
pub(super) struct KafkaCommitter {
    config: KafkaSinkConfig,
    topics: Arc<Topics>,
    names: Names,
    topic: String,
    staging: Arc<dyn Staging>,
    clock: Arc<dyn Clock>,
    marks: Option<Marks>,
    held: Option<Held>,
    /// Whether the note in staging says what it should.
    noted: bool,
    /// Bytes in one transaction for now, and unless one failed.
    part: u64,
    most: u64,
    #[cfg(test)]
    hook: Option<Arc<dyn Fn(Point) + Send + Sync>>,
    /// Segments that were committed, by epoch; their commit mark is not written yet as far as we know.
    committed: Vec<(u64, Vec<String>)>,
}

/// The id is ours, and the brokers have this mark, until somebody takes it over.
struct Held {
    session: Session,
    mark: Mark,
}

/// What is to be committed, and what has become of it.
struct Job {
    tokens: Vec<Token>,
    outcomes: Vec<Option<CommitOutcome>>,
}

/// Segments for one transaction.
#[derive(Default)]
struct Part {
    segments: Vec<Vec<u8>>,
    bytes: u64,
    /// Of each token in it, how many of its segments are committed by it and before it.
    until: Vec<(usize, usize)>,
}

impl KafkaCommitter {
    pub(super) fn new(config: KafkaSinkConfig, topics: Arc<Topics>, ctx: &SinkCtx) -> Result<Self> {
        let topic = config.topic.clone().ok_or_else(|| Error::internal("an exactly-once sink has no fixed topic"))?;
        Ok(KafkaCommitter {
            names: Names::of(&ctx.run),
            staging: Arc::clone(&ctx.staging),
            clock: Arc::clone(&ctx.clock),
            config,
            topics,
            topic,
            marks: None,
            held: None,
            noted: false,
            part: PART,
            most: PART,
            #[cfg(test)]
            hook: None,
            committed: Vec::new(),
        })
    }

    fn marks(&mut self) -> Result<&Marks> {
        match &mut self.marks {
            Some(marks) => Ok(marks),
            none => Ok(none.insert(Marks::open(&self.config, &self.names.id)?)),
        }
    }

    /// What the run noted of its mark, if that is about this cluster.
    fn note(&mut self) -> Result<Option<Note>> {
        let key = self.names.record();
        let Some(bytes) = self.staging.get(&key)? else { return Ok(None) };
        let note: Note = serde_json::from_slice(&bytes)
            .map_err(|error| Error::internal(format!("the staged object `{key}` is no note of a kafka sink")).caused_by(error))?;
        let here = self.marks()?.cluster();
        let elsewhere = matches!((&note.cluster, &here), (Some(there), Some(here)) if there != here);
        Ok(if elsewhere || note.group != self.names.id { None } else { Some(note) })
    }

    /// Notes that the mark is where it is.
    fn write_note(&mut self) -> Result<()> {
        let note = Note { version: 1, cluster: self.marks()?.cluster(), group: self.names.id.clone(), topic: self.topic.clone() };
        let bytes = serde_json::to_vec(&note).map_err(|error| Error::internal(error.to_string()))?;
        self.staging.put(&self.names.record(), &bytes)?;
        self.noted = true;
        self.pass(Point::Noted);
        Ok(())
    }

    /// Reads the mark and decides. Answers also whether the note is right.
    fn look(&mut self, patience: Duration) -> Result<(Decision, bool), Trouble> {
        let note = self.note()?;
        let topic = note.as_ref().map_or(self.topic.clone(), |note| note.topic.clone());
        let noted = if note.is_some() { Noted::Yes } else { Noted::No };
        let found = self.marks()?.read(&topic, patience)?;
        let is_right = note.is_some_and(|note| note.topic == self.topic);
        Ok((decide(&self.names.run, self.names.generation, found, noted), is_right))
    }

    /// Takes the id over and reads the mark again: now nobody else can change it.
    fn take_over(&mut self, patience: &Patience) -> Result<(Session, Decision, bool), Trouble> {
        let client = self.topics.producer().map_err(again)?;
        let session = Session::begin(client, &self.config, &self.names.id, patience)?;
        self.pass(Point::TakenOver);
        let (decision, is_right) = self.look(PATIENCE)?;
        Ok((session, decision, is_right))
    }

    fn mark(&self) -> Result<&Mark, Trouble> {
        self.held.as_ref().map(|held| &held.mark).ok_or_else(|| Trouble::Final(Error::internal("nobody holds the transactional id")))
    }

    /// Commits segments and the mark; then the mark is what the brokers have.
    fn transact(&mut self, segments: &[Vec<u8>], mark: Mark, patience: &Patience) -> Result<(), Trouble> {
        self.marks()?;
        let (Some(mut held), Some(marks)) = (self.held.take(), &self.marks) else {
            return Err(Trouble::Final(Error::internal("nobody holds the transactional id")));
        };
        let result = held.session.transact(segments, (marks, self.topic.as_str()), &mark, patience, &|point| self.pass(point));
        if result.is_ok() {
            held.mark = mark;
        }
        self.held = Some(held);
        result
    }

    /// Here a test may let the process die.
    fn pass(&self, point: Point) {
        #[cfg(test)]
        if let Some(hook) = &self.hook {
            hook(point);
        }
        let _ = point;
    }

    /// Goes on until it is done, or nothing moves for too long.
    fn persist<T>(&mut self, mut attempt: impl FnMut(&mut Self, &mut Patience) -> Result<T, Trouble>) -> Result<T> {
        let mut patience = Patience::new(Arc::clone(&self.clock), STALLED);
        let mut tries = 0u32;
        loop {
            match attempt(self, &mut patience) {
                Ok(done) => return Ok(done),
                Err(Trouble::Final(error)) => {
                    self.give_up();
                    return Err(error);
                }
                Err(Trouble::Again(error)) => {
                    let is_over = patience.is_over();
                    let suspect = self.held.as_ref().and_then(|held| held.session.suspect());
                    if is_over {
                        self.give_up();
                    }
                    self.held = None;
                    self.part = (self.part / 2).max(1);
                    self.check_topics(suspect.as_deref())?;
                    if is_over {
                        return Err(error);
                    }
                    tracing::warn!(%error, id = self.names.id, "a commit is tried again, from where the mark says");
                    // Those who fence each other must not do it in step.
                    let odd = u64::from(self.clock.monotonic().subsec_micros()) % 50 + 7 * (self.names.generation.0 % 10);
                    pause(Duration::from_millis((25 << tries.min(6)) + odd));
                    tries += 1;
                }
            }
        }
    }

    fn give_up(&mut self) {
        if let Some(held) = self.held.take() {
            held.session.give_up();
        }
    }

    /// A topic that is gone does not come back by waiting. Looks at that of the mark, and at that of a record that was not delivered.
    fn check_topics(&self, suspect: Option<&str>) -> Result<()> {
        self.topics.forget();
        let asked: Vec<_> = [Some(self.topic.as_str()), suspect].into_iter().flatten().map(|topic| (topic, None)).collect();
        // Whoever does not answer now is asked again by the next try.
        let Ok(standings) = self.topics.standings(&asked) else { return Ok(()) };
        for ((topic, _), standing) in asked.iter().zip(standings) {
            if let Standing::Closed(why) = standing {
                return Err(Error::config(format!(
                    "topic `{topic}` {why}; the rows that were to be committed stay staged, and the next start commits them"
                )));
            }
        }
        Ok(())
    }

    fn fenced(&self) -> Trouble {
        Trouble::Final(Error::fenced(format!("a later start of this pipeline has taken over the transactional id `{}`", self.names.id)))
    }

    fn other_run(&self, run: &str) -> Trouble {
        Trouble::Final(Error::fenced(format!(
            "run `{run}` commits under the transactional id `{}` since; it was begun afresh, or another pipeline has the same name: give each a name of its own",
            self.names.id
        )))
    }

    fn foreign(&self, metadata: &str) -> Trouble {
        let metadata: String = metadata.chars().take(80).collect();
        Trouble::Final(Error::config(format!(
            "group `{}` has an offset of topic `{}` that is none of Tidegate's (`{metadata}`); the group is this sink's alone: delete what others committed to it",
            self.names.id, self.topic
        )))
    }

    fn lost(&self, epoch: Option<u64>) -> Trouble {
        let which = epoch.map_or_else(|| "rows that are pending".to_string(), |epoch| format!("the rows of epoch {epoch}"));
        Trouble::Final(Error::config(format!(
            "the mark of what was committed is gone, so nobody can tell whether {which} are in topic `{}` already: group `{}` has no offset there although one was written. \
             Brokers forget it after `offsets.retention.minutes`, and when the topic or the group is deleted. Compare the topic's last records with the input; then start with `--from EPOCH` to \
             write those rows again, or with `--fresh` to begin anew",
            self.topic, self.names.id
        )))
    }

    fn attempt(&mut self, job: &mut Job, patience: &mut Patience) -> Result<(), Trouble> {
        let epoch = job.tokens.first().map(|token| token.epoch);
        let is_fresh = self.held.is_none();
        if self.held.is_none() {
            // Whoever comes late finds it done and disturbs nobody.
            match self.look(LOOK) {
                Ok((decision, _)) => match self.judged(&decision, epoch, job)? {
                    Judged::Over => return Ok(()),
                    Judged::Open => {}
                },
                Err(Trouble::Again(_)) => {}
                Err(last) => return Err(last),
            }
            let (session, decision, is_right) = self.take_over(patience)?;
            match (self.judged(&decision, epoch, job)?, decision) {
                (Judged::Over, _) => return Ok(()),
                (Judged::Open, Decision::GoOn(progress, generation)) => {
                    self.noted = is_right;
                    self.held = Some(Held { session, mark: Mark { run: self.names.run.clone(), generation, progress } });
                }
                (Judged::Open, _) => return Err(Trouble::Final(Error::internal("a commit goes on against a decision"))),
            }
        }
        if !self.noted {
            // Rows are committed only where the loss of their mark would be noticed: first a mark, then the note of it, then rows.
            let mark = self.mark()?.clone();
            self.transact(&[], mark, patience)?;
            self.write_note()?;
        }
        loop {
            let mark = self.mark()?.clone();
            let Some(part) = self.next_part(job, &mark.progress, is_fresh)? else { return Ok(()) };
            let progress =
                part.until.iter().fold(mark.progress.clone(), |progress, (index, until)| progress.with(&job.tokens[*index], *until));
            self.transact(&part.segments, Mark { progress, ..mark }, patience)?;
            patience.renew();
            for (index, until) in part.until {
                if until == job.tokens[index].segments.len() {
                    job.outcomes[index] = Some(CommitOutcome::Done);
                }
            }
        }
    }

    /// What a decision means to a commit.
    fn judged(&self, decision: &Decision, epoch: Option<u64>, job: &mut Job) -> Result<Judged, Trouble> {
        let (progress, may_write) = match decision {
            Decision::GoOn(progress, _) => (progress, true),
            Decision::Superseded(progress) => (progress, false),
            Decision::OtherRun(run) => return Err(self.other_run(run)),
            Decision::Lost => return Err(self.lost(epoch)),
            Decision::Foreign(metadata) => return Err(self.foreign(metadata)),
        };
        for (token, outcome) in job.tokens.iter().zip(&mut job.outcomes) {
            if progress.of(token) == Done::Whole {
                outcome.get_or_insert(CommitOutcome::AlreadyDone);
            }
        }
        match (job.outcomes.iter().all(Option::is_some), may_write) {
            (true, _) => Ok(Judged::Over),
            (false, true) => Ok(Judged::Open),
            (false, false) => Err(self.fenced()),
        }
    }

    /// Loads and checks what the next transaction takes; `None` when every token has an outcome.
    fn next_part(&mut self, job: &mut Job, progress: &Progress, is_fresh: bool) -> Result<Option<Part>, Trouble> {
        let mut part = Part::default();
        let Job { tokens, outcomes } = job;
        for (index, (token, outcome)) in tokens.iter().zip(outcomes).enumerate() {
            if outcome.is_some() {
                continue;
            }
            let first = match progress.of(token) {
                Done::Whole => {
                    *outcome = Some(CommitOutcome::AlreadyDone);
                    continue;
                }
                Done::Segments(first) => first,
            };
            let (before, bytes) = (part.segments.len(), part.bytes);
            let mut until = first.min(token.segments.len());
            while until < token.segments.len() && (part.bytes < self.part || part.segments.is_empty()) {
                let name = &token.segments[until];
                let found = self.staging.get(&name.key)?;
                let fault = match &found {
                    None => Some(format!("staged segment `{}` is gone", name.key)),
                    Some(bytes) => name.fault(bytes),
                };
                if let Some(fault) = fault {
                    if !is_fresh {
                        // A later start may have committed and deleted it while this process stood still. The mark knows.
                        return Err(Trouble::Again(Error::external(fault)));
                    }
                    let before = if first > 0 {
                        format!("; the first {first} of its {} segments are committed", token.segments.len())
                    } else {
                        String::new()
                    };
                    *outcome = Some(CommitOutcome::Lost(format!("{fault}{before}")));
                    break;
                }
                part.bytes += name.bytes;
                part.segments.extend(found);
                until += 1;
            }
            if outcome.is_some() {
                // Nothing of a token is shown from where it is known to be lost.
                part.segments.truncate(before);
                part.bytes = bytes;
                continue;
            }
            part.until.push((index, until));
            if until < token.segments.len() {
                break;
            }
        }
        Ok(if part.until.is_empty() { None } else { Some(part) })
    }

    /// An epoch is committed only when the mark of the manifest before it was written, so what earlier ones staged is not needed any more.
    fn tidy(&mut self, tokens: &[Token]) {
        let Some(epoch) = tokens.first().map(|token| token.epoch) else { return };
        let (old, kept): (Vec<_>, Vec<_>) = std::mem::take(&mut self.committed).into_iter().partition(|(other, _)| *other < epoch);
        self.committed = kept;
        for key in old.into_iter().flat_map(|(_, keys)| keys) {
            if let Err(error) = self.staging.delete(&key) {
                tracing::warn!(%error, key, "a committed segment is left to the next start to delete");
            }
        }
        let keys = tokens.iter().flat_map(|token| &token.segments).map(|segment| segment.key.clone()).collect();
        self.committed.push((epoch, keys));
    }

    /// Takes the id over for this generation, whatever the mark says of rows; answers whether it is ours.
    fn claim(&mut self, keep: &[CommitToken], patience: &Patience) -> Result<(), Trouble> {
        if self.held.is_none() {
            match self.look(LOOK) {
                Ok((Decision::Superseded(_), _)) => return Ok(()),
                Ok(_) | Err(Trouble::Again(_)) => {}
                Err(last) => return Err(last),
            }
            let (session, decision, is_right) = self.take_over(patience)?;
            let (progress, generation) = match decision {
                Decision::GoOn(progress, generation) => (progress, generation),
                Decision::Superseded(_) => return Ok(()),
                Decision::OtherRun(run) => return Err(self.other_run(&run)),
                Decision::Foreign(metadata) => return Err(self.foreign(&metadata)),
                Decision::Lost if keep.is_empty() => {
                    tracing::warn!(
                        group = self.names.id,
                        topic = self.topic,
                        "the mark of what was committed is gone; nothing is pending, so nothing depends on it, and it is written anew"
                    );
                    (Progress::default(), 0)
                }
                Decision::Lost => return Err(self.lost(None)),
            };
            self.noted = is_right;
            self.held = Some(Held { session, mark: Mark { run: self.names.run.clone(), generation, progress } });
            if generation == self.names.generation.0 && self.noted {
                return Ok(());
            }
        }
        let mark = Mark { generation: self.names.generation.0, ..self.mark()?.clone() };
        self.transact(&[], mark, patience)?;
        self.write_note()?;
        Ok(())
    }
}

enum Judged {
    Over,
    Open,
}

/// A question that nobody answered may be asked again.
fn again(error: Error) -> Trouble {
    match error.kind() {
        tidegate_api::ErrorKind::External { .. } => Trouble::Again(error),
        tidegate_api::ErrorKind::Config
        | tidegate_api::ErrorKind::Data
        | tidegate_api::ErrorKind::Fenced
        | tidegate_api::ErrorKind::Limit
        | tidegate_api::ErrorKind::Internal => Trouble::Final(error),
    }
}

impl Committer for KafkaCommitter {
    fn commit(&mut self, epoch: Epoch, tokens: &[CommitToken]) -> Result<Vec<CommitOutcome>> {
        if tokens.is_empty() {
            return Ok(Vec::new());
        }
        let tokens = tokens.iter().map(|token| self.names.read(token)).collect::<Result<Vec<_>>>()?;
        if let Some(other) = tokens.iter().find(|token| token.epoch != epoch.0) {
            return Err(Error::internal(format!("a token of epoch {} is to be committed as epoch {epoch}", other.epoch)));
        }
        let outcomes = vec![None; tokens.len()];
        let mut job = Job { tokens, outcomes };
        self.persist(|committer, patience| committer.attempt(&mut job, patience))?;
        self.part = self.most;
        self.tidy(&job.tokens);
        Ok(job.outcomes.into_iter().map(|outcome| outcome.unwrap_or(CommitOutcome::AlreadyDone)).collect())
    }

    fn abort(&mut self, _: Epoch, tokens: &[CommitToken]) -> Result<()> {
        for token in tokens {
            for segment in self.names.read(token)?.segments {
                self.staging.delete(&segment.key)?;
            }
        }
        Ok(())
    }

    fn recover(&mut self, keep: &[CommitToken]) -> Result<()> {
        let mut kept = BTreeSet::new();
        for token in keep {
            kept.extend(self.names.read(token)?.segments.into_iter().map(|segment| segment.key));
        }
        self.persist(|committer, patience| committer.claim(keep, patience))?;
        for key in self.staging.list(&self.names.segments())? {
            let is_older = self.names.generation_of(&key).is_some_and(|generation| generation < self.names.generation);
            if is_older && !kept.contains(&key) {
                self.staging.delete(&key)?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
#[path = "crash_tests.rs"]
mod tests;

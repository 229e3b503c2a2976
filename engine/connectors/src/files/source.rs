//! The source: a split per file, read one after the other.

use super::config::FilesSourceConfig;
use super::config::Watch;
use super::listing::{list, locate, stamped};
use super::memory::Memory;
use super::open::{At, OpenFile, infer_schema};
use super::place::{Place, Stamp};
use super::watch::{self, Backlog, Details, Stage, Still, still};
use crate::decode::Wanted;
use crate::registry::ConnectorCtx;
use crate::{pin, shape};
use arrow::datatypes::SchemaRef;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::collections::{BTreeSet, VecDeque};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;
use tidegate_api::config::Problem;
use tidegate_api::{
    Chunk, Clock, Discovered, Error, ErrorKind, InlineSource, PollRequest, Polled, Result, SourceCtx, SourcePlan, SourceReader,
    SourceRequest, Split, SplitId, SplitState, SystemClock,
};

pub(crate) fn build(options: &Map<String, Value>, cx: &ConnectorCtx) -> Result<Arc<dyn InlineSource>, Vec<Problem>> {
    Ok(Arc::new(FilesSource::new(FilesSourceConfig::parse(options, &cx.base_dir)?)))
}

/// So many entries are said to be left out.
const TOLD: usize = 1000;

/// Files as a source. A split is named after its file's path; its position is a place in the decompressed file and a row number.
pub struct FilesSource {
    config: FilesSourceConfig,
    /// What was inferred; the sample is read once.
    inferred: OnceLock<Bound>,
    /// Files that were given out and not read.
    backlog: Arc<Backlog>,
    /// By which files settle; there is no context yet when splits are looked for.
    clock: Arc<dyn Clock>,
    /// Entries that were said to be left out.
    told: Mutex<BTreeSet<PathBuf>>,
}

/// The columns of the files, and what is pinned of them: nothing of those that are declared.
#[derive(Debug, Clone)]
struct Bound {
    schema: SchemaRef,
    pinned: Option<String>,
}

/// What a discovery remembers: every name it has given out.
#[derive(Debug, Default, Serialize, Deserialize)]
struct Known {
    files: BTreeSet<String>,
}

impl Known {
    fn read(cursor: &[u8]) -> Result<Known> {
        serde_json::from_slice(cursor).map_err(|error| Error::internal("the cursor of a files source cannot be read").caused_by(error))
    }
}

impl FilesSource {
    /// A source of these files.
    pub fn new(config: FilesSourceConfig) -> Self {
        FilesSource { config, inferred: OnceLock::new(), backlog: Arc::default(), clock: Arc::new(SystemClock), told: Mutex::default() }
    }

    /// Sets the clock by which files settle.
    #[must_use]
    pub fn with_clock(mut self, clock: Arc<dyn Clock>) -> Self {
        self.clock = clock;
        self
    }

    /// Discovery as it is watched: also by a run that was and is not any more, which takes the rest and ends.
    fn watched(&self, watch: &Watch, cursor: Option<&[u8]>, skipped: &mut dyn FnMut(&Path, &str)) -> Result<Discovered> {
        let memory = match cursor {
            None => Memory::new(),
            Some(cursor) if Memory::is_one(cursor) => Memory::decode(cursor)?,
            Some(cursor) => Memory::of_names(Known::read(cursor)?.files.iter().map(String::as_str)),
        };
        let mut found = watch::discover(&self.config, watch, memory, self.clock.wall(), &self.backlog, skipped)?;
        found.complete = self.config.watch.is_none();
        Ok(found)
    }

    /// The schema: the declared one, else the one that the run began with, else what a sample looks like.
    fn bound(&self, request: &SourceRequest) -> Result<Bound> {
        if let Some(schema) = &self.config.schema {
            return Ok(Bound { schema: Arc::clone(schema), pinned: None });
        }
        if let Some(pinned) = &request.pinned {
            return Ok(Bound { schema: pin::read(pinned)?, pinned: Some(pinned.clone()) });
        }
        if let Some(bound) = self.inferred.get() {
            return Ok(bound.clone());
        }
        // What is left out is told by the discovery.
        let files = list(&self.config, &mut |_, _| {}).map_err(|error| match self.config.watch {
            Some(_) => error.context("its columns are not known before there is a file; declare a `schema`"),
            None => error,
        })?;
        let first = files.first().ok_or_else(|| Error::internal("a listing is never empty"))?;
        let inferred = infer_schema(&self.config, &first.place)?;
        let pinned = inferred.sampled.then(|| pin::text(&inferred.schema));
        if let Some(pinned) = &pinned {
            tracing::info!(file = %first.place, schema = pinned, "inferred a schema");
        }
        Ok(self.inferred.get_or_init(|| Bound { schema: inferred.schema, pinned }).clone())
    }
}

impl InlineSource for FilesSource {
    fn plan(&self, request: &SourceRequest) -> Result<SourcePlan> {
        let bound = self.bound(request)?;
        Ok(SourcePlan::new(shape::wanted(request, bound.schema)?.schema)
            .with_bounded(self.config.watch.is_none())
            .with_pinned(bound.pinned))
    }

    fn check(&self) -> Result<()> {
        match self.config.watch {
            Some(_) => stamped(&self.config, &mut |_, _| {}).map(drop),
            None => list(&self.config, &mut |_, _| {}).map(drop),
        }
    }

    fn discover(&self, cursor: Option<&[u8]>) -> Result<Discovered> {
        let mut skipped = |path: &Path, why: &str| {
            let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
            // A watched folder is listed again and again, and the set does not grow without end.
            if told.len() < TOLD && told.insert(path.to_path_buf()) {
                tracing::warn!(path = %path.display(), "a file is not read: {why}");
            }
        };
        match (&self.config.watch, cursor) {
            (Some(watch), _) => return self.watched(watch, cursor, &mut skipped),
            (None, Some(bytes)) if Memory::is_one(bytes) => return self.watched(&Watch::LAST, cursor, &mut skipped),
            (None, _) => {}
        }
        let mut known = cursor.map(Known::read).transpose()?.unwrap_or_default();
        let mut added = Vec::new();
        let mut present = BTreeSet::new();
        for file in list(&self.config, &mut skipped)? {
            present.insert(file.name.clone());
            if known.files.insert(file.name.clone()) {
                added.push(watch::unwatched(&file)?);
            }
        }
        let gone = known.files.difference(&present).map(SplitId::new).collect();
        let cursor = serde_json::to_vec(&known).map_err(|error| Error::internal(error.to_string()))?;
        Ok(Discovered { added, gone, cursor: Some(cursor), complete: true })
    }

    fn discover_every(&self) -> Option<Duration> {
        self.config.watch.map(|watch| watch.every)
    }

    fn remembers_splits(&self) -> bool {
        self.config.watch.is_some()
    }

    fn open(&self, ctx: SourceCtx) -> Result<Box<dyn SourceReader>> {
        let bound = self.bound(&ctx.request)?;
        let mut reader = Reader {
            config: self.config.clone(),
            wanted: shape::wanted(&ctx.request, bound.schema)?,
            inferred: bound.pinned.is_some(),
            ordinals: ctx.request.ordinals,
            backlog: Arc::clone(&self.backlog),
            waiting: VecDeque::new(),
            open: None,
        };
        reader.assign(ctx.start)?;
        Ok(Box::new(reader))
    }
}

struct Reader {
    config: FilesSourceConfig,
    wanted: Wanted,
    /// Whether the schema is that of a sample, which a file may not have.
    inferred: bool,
    ordinals: bool,
    backlog: Arc<Backlog>,
    waiting: VecDeque<(SplitId, Details, At)>,
    open: Option<Current>,
}

/// The file that is being read.
struct Current {
    split: SplitId,
    details: Details,
    place: Place,
    file: OpenFile,
}

impl Drop for Reader {
    fn drop(&mut self) {
        self.backlog.remove(self.waiting.len() + usize::from(self.open.is_some()));
    }
}

impl Reader {
    /// Opens the next file; `None` if nothing of it is to be read.
    fn open(&self, split: SplitId, details: Details, at: At) -> Result<Option<Current>> {
        let found = locate(&self.config, &details.file)?;
        // A run that is not watched asks of local files no more than that they are there.
        let watch = self.config.watch.or(self.config.remote.is_some().then_some(Watch::LAST));
        if let Some(watch) = watch
            && still(&watch, &details, found.as_ref().map(|(_, stamp)| stamp), Stage::Before(at))? == Still::Over
        {
            return Ok(None);
        }
        let Some((place, _)) = found else {
            return Err(Error::external(format!("file `{}` does not exist", self.config.base.join(&details.file).display())));
        };
        let file = OpenFile::open(&self.config, &place, &self.wanted, at).map_err(|error| match error.kind() {
            ErrorKind::Config if self.inferred => error.context(
                "the schema was inferred when the run began and is kept; declare a `schema`, or start over with `--fresh`, to read it otherwise",
            ),
            _ => error,
        })?;
        Ok(Some(Current { split, details, place, file }))
    }

    fn finished(&self, split: SplitId, polled: &mut Polled) {
        self.backlog.remove(1);
        polled.states.push((split, SplitState::Finished));
    }
}

impl SourceReader for Reader {
    fn assign(&mut self, splits: Vec<Split>) -> Result<()> {
        for split in splits {
            let at = split.position.as_ref().map_or(Some(At::default()), At::parse);
            let at = at.ok_or_else(|| Error::internal(format!("split `{}` has a position that is not a file's", split.id)))?;
            let details = Details::of(&split)?;
            self.backlog.add(1);
            self.waiting.push_back((split.id, details, at));
        }
        Ok(())
    }

    fn poll(&mut self, request: PollRequest) -> Result<Polled> {
        let mut polled = Polled::default();
        if self.open.is_none() {
            let Some((split, details, at)) = self.waiting.front().cloned() else {
                polled.retry_after = Some(Duration::from_secs(1));
                return Ok(polled);
            };
            let opened = self.open(split.clone(), details, at)?;
            self.waiting.pop_front();
            if opened.is_none() {
                self.finished(split, &mut polled);
                return Ok(polled);
            }
            self.open = opened;
        }
        let Some(current) = &mut self.open else { return Ok(polled) };
        match current.file.read(&current.place, request.max_rows, request.max_bytes, self.ordinals)? {
            None => {
                // Every part of an object is asked for on the condition that it is the version that was found.
                if let (Some(watch), Place::Local(path)) = (&self.config.watch, &current.place) {
                    still(watch, &current.details, Stamp::of(path)?.as_ref(), Stage::Behind)?;
                }
                let split = current.split.clone();
                self.open = None;
                self.finished(split, &mut polled);
            }
            Some(read) => {
                let split = &current.split;
                let mut chunk = Chunk::new(split.clone(), read.rows, read.at.position());
                chunk.bad = read.bad;
                chunk.bad.iter_mut().for_each(|bad| bad.split = Some(split.clone()));
                chunk.ordinals = read.ordinals;
                polled.chunks.push(chunk);
            }
        }
        Ok(polled)
    }
}

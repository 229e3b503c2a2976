//! The source: a split per file, read one after the other.

use super::config::FilesSourceConfig;
use super::listing::{list, path_of};
use super::open::{At, OpenFile, infer_schema};
use crate::decode::Wanted;
use crate::registry::ConnectorCtx;
use crate::{pin, shape};
use arrow::datatypes::SchemaRef;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::collections::{BTreeSet, VecDeque};
use std::path::Path;
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use tidegate_api::config::Problem;
use tidegate_api::{
    Chunk, Discovered, Error, ErrorKind, InlineSource, PollRequest, Polled, Result, SourceCtx, SourcePlan, SourceReader, SourceRequest,
    Split, SplitId, SplitState,
};

pub(crate) fn build(options: &Map<String, Value>, cx: &ConnectorCtx) -> Result<Arc<dyn InlineSource>, Vec<Problem>> {
    Ok(Arc::new(FilesSource::new(FilesSourceConfig::parse(options, &cx.base_dir)?)))
}

/// Files as a source. A split is named after its file's path; its position is a place in the decompressed file and a row number.
#[derive(Debug)]
pub struct FilesSource {
    config: FilesSourceConfig,
    /// What was inferred; the sample is read once.
    inferred: OnceLock<Bound>,
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

impl FilesSource {
    /// A source of these files.
    pub fn new(config: FilesSourceConfig) -> Self {
        FilesSource { config, inferred: OnceLock::new() }
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
        let files = list(&self.config, &mut |_, _| {})?;
        let first = files.first().ok_or_else(|| Error::internal("a listing is never empty"))?;
        let inferred = infer_schema(&self.config, &first.path)?;
        let pinned = inferred.sampled.then(|| pin::text(&inferred.schema));
        if let Some(pinned) = &pinned {
            tracing::info!(file = %first.path.display(), schema = pinned, "inferred a schema");
        }
        Ok(self.inferred.get_or_init(|| Bound { schema: inferred.schema, pinned }).clone())
    }
}

impl InlineSource for FilesSource {
    fn plan(&self, request: &SourceRequest) -> Result<SourcePlan> {
        let bound = self.bound(request)?;
        Ok(SourcePlan::new(shape::wanted(request, bound.schema)?.schema).with_pinned(bound.pinned))
    }

    fn check(&self) -> Result<()> {
        list(&self.config, &mut |_, _| {}).map(drop)
    }

    fn discover(&self, cursor: Option<&[u8]>) -> Result<Discovered> {
        let mut known: Known = match cursor {
            None => Known::default(),
            Some(bytes) => serde_json::from_slice(bytes)
                .map_err(|error| Error::internal("the cursor of a files source cannot be read").caused_by(error))?,
        };
        let mut added = Vec::new();
        let mut present = BTreeSet::new();
        let mut skipped = |path: &Path, why: &str| tracing::warn!(path = %path.display(), "a file is not read: {why}");
        for file in list(&self.config, &mut skipped)? {
            present.insert(file.name.clone());
            if known.files.insert(file.name.clone()) {
                added.push(Split { id: SplitId::new(&file.name), details: Vec::new(), position: Some(At::default().position()) });
            }
        }
        let gone = known.files.difference(&present).map(SplitId::new).collect();
        let cursor = serde_json::to_vec(&known).map_err(|error| Error::internal(error.to_string()))?;
        Ok(Discovered { added, gone, cursor: Some(cursor), complete: true })
    }

    fn open(&self, ctx: SourceCtx) -> Result<Box<dyn SourceReader>> {
        let bound = self.bound(&ctx.request)?;
        let mut reader = Reader {
            config: self.config.clone(),
            wanted: shape::wanted(&ctx.request, bound.schema)?,
            inferred: bound.pinned.is_some(),
            ordinals: ctx.request.ordinals,
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
    waiting: VecDeque<(SplitId, At)>,
    open: Option<(SplitId, OpenFile)>,
}

impl SourceReader for Reader {
    fn assign(&mut self, splits: Vec<Split>) -> Result<()> {
        for split in splits {
            let at = split.position.as_ref().map_or(Some(At::default()), At::parse);
            let at = at.ok_or_else(|| Error::internal(format!("split `{}` has a position that is not a file's", split.id)))?;
            self.waiting.push_back((split.id, at));
        }
        Ok(())
    }

    fn poll(&mut self, request: PollRequest) -> Result<Polled> {
        let mut polled = Polled::default();
        if self.open.is_none() {
            let Some((split, at)) = self.waiting.pop_front() else {
                polled.retry_after = Some(Duration::from_secs(1));
                return Ok(polled);
            };
            let opened = OpenFile::open(&self.config, &path_of(&self.config, split.as_str()), &self.wanted, at);
            let file = opened.map_err(|error| match error.kind() {
                ErrorKind::Config if self.inferred => error.context(
                    "the schema was inferred when the run began and is kept; declare a `schema`, or start over with `--fresh`, to read it otherwise",
                ),
                _ => error,
            })?;
            self.open = Some((split, file));
        }
        let Some((split, mut file)) = self.open.take() else { return Ok(polled) };
        let path = path_of(&self.config, split.as_str());
        match file.read(&path, request.max_rows, request.max_bytes, self.ordinals)? {
            None => polled.states.push((split, SplitState::Finished)),
            Some(read) => {
                let mut chunk = Chunk::new(split.clone(), read.rows, read.at.position());
                chunk.bad = read.bad;
                chunk.bad.iter_mut().for_each(|bad| bad.split = Some(split.clone()));
                chunk.ordinals = read.ordinals;
                polled.chunks.push(chunk);
                self.open = Some((split, file));
            }
        }
        Ok(polled)
    }
}

//! The source: a split per partition, positions that are the engine's, and topics that stay the same ones.

use super::discovery::{Explorer, Found, Range};
use super::place::{Details, Known, KnownTopic, Partition, Place};
use super::reader::Reader;
use super::run::Decoding;
use super::sample;
use super::source_config::{SourceConfig, Topics, Undeclared};
use super::teller::Teller;
use crate::decode::{MessageFormat, RegisteredFormat, Schemas};
use crate::pin;
use crate::registry::ConnectorCtx;
use crate::schemas::{self, Latest, Registry};
use arrow::datatypes::SchemaRef;
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;
use tidegate_api::config::Problem;
use tidegate_api::{
    Discovered, Error, InlineSource, Result, ResultExt, SourceCtx, SourcePlan, SourceReader, SourceRequest, Split, SplitId,
};

pub(crate) fn build(options: &Map<String, Value>, cx: &ConnectorCtx) -> Result<Arc<dyn InlineSource>, Vec<Problem>> {
    Ok(Arc::new(KafkaSource::new(SourceConfig::parse(options, cx)?)))
}

/// Topics as a source.
pub struct KafkaSource {
    config: Arc<SourceConfig>,
    /// What was inferred; the sample is read once.
    inferred: OnceLock<Bound>,
    /// The client that discoveries ask with; connecting anew each time would be seen by the cluster's operators.
    explorer: Mutex<Option<Explorer>>,
    teller: Arc<Teller>,
    /// How far the partitions went when they were looked for last, for those who watch.
    ends: Ends,
}

/// The columns of the payload, how it is read, and what is pinned of both: nothing of what somebody declared.
#[derive(Debug, Clone)]
struct Bound {
    schema: SchemaRef,
    format: MessageFormat,
    pinned: Option<String>,
}

impl Bound {
    /// By the newest schema of a subject, as it was when the run began.
    fn registered(latest: Latest, registry: &Arc<Registry>) -> Self {
        let Latest { schema, reads, text } = latest;
        let schemas: Arc<dyn Schemas> = Arc::clone(registry) as _;
        Bound { schema, format: MessageFormat::Registered(RegisteredFormat { reads, schemas }), pinned: Some(text) }
    }
}

impl KafkaSource {
    pub(super) fn new(config: SourceConfig) -> Self {
        KafkaSource {
            config: Arc::new(config),
            inferred: OnceLock::new(),
            explorer: Mutex::new(None),
            teller: Arc::default(),
            ends: Ends::default(),
        }
    }

    /// Asks the cluster with the one client there is for it.
    fn exploring<T>(&self, ask: impl FnOnce(&Explorer) -> Result<T>) -> Result<T> {
        let mut explorer = self.explorer.lock().unwrap_or_else(PoisonError::into_inner);
        let asked = match &mut *explorer {
            Some(explorer) => ask(explorer),
            none => ask(none.insert(Explorer::new(&self.config)?)),
        };
        if asked.is_err() {
            // A client that has heard a refusal would repeat it though somebody has mended its cause.
            *explorer = None;
        }
        asked
    }

    /// The schema: the declared one, else the one that the run began with, else what the newest messages look like.
    fn bound(&self, request: &SourceRequest) -> Result<Bound> {
        let format = || self.config.format.clone();
        let known = |schema: &SchemaRef| Ok(Bound { schema: Arc::clone(schema), format: format(), pinned: None });
        let undeclared = match (&self.config.schema, &self.config.undeclared) {
            (Some(schema), _) | (None, Undeclared::Known(schema)) => return known(schema),
            (None, undeclared) => undeclared,
        };
        if let Some(pinned) = &request.pinned {
            return Ok(match undeclared {
                Undeclared::Subject { registry, .. } => Bound::registered(schemas::pinned(pinned)?, registry),
                Undeclared::Known(_) | Undeclared::Sample(_) => {
                    Bound { schema: pin::read(pinned)?, format: format(), pinned: Some(pinned.clone()) }
                }
            });
        }
        if let Some(bound) = self.inferred.get() {
            return Ok(bound.clone());
        }
        let bound = match (undeclared, &self.config.format) {
            (Undeclared::Subject { registry, subject, message }, MessageFormat::Registered(format)) => {
                Bound::registered(schemas::latest(registry, subject, &format.reads, message.as_deref())?, registry)
            }
            (Undeclared::Sample(sample), _) => self.sampled(*sample)?,
            (Undeclared::Known(_) | Undeclared::Subject { .. }, _) => {
                return Err(Error::internal("a subject belongs to a format of a registry"));
            }
        };
        tracing::info!(schema = bound.pinned, "inferred a schema");
        Ok(self.inferred.get_or_init(|| bound).clone())
    }

    /// By the newest messages.
    fn sampled(&self, sample: usize) -> Result<Bound> {
        let topics = self.exploring(|explorer| explorer.topics(&self.config.topics))?;
        let schema = self.exploring(|explorer| sample::infer(&self.config, explorer, &topics, sample)).context(|| {
            let names: Vec<String> = topics.keys().map(|name| format!("`{name}`")).collect();
            format!("inferring a schema from {}", names.join(", "))
        })?;
        let pinned = pin::text(&schema);
        Ok(Bound { schema, format: self.config.format.clone(), pinned: Some(pinned) })
    }

    /// What is there beside what was known, and whether it still is the same.
    fn compare(&self, known: &Known, found: &BTreeMap<String, Found>) -> Result<Compared> {
        let mut compared = Compared::default();
        for (name, topic) in &known.topics {
            let all = || (0..topic.partitions).map(|number| Partition::new(name.clone(), number));
            match found.get(name) {
                None => {
                    compared.lost.extend(all());
                    compared.why.get_or_insert_with(|| format!("topic `{name}` is gone"));
                }
                Some(now) => {
                    if let Some((before, now)) = topic.id.as_ref().zip(now.id.as_ref()).filter(|(before, now)| before != now) {
                        return Err(replaced(name, before, now));
                    }
                    if now.partitions < topic.partitions {
                        compared.lost.extend(all().filter(|partition| partition.number >= now.partitions));
                        let (before, now) = (topic.partitions, now.partitions);
                        compared.why.get_or_insert_with(|| {
                            format!("topic `{name}` had {before} partitions and has {now}: it was deleted and made again")
                        });
                    }
                }
            }
        }
        for (name, now) in found {
            let before = known.topics.get(name).map_or(0, |topic| topic.partitions);
            compared.new.extend((before..now.partitions).map(|number| Partition::new(name.clone(), number)));
        }
        Ok(compared)
    }
}

/// How far partitions went at the last discovery; clones share it.
#[derive(Debug, Clone, Default)]
pub(super) struct Ends(Arc<Mutex<BTreeMap<Partition, i64>>>);

impl Ends {
    /// Takes what was found just now, and asks once for the others: a measure is not worth waiting for.
    fn learn(&self, explorer: &Explorer, known: &Known, found: &BTreeMap<Partition, Range>) {
        let all = known.topics.iter().flat_map(|(name, topic)| (0..topic.partitions).map(|number| Partition::new(name.clone(), number)));
        let others: Vec<Partition> = all.filter(|partition| !found.contains_key(partition)).collect();
        let asked = explorer.ends(&others);
        let mut ends = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        ends.extend(asked);
        ends.extend(found.iter().map(|(partition, range)| (partition.clone(), range.high)));
    }

    /// How many rows lie between each of these positions and the end, the source's own if it has one, all together; `None` if that is
    /// not known of one of them.
    pub(super) fn behind<'a>(&self, positions: impl Iterator<Item = (&'a Partition, i64, Option<i64>)>) -> Option<u64> {
        let ends = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        positions.map(|(partition, next, end)| Some(u64::try_from(end.or_else(|| ends.get(partition).copied())? - next).unwrap_or(0))).sum()
    }
}

#[derive(Debug, Default)]
struct Compared {
    new: Vec<Partition>,
    lost: Vec<Partition>,
    /// Why there are lost ones.
    why: Option<String>,
}

/// A topic that has the same name and is another.
pub(super) fn replaced(topic: &str, before: &str, now: &str) -> Error {
    Error::config(format!(
        "topic `{topic}` was deleted and made again since it was first read (its id was `{before}` and is `{now}`), so the offsets that were \
         recorded are those of other rows; start over with `--fresh`"
    ))
}

impl InlineSource for KafkaSource {
    fn plan(&self, request: &SourceRequest) -> Result<SourcePlan> {
        let bound = self.bound(request)?;
        let decoding = Decoding::new(&self.config, request, bound.format, bound.schema)?;
        Ok(SourcePlan::new(decoding.schema()).with_bounded(self.config.ends).with_pinned(bound.pinned))
    }

    fn check(&self) -> Result<()> {
        self.exploring(|explorer| explorer.topics(&self.config.topics)).map(drop)
    }

    fn discover(&self, cursor: Option<&[u8]>) -> Result<Discovered> {
        let known = Known::read(cursor)?;
        self.exploring(|explorer| {
            let is_first = known.is_none();
            let mut known = known.unwrap_or_default();
            // A topic that is asked for by name and is not there is an error in itself.
            let found = match (explorer.topics(&self.config.topics), &self.config.topics) {
                (Err(error), Topics::Named(_)) if !is_first => return Err(error.context("a topic that was read is gone")),
                (found, _) => found?,
            };
            let compared = self.compare(&known, &found)?;
            if let Some(why) = compared.why.filter(|_| !self.config.ends) {
                return Err(Error::external(why));
            }
            let ranges = explorer.ranges(&compared.new)?;
            let begins = if is_first { explorer.begin(&self.config, &ranges)? } else { BTreeMap::new() };
            let mut added = Vec::with_capacity(ranges.len());
            // A source that ends has its partitions when it begins; what comes later is beyond its end.
            for (partition, range) in ranges.iter().filter(|_| is_first || !self.config.ends) {
                // What was made while running is read from its beginning, whatever `start` says: it holds nothing from before.
                let begin = begins.get(partition).copied().unwrap_or(range.low);
                let id = found.get(&partition.topic).and_then(|topic| topic.id.clone());
                let details = Details { id, end: self.config.ends.then_some(range.high) };
                added.push(Split { id: partition.split(), details: details.bytes()?, position: Some(Place::at(begin).position()) });
            }
            for (name, topic) in found {
                let before = known.topics.get(&name);
                let id = topic.id.or_else(|| before.and_then(|before| before.id.clone()));
                let partitions = topic.partitions.max(before.map_or(0, |before| before.partitions));
                known.topics.insert(name, KnownTopic { id, partitions });
            }
            self.ends.learn(explorer, &known, &ranges);
            let gone: Vec<SplitId> = compared.lost.iter().map(Partition::split).collect();
            Ok(Discovered { added, gone, cursor: Some(known.bytes()?), complete: self.config.ends })
        })
    }

    fn discover_every(&self) -> Option<Duration> {
        (!self.config.ends).then_some(self.config.discover_every)
    }

    fn open(&self, ctx: SourceCtx) -> Result<Box<dyn SourceReader>> {
        let bound = self.bound(&ctx.request)?;
        let decoding = Decoding::new(&self.config, &ctx.request, bound.format, bound.schema)?;
        let mut config = Arc::clone(&self.config);
        if let Some(group) = config.group_of(&ctx.run.pipeline) {
            Arc::make_mut(&mut config).group = group;
        }
        let mut reader = Reader::new(config, decoding, Arc::clone(&self.teller), self.ends.clone(), &ctx);
        reader.assign(ctx.start)?;
        Ok(Box::new(reader))
    }
}

//! The sink: rows as records, exactly once by staging and a transaction after the manifest, or at least once and at once.
//!
//! `docs/design/0006-kafka-sink.md` has the order of things and what happens when they fail.

mod columns;
mod commit;
mod config;
mod deliveries;
mod live;
mod mark;
mod record;
mod segment;
mod session;
mod staged;
mod token;
mod topics;

use crate::registry::ConnectorCtx;
use columns::Columns;
use commit::KafkaCommitter;
use config::{Delivery, KafkaSinkConfig, Registered};
use live::LiveWriter;
use serde_json::{Map, Value};
use staged::StagedWriter;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use tidegate_api::config::Problem;
use tidegate_api::{AnySink, Committer, Guarantee, OutputSink, Result, SinkCtx, SinkInput, SinkPlan};
use topics::Topics;

pub(super) use config::OPTIONS;

pub(super) fn build(options: &Map<String, Value>, cx: &ConnectorCtx) -> Result<Arc<dyn OutputSink>, Vec<Problem>> {
    let config = KafkaSinkConfig::parse(options, &cx.base_dir)?;
    Ok(Arc::new(KafkaSink { config, options: options.clone(), topics: OnceLock::new(), id: Mutex::default() }))
}

/// Topics of a cluster as a sink.
struct KafkaSink {
    config: KafkaSinkConfig,
    options: Map<String, Value>,
    topics: OnceLock<Arc<Topics>>,
    /// The id of the schema of the rows, which the first task asks for.
    id: Mutex<Option<u32>>,
}

impl KafkaSink {
    fn topics(&self, ctx: &SinkCtx) -> Arc<Topics> {
        Arc::clone(self.topics.get_or_init(|| Arc::new(Topics::new(self.config.clone(), Arc::clone(&ctx.clock)))))
    }
}

impl KafkaSink {
    /// The id that rows of these columns are written with, if a registry gives one; it is there before any row is.
    fn registered(&self, ctx: &SinkCtx) -> Result<Option<u32>> {
        let Some(Registered { registry, subject, registers }) = &self.config.registered else { return Ok(None) };
        let mut id = self.id.lock().unwrap_or_else(PoisonError::into_inner);
        if id.is_none() {
            let columns = Columns::of(&self.config, &ctx.schema, &ctx.mode)?;
            let Some(schema) = columns.registered_schema(&self.config, &ctx.schema)? else { return Ok(None) };
            let found = registry.patiently(|registry| registry.id_of(subject, &schema, *registers))?;
            tracing::info!(subject, id = found, "the schema of the rows is in the registry");
            *id = Some(found);
        }
        Ok(*id)
    }
}

impl OutputSink for KafkaSink {
    fn plan(&self, input: &SinkInput) -> Result<SinkPlan> {
        let columns = Columns::of(&self.config, &input.schema, &input.mode)?;
        columns.encoder(&self.config, &input.schema, None)?;
        if self.config.registered.is_some() {
            columns.registered_schema(&self.config, &input.schema)?;
        }
        Ok(SinkPlan::new(match self.config.delivery {
            Delivery::ExactlyOnce => Guarantee::ExactlyOnce,
            Delivery::AtLeastOnce => Guarantee::AtLeastOnce,
        }))
    }

    fn open(&self, ctx: SinkCtx) -> Result<AnySink> {
        let topics = self.topics(&ctx);
        topics.preflight()?;
        let id = self.registered(&ctx)?;
        Ok(match self.config.delivery {
            Delivery::ExactlyOnce => AnySink::Transactional(Box::new(StagedWriter::open(&self.config, topics, id, ctx)?)),
            Delivery::AtLeastOnce => AnySink::AtLeastOnce(Box::new(LiveWriter::open(&self.config, topics, id, ctx)?)),
        })
    }

    fn committer(&self, ctx: SinkCtx) -> Result<Box<dyn Committer>> {
        let topics = self.topics(&ctx);
        Ok(Box::new(KafkaCommitter::new(self.config.clone(), topics, &ctx)?))
    }

    fn config(&self) -> Value {
        Value::Object(self.options.clone())
    }
}

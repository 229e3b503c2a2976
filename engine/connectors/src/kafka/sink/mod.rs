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
use config::{Delivery, KafkaSinkConfig};
use live::LiveWriter;
use serde_json::{Map, Value};
use staged::StagedWriter;
use std::sync::{Arc, OnceLock};
use tidegate_api::config::Problem;
use tidegate_api::{AnySink, Committer, Guarantee, OutputSink, Result, SinkCtx, SinkInput, SinkPlan};
use topics::Topics;

pub(super) use config::OPTIONS;

pub(super) fn build(options: &Map<String, Value>, cx: &ConnectorCtx) -> Result<Arc<dyn OutputSink>, Vec<Problem>> {
    let config = KafkaSinkConfig::parse(options, &cx.base_dir)?;
    Ok(Arc::new(KafkaSink { config, options: options.clone(), topics: OnceLock::new() }))
}

/// Topics of a cluster as a sink.
struct KafkaSink {
    config: KafkaSinkConfig,
    options: Map<String, Value>,
    topics: OnceLock<Arc<Topics>>,
}

impl KafkaSink {
    fn topics(&self, ctx: &SinkCtx) -> Arc<Topics> {
        Arc::clone(self.topics.get_or_init(|| Arc::new(Topics::new(self.config.clone(), Arc::clone(&ctx.clock)))))
    }
}

impl OutputSink for KafkaSink {
    fn plan(&self, input: &SinkInput) -> Result<SinkPlan> {
        let columns = Columns::of(&self.config, &input.schema, &input.mode)?;
        columns.encoder(&self.config, &input.schema)?;
        Ok(SinkPlan::new(match self.config.delivery {
            Delivery::ExactlyOnce => Guarantee::ExactlyOnce,
            Delivery::AtLeastOnce => Guarantee::AtLeastOnce,
        }))
    }

    fn open(&self, ctx: SinkCtx) -> Result<AnySink> {
        let topics = self.topics(&ctx);
        topics.preflight()?;
        Ok(match self.config.delivery {
            Delivery::ExactlyOnce => AnySink::Transactional(Box::new(StagedWriter::open(&self.config, topics, ctx)?)),
            Delivery::AtLeastOnce => AnySink::AtLeastOnce(Box::new(LiveWriter::open(&self.config, topics, ctx)?)),
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

//! The source: one split, read anew by every start.

use super::config::TableConfig;
use super::database::{self, Scan};
use super::differ::{Differ, with_op};
use super::loader::{self, Loader};
use super::reader::TableReader;
use super::relation;
use crate::pin;
use crate::registry::ConnectorCtx;
use arrow::datatypes::{Schema, SchemaRef};
use serde_json::{Map, Value};
use std::sync::{Arc, Mutex, PoisonError};
use tidegate_api::config::Problem;
use tidegate_api::{
    ChangeMode, Discovered, Error, InlineSource, Position, Result, ResultExt, SourceCtx, SourcePlan, SourceReader, SourceRequest, Split,
    SplitId, nearest,
};

/// The name of the only split.
pub(super) const SPLIT: &str = "table";

pub(crate) fn build(options: &Map<String, Value>, cx: &ConnectorCtx) -> Result<Arc<dyn InlineSource>, Vec<Problem>> {
    Ok(Arc::new(TableSource { config: Arc::new(TableConfig::parse(options, cx)?), inferred: Mutex::new(None) }))
}

/// A table as a source.
#[derive(Debug)]
pub struct TableSource {
    config: Arc<TableConfig>,
    /// The columns by the database's types; it is asked once.
    inferred: Mutex<Option<SchemaRef>>,
}

/// The columns of the table, and what is pinned of them: nothing of those that somebody declared.
struct Bound {
    schema: SchemaRef,
    pinned: Option<String>,
}

impl TableSource {
    /// The columns: the declared ones, else those that the run began with, else what the database says.
    fn bound(&self, request: &SourceRequest) -> Result<Bound> {
        if let Some(schema) = &self.config.schema {
            return Ok(Bound { schema: Arc::clone(schema), pinned: None });
        }
        if let Some(pinned) = &request.pinned {
            return Ok(Bound { schema: pin::read(pinned)?, pinned: Some(pinned.clone()) });
        }
        let mut inferred = self.inferred.lock().unwrap_or_else(PoisonError::into_inner);
        let schema = match &*inferred {
            Some(schema) => Arc::clone(schema),
            None => {
                let found = database::ask(async || database::describe(&self.config).await)?;
                let schema = relation::inferred(&self.config.relation, &found).context(|| self.config.address.to_string())?;
                inferred.insert(schema).clone()
            }
        };
        Ok(Bound { pinned: Some(pin::text(&schema)), schema })
    }

    /// The columns that are read for a request, the key's among them.
    fn wanted(&self, request: &SourceRequest, schema: &SchemaRef) -> Result<SchemaRef> {
        for key in &self.config.key {
            if schema.index_of(key).is_err() {
                let hint = nearest::hint(key, schema.fields().iter().map(|field| field.name().as_str()));
                return Err(Error::config(format!("`key`: {} has no column `{key}`{hint}", self.config.relation.shown)));
            }
        }
        let is_read = |name: &str| request.wants(name) || self.config.key.iter().any(|key| key == name);
        let fields: Vec<_> = schema.fields().iter().filter(|field| is_read(field.name())).cloned().collect();
        Ok(Arc::new(Schema::new(fields)))
    }
}

impl InlineSource for TableSource {
    fn plan(&self, request: &SourceRequest) -> Result<SourcePlan> {
        let bound = self.bound(request)?;
        let read = self.wanted(request, &bound.schema)?;
        let plan = SourcePlan::new(with_op(&read, &self.config.key)).with_mode(ChangeMode::Upsert { keys: self.config.key.clone() });
        Ok(plan.with_max_parallelism(1).with_pinned(bound.pinned).with_reloads(true))
    }

    fn check(&self) -> Result<()> {
        let found = database::ask(async || database::describe(&self.config).await)?;
        match &self.config.schema {
            Some(schema) => relation::check(&self.config.relation, &found, schema).context(|| self.config.address.to_string()),
            None => Ok(()),
        }
    }

    fn discover(&self, cursor: Option<&[u8]>) -> Result<Discovered> {
        let split = Split { id: SplitId::new(SPLIT), details: Vec::new(), position: Some(Position::number(0)) };
        let added = if cursor.is_none() { vec![split] } else { Vec::new() };
        Ok(Discovered { added, gone: Vec::new(), cursor: Some(b"1".to_vec()), complete: true })
    }

    fn open(&self, ctx: SourceCtx) -> Result<Box<dyn SourceReader>> {
        let reads_once = self.config.refresh.is_none();
        if ctx.start.is_empty() {
            return Ok(Box::new(TableReader::new(None, reads_once, self.config.dataset.clone())));
        }
        let bound = self.bound(&ctx.request)?;
        let read = self.wanted(&ctx.request, &bound.schema)?;
        let handed = with_op(&read, &self.config.key);
        let keys: Vec<usize> = self.config.key.iter().filter_map(|key| read.index_of(key).ok()).collect();
        let version = self.config.version.as_ref().map(|(column, _)| column.clone());
        let key_columns = Arc::new(read.project(&keys)?);
        let scan = Scan { relation: self.config.relation.clone(), schema: read, keys: key_columns, version };
        let (config, clock, retries) = (Arc::clone(&self.config), Arc::clone(&ctx.clock), ctx.meters.retries.clone());
        let shown = format!("{} of {}", config.relation.shown, config.address);
        let (most, loader) = (config.max_rows, Loader { config, scan, clock, retries });
        let loading = loader::start(loader, |out| Differ::new(handed, keys, most, shown, out))?;
        Ok(Box::new(TableReader::new(Some(loading), reads_once, self.config.dataset.clone())))
    }
}

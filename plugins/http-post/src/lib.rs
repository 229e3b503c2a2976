//! `http-post`: a sink that posts rows as JSON to a URL.
//!
//! A row that was taken waits until a server has answered that it has it. A call that fails leaves what waits as it was, so the next one sends the same requests with the
//! same keys. As a rule a batch is delivered by the call that brings it, because only that call can refuse single rows of it. Statuses that speak of the rows make them bad rows; those that pass by themselves are tried again; anything else ends the run.

mod config;
mod pending;

#[cfg(test)]
mod tests;

use config::Config;
use json_values::Encoder;
use pending::{Pending, no_keys};
use sha2::{Digest, Sha256};
use tidegate_sdk::arrow::array::{BinaryArray, RecordBatch};
use tidegate_sdk::arrow::schema::{Schema, SchemaRef};
use tidegate_sdk::{Guarantee, Info, Result, Scope, Sink, SinkPlan, Written, export_sink};

/// The opened sink of one task.
struct HttpPost {
    encoder: Encoder,
    wants_keys: bool,
    across_batches: bool,
    pending: Pending,
    /// The batch that waits in `pending` because its delivery failed half-way: it comes again.
    unfinished: Option<[u8; 32]>,
}

impl Sink for HttpPost {
    type Config = Config;

    fn info() -> Info {
        Info::new(env!("CARGO_PKG_NAME"), env!("CARGO_PKG_VERSION")).with_config_schema(config::SCHEMA).with_manifest(config::MANIFEST)
    }

    fn bind(config: &Config, _: &Scope, input: &Schema) -> Result<SinkPlan> {
        config.check()?;
        json_values::check(input)?;
        let (keys, per_row) = (config.idempotency_key, config.per_row);
        // After a crash rows may be cut into other requests, whose keys no server has seen; only a row's own key stays the same.
        let plan = SinkPlan::new(if keys && per_row { Guarantee::Idempotent } else { Guarantee::AtLeastOnce });
        Ok(if keys { plan.with_keys() } else { plan })
    }

    fn open(config: Config, scope: &Scope, input: &SchemaRef) -> Result<Self> {
        Ok(HttpPost {
            encoder: Encoder::new(input)?,
            wants_keys: config.idempotency_key,
            across_batches: config.across_batches,
            pending: Pending::new(config, scope)?,
            unfinished: None,
        })
    }

    fn write(&mut self, rows: &RecordBatch, keys: Option<&BinaryArray>) -> Result<Written> {
        let keys = if self.wants_keys { Some(keys.ok_or_else(no_keys)?) } else { None };
        if self.across_batches {
            // Makes room first: when that fails, nothing of the batch is taken.
            self.pending.send_full()?;
            self.take(rows, keys)?;
            return Ok(Written::default());
        }
        let batch = self.digest(rows, keys)?;
        if self.unfinished != Some(batch) {
            // What waits of another batch was never taken, as whoever brought it was told.
            self.pending.clear();
            self.take(rows, keys)?;
            self.unfinished = Some(batch);
        }
        let bad = self.pending.flush()?;
        self.unfinished = None;
        Ok(Written { bad })
    }

    fn flush(&mut self) -> Result<Written> {
        if !self.across_batches {
            return Ok(Written::default());
        }
        Ok(Written { bad: self.pending.flush()? })
    }
}

impl HttpPost {
    /// Takes the rows of a batch.
    fn take(&mut self, rows: &RecordBatch, keys: Option<&BinaryArray>) -> Result<()> {
        let pending = &mut self.pending;
        let mut row = 0;
        self.encoder.encode(rows, |lines| {
            for line in lines.split_inclusive(|byte| *byte == b'\n') {
                pending.push(line.strip_suffix(b"\n").unwrap_or(line), keys.map(|keys| keys.value(row)));
                row += 1;
            }
            Ok(())
        })
    }

    /// What a batch is known by when it comes again.
    fn digest(&mut self, rows: &RecordBatch, keys: Option<&BinaryArray>) -> Result<[u8; 32]> {
        let mut digest = Sha256::new();
        self.encoder.encode(rows, |lines| {
            digest.update(lines);
            Ok(())
        })?;
        for key in keys.into_iter().flatten() {
            digest.update(key.unwrap_or_default());
        }
        Ok(digest.finalize().into())
    }
}

export_sink!(HttpPost);

//! The writer of one task.

use super::{Bound, bind, changes, instance, operator, sink_error};
use crate::bindings::sink::SinkPlugin;
use crate::bindings::sink::exports::tidegate::plugin::sink as wit;
use crate::fault::{Failure, broken, placed};
use crate::instance::{Instance, task_scope};
use crate::ipc::{Encoder, size_of};
use crate::plugin::Plugin;
use arrow::array::{ArrayRef, BinaryArray, RecordBatch};
use arrow::datatypes::{Schema, SchemaRef};
use std::sync::Arc;
use std::time::Duration;
use tidegate_api::sink::RowError;
use tidegate_api::{
    ChangeMode, CommitToken, Epoch, Error, ErrorKind, Flushed, PreCommit, Result, ResultExt, Retry, Sink, SinkCtx, TransactionalSink,
    Written, hidden,
};
use wasmtime::component::ResourceAny;

/// Rows and bytes per call, as for a transform.
const MAX_ROWS: usize = 8192;
const MAX_BYTES: usize = 2 << 20;
const MAX_TOKEN: usize = 1 << 20;
/// The shortest pause before a part of a batch is handed over again.
const PAUSE: Duration = Duration::from_millis(10);

pub(super) struct Writer {
    plugin: Arc<Plugin>,
    ctx: SinkCtx,
    plan: wit::Plan,
    instance: Instance<SinkPlugin>,
    writer: ResourceAny,
    /// The schema that the guest was bound to, if it is another than the output's.
    changes: Option<SchemaRef>,
    rows: Encoder,
    keys: Encoder,
    key_schema: SchemaRef,
    /// The writer trapped: what it holds of the epoch is lost, and every further call fails.
    lost: bool,
}

impl Writer {
    pub(super) fn open(plugin: Arc<Plugin>, config: &str, ctx: SinkCtx) -> Result<Self> {
        let operator = operator(&ctx);
        let mut instance = instance(&plugin, &operator, ctx.task)?;
        let mut scope = task_scope(config, &ctx.run, ctx.task, ctx.tasks);
        scope.operator = crate::instance::file_name(&operator);
        let offered = changes::offered(&ctx.schema, &ctx.mode);
        let Bound { plan, reads } = bind(&plugin, &mut instance, &scope, &offered)?;
        let rows = Encoder::new(&offered, reads).context(|| format!("plugin `{}`", plugin.name()))?;
        let key_schema = Arc::new(Schema::new(vec![hidden::key_field()]));
        let keys = Encoder::new(&key_schema, vec![0])?;
        let writer = instance.call("writer.open", Duration::ZERO, async |store, guest| {
            guest.tidegate_plugin_sink().writer().call_open(store, &scope, rows.schema_message()).await
        });
        let writer = writer.map_err(Failure::into_error)?;
        let changes = matches!(ctx.mode, ChangeMode::Upsert { .. }).then_some(offered);
        Ok(Writer { plugin, ctx, plan, instance, writer, changes, rows, keys, key_schema, lost: false })
    }

    pub(super) fn guarantee(&self) -> wit::Guarantee {
        self.plan.guarantee
    }

    /// Takes a failure apart: after a trap the writer is of no more use.
    fn failed(&mut self, failure: Failure) -> Error {
        self.lost |= matches!(failure, Failure::Trap(_));
        failure.into_error()
    }

    fn usable(&mut self, call: &str) -> Result<()> {
        self.instance.set_now(self.ctx.clock.wall());
        if self.lost {
            return Err(sink_error(self.plugin.name(), call, "its writer trapped before; the run must go back to its manifest".into()));
        }
        Ok(())
    }

    fn write_all(&mut self, rows: &RecordBatch, keys: Option<&BinaryArray>) -> Result<Written> {
        self.usable("writer.write")?;
        let mut written = Written::default();
        if rows.num_rows() == 0 {
            return Ok(written);
        }
        let projected = match &self.changes {
            None => self.rows.project(rows)?,
            Some(offered) => self.rows.project(&changes::with_kinds(rows, offered)?)?,
        };
        let per_row = size_of(&projected).div_ceil(rows.num_rows());
        let per_call = (MAX_BYTES / per_row.max(1)).clamp(1, MAX_ROWS);
        let mut at = 0;
        while at < rows.num_rows() {
            let count = per_call.min(rows.num_rows() - at);
            let part = projected.slice(at, count);
            let part_keys = keys.filter(|_| self.plan.wants_keys).map(|keys| keys.slice(at, count));
            let answer = self.write_part(&part, part_keys, at > 0)?;
            let mut next = 0;
            for bad in answer.bad {
                if bad.row < next || bad.row >= count as u64 {
                    let what = format!("it refused row {} of {count}, twice, out of order or out of range", bad.row);
                    return Err(broken(self.plugin.name(), "writer.write", what));
                }
                next = bad.row + 1;
                written.bad.push(RowError { row: at + bad.row as usize, column: bad.column, message: bad.message });
            }
            at += count;
        }
        self.ctx.emitted.add((rows.num_rows() - written.bad.len()) as u64);
        Ok(written)
    }

    /// One call. The engine may repeat a batch of which nothing was taken; once a part was, only this part is repeated, here.
    fn write_part(&mut self, part: &RecordBatch, keys: Option<BinaryArray>, begun: bool) -> Result<wit::Written> {
        let key_batch =
            keys.map(|keys| RecordBatch::try_new(Arc::clone(&self.key_schema), vec![Arc::new(keys) as ArrayRef])).transpose()?;
        let mut patience = self.plugin.spec().limits.io_timeout;
        loop {
            let message = self.rows.encode(part)?;
            let key_message = key_batch.as_ref().map(|keys| self.keys.encode(keys)).transpose()?;
            self.plugin.metrics().sent(message.len() + key_message.map_or(0, Vec::len));
            let writer = self.writer;
            let answer = self.instance.call("writer.write", Duration::ZERO, async |store, guest| {
                guest.tidegate_plugin_sink().writer().call_write(store, writer, message, key_message).await
            });
            let error = match answer {
                Ok(answer) => return Ok(answer),
                Err(failure) => self.failed(failure),
            };
            let ErrorKind::External { retry: Retry::After(after) } = error.kind() else { return Err(error) };
            if !begun {
                return Err(error);
            }
            let after = after.max(PAUSE);
            if after > patience {
                return Err(sink_error(
                    self.plugin.name(),
                    "writer.write",
                    format!("a part of a batch was taken and the rest is not: {error}"),
                ));
            }
            patience -= after;
            self.instance.pause(after);
        }
    }

    fn flush_all(&mut self) -> Result<()> {
        self.usable("writer.flush")?;
        let writer = self.writer;
        let answer = self.instance.call("writer.flush", Duration::ZERO, async |store, guest| {
            guest.tidegate_plugin_sink().writer().call_flush(store, writer).await
        });
        let written = answer.map_err(|failure| self.failed(failure))?;
        let Some(first) = written.bad.first() else { return Ok(()) };
        let error = Error::data(format!(
            "it refused {} rows at the barrier that it had taken before, the first (row {} since the last barrier): {}",
            written.bad.len(),
            first.row,
            first.message
        ));
        Err(placed(error, self.plugin.name(), "writer.flush"))
    }
}

impl Sink for Writer {
    fn write(&mut self, rows: &RecordBatch, keys: Option<&BinaryArray>) -> Result<Written> {
        self.write_all(rows, keys)
    }

    fn flush(&mut self, _: Epoch) -> Result<Flushed> {
        self.flush_all()?;
        Ok(Flushed::Done)
    }
}

impl TransactionalSink for Writer {
    fn write(&mut self, rows: &RecordBatch, keys: Option<&BinaryArray>) -> Result<Written> {
        self.write_all(rows, keys)
    }

    fn pre_commit(&mut self, epoch: Epoch) -> Result<PreCommit> {
        self.flush_all()?;
        let writer = self.writer;
        let answer = self.instance.call("writer.prepare", Duration::ZERO, async |store, guest| {
            guest.tidegate_plugin_sink().writer().call_prepare(store, writer, epoch.0).await
        });
        let prepared = answer.map_err(|failure| self.failed(failure))?;
        match prepared.token {
            None => Ok(PreCommit::Nothing),
            Some(token) if token.len() > MAX_TOKEN => {
                Err(broken(self.plugin.name(), "writer.prepare", format!("its token has {} bytes; 1MiB is the most", token.len())))
            }
            Some(token) => Ok(PreCommit::Token(CommitToken(token))),
        }
    }
}

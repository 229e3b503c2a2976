//! The reader of one task.

use super::{Answer, Bound, MAX_POSITION, PluginSource};
use crate::bindings::source::SourcePlugin;
use crate::bindings::source::exports::tidegate::plugin::source as wit;
use crate::fault::{Failure, broken};
use crate::instance::{Instance, task_scope};
use std::collections::BTreeMap;
use std::time::Duration;
use tidegate_api::{
    BadReason, BadRow, Chunk, Error, EventTime, PollRequest, Polled, Position, Result, SourceCtx, SourceReader, Split, SplitId, SplitState,
};
use wasmtime::component::ResourceAny;

pub(super) struct Reader {
    source: PluginSource,
    ctx: SourceCtx,
    /// What the plan answered, if it is known.
    planned: Option<Answer>,
    /// The splits being read, each with the position behind what was handed over.
    splits: BTreeMap<SplitId, Split>,
    open: Option<Open>,
}

struct Open {
    instance: Instance<SourcePlugin>,
    reader: ResourceAny,
    bound: Bound,
}

impl Reader {
    pub(super) fn open(source: PluginSource, planned: Option<Answer>, ctx: SourceCtx) -> Result<Self> {
        let splits = ctx.start.iter().map(|split| (split.id.clone(), split.clone())).collect();
        let mut reader = Reader { source, ctx, planned, splits, open: None };
        let open = reader.take_open().map_err(Failure::into_error)?;
        reader.open = Some(open);
        Ok(reader)
    }

    /// Takes the open instance, or opens one on the splits as they stand.
    fn take_open(&mut self) -> Result<Open, Failure> {
        if let Some(open) = self.open.take() {
            open.instance.set_now(self.ctx.clock.wall());
            return Ok(open);
        }
        let scope = task_scope(&self.source.config, &self.ctx.run, self.ctx.task, self.ctx.tasks);
        let wanted = self.ctx.request.columns.as_deref();
        let mut instance = self.source.instance(&self.ctx.run.operator, self.ctx.task).map_err(Failure::Fault)?;
        instance.set_now(self.ctx.clock.wall());
        let bound = self.source.bind(&mut instance, &scope, wanted)?;
        if self.planned.as_ref().is_some_and(|planned| *planned != bound.answer()) {
            let what = "its plan for the same configuration and columns is not the one it gave before".to_string();
            return Err(Failure::Fault(broken(self.source.plugin.name(), "bind", what)));
        }
        let reader = instance.call("reader.open", Duration::ZERO, async |store, guest| {
            guest.tidegate_plugin_source().reader().call_open(store, &scope, wanted).await
        })?;
        let splits: Vec<wit::Split> = self.splits.values().map(to_wit).collect();
        instance.call("reader.assign", Duration::ZERO, async |store, guest| {
            guest.tidegate_plugin_source().reader().call_assign(store, reader, &splits).await
        })?;
        Ok(Open { instance, reader, bound })
    }

    /// Makes a call; after a trap once more in a new instance, which goes on from the positions handed over.
    fn call<T>(&mut self, call: impl Fn(&mut Open) -> Result<T, Failure>) -> Result<T> {
        let mut trapped = false;
        loop {
            let answer = self.take_open().and_then(|mut open| match call(&mut open) {
                Err(Failure::Trap(error)) => Err(Failure::Trap(error)),
                answer => {
                    self.open = Some(open);
                    answer
                }
            });
            match answer {
                Ok(value) => return Ok(value),
                Err(Failure::Trap(error)) if !trapped => {
                    tracing::warn!(%error, task = self.ctx.task, "a source trapped and is opened again at its last positions");
                    trapped = true;
                }
                Err(failure) => return Err(failure.into_error()),
            }
        }
    }

    fn chunk(&self, bound: &Bound, chunk: wit::Chunk) -> Result<Chunk, String> {
        let id = SplitId::new(&chunk.split);
        if !self.splits.contains_key(&id) {
            return Err(format!("it gave rows of the split `{id}`, which it is not to read (any more)"));
        }
        if chunk.position.len() > MAX_POSITION {
            return Err(format!("the position of split `{id}` is larger than 1MiB"));
        }
        let rows = if chunk.rows.is_empty() {
            arrow::array::RecordBatch::new_empty(bound.decoder.schema().clone())
        } else {
            let rows = bound.decoder.decode(chunk.rows);
            rows.map_err(|error| format!("the rows of split `{id}` do not fit the declared schema: {error}"))?
        };
        let rows = match (&bound.projection, &bound.changes) {
            (Some(kept), Some(changes)) => {
                let taken = changes.taken(&rows, kept, &bound.schema);
                taken.map_err(|error| format!("the rows of split `{id}`: {error}"))?
            }
            (Some(kept), None) => rows.project(kept).map_err(|error| error.to_string())?,
            (None, _) => rows,
        };
        let bad = chunk.bad.into_iter().map(|bad| {
            let mut row = BadRow::new(BadReason::Malformed, bad.message, bad.raw).at(Position(bad.position).to_string());
            row.split = Some(id.clone());
            row
        });
        let bad = bad.collect();
        let mut read = Chunk::new(id, rows, Position(chunk.position));
        read.watermark = chunk.watermark_us.map(EventTime);
        read.bad = bad;
        Ok(read)
    }
}

fn to_wit(split: &Split) -> wit::Split {
    wit::Split {
        id: split.id.as_str().to_string(),
        details: split.details.clone(),
        position: split.position.as_ref().map(|position| position.0.clone()),
    }
}

fn in_u32(n: usize) -> u32 {
    u32::try_from(n).unwrap_or(u32::MAX)
}

impl SourceReader for Reader {
    fn assign(&mut self, splits: Vec<Split>) -> Result<()> {
        let added: Vec<wit::Split> = splits.iter().map(to_wit).collect();
        let was_open = self.open.is_some();
        self.splits.extend(splits.into_iter().map(|split| (split.id.clone(), split)));
        if !was_open {
            // The new instance is opened on all of them.
            let open = self.take_open().map_err(Failure::into_error)?;
            self.open = Some(open);
            return Ok(());
        }
        let first = std::cell::Cell::new(true);
        self.call(|open| {
            // A second attempt is made in an instance that was opened on the new splits already.
            if !first.replace(false) {
                return Ok(());
            }
            open.instance.call("reader.assign", Duration::ZERO, async |store, guest| {
                guest.tidegate_plugin_source().reader().call_assign(store, open.reader, &added).await
            })
        })
    }

    fn poll(&mut self, request: PollRequest) -> Result<Polled> {
        let output = self.source.plugin.spec().limits.output;
        let max_rows = in_u32(request.max_rows.max(1));
        let max_bytes = in_u32(request.max_bytes.max(1)).min(u32::try_from(output / 2).unwrap_or(u32::MAX));
        let wait = u32::try_from(request.wait.as_millis()).unwrap_or(u32::MAX);
        let polled = self.call(|open| {
            open.instance.call("reader.poll", request.wait, async |store, guest| {
                guest.tidegate_plugin_source().reader().call_poll(store, open.reader, max_rows, max_bytes, wait).await
            })
        })?;
        let name = self.source.plugin.name().to_string();
        let wrong = |what: String| broken(&name, "reader.poll", what);
        self.source.plugin.metrics().received(polled.chunks.iter().map(|chunk| chunk.rows.len()).sum());
        let open = self.open.take().expect("a call that was answered leaves its instance open");
        let mut answer =
            Polled { retry_after: polled.retry_after_ms.map(|millis| Duration::from_millis(millis.into())), ..Polled::default() };
        let mut rows = 0;
        for chunk in polled.chunks {
            let chunk = self.chunk(&open.bound, chunk).map_err(wrong)?;
            rows += chunk.rows.num_rows();
            if rows > request.max_rows.max(1) {
                return Err(wrong(format!("it gave more than the {} rows asked for", request.max_rows.max(1))));
            }
            answer.chunks.push(chunk);
        }
        self.open = Some(open);
        for (id, state) in polled.states {
            let id = SplitId::new(id);
            if !self.splits.contains_key(&id) {
                return Err(wrong(format!("it reported on the split `{id}`, which it is not to read (any more)")));
            }
            let state = match state {
                wit::SplitState::Pending | wit::SplitState::Other(_) => SplitState::Pending,
                wit::SplitState::CaughtUp => SplitState::CaughtUp,
                wit::SplitState::Finished => SplitState::Finished,
                wit::SplitState::Rebind(reason) => {
                    return Err(Error::config(format!(
                        "plugin `{name}`: the schema of split `{id}` changed ({reason}), and a running pipeline keeps the one it was planned with; start it again to plan with the new one"
                    )));
                }
            };
            answer.states.push((id, state));
        }
        for chunk in &answer.chunks {
            if let Some(split) = self.splits.get_mut(&chunk.split) {
                split.position = Some(chunk.position.clone());
            }
        }
        for (id, state) in &answer.states {
            if *state == SplitState::Finished {
                self.splits.remove(id);
            }
        }
        Ok(answer)
    }

    fn committed(&mut self, positions: &[(SplitId, Position)]) -> Result<()> {
        let positions: Vec<wit::Split> = positions
            .iter()
            .map(|(id, position)| wit::Split { id: id.as_str().to_string(), details: Vec::new(), position: Some(position.0.clone()) })
            .collect();
        self.call(|open| {
            open.instance.call("reader.committed", Duration::ZERO, async |store, guest| {
                guest.tidegate_plugin_source().reader().call_committed(store, open.reader, &positions).await
            })
        })
    }
}

//! Sinks: rows written somewhere, in one phase or, for exactly-once, in two.

use crate::bindings::sink::exports::tidegate::plugin::sink as wit;
use crate::bindings::types;
use crate::{Error, Info, Result, RowError, Scope, ipc, parse_config};
use arrow_array::cast::AsArray;
use arrow_array::{BinaryArray, RecordBatch};
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use serde::de::DeserializeOwned;
use std::cell::RefCell;
use std::marker::PhantomData;
use std::sync::Arc;

pub use wit::{Guarantee, Outcome, Token};

/// Writes the rows of one task.
pub trait Sink: Sized + 'static {
    /// The configuration, read from the pipeline file.
    type Config: DeserializeOwned;

    /// What the plugin is. Constant.
    fn info() -> Info;

    /// Answers how it would write rows of `input`. May use grants; must change nothing outside.
    ///
    /// # Errors
    /// `Config` when it cannot write such rows, naming the column or key.
    fn bind(config: &Self::Config, scope: &Scope, input: &Schema) -> Result<SinkPlan>;

    /// Opens a writer. `input` has the columns of the plan's `reads`, in that order. May not make anything visible.
    ///
    /// # Errors
    /// Any; `Config` ends the run.
    fn open(config: Self::Config, scope: &Scope, input: &SchemaRef) -> Result<Self>;

    /// Takes rows; `keys`, one per row, if the plan wants them. All rows that are not refused are taken.
    ///
    /// # Errors
    /// `Retryable` when nothing of the batch was taken: it comes again.
    fn write(&mut self, rows: &RecordBatch, keys: Option<&BinaryArray>) -> Result<Written>;

    /// At every barrier, in empty epochs too. Reports what was refused since; a sink without two phases has delivered everything then.
    ///
    /// # Errors
    /// `Retryable` when another call delivers the same rows.
    fn flush(&mut self) -> Result<Written>;
}

/// A sink whose rows become visible once, with their epoch. The functions without `self` run where no writer exists: after a crash, on
/// another machine, twice at the same time.
pub trait TwoPhaseSink: Sink {
    /// At every barrier after [`Sink::flush`]: makes the rows since the last call durable and keeps them invisible. `None`: there were none.
    ///
    /// # Errors
    /// Any fails the run back to the manifest.
    fn prepare(&mut self, epoch: u64) -> Result<Option<Token>>;

    /// Makes an epoch visible; one outcome per token. Idempotent.
    ///
    /// # Errors
    /// Any means that the call, the whole of it, may be made again.
    fn commit(config: &Self::Config, scope: &Scope, epoch: u64, tokens: &[Token]) -> Result<Vec<Outcome>>;

    /// Undoes an epoch that no manifest names. Idempotent; what is already gone is no error.
    ///
    /// # Errors
    /// Any means that the call may be made again.
    fn abort(config: &Self::Config, scope: &Scope, epoch: u64, tokens: &[Token]) -> Result<()>;

    /// At every start: undoes what this operator of this run prepared, or began to, under generations below `scope.generation`, and that is
    /// not in `keep`. Touches nothing else. Idempotent.
    ///
    /// # Errors
    /// Any means that the call may be made again.
    fn recover(config: &Self::Config, scope: &Scope, keep: &[Token]) -> Result<()>;
}

/// Which outputs a sink can write.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Accepts {
    /// Only final rows.
    #[default]
    Append,
    /// Rows that replace or delete by key.
    Upsert,
    /// Both; the row kind is a column.
    Changelog,
}

/// How a sink wants its rows, and what it promises.
#[derive(Debug, Clone)]
pub struct SinkPlan {
    pub(crate) reads: Option<Vec<u32>>,
    pub(crate) wants_keys: bool,
    pub(crate) accepts: Accepts,
    pub(crate) by_key: bool,
    pub(crate) max_parallelism: Option<u32>,
    pub(crate) guarantee: Guarantee,
}

impl SinkPlan {
    /// A sink of this guarantee that appends every column of any row in any task.
    pub fn new(guarantee: Guarantee) -> Self {
        SinkPlan { reads: None, wants_keys: false, accepts: Accepts::Append, by_key: false, max_parallelism: None, guarantee }
    }

    /// Names the columns that cross, in this order. Without this all do.
    ///
    /// # Errors
    /// `Config` when the input has no such column, naming the nearest.
    pub fn reading<'a>(mut self, input: &Schema, columns: impl IntoIterator<Item = &'a str>) -> Result<Self> {
        let indices = columns.into_iter().map(|name| Ok(crate::transform::column_index(input, name)? as u32));
        self.reads = Some(indices.collect::<Result<_>>()?);
        Ok(self)
    }

    /// Asks for each row's deterministic key.
    #[must_use]
    pub fn with_keys(mut self) -> Self {
        self.wants_keys = true;
        self
    }

    /// Says which outputs it can write.
    #[must_use]
    pub fn accepting(mut self, accepts: Accepts) -> Self {
        self.accepts = accepts;
        self
    }

    /// Asks that rows of equal key go to one task.
    #[must_use]
    pub fn by_key(mut self) -> Self {
        self.by_key = true;
        self
    }

    /// Limits the tasks that write at once.
    #[must_use]
    pub fn with_max_parallelism(mut self, max: u32) -> Self {
        self.max_parallelism = Some(max);
        self
    }
}

/// The answer to a write or flush: the rows that were refused.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Written {
    /// Refused rows; see `sink.written` in `wit/` for what their indices count.
    pub bad: Vec<RowError>,
}

/// The component's export of a [`Sink`]; made by [`export_sink!`](crate::export_sink).
pub struct SinkGuest<S>(PhantomData<S>);

/// The component's export of a [`TwoPhaseSink`]; made by [`export_two_phase_sink!`](crate::export_two_phase_sink).
pub struct TwoPhaseGuest<S>(PhantomData<S>);

/// One opened sink and its schemas.
pub struct OpenSink<S> {
    input: SchemaRef,
    keys: SchemaRef,
    state: RefCell<S>,
}

/// One opened sink with two phases.
pub struct OpenTwoPhase<S>(pub(crate) OpenSink<S>);

impl<S: Sink> OpenSink<S> {
    pub(crate) fn open(scope: &Scope, input: &[u8]) -> Result<Self> {
        let input = Arc::new(ipc::decode_schema(input)?);
        let sink = S::open(parse_config(&scope.config)?, scope, &input)?;
        let keys = Arc::new(Schema::new(vec![Field::new("_key", DataType::Binary, false)]));
        Ok(OpenSink { input, keys, state: RefCell::new(sink) })
    }

    pub(crate) fn write(&self, rows: Vec<u8>, keys: Option<Vec<u8>>) -> Result<Written> {
        let rows = ipc::decode_from_host(rows, &self.input)?;
        let keys = keys.map(|keys| ipc::decode_from_host(keys, &self.keys)).transpose()?;
        let keys = keys.as_ref().map(|keys| keys.column(0).as_binary::<i32>());
        self.state.borrow_mut().write(&rows, keys)
    }

    pub(crate) fn flush(&self) -> Result<Written> {
        self.state.borrow_mut().flush()
    }
}

impl<S: TwoPhaseSink> OpenTwoPhase<S> {
    pub(crate) fn prepare(&self, epoch: u64) -> Result<Option<Token>> {
        self.0.state.borrow_mut().prepare(epoch)
    }
}

pub(crate) fn bind_plan<S: Sink>(scope: &Scope, input: &Schema) -> Result<SinkPlan> {
    S::bind(&parse_config(&scope.config)?, scope, input)
}

fn plan<S: Sink>(scope: &Scope, input: &[u8], two_phase: bool) -> Result<wit::Plan> {
    let plan = bind_plan::<S>(scope, &ipc::decode_schema(input)?)?;
    if (plan.guarantee == Guarantee::TwoPhase) != two_phase {
        let export = if two_phase { "export_two_phase_sink!` and promises less" } else { "export_sink!` and promises two phases" };
        return Err(Error::fatal(format!("the sink is exported with `{export}")));
    }
    let accepts = match plan.accepts {
        Accepts::Append => "append",
        Accepts::Upsert => "upsert",
        Accepts::Changelog => "changelog",
    };
    Ok(wit::Plan {
        reads: plan.reads,
        wants_keys: plan.wants_keys,
        accepts: accepts.into(),
        distribution: if plan.by_key { "by-key" } else { "any" }.into(),
        max_parallelism: plan.max_parallelism,
        guarantee: plan.guarantee,
        extra: String::new(),
    })
}

fn written(written: Written) -> wit::Written {
    wit::Written { bad: written.bad, extra: String::new() }
}

impl<S: Sink> wit::Guest for SinkGuest<S> {
    type Writer = OpenSink<S>;

    fn describe() -> types::PluginInfo {
        crate::panic::install();
        S::info().into()
    }

    fn bind(scope: Scope, input: types::Schema) -> Result<wit::Plan, types::Error> {
        crate::panic::install();
        Ok(plan::<S>(&scope, &input, false)?)
    }

    fn commit(_: Scope, _: u64, tokens: Vec<Token>) -> Result<Vec<Outcome>, types::Error> {
        // This sink makes none, so whoever made these is another plugin.
        Ok(vec![Outcome::Lost; tokens.len()])
    }

    fn abort(_: Scope, _: u64, _: Vec<Token>) -> Result<(), types::Error> {
        Ok(())
    }

    fn recover(_: Scope, _: Vec<Token>) -> Result<(), types::Error> {
        Ok(())
    }
}

impl<S: Sink> wit::GuestWriter for OpenSink<S> {
    fn open(scope: Scope, input: types::Schema) -> Result<wit::Writer, types::Error> {
        crate::panic::install();
        Ok(wit::Writer::new(OpenSink::<S>::open(&scope, &input)?))
    }

    fn write(&self, rows: types::Batch, keys: Option<types::Batch>) -> Result<wit::Written, types::Error> {
        Ok(written(OpenSink::write(self, rows, keys)?))
    }

    fn flush(&self) -> Result<wit::Written, types::Error> {
        Ok(written(OpenSink::flush(self)?))
    }

    fn prepare(&self, _: u64) -> Result<wit::Prepared, types::Error> {
        Ok(wit::Prepared { token: None, extra: String::new() })
    }
}

impl<S: TwoPhaseSink> wit::Guest for TwoPhaseGuest<S> {
    type Writer = OpenTwoPhase<S>;

    fn describe() -> types::PluginInfo {
        crate::panic::install();
        S::info().into()
    }

    fn bind(scope: Scope, input: types::Schema) -> Result<wit::Plan, types::Error> {
        crate::panic::install();
        Ok(plan::<S>(&scope, &input, true)?)
    }

    fn commit(scope: Scope, epoch: u64, tokens: Vec<Token>) -> Result<Vec<Outcome>, types::Error> {
        crate::panic::install();
        Ok(S::commit(&parse_config(&scope.config)?, &scope, epoch, &tokens)?)
    }

    fn abort(scope: Scope, epoch: u64, tokens: Vec<Token>) -> Result<(), types::Error> {
        crate::panic::install();
        Ok(S::abort(&parse_config(&scope.config)?, &scope, epoch, &tokens)?)
    }

    fn recover(scope: Scope, keep: Vec<Token>) -> Result<(), types::Error> {
        crate::panic::install();
        Ok(S::recover(&parse_config(&scope.config)?, &scope, &keep)?)
    }
}

impl<S: TwoPhaseSink> wit::GuestWriter for OpenTwoPhase<S> {
    fn open(scope: Scope, input: types::Schema) -> Result<wit::Writer, types::Error> {
        crate::panic::install();
        Ok(wit::Writer::new(OpenTwoPhase(OpenSink::<S>::open(&scope, &input)?)))
    }

    fn write(&self, rows: types::Batch, keys: Option<types::Batch>) -> Result<wit::Written, types::Error> {
        Ok(written(self.0.write(rows, keys)?))
    }

    fn flush(&self) -> Result<wit::Written, types::Error> {
        Ok(written(self.0.flush()?))
    }

    fn prepare(&self, epoch: u64) -> Result<wit::Prepared, types::Error> {
        Ok(wit::Prepared { token: OpenTwoPhase::prepare(self, epoch)?, extra: String::new() })
    }
}

/// Makes a [`Sink`] the component's export: `export_sink!(MyType);`, once per crate.
#[macro_export]
macro_rules! export_sink {
    ($sink:ty) => {
        type TidegateSinkGuest = $crate::SinkGuest<$sink>;
        $crate::bindings::sink::export_sink_bindings!(TidegateSinkGuest with_types_in $crate::bindings::sink);
    };
}

/// Makes a [`TwoPhaseSink`] the component's export: `export_two_phase_sink!(MyType);`, once per crate.
#[macro_export]
macro_rules! export_two_phase_sink {
    ($sink:ty) => {
        type TidegateSinkGuest = $crate::TwoPhaseGuest<$sink>;
        $crate::bindings::sink::export_sink_bindings!(TidegateSinkGuest with_types_in $crate::bindings::sink);
    };
}

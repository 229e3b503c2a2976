//! The host's part of a two-phase sink, call by call, so that a test can crash between any two.

use crate::sink::{OpenSink, OpenTwoPhase, bind_plan};
use crate::{Outcome, Result, Scope, Sink, SinkPlan, Token, TwoPhaseSink, Written, ipc, parse_config};
use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;
use std::marker::PhantomData;

/// A sink as one task of one generation sees it.
pub struct SinkHarness<S> {
    scope: Scope,
    input: SchemaRef,
    sink: PhantomData<S>,
}

/// One opened writer; dropping it is a crash.
pub struct Writer<S> {
    writer: OpenTwoPhase<S>,
    rows: ipc::Encoder,
    crossing: Option<Vec<usize>>,
}

impl<S: Sink> SinkHarness<S> {
    /// The sink of task 0 of 1, generation 1, under a configuration (JSON).
    pub fn new(config: &str, input: SchemaRef) -> Self {
        SinkHarness { scope: super::scope(config), input, sink: PhantomData }
    }

    /// The same sink seen from another generation.
    #[must_use]
    pub fn at_generation(&self, generation: u64) -> Self {
        self.with_scope(|scope| scope.generation = generation)
    }

    /// The same sink seen from another task.
    #[must_use]
    pub fn at_task(&self, index: u32, parallelism: u32) -> Self {
        self.with_scope(|scope| (scope.index, scope.parallelism) = (index, parallelism))
    }

    /// Another run and operator with the same configuration.
    #[must_use]
    pub fn of(&self, run_id: &str, operator: &str) -> Self {
        self.with_scope(|scope| (scope.run_id, scope.operator) = (run_id.to_owned(), operator.to_owned()))
    }

    fn with_scope<R>(&self, change: impl FnOnce(&mut Scope) -> R) -> Self {
        let mut scope = self.scope.clone();
        change(&mut scope);
        SinkHarness { scope, input: self.input.clone(), sink: PhantomData }
    }

    /// The plan.
    ///
    /// # Errors
    /// What `bind` answered.
    pub fn bind(&self) -> Result<SinkPlan> {
        bind_plan::<S>(&self.scope, &self.input)
    }
}

impl<S: TwoPhaseSink> SinkHarness<S> {
    /// Opens a writer.
    ///
    /// # Errors
    /// What `bind` or `open` answered.
    pub fn open(&self) -> Result<Writer<S>> {
        let crossing: Option<Vec<usize>> = self.bind()?.reads.map(|reads| reads.iter().map(|index| *index as usize).collect());
        let input = match &crossing {
            None => self.input.clone(),
            Some(crossing) => std::sync::Arc::new(self.input.project(crossing)?),
        };
        let writer = OpenTwoPhase(OpenSink::open(&self.scope, &ipc::encode_schema(&input)?)?);
        Ok(Writer { writer, rows: ipc::Encoder::new(input)?, crossing })
    }

    /// Commits in an instance without a writer.
    ///
    /// # Errors
    /// What `commit` answered.
    ///
    /// # Panics
    /// When there is not one outcome per token.
    pub fn commit(&self, epoch: u64, tokens: &[Token]) -> Result<Vec<Outcome>> {
        let outcomes = S::commit(&parse_config(&self.scope.config)?, &self.scope, epoch, tokens)?;
        assert_eq!(outcomes.len(), tokens.len(), "one outcome per token");
        Ok(outcomes)
    }

    /// Aborts in an instance without a writer.
    ///
    /// # Errors
    /// What `abort` answered.
    pub fn abort(&self, epoch: u64, tokens: &[Token]) -> Result<()> {
        S::abort(&parse_config(&self.scope.config)?, &self.scope, epoch, tokens)
    }

    /// Recovers in an instance without a writer.
    ///
    /// # Errors
    /// What `recover` answered.
    pub fn recover(&self, keep: &[Token]) -> Result<()> {
        S::recover(&parse_config(&self.scope.config)?, &self.scope, keep)
    }
}

impl<S: TwoPhaseSink> Writer<S> {
    /// Writes a batch.
    ///
    /// # Errors
    /// What `write` answered.
    pub fn write(&mut self, rows: &RecordBatch) -> Result<Written> {
        let crossing = match &self.crossing {
            None => rows.clone(),
            Some(crossing) => rows.project(crossing)?,
        };
        self.writer.0.write(self.rows.encode(&crossing)?, None)
    }

    /// The barrier: flush, then prepare.
    ///
    /// # Errors
    /// What `flush` or `prepare` answered.
    pub fn barrier(&mut self, epoch: u64) -> Result<Option<Token>> {
        self.writer.0.flush()?;
        self.writer.prepare(epoch)
    }
}

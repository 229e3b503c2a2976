//! The vocabulary and contracts of Tidegate.
//!
//! Everything that crosses a crate border inside the engine is defined here, over Arrow and nothing heavier: the in-band
//! [`Event`], the traits of the outside ([`InlineSource`], [`OutputSink`]), the traits of the inside ([`Step`],
//! [`Operator`]), the identities that manifests and external systems remember, and [`Error`], whose kind says what happens next.
//!
//! A trait's documentation says when each method is called, how often, and what an implementor may assume. With the
//! feature `testkit` the module `testkit` offers doubles of the outside for tests.

pub mod bad;
pub mod clock;
pub mod config;
pub mod counter;
pub mod error;
pub mod event;
pub mod hash;
pub mod hidden;
pub mod ids;
pub mod key;
pub mod nearest;
pub mod operator;
pub mod raw;
pub mod sink;
pub mod source;
pub mod staging;
pub mod state;
#[cfg(feature = "testkit")]
pub mod testkit;
pub mod time;
pub mod types;
pub mod wake;

pub use bad::{BadReason, BadRow, OnBadData};
pub use clock::{Clock, SystemClock};
pub use counter::{Counter, Gauge, OutsideMeters};
pub use error::{Error, ErrorKind, Result, ResultExt, Retry};
pub use event::{Barrier, BarrierKind, Event, Watermark};
pub use ids::{Epoch, Generation, RunId, RunIdentity, SplitId, VnodeRange};
pub use operator::{Flow, Operator, OperatorCtx, OperatorFactory, Output, Step, StepCtx, StepFactory};
pub use sink::{
    AnySink, BarrierAcker, ChangeMode, CommitOutcome, CommitToken, Committer, Distribution, Flushed, Guarantee, OutputSink, PreCommit,
    Sink, SinkCtx, SinkInput, SinkPlan, TransactionalSink, Written,
};
pub use source::{
    Chunk, Discovered, EqualTo, InlineSource, Ordinals, PollRequest, Polled, Position, SourceCtx, SourcePlan, SourceReader, SourceRequest,
    Split, SplitState,
};
pub use staging::Staging;
pub use state::{DeferredBytes, MakeBytes, PieceId, RestoredPiece, Signature, StatePiece};
pub use time::{EventTime, FutureRows, TimeScale, TimeSpec};
pub use wake::Wake;

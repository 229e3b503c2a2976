//! One error type. Its kind says what the engine does next, its context says where it happened.

use std::fmt;
use std::time::Duration;

/// Shorthand for results of this crate's [`Error`].
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Whether and when an external call is worth repeating.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Retry {
    /// Repeating cannot help within this process; a restart of the job may.
    No,
    /// Nothing was taken or written; call again, not before the given time has passed.
    After(Duration),
}

/// What the caller does with an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ErrorKind {
    /// The pipeline, its options or its plugins are wrong. Never restarted.
    Config,
    /// A row or message is wrong, and the policy says that this ends the run. Never restarted.
    Data,
    /// Something outside failed. The job restarts from the newest manifest, within its budget.
    External {
        /// Whether the failed call itself may be repeated first.
        retry: Retry,
    },
    /// A later generation owns this pipeline's epochs. The run writes nothing more and ends.
    Fenced,
    /// A limit was reached: memory, deadline, output size, handles. Never restarted.
    Limit,
    /// A broken invariant of the engine. Never restarted.
    Internal,
}

impl ErrorKind {
    /// The stable name used in records, logs and metrics.
    pub fn name(self) -> &'static str {
        match self {
            ErrorKind::Config => "config",
            ErrorKind::Data => "data",
            ErrorKind::External { .. } => "external",
            ErrorKind::Fenced => "fenced",
            ErrorKind::Limit => "limit",
            ErrorKind::Internal => "internal",
        }
    }

    /// The exit code of the command for a run that ends with this kind.
    pub fn exit_code(self) -> u8 {
        match self {
            ErrorKind::Config => 78,
            ErrorKind::Data => 65,
            ErrorKind::External { .. } => 69,
            ErrorKind::Fenced => 75,
            ErrorKind::Limit => 71,
            ErrorKind::Internal => 70,
        }
    }
}

/// An error with a kind, a message, and the places it passed on its way up.
///
/// Printed as `place: place: message`, outermost place first, followed by the causes.
#[derive(Debug)]
pub struct Error {
    kind: ErrorKind,
    message: String,
    context: Vec<String>,
    source: Option<Box<dyn std::error::Error + Send + Sync>>,
}

impl Error {
    /// An error of the given kind. Messages are lower case, without a full stop, with values in backticks.
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Error { kind, message: message.into(), context: Vec::new(), source: None }
    }

    /// A mistake in the configuration.
    pub fn config(message: impl Into<String>) -> Self {
        Error::new(ErrorKind::Config, message)
    }

    /// Bad data under the policy `fail`.
    pub fn data(message: impl Into<String>) -> Self {
        Error::new(ErrorKind::Data, message)
    }

    /// An outside failure after which the job may restart.
    pub fn external(message: impl Into<String>) -> Self {
        Error::new(ErrorKind::External { retry: Retry::No }, message)
    }

    /// An outside failure whose call may be repeated after `after`.
    pub fn retryable(message: impl Into<String>, after: Duration) -> Self {
        Error::new(ErrorKind::External { retry: Retry::After(after) }, message)
    }

    /// This run lost its claim to a later generation.
    pub fn fenced(message: impl Into<String>) -> Self {
        Error::new(ErrorKind::Fenced, message)
    }

    /// A limit was reached.
    pub fn limit(message: impl Into<String>) -> Self {
        Error::new(ErrorKind::Limit, message)
    }

    /// A broken invariant.
    pub fn internal(message: impl Into<String>) -> Self {
        Error::new(ErrorKind::Internal, message)
    }

    /// What happens next.
    pub fn kind(&self) -> ErrorKind {
        self.kind
    }

    /// The message without places and causes.
    pub fn message(&self) -> &str {
        &self.message
    }

    /// Adds an outer place, such as `stage \`hourly\``.
    #[must_use]
    pub fn context(mut self, place: impl Into<String>) -> Self {
        self.context.push(place.into());
        self
    }

    /// The error that caused this one.
    pub fn cause(&self) -> Option<&(dyn std::error::Error + Send + Sync + 'static)> {
        self.source.as_deref()
    }

    /// Attaches the error that caused this one.
    #[must_use]
    pub fn caused_by(mut self, source: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Self {
        self.source = Some(source.into());
        self
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for place in self.context.iter().rev() {
            write!(f, "{place}: ")?;
        }
        f.write_str(&self.message)?;
        let mut cause = self.source.as_deref().map(|source| source as &(dyn std::error::Error + 'static));
        while let Some(error) = cause {
            write!(f, ": {error}")?;
            cause = error.source();
        }
        Ok(())
    }
}

impl std::error::Error for Error {}

impl From<arrow::error::ArrowError> for Error {
    /// A kernel that fails on data the engine has already typed is a broken invariant, not a bad row.
    fn from(error: arrow::error::ArrowError) -> Self {
        Error::internal(format!("arrow: {error}"))
    }
}

/// Adds places to results.
pub trait ResultExt<T> {
    /// Adds an outer place to an error; see [`Error::context`].
    fn context(self, place: impl FnOnce() -> String) -> Result<T>;
}

impl<T> ResultExt<T> for Result<T> {
    fn context(self, place: impl FnOnce() -> String) -> Result<T> {
        self.map_err(|error| error.context(place()))
    }
}

//! One error type; its variant says what the host does next.

use crate::bindings::types;
use std::fmt;
use std::time::Duration;

/// Shorthand for results of this crate's [`Error`].
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why a call failed. Messages are lower case, with values in backticks, and say what to do if that is known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Error {
    /// Nothing was taken or written; the host makes the same call again.
    Retryable {
        /// Why.
        message: String,
        /// Not before this has passed; `None` leaves it to the host.
        after: Option<Duration>,
    },
    /// The configuration is wrong. The run ends and is not restarted.
    Config(String),
    /// This instance is unusable; the host opens a new one from the last checkpoint.
    Fatal(String),
    /// A code that this version of the border does not know.
    Other {
        /// The code.
        code: String,
        /// Why.
        message: String,
        /// JSON.
        details: String,
    },
}

impl Error {
    /// Nothing was taken or written; call again after the host's own back-off.
    pub fn retryable(message: impl Into<String>) -> Self {
        Error::Retryable { message: message.into(), after: None }
    }

    /// Nothing was taken or written; call again, not before `after`.
    pub fn retryable_after(message: impl Into<String>, after: Duration) -> Self {
        Error::Retryable { message: message.into(), after: Some(after) }
    }

    /// The configuration is wrong.
    pub fn config(message: impl Into<String>) -> Self {
        Error::Config(message.into())
    }

    /// This instance is unusable.
    pub fn fatal(message: impl Into<String>) -> Self {
        Error::Fatal(message.into())
    }

    /// The message.
    pub fn message(&self) -> &str {
        match self {
            Error::Retryable { message, .. } | Error::Config(message) | Error::Fatal(message) | Error::Other { message, .. } => message,
        }
    }

    /// Puts a place before the message: `file \`x\`: no space left`.
    #[must_use]
    pub fn context(mut self, place: impl fmt::Display) -> Self {
        match &mut self {
            Error::Retryable { message, .. } | Error::Config(message) | Error::Fatal(message) | Error::Other { message, .. } => {
                *message = format!("{place}: {message}");
            }
        }
        self
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.message())
    }
}

impl std::error::Error for Error {}

impl From<std::io::Error> for Error {
    fn from(error: std::io::Error) -> Self {
        Error::Fatal(error.to_string())
    }
}

#[cfg(feature = "arrow")]
impl From<arrow_schema::ArrowError> for Error {
    fn from(error: arrow_schema::ArrowError) -> Self {
        Error::Fatal(format!("arrow: {error}"))
    }
}

impl From<Error> for types::Error {
    fn from(error: Error) -> Self {
        match error {
            Error::Retryable { message, after } => {
                let after_ms = after.map(|after| u64::try_from(after.as_millis()).unwrap_or(u64::MAX));
                types::Error::Retryable(types::Retry { message, after_ms })
            }
            Error::Config(message) => types::Error::Config(message),
            Error::Fatal(message) => types::Error::Fatal(message),
            Error::Other { code, message, details } => types::Error::Other((code, message, details)),
        }
    }
}

impl From<types::Error> for Error {
    fn from(error: types::Error) -> Self {
        match error {
            types::Error::Retryable(retry) => Error::Retryable { message: retry.message, after: retry.after_ms.map(Duration::from_millis) },
            types::Error::Config(message) => Error::Config(message),
            types::Error::Fatal(message) => Error::Fatal(message),
            types::Error::Other((code, message, details)) => Error::Other { code, message, details },
        }
    }
}

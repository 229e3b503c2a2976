//! Why a plugin was not built.

use std::fmt;

/// Shorthand for results of this crate's [`Error`].
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why a plugin was not built, by whose turn it is to do something.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Error {
    /// The crate does not say what is needed: its author's turn.
    Package(String),
    /// The machine lacks a tool; the message says how to install it.
    Missing(String),
    /// The crate does not compile, or what came out cannot be packed; the compiler has said why.
    Build(String),
    /// A file could not be read or written.
    Io(String),
}

impl Error {
    /// An error of a file.
    pub(crate) fn io(what: impl fmt::Display, error: &std::io::Error) -> Self {
        Error::Io(format!("{what}: {error}"))
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Package(message) | Error::Missing(message) | Error::Build(message) | Error::Io(message) => f.write_str(message),
        }
    }
}

impl std::error::Error for Error {}

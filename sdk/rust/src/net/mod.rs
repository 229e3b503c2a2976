//! Talking to the network under grants: requests over `wasi:http` ([`http`]), connections over `wasi:sockets` ([`tcp`]).
//!
//! Feature `http`. For sources and sinks: a transform has no network. Everything waits where it is called and says how long at the most. Natively nothing leaves
//! the machine: what a unit test has put in place with [`testing::serve_http`](crate::testing::serve_http) and
//! [`testing::serve_tcp`](crate::testing::serve_tcp) answers.
//!
//! Errors say what the host does next. What may pass by itself (a refused connection, a timeout, the statuses 408, 425, 429 and 5xx) is `Retryable`, with the
//! delay of `Retry-After` where the server names one; a missing grant and an address that is none are `Config`.

mod date;
pub mod http;
pub mod tcp;
mod url;
#[cfg(target_family = "wasm")]
mod wasi_http;
#[cfg(target_family = "wasm")]
mod wasi_tcp;

#[cfg(test)]
mod tests;

pub use url::{Url, percent_encoded};

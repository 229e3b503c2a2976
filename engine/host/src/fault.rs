//! How a call can fail, in words that name the plugin, the call and what to do.

use crate::bindings::types;
use crate::limits::{Refused, size_text};
use crate::state::State;
use std::time::Duration;
use tidegate_api::{Error, ErrorKind, Retry};
use wasmtime::{Trap, WasmBacktrace};

/// What a guest's `retryable` waits when it does not say how long.
const DEFAULT_RETRY: Duration = Duration::from_secs(1);
/// Functions of a backtrace that are named.
const FRAMES: usize = 6;

/// Why a call gave no answer.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The instance is gone; a new one may be tried.
    Trap(Error),
    /// The guest answered with an error value, or with something it may not answer. The instance lives on.
    Fault(Error),
}

impl Failure {
    pub(crate) fn into_error(self) -> Error {
        match self {
            Failure::Trap(error) | Failure::Fault(error) => error,
        }
    }
}

/// A guest's error value.
pub(crate) fn fault(plugin: &str, call: &str, error: types::Error) -> Error {
    let error = match error {
        types::Error::Retryable(retry) => Error::retryable(retry.message, retry.after_ms.map_or(DEFAULT_RETRY, Duration::from_millis)),
        types::Error::Config(message) => Error::config(message),
        types::Error::Fatal(message) => Error::external(message),
        types::Error::Other((code, message, details)) => {
            let details = if details.is_empty() { String::new() } else { format!(" ({details})") };
            Error::external(format!("{code}: {message}{details}"))
        }
    };
    placed(error, plugin, call)
}

/// An answer that breaks the contract. The plugin is wrong, and would be again.
pub(crate) fn broken(plugin: &str, call: &str, what: impl std::fmt::Display) -> Error {
    placed(Error::config(format!("{what}; the plugin breaks its contract, use a mended build of it")), plugin, call)
}

/// Adds where it happened.
pub(crate) fn placed(error: Error, plugin: &str, call: &str) -> Error {
    error.context(format!("call `{call}`")).context(format!("plugin `{plugin}`"))
}

/// A call that ended without an answer: by a trap, a limit, or a refused import.
pub(crate) fn trapped(state: &State, call: &str, cause: &wasmtime::Error) -> Error {
    let limits = &state.shared.spec.limits;
    let name = &state.shared.spec.name;
    let (kind, mut message) = match (state.limiter.refused, cause.downcast_ref::<Trap>()) {
        (_, Some(Trap::Interrupt)) => (
            ErrorKind::Limit,
            format!(
                "it did not return within its deadline of {:?}; make it do less per call or raise `limits.deadline` of [plugins.{name}]",
                limits.deadline
            ),
        ),
        (Refused::Memory(wanted), _) => (
            ErrorKind::Limit,
            format!(
                "it wanted {} of memory and its limit is {}; make it hold less or raise `limits.memory` of [plugins.{name}]",
                size_text(wanted),
                size_text(limits.memory)
            ),
        ),
        (Refused::Table, _) => (ErrorKind::Limit, "it wanted a larger table than this host allows".to_string()),
        (Refused::Nothing, Some(trap)) => (ErrorKind::External { retry: Retry::No }, format!("it trapped: {trap}")),
        (Refused::Nothing, None) => without_trap(state, cause),
    };
    if let Some(words) = &state.failed {
        message.push_str("; the system said: ");
        message.push_str(words);
    }
    let said = state.words.said();
    if !said.is_empty() {
        message.push_str("; it said: ");
        message.push_str(&said);
    }
    if let Some(refusals) = state.words.refusals() {
        message.push_str("; ");
        message.push_str(&refusals.text);
    }
    let frames = frames(cause);
    if !frames.is_empty() {
        message.push_str("; in ");
        message.push_str(&frames.join(" < "));
    }
    placed(Error::new(kind, message), name, call)
}

fn without_trap(state: &State, cause: &wasmtime::Error) -> (ErrorKind, String) {
    let limits = &state.shared.spec.limits;
    let name = &state.shared.spec.name;
    let root = cause.root_cause().to_string();
    if root.contains("fuel allocated for hostcalls") {
        let message = format!(
            "it handed over more than its output limit of {}; make it return less per call or raise `limits.output` of [plugins.{name}]",
            size_text(limits.output)
        );
        return (ErrorKind::Limit, message);
    }
    if root.contains("handle") && root.contains("limit") || root.contains("table has no free keys") {
        let message = format!(
            "it holds more than its {} handles ({root}); make it drop some or raise `limits.handles` of [plugins.{name}]",
            limits.handles
        );
        return (ErrorKind::Limit, message);
    }
    if root.contains("table count too high") || root.contains("tables") && root.contains("limit") {
        let message = format!("it has more than {} tables ({root}); raise `limits.tables` of [plugins.{name}]", limits.tables);
        return (ErrorKind::Limit, message);
    }
    if let Some(exit) = cause.downcast_ref::<wasmtime_wasi::I32Exit>() {
        return (ErrorKind::External { retry: Retry::No }, format!("it called exit with status {}", exit.0));
    }
    (ErrorKind::External { retry: Retry::No }, root)
}

/// Function names, innermost first; the guest's panic machinery is left out.
fn frames(cause: &wasmtime::Error) -> Vec<String> {
    let Some(backtrace) = cause.downcast_ref::<WasmBacktrace>() else { return Vec::new() };
    let noise = |name: &str| ["rust_panic", "panicking", "__rust", "rust_begin_unwind", "abort"].iter().any(|part| name.contains(part));
    let names = backtrace.frames().iter().filter_map(|frame| {
        let demangled = frame.symbols().first().and_then(|symbol| symbol.name());
        demangled.or_else(|| frame.func_name())
    });
    names.filter(|name| !noise(name)).take(FRAMES).map(short).collect()
}

/// A function's name without the hash that compilers append and cut where it is long.
fn short(name: &str) -> String {
    let name = match name.rsplit_once("::h") {
        Some((path, hash)) if hash.len() == 16 && hash.bytes().all(|byte| byte.is_ascii_hexdigit()) => path,
        _ => name,
    };
    name.chars().take(120).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn error_values_say_what_happens_next() {
        let retry = types::Retry { message: "broker `b` is away".into(), after_ms: Some(250) };
        let error = fault("p", "poll", types::Error::Retryable(retry));
        assert_eq!(error.kind(), ErrorKind::External { retry: Retry::After(Duration::from_millis(250)) });
        assert_eq!(error.to_string(), "plugin `p`: call `poll`: broker `b` is away");
        assert_eq!(fault("p", "bind", types::Error::Config("x".into())).kind(), ErrorKind::Config);
        let other = fault("p", "bind", types::Error::Other(("quota".into(), "used up".into(), "{}".into())));
        assert_eq!(other.to_string(), "plugin `p`: call `bind`: quota: used up ({})");
        assert_eq!(other.kind(), ErrorKind::External { retry: Retry::No });
    }

    #[test]
    fn names_lose_their_hash() {
        assert_eq!(short("guest::process::h0123456789abcdef"), "guest::process");
        assert_eq!(short("memory::hold"), "memory::hold");
    }
}

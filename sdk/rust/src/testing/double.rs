//! What stands in for the imports in native builds; one per thread, so that tests do not see each other.

use crate::log::Level;
use std::cell::RefCell;
use std::collections::BTreeMap;

#[derive(Default)]
pub(crate) struct Double {
    pub(crate) logs: Vec<(Level, String)>,
    pub(crate) metrics: BTreeMap<String, f64>,
    pub(crate) secrets: BTreeMap<String, String>,
    pub(crate) now_us: u64,
    #[cfg(feature = "http")]
    pub(crate) http: Option<Box<dyn super::net::HttpServer>>,
    #[cfg(feature = "http")]
    pub(crate) tcp: Option<Box<dyn super::net::TcpServer>>,
}

thread_local! {
    static DOUBLE: RefCell<Double> = RefCell::default();
}

pub(crate) fn with<T>(f: impl FnOnce(&mut Double) -> T) -> T {
    DOUBLE.with_borrow_mut(f)
}

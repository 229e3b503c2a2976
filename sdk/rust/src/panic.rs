//! A panic's message would be lost with the instance; the hook sends it to the log first.

#[cfg(target_family = "wasm")]
pub(crate) fn install() {
    static ONCE: std::sync::Once = std::sync::Once::new();
    ONCE.call_once(|| {
        std::panic::set_hook(Box::new(|panic| {
            let payload = panic.payload();
            let text = payload.downcast_ref::<&str>().copied().or_else(|| payload.downcast_ref::<String>().map(String::as_str));
            let place = panic.location().map(|at| format!("{}:{}", at.file(), at.line())).unwrap_or_default();
            crate::log::write(crate::log::Level::Error, &format!("panic: {}", text.unwrap_or("without a message")), &[("at", place)]);
        }));
    });
}

/// Natively the test harness reports panics.
#[cfg(not(target_family = "wasm"))]
pub(crate) fn install() {}

//! The run's clock, and whether to hurry.

/// The time in microseconds since 1970: constant within an epoch, and the same again when the epoch is replayed after a crash.
pub fn now_us() -> u64 {
    imp::now_us()
}

/// Whether the call should return soon with what it has. A hint, cheap enough to be asked every few hundred rows.
pub fn should_yield() -> bool {
    imp::should_yield()
}

#[cfg(target_family = "wasm")]
use crate::bindings::control as imp;

#[cfg(not(target_family = "wasm"))]
mod imp {
    use crate::testing::double;

    pub(super) fn now_us() -> u64 {
        double::with(|double| double.now_us)
    }

    pub(super) fn should_yield() -> bool {
        false
    }
}

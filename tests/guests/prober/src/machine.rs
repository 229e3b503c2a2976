//! What a machine has beside files and a network.

use tidegate_sdk::log;
use wasip2::clocks::{monotonic_clock, wall_clock};
use wasip2::random::{insecure_seed, random};

pub(crate) fn environment() -> String {
    let variables = wasip2::cli::environment::get_environment();
    let arguments = wasip2::cli::environment::get_arguments();
    format!("{variables:?} {arguments:?}")
}

pub(crate) fn wall_time() -> String {
    format!("{:?}", wall_clock::now())
}

pub(crate) fn random() -> String {
    format!("{:?}", random::get_random_bytes(16))
}

pub(crate) fn harmless() -> String {
    format!("{:?} {}", insecure_seed::insecure_seed(), monotonic_clock::now())
}

/// Ends with the instance, or not at all.
pub(crate) fn handles() -> String {
    let mut held = Vec::new();
    while held.len() < 1_000_000 {
        held.push(monotonic_clock::subscribe_duration(1_000_000_000_000));
    }
    format!("{} handles", held.len())
}

pub(crate) fn log(lines: usize) -> String {
    for line in 0..lines {
        log::info(&format!("line {line} of the flood"));
        eprintln!("line {line} of the flood");
    }
    String::new()
}

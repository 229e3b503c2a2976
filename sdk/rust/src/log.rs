//! Lines for the run's log.
//!
//! In a component they go to the host; natively, in tests, they are kept for [`testing::logs`](crate::testing::logs).

/// How much a line matters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// For the plugin's author.
    Trace,
    /// For the plugin's author.
    Debug,
    /// For whoever runs the pipeline.
    Info,
    /// Something they should look at.
    Warn,
    /// Something that cost rows or the run.
    Error,
}

/// Writes one line; `fields` are named values beside the text.
pub fn write(level: Level, message: &str, fields: &[(&str, String)]) {
    imp::write(level, message, fields);
}

/// Whether a line of this level would be kept, so that building an expensive one can be spared.
pub fn enabled(level: Level) -> bool {
    imp::enabled(level)
}

/// A line for the plugin's author.
pub fn debug(message: &str) {
    write(Level::Debug, message, &[]);
}

/// A line for whoever runs the pipeline.
pub fn info(message: &str) {
    write(Level::Info, message, &[]);
}

/// A line they should look at.
pub fn warn(message: &str) {
    write(Level::Warn, message, &[]);
}

/// A line about something that cost rows or the run.
pub fn error(message: &str) {
    write(Level::Error, message, &[]);
}

#[cfg(target_family = "wasm")]
mod imp {
    use super::Level;
    use crate::bindings::log;

    fn level_of(level: Level) -> log::Level {
        match level {
            Level::Trace => log::Level::Trace,
            Level::Debug => log::Level::Debug,
            Level::Info => log::Level::Info,
            Level::Warn => log::Level::Warn,
            Level::Error => log::Level::Error,
        }
    }

    pub(super) fn write(level: Level, message: &str, fields: &[(&str, String)]) {
        let fields: Vec<(String, String)> = fields.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect();
        log::write(level_of(level), message, &fields);
    }

    pub(super) fn enabled(level: Level) -> bool {
        log::enabled(level_of(level))
    }
}

#[cfg(not(target_family = "wasm"))]
mod imp {
    use super::Level;
    use crate::testing::double;

    pub(super) fn write(level: Level, message: &str, fields: &[(&str, String)]) {
        let mut line = message.to_owned();
        for (name, value) in fields {
            line.push_str(&format!(" {name}={value}"));
        }
        double::with(|double| double.logs.push((level, line)));
    }

    pub(super) fn enabled(_: Level) -> bool {
        true
    }
}

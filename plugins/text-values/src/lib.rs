//! Typed values from text: what the plugins share that read values somebody wrote down.
//!
//! Everything here is exact or refused: an integer that does not fit 64 bits is no `int64`, and nothing is rounded on the way to one.

mod column;
pub mod csv;
mod number;
mod time;

pub use column::{ColumnBuilder, Value, ValueType};
pub use number::{float, integer};
pub use time::parse_ms;

/// The beginning of a text for a message, in backticks.
pub fn quoted(text: &str) -> String {
    const SHOWN: usize = 40;
    match text.char_indices().nth(SHOWN) {
        Some((end, _)) => format!("`{}…`", &text[..end]),
        None => format!("`{text}`"),
    }
}

#[cfg(test)]
mod tests {
    use super::quoted;

    #[test]
    fn long_texts_are_cut_between_characters() {
        assert_eq!(quoted("ab"), "`ab`");
        assert_eq!(quoted(&"ü".repeat(41)), format!("`{}…`", "ü".repeat(40)));
        assert_eq!(quoted(&"ü".repeat(40)), format!("`{}`", "ü".repeat(40)));
    }
}

//! A mistake in an expression, with its place in the text.

use std::fmt;
use std::ops::Range;

/// A mistake in an expression. Positions are relative to the expression's own text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Diagnostic {
    /// What is wrong and, where known, the remedy.
    pub message: String,
    /// The bytes of the text it concerns.
    pub span: Range<usize>,
    /// The line of the first character, from 1.
    pub line: usize,
    /// The column of the first character, counted in characters from 1.
    pub column: usize,
}

impl Diagnostic {
    /// A mistake at `span` of `text`.
    pub(crate) fn new(text: &str, span: Range<usize>, message: impl Into<String>) -> Self {
        let start = floor_boundary(text, span.start);
        let before = &text[..start];
        let line = before.matches('\n').count() + 1;
        let column = before.rsplit('\n').next().unwrap_or_default().chars().count() + 1;
        Diagnostic { message: message.into(), span: start..floor_boundary(text, span.end).max(start), line, column }
    }

    /// The message, the line it concerns, and carets under the mistake.
    pub fn render(&self, text: &str) -> String {
        let shown = text.lines().nth(self.line - 1).unwrap_or_default();
        let length = shown.chars().count();
        let wanted = text.get(self.span.clone()).unwrap_or_default().lines().next().unwrap_or_default().chars().count();
        let carets = wanted.min((length + 1).saturating_sub(self.column)).max(1);
        let pad: String = shown.chars().take(self.column - 1).map(|c| if c == '\t' { '\t' } else { ' ' }).collect();
        format!("{}\n  {shown}\n  {pad}{}", self.message, "^".repeat(carets))
    }
}

impl fmt::Display for Diagnostic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} (line {}, column {})", self.message, self.line, self.column)
    }
}

impl std::error::Error for Diagnostic {}

fn floor_boundary(text: &str, at: usize) -> usize {
    let mut at = at.min(text.len());
    while !text.is_char_boundary(at) {
        at -= 1;
    }
    at
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn carets_stand_under_the_mistake_in_its_line() {
        let text = "a &&\n  größe == prise";
        let at = text.find("prise").unwrap();
        let found = Diagnostic::new(text, at..at + 5, "unknown column `prise`");
        assert_eq!((found.line, found.column), (2, 12));
        assert_eq!(found.render(text), "unknown column `prise`\n    größe == prise\n             ^^^^^");
        assert_eq!(found.to_string(), "unknown column `prise` (line 2, column 12)");
    }

    #[test]
    fn a_mistake_at_the_end_has_one_caret_behind_the_text() {
        let found = Diagnostic::new("a +", 3..3, "expected a value");
        assert_eq!(found.render("a +"), "expected a value\n  a +\n     ^");
    }
}

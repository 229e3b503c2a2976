//! Where logs go: to stderr, without what came from a reference in the pipeline file. Connectors pass on what brokers and servers
//! say, and those repeat what they were given.

use std::io::{Result, Stderr, Write};
use std::sync::OnceLock;
use tidegate::file::Mask;

/// The subscriber is the process's, so what it must not show is too. A process reads one pipeline file.
static MASK: OnceLock<Mask> = OnceLock::new();

/// From now on, nothing of this is shown.
pub(super) fn mask_with(mask: &Mask) {
    let _ = MASK.set(mask.clone());
}

/// Makes the writer of one event.
pub(super) fn stderr() -> Masked<Stderr> {
    Masked { to: std::io::stderr(), mask: MASK.get().cloned() }
}

/// Masks what passes. An event comes in one piece.
pub(super) struct Masked<W> {
    to: W,
    mask: Option<Mask>,
}

impl<W: Write> Write for Masked<W> {
    fn write(&mut self, event: &[u8]) -> Result<usize> {
        match &self.mask {
            Some(mask) => self.to.write_all(mask.apply(&String::from_utf8_lossy(event)).as_bytes())?,
            None => self.to.write_all(event)?,
        }
        Ok(event.len())
    }

    fn flush(&mut self) -> Result<()> {
        self.to.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tidegate::file::PipelineFile;

    #[test]
    fn what_came_from_a_reference_is_not_logged() {
        let text = "name = \"${NAME}\"\n[[stages]]\ninputs = [\"a\"]\noutput = \"b\"\n";
        let variable = std::sync::Arc::new(|_: &str| Some("s3cret".to_string()));
        let file = PipelineFile::parse(text, "p.toml", "p", ".".into(), variable).unwrap();
        let mut log = Masked { to: Vec::new(), mask: Some(file.mask().clone()) };
        let event = "WARN kafka: the broker refuses `s3cret`\n";
        assert_eq!(log.write(event.as_bytes()).unwrap(), event.len());
        assert_eq!(log.to, b"WARN kafka: the broker refuses `***`\n");
    }
}

//! `tidegate run --limit`: what a pipeline makes of the first rows of its inputs, on standard output, with nothing written or kept.

use std::io::{self, Write};
use std::sync::Arc;
use tempfile::TempDir;
use tidegate::file::{PipelineFile, TrialHost};
use tidegate_connectors::stdout::StdoutTarget;

/// A run of a part of the input. Its state goes with this value.
pub(super) struct Sample {
    state: TempDir,
    outputs: Vec<String>,
}

impl Sample {
    /// Makes a folder for the state.
    pub(super) fn new() -> Result<Sample, u8> {
        match tempfile::Builder::new().prefix("tidegate-").tempdir() {
            Ok(state) => Ok(Sample { state, outputs: Vec::new() }),
            Err(error) => {
                eprintln!("there is no temporary folder for the state of a run with `--limit`: {error}");
                Err(super::CONFIG)
            }
        }
    }

    /// The pipeline and the host of such a run.
    pub(super) fn of(&mut self, file: Arc<PipelineFile>, limit: u64) -> Result<(Arc<PipelineFile>, TrialHost), u8> {
        let file = Arc::into_inner(file).ok_or(70u8)?;
        let (file, outputs) = file.sampled(self.state.path());
        self.outputs = outputs;
        Ok((Arc::new(file), TrialHost { limit: Some(limit), ..TrialHost::default() }))
    }

    /// Lets every line say whose it is, if there are several outputs.
    pub(super) fn labelled(&self, mut host: TrialHost, stdout: &StdoutTarget) -> TrialHost {
        if self.outputs.len() > 1 {
            for name in &self.outputs {
                let key = serde_json::Value::from(name.as_str());
                let label = Label { before: format!("{{{key}:").into_bytes(), line: Vec::new(), stdout: stdout.clone() };
                host.stdout.insert(name.clone(), StdoutTarget::new(label));
            }
        }
        host
    }
}

/// Puts each line, a JSON object, into an object whose one key is the output.
struct Label {
    before: Vec<u8>,
    /// The beginning of a line whose end has not come yet.
    line: Vec<u8>,
    stdout: StdoutTarget,
}

impl Write for Label {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut lines = Vec::with_capacity(bytes.len() + 64);
        for part in bytes.split_inclusive(|byte| *byte == b'\n') {
            self.line.extend_from_slice(part);
            if let Some(line) = self.line.strip_suffix(b"\n") {
                lines.extend_from_slice(&self.before);
                lines.extend_from_slice(line);
                lines.extend_from_slice(b"}\n");
                self.line.clear();
            }
        }
        self.stdout.write_all(&lines)?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Mutex;

    #[derive(Clone, Default)]
    struct Shared(Arc<Mutex<Vec<u8>>>);

    impl Write for Shared {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_label_stands_around_every_line_however_they_are_cut() {
        let text = "{\"a\":1}\n{\"a\":2}\n{}\n";
        for cut in 0..text.len() {
            let shared = Shared::default();
            let sample = Sample { outputs: vec!["x".into(), "odd \"one\"".into()], ..Sample::new().unwrap() };
            let host = sample.labelled(TrialHost::default(), &StdoutTarget::new(shared.clone()));
            let mut label = host.stdout["odd \"one\""].clone();
            label.write_all(&text.as_bytes()[..cut]).unwrap();
            label.write_all(&text.as_bytes()[cut..]).unwrap();
            let written = String::from_utf8(shared.0.lock().unwrap().clone()).unwrap();
            let lines: Vec<serde_json::Value> = written.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
            let row = |row| serde_json::json!({ "odd \"one\"": row });
            assert_eq!(lines, [row(serde_json::json!({"a": 1})), row(serde_json::json!({"a": 2})), row(serde_json::json!({}))], "{cut}");
        }
        let alone = Sample { outputs: vec!["x".into()], ..Sample::new().unwrap() };
        assert!(alone.labelled(TrialHost::default(), &StdoutTarget::process()).stdout.is_empty(), "one output needs no label");
    }
}

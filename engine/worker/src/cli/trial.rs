//! A run that does not touch what the pipeline file names, at a pace, and that stands still at a named point: a child of `tidegate chaos`.
//!
//! Both ends are this program, so that the form of the argument is nobody's business; it is JSON.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use std::fs::OpenOptions;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tidegate::file::redirect::{Redirected, folders_of};
use tidegate::file::{PipelineFile, TrialHost};
use tidegate_api::config::Problem;
use tidegate_api::{Error, Result};
use tidegate_connectors::stdout::StdoutTarget;
use tidegate_runtime::{KillHook, KillPoint};

/// What a trial is told.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(super) struct Trial {
    /// Where its state, its outputs and its last record go.
    pub(super) folder: PathBuf,
    /// Time between two checkpoints, in milliseconds.
    pub(super) every_ms: u64,
    /// Rows per second, by source.
    pub(super) pace: BTreeMap<String, f64>,
    /// Where to stand still.
    pub(super) pause: Option<Pause>,
    /// Settings in place of the file's.
    #[serde(default)]
    pub(super) settings: Map<String, Value>,
    /// How often an instance of a plugin is ended in the middle of its work, in milliseconds.
    #[serde(default)]
    pub(super) trap_every_ms: Option<u64>,
}

/// Where a trial stands still.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Pause {
    /// The name of a point.
    pub(super) point: String,
    /// At which passing of it, from 1.
    pub(super) passing: u64,
    /// After so many marks without having come there, it stands still where it is.
    pub(super) marks: u64,
    /// Say so and go on, to be killed a moment later.
    pub(super) go_on: bool,
}

/// What a trial does otherwise than a run.
pub(super) struct Redirection {
    pub(super) file: PipelineFile,
    pub(super) places: BTreeMap<String, Redirected>,
}

impl Trial {
    /// The file that says where the trial stands.
    pub(super) fn paused(&self) -> PathBuf {
        self.folder.join("paused")
    }

    /// The file that holds the last record.
    pub(super) fn record(&self) -> PathBuf {
        self.folder.join("record.json")
    }

    /// The pipeline with its state and outputs in the trial's folder, which are made.
    pub(super) fn redirect(&self, file: PipelineFile) -> Result<Redirection, Vec<Problem>> {
        let (file, places) = file.redirected(&self.folder, Duration::from_millis(self.every_ms), &self.settings)?;
        Ok(Redirection { file, places })
    }

    /// The host of the redirected pipeline. Makes the folders that it writes to.
    pub(super) fn host(&self, places: &BTreeMap<String, Redirected>) -> Result<TrialHost> {
        let made = |path: &Path, error: std::io::Error| Error::config(format!("`{}` cannot be made", path.display())).caused_by(error);
        for folder in folders_of(places) {
            std::fs::create_dir_all(folder).map_err(|error| made(folder, error))?;
        }
        let mut host = TrialHost { pace: self.pace.clone(), ..TrialHost::default() };
        for (name, place) in places {
            if let Redirected::Lines { file, .. } = place {
                let lines = OpenOptions::new().create(true).append(true).open(file).map_err(|error| made(file, error))?;
                host.stdout.insert(name.clone(), StdoutTarget::new(lines));
            }
        }
        Ok(host)
    }

    /// Stands still at the point.
    pub(super) fn hook(&self) -> Option<KillHook> {
        let pause = self.pause.clone()?;
        let point = KillPoint::named(&pause.point)?;
        let (file, passed, marks) = (self.paused(), AtomicU64::new(0), AtomicU64::new(0));
        Some(std::sync::Arc::new(move |at, epoch| {
            let here = at == point && passed.fetch_add(1, Ordering::SeqCst) + 1 == pause.passing;
            let overdue = at == KillPoint::AfterMark && marks.fetch_add(1, Ordering::SeqCst) + 1 == pause.marks;
            if !here && !overdue {
                return Ok(());
            }
            // Whole or not there, as the one who waits for it looks at any time.
            let written = file.with_extension("part");
            let told = std::fs::write(&written, format!("{} {epoch}", at.name())).and_then(|()| std::fs::rename(&written, &file));
            told.map_err(|error| Error::external("a trial cannot say where it stands").caused_by(error))?;
            if pause.go_on {
                return Ok(());
            }
            loop {
                std::thread::park();
            }
        }))
    }
}

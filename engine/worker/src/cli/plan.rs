//! `tidegate validate` and `tidegate plan`.

use super::run::host_config;
use super::{PlanFormat, read, refuse};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use tidegate::Prepared;
use tidegate::file::{FileHost, Mistake, PipelineFile};

pub(super) fn validate(path: &Path) -> u8 {
    match checked(path) {
        Ok(file) => {
            eprintln!("{}: `{}` is valid", path.display(), file.name());
            0
        }
        Err(mistakes) => refuse(&mistakes),
    }
}

pub(super) fn plan(path: &Path, format: PlanFormat, explain: bool) -> u8 {
    match planned(path) {
        Ok((file, prepared)) => {
            let text = match format {
                PlanFormat::Text if explain => prepared.planned.render_explained(),
                PlanFormat::Text => prepared.planned.render_text(),
                PlanFormat::Mermaid => prepared.planned.render_mermaid(),
            };
            print!("{}", file.mask().apply(&text));
            0
        }
        Err(mistakes) => refuse(&mistakes),
    }
}

pub(super) fn host(file: &Arc<PipelineFile>) -> FileHost {
    let never = Arc::new(AtomicBool::new(false));
    let settings = file.host_settings().with_default_state_dir(super::run::default_state_dir(file));
    FileHost::new(Arc::clone(file), settings, host_config(), never, Box::new(|_| {}))
}

/// A plan says how a pipeline would run, wherever its input is.
fn planned(path: &Path) -> Result<(Arc<PipelineFile>, Prepared), Vec<Mistake>> {
    let file = read(path)?;
    let prepared = block_on(host(&file).check())?;
    Ok((file, prepared))
}

/// A check looks for the input too.
fn checked(path: &Path) -> Result<Arc<PipelineFile>, Vec<Mistake>> {
    let file = read(path)?;
    let host = host(&file);
    host.check_inputs(&block_on(host.check())?)?;
    Ok(file)
}

pub(super) fn block_on<T>(future: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build();
    runtime.expect("a current-thread runtime needs nothing from the machine").block_on(future)
}

//! `tidegate validate` and `tidegate plan`.

use super::{PlanFormat, read, refuse};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use tidegate::file::{FileHost, Mistake, PipelineFile};
use tidegate::{Prepared, compute::Plugins, prepare};

pub(super) fn validate(path: &Path) -> u8 {
    match planned(path) {
        Ok((file, _)) => {
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

fn planned(path: &Path) -> Result<(Arc<PipelineFile>, Prepared), Vec<Mistake>> {
    let file = read(path)?;
    let plugins = plugins_of(&file)?;
    let host = FileHost::new(Arc::clone(&file), file.host_settings(), plugins, Arc::new(AtomicBool::new(false)), Box::new(|_| {}));
    let prepared = block_on(prepare(&host, file.name())).map_err(|problems| file.locate(problems))?;
    Ok((file, prepared))
}

/// The plugins of a file, with compiled code cached for this user.
pub(super) fn plugins_of(file: &PipelineFile) -> Result<Plugins, Vec<Mistake>> {
    let settings = file.host_settings();
    Plugins::read(&settings.plugins, &settings.base_dir, super::run::host_config()).map_err(|problems| file.locate(problems))
}

pub(super) fn block_on<T>(future: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build();
    runtime.expect("a current-thread runtime needs nothing from the machine").block_on(future)
}

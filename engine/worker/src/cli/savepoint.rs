//! `tidegate savepoint`.

use super::place;
use serde_json::json;
use tidegate_api::{Clock, Epoch, RunId, SystemClock};

pub(super) fn run(state: &str, dest: &str, epoch: Option<u64>) -> u8 {
    let from = match place::existing(state) {
        Ok(from) => from,
        Err(code) => return code,
    };
    let to = match place::fresh(dest) {
        Ok(to) => to,
        Err(code) => return code,
    };
    match tidegate_epochs::savepoint(from.as_ref(), to.as_ref(), epoch.map(Epoch), &tidegate::new_run_id(), SystemClock.wall()) {
        Ok(made) => {
            let RunId(run) = &made.run_id;
            println!("{}", json!({ "epoch": made.epoch.0, "run": run, "objects": made.objects, "bytes": made.bytes, "at": dest }));
            eprintln!("copied epoch {} to `{dest}`; a pipeline whose `stateDir` or `stateUrl` that is starts from it", made.epoch);
            0
        }
        Err(error) => super::failed(&error),
    }
}

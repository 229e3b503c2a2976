//! Every query on our own generator, which makes only the columns a query asks for.

use super::chart::Series;
use super::measure::{Runs, measure};
use super::query::Query;
use super::report::Report;
use anyhow::{Context, Result};
use std::path::Path;

const TASKS: [u32; 2] = [1, 2];

/// Measures the queries, printing each as it is done.
///
/// # Errors
/// When a query fails.
pub(super) fn run(binary: &Path, queries: &[Query], runs: Runs) -> Result<Report> {
    let mut report = Report::new(
        &["query", "1 task: M events/s", "per CPU second", "MiB", "2 tasks: M events/s", "per CPU second", "MiB"],
        "Nexmark: millions of events per CPU second",
        TASKS.map(|tasks| Series::new(if tasks == 1 { "1 task" } else { "2 tasks" })).into(),
    );
    for query in queries {
        let (mut cells, mut bars) = (vec![query.name.clone()], Vec::new());
        for tasks in TASKS {
            let mut best = None;
            for _ in 0..runs.times {
                let run = measure(binary, &query.generated(runs.events, tasks), runs.events);
                run.with_context(|| format!("query `{}`", query.name))?.keep_best(&mut best);
            }
            let Some(best) = best else { continue };
            cells.extend([format!("{:.2}", best.rate()), format!("{:.2}", best.cpu_rate()), format!("{:.0}", best.peak_mib())]);
            bars.push(best.cpu_rate());
        }
        report.add(cells, bars);
    }
    Ok(report)
}

//! From stages and datasets to tasks and edges.
//!
//! [`plan`] takes a topology whose datasets are resolved and makes a [`JobGraph`], in six passes, each in a file of its own:
//!
//! 1. `structure`: names, inputs and outputs, order, the steps that can be read;
//! 2. `typing`: types forward, with everything each source has;
//! 3. `time`: the column by which each source tells time;
//! 4. `needs` and `sources`: from the sinks backwards, which columns anybody reads, and what each source is asked for;
//! 5. `stages` and `physical`: every step bound again to what is left, chained into pipes, joined by edges;
//! 6. `guarantee`: what each output promises, and what lowers it.
//!
//! Nothing stops at the first mistake: the passes up to the third judge whatever the earlier ones could make sense of. Behind a
//! mistake the types are guesses (`guess`), and only what no better input would mend is reported, so that one mistake is reported once. Nothing is opened; sources, sinks and
//! plugins are asked to plan only.

mod changelog;
mod explain;
mod guarantee;
mod guess;
mod input;
mod lineage;
mod mermaid;
mod narrow;
mod needs;
mod physical;
mod policy;
mod problems;
mod sinks;
mod sources;
mod stages;
mod structure;
#[cfg(test)]
mod tests;
mod time;
mod typing;

pub use explain::{IdleFilter, RowByRow, SourceSummary};
pub use guarantee::{OutputRole, OutputSummary};
pub use input::{Dataset, DatasetOptions, NativeSteps, PlanInput, PlanSettings, StepParser, TimeOptions};
pub(crate) use physical::{source_id, stage_id};

use physical::Settled;
use policy::Policies;
use problems::Problems;
use stages::Details;
use structure::Structure;
use tidegate_api::config::Problem;
use tidegate_runtime::graph::JobGraph;
use typing::Typing;

/// A plan: the job, and what to tell about it.
pub struct Planned {
    /// What runs.
    pub graph: JobGraph,
    /// Everything that is written, by dataset.
    pub outputs: Vec<OutputSummary>,
    /// Everything that is read, by dataset.
    pub sources: Vec<SourceSummary>,
    /// The parts of expressions that are evaluated row by row, because no kernel gives the same values.
    pub row_by_row: Vec<RowByRow>,
    details: Details,
}

/// Plans a pipeline.
///
/// # Errors
/// Every mistake, each with its path: `stages`, index, and on to the key; or `datasets`, name, and on. None at all when the only
/// ones are those that the caller knows: unresolved datasets, or steps whose parser had nothing to say.
pub fn plan(input: PlanInput<'_>) -> Result<Planned, Vec<Problem>> {
    let mut problems = Problems::default();
    let structure = Structure::new(&input, &mut problems);
    let policies = Policies::new(&input, &structure, &mut problems);
    let typing = Typing::new(&input, &structure, &policies, &mut problems);
    let times = time::resolve(&input, &structure, &typing, &mut problems);
    let sinks = sinks::ask(&input, &structure, &typing, &policies, &mut problems);
    let outputs = guarantee::judge(&input, &structure, &typing, &sinks, &mut problems);
    problems.finish()?;
    if typing.stages.iter().any(Option::is_none) || !sinks::complete(&input, &structure, &typing, &policies, &sinks) {
        // Nothing new to say: what is missing was reported by those who could not resolve or read it.
        return Err(Vec::new());
    }

    let mut problems = Problems::default();
    let asked = sources::ask(&input, &structure, &typing, &policies, &sinks, &times, &mut problems);
    problems.finish()?;

    let mut problems = Problems::default();
    let settled = Settled {
        input: &input,
        structure: &structure,
        typing: &typing,
        policies: &policies,
        sinks: &sinks,
        times: &times,
        sources: &asked,
    };
    let physical = physical::build(&settled, &mut problems);
    problems.finish()?;
    let Some(physical) = physical else {
        return Err(vec![Problem::whole("the plan could not be built, and no pass says why")]);
    };
    let (sources, row_by_row) = (explain::sources(&settled), explain::row_by_row(&settled));
    Ok(Planned { graph: physical.graph, outputs, sources, row_by_row, details: physical.details })
}

//! Transforms that are no component of their own, such as containers: whoever can bind one has it judged as a component's transform is.

use super::{Conformance, DETERMINISTIC, own_rows};
use crate::report::{Earned, Report};
use crate::rules::Suite;
use crate::transform::{BoundStep, TransformWorld};
use arrow::datatypes::SchemaRef;
use tidegate_api::Result;

/// What a report says of a transform beside what was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StepAbout {
    /// Its name.
    pub name: String,
    /// Its version.
    pub version: String,
    /// The digest of what it is made of.
    pub digest: String,
    /// What it is: `container`, say.
    pub kind: String,
}

/// Judges a transform of some input by the rules of transforms; of `[conformance]` it has `rows` and `progress`.
///
/// # Errors
/// When the file of `rows` cannot be read.
pub fn judge_step(
    about: StepAbout,
    input: SchemaRef,
    bind: impl Fn(&SchemaRef) -> Result<BoundStep> + 'static,
    conformance: &Conformance,
) -> Result<Report> {
    let world = TransformWorld::new(SchemaRef::clone(&input), bind).with_rows(own_rows(conformance, &input)?);
    let judgement = crate::transform::judge_telling(&world, conformance.progress);
    let mut report = Report {
        plugin: about.name,
        version: Some(about.version),
        digest: about.digest,
        world: about.kind,
        interface: String::new(),
        claimed: DETERMINISTIC.to_string(),
        earned: if judgement.passed() { Earned::Guarantee(DETERMINISTIC.to_string()) } else { Earned::Nothing },
        rules: Vec::new(),
        convictions: Vec::new(),
    };
    report.enter(&[Suite::Transform], &[judgement]);
    Ok(report)
}

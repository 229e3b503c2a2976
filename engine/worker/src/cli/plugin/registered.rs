//! `tidegate plugin test FOLDER/transform.toml`: the conformance kit over a transform of the registry, container or component.

use serde_json::{Map, Value, json};
use std::path::Path;
use std::sync::Arc;
use tidegate::compute::registry::{Implementation, TransformManifest};
use tidegate::compute::{Plugins, Roots, parse_step};
use tidegate::host::Shape;
use tidegate::steps::{BindCtx, BoundNode, StreamType};
use tidegate_api::{Error, Result};
use tidegate_conformance::plugin::{Conformance, StepAbout, judge_step};
use tidegate_conformance::report::Report;
use tidegate_conformance::transform::BoundStep;

/// The file that a transform of the registry is declared in.
const MANIFEST: &str = "transform.toml";

/// Whether this is a transform of the registry.
pub(super) fn is_registered(file: &Path) -> bool {
    file.file_name().is_some_and(|name| name == MANIFEST)
}

/// Judges it as a step of a pipeline uses it, under this configuration.
///
/// # Errors
/// When it cannot be read, or is no transform that a step can name.
pub(super) fn judge(file: &Path, config: Map<String, Value>, conformance: &Conformance) -> Result<Report> {
    let file = file.canonicalize().map_err(|error| Error::config(format!("`{}` cannot be read: {error}", file.display())))?;
    let manifest =
        TransformManifest::read(&file).map_err(|mistakes| Error::config(format!("`{}`: {}", file.display(), mistakes.join("\n"))))?;
    let root = manifest.folder.parent().map(Path::to_path_buf).unwrap_or_default();
    let settings = tidegate::HostSettings::default().with_transform_roots(Roots::new([root]));
    let plugins = Plugins::read(&settings, super::host_config())?;
    let op = manifest.implementation().op();
    let step = json!({ "op": op, "ref": manifest.to_string(), "config": config });
    let step = parse_step(step.as_object().unwrap_or(&Map::new()), &plugins)?;
    let rowwise = match (manifest.shape, manifest.implementation()) {
        (Some(shape), _) => matches!(shape, Shape::Rowwise | Shape::RowwiseFilter),
        // A container is row by row unless it says otherwise; what a component says is its own matter.
        (None, Implementation::Container) => true,
        (None, Implementation::Wasm) => false,
    };
    let bind = move |input: &arrow::datatypes::SchemaRef| {
        let bound = step.bind(&[StreamType::append(Arc::clone(input))], &BindCtx::new())?;
        match bound.node {
            BoundNode::Step(factory) => {
                Ok(BoundStep { factory, plan: format!("{}, makes {}", bound.details, bound.output.schema), rowwise })
            }
            BoundNode::Operator { .. } => Err(Error::internal("a transform of the registry keeps no state")),
        }
    };
    // Binding notes what a container is made of.
    bind(&manifest.inputs)?;
    let name = manifest.to_string();
    let about = StepAbout {
        digest: plugins.digests().remove(&name).unwrap_or_default(),
        name: manifest.id.clone(),
        version: manifest.version.to_string(),
        kind: format!("{op} transform"),
    };
    judge_step(about, Arc::clone(&manifest.inputs), bind, conformance)
}

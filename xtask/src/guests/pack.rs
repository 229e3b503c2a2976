//! From a core module to a component.

use anyhow::{Context, Result};
use wasi_preview1_component_adapter_provider::{WASI_SNAPSHOT_PREVIEW1_ADAPTER_NAME, WASI_SNAPSHOT_PREVIEW1_REACTOR_ADAPTER};
use wit_component::ComponentEncoder;

/// Packs a core module; what is a component already stays as it is. The adapter is linked only into modules that import WASI preview 1.
pub(super) fn component(bytes: Vec<u8>) -> Result<Vec<u8>> {
    // Bytes 4 to 8 of the preamble hold the version and the layer: 0 a core module, 1 a component.
    if bytes.get(6..8) == Some(&[1, 0]) {
        return Ok(bytes);
    }
    let mut encoder = ComponentEncoder::default();
    encoder.validate(true).module(&bytes).context("it is no module with a component's type")?;
    if imports_preview1(&bytes) {
        encoder.adapter(WASI_SNAPSHOT_PREVIEW1_ADAPTER_NAME, WASI_SNAPSHOT_PREVIEW1_REACTOR_ADAPTER)?;
    }
    encoder.encode().context("it cannot be packed")
}

fn imports_preview1(module: &[u8]) -> bool {
    let name = WASI_SNAPSHOT_PREVIEW1_ADAPTER_NAME.as_bytes();
    module.windows(name.len()).any(|window| window == name)
}

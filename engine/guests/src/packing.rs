//! From a core module to a component.

use crate::{Error, Result};
use wasi_preview1_component_adapter_provider::{WASI_SNAPSHOT_PREVIEW1_ADAPTER_NAME, WASI_SNAPSHOT_PREVIEW1_REACTOR_ADAPTER};
use wit_component::ComponentEncoder;

/// Packs a core module; what is a component already stays as it is. The adapter is linked only into modules that import WASI preview 1.
///
/// # Errors
/// `Build` for what is no module, or one that does not say which component it wants to be.
pub fn pack(bytes: Vec<u8>) -> Result<Vec<u8>> {
    // Bytes 4 to 8 of the preamble hold the version and the layer: 0 a core module, 1 a component.
    if bytes.get(6..8) == Some(&[1, 0]) {
        return Ok(bytes);
    }
    let failed = |what: &'static str| move |error| Error::Build(format!("{what}: {error:#}"));
    let mut encoder = ComponentEncoder::default();
    encoder.validate(true);
    encoder.module(&bytes).map_err(failed("it is no module with a component's type; does it export a plugin?"))?;
    if imports_preview1(&bytes) {
        let adapted = encoder.adapter(WASI_SNAPSHOT_PREVIEW1_ADAPTER_NAME, WASI_SNAPSHOT_PREVIEW1_REACTOR_ADAPTER);
        adapted.map_err(failed("its WASI preview 1 cannot be adapted"))?;
    }
    encoder.encode().map_err(failed("it cannot be packed"))
}

fn imports_preview1(module: &[u8]) -> bool {
    let name = WASI_SNAPSHOT_PREVIEW1_ADAPTER_NAME.as_bytes();
    module.windows(name.len()).any(|window| window == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_component_stays_as_it_is_and_what_is_no_plugin_is_refused() {
        let component = b"\0asm\x0d\0\x01\0".to_vec();
        assert_eq!(pack(component.clone()), Ok(component));
        assert!(pack(b"no module".to_vec()).is_err());
    }
}

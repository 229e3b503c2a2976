//! The border's types and calls, generated from `wit/`.
//!
//! Transforms are called synchronously, sources and sinks with a future. What the worlds share exists once.
#![allow(unsafe_code, missing_docs, unreachable_pub, clippy::all, reason = "generated code")]

pub(crate) mod transform {
    wasmtime::component::bindgen!({ path: "../../wit", world: "transform-plugin" });
}

pub(crate) mod columns {
    wasmtime::component::bindgen!({
        path: "../../wit",
        world: "transform-columns-plugin",
        with: {
            "tidegate:plugin/types": crate::bindings::transform::tidegate::plugin::types,
            "tidegate:plugin/log": crate::bindings::transform::tidegate::plugin::log,
            "tidegate:plugin/metrics": crate::bindings::transform::tidegate::plugin::metrics,
            "tidegate:plugin/control": crate::bindings::transform::tidegate::plugin::control,
        },
    });
}

pub(crate) mod source {
    wasmtime::component::bindgen!({
        path: "../../wit",
        world: "source-plugin",
        exports: { default: async },
        with: {
            "tidegate:plugin/types": crate::bindings::transform::tidegate::plugin::types,
            "tidegate:plugin/log": crate::bindings::transform::tidegate::plugin::log,
            "tidegate:plugin/metrics": crate::bindings::transform::tidegate::plugin::metrics,
            "tidegate:plugin/control": crate::bindings::transform::tidegate::plugin::control,
        },
    });
}

pub(crate) mod sink {
    wasmtime::component::bindgen!({
        path: "../../wit",
        world: "sink-plugin",
        exports: { default: async },
        with: {
            "tidegate:plugin/types": crate::bindings::transform::tidegate::plugin::types,
            "tidegate:plugin/log": crate::bindings::transform::tidegate::plugin::log,
            "tidegate:plugin/metrics": crate::bindings::transform::tidegate::plugin::metrics,
            "tidegate:plugin/control": crate::bindings::transform::tidegate::plugin::control,
            "tidegate:plugin/secrets": crate::bindings::source::tidegate::plugin::secrets,
        },
    });
}

pub(crate) use source::tidegate::plugin::secrets;
pub(crate) use transform::tidegate::plugin::{control, log, metrics, types};

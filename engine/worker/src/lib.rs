//! Tidegate, a streaming dataflow engine whose connectors and transforms are WebAssembly components.

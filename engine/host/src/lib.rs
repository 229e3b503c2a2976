//! The plugin host: loads, limits and calls WebAssembly components and adapts them to the engine's traits.

//! Epochs: the pure life-cycle machine, manifest, recovery and the stores that hold them.

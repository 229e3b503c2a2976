//! Whole starts against a store that fails and a sink that others can see: a coordinator of one screen, and what must be true
//! whatever dies. The runtime's coordinator is tested by the simulator; this one shows that the pieces of this crate suffice.

mod crash;
mod damage;
mod race;
mod savepoint;
mod world;

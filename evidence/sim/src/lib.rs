//! The runtime in a simulated world.

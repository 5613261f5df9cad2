//! The runtime in a simulated world.
//!
//! One run is one seed. The real managers, with everything that is in them, run on one thread over tokio's
//! paused clock, and everything else is simulated: servers, networks, clocks, and the order in
//! which tasks get to run. Nothing in a run depends on anything but the seed, so a run that has found
//! something can be had again, event by event.
//!
//! ```text
//! plan      what a seed makes of a run         world     time, servers, weather, what was seen
//! run       from the seed to the verdict       host      a process        server   the rules of a store
//! nemesis   what happens to all of them        link      the network      task     what users do
//! unsteady  when a task is polled              belief    who believes what, for the judge
//! ```

mod belief;
mod dice;
mod flaw;
mod host;
mod link;
mod many;
mod nemesis;
mod plan;
mod run;
mod server;
mod task;
#[cfg(test)]
mod tests;
mod unsteady;
mod verdict;
mod world;

pub use flaw::Flaw;
pub use many::run_many;
pub use run::run;
pub use verdict::{Counts, Finding, Report};

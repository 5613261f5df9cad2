//! The checks of `dlock doctor`, which the page shows too.
//!
//! A [`Judge`] has the checks of one store, and [`findings`] applies them to [`Facts`]: the reports of the servers and a summary
//! of the locks. A store without checks of its own has those of [`AnyStore`]. The functions of this module are parts of which
//! the judge of a store is made.

mod clocks;
mod ensemble;
mod facts;
mod finding;
mod judge;
mod latency;
mod locks;
mod permissions;
#[cfg(test)]
mod tests;
mod text;

pub use self::{
    clocks::clocks,
    ensemble::{EnsembleMember, ensemble},
    facts::{Facts, LockFacts},
    finding::{Finding, Known, Severity, Topic},
    judge::{AnyStore, Judge, findings},
    latency::latency,
    locks::{LockRules, locks},
    permissions::{permissions, permissions_on},
};
#[cfg(feature = "redis")]
pub(crate) use self::{
    clocks::{NOTABLE_US, against_ours, among_servers, micros, shown},
    ensemble::{host, hosts},
    latency::of_requests,
    text::counted,
};

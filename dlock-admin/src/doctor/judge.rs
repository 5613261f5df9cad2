//! The trait by which a store brings checks of its own.

use super::{
    clocks::clocks,
    facts::Facts,
    finding::{Finding, Topic},
    latency::latency,
    locks::{LockRules, locks},
    permissions::permissions,
};
use crate::model::ServerReport;

/// The checks of a store, in the words of that store. [`Inspect::judge`](crate::Inspect::judge) returns them.
///
/// ```
/// use dlock::admin::{
///     ServerReport,
///     doctor::{Facts, Finding, Judge, Topic, latency},
/// };
///
/// /// The checks of a store that keeps its locks in memory.
/// struct Volatile;
///
/// impl Judge for Volatile {
///     fn server(&self, facts: &Facts, server: &ServerReport) -> Vec<Finding> {
///         let risk = Finding::risk(Topic::Persistence, "a restart loses all leases");
///         let mut findings = vec![risk.advice("compare fencing tokens")];
///         findings.extend(latency(facts, server));
///         findings
///     }
/// }
/// # let _ = Volatile;
/// ```
pub trait Judge: Send + Sync {
    /// Returns how the servers work together, such as `quorum`. The default is for a store with one server.
    fn layout(&self) -> Option<&'static str> {
        None
    }

    /// Returns `true` if as many servers answer as locks need. The default needs one of them.
    fn is_available(&self, facts: &Facts) -> bool {
        facts.servers.iter().any(|server| !server.is_silent())
    }

    /// Returns the findings about all servers together, and about the locks. The default compares clocks and counts locks.
    fn together(&self, facts: &Facts) -> Vec<Finding> {
        let mut findings = clocks(facts);
        findings.extend(locks(facts, LockRules::default()));
        findings
    }

    /// Returns the findings about one server, which has answered. The default checks permissions and round trips.
    fn server(&self, facts: &Facts, server: &ServerReport) -> Vec<Finding> {
        let mut findings = permissions(server);
        findings.extend(latency(facts, server));
        findings
    }
}

/// The checks that hold for every store.
///
/// ```
/// use dlock::admin::{ServerReport, doctor::{AnyStore, Facts, findings}};
///
/// let mut facts = Facts::unknown();
/// facts.servers.push(ServerReport::new("ram://localhost"));
/// let findings = findings(&AnyStore, &facts);
/// assert_eq!(findings[0].what, "the locks could not be read: no server could be read");
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct AnyStore;

impl Judge for AnyStore {}

/// Returns the findings about all servers together, and then those of each server in order.
pub fn findings(judge: &dyn Judge, facts: &Facts) -> Vec<Finding> {
    let mut findings = judge.together(facts);
    for server in &facts.servers {
        let of_server = match &server.failure {
            Some(failure) => vec![Finding::broken(Topic::Connection, failure.to_string())],
            None => judge.server(facts, server),
        };
        findings.extend(of_server.into_iter().map(|it| it.at(&server.server)));
    }
    findings
}

//! Checks the members of an ensemble together: their number, their majority, and whether they are one ensemble.

use std::collections::{BTreeMap, BTreeSet};

use url::{Host, Url};

use super::{
    facts::Facts,
    finding::{Finding, Topic},
    text::counted,
};
use crate::model::ServerReport;

/// A member of an ensemble, as its report describes it.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct EnsembleMember<'a> {
    /// The address in the URL.
    pub server: &'a str,
    /// `true` if the member could be inspected.
    pub answers: bool,
    /// `true` if it is among a majority; `None` if that is unknown.
    pub has_leader: Option<bool>,
    /// The id of the member.
    pub id: Option<&'a str>,
    /// The id of the ensemble.
    pub ensemble: Option<&'a str>,
    /// The ids of all members that vote, separated by commas.
    pub members: Option<&'a str>,
    is_silent: bool,
}

impl<'a> EnsembleMember<'a> {
    /// Returns the member of a report, of which nothing else is known yet.
    #[must_use]
    pub fn of(report: &'a ServerReport) -> Self {
        Self {
            server: &report.server,
            answers: report.answers(),
            has_leader: None,
            id: None,
            ensemble: None,
            members: None,
            is_silent: report.is_silent(),
        }
    }

    /// Returns `true` if it is among a majority, as far as it is known. One that refuses the login counts.
    #[must_use]
    pub fn may_decide(&self) -> bool {
        !self.is_silent && self.has_leader != Some(false)
    }
}

/// Judges the members together, each of which is described by one report of `facts`.
///
/// ```
/// use dlock::admin::{ServerReport, doctor::{Facts, EnsembleMember, ensemble}};
///
/// let mut facts = Facts::unknown();
/// facts.servers = ["a", "b"].map(ServerReport::new).into();
/// let members: Vec<_> = facts.servers.iter().map(EnsembleMember::of).collect();
/// let findings = ensemble(&facts, &members);
/// assert!(findings.iter().any(|it| it.advice.as_deref() == Some("use an odd number of members")));
/// ```
#[must_use]
pub fn ensemble(facts: &Facts, members: &[EnsembleMember<'_>]) -> Vec<Finding> {
    let known = members.iter().find_map(|it| it.members);
    let known: Option<BTreeSet<_>> = known.map(|it| it.split(',').collect());
    let all = known.as_ref().map_or(members.len(), BTreeSet::len);
    let mut findings = vec![number(all), majority(members, all)];
    findings.extend(one_ensemble(members));
    findings.extend(twice(members));
    if let Some(known) = &known {
        findings.extend(unnamed(members, known));
    }
    findings.extend(hosts(facts, Topic::Quorum));
    findings
}

fn number(all: usize) -> Finding {
    let what = counted(all, "member");
    if all == 1 {
        return Finding::note(Topic::Quorum, what)
            .why("locks are `Unavailable` while it is down")
            .advice("use three or five members on separate machines");
    }
    if !all.is_multiple_of(2) {
        return Finding::ok(Topic::Quorum, what);
    }
    Finding::note(Topic::Quorum, what)
        .why(format!(
            "it tolerates no more failures than {}",
            counted(all - 1, "member")
        ))
        .advice("use an odd number of members")
}

fn majority(members: &[EnsembleMember<'_>], all: usize) -> Finding {
    let named = members.len();
    let up: Vec<_> = members.iter().filter(|it| it.answers).collect();
    let what = format!(
        "{} of {} in the URL answer",
        up.len(),
        counted(named, "member")
    );
    if !up.is_empty() && !up.iter().any(|it| it.has_leader == Some(true)) {
        return Finding::broken(Topic::Quorum, format!("{what}, and none has a leader"))
            .why("leases cannot be acquired or renewed without a majority: locks are `Unavailable`")
            .advice("start the other members");
    }
    if up.len() == named {
        return Finding::ok(Topic::Quorum, what);
    }
    let left = up.len().saturating_sub(all / 2 + 1);
    Finding::risk(Topic::Quorum, what)
        .why(match left {
            0 => "if one more member fails, locks are `Unavailable`".to_owned(),
            _ => format!("if more than {left} further members fail, locks are `Unavailable`"),
        })
        .advice("start the other members")
}

/// Checks that all addresses belong to one ensemble.
fn one_ensemble(members: &[EnsembleMember<'_>]) -> Option<Finding> {
    let ensembles: BTreeSet<_> = members.iter().filter_map(|it| it.ensemble).collect();
    let what = format!(
        "the URL names members of {}",
        counted(ensembles.len(), "ensemble")
    );
    (ensembles.len() > 1).then(|| {
        Finding::broken(Topic::Quorum, what)
            .why("each has locks of its own, so two clients can hold the same key")
            .advice("name the members of one ensemble")
    })
}

/// Finds addresses that lead to the same member.
fn twice(members: &[EnsembleMember<'_>]) -> Option<Finding> {
    let mut places: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for member in members {
        if let Some(id) = member.id {
            places.entry(id).or_default().push(member.server);
        }
    }
    let twice = places.into_values().find(|places| places.len() > 1)?;
    let what = format!("{} are one member", twice.join(" and "));
    Some(
        Finding::note(Topic::Quorum, what)
            .why("behind a proxy that spreads the requests of one connection over several members, leases cannot be renewed")
            .advice("name each member once, by its own address"),
    )
}

/// Finds members that a client cannot go to because the URL does not name them.
fn unnamed(members: &[EnsembleMember<'_>], known: &BTreeSet<&str>) -> Option<Finding> {
    if !members.iter().all(|it| it.answers) {
        // Which of them are silent is not known.
        return None;
    }
    let named: BTreeSet<_> = members.iter().filter_map(|it| it.id).collect();
    let missing = known.difference(&named).count();
    let what = format!("the URL does not name {}", counted(missing, "member"));
    (missing > 0).then(|| {
        Finding::note(Topic::Quorum, what)
            .why("a client cannot go to these members when the others fail")
            .advice("name all members in the URL")
    })
}

/// Checks that the servers run on separate machines.
pub(crate) fn hosts(facts: &Facts, topic: Topic) -> Vec<Finding> {
    let hosts: Vec<_> = facts.servers.iter().map(|it| host(&it.server)).collect();
    let different: BTreeSet<_> = hosts.iter().collect();
    if hosts.len() < 2 || different.len() == hosts.len() {
        return Vec::new();
    }
    let what = format!(
        "{} on {}",
        counted(hosts.len(), "server"),
        counted(different.len(), "host")
    );
    vec![
        Finding::risk(topic, what)
            .why("servers on one machine fail together, and the remaining ones may be too few")
            .advice("run each server on a separate machine"),
    ]
}

/// The host in the URL of a server; empty for a socket.
pub(crate) fn host(server: &str) -> String {
    let url = Url::parse(server).ok();
    match url.as_ref().and_then(Url::host) {
        Some(Host::Ipv6(address)) => address.to_string(),
        Some(host) => host.to_string(),
        None => String::new(),
    }
}

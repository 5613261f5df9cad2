//! Checks the members of an ensemble together: their number, their majority, and whether they are one ensemble.

use std::collections::{BTreeMap, BTreeSet};

use super::{
    super::{
        facts::{Arrangement, Facts, ServerFacts},
        finding::{Finding, Topic},
    },
    layout,
};
use crate::admin::doctor::text::counted;

pub(super) fn judge(facts: &Facts) -> Vec<Finding> {
    if facts.layout != Arrangement::Ensemble {
        return Vec::new();
    }
    let known = facts.servers.iter().find_map(|it| it.told("members"));
    let members: Option<BTreeSet<_>> = known.map(|it| it.split(',').collect());
    let mut findings = Vec::new();
    let all = members.as_ref().map_or(facts.servers.len(), BTreeSet::len);
    findings.push(number(all));
    findings.push(majority(facts, all));
    findings.extend(one_ensemble(facts));
    findings.extend(twice(facts));
    if let Some(members) = &members {
        findings.extend(unnamed(facts, members));
    }
    findings.extend(layout::hosts(facts, Topic::Quorum));
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

fn majority(facts: &Facts, all: usize) -> Finding {
    let named = facts.servers.len();
    let up: Vec<_> = facts.servers.iter().filter(|it| it.answers()).collect();
    let what = format!(
        "{} of {} in the URL answer",
        up.len(),
        counted(named, "member")
    );
    if !up.is_empty() && !up.iter().any(|it| it.is("has_leader", "true")) {
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
fn one_ensemble(facts: &Facts) -> Option<Finding> {
    let clusters: BTreeSet<_> = facts
        .servers
        .iter()
        .filter_map(|it| it.told("cluster_id"))
        .collect();
    let what = format!(
        "the URL names members of {}",
        counted(clusters.len(), "ensemble")
    );
    (clusters.len() > 1).then(|| {
        Finding::broken(Topic::Quorum, what)
            .why("each has locks of its own, so two clients can hold the same key")
            .advice("name the members of one ensemble")
    })
}

/// Finds addresses that lead to the same member.
fn twice(facts: &Facts) -> Option<Finding> {
    let mut places: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for server in &facts.servers {
        if let Some(id) = server.told("member_id") {
            places.entry(id).or_default().push(&server.server);
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
fn unnamed(facts: &Facts, members: &BTreeSet<&str>) -> Option<Finding> {
    if !facts.servers.iter().all(ServerFacts::answers) {
        // Which of them are silent is not known.
        return None;
    }
    let named: BTreeSet<_> = facts
        .servers
        .iter()
        .filter_map(|it| it.told("member_id"))
        .collect();
    let missing = members.difference(&named).count();
    let what = format!("the URL does not name {}", counted(missing, "member"));
    (missing > 0).then(|| {
        Finding::note(Topic::Quorum, what)
            .why("a client cannot go to these members when the others fail")
            .advice("name all members in the URL")
    })
}

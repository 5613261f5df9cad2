//! Judges if a server can be used at all: its answer, its version, its role, the user's
//! permissions.

use super::super::{
    facts::{Facts, Layout, Missing, ServerFacts},
    finding::{Finding, Topic},
};

pub(super) fn unreachable(failure: &str) -> Finding {
    Finding::broken(Topic::Connection, failure)
}

pub(super) fn version(server: &ServerFacts) -> Finding {
    const OLDEST: (u32, u32) = (6, 2);
    if let Some(version) = server.told("valkey_version") {
        return Finding::ok(Topic::Version, format!("Valkey {version}"));
    }
    let Some(version) = server.told("redis_version") else {
        return Finding::unknown(Topic::Version, "`INFO` names no version");
    };
    let mut parts = version.split('.').map(str::parse);
    let (Some(Ok(major)), Some(Ok(minor))) = (parts.next(), parts.next()) else {
        return Finding::unknown(
            Topic::Version,
            format!("`{version}` is no version of Redis"),
        );
    };
    if (major, minor) < OLDEST {
        return Finding::broken(Topic::Version, format!("Redis {version} is too old"))
            .why("the scripts of dlock need commands that came with Redis 6.2")
            .advice("use Redis 6.2 or later, or Valkey");
    }
    Finding::ok(Topic::Version, format!("Redis {version}"))
}

pub(super) fn role(facts: &Facts, server: &ServerFacts) -> Vec<Finding> {
    let mut findings = Vec::new();
    if server.is("loading", "1") {
        findings.push(
            Finding::broken(Topic::Role, "it is still loading its data")
                .why("until then it answers no lock, and calls fail as `Unavailable`")
                .advice("wait for it; a smaller data set loads faster"),
        );
    }
    findings.push(standing(facts.layout, server));
    findings
}

fn standing(layout: Layout, server: &ServerFacts) -> Finding {
    let in_cluster = server.is("cluster_enabled", "1");
    if server.is("redis_mode", "sentinel") {
        return Finding::broken(Topic::Role, "it is a Sentinel, which keeps no locks")
            .advice("name the service: `redis-sentinel://host/service`");
    }
    match (server.told("role"), layout) {
        (Some("slave"), Layout::Single | Layout::Quorum) => {
            Finding::broken(Topic::Role, "it is a replica, which takes no locks")
                .why("locks are written, and replicas refuse to be written to")
                .advice(
                    "name the master, or let Sentinels find it: `redis-sentinel://host/service`",
                )
        }
        (Some("slave"), _) => Finding::ok(Topic::Role, "replica"),
        (Some("master"), Layout::Cluster) if !in_cluster => {
            Finding::broken(Topic::Role, "it is no node of a cluster")
                .advice("use `redis://` for a server that stands alone")
        }
        (Some("master"), Layout::Single | Layout::Quorum) if in_cluster => {
            Finding::broken(Topic::Role, "it is a node of a cluster")
                .why("it has some of the slots only, and sends away who asks for other locks")
                .advice("use `redis-cluster://` with some of its nodes")
        }
        (Some("master"), _) => Finding::ok(Topic::Role, "master"),
        (Some(other), _) => Finding::unknown(Topic::Role, format!("`INFO` says `{other}`")),
        (None, _) => Finding::unknown(Topic::Role, "`INFO` names no role"),
    }
}

pub(super) fn rights(facts: &Facts, server: &ServerFacts) -> Vec<Finding> {
    let (required, useful): (Vec<_>, Vec<_>) = server.denied.iter().partition(|it| it.is_required);
    let lacking = |missing: &[&Missing], finding: fn(Topic, String) -> Finding, what: &str| {
        let rules: Vec<_> = missing.iter().map(|it| it.rule.as_str()).collect();
        let rules = rules.join(" ");
        (!missing.is_empty()).then(|| {
            finding(Topic::Rights, format!("{what} {rules}"))
                .why(purposes(missing))
                .advice(format!("ACL SETUSER {} {rules}", facts.user))
        })
    };
    let mut findings = Vec::new();
    let required = lacking(&required, Finding::broken, "the user cannot lock without");
    findings.extend(required.map(|it| {
        let purposes = it.why.clone().unwrap_or_default();
        let only_looks = "; one who looks and takes no locks needs none of it: --accept rights";
        it.why(purposes + only_looks)
    }));
    findings.extend(lacking(&useful, Finding::note, "the user lacks"));
    if findings.is_empty() {
        findings.push(Finding::ok(Topic::Rights, "all that locks need"));
    }
    findings
}

fn purposes(missing: &[&Missing]) -> String {
    let mut purposes: Vec<(&str, String)> = Vec::new();
    for right in missing {
        match purposes
            .iter_mut()
            .find(|(purpose, _)| *purpose == right.purpose)
        {
            Some((_, rules)) => *rules = format!("{rules} {}", right.rule),
            None => purposes.push((&right.purpose, right.rule.clone())),
        }
    }
    let purposes = purposes.into_iter();
    let purposes: Vec<_> = purposes
        .map(|(purpose, rules)| format!("{rules}: {purpose}"))
        .collect();
    purposes.join("; ")
}

//! Checks whether a server can be used at all: connection, version, role, and the permissions of the user.

use super::{Layout, RedisJudge};
use crate::{
    doctor::{Finding, Topic},
    model::{Denied, ServerReport},
};

pub(super) fn version(server: &ServerReport) -> Finding {
    const OLDEST: (u32, u32) = (6, 2);
    if let Some(version) = server.field("valkey_version") {
        return Finding::ok(Topic::Version, format!("Valkey {version}"));
    }
    let Some(version) = server.field("redis_version") else {
        return Finding::unknown(Topic::Version, "`INFO` contains no version");
    };
    let mut parts = version.split('.').map(str::parse);
    let (Some(Ok(major)), Some(Ok(minor))) = (parts.next(), parts.next()) else {
        return Finding::unknown(
            Topic::Version,
            format!("cannot read the Redis version `{version}`"),
        );
    };
    if (major, minor) < OLDEST {
        return Finding::broken(Topic::Version, format!("Redis {version} is too old"))
            .why("the scripts of dlock need commands of Redis 6.2")
            .advice("use Redis 6.2 or later, or Valkey");
    }
    Finding::ok(Topic::Version, format!("Redis {version}"))
}

pub(super) fn role(layout: Layout, server: &ServerReport) -> Vec<Finding> {
    let mut findings = Vec::new();
    if server.is("loading", "1") {
        findings.push(
            Finding::broken(Topic::Role, "the server is still loading its data")
                .why("the server refuses all lock requests until then: calls fail as `Unavailable`")
                .advice("wait; a smaller data set loads faster"),
        );
    }
    findings.push(standing(layout, server));
    findings
}

fn standing(layout: Layout, server: &ServerReport) -> Finding {
    let in_cluster = server.is("cluster_enabled", "1");
    if server.is("redis_mode", "sentinel") {
        return Finding::broken(Topic::Role, "this is a Sentinel, which cannot store locks")
            .advice("use a Sentinel URL with the service: `redis-sentinel://host/service`");
    }
    match (server.field("role"), layout) {
        (Some("slave"), Layout::Single | Layout::Quorum) => {
            Finding::broken(Topic::Role, "this is a replica, which accepts no locks")
                .why("every lock is a write, and replicas refuse writes")
                .advice(
                    "use the address of the master, or let Sentinels find it: \
                     `redis-sentinel://host/service`",
                )
        }
        (Some("slave"), _) => Finding::ok(Topic::Role, "replica"),
        (Some("master"), Layout::Cluster) if !in_cluster => {
            Finding::broken(Topic::Role, "this server is not a node of a cluster")
                .advice("use `redis://` for a single server")
        }
        (Some("master"), Layout::Single | Layout::Quorum) if in_cluster => {
            Finding::broken(Topic::Role, "this server is a node of a cluster")
                .why("it serves only some of the slots, and redirects requests for all other locks")
                .advice("use `redis-cluster://` with some nodes of the cluster")
        }
        (Some("master"), _) => Finding::ok(Topic::Role, "master"),
        (Some(other), _) => Finding::unknown(
            Topic::Role,
            format!("`INFO` contains the unknown role `{other}`"),
        ),
        (None, _) => Finding::unknown(Topic::Role, "`INFO` contains no role"),
    }
}

pub(super) fn permissions(judge: &RedisJudge, server: &ServerReport) -> Vec<Finding> {
    let (required, useful): (Vec<_>, Vec<_>) = server.denied.iter().partition(|it| it.is_required);
    let lacking = |missing: &[&Denied], finding: fn(Topic, String) -> Finding, what: &str| {
        let rules: Vec<_> = missing.iter().map(|it| it.rule.as_str()).collect();
        let rules = rules.join(" ");
        (!missing.is_empty()).then(|| {
            finding(Topic::Permissions, format!("{what} {rules}"))
                .why(purposes(missing))
                .advice(format!("ACL SETUSER {} {rules}", judge.user))
        })
    };
    let mut findings = Vec::new();
    let required = lacking(
        &required,
        Finding::broken,
        "the user cannot lock without these permissions:",
    );
    findings.extend(required.map(|it| {
        let purposes = it.why.clone().unwrap_or_default();
        let only_inspects = ". Users that only inspect locks do not need lock permissions: suppress this with --accept permissions";
        it.why(purposes + only_inspects)
    }));
    findings.extend(lacking(
        &useful,
        Finding::note,
        "the user lacks these permissions:",
    ));
    if findings.is_empty() {
        findings.push(Finding::ok(
            Topic::Permissions,
            "the user has all permissions that locks need",
        ));
    }
    if judge.is_open {
        findings.push(
            Finding::note(Topic::Permissions, "the server asks for no password")
                .why("each client that reaches the server can read, change and delete every lock")
                .advice("give the server a password, or let no other machine than those of your services reach it"),
        );
    }
    findings
}

fn purposes(missing: &[&Denied]) -> String {
    let mut purposes: Vec<(&str, String)> = Vec::new();
    for permission in missing {
        match purposes
            .iter_mut()
            .find(|(purpose, _)| *purpose == permission.purpose)
        {
            Some((_, rules)) => *rules = format!("{rules} {}", permission.rule),
            None => purposes.push((&permission.purpose, permission.rule.clone())),
        }
    }
    let purposes = purposes.into_iter();
    let purposes: Vec<_> = purposes
        .map(|(purpose, rules)| format!("{rules}: {purpose}"))
        .collect();
    purposes.join("; ")
}

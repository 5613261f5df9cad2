//! Turns facts into findings. It sends no requests.

mod basics;
mod clocks;
mod ensemble;
mod etcd;
mod latency;
mod layout;
mod load;
mod locks;
mod memory;
mod persistence;
mod postgres;
mod postgres_load;
mod replicas;
#[cfg(test)]
mod tests;
mod zookeeper;

use super::{
    facts::{Facts, ServerFacts},
    finding::{Finding, Topic},
};

/// Returns the findings about all servers together, and then those of each server in order.
pub fn judge(facts: &Facts) -> Vec<Finding> {
    let mut findings = layout::judge(facts);
    findings.extend(ensemble::judge(facts));
    findings.extend(clocks::judge(facts));
    findings.extend(locks::judge(facts));
    for server in &facts.servers {
        let of_server = judge_server(facts, server);
        findings.extend(of_server.into_iter().map(|it| it.of(&server.server)));
    }
    findings
}

fn judge_server(facts: &Facts, server: &ServerFacts) -> Vec<Finding> {
    if let Some(failure) = &server.failure {
        return vec![basics::unreachable(failure)];
    }
    if server.is_etcd() {
        return etcd::judge(facts, server);
    }
    if server.is_zookeeper() {
        return zookeeper::judge(facts, server);
    }
    if server.is_postgres() {
        return postgres::judge(facts, server);
    }
    let mut findings = basics::permissions(facts, server);
    findings.extend(latency::judge(facts, server));
    findings.extend(latency::of_messages(server));
    if server.info.is_empty() {
        findings.push(without_info(facts));
        return findings;
    }
    findings.push(basics::version(server));
    findings.extend(basics::role(facts, server));
    findings.extend(memory::judge(server));
    findings.extend(persistence::judge(facts, server));
    findings.extend(replicas::judge(facts, server));
    findings.extend(load::judge(facts, server));
    findings
}

fn without_info(facts: &Facts) -> Finding {
    let what =
        "version, role, eviction, memory, persistence, replicas and load could not be checked";
    Finding::unknown(Topic::Permissions, what)
        .why("the user lacks the permission to run `INFO`")
        .advice(format!("ACL SETUSER {} +info", facts.user))
}

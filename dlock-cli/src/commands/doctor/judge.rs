//! Facts become findings. No request is sent from here.

mod basics;
mod clocks;
mod latency;
mod layout;
mod load;
mod locks;
mod memory;
mod persistence;
mod replicas;
#[cfg(test)]
mod tests;

use super::{
    facts::{Facts, ServerFacts},
    finding::{Finding, Topic},
};

/// The findings about all servers together, and then about each in order.
pub(crate) fn judge(facts: &Facts) -> Vec<Finding> {
    let mut findings = layout::judge(facts);
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
    let mut findings = basics::rights(facts, server);
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
    let what = "version, role, eviction, memory, persistence, replicas and load could not be asked";
    Finding::unknown(Topic::Rights, what)
        .why("the user may not run `INFO`; nothing is claimed about them")
        .advice(format!("ACL SETUSER {} +info", facts.user))
}

//! Compares the clocks of masters, and those of the replicas that can replace them.

use super::{Layout, RedisJudge, replicas};
use crate::{
    doctor::{Facts, Finding, NOTABLE_US, Topic, against_ours, among_servers, micros, shown},
    model::ServerReport,
};

pub(super) fn judge(judge: &RedisJudge, facts: &Facts) -> Vec<Finding> {
    let why = if judge.layout == Layout::Quorum {
        "leases do not depend on this difference, but after a loss of data the fencing tokens of a quorum \
         depend on the clocks of the clients"
    } else {
        "leases do not depend on this difference. One of the two clocks is wrong; if the server's clock is \
         corrected in one step, leases end early or late"
    };
    let of_server = |server: &ServerReport| match server.clock {
        Some(clock) => against_ours(clock, why),
        None => Finding::unknown(Topic::Clock, "the clock could not be read")
            .advice(format!("ACL SETUSER {} +time", judge.user)),
    };
    let answering = facts.servers.iter().filter(|it| it.answers());
    let mut findings: Vec<_> = answering
        .map(|server| of_server(server).at(&server.server))
        .collect();
    findings.extend(among_servers(facts));
    for server in &facts.servers {
        let of_server = of_replicas(judge, facts, server).into_iter();
        findings.extend(of_server.map(|it| it.at(&server.server)));
    }
    findings
}

/// Compares the clocks of replicas that can replace a master with the clock of the master.
fn of_replicas(judge: &RedisJudge, facts: &Facts, server: &ServerReport) -> Vec<Finding> {
    const WHY: &str =
        "if the new master's clock is ahead, leases end early after a failover, by the same time";
    let Some(ours) = server.clock else {
        // The clock of the server has a finding of its own.
        return Vec::new();
    };
    let mut findings = Vec::new();
    let mut together = Vec::new();
    for replica in &server.replicas {
        let address = replica.address.as_str();
        let clock = match &replica.clock {
            Ok(clock) => *clock,
            Err(error) => {
                let what = format!("the clock of replica {address} could not be read: {error}");
                let finding = Finding::unknown(Topic::Clock, what).why(WHY);
                findings.push(finding.advice(COMPARE));
                continue;
            }
        };
        let ahead = clock.ahead_us.saturating_sub(ours.ahead_us);
        let certain = ahead.saturating_abs() - micros(clock) - micros(ours);
        let apart = shown(ahead.saturating_abs());
        if certain > 0 && ahead > 0 && certain > drift(facts) {
            let what = format!("the clock of replica {address} is {apart} ahead");
            findings.push(ends_early(facts, what));
        } else if certain > NOTABLE_US {
            let what = format!("the clock of replica {address} is {apart} behind");
            findings.push(
                Finding::note(Topic::Clock, what)
                    .why("after a failover, locks of crashed holders stay longer by this time, and fencing tokens may be smaller than earlier ones")
                    .advice(TOGETHER),
            );
        } else {
            together.push(address);
        }
    }
    let follows = matches!(judge.layout, Layout::Sentinel | Layout::Cluster);
    if follows && replicas::listed(server).count() > server.replicas.len() {
        let what = "the clocks of some replicas could not be read";
        findings.push(
            Finding::unknown(Topic::Clock, what)
                .why(WHY)
                .advice(COMPARE),
        );
    }
    if !together.is_empty() {
        let what = format!("the clocks of its replicas agree: {}", together.join(", "));
        findings.push(Finding::ok(Topic::Clock, what));
    }
    findings
}

/// The drift that a holder subtracts from its TTL: a hundredth of the TTL plus 2 ms.
fn drift(facts: &Facts) -> i64 {
    i64::try_from(facts.ttl.as_micros() / 100).unwrap_or(i64::MAX) + 2_000
}

/// The remedy for a clock that could not be read.
const COMPARE: &str =
    "compare the answers to `TIME` on both servers by hand, then --accept unknown";

const TOGETHER: &str = "synchronize the servers' clocks with NTP, to a few milliseconds";

fn ends_early(facts: &Facts, what: String) -> Finding {
    let why = format!(
        "after a failover to this replica, leases end early by this time, which is more than the drift of {} \
         for a TTL of {:?}: a second client can acquire the lock before the first holder's next renewal",
        shown(drift(facts)),
        facts.ttl,
    );
    Finding::risk(Topic::Clock, what).why(why).advice(TOGETHER)
}

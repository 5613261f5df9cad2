//! The checks of servers of Redis. They send no requests.

mod basics;
mod clocks;
mod latency;
mod layout;
mod load;
mod memory;
mod persistence;
mod replicas;
#[cfg(test)]
mod tests;

use dlock_runtime::{
    ConnectError,
    admin::{Deployment, Layout},
    store::redis::RedisConfig,
};

use crate::{
    doctor::{Facts, Finding, Judge, LockRules, Topic, locks},
    model::ServerReport,
};

/// Judges servers of Redis or Valkey by their reports and by the configuration.
///
/// ```
/// use dlock::{admin::{RedisJudge, doctor::Judge}, store::redis::RedisConfig};
///
/// let judge = RedisJudge::of(&RedisConfig::new("redlock://one,two,three"))?;
/// assert_eq!(judge.layout(), Some("quorum"));
/// # Ok::<(), dlock::ConnectError>(())
/// ```
#[derive(Clone, Debug)]
pub struct RedisJudge {
    layout: Layout,
    min_replicas: u32,
    /// The number of servers in the URL, which are the Sentinels of a Sentinel URL.
    sentinels: usize,
    /// `true` if the configuration has no login: a server that answers asks for none.
    is_open: bool,
    /// `true` if the URL has the login.
    names_user: bool,
    user: String,
    raw_keys: bool,
}

impl RedisJudge {
    /// Reads what the checks need of the configuration. It opens no connection.
    ///
    /// # Errors
    ///
    /// [`ConnectError`] when the URL or an option is invalid, or a certificate file cannot be read.
    pub fn of(config: &RedisConfig) -> Result<Self, ConnectError> {
        let deployment = Deployment::of(config)?;
        // A client certificate can be the login.
        let has_login = config.credentials.is_some() || config.url.contains("cert=");
        Ok(Self {
            layout: deployment.layout,
            min_replicas: deployment.min_replicas,
            sentinels: deployment.servers,
            is_open: deployment.user.is_none() && !has_login,
            names_user: deployment.user.is_some(),
            user: deployment.user.unwrap_or_else(|| "default".to_owned()),
            raw_keys: config.raw_keys,
        })
    }

    /// Names the user in remedies, unless the URL does. If not set, it is `default`.
    #[must_use]
    pub fn user(self, user: impl Into<String>) -> Self {
        if self.names_user {
            return self;
        }
        let user = user.into();
        Self { user, ..self }
    }
}

impl Judge for RedisJudge {
    fn layout(&self) -> Option<&'static str> {
        match self.layout {
            Layout::Sentinel => Some("Sentinel"),
            Layout::Cluster => Some("cluster"),
            Layout::Quorum => Some("quorum"),
            _ => None,
        }
    }

    fn is_available(&self, facts: &Facts) -> bool {
        let all = facts.servers.len();
        let silent = facts.servers.iter().filter(|it| it.is_silent()).count();
        match self.layout {
            Layout::Quorum => all - silent > all / 2,
            _ => silent < all,
        }
    }

    fn together(&self, facts: &Facts) -> Vec<Finding> {
        let lacks_scan = |server: &ServerReport| server.denied.iter().any(|it| it.rule == "+scan");
        let rules = LockRules {
            are_hidden: facts.servers.iter().any(lacks_scan),
            has_others: self.raw_keys,
        };
        let mut findings = layout::judge(self, facts);
        findings.extend(clocks::judge(self, facts));
        findings.extend(locks(facts, rules));
        findings
    }

    fn server(&self, facts: &Facts, server: &ServerReport) -> Vec<Finding> {
        let mut findings = basics::permissions(self, server);
        findings.extend(latency::judge(self, facts, server));
        findings.extend(latency::of_messages(server));
        if server.info.is_empty() {
            findings.push(without_info(self));
            return findings;
        }
        findings.push(basics::version(server));
        findings.extend(basics::role(self.layout, server));
        findings.extend(memory::judge(server));
        findings.extend(persistence::judge(self.layout, facts, server));
        findings.extend(replicas::judge(self, server));
        findings.extend(load::judge(facts, server));
        findings
    }
}

/// Returns `true` if the server accepts writes of locks.
fn is_master(server: &ServerReport) -> bool {
    !server.is("role", "slave")
}

fn without_info(judge: &RedisJudge) -> Finding {
    let what =
        "version, role, eviction, memory, persistence, replicas and load could not be checked";
    Finding::unknown(Topic::Permissions, what)
        .why("the user lacks the permission to run `INFO`")
        .advice(format!("ACL SETUSER {} +info", judge.user))
}

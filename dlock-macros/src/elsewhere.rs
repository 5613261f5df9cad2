//! Maps option names of other libraries to the options of this one.
//!
//! The names come from `ShedLock`, Redisson, Spring Integration, lock4j, node-redlock, redis-semaphore,
//! redis-py, python-redis-lock and pottery. None of them is an alias, because their meanings differ between
//! libraries. The help text gives the meaning of the option here.

/// The option that a name of another library means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Elsewhere {
    /// In lower case and without `_`, because `lockAtMostFor` and `lock_at_most_for` are one name.
    names: &'static [&'static str],
    means: Means,
    /// The option to write, with its syntax.
    pub(crate) help: &'static str,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Means {
    /// The key. A message about a missing key would be the second message for the same mistake.
    Key,
    Another,
}

impl Elsewhere {
    pub(crate) fn is_key(&self) -> bool {
        self.means == Means::Key
    }
}

/// Returns the option here that `name` means.
pub(crate) fn find(name: &str) -> Option<Elsewhere> {
    let name = name.replace('_', "").to_lowercase();
    let mut known = NAMES.iter();
    known
        .find(|known| known.names.contains(&name.as_str()))
        .copied()
}

const fn key(names: &'static [&'static str], help: &'static str) -> Elsewhere {
    let means = Means::Key;
    Elsewhere { names, means, help }
}

const fn other(names: &'static [&'static str], help: &'static str) -> Elsewhere {
    let means = Means::Another;
    Elsewhere { names, means, help }
}

const NAMES: &[Elsewhere] = &[
    key(
        &["name"],
        "the lock is `key = \"order:<id>\"`; its label in metrics is `metric = \"settle-order\"`",
    ),
    key(
        &[
            "resource",
            "lock",
            "lockname",
            "lockkey",
            "lockregistrykey",
            "template",
        ],
        "the lock is `key = \"order:<id>\"`",
    ),
    key(
        &["keys", "resources", "locknames", "lockkeys"],
        "several keys are a list: `key = [\"account:<from>\", \"account:<to>\"]`",
    ),
    key(
        &["spel", "expression", "keyexpression"],
        "values of the call are placeholders in the key: `key = \"order:<order.id>\"`",
    ),
    other(
        &["prefix", "keyprefix", "lockprefix", "namespace"],
        "a prefix is part of the key: `key = \"order:<id>\"`; one for all keys is the manager's `namespace`",
    ),
    other(
        &[
            "expire",
            "expires",
            "expiry",
            "expiration",
            "expirein",
            "expireafter",
            "expiretime",
            "leasetime",
            "leasetimeout",
            "leaseduration",
            "lifetime",
            "timetolive",
            "autoreleasetime",
            "ex",
            "px",
        ],
        "the length of the lease is `ttl = \"30s\"`",
    ),
    other(
        &["lockatmostfor", "defaultlockatmostfor"],
        "the time that others wait after a crash is `ttl = \"30s\"`, which is renewed; the limit for a body that runs too long is `max_hold = \"14m\"`",
    ),
    other(
        &["lockatleastfor", "defaultlockatleastfor"],
        "the minimum time of a lock is `min_hold = \"10s\"`",
    ),
    other(
        &[
            "acquiretimeout",
            "acquisitiontimeout",
            "blockingtimeout",
            "waittime",
            "waittimeout",
            "maxwait",
        ],
        "the time to wait is `wait = \"5s\"`",
    ),
    // The name here, followed by the name there.
    other(
        &["timeout", "locktimeout", "duration"],
        "the time to wait is `wait = \"5s\"`, the length of the lease is `ttl = \"30s\"`",
    ),
    other(
        &["timeunit", "unit"],
        "the unit is part of the duration: `ttl = \"30s\"`, `wait = \"500ms\"`",
    ),
    other(
        &[
            "retry",
            "retries",
            "retrycount",
            "retrydelay",
            "retryinterval",
            "retryjitter",
            "maxretries",
            "attempts",
            "backoff",
            "sleep",
        ],
        "waiters are woken and need no retry: the time to wait is `wait = \"5s\"`; to try once, write `wait = never`",
    ),
    other(
        &["blocking", "block", "nonblocking", "trylock", "nowait"],
        "to try once, write `wait = never`; to wait, write `wait = \"5s\"`",
    ),
    other(
        &[
            "autoextend",
            "autorenew",
            "autorenewal",
            "automaticextensionthreshold",
            "extend",
            "heartbeat",
            "keepalive",
            "lockwatchdogtimeout",
            "refreshinterval",
            "renewal",
            "watchdog",
        ],
        "leases are renewed automatically; `renew = false` turns it off",
    ),
    other(
        &["autorelease", "autounlock", "release"],
        "the lock is released after the body; to keep it longer, write `min_hold = \"10s\"`",
    ),
    other(
        &["fair", "fairlock", "fairness"],
        "waiters are always served in order of arrival: remove it",
    ),
    other(
        &["reentrant"],
        "a lock is not reentrant: name its lease with `lease = lease` and pass it on",
    ),
    other(
        &[
            "skip",
            "skipiflocked",
            "skipifbusy",
            "skiplocked",
            "skipwhenbusy",
        ],
        "to do nothing while another holder has the lock is `on_busy = skip`",
    ),
    other(
        &[
            "failstrategy",
            "lockfailurestrategy",
            "fallback",
            "fallbackmethod",
            "onfail",
            "onfailure",
        ],
        "the value while another holder has the lock is `on_busy = Ok(None)`, that of every failure `on_error = |error| Err(error.into())`",
    ),
    other(
        &["condition", "disabled", "onlyif", "unless", "when"],
        "to run without a lock at times is `enabled = config.locks`",
    ),
    other(
        &[
            "executor",
            "client",
            "connection",
            "redis",
            "redisson",
            "lockprovider",
        ],
        "the locks to use are `manager = self.locks`, or those of `dlock::install`",
    ),
    other(
        &["token", "fencingtoken", "fencing"],
        "the body sees the token by `lease = lease` and `lease.fencing_token()`",
    ),
    other(
        &["label", "metricname", "metricsname", "metriclabel", "tag"],
        "the label in metrics is `metric = \"settle-order\"`",
    ),
];

#[cfg(test)]
mod tests {
    use super::*;

    fn help(name: &str) -> &'static str {
        find(name).unwrap_or_else(|| panic!("{name}")).help
    }

    #[test]
    fn a_name_leads_to_the_option_in_either_spelling() {
        for (names, option) in [
            (&["lockAtMostFor", "lock_at_most_for"][..], "`ttl = "),
            (&["lockAtLeastFor", "lock_at_least_for"], "`min_hold = "),
            (&["leaseTime", "lease_time", "lease_timeout"], "`ttl = "),
            (&["waitTime", "wait_time", "acquireTimeout"], "`wait = "),
            (&["timeout", "lockTimeout"], "`wait = "),
            (&["expire", "px"], "`ttl = "),
            (&["watchdog", "autoRenew"], "`renew = false`"),
            (&["autoRelease", "auto_release"], "`min_hold = "),
            (&["retry", "retries", "retryCount"], "`wait = never`"),
            (&["prefix", "namespace"], "`key = "),
            (&["keys"], "`key = [\"account:"),
            (&["spel"], "`key = \"order:<order.id>\"`"),
            (&["condition"], "`enabled = "),
            (&["skip_if_locked"], "`on_busy = skip`"),
            (&["name", "label", "metric_name"], "`metric = "),
        ] {
            for name in names {
                assert!(help(name).contains(option), "{name}: {}", help(name));
            }
        }
        assert!(help("fair").contains("order of arrival"));
        assert_eq!(find("colour"), None);
    }

    #[test]
    fn what_is_locked_counts_as_the_key() {
        for name in ["name", "keys", "lockKey", "spel"] {
            assert!(find(name).is_some_and(|it| it.is_key()), "{name}");
        }
        for name in ["prefix", "timeout", "label"] {
            assert!(!find(name).is_some_and(|it| it.is_key()), "{name}");
        }
    }

    #[test]
    fn no_name_is_listed_twice_or_cannot_be_found() {
        let mut names: Vec<_> = NAMES.iter().flat_map(|it| it.names).collect();
        let count = names.len();
        assert!(names.iter().all(|name| find(name).is_some()));
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), count);
    }
}
